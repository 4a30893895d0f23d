"""What a person reads when the record cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_AGAIN = "then start again: the run goes on from its record."

# What the number means in plain words, and what to do about it.
_MEANINGS = {
    errno.ENOSPC: ("the disk is full", f"Free some space, {_AGAIN}"),
    errno.EDQUOT: ("the disk quota is used up", f"Free some space or raise the quota, {_AGAIN}"),
    errno.EROFS: (
        "the filesystem is read-only",
        f"Often that follows a disk error (see dmesg). Make it writable, {_AGAIN}",
    ),
    errno.EIO: (
        "the disk reported an input/output error",
        f"Check the disk and its filesystem (dmesg, smartctl, fsck), {_AGAIN}",
    ),
    errno.EACCES: ("permission denied", f"Let the harness's user have it (ls -ld, chown), {_AGAIN}"),
    errno.EPERM: ("not permitted", f"Look at its owner and attributes (ls -ld, lsattr), {_AGAIN}"),
    errno.ENOENT: ("it or its directory is gone", "Something removed it while the harness needed it."),
    errno.EEXIST: ("something of that name is there already", f"Move it away, {_AGAIN}"),
    errno.ENOTDIR: ("a part of its path is no directory", f"Move that away, {_AGAIN}"),
    errno.EISDIR: ("a directory stands in its place", f"Move it away, {_AGAIN}"),
    errno.ELOOP: ("a symbolic link stands in its place", f"Remove the link, {_AGAIN}"),
    errno.EMFILE: ("too many files are open", f"Raise the limit of open files (ulimit -n), {_AGAIN}"),
}


class RecordError(Exception):
    """The record could not be written or read: the run must end with this message and change nothing more.

    Deliberately no OSError: a handler meant for some file of the project must not swallow it.
    """

    def __init__(self, path: str | os.PathLike[str], what: str, number: int | None, left: str = "") -> None:
        self.path = Path(path)
        self.what = what  # what was asked for: "replace", "append to", "read", ...
        self.errno = number or 0
        self.left = left  # a sentence: what is on disk now
        happened, advice = _MEANINGS.get(self.errno, (os.strerror(self.errno), f"Mend that, {_AGAIN}"))
        name = errno.errorcode.get(self.errno, str(number))
        super().__init__(
            " ".join(filter(None, (f"cannot {what} {path}: {happened} ({name}).", left, advice)))
        )
