"""Start: from exec to the first poke, and the commands a person types (DESIGN 13)."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench_measure import Used, middle, run
from bench_stage import CEILING, HARNESS, Stage, result
from bench_table import Row
from msgspec.structs import replace

from watcher.decision.state import SCHEMA, Revision, WatchState
from watcher.record.checkpoint import Checkpoint
from watcher.record.home import Home
from watcher.record.journal import Journal

KILLED = -9
LINES = 100_000  # of history, and of the log
PROJECTS = 20  # that `status` tells of
BARE = "python -c pass"


def rows(stage: Stage, rounds: int) -> list[Row]:
    answer = stage.answer("small.json", result("T-1 is not finished yet; the parser is next."))
    stage.git("reset", "--hard", "--quiet")  # what was committed meanwhile is not in the work tree yet
    old = _old_run(stage, answer)
    _projects(stage)
    commands = _commands(stage, old)
    bare: list[Used] = []
    fresh: list[Used] = []
    again: list[Used] = []
    typed: dict[str, list[Used]] = {what: [] for what in commands}
    for _ in range(rounds):
        bare.append(run([sys.executable, "-c", "pass"], env=stage.env, cwd=stage.root))
        fresh.append(_to_first_poke(stage, stage.new_state(), answer))
        again.append(_to_first_poke(stage, old, answer))
        for what, argv in commands.items():
            typed[what].append(run(argv, env=stage.env, cwd=stage.root))
    return [
        *_both("a new run, to its first poke", fresh, bare, None),
        *_both(f"after a kill, {LINES} lines of history", again, bare, 1000),
        *(
            Row(f"harness {what}, CPU", _cpu(used), "ms", _cpu(bare), BARE, 100)
            for what, used in typed.items()
        ),
    ]


def _both(what: str, used: list[Used], bare: list[Used], wall_budget: float | None) -> list[Row]:
    return [
        Row(f"{what}, CPU", _cpu(used), "ms", _cpu(bare), BARE, 150),
        Row("  wall", _wall(used), "ms", _wall(bare), BARE, wall_budget),
    ]


def _to_first_poke(stage: Stage, state: Path, answer: Path) -> Used:
    """The agent kills the harness as its first act, so what it has used by then is all that is counted."""
    argv = stage.watch(state, 0, {"BENCH_ANSWER": str(answer), "BENCH_KILL": "1"})
    return run(argv, env=stage.env, cwd=stage.root, expect=(KILLED,))


def _commands(stage: Stage, old: Path) -> dict[str, Sequence[str]]:
    known = (str(stage.project), "--config", str(stage.root / f"{old.name}.toml"))
    return {
        "--version": [*HARNESS, "--version"],
        f"status, {PROJECTS} projects": [*HARNESS, "status"],
        f"status, {LINES} lines of history": [*HARNESS, "status", *known],
        f"logs, {LINES} lines": [*HARNESS, "logs", *known],
        f"history, {LINES} lines": [*HARNESS, "history", *known],
    }


def _old_run(stage: Stage, answer: Path) -> Path:
    """The state of a run with a long past that was killed between two pokes."""
    state = stage.new_state()
    argv = stage.watch(state, 1, {"BENCH_ANSWER": str(answer)})
    run(argv, env=stage.env, cwd=stage.root, expect=(CEILING,))
    folder = next(state.glob("*/runs/*"))
    (folder / "ending.json").unlink()
    for name in ("history.jsonl", "watcher.log"):
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        with (folder / name).open("w") as file:
            for number in range(LINES):
                line = lines[number % len(lines)]
                file.write(json.dumps(line | {"poke": number + 1} if "poke" in line else line) + "\n")
    checkpoint = Checkpoint(folder / "checkpoint.json", WatchState, schema_version=SCHEMA)
    known = checkpoint.load()
    if known is not None:
        checkpoint.save(replace(known, pokes=LINES, counted=LINES, ending=None, because="", in_flight=None))
    return state


def _projects(stage: Stage) -> None:
    """Configured projects with an unfinished run each."""
    state = stage.new_state()
    for number in range(PROJECTS):
        name = f"project-{number:02d}"
        project = stage.root / "projects" / name
        project.mkdir(parents=True)
        file = stage.root / "config" / "harness" / f"{name}.toml"
        file.write_text(
            f"project = {json.dumps(str(project))}\n"
            f"[state]\nroot = {json.dumps(str(state))}\nwork_root = {json.dumps(f'{state}-work')}\n"
        )
        file.chmod(0o600)
        home = Home.for_project(project, state)
        home.prepare()
        now = datetime.now(UTC)
        journal = Journal(home.open_run(now))
        seen = Revision(tip=f"{number:040x}", tree=f"{number:040x}")
        journal.save(WatchState(run=journal.run.name, began_at=now, branch="main", revision=seen))
        journal.close()


def _cpu(used: list[Used]) -> float:
    return middle(one.cpu_s * 1000 for one in used)


def _wall(used: list[Used]) -> float:
    return middle(one.wall_s * 1000 for one in used)
