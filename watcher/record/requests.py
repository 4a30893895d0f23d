"""What a person asks of a running shift: small files in the run's directory (DESIGN 9, the verbs).

A file says what is wanted, USR1 only says "look": so a reload can never be taken for a stop, and
asking twice for a drain is no kill. A request is meant for one process. Whoever finds one meant for
another (it was killed before it could look) drops it: a stop from yesterday must not stop today's start.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from watcher.record.documents import dump, load
from watcher.record.files import RecordError
from watcher.record.runs import Run

_NAME = re.compile(r"\d{20}-[0-9a-f]{4}\.json")
_LONGEST = 4096  # bytes; a request of ours has some 150


class Verb(enum.Enum):
    """What can be asked of a running shift. Each may be asked twice and means the same."""

    STOP = "stop"  # now, as TERM does
    DRAIN = "drain"  # after the poke that is running, as one INT does
    RELOAD = "reload"  # read the configuration again between two pokes
    WAKE = "wake"  # end the wait that is going on


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it lies there. `meant_for` is a `process_name`."""

    path: Path
    verb: Verb
    meant_for: str


class RequestDamaged(Exception):
    """A file among the requests that is none; the message says what is wrong with it."""


def leave(run: Run, verb: Verb, meant_for: str, now: datetime) -> Path:
    """Write a request down, durable on return; then wake its process. Raises RecordError."""
    place = run.path / "requests"
    run.disk.make_dir(place)
    path = place / f"{int(now.timestamp() * 1e9):020d}-{os.urandom(2).hex()}.json"
    document = {"verb": verb.value, "meant_for": meant_for, "at": now.isoformat()}
    run.disk.replace(path, dump(document))
    return path


def withdraw(path: Path) -> None:
    """Take a request back, or remove an applied one; one that is gone is fine. Raises RecordError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RecordError(path, "delete", error.errno) from error


def pending(run: Run) -> list[Path]:
    """The requests that lie there, oldest first, not yet read."""
    try:
        names = os.listdir(run.path / "requests")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(run.path / "requests", "read", error.errno) from error
    return [run.path / "requests" / name for name in sorted(names) if _NAME.fullmatch(name)]


def read(path: Path) -> Request:
    """Raises RequestDamaged, also for a file that is gone meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            document = load(file.read(_LONGEST))
        return Request(path=path, verb=Verb(document["verb"]), meant_for=str(document["meant_for"]))
    except (OSError, ValueError, KeyError) as error:
        raise RequestDamaged(f"{path} is no request that can be read ({error!r})") from error


def take(
    run: Run, note: Callable[[str], object] = lambda text: None, *, me: str | None = None
) -> Iterator[Verb]:
    """Each verb asked of this process, oldest first; its file is removed once the caller asks for the next.

    So a caller that applies each verb in the loop's body never loses one. Never raises: a request
    that cannot be read, removed, or was meant for another process is told to `note`. One that stays
    because it cannot be removed is applied again at the next look, which changes nothing.
    """
    me = process_name(os.getpid()) if me is None else me
    try:
        paths = pending(run)
    except RecordError as error:
        note(str(error))
        return
    for path in paths:
        try:
            request = read(path)
        except RequestDamaged as error:
            note(f"a request was dropped: {error}")
        else:
            if request.meant_for == me:
                yield request.verb
            else:
                note(
                    f"a request to {request.verb.value} was dropped: it was meant for a harness that is gone"
                )
        try:
            withdraw(path)
        except RecordError as error:
            note(str(error))


def process_name(pid: int) -> str:
    """A name for one process that no other of this machine has, in every pid namespace; "" where it is gone.

    When it was started, not its number: in a container the harness does not know the number outside.
    Two processes can begin within one tick, but not one after the other under one lock.
    """
    with contextlib.suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        ticks = stat.rpartition(b")")[2].split()[19].decode()  # field 22 of proc(5); a name may hold ")"
        return f"{boot}/{ticks}"
    return ""
