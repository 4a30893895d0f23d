"""Files of JSON lines that only grow: history, ledger, sign-offs, answers, gates.

Writers append whole lines under a lock on the file; readers take no lock, read in blocks, and skip a
last line that has no newline yet. A line that cannot be read is shown as `Damaged` where it stands:
one bad sector must not hide a night's history.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from watcher.record.documents import dump, load
from watcher.record.files import Disk, RecordError, free_name

BLOCK = 64 * 1024  # one read of a backwards search; most tails of a history fit in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One whole line. `offset` names it for good; `end` is where a follower goes on."""

    offset: int  # bytes from the start of the file
    end: int
    document: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A whole line that is no JSON object. It is shown, never skipped in silence."""

    offset: int
    end: int
    number: int | None  # from 1; None where the file was not read from its start
    problem: str


Opened = Callable[[str | os.PathLike[str]], BinaryIO]


class Lines:
    """A file of JSON lines, open for appending. `note` tells what had to be set aside, else "".

    Guarantee: a line whose `append(..., sync=True)` returned is there after a power cut, whole; what a killed
    append left is moved to `<name>.torn-N` and kept. A last line without its newline is torn
    even where it happens to be JSON: its append never returned, so nothing was done because of it.
    Several processes may append to one file. Raises RecordError.
    """

    def __init__(self, disk: Disk, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.note = ""
        self._disk = disk
        self._file = disk.grow(path)
        self._end = 0
        try:
            with self._file.alone() as size:
                self._end = self._mend(size)
        except BaseException:
            self._file.close()
            raise

    def append(self, document: Any, *, sync: bool = True) -> int:
        """Write one line in one write; gives its offset. `sync=False` leaves durability to a later sync."""
        line = dump(document) + b"\n"
        with self._file.alone() as size:
            offset = size if size == self._end else self._mend(size)  # another writer was here
            self._end = self._file.append(line, offset)
        if sync:
            self._file.sync()
        return offset

    def sync(self) -> None:
        """Make every line appended so far durable."""
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _mend(self, size: int) -> int:
        """Set a torn or unreadable last line aside; the length that is left."""
        with open(self._file.descriptor, "rb", buffering=0, closefd=False) as file:
            good = _end_of_lines(file, size)
            last = next(_backwards(file, good), None)
            if isinstance(last, Damaged):
                good = last.offset
            if good == size:
                return size
            torn = _read(file, good, size)
        kept = free_name(self.path, "torn")
        self._disk.replace(kept, torn)  # kept first, cut second: a kill between leaves it twice, never lost
        self._file.cut(good)
        self.note = (
            f"the last line of {self.path} was cut short or is no JSON "
            f"({len(torn)} bytes from byte {good}); it is kept in {kept.name}"
        )
        return good


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    return open(path, "rb", buffering=0)


def iterate(path: str | os.PathLike[str], start: int = 0, opened: Opened = _open) -> Iterator[Line | Damaged]:
    """The whole lines from `start` (an offset or an `end`) on, in order; nothing where the file is missing.

    Memory: one block and the longest line. A `start` inside a line begins at the next one.
    """
    with _existing(path, opened) as file:
        end = _end_of_lines(file, _length(file))  # fixed now: what is written meanwhile is for the next call
        offset = _boundary(file, start, end)
        number = 1 if offset == 0 else None
        for raw in _forwards(file, offset, end):
            yield _understood(raw, offset, number)
            offset += len(raw) + 1
            number = number + 1 if number else None


def backwards(path: str | os.PathLike[str], opened: Opened = _open) -> Iterator[Line | Damaged]:
    """The whole lines from the last to the first, read in blocks from the end, no further than asked."""
    with _existing(path, opened) as file:
        yield from _backwards(file, _end_of_lines(file, _length(file)))


def tail(path: str | os.PathLike[str], count: int, opened: Opened = _open) -> list[Line | Damaged]:
    """The last `count` whole lines, oldest first."""
    return list(islice(backwards(path, opened), count))[::-1]


def last(
    path: str | os.PathLike[str],
    wanted: Callable[[dict[str, Any]], bool] = lambda document: True,
    opened: Opened = _open,
) -> Line | None:
    """The newest readable line that is `wanted`; None where there is none."""
    for line in backwards(path, opened):
        if isinstance(line, Line) and wanted(line.document):
            return line
    return None


def _existing(path: str | os.PathLike[str], opened: Opened) -> BinaryIO:
    try:
        return opened(path)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as error:
        raise RecordError(path, "read", error.errno) from error


def _length(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _read(file: BinaryIO, offset: int, end: int) -> bytes:
    file.seek(offset)
    return file.read(end - offset)


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Where the last whole line ends: just behind the last newline, 0 without one."""
    upper = size
    while upper > 0:
        lower = max(0, upper - BLOCK)
        newline = _read(file, lower, upper).rfind(b"\n")
        if newline >= 0:
            return lower + newline + 1
        upper = lower
    return 0


def _boundary(file: BinaryIO, start: int, end: int) -> int:
    """`start` where a line begins there, else the beginning of the next line."""
    if start <= 0:
        return 0
    lower = start - 1
    while lower < end:
        newline = _read(file, lower, min(lower + BLOCK, end)).find(b"\n")
        if newline >= 0:
            return lower + newline + 1
        lower += BLOCK
    return end


def _forwards(file: BinaryIO, offset: int, end: int) -> Iterator[bytes]:
    """The texts of the lines in between, both of which are line boundaries."""
    pieces: list[bytes] = []  # of a line longer than a block
    while offset < end:
        block = _read(file, offset, min(offset + BLOCK, end))
        if not block:
            return  # the file was cut meanwhile
        offset += len(block)
        first, *others = block.split(b"\n")
        pieces.append(first)
        for text in others:
            yield b"".join(pieces)
            pieces = [text]


def _backwards(file: BinaryIO, end: int) -> Iterator[Line | Damaged]:
    """The lines before `end`, which is 0 or just behind a newline, the last one first."""
    if not end:
        return
    stop = upper = end - 1  # the last line's newline is no part of its text
    pieces: list[bytes] = []  # the later parts of a line that begins in an earlier block, last part first
    while True:
        lower = max(0, upper - BLOCK)
        first, *others = _read(file, lower, upper).split(b"\n")
        for text in reversed(others):
            raw = b"".join((text, *reversed(pieces)))
            pieces = []
            yield _understood(raw, stop - len(raw), None)
            stop -= len(raw) + 1
        pieces.append(first)
        if not lower:
            break
        upper = lower
    yield _understood(b"".join(reversed(pieces)), 0, 1)


def _understood(raw: bytes, offset: int, number: int | None) -> Line | Damaged:
    end = offset + len(raw) + 1
    try:
        return Line(offset=offset, end=end, document=load(raw))
    except ValueError as error:
        return Damaged(offset=offset, end=end, number=number, problem=str(error))
