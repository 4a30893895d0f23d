"""A project on a machine with systemd: repository, bare remote, unit, the scripted agent as another user."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import git, json_lines, toml
from tests.system.box_machine import AGENT_UID, UNIT, Machine, agent_python, eventually
from watcher.record.home import project_key

Act = Mapping[str, Any]

HANG: Act = {"hang_before": 600, "on_int": "nothing"}
DONE: Act = {"say": "ALL-TASKS-DONE"}
STRAY: Act = {"orphan": {"seconds": 600, "setsid": True, "double_fork": True, "clear_env": True}}


def commit(name: str) -> Act:
    return {"write": {name: name}, "commit": f"Add {name}", "say": "worked"}


def limit(seconds: float) -> Act:
    """A usage limit that is over in so many seconds."""
    reset = {"status": "rejected", "resetsAt": int(time.time() + seconds), "rateLimitType": "five_hour"}
    return {"rate_limit": reset, "say": "You've hit your 5-hour limit", "is_error": True, "exit": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One project and its unit. Paths are this machine's; the box knows the project as /srv/NAME/project."""

    machine: Machine
    name: str

    # --- setting the scene ----------------------------------------------------------------------

    @classmethod
    def make(cls, machine: Machine, name: str, *acts: Act, **sections: Mapping[str, Any]) -> Project:
        """A project whose agent plays these acts, the last one over and over."""
        it = cls(machine=machine, name=name)
        it.work_tree.mkdir(parents=True)
        git("init", "-q", "-b", "main", cwd=it.work_tree)
        git("init", "-q", "--bare", "-b", "main", str(it.remote), cwd=it.place)
        (it.work_tree / "README.md").write_text("hello\n")
        git("add", ".", cwd=it.work_tree)
        git("commit", "-q", "-m", "begin", cwd=it.work_tree)
        git("push", "-q", str(it.remote), "main", cwd=it.work_tree)
        it.tape.write_text(json.dumps({"pokes": acts}))
        it.own(AGENT_UID)
        it.configure(**sections)
        it.enable()
        return it

    def own(self, uid: int) -> None:
        """Give the project, its remote and its tape to that user."""
        for path in (self.place, *self.place.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)

    def enable(self) -> None:
        """As `systemctl enable` does. It also keeps systemd from forgetting the unit once it is inactive."""
        (self.machine.disk / "enabled" / self.unit).symlink_to(f"/etc/systemd/system/{UNIT.name}")

    def configure(self, **sections: Mapping[str, Any]) -> None:
        """Write /etc/harness/NAME.toml; `sections` go on top, key by key."""
        document: dict[str, Any] = {
            "project": f"/srv/{self.name}/project",
            "agent": {
                "command": [agent_python(), "-IS", "/opt/harness/src/watcher/scripted_agent/__main__.py"],
                "user": "agent",
                "account": self.name,  # a limit met here is nobody else's
                "timezone": "UTC",
                "env": {"SCRIPTED_AGENT_TAPE": f"/srv/{self.name}/tape.json"},
            },
            "watch": {"pause_s": 0.1},
            "limits": {"reset_margin_s": 0},
            "retries": {"error_first_s": 0.1},
            "publish": {"remote": f"/srv/{self.name}/remote.git", "branch": "main"},
            "state": {"min_free_mb": 0},
        }
        for section, values in sections.items():
            document.setdefault(section, {}).update(values)
        self.write_configuration(toml(document))

    def write_configuration(self, text: str) -> None:
        (self.machine.disk / "etc" / f"{self.name}.toml").write_text(text)

    def drop_in(self, *settings: str) -> None:
        """Settings of [Service] for this unit alone, in force after a daemon-reload."""
        folder = self.machine.disk / "units" / f"{self.unit}.d"
        folder.mkdir()
        (folder / "test.conf").write_text("\n".join(["[Service]", *settings, ""]))

    # --- acting on the unit ---------------------------------------------------------------------

    def start(self) -> None:
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "start", self.unit)

    def fail_to_start(self) -> None:
        self.machine.run("systemctl", "daemon-reload")
        assert self.machine.try_run("systemctl", "start", self.unit) != 0

    def stop(self) -> None:
        self.machine.run("systemctl", "stop", self.unit)

    def signal(self, name: str) -> None:
        self.machine.run("systemctl", "kill", "--kill-who=main", "-s", name, self.unit)

    def harness(self, verb: str, *, check: bool = True) -> str:
        """What `harness VERB NAME`, given by root at a prompt, printed."""
        return self.machine.run("/usr/local/bin/harness", verb, self.name, check=check)

    # --- looking --------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        return f"harness@{self.name}.service"

    @property
    def place(self) -> Path:
        return self.machine.disk / "srv" / self.name

    @property
    def work_tree(self) -> Path:
        return self.place / "project"

    @property
    def remote(self) -> Path:
        return self.place / "remote.git"

    @property
    def tape(self) -> Path:
        return self.place / "tape.json"

    @property
    def runs(self) -> list[Path]:
        key = project_key(Path("/srv", self.name, "project"))
        return sorted((self.machine.disk / "state" / key / "runs").glob("*"))

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every poke that was decided in the only run there is."""
        (run,) = self.runs
        return json_lines(run / "history.jsonl")

    @property
    def outcomes(self) -> list[str]:
        return [line["outcome"] for line in self.history]

    @property
    def log(self) -> list[dict[str, Any]]:
        (run,) = self.runs
        return json_lines(run / "watcher.log")

    def logged(self, words: str) -> list[dict[str, Any]]:
        return [line for line in self.log if words in line["event"]]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How the agent was called, one entry a poke."""
        return json_lines(Path(f"{self.tape}.log"))

    def pids(self) -> list[str]:
        """Of the agent and of what it left running, as the box numbers them."""
        orphans = Path(f"{self.tape}.orphans")
        strays = orphans.read_text().split() if orphans.exists() else []
        return [*(str(call["pid"]) for call in self.calls), *strays]

    def running(self) -> list[str]:
        """Those of `pids` that still run."""
        return [pid for pid in self.pids() if self.machine.try_run("test", "-d", f"/proc/{pid}") == 0]

    def tips(self) -> tuple[str, str]:
        """The branch here and on the remote."""
        here, there = (
            git("--git-dir", str(place), "rev-parse", "refs/heads/main", cwd=self.place).strip()
            for place in (self.work_tree / ".git", self.remote)
        )
        return here, there

    def show(self, *names: str) -> tuple[str, ...]:
        """Properties of the unit, in the order asked for."""
        said = self.machine.run("systemctl", "show", self.unit, *(f"-p{name}" for name in names))
        values = dict(line.split("=", 1) for line in said.splitlines())
        return tuple(values[name] for name in names)

    def status(self) -> str:
        return self.show("StatusText")[0]

    def until_status(self, words: str) -> None:
        eventually(lambda: words in self.status(), f"{self.unit} says {words!r}")

    def until_pokes(self, count: int) -> None:
        """Until the agent was called so often."""
        eventually(lambda: len(self.calls) >= count, f"{self.unit} poked {count} times")

    def until_restarts(self, count: int) -> None:
        eventually(
            lambda: self.show("NRestarts")[0] == str(count), f"{self.unit} was restarted {count} times"
        )

    def until_over(self) -> None:
        over = ("inactive", "failed")
        eventually(lambda: self.show("ActiveState")[0] in over, f"{self.unit} is over")
