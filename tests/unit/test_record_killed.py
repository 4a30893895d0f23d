"""kill -9 before every single system call of the record: what the next start finds.

Each test runs an action in a child that kills itself at its nth call, for every n until the action comes
through alive, and asserts on what is left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from watcher.record.checkpoint import Checkpoint
from watcher.record.faults import FailingDisk
from watcher.record.files import Disk
from watcher.record.home import Home
from watcher.record.lines import Damaged, Lines, iterate, tail

NOW = datetime(2026, 7, 30, 2, 15, tzinfo=UTC)


class State(msgspec.Struct):
    step: int
    text: str = ""


def killed(action: Callable[[Disk], object], nth: int, half: bool) -> bool:
    """Run the action in a child that dies at its nth call; False where it had fewer."""
    child = os.fork()
    if not child:
        code = 1
        try:
            action(FailingDisk("any", nth, None, half=half))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the action failed in the child"
    return False


def every_kill(base: Path, action: Callable[[Path, Disk], object], half: bool) -> Iterator[Path]:
    """A fresh directory for each place where the action can be killed, as the kill left it."""
    for nth in range(1, 200):
        place = base / str(nth)
        place.mkdir()
        yield place  # to be filled
        survived = not killed(lambda disk, place=place: action(place, disk), nth, half)  # type: ignore[misc]
        yield place  # to be looked at
        if survived:
            assert nth > 2, "nothing was ever killed"
            return
    pytest.fail("the action never came through")


halves = pytest.mark.parametrize("half", [False, True], ids=["before each call", "in the middle of writes"])


@halves
def test_a_killed_save_leaves_the_former_or_the_new_checkpoint(tmp_path: Path, half: bool) -> None:
    def save(place: Path, disk: Disk) -> None:
        Checkpoint(place / "checkpoint.json", State, schema_version=1, disk=disk).save(State(step=2))

    found = []
    places = every_kill(tmp_path, save, half)
    for place in places:
        ours = Checkpoint(place / "checkpoint.json", State, schema_version=1)
        ours.save(State(step=1, text="x" * 5000))
        next(places)
        ours.sweep()
        state = ours.load()
        assert state in (State(step=1, text="x" * 5000), State(step=2))
        found.append(state.step)
        assert os.listdir(place) == ["checkpoint.json"]
    assert found == sorted(found)  # once the new one is there, no later kill brings the old one back
    assert set(found) == {1, 2}


@halves
def test_a_killed_append_leaves_whole_lines_and_the_next_start_goes_on(tmp_path: Path, half: bool) -> None:
    def append(place: Path, disk: Disk) -> None:
        with Lines(disk, place / "history.jsonl") as lines:
            lines.append({"poke": 3, "text": "é" * 50})

    places = every_kill(tmp_path, append, half)
    for place in places:
        with Lines(Disk(), place / "history.jsonl") as lines:
            lines.append({"poke": 1})
            lines.append({"poke": 2})
        next(places)
        seen = list(iterate(place / "history.jsonl"))  # a reader that comes before any repair
        assert [line.document["poke"] for line in seen if not isinstance(line, Damaged)] in (
            [1, 2],
            [1, 2, 3],
        )
        assert not any(isinstance(line, Damaged) for line in seen)
        with Lines(Disk(), place / "history.jsonl") as lines:
            torn = [name for name in os.listdir(place) if ".torn-" in name]
            assert bool(torn) == bool(lines.note)
            lines.append({"poke": 4})
        assert [line.document["poke"] for line in tail(place / "history.jsonl", 9)] in (  # type: ignore[union-attr]
            [1, 2, 4],
            [1, 2, 3, 4],
        )


@halves
def test_a_killed_repair_loses_no_byte_of_the_torn_line(tmp_path: Path, half: bool) -> None:
    def repair(place: Path, disk: Disk) -> None:
        Lines(disk, place / "history.jsonl").close()

    places = every_kill(tmp_path, repair, half)
    for place in places:
        (place / "history.jsonl").write_bytes(b'{"poke":1}\n{"poke":2,"te')
        next(places)
        Disk().sweep(place / "history.jsonl.torn-1")
        Lines(Disk(), place / "history.jsonl").close()
        assert (place / "history.jsonl").read_bytes() == b'{"poke":1}\n'
        kept = [path.read_bytes() for path in place.glob("*.torn-*")]
        assert kept
        assert set(kept) == {b'{"poke":2,"te'}  # twice at most: kept first, cut second


@halves
def test_a_killed_set_aside_keeps_the_damaged_checkpoint_and_never_starts_afresh_by_itself(
    tmp_path: Path, half: bool
) -> None:
    def set_aside(place: Path, disk: Disk) -> None:
        Checkpoint(place / "checkpoint.json", State, schema_version=1, disk=disk).set_aside()

    places = every_kill(tmp_path, set_aside, half)
    for place in places:
        (place / "checkpoint.json").write_bytes(b'{"sha256":"')
        next(places)
        (name,) = os.listdir(place)
        assert name in ("checkpoint.json", "checkpoint.json.damaged-1")
        assert (place / name).read_bytes() == b'{"sha256":"'


@halves
def test_a_killed_start_can_be_started_again(tmp_path: Path, half: bool) -> None:
    def start(place: Path, disk: Disk) -> None:
        home = Home.for_project(place / "project", root=place / "deep" / "state", disk=disk)
        home.prepare()
        home.remember_identity()
        home.open_run(NOW)

    places = every_kill(tmp_path, start, half)
    for place in places:
        (place / "project").mkdir()
        next(places)
        home = Home.for_project(place / "project", root=place / "deep" / "state")
        home.prepare()
        assert home.identity_change() is None
        run = home.open_run(NOW)
        assert home.runs.all() == [run]  # never a second run because the first was cut short
        assert run.poke(1).prompt.parent.is_dir()


@halves
def test_a_killed_pruning_is_finished_and_told_by_the_next(tmp_path: Path, half: bool) -> None:
    def prune(place: Path, disk: Disk) -> None:
        Home.for_project(place / "project", root=place / "state", disk=disk).prune(1)

    places = every_kill(tmp_path, prune, half)
    for place in places:
        (place / "project").mkdir()
        home = Home.for_project(place / "project", root=place / "state")
        home.prepare()
        made = [home.runs.new(NOW, "watch") for _ in range(4)]
        for run in made:
            run.end({"ending": "done"})
        next(places)
        before = home.runs.all()
        assert made[-1] in before
        assert all(run.finished and run.poke(1).prompt.parent.is_dir() for run in before)
        told = home.prune(1)
        assert home.runs.all() == made[-1:]
        assert set(told) >= {run.name for run in before} - {made[-1].name}
        assert os.listdir(home.path / "runs") == [made[-1].name]
