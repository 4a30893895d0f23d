"""What a watch shift knows between two pokes, and what it can decide to do next.

Everything the next decision reads is in `WatchState`, and `WatchState` is the checkpoint:
a restart knows exactly as much as the process that died.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

import msgspec

from watcher.decision.endings import Ending

if TYPE_CHECKING:  # who only reads a checkpoint, as `harness status` does, needs nothing of an answer
    from watcher.decision.outcome import Answer, Outcome, Reset

SCHEMA = 1


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's conversation. `begun`: a transcript may exist, so it is resumed, not created."""

    id: str
    begun: bool = False


class Pause(enum.Enum):
    """Why the shift is not poking right now."""

    BETWEEN = "between pokes"
    LIMIT = "usage limit"
    TRANSIENT = "provider trouble"
    ERROR = "after an error"
    HUMAN = "a person is needed"
    OVERAGE = "paid extra usage"
    ACCOUNT = "the account's limit"


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A wall-clock deadline: it holds over restart, reboot, suspend and clock jumps."""

    until: datetime  # aware, UTC
    pause: Pause
    why: str


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """The configured branch's tip and the tree it holds; both "" on an unborn branch."""

    tip: str
    tree: str


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A poke that has been started and whose end is not recorded yet."""

    poke: int
    started_at: datetime
    marker: str  # in the environment of every process of this poke
    resumed: bool = False


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The watch shift's whole memory (DESIGN 6). Counters are of consecutive pokes."""

    run: str
    began_at: datetime
    branch: str
    remote: str = ""  # pinned when the run began; "" = publishing is off
    pokes: int = 0  # started, the number of the last one
    counted: int = 0  # those that count towards POKE_LIMIT: all but interrupted ones
    session: Session | None = None
    stalls: int = 0
    errors: int = 0
    transients: int = 0
    transient_since: datetime | None = None
    humans: int = 0
    human_since: datetime | None = None
    contexts: int = 0  # of fresh sessions that were too long at once
    lost: int = 0
    caps: int = 0
    denied: tuple[str, ...] = ()  # tools refused since the last progress
    limit_words: str = ""  # the last limit's own words and reset, to notice the same stale text again
    limit_at: datetime | None = None
    stales: int = 0
    revision: Revision | None = None
    seen: tuple[str, ...] = ()  # trees this run has had: going back to one is no progress
    published: str = ""  # the tip the remote said it holds
    spent_usd: float = 0.0
    session_usd: float = 0.0  # the last total the current session reported
    wait: Wait | None = None
    in_flight: InFlight | None = None
    ending: Ending | None = None  # decided; the run is over once this is also in ending.json
    because: str = ""  # why it ended

    @property
    def is_published(self) -> bool:
        """The remote itself said it holds the tip, or there is nothing to publish."""
        return self.revision is None or not self.revision.tip or self.revision.tip == self.published


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The numbers the rules work with, from the configuration. Lengths are timedeltas."""

    stall_limit: int
    poke_limit: int
    hours: timedelta | None
    cap_usd: float | None
    pause: timedelta
    sentinel: str
    reset_margin: timedelta
    fixed_wait: timedelta
    far_reset: timedelta
    far_probe: timedelta
    stale_wait: timedelta
    error_first: timedelta
    error_max: timedelta
    error_limit: int
    transient_first: timedelta
    transient_max: timedelta
    transient_limit: timedelta
    human_every: timedelta
    human_limit: timedelta
    cap_limit: int
    context_limit: int
    allow_paid_overage: bool
    agent: str
    zone: tzinfo
    patterns: Sequence[tuple[str, str]] = ()  # (regular expression, kind) of the user's own messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one poke left behind: its answer, the branch, and the task list."""

    answer: Answer
    revision: Revision | None  # None: git could not say, which is never progress
    open_tasks: tuple[str, ...] = ()  # eligible tasks in the list now; () also when there is no list
    cost_is_cumulative: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a poke came to. What is done next is in the state: exactly one of `wait` and `ending`."""

    outcome: Outcome
    because: str
    state: WatchState  # the memory after this poke
    progress: bool = False
    alert: str = ""
    reset: Reset | None = None
