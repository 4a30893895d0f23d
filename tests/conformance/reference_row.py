"""One scenario of the reference watcher (H 12.2): what is played, and the facts that must come of it.

The rows stand in `reference_a.py` to `reference_f.py`, by the letter of their ids. An id with a number is
a scenario that was run against the reference; `inferred` marks those whose words were not at hand and
were made up from their one-line description. An id with words is a neighbour of ours.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

Act = Mapping[str, Any]  # a step of the scripted agent's tape
Sections = Mapping[str, Mapping[str, Any]]  # of the configuration

MONDAY_13 = datetime(2026, 11, 30, 13, 0, tzinfo=UTC)
PAUSE = 2.0


class Verdict(enum.Enum):
    """What we do with the reference's behaviour."""

    KEEP = "the same"
    FIX = "it contradicts its own document, or loses work"
    DECIDE = "its document leaves it open"


class Facts(NamedTuple):
    """What a run came to."""

    exit: int
    sessions: str  # a letter a poke: "-" began a conversation, "R" resumed one
    waits: tuple[float, ...]  # seconds from a decision to the poke it allowed
    updates: int  # of the remote, counted by its own post-receive hook
    local: int  # commits that the remote does not have at the end


class Form(enum.Enum):
    """How the agent is called and answers."""

    CLASSIC = "agent-cli -p PROMPT --resume ID --max-turns N, and one bare object"
    CLAUDE = "Claude Code's flags and its stream of events"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One scenario. `drive` plays it and says what happened; `also` looks at what it left behind."""

    id: str
    verdict: Verdict
    scenario: str
    facts: Facts
    acts: tuple[Act, ...]
    forms: tuple[Form, ...]
    drive: Callable[[Row, Form, Any], Any] | None  # None: in this process, one start
    also: Callable[[Any], None] | None
    prepare: Callable[[Any], None] | None
    sections: Sections
    variables: Mapping[str, str]
    now: datetime
    zone: str
    name: str  # of the project directory
    inferred: bool
    marks: tuple[Any, ...] = field(default=())


def row(
    id: str,
    verdict: Verdict,
    scenario: str,
    acts: Sequence[Act],
    *,
    exit: int,
    sessions: str = "",
    waits: Sequence[float] | None = None,
    updates: int = 0,
    local: int = 0,
    forms: tuple[Form, ...] = (Form.CLASSIC,),
    drive: Callable[[Row, Form, Any], Any] | None = None,
    also: Callable[[Any], None] | None = None,
    prepare: Callable[[Any], None] | None = None,
    variables: Mapping[str, str] | None = None,
    now: datetime = MONDAY_13,
    zone: str = "UTC",
    name: str = "project",
    inferred: bool = False,
    marks: tuple[Any, ...] = (),
    **sections: Mapping[str, Any],
) -> Row:
    """A row of the table; without `waits` there is the pause between every two pokes."""
    if waits is None:
        waits = [PAUSE] * max(0, len(sessions) - 1)
    return Row(
        id=id,
        verdict=verdict,
        scenario=scenario,
        facts=Facts(exit, sessions, tuple(waits), updates, local),
        acts=tuple(acts),
        forms=forms,
        drive=drive,
        also=also,
        prepare=prepare,
        sections=sections,
        variables=variables or {},
        now=now,
        zone=zone,
        name=name,
        inferred=inferred,
        marks=marks,
    )


BOTH = (Form.CLASSIC, Form.CLAUDE)
CLAUDE = (Form.CLAUDE,)
KEEP, FIX, DECIDE = Verdict

# --- what the agent does ----------------------------------------------------------------------------

SENTINEL = "ALL-TASKS-DONE"
IDLE: Act = {"say": "I looked around."}
DONE: Act = {"say": SENTINEL}
CAP: Act = {"subtype": "error_max_turns", "say": "Reached maximum number of turns (12)"}


def said(text: str, **more: Any) -> Act:
    return {"say": text, **more}


def failed(text: str, **more: Any) -> Act:
    """A success with the error flag set, as limits and most errors arrive."""
    return {"say": text, "is_error": True, **more}


def commit(name: str = "a.txt", text: str = "One task is done.", **more: Any) -> Act:
    return {"write": {name: name}, "commit": f"Add {name}", "say": text, **more}


def printed(text: str, **more: Any) -> Act:
    """Exactly these characters on standard output."""
    return {"stdout": text, **more}


# What the program prints beyond the fields that the reference reads.
_BEYOND = (
    *("type", "uuid", "usage", "modelUsage", "num_turns", "total_cost_usd", "terminal_reason", "stop_reason"),
    *("duration_ms", "duration_api_ms", "permission_denials", "api_error_status", "fast_mode_state"),
    *("queued_turn_count", "result_index", "errors"),
)


def bare(act: Act) -> Act:
    """The act with an answer of subtype, is_error, result and session_id alone."""
    fields = dict.fromkeys(_BEYOND) | {"result": act.get("say", "done")} | act.get("result", {})
    return {"is_error": False, **act, "result": fields}
