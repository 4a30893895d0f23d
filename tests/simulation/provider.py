"""A provider of agent time: windows of quota, trouble, and what becomes of one poke.

An account has a five-hour window that begins with its first request and a week that begins at a fixed
time; each grants a number of agent hours. Requests beyond them are refused until the reset. The
provider is in trouble at times drawn beforehand. Everything is drawn from one seeded generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from math import inf

from tests.simulation.program import DAY, RETRIES, TOO_LONG, TROUBLES, Printed, Saying, Session, Wording
from watcher.agents.profile import Ask

MINUTE, HOUR = 60.0, 3600.0
WEEK = 7 * DAY
WINDOW = 5 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the account is given and how often something goes wrong. Agent hours are per project."""

    window_h: tuple[float, float] = (3.2, 4.8)  # agent hours of a tight window
    tight: float = 0.6  # how many windows are tight; the others are never used up
    week_h: float = inf
    week_at: float = 0  # seconds after the begin at which the first week ends; 0: a week later
    pinned: tuple[datetime, ...] = ()  # resets that some window must have, used up 1.3 hours before
    late_s: float = 0  # up to this much after the stated reset the limit is lifted
    stale: float = 0  # how often the first poke after a reset is refused all the same, with the old words
    outages: int = 0  # in the whole time, each of 1 to 5 hours
    overloads_a_week: float = 0  # 1 to 15 minutes each
    throttles_a_day: float = 0  # 20 to 240 seconds each
    hangs_a_week: float = 0
    full_after: int = 0  # pokes that fit into one session; 0: any number
    poke_min: tuple[float, float] = (10, 28)
    turns: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    kind: str
    begin: float
    end: float


@dataclass(slots=True, kw_only=True)
class Quota:
    """One window. `left` is in agent seconds; `used_up_at` is when a request took the last of it."""

    weekly: bool
    reset: float
    lift: float
    left: float
    used_up_at: float | None = None
    stale: bool = False  # if it was used up, the first poke after the lift meets the old words

    def is_over(self, now: float) -> bool:
        return now >= self.lift


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Agent time that was granted."""

    project: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A poke that ended with the words of a limit, after `turns` turns of work."""

    project: str
    begun: float
    ended: float
    quota: Quota
    turns: int


@dataclass(slots=True, kw_only=True)
class Provider:
    """The account's side of the wire. `now` is true time, in seconds of the epoch."""

    plan: Plan
    wording: Wording
    zone: tzinfo
    projects: int
    begin: float
    end: float
    now: Callable[[], float]
    chance: random.Random
    on_limit: Callable[[Quota], None] = lambda _: None
    troubles: list[Trouble] = field(default_factory=list)
    hangs: list[float] = field(default_factory=list)  # the first request after each is never answered
    hung: list[tuple[float, float]] = field(default_factory=list)  # how long each of them hung
    window: Quota | None = None
    week: Quota | None = None
    used_up: list[Quota] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    sessions: dict[str, Session] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    idle: set[str] = field(default_factory=set)  # projects whose last poke committed nothing

    def __post_init__(self) -> None:
        self.troubles = sorted(self._troubles(), key=lambda trouble: trouble.begin)
        count = round(self.plan.hangs_a_week * (self.end - self.begin) / WEEK)
        self.hangs = sorted(self.chance.uniform(self.begin, self.end) for _ in range(count))

    # --- what goes wrong, drawn beforehand ------------------------------------------------------

    def _troubles(self) -> Iterator[Trouble]:
        plan, days = self.plan, (self.end - self.begin) / DAY
        part = (self.end - self.begin) / max(plan.outages, 1)
        for number in range(plan.outages):  # one in each part of the time, so that no two meet
            begin = self.begin + part * number + self.chance.uniform(0.1, 0.7) * part
            yield Trouble(kind="outage", begin=begin, end=begin + self.chance.uniform(1, 5) * HOUR)
        for kind, count, low, high in (
            ("overload", round(plan.overloads_a_week * days / 7), 1 * MINUTE, 15 * MINUTE),
            ("throttle", round(plan.throttles_a_day * days), 20, 240),
        ):
            for _ in range(count):
                begin = self.chance.uniform(self.begin, self.end)
                yield Trouble(kind=kind, begin=begin, end=begin + self.chance.uniform(low, high))

    def _trouble(self, at: float) -> Trouble | None:
        return next((each for each in self.troubles if each.begin <= at < each.end), None)

    # --- quotas ---------------------------------------------------------------------------------

    def _quota(self, reset: float, left: float, *, weekly: bool = False) -> Quota:
        """A new one; after its end either the limit is lifted late, or its words outlive it by a poke."""
        stale = self.chance.random() < self.plan.stale
        late = 0.0 if stale else self.chance.uniform(0, self.plan.late_s)
        return Quota(weekly=weekly, reset=reset, lift=reset + late, left=left, stale=stale)

    def _new_window(self, now: float) -> Quota:
        tight = self.chance.random() < self.plan.tight
        left = self.chance.uniform(*self.plan.window_h) * HOUR * self.projects if tight else inf
        reset = now + WINDOW
        for pin in (instant.timestamp() for instant in self.plan.pinned):
            if now < pin - WINDOW < reset:
                reset = pin - WINDOW  # so that the next window is the pinned one
            elif 1.5 * HOUR <= pin - now <= WINDOW:
                reset, left = pin, (pin - now - 1.3 * HOUR) * self.projects
        return self._quota(reset, left)

    def _new_week(self, now: float) -> Quota:
        reset = self.begin + (self.plan.week_at or WEEK)
        while reset <= now:
            reset += WEEK
        return self._quota(reset, self.plan.week_h * HOUR * self.projects, weekly=True)

    def _grant(self, project: str, length: float) -> Quota | None:
        """Take a turn from both quotas, or name the one whose words refuse it, the later one of two."""
        now = self.now()
        for old in (self.window, self.week):
            if old is not None and old.is_over(now) and old.stale and old.used_up_at is not None:
                old.stale = False
                return old
        if self.window is None or self.window.is_over(now):
            self.window = self._new_window(now)
        if self.week is None or self.week.is_over(now):
            self.week = self._new_week(now)
        quotas = (self.window, self.week)
        refusing = [quota for quota in quotas if quota.used_up_at is not None]
        if refusing:
            return max(refusing, key=lambda quota: quota.reset)
        self.turns.append(Turn(project=project, begin=now, end=now + length))
        for quota in quotas:
            quota.left -= length
            if quota.left <= 0:
                quota.used_up_at = now
                self.used_up.append(quota)
                self.on_limit(quota)
        return None

    # --- one poke -------------------------------------------------------------------------------

    def poke(self, project: str, ask: Ask, timeout_s: float) -> Generator[float | Printed, None, None]:
        """The program from start to end: seconds that pass, and at last what it printed."""
        begun = self.now()
        yield self.chance.uniform(0.4, 0.7)
        said = Saying(self.wording, self.zone, ask)
        if (refused := said.session_refused(known=said.session in self.sessions)) is not None:
            yield refused
            return
        length = self.chance.uniform(*self.plan.poke_min) * MINUTE / self.plan.turns
        session = self.sessions.setdefault(said.session, Session())
        if self.plan.full_after and session.pokes >= self.plan.full_after:
            yield said.failed(TOO_LONG, status=400, reason="prompt_too_long")
            return
        session.pokes += 1
        for turn in range(self.plan.turns):
            if self.hangs and self.hangs[0] <= self.now():
                self.hangs.pop(0)
                self.hung.append((self.now(), begun + timeout_s))
                yield max(0.0, timeout_s - (self.now() - begun))
                yield said.hung()
                return
            trouble = yield from self._outlast()
            if trouble is not None:
                status, texts = TROUBLES[trouble.kind]
                yield said.failed(self.chance.choice(texts), status=status, throttled=status == 429)
                return
            quota = self._grant(project, length)
            if quota is not None:
                yield self.chance.uniform(0.3, 2.0)
                told = Refusal(project=project, begun=begun, ended=self.now(), quota=quota, turns=turn)
                self.refusals.append(told)
                yield said.limited(weekly=quota.weekly, reset=quota.reset, now=self.now())
                return
            yield length
            session.cost += 0.05
        self._commit(project)
        yield said.worked(session)

    def _outlast(self) -> Generator[float, None, Trouble | None]:
        """The program's own retries: over when the provider answers again, or the trouble it met."""
        slept = 0.0
        for at in RETRIES:
            trouble = self._trouble(self.now())
            if trouble is None:
                return None
            yield at - slept
            slept = at
        return self._trouble(self.now())

    def _commit(self, project: str) -> None:
        """Most pokes commit, and one of two in a row: else the stall guard would rightly end the run."""
        if self.chance.random() < 0.9 or project in self.idle:
            self.revisions[project] = self.revisions.get(project, 0) + 1
            self.idle.discard(project)
        else:
            self.idle.add(project)
