"""harness reopen: how to read a session again, in the program's own interactive form (H 8, layer 4)."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here
from watcher.decision.endings import Exit

if TYPE_CHECKING:
    from watcher.config import Loaded
    from watcher.look.place import Place
    from watcher.record.runs import Run

# Where programs look for their sessions; the rest of the agent's environment may hold secrets.
PLACES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@click.command("reopen")
@click.argument("project")
@click.option("--poke", type=click.IntRange(min=1), help="The session of this poke; else the last one.")
@click.option("--run", "run_id", help="Another run than the latest, by its id or how the id begins.")
@config_option
def command(project: str, poke: int | None, run_id: str | None, config_file: Path | None) -> int:
    """Print the command that opens the agent's session interactively, for reading it through.

    It is run in PROJECT as the agent's user, within its sandbox where it has one. While the run is live
    this is refused: of two writers on one session, one loses its branch of the conversation.

    \b
    Exit: 0 printed, 75 the run is live, 78 there is no such session.
    Example: harness reopen ~/project --poke 14
    """
    from watcher.config import load
    from watcher.look.live import live
    from watcher.look.place import find, run_named, runs, some_run
    from watcher.look.terminal import CannotLook, complain, looking, say
    from watcher.prepare import Refused

    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        known = runs(place)
        if now_live := live(place.home):
            raise CannotLook(
                f"{place.home.project} is being worked on ({now_live.holder}). Of two writers on one session "
                "one loses its branch: wait for the end, or ask for it (harness drain PROJECT)",
                Exit.HELD,
            )
        run = run_named(place, run_id) if run_id else some_run(place, known[-1] if known else None)
        session = session_of(run, poke)
        loaded = load(project, environ=os.environ, overrides={}, config_file=config_file, cwd=here())
        try:
            words = argv(loaded, place, session)
        except Refused as error:
            raise CannotLook(str(error)) from error
        say(f"cd {shlex.quote(str(place.home.project))} && {shlex.join(words)}")
        complain("end it before the harness starts again: of two writers on one session, one is lost")
    return told.exit_code


def session_of(run: Run, poke: int | None) -> str:
    """The session of that poke, or the last that the run had. Raises CannotLook."""
    from watcher.look import history
    from watcher.look.terminal import CannotLook
    from watcher.record.lines import last

    if poke is None:
        found = last(run.history, lambda document: bool(document.get("session_id")))
    else:
        found = history.poke(run, poke)
        if found is None:
            raise CannotLook(f"run {run.name} has no line of a poke {poke}; see harness history")
    session = found.document.get("session_id") if found else None
    if not isinstance(session, str) or not session:
        raise CannotLook(f"{f'poke {poke}' if poke else 'no poke'} of run {run.name} has a session on record")
    if not _SESSION.fullmatch(session):  # the program chose it, and a person is to type it
        raise CannotLook(f"the session's name is not one that should be typed: {session!r}")
    return session


def argv(loaded: Loaded, place: Place, session: str) -> list[str]:
    """The whole command, from becoming the agent's user on. Raises Refused, CannotLook."""
    from watcher.environment import agent_env
    from watcher.look.terminal import CannotLook
    from watcher.prepare.checks import agent_account, agent_command
    from watcher.prepare.confined import confined

    agent = loaded.config.agent
    if agent.profile != "claude":
        raise CannotLook(f"how {agent.profile} opens a session interactively is not known; it is {session}")
    account = agent_account(agent.user)
    env = agent_env(agent, account, os.environ)
    program = agent_command(loaded.config, env, place.home.project)
    inner = confined(loaded, account, place.home, os.environ)
    names = ("HOME", "USER", "LOGNAME", *PLACES) if account else PLACES
    variables = [f"{name}={env[name]}" for name in names if name in env]
    return [
        *(become(account.name) if account else ()),
        *(("env", *variables) if variables else ()),
        *(inner.walls if inner else ()),
        *program,
        *("--resume", session),
        *("--setting-sources", ""),  # what the repository plants is not run in this session either
    ]


def become(user: str) -> tuple[str, ...]:
    import shutil

    return ("sudo", "-u", user, "--") if shutil.which("sudo") else ("runuser", "-u", user, "--")
