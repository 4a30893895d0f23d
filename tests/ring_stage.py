"""A stage on which the agent tries to get out: a project, a home and records where other users may pass."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, Played, Stage, json_lines
from watcher.process import Account

Attempt = tuple[str, ...]  # name, verb, argument, ...


@functools.cache
def python() -> str:
    """An interpreter within everybody's reach: ours may be in a home directory."""
    for found in ("/usr/bin/python3", "/usr/local/bin/python3", os.path.realpath(sys.executable)):
        ids: dict[str, Any] = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        with contextlib.suppress(OSError):
            if subprocess.run([found, "-c", "import json"], check=False, cwd="/", **ids).returncode == 0:
                return found
    raise AssertionError("no Python that every user can run: install python3 for all users")


@dataclass(kw_only=True)
class Ring:
    """One stage, and who the agent is on it."""

    stage: Stage
    user: Account | None = None  # None: whoever the harness is
    harness: Account | None = None  # None: whoever runs the tests

    @property
    def place(self) -> Path:
        return self.stage.root

    @property
    def project(self) -> Path:
        return self.stage.project

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def records(self) -> Path:
        """The project's own directory below the state root."""
        return next(self.state_root.glob("project-*"))

    @property
    def state_root(self) -> Path:
        """Where that is for the harness's user: in the home, unless that is the agent's."""
        return self.home / ".local/state/harness" if self.harness else self.stage.state

    def history(self) -> list[dict[str, Any]]:
        return [
            line for run in sorted(self.records.glob("runs/*")) for line in json_lines(run / "history.jsonl")
        ]

    def give(self, account: Account) -> None:
        """The project and the home become that user's."""
        for top in (self.project, self.home):
            for path in (top, *top.rglob("*")):
                os.chown(path, account.uid, account.gid, follow_symlinks=False)

    def sections(self, **agent: Any) -> dict[str, dict[str, Any]]:
        """The configuration for the agent that tries things."""
        env = {"PROBE": str(self.project / "tries.json"), "PROBE_OUT": str(self.project / "answers.json")}
        user = {"user": self.user.name} if self.user else {}
        base = {"profile": "custom", "command": [python(), str(self.project / "agent.py")], "env": env}
        state = {"root": str(self.state_root), "work_root": str(self.place / "work")}
        return {"agent": {**base, **user, **agent}, "publish": {"enabled": False}, "state": state}

    def ask_for(self, attempts: Sequence[Attempt]) -> None:
        """What the agent is to try in its next poke."""
        (self.project / "tries.json").write_text(json.dumps(attempts))
        (self.project / "agent.py").write_bytes((ROOT / "tests" / "agent_probe.py").read_bytes())

    def answers(self) -> dict[str, Any]:
        answers: dict[str, Any] = json.loads((self.project / "answers.json").read_text())
        return answers

    def attempts(self, attempts: Sequence[Attempt], **agent: Any) -> tuple[Played, dict[str, Any]]:
        """One run of one poke, in this process, in which the agent tries all of these."""
        self.ask_for(attempts)
        played = self.stage.watch({}, **self.sections(**agent))
        assert played.outcomes == ["sentinel"], played.history
        return played, self.answers()

    def attempts_apart(self, attempts: Sequence[Attempt], **agent: Any) -> dict[str, Any]:
        """The same with the harness in a process of its own, as `harness`."""
        assert self.harness
        self.ask_for(attempts)
        config = self.stage.config(**self.sections(**agent))
        config.chmod(0o644)
        said = as_user(
            self.harness,
            f"sys.exit(run(['watch', {str(self.project)!r}, '--config', {str(config)!r}]))",
            {**self.stage.environ(), "HOME": str(self.home), "USER": self.harness.name},
        )
        assert said.returncode == 0, said.stderr
        return self.answers()

    def live_in_the_home(self) -> None:
        """Move the project below the home, as it is with a person's own."""
        (self.home / "work").mkdir()
        self.project.rename(self.home / "work/project")
        self.stage.name = "home/work/project"


@contextlib.contextmanager
def open_ring(user: Account | None = None, harness: Account | None = None) -> Iterator[Ring]:
    """A stage outside of /tmp and /run where that is possible, so that hiding those hides nothing of it."""
    with tempfile.TemporaryDirectory(dir="/var/lib" if os.geteuid() == 0 else None) as name:
        place = Path(os.path.realpath(name))
        place.chmod(0o755)  # other users must get in
        stage = Stage(root=place)
        stage.build()
        ring = Ring(stage=stage, user=user, harness=harness)
        if harness:
            ring.live_in_the_home()
            (place / "work").mkdir(mode=0o711)
            os.chown(place / "work", harness.uid, harness.gid)
        if owner := user or harness:
            ring.give(owner)
        yield ring


# What the harness imports only when it needs it, and cannot any more as a user who may not reach it.
LAZY = (
    *("structlog", "psutil", "dateutil.parser", "tomllib", "zoneinfo", "shlex", "grp", "ctypes", "uuid"),
    *("difflib", "tarfile", "tempfile", "traceback", "shutil", "resource", "signal", "json", "random"),
)


def as_user(account: Account, code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run code as that user in a process that has loaded the harness, which that user may not reach."""
    start = f"""
import codecs, importlib, os, pkgutil, sys, warnings, watcher
warnings.simplefilter("ignore")
for module in pkgutil.walk_packages(watcher.__path__, "watcher."):
    if not module.name.endswith(("__main__", "snapshot_child")):
        importlib.import_module(module.name)
for name in {LAZY!r}:
    importlib.import_module(name)
for codec in ("utf-8-sig", "ascii", "idna", "utf-16-be", "unicode_escape"):
    codecs.lookup(codec)
os.setgroups([]); os.setresgid({account.gid}, {account.gid}, {account.gid})
os.setresuid({account.uid}, {account.uid}, {account.uid})
from watcher.cli import run
"""
    return subprocess.run(
        [sys.executable, "-c", start + code],
        env={"PYTHONPATH": str(ROOT), **env},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
