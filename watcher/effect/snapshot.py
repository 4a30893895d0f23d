"""Keep the project's uncommitted work outside the project before an agent gets at it (DESIGN 6).

The reference's agent overwrote a file that was under no version control, and nothing brought it back
(H 6.2). So each run begins with a copy of what git does not hold yet: changed and deleted tracked
files, and untracked ones that are not ignored. `restore.py` lays it back.

Limits: a content that is only staged stays in git's own store and is named here, not copied; so are
submodules and repositories within the project. Hidden from git (ignored, assume-unchanged) is hidden
from a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec import structs

from watcher.effect.git import DISARMED, GitError, Repository, answer, git
from watcher.effect.snapshot_hands import Hands, Notes
from watcher.effect.snapshot_manifest import (
    FILES,
    MANIFEST,
    Entry,
    Kind,
    Manifest,
    SnapshotError,
    index,
    read,
    shown,
    write,
)
from watcher.record.files import Disk, RecordError

LARGEST_BYTES = 2**30  # what a snapshot may hold; beyond it a person has backups, or should
LARGEST_FILES = 20_000

_TAR_EXTRA = 8192  # bytes a member may take beside its content: headers and names


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was kept and what was not. `warning` is for the log, "" where everything was kept."""

    path: Path
    kept: int = 0
    size: int = 0  # bytes of content
    deleted: int = 0
    skipped: tuple[str, ...] = ()  # "path: why", safe to print
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What git says of one path."""

    tracked: bool
    staged: str = ""
    not_ours: str = ""  # why it is no file of this repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """Where HEAD stands, and every path with uncommitted work."""

    head: str
    branch: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    unlisted: bool = False


def take(
    repository: Repository,
    snapshots: Path,
    run: str,
    now: datetime,
    disk: Disk,
    *,
    most: tuple[int, int] = (LARGEST_BYTES, LARGEST_FILES),
) -> Snapshot | None:
    """Keep the uncommitted work in `snapshots/run`; None where there is none. Never raises.

    Safe to repeat: a run's first snapshot is never replaced, one cut short is made again. A failure
    is a value too, since the run must be able to decide; nothing is left of it on the disk.
    Costs one `git status` while the tree is clean.
    """
    folder = snapshots / run
    try:
        if (folder / MANIFEST).exists():
            return _told(folder, read(folder))
        dirt = dirty(repository)
        if not dirt.changes:
            return None
        hands = hands_of(repository)
        return _told(folder, _made(hands, folder, dirt, run, now, disk, most=most))
    except (GitError, SnapshotError, RecordError) as error:
        return Snapshot(path=folder, warning=f"uncommitted work in the project is not kept: {error}")


def forget(snapshots: Path, runs: Iterable[str], disk: Disk) -> None:
    """Delete these runs' snapshots, and what was kept before restoring them. Raises RecordError."""
    for run in runs:
        for folder in (snapshots / run, *snapshots.glob(f"{run}.before-restore-*")):
            if folder.is_dir():
                disk.remove_tree(folder)


def dirty(repository: Repository) -> Dirt:
    """One `git status` of the whole repository. Raises GitError."""
    tool = git(
        *DISARMED,
        *("-c", "status.relativePaths=false"),
        *("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-z"),
        *("--untracked-files=all", "--no-renames", "--ignore-submodules=none"),
        cwd=repository.path,
        env=repository.env,
        account=repository.account,
        timeout_s=repository.timeout_s,
    )
    # What was cut off ends in half a name, which must not be taken for another file's.
    lines = answer(tool, "status", repository.timeout_s).split("\0")[:-1]
    facts = dict(line[2:].partition(" ")[::2] for line in lines if line.startswith("# "))
    head, branch = facts.get("branch.oid", ""), facts.get("branch.head", "")
    try:
        changes = dict(_change(line) for line in lines if not line.startswith("# "))
    except ValueError as error:
        raise GitError("git status did not answer in the form it was asked for") from error
    return Dirt(
        head="" if head == "(initial)" else head,
        branch="" if branch == "(detached)" else branch,
        changes=changes,
        unlisted=tool.truncated,
    )


def hands_of(repository: Repository) -> Hands:
    """What reaches the repository's work tree. Raises GitError, SnapshotError."""
    top = repository.top()
    # core.worktree in the agent's configuration can name any place.
    if not repository.path.is_relative_to(top):
        raise SnapshotError(
            f"git says the work tree is {top}, which does not hold {repository.path}: "
            "look at core.worktree in the project's .git/config"
        )
    return Hands(top=top, account=repository.account, env=repository.env)


def copy(
    hands: Hands, folder: Path, names: Sequence[str], disk: Disk, *, most: tuple[int, int]
) -> tuple[tuple[Entry, ...], Notes]:
    """Copy what stands at these paths into the folder; what it holds then, and what was said of each.

    Never takes more than half of the free space. After a failure nothing is left.
    Raises SnapshotError, RecordError.
    """
    try:
        disk.make_dir(folder)
        space = os.statvfs(folder)
        room = min(most[0], space.f_bavail * space.f_frsize // 2)
        notes = hands.keep(names, folder, disk, most=(room, most[1]))
        if (folder / FILES).stat().st_size > room + (len(names) + 1) * _TAR_EXTRA:
            raise SnapshotError(f"{folder / FILES} grew beyond the {room} bytes it may have")
        with closing(disk.grow(folder / FILES)) as file:
            file.sync()
        kept = index(folder)
        paths = [entry.path for entry in kept]
        if len(set(paths)) != len(paths) or not set(paths) <= set(names):
            raise SnapshotError(f"{folder / FILES} holds other files than were asked for")
        return kept, notes
    except OSError as error:
        discard(folder, disk)
        raise RecordError(folder, "use", error.errno) from error
    except BaseException:
        discard(folder, disk)
        raise


def discard(folder: Path, disk: Disk) -> None:
    """Give its space back; what cannot be deleted stays, and is no snapshot without its manifest."""
    with suppress(RecordError):
        disk.remove_tree(folder)


def skipped(path: str, why: str) -> Entry:
    return Entry(path=path, kind=Kind.SKIPPED, why=why)


def _made(
    hands: Hands, folder: Path, dirt: Dirt, run: str, now: datetime, disk: Disk, *, most: tuple[int, int]
) -> Manifest:
    names = [path for path, change in dirt.changes.items() if not change.not_ours]
    kept, notes = copy(hands, folder, names, disk, most=most)
    held = {entry.path: entry for entry in kept}
    entries = (held | _not_held(dirt, held, notes)).values()
    manifest = Manifest(
        run=run,
        taken_at=now,
        top=str(hands.top),
        head=dirt.head,
        branch=dirt.branch,
        unlisted=dirt.unlisted,
        entries=tuple(structs.replace(e, staged=dirt.changes[e.path].staged) for e in entries),
    )
    try:
        write(folder, manifest, disk)
    except BaseException:
        discard(folder, disk)
        raise
    return manifest


def _not_held(dirt: Dirt, held: Mapping[str, Entry], notes: Notes) -> dict[str, Entry]:
    """An entry for every path that is not in the tar, an untracked file that went meanwhile excepted."""
    found = {}
    for path, change in dirt.changes.items():
        note = notes.get(path)
        if path in held:
            continue
        if change.not_ours:
            found[path] = skipped(path, change.not_ours)
        elif note is None or note.state != "absent":
            found[path] = skipped(path, note.why if note else "nothing was said of it")
        elif change.tracked:
            found[path] = Entry(path=path, kind=Kind.DELETED)
    return found


def _change(line: str) -> tuple[str, Change]:
    """One line of `git status --porcelain=v2 -z`."""
    kind, _, rest = line.partition(" ")
    if kind == "?":
        path = rest.rstrip("/")
        nested = "a repository of its own" if rest.endswith("/") else ""
        return path, Change(tracked=False, not_ours=nested)
    if kind == "u":  # a conflict: three staged contents, none of them the work tree's
        fields = rest.split(" ", 9)
        return fields[-1], Change(tracked=True, not_ours=_submodule(fields[1]))
    state, sub, *_, head, staged, path = rest.split(" ", 7)
    only_staged = "." not in state and staged.strip("0") and staged != head
    return path, Change(tracked=True, staged=staged if only_staged else "", not_ours=_submodule(sub))


def _submodule(word: str) -> str:
    return "a submodule, which is a repository of its own" if word.startswith("S") else ""


def _told(folder: Path, manifest: Manifest) -> Snapshot:
    kept = manifest.kept()
    left = tuple(f"{shown(e.path)}: {e.why}" for e in manifest.of_kind(Kind.SKIPPED))
    warnings = []
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        warnings.append(f"not kept: {'; '.join(left[:5])}{more}")
    if manifest.unlisted:
        warnings.append("git named more paths than are read; the rest is not kept. Is a .gitignore missing?")
    return Snapshot(
        path=folder,
        kept=len(kept),
        size=sum(entry.size for entry in kept),
        deleted=len(manifest.of_kind(Kind.DELETED)),
        skipped=left,
        warning=" ".join(warnings),
    )
