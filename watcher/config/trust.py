"""Whether somebody else, the agent above all, could change a configuration (H 7.1, 7.3)."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from watcher.config.errors import ConfigError
from watcher.config.files import SYSTEM_DIR


def refuse_what_others_write(path: Path, project: str) -> None:
    """Refuse a configuration that others than root and we can write, or that the agent works next to.

    Looks at the file, the directory it stands in and, for a link, the ones it leads to. Directories further
    up, and access lists, are not looked at.
    """
    real = Path(os.path.realpath(path))
    for place in dict.fromkeys((path.parent, real.parent)):
        if within(project, place):
            raise ConfigError(
                f"it stands inside the project {project}, where the agent could change it: "
                f"move it to {SYSTEM_DIR} or your own configuration directory",
                where=str(path),
            )
        _refuse_foreign(place, f"its directory {place}", path)
    _refuse_foreign(real, "it", path)


def within(directory: str, place: str | Path) -> bool:
    """Whether a place is a directory or lies below it, links resolved."""
    outer = os.path.realpath(directory)
    return os.path.commonpath([outer, os.path.realpath(place)]) == outer


def others_can_read(path: Path) -> bool:
    """Whether some other user can come as far as the file's text. Access lists are not looked at."""
    real = Path(os.path.realpath(path))
    return bool(real.stat().st_mode & 0o044) and all(place.stat().st_mode & 0o011 for place in real.parents)


def _refuse_foreign(place: Path, what: str, path: Path) -> None:
    try:
        status = place.stat()
    except OSError as error:
        raise ConfigError(f"the configuration cannot be read: {error.strerror}", where=str(path)) from error
    if status.st_uid not in {0, os.geteuid()}:
        owners = " or ".join(dict.fromkeys(("root", _user(os.geteuid()))))
        raise ConfigError(
            f"{what} belongs to {_user(status.st_uid)}, who could change it: it must belong to {owners}",
            where=str(path),
        )
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # as /tmp: others' files stay put
    if status.st_mode & 0o022 and not sticky:
        raise ConfigError(
            f"{what} can be written by other users, who could change it: run chmod go-w {place}",
            where=str(path),
        )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
