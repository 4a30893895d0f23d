"""harness status: what a harness does now, and whether the work is safe."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here
from watcher.decision.endings import Exit


@click.command("status")
@click.argument("project", required=False)
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document (a list without PROJECT).")
def command(project: str | None, config_file: Path | None, as_json: bool) -> int:
    """Say what the harness does on PROJECT now, how far it came, and what the remote holds.

    PROJECT is a directory or a NAME; without it, every project of yours is told in a line.
    It disturbs nothing and asks nobody: the records are read, the remote is not asked. Times are UTC.

    \b
    Exit: 0 told, 78 there is nothing to tell, or something that cannot be read.
    Example: harness status ~/project
    """
    from watcher.look.place import every, find
    from watcher.look.status import status
    from watcher.look.summary import document, row, text
    from watcher.look.terminal import CannotLook, complain, looking, say

    if config_file and project is None:
        raise click.UsageError("--config needs a PROJECT.")
    with looking() as told:
        now = datetime.now(UTC)
        if project is not None:
            place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
            seen = status(place)
            say(_json(document(seen, now)) if as_json else text(seen, now))
            told.exit_code = Exit.CONFIG if seen.problem else 0
        else:
            places, problems = every(os.environ)
            all_seen = [status(place) for place in places]
            if as_json:
                say(_json([document(seen, now) for seen in all_seen]))
            for seen in () if as_json else all_seen:
                say(row(seen, now))
            if any(seen.problem for seen in all_seen):
                told.exit_code = Exit.CONFIG
            for problem in problems:
                told.exit_code = complain(problem, Exit.CONFIG)
            if not places and not as_json:
                raise CannotLook("no project of yours has been worked on yet; see harness watch --help")
    return told.exit_code


def _json(value: object) -> str:
    from watcher.look.lines import escaped
    from watcher.look.terminal import on_terminal
    from watcher.record.documents import dump

    text = dump(value).decode()
    return escaped(text) if on_terminal() else text
