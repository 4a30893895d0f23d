"""Sleep until a child ends, a request arrives, or the time is up."""

from __future__ import annotations

import math
import os
import select
import subprocess
import time
from collections.abc import Callable
from types import TracebackType

from watcher.process.values import Interrupts

LONGEST_S = 60.0  # ended orphans are reaped that often, so that they do not fill the process table
TICK_S = 1.0  # between two signs of life, for whoever wants some
BLIND_S = 0.05  # between two looks where the kernel has no pidfd (before 5.3, or a strict sandbox)


class Waiting:
    """What wakes us while a child runs. `stops` counts the requests to end it now."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        interrupts: Interrupts | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self.stops = 0
        self._tick = tick
        self._child = child
        self._interrupts = interrupts
        self._requests = interrupts.fileno() if interrupts else -1
        self._poll = select.poll()
        self._pidfd = pidfd_of(child.pid)
        self._watched = self._pidfd is not None
        if self._pidfd is not None:
            self._poll.register(self._pidfd, select.POLLIN)
        if interrupts:
            self._poll.register(self._requests, select.POLLIN)

    def __enter__(self) -> Waiting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)

    def pause(self, seconds: float) -> bool:
        """Sleep at most so long; True once the child has ended and its exit code is known."""
        if self._tick:
            self._tick()
            seconds = min(seconds, TICK_S)
        if self._pidfd is None and self._child.returncode is None:
            seconds = min(seconds, BLIND_S)
        for descriptor, event in self._poll.poll(math.ceil(min(seconds, LONGEST_S) * 1000)):
            if descriptor == self._requests:
                self._hear(event)
        if self._child.poll() is None:
            return False
        if self._watched and self._pidfd is not None:
            self._poll.unregister(self._pidfd)  # readable from now on: it would end every later sleep
            self._watched = False
        return True

    def _hear(self, event: int) -> None:
        if not event & select.POLLIN:  # the other side was closed: nothing will ever come
            self._poll.unregister(self._requests)
        elif self._interrupts and self._interrupts.stop_now():
            self.stops += 1


def pidfd_of(pid: int) -> int | None:
    """A descriptor that is readable once that child of ours has ended; None where there are none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def time_left(until: float) -> float:
    """Seconds of monotonic time until then, never negative."""
    return max(0.0, until - time.monotonic())
