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


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the account. An old or unreadable file is an open gate: one poke finds out."""

    until: datetime | None = None  # when a poke may be tried again, margin included
    words: str = ""
    seen_by: str = ""  # the project that met the limit
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

    def hold(self, now: datetime) -> Hold | None:
        """Whether to wait before a poke; None lets it start, and may make it the one that tries first."""
        if self._read().until is None:
            return None
        with taking_turns(self._path.parent):
            gate = self._read()
            if gate.until is None:
                return None
            if gate.until > now:
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

    def limited(self, until: datetime, words: str) -> None:
        """A poke of ours met the limit: nobody tries before `until`. A later instant known already stays."""
        with taking_turns(self._path.parent):
            gate = self._read()
            if gate.until is not None and gate.until > until and gate.probe_by != self._project:
                return
            self._write(Gate(until=until, words=words, seen_by=self._project))

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
