"""What a snapshot says of itself: the files it holds, and what it does not hold, and why."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from watcher.record.files import Disk

if TYPE_CHECKING:
    import tarfile

MANIFEST = "manifest.json"  # written last: a folder without it is no snapshot
FILES = "files.tar"

_CHUNK = 1 << 20


class SnapshotError(Exception):
    """A snapshot cannot be made, read or laid back; the text says why, and what that left unchanged."""


class Kind(enum.Enum):
    """What stood at a path when the snapshot was taken."""

    FILE = "file"
    LINK = "link"
    DELETED = "deleted"  # git tracks it and it was not there
    SKIPPED = "skipped"  # it was there and is not kept; `why` says why


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One path, relative to the work tree's root. Bytes that are no UTF-8 are lone surrogates in it."""

    path: str
    kind: Kind
    mode: str = ""  # octal, as chmod takes it
    size: int = 0
    sha256: str = ""  # of the content; of a link, of where it points
    why: str = ""
    staged: str = ""  # git's name for a staged content that was neither in HEAD nor in the work tree


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot. The files and links come first, in the order of the tar's members."""

    version: Literal[1] = 1
    run: str
    taken_at: datetime
    before_restoring: str = ""  # the snapshot laid back right after this one was taken
    top: str
    head: str  # "" on an unborn branch
    branch: str  # "" when HEAD is detached
    unlisted: bool = False  # git named more paths than we read
    entries: tuple[Entry, ...]

    def kept(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kind in (Kind.FILE, Kind.LINK))

    def of_kind(self, kind: Kind) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kind is kind)


def write(folder: Path, manifest: Manifest, disk: Disk) -> None:
    """Make the folder a snapshot, durable on return. Raises RecordError."""
    # The standard `json`, since the record's own writer would replace the odd bytes of a file's name.
    text = json.dumps(msgspec.to_builtins(manifest), indent=1)
    disk.replace(folder / MANIFEST, text.encode("ascii") + b"\n")


def read(folder: Path) -> Manifest:
    """The manifest of a snapshot. Raises SnapshotError where there is none or it is damaged."""
    try:
        return msgspec.convert(json.loads((folder / MANIFEST).read_bytes()), Manifest)
    except FileNotFoundError:
        raise SnapshotError(f"there is no snapshot {folder.name}") from None
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise SnapshotError(
            f"the snapshot {folder.name} cannot be read: {folder / MANIFEST}: {error}"
        ) from error


def all_of(snapshots: Path) -> dict[str, Manifest]:
    """Every readable snapshot of a project by its name, the oldest first."""
    found = {}
    for place in sorted(snapshots.glob(f"*/{MANIFEST}")):
        try:
            found[place.parent.name] = read(place.parent)
        except SnapshotError:
            continue  # asked for by its name, it says what is wrong with it
    return dict(sorted(found.items(), key=lambda item: item[1].taken_at))


def index(folder: Path) -> tuple[Entry, ...]:
    """What the tar really holds, whatever was said of it. Raises SnapshotError where it is no whole tar."""
    import tarfile  # 10 ms to load, and a clean tree never needs it

    try:
        with tarfile.open(folder / FILES, "r:", encoding="utf-8", errors="surrogateescape") as archive:
            return tuple(_entries(archive))
    except (OSError, EOFError, ValueError, tarfile.TarError) as error:
        raise SnapshotError(f"{folder / FILES} cannot be read back: {error}") from error


def _entries(archive: tarfile.TarFile) -> Iterator[Entry]:
    for member in archive:
        mode = f"{member.mode:04o}"
        if member.issym():
            target = member.linkname.encode("utf-8", "surrogateescape")
            yield Entry(
                path=member.name,
                kind=Kind.LINK,
                mode=mode,
                size=len(target),
                sha256=hashlib.sha256(target).hexdigest(),
            )
            continue
        content = archive.extractfile(member)
        if content is None:
            raise ValueError(f"{shown(member.name)} is neither a file nor a link")
        digest, size = hashlib.sha256(), 0
        while piece := content.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
        if size != member.size:
            raise ValueError(f"{shown(member.name)} is cut short")
        yield Entry(path=member.name, kind=Kind.FILE, mode=mode, size=size, sha256=digest.hexdigest())


def shown(name: str) -> str:
    """A file's name for a terminal or a log, which it cannot command."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
