"""A child of ours and everything it brought into being."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from watcher.process.proc import (
    Identity,
    ancestors,
    carriers,
    descendants,
    exists,
    is_alive,
    look,
    own_children,
    pids_since,
    processes,
)

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_SURE = 3  # scans until an empty one is believed although an orphan of ours is still listed
_REUSE_S = 5.0  # so soon the numbers cannot have come round to where they were
_WALL = "bwrap"  # the name of the sandbox's own processes (effect/sandbox.py)
_WALL_S = 0.25  # how long they may take to follow their program, which takes a millisecond
_LOOK_S = 0.0005
_CHASES = 1000  # rounds of about 30 microseconds, faster than a process can fork itself away


def become_subreaper() -> bool:
    """From now on an orphan among our descendants becomes our child instead of init's.

    False where the kernel refuses; then what detaches itself is found by its marker alone.
    """
    import ctypes  # 2 ms to load, needed once in the life of a shift

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


@dataclass(frozen=True, slots=True)
class Before:
    """What there was before a child was started: none of it belongs to the child's family."""

    children: frozenset[Identity]  # of ours
    at: float  # monotonic

    @classmethod
    def now(cls) -> Before:
        children = frozenset(seen.identity for pid in own_children() if (seen := look(pid)))
        return cls(children, time.monotonic())


class Family:
    """The processes that may be ended with `root`: its descendants and what carries its marker.

    Spared are pid 1, this process and its ancestors, and the children we had before with their
    descendants. Beyond that every new child of ours counts as an orphan of the family: no other
    thread may start processes meanwhile.
    """

    def __init__(self, root: Identity | None, *, marker: str, uid: int | None, before: Before | None) -> None:
        """`before` is None where `root` is no child of ours."""
        self.root = root
        self._marker = marker
        self._uid = uid
        self._before = before
        self._reaps = before is not None
        # As pid 1 of a container we inherit the orphans of strangers too.
        self._adopts = self._reaps and os.getpid() != 1
        # Everything found so far: it stays family when its parent, our only way to it, is gone.
        self._known: set[Identity] = {root} if root else set()
        self._walled = root is not None and (seen := look(root.pid)) is not None and seen.name == _WALL

    def program(self) -> Identity | None:
        """The program itself. A sandbox in front of it passes no signal on: it would die, and take it along.

        bubblewrap is two processes, the outer and the first in its pid namespace, whose eldest child it is.
        """
        if self.root is None or not self._walled:
            return self.root
        table = processes()
        found = table.get(self.root.pid)
        while found is not None and found.name == _WALL:
            inner = [seen for seen in table.values() if seen.parent == found.identity.pid and seen.alive]
            if not inner:
                break  # it is still being set up
            found = min(inner, key=lambda seen: (seen.identity.ticks, seen.identity.pid))
        return found.identity if found is not None else self.root

    def is_gone_soon(self) -> bool:
        """Whether nothing is left, once `root` has been reaped; a sandbox's own end is waited for."""
        until = time.monotonic() + _WALL_S
        while not (gone := self.is_gone()) and self._walled and time.monotonic() < until:
            time.sleep(_LOOK_S)
        return gone

    def is_gone(self) -> bool:
        """Whether nothing is left, once `root` has been reaped. Cheap when that is so."""
        self.reap()
        young = self._before is not None and time.monotonic() - self._before.at < _REUSE_S
        among = pids_since(self.root.pid) if self._marker and self.root and young else None
        return not self.adopted() and not self._carriers(among)

    def living(self) -> dict[Identity, str]:
        """Every member that still runs, by name. Costs a scan of all processes."""
        found: dict[Identity, str] = {}
        for _ in range(_SURE):
            self.reap()
            found = self._scan()
            if found or not self.adopted():
                break
        return found

    def root_lives(self) -> bool:
        """Whether the main process still runs."""
        return self.root is not None and is_alive(self.root)

    def adopted(self) -> set[int]:
        """Orphans that became our children, zombies included."""
        return self._new_children() if self._adopts else set()

    def reap(self) -> None:
        """Let ended orphans go. `root` is left to the code that started it."""
        if self._reaps:
            for pid in self._new_children():
                _reap(pid)

    def chase(self) -> dict[Identity, str]:
        """KILL adopted orphans until none comes up, and name them.

        Killing our direct children makes theirs ours. A process that forks and exits without end
        slips through a scan, but not through this.
        """
        caught: dict[Identity, str] = {}
        for _ in range(_CHASES):
            orphans = self.adopted()
            if not orphans:
                break
            for pid in orphans:
                if _reap(pid):
                    continue
                with suppress(PermissionError):  # not yet reaped, so the pid is still its own
                    os.kill(pid, signal.SIGKILL)
                if seen := look(pid):
                    caught[seen.identity] = seen.name
        return caught

    def _scan(self) -> dict[Identity, str]:
        marked = self._carriers()
        table = processes()  # after the other look, else a new carrier would not be in it
        spared = self._spared()
        off_limits = {1, os.getpid()} | ancestors(os.getpid(), table)
        known = {who.pid for who in self._known if who.pid in table and table[who.pid].identity == who}
        roots = known | (marked - off_limits)
        found = roots | descendants(roots | {os.getpid()} if self._adopts else roots, table)
        found -= off_limits | spared | descendants(spared, table)
        seen = [table[pid] for pid in found if pid in table and table[pid].alive]
        self._known.update(one.identity for one in seen)
        return {one.identity: one.name for one in seen}

    def _carriers(self, among: Iterable[str] | None = None) -> set[int]:
        return set(carriers(self._marker, self._uid, among=among)) if self._marker else set()

    def _new_children(self) -> set[int]:
        children = own_children()
        if children and self.root is not None and exists(self.root):
            children.discard(self.root.pid)
        return children - self._spared()

    def _spared(self) -> set[int]:
        """Those of our earlier children that are still there: their pids may be others' by now."""
        children = self._before.children if self._before else ()
        return {who.pid for who in children if exists(who)}


def deliver(who: Identity, number: signal.Signals) -> bool:
    """Send a signal to that very process; False where it is gone or out of our reach."""
    if who.pid <= 1 or who.pid == os.getpid():
        return False
    try:
        descriptor = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # an old kernel, or a sandbox that forbids it
        return is_alive(who) and _kill(who.pid, number)
    try:
        if not is_alive(who):  # the descriptor is taken: the pid can no longer change hands unseen
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(pid: int) -> bool:
    """Whether that child has ended; if so, it is gone now."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
