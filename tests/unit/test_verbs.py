"""The verbs: a request reaches the shift it is meant for, and nothing else is ever hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Stage, json_lines
from tests.unit.test_look import (
    COMMIT,
    DONE,
    Say,
    Watcher,
    agent_lives,
    held,
    limit,
    of,
    say,
    wait_for,
    watching,
)
from watcher.look import live
from watcher.record import requests
from watcher.record.home import Home
from watcher.record.requests import Verb, leave, pending, process_name, take
from watcher.record.runs import Run

__all__ = ["say"]  # a fixture

VERBS = ("stop", "drain", "reload", "wake")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ME = "boot/1"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(path=tmp_path, shift="watch")


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", Verb, ids=lambda verb: verb.value)
def test_a_verb_comes_out_as_it_went_in_and_once(run: Run, verb: Verb) -> None:
    leave(run, verb, ME, NOW)
    assert list(take(run, me=ME)) == [verb]
    assert list(take(run, me=ME)) == []
    assert os.listdir(run.path / "requests") == []


def test_requests_come_in_the_order_in_which_they_were_left(run: Run) -> None:
    later = [(Verb.WAKE, 2.0), (Verb.STOP, 1e-6), (Verb.DRAIN, 0.0), (Verb.STOP, 0.5)]
    for verb, seconds in later:
        leave(run, verb, ME, NOW + timedelta(seconds=seconds))
    assert list(take(run, me=ME)) == [Verb.DRAIN, Verb.STOP, Verb.STOP, Verb.WAKE]


def test_a_request_stays_until_its_verb_was_applied(run: Run) -> None:
    leave(run, Verb.STOP, ME, NOW)
    asked = take(run, me=ME)
    assert next(asked) is Verb.STOP
    assert len(pending(run)) == 1  # a harness that dies here loses nothing
    assert list(asked) == []
    assert pending(run) == []


def test_a_request_for_a_harness_that_is_gone_is_dropped_and_told(run: Run) -> None:
    leave(run, Verb.STOP, "boot/0", NOW)
    leave(run, Verb.WAKE, ME, NOW)
    notes: list[str] = []
    assert list(take(run, notes.append, me=ME)) == [Verb.WAKE]
    assert notes == ["a request to stop was dropped: it was meant for a harness that is gone"]
    assert pending(run) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"verb": "explode", "meant_for": "x"}', b'{"verb": "stop"}', b"x" * 10_000],
    ids=lambda content: repr(content[:20]),
)
def test_a_file_that_is_no_request_is_dropped_and_told(run: Run, content: bytes) -> None:
    good = leave(run, Verb.WAKE, ME, NOW)
    bad = good.with_name("0" * 20 + "-0000.json")
    bad.write_bytes(content)
    notes: list[str] = []
    assert list(take(run, notes.append, me=ME)) == [Verb.WAKE]
    assert len(notes) == 1
    assert str(bad) in notes[0]
    assert not bad.exists()


def test_a_link_among_the_requests_is_not_followed(run: Run, tmp_path: Path) -> None:
    path = leave(run, Verb.STOP, ME, NOW)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert list(take(run, me=ME)) == []
    assert (tmp_path / "elsewhere").exists()


def test_a_request_that_is_just_being_written_is_left_alone(run: Run) -> None:
    path = leave(run, Verb.STOP, ME, NOW)
    path.rename(path.with_name(f"{path.name}.1234abcd.tmp"))
    assert list(take(run, me=ME)) == []
    assert len(os.listdir(run.path / "requests")) == 1


def test_requests_that_cannot_be_read_are_told_and_raise_nothing(run: Run) -> None:
    (run.path / "requests").write_text("a file where the directory should be")
    notes: list[str] = []
    assert list(take(run, notes.append)) == []
    assert len(notes) == 1
    assert "cannot read" in notes[0]


def test_a_process_has_one_name_and_shares_it_with_none(run: Run) -> None:
    code = "import os\nfrom watcher.record.requests import process_name\nprint(process_name(os.getpid()))"
    names = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert len({*names, process_name(os.getpid())}) == 3
    assert process_name(os.getpid()) == process_name(os.getpid())
    assert process_name(2**22 + 1) == ""


# --- the verbs, on a real harness ---------------------------------------------------------------


def requests_of(watcher: Watcher) -> list[str]:
    place = watcher.run / "requests"
    return os.listdir(place) if place.exists() else []


def test_stop_ends_the_agent_and_leaves_the_run_to_be_taken_up(stage: Stage, say: Say) -> None:
    with watching(stage, COMMIT, {"hang_before": 60}, DONE, watch={"pause_s": 0}) as watcher:
        watcher.until(lambda: len(stage.calls()) == 2)
        said = say("stop", *of(stage))
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith(f"asked process {watcher.process.pid} to stop: ")
        assert watcher.process.wait(60) == 143
        assert not agent_lives(stage, stage.calls()[1]["pid"])
        assert stage.remote_tip() == stage.tip()
        assert requests_of(watcher) == []
        assert not (watcher.run / "ending.json").exists()
    played = stage.again()
    assert played.exit_code == 0
    assert played.run == watcher.run


def test_drain_lets_the_poke_finish_however_often_it_is_asked(stage: Stage, say: Say) -> None:
    slow = {**COMMIT, "git": [["--version"]], "hang_before": 3}
    with watching(stage, slow, DONE) as watcher:
        watcher.until_the_agent_works()
        for _ in range(3):
            assert say("drain", *of(stage)).code == 0
        assert watcher.process.wait(60) == 130
        history = json_lines(watcher.run / "history.jsonl")
        assert [(line["outcome"], line["ended"]) for line in history] == [("progress", "itself")]
        assert stage.remote_tip() == stage.tip()


def test_stop_after_drain_is_now(stage: Stage, say: Say) -> None:
    with watching(stage, {"hang_before": 60}) as watcher:
        watcher.until_the_agent_works()
        assert say("drain", *of(stage)).code == 0
        assert say("stop", *of(stage)).code == 0
        assert watcher.process.wait(60) == 143


def test_drain_ends_a_wait_at_once(stage: Stage, say: Say) -> None:
    with watching(stage, limit(7200)) as watcher:
        watcher.until_it_waits()
        assert say("drain", *of(stage)).code == 0
        assert watcher.process.wait(60) == 130


def test_wake_ends_a_wait(stage: Stage, say: Say) -> None:
    with watching(stage, limit(7200), DONE) as watcher:
        watcher.until_it_waits()
        assert say("wake", *of(stage)).code == 0
        assert watcher.process.wait(60) == 0
        assert [line["outcome"] for line in json_lines(watcher.run / "history.jsonl")] == [
            "limit",
            "sentinel",
        ]


def test_a_wake_while_the_agent_works_does_not_shorten_the_wait_that_comes(stage: Stage, say: Say) -> None:
    with watching(stage, limit(7200, hang_before=2), DONE) as watcher:
        watcher.until_the_agent_works()
        assert say("wake", *of(stage)).code == 0
        watcher.until_it_waits()
        watcher.until(lambda: requests_of(watcher) == [])
        watcher.until(
            lambda: any("waiting" in line["event"] for line in json_lines(watcher.run / "watcher.log"))
        )
        assert say("status", *of(stage)).row("now").startswith("waiting, usage limit")
        assert len(stage.calls()) == 1
        assert watcher.process.poll() is None


def test_reload_in_a_wait_is_no_wake_and_no_stop(stage: Stage, say: Say) -> None:
    with watching(stage, limit(7200), DONE) as watcher:
        watcher.until_it_waits()
        log = watcher.run / "watcher.log"
        for number in (1, 2):
            assert say("reload", *of(stage)).code == 0
            watcher.until(partial(reloaded, log, number))
        assert watcher.process.poll() is None
        assert len(stage.calls()) == 1
        assert say("status", *of(stage)).row("now").startswith("waiting, usage limit")


def test_a_request_that_was_taken_with_another_one_is_no_wake(
    stage: Stage, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave_and_have_it_taken(run: Run, verb: Verb, meant_for: str, now: datetime) -> Path:
        path = leave(run, verb, meant_for, now)
        path.unlink()
        return path

    with watching(stage, limit(7200), DONE) as watcher:
        watcher.until_it_waits()
        with monkeypatch.context() as patched:
            patched.setattr(requests, "leave", leave_and_have_it_taken)
            assert say("reload", *of(stage)).code == 0
        assert say("reload", *of(stage)).code == 0
        watcher.until(partial(reloaded, watcher.run / "watcher.log", 1))
        assert watcher.process.poll() is None
        assert len(stage.calls()) == 1


def test_a_mistake_in_the_configuration_does_not_keep_a_shift_from_being_stopped(
    stage: Stage, say: Say
) -> None:
    with watching(stage, {"hang_before": 60}) as watcher:
        watcher.until_the_agent_works()
        config = stage.root / "harness.toml"
        config.write_text("surprise = 1\n" + config.read_text())
        said = say("stop", *of(stage))
        assert said.code == 0
        assert "surprise" in said.err
        assert watcher.process.wait(60) == 143


def test_a_request_that_a_killed_harness_never_saw_does_not_stop_the_next(stage: Stage, say: Say) -> None:
    with watching(stage, {"hang_before": 60}) as watcher:
        watcher.until_the_agent_works()
        watcher.process.send_signal(signal.SIGSTOP)
        assert say("stop", *of(stage)).code == 0
        assert len(requests_of(watcher)) == 1
    with watching(stage, limit(7200), DONE) as watcher:
        watcher.until_it_waits()
        assert say("wake", *of(stage)).code == 0
        assert watcher.process.wait(60) == 0
        log = json_lines(watcher.run / "watcher.log")
        assert any("a request to stop was dropped" in line["event"] for line in log)
        assert requests_of(watcher) == []


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_asking_nobody_is_exit_1(stage: Stage, say: Say, verb: str) -> None:
    played = stage.watch(DONE)
    said = say(verb, *of(stage))
    assert (said.code, said.out) == (1, "")
    assert said.err == f"harness: no harness is working on {stage.project}, so there is nothing to ask.\n"
    assert not (played.run / "requests").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_asking_of_a_project_that_is_not_there_is_a_configuration_error(
    say: Say, tmp_path: Path, verb: str
) -> None:
    assert say(verb, tmp_path / "nowhere").code == 78
    assert say(verb, "").code == 64


def test_a_process_that_does_not_listen_is_never_signalled(
    stage: Stage, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.watch(DONE)
    monkeypatch.setattr(live, "STARTING_S", 0.2)  # there is nothing to wait for
    with held(stage.project, stage.state) as pid:
        said = say("stop", *of(stage))
        assert said.code == 78
        assert f"process {pid} holds {stage.project} but works on no run" in said.err
        os.kill(pid, 0)


def test_a_process_that_would_die_of_the_signal_is_not_sent_it(
    stage: Stage, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = stage.watch(DONE)
    monkeypatch.setattr(live, "STARTING_S", 0.2)
    with held(stage.project, stage.state, played.run / "history.jsonl") as pid:
        assert say("status", *of(stage)).row("running").startswith(f"yes, process {pid}")
        assert say("wake", *of(stage)).code == 78
        assert not (played.run / "requests").exists()
        os.kill(pid, 0)


def test_a_state_directory_that_others_can_open_proves_nothing(stage: Stage, say: Say) -> None:
    stage.watch(DONE)
    [home] = [path for path in stage.state.iterdir() if path.name.startswith("project-")]
    with held(stage.project, stage.state):
        home.chmod(0o755)
        said = say("stop", *of(stage))
        home.chmod(0o700)
    assert said.code == 78
    assert f"chmod 0700 {home}" in said.err


def test_a_harness_with_its_records_elsewhere_is_told_apart(stage: Stage, say: Say) -> None:
    stage.config()
    with held(stage.project, stage.root / "other-state") as pid:
        for verb in ("stop", "status"):
            said = say(verb, *of(stage))
            assert said.code == 78
            assert "--config" in said.out + said.err
            assert f"process {pid}" in said.out + said.err


def test_a_refused_request_is_taken_back(stage: Stage, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    with watching(stage, {"hang_before": 60}) as watcher:
        watcher.until_the_agent_works()

        def ends_meanwhile(run: Run, verb: Verb, meant_for: str, now: datetime) -> Path:
            path = leave(run, verb, meant_for, now)
            watcher.process.kill()
            watcher.process.wait()
            return path

        monkeypatch.setattr(requests, "leave", ends_meanwhile)
        assert say("stop", *of(stage)).code == 1
        assert requests_of(watcher) == []


def test_a_start_that_is_just_begun_is_waited_for(stage: Stage, say: Say) -> None:
    with watching(stage, {"hang_before": 60}) as watcher:
        wait_for(lambda: live.live(home_of(stage)))  # it holds the lock, and may not have a run yet
        assert say("stop", *of(stage)).code == 0
        assert watcher.process.wait(60) == 143


def reloaded(log: Path, times: int) -> bool:
    return sum("reloaded" in line["event"] for line in json_lines(log)) == times


def home_of(stage: Stage) -> Home:
    return Home.for_project(stage.project, stage.state, stage.root / "work")
