"""Short helper programs (git, a notifier): run, captured, bounded in time and in output."""

from __future__ import annotations

import math
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from watcher.process.family import Before, Family
from watcher.process.start import identity_of, never_alone, start
from watcher.process.sweep import Sweep
from watcher.process.values import Account, ProcessError, Tool
from watcher.process.waiting import BLIND_S, LONGEST_S, pidfd_of, time_left

_TERM_S = 1.0  # git removes its lock files on TERM
_KILL_S = 5.0
_CHUNK = 65536
_PIPE = 1 << 20  # the most a pipe holds, unless root allows itself more


def run_tool(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    account: Account | None = None,
    umask: int = 0o022,
    timeout_s: float,
    input: bytes | None = None,
    max_output: int = 4 * 2**20,
) -> Tool:
    """Run a helper to its end and return what it printed.

    Of each stream the first `max_output` bytes are kept, the rest is read and dropped. At the timeout,
    and at the helper's own end, everything it started is ended too (TERM, a second, KILL), so what is
    to go on must not be started this way. Raises ProcessError where it cannot be started.
    Not to be called while another thread starts processes.
    """
    deadline = time.monotonic() + timeout_s
    before = Before.now()
    stdin = subprocess.PIPE if input is not None else subprocess.DEVNULL
    child = start(
        argv,
        cwd=cwd,
        env=env,
        account=account,
        umask=umask,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with never_alone(child):
        family = Family(identity_of(child), marker="", uid=None, before=before)
        talk = _Talk(child, input, max_output)
    try:
        ended = talk.until(deadline)
        if not ended or not family.is_gone_soon():
            Sweep(family).clear(term_s=_TERM_S, kill_s=_KILL_S)
        talk.drain()
        exit_code = _exit_code(child)
    except BaseException:
        Sweep(family).clear(term_s=0, kill_s=_KILL_S)
        raise
    finally:
        talk.close()
    return Tool(
        exit_code=exit_code,
        stdout=bytes(talk.stdout.kept),
        stderr=bytes(talk.stderr.kept),
        timed_out=not ended,
        truncated=talk.stdout.truncated or talk.stderr.truncated,
    )


def _exit_code(child: subprocess.Popen[bytes]) -> int:
    try:
        return child.wait(timeout=_KILL_S)
    except subprocess.TimeoutExpired:
        raise ProcessError(f"{child.args!r} cannot be ended") from None


class _Stream:
    """One output of the helper: its beginning, up to a limit."""

    def __init__(self, file: IO[bytes] | None, limit: int) -> None:
        assert file is not None  # noqa: S101  # a pipe was asked for
        self.file = file
        self.kept = bytearray()
        self.truncated = False
        self._limit = limit
        os.set_blocking(file.fileno(), False)

    def read(self) -> int:
        """Take what is there; 0 at its end, -1 where nothing is there now."""
        try:
            piece = os.read(self.file.fileno(), _CHUNK)
        except BlockingIOError:
            return -1
        room = self._limit - len(self.kept)
        self.kept += piece[:room]
        self.truncated = self.truncated or len(piece) > room
        return len(piece)


class _Talk:
    """Feed a helper its input and take its output, without either side waiting for the other."""

    def __init__(self, child: subprocess.Popen[bytes], given: bytes | None, limit: int) -> None:
        self.stdout = _Stream(child.stdout, limit)
        self.stderr = _Stream(child.stderr, limit)
        self._child = child
        self._stdin = child.stdin
        self._given = memoryview(given or b"")
        self._open = {stream.file.fileno(): stream for stream in (self.stdout, self.stderr)}
        self._pidfd = pidfd_of(child.pid)
        self._poll = select.poll()
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)
        if self._pidfd is not None:
            self._poll.register(self._pidfd, select.POLLIN)
        if self._stdin is not None:
            os.set_blocking(self._stdin.fileno(), False)
            self._poll.register(self._stdin.fileno(), select.POLLOUT)

    def until(self, deadline: float) -> bool:
        """True once the helper has ended, False at the deadline."""
        while self._child.poll() is None:
            left = time_left(deadline)
            if not left:
                return False
            if self._pidfd is None:
                left = min(left, BLIND_S)
            for descriptor, _ in self._poll.poll(math.ceil(min(left, LONGEST_S) * 1000)):
                self._serve(descriptor)
        return True

    def drain(self) -> None:
        """What the pipes still hold; never more, since an escaped process may go on writing."""
        for stream in self._open.values():
            rest = _PIPE
            while rest > 0 and (taken := stream.read()) > 0:
                rest -= taken

    def close(self) -> None:
        for file in (self.stdout.file, self.stderr.file, self._stdin):
            if file is not None:
                file.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _serve(self, descriptor: int) -> None:
        if stream := self._open.get(descriptor):
            if stream.read() == 0:
                self._poll.unregister(descriptor)
                del self._open[descriptor]
        elif descriptor != self._pidfd:
            self._feed(descriptor)

    def _feed(self, descriptor: int) -> None:
        try:
            written = os.write(descriptor, self._given[:_CHUNK])
        except BlockingIOError:
            return
        except BrokenPipeError:  # it wants no more, which is its right
            written = len(self._given)
        self._given = self._given[written:]
        if not self._given and self._stdin is not None:
            self._poll.unregister(descriptor)
            self._stdin.close()
            self._stdin = None
