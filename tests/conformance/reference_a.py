"""Progress, stall and sentinel (H 3, 5, 6.3)."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.reference_row import (
    BOTH,
    CAP,
    DECIDE,
    DONE,
    FIX,
    IDLE,
    KEEP,
    SENTINEL,
    Row,
    commit,
    failed,
    row,
    said,
)

OPEN_TASK = """\
| STATUS | ID | Title |
|---|---|---|
| DONE | T-101 | First |
| OPEN | T-102 | Second |
"""


def one_task_is_open(stage: Any) -> None:
    (stage.project / "docs").mkdir()
    (stage.project / "docs" / "TASKS.md").write_text(OPEN_TASK)


def the_claim_is_named_false(seen: Any) -> None:
    assert "T-102" in seen.played.history[0]["because"]


def prose_is_named(seen: Any) -> None:
    assert "prose" in seen.played.history[0]["because"]


def the_next_start_begins_a_conversation(seen: Any) -> None:
    seen.stage.again(**seen.sections)
    assert "--resume" not in seen.stage.calls()[-1]["argv"]


def the_session_is_named_for_a_later_look(seen: Any) -> None:
    ending = json.loads((seen.played.run / "ending.json").read_text())
    assert ending["session_id"] == seen.played.history[-1]["session_id"]


def every_line_of_a_poke_names_the_whole_session(seen: Any) -> None:
    ids = [line["session_id"] for line in seen.played.history]
    lines = [entry for entry in seen.played.log if entry["event"].startswith("poke ")]
    assert [line["session"] for line in lines] == ids
    assert all(len(session) == 36 for session in ids)


ROWS: tuple[Row, ...] = (
    row(
        "A01",
        KEEP,
        "a commit, then the sentinel",
        [commit(), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        forms=BOTH,
        also=the_next_start_begins_a_conversation,
    ),
    row(
        "A02",
        KEEP,
        "three successes without a commit",
        [IDLE],
        exit=2,
        sessions="-RR",
        forms=BOTH,
        also=the_session_is_named_for_a_later_look,
    ),
    row(
        "A03",
        KEEP,
        "a commit starts the stall counter again",
        [IDLE, IDLE, commit(), IDLE, IDLE, IDLE],
        exit=2,
        sessions="-RRRRR",
        updates=1,
        forms=BOTH,
    ),
    row("A04", KEEP, "the sentinel at once", [DONE], exit=0, sessions="-", forms=BOTH),
    row(
        "A05",
        DECIDE,
        "the sentinel inside a sentence",
        [said(f"Every task is finished: {SENTINEL}, as agreed.")],
        exit=2,
        sessions="-RR",
        also=prose_is_named,
    ),
    row(
        "A06",
        FIX,
        "the sentinel quoted in order to deny it",
        [said(f"I will not say {SENTINEL} yet, T-102 is open"), DONE],
        exit=0,
        sessions="-R",
        also=prose_is_named,
    ),
    row(
        "A07",
        FIX,
        "the sentinel on the second line",
        [said(f"Nothing is left.\n{SENTINEL}")],
        exit=0,
        sessions="-",
    ),
    row(
        "A08",
        DECIDE,
        "the sentinel while the list has an open task",
        [DONE],
        exit=2,
        sessions="-RR",
        prepare=one_task_is_open,
        also=the_claim_is_named_false,
    ),
    row(
        "A09",
        FIX,
        "commit and sentinel in one poke",
        [commit(text=SENTINEL)],
        exit=0,
        sessions="-",
        updates=1,
        forms=BOTH,
    ),
    row(
        "A10",
        FIX,
        "a commit in a cut turn, then the sentinel",
        [commit(**CAP), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        inferred=True,
    ),
    row(
        "A12",
        KEEP,
        "the sentinel in lower case",
        [said(SENTINEL.lower())],
        exit=2,
        sessions="-RR",
        inferred=True,
    ),
    row(
        "A13",
        KEEP,
        "the sentinel with the error flag set",
        [failed(SENTINEL), DONE],
        exit=0,
        sessions="-R",
        waits=[10],
        forms=BOTH,
        inferred=True,
    ),
    row(
        "A14",
        KEEP,
        "the sentinel in a cut turn",
        [said(SENTINEL, subtype="error_max_turns"), DONE],
        exit=0,
        sessions="-R",
        forms=BOTH,
    ),
    row(
        "A16",
        DECIDE,
        "STALL_LIMIT=0",
        [IDLE],
        exit=64,
        variables={"STALL_LIMIT": "0"},
        inferred=True,
    ),
    row(
        "A17",
        KEEP,
        "a limit is neither stall nor progress",
        [IDLE, IDLE, failed("You've hit your session limit"), IDLE],
        exit=2,
        sessions="-RR-",
        waits=[2, 2, 3600],
        inferred=True,
    ),
    row(
        "A18",
        KEEP,
        "cut turns are neutral, and a commit in one counts",
        [IDLE, IDLE, CAP, commit(**CAP), IDLE, IDLE, IDLE],
        exit=2,
        sessions="-RRRRRR",
        updates=1,
        inferred=True,
    ),
    row("A21", FIX, "a newline before the sentinel", [said(f"\n{SENTINEL}")], exit=0, sessions="-"),
    row(
        "A22",
        KEEP,
        "blanks and a newline behind the sentinel",
        [said(f"{SENTINEL}  \n")],
        exit=0,
        sessions="-",
    ),
    row(
        "A23",
        FIX,
        "the whole session id in the log",
        [IDLE, DONE],
        exit=0,
        sessions="-R",
        forms=BOTH,
        also=every_line_of_a_poke_names_the_whole_session,
    ),
    row(
        "A-one-stall",
        KEEP,
        "STALL_LIMIT=1 ends at the first idle poke",
        [IDLE],
        exit=2,
        sessions="-",
        variables={"STALL_LIMIT": "1"},
    ),
    row(
        "A-markup",
        FIX,
        "the sentinel in bold, with a full stop",
        [said(f"**{SENTINEL}**.")],
        exit=0,
        sessions="-",
    ),
    row(
        "A-claim-with-work",
        DECIDE,
        "a false claim that came with a commit is progress",
        [commit(text=SENTINEL), IDLE, IDLE, IDLE],
        exit=2,
        sessions="-RRR",
        updates=1,
        prepare=one_task_is_open,
    ),
)
