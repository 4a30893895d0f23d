"""Errors, limits with a type of their own, and timeouts (H 6.4, 14.3)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.conformance.reference_drive import alive
from tests.conformance.reference_row import (
    BOTH,
    CAP,
    CLAUDE,
    DECIDE,
    DONE,
    FIX,
    IDLE,
    KEEP,
    MONDAY_13,
    SENTINEL,
    Act,
    Row,
    Verdict,
    commit,
    failed,
    printed,
    row,
    said,
)

LADDER = (10, 20, 40, 80, 160, 320, 640, 900, 900)
LIMIT = "You've hit your session limit · resets 3pm"
TOO_LONG = "Prompt is too long"
IN_TWO_HOURS = MONDAY_13 + timedelta(hours=2)
EPOCH = int(IN_TWO_HOURS.timestamp())


def typed(resets_at: object) -> Act:
    """A limit with a type of its own, and the field the reference reads."""
    window = {"five_hour": {"resets_at": resets_at}} if resets_at is not None else {}
    return {"subtype": "rate_limited", "say": "", "result": {"rate_limits": window}}


def typed_limit(
    id: str, verdict: Verdict, scenario: str, resets_at: object, *waits: float, **more: Any
) -> Row:
    acts = [*[typed(resets_at)] * len(waits), DONE]
    return row(id, verdict, scenario, acts, exit=0, sessions="-" * len(acts), waits=waits, **more)


def unreadable(id: str, verdict: Verdict, scenario: str, act: Act, **more: Any) -> Row:
    """One hiccup between two good pokes: a step on the error ladder, in the same conversation."""
    return row(id, verdict, scenario, [IDLE, act, DONE], exit=0, sessions="-RR", waits=[2, 10], **more)


# --- what is looked at beyond the facts ---------------------------------------------------------------


def what_the_agent_left_is_gone(seen: Any) -> None:
    assert seen.played.logged("processes the agent left were ended")
    assert not [pid for pid in map(int, Path(f"{seen.stage.tape}.orphans").read_text().split()) if alive(pid)]


def children_of_the_agent_are_gone(seen: Any) -> None:
    pids = [int(pid) for pid in (seen.stage.root / "children").read_text().split()]
    assert len(pids) == 2 * len(seen.stage.calls())
    assert not [pid for pid in pids if alive(pid)]


def two_children_first(stage: Any) -> None:
    """An agent with a child in its own process group and one in a session of its own."""
    text = (
        "#!/bin/sh\n"
        f"sleep 600 >/dev/null 2>&1 & echo $! >>{stage.root}/children\n"
        f"setsid sleep 600 >/dev/null 2>&1 & echo $! >>{stage.root}/children\n"
        f'exec {stage.root}/agent-cli "$@"\n'
    )
    (stage.root / "agent-with-children").write_text(text)
    (stage.root / "agent-with-children").chmod(0o755)
    stage.command = [str(stage.root / "agent-with-children")]


ERRORS: tuple[Row, ...] = (
    row(
        "C01",
        FIX,
        "the error flag without a known reason, for ever",
        [failed("Something went wrong")],
        exit=1,
        sessions="-RRRRRRRRR",
        waits=LADDER,
        forms=BOTH,
    ),
    row(
        "C03",
        KEEP,
        "the error flag as a word",
        [failed(LIMIT, result={"is_error": "true"}), DONE],
        exit=0,
        sessions="--",
        waits=[7320],
        forms=BOTH,
    ),
    row(
        "C-flag-as-number",
        KEEP,
        "the error flag as 1",
        [failed(LIMIT, result={"is_error": 1}), DONE],
        exit=0,
        sessions="--",
        waits=[7320],
    ),
    row(
        "C-flag-missing",
        KEEP,
        "no error flag at all",
        [said(LIMIT, result={"is_error": None}), said(SENTINEL, result={"is_error": None})],
        exit=0,
        sessions="-R",
    ),
    row(
        "C04",
        KEEP,
        "a full conversation, without the error flag",
        [IDLE, said(TOO_LONG), DONE],
        exit=0,
        sessions="-R-",
        inferred=True,
    ),
    row(
        "C05",
        FIX,
        "too long at once, without the error flag, for ever",
        [said(TOO_LONG)],
        exit=1,
        sessions="--",
    ),
    row(
        "C06",
        FIX,
        "a conversation grows too long, then so is every new one",
        [IDLE, failed(TOO_LONG)],
        exit=1,
        sessions="-R--",
        forms=BOTH,
    ),
    row(
        "C07",
        FIX,
        "a success that speaks of the context window, with a commit",
        [commit(text="The context window of the parser is now configurable"), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        forms=BOTH,
    ),
    row(
        "C08",
        DECIDE,
        "cut turns without a commit, for ever",
        [CAP],
        exit=2,
        sessions="-" + "R" * 24,
        inferred=True,
    ),
    row(
        "C09",
        DECIDE,
        "a cut turn whose words are a limit",
        [failed(LIMIT, subtype="error_max_turns"), DONE],
        exit=0,
        sessions="--",
        waits=[7320],
        forms=BOTH,
    ),
    row(
        "C10",
        DECIDE,
        "an error in the middle of a poke that made a commit",
        [commit(), commit("b.txt", text="The tool failed", subtype="error_during_execution"), DONE],
        exit=0,
        sessions="-RR",
        waits=[2, 10],
        updates=2,
        forms=BOTH,
    ),
    typed_limit("C11", KEEP, "a typed limit with its reset as a number", EPOCH, 7320, forms=BOTH),
    typed_limit("C12", KEEP, "the number as text", str(EPOCH), 7320),
    typed_limit("C13", KEEP, "an ISO time in UTC", IN_TWO_HOURS.strftime("%Y-%m-%dT%H:%M:%SZ"), 7320),
    typed_limit("C14", KEEP, "an ISO time with an offset", "2026-11-30T17:00:00+02:00", 7320, inferred=True),
    typed_limit(
        "C15",
        DECIDE,
        "an ISO time without a zone is UTC",
        "2026-11-30T15:00:00",
        7320,
        zone="Europe/Berlin",
        inferred=True,
    ),
    typed_limit("C16", KEEP, "a typed limit with an empty reset", "", 3600, 3600),
    typed_limit("C16-missing", KEEP, "a typed limit without a reset", None, 3600, 3600),
    typed_limit(
        "C17",
        FIX,
        "a reset that is long past, again and again: ever longer",
        EPOCH - 14400,
        2,
        45,
        90,
        180,
        inferred=True,
    ),
    typed_limit("C18", FIX, "a reset in milliseconds", EPOCH * 1000, 7320),
    row(
        "C19",
        FIX,
        "a typed limit on several lines",
        [
            printed(
                json.dumps(
                    {"subtype": "rate_limited", "rate_limits": {"five_hour": {"resets_at": EPOCH}}}, indent=2
                )
            ),
            DONE,
        ],
        exit=0,
        sessions="--",
        waits=[7320],
        inferred=True,
    ),
    typed_limit("C20", FIX, "a number with a zero in front", f"0{EPOCH}", 7320),
    row(
        "C21",
        DECIDE,
        "a typed limit begins a new conversation, as a disguised one does",
        [IDLE, typed(EPOCH), DONE],
        exit=0,
        sessions="-R-",
        waits=[2, 7318],
        inferred=True,
    ),
    row(
        "C-two-lengths",
        FIX,
        "an error once, then work",
        [failed("Something went wrong"), commit(), failed("Something went wrong"), DONE],
        exit=0,
        sessions="-RRR",
        waits=[10, 2, 10],
        updates=1,
    ),
    unreadable(
        "C53",
        DECIDE,
        "another known error subtype",
        {"subtype": "error_max_structured_output_retries"},
        forms=BOTH,
        inferred=True,
    ),
)

TIMEOUTS: tuple[Row, ...] = (
    unreadable(
        "C22",
        FIX,
        "the agent sleeps past POKE_TIMEOUT",
        {"hang_before": 600, "on_int": "nothing"},
        variables={"POKE_TIMEOUT": "1"},
        forms=BOTH,
    ),
    unreadable(
        "C24",
        FIX,
        "past POKE_TIMEOUT, and it ignores every polite signal",
        {"hang_before": 600, "ignore": ["INT", "TERM", "HUP"]},
        variables={"POKE_TIMEOUT": "1"},
    ),
    row(
        "C-answers-the-signal",
        FIX,
        "past POKE_TIMEOUT, and the answer to our signal is no answer to the poke",
        [{"hang_before": 600, "on_int": "result", "say": SENTINEL}, DONE],
        exit=0,
        sessions="-R",
        waits=[10],
        variables={"POKE_TIMEOUT": "1"},
        forms=BOTH,
    ),
    row(
        "C25",
        FIX,
        "the agent ends, and a child of it holds its standard output",
        [{"orphan": {"seconds": 600, "hold_stdout": True}, **IDLE}, DONE],
        exit=0,
        sessions="-R",
        variables={"POKE_TIMEOUT": "30"},
        also=what_the_agent_left_is_gone,
    ),
    row(
        "C26",
        DECIDE,
        "the agent leaves a child in a session of its own",
        [{"orphan": {"seconds": 600, "setsid": True, "double_fork": True}, **IDLE}, DONE],
        exit=0,
        sessions="-R",
        also=what_the_agent_left_is_gone,
    ),
    row(
        "C60",
        DECIDE,
        "past POKE_TIMEOUT with two children, one in a session of its own",
        [{"hang_before": 600, "on_int": "nothing"}, DONE],
        exit=0,
        sessions="-R",
        waits=[10],
        prepare=two_children_first,
        variables={"POKE_TIMEOUT": "1"},
        forms=CLAUDE,
        also=children_of_the_agent_are_gone,
    ),
    row(
        "C-late-work",
        FIX,
        "a poke that ran out of time but made a commit is no error",
        [commit(hang_before=600, on_int="nothing"), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        variables={"POKE_TIMEOUT": "1"},
        forms=CLAUDE,
    ),
)

ROWS: tuple[Row, ...] = ERRORS + TIMEOUTS
