"""The watch loop whole: real git, a real remote, a real process for an agent, a clock that jumps."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import Stage
from watcher.prepare import Refused
from watcher.signals import Inbox, Stop

TASKS = """\
| Status | ID    | Title |
|--------|-------|-------|
| open   | T-101 | First |

### T-101: First

- **Status:** open
- **Mode:** Loop
- **Deps:** none
"""
DONE = {"say": "ALL-TASKS-DONE"}


def commit(name: str, **more: object) -> dict[str, object]:
    return {"write": {name: name}, "commit": f"Add {name}", "say": "worked", **more}


def test_a_commit_is_published_and_the_sentinel_ends_the_run(stage: Stage) -> None:
    played = stage.watch(commit("a.txt"), DONE)
    assert (played.exit_code, played.outcomes) == (0, ["progress", "sentinel"])
    assert stage.remote_tip() == stage.tip()
    assert json.loads((played.run / "ending.json").read_text())["ending"] == "done"


def test_a_commit_in_the_last_poke_is_published_before_the_end(stage: Stage) -> None:
    played = stage.watch(commit("a.txt", say="ALL-TASKS-DONE"))
    assert played.exit_code == 0
    assert stage.remote_tip() == stage.tip()


def test_done_work_that_the_remote_does_not_hold_is_exit_4(stage: Stage) -> None:
    (stage.remote / "hooks" / "pre-receive").write_text("#!/bin/sh\necho no pushes today >&2\nexit 1\n")
    (stage.remote / "hooks" / "pre-receive").chmod(0o755)
    played = stage.watch(commit("a.txt"), DONE)
    assert played.exit_code == 4
    assert played.logged("no pushes today")


def test_without_a_remote_publishing_is_off_and_done_is_done(stage: Stage) -> None:
    stage.git("remote", "remove", "origin")
    played = stage.watch(commit("a.txt"), DONE, publish={"remote": ""})
    assert played.exit_code == 0
    assert played.logged("publishing is off")


def test_a_failed_publication_is_tried_again_and_never_ends_the_run(stage: Stage) -> None:
    away = stage.root / "away.git"
    stage.remote.rename(away)
    played = stage.watch(commit("a.txt"), {"git": [["--git-dir=/", "--version"]], "say": "idle"}, DONE)
    assert played.exit_code == 4
    away.rename(stage.remote)
    assert stage.again().exit_code == 0
    assert stage.remote_tip() == stage.tip()


def test_a_limit_waits_and_begins_a_fresh_session(stage: Stage) -> None:
    limit = {
        "rate_limit": {"status": "rejected", "resetsAt": 0},
        "say": "You've hit your 5-hour limit",
        "is_error": True,
    }
    limit["rate_limit"]["resetsAt"] = int(stage.clock.now().timestamp()) + 7200  # type: ignore[index]
    played = stage.watch(commit("a.txt"), limit | {"exit": 1}, DONE)
    assert played.waits[1] == pytest.approx(7320, abs=5)
    used = [line["session_id"] for line in played.history]
    assert used[0] == used[1] != used[2]


def test_the_session_is_chosen_before_the_first_poke_and_resumed_afterwards(stage: Stage) -> None:
    played = stage.watch(commit("a.txt"), DONE)
    first, second = (call["argv"] for call in stage.calls())
    chosen = first[first.index("--session-id") + 1]
    assert second[second.index("--resume") + 1] == chosen == played.history[0]["session_id"]


def test_a_false_claim_is_no_end(stage: Stage) -> None:
    (stage.project / "docs").mkdir()
    (stage.project / "docs" / "tasks.md").write_text(TASKS)
    played = stage.watch(DONE)
    assert (played.exit_code, played.outcomes) == (2, ["no_change"] * 3)
    assert "T-101" in played.history[0]["because"]


def test_leftovers_are_ended_and_named(stage: Stage) -> None:
    played = stage.watch({"orphan": {"seconds": 600, "setsid": True, "double_fork": True}, **DONE})
    assert played.exit_code == 0
    assert played.logged("processes the agent left were ended")


def test_a_poke_at_its_deadline_is_ended_and_its_session_goes_on(stage: Stage) -> None:
    played = stage.watch({"hang": 600, "no_result": True, "ignore": []}, DONE, watch={"poke_timeout_s": 1})
    assert played.outcomes == ["timed_out", "sentinel"]
    assert stage.calls()[1]["argv"].count("--resume") == 1


def test_the_history_holds_the_whole_exchange(stage: Stage) -> None:
    played = stage.watch(commit("a.txt"), DONE)
    line = played.history[0]
    assert (played.run / "pokes" / line["prompt"]).read_text().strip().startswith("The only source of work")
    assert (played.run / "pokes" / line["out"]).stat().st_size == line["out_bytes"]
    assert line["result"]["subtype"] == "success"


def test_a_drain_lets_the_poke_finish_and_the_next_start_goes_on(stage: Stage) -> None:
    inbox = Inbox()
    inbox.post(signal.SIGINT)
    first = stage.watch(commit("a.txt"), DONE, inbox=inbox)
    assert (first.exit_code, first.outcomes) == (130, [])
    second = stage.again()
    assert (second.exit_code, second.run) == (0, first.run)


def test_a_restart_in_the_middle_of_a_wait_waits_for_the_same_instant(stage: Stage) -> None:
    class Stopping(Inbox):
        """Asks for a stop as soon as the shift sleeps a whole slice."""

        def read(self) -> None:
            if stage.clock.slept and stage.clock.slept[-1] == 20:
                self.post(signal.SIGTERM)
            super().read()

    limit = {"say": "You've hit your limit", "is_error": True, "exit": 1}
    first = stage.watch(limit, DONE, inbox=Stopping())
    assert first.exit_code == 143
    until = first.history[0]["wait_until"]
    stage.clock.slept.clear()
    second = stage.again()
    assert second.exit_code == 0
    assert second.history[1]["started_at"] >= until
    assert sum(stage.clock.slept) < 3600


def test_the_work_of_a_killed_harness_is_taken_up(stage: Stage) -> None:
    """The checkpoint says a poke is in flight; the agent finished it meanwhile."""
    inbox = Inbox()
    inbox.post(signal.SIGINT)
    run = stage.watch(commit("a.txt"), DONE, inbox=inbox).run
    if (pid := os.fork()) == 0:
        try:
            _die_before_the_decision(stage)
        finally:
            os._exit(9)
    os.waitpid(pid, 0)
    assert not (run / "history.jsonl").read_text()
    played = stage.again()
    assert (played.exit_code, played.outcomes) == (0, ["progress", "sentinel"])
    assert stage.remote_tip() == stage.tip()


def _die_before_the_decision(stage: Stage) -> None:
    from watcher.record.journal import Journal

    Journal.record = lambda *_: os._exit(9)  # type: ignore[method-assign,assignment,misc]
    stage.again()


def test_nothing_of_the_harness_lies_in_the_project(stage: Stage) -> None:
    stage.watch(commit("a.txt"), DONE)
    assert {path.name for path in Path(stage.project).iterdir()} == {".git", "README.md", "a.txt"}


def test_a_poke_may_spend_only_what_the_cap_leaves(stage: Stage) -> None:
    played = stage.watch(commit("a.txt", cost=0.75), commit("b.txt", cost=0.5), DONE, watch={"cap_usd": 1.0})
    budgets = [float(call["argv"][call["argv"].index("--max-budget-usd") + 1]) for call in stage.calls()]
    assert budgets == pytest.approx([1.0, 0.25])
    assert (played.exit_code, len(played.history)) == (3, 2)


def test_a_stop_in_a_wait_leaves_the_wait_and_the_account_alone(stage: Stage) -> None:
    class Stopping(Inbox):
        def read(self) -> None:
            if stage.clock.slept and stage.clock.slept[-1] == 20:
                self.post(signal.SIGTERM)
            super().read()

    limit = {"say": "You've hit your limit", "is_error": True, "exit": 1}
    first = stage.watch(limit, DONE, inbox=Stopping())
    kept = json.loads(json.loads((first.run / "checkpoint.json").read_text())["body"])
    assert kept["state"]["wait"]["pause"] == "usage limit"
    gates = list((stage.state / "accounts").glob("*.json"))
    assert json.loads(gates[0].read_text())["probe_at"] is None


def test_a_back_off_is_a_length_whatever_happens_to_the_clock(stage: Stage) -> None:
    class Jumping(type(stage.clock)):  # type: ignore[misc]
        """Set back by an hour in the first long slice."""

        def sleep(self, seconds: float, bell: object) -> None:
            super().sleep(seconds, bell)
            if seconds == 20 and self.slept.count(20) == 1:
                self.time -= timedelta(hours=1)

    stage.clock = Jumping(stage.clock.time)
    overloaded = {"say": "API Error: 529 Overloaded.", "is_error": True, "exit": 1}
    played = stage.watch(overloaded, DONE)
    assert played.exit_code == 0
    assert sum(stage.clock.slept) == pytest.approx(30, abs=3)


def test_asking_twice_for_the_same_stop_is_no_kill() -> None:
    inbox = Inbox()
    inbox.ask(Stop.NOW, 143)
    assert inbox.stop_now()
    inbox.ask(Stop.NOW, 143)  # harness stop, once more; or a wake-up for something else
    assert not inbox.stop_now()
    inbox.post(signal.SIGTERM)  # somebody insists
    assert inbox.stop_now()


def test_a_list_that_cannot_be_held_against_a_claim_is_said(stage: Stage) -> None:
    assert stage.watch(DONE).logged("there is no task list at docs/TASKS.md")
    (stage.project / "docs").mkdir()
    (stage.project / "docs" / "tasks.md").write_text(TASKS.replace("Status:** open", "Status:** opne"))
    assert stage.watch(DONE).logged("T-101 has the status 'opne'")


def test_a_branch_that_does_not_exist_is_refused(stage: Stage) -> None:
    with pytest.raises(Refused, match=r"no branch nowhere .* There are: main"):
        stage.watch(DONE, publish={"branch": "nowhere"})


def test_what_a_failing_agent_said_is_in_the_log(stage: Stage) -> None:
    failing = {"stdout": "", "stderr": "Error: something is badly broken in here\n", "exit": 1}
    played = stage.watch(failing, DONE)
    (line,) = played.logged("something is badly broken in here")
    assert line["level"] == "warning"
