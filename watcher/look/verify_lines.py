"""A file of lines that nothing else speaks of: ledger, sign-offs, answers, gates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from watcher.look.finding import Finding, Looked, damage, note
from watcher.record.error import RecordError
from watcher.record.lines import Damaged, iterate


def lines_of(path: Path, looked: Looked) -> Iterator[Finding]:
    """Each line can be read, and the last one is whole. A file that is not there has no lines.

    Limit: whole lines that are gone from the end leave no trace here.
    """
    end = 0
    try:
        for entry in iterate(path):
            looked.lines += 1
            end = entry.end
            if isinstance(entry, Damaged):
                where = f"line {entry.number} (byte {entry.offset}) is damaged: {entry.problem}"
                yield damage(path, where, "what it said is lost; the other lines stand")
    except RecordError as error:
        yield damage(path, str(error), "nothing of it could be verified")
        return
    yield from torn_end(path, end)


def torn_end(path: Path, end: int) -> Iterator[Finding]:
    """What stands behind the last whole line, which ends at `end`."""
    try:
        left = os.stat(path).st_size - end
    except OSError:
        return
    if left > 0:
        meaning = (
            "that is how a killed write leaves it: nothing was done because of it, and the next start "
            "sets it aside"
        )
        yield note(path, f"ends with {left} bytes that are no whole line", meaning)


def unfinished(path: Path) -> Finding:
    return note(path, "is what a killed write left unfinished", "it was never in force; it may be deleted")
