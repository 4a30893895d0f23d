"""The stage of the benchmarks: a project with a bare remote, the cheap agent, answers of every size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_measure import run

SCRIPTS = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("BENCH_TREE", SCRIPTS.parent))  # another checkout can be measured, to compare
PATH = os.environ.get("PATH", os.defpath)
HARNESS = (sys.executable, "-c", "from watcher.main import main; main()")
SESSION = "6e4b2f2e-6b1c-4c1e-9a55-0d6c3e0a7b11"
CEILING = 3  # the exit code of a run that ended at its poke limit
COMMITS = 400  # prepared ones; a whole run uses some 150


@dataclass(kw_only=True, slots=True)
class Stage:
    """Everything below one temporary directory."""

    root: Path
    agent: Path = field(init=False)
    _states: int = 0

    def __post_init__(self) -> None:
        self.agent = self._build_agent()
        self._build_project()
        self._prepare_commits()

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def remote(self) -> Path:
        return self.root / "remote.git"

    @property
    def env(self) -> dict[str, str]:
        """Of the harness and the baselines: a plain user's, nothing of this machine's own."""
        return {
            "HOME": str(self.root / "home"),
            "USER": "bench",
            "PATH": PATH,
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(self.root / "pycache"),  # compiled once, and nothing left in the tree
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def answer(self, name: str, *events: dict[str, Any]) -> Path:
        """A file the agent prints: one JSON object a line."""
        path = self.root / name
        if not path.exists():
            with path.open("w") as file:
                file.writelines(json.dumps(event) + "\n" for event in events)
        return path

    @property
    def committing(self) -> dict[str, str]:
        """The agent's variables when every poke is to bring a new revision."""
        return {
            "BENCH_COMMITS": str(self.root / "commits"),
            "BENCH_AT": str(self.root / "commits-at"),
            "BENCH_REF": str(self.project / ".git" / "refs" / "heads" / "main"),
        }

    def new_state(self) -> Path:
        """A state directory nobody has used."""
        self._states += 1
        return self.root / f"state-{self._states}"

    def configuration(self, state: Path, pokes: int, variables: dict[str, str], project: Path) -> Path:
        """A configuration in which nothing but work takes time: no pause, no stall limit."""
        path = self.root / f"{state.name}.toml"
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in variables.items())
        path.write_text(
            f"project = {json.dumps(str(project))}\n"
            f"[agent]\ncommand = [{json.dumps(str(self.agent))}]\noutput = 'json'\ntimezone = 'UTC'\n"
            f"[agent.env]\n{lines}"
            "[watch]\npause_s = 0\nstall_limit = 1000000\n"
            f"poke_limit = {pokes}\n"
            f"[publish]\nremote = {json.dumps(str(self.remote))}\nbranch = 'main'\n"
            f"[state]\nroot = {json.dumps(str(state))}\nwork_root = {json.dumps(f'{state}-work')}\n"
            "min_free_mb = 0\n"
        )
        path.chmod(0o600)
        return path

    def watch(
        self, state: Path, pokes: int, variables: dict[str, str], project: Path | None = None
    ) -> list[str]:
        """The command line of one run of so many pokes, 0 for no limit."""
        project = project or self.project
        config = self.configuration(state, pokes, variables, project)
        return [*HARNESS, "watch", str(project), "--config", str(config)]

    def warm_up(self) -> None:
        """Compile everything, and bring it into the page cache."""
        answer = self.answer("small.json", result("T-1 is not finished yet; the parser is next."))
        argv = self.watch(self.new_state(), 1, {"BENCH_ANSWER": str(answer)})
        run(argv, env=self.env, cwd=self.root, expect=(CEILING,))

    def loop(self, folder: Path, pokes: int) -> list[str]:
        """The command line of the shell loop."""
        folder.mkdir(exist_ok=True)
        return [str(SCRIPTS / "bench_loop.sh"), str(self.project), str(self.agent), str(pokes), str(folder)]

    def git(self, *args: str, cwd: Path | None = None, given: str | None = None) -> str:
        result = subprocess.run(
            ["git", "-c", "user.name=Bench", "-c", "user.email=bench@localhost", *args],
            cwd=cwd or self.project,
            env=self.env,
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stdout

    def _build_agent(self) -> Path:
        for folder in ("home", "project", "config/harness"):
            (self.root / folder).mkdir(parents=True)
        compiler = shutil.which("cc")
        if compiler is None:
            return SCRIPTS / "bench_agent.sh"
        agent = self.root / "agent"
        subprocess.run([compiler, "-O2", "-o", str(agent), str(SCRIPTS / "bench_agent.c")], check=True)
        return agent

    def _build_project(self) -> None:
        (self.project / "docs").mkdir()
        tasks = "| Status | ID | Title |\n|---|---|---|\n| open | T-1 | Go on |\n"
        (self.project / "docs" / "TASKS.md").write_text(tasks)
        (self.project / "README.md").write_text("A project.\n" * 100)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message=Begin")
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.remote))
        self.git("remote", "add", "origin", str(self.remote))
        self.git("push", "--quiet", "origin", "main")

    def _prepare_commits(self) -> None:
        """A line of commits that nothing points at yet, each with a tree of its own."""
        stream = ""
        for number in range(1, COMMITS + 1):
            text = f"revision {number}\n"
            stream += (
                f"commit refs/bench/ahead\nmark :{number}\n"
                f"committer Bench <bench@localhost> {1_700_000_000 + number} +0000\ndata 6\nGo on\n"
                + ("from refs/heads/main^0\n" if number == 1 else "")
                + f"M 100644 inline progress.txt\ndata {len(text)}\n{text}\n"
            )
        self.git("fast-import", "--quiet", f"--export-marks={self.root / 'marks'}", given=stream)
        marks = dict(line[1:].split() for line in (self.root / "marks").read_text().splitlines())
        (self.root / "commits").write_text("".join(f"{marks[str(n)]}\n" for n in range(1, COMMITS + 1)))


def result(text: str, **more: Any) -> dict[str, Any]:
    """What the agent program prints last, with the members of the real one."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 4210,
        "duration_api_ms": 3988,
        "num_turns": 3,
        "result": text,
        "session_id": SESSION,
        "total_cost_usd": 0.0412,
        "usage": {
            "input_tokens": 412,
            "cache_read_input_tokens": 20480,
            "cache_creation_input_tokens": 512,
            "output_tokens": 260,
        },
        "modelUsage": {"model-a": {"inputTokens": 412, "outputTokens": 260, "costUSD": 0.0412}},
        "permission_denials": [],
        **more,
    }


def event(number: int) -> dict[str, Any]:
    """One of the events before it: a tool's answer of some 2 kB."""
    text = "".join(
        f'{number:06d}:{line:03d}  a line as a tool prints it, quotes " and all\n' for line in range(32)
    )
    content = [{"tool_use_id": f"toolu_{number:024d}", "type": "tool_result", "content": text}]
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "session_id": SESSION, "parent_tool_use_id": None}
