"""Idle: a watcher that waits for a reset in ten hours (DESIGN 13)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench_measure import Failed
from bench_stage import Stage, result
from bench_table import Row

LONGEST_START_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the kernel has counted of one process so far."""

    at: float  # monotonic
    wakeups: int  # how often it went to sleep by itself
    cpu_s: float
    resident_mb: float
    share_mb: float  # pages that several processes share count in parts


class Idle:
    """A watcher in a wait beside a bare interpreter in one, from now until `rows`.

    They wait while the other parts are measured: neither disturbs the other.
    """

    def __init__(self, stage: Stage) -> None:
        info = {"status": "rejected", "resetsAt": int(time.time()) + 36_000, "rateLimitType": "five_hour"}
        limited = stage.answer(
            "limited.json",
            {"type": "rate_limit_event", "rate_limit_info": info},
            result("You've hit your session limit", is_error=True, api_error_status=429),
        )
        state, project = stage.new_state(), stage.root / "idle-project"  # one of its own: it is held
        stage.git("clone", "--quiet", str(stage.remote), str(project))
        argv = stage.watch(state, 0, {"BENCH_ANSWER": str(limited)}, project)
        self._watcher = _background(argv, stage)
        self._bare = _background([sys.executable, "-c", "import signal; signal.pause()"], stage)
        _until_it_waits(state)
        self._first = look(self._watcher.pid)

    def rows(self, at_least_s: float) -> list[Row]:
        """The figures, once so much time has passed; then both are ended."""
        time.sleep(max(0.0, self._first.at + at_least_s - time.monotonic()))
        first, last, bare = self._first, look(self._watcher.pid), look(self._bare.pid)
        self.end()
        minutes = (last.at - first.at) / 60
        words = "a bare python that waits"
        return [
            Row("resident", last.resident_mb, "MB", baseline=bare.resident_mb, against=words, budget=30),
            Row("its share (PSS)", last.share_mb, "MB", baseline=bare.share_mb, against=words),
            Row(
                f"wake-ups a minute, over {minutes * 60:.0f} s", (last.wakeups - first.wakeups) / minutes, ""
            ),
            Row("CPU a minute", (last.cpu_s - first.cpu_s) * 1000 / minutes),
        ]

    def end(self) -> None:
        for child in (self._watcher, self._bare):
            child.terminate()
            child.wait(timeout=30)


def look(pid: int) -> Look:
    """One look at a process. Raises Failed where it is gone."""
    place = Path(f"/proc/{pid}")
    try:
        status = (place / "status").read_text()
        return Look(
            at=time.monotonic(),
            wakeups=_number(status, "voluntary_ctxt_switches:"),
            cpu_s=_cpu_s(place),
            resident_mb=_number(status, "VmRSS:") / 1024,
            share_mb=_number((place / "smaps_rollup").read_text(), "Pss:") / 1024,
        )
    except OSError as error:
        raise Failed(f"the process that should wait is gone: {error}") from error


def _cpu_s(place: Path) -> float:
    """Nanoseconds from the scheduler where it counts them, else the clock ticks of proc(5)."""
    try:
        return int((place / "schedstat").read_text().split()[0]) / 1e9
    except OSError:
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _number(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name))


def _background(argv: Sequence[str], stage: Stage) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        list(argv), cwd=stage.root, env=stage.env, stdin=nowhere, stdout=nowhere, stderr=nowhere
    )


def _until_it_waits(state: Path) -> None:
    until = time.monotonic() + LONGEST_START_S
    while time.monotonic() < until:
        if any(b'"waiting"' in log.read_bytes() for log in state.glob("*/runs/*/watcher.log")):
            time.sleep(1)  # the line comes before the wait
            return
        time.sleep(0.1)
    raise Failed("the watcher did not come to wait for the reset")
