"""The newest lines of a file that may hold a million: found from its end, then read forwards once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from watcher.look.terminal import on_terminal
from watcher.record.error import RecordError
from watcher.record.lines import BLOCK, Damaged, Line, backwards, iterate

SEARCH = 64 * 2**20  # bytes looked through for lines that are wanted; half a second's work

Entry = Line | Damaged
Wanted = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where to begin reading so that the last so many wanted lines are met."""

    offset: int
    before: Entry | None = None  # the line before it; None: it is the first, or that was not looked at
    cut: bool = False  # SEARCH was over before enough were found


def start_of_last(path: Path, count: int, wanted: Wanted) -> Start:
    """Look backwards for `count` wanted lines, however few they are, but not through more than SEARCH."""
    end: int | None = None
    offset = found = 0
    for entry in backwards(path):
        if end is None:
            end = offset = entry.end
        if found == count:
            return Start(offset=offset, before=entry)
        if end - entry.offset > SEARCH:
            return Start(offset=offset, cut=True)
        if wanted(entry):
            found, offset = found + 1, entry.offset
    return Start(offset=offset)


def first_at_least(path: Path, number: int, of: Callable[[Line], int | None]) -> Line | None:
    """The first line whose number is `number` or more, in a file where they only grow: by halving it.

    Lines without a number, damaged ones among them, are passed over.
    """
    low, high = 0, _size(path)
    while high - low > BLOCK:
        middle = (low + high) // 2
        line = next(_numbered(path, middle, of), None)
        if line is not None and (of(line) or 0) < number:
            low = line.offset
        else:
            high = middle
    return next((line for line in _numbered(path, low, of) if (of(line) or 0) >= number), None)


def _numbered(path: Path, start: int, of: Callable[[Line], int | None]) -> Iterator[Line]:
    return (line for line in iterate(path, start) if isinstance(line, Line) and of(line) is not None)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RecordError(path, "read", error.errno) from error


@contextmanager
def raw_lines(path: Path) -> Iterator[Callable[[Entry], str]]:
    """What a line holds, byte for byte, but for what a terminal could take for a command.

    A damaged line becomes a document that says so, since whoever reads JSON lines wants JSON.
    """
    from watcher.record.documents import dump

    escape = on_terminal()

    def text(entry: Entry) -> str:
        if isinstance(entry, Damaged):
            damage = {"offset": entry.offset, "bytes": entry.end - entry.offset, "problem": entry.problem}
            return dump({"damaged": damage}).decode()
        line = os.pread(descriptor, entry.end - entry.offset - 1, entry.offset).decode("utf-8", "replace")
        return escaped(line) if escape else line

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordError(path, "read", error.errno) from error
    try:
        yield text
    finally:
        os.close(descriptor)


def escaped(line: str) -> str:
    r"""A line of JSON with what cannot be shown as \uXXXX: the same document."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else _json_escape(letter) for letter in line)


def _json_escape(letter: str) -> str:
    pairs = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[i]:02x}{pairs[i + 1]:02x}" for i in range(0, len(pairs), 2))


def damage(entry: Damaged) -> str:
    """A damaged line, where it stands."""
    return f"(a damaged line at byte {entry.offset}: {entry.problem})"
