"""scripts/bench: the harness's figures beside a plain baseline of the same run. It asserts nothing.

usage: scripts/bench [overhead|state|start|idle|all]

CPU is user and system time with all children; of a poke, the agent's own is measured alone and taken off.
Figures are medians of some rounds. Wall times count the disk, and what else the machine is doing.
BENCH_TREE=FOLDER measures another checkout of this project, to compare the two.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from bench_idle import Idle
from bench_measure import namespaces
from bench_stage import ROOT, Stage
from bench_table import load, machine, table

ROUNDS = {"overhead": 3, "state": 15, "start": 7}
PARTS = (*ROUNDS, "idle")
IDLE_S = 60.0


def main(arguments: list[str]) -> int:
    wanted = PARTS if arguments in ([], ["all"]) else tuple(arguments)
    if any(part not in PARTS for part in wanted):
        print(__doc__, file=sys.stderr)
        return 64
    sys.path.insert(0, str(ROOT))  # some parts call the harness's own functions
    began = time.monotonic()
    print(machine(), flush=True)
    if not namespaces():
        print("No pid namespace can be made here, so processes are not counted.")
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        measure(Stage(root=Path(os.path.realpath(folder))), wanted)
    print(f"\nload at the end {load()}; all of it took {time.monotonic() - began:.0f} s")
    return 0


def measure(stage: Stage, wanted: tuple[str, ...]) -> None:
    """The parts in turn; the idle watcher waits beside them all."""
    stage.warm_up()
    idle = Idle(stage) if "idle" in wanted else None
    try:
        for part in wanted:
            if part != "idle":
                show(stage, part)
        if idle:
            print(table("idle", idle.rows(IDLE_S)), flush=True)
    finally:
        if idle:
            idle.end()


def show(stage: Stage, part: str) -> None:
    import bench_overhead  # two of these import the harness, which the path set above leads to
    import bench_start
    import bench_state

    rows = {"overhead": bench_overhead.rows, "state": bench_state.rows, "start": bench_start.rows}[part]
    print(table(part, rows(stage, ROUNDS[part])), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
