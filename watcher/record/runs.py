"""The runs of one project: a directory each, named so that they sort by age."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from watcher.record.documents import dump, load
from watcher.record.files import Disk, RecordError

_NAME = re.compile(r"(?P<stamp>\d{8}T\d{6}Z)-(?P<shift>[a-z]+)-(?P<tag>[0-9a-f]+)(?:-(?P<again>\d+))?")
_LEAVING = ".removing-"  # a run being pruned: no run any more, whatever is left of it


@dataclass(frozen=True, slots=True, kw_only=True)
class PokeFiles:
    """Where one poke's complete exchange stands."""

    prompt: Path
    out: Path
    err: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run's directory (DESIGN 6). A run without `ending.json` is unfinished and can be resumed."""

    path: Path
    shift: str  # "watch" or "night": neither resumes the other's run
    disk: Disk = field(default_factory=Disk, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The run id, e.g. 20260730T021500Z-watch-3f2a. Unique on this machine, safe as a branch name."""
        return self.path.name

    @property
    def submission(self) -> Path:
        return self.path / "submission.json"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.json"

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def ending_file(self) -> Path:
        return self.path / "ending.json"

    def report(self, form: str) -> Path:
        """`form`: json, md or html."""
        return self.path / f"report.{form}"

    def poke(self, number: int) -> PokeFiles:
        """The files of poke `number`, which are not made here; their directory exists."""
        folder, name = self.path / "pokes", f"{number:06d}"
        return PokeFiles(
            prompt=folder / f"{name}.prompt", out=folder / f"{name}.out", err=folder / f"{name}.err"
        )

    @property
    def finished(self) -> bool:
        return self.ending_file.exists()

    def end(self, ending: dict[str, Any]) -> None:
        """Record how the run ended; from here on the next start is a new run. Raises RecordError."""
        self.disk.replace(self.ending_file, dump(ending))

    def ending(self) -> dict[str, Any] | None:
        """What `end` recorded, None for an unfinished run; an unreadable one says so under "unreadable"."""
        try:
            return load(self.ending_file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            return {"unreadable": str(error)}
        except OSError as error:
            raise RecordError(self.ending_file, "read", error.errno) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """All runs of a project. Looking needs no lock; opening and pruning do."""

    path: Path
    tag: str  # from the project's key: two projects started in one second get different ids
    disk: Disk = field(default_factory=Disk, repr=False, compare=False)

    def all(self, shift: str | None = None) -> list[Run]:
        """Oldest first; of both shifts unless one is named."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        runs = [
            Run(path=self.path / name, shift=match["shift"], disk=self.disk)
            for name in names
            if (match := _NAME.fullmatch(name)) and shift in (None, match["shift"])
        ]
        return sorted(runs, key=lambda run: _age(run.name))

    def latest(self, shift: str | None = None) -> Run | None:
        return next(reversed(self.all(shift)), None)

    def open(self, now: datetime, shift: str) -> Run:
        """The shift's latest run where it is unfinished (resume), else a new one. Raises RecordError."""
        run = self.latest(shift)
        return run if run and not run.finished else self.new(now, shift)

    def new(self, now: datetime, shift: str) -> Run:
        """A new run that sorts behind every other, even where the clock went back. Raises RecordError."""
        stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        again = 1
        if latest := self.latest():
            newest, count = _age(latest.name)
            if newest >= stamp:
                stamp, again = newest, count + 1
        name = f"{stamp}-{shift}-{self.tag}" + (f"-{again}" if again > 1 else "")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no run")
        return self._made(name, shift)

    def complete(self, run: Run) -> None:
        """Make what a kill during `new` left unmade. Raises RecordError."""
        self.disk.make_dir(run.path / "pokes")

    def prune(self, keep: int) -> list[str]:
        """Delete finished runs beyond the newest `keep`; the ids deleted, to be told to the user.

        Never the latest run of a shift, never an unfinished one. A killed deletion is finished by the next.
        Raises RecordError.
        """
        if keep < 1:
            raise ValueError("keep_runs must be at least 1")
        safe = {run.name for run in self.all()[-keep:]}
        for shift in {run.shift for run in self.all()}:
            safe.add(self.all(shift)[-1].name)
        for run in self.all():
            if run.name not in safe and run.finished:
                self.disk.move(run.path, _LEAVING + run.name)
        leaving = sorted(self.path.glob(_LEAVING + "*"))
        for run_left in leaving:
            self.disk.remove_tree(run_left)
        return [left.name.removeprefix(_LEAVING) for left in leaving]

    def _made(self, name: str, shift: str) -> Run:
        run = Run(path=self.path / name, shift=shift, disk=self.disk)
        self.disk.make_dir(run.path)
        self.complete(run)
        return run


def _age(name: str) -> tuple[str, int]:
    """What runs are sorted by: the second they began, then their number within it."""
    match = _NAME.fullmatch(name)
    return (match["stamp"], int(match["again"] or 1)) if match else ("", 0)
