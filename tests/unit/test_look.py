"""Looking: what status, logs and history say of real runs, and that they disturb and believe nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT, Played, Stage, json_lines
from watcher.cli import run as run_command
from watcher.look.history import poke as find_poke
from watcher.look.lines import escaped
from watcher.look.words import dollars, moment, paragraph, span
from watcher.record.runs import Run

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
LOOKING = ("status", "logs", "history")
COMMIT = {"write": {"a.txt": "a\n"}, "commit": "Add a", "say": "worked", "cost": 0.02}
IDLE = {"say": "nothing to do", "cost": 0.01}
DONE = {"say": "ALL-TASKS-DONE", "cost": 0.03}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def row(self, name: str) -> str:
        """One row of a status."""
        return next((line[12:] for line in self.out.splitlines() if line.startswith(f"  {name} ")), "")


Say = Callable[..., Said]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command of the command line in this process."""

    def run(*argv: object) -> Said:
        capsys.readouterr()
        code = run_command([str(word) for word in argv])
        out, err = capsys.readouterr()
        return Said(code=code, out=out, err=err)

    return run


def of(stage: Stage) -> tuple[object, ...]:
    """PROJECT as the command line of a test names it."""
    return stage.project, "--config", stage.root / "harness.toml"


def environ(stage: Stage) -> dict[str, str]:
    return {**stage.environ(), "PYTHONPATH": str(ROOT)}


def command(*argv: object) -> list[str]:
    return [sys.executable, "-m", "watcher", *map(str, argv)]


@contextlib.contextmanager
def watching(stage: Stage, *pokes: Mapping[str, Any], **sections: Mapping[str, Any]) -> Iterator[Watcher]:
    """A real harness in a process of its own, which is ended with its agent when the block is left."""
    stage.record(*pokes)
    config = stage.config(**sections)
    with (stage.root / "console").open("wb") as console:
        process = subprocess.Popen(
            command("watch", stage.project, "--config", config),
            env=environ(stage),
            cwd=stage.root,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
    try:
        yield Watcher(stage=stage, process=process)
    finally:
        process.kill()
        process.wait()
        for call in stage.calls():
            if agent_lives(stage, call["pid"]):
                os.kill(call["pid"], signal.SIGKILL)


def agent_lives(stage: Stage, pid: int) -> bool:
    """Whether that process is still this stage's agent: a pid comes again."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"SCRIPTED_AGENT_TAPE={stage.tape}\0".encode() in environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    stage: Stage
    process: subprocess.Popen[bytes]

    @property
    def run(self) -> Path:
        return max((self.stage.state).glob("*/runs/*"))

    def checkpoint(self) -> dict[str, Any]:
        body = json.loads(json.loads((self.run / "checkpoint.json").read_text())["body"])
        state: dict[str, Any] = body["state"]
        return state

    def until(self, true: Callable[[], object]) -> None:
        """Wait for something the harness does; fails with its console when it never comes."""
        wait_for(true, lambda: (self.stage.root / "console").read_text())

    def until_the_agent_works(self) -> None:
        self.until(lambda: self.checkpoint()["in_flight"] and self.stage.calls())

    def until_it_waits(self) -> None:
        self.until(lambda: (self.checkpoint()["wait"] or {}).get("pause") not in (None, "between pokes"))


def wait_for(true: Callable[[], object], why: Callable[[], str] = lambda: "") -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError, KeyError):  # it is just being made
            if true():
                return
        time.sleep(0.02)
    pytest.fail(f"it never came. {why()}")


def limit(seconds: int, **more: object) -> dict[str, object]:
    return {
        "rate_limit": {"status": "rejected", "resetsAt": f"{{now+{seconds}}}", "rateLimitType": "five_hour"},
        "say": "You've hit your 5-hour limit",
        "is_error": True,
        "exit": 1,
        **more,
    }


# --- status -------------------------------------------------------------------------------------


def test_status_tells_how_a_run_ended_and_what_the_remote_holds(stage: Stage, say: Say) -> None:
    played = stage.watch(COMMIT, IDLE, DONE)
    said = say("status", *of(stage))
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"{stage.project}\n")
    assert said.row("running") == "no"
    assert said.row("now").startswith("ended: done (exit 0, ")
    assert said.row("pokes") == "3; in a row: 1 stalls"
    assert said.row("spent") == "$0.0600"
    assert said.row("last").startswith("poke 3: sentinel, ")
    assert said.row("last").endswith(played.history[-1]["because"])
    assert said.row("revision") == f"{stage.tip()[:12]} on main; the remote holds it"
    assert said.row("session") == played.history[-1]["session_id"]
    assert said.row("run").startswith(played.run.name)
    assert said.row("log") == str(played.run / "watcher.log")


def test_status_as_json_holds_what_a_script_asks_for(stage: Stage, say: Say) -> None:
    played = stage.watch(COMMIT, DONE)
    told = json.loads(say("status", *of(stage), "--json").out)
    assert told["project"] == str(stage.project)
    assert (told["running"], told["pid"], told["poke"], told["wait"]) == (False, None, None, None)
    assert (told["pokes"], told["stalls"], told["spent_usd"]) == (2, 0, pytest.approx(0.05))
    assert told["ending"]["exit_code"] == 0
    assert told["last"]["outcome"] == "sentinel"
    assert (told["revision"], told["published"]) == (stage.tip(), True)
    assert told["log"] == str(played.run / "watcher.log")
    assert told["problem"] is None


def test_work_that_the_remote_refused_is_told(stage: Stage, say: Say) -> None:
    (stage.remote / "hooks" / "pre-receive").write_text("#!/bin/sh\nexit 1\n")
    (stage.remote / "hooks" / "pre-receive").chmod(0o755)
    stage.watch(COMMIT, DONE)
    said = say("status", *of(stage))
    assert said.row("revision").endswith("the remote is not known to hold it")
    assert said.row("now").startswith("ended: unpublished (exit 4")
    assert json.loads(say("status", *of(stage), "--json").out)["published"] is False


def test_without_a_remote_nothing_is_claimed_of_one(stage: Stage, say: Say) -> None:
    stage.git("remote", "remove", "origin")
    stage.watch(COMMIT, DONE, publish={"remote": ""})
    assert say("status", *of(stage)).row("revision").endswith("publishing is off")
    assert json.loads(say("status", *of(stage), "--json").out)["published"] is None


def test_status_names_the_process_and_the_poke_it_works_on(stage: Stage, say: Say) -> None:
    with watching(stage, {"hang_before": 60}) as watcher:
        watcher.until_the_agent_works()
        said = say("status", *of(stage))
        assert said.row("running").startswith(f"yes, process {watcher.process.pid} (")
        assert re.match(r"poke 1, the agent works since \d\d:\d\d:\d\d UTC \(\d+ s\)", said.row("now"))
        told = json.loads(say("status", *of(stage), "--json").out)
        assert (told["running"], told["pid"], told["poke"]) == (True, watcher.process.pid, 1)
        watcher.process.kill()
        watcher.process.wait()
        said = say("status", *of(stage))
        assert said.row("running") == "no"
        assert said.row("now").startswith("stopped in poke 1, begun ")


def test_status_tells_what_is_waited_for_until_when(stage: Stage, say: Say) -> None:
    with watching(stage, limit(7200), limits={"reset_margin_s": 0}) as watcher:
        watcher.until_it_waits()
        said = say("status", *of(stage))
        assert re.match(r"waiting, usage limit until .* UTC \(in 1 h 59 min\): ", said.row("now"))
        told = json.loads(say("status", *of(stage), "--json").out)
        assert told["wait"]["pause"] == "usage limit"
        assert told["wait"]["until"] == watcher.checkpoint()["wait"]["until"].replace("Z", "+00:00")
        watcher.process.kill()
        watcher.process.wait()
        assert say("status", *of(stage)).row("now").startswith("stopped while waiting, usage limit until ")


def test_a_shared_uid_is_warned_of_and_a_user_of_its_own_is_not(stage: Stage, say: Say) -> None:
    stage.watch(DONE)
    assert "the agent runs as the harness's own user" in say("status", *of(stage)).row("warning")
    stage.config(agent={"user": "daemon" if os.geteuid() == 0 else "root"})
    assert say("status", *of(stage)).row("warning") == ""


def test_a_path_a_name_and_a_symlink_are_one_project(
    stage: Stage, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.watch(DONE)
    configured(stage, monkeypatch, "looked-at")
    (stage.root / "link").symlink_to(stage.project)
    told = [say("status", name).out for name in (stage.project, "looked-at", stage.root / "link")]
    assert told[0].splitlines()[0] == f"{stage.project} (looked-at)"
    assert len({re.sub(r"\d+ s ago", "", text) for text in told}) == 1


def configured(stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """Give the project's configuration a NAME of this user."""
    place = stage.root / "config" / "harness"
    place.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(stage.root / "config"))
    path = place / f"{name}.toml"
    path.write_text(f'project = "{stage.project}"\n' + stage.config().read_text())
    path.chmod(0o600)
    return path


def test_without_a_project_every_one_is_told_in_a_line(
    stage: Stage, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.watch(COMMIT, DONE)
    configured(stage, monkeypatch, "looked-at")
    said = say("status")
    [line] = [line for line in said.out.splitlines() if line.startswith("looked-at: ")]
    assert line.startswith("looked-at: not running, ended: done (exit 0")
    assert line.endswith("2 pokes, $0.0500")
    told = json.loads(say("status", "--json").out)
    assert str(stage.project) in [project["project"] for project in told]


@pytest.mark.root
@as_root
def test_every_project_under_a_users_own_root_is_told() -> None:
    with open_place() as place:
        code = """
            from datetime import UTC, datetime
            from watcher.record.home import Home
            home = Home.for_project(project)
            home.prepare(); home.remember_identity(); home.open_run(datetime.now(UTC))
        """
        assert as_nobody(place, code).returncode == 0
        said = as_nobody(place, "sys.exit(run(['status']))")
        assert said.stdout.startswith(f"{place / 'project'}: not running, ")


def test_status_reads_a_run_of_which_nothing_is_written_yet(stage: Stage, say: Say) -> None:
    played = stage.watch(DONE)
    for path in ("checkpoint.json", "history.jsonl", "ending.json"):
        (played.run / path).unlink()
    said = say("status", *of(stage))
    assert (said.code, said.row("now")) == (0, "stopped; the next start goes on")


def test_a_damaged_checkpoint_is_told_and_what_is_whole_is_shown(stage: Stage, say: Say) -> None:
    played = stage.watch(COMMIT, DONE)
    path = played.run / "checkpoint.json"
    path.write_text(path.read_text().replace('\\"pokes\\":2', '\\"pokes\\":7'))
    said = say("status", *of(stage))
    assert said.code == 78
    assert "checksum mismatch" in said.row("problem")
    assert said.row("now").startswith("ended: done")
    assert said.row("last").startswith("poke 2: sentinel")
    assert say("history", *of(stage)).code == 0
    assert say("logs", *of(stage)).code == 0


@pytest.mark.parametrize("name", ["ending.json", "history.jsonl", "checkpoint.json"])
@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0", b"[]\n", b"{}\n", b'{"sha256":1}\n', b"\xff\n"], ids=repr
)
def test_no_content_of_a_record_is_a_bug_of_the_harness(
    stage: Stage, say: Say, name: str, content: bytes
) -> None:
    played = stage.watch(DONE)
    (played.run / name).write_bytes(content)
    for argv in (("status",), ("status", "--json"), ("history",), ("history", "--json"), ("logs",)):
        said = say(argv[0], *of(stage), *argv[1:])
        assert said.code in (0, 78)
        assert said.out or said.err
        assert "Traceback" not in said.err


@pytest.mark.parametrize("name", LOOKING)
def test_a_project_that_never_ran_is_a_sentence(stage: Stage, say: Say, name: str) -> None:
    stage.config()
    said = say(name, *of(stage))
    assert said.code == 78
    assert f"harness watch {stage.project}" in said.out + said.err


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize(
    ("project", "code", "words"),
    [
        ("./nowhere", 78, "there is no directory"),
        ("no-such-name", 78, "no configuration has that name"),
        ("", 64, "PROJECT must be a path or a NAME"),
        ("a b?", 64, "neither a directory here nor a name"),
    ],
)
def test_an_unknown_project_is_a_sentence_and_no_traceback(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, project: str, code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = say(name, project)
    assert (said.code, said.out) == (code, "")
    assert words in said.err
    assert said.err.startswith("harness: ")


def test_records_outlive_the_project_directory(stage: Stage, say: Say) -> None:
    stage.watch(DONE)
    stage.project.rename(stage.root / "moved")
    said = say("status", *of(stage))
    assert said.code == 0
    assert "the project directory is gone" in said.out


def test_a_mistake_in_the_configuration_hides_nothing(stage: Stage, say: Say) -> None:
    stage.watch(DONE)
    config = stage.root / "harness.toml"
    config.write_text("surprise = 1\n" + config.read_text())
    said = say("status", *of(stage))
    assert said.code == 0
    assert said.row("now").startswith("ended: done")
    assert "surprise" in said.out
    config.write_text("this is no TOML\n")
    assert say("status", *of(stage)).code == 78


def test_a_configuration_that_others_may_write_is_not_believed(stage: Stage, say: Say) -> None:
    stage.watch(DONE)
    config = stage.root / "harness.toml"
    config.write_text("surprise = 1\n" + config.read_text())
    config.chmod(0o666)
    said = say("status", *of(stage))
    assert (said.code, said.out) == (78, "")


def test_a_new_run_is_shown_instead_of_the_old_one(stage: Stage, say: Say) -> None:
    first = stage.watch(DONE)
    second = stage.watch(IDLE, DONE)
    assert first.run.name != second.run.name
    assert say("status", *of(stage)).row("run").startswith(second.run.name)
    assert len(say("history", *of(stage)).out.splitlines()) == 3
    assert len(say("history", *of(stage), "--run", first.run.name).out.splitlines()) == 2


def test_status_changes_nothing(stage: Stage, say: Say) -> None:
    stage.watch(COMMIT, DONE)
    before = everything_in(stage.state)
    for name in LOOKING:
        assert say(name, *of(stage)).code == 0
    assert everything_in(stage.state) == before


def everything_in(place: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(place.rglob("*"))
    }


@contextlib.contextmanager
def open_place() -> Iterator[Path]:
    """A project that another user can reach, and where that user may keep state, unlike in /tmp."""
    with tempfile.TemporaryDirectory(dir="/run") as name:
        place = Path(name)
        place.chmod(0o755)  # the other user must get in
        (place / "project").mkdir(mode=0o755)
        (place / "home").mkdir()
        os.chown(place / "home", 65534, 65534)
        yield place


def as_nobody(place: Path, code: str) -> subprocess.CompletedProcess[str]:
    import textwrap

    start = f"""
import importlib, json, os, pkgutil, sys, tomllib, watcher
from pathlib import Path
from watcher.cli import run
for room in ("cli", "config", "decision", "look", "record"):  # that user may not reach where they lie
    for module in pkgutil.iter_modules([watcher.__path__[0] + "/" + room], f"watcher.{{room}}."):
        importlib.import_module(module.name)
"".encode("utf-8-sig")
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
project = Path({str(place / "project")!r})
"""
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(place / "home")}
    argv = [sys.executable, "-c", start + textwrap.dedent(code)]
    return subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, check=False)


HOLD = """
    import sys
    from pathlib import Path
    from watcher.record.home import Home
    from watcher.record.lock import hold
    project = Path(sys.argv[1])
    history = [open(path) for path in sys.argv[3:]]  # as a shift has its own open
    with hold(Home.for_project(project, root=Path(sys.argv[2])), project):
        print("held", flush=True)
        sys.stdin.read()
"""


@contextlib.contextmanager
def held(project: Path, root: Path, *opened: Path) -> Iterator[int]:
    """A process that holds a project's locks and is no shift; its pid."""
    import textwrap

    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), project, root, *opened],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.mark.root
@as_root
@pytest.mark.parametrize("argv", [["status"], ["stop"]], ids=lambda argv: argv[0])
def test_another_users_harness_is_named_with_the_user_to_be(argv: list[str]) -> None:
    with open_place() as place, held(place / "project", place / "state") as pid:
        said = as_nobody(place, f"sys.exit(run({[*argv, str(place / 'project')]!r}))")
        assert said.returncode == 78
        told = said.stdout + said.stderr
        assert f"process {pid}" in told
        assert "sudo -u root harness" in told


@pytest.mark.root
@as_root
@pytest.mark.parametrize("name", LOOKING)
def test_records_that_this_user_cannot_read_are_named_with_their_owner(name: str) -> None:
    with open_place() as place:
        (place / "config.toml").write_text(
            f'project = "{place}/project"\n[state]\nroot = "{place}/state"\nwork_root = "{place}/work"\n'
        )
        with held(place / "project", place / "state"):
            argv = [name, str(place / "project"), "--config", str(place / "config.toml")]
            said = as_nobody(place, f"sys.exit(run({argv!r}))")
        assert said.returncode == 78
        assert "belong to user root and cannot be read as nobody" in said.stdout + said.stderr


# --- logs ---------------------------------------------------------------------------------------


@pytest.fixture
def played(stage: Stage) -> Played:
    return stage.watch(COMMIT, IDLE, DONE)


def test_the_last_lines_of_the_log_are_readable_and_dated(stage: Stage, say: Say, played: Played) -> None:
    lines = say("logs", *of(stage), "-n", 2).out.splitlines()
    assert len(lines) == 2
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d poke 3: sentinel  because=", lines[0])
    assert "ended: done" in lines[1]


def test_the_log_as_json_is_the_file_itself(stage: Stage, say: Say, played: Played) -> None:
    written = (played.run / "watcher.log").read_text().splitlines(keepends=True)
    assert say("logs", *of(stage), "--json", "-n", 4).out == "".join(written[-4:])
    assert say("logs", *of(stage), "--json", "-n", 1000).out == "".join(written)
    assert say("logs", *of(stage), "--json", "-n", 0).out == ""


def test_a_level_leaves_out_what_is_less_grave(stage: Stage, say: Say, played: Played) -> None:
    path = played.run / "watcher.log"
    more = ({"level": "error", "event": "grave"}, {"level": "strange", "event": "unknown"}, {"event": "none"})
    with path.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in more) + "torn\n")
    shown = [entry["event"] for entry in json_lines(path.parent / "nothing")]
    said = say("logs", *of(stage), "--level", "warning", "-n", 1000).out
    shown = [line for line in said.splitlines() if "damaged" not in line]
    wanted = [line for line in written_levels(path) if line not in ("debug", "info")]
    assert len(shown) == len(wanted)
    assert "a damaged line at byte" in said
    assert "grave" in say("logs", *of(stage), "--level", "error", "-n", 4).out
    assert len(say("logs", *of(stage), "--level", "error", "-n", 2).out.splitlines()) == 2


def written_levels(path: Path) -> list[object]:
    lines = [line for line in path.read_text().splitlines() if line.startswith("{")]
    return [json.loads(line).get("level") for line in lines]


def test_the_log_of_another_run_is_found_by_how_its_id_begins(stage: Stage, say: Say) -> None:
    first = stage.watch(DONE)
    stage.clock.time += timedelta(days=1)
    second = stage.watch(DONE)
    said = say("logs", *of(stage), "--json", "-n", 1000, "--run", first.run.name[:12])
    assert said.out == (first.run / "watcher.log").read_text()
    assert say("logs", *of(stage), "--json", "-n", 1000).out == (second.run / "watcher.log").read_text()
    for wrong, words in (("nope", "there is no run 'nope'"), ("20", "2 runs begin with '20'")):
        refused = say("logs", *of(stage), "--run", wrong)
        assert refused.code == 64
        assert words in refused.err
        assert second.run.name in refused.err


def test_a_log_that_is_not_there_is_a_sentence(stage: Stage, say: Say, played: Played) -> None:
    (played.run / "watcher.log").unlink()
    said = say("logs", *of(stage))
    assert said.code == 78
    assert "watcher.log is not there" in said.err


@contextlib.contextmanager
def following(stage: Stage, *options: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """`harness logs -f` with its output going to a file."""
    out = stage.root / "followed"
    with out.open("w") as file:
        process = subprocess.Popen(
            command("logs", *of(stage), "-f", *options),
            env=environ(stage),
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        yield process, out
    finally:
        process.kill()
        process.wait()
        assert process.stderr
        process.stderr.close()


def test_a_followed_log_goes_on_into_the_next_run_and_ctrl_c_ends_it_quietly(stage: Stage) -> None:
    first = stage.watch(DONE)
    with following(stage, "--json", "-n", "1") as (process, out):
        wait_for(lambda: out.read_text())
        line = {"level": "info", "event": "späte Zeile"}
        with (first.run / "watcher.log").open("ab") as log:
            raw = json.dumps(line, ensure_ascii=False).encode() + b"\n"
            log.write(raw[:20])  # half a line is none
            log.flush()
            log.write(raw[20:])
        wait_for(lambda: "späte Zeile" in out.read_text())
        second = stage.watch(IDLE, DONE)
        end = (second.run / "watcher.log").read_text()
        wait_for(lambda: out.read_text().endswith(end))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr
        assert process.stderr.read() == ""
    shown = [json.loads(text)["event"] for text in out.read_text().splitlines()]
    assert shown[:2] == ["ended: done", "späte Zeile"]
    assert shown[2:] == [entry["event"] for entry in second.log]


def test_a_followed_log_that_is_emptied_is_read_from_its_beginning(stage: Stage) -> None:
    path = stage.watch(DONE).run / "watcher.log"
    with following(stage, "-n", "1") as (_, out):
        wait_for(lambda: "ended: done" in out.read_text())
        path.write_text('{"event": "after"}\n')
        wait_for(lambda: "after" in out.read_text())


def test_following_one_run_ends_with_it(stage: Stage) -> None:
    with watching(stage, {"hang_before": 60}, DONE, retries={"error_first_s": 0.1}) as watcher:
        watcher.until_the_agent_works()
        with following(stage, "--run", watcher.run.name, "-n", "1000", "--json") as (process, out):
            wait_for(lambda: out.read_text())
            os.kill(stage.calls()[0]["pid"], signal.SIGKILL)
            assert process.wait(60) == 0
        assert out.read_text() == (watcher.run / "watcher.log").read_text()
        assert '"ended: done"' in out.read_text()


@pytest.mark.parametrize("follow", [[], ["-f"]], ids=["once", "followed"])
def test_a_reader_that_leaves_the_pipe_ends_the_command_quietly(
    stage: Stage, played: Played, follow: list[str]
) -> None:
    with (played.run / "watcher.log").open("a") as log:
        log.write('{"event": "' + 200 * "x" + '"}\n' * 1)
        log.writelines('{"event": "' + 200 * "x" + '"}\n' for _ in range(5000))
    process = subprocess.Popen(
        command("logs", *of(stage), "-n", "5000", *follow),
        env=environ(stage),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    try:
        assert process.wait(30) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.stderr.close()


def test_a_reader_that_left_is_noticed_while_nothing_is_written(stage: Stage, played: Played) -> None:
    process = subprocess.Popen(
        command("logs", *of(stage), "-n", "1", "-f"), env=environ(stage), stdout=subprocess.PIPE
    )
    assert process.stdout
    try:
        assert b"ended: done" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 0
    finally:
        process.kill()


@pytest.mark.parametrize("argv", [("status",), ("logs",), ("history",), ("history", "--poke", "1")], ids=str)
def test_a_full_disk_behind_the_output_is_a_sentence(stage: Stage, played: Played, argv: list[str]) -> None:
    with open("/dev/full", "w") as full:
        said = subprocess.run(
            command(argv[0], *of(stage), *argv[1:]),
            env=environ(stage),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert said.returncode == 78
    assert said.stderr == "harness: the output cannot be written: No space left on device\n"


def test_a_terminal_that_knows_few_letters_is_enough(stage: Stage) -> None:
    stage.watch({"say": "grün ✓\nALL-TASKS-DONE"})
    for argv in (["logs"], ["history", "--poke", "1"]):
        said = subprocess.run(
            command(argv[0], *of(stage), *argv[1:]),
            env={**environ(stage), "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0
        assert r"gr\xfcn \u2713" in said.stdout


# --- history ------------------------------------------------------------------------------------


def test_history_is_a_line_a_poke_with_the_pokes_own_cost(stage: Stage, say: Say, played: Played) -> None:
    head, *rows = say("history", *of(stage)).out.splitlines()
    assert head.split() == ["POKE", "TIME", "(UTC)", "OUTCOME", "NEXT", "COST", "SESSION", "BECAUSE"]
    session = played.history[0]["session_id"][:8]
    for row, line, following_step, cost in zip(
        rows, played.history, ["poke", "poke", "end: done"], ["$0.0200", "$0.0100", "$0.0300"], strict=True
    ):
        at = line["at"][:19].replace("T", " ")
        because = line["because"]
        assert row.split("  ")[-1] == because
        wanted = [str(line["poke"]), *at.split(), line["outcome"], *following_step.split(), cost, session]
        assert row.split()[: len(wanted)] == wanted


def test_a_part_of_the_history_shows_the_same_lines_as_the_whole(
    stage: Stage, say: Say, played: Played
) -> None:
    whole = say("history", *of(stage)).out.splitlines()
    for count in range(4):
        assert say("history", *of(stage), "-n", count).out.splitlines() == whole[:1] + whole[4 - count :]


def test_a_limit_in_the_history_says_until_when(stage: Stage, say: Say) -> None:
    reset = stage.clock.now() + timedelta(hours=2)
    act = limit(0, rate_limit={"status": "rejected", "resetsAt": int(reset.timestamp())})
    stage.watch(act, DONE)
    row = say("history", *of(stage), "--outcome", "limit").out.splitlines()[1]
    assert f"usage limit until {reset + timedelta(minutes=2):%H:%M}" in row


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [("sentinel", [3]), ("progress,sentinel", [1, 3]), ("no-change", [2]), ("LIMIT", []), ("", [1, 2, 3])],
)
def test_outcomes_choose_pokes(stage: Stage, say: Say, played: Played, wanted: str, shown: list[int]) -> None:
    said = say("history", *of(stage), "--outcome", wanted, "--json")
    assert [json.loads(line)["poke"] for line in said.out.splitlines()] == shown
    text = say("history", *of(stage), "--outcome", wanted).out.splitlines()
    assert [int(line.split()[0]) for line in text[1:]] == shown


def test_an_unknown_outcome_is_a_usage_error_that_names_the_known_ones(
    stage: Stage, say: Say, played: Played
) -> None:
    said = say("history", *of(stage), "--outcome", "limt")
    assert said.code == 64
    assert "no outcome is called limt" in said.err
    assert "no_change" in said.err


def test_history_as_json_is_the_file_itself(stage: Stage, say: Say, played: Played) -> None:
    written = (played.run / "history.jsonl").read_text()
    assert say("history", *of(stage), "--json").out == written
    assert say("history", *of(stage), "--json", "--poke", 2).out == written.splitlines(keepends=True)[1]


def test_damaged_lines_are_shown_where_they_stand(stage: Stage, say: Say, played: Played) -> None:
    path = played.run / "history.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\0" * 30 + b"\n" + second + b"[1]\n" + third + b'{"poke": 4, "torn')
    rows = say("history", *of(stage)).out.splitlines()[1:]
    assert ["damaged" in row for row in rows] == [False, True, False, True, False]
    assert f"at byte {len(first)}:" in rows[1]
    told = [json.loads(line) for line in say("history", *of(stage), "--json").out.splitlines()]
    assert [line.get("poke") for line in told] == [1, None, 2, None, 3]
    assert told[1]["damaged"]["offset"] == len(first)
    assert told[1]["damaged"]["bytes"] == 31
    assert json.loads(say("history", *of(stage), "--json", "--poke", 3).out)["poke"] == 3


def test_one_exchange_is_shown_whole(stage: Stage, say: Say) -> None:
    played = stage.watch(
        {**COMMIT, "stderr": "a warning\n", "say": "first line\nsecond line", "denials": ["Bash"]}, DONE
    )
    said = say("history", *of(stage), "--poke", 1).out
    assert said.startswith(f"poke 1 of run {played.run.name}\n")
    prompt = (played.run / "pokes" / "000001.prompt").read_text()
    assert paragraph(prompt) in said
    assert "  first line\n  second line\n" in said
    assert '"num_turns": 1' in said
    assert "  a warning\n" in said
    for suffix in ("prompt", "out", "err"):
        assert str(played.run / "pokes" / f"000001.{suffix}") in said
    assert re.search(r"^  outcome +progress, new revision$", said, re.M)
    assert re.search(rf"^  because +{re.escape(played.history[0]['because'])}$", said, re.M)
    assert re.search(rf"^  revision +{stage.tip()}$", said, re.M)
    assert re.search(r"^  denied +Bash$", said, re.M)
    assert re.search(r"^  cost +the program said \$0.0200; the run has spent \$0.0200$", said, re.M)


NASTY = "\x1b[2J\x1b]0;title\x07 red\x9b31m \u202eback\r\x08x\n\nresult, the rest\nstderr: /etc/passwd"


def test_what_the_agent_wrote_cannot_move_the_cursor_or_pass_for_ours(stage: Stage, say: Say) -> None:
    stage.watch({"say": NASTY, "stderr": NASTY + "\n", "denials": [NASTY]}, DONE)
    for argv in (("history", "--poke", "1"), ("history",), ("logs",), ("status",)):
        said = say(argv[0], *of(stage), *argv[1:]).out
        assert not [letter for letter in said if not letter.isprintable() and letter != "\n"]
    said = say("history", *of(stage), "--poke", 1).out
    assert r"\x1b[2J" in said
    assert len([line for line in said.splitlines() if line.startswith("stderr: ")]) == 1
    assert len([line for line in said.splitlines() if line.startswith("result")]) == 2


def test_json_on_a_terminal_is_escaped_and_the_same_document(stage: Stage) -> None:
    written = (stage.watch({"say": NASTY}, DONE).run / "history.jsonl").read_text()
    ours, theirs = pty.openpty()
    argv = command("history", *of(stage), "--json")
    process = subprocess.Popen(argv, env=environ(stage), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode().replace("\r\n", "\n")
    assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    assert [json.loads(line) for line in text.splitlines()] == [json.loads(x) for x in written.splitlines()]


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_escaping_keeps_the_document(text: str) -> None:
    line = json.dumps([text], ensure_ascii=False)
    assert escaped(line).isprintable()
    assert json.loads(escaped(line)) == [text]


def test_on_a_terminal_a_line_a_poke_stays_one_line(stage: Stage, played: Played) -> None:
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = subprocess.Popen(
        command("history", *of(stage)), env=environ(stage), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert [len(line) for line in shown.decode().splitlines()] == [60] * 4


def test_a_poke_that_is_still_going_on_shows_what_was_sent(stage: Stage, say: Say) -> None:
    with watching(stage, {"hang_before": 60, "stderr": "working\n"}) as watcher:
        watcher.until_the_agent_works()
        wait_for(lambda: "working" in (watcher.run / "pokes" / "000001.err").read_text())
        said = say("history", *of(stage), "--poke", 1)
        assert said.code == 0
        assert "no decision is recorded" in said.out
        assert paragraph((watcher.run / "pokes" / "000001.prompt").read_text()) in said.out
        assert "  working\n" in said.out


@pytest.mark.parametrize("number", [4, 1_000_000])
def test_a_poke_that_never_was_is_a_sentence(stage: Stage, say: Say, played: Played, number: int) -> None:
    said = say("history", *of(stage), "--poke", number)
    assert (said.code, said.out) == (78, "")
    assert f"no line of a poke {number}; its last decided one is 3" in said.err


def test_an_output_that_changed_since_or_is_gone_is_told(stage: Stage, say: Say, played: Played) -> None:
    out = played.run / "pokes" / "000001.out"
    size = out.stat().st_size
    out.write_bytes(b"short")
    assert f"(5 bytes; it had {size} when it was recorded)" in say("history", *of(stage), "--poke", 1).out
    out.unlink()
    (played.run / "pokes" / "000001.prompt").unlink()
    said = say("history", *of(stage), "--poke", 1)
    assert said.code == 0
    assert said.out.count("cannot be read: No such file or directory") == 2


# --- a million lines ----------------------------------------------------------------------------

MANY = 200_000


@pytest.fixture(scope="module")
def long_lines() -> bytes:
    lines = (
        b'{"poke":%d,"at":"2026-11-30T00:00:00+00:00","outcome":"%s","because":"%s","next":"between pokes",'
        b'"wait_until":"2026-11-30T00:00:02+00:00","session_id":"s","cost_usd":0.01,"spent_usd":%d.5,'
        b'"level":"info","event":"poke","more":"%s"}\n'
        % (n, b"limit" if n == MANY - 3000 else b"progress", b"b" * (n % 30), n, b"f" * 50)
        for n in range(1, MANY + 1)
    )
    return b"".join(lines)


@pytest.fixture(scope="module")
def long_file(long_lines: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "lines"
    path.write_bytes(long_lines)
    return path


@pytest.fixture
def long_run(stage: Stage, long_file: Path) -> Played:
    played = stage.watch(DONE)
    for name in ("history.jsonl", "watcher.log"):
        (played.run / name).unlink()
        (played.run / name).hardlink_to(long_file)
    return played


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize(
    ("argv", "most"),
    [
        (("status",), 1),
        (("logs", "-n", "100"), 1),
        (("history", "-n", "100"), 1),
        (("history", "-n", "100", "--json"), 1),
        (("history", "--poke", "77777"), 4),
        (("history", "--poke", str(MANY)), 4),
        (("history", "--outcome", "limit", "-n", "1"), 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_of_a_long_history_only_blocks_are_read(
    stage: Stage, say: Say, long_run: Played, argv: tuple[str, ...], most: int
) -> None:
    assert (long_run.run / "history.jsonl").stat().st_size > 50 * 2**20
    say(argv[0], *of(stage), *argv[1:])  # what is imported on the way is not counted
    before = bytes_read()
    said = say(argv[0], *of(stage), *argv[1:])
    assert said.code == 0
    assert said.out
    assert bytes_read() - before < most * 2**20


def test_the_right_lines_of_a_long_history_are_found(stage: Stage, say: Say, long_run: Played) -> None:
    assert say("history", *of(stage), "-n", 3).out.splitlines()[1].split()[0] == str(MANY - 2)
    assert say("history", *of(stage), "--outcome", "limit", "-n", 1).out.split("\n")[1].split()[5] == "$1.00"
    for number in (1, 2, 77_777, MANY - 1, MANY):
        assert json.loads(say("history", *of(stage), "--json", "--poke", number).out)["poke"] == number
    assert say("status", *of(stage)).row("last").startswith(f"poke {MANY}: ")


def test_a_search_that_finds_nothing_ends_and_says_where_it_stopped(
    stage: Stage, say: Say, long_run: Played, long_lines: bytes
) -> None:
    path = long_run.run / "history.jsonl"
    assert say("history", *of(stage), "--outcome", "error").err == ""  # all of it was seen
    path.unlink()
    path.write_bytes(long_lines + long_lines)
    said = say("history", *of(stage), "--outcome", "error")
    assert (said.code, len(said.out.splitlines())) == (0, 1)
    assert f"older lines of {path} were not looked through" in said.err


@pytest.mark.parametrize("seed", range(5))
def test_any_poke_is_found_among_damaged_missing_and_huge_lines(tmp_path: Path, seed: int) -> None:
    import random

    chance = random.Random(seed)
    numbers = [n for n in range(1, 3000) if chance.random() > 0.1]
    texts = []
    for number in numbers:
        filler = "x" * chance.choice((0, 10, 300, 90_000 if number % 100 == 0 else 50))
        texts.append(json.dumps({"poke": number, "filler": filler}))
        if chance.random() < 0.1:
            texts.append(chance.choice(("", "torn", "[]", '{"poke": null}', '{"poke": true}', "y" * 70_000)))
    run = Run(path=tmp_path, shift="watch")
    run.history.write_text("\n".join(texts) + "\n")
    for number in (0, 1, *chance.sample(range(1, 3000), 60), 2999, 3000):
        found = find_poke(run, number)
        assert (found.document["poke"] if found else None) == (number if number in numbers else None)


# --- the rest -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LOOKING, "stop", "drain", "reload", "wake"])
def test_help_fits_a_screen_and_ends_with_an_example(say: Say, name: str) -> None:
    said = say(name, "--help")
    assert said.code == 0
    lines = said.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    prose = [line.strip() for line in lines[: lines.index("Options:")] if line.strip()]
    assert prose[-1].startswith(f"Example: harness {name} ")


@pytest.mark.parametrize("name", LOOKING)
def test_a_look_loads_nothing_that_takes_long(stage: Stage, played: Played, name: str) -> None:
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "watcher", name, *map(str, of(stage))],
        env=environ(stage),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.split("|")[-1].strip() for line in said.stderr.splitlines() if "import time" in line}
    assert "watcher.look.place" in loaded
    slow = ("structlog", "psutil", "dateutil", "subprocess", "asyncio", "watcher.prepare", "watcher.process")
    assert not {module for module in loaded if module.startswith(slow)}


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (86_400, "1 d"),
        (86_460, "1 d 1 min"),
        (190_000, "2 d 4 h"),
    ],
)
def test_a_length_is_told_by_its_largest_units(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "$0.00"),
        (0.01, "$0.0100"),
        (0.1, "$0.10"),
        (12.345, "$12.35"),
        (None, "-"),
        (True, "-"),
        ("1", "-"),
    ],
)
def test_money_is_told_finely_where_it_is_little(value: object, words: str) -> None:
    assert dollars(value) == words


def test_an_instant_of_another_day_has_its_date() -> None:
    assert moment(NOW, NOW) == "12:00:00 UTC"
    assert moment(NOW + timedelta(days=1), NOW) == "2026-12-01 12:00:00 UTC"
