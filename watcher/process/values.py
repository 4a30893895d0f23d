"""The values that go into a process of ours and come out of it."""

from __future__ import annotations

import enum
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MARKER = "HARNESS_POKE"  # the environment variable by which a lost process is recognised


class ProcessError(Exception):
    """A process could not be started, or could not be ended; the text is for the user."""


class End(enum.Enum):
    """How a supervised process came to its end."""

    EXITED = "exited"  # by itself
    SETTLED = "settled"  # its result was complete, it did not end, we ended it
    STOPPED = "stopped"  # we were asked to stop and ended it
    DEADLINE = "deadline"  # its time was up and we ended it
    NOT_STARTED = "not_started"  # there never was a process; `Finished.error` says why


class Interrupts(Protocol):
    """Requests that reach us while a child runs."""

    def fileno(self) -> int:
        """A descriptor that is readable while a request waits (the signal wake pipe)."""
        ...

    def stop_now(self) -> bool:
        """Empty the pipe; True once for each new request to end the running child now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user a child runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    name: str
    walls: tuple[str, ...] = ()  # the sandbox it runs in: words that are put in front of every program

    @classmethod
    def of(cls, name: str) -> Account:
        """The user of that name in this machine's user database, or a ProcessError."""
        try:
            entry = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise ProcessError(f"there is no user {name!r} on this machine") from None
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(uid=entry.pw_uid, gid=entry.pw_gid, groups=groups, home=entry.pw_dir, name=entry.pw_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """How long each step of ending a process may take, in seconds."""

    int_s: float = 5.0  # the agent program needs 1.5 s to print its result after INT (measured)
    term_s: float = 5.0
    kill_s: float = 5.0  # how often KILL is repeated before a process counts as a survivor
    settle_s: float = 15.0  # from a complete result to INT (DESIGN 3)
    leftover_s: float = 2.0  # from TERM to KILL for what outlived the main process
    poll_s: float = 1.0  # how often the output is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program to run to its end."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # complete: nothing is inherited, only MARKER is added
    stdin: Path | None  # None: /dev/null
    stdout: Path  # both are created, or emptied, with mode 0600
    stderr: Path
    account: Account | None = None  # None: the user we are
    umask: int = 0o022
    timeout_s: float | None = None  # of time awake: a suspended machine does not count
    marker: str  # unique to this poke


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What identifies a process for as long as this boot lasts."""

    pid: int
    started_at_ticks: int  # field 22 of /proc/PID/stat, clock ticks since boot
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of a supervised process. Its output is in the files the command named."""

    end: End
    exit_code: int | None = None  # negative: died of that signal. None: not started, or still not dead
    pid: int | None = None
    stdout_before_signal: int | None = None  # bytes in stdout at our first signal; None: no ladder
    signalled: tuple[str, ...] = ()  # the ladder's steps in order: INT, TERM, KILL
    leftovers: tuple[str, ...] = ()  # "name(pid)" of every other process we had to end
    survivors: tuple[str, ...] = ()  # "name(pid)" of what could not be ended
    error: str = ""  # why it was not started
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a short helper program printed."""

    exit_code: int  # negative: died of that signal
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False  # there was more output than asked for; its beginning is kept
