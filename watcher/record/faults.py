"""A disk that fails on order: the seeded fault that tests and chaos runs hand to the record."""

from __future__ import annotations

import errno
import os
import signal
from typing import Literal

from watcher.record.files import Disk

Call = Literal["any", "open", "write", "fsync", "truncate", "rename", "mkdir", "unlink"]


class FailingDisk(Disk):
    """The `nth` call of a kind fails with `error`, or kills this process with SIGKILL where that is None.

    `half` lets a write take half its bytes first. `lasting` makes every later call of that kind fail as
    well, as on a disk that stays full. `nth=0` fails never; `calls` lists what was called, in order.
    """

    def __init__(
        self,
        call: Call = "any",
        nth: int = 0,
        error: int | None = errno.ENOSPC,
        *,
        half: bool = False,
        lasting: bool = False,
    ) -> None:
        self.calls: list[str] = []
        self._call, self._nth, self._error = call, nth, error
        self._half, self._lasting = half, lasting
        self._seen = 0

    def _due(self, call: Call) -> bool:
        self.calls.append(call)
        if self._call not in ("any", call) or not self._nth:
            return False
        self._seen += 1
        return self._seen == self._nth or (self._lasting and self._seen > self._nth)

    def _strike(self) -> None:
        if self._error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self._error or 0, os.strerror(self._error or 0))

    def _open(self, path: str, flags: int, mode: int = 0o600, directory: int | None = None) -> int:
        if self._due("open"):
            self._strike()
        return super()._open(path, flags, mode, directory)

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self._due("write"):
            if self._half and len(data) > 1:
                super()._write(descriptor, data[: len(data) // 2])
            self._strike()
        return super()._write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        if self._due("fsync"):
            self._strike()
        super().fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        if self._due("truncate"):
            self._strike()
        super().truncate(descriptor, size)

    def _rename(self, old: str, new: str, directory: int) -> None:
        if self._due("rename"):
            self._strike()
        super()._rename(old, new, directory)

    def _mkdir(self, path: str, mode: int) -> None:
        if self._due("mkdir"):
            self._strike()
        super()._mkdir(path, mode)

    def _unlink(self, path: str, directory: int | None = None) -> None:
        if self._due("unlink"):
            self._strike()
        super()._unlink(path, directory)
