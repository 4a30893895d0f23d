"""A run's history held against itself and against the exchanges it speaks of.

One pass in bounded memory, however long it is. No poke may be missing or stand there twice, and each
prompt and output must still be what was recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from watcher.decision.outcome import Ended, Outcome
from watcher.look.finding import Finding, Looked, damage, numbers
from watcher.look.words import instant
from watcher.record.error import RecordError
from watcher.record.journal import digest
from watcher.record.lines import Damaged, Line, iterate
from watcher.record.runs import Run

OUTCOMES = frozenset(outcome.value for outcome in Outcome)
ENDED = frozenset(ended.value for ended in Ended)
LOST = "what these pokes came to is lost; their exchanges may still be in pokes/"
CHANGED = "it is not what was sent or answered, so nothing can be shown from it; the history line stands"


class History:
    """One reading of a history. `last`, `end` and `holes` are known once `findings` has come to its end."""

    def __init__(self, run: Run, looked: Looked) -> None:
        self.last = 0  # the newest poke met
        self.holes = 0  # lines behind it that could not be read
        self.end = 0  # where the last whole line ends
        self.newest: dict[str, Any] = {}
        self._run = run
        self._looked = looked
        self._prompts: dict[
            tuple[int, int], str
        ] = {}  # a prompt that is sent again is one file by many names

    def findings(self) -> Iterator[Finding]:
        try:
            for entry in iterate(self._run.history):
                self._looked.pokes += 1
                self.end = entry.end
                yield from self._line(entry)
        except RecordError as error:
            yield damage(self._run.history, str(error), "nothing of it could be verified")

    def _line(self, entry: Line | Damaged) -> Iterator[Finding]:
        path = self._run.history
        where = f"the line at byte {entry.offset}"
        if isinstance(entry, Damaged):
            self.holes += 1
            yield damage(path, f"{where} is damaged: {entry.problem}", LOST)
            return
        poke = entry.document.get("poke")
        if not isinstance(poke, int) or isinstance(poke, bool) or poke < 1:
            self.holes += 1
            yield damage(path, f"{where} names no poke", LOST)
            return
        yield from self._follows(poke, where)
        for problem in _facts(entry.document):
            yield damage(path, f"the line of poke {poke} {problem}", "what it says cannot be relied on")
        yield from self._exchange(poke, entry.document)
        if poke > self.last:
            self.last, self.newest = poke, entry.document
        self.holes = 0

    def _follows(self, poke: int, where: str) -> Iterator[Finding]:
        path, expected = self._run.history, self.last + 1
        if poke < expected:
            twice = f"poke {poke} stands there again at {where.removeprefix('the ')}, after poke {self.last}"
            yield damage(path, twice, "one of the two was never decided, or its exchange was overwritten")
        elif poke - expected > self.holes:
            yield damage(path, f"{numbers(expected, poke - 1)} missing before poke {poke}", LOST)

    # --- the exchange ---------------------------------------------------------------------------

    def _exchange(self, poke: int, document: dict[str, Any]) -> Iterator[Finding]:
        papers = self._run.poke(poke)
        for key, path in (("prompt", papers.prompt), ("out", papers.out), ("err", papers.err)):
            if key in document and document[key] != path.name:
                name = f"the line of poke {poke} names another file for its {key} than {path.name}"
                yield damage(self._run.history, name, CHANGED)
        if "prompt_sha256" in document:
            yield from self._is(papers.prompt, self._prompt(papers.prompt), document["prompt_sha256"], None)
        if "out_sha256" in document:
            size = document.get("out_bytes")
            yield from self._is(papers.out, self._read(papers.out), document["out_sha256"], size)
            if document["out_sha256"] and not papers.err.exists():
                yield damage(papers.err, "is not there", "what the program complained of is lost")

    def _is(self, path: Path, found: tuple[str, int] | None, sha: Any, size: Any) -> Iterator[Finding]:
        if found is None:
            if sha:
                yield damage(path, "is not there", CHANGED)
        elif not sha:
            yield damage(path, "is there, and could not be read when it was recorded", CHANGED)
        elif size is not None and found[1] != size:
            cut = " (a power cut can do that)" if isinstance(size, int) and found[1] < size else ""
            yield damage(path, f"has {found[1]} bytes and had {size} when it was recorded{cut}", CHANGED)
        elif not found[0]:
            yield damage(path, "cannot be read", CHANGED)
        elif found[0] != sha:
            yield damage(path, "is not what was recorded: its checksum differs", CHANGED)

    def _prompt(self, path: Path) -> tuple[str, int] | None:
        try:
            status = os.lstat(path)
        except OSError:
            return None
        key = (status.st_dev, status.st_ino)
        if key not in self._prompts:
            self._prompts = {
                key: (self._read(path) or ("", 0))[0]
            }  # the newest is the only one that comes again
        return self._prompts[key], status.st_size

    def _read(self, path: Path) -> tuple[str, int] | None:
        """Checksum and size; None where nothing is there, ("", size) where it cannot be read."""
        try:
            size = os.lstat(path).st_size
        except OSError:
            return None
        sha, read = digest(path)
        self._looked.files += 1
        self._looked.bytes += read
        return sha, size if not sha else read


def _facts(document: dict[str, Any]) -> Iterator[str]:
    """What a line of ours always says, in the words it always says it."""
    if document.get("outcome") not in OUTCOMES:
        yield "names no known outcome"
    if document.get("ended", "stopped") not in ENDED:
        yield "does not say how the program ended"
    for key in ("at", "started_at", "wait_until", "reset"):
        if document.get(key) is not None and instant(document[key]) is None:
            yield f"has no readable time in {key}"
    if document.get("at") is None:
        yield "says no time"
    if missing := [key for key in ("prompt_sha256", "out_sha256", "out_bytes") if key not in document]:
        yield f"lacks {', '.join(missing)}"
