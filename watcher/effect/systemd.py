"""Speak to systemd where it listens: ready, status, watchdog (sd_notify(3)). A no-op elsewhere.

The watchdog is fed by the loop and by nothing else, so a loop that hangs is noticed and restarted.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from watcher.decision.state import Pause, Wait

SEND_S = 2.0  # a manager too busy to listen must not hold up the loop
SPARE_S = 30.0  # on top of an allowance: what is announced is announced by its own deadlines
LONGEST_STATUS = 200

WAITING: Mapping[Pause, str] = {
    Pause.BETWEEN: "pausing",
    Pause.LIMIT: "waiting for reset",
    Pause.TRANSIENT: "waiting out provider trouble",
    Pause.ERROR: "waiting after an error",
    Pause.HUMAN: "a person is needed, waiting",
    Pause.OVERAGE: "waiting for reset, since extra usage is paid",
    Pause.ACCOUNT: "waiting for the account's limit",
}


class Systemd:
    """The service manager's end of NOTIFY_SOCKET. What cannot be delivered is dropped: it is a courtesy."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog_s = _watchdog_s(environ) if self._address else math.inf
        self._due_at = -math.inf  # of the next beat, monotonic
        self._status = ""

    @property
    def beat_s(self) -> float:
        """The loop may sleep so long between two beats: half of what the watchdog allows, as it advises."""
        return self._watchdog_s / 2

    def ready(self) -> None:
        """The locks are held and every check passed; also the end of a reload."""
        self._send("READY=1")
        self.beat()

    def reloading(self) -> None:
        """The configuration is being read again, until `ready`."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The shift is on its way out; from here on the time for stopping counts."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Shown by `systemctl status`. Safe for any text: a line end would begin another message."""
        if not self._address:
            return
        text = "".join(c if c.isprintable() else "?" for c in text[:LONGEST_STATUS])
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")
        self.beat()

    def beat(self) -> None:
        """Feed the watchdog. May be called often: a message goes out four times in its period."""
        now = time.monotonic()
        if self._watchdog_s < math.inf and now >= self._due_at:
            self._due_at = now + self._watchdog_s / 4
            self._send("WATCHDOG=1")

    def allow(self, seconds: float) -> None:
        """Announce an effect with a deadline of its own, during which the loop cannot beat.

        Moves the watchdog, and while stopping the end of TimeoutStopSec, to no earlier than then.
        """
        self._send(f"EXTEND_TIMEOUT_USEC={int((seconds + SPARE_S) * 1e6)}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        import socket  # where nobody listens it is not worth its time and memory

        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(SEND_S)
                sock.sendto(message.encode("utf-8", "replace"), address)
        except OSError:
            return


def waiting(pokes: int, wait: Wait, now: datetime) -> str:
    """The status of a wait: "poke 14, waiting for reset until 03:02 UTC", with the date unless today's."""
    until = wait.until.astimezone(UTC)
    day = "" if until.date() == now.astimezone(UTC).date() else f"{until:%Y-%m-%d} "
    return f"poke {pokes}, {WAITING[wait.pause]} until {day}{until:%H:%M} UTC"


def working(poke: int, now: datetime) -> str:
    """The status of a running poke."""
    return f"poke {poke}, the agent is working since {now.astimezone(UTC):%H:%M} UTC"


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """The watchdog's period in seconds; infinite where none is set, or where it is meant for our parent."""
    try:
        period = int(environ.get("WATCHDOG_USEC", "")) / 1e6
        mine = int(environ.get("WATCHDOG_PID", os.getpid())) == os.getpid()
    except ValueError:
        return math.inf
    return period if mine and period > 0 else math.inf
