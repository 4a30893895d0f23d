"""Overhead: what the harness adds to the agent's own time, a poke (DESIGN 13)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench_measure import Used, children_cpu, middle, namespaces, processes, run
from bench_stage import CEILING, Stage, event, result
from bench_table import Row

MB = 10**6
LOOP = "the shell loop, same agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of poke. Start and end cancel out in the difference between few and many of them."""

    what: str
    answer: Path
    pokes: tuple[int, int]
    loop: tuple[int, int]  # the same for the shell loop
    commits: bool = False
    budget: float | None = None  # milliseconds of CPU

    def variables(self, stage: Stage) -> dict[str, str]:
        return {"BENCH_ANSWER": str(self.answer), **(stage.committing if self.commits else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Milliseconds a poke."""

    cpu: float
    wall: float


def rows(stage: Stage, rounds: int) -> list[Row]:
    found: list[Row] = []
    for case in _cases(stage):
        ours, loop, pushes = [], [], []
        for _ in range(rounds):
            alone = agent_alone(stage, case)
            ours.append(harness(stage, case, alone))
            loop.append(shell_loop(stage, case, alone))
            if case.commits:
                pushes.append(plain_push(stage, 8))
        cpu, loop_cpu = (middle(cost.cpu for cost in costs) for costs in (ours, loop))
        wall, loop_wall = (middle(cost.wall for cost in costs) for costs in (ours, loop))
        found += [
            Row(f"{case.what}, CPU", cpu, baseline=loop_cpu, against=LOOP, budget=case.budget),
            Row("  wall", wall, baseline=loop_wall, against=LOOP),
        ]
        if pushes:
            words = "git push of one commit to a bare directory"
            found.append(Row("  CPU", cpu, baseline=middle(pushes), against=words, ratio_budget=3))
        if case.answer.stat().st_size < MB and namespaces():
            budget = None if case.commits else 3.0
            ours_started, loop_started = counted(stage, case)
            words = "  processes beyond the agent"
            found.append(Row(words, ours_started, "", baseline=loop_started, against=LOOP, budget=budget))
    return [*found, *huge(stage)]


def _cases(stage: Stage) -> list[Case]:
    small = stage.answer("small.json", result("T-1 is not finished yet; the parser is next."))
    line = stage.answer("5MB.json", result("five million characters " * (5 * MB // 24)))
    lines = stage.answer("5MB.jsonl", *(event(number) for number in range(2200)), result("T-1 goes on."))
    return [
        Case(what="poke without a new revision", answer=small, pokes=(20, 100), loop=(2, 10), budget=5),
        Case(what="poke with a revision to publish", answer=small, pokes=(4, 16), loop=(2, 8), commits=True),
        Case(what="poke with 5 MB in one line", answer=line, pokes=(2, 10), loop=(1, 3), budget=40),
        Case(what="poke with 5 MB in 2201 lines", answer=lines, pokes=(2, 10), loop=(1, 3), budget=40),
    ]


def harness(stage: Stage, case: Case, alone: Cost) -> Cost:
    """A poke by the harness, beyond the agent."""
    few, many = (_watched(stage, pokes, case.variables(stage)) for pokes in case.pokes)
    return _between(few, many, case.pokes, alone)


def shell_loop(stage: Stage, case: Case, alone: Cost) -> Cost:
    """The same by the shell loop."""
    env, folder = stage.env | case.variables(stage), stage.root / "loop"
    few, many = (run(stage.loop(folder, pokes), env=env, cwd=stage.root) for pokes in case.loop)
    return _between(few, many, case.loop, alone)


def agent_alone(stage: Stage, case: Case) -> Cost:
    """The agent by itself, a call; its output goes to a fresh file, as with the harness."""
    env = stage.env | case.variables(stage)
    times = 2 if case.commits else 10  # commits are used up
    with (stage.root / "agent-output").open("wb") as file:

        def work() -> None:
            for _ in range(times):
                file.seek(0)
                file.truncate()
                subprocess.run([stage.agent], env=env, stdout=file, check=True)

        began = time.monotonic()
        cpu_s = children_cpu(work)
        wall_s = time.monotonic() - began
    return Cost(cpu=cpu_s * 1000 / times, wall=wall_s * 1000 / times)


def plain_push(stage: Stage, times: int) -> float:
    """Milliseconds of CPU of one `git push` of one new commit."""
    env = stage.env | stage.committing | {"BENCH_ANSWER": "/dev/null"}
    total = 0.0
    for _ in range(times):
        subprocess.run([stage.agent], env=env, check=True)
        total += children_cpu(lambda: stage.git("push", "--quiet", "origin", "main"))
    return total * 1000 / times


def counted(stage: Stage, case: Case) -> tuple[float, float]:
    """Processes a poke of the harness and of the loop, the agent itself not counted."""
    few, many = 2, 6
    env, folder = stage.env | case.variables(stage), stage.root / "loop"

    def ours(pokes: int) -> int:
        argv = stage.watch(stage.new_state(), pokes, case.variables(stage))
        return processes(argv, env=stage.env, cwd=stage.root, expect=(CEILING,))

    def loop(pokes: int) -> int:
        return processes(stage.loop(folder, pokes), env=env, cwd=stage.root)

    return (ours(many) - ours(few)) / (many - few) - 1, (loop(many) - loop(few)) / (many - few) - 1


def huge(stage: Stage) -> list[Row]:
    """Answers of 100 MB: how long, and how far memory grows. Next to a parser that takes them whole."""
    lines = stage.root / "100MB.jsonl"
    stage.answer(lines.name, *(event(number) for number in range(44_000)), result("T-1 goes on."))
    line = stage.answer("100MB.json", result("a hundred million chars " * (100 * MB // 24)))
    usual, _ = _peaks(stage, {"BENCH_ANSWER": str(stage.root / "small.json")})
    found = []
    for what, path in (("100 MB in 44001 lines", lines), ("100 MB in one line", line)):
        used, peaks = _peaks(stage, {"BENCH_ANSWER": str(path)})
        alone = agent_alone(stage, Case(what=what, answer=path, pokes=(0, 0), loop=(0, 0)))
        note = stage.root / "plain-peak"
        plain = run([*PLAIN, str(path)], env=stage.env | {"BENCH_NOTE": str(note)}, cwd=stage.root)
        cpu = (used.cpu_s - usual.cpu_s) * 1000 / 2 - alone.cpu
        words = "python, json.loads of each line"
        grown, whole = (peaks[1] - peaks[0]) / 1024, int(note.read_text()) / 1024
        found += [
            Row(
                f"poke with {what}, CPU", cpu, baseline=plain.cpu_s * 1000, against=f"{words}, its start too"
            ),
            Row("  peak memory grows by", grown, "MB", baseline=whole, against=f"{words}, all of it"),
        ]
        path.unlink()
    return found


PLAIN = (
    sys.executable,
    "-c",
    "import json, os, sys\n"
    "events = [json.loads(line) for line in open(sys.argv[1], 'rb')]\n"
    "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
    "open(os.environ['BENCH_NOTE'], 'w').write(peak)",
)


def _peaks(stage: Stage, variables: Mapping[str, str]) -> tuple[Used, list[int]]:
    """Two pokes, and the watcher's peak memory in kB when each of them began."""
    note = stage.root / "peaks"
    note.unlink(missing_ok=True)
    used = _watched(stage, 2, {**variables, "BENCH_NOTE": str(note)})
    return used, [int(number) for number in note.read_text().split()]


def _watched(stage: Stage, pokes: int, variables: dict[str, str]) -> Used:
    argv = stage.watch(stage.new_state(), pokes, variables)
    return run(argv, env=stage.env, cwd=stage.root, expect=(CEILING,))


def _between(few: Used, many: Used, pokes: tuple[int, int], alone: Cost) -> Cost:
    count = pokes[1] - pokes[0]
    return Cost(
        cpu=(many.cpu_s - few.cpu_s) * 1000 / count - alone.cpu,
        wall=(many.wall_s - few.wall_s) * 1000 / count - alone.wall,
    )
