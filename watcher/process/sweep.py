"""End a whole family: TERM, time to comply, then KILL until nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from watcher.process.family import Family, deliver
from watcher.process.proc import Identity

_FIRST_TICK_S = 0.01  # most processes end at once
_LAST_TICK_S = 0.25  # a scan costs some milliseconds
_FREEZES = 8  # rounds of STOP until no new process turns up
_NAMED = 20  # a fork loop leaves thousands; the first few tell what it was


class Sweep:
    """One ending of one family, and what it took."""

    def __init__(
        self,
        family: Family,
        *,
        pause: Callable[[float], object] = time.sleep,
        hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        """`pause` may return early; `hurried` says when to stop being patient."""
        self._family = family
        self._pause = pause
        self._hurried = hurried
        self._touched: dict[Identity, str] = {}
        self._surviving: dict[Identity, str] = {}
        self.rungs: list[str] = []

    def interrupt(self, seconds: float) -> None:
        """INT to the program alone: it may still print its result and end its own children."""
        program = self._family.program()
        if program is None or self._hurried() or not self._send(program, signal.SIGINT):
            return
        until = time.monotonic() + seconds
        for tick in _ticks():
            left = until - time.monotonic()
            if left <= 0 or self._hurried() or not self._family.root_lives():
                break
            self._pause(min(tick, left))

    def clear(self, *, term_s: float, kill_s: float) -> None:
        """End every member, whatever it takes; what resists is in `survivors`."""
        self._terminate(term_s)
        with _first_in_line():
            self._kill(kill_s)

    @property
    def ended(self) -> tuple[str, ...]:
        """Who was signalled and is gone, as "name(pid)", the main process left out."""
        gone = self._touched.keys() - self._surviving.keys() - {self._family.root}
        return _named({who: self._touched[who] for who in self._touched if who in gone})

    @property
    def survivors(self) -> tuple[str, ...]:
        return _named(self._surviving)

    def _terminate(self, seconds: float) -> None:
        asked: set[Identity] = set()
        until = time.monotonic() + seconds
        for tick in _ticks():
            left = until - time.monotonic()
            if left <= 0 or self._hurried():
                return
            living = self._family.living()
            if not living:
                return
            for who in _eldest_first(living.keys() - asked):
                asked.add(who)
                if self._send(who, signal.SIGTERM):
                    self._touched[who] = living[who]
            self._pause(min(tick, left))

    def _kill(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for tick in _ticks():
            caught = self._family.chase()
            living = self._freeze()
            for who in living:
                deliver(who, signal.SIGKILL)
            self._touched |= caught | living
            if caught or living:
                self._note(signal.SIGKILL)
            if not living and not self._family.adopted():
                return
            self._pause(tick)
            if time.monotonic() >= until:
                break
        # What was still to be chased at the end has no name that lasts, but it is not gone.
        self._surviving = self._family.living() or self._family.chase()

    def _freeze(self) -> dict[Identity, str]:
        """All living members, stopped, so that none starts another while they are killed."""
        frozen: dict[Identity, str] = {}
        for _ in range(_FREEZES):
            new = {who: name for who, name in self._family.living().items() if who not in frozen}
            if not new:
                break
            for who in _eldest_first(new):
                deliver(who, signal.SIGSTOP)
            frozen |= new
        return frozen

    def _send(self, who: Identity, number: signal.Signals) -> bool:
        """A request to end, and CONT: a stopped process would only see it later."""
        if not deliver(who, number):
            return False
        deliver(who, signal.SIGCONT)
        self._note(number)
        return True

    def _note(self, number: signal.Signals) -> None:
        name = number.name.removeprefix("SIG")
        if name not in self.rungs:
            self.rungs.append(name)


def _ticks() -> Iterator[float]:
    tick = _FIRST_TICK_S
    while True:
        yield tick
        tick = min(2 * tick, _LAST_TICK_S)


@contextmanager
def _first_in_line() -> Iterator[None]:
    """Run before what we are ending: among a hundred busy processes our turn would come too late."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:  # not root: without it then
        yield
        return
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


def _eldest_first(members: Iterable[Identity]) -> list[Identity]:
    """Parents before children: else a script would go on to its next line when its child dies."""
    return sorted(members, key=lambda who: (who.ticks, who.pid))


def _named(members: dict[Identity, str]) -> tuple[str, ...]:
    names = [f"{name}({who.pid})" for who, name in members.items()]
    more = len(names) - _NAMED
    return tuple([*names[:_NAMED], f"and {more} more"] if more > 0 else names)
