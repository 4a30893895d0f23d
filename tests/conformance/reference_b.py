"""Limits in disguise, and when they end (H 6.4). It is Monday 13:00 UTC unless a row says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.conformance.reference_row import (
    BOTH,
    DECIDE,
    DONE,
    FIX,
    IDLE,
    KEEP,
    MONDAY_13,
    Row,
    Verdict,
    commit,
    failed,
    row,
    said,
)

BERLIN = "Europe/Berlin"
IN_TWO_HOURS = int(MONDAY_13.timestamp()) + 7200


def at(*words: int) -> datetime:
    return datetime(*words, tzinfo=UTC)  # type: ignore[arg-type,misc]


def limit(
    id: str, verdict: Verdict, scenario: str, text: str | Sequence[str], *waits: float, **more: Any
) -> Row:
    """The limit as often as there are waits, then the sentinel: every wait ends in a new conversation."""
    texts = [text] * len(waits) if isinstance(text, str) else text
    acts = [*(failed(each) for each in texts), DONE]
    return row(id, verdict, scenario, acts, exit=0, sessions="-" * len(acts), waits=waits, **more)


def the_work_was_published_before_the_wait(seen: Any) -> None:
    events = [entry["event"] for entry in seen.played.log]
    assert events.index("published") < events.index("waiting")


ROWS: tuple[Row, ...] = (
    limit(
        "B01",
        KEEP,
        "a clock time",
        "You've hit your session limit · resets 3pm",
        7320,
        forms=BOTH,
        inferred=True,
    ),
    limit(
        "B02",
        FIX,
        "the zone is printed, and it is not ours",
        "You've hit your session limit · resets 3pm (Europe/Berlin)",
        3720,
        inferred=True,
    ),
    limit(
        "B03",
        KEEP,
        "a clock time in the zone we run in",
        "You've hit your session limit · resets 3pm",
        3720,
        zone=BERLIN,
        forms=BOTH,
    ),
    limit(
        "B04",
        FIX,
        "a zone across the ocean",
        "You've hit your session limit · resets 10am (America/New_York)",
        7320,
        inferred=True,
    ),
    limit("B05", KEEP, "a time of tomorrow", "You've hit your limit · resets 3:15am", 51420),
    limit("B06", FIX, "a time without am or pm", "You've hit your session limit · resets 15:00", 7320),
    limit(
        "B07", FIX, "a weekday: the next such day", "You've hit your weekly limit · resets Mon 9am", 590520
    ),
    limit("B08", FIX, "a date", "You've hit your weekly limit · resets Dec 2 at 5pm", 187320, inferred=True),
    limit("B09", FIX, "tomorrow", "You've hit your limit · resets tomorrow at 9am", 72120, inferred=True),
    limit("B10", KEEP, "no time at all", "You've hit your session limit", 3600, forms=BOTH),
    limit(
        "B11", FIX, "an epoch behind a bar", f"Claude AI usage limit reached|{IN_TWO_HOURS}", 7320, forms=BOTH
    ),
    limit(
        "B12",
        FIX,
        "the longer words of older programs",
        "Claude usage limit reached. Your limit will reset at 3pm (UTC).",
        7320,
        inferred=True,
    ),
    limit("B13", KEEP, "a 5-hour limit", "5-hour limit reached ∙ resets 3pm", 7320, forms=BOTH),
    limit(
        "B14",
        FIX,
        "a reset at this very minute",
        "You've hit your session limit · resets 1pm",
        120,
        inferred=True,
    ),
    limit(
        "B15",
        FIX,
        "a reset one minute ago",
        "You've hit your session limit · resets 1pm",
        60,
        now=at(2026, 11, 30, 13, 1),
    ),
    limit(
        "B16",
        KEEP,
        "a reset in one minute",
        "You've hit your session limit · resets 1pm",
        180,
        now=at(2026, 11, 30, 12, 59),
        inferred=True,
    ),
    limit(
        "B17",
        KEEP,
        "a time that does not exist on the day the clock is put forward",
        "You've hit your session limit · resets 2:30am",
        5520,
        zone=BERLIN,
        now=at(2027, 3, 27, 23, 30),
    ),
    limit(
        "B18",
        DECIDE,
        "a time that comes twice on the day the clock is put back: the earlier, then the second",
        "You've hit your session limit · resets 2:30am",
        7320,
        3600,
        zone=BERLIN,
        now=at(2026, 10, 24, 22, 30),
    ),
    limit(
        "B19",
        FIX,
        "a night of eleven hours: the clock is put forward",
        "You've hit your limit · resets 7am",
        36120,
        zone=BERLIN,
        now=at(2027, 3, 27, 19),
    ),
    limit(
        "B20",
        FIX,
        "a night of thirteen hours: the clock is put back",
        "You've hit your limit · resets 7am",
        43320,
        zone=BERLIN,
        now=at(2026, 10, 24, 18),
    ),
    limit("B21", KEEP, "12am is midnight", "You've hit your limit · resets 12am", 39720, inferred=True),
    limit(
        "B22",
        FIX,
        "12pm is noon, and an hour past",
        "You've hit your session limit · resets 12pm",
        2,
    ),
    limit("B23", KEEP, "12:30am", "You've hit your limit · resets 12:30am", 41520),
    limit("B24", FIX, "upper-case PM", "You've hit your session limit · resets 3PM", 7320, inferred=True),
    limit("B25", FIX, "Resets, capitalised", "You've hit your session limit · Resets 3pm", 7320),
    limit("B25-upper", FIX, "RESETS, in capitals", "You've hit your session limit · RESETS 3pm", 7320),
    limit(
        "B26",
        KEEP,
        "a time nobody can read",
        "You've hit your session limit · resets 99pm",
        3600,
        inferred=True,
    ),
    limit("B27", FIX, "resets at", "You've hit your session limit · resets at 3pm", 7320),
    limit("B27-blank", FIX, "a blank before pm", "You've hit your session limit · resets 3 pm", 7320),
    limit("B27-length", FIX, "a length of time", "You've hit your session limit · resets in 2 hours", 7320),
    limit(
        "B28",
        FIX,
        "the limit on the second line",
        "I had to stop here.\nYou've hit your session limit · resets 3pm",
        7320,
    ),
    row(
        "B29",
        DECIDE,
        "an error whose words only resemble a limit",
        [failed("The tests hit your code's own recursion limit"), DONE],
        exit=0,
        sessions="-R",
        waits=[10],
        forms=BOTH,
    ),
    limit(
        "B30",
        DECIDE,
        "two times: the later one",
        "You've hit your session limit · resets 3pm · weekly limit resets 5pm",
        14520,
        inferred=True,
    ),
    row(
        "B31",
        DECIDE,
        "a limit in a poke that made a commit: published before the wait",
        [commit(text="You've hit your session limit · resets 3pm", is_error=True), IDLE, DONE],
        exit=0,
        sessions="--R",
        waits=[7320, 2],
        updates=1,
        forms=BOTH,
        also=the_work_was_published_before_the_wait,
    ),
    row(
        "B33",
        KEEP,
        "a success that speaks of a reset",
        [commit(text="The parser now reads: resets 3pm"), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        forms=BOTH,
    ),
    limit("B34", FIX, "usage limit, without a time", "You've reached your usage limit.", 3600, inferred=True),
    limit(
        "B35",
        FIX,
        "a reset one second ago",
        "You've hit your session limit · resets 1pm",
        119,
        now=at(2026, 11, 30, 13, 0, 1),
        inferred=True,
    ),
    row(
        "B36",
        FIX,
        "a limit under error_during_execution",
        [failed("You've hit your session limit · resets 3pm", subtype="error_during_execution"), DONE],
        exit=0,
        sessions="--",
        waits=[7320],
        forms=BOTH,
    ),
    row(
        "B37",
        FIX,
        "POKE_LIMIT=1, and the one poke is refused for a limit",
        [failed("You've hit your session limit · resets 3pm")],
        exit=3,
        sessions="-",
        variables={"POKE_LIMIT": "1"},
    ),
    limit(
        "B-session-of-tomorrow",
        FIX,
        "a 5-hour window cannot end in 14 hours: the text is stale, so it is tried at once, then ever later",
        "You've hit your session limit · resets 3:15am",
        2,
        45,
        90,
    ),
    limit(
        "B-new-time",
        FIX,
        "the next message names another time",
        ["You've hit your session limit · resets 1:40pm", "You've hit your session limit · resets 6:30pm"],
        2520,
        17400,
    ),
    row(
        "B-quoted-banner",
        KEEP,
        "a success that is nothing but a quoted banner counts as idle",
        [said("The message is: You've hit your session limit · resets 3pm")],
        exit=2,
        sessions="-RR",
    ),
)
