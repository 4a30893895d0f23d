"""harness stop, drain, reload, wake: ask a running shift for something, and hit nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here

if TYPE_CHECKING:
    from watcher.record.requests import Verb

F = TypeVar("F", bound=Callable[..., int])


def _of_a_project(function: F) -> F:
    return click.argument("project")(config_option(function))


@click.command("stop")
@_of_a_project
def stop(project: str, config_file: Path | None) -> int:
    """End the work on PROJECT now: the agent too. What is due is published, and nothing is lost.

    The next start goes on with the unfinished run. Asking twice changes nothing.

    \b
    Exit: 0 asked, 1 nothing is running, 78 it cannot be asked.
    Example: harness stop ~/project
    """
    from watcher.record.requests import Verb

    said = "it ends the agent, publishes what is due, and the next start goes on from there"
    return _ask(project, config_file, Verb.STOP, said)


@click.command("drain")
@_of_a_project
def drain(project: str, config_file: Path | None) -> int:
    """End the work on PROJECT after the poke that is running; a wait ends at once.

    The next start goes on with the unfinished run. Asking twice changes nothing: the agent is left alone.

    \b
    Exit: 0 asked, 1 nothing is running, 78 it cannot be asked.
    Example: harness drain ~/project
    """
    from watcher.record.requests import Verb

    said = "it lets the agent finish this poke, and the next start goes on from there"
    return _ask(project, config_file, Verb.DRAIN, said)


@click.command("reload")
@_of_a_project
def reload(project: str, config_file: Path | None) -> int:
    """Let the shift on PROJECT read its configuration again, between two pokes.

    A configuration with a mistake is not taken, and the old one stays in force: the log says so.

    \b
    Exit: 0 asked, 1 nothing is running, 78 it cannot be asked.
    Example: harness reload ~/project
    """
    from watcher.record.requests import Verb

    said = f"what came of it is in the log: harness logs {project}"
    return _ask(project, config_file, Verb.RELOAD, said)


@click.command("wake")
@_of_a_project
def wake(project: str, config_file: Path | None) -> int:
    """End the wait the shift on PROJECT is in, say for a usage limit, and poke now.

    While the agent works there is no wait to end, and nothing happens.

    \b
    Exit: 0 asked, 1 nothing is running, 78 it cannot be asked.
    Example: harness wake ~/project
    """
    from watcher.record.requests import Verb

    return _ask(project, config_file, Verb.WAKE, "if it waits, it pokes now")


def _ask(project: str, config_file: Path | None, verb: Verb, said: str) -> int:
    from watcher.look.live import ask
    from watcher.look.place import demand_known, find
    from watcher.look.terminal import complain, looking, say

    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        demand_known(place)
        if place.trouble:
            complain(f"the configuration has a mistake: {place.trouble}")
        pid = ask(place, verb, datetime.now(UTC))
        say(f"asked process {pid} to {verb.value}: {said}")
    return told.exit_code
