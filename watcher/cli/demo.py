"""harness demo: see a run from beginning to end, without an agent, a network or a risk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.refusals import here, refusals
from watcher.log import printable

if TYPE_CHECKING:
    from watcher.demo import Stage


@click.command("demo")
@click.option("--in", "folder", type=click.Path(path_type=Path), help="An empty folder to use.")
def command(folder: Path | None) -> int:
    """Watch the scripted agent work a real repository with a real remote, in under a minute.

    Example: harness demo
    """
    from watcher import demo
    from watcher.cli.watch import watch
    from watcher.effect.git import GitError

    try:
        root = (here() / folder).resolve() if folder else demo.new_root()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)  # a configuration others could change is refused
        if any(root.iterdir()):
            raise click.UsageError(f"{root} is not empty; name an empty folder, or leave --in out.")
        stage = demo.build(root, os.environ)
    except (OSError, ValueError, GitError) as error:  # ValueError: a name that no configuration can hold
        where = printable(str(folder)) if folder else "a temporary folder"
        raise click.ClickException(f"The demo could not be set up in {where}: {error}") from error
    click.echo(f"The demo plays in {root}\n\n{demo.STORY}")
    with refusals() as refusal:
        code = watch(str(stage.project), {}, stage.config, readable=True)
        click.echo(f"\nIt ended with exit code {code}. What the remote holds now:\n")
        click.echo(demo.Git(stage=stage, environ=os.environ)("log", "--oneline", "main", cwd=stage.remote))
        click.echo(where_to_look(stage))
        return code
    return refusal.exit_code


def where_to_look(stage: Stage) -> str:
    runs = sorted(stage.state.glob("*/runs/*"))
    run = runs[-1] if runs else stage.state
    return (
        "Where to look:\n"
        f"  the configuration          {stage.config}\n"
        f"  the watcher log            {run / 'watcher.log'}\n"
        f"  one line a poke            {run / 'history.jsonl'}\n"
        f"  every exchange, complete   {run / 'pokes'}\n"
        f"Throw it away with: rm -r {stage.root}"
    )
