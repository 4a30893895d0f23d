"""Measure: what a program used, with all its children, and how many processes it started."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What one program took from its exec to its end, its waited-for children included."""

    cpu_s: float
    wall_s: float


class Failed(Exception):
    """A program that is measured did not do what it was measured for."""


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, expect: Iterable[int] = (0,)) -> Used:
    """Run a program to its end. Raises Failed with its last words where that end was not expected."""
    said = cwd / "bench-output"
    with said.open("wb") as file:
        began = time.monotonic()
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in tuple(expect):
        words = said.read_bytes()[-2000:].decode("utf-8", "replace")
        raise Failed(f"{' '.join(argv)[:200]} ended with {child.returncode}\n{words}")
    return Used(cpu_s=usage.ru_utime + usage.ru_stime, wall_s=wall_s)


def processes(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, expect: Iterable[int] = (0,)) -> int:
    """How many processes and threads that run brought into being, give or take a constant.

    In a pid namespace of its own the kernel numbers them from 1, so the last number is the count, and
    no other program of the machine disturbs it.
    """
    report = cwd / "bench-count"
    run([*_UNSHARE, "sh", "-c", _COUNTING, "sh", str(report), *argv], env=env, cwd=cwd, expect=expect)
    return int(report.read_text())


_AS_ROOT = () if os.geteuid() == 0 else ("--map-root-user",)
_UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", *_AS_ROOT)
_COUNTING = """
report=$1; shift
"$@"; code=$?
read -r _ _ _ _ last </proc/loadavg
echo "$last" >"$report"
exit $code
"""


def namespaces() -> bool:
    """Whether we may make a pid namespace, and so can count."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def middle(values: Iterable[float]) -> float:
    return median(values)


def children_cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU of the children that end during one call."""
    before = getrusage(RUSAGE_CHILDREN)
    work()
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
