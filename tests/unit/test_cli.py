"""The command line as a whole: every command explains itself, and usage errors never read as an ending."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.conftest import ROOT
from watcher import __version__
from watcher.cli import COMMANDS, harness, run
from watcher.decision.endings import WATCH, Exit

SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
LINES, COLUMNS = 24, 80  # a screen
LONGER: dict[str, int] = {"": 31}  # a line a command


def commands(group: click.Group = harness, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    context = click.Context(group)
    for name in group.list_commands(context):
        words = (*prefix, name)
        yield words
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, words)


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that a line's words name, and the words that are left for it."""
    command: click.Command = harness
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def unknown_in(line: str) -> list[str]:
    """What a command line names that does not exist: the command itself, or options of it."""
    words = shlex.split(line, comments=True)
    command, rest = find(words[1:] if words[0] == "harness" else ["watch", *words[1:]])
    if isinstance(command, click.Group):
        return [word for word in rest[:1] if not word.startswith("-")]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return [word for word in rest if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


def help_of(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run([*words, "--help"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("words", [(), *commands()], ids=" ".join)
def test_help_fits_a_screen_and_gives_an_example_that_can_be_typed(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = help_of(words, capsys)
    assert len(lines) <= LONGER.get(" ".join(words), LINES)
    assert max(map(len, lines)) <= COLUMNS
    text = [line.strip() for line in lines[: lines.index("Options:")] if line.strip()]
    assert text[-1].startswith("Example: ")
    example = text[-1].removeprefix("Example: ").rpartition(" | ")[2]
    assert example.startswith(" ".join(("harness", *words)))
    assert unknown_in(example) == []


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_option_says_what_it_is_for(words: tuple[str, ...]) -> None:
    command, _ = find(list(words))
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help] == []


def test_the_help_of_watch_names_every_exit_code_of_the_shift(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(help_of(("watch",), capsys))
    named = {int(code) for code in re.findall(r"(?:Exit: |, +)(\d+) ", text)}
    assert named == {kind.exit_code for kind in WATCH.values()}


def test_every_command_says_in_a_line_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    lines = help_of((), capsys)
    rows = lines[lines.index("Commands:") + 1 :]
    assert [row.split()[0] for row in rows] == list(COMMANDS)
    assert all(len(row.split()) > 3 for row in rows)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "Commands:"),
        (["wach"], "No such command 'wach'"),
        (["watch"], "Missing argument 'PROJECT'"),
        (["watch", "."], ""),
        (["watch", ".", "0"], "0 is not in the range"),
        (["watch", ".", "abc"], "'abc' is not a valid integer"),
        (["watch", ".", "12", "13"], "unexpected extra argument"),
        (["watch", ".", "--nope"], "No such option"),
        (["watch", ".", "--hours", "many"], "'many' is not a valid float"),
        (["status", "--config", "x"], "--config needs a PROJECT"),
        (["logs", ".", "--level", "loud"], "'loud' is not one of"),
        (["history", ".", "-n", "-1"], "-1 is not in the range"),
        (["history", ".", "--outcome", "fine"], "no outcome is called fine"),
        (["config"], "Commands:"),
        (["config", "hide"], "No such command 'hide'"),
        (["restore", ".", "--to", "x", "--list"], "do not go with it"),
        (["stop", "a", "b"], "unexpected extra argument"),
        (["--nope"], "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_64_and_says_what_is_wrong(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if argv == ["watch", "."]:
        monkeypatch.setenv("STALL_LIMIT", "0")
        words = "environment STALL_LIMIT"
    assert run(argv) == Exit.USAGE == 64
    assert words in capsys.readouterr().err


# --- as a process -------------------------------------------------------------------------------


def started(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environ}
    return subprocess.run(argv, env=env, capture_output=True, text=True, errors="replace", check=False)


def script(name: str) -> list[str]:
    """The installed console script; where it is not installed, what it would do."""
    path = Path(sys.executable).parent / name
    if path.exists():
        return [str(path)]
    module, _, function = SCRIPTS[name].partition(":")
    return [sys.executable, "-c", f"from {module} import {function}; {function}()"]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_console_scripts_are_named_in_their_own_help(name: str) -> None:
    said = started(*script(name), "--help")
    assert said.returncode == 0
    what = {"harness": "COMMAND [ARGS]...", "watcher": "PROJECT [MAX_TURNS]"}[name]
    assert said.stdout.startswith(f"Usage: {name} [OPTIONS] {what}\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("", 64, "Usage: watcher [OPTIONS] PROJECT [MAX_TURNS]"),
        ("{here} 0", 64, "0 is not in the range"),
        ("{here}/gone", 78, "does not exist"),
        ("{here}/gone 12", 78, "does not exist"),
        ("-- {here}/gone 12", 78, "does not exist"),
    ],
)
def test_the_reference_calls_watcher_with_a_project_and_a_number_of_turns(
    words: str, code: int, told: str, tmp_path: Path
) -> None:
    said = started(*script("watcher"), *words.format(here=tmp_path).split())
    assert (said.returncode, told in said.stderr) == (code, True), said.stderr


def test_the_version_is_told() -> None:
    said = started(sys.executable, "-m", "watcher", "--version")
    assert (said.returncode, said.stdout) == (0, f"harness {__version__}\n")


def test_importing_what_the_scripts_call_costs_nothing_yet() -> None:
    """The outermost net must stand before anything can break: even our own imports are inside it."""
    code = "import sys, watcher.main; print(sorted(name for name in sys.modules if 'watcher' in name))"
    said = started(sys.executable, "-c", code)
    assert said.stdout == "['watcher', 'watcher.main']\n"


# --- the outermost net --------------------------------------------------------------------------


def broken(how: str, state: Path, argv: str = "", stream: str = "") -> subprocess.CompletedProcess[str]:
    """A harness with a bug, of a user who is not root and keeps state in `state`."""
    code = f"import os, sys; os.geteuid = lambda: 1000; {how}; from watcher.main import main; main()"
    line = f'exec "$@" {stream}'
    return started(
        *("bash", "-c", line, "bash", sys.executable, "-c", code, argv), XDG_STATE_HOME=str(state), LC_ALL="C"
    )


BUGS = {
    "in a command": "import watcher.cli; watcher.cli.run = lambda *a: 1 / 0",
    "in an import": "sys.modules['watcher.cli'] = None",
    "in memory": "import watcher.cli; watcher.cli.run = lambda *a: bytearray(1 << 60)",
    "in leaving": "import watcher.cli; watcher.cli.run = lambda *a: sys.exit('no number')",
}


@pytest.mark.parametrize("how", BUGS)
def test_a_bug_is_70_and_no_traceback_on_the_screen(how: str, tmp_path: Path) -> None:
    said = broken(BUGS[how], tmp_path, argv="\udcff")
    assert (said.returncode, "Traceback" in said.stderr) == (70, False)


def test_a_bug_is_told_and_its_traceback_kept_where_only_its_user_can_read(tmp_path: Path) -> None:
    said = broken(BUGS["in a command"], tmp_path / "state", argv="\udcff")
    (kept,) = (tmp_path / "state" / "harness" / "crashes").iterdir()
    assert "ZeroDivisionError" in said.stderr
    assert str(kept) in said.stderr
    assert "Traceback" in kept.read_text()
    for place in (kept, kept.parent, kept.parent.parent):
        assert place.stat().st_mode & 0o077 == 0, "with it the next start would be refused"


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_a_bug_stays_70_where_nobody_can_be_told(stream: str, tmp_path: Path) -> None:
    assert broken(BUGS["in a command"], tmp_path / "state", stream=stream).returncode == 70
    (tmp_path / "file").touch()
    assert broken(BUGS["in a command"], tmp_path / "file", stream=stream).returncode == 70


def test_a_relative_place_for_the_state_is_none(tmp_path: Path) -> None:
    env = f"os.environ['XDG_STATE_HOME'] = 'here'; os.environ['HOME'] = {str(tmp_path)!r}"
    said = broken(f"{env}; {BUGS['in a command']}", tmp_path)
    assert f"{tmp_path}/.local/state/harness/crashes/" in said.stderr


def test_an_interrupt_is_130(tmp_path: Path) -> None:
    how = "import signal, watcher.cli; watcher.cli.run = lambda *a: signal.raise_signal(signal.SIGINT)"
    said = broken(how, tmp_path)
    assert (said.returncode, said.stderr) == (130, "")


def test_a_claim_about_command_lines_can_fail() -> None:
    assert unknown_in("harness wach x") == ["wach"]
    assert unknown_in("harness watch ~/p 12 --hours 3 --nope=1 -q") == ["--nope=1", "-q"]
    assert unknown_in("watcher ~/p --json  # --not-me") == ["--json"]
