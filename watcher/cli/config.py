"""harness config: what is configured, and where each value comes from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here, say


@click.group("config")
def command() -> None:
    """Look at the configuration.

    Example: harness config show ~/project --origin
    """


@command.command("show")
@click.argument("project")
@config_option
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
def show(project: str, config_file: Path | None, origin: bool) -> int:
    """Print every key in force for PROJECT, a directory or a NAME.

    Example: harness config show ~/project --origin
    """
    from watcher.config import load, render_origin
    from watcher.look.terminal import looking
    from watcher.look.terminal import say as tell

    with looking() as told:
        loaded = load(project, environ=os.environ, overrides={}, config_file=config_file, cwd=here())
        for warning in loaded.warnings:
            say(warning)
        tell(render_origin(loaded, origins=origin))
    return told.exit_code


@command.command("defaults")
def defaults() -> int:
    """Print every key with its default, its meaning and where the default comes from.

    Example: harness config defaults
    """
    from watcher.config import defaults_table
    from watcher.look.terminal import looking, say

    with looking() as told:
        say(defaults_table().removesuffix("\n"))
    return told.exit_code
