"""Runs: which one goes on, which order they stand in, and what pruning may take."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from watcher.record.home import Home
from watcher.record.runs import Run

NOW = datetime(2026, 7, 30, 2, 15, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "project").mkdir()
    home = Home.for_project(tmp_path / "project", root=tmp_path / "state")
    home.prepare()
    return home


def finished(home: Home, count: int, shift: str = "watch") -> list[Run]:
    runs = [home.runs.new(NOW + timedelta(days=day), shift) for day in range(count)]
    for run in runs:
        run.end({"ending": "done"})
    return runs


def test_a_run_is_named_by_its_utc_second_and_shift(home: Home) -> None:
    local = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    run = home.open_run(local, "night")
    assert re.fullmatch(r"20260730T021500Z-night-[0-9a-f]{4}", run.name)
    assert run.shift == "night"
    assert (run.path / "pokes").is_dir()


def test_an_unfinished_run_goes_on_and_an_ended_one_makes_room_for_a_new_one(home: Home) -> None:
    first = home.open_run(NOW)
    assert not first.finished
    assert home.open_run(NOW + timedelta(days=3)) == first
    first.end({"ending": "done", "exit_code": 0})
    assert first.finished
    assert first.ending() == {"ending": "done", "exit_code": 0}
    second = home.open_run(NOW + timedelta(days=3))
    assert second != first
    assert home.latest_run() == second
    assert second.ending() is None


def test_neither_shift_resumes_the_others_run(home: Home) -> None:
    watch = home.open_run(NOW, "watch")
    night = home.open_run(NOW + timedelta(hours=1), "night")
    assert night != watch
    assert home.open_run(NOW + timedelta(hours=2), "watch") == watch
    assert home.open_run(NOW + timedelta(hours=2), "night") == night
    assert (home.latest_run("watch"), home.latest_run("night"), home.latest_run()) == (watch, night, night)


def test_runs_of_one_second_have_names_of_their_own_and_keep_their_order(home: Home) -> None:
    runs = [home.runs.new(NOW, "watch") for _ in range(12)]
    assert home.runs.all() == runs
    assert len({run.name for run in runs}) == 12


def test_a_clock_that_goes_back_does_not_bring_an_old_run_to_the_front(home: Home) -> None:
    runs = [home.runs.new(NOW - timedelta(days=days), "watch") for days in (0, 400, 2)]
    assert home.runs.all() == runs
    assert home.latest_run() == runs[-1]
    later = home.runs.new(NOW + timedelta(seconds=1), "watch")
    assert home.latest_run() == later
    assert later.name.startswith("20260730T021501Z-watch-")


def test_two_projects_started_in_one_second_have_different_runs(home: Home, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Home.for_project(tmp_path / "other", root=tmp_path / "state")
    other.prepare()
    assert other.open_run(NOW).name != home.open_run(NOW).name


@pytest.mark.parametrize("shift", ["", "Watch", "a b", "../x", "night\n"])
def test_a_shift_that_cannot_be_part_of_a_name_is_refused(home: Home, shift: str) -> None:
    with pytest.raises(ValueError, match="names no run"):
        home.open_run(NOW, shift)
    assert home.runs.all() == []


def test_what_is_no_run_is_not_taken_for_one(home: Home) -> None:
    for name in (
        "notes",
        ".removing-20260730T021500Z-watch-3f2a",
        "20260730T021500Z",
        "x20260730T021500Z-watch-1",
    ):
        (home.runs.path / name).mkdir()
    assert home.runs.all() == []


def test_the_exchange_of_a_poke_has_three_files_that_sort_by_number(home: Home) -> None:
    run = home.open_run(NOW)
    papers = run.poke(14)
    assert [path.relative_to(run.path).as_posix() for path in (papers.prompt, papers.out, papers.err)] == [
        "pokes/000014.prompt",
        "pokes/000014.out",
        "pokes/000014.err",
    ]
    assert sorted(run.poke(n).out for n in (100_000, 9, 10, 99_999)) == [
        run.poke(n).out for n in (9, 10, 99_999, 100_000)
    ]


def test_an_ending_that_cannot_be_read_is_an_ending_and_says_so(home: Home) -> None:
    run = home.open_run(NOW)
    run.ending_file.write_bytes(b"\0\0\0")
    assert run.finished
    assert "unreadable" in (run.ending() or {})


def test_pruning_takes_the_oldest_finished_runs_and_names_them(home: Home) -> None:
    runs = finished(home, 6)
    (runs[0].path / "pokes" / "000001.out").write_text("x")
    assert home.prune(4) == [run.name for run in runs[:2]]
    assert home.runs.all() == runs[2:]
    assert sorted(os.listdir(home.runs.path)) == [run.name for run in runs[2:]]
    assert home.prune(4) == []


def test_an_unfinished_run_is_never_pruned_however_old(home: Home) -> None:
    old = [home.runs.new(NOW, shift) for shift in ("night", "watch")]
    runs = finished(home, 5)
    assert home.prune(1) == [run.name for run in runs[:4]]
    assert home.runs.all() == [*old, runs[4]]


def test_the_latest_run_of_each_shift_is_never_pruned(home: Home) -> None:
    (night,) = finished(home, 1, "night")
    watches = finished(home, 3)
    assert home.prune(1) == [run.name for run in watches[:2]]
    assert home.runs.all() == [night, watches[2]]


def test_pruning_needs_to_keep_something(home: Home) -> None:
    finished(home, 2)
    with pytest.raises(ValueError, match="at least 1"):
        home.prune(0)
    assert len(home.runs.all()) == 2


def test_pruning_follows_no_link_out_of_a_run(home: Home, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    runs = finished(home, 2)
    (runs[0].path / "pokes" / "link").symlink_to(tmp_path / "precious")
    assert home.prune(1) == [runs[0].name]
    assert (tmp_path / "precious" / "file").exists()
