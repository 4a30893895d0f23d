"""A machine that runs systemd, for tests: what is installed on it, what outlives its power, how it is asked.

tests/systemd_box.sh boots it. Everything a test wants to change or read is a directory of this machine,
bound in, so that it is there before the box boots and after it is off.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "systemd_box.sh"
UNIT = ROOT / "systemd" / "harness@.service"

AGENT_UID = 61234  # above what useradd and systemd's dynamic users hand out
PATIENCE_S = 30.0  # for a busy machine; a test that passes waits a fraction of it
TTL_S = 300

# What the real unit waits would only make the tests slow.
QUICK = "[Service]\nRestartSec=200ms\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine: its disk is `disk`, which stays when it is off."""

    disk: Path
    name: str

    @classmethod
    def install(cls, disk: Path, name: str) -> Machine:
        """A machine with the harness, its unit and a user `agent` on its disk; still off."""
        machine = cls(disk=disk, name=name)
        for place in ("etc", "srv", "home", "units/harness@.service.d", "enabled"):
            (disk / place).mkdir(parents=True)
        # Too open for the harness, which refuses such a place: StateDirectoryMode has to close it.
        (disk / "state").mkdir(mode=0o755)
        os.chown(disk / "home", AGENT_UID, AGENT_UID)
        (disk / "units/harness@.service.d/quick.conf").write_text(QUICK)
        (disk / "harness").write_text(_launcher())
        (disk / "harness").chmod(0o755)
        for file, line in (
            ("passwd", f"agent:x:{AGENT_UID}:{AGENT_UID}::/home/agent:/bin/sh"),
            ("group", f"agent:x:{AGENT_UID}:"),
        ):
            (disk / file).write_text(f"{Path('/etc', file).read_text().rstrip()}\n{line}\n")
        return machine

    def boot(self) -> None:
        self._box("up", *self._binds(), timeout=90)

    def power_off(self) -> None:
        """An orderly shutdown, every unit stopped; safe to repeat."""
        self._box("down", timeout=120)

    def cut_power(self) -> None:
        """Off at once: nothing gets a signal that it could handle."""
        os.kill(int(self._box("pid", timeout=10).stdout), signal.SIGKILL)
        self.power_off()

    def run(self, *argv: str, check: bool = True, timeout: float = 60) -> str:
        """What a command in the box printed, errors included."""
        return self._box("exec", *argv, check=check, timeout=timeout).stdout.strip()

    def try_run(self, *argv: str) -> int:
        """The exit status of a command in the box."""
        return self._box("exec", *argv, check=False, timeout=60).returncode

    def journal(self, unit: str, *options: str) -> str:
        self.run("journalctl", "--sync")
        return self.run("journalctl", "-q", "-u", unit, *options)

    def _box(self, *words: str, check: bool = True, timeout: float) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "BOX": self.name, "BOX_WATCH": str(os.getpid()), "BOX_TTL": str(TTL_S)}
        done = subprocess.run(
            [str(SCRIPT), *words],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done

    def _binds(self) -> Iterable[str]:
        """SRC:DST. Below /opt: a unit sees no checkout in /tmp, and the agent none in /root."""
        yield f"{ROOT}:/opt/harness/src:ro"
        yield f"{sys.prefix}:/opt/harness/venv:ro"
        if sys.base_prefix not in ("/usr", sys.prefix):
            yield f"{sys.base_prefix}:{sys.base_prefix}:ro"
        yield f"{UNIT}:/etc/systemd/system/{UNIT.name}:ro"
        for source, target in (
            ("harness", "/usr/local/bin/harness"),
            ("passwd", "/etc/passwd"),
            ("group", "/etc/group"),
            ("etc", "/etc/harness"),
            ("enabled", "/etc/systemd/system/multi-user.target.wants"),
            ("units", "/run/systemd/system"),
        ):
            yield f"{self.disk}/{source}:{target}:ro"
        for source, target in (("srv", "/srv"), ("home", "/home/agent"), ("state", "/var/lib/harness")):
            yield f"{self.disk}/{source}:{target}"


def why_not() -> str:
    """Why this machine cannot boot a box; "" when it can."""
    asked = subprocess.run([str(SCRIPT), "can"], stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    return "" if asked.returncode == 0 else asked.stderr.strip() or "systemd_box.sh can failed"


def eventually(holds: Callable[[], object], what: str, *, seconds: float = PATIENCE_S) -> None:
    """Wait until it holds; fail with `what` when it does not in time."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"after {seconds:g} s still not: {what}"
        time.sleep(0.1)


def agent_python() -> str:
    """An interpreter that the agent's user can start: ours may be in root's home."""
    ours = Path(os.path.realpath(sys.executable))
    reachable = all(place.stat().st_mode & 0o001 for place in (ours, *ours.parents))
    return str(ours) if reachable else "/usr/bin/python3"


def _launcher() -> str:
    """What an installation puts into /usr/local/bin, for a checkout that is not installed."""
    python = f"/opt/harness/venv/bin/{Path(sys.executable).name}"
    return (
        f"#!{python}\nimport sys\n\nsys.path.insert(0, '/opt/harness/src')\n"
        "from watcher.main import main\n\nmain()\n"
    )
