"""What a project's repository hands over to be published: commits as a pack, and whether it is in order.

All of it runs as the agent's user, and nothing of what it says is believed: the pack is checked object
by object where it arrives (quarantine.py).

Why no `git fetch`: its other end is a command line that git gives to a shell, it knows no limit of size,
and it costs 14 to 20 ms of CPU where packing and unpacking cost 4 (measured, git 2.39).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from watcher.effect.git import DISARMED, GitError, Repository, TooMuch, answer, git_between_files
from watcher.log import printable

SMALL = 8 * 2**20  # of a pack that is held in memory
OBJECT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

_PACK = ("pack-objects", "-q", "--revs", "--thin", "--delta-base-offset", "--stdout")
_UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a series of cherry-picks or reverts",
    "rebase-apply": "a series of patches",
}


def unfinished(repository: Repository, branch: str) -> str:
    """What is half done on that branch: "a merge", "a rebase"; "" where nothing is. Raises GitError.

    git itself says where its directory is. What stands there is only looked for and compared, never
    shown, since any part of it may be a link to somewhere else.
    """
    place = Path(repository.ask("rev-parse", "--absolute-git-dir").removesuffix("\n"))
    ref = f"refs/heads/{branch}"
    for name in ("rebase-merge", "rebase-apply"):  # HEAD is detached meanwhile
        if _says(place / name / "head-name", ref):
            return "a rebase"
    if not _says(place / "HEAD", f"ref: {ref}"):
        return ""
    return next((what for name, what in _UNFINISHED.items() if os.path.lexists(place / name)), "")


def known(repository: Repository, objects: Iterable[str]) -> frozenset[str]:
    """Those of these objects that the project says it has. Raises GitError."""
    asked = "".join(f"{name}\n" for name in objects).encode()
    if not asked:
        return frozenset()
    out = repository.ask("cat-file", "--batch-check=%(objectname)", input=asked)
    return frozenset(line for line in out.splitlines() if OBJECT.fullmatch(line))


def pack(repository: Repository, wanted: Sequence[str], without: Sequence[str], *, timeout_s: float) -> bytes:
    """The commits `wanted` and what is below them, less what is below `without`, as git's own pack.

    Raises GitError; TooMuch beyond 8 MiB, where `pack_into` is the way.
    """
    revisions = _revisions(wanted, without)
    tool = repository.run(*_PACK, input=revisions, timeout_s=timeout_s, max_output=SMALL)
    if tool.truncated:
        raise TooMuch("more than fits into memory is new")
    answer(tool, "pack-objects", timeout_s)
    return tool.stdout


def pack_into(
    repository: Repository,
    file: Path,
    wanted: Sequence[str],
    without: Sequence[str],
    *,
    most: int,
    timeout_s: float,
) -> None:
    """The same, into a file of ours by way of its descriptor. TooMuch beyond `most` bytes."""
    revisions = file.with_suffix(".revisions")
    revisions.write_bytes(_revisions(wanted, without))
    git_between_files(
        *DISARMED,
        *_PACK,
        verb=_PACK[0],
        cwd=repository.path,
        env=repository.env,
        account=repository.account,
        timeout_s=timeout_s,
        stdin=revisions,
        stdout=file,
        most=most,
    )


def _revisions(wanted: Sequence[str], without: Sequence[str]) -> bytes:
    """What `pack-objects --revs` reads: whole object names only, since another word could be an option."""
    for name in (*wanted, *without):
        if not OBJECT.fullmatch(name):
            raise GitError(f"{printable(name)} is no object name")
    return "".join([*(f"{name}\n" for name in wanted), *(f"^{name}\n" for name in without)]).encode()


def _says(place: Path, line: str) -> bool:
    """Whether a regular file holds just that line. No link is followed at its end, nothing waited for."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(descriptor, 4096).rstrip() == os.fsencode(line)
    except OSError:
        return False
    finally:
        os.close(descriptor)
