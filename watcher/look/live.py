"""Who works on a project right now, and how that process is woken without ever hitting another one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from watcher.look.place import Place, user_name
from watcher.look.terminal import CannotLook
from watcher.record import requests
from watcher.record.home import Home
from watcher.record.lock import Holder, holder
from watcher.record.requests import Verb
from watcher.record.runs import Run

STARTING_S = 5.0  # between its lock and its open history a harness asks git a few questions
BETWEEN_LOCKS_S = 1.0  # it makes a few directories, durably
_LOOK_S = 0.05
NOT_RUNNING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The harness that holds a project."""

    holder: Holder
    uid: int | None  # None: not to be seen from here
    ours: bool  # it holds these very records; else it works on the project with records elsewhere
    run: str = ""  # "" while it starts, or where that cannot be seen

    @property
    def user(self) -> str:
        return "an unknown user" if self.uid is None else user_name(self.uid)


def live(home: Home) -> Live | None:
    """Who holds the project; None where nobody does. Takes no lock and needs no right on the records."""
    found = holder(home.path)
    ours = found is not None
    found = found or holder(home.project)
    if found is None:
        return None
    run = _run_open_in(found.pid, home) if ours and found.pid else ""
    return Live(holder=found, uid=_uid(found.pid), ours=ours, run=run)


def current_run(known: list[Run], now_live: Live | None) -> Run | None:
    """The run a person means: the one being worked on, else the latest."""
    working = now_live.run if now_live else ""
    return next((run for run in known if run.name == working), known[-1] if known else None)


def ask(place: Place, verb: Verb, now: datetime) -> int:
    """Leave a request for the harness that works on the project and wake it; its pid. Raises CannotLook.

    The pid is that of the lock of the state directory, where nobody but the harness's user can be. It is
    looked up again once a descriptor on the process is open, so a pid given to another process
    meanwhile is never signalled; nor is a process that would die of USR1.
    """
    home = place.home
    pid = _addressee(place, _settled(home))
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        raise _not_running(home) from None
    except OSError as error:
        raise CannotLook(f"process {pid} cannot be reached safely: {error.strerror}") from error
    try:
        meant_for = requests.process_name(pid)
        run = _opened_run(home, pid, process)
        request = requests.leave(run, verb, meant_for, now)
        try:
            _wake(home, pid, process, request)
        except BaseException:
            requests.withdraw(request)
            raise
    finally:
        os.close(process)
    return pid


def _settled(home: Home) -> Live | None:
    """Who holds the project; a start that has taken one of its two locks is given the time for the other."""
    until = time.monotonic() + BETWEEN_LOCKS_S
    while (found := live(home)) and not found.ours and found.uid == os.geteuid() and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return found


def _addressee(place: Place, now_live: Live | None) -> int:
    """The process to be asked. Raises CannotLook where there is none, or none that this user may ask."""
    home = place.home
    if now_live is None:
        raise _not_running(home)
    if now_live.holder.pid is None:
        raise CannotLook(
            f"{home.project} is held by a process that cannot be seen from here (another container?). "
            "Give the command where it runs."
        )
    if now_live.uid != os.geteuid():
        raise CannotLook(
            f"the harness of {home.project} ({now_live.holder}) runs as user {now_live.user}, "
            f"and you are {user_name(os.geteuid())}: use sudo -u {now_live.user} harness ..."
        )
    if not now_live.ours:
        raise CannotLook(
            f"{now_live.holder} works on {home.project}, and its records are not those in {home.path}. "
            "Name the configuration it was started with (--config)."
        )
    _refuse_foreign(home)
    return now_live.holder.pid


def _refuse_foreign(home: Home) -> None:
    """Whoever else can open the state directory could hold its lock, and point us at any process."""
    try:
        status = os.lstat(home.path)
    except OSError:
        raise _not_running(home) from None
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ):
        raise CannotLook(f"{home.path} is open to others, so its lock proves nothing. chmod 0700 {home.path}")


def _opened_run(home: Home, pid: int, process: int) -> Run:
    """The run the process works on, once it listens for USR1. Raises CannotLook."""
    until = time.monotonic() + STARTING_S
    while True:
        name = _run_open_in(pid, home)
        run = next((run for run in home.runs.all() if run.name == name), None)
        if run is not None and _listens(pid):
            return run
        left = until - time.monotonic()
        if _ended(process, min(_LOOK_S, max(left, 0))):
            raise _not_running(home)
        if left <= 0:
            raise CannotLook(
                f"process {pid} holds {home.project} but works on no run that can be asked: "
                "it is just starting, or it is another command than a shift."
            )


def _wake(home: Home, pid: int, process: int, request: Path) -> None:
    now_holds = holder(home.path)
    if now_holds is None or now_holds.pid != pid:
        raise _not_running(home)
    if not request.exists():
        return  # taken already, with another one; a signal that finds no request means "end the wait"
    try:
        signal.pidfd_send_signal(process, signal.SIGUSR1)
    except ProcessLookupError:
        raise _not_running(home) from None
    except OSError as error:
        raise CannotLook(f"process {pid} cannot be signalled: {error.strerror}") from error


def _ended(process: int, wait_s: float) -> bool:
    """Whether the process is over, waiting a moment for that."""
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(wait_s * 1000))


def _not_running(home: Home) -> CannotLook:
    return CannotLook(f"no harness is working on {home.project}, so there is nothing to ask.", NOT_RUNNING)


def _run_open_in(pid: int | None, home: Home) -> str:
    """The id of the run whose history the process has open: every shift keeps it open while it works."""
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):  # it ended, or it is another user's
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = Path(os.readlink(folder / name))
                if target.name == "history.jsonl" and target.parent.parent == home.runs.path:
                    return target.parent.name
    return ""


def _listens(pid: int) -> bool:
    """Whether the process catches USR1, which ends a process that does not (proc(5), SigCgt)."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        facts = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        mask = next(fact.split()[1] for fact in facts if fact.startswith("SigCgt:"))
        return bool(int(mask, 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


def _uid(pid: int | None) -> int | None:
    """Whose process it is. /proc shows root for one that hides itself, which is then not ours."""
    if pid is None:
        return None
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
