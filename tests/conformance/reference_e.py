"""Quoting, paths and the start (H 3, 12.2): words are words, whatever letters they hold."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import watcher.scripted_agent
from tests.conformance.reference_console import PATIENCE_S, PAUSE, Console, console
from tests.conformance.reference_d import AS_ROOT, PUSH, tool
from tests.conformance.reference_drive import Scene, Seen
from tests.conformance.reference_row import (
    BOTH,
    CLAUDE,
    DECIDE,
    DONE,
    FIX,
    KEEP,
    SENTINEL,
    Facts,
    Form,
    Row,
    Verdict,
    commit,
    failed,
    row,
)
from watcher.scripted_agent import launcher

NOBODY = 65534
WORK = (commit(), DONE)
HARD_NAME = '$(touch pwned); it\'s "odd" & `old`'
LONG = f"{'Work on the list. ' * 12_000}\n{SENTINEL}"


def started(id: str, verdict: Verdict, scenario: str, *argv: str, **more: Any) -> Row:
    """The reference's own command line, a commit and the sentinel."""
    facts: dict[str, Any] = {"exit": 0, "sessions": "-R", "waits": [PAUSE], "updates": 1}
    return row(id, verdict, scenario, WORK, drive=console(*argv), **(facts | more))


def refused(id: str, verdict: Verdict, scenario: str, exit: int, *argv: str, **more: Any) -> Row:
    return row(id, verdict, scenario, WORK, exit=exit, drive=console(*argv), **more)


def told(id: str, scenario: str, text: str, **more: Any) -> Row:
    """The standing command arrives letter by letter, as an argument and as a file."""
    return row(
        id,
        FIX,
        scenario,
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        forms=BOTH,
        watch={"standing_command": text},
        also=arrives(text),
        **more,
    )


def arrives(text: str) -> Any:
    def also(seen: Any) -> None:
        assert {call["prompt_sha256"] for call in seen.stage.calls()} == {
            hashlib.sha256(text.encode()).hexdigest()
        }

    return also


def nothing_in_the_name_was_run(seen: Any) -> None:
    assert not list(seen.stage.root.rglob("pwned"))


def the_tool_got_the_path_as_one_word(seen: Any) -> None:
    assert (seen.stage.root / "published-by-tool").read_text() == f"{seen.stage.project}\n"


def asked_for_seven_turns(seen: Any) -> None:
    assert all(call["argv"][call["argv"].index("--max-turns") + 1] == "7" for call in seen.stage.calls())


def the_start_is_explained(words: str) -> Any:
    def also(seen: Any) -> None:
        assert words in seen.refused

    return also


def a_long_command(stage: Any) -> None:
    (stage.root / "standing-command.md").write_text(LONG)


def on_master(stage: Any) -> None:
    stage.git("branch", "-m", "main", "master")


def a_banner_at_login(stage: Any) -> None:
    for name in (".profile", ".bash_profile", ".bashrc"):
        (stage.root / "home" / name).write_text("echo Welcome; echo Welcome >&2\n")


def give(place: Path, user: int) -> None:
    for path in (place, *place.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


PROGRAM = Path(watcher.scripted_agent.__file__)


def reached_by_nobody() -> str:
    """An interpreter for the scripted agent; ours may lie where that user cannot look."""
    for python in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(OSError):
            reads = [python, "-IS", "-c", "import sys; open(sys.argv[1]).close()", str(PROGRAM)]
            if subprocess.run(reads, user=NOBODY, group=NOBODY, extra_groups=[], check=False).returncode == 0:
                return python
    pytest.skip("no interpreter and scripted agent that another user can reach: try a checkout below /srv")


def with_a_talking_stdin(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
    """Standard input is a pipe with text in it, which must neither reach the agent nor be eaten."""
    here = Console(row, form, stage)
    reader, writer = os.pipe()
    os.write(writer, b"rm -rf everything\n")
    code = here.start(stdin=reader).wait(PATIENCE_S)
    os.close(writer)
    assert os.read(reader, 100) == b"rm -rf everything\n"
    os.close(reader)
    assert not [call for call in stage.calls() if "everything" in call["prompt"]]
    return here.facts(code)


def with_a_secret(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
    """root starts, the agent is nobody: its own groups, and nothing of root's environment."""
    home = f"import os, sys\nos.environ['HOME'] = {str(stage.root / 'home')!r}\n"
    program = launcher(reached_by_nobody(), str(stage.tape))
    stage.agent_cli.write_text(program.replace("import os, sys\n", home))
    here = Console(row, form, stage, {"MY_SECRET": "of root", "ANTHROPIC_API_KEY": "of root"})
    theirs = (stage.project, stage.remote, stage.root / "home")
    for place in theirs:
        give(place, NOBODY)
    for path in (stage.root, stage.tape):
        os.chown(path, NOBODY, NOBODY)
    code = here.start().wait(PATIENCE_S)
    for place in theirs:
        give(place, 0)
    for call in stage.calls():
        assert (call["uid"], call["gid"], set(call["groups"]) - {NOBODY}) == (NOBODY, NOBODY, set())
        assert not {"MY_SECRET", "ANTHROPIC_API_KEY", "XDG_CONFIG_HOME"} & set(call["env_names"])
    return here.facts(code)


ROWS: tuple[Row, ...] = (
    started("E01", KEEP, "a path with blanks", "{project}", name="my own project"),
    row(
        "E02",
        FIX,
        "the publication tool is given a path with blanks",
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        name="my own project",
        prepare=tool(PUSH),
        also=the_tool_got_the_path_as_one_word,
        inferred=True,
    ),
    started("E03", FIX, "a path with a quote", "{project}", name="it's mine"),
    row(
        "E04",
        FIX,
        "the publication tool is given a path that is a command",
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        name=HARD_NAME,
        prepare=tool(PUSH),
        also=nothing_in_the_name_was_run,
        inferred=True,
    ),
    told("E05", "one apostrophe in the standing command", f"Don't stop. {SENTINEL}"),
    told("E06", "two apostrophes in the standing command", f"Work on 'docs/tasks.md' only. {SENTINEL}"),
    told(
        "E07",
        "a variable and backticks in the standing command",
        f"In $HOME run `date` and $(id)\\. {SENTINEL}",
    ),
    started("E08", FIX, "a relative path", "{name}"),
    started("E09", KEEP, "a slash at the end of the path", "{project}/"),
    refused(
        "E10",
        DECIDE,
        "no such directory",
        78,
        "{root}/nowhere",
        also=the_start_is_explained("does not exist"),
        inferred=True,
    ),
    refused("E11", KEEP, "no argument", 64, also=the_start_is_explained("PROJECT")),
    row(
        "E12",
        DECIDE,
        "the watcher is already the agent's user: the agent is started directly",
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        agent={"user": pwd.getpwuid(os.geteuid()).pw_name},
        inferred=True,
    ),
    row(
        "E13",
        FIX,
        "the standard input of the watcher is not the agent's",
        WORK,
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        updates=1,
        forms=CLAUDE,
        drive=with_a_talking_stdin,
        inferred=True,
    ),
    row(
        "E14",
        KEEP,
        "the agent is another user, with a clean environment",
        WORK,
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        updates=1,
        drive=with_a_secret,
        agent={"user": "nobody"},
        marks=AS_ROOT,
        inferred=True,
    ),
    row(
        "E16",
        FIX,
        "the branch is called master, and nothing is configured",
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        prepare=on_master,
        publish={"branch": "", "remote": ""},
        inferred=True,
    ),
    row(
        "E17",
        DECIDE,
        "a standing command of 200 kB, by standard input",
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        forms=CLAUDE,
        prepare=a_long_command,
        watch={"standing_command_file": "standing-command.md"},
        also=arrives(LONG),
        inferred=True,
    ),
    row(
        "E17-argument",
        DECIDE,
        "a standing command of 200 kB, as an argument",
        WORK,
        exit=78,
        prepare=a_long_command,
        watch={"standing_command_file": "standing-command.md"},
        also=the_start_is_explained("one argument holds"),
    ),
    row(
        "D24",
        FIX,
        "a banner at the agent's login",
        WORK,
        exit=0,
        sessions="-R",
        updates=1,
        prepare=a_banner_at_login,
        inferred=True,
    ),
    started(
        "E-max-turns",
        KEEP,
        "the second argument is the turn budget",
        "{project}",
        "7",
        also=asked_for_seven_turns,
    ),
    refused("E-bad-turns", FIX, "a turn budget of 0", 64, "{project}", "0"),
    refused("E-no-turns", FIX, "a turn budget in words", 64, "{project}", "many"),
    row(
        "E-reset-margin",
        KEEP,
        "RESET_MARGIN in the environment",
        [failed("You've hit your session limit · resets 3pm"), DONE],
        exit=0,
        sessions="--",
        waits=[7260],
        variables={"RESET_MARGIN": "60"},
    ),
)
