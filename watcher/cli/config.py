"""harness config: what is configured, and where each value comes from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from watcher.cli.refusals import refusals


@click.group("config")
def command() -> None:
    """Look at the configuration.

    Example: harness config show ~/project --origin
    """


@command.command("show")
@click.argument("project")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Configuration to use.")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
def show(project: str, config_file: Path | None, origin: bool) -> int:
    """Print every key in force for PROJECT, a directory or a NAME.

    Example: harness config show ~/project --origin
    """
    from watcher.config import load, render_origin

    with refusals() as refusal:
        loaded = load(project, environ=os.environ, overrides={}, config_file=config_file, cwd=Path.cwd())
        for warning in loaded.warnings:
            click.echo(f"harness: {warning}", err=True)
        click.echo(render_origin(loaded, origins=origin))
    return refusal.exit_code


@command.command("defaults")
def defaults() -> int:
    """Print every key with its default, its meaning and where the default comes from.

    Example: harness config defaults
    """
    from watcher.config import defaults_table

    click.echo(defaults_table())
    return 0
