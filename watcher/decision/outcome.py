"""The closed set of what one poke can come to, and what is seen of it (DESIGN 3)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime

from watcher.response import Response


class Outcome(enum.Enum):
    """What a poke came to. The order is the order of the rules: the first that fits wins."""

    INTERRUPTED = "interrupted"
    TIMED_OUT = "timed_out"
    UNREADABLE = "unreadable"
    LIMIT = "limit"
    TRANSIENT = "transient"
    CONTEXT = "context"
    SESSION_LOST = "session_lost"
    NEEDS_HUMAN = "needs_human"
    TURN_CAP = "turn_cap"
    BUDGET_CAP = "budget_cap"
    ERROR = "error"
    SUCCESS = "success"  # of a reading only: git and the task list make it one of the next three
    SENTINEL = "sentinel"
    PROGRESS = "progress"
    NO_CHANGE = "no_change"
    UNKNOWN = "unknown"


class Ended(enum.Enum):
    """Why the agent program's process is over."""

    ITSELF = "itself"
    STOPPED = "stopped"  # by us, on a signal or a verb, or orphaned by a crash of ours
    DEADLINE = "deadline"  # by us, at the poke's deadline
    NOT_STARTED = "not_started"  # the program could not be started


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back from one poke. `response` holds only what preceded our first signal."""

    response: Response
    ended: Ended = Ended.ITSELF
    exit_code: int | None = None  # negative: died of that signal
    stderr: str = ""  # its tail, decoded
    resumed: bool = False  # the poke asked to resume a session
    cut_at: int | None = None  # bytes of output that preceded our first signal; None: we sent none


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """When a quota comes back, and how that was read."""

    at: datetime  # aware
    source: str  # "event", "field", "text"
    text: str = ""  # the words it was read from
    zone: str = ""  # the zone they were read in, or "offset" / "epoch"
    other: datetime | None = None  # the second reading, where the words allow two
    window: str = ""  # session | weekly | monthly | "" when the words do not say
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an answer means before git and the task list are asked."""

    outcome: Outcome
    because: str  # the rule and the words that decided
    reset: Reset | None = None  # LIMIT: the quota's return. TRANSIENT: a retry-after
    session_id: str | None = None  # the id to go on with; None: start afresh
    details: dict[str, str] = field(default_factory=dict)
