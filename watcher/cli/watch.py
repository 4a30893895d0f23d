"""harness watch: the watch shift in the foreground, in tmux, or under systemd."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here, refusals, say


@click.command("watch")
@click.argument("project")
@click.argument("max_turns", required=False, type=click.IntRange(min=1))
@config_option
@click.option("--hours", type=float, help="Stop after so many hours.")
@click.option("--cap-usd", type=float, help="Stop once so many dollars are spent.")
@click.option("--poke-limit", type=int, help="Stop after exactly so many pokes; 0 is no limit.")
def command(
    project: str,
    max_turns: int | None,
    config_file: Path | None,
    hours: float | None,
    cap_usd: float | None,
    poke_limit: int | None,
) -> int:
    """Poke the agent until the task list is done.

    PROJECT is a directory, or the NAME of a configuration. MAX_TURNS is the number of tool rounds in
    one poke (12).

    \b
    Exit: 0 done, 1 unusable agent, 2 stall, 3 a ceiling was reached,
    4 done but not on the remote.
    Example: harness watch ~/project 12
    """
    overrides = {
        "watch.max_turns": max_turns,
        "watch.hours": hours,
        "watch.cap_usd": cap_usd,
        "watch.poke_limit": poke_limit,
    }
    with refusals() as refusal:
        return watch(project, overrides, config_file)
    return refusal.exit_code


def watch(
    project: str,
    overrides: Mapping[str, object],
    config_file: Path | None = None,
    *,
    readable: bool | None = None,
) -> int:
    """Run a watch shift here; `readable` lines instead of JSON where that is not left to the terminal."""
    from watcher.config import load
    from watcher.effect.wait import Clock
    from watcher.prepare import prepared
    from watcher.signals import Inbox

    loaded = load(project, environ=os.environ, overrides=overrides, config_file=config_file, cwd=here())
    for warning in loaded.warnings:
        say(warning)
    inbox = Inbox()
    inbox.listen(terminal=has_terminal())
    with prepared(loaded, clock=Clock(), inbox=inbox, environ=os.environ, readable=readable) as (
        shift,
        state,
    ):
        shift.systemd.ready()
        return shift.work(state)


def has_terminal() -> bool:
    """Whether there is a controlling terminal, whose closing is what HUP then means."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
