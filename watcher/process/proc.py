"""What the kernel says of running processes: read from /proc, never cached."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from watcher.process.values import MARKER

_CHUNK = 65536
_LISTINGS = 50
_FEW = 200  # numbers tried one by one, threads included, before a listing is cheaper
_EXEC_TRIES = 40
_EXEC_S = 0.0005  # `exec` takes about that long


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of this boot. A pid alone may belong to another process a moment later."""

    pid: int
    ticks: int  # start time, clock ticks since boot


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a process."""

    identity: Identity
    parent: int
    name: str  # printable; the process itself chooses it
    alive: bool  # False for a zombie, which only waits to be reaped


def look(pid: int) -> Seen | None:
    """The process of that pid, None where there is none."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    head, _, tail = stat.rpartition(b")")  # a name may hold ")" and blanks
    fields = tail.split()  # the first is field 3 of proc(5)
    if len(fields) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    # A main thread may end before its process does: state Z, and more than one thread.
    alive = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
    return Seen(
        identity=Identity(pid, int(fields[19])),
        parent=int(fields[1]),
        name="".join(c if c.isprintable() else "?" for c in name),
        alive=alive,
    )


def exists(who: Identity) -> bool:
    """Whether that very process is still there, be it as a zombie."""
    seen = look(who.pid)
    return seen is not None and seen.identity == who


def is_alive(who: Identity) -> bool:
    """Whether that very process still runs."""
    seen = look(who.pid)
    return seen is not None and seen.alive and seen.identity == who


def own_children() -> set[int]:
    """The pids of our direct children, zombies included. One system call when there are none."""
    children: set[int] = set()
    for _ in range(_LISTINGS):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return set()
        if children := _listed_children():  # a listing may miss some while others end, this call never
            break
    return children


def _listed_children() -> set[int]:
    children: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):
            children.update(map(int, _read(f"/proc/self/task/{thread}/children").split()))
    except FileNotFoundError:  # a kernel built without CONFIG_PROC_CHILDREN
        return {pid for pid, seen in processes().items() if seen.parent == os.getpid()}
    return children


def processes() -> dict[int, Seen]:
    """One look at every process. Costs some 10 microseconds for each."""
    return {seen.identity.pid: seen for number in pids() if (seen := look(int(number)))}


def descendants(roots: Iterable[int], table: Mapping[int, Seen]) -> set[int]:
    """The children of these, their children, and so on; the roots themselves only if they are some."""
    children: dict[int, list[int]] = {}
    for pid, seen in table.items():
        children.setdefault(seen.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting.extend(new)
    return found


def ancestors(pid: int, table: Mapping[int, Seen]) -> set[int]:
    """Its parent, the parent's parent, and so on."""
    found: set[int] = set()
    seen = table.get(pid)
    while seen is not None and seen.parent not in found:
        found.add(seen.parent)
        seen = table.get(seen.parent)
    return found


def pids() -> set[str]:
    """The numbers of all processes, as /proc names them."""
    return {name for name in os.listdir("/proc") if name.isdigit()}


def pids_since(pid: int) -> Iterable[str]:
    """Where a process started after `pid`, of seconds ago, can be: all of them once the numbers wrapped.

    The kernel hands numbers out in order and says which was the last. So the quiet case, nothing
    new or little, is one small read instead of a listing of all processes.
    """
    last = int(_read("/proc/loadavg").split()[-1])
    if pid <= last <= pid + _FEW:
        return [str(number) for number in range(pid + 1, last + 1)]
    return (number for number in pids() if last < pid or int(number) > pid)


def carriers(marker: str, uid: int | None, *, among: Iterable[str] | None = None) -> Iterator[int]:
    """The pids of that user's processes (None: all users) started with `MARKER=marker`.

    Costs some 6 microseconds for each process looked at: those `among`, or all. Misses what replaced
    its environment, and, without CAP_SYS_PTRACE, other users' processes.
    """
    wanted = f"\0{MARKER}={marker}\0".encode(errors="surrogateescape")
    for number in pids() if among is None else among:
        try:
            if uid is not None and os.stat(f"/proc/{number}").st_uid != uid:
                continue
            environ = _read(f"/proc/{number}/environ") or _environ_after_exec(number)
        except OSError:
            continue
        if wanted in b"\0" + environ + b"\0":
            yield int(number)


def _environ_after_exec(number: str) -> bytes:
    """The environment of a process that showed none: in the middle of `exec` it is not there yet."""
    os.readlink(f"/proc/{number}/exe")  # raises for zombies and for the kernel's own threads
    for _ in range(_EXEC_TRIES):
        fields = _read(f"/proc/{number}/stat").rpartition(b")")[2].split()
        if fields[48] != b"0":  # env_end
            break
        time.sleep(_EXEC_S)
    return _read(f"/proc/{number}/environ")


@functools.cache
def boot_id() -> str:
    """The kernel's name for this boot; another one after every reboot."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def _read(path: str) -> bytes:
    """A small file whole; half the price of `open`, which matters with hundreds of processes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(descriptor, _CHUNK):  # /proc hands out a page at a time
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
