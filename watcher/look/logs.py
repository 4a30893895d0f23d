"""The watcher log of a run, as a person reads it or as it is; followed into the next run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from watcher.log import printable, render
from watcher.look.lines import Entry, damage, raw_lines, start_of_last
from watcher.look.live import current_run, live
from watcher.look.place import Place, runs
from watcher.look.terminal import complain, flush, rest, say
from watcher.record.lines import Damaged, iterate
from watcher.record.runs import Run

LEVELS = ("debug", "info", "warning", "error", "critical")
POLL_S = 0.5


@dataclass(slots=True, kw_only=True)
class Reader:
    """Shows one log and knows how far it got."""

    path: Path
    level: str = "debug"  # this one and graver ones are shown
    as_json: bool = False
    at: int = 0

    def latest(self, count: int) -> None:
        """Show the last `count` lines that are grave enough."""
        start = start_of_last(self.path, count, self._wanted)
        if start.cut:
            complain(f"older lines of {self.path} were not looked through; all of them are in that file")
        self.at = start.offset
        self.more()

    def more(self) -> None:
        """Show what came since; a log that was emptied meanwhile from its beginning."""
        size = _size(self.path)
        if size == self.at:
            return
        if size < self.at:
            self.at = 0
        with raw_lines(self.path) as raw:
            for entry in iterate(self.path, self.at):
                if self._wanted(entry):
                    say(raw(entry) if self.as_json else readable(entry))
                self.at = entry.end

    def _wanted(self, entry: Entry) -> bool:
        """A line of unknown gravity may be grave."""
        level = "critical" if isinstance(entry, Damaged) else entry.document.get("level")
        return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(self.level)


def follow(place: Place, reader: Reader, run: Run, *, only: bool) -> None:
    """Show what is written from now on: of later runs too, or of `only` this one, until it has ended."""
    while True:
        newest = (
            None if only else current_run(runs(place), live(place.home))
        )  # before the old one is read out
        over = only and run.finished
        reader.more()
        flush()
        if over:
            return
        if newest and newest.name != run.name:
            run, reader.path, reader.at = newest, log_of(newest), 0
        else:
            rest(POLL_S)


def log_of(run: Run) -> Path:
    return run.path / "watcher.log"


def readable(entry: Entry) -> str:
    """One line with its date: a log may go over many days."""
    if isinstance(entry, Damaged):
        return damage(entry)
    return printable(f"{str(entry.document.get('at', ''))[:10]} {render(entry.document)}")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # not there yet; whoever may not read it learns that when the file is opened
        return 0
