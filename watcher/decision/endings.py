"""Every way a shift may end, and what each ending is worth (DESIGN 1, 5; H 15.3; A, Termination).

Two closed sets side by side. Both are checked when this module is imported: an ending without
a class would be a code path nobody planned, a class without an ending a promise nobody keeps.
The producers' side of the check stands where the producers stand (`decide.PRODUCES`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


class Ending(enum.Enum):
    """How a watch shift ends. A stop by signal is none of these: such a run goes on later."""

    DONE = "done"
    UNUSABLE = "unusable"
    STALLED = "stalled"
    CEILING = "ceiling"
    UNPUBLISHED = "unpublished"


class NightEnding(enum.Enum):
    """How a night ends, in the order in which the endings are looked for."""

    GOAL_MET = "GOAL_MET"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    TIME_LIMIT = "TIME_LIMIT"
    DRIFT_DETECTED = "DRIFT_DETECTED"
    NO_PROGRESS = "NO_PROGRESS"
    QUEUE_EMPTY_GOAL_UNMET = "QUEUE_EMPTY_GOAL_UNMET"
    UNRECOVERABLE_ERROR = "UNRECOVERABLE_ERROR"


class Worth(enum.Enum):
    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    FAILURE = "FAILURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """What an ending is worth: to a person, to a script, and whether somebody is told."""

    worth: Worth
    exit_code: int
    alert: str  # "", "alert" (read in the morning) or "page" (wake somebody)
    meaning: str


WATCH: Mapping[Ending, Class] = {
    Ending.DONE: Class(
        worth=Worth.SUCCESS,
        exit_code=0,
        alert="",
        meaning="the agent reported the task list done and nothing open contradicts it",
    ),
    Ending.UNUSABLE: Class(
        worth=Worth.FAILURE,
        exit_code=1,
        alert="alert",
        meaning="the agent cannot be used: it keeps failing, or answers in a form nobody knows",
    ),
    Ending.STALLED: Class(
        worth=Worth.FAILURE,
        exit_code=2,
        alert="alert",
        meaning="the agent kept ending its turns without the sentinel and without a new revision",
    ),
    Ending.CEILING: Class(
        worth=Worth.PARTIAL,
        exit_code=3,
        alert="alert",
        meaning="a ceiling you set was reached: pokes, hours or dollars",
    ),
    Ending.UNPUBLISHED: Class(
        worth=Worth.PARTIAL,
        exit_code=4,
        alert="alert",
        meaning="the task list is done, but the remote does not hold the work",
    ),
}

NIGHT: Mapping[NightEnding, Class] = {
    NightEnding.GOAL_MET: Class(
        worth=Worth.SUCCESS, exit_code=0, alert="", meaning="the goal's predicate holds"
    ),
    NightEnding.BUDGET_EXHAUSTED: Class(
        worth=Worth.PARTIAL, exit_code=2, alert="alert", meaning="the ledger refused the next poke"
    ),
    NightEnding.TIME_LIMIT: Class(
        worth=Worth.PARTIAL, exit_code=2, alert="alert", meaning="the wall clock ran out"
    ),
    NightEnding.DRIFT_DETECTED: Class(
        worth=Worth.FAILURE, exit_code=3, alert="page", meaning="the queue left the goal"
    ),
    NightEnding.NO_PROGRESS: Class(
        worth=Worth.FAILURE, exit_code=3, alert="alert", meaning="five tasks changed nothing verifiable"
    ),
    NightEnding.QUEUE_EMPTY_GOAL_UNMET: Class(
        worth=Worth.FAILURE, exit_code=3, alert="alert", meaning="no task is left and the goal is not met"
    ),
    NightEnding.UNRECOVERABLE_ERROR: Class(
        worth=Worth.FAILURE, exit_code=4, alert="alert", meaning="anything else that ended the night"
    ),
}


class Exit(enum.IntEnum):
    """Exit codes outside both tables, the same for every command."""

    USAGE = 64
    BUG = 70
    HELD = 75  # another harness holds this project
    CONFIG = 78
    HANGUP = 129
    INTERRUPT = 130
    TERMINATED = 143


def demand_same(endings: Iterable[enum.Enum], classes: Iterable[enum.Enum]) -> None:
    """Raise AssertionError unless both sides name the same endings. Not an `assert`: -O keeps it."""
    if odd := set(endings) ^ set(classes):
        raise AssertionError(f"endings without a class, or classes without an ending: {odd}")


demand_same(Ending, WATCH)
demand_same(NightEnding, NIGHT)
