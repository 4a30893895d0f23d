"""The checkpoint: one file that holds all a run needs to go on, believed only when it is whole.

Guarantee (A, "Checkpointing"): a reader sees the former or the new checkpoint, never a mixture; a
file that was shortened or changed after it was written is refused, never half believed. Limit: the
checksum covers what happens after framing and nothing before. A state that was wrong when it was
handed to `save` is framed, hashed and loaded without a murmur.
"""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import orjson

from watcher.record.documents import dump
from watcher.record.files import Disk, RecordError, Survives

T = TypeVar("T", bound=msgspec.Struct)


class Refusal(enum.Enum):
    """Why a checkpoint is not believed."""

    UNREADABLE = "unreadable"  # no frame, or no state inside it
    CHECKSUM = "checksum mismatch"
    SCHEMA = "schema version"


class CheckpointDamaged(Exception):
    """A checkpoint that must not be resumed from. For A's loop this is UNRECOVERABLE_ERROR."""

    def __init__(self, path: str | os.PathLike[str], reason: Refusal, detail: str) -> None:
        self.path = Path(path)
        self.reason = reason
        super().__init__(
            f"the checkpoint {self.path} is refused ({reason.value}): {detail}. Nothing is resumed from it, "
            f"and it is kept for you to look at. Put the right one back, or move {self.path.parent} away to "
            "begin a new run."
        )


def frame(body: bytes) -> bytes:
    """`body` with its checksum, as it stands in the file."""
    return orjson.dumps({"sha256": hashlib.sha256(body).hexdigest(), "body": body.decode()})


def unframe(path: str | os.PathLike[str], framed: bytes) -> bytes:
    """The body, byte for byte as it was saved. Raises CheckpointDamaged."""
    try:
        document = orjson.loads(framed)
        body = document["body"].encode()
        promised = document["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(path, Refusal.UNREADABLE, f"it holds no whole frame ({error!r})") from error
    if hashlib.sha256(body).hexdigest() != promised:
        raise CheckpointDamaged(path, Refusal.CHECKSUM, "its content was changed after it was written")
    return bytes(body)


def save(
    disk: Disk, path: str | os.PathLike[str], body: bytes, survives: Survives = Survives.POWER_CUT
) -> None:
    """Frame `body` (UTF-8) and put it in place of the file, durable on return. Raises RecordError."""
    disk.replace(path, frame(body), survives=survives)


def load(path: str | os.PathLike[str]) -> bytes | None:
    """The saved body; None where no checkpoint was ever saved. Raises CheckpointDamaged, RecordError."""
    try:
        framed = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(path, "read", error.errno) from error
    return unframe(path, framed)


class _Body(msgspec.Struct):
    schema_version: int
    state: msgspec.Raw


class Checkpoint(Generic[T]):
    """The typed state of one run on disk, for the run's sole writer (under the lock).

    `loaders` turns the JSON of an older schema version into today's state, one entry a version.
    A version that is in no table is refused, newer ones included: guessing would lose what they added.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        kind: type[T],
        *,
        schema_version: int,
        loaders: Mapping[int, Callable[[bytes], T]] | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.path = Path(path)
        self._disk = disk or Disk()
        self._version = schema_version
        decoder = msgspec.json.Decoder(kind)
        self._loaders: dict[int, Callable[[bytes], T]] = {**(loaders or {}), schema_version: decoder.decode}
        self._refused = False

    def save(self, state: T, *, survives: Survives = Survives.POWER_CUT) -> None:
        """Durable on return. A refused file still in place is set aside first. Raises RecordError."""
        if self._refused:
            self.set_aside()
        body = dump(_Body(schema_version=self._version, state=msgspec.Raw(dump(state))))
        save(self._disk, self.path, body, survives)

    def load(self) -> T | None:
        """The state last saved, None where there is none. Raises CheckpointDamaged, RecordError.

        A refused file stays where it is, so that the next start is refused too and never
        takes the run for a new one; `set_aside` or the next `save` moves it.
        """
        try:
            body = load(self.path)
            return None if body is None else self._understand(body)
        except CheckpointDamaged:
            self._refused = True
            raise

    def set_aside(self) -> Path | None:
        """Move the file to `<name>.damaged-N`, never deleted; its new name, None without a file."""
        self._refused = False
        if not os.path.lexists(self.path):
            return None
        return self._disk.set_aside(self.path, "damaged")

    def sweep(self) -> list[str]:
        """Remove the unfinished files of killed saves; the names removed. For the start of a run."""
        return self._disk.sweep(self.path)

    def _understand(self, body: bytes) -> T:
        try:
            parsed = msgspec.json.decode(body, type=_Body)
        except msgspec.MsgspecError as error:
            raise CheckpointDamaged(
                self.path, Refusal.UNREADABLE, f"its body holds no state ({error})"
            ) from error
        loader = self._loaders.get(parsed.schema_version)
        if loader is None:
            known = ", ".join(map(str, sorted(self._loaders)))
            detail = f"it has version {parsed.schema_version}, this harness reads {known}"
            raise CheckpointDamaged(self.path, Refusal.SCHEMA, detail)
        try:
            return loader(bytes(parsed.state))
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
            detail = f"its state does not fit version {parsed.schema_version} ({error})"
            raise CheckpointDamaged(self.path, Refusal.SCHEMA, detail) from error
