"""Everything around one run of the real agent program: project, remote, home, configuration, record.

What a test wants to know of the harness's own files is asked here and nowhere else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
SENTINEL = "ALL-TASKS-DONE"
PATH = "/usr/local/bin:/usr/bin:/bin"
# The program writes nothing but its own telemetry and updates to the outside; here it must not try.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",  # a test scripts every refusal once
}
SUBSCRIBER = {"CLAUDE_CODE_OAUTH_TOKEN": "dummy"}
API_KEY = {"ANTHROPIC_API_KEY": "dummy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One `harness watch` that is over."""

    exit_code: int
    log: str  # stderr and stdout
    history: list[dict[str, Any]]  # a line a poke

    @property
    def outcomes(self) -> list[str]:
        return [str(line["outcome"]) for line in self.history]

    @property
    def sessions(self) -> list[str]:
        return [str(line["session_id"]) for line in self.history]

    @property
    def reasons(self) -> str:
        return "\n".join(str(line["because"]) for line in self.history)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The directories of one test, all below its own temporary one."""

    root: Path
    claude: Path
    api_url: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def make(cls, root: Path, *, claude: Path, api_url: str) -> World:
        world = cls(root=root, claude=claude, api_url=api_url)
        for directory in (world.home, world.tmp, world.project):
            directory.mkdir()
        world.git("init", "--quiet", "--initial-branch=main")
        world.git("config", "user.name", "Agent")
        world.git("config", "user.email", "agent@example.org")
        world.write("README.md", "# A project\n")
        world.git("add", "--all")
        world.git("commit", "--quiet", "--message=Begin")
        world.git("init", "--quiet", "--bare", "--initial-branch=main", str(world.remote))
        world.git("remote", "add", "origin", str(world.remote))
        world.configure()
        return world

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def remote(self) -> Path:
        return self.root / "remote.git"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def config(self) -> Path:
        return self.root / "harness.toml"

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of this machine's own: no credential can be in it."""
        return {"HOME": str(self.home), "TMPDIR": str(self.tmp), "PATH": PATH, "TZ": "UTC", "LANG": "C.UTF-8"}

    def agent_environment(self, login: Mapping[str, str] = SUBSCRIBER) -> dict[str, str]:
        """What the program needs on top to talk to the scripted model, and to nobody else."""
        return {"ANTHROPIC_BASE_URL": self.api_url, **QUIET, **login}

    def configure(self, *, login: Mapping[str, str] = SUBSCRIBER, **sections: Mapping[str, Any]) -> None:
        """Write the configuration: quick defaults, then what the test sets, key by key."""
        base: dict[str, dict[str, Any]] = {
            "agent": {
                "profile": "claude",
                "command": [str(self.claude)],
                "env": self.agent_environment(login),
                "timezone": "UTC",
            },
            "watch": {"poke_timeout_s": 60, "pause_s": 0, "poke_limit": 8, "sentinel": SENTINEL},
            "limits": {"reset_margin_s": 1, "fixed_wait_s": 1},
            "retries": {"error_first_s": 1, "transient_first_s": 1, "human_every_s": 1},
            "publish": {"remote": str(self.remote), "branch": "main"},
            "state": {"root": str(self.state), "work_root": str(self.root / "work")},
        }
        for name, keys in sections.items():
            base[name] = {**base.get(name, {}), **keys}
        self.config.write_text(_toml(base), encoding="utf-8")

    def start(self) -> subprocess.Popen[str]:
        """Begin `harness watch` on the project."""
        return subprocess.Popen(
            [sys.executable, "-m", "watcher", "watch", str(self.project), "--config", str(self.config)],
            cwd=self.root,
            env={**self.environment, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def watch(self, *, seconds: float = 90) -> Watched:
        """Run `harness watch` on the project to its end; it is killed after `seconds`."""
        with self.start() as process:
            try:
                log, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Watched(exit_code=process.returncode, log=log, history=self.history())

    def history(self) -> list[dict[str, Any]]:
        """Every poke of every run so far, oldest first."""
        files = sorted(self.state.glob("*/runs/*/history.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]

    def kill_agent(self) -> None:
        """End the agent program as a power cut would."""
        for words in self.processes():
            if f" {self.claude} " in words:
                os.kill(int(words.split()[0]), signal.SIGKILL)

    def transcripts(self) -> list[Path]:
        """The program's own record of its conversations."""
        return list(self.home.glob(".claude/projects/*/*.jsonl"))

    def write(self, name: str, text: str, *, mode: int = 0o644) -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={message}")

    def git(self, *args: str, at: Path | None = None) -> str:
        """What git prints in the project, without this machine's own configuration."""
        env = {**self.environment, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        where = at or self.project
        done = subprocess.run(
            ["git", *args], cwd=where, env=env, capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    @property
    def tip(self) -> str:
        return self.git("rev-parse", "main")

    @property
    def remote_tip(self) -> str:
        """What the remote's main is; "" when it has none."""
        return self.git("for-each-ref", "--format=%(objectname)", "refs/heads/main", at=self.remote)

    def processes(self) -> list[str]:
        """Every living process of this world, by the home in its environment or a path in its words."""
        return sorted(
            words
            for pid in _pids()
            if _holds(f"/proc/{pid}/environ", f"HOME={self.home}")
            | _holds(f"/proc/{pid}/cmdline", f"{self.root}/")
            if (words := _words(pid))
        )


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _holds(path: str, text: str) -> bool:
    try:
        return text.encode() in Path(path).read_bytes()
    except OSError:
        return False


def _words(pid: int) -> str:
    """The process and its words; "" once it has ended, reaped or not."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
    return f"{pid} {words.strip()}" if words else ""


def _toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Plain TOML of strings, numbers, flags, lists and tables of strings (JSON's spelling is TOML's)."""
    lines: list[str] = []
    for name, keys in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
