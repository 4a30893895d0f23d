"""One harness a project: who holds it, and the refusal of everybody else (DESIGN 6, "Lock")."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from watcher.record.files import RecordError
from watcher.record.home import Home, HomeRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that took a lock. It can have ended since, with a child that still holds it."""

    pid: int | None  # None: in another pid namespace, or gone meanwhile
    command: str = ""  # as /proc shows it, cut and made printable; not to be trusted

    def __str__(self) -> str:
        if self.pid is None:
            return "a process this one cannot see"
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


class Held(Exception):
    """Another process works here. Exit 75."""

    def __init__(self, place: Path, holder: Holder) -> None:
        self.place = place
        self.pid = holder.pid
        self.who = holder.command
        super().__init__(
            f"{place} is held by {holder}; two agents never work one tree. "
            "Leave it to that one, or end that one first (harness stop)."
        )


@contextlib.contextmanager
def hold(home: Home, project: Path) -> Iterator[None]:
    """Hold the project and its state for the length of the block. Raises Held, HomeRefused, RecordError.

    The project's own descriptor is seen by every user and every state root; the state
    directory's is out of the agent's reach. The kernel frees both however the process ends. The descriptors
    are closed on exec, so no agent keeps them. Limits: who can read the project directory can
    lock it and keep the harness out (the refusal names the process); on network filesystems the lock
    may bind one machine only.
    """
    with _locked(Path(os.path.realpath(project))):
        home.prepare()
        with _locked(home.path):
            yield


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HomeRefused(f"there is no directory {directory}: is the project's path right?") from error
    except OSError as error:
        raise RecordError(directory, "open", error.errno) from error
    try:
        _take(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Held(directory, holder(directory) or Holder(pid=None)) from error
    except OSError as error:
        raise RecordError(directory, "flock", error.errno) from error


@contextlib.contextmanager
def taking_turns(directory: Path) -> Iterator[None]:
    """Wait for the other harnesses of this user to be done with a directory whose files they share.

    For milliseconds of reading, changing and replacing (the accounts' limit gates), never around a wait.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordError(directory, "open", error.errno) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def holder(directory: Path) -> Holder | None:
    """Who holds the lock on a directory, None where nobody does or it is not there. Needs no right on it.

    On the project directory anybody who can read it may be the holder: send signals only to the holder of
    `Home.path`, where none but the harness's user can be.
    """
    try:
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        place = f"{_device(descriptor)}:{os.fstat(descriptor).st_ino}"
    finally:
        os.close(descriptor)
    table = ""
    with contextlib.suppress(OSError):  # some containers have no such table
        table = Path("/proc/locks").read_text(encoding="utf-8", errors="replace")
    pid = flock_holders(table).get(place)
    if pid is None:
        return None
    return Holder(pid=pid, command=_command(pid)) if pid > 0 else Holder(pid=None)


def flock_holders(table: str) -> dict[str, int]:
    """The pids in /proc/locks by "major:minor:inode", as it prints them (proc(5)): holders, not who waits."""
    holders = {}
    for row in table.splitlines():
        fields = row.split()
        if (
            len(fields) > 5 and fields[1] == "FLOCK" and fields[4].lstrip("-").isdigit()
        ):  # waiting: "->" there
            holders[fields[5]] = int(fields[4])
    return holders


def _device(descriptor: int) -> str:
    """The filesystem's device as /proc/locks prints it. On btrfs stat tells another one, so ask the mount."""
    status = os.fstat(descriptor)
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    with contextlib.suppress(OSError, ValueError, StopIteration):
        facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="utf-8").splitlines()
        mount = next(fact.split()[1] for fact in facts if fact.startswith("mnt_id:"))
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        device = next(fields[2] for row in mounts if (fields := row.split())[0] == mount)
        major, minor = map(int, device.split(":"))
    return f"{major:02x}:{minor:02x}"


def _command(pid: int) -> str:
    for name in ("cmdline", "comm"):
        with contextlib.suppress(OSError):
            text = (
                Path(f"/proc/{pid}/{name}").read_bytes()[:400].replace(b"\0", b" ").decode(errors="replace")
            )
            if printable := "".join(c for c in text if c.isprintable()).strip():
                return printable[:100]
    return ""
