"""Verify everything that is remembered of a project: START HERE (H 8, DESIGN 6).

Each file is read whole and held against what the others say of it. Nothing is written, locked or
repaired. A harness may be at work meanwhile: what it is just writing is no damage.

verify_run.py      one run: checkpoint, ending, flight note, requests, and how they fit together
verify_history.py  its history, line by line, and the exchange each line speaks of
verify_lines.py    any other file of lines
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from watcher.look.finding import Finding, Looked, damage, note
from watcher.look.live import live
from watcher.look.place import Place, demand_known, runs, unreadable, user_name
from watcher.look.terminal import CannotLook
from watcher.look.verify_lines import lines_of, unfinished
from watcher.look.verify_run import run_findings
from watcher.record.account import Gate
from watcher.record.error import RecordError
from watcher.record.home import Home

NOT_OURS = "the harness makes no such thing; who put it there could also have changed the rest"
OPEN_TO_OTHERS = "others could read or change what the harness remembers"
STRANGE_RUN = "no run of the harness is called so; it is never looked at"

Snapshot = Callable[[Path], str]  # what is wrong with a snapshot's folder, "" for nothing


def verify(place: Place, looked: Looked, snapshot: Snapshot) -> Iterator[Finding]:
    """Everything that is found, in the order it is looked at; `looked` counts along.

    Raises CannotLook where there are no records, or none that this user may read.
    """
    demand_known(place)
    home = place.home
    if not os.path.lexists(home.path):
        raise CannotLook(f"there is no state of {home.project} yet; a run makes it in {home.path}")
    yield from map(looked.count, _all(place, home, looked, snapshot))


def _all(place: Place, home: Home, looked: Looked, snapshot: Snapshot) -> Iterator[Finding]:
    now_live = live(home)
    known = runs(place)
    newest = known[-1].name if known else ""
    working = (now_live.run or newest) if now_live and now_live.ours else ""
    yield from _private(home)
    yield from _identity(home)
    for run in known:
        looked.runs += 1
        yield from run_findings(run, looked, is_live=run.name == working)
    yield from _beside_runs(home, {run.name for run in known})
    for path in sorted(home.path.glob("*.jsonl")):  # sign-offs, answers, gates, publications
        yield from lines_of(path, looked)
    yield from _snapshots(home, looked, snapshot)
    yield from _accounts(home)


# --- who can reach it ---------------------------------------------------------------------------


def _private(home: Home) -> Iterator[Finding]:
    """Owner and mode of every directory and file: the agent must not reach what is believed of it."""
    owner = _owner(home)
    for place in (home.root, home.path, home.root / "accounts"):
        yield from _one_private(place, os.lstat(place), owner) if os.path.lexists(place) else ()
    waiting = [home.path]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path, status = Path(entry.path), entry.stat(follow_symlinks=False)
                    yield from _one_private(path, status, owner)
                    if stat.S_ISDIR(status.st_mode) and path != home.publisher:  # git's own files are inside
                        waiting.append(path)
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as error:
            if folder == home.path:
                raise unreadable(home, error) from error
            yield damage(folder, f"cannot be read: {error.strerror}", "nothing in it could be verified")
    yield from _reachable(home, owner)


def _owner(home: Home) -> int:
    """Who the state should belong to: root may verify another user's."""
    return os.lstat(home.path).st_uid if os.geteuid() == 0 else os.geteuid()


def _one_private(path: Path, status: os.stat_result, owner: int) -> Iterator[Finding]:
    mode = stat.S_IMODE(status.st_mode)
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "neither a file nor a directory"
        yield damage(path, f"is {what}", NOT_OURS)
        return
    if status.st_uid != owner:
        whose = f"belongs to user {user_name(status.st_uid)}, not to {user_name(owner)}"
        yield damage(path, whose, OPEN_TO_OTHERS)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        right = "0700" if stat.S_ISDIR(status.st_mode) else "0600"
        yield damage(path, f"has mode {mode:04o} instead of {right}", OPEN_TO_OTHERS)


def _reachable(home: Home, owner: int) -> Iterator[Finding]:
    """The work directories are for the agent's user to pass, never to write."""
    for place in (home.work_root, home.work):
        try:
            status = os.lstat(place)
        except OSError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != owner or mode & (stat.S_IWGRP | stat.S_IWOTH):
            whose = f"belongs to user {user_name(status.st_uid)} and has mode {mode:04o} instead of 0711"
            yield damage(place, whose, "others could change what is checked out there")


# --- the files that belong to no run ------------------------------------------------------------


def _identity(home: Home) -> Iterator[Finding]:
    path = home.path / "project.json"
    lost = "nobody would notice if another directory stood in the project's place; the next start mends it"
    if not path.exists():
        yield note(path, "is not there", lost)
        return
    try:
        changed = home.identity_change() if home.project.is_dir() else "the project directory is gone"
    except RecordError as error:
        changed = str(error)
    if changed and "cannot be read" in changed:
        yield damage(path, changed, lost)
    elif changed:
        yield note(path, changed, "it is told at the next start")


def _beside_runs(home: Home, known: set[str]) -> Iterator[Finding]:
    """What lies among the runs and is none: a deletion that was cut short, for one."""
    place = home.path / "runs"
    try:
        names = sorted(os.listdir(place))
    except FileNotFoundError:
        yield damage(place, "is not there", "every run of this project is gone")
        return
    for name in names:
        if name.startswith(".removing-"):
            yield note(
                place / name, "is an old run whose deletion was cut short", "the next start finishes it"
            )
        elif name not in known:
            yield note(place / name, "is no run", STRANGE_RUN)


def _snapshots(home: Home, looked: Looked, snapshot: Snapshot) -> Iterator[Finding]:
    for folder in sorted(home.snapshots.glob("*")) if home.snapshots.is_dir() else ():
        if not folder.is_dir():
            yield note(folder, "is no snapshot", "it is never looked at")
        elif not (folder / "manifest.json").exists():
            yield note(folder, "is a snapshot that was cut short", "it is made again, or never used")
        else:
            looked.snapshots += 1
            if problem := snapshot(folder):
                yield damage(folder, problem, "the uncommitted work kept there cannot all be brought back")


def _accounts(home: Home) -> Iterator[Finding]:
    """The limit gates, which all projects of this user share."""
    for path in sorted((home.root / "accounts").glob("*")):
        with suppress(FileNotFoundError):
            yield from _one_private(path, os.lstat(path), _owner(home))
        if path.name.endswith(".tmp"):
            yield unfinished(path)
            continue
        try:
            msgspec.json.decode(path.read_bytes(), type=Gate)
        except FileNotFoundError:
            continue
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            meaning = "it is taken for an open gate: one poke finds out whether the account is limited"
            yield damage(path, f"cannot be read: {error}", meaning)
