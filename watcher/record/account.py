"""The limit gate: what one watcher learns of an account's quota, all of its projects know (DESIGN 4).

A quota belongs to an account, not to a project. Without the gate, ten projects would each burn a poke
on one limit, and ten more when it ends. At the reset one of them tries first; the others follow when its
poke has outlived the time a refusal takes, or has ended without one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from watcher.record.documents import dump
from watcher.record.files import Disk
from watcher.record.lock import taking_turns

REFUSAL = timedelta(seconds=20)  # a refused poke ends in 1 to 3 s; 15 s more where the program retries
AGAIN = timedelta(seconds=45)  # from a refused try to the next, also where the words say "now"
SET_BACK = timedelta(minutes=1)  # less than this is the clock's own correction


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the account. An old or unreadable file is an open gate: one poke finds out."""

    until: datetime | None = None  # when a poke may be tried again, margin included
    words: str = ""
    seen_by: str = ""  # the project that met the limit
    seen_at: datetime | None = None  # when its poke began: a clock that shows less has been set back since
    probe_by: str = ""  # the project that tries first
    probe_at: datetime | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Not now: the account is limited, or another project is just finding out whether it still is."""

    until: datetime
    why: str


class Account:
    """One account's gate. Every method may raise RecordError."""

    def __init__(self, path: Path, name: str, project: str, disk: Disk) -> None:
        self.name = name
        self._path = path
        self._project = project
        self._disk = disk
        self._tried_at: datetime | None = None  # when the last poke of ours was let through

    def hold(self, now: datetime) -> Hold | None:
        """Whether to wait before a poke; None lets it start, and may make it the one that tries first."""
        held = self._hold(now)
        if held is None:
            self._tried_at = now
        return held

    def _hold(self, now: datetime) -> Hold | None:
        if self._read().until is None:
            return None
        with taking_turns(self._path.parent):
            gate = self._read()
            if gate.until is None:
                return None
            if gate.until > now and not _is_set_back(gate, now):
                return Hold(
                    until=gate.until, why=f"account {self.name}: {gate.words} (met by {gate.seen_by})"
                )
            if gate.probe_at is None or gate.probe_by == self._project or gate.probe_at > now:
                self._write(msgspec.structs.replace(gate, probe_by=self._project, probe_at=now))
                return None
            if gate.probe_at + REFUSAL <= now:
                self._write(Gate())
                return None
            return Hold(
                until=gate.probe_at + REFUSAL,
                why=f"account {self.name}: {gate.probe_by} is trying whether the limit is over",
            )

    def limited(self, until: datetime, words: str, *, over: bool = False) -> None:
        """A poke of ours met the limit: nobody tries before `until`. A later instant known already stays.

        `over`: the words name a time that has passed. Where ours was the try after a reset, nobody tries
        again within `AGAIN` of it then, since to all of them the words would say "now".
        """
        with taking_turns(self._path.parent):
            gate = self._read()
            probing = gate.probe_by == self._project
            if over and probing and self._tried_at is not None:
                until = max(until, self._tried_at + AGAIN)
            if gate.until is not None and gate.until > until and not probing:
                return
            self._write(Gate(until=until, words=words, seen_by=self._project, seen_at=self._tried_at))

    def answered(self) -> None:
        """A poke of ours came through: the gate is open, if it was ours to try."""
        if self._read().probe_by != self._project:
            return
        with taking_turns(self._path.parent):
            if self._read().probe_by == self._project:
                self._write(Gate())

    def _read(self) -> Gate:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Gate)
        except (OSError, msgspec.MsgspecError, ValueError):
            return Gate()

    def _write(self, gate: Gate) -> None:
        self._disk.replace(self._path, dump(gate))


def _is_set_back(gate: Gate, now: datetime) -> bool:
    """Whether the clock shows an earlier time than when the gate was closed: then one poke finds out.

    `until` may be hours off: where it was a length from a wrong `now`, it would hold everybody up.
    """
    return gate.seen_at is not None and now + SET_BACK < gate.seen_at
