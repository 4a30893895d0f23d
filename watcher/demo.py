"""A whole run in under a minute, with nothing but git: the scripted agent plays every trick (H 9.6).

The repository, the bare remote, the task list, the supervisor and its records are real; only the
agent is scripted. No network, no root.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watcher.effect.git import answer, git, git_env

TASKS = """\
# Task list

Table row format: `| STATUS | ID | Title |`
Status vocabulary: `open` `in progress` `done` `planned` `dropped`
Mode vocabulary: `Plan-Mode` `Auto + human stop` `Direct` `Loop` `Goal`

## Overview

| Status | ID    | Title                        |
|--------|-------|------------------------------|
| open   | T-101 | Say hello                    |
| open   | T-102 | Say goodbye                  |
| open   | T-103 | Decide what to say in between |

*3 tasks, 3 `open`.*

---

### T-101: Say hello

- **Status:** open
- **Mode:** Loop
- **Deps:** none
- **Acceptance:** `grep -q hello greeting.txt` ends with 0.

### T-102: Say goodbye

- **Status:** open
- **Mode:** Loop
- **Deps:** T-101
- **Acceptance:** `grep -q goodbye greeting.txt` ends with 0.

### T-103: Decide what to say in between

- **Status:** open
- **Mode:** Plan-Mode
- **Deps:** none
- **Acceptance:** a person has decided.
"""

TAPE = {
    "pokes": [
        {"subtype": "error_max_turns", "is_error": True, "exit": 1, "turns": 12},
        {
            "write": {"greeting.txt": "hello\n"},
            "task_done": "T-101",
            "commit": "Say hello (T-101)",
            "say": "T-101 is done.",
        },
        {
            "rate_limit": {"status": "rejected", "resetsAt": "{now+3}", "rateLimitType": "five_hour"},
            "say": "You've hit your 5-hour limit · resets {clock+3} (UTC)",
            "is_error": True,
            "exit": 1,
        },
        {"say": "ALL-TASKS-DONE"},
        {
            "append": {"greeting.txt": "goodbye\n"},
            "task_done": "T-102",
            "commit": "Say goodbye (T-102)",
            "say": "T-102 is done, and the gates are green.",
        },
        {"say": "ALL-TASKS-DONE"},
    ]
}

STORY = """\
What you will see, one line a poke:
  1  the turn budget is used up: the same session goes on
  2  the first task is committed, and the remote is asked whether it has it
  3  a usage limit, dressed up as a success: waited out (3 s here, hours in real life), then a fresh session
  4  the agent claims to be done while T-102 is open: a false claim, not an end
  5  the second task, published
  6  the sentinel, and nothing eligible left: T-103 needs a person, so it stays untouched
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The demo's folder."""

    root: Path

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


def build(root: Path, environ: Mapping[str, str]) -> Stage:
    """Make the repository, its bare remote, the task list, the tape and the configuration."""
    stage = Stage(root=root)
    for place in (stage.project / "docs", root / "agent-home"):
        place.mkdir(parents=True)
    (stage.project / "docs" / "tasks.md").write_text(TASKS)
    (root / "tape.json").write_text(json.dumps(TAPE))
    stage.config.write_text(configuration(stage))
    stage.config.chmod(0o600)
    git = Git(stage=stage, environ=environ)
    git("init", "-q", "--bare", "-b", "main", str(stage.remote))
    git("init", "-q", "-b", "main")
    git("remote", "add", "origin", str(stage.remote))
    git("add", "docs/tasks.md")
    git("commit", "-q", "-m", "Write the task list down")
    git("push", "-q", "origin", "main")
    return stage


def configuration(stage: Stage) -> str:
    agent = [sys.executable, "-m", "watcher.scripted_agent"]
    return f"""\
# The configuration of the demo: the scripted agent in the place of the real one.
project = {json.dumps(str(stage.project))}

[agent]
command = {json.dumps(agent)}
timezone = "UTC"
instruction_file = "none"

[agent.env]
HOME = {json.dumps(str(stage.root / "agent-home"))}
PYTHONPATH = {json.dumps(str(Path(__file__).resolve().parents[1]))}
SCRIPTED_AGENT_TAPE = {json.dumps(str(stage.root / "tape.json"))}

[watch]
pause_s = 0.3

[limits]
reset_margin_s = 1

[publish]
remote = {json.dumps(str(stage.remote))}
branch = "main"

[tasks]
path = "docs/tasks.md"

[state]
root = {json.dumps(str(stage.state))}
work_root = {json.dumps(str(stage.root / "work"))}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """git with an identity of its own, for building the stage and for looking at the remote."""

    stage: Stage
    environ: Mapping[str, str]

    def __call__(self, *args: str, cwd: Path | None = None) -> str:
        env = git_env(str(self.stage.root), name="demo", path=self.environ.get("PATH", os.defpath)) | {
            "GIT_AUTHOR_NAME": "Demo",
            "GIT_AUTHOR_EMAIL": "demo@localhost",
            "GIT_COMMITTER_NAME": "Demo",
            "GIT_COMMITTER_EMAIL": "demo@localhost",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": "file",  # its remote is a folder beside it
        }
        return answer(git(*args, cwd=cwd or self.stage.project, env=env), args[0], 30)


def new_root() -> Path:
    return Path(tempfile.mkdtemp(prefix="harness-demo-"))
