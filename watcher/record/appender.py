"""The writing side of a file that only grows."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from watcher.record.error import RecordError

if TYPE_CHECKING:
    from watcher.record.files import Disk


class Appender:
    """One open file that only grows. A line is one write; a failed one leaves the file as it was.

    Guarantee: once `sync` returned, every line before it survives a power cut; a killed append leaves at
    most a last line without its newline. After a failed `sync` nothing more is taken: the kernel may
    have dropped the bytes, and asking again would be answered "fine" without them.
    Several processes may append to one file; threads of one process may not. Raises RecordError.
    """

    def __init__(self, disk: Disk, path: str | os.PathLike[str], descriptor: int) -> None:
        self.path = Path(path)
        self.descriptor = descriptor
        self._disk = disk
        self._lost: RecordError | None = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[int]:
        """Keep the file's other writers out (readers take no lock); gives its length in bytes."""
        if self._lost:
            raise self._lost
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            status = os.fstat(self.descriptor)
        except OSError as error:
            raise RecordError(self.path, "append to", error.errno) from error
        try:
            if not status.st_nlink:  # lines would go into a deleted file, and nobody would know
                raise RecordError(self.path, "append to", errno.ENOENT)
            yield status.st_size
        finally:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def append(self, line: bytes, size: int) -> int:
        """Add a line at the end, which `alone` said is at `size`; gives the new length."""
        try:
            self._disk.write_all(self.descriptor, line)
        except OSError as error:
            with contextlib.suppress(OSError):  # else it stays a torn line, set aside by the next append
                self._disk.truncate(self.descriptor, size)
            raise RecordError(self.path, "append to", error.errno, "The line is not recorded.") from error
        return size + len(line)

    def sync(self) -> None:
        """Make every line so far durable."""
        if self._lost:
            raise self._lost
        try:
            self._disk.fsync(self.descriptor)
        except OSError as error:
            left = "A power cut may take its last lines."
            self._lost = RecordError(self.path, "append to", error.errno, left)
            raise self._lost from error

    def cut(self, size: int) -> None:
        """Shorten the file to `size` bytes, durable on return."""
        try:
            self._disk.truncate(self.descriptor, size)
        except OSError as error:
            raise RecordError(self.path, "shorten", error.errno) from error
        self.sync()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
