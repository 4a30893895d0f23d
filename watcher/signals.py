"""Signals: the handlers only queue, the loop handles (DESIGN 9).

TERM        stop now                     INT once    drain: stop after this poke
HUP         reload between pokes, or     INT twice   stop now
            stop, with a terminal        USR1        wake from a wait, and read the verbs' requests
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from collections.abc import Callable
from types import FrameType

from watcher.decision.endings import Exit


class Stop(enum.Enum):
    NO = 0
    DRAIN = 1  # after this poke
    NOW = 2


class Inbox:
    """What was asked of the running shift. `fileno` becomes readable when something arrives."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pending: list[int] = []
        self.stop = Stop.NO
        self._insisted = False  # a stop was asked for that the poke has not heard of yet
        self.exit_code = 0
        self.reload = False
        self.woken = False
        self.terminal = False
        self.requests: Callable[[], bool] = lambda: False  # apply the verbs left for us; were there any?

    def listen(self, *, terminal: bool) -> None:
        """Install the handlers. `terminal`: there is a controlling terminal, so HUP means it closed."""
        self.terminal = terminal
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, self._queue)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def _queue(self, number: int, frame: FrameType | None) -> None:
        self._pending.append(number)

    def fileno(self) -> int:
        return self._read

    def post(self, number: int) -> None:
        """Queue a signal's meaning without the signal (the verbs, and tests)."""
        self._pending.append(number)
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def read(self) -> None:
        """Take in everything that arrived since the last call."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 512):
                pass
        while self._pending:
            self._take(self._pending.pop(0))

    def _take(self, number: int) -> None:
        if number == signal.SIGTERM:
            self.ask(Stop.NOW, Exit.TERMINATED, insist=True)
        elif number == signal.SIGINT:
            self.ask(Stop.DRAIN if self.stop is Stop.NO else Stop.NOW, Exit.INTERRUPT, insist=True)
        elif number == signal.SIGHUP and self.terminal:
            self.ask(Stop.NOW, Exit.HANGUP)  # a closing terminal sends it twice
        elif number == signal.SIGHUP:
            self.reload = True
        elif number == signal.SIGUSR1:
            self.woken = not self.requests() or self.woken

    def ask(self, stop: Stop, exit_code: int, *, insist: bool = False) -> None:
        """Ask for a stop; a stronger one replaces a weaker one, never the other way round.

        Asking once more means the same, unless one insists: then a running poke is ended without grace.
        """
        if stop.value >= self.stop.value:
            self._insisted = self._insisted or (stop is Stop.NOW and (insist or self.stop is not Stop.NOW))
            self.stop = stop
            self.exit_code = exit_code

    def stop_now(self) -> bool:
        """Whether a running poke is to be ended: true once for each time that somebody asked."""
        self.read()
        insisted, self._insisted = self._insisted, False
        return insisted

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)
