"""Whether a project's path still leads to the directory it led to (DESIGN 6, "device and inode").

Paths outlive what lies behind them: a clone made anew, a restored backup, a directory that was moved.
Such a change is told, because the record would go on, or start afresh, without anybody having meant it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from watcher.record.documents import dump, load
from watcher.record.files import RecordError


def document(project: Path) -> bytes:
    """The project's identity, as it is written down."""
    return dump(_identity(project))


def change(project: Path, place: Path, all_places: Iterable[Path]) -> str | None:
    """What a person must know: the project against what is written at `place`, else None.

    Without anything there, the identities at `all_places` tell whether the directory has merely moved.
    Raises RecordError. Limit: a deleted directory's inode number can come again.
    """
    now = _identity(project)
    try:
        known = _remembered(place)
    except ValueError as error:
        return f"{place} cannot be read ({error}), so nobody knows whether {project} was replaced"
    if known is None:
        return _moved(now, all_places)
    if known["inode"] != now["inode"]:
        return (
            f"{project} is another directory than when the harness last worked here "
            f"(inode {now['inode']}, it was {known['inode']}): cloned again or restored? "
            "Its record goes on from before."
        )
    if known["device"] != now["device"]:
        return (
            f"{project} lies on another device number than before ({now['device']}, it was "
            f"{known['device']}); after a reboot that is usual, else something was mounted over it."
        )
    return None


def _moved(now: dict[str, Any], places: Iterable[Path]) -> str | None:
    for place in places:
        try:
            known = _remembered(place)
        except ValueError:
            continue  # told when that project starts
        if known and (known["device"], known["inode"]) == (now["device"], now["inode"]):
            return (
                f"{now['path']} is the directory the harness knew as {known['path']}. "
                f"Its record stays in {place.parent}; under the new path it starts afresh."
            )
    return None


def _identity(project: Path) -> dict[str, Any]:
    status = os.stat(project)
    return {"path": str(project), "device": status.st_dev, "inode": status.st_ino}


def _remembered(place: Path) -> dict[str, Any] | None:
    """What was written down; None where nothing was. Raises ValueError where it is damaged."""
    try:
        known = load(place.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(place, "read", error.errno) from error
    if missing := {"path", "device", "inode"} - known.keys():
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    return known
