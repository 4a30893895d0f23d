"""State: what a checkpoint costs over a bare durable write of the same bytes (DESIGN 13)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

from bench_measure import middle
from bench_stage import Stage
from bench_table import Row

from watcher.decision.state import SCHEMA, InFlight, Pause, Revision, Session, Wait, WatchState
from watcher.record.checkpoint import Checkpoint

SAVES = 15  # in a row, so that one call is not lost in the clock's grain
BARE = "open, write, fsync, rename, fsync the directory"


def rows(stage: Stage, rounds: int) -> list[Row]:
    found: list[Row] = []
    for revisions in (10, 200, 2000):
        path = stage.root / f"checkpoint-{revisions}.json"
        checkpoint = Checkpoint(path, WatchState, schema_version=SCHEMA)
        state = realistic(revisions)
        checkpoint.save(state)
        data = path.read_bytes()
        ours: list[tuple[float, float]] = []
        plain: list[tuple[float, float]] = []
        for _ in range(rounds):
            ours.append(cost(partial(checkpoint.save, state)))
            plain.append(cost(partial(bare, path, data)))
        cpu, bare_cpu = (middle(cpu for cpu, _ in costs) for costs in (ours, plain))
        wall, bare_wall = (middle(wall for _, wall in costs) for costs in (ours, plain))
        what = f"a checkpoint after {revisions} revisions, {len(data) / 1000:.1f} kB, CPU"
        found += [
            Row(what, cpu, baseline=bare_cpu, against=BARE, ratio_budget=1.3),
            Row("  wall", wall, baseline=bare_wall, against=BARE),
        ]
    return found


def realistic(revisions: int) -> WatchState:
    """What a run knows in the middle of a night; it remembers the tree of every revision it has had."""
    now = datetime.now(UTC)
    run, pokes = "20260730T021500Z-watch-3f2a", 3 * revisions
    return WatchState(
        run=run,
        began_at=now - timedelta(hours=5),
        branch="main",
        remote="git@forge.example:shop.git",
        pokes=pokes,
        counted=pokes,
        session=Session(id=str(uuid4()), begun=True),
        stalls=1,
        denied=("Bash",),
        limit_words="You've hit your session limit · resets 3am (Europe/Paris)",
        limit_at=now,
        revision=Revision(tip=os.urandom(20).hex(), tree=os.urandom(20).hex()),
        seen=tuple(os.urandom(20).hex() for _ in range(revisions)),
        published=os.urandom(20).hex(),
        spent_usd=12.345,
        session_usd=1.25,
        wait=Wait(until=now + timedelta(seconds=2), pause=Pause.BETWEEN, why="between two pokes"),
        in_flight=InFlight(poke=pokes, started_at=now, marker=f"{run}/{pokes}"),
    )


def bare(path: Path, data: bytes) -> None:
    """The four steps and nothing else."""
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def cost(work: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds of one call: CPU of this process, and wall."""
    began_cpu, began = time.process_time(), time.perf_counter()
    for _ in range(SAVES):
        work()
    return (
        (time.process_time() - began_cpu) * 1000 / SAVES,
        (time.perf_counter() - began) * 1000 / SAVES,
    )
