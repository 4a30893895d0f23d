"""Lay a snapshot back over the project, and lose nothing that stands there now.

Whatever a restore would change is kept in a snapshot of its own first; what cannot be kept is not
changed. So every restore can be undone by another one. Under the project's lock, since two never
work one tree; what something outside the harness writes between the copy and the change is lost.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from watcher.effect.git import Repository
from watcher.effect.snapshot import (
    LARGEST_BYTES,
    LARGEST_FILES,
    copy,
    dirty,
    discard,
    hands_of,
)
from watcher.effect.snapshot_hands import Hands, Note
from watcher.effect.snapshot_manifest import Entry, Kind, Manifest, SnapshotError, read, shown, write
from watcher.record.files import Disk, free_name


class Do(enum.Enum):
    """What restoring means for one path."""

    CREATE = "create"  # it is gone
    REPLACE = "replace"  # something else stands there now, and is kept first
    REMOVE = "remove"  # it was deleted then and is there now, and is kept first
    NOTHING = "unchanged"
    LEAVE = "leave"
    REFUSE = "refuse"


CHANGES = (Do.CREATE, Do.REPLACE, Do.REMOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One path of the snapshot and what is, or was, done about it."""

    entry: Entry
    do: Do
    why: str = ""

    def __str__(self) -> str:
        why = f"  ({shown(self.why)})" if self.why else ""
        return f"{self.do.value:9}  {shown(self.entry.path)}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did; `undo` names the snapshot that takes it back, "" where nothing was changed."""

    steps: tuple[Step, ...]
    undo: str = ""


def plan(
    repository: Repository, folder: Path, *, paths: Sequence[str] = (), deletions: bool = False
) -> tuple[Step, ...]:
    """What restoring the snapshot, or these paths of it, would do now. Changes nothing.

    Raises SnapshotError, GitError.
    """
    chosen = choose(read(folder), paths)
    return _plan(hands_of(repository), chosen, deletions=deletions)


def restore(
    repository: Repository,
    folder: Path,
    now: datetime,
    disk: Disk,
    *,
    paths: Sequence[str] = (),
    deletions: bool = False,
    most: tuple[int, int] = (LARGEST_BYTES, LARGEST_FILES),
) -> Restored:
    """Lay the snapshot, or these paths of it, over the project. Doing it twice changes nothing more.

    Deleted again is what was deleted then only with `deletions`. Raises SnapshotError, GitError and
    RecordError, nothing changed.
    """
    manifest = read(folder)
    hands = hands_of(repository)
    steps = _plan(hands, choose(manifest, paths), deletions=deletions)
    if not _to_do(steps):
        return Restored(steps=steps)
    undo = free_name(folder.with_name(manifest.run), "before-restore")
    steps = _kept_first(repository, hands, undo, manifest, folder.name, steps, now, disk, most=most)
    if not _to_do(steps):
        discard(undo, disk)
        return Restored(steps=steps)
    return Restored(steps=_done(hands, folder, manifest, steps, disk), undo=undo.name)


def extract(folder: Path, to: Path, disk: Disk, *, paths: Sequence[str] = ()) -> tuple[Step, ...]:
    """Write the snapshot's files to a new or empty directory, as the user we are.

    Raises SnapshotError, RecordError.
    """
    manifest = read(folder)
    to = Path(os.path.realpath(to.parent), to.name)
    _refuse_unsafe(to, manifest)
    try:
        to.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SnapshotError(f"{to} cannot be made: {error.strerror}") from error
    hands = Hands(top=to, account=None, env={"PATH": os.defpath, "LC_ALL": "C"})
    chosen = [entry for entry in choose(manifest, paths) if entry.kind in (Kind.FILE, Kind.LINK)]
    steps = [Step(entry=entry, do=Do.CREATE) for entry in chosen]
    return _done(hands, folder, manifest, steps, disk)


def choose(manifest: Manifest, paths: Sequence[str]) -> tuple[Entry, ...]:
    """The entries at or below these paths, all where none is named. SnapshotError where one names nothing."""
    if not paths or "." in paths:
        return manifest.entries
    found: dict[str, Entry] = {}
    for path in paths:
        here = {
            e.path: e for e in manifest.entries if e.path == path or e.path.startswith(f"{path.rstrip('/')}/")
        }
        if not here:
            raise SnapshotError(f"the snapshot holds nothing at {shown(path)}")
        found |= here
    return tuple(entry for entry in manifest.entries if entry.path in found)


def _refuse_unsafe(to: Path, manifest: Manifest) -> None:
    if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
        raise SnapshotError(f"{to} is not an empty directory, so nothing was written there")
    if to.is_relative_to(manifest.top):
        raise SnapshotError(f"{to} lies in the project, where the agent works; name another directory")
    if os.geteuid() != 0:
        return
    # Who can rename a directory on the way could lead root's writing to any place meanwhile.
    for place in (to, *to.parents):
        with suppress(FileNotFoundError):
            status = os.lstat(place)
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
            if status.st_uid != 0 or shared:
                raise SnapshotError(
                    f"{place} can be changed by other users, and root would write below it; "
                    "name a directory within root's own, such as /root/restored"
                )


def _plan(hands: Hands, entries: Sequence[Entry], *, deletions: bool) -> tuple[Step, ...]:
    notes = hands.look([entry for entry in entries if entry.kind is not Kind.SKIPPED])
    return tuple(_step(entry, notes.get(entry.path), deletions=deletions) for entry in entries)


def _step(entry: Entry, note: Note | None, *, deletions: bool) -> Step:
    if entry.kind is Kind.SKIPPED:
        return Step(entry=entry, do=Do.LEAVE, why=f"it was not kept: {entry.why}")
    if note is None:
        return Step(entry=entry, do=Do.REFUSE, why="nothing was said of it")
    if entry.kind is Kind.DELETED:
        return _deletion(entry, note, deletions=deletions)
    match note.state:
        case "same":
            return Step(entry=entry, do=Do.NOTHING)
        case "absent":
            return Step(entry=entry, do=Do.CREATE)
        case "differs":
            return Step(entry=entry, do=Do.REPLACE)
    return Step(entry=entry, do=Do.REFUSE, why=note.why)


def _deletion(entry: Entry, note: Note, *, deletions: bool) -> Step:
    if note.state in ("absent", "blocked"):
        return Step(entry=entry, do=Do.NOTHING)
    if not deletions:
        return Step(entry=entry, do=Do.LEAVE, why="it was deleted then; --deletions deletes it again")
    if note.state == "differs":
        return Step(entry=entry, do=Do.REMOVE)
    return Step(entry=entry, do=Do.REFUSE, why=note.why)


def _to_do(steps: Iterable[Step]) -> bool:
    return any(step.do in CHANGES for step in steps)


def _kept_first(
    repository: Repository,
    hands: Hands,
    undo: Path,
    manifest: Manifest,
    name: str,
    steps: Sequence[Step],
    now: datetime,
    disk: Disk,
    *,
    most: tuple[int, int],
) -> tuple[Step, ...]:
    """The steps of which the present state is durable in the `undo` snapshot; the others refused."""
    names = [step.entry.path for step in steps if step.do in CHANGES]
    dirt = dirty(repository)
    kept, notes = copy(hands, undo, names, disk, most=most)
    held = {entry.path for entry in kept}
    absent = [n for n in names if n not in held and n in notes and notes[n].state == "absent"]
    entries = (*kept, *(Entry(path=path, kind=Kind.DELETED) for path in absent))
    try:
        write(
            undo,
            Manifest(
                run=manifest.run,
                taken_at=now,
                before_restoring=name,
                top=str(hands.top),
                head=dirt.head,
                branch=dirt.branch,
                entries=entries,
            ),
            disk,
        )
    except BaseException:
        discard(undo, disk)
        raise
    safe = held.union(absent)
    return tuple(
        step
        if step.do not in CHANGES or step.entry.path in safe
        else _unsafe(step, notes.get(step.entry.path))
        for step in steps
    )


def _unsafe(step: Step, note: Note | None) -> Step:
    why = f"what stands there now cannot be kept: {note.why if note else 'nothing was said of it'}"
    return Step(entry=step.entry, do=Do.REFUSE, why=why)


def _done(
    hands: Hands, folder: Path, manifest: Manifest, steps: Sequence[Step], disk: Disk
) -> tuple[Step, ...]:
    """The steps as they came out."""
    to_put = {step.entry.path for step in steps if step.do in (Do.CREATE, Do.REPLACE)}
    to_remove = [step.entry.path for step in steps if step.do is Do.REMOVE]
    numbers = [number for number, entry in enumerate(manifest.kept()) if entry.path in to_put]
    notes: dict[str, Note] = {}
    if to_remove:
        notes |= hands.remove(to_remove)
    if numbers:
        notes |= hands.put(folder, numbers, disk)
    return tuple(_came_out(step, notes.get(step.entry.path)) for step in steps)


def _came_out(step: Step, note: Note | None) -> Step:
    if step.do not in CHANGES or (note and note.state == "done"):
        return step
    return replace(step, do=Do.REFUSE, why=note.why if note else "nothing was said of it")
