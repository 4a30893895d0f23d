"""harness verify-state: every damage is found and named with what it means, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Stage
from watcher.cli import verify as cli
from watcher.look.finding import Finding, Looked
from watcher.look.place import Place
from watcher.look.verify import verify
from watcher.record.checkpoint import frame
from watcher.record.files import Disk
from watcher.record.home import Home
from watcher.record.journal import Journal
from watcher.record.lines import Lines
from watcher.record.runs import Run
from watcher.signals import Inbox

COMMIT = {"write": {"a.txt": "a\n"}, "commit": "Add a", "say": "worked"}
LIMIT = {"say": "You've hit your limit", "is_error": True, "exit": 1}
IDLE = {"say": "nothing to do"}
DONE = {"say": "ALL-TASKS-DONE"}


@dataclass
class State:
    """One project's state, to be harmed."""

    stage: Stage
    looked: Looked

    @property
    def home(self) -> Home:
        return Home.for_project(self.stage.project, self.stage.state, self.stage.root / "work")

    @property
    def runs(self) -> list[Run]:
        return self.home.runs.all()

    @property
    def run(self) -> Path:
        """The newest run's directory."""
        return self.runs[-1].path

    def findings(self) -> list[Finding]:
        self.looked = Looked()
        return list(verify(Place(home=self.home), self.looked, cli.snapshot_problem))

    def damage(self) -> list[tuple[str, str]]:
        """The damaged files, below the stage's root, and what is wrong with each."""
        root = self.stage.state
        return [
            (
                str(found.path.relative_to(root) if found.path.is_relative_to(root) else found.path),
                found.problem,
            )
            for found in self.findings()
            if found.damaged
        ]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Two runs: one that ended in a stall, and one with uncommitted work that was stopped in a wait."""
    stage = Stage(root=tmp_path_factory.mktemp("played")).build()
    stage.watch(COMMIT, IDLE, IDLE, IDLE, publish={"enabled": True})
    (stage.project / "notes.txt").write_text("not committed\n")
    inbox = Inbox()
    calls = []

    class Stopping(Inbox):
        def read(self) -> None:
            calls.append(1)
            if stage.clock.slept and stage.clock.slept[-1] == 20:
                self.post(signal.SIGTERM)
            super().read()

    inbox.close()
    stage.watch({**COMMIT, "write": {"b.txt": "b\n"}, "paths": ["b.txt"]}, LIMIT, DONE, inbox=Stopping())
    return stage


@pytest.fixture
def state(played: Stage, tmp_path: Path) -> Iterator[State]:
    """The same state, as it was: what a test does to it is undone."""
    kept = tmp_path / "kept"
    shutil.copytree(played.state, kept, symlinks=True)
    yield State(stage=played, looked=Looked())
    for folder, _, _ in os.walk(played.state):
        os.chmod(folder, 0o700)
    shutil.rmtree(played.state)
    shutil.copytree(kept, played.state, symlinks=True)


def test_a_state_nobody_touched_is_well(state: State) -> None:
    assert state.findings() == []
    looked = state.looked
    assert (looked.runs, looked.pokes, looked.snapshots, looked.damaged) == (2, 6, 1, 0)
    assert looked.files >= 7
    assert looked.bytes > 1000


# --- harm ---------------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a checkpoint's state and frame it anew: whole, and wrong."""
    document = json.loads(json.loads(path.read_bytes())["body"])
    change(document["state"])
    path.write_bytes(frame(json.dumps(document).encode()))


def relined(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Write a history anew, as a program of ours would: each line whole, and something wrong."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line.pop("sum", None)
    change(lines)
    path.unlink()
    with Lines(Disk(), path) as file:
        for line in lines:
            file.append(line)


def cut(path: Path, size: int = -5) -> None:
    path.write_bytes(path.read_bytes()[:size])


def edited(path: Path, **values: Any) -> None:
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, **values}))


def middle(path: Path) -> None:
    """Spoil a line in the middle."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b'{"poke":2,' + lines[1][10:-20] + b"\n"
    path.write_bytes(b"".join(lines))


def private(path: Path, content: bytes = b"") -> None:
    path.write_bytes(content)
    path.chmod(0o600)


Harm = tuple[str, str, Callable[[Path], object]]  # file, words of the problem, what is done to it

IN_THE_ENDED_RUN: Mapping[str, Harm] = {
    "checkpoint cut": ("checkpoint.json", "refused (unreadable)", cut),
    "checkpoint of a newer harness": (
        "checkpoint.json",
        "version 99",
        lambda path: path.write_bytes(frame(b'{"schema_version":99,"state":{}}')),
    ),
    "checkpoint of another run": (
        "checkpoint.json",
        "another run",
        lambda path: rewrite(path, lambda state: state.update(run="20200101T000000Z-watch-aaaa")),
    ),
    "checkpoint gone": ("checkpoint.json", "is gone, and the history knows pokes 1 to 4", Path.unlink),
    "checkpoint older": (
        "checkpoint.json",
        "knows 3 pokes, the history 4",
        lambda path: rewrite(path, lambda state: state.update(pokes=3)),
    ),
    "other dollars": (
        "checkpoint.json",
        "99.0 dollars are spent",
        lambda path: rewrite(path, lambda state: state.update(spent_usd=99.0)),
    ),
    "a line spoilt": ("history.jsonl", "is damaged", middle),
    "a line missing": (
        "history.jsonl",
        "poke 2 missing before poke 3",
        lambda p: relined(p, lambda ls: ls.pop(1)),
    ),
    "the last line missing": ("history.jsonl", "poke 4 missing", lambda p: relined(p, lambda ls: ls.pop())),
    "all lines missing": ("history.jsonl", "pokes 1 to 4 missing", lambda path: path.write_bytes(b"")),
    "history gone": ("history.jsonl", "pokes 1 to 4 missing", Path.unlink),
    "a line twice": (
        "history.jsonl",
        "poke 2 stands there again",
        lambda path: relined(path, lambda lines: lines.insert(2, lines[1])),
    ),
    "two lines changed places": (
        "history.jsonl",
        "poke 2 stands there again",
        lambda path: relined(path, lambda lines: lines.insert(1, lines.pop(2))),
    ),
    "a line of no poke": (
        "history.jsonl",
        "names no poke",
        lambda path: relined(path, lambda lines: lines[1].update(poke="two")),
    ),
    "no such outcome": (
        "history.jsonl",
        "no known outcome",
        lambda path: relined(path, lambda lines: lines[1].update(outcome="fine")),
    ),
    "no readable time": (
        "history.jsonl",
        "no readable time in at",
        lambda path: relined(path, lambda lines: lines[1].update(at="yesterday")),
    ),
    "another file's name": (
        "history.jsonl",
        "names another file for its out",
        lambda path: relined(path, lambda lines: lines[1].update(out="../../000002.out")),
    ),
    "prompt changed": (
        "pokes/000001.prompt",
        "checksum differs",
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"),
    ),
    "prompt gone": ("pokes/000002.prompt", "is not there", Path.unlink),
    "output cut": ("pokes/000002.out", "bytes and had", cut),
    "output changed": (
        "pokes/000002.out",
        "checksum differs",
        lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]),
    ),
    "output gone": ("pokes/000003.out", "is not there", Path.unlink),
    "complaints gone": ("pokes/000003.err", "is not there", Path.unlink),
    "an exchange nobody knows": (
        "pokes",
        "exchange of poke 9",
        lambda path: (path / "000009.out").write_text("") and (path / "000009.out").chmod(0o600),
    ),
    "ending cut": ("ending.json", "cannot be read", cut),
    "no such ending": ("ending.json", "no ending there is", lambda path: edited(path, ending="fine")),
    "another exit code": ("ending.json", "no ending there is", lambda path: edited(path, exit_code=0)),
    "another ending": (
        "ending.json",
        "the checkpoint 'stalled'",
        lambda path: edited(path, ending="ceiling", exit_code=3),
    ),
    "an ending after other pokes": ("ending.json", "says pokes 7", lambda path: edited(path, pokes=7)),
    "a ledger that is spoilt": ("ledger.jsonl", "line 1", lambda path: path.write_bytes(b"{spent\n")),
    "a submission that is spoilt": ("submission.json", "cannot be read", lambda path: path.write_bytes(b"{")),
}


@pytest.mark.parametrize("harm", IN_THE_ENDED_RUN)
def test_a_harm_in_a_run_is_found_and_said(harm: str, state: State) -> None:
    name, words, act = IN_THE_ENDED_RUN[harm]
    path = state.runs[0].path / name
    act(path)
    if path.is_file():
        path.chmod(0o600)
    found = state.damage()
    assert any(where.endswith(name) and words in problem for where, problem in found), found
    assert {where.split("/runs/")[1].split("/")[0] for where, _ in found} == {state.runs[0].name}


IN_THE_STATE: Mapping[str, Harm] = {
    "gate": ("accounts/claude-tester.json", "cannot be read", lambda path: path.write_bytes(b"{")),
    "identity": ("project.json", "cannot be read", lambda path: path.write_bytes(b"{")),
    "sign-offs": ("signoffs.jsonl", "line 1 (byte 0) is damaged", lambda path: private(path, b"{\n")),
    "snapshot's list": ("snapshots/*/manifest.json", "cannot be read", cut),
    "snapshot's files": ("snapshots/*/files.tar", "cannot be read back", lambda path: cut(path, 700)),
    "a snapshot of something else": (
        "snapshots/*/files.tar",
        "other contents",
        lambda path: path.write_bytes(path.read_bytes().replace(b"not committed", b"NOT committed")),
    ),
    "open to others": ("runs", "has mode 0755 instead of 0700", lambda path: path.chmod(0o755)),
    "a readable file": ("runs/*/history.jsonl", "has mode 0644", lambda path: path.chmod(0o644)),
    "a writable gate": ("accounts/claude-tester.json", "has mode 0620", lambda path: path.chmod(0o620)),
    "a link": ("runs/*/report.md", "symbolic link", lambda path: path.symlink_to("/etc/passwd")),
    "a pipe": ("runs/*/report.md", "neither a file nor a directory", os.mkfifo),
    "no runs": ("runs", "is not there", shutil.rmtree),
}


@pytest.mark.parametrize("harm", IN_THE_STATE)
def test_a_harm_beside_the_runs_is_found_and_said(harm: str, state: State) -> None:
    name, words, act = IN_THE_STATE[harm]
    root = state.stage.state if name.startswith("accounts") else state.home.path
    folders = sorted(root.glob(os.path.dirname(name))) if "*" in name else [(root / name).parent]
    path = folders[-1] / os.path.basename(name)
    act(path)
    found = state.damage()
    assert any(words in problem for _, problem in found), found
    assert len(found) == 1


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_told(state: State) -> None:
    os.chown(state.run / "history.jsonl", 65534, -1)
    ((path, problem),) = state.damage()
    assert path.endswith("history.jsonl")
    assert "belongs to user" in problem


def test_the_work_directory_is_nobody_elses_to_write(state: State) -> None:
    work = state.home.work
    work.chmod(0o777)
    try:
        assert [problem.split(" and ")[1] for _, problem in state.damage()] == [
            "has mode 0777 instead of 0711"
        ]
    finally:
        work.chmod(0o711)


# --- what is no damage --------------------------------------------------------------------------


def notes(state: State) -> list[tuple[str, str]]:
    found = state.findings()
    assert not [finding for finding in found if finding.damaged]
    return [(finding.path.name, finding.problem) for finding in found]


def test_what_a_kill_leaves_is_told_and_is_no_damage(state: State) -> None:
    private(state.run / "checkpoint.json.0a1b2c3d.tmp", b"{")
    private(state.run / "pokes" / "000003.prompt.0a1b2c3d.tmp")
    (state.home.path / "runs" / ".removing-20200101T000000Z-watch-aaaa").mkdir(mode=0o700)
    (state.home.snapshots / "20200101T000000Z-watch-aaaa").mkdir(mode=0o700)
    with (state.run / "history.jsonl").open("ab") as file:
        file.write(b'{"poke":3,"outc')
    assert len(notes(state)) == 5


def test_what_was_set_aside_is_told(state: State) -> None:
    private(state.run / "history.jsonl.torn-1", b'{"poke":3,"outc')
    private(state.run / "checkpoint.json.damaged-2", b"{")
    told = dict(notes(state))
    assert "cut short" in told["history.jsonl.torn-1"]
    assert "refused once" in told["checkpoint.json.damaged-2"]


def test_a_poke_in_flight_is_no_damage_whether_its_line_is_written_or_not(state: State) -> None:
    """A kill between the history and the checkpoint: the next start reaches the same decision."""
    flight = {"poke": 2, "started_at": "2026-07-30T12:00:00Z", "marker": "m", "resumed": False}
    rewrite(state.run / "checkpoint.json", lambda it: it.update(in_flight=flight, wait=None))
    assert notes(state) == []
    relined(state.run / "history.jsonl", lambda lines: lines.pop())
    assert notes(state) == []
    (state.run / "pokes" / "000002.prompt").unlink()
    assert [problem for _, problem in state.damage()] == ["is not there, and poke 2 is in flight"]


def test_a_decided_end_that_is_not_recorded_is_told(state: State) -> None:
    (state.runs[0].path / "ending.json").unlink()
    ((name, problem),) = notes(state)
    assert name == "checkpoint.json"
    assert "has decided to end (stalled)" in problem


def test_a_run_that_never_came_to_a_poke_is_well(state: State) -> None:
    run = state.home.runs.new(state.stage.clock.now(), "watch")
    Journal(run).close()
    assert notes(state) == []
    assert state.looked.runs == 3


def test_a_done_run_whose_work_is_not_on_the_remote_is_well(tmp_path: Path) -> None:
    stage = Stage(root=tmp_path).build()
    shutil.rmtree(stage.remote)
    assert stage.watch(COMMIT, DONE).exit_code == 4
    assert [found for found in State(stage=stage, looked=Looked()).findings() if found.damaged] == []


# --- while a harness works ----------------------------------------------------------------------


def test_a_running_harness_is_no_damage(tmp_path: Path) -> None:
    """Looked at from within: in each wait and each poke of a run that is going on."""
    stage = Stage(root=tmp_path).build()
    seen: list[list[Finding]] = []

    class Looking(Inbox):
        def read(self) -> None:
            if stage.state.exists():
                seen.append(State(stage=stage, looked=Looked()).findings())
            super().read()

    assert stage.watch(COMMIT, LIMIT, DONE, inbox=Looking()).exit_code == 0
    assert len(seen) > 10
    assert [finding for findings in seen for finding in findings] == []


# --- how it is said -----------------------------------------------------------------------------


def run(state: State, *words: str) -> int:
    argv = [str(state.stage.project), "--config", str(state.stage.root / "harness.toml"), *words]
    code: int = cli.command.main(argv, prog_name="harness verify-state", standalone_mode=False)
    return code


def test_all_is_well_is_exit_0_and_one_line(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(state) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1, "")
    assert "2 runs, 6 pokes" in out
    assert "All is well." in out


def test_damage_is_exit_1_with_what_it_means_and_changes_nothing(
    state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(state.run / "checkpoint.json")
    private(state.run / "history.jsonl.torn-1")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in state.home.path.rglob("*")}
    assert run(state) == 1
    out = capsys.readouterr().out
    assert f"damaged: {state.run / 'checkpoint.json'}" in out
    assert "nothing is resumed from it" in out
    assert f"note: {state.run / 'history.jsonl.torn-1'}" in out
    assert "Damaged: 1. Nothing was changed." in out
    after = {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in state.home.path.rglob("*")}
    assert after == before


def test_json_says_the_same(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    cut(state.run / "checkpoint.json")
    assert run(state, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["well"] is False
    assert document["looked"]["damaged"] == 1
    (finding,) = document["findings"]
    assert finding["path"] == str(state.run / "checkpoint.json")
    assert set(finding) == {"damaged", "path", "problem", "meaning"}


def test_what_a_damaged_file_holds_moves_no_cursor(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    path = state.runs[0].path / "history.jsonl"
    relined(path, lambda lines: lines[1].update(outcome="\x1b[2J", out="\x1b]0;owned\x07"))
    edited(state.runs[0].path / "ending.json", ending="\x1b[2J")
    assert run(state) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_nothing_to_verify_is_exit_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(root=tmp_path).build()
    stage.config()
    assert run(State(stage=stage, looked=Looked())) == 78
    assert "there is no state of" in capsys.readouterr().err


def test_a_long_history_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """Fifty thousand lines, of which one is gone and one is spoilt; the checkpoint says other dollars."""
    import resource

    stage = Stage(root=tmp_path).build()
    stage.watch(DONE)
    it = State(stage=stage, looked=Looked())
    document = json.loads((it.run / "history.jsonl").read_bytes())
    for key in ("sum", "prompt", "out", "err"):
        document.pop(key, None)
    document |= {"prompt_sha256": "", "out_sha256": "", "spent_usd": 1}  # as of pokes that left no exchange
    count = 50_000
    with (it.run / "history.jsonl").open("wb") as file:
        for number in range(1, count + 1):
            text = json.dumps({"poke": number, **{k: v for k, v in document.items() if k != "poke"}})
            if number != 777:
                file.write((text if number != 888 else text[:-9]).encode() + b"\n")
    shutil.rmtree(it.run / "pokes")
    (it.run / "pokes").mkdir(mode=0o700)
    rewrite(it.run / "checkpoint.json", lambda state: state.update(pokes=count))
    edited(it.run / "ending.json", pokes=count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    damaged = [problem for _, problem in it.damage()]
    assert len(damaged) == 3, damaged[:9]
    assert "poke 777 missing before poke 778" in damaged
    assert any("is damaged" in problem for problem in damaged)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 50_000
    assert it.looked.pokes == count - 1
