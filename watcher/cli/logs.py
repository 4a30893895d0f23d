"""harness logs: the watcher log, one line a step."""

from __future__ import annotations

import os
from pathlib import Path

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here


@click.command("logs")
@click.argument("project")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=50, help="How many lines (50).")
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="debug",
    help="Only lines as grave as this, or graver.",
)
@click.option("--run", "run_id", help="Another run than the latest, by its id or how the id begins.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are.")
@config_option
def command(
    project: str,
    follow: bool,
    lines: int,
    level: str,
    run_id: str | None,
    as_json: bool,
    config_file: Path | None,
) -> int:
    """Print the watcher log of PROJECT's latest run: one line a step, times in UTC.

    With -f it goes on into later runs, or with --run until that one has ended. Ctrl-C ends it (130).

    Example: harness logs ~/project -f --level warning
    """
    from watcher.look import logs
    from watcher.look.live import current_run, live
    from watcher.look.place import find, run_named, runs, some_run
    from watcher.look.terminal import CannotLook, looking

    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        known = runs(place)
        run = some_run(place, current_run(known, live(place.home)))
        run = run_named(place, run_id) if run_id else run
        reader = logs.Reader(path=logs.log_of(run), level=level, as_json=as_json)
        if not follow and not reader.path.exists():
            raise CannotLook(f"run {run.name} has no watcher log: {reader.path} is not there")
        reader.latest(lines)
        if follow:
            logs.follow(place, reader, run, only=bool(run_id))
    return told.exit_code
