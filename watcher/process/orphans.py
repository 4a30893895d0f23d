"""After a crash of ours: end what the last poke left running (DESIGN 6)."""

from __future__ import annotations

from watcher.process.family import Family
from watcher.process.proc import Identity, boot_id, is_alive
from watcher.process.sweep import Sweep
from watcher.process.values import Ladder, ProcessError, Started

_LADDER = Ladder()


def end_orphans(marker: str, started: Started | None, *, ladder: Ladder = _LADDER) -> tuple[str, ...]:
    """End the recorded process and its descendants, and every process that carries the marker.

    The same ladder as in `supervise`. Returns "name(pid)" of each; nothing where there is nothing.
    Raises ProcessError where something could not be ended: two agents must not work one tree.
    A process is found by its marker only where its environment is readable (its own user, or
    CAP_SYS_PTRACE); what detached itself and dropped its environment cannot be found any more.
    """
    root = _recorded(started)
    family = Family(root, marker=marker, uid=None, before=None)
    sweep = Sweep(family)
    names = _name_of(family, root)
    sweep.interrupt(ladder.int_s)
    sweep.clear(term_s=ladder.term_s, kill_s=ladder.kill_s)
    if sweep.survivors:
        raise ProcessError(f"processes of an earlier run cannot be ended: {', '.join(sweep.survivors)}")
    return names + sweep.ended


def _recorded(started: Started | None) -> Identity | None:
    """The recorded process if it still runs: after a reboot, and after a reuse of its pid, it is not."""
    if started is None or started.boot_id != boot_id():
        return None
    root = Identity(started.pid, started.started_at_ticks)
    return root if is_alive(root) else None


def _name_of(family: Family, root: Identity | None) -> tuple[str, ...]:
    if root is None:
        return ()
    name = family.living().get(root)
    return (f"{name}({root.pid})",) if name else ()
