"""Bad input through the real command line: a message that helps, the right exit code, nothing lost."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import ROOT, Stage, toml
from tests.unit.test_look import watching

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
WORK = {"write": {"a.txt": "a"}, "commit": "Add a", "say": "ALL-TASKS-DONE"}
LIMIT = {"say": "You've hit your limit", "is_error": True, "exit": 1}
USAGE, HELD, CONFIG, UNUSABLE = 64, 75, 78, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one command came to."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """What stderr holds beside the lines of the log."""
        return "\n".join(line for line in self.err.splitlines() if not line.startswith('{"'))

    def demand(self, code: int, words: Sequence[str]) -> None:
        """One message, no traceback, never a bug, and all the words in it."""
        assert "Traceback" not in self.err
        assert self.code == code, self.err
        assert [word for word in words if word not in self.message] == [], self.message
        assert len(self.message.splitlines()) <= (4 if code == USAGE else 2), self.message


def environ(stage: Stage) -> dict[str, str]:
    """Everything the harness is given: no configuration of this machine's users, no home of theirs."""
    own = {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(stage.root / "config")}
    return {**stage.environ(), **own}


def start(
    stage: Stage,
    *argv: object,
    config: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    before: Sequence[str] = (),
    **more: Any,
) -> Said:
    """`harness ARGV...` to its end; `env` None takes a variable away."""
    words = [str(word) for word in argv]
    if config is not None:
        words[1:1] = ["--config", str(config)]
    given = {name: value for name, value in {**environ(stage), **(env or {})}.items() if value is not None}
    usual = {"cwd": stage.root, "stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60}
    result = subprocess.run(
        [*before, sys.executable, "-m", "watcher", *words], env=given, check=False, **(usual | more)
    )
    out, err = (
        (stream or b"").decode("utf-8", "backslashreplace") for stream in (result.stdout, result.stderr)
    )
    return Said(code=result.returncode, out=out, err=err)


# --- what is refused ----------------------------------------------------------------------------


class Row(NamedTuple):
    """A start that must not begin. Words and values may hold {root}, {project}."""

    id: str
    code: int
    words: tuple[str, ...]  # of the message: what happened, what it means or what to do
    argv: tuple[str, ...] = ("watch", "{project}")
    sections: Mapping[str, Mapping[str, Any]] = {}
    env: Mapping[str, str] = {}
    text: str | bytes = ""  # of the configuration, in the place of one that is right
    prepare: Callable[[Stage], object] = lambda _: None


def at(*argv: str) -> dict[str, Any]:
    return {"argv": argv}


def agent(command: str, **more: Any) -> dict[str, Any]:
    return {"sections": {"agent": {"command": [command], **more}}}


def state(**keys: str) -> dict[str, Any]:
    return {"sections": {"state": keys}}


def command_file(path: str, content: bytes | None = None) -> dict[str, Any]:
    def prepare(stage: Stage) -> None:
        if content is not None:
            (stage.root / path).write_bytes(content)

    return {"sections": {"watch": {"standing_command_file": path}}, "prepare": prepare}


def repository(make: Callable[[Path], object]) -> dict[str, Any]:
    """Another directory in the place of the project."""

    def prepare(stage: Stage) -> None:
        (stage.root / "other").mkdir()
        make(stage.root / "other")

    return {"argv": ("watch", "{root}/other"), "prepare": prepare}


def git(*argv: str) -> Callable[[Path], object]:
    return lambda place: subprocess.run(["git", *argv], cwd=place, check=True, capture_output=True)


def _pipe(stage: Stage) -> None:
    os.mkfifo(stage.root / "pipe")


NO_AGENT = ("no poke can start", "agent.command")
NO_COMMAND = ("watch.standing_command_file", "built-in text")
PROJECT = (
    Row(
        "missing project", CONFIG, ("{root}/gone", "does not exist", "Check the path"), **at("watch", "gone/")
    ),
    Row("file as project", CONFIG, ("tape.json", "not a directory"), **at("watch", "{root}/tape.json")),
    Row("no such NAME", CONFIG, ("'shopp'", "no configuration has that name"), **at("watch", "shopp")),
    Row("empty project", USAGE, ("PROJECT must be a path or a NAME",), **at("watch", "")),
    Row("newline in the path", USAGE, ("one line without control",), **at("watch", "{root}/new\nline")),
    Row("no repository", CONFIG, ("not a git repository", "git init"), **repository(lambda _: None)),
    Row(
        "bare repository", CONFIG, ("bare repository", "Clone it"), **repository(git("init", "-q", "--bare"))
    ),
    Row(
        "broken repository",
        CONFIG,
        ("git cannot work in {root}/other",),
        **repository(lambda place: (place / ".git").write_text("gitdir: /nonexistent")),
    ),
)
PROGRAMS = (
    Row(
        "program not found",
        UNUSABLE,
        ("'no-agent' is not on the agent's PATH", *NO_AGENT),
        **agent("no-agent"),
    ),
    Row("program at no path", UNUSABLE, ("'/no/agent'", *NO_AGENT), **agent("/no/agent")),
    Row("program not executable", UNUSABLE, ("is not executable", *NO_AGENT), **agent("{root}/tape.json")),
    Row("program is a directory", UNUSABLE, ("is not executable", *NO_AGENT), **agent("{root}")),
    Row(
        "agent nobody knows", CONFIG, ("agent.user", "Create the user"), **agent("/bin/true", user="no-such")
    ),
    Row(
        "profile to come", CONFIG, ("agent.profile", "known: claude"), **agent("/bin/true", profile="gemini")
    ),
    Row("bad rule", CONFIG, ("[agent]", "'rm -rf'", "Tool(what)"), **agent("/bin/true", allow=["rm -rf"])),
    Row("flag of ours", CONFIG, ("[agent]", "'--resume'"), **agent("/bin/true", args=["--resume"])),
    Row(
        "no instruction file",
        CONFIG,
        ("agent.instruction_file",),
        **agent("/bin/true", instruction_file="X.md"),
    ),
)
STATE = (
    Row("state in the project", CONFIG, ("state.root", "choose another"), **state(root="{project}/state")),
    Row("work in the project", CONFIG, ("state.work_root",), **state(work_root="{project}/.git/x")),
    Row("work in the state", CONFIG, ("state.work_root",), **state(work_root="{root}/state/x")),
    Row("state is a file", CONFIG, ("{root}/tape.json", "Move it away"), **state(root="{root}/tape.json")),
    Row("state below a file", CONFIG, ("no directory", "Move that away"), **state(root="{root}/tape.json/x")),
    Row("state that cannot be made", CONFIG, ("/proc/harness",), **state(root="/proc/harness")),
    Row("state open to others", CONFIG, ("mode 0755", "chmod 0700"), **state(root="{root}/home")),
    Row("relative state", CONFIG, ("state.root", "absolute path"), **state(root="state")),
)
COMMANDS = (
    Row("no standing command", CONFIG, ("gone.md", *NO_COMMAND), **command_file("gone.md")),
    Row("standing command is a directory", CONFIG, NO_COMMAND, **command_file("home")),
    Row("standing command is a device", CONFIG, NO_COMMAND, **command_file("/dev/zero")),
    Row("standing command is a pipe", CONFIG, NO_COMMAND, **{**command_file("pipe"), "prepare": _pipe}),
    Row("blank standing command", CONFIG, ("but blanks", *NO_COMMAND), **command_file("blank.md", b" \n")),
    Row("standing command with NUL", CONFIG, ("NUL", *NO_COMMAND), **command_file("nul.md", b"a\0b")),
    Row("standing command in latin", CONFIG, ("utf-8", *NO_COMMAND), **command_file("old.md", b"gr\xfcn")),
)
FILES = (
    Row("no TOML", CONFIG, ("harness.toml, line 2", "not valid TOML"), text='project = "/x"\n[watch\n'),
    Row(
        "not UTF-8", CONFIG, ("harness.toml, line 1", "save the file as UTF-8"), text=b'project = "gr\xfcn"\n'
    ),
    Row(
        "unknown key",
        CONFIG,
        ("line 2", "watch.stal_limit", "stall_limit?"),
        text="[watch]\nstal_limit = 3\n",
    ),
    Row("unknown section", CONFIG, ("line 1", "watcher", "did you mean watch?"), text="[watcher]\n"),
    Row(
        "wrong type", CONFIG, ("line 2", "watch.stall_limit", "a whole"), text='[watch]\nstall_limit = "3"\n'
    ),
    Row("guard off", CONFIG, ("watch.stall_limit", "mandatory"), text="[watch]\nstall_limit = 0\n"),
    Row("another project's", CONFIG, ("it configures /srv/x",), text='project = "/srv/x"\n'),
    Row(
        "no file",
        CONFIG,
        ("gone.toml", "cannot be read"),
        **at("watch", "--config", "gone.toml", "{project}"),
    ),
    Row("a directory", CONFIG, ("this is a directory",), **at("watch", "--config", "home", "{project}")),
    Row(
        "writable by others",
        CONFIG,
        ("open.toml", "written by other users", "chmod go-w"),
        ("watch", "--config", "open.toml", "{project}"),
        prepare=lambda stage: (
            (stage.root / "open.toml").write_text(""),
            (stage.root / "open.toml").chmod(0o666),
        ),
    ),
)
NUMBERS = (
    Row("STALL_LIMIT=0", USAGE, ("environment STALL_LIMIT", "mandatory"), env={"STALL_LIMIT": "0"}),
    Row("STALL_LIMIT=abc", USAGE, ("environment STALL_LIMIT", "a whole number"), env={"STALL_LIMIT": "abc"}),
    Row("POKE_LIMIT=-1", USAGE, ("environment POKE_LIMIT", "at least 0"), env={"POKE_LIMIT": "-1"}),
    Row("POKE_TIMEOUT=0", USAGE, ("environment POKE_TIMEOUT", "above 0"), env={"POKE_TIMEOUT": "0"}),
    Row("RESET_MARGIN in bytes", USAGE, ("environment RESET_MARGIN",), env={"RESET_MARGIN": "\udcff"}),
    Row("0 turns", USAGE, ("[MAX_TURNS]", "0 is not in the range"), **at("watch", "{project}", "0")),
    Row("turns in words", USAGE, ("[MAX_TURNS]", "'abc'"), **at("watch", "{project}", "abc")),
    Row("turns without end", USAGE, ("watch.max_turns", "at most"), **at("watch", "{project}", "9" * 30)),
    Row("hours without end", USAGE, ("watch.hours", "at most"), **at("watch", "--hours", "inf", "{project}")),
    Row("no hours", USAGE, ("watch.hours",), **at("watch", "--hours", "nan", "{project}")),
    Row(
        "less than no money",
        USAGE,
        ("watch.cap_usd", "at least 0"),
        **at("watch", "--cap-usd=-1", "{project}"),
    ),
)
REFUSED = (*PROJECT, *PROGRAMS, *STATE, *COMMANDS, *FILES, *NUMBERS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """One stage for everything that is refused: it stays as it is."""
    return Stage(root=tmp_path_factory.mktemp("bad-input")).build()


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.id)
def test_a_start_is_refused_with_a_message_and_nothing_happened(row: Row, shared: Stage) -> None:
    shared.record(WORK)
    shutil.rmtree(shared.root / "other", ignore_errors=True)
    row.prepare(shared)
    places = {"{root}": str(shared.root), "{project}": str(shared.project)}
    config = written(shared, row, places)
    argv = [filled(word, places) for word in row.argv]
    if "--config" in argv or not any("{" in word for word in row.argv):
        config = None  # another one is named, or found, or there is none
    before = shared.tip(), shared.remote_tip(), sorted(shared.project.rglob("*"))
    said = start(shared, *argv, config=config, env=row.env)
    said.demand(row.code, [filled(word, places) for word in row.words])
    assert said.out == ""
    assert (shared.tip(), shared.remote_tip(), sorted(shared.project.rglob("*"))) == before
    assert shared.calls() == []


def written(stage: Stage, row: Row, places: Mapping[str, str]) -> Path:
    if row.text:
        path = stage.root / "harness.toml"
        path.write_bytes(row.text if isinstance(row.text, bytes) else row.text.encode())
        path.chmod(0o600)
        return path
    values = {
        name: {key: filled(value, places) for key, value in section.items()}
        for name, section in row.sections.items()
    }
    return stage.config(**values)


def filled(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [filled(item, places) for item in value]
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(name, place)
    return value


def test_a_detached_head_is_refused_unless_the_branch_is_named(stage: Stage) -> None:
    stage.git("checkout", "-q", "--detach")
    stage.record({"say": "ALL-TASKS-DONE"})
    said = start(stage, "watch", stage.project, config=stage.config(publish={"branch": ""}))
    said.demand(CONFIG, ("HEAD is detached", "publish.branch"))
    assert start(stage, "watch", stage.project, config=stage.config()).code == 0


@pytest.mark.parametrize(
    "argv", [["watch", "."], ["status", "."], ["explain"], ["demo", "--in", "x"]], ids=str
)
def test_a_current_directory_that_is_gone_is_named(argv: list[str], shared: Stage) -> None:
    leave = ["sh", "-c", 'mkdir gone && cd gone && rmdir "$PWD" && exec "$@"', "sh"]
    said = start(shared, *argv, before=leave)
    said.demand(CONFIG, ("The current directory is gone", "cd"))


@pytest.mark.parametrize("where", ["a file", "not empty", "below a file"])
def test_the_demo_does_not_touch_what_is_there(where: str, shared: Stage) -> None:
    place = {"a file": "tape.json", "not empty": "home", "below a file": "tape.json/x"}[where]
    shared.record(WORK)
    (shared.root / "home" / "mine").write_text("mine")
    said = start(shared, "demo", "--in", place)
    assert said.code in (USAGE, CONFIG)
    assert "Traceback" not in said.err
    assert place in said.err
    assert (shared.root / "home" / "mine").read_text() == "mine"


# --- what works all the same --------------------------------------------------------------------

NAMES = {
    "shell text": 'my "odd" project; $(touch pwned) `touch pwned` & it\'s mine',
    "an option": "--help",
    "letters": "grün ✓ 项目",
    "bytes": "\udcff\udcfe",
    "long": "x" * 200,
}


@pytest.mark.parametrize("how", NAMES)
def test_a_project_may_be_called_anything(how: str, tmp_path: Path) -> None:
    stage = Stage(root=tmp_path, name=NAMES[how]).build()
    stage.record({**WORK, "say": "working"})
    tell = tmp_path / "tell"
    tell.write_text(f"#!/bin/sh\ncat >>{tmp_path}/told\n")
    tell.chmod(0o755)
    config = stage.config(notify={"command": [str(tell)]}, watch={"poke_limit": 1})
    said = start(stage, "watch", "--", stage.project, config=config)
    said.demand(3, ())
    assert stage.remote_tip() == stage.tip() != ""
    assert '"subject":"ceiling"' in (tmp_path / "told").read_text()
    look = start(stage, "status", "--", NAMES[how], config=config)
    assert (look.code, look.message) == (0, "")
    assert "ceiling" in look.out
    assert not list(tmp_path.rglob("pwned"))


ENVIRONMENTS: dict[str, dict[str, str | None]] = {
    "nothing": {"HOME": None, "USER": None, "XDG_CONFIG_HOME": None, "TZ": None},
    "locale C": {"LC_ALL": "C", "HOME": "relative", "XDG_CONFIG_HOME": "relative"},
    "ASCII": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII output": {"PYTHONIOENCODING": "ascii:strict", "TZ": "Nowhere/Land"},
    "bytes": {"TZ": "\udcff", "USER": "\udcff", "LANG": "\udcff"},
    "empty variables": {"POKE_TIMEOUT": "", "STALL_LIMIT": "", "POKE_LIMIT": "", "RESET_MARGIN": ""},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_odd_environment_does_no_harm(name: str, stage: Stage) -> None:
    stage.record({**WORK, "commit": "grün ✓", "say": "grün ✓\nALL-TASKS-DONE"})
    config = stage.config()
    said = start(stage, "watch", stage.project, config=config, env=ENVIRONMENTS[name])
    assert (said.code, said.message) == (0, "")
    assert stage.remote_tip() == stage.tip()
    said = start(stage, "history", "--poke", "1", stage.project, config=config, env=ENVIRONMENTS[name])
    assert (said.code, said.message) == (0, "")


STREAMS = {"no stderr": "2>&-", "none": "<&- >&- 2>&-", "full": ">/dev/full 2>&1"}


@pytest.mark.parametrize("name", STREAMS)
def test_closed_and_full_streams_change_nothing(name: str, stage: Stage) -> None:
    """Python would call the first file it opens 2, and write every message into a record."""
    stage.record(WORK)
    shell = ["sh", "-c", f'exec "$@" {STREAMS[name]}', "sh"]
    said = start(stage, "watch", stage.project, config=stage.config(), before=shell)
    assert said.code == 0
    assert stage.remote_tip() == stage.tip()
    (run,) = stage.state.glob("*/runs/*")
    for file in ("history.jsonl", "watcher.log"):
        assert all(line.startswith('{"') for line in (run / file).read_text().splitlines())
    assert start(stage, "watch", "/nonexistent", before=shell).code == CONFIG


@pytest.mark.parametrize(
    ("stream", "code"), [(">&-", 0), (">/dev/full", CONFIG), ("| true", 0)], ids=["closed", "full", "pipe"]
)
@pytest.mark.parametrize("argv", ["--help", "config show .", "explain"])
def test_what_cannot_be_printed_is_a_sentence_and_no_ending(
    argv: str, stream: str, code: int, shared: Stage
) -> None:
    line = f'{{ sleep 0.1; printf "%s" "limit reached"; }} | "$@" {stream}; exit ${{PIPESTATUS[1]}}'
    said = start(shared, *argv.split(), before=["bash", "-c", line, "bash"])
    said.demand(code, ["the output cannot be written"] if code else [])


def test_a_standing_command_of_200_kb_arrives_letter_by_letter(stage: Stage) -> None:
    text = 'It\'s "yours": $(touch pwned) `touch pwned` $HOME \\ %s ✓\n' * 4000 + "ALL-TASKS-DONE"
    (stage.root / "command.md").write_text(text)
    stage.record(WORK)
    config = stage.config(watch={"standing_command_file": "command.md"})
    assert start(stage, "watch", stage.project, config=config).code == 0
    assert [call["prompt_sha256"] for call in stage.calls()] == [hashlib.sha256(text.encode()).hexdigest()]
    assert not list(stage.root.rglob("pwned"))


SESSIONS = ("$(touch pwned); `touch pwned`", "a\n\0\x1b[31mb", "--settings", "../../x", "A" * 10_000, "")


def test_no_session_id_of_an_agent_is_more_than_words(stage: Stage) -> None:
    acts = [
        {"append": {"a": str(n)}, "commit": f"{n}", "result": {"session_id": id}}
        for n, id in enumerate(SESSIONS)
    ]
    stage.record(*acts, {"say": "ALL-TASKS-DONE"})
    config = stage.config(watch={"pause_s": 0})
    said = start(stage, "watch", stage.project, config=config)
    assert (said.code, said.message) == (0, "")
    for call in stage.calls():
        argv = call["argv"]
        at = next(n for n, word in enumerate(argv) if word in ("--session-id", "--resume"))
        assert re.fullmatch(r"[0-9a-f-]{36}", argv[at + 1])
    assert not list(stage.root.rglob("pwned"))
    for look in ("status", "history", "logs"):
        shown = start(stage, look, stage.project, config=config)
        assert shown.code == 0
        assert all(line.isprintable() for line in shown.out.split("\n"))


def test_an_unborn_branch_is_worked_on_and_published(stage: Stage) -> None:
    for place, bare in ((stage.project, ()), (stage.remote, ("--bare",))):
        shutil.rmtree(place)
        stage.git("init", "-q", "-b", "main", *bare, str(place), cwd=stage.root)
    stage.record(WORK)
    assert start(stage, "watch", stage.project, config=stage.config()).code == 0
    assert stage.remote_tip() == stage.tip() != ""


# --- a second harness ---------------------------------------------------------------------------


def test_a_second_harness_is_refused_however_the_project_is_named(stage: Stage) -> None:
    (stage.root / "link").symlink_to(stage.project)
    named = stage.root / "config" / "harness" / "shop.toml"
    named.parent.mkdir(parents=True)
    elsewhere = {"state": {"root": str(stage.root / "state2"), "work_root": str(stage.root / "work2")}}
    with watching(stage, LIMIT) as first:
        first.until_it_waits()
        config = stage.config()
        named.write_text(toml({"project": str(stage.project)}) + config.read_text())
        named.chmod(0o600)
        who = (str(stage.project), f"process {first.process.pid}", "two agents never work one tree")
        start(stage, "watch", stage.project, config=config).demand(HELD, who)
        start(stage, "watch", stage.root / "link", config=config).demand(HELD, who)
        start(stage, "watch", "shop").demand(HELD, who)
        start(stage, "watch", stage.project, config=stage.config(**elsewhere)).demand(HELD, who)
        assert first.process.poll() is None
    assert len(stage.calls()) == 1


# --- the record ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An unfinished run, stopped in its first poke."""

    stage: Stage

    def copy(self, place: Path) -> tuple[Path, Path]:
        """A configuration and a run of one's own to damage."""
        root = place / "state"
        shutil.copytree(self.stage.state, root, copy_function=shutil.copy)
        root.chmod(0o700)
        config = self.stage.config(state={"root": str(root), "work_root": str(place / "work")})
        (run,) = root.glob("*/runs/*")
        return config.rename(place / "harness.toml"), run


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    stage = Stage(root=tmp_path_factory.mktemp("left")).build()
    with watching(stage, {"hang_before": 600}) as first:
        first.until_the_agent_works()
        first.process.terminate()
        assert first.process.wait(30) == 143
    return Left(stage=stage)


def _directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


DAMAGE: dict[str, tuple[str, Callable[[Path], object], tuple[str, ...]]] = {
    "changed checkpoint": (
        "checkpoint.json",
        lambda p: p.write_bytes(p.read_bytes().replace(b'pokes\\":1', b'pokes\\":7')),
        ("is refused (checksum mismatch)", "kept for you to look at"),
    ),
    "checkpoint is a directory": ("checkpoint.json", _directory, ("cannot read", "directory")),
    "history is a directory": ("history.jsonl", _directory, ("cannot open", "directory")),
    "output is a directory": ("pokes/000002.out", _directory, ("cannot", "directory")),
    "note is a directory": ("flight.json", _directory, ("cannot replace", "directory")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_record_is_named_left_alone_and_mended_by_hand(
    name: str, left: Left, tmp_path: Path
) -> None:
    file, harm, words = DAMAGE[name]
    config, run = left.copy(tmp_path)
    left.stage.record({"say": "ALL-TASKS-DONE"})
    whole = (run / file).read_bytes() if (run / file).is_file() else None
    harm(run / file)
    damaged = (run / file).read_bytes() if (run / file).is_file() else None
    said = start(left.stage, "watch", left.stage.project, config=config)
    said.demand(CONFIG, (str(run / file), *words))
    assert not (run / "ending.json").exists()
    if damaged is not None:
        assert (run / file).read_bytes() == damaged
    else:
        (run / file).rmdir()
    if whole is not None:
        (run / file).write_bytes(whole)
    assert start(left.stage, "watch", left.stage.project, config=config).code == 0
    assert [path.name for path in run.parent.iterdir()] == [run.name], "it was taken for a new run"


def test_what_is_only_a_view_may_be_missing(left: Left, tmp_path: Path) -> None:
    config, run = left.copy(tmp_path)
    left.stage.record({"say": "ALL-TASKS-DONE"})
    _directory(run / "watcher.log")
    (run / "flight.json").unlink()
    assert start(left.stage, "watch", left.stage.project, config=config).code == 0


# --- disks --------------------------------------------------------------------------------------


def on_a_disk(stage: Stage, mount: str, *acts: Mapping[str, Any]) -> Said:
    """A start whose records are on a file system of their own; what is on it is saved to `saved`."""
    stage.record(*acts)
    (stage.root / "disk").mkdir()
    sections = {"state": _roots(stage, "disk"), "watch": {"pause_s": 0}}
    shell = f'cd "$0" && {mount} && "$@"; code=$?; cp -a disk saved; exit $code'
    before = ["unshare", "-m", "sh", "-c", shell, str(stage.root)]
    return start(stage, "watch", stage.project, config=stage.config(**sections), before=before)


def _roots(stage: Stage, place: str) -> dict[str, str]:
    return {"root": str(stage.root / place / "state"), "work_root": str(stage.root / place / "work")}


@pytest.mark.root
@as_root
@pytest.mark.parametrize("kilobytes", [8, 16, 24, 32])
def test_a_full_disk_ends_the_start_and_loses_nothing(kilobytes: int, stage: Stage) -> None:
    acts = [{"append": {"a": str(n)}, "commit": f"{n}"} for n in range(3)]
    mount = f"mount -t tmpfs -o size={kilobytes}k,mode=700 none disk"
    said = on_a_disk(stage, mount, *acts, {"say": "ALL-TASKS-DONE"})
    said.demand(CONFIG, (str(stage.root / "disk"), "the disk is full", "Free some space"))
    worked = len(stage.calls())
    again = start(
        stage, "watch", stage.project, config=stage.config(state=_roots(stage, "saved"), watch={"pause_s": 0})
    )
    assert again.code == 0
    assert stage.remote_tip() == stage.tip()
    assert len(stage.calls()) >= worked
    assert stage.git("log", "--format=%s").split() == ["2", "1", "0", "begin"]


@pytest.mark.root
@as_root
def test_an_agent_that_fills_the_disk_loses_no_work(stage: Stage) -> None:
    said = on_a_disk(stage, "mount -t tmpfs -o size=1m,mode=700 none disk", {**WORK, "flood": 5_000_000})
    said.demand(CONFIG, ("the disk is full",))
    stage.record({"say": "ALL-TASKS-DONE"})
    assert start(stage, "watch", stage.project, config=stage.config(state=_roots(stage, "saved"))).code == 0
    assert stage.remote_tip() == stage.tip()


@pytest.mark.root
@as_root
def test_records_on_a_disk_that_is_read_only_are_named(stage: Stage) -> None:
    mount = "mount -t tmpfs -o mode=700 none disk && mount -o remount,ro disk"
    said = on_a_disk(stage, mount, WORK)
    said.demand(CONFIG, (str(stage.root / "disk"), "read-only", "Make it writable"))
    assert stage.calls() == []


# --- another user -------------------------------------------------------------------------------

NOBODY = 65534
AS_NOBODY = """
import ctypes, importlib, os, pkgutil, sys, tempfile, tomllib, traceback, uuid, structlog, watcher.main
for module in pkgutil.walk_packages(watcher.__path__, "watcher."):  # nobody may not reach where they lie
    if "__main__" not in module.name:
        importlib.import_module(module.name)
for name in ("ascii", "utf-8-sig", "idna"):
    "x".encode(name)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
watcher.main.main()
"""


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A home of nobody's with a repository in it; not in /tmp, where no state may be."""
    with tempfile.TemporaryDirectory(dir="/run") as name:
        place = Path(name)
        place.chmod(0o755)
        for folder in ("home", "closed/project", "project"):
            (place / folder).mkdir(parents=True)
        git("init", "-q", "-b", "main")(place / "project")
        config = place / "home" / "own.toml"
        config.write_text(f'project = "{place}/project"\n[agent]\ncommand = "/bin/true"\n')
        config.chmod(0o600)
        for path in (*(place / "home").rglob("*"), place / "home", *(place / "project").rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        os.chown(place / "project", NOBODY, NOBODY)
        yield place


def as_nobody(place: Path, *argv: object, **env: str) -> Said:
    given = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(place / "home"), **env}
    words = [sys.executable, "-c", AS_NOBODY, *map(str, argv)]
    result = subprocess.run(words, env=given, cwd="/", capture_output=True, text=True, check=False)
    return Said(code=result.returncode, out=result.stdout, err=result.stderr)


def _shut(place: Path) -> None:
    (place / "project").chmod(0)


def _roots_now(place: Path) -> None:
    os.chown(place / "project", 0, 0)


def _writable(place: Path) -> None:
    (place / "home" / "own.toml").chmod(0o666)


def _roots_file(place: Path) -> None:
    os.chown(place / "home" / "own.toml", 0, 0)


OWN = ("watch", "--config", "{place}/home/own.toml", "{place}/project")


class Other(NamedTuple):
    """A start by a user who may do little. Words and values may hold {place}."""

    id: str
    words: tuple[str, ...]
    argv: tuple[str, ...] = OWN
    env: Mapping[str, str] = {}
    prepare: Callable[[Path], object] = lambda _: None


OTHERS = (
    Other("unreachable project", ("permission denied",), ("watch", "{place}/closed/project")),
    Other("unreadable project", ("may not look into it", "ls -ld"), prepare=_shut),
    Other("another user's project", ("dubious ownership", "chown"), prepare=_roots_now),
    Other(
        "state in /tmp", ("/tmp/x/harness lies in /tmp", "XDG_STATE_HOME"), env={"XDG_STATE_HOME": "/tmp/x"}
    ),
    Other("state that may not be made", ("permission denied",), env={"XDG_STATE_HOME": "{place}/closed"}),
    Other("state out of reach", ("permission denied",), env={"XDG_STATE_HOME": "{place}/closed/a/b"}),
    Other("state in the project", ("inside the project",), env={"XDG_STATE_HOME": "{place}/project"}),
    Other("home that may not be made", ("permission denied",), env={"HOME": "/nonexistent"}),
    Other("writable configuration", ("own.toml", "chmod go-w"), prepare=_writable),
    Other("closed configuration", ("own.toml", "Permission denied"), prepare=_roots_file),
    Other("status of an unreachable project", ("closed/project",), ("status", "{place}/closed/project")),
    Other("logs of an unreachable project", ("closed/project",), ("logs", "{place}/closed/project")),
    Other("stop of an unreachable project", ("closed/project",), ("stop", "{place}/closed/project")),
)


@pytest.mark.root
@as_root
@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.id)
def test_what_a_user_may_not_do_is_named(row: Other, open_place: Path) -> None:
    (open_place / "closed").chmod(0o700)
    row.prepare(open_place)
    given = {name: value.format(place=open_place) for name, value in row.env.items()}
    said = as_nobody(open_place, *(word.format(place=open_place) for word in row.argv), **given)
    assert said.code == CONFIG, said.err
    assert "Traceback" not in said.err
    assert [word for word in row.words if word not in said.out + said.message] == []


@pytest.mark.root
@as_root
def test_another_users_harness_holds_the_project_too(open_place: Path) -> None:
    """root's records are out of sight, the lock on the project is not."""
    place = str(open_place / "project")
    hold = f"import fcntl, os, time; fcntl.flock(os.open({place!r}, 0), 2); print(1, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{hold}; time.sleep(600)"], stdout=subprocess.PIPE
    ) as holder:
        try:
            assert holder.stdout
            holder.stdout.readline()
            said = as_nobody(open_place, *(word.format(place=open_place) for word in OWN))
            said.demand(HELD, (f"{open_place}/project is held by process {holder.pid}",))
        finally:
            holder.kill()


@pytest.mark.root
@as_root
@pytest.mark.parametrize(
    ("owner", "mode", "words"),
    [
        (0, 0o700, ("{place}/project", "may nobody enter the project")),
        (0, 0o755, ("dubious ownership", "chown -R")),
    ],
    ids=["closed to it", "not its own"],
)
def test_a_project_the_agents_user_cannot_work_in_is_named(
    owner: int, mode: int, words: tuple[str, ...], open_place: Path
) -> None:
    project = open_place / "project"
    os.chown(project, owner, owner)
    project.chmod(mode)
    config = open_place / "root.toml"
    config.write_text(
        f'project = "{project}"\n[agent]\ncommand = "/bin/true"\nuser = "nobody"\n'
        f'[state]\nroot = "{open_place}/s"\nwork_root = "{open_place}/w"\n'
    )
    config.chmod(0o600)
    said = start(Stage(root=open_place), "watch", project, config=config)
    said.demand(CONFIG, [word.format(place=open_place) for word in words])


@pytest.mark.root
@as_root
def test_a_configuration_of_another_user_is_not_believed(open_place: Path) -> None:
    said = start(
        Stage(root=open_place), "watch", open_place / "project", config=open_place / "home" / "own.toml"
    )
    said.demand(CONFIG, ("own.toml", "belongs to nobody", "must belong to root"))
