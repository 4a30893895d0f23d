"""One program to its end, with everything it leaves behind (DESIGN 7, "Process control")."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from watcher.process.family import Before, Family
from watcher.process.proc import boot_id
from watcher.process.start import identity_of, never_alone, start
from watcher.process.sweep import Sweep
from watcher.process.values import (
    MARKER,
    Command,
    End,
    Finished,
    Interrupts,
    Ladder,
    ProcessError,
    Started,
)
from watcher.process.waiting import Waiting, time_left

_LADDER = Ladder()


def supervise(
    command: Command,
    *,
    interrupts: Interrupts | None = None,
    complete: Callable[[Path], bool] | None = None,
    on_start: Callable[[Started], None] | None = None,
    tick: Callable[[], None] | None = None,
    ladder: Ladder = _LADDER,
) -> Finished:
    """Run one program until it ends, or end it: then nothing it started is left running.

    It is ended at its deadline, when `interrupts` says so, and `settle_s` after `complete(stdout)`
    said that the result is there and the output grew no further. The ladder: INT to the program, TERM
    to everything found, KILL until nothing remains; a second stop request goes straight to KILL.
    Leftovers of a program that ended by itself get TERM and KILL at once.

    Found is what descends from the program (all of it if `become_subreaper` was called before) or
    carries the marker in its environment. What did neither, or belongs to a user whose processes we
    may not signal, is not ended; the latter are `survivors`.

    `tick` is called at least once a second, also while the program is being ended.

    Raises OSError where stdin cannot be read or an output file not be created, and whatever the
    callbacks raise, after everything has been killed. A program that cannot be started is a result.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        stdin = _open(stack, command.stdin or Path(os.devnull), os.O_RDONLY)
        stdout = _open(stack, command.stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        stderr = _open(stack, command.stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        before = Before.now()
        try:
            child = start(
                command.argv,
                cwd=command.cwd,
                env={**command.env, MARKER: command.marker},
                account=command.account,
                umask=command.umask,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        except ProcessError as why:
            return Finished(end=End.NOT_STARTED, error=str(why), wall_s=time.monotonic() - began)
        with never_alone(child):
            waiting = stack.enter_context(Waiting(child, interrupts, tick))
            run = _Run(command, child, waiting, before, ladder, stdout)
        finished = run.to_the_end(complete, on_start)
        return replace(finished, wall_s=time.monotonic() - began)


def _open(stack: ExitStack, path: Path, flags: int) -> int:
    """A descriptor no child inherits by accident, through no symbolic link, closed with the stack."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


class _Settling:
    """Whether the result is complete and the program merely does not end."""

    def __init__(self, complete: Callable[[Path], bool], path: Path, descriptor: int, ladder: Ladder) -> None:
        self._complete = complete
        self._path = path
        self._descriptor = descriptor
        self._ladder = ladder
        self._size = 0
        self._due = math.inf
        self._next_look = time.monotonic() + ladder.poll_s

    @property
    def wake_at(self) -> float:
        return min(self._next_look, self._due)

    def is_over(self) -> bool:
        """Look at the output if it grew; True when the grace after a complete result has passed."""
        now = time.monotonic()
        if now >= self.wake_at:
            self._next_look = now + self._ladder.poll_s
            size = os.fstat(self._descriptor).st_size
            if size != self._size:
                self._size = size
                self._due = now + self._ladder.settle_s if self._complete(self._path) else math.inf
        return now >= self._due


class _Run:
    """One started program."""

    def __init__(
        self,
        command: Command,
        child: subprocess.Popen[bytes],
        waiting: Waiting,
        before: Before,
        ladder: Ladder,
        stdout: int,
    ) -> None:
        self._command = command
        self._child = child
        self._waiting = waiting
        self._ladder = ladder
        self._stdout = stdout
        self._root = identity_of(child)
        uid = command.account.uid if command.account else os.geteuid()
        self._family = Family(self._root, marker=command.marker, uid=uid, before=before)

    def to_the_end(
        self,
        complete: Callable[[Path], bool] | None,
        on_start: Callable[[Started], None] | None,
    ) -> Finished:
        sweep = Sweep(self._family, pause=self._waiting.pause, hurried=lambda: self._waiting.stops > 1)
        try:
            if on_start:
                on_start(Started(pid=self._root.pid, started_at_ticks=self._root.ticks, boot_id=boot_id()))
            end = self._wait(complete)
            size = self._clear(end, sweep)
        except BaseException:  # a callback failed, or a bug of ours: no agent without a supervisor
            Sweep(self._family).clear(term_s=0, kill_s=self._ladder.kill_s)
            self._child.poll()
            raise
        return Finished(
            end=end,
            exit_code=self._child.poll(),
            pid=self._root.pid,
            stdout_before_signal=size,
            signalled=() if end is End.EXITED else tuple(sweep.rungs),
            leftovers=sweep.ended,
            survivors=sweep.survivors,
        )

    def _wait(self, complete: Callable[[Path], bool] | None) -> End:
        """Until the program ended or is to be ended."""
        timeout_s = self._command.timeout_s
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        settling = _Settling(complete, self._command.stdout, self._stdout, self._ladder) if complete else None
        while True:
            wake_at = min(deadline, settling.wake_at) if settling else deadline
            if self._waiting.pause(time_left(wake_at)):
                return End.EXITED
            if self._waiting.stops:
                return End.STOPPED
            if time.monotonic() >= deadline:
                return End.DEADLINE
            if settling and settling.is_over():
                return End.SETTLED
            self._family.reap()

    def _clear(self, end: End, sweep: Sweep) -> int | None:
        """End what is still there; the size of stdout before that, unless the program ended by itself."""
        size = None
        if end is not End.EXITED:
            size = os.fstat(self._stdout).st_size
            sweep.interrupt(self._ladder.int_s)
        ended = self._waiting.pause(0)
        if not (ended and self._family.is_gone_soon()):
            term_s = self._ladder.leftover_s if ended else self._ladder.term_s
            sweep.clear(term_s=term_s, kill_s=self._ladder.kill_s)
        return size
