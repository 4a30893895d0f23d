"""The unit, under a real systemd: started, watched, stopped, killed, restarted, powered off and booted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.system.box_machine import AGENT_UID, UNIT, Machine, eventually, why_not
from tests.system.box_project import DONE, HANG, STRAY, Act, Project, commit, limit
from tests.system.conftest import FAILED

pytestmark = pytest.mark.systemd

Make = Callable[..., Project]


@pytest.fixture(scope="session")
def able() -> None:
    """Skips where no box can be booted; fails there where CI says it must be."""
    if reason := why_not():
        if os.environ.get("HARNESS_CI") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def machine(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for all tests of this file; each has a unit of its own on it."""
    with booted(Machine.install(tmp_path_factory.mktemp("machine"), f"harness-{os.getpid()}")) as machine:
        yield machine


@contextmanager
def booted(machine: Machine) -> Iterator[Machine]:
    try:
        machine.boot()
        yield machine
    finally:
        machine.power_off()


@pytest.fixture
def make(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes projects on the machine; their units are stopped afterwards, and tell why a test failed."""
    made: list[Project] = []

    def project(*acts: Act, **sections: Mapping[str, Any]) -> Project:
        name = f"p{len(list((machine.disk / 'etc').iterdir()))}"
        made.append(Project.make(machine, name, *acts, **sections))
        return made[-1]

    yield project
    for one in made:
        if request.node.stash.get(FAILED, False):
            print(machine.journal(one.unit, "-o", "short-precise"))
        machine.run("systemctl", "stop", one.unit, check=False)


# --- the unit itself ----------------------------------------------------------------------------


def test_the_unit_is_clean(machine: Machine) -> None:
    assert machine.run("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT.name}") == ""


def test_a_start_returns_once_the_project_is_locked_and_the_checks_passed(make: Make) -> None:
    project = make(HANG)
    project.start()
    assert project.show("ActiveState", "SubState", "NotifyAccess") == ("active", "running", "main")
    begun = project.machine.journal(project.unit, "-o", "cat")
    assert '"event":"watch begins"' in begun
    held = project.harness("watch", check=False)
    assert "two agents never work one tree" in held


def test_the_status_says_what_is_going_on(make: Make) -> None:
    project = make(commit("a.txt"), limit(3600), HANG)
    project.start()
    project.until_status("poke 2, waiting for reset until")
    until = datetime.fromisoformat(project.history[1]["wait_until"]).astimezone(UTC)
    assert project.status().endswith(f"{until:%H:%M} UTC")
    project.signal("USR1")
    project.until_status("poke 3, the agent is working since")
    project.stop()
    assert project.status().startswith("stopped after poke 3")


def test_a_name_is_not_taken_for_a_directory_of_the_place_it_is_started_in(machine: Machine) -> None:
    """`srv` is a directory of /, where a unit starts unless told otherwise."""
    project = Project.make(machine, "srv", DONE)
    project.start()
    project.until_over()
    assert project.show("Result", "ExecMainStatus") == ("success", "0")
    assert project.outcomes == ["sentinel"]


def test_the_state_is_private_and_the_work_directory_can_be_passed_through(make: Make) -> None:
    project = make(HANG)
    project.start()
    modes = project.machine.run("stat", "-c", "%a %U", "/var/lib/harness", "/var/lib/harness-work")
    assert modes.splitlines() == ["700 root", "711 root"]


def test_the_journal_holds_a_json_line_a_step(make: Make) -> None:
    project = make(commit("a.txt"), DONE)
    project.start()
    project.until_over()
    entries = [json.loads(line) for line in project.machine.journal(project.unit, "-o", "json").splitlines()]
    ours = [json.loads(entry["MESSAGE"]) for entry in entries if entry["MESSAGE"].startswith("{")]
    assert ours == project.log
    assert all(line.keys() >= {"at", "level", "event"} for line in ours)
    poke = next(line for line in ours if line["event"] == "poke 1: progress")
    assert poke.keys() >= {"because", "next", "session", "said", "exit", "is_error"}
    assert ours[-1]["event"] == "ended: done"


# --- what the unit lets the agent do ------------------------------------------------------------


def shell(script: str) -> Act:
    """The agent runs a shell script, in the project."""
    return {"git": [["-c", f"alias.x=!{script}", "x"]], **DONE}


def test_the_agent_runs_as_its_own_user_and_can_become_nobody_else(make: Make) -> None:
    project = make(
        shell("cat /proc/self/status > ../seen; ls -d /proc/[0-9]* > ../listed; touch /etc/x /usr/x || true")
    )
    project.start()
    project.until_over()
    (call,) = project.calls
    assert (call["uid"], call["gid"], call["groups"]) == (AGENT_UID, AGENT_UID, [AGENT_UID])
    facts = dict(line.split(":", 1) for line in (project.place / "seen").read_text().splitlines())
    assert facts["NoNewPrivs"].strip() == "1"
    assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0
    assert "/proc/1\n" not in (project.place / "listed").read_text()
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC"} & set(call["env_names"])
    assert project.show("Result", "ExecMainStatus") == ("success", "0")


def test_without_an_agent_user_the_agent_is_root_and_works_all_the_same(make: Make) -> None:
    project = make({**commit("a.txt"), **DONE}, agent={"user": ""})
    project.own(0)
    project.start()
    project.until_over()
    assert project.show("Result", "ExecMainStatus") == ("success", "0")
    (call,) = project.calls
    assert (call["uid"], call["env"]["HOME"]) == (0, "/root")
    assert project.logged("the agent runs as the harness's own user")


def test_the_agent_cannot_speak_for_the_harness(make: Make) -> None:
    project = make({**shell("python3 ../forge.py"), **HANG})
    (project.place / "forge.py").write_text(
        "import socket\n"
        "manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "manager.sendto(b'STATUS=forged\\nSTOPPING=1', '/run/systemd/notify')\n"
    )
    project.start()
    eventually(
        lambda: "reception only permitted for main PID" in project.machine.journal(project.unit), "refused"
    )
    assert project.show("ActiveState", "SubState") == ("active", "running")
    assert "forged" not in project.status()


# --- endings ------------------------------------------------------------------------------------

IDLE: Act = {"say": "hm"}
FAIL: Act = {"subtype": "error_during_execution", "is_error": True, "exit": 1}

ENDINGS: Mapping[str, tuple[int, Act, Mapping[str, Mapping[str, Any]]]] = {
    "done": (0, DONE, {}),
    "unusable agent": (1, FAIL, {"retries": {"error_limit": 1}}),
    "agent program missing": (1, DONE, {"agent": {"command": ["/nowhere/agent"]}}),
    "stall": (2, IDLE, {"watch": {"stall_limit": 1}}),
    "ceiling": (3, commit("a.txt"), {"watch": {"poke_limit": 1}}),
    "not on the remote": (4, {**commit("a.txt"), **DONE}, {"publish": {"remote": "/srv/nowhere.git"}}),
    "configuration": (78, DONE, {"watch": {"stall_limit": 0}}),
}


@pytest.mark.parametrize(("code", "act", "sections"), ENDINGS.values(), ids=ENDINGS.keys())
def test_an_ending_is_not_restarted(
    make: Make, code: int, act: Act, sections: Mapping[str, Mapping[str, Any]]
) -> None:
    project = make(act, **sections)
    project.machine.run("systemctl", "daemon-reload")
    project.machine.try_run("systemctl", "start", project.unit)  # a refusal comes before "started"
    project.until_over()
    result = "success" if code == 0 else "exit-code"
    assert project.show("Result", "ExecMainStatus", "NRestarts") == (result, str(code), "0")


def test_a_name_that_cannot_be_one_is_not_restarted(machine: Machine) -> None:
    project = Project(machine=machine, name="a:b")
    project.fail_to_start()
    assert project.show("ActiveState", "ExecMainStatus", "NRestarts") == ("failed", "64", "0")


def test_a_project_held_by_another_harness_is_not_restarted(make: Make) -> None:
    project, second = make(HANG), make(HANG)
    second.configure()
    (project.machine.disk / "etc" / f"{second.name}.toml").write_text(
        (project.machine.disk / "etc" / f"{project.name}.toml").read_text()
    )
    project.start()
    second.fail_to_start()
    assert second.show("ActiveState", "ExecMainStatus", "NRestarts") == ("failed", "75", "0")
    assert project.show("ActiveState")[0] == "active"


def test_a_bug_is_restarted_until_the_start_limit(make: Make) -> None:
    """A dependency that cannot be imported, as after half an upgrade."""
    project = make(DONE)
    broken = project.place / "broken"
    broken.mkdir()
    (broken / "orjson.py").write_text("raise ImportError('half an upgrade')\n")
    project.drop_in(f"Environment=PYTHONPATH=/srv/{project.name}/broken")
    project.fail_to_start()
    project.until_over()
    assert project.show("ExecMainStatus", "NRestarts") == ("70", "10")
    assert "half an upgrade" in project.machine.journal(project.unit)
    project.fail_to_start()
    shutil.rmtree(broken)
    project.machine.run("systemctl", "reset-failed", project.unit)
    project.start()
    project.until_over()
    assert project.show("Result", "ExecMainStatus") == ("success", "0")


# --- stop, kill, reload -------------------------------------------------------------------------


def test_a_stop_in_mid_poke_ends_the_agent_and_all_it_left_and_the_next_start_resumes(make: Make) -> None:
    project = make({**commit("a.txt"), **STRAY, **HANG}, DONE)
    project.start()
    eventually(lambda: len(project.pids()) == 2, "the agent left a stray behind")
    assert len(project.running()) == 2
    project.stop()
    assert project.running() == []
    assert project.show("ActiveState", "Result", "ExecMainStatus") == ("inactive", "success", "143")
    assert "SIGKILL" not in project.machine.journal(project.unit)  # nothing was left for systemd to end
    assert project.outcomes == ["interrupted"]
    here, there = project.tips()
    assert here == there
    project.start()
    project.until_over()
    assert project.outcomes == ["interrupted", "sentinel"]
    chosen = project.calls[0]["argv"][project.calls[0]["argv"].index("--session-id") + 1]
    assert project.calls[1]["argv"][project.calls[1]["argv"].index("--resume") + 1] == chosen


def test_a_stop_in_mid_wait_goes_on_waiting_for_the_same_instant(make: Make) -> None:
    project = make(limit(3600), HANG)
    project.start()
    project.until_status("waiting for reset")
    before = project.status()
    project.stop()
    assert project.show("Result", "ExecMainStatus") == ("success", "143")
    project.start()
    project.until_status("waiting for reset")
    assert project.status() == before
    assert (project.outcomes, len(project.calls)) == (["limit"], 1)


def test_a_killed_harness_is_restarted_and_takes_up_the_poke(make: Make) -> None:
    project = make({**STRAY, **HANG}, DONE)
    project.start()
    eventually(lambda: len(project.pids()) == 2, "the agent left a stray behind")
    project.signal("KILL")
    project.until_over()
    assert project.show("Result", "ExecMainStatus", "NRestarts") == ("success", "0", "1")
    assert project.outcomes == ["interrupted", "sentinel"]
    assert project.logged("taking up a poke a crash left")
    assert project.running() == []


def test_the_verbs_reach_the_unit(make: Make) -> None:
    project = make({"hang_before": 2, **commit("a.txt")}, HANG)
    project.start()
    project.until_pokes(1)
    project.harness("drain")
    project.until_over()
    assert project.show("Result", "ExecMainStatus") == ("success", "130")
    assert project.outcomes == ["progress"]
    project.start()
    project.until_pokes(2)
    project.harness("stop")
    project.until_over()
    assert project.show("Result", "ExecMainStatus") == ("success", "143")
    assert project.outcomes == ["progress", "interrupted"]


@pytest.mark.parametrize("how", ["reload", "HUP"])
def test_a_reload_is_in_force_from_the_next_poke_on(make: Make, how: str) -> None:
    project = make(limit(3600), HANG)
    project.start()
    project.until_status("waiting for reset")
    before = project.status()
    project.configure(watch={"max_turns": 33})
    if how == "HUP":
        project.signal(how)
    else:
        project.machine.run("systemctl", "reload", project.unit)
    eventually(lambda: project.logged("the configuration was reloaded"), "reloaded")
    assert project.show("ActiveState", "SubState", "StatusText") == ("active", "running", before)
    project.harness("wake")
    project.until_pokes(2)
    argv = project.calls[1]["argv"]
    assert argv[argv.index("--max-turns") + 1] == "33"


def test_a_reload_of_a_broken_configuration_keeps_the_old_one(make: Make) -> None:
    project = make(limit(3600), HANG)
    project.start()
    project.until_status("waiting for reset")
    project.write_configuration("project = [\n")
    project.signal("HUP")
    eventually(lambda: project.logged("the configuration was not reloaded"), "refused")
    assert project.show("ActiveState", "SubState") == ("active", "running")


# --- the watchdog -------------------------------------------------------------------------------


def test_the_watchdog_ends_a_stopped_loop_and_no_long_wait_or_poke(make: Make) -> None:
    waits, pokes = make(limit(3600), HANG), make({**HANG, **STRAY}, DONE)
    for project in (waits, pokes):
        project.drop_in("WatchdogSec=4s")
        project.start()
    waits.until_status("waiting for reset")
    until = waits.status()
    asleep = waits.machine.run("sh", "-c", "sleep 10; echo awake", timeout=30)
    assert asleep == "awake"
    for project in (waits, pokes):
        assert project.show("ActiveState", "NRestarts") == ("active", "0")
        project.signal("STOP")
    for project in (waits, pokes):
        project.until_restarts(1)
        assert "Watchdog timeout" in project.machine.journal(project.unit)
    waits.until_status("waiting for reset")
    assert waits.status() == until
    assert "in wait_until" in waits.machine.journal(waits.unit)  # where the loop was, for the bug report
    pokes.until_over()
    assert pokes.outcomes == ["interrupted", "sentinel"]
    assert pokes.running() == []


def test_a_slow_publication_is_neither_a_hang_nor_cut_short_by_a_stop(make: Make) -> None:
    project = make(commit("a.txt"), {**commit("b.txt"), **STRAY, **HANG}, publish={"timeout_s": 20})
    hook = project.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nsleep 6\n")
    hook.chmod(0o755)
    project.drop_in("WatchdogSec=3s", "TimeoutStopSec=4s")
    project.start()
    eventually(lambda: len(project.pids()) == 3, "the second poke is at work")
    assert project.show("NRestarts")[0] == "0"
    assert project.logged("published")
    project.stop()
    assert project.show("Result", "ExecMainStatus") == ("success", "143")
    here, there = project.tips()
    assert here == there
    assert len(project.logged("published")) == 2


# --- power ----------------------------------------------------------------------------------------


def test_a_run_outlives_a_shutdown_in_mid_wait_and_a_power_cut_in_mid_poke(
    able: None, tmp_path: Path
) -> None:
    machine = Machine.install(tmp_path / "machine", f"harness-{os.getpid()}-power")
    project = Project.make(machine, "shop", limit(3600), HANG)
    with booted(machine):
        project.until_status("waiting for reset")
        before = project.status()
    assert project.log[-1]["event"].startswith("stopped")
    with booted(machine):
        project.until_status("waiting for reset")
        assert project.status() == before
        assert (project.outcomes, len(project.calls)) == (["limit"], 1)
        project.signal("USR1")
        project.until_pokes(2)
        machine.cut_power()
    assert project.outcomes == ["limit"]
    with booted(machine):
        project.until_status("waiting")  # the account is limited as before
        assert project.logged("taking up a poke a crash left")
        assert project.outcomes == ["limit", "interrupted"]
