"""Real watch shifts in a simulated world.

Not real are time, the agent's process (`Agent.poke` lets the provider write its output), git
(`Repository.look` tells the provider's count of commits), and fsync. All else is the program itself.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, Protocol
from zoneinfo import ZoneInfo

from tests.simulation.program import DAY, Printed, Wording
from tests.simulation.provider import Plan, Provider, Quota
from tests.simulation.world import Diary, SimulatedClock, World
from watcher.agents.claude import PROFILE
from watcher.agents.profile import Ask
from watcher.config import Config
from watcher.config.schema import Agent as AgentConfig
from watcher.config.schema import Watch as WatchConfig
from watcher.decision.state import Revision, WatchState
from watcher.effect.git import Look, Repository
from watcher.effect.notify import Notifier
from watcher.effect.systemd import Systemd
from watcher.log import open_log
from watcher.poke import Agent, Papers, Poked
from watcher.prepare import account_of
from watcher.prepare.checks import ask_of
from watcher.prepare.policy import policy
from watcher.process import Finished, Interrupts, Started
from watcher.record.files import Disk
from watcher.record.home import Home
from watcher.record.journal import Journal
from watcher.signals import Inbox
from watcher.tasks.list import TaskList
from watcher.tasks.read import Words
from watcher.watch import Watch
from watcher.watch import begin as begin_state

TIMEOUT_S = 1800.0  # of a poke


class QuickDisk(Disk):
    """Everything but the flush."""

    def fsync(self, descriptor: int) -> None:
        del descriptor


class Bent(Protocol):
    """A deliberate break of a shift, to show that a figure can be red."""

    def __call__(self, shift: Watch) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A stretch of time on one account."""

    plan: Plan
    wording: Wording
    zone: str = "Europe/Berlin"  # the agent's
    begin: datetime
    days: float = 30
    projects: int = 1
    seed: int
    on_limit: Callable[[World, Quota, int], None] = lambda *_: None  # suspends, leaps of the clock
    arrange: Callable[[World, Provider], None] = lambda *_: None  # the same, known beforehand
    bent: Bent | None = None


class Status(Systemd):
    """The service manager's end: notes what the shift says it is doing."""

    def __init__(self, diary: Diary) -> None:
        super().__init__({})
        self._diary = diary

    def status(self, text: str) -> None:
        self._diary.doing = text.partition(", ")[2].partition(" until ")[0].partition(" since ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAgent(Agent):
    """The agent program, played by the provider; reading what it printed is the real thing."""

    name: str
    provider: Provider
    world: World
    clock: SimulatedClock
    bell: Inbox

    def poke(
        self,
        ask: Ask,
        papers: Papers,
        *,
        marker: str,
        interrupts: Interrupts | None,
        on_start: Callable[[Started], None] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> Poked:
        del marker, interrupts, tick
        self.profile.argv(self.command, ask)
        if on_start is not None:
            on_start(Started(pid=os.getpid(), started_at_ticks=0, boot_id="simulated"))
        printed = self._play(ask)
        self._forget(papers)
        papers.out.write_bytes(printed.out)
        papers.err.write_bytes(printed.err)
        finished = Finished(
            end=printed.end, exit_code=printed.exit_code, stdout_before_signal=printed.before_signal
        )
        return Poked(answer=self.read(papers, ask, finished), finished=finished)

    def _forget(self, papers: Papers) -> None:
        """Remove the exchange of the poke before the last: nothing reads it, and records are in memory."""
        before = papers.out.with_stem(f"{int(papers.out.stem) - 2:06d}")
        for suffix in (".prompt", ".out", ".err"):
            before.with_suffix(suffix).unlink(missing_ok=True)

    def _play(self, ask: Ask) -> Printed:
        for step in self.provider.poke(self.name, ask, TIMEOUT_S):
            if isinstance(step, Printed):
                return step
            self.clock.sleep(step, self.bell)
        raise AssertionError("the program never ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRepository(Repository):
    """The branch holds what the provider's agent has committed."""

    name: str
    revisions: Mapping[str, int]

    def look(self, branch: str) -> Look:
        number = self.revisions.get(self.name, 0)
        return Look(
            revision=Revision(tip=f"{number:040x}", tree=f"{number:040x}"),
            checked_out=branch,
            tips={branch: f"{number:040x}"},
        )


@dataclass(slots=True, kw_only=True)
class Played:
    """A scenario that has been played, with all that the figures are made of."""

    scenario: Scenario
    world: World
    provider: Provider
    diaries: dict[str, Diary]
    exit_codes: list[int]
    begin: float
    outcomes: Counter[str]  # of the pokes, from the shifts' own histories
    last_words: list[str]  # why a shift ended by itself, else ""


def play(scenario: Scenario, root: Path) -> Played:
    """Run every project's shift from the first instant to the last."""
    start = scenario.begin.timestamp()
    world = World(now=start, end=start + scenario.days * DAY)
    provider = Provider(
        plan=scenario.plan,
        wording=scenario.wording,
        zone=ZoneInfo(scenario.zone),
        projects=scenario.projects,
        begin=start,
        end=world.end,
        now=lambda: world.now,
        chance=random.Random(scenario.seed),
    )
    provider.on_limit = lambda quota: scenario.on_limit(world, quota, len(provider.used_up))
    scenario.arrange(world, provider)
    names = [f"project-{number}" for number in range(scenario.projects)]
    diaries = {name: Diary() for name in names}
    shifts = [put_together(scenario, world, provider, root, name, diaries[name]) for name in names]
    for shift, _ in shifts:
        if scenario.bent is not None:
            scenario.bent(shift)
    try:
        codes = world.run([partial(shift.work, state) for shift, state in shifts])
    finally:
        for shift, _ in shifts:
            shift.journal.close()
            shift.inbox.close()
    outcomes = Counter(
        line["outcome"] for shift, _ in shifts for line in map(json.loads, shift.journal.run.history.open())
    )
    memories = [shift.journal.load() for shift, _ in shifts]
    return Played(
        scenario=scenario,
        world=world,
        provider=provider,
        diaries=diaries,
        exit_codes=codes,
        begin=start,
        outcomes=outcomes,
        last_words=[memory.because if memory else "" for memory in memories],
    )


def put_together(
    scenario: Scenario, world: World, provider: Provider, root: Path, name: str, diary: Diary
) -> tuple[Watch, WatchState]:
    """A watch shift as `prepare` makes one, with the default numbers, but for the poke's time."""
    project = root / name
    project.mkdir(parents=True)
    form: Literal["stream-json", "json"] = "stream-json" if scenario.wording.stream else "json"
    config = Config(
        project=str(project),
        agent=AgentConfig(timezone=scenario.zone, output=form),
        watch=WatchConfig(poke_timeout_s=TIMEOUT_S),
    )
    home = Home.for_project(project, root / "state", root / "work", environ={}, disk=QuickDisk())
    home.prepare()
    inbox = Inbox()
    clock = SimulatedClock(world, diary, inbox)
    run = home.open_run(clock.now())
    journal = Journal(run)
    journal.load()
    log = open_log(run.path / "watcher.log", console=io.StringIO(), readable=False)
    repository = SimulatedRepository(
        path=project, account=None, env={}, name=name, revisions=provider.revisions
    )
    state = begin_state(run.name, clock.now(), repository.look("main"), branch="main", remote="")
    journal.save(state)
    shift = Watch(
        policy=policy(config),
        agent=SimulatedAgent(
            profile=PROFILE,
            command=("claude",),
            project=project,
            env={},
            account=None,
            timeout_s=TIMEOUT_S,
            name=name,
            provider=provider,
            world=world,
            clock=clock,
            bell=inbox,
        ),
        ask=ask_of(config, project, "Work on the next task."),
        prompt="Work on the next task.",
        repository=repository,
        publisher=None,
        tasks=TaskList(project=project, paths=("docs/TASKS.md",), words=Words()),
        journal=journal,
        account=account_of(config, home, run.disk, {"USER": "tester"}),
        notifier=Notifier(
            command=(), project=str(project), cwd=run.path, env={}, timeout_s=30, retries=0, log=log
        ),
        inbox=inbox,
        clock=clock,
        systemd=Status(diary),
        log=log,
    )
    return shift, state
