"""What is said to systemd, heard on a real socket; and that the unit and the code mean the same."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import ROOT, Stage
from watcher.cli import COMMANDS
from watcher.config.schema import Publish
from watcher.decision.endings import WATCH, Exit
from watcher.decision.state import Pause, Wait
from watcher.effect.git import Repository
from watcher.effect.systemd import LONGEST_STATUS, Systemd, waiting, working
from watcher.effect.wait import SLICE_S
from watcher.process import Ladder

NOW = datetime(2026, 3, 14, 22, 0, tzinfo=UTC)


class Manager:
    """The service manager's end of the socket: keeps every message."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        while message := self._socket.recv(4096):
            self.heard.append(message.decode())

    def messages(self) -> list[str]:
        """All of them, once nobody sends any more."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._listener.join(10)
        assert not self._listener.is_alive()
        self._socket.close()
        return self.heard

    def environ(self, **more: str) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.address, **more}


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    return Manager(str(tmp_path / "notify"))


def test_a_shift_tells_when_it_is_ready_what_it_does_and_when_it_stops(
    stage: Stage, manager: Manager
) -> None:
    stage.record({"write": {"a.txt": "a"}, "commit": "Add a", "say": "worked"}, {"say": "ALL-TASKS-DONE"})
    argv = [sys.executable, "-m", "watcher", "watch", str(stage.project), "--config", str(stage.config())]
    environ = {**stage.environ(), **manager.environ(), "PYTHONPATH": str(ROOT)}
    subprocess.run(argv, env=environ, cwd=stage.root, stdin=subprocess.DEVNULL, check=True, timeout=60)
    said = manager.messages()
    order = [
        "READY=1",
        "STATUS=poke 1, the agent",
        "STATUS=poke 1, pausing until",
        "STATUS=poke 2, the agent",
    ]
    order += ["STOPPING=1", "STATUS=ended after poke 2: done"]
    assert [message for message in said if message.startswith(tuple(order))] == [
        next(message for message in said if message.startswith(words)) for words in order
    ]
    assert "WATCHDOG=1" not in said  # nobody asked for it
    announced = [int(message.removeprefix("EXTEND_TIMEOUT_USEC=")) for message in said if "EXTEND" in message]
    assert announced
    assert all(usec > 3 * Publish().timeout_s * 1e6 for usec in announced)


def test_a_reload_is_announced_with_its_time(manager: Manager) -> None:
    systemd = Systemd(manager.environ())
    systemd.reloading()
    systemd.ready()
    reloading, ready = manager.messages()
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)
    assert ready == "READY=1"


def test_a_manager_at_an_abstract_address_hears_too() -> None:
    manager = Manager(f"@harness-test-{os.getpid()}")
    Systemd(manager.environ()).stopping()
    assert manager.messages() == ["STOPPING=1"]


@pytest.mark.parametrize("text", ["a\nSTOPPING=1", "a\rb", "a\0b", "\x1b[2J", "\udc80"], ids=ascii)
def test_a_status_is_one_line_whatever_it_quotes(manager: Manager, text: str) -> None:
    Systemd(manager.environ()).status(text)
    (message,) = manager.messages()
    assert message.startswith("STATUS=")
    assert message.isprintable()


def test_a_status_is_bounded_and_not_repeated(manager: Manager) -> None:
    systemd = Systemd(manager.environ())
    for _ in range(3):
        systemd.status("x" * 10_000)
    assert manager.messages() == ["STATUS=" + "x" * LONGEST_STATUS]


def test_the_watchdog_gets_few_messages_however_fast_the_loop_turns(manager: Manager) -> None:
    systemd = Systemd(manager.environ(WATCHDOG_USEC="600000000", WATCHDOG_PID=str(os.getpid())))
    for _ in range(1000):
        systemd.beat()
    assert manager.messages() == ["WATCHDOG=1"]


def test_the_loop_wakes_twice_in_a_period_of_the_watchdog(manager: Manager) -> None:
    assert Systemd(manager.environ(WATCHDOG_USEC="3000000")).beat_s == 1.5
    manager.messages()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "me"},
    ],
    ids=["none", "our parent's", "no number", "off", "no pid"],
)
def test_a_watchdog_that_is_not_ours_is_not_fed(manager: Manager, variables: dict[str, str]) -> None:
    systemd = Systemd(manager.environ(**variables))
    systemd.beat()
    assert manager.messages() == []
    assert systemd.beat_s > SLICE_S


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}], ids=["none", "gone"])
def test_without_a_manager_nothing_happens(environ: dict[str, str]) -> None:
    systemd = Systemd({**environ, "WATCHDOG_USEC": "1"})
    systemd.ready()
    systemd.status("working")
    systemd.allow(1)
    systemd.stopping()


@pytest.mark.parametrize("pause", Pause, ids=lambda pause: pause.name)
def test_the_status_of_every_wait_says_until_when(pause: Pause) -> None:
    text = waiting(14, Wait(until=NOW + timedelta(minutes=90), pause=pause, why=""), NOW)
    assert re.fullmatch(r"poke 14, [a-z', ]+ until 23:30 UTC", text)


@pytest.mark.parametrize(
    ("ahead", "until"),
    [
        (timedelta(minutes=62), "until 23:02 UTC"),
        (timedelta(hours=5, minutes=2), "until 2026-03-15 03:02 UTC"),
        (timedelta(days=7), "until 2026-03-21 22:00 UTC"),
    ],
    ids=str,
)
def test_a_day_is_named_unless_it_is_today(ahead: timedelta, until: str) -> None:
    wait = Wait(until=NOW + ahead, pause=Pause.LIMIT, why="")
    assert waiting(14, wait, NOW) == f"poke 14, waiting for reset {until}"


def test_the_status_of_a_poke_says_since_when() -> None:
    assert working(3, NOW) == "poke 3, the agent is working since 22:00 UTC"


def test_a_manager_that_does_not_listen_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """Its queue is full: what does not fit is dropped."""
    address = str(tmp_path / "notify")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as deaf:
        deaf.bind(address)
        stuff(address)
        sender = threading.Thread(target=Systemd({"NOTIFY_SOCKET": address}).stopping, daemon=True)
        sender.start()
        sender.join(30)
        assert not sender.is_alive()


def stuff(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.sendto(b"x", address)


# --- the unit -----------------------------------------------------------------------------------


def settings(unit: str, key: str) -> Sequence[str]:
    """The words of every line that sets this key."""
    lines = (ROOT / "systemd" / unit).read_text().splitlines()
    return [word for line in lines if line.startswith(f"{key}=") for word in line.partition("=")[2].split()]


def seconds(text: str) -> float:
    units = {"min": 60, "h": 3600, "s": 1, "": 1}
    number = re.match(r"\d+", text)
    assert number
    return int(number[0]) * units[text[number.end() :]]


WATCH_UNIT = "harness@.service"
ENDINGS = {kind.exit_code for kind in WATCH.values()} - {0}


def test_the_unit_restarts_no_ending_and_no_refusal() -> None:
    prevented = set(map(int, settings(WATCH_UNIT, "RestartPreventExitStatus")))
    assert prevented == ENDINGS | {Exit.USAGE, Exit.HELD, Exit.CONFIG}


def test_the_unit_takes_a_stop_that_was_asked_for_as_success() -> None:
    assert set(map(int, settings(WATCH_UNIT, "SuccessExitStatus"))) == {Exit.INTERRUPT, Exit.TERMINATED}


def test_the_unit_knows_every_exit_code_there_is() -> None:
    """Left to Restart=on-failure is the bug alone; HANGUP needs a terminal, which no unit has."""
    told = {*settings(WATCH_UNIT, "RestartPreventExitStatus"), *settings(WATCH_UNIT, "SuccessExitStatus")}
    assert {int(code) for code in told} == (ENDINGS | set(Exit)) - {Exit.BUG, Exit.HANGUP}
    assert settings(WATCH_UNIT, "Restart") == ["on-failure"]


def test_the_unit_waits_longer_for_a_stop_than_the_ladder_and_a_publication_take() -> None:
    ladder = Ladder()
    longest = ladder.int_s + ladder.term_s + ladder.kill_s + Publish().timeout_s
    assert seconds(*settings(WATCH_UNIT, "TimeoutStopSec")) > longest


def test_the_units_watchdog_outlasts_all_that_is_done_unannounced() -> None:
    git_s = Repository(path=ROOT, account=None, env={}).timeout_s
    assert seconds(*settings(WATCH_UNIT, "WatchdogSec")) > 2 * (git_s + SLICE_S)


@pytest.mark.parametrize("key", ["ExecStart", "ExecReload"])
def test_the_unit_calls_commands_that_exist(key: str) -> None:
    program, command, instance = settings(WATCH_UNIT, key)
    assert (program, instance) == ("/usr/local/bin/harness", "%i")
    assert command in COMMANDS
