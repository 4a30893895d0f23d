"""Wait until a wall-clock instant (DESIGN 4).

The deadline is the wall's, not the sleep's: the clock is read again after every slice, so a wait is
right after a suspend, a clock jump or a restart. A signal ends a slice early.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

SLICE_S = 20.0  # how late a wait can notice a jump of the clock; three wake-ups a minute


class Bell(Protocol):
    """Something that can ring during a slice: readable `fileno` means look at me."""

    def fileno(self) -> int: ...


class Clock:
    """The real clock. Tests hand in one that moves when it is slept on."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float, bell: Bell) -> None:
        """Sleep, or less when the bell rings."""
        poller = select.poll()
        poller.register(bell.fileno(), select.POLLIN)
        poller.poll(max(0.0, seconds) * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


def wait_until(
    until: datetime,
    *,
    clock: Clock,
    bell: Bell,
    over: Callable[[], bool],
    beat: Callable[[], None] = lambda: None,
    beat_s: float = SLICE_S,
    longest_s: float = math.inf,
) -> None:
    """Return once the wall clock has reached `until` or `over()` is true. `beat` runs once a slice.

    `beat_s`: the longest slice that whoever listens to `beat` puts up with. `longest_s`: over then
    at the latest, however the wall clock was set meanwhile.
    """
    began = clock.monotonic()
    while not over():
        left = min((until - clock.now()).total_seconds(), longest_s - (clock.monotonic() - began))
        if left <= 0:
            return
        beat()
        clock.sleep(min(left, beat_s, SLICE_S), bell)
