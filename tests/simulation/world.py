"""The machine of the simulation: one true time, a clock that may be wrong, and whose turn it is.

Every project is a thread; only one runs at a time, and when it sleeps or its agent works, the turn goes
to whoever wakes first. So a month is the same every time it is played.
"""

from __future__ import annotations

import heapq
import itertools
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from watcher.effect.wait import Bell, Clock
from watcher.signals import Inbox


@dataclass(slots=True)
class World:
    """True time in seconds of the epoch, and whose turn it is."""

    now: float
    end: float
    off: list[tuple[float, float]] = field(default_factory=list)  # when the machine is suspended
    wrong: list[tuple[float, float]] = field(default_factory=list)  # (from, seconds its clock is ahead)
    _queue: list[tuple[float, int, threading.Semaphore]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _over: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _own: threading.local = field(default_factory=threading.local)
    _failure: BaseException | None = None

    def shown(self) -> float:
        """What the machine's clock says."""
        return self.now + next((ahead for since, ahead in reversed(self.wrong) if since <= self.now), 0.0)

    def let_pass(self, seconds: float) -> None:
        """Sleep, awake time only; meanwhile the others have their turns."""
        until = self.now + seconds
        for begin, end in self.off:
            if self.now < end and until > begin:
                until += end - max(begin, self.now)
        heapq.heappush(self._queue, (until, next(self._numbers), self._own.turn))
        self._hand_over(self._own.turn)

    def run(self, works: Sequence[Callable[[], int]]) -> list[int]:
        """Run them all to their ends; the first exception of any is raised."""
        answers = [-1] * len(works)

        def thread(number: int, turn: threading.Semaphore) -> None:
            self._own.turn = turn
            turn.acquire()
            try:
                answers[number] = works[number]()
            except BaseException as error:
                self._failure = self._failure or error
            self._hand_over(None)

        for number in range(len(works)):
            turn = threading.Semaphore(0)
            heapq.heappush(self._queue, (self.now, next(self._numbers), turn))
            threading.Thread(target=thread, args=(number, turn), daemon=True).start()
        self._hand_over(None)
        self._over.acquire()
        if self._failure is not None:
            raise self._failure
        return answers

    def _hand_over(self, mine: threading.Semaphore | None) -> None:
        if not self._queue:
            self._over.release()
            return
        until, _, following = heapq.heappop(self._queue)
        self.now = max(self.now, until)
        if following is mine:
            return
        following.release()
        if mine is not None:
            mine.acquire()


@dataclass(slots=True, kw_only=True)
class Diary:
    """What one project did, in true time: (from, to, doing what)."""

    doing: str = ""
    spans: list[tuple[float, float, str]] = field(default_factory=list)

    def add(self, begin: float, end: float) -> None:
        if self.spans and self.spans[-1][1:] == (begin, self.doing):
            begin = self.spans.pop()[0]
        self.spans.append((begin, end, self.doing))


class SimulatedClock(Clock):
    """The machine's clock as one project's shift sees it; at the end of the time it asks for a stop."""

    def __init__(self, world: World, diary: Diary, inbox: Inbox) -> None:
        self._world, self._diary, self._inbox = world, diary, inbox

    def now(self) -> datetime:
        return utc(self._world.shown())

    def sleep(self, seconds: float, bell: Bell) -> None:
        del bell
        begun = self._world.now
        self._world.let_pass(max(seconds, 0.001))  # less may be lost in a float of the epoch's size
        self._diary.add(begun, self._world.now)
        if self._world.now >= self._world.end:
            self._inbox.post(signal.SIGTERM)

    def monotonic(self) -> float:
        return self._world.now - sum(
            min(end, self._world.now) - begin for begin, end in self._world.off if begin < self._world.now
        )


def utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
