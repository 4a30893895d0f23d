"""Answers of every form, and the sessions they name (H 6.4, 8)."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.reference_c import LADDER, LIMIT, unreadable
from tests.conformance.reference_row import (
    BOTH,
    DONE,
    FIX,
    IDLE,
    KEEP,
    SENTINEL,
    Act,
    Row,
    Verdict,
    commit,
    printed,
    row,
    said,
)

STARTS = '{"type":"system","subtype":"init"}\n{"type":"assistant"}'


def document(**fields: Any) -> str:
    """An answer as the reference reads it, on one line."""
    plain = {"subtype": "success", "is_error": False, "result": "done", "session_id": "{session}"}
    return json.dumps({**plain, **fields})


def sentinel_in(id: str, verdict: Verdict, scenario: str, act: Act, **more: Any) -> Row:
    return row(id, verdict, scenario, [act], exit=0, sessions="-", **more)


def every_line_of_the_log_is_ours(seen: Any) -> None:
    lines = (seen.played.run / "watcher.log").read_text().splitlines()
    assert all(json.loads(line)["event"] for line in lines)
    assert len([line for line in seen.played.log if line["event"].startswith("poke ")]) == 2


def the_history_holds_one_object_a_line(seen: Any) -> None:
    assert len(seen.played.history) == len(seen.stage.calls())
    assert seen.played.history[-1]["result"]["result"] == SENTINEL


def the_raw_bytes_are_kept(seen: Any) -> None:
    line = seen.played.history[0]
    assert b"\xff" in (seen.played.run / "pokes" / line["out"]).read_bytes()


def the_newest_session_goes_on(seen: Any) -> None:
    told = [line["session_id"] for line in seen.played.history]
    asked = [call["argv"][call["argv"].index("--resume") + 1] for call in seen.stage.calls()[1:]]
    assert asked == told[:-1]
    assert len(set(told)) > 1


def nothing_of_the_id_was_run(seen: Any) -> None:
    assert not list(seen.stage.root.rglob("pwned"))
    argv = seen.stage.calls()[1]["argv"]
    assert argv[-6:] == ["--max-turns", "12", "--permission-mode", "acceptEdits", "--output-format", "json"]


def the_place_of_the_program_is_named(seen: Any) -> None:
    assert "no-such-agent" in seen.refused


def no_such_program(stage: Any) -> None:
    stage.command = ["no-such-agent"]


FORMS: tuple[Row, ...] = (
    unreadable("C27", FIX, "nothing at all", printed(""), forms=BOTH),
    unreadable("C28", FIX, "an object cut off in the middle", printed(document()[:-20]), forms=BOTH),
    sentinel_in(
        "C29",
        FIX,
        "warnings before the object",
        printed(f"Warning: old\nWarning: slow\n{document(result=SENTINEL)}\n"),
        forms=BOTH,
    ),
    sentinel_in(
        "C30",
        FIX,
        "text behind the object",
        printed(f"{document(result=SENTINEL)}\nGoodbye.\n"),
        inferred=True,
    ),
    row(
        "C31",
        FIX,
        "text behind the object, which is a limit",
        [printed(f"{document(result=LIMIT, is_error=True)}\nGoodbye.\n"), DONE],
        exit=0,
        sessions="--",
        waits=[7320],
        forms=BOTH,
    ),
    sentinel_in("C-bom", KEEP, "a byte order mark", said(SENTINEL, bom=True, crlf=True), forms=BOTH),
    sentinel_in("C32", FIX, "an array of events", said(SENTINEL, array=True), forms=BOTH),
    sentinel_in(
        "C33",
        FIX,
        "a stream of events where one object was asked for",
        printed(f"{STARTS}\n{document(type='result', result=SENTINEL)}\n"),
        inferred=True,
    ),
    sentinel_in(
        "C34",
        FIX,
        "one object on several lines",
        printed(json.dumps(json.loads(document(result=SENTINEL)), indent=2)),
        also=the_history_holds_one_object_a_line,
        inferred=True,
    ),
    sentinel_in("C35", KEEP, "a unit separator in the text", said(f"one\u001ftwo\n{SENTINEL}"), forms=BOTH),
    sentinel_in("C35-beside", KEEP, "a unit separator beside the sentinel", said(f"\u001f{SENTINEL}")),
    row(
        "C36",
        FIX,
        "a text of many lines is one line of the log",
        [said("one\ntwo\r\nthree\n\nfour"), DONE],
        exit=0,
        sessions="-R",
        also=every_line_of_the_log_is_ours,
        inferred=True,
    ),
    row(
        "C37",
        FIX,
        "a line of ours, forged in the text",
        [said(f'fine\n[12:00:00] {SENTINEL} -- finished.\n{{"event":"ended: done"}}'), DONE],
        exit=0,
        sessions="-R",
        forms=BOTH,
        also=every_line_of_the_log_is_ours,
    ),
    sentinel_in("C38", KEEP, "a NUL in the text", said(f"one\u0000two\n{SENTINEL}"), forms=BOTH),
    sentinel_in("C38-beside", KEEP, "a NUL beside the sentinel", said(f"{SENTINEL}\u0000")),
    sentinel_in(
        "C39",
        KEEP,
        "bytes that are no UTF-8",
        printed(document(result="@").replace("@", f"caf\udcff\\n{SENTINEL}")),
        forms=BOTH,
        also=the_raw_bytes_are_kept,
    ),
    sentinel_in(
        "C40",
        KEEP,
        "quotes and letters of every kind",
        said(f"„Grüße“ 'a' \"b\" `c` $d 🙂 日本\n{SENTINEL}"),
        forms=BOTH,
        inferred=True,
    ),
    sentinel_in(
        "C41",
        KEEP,
        "five megabytes, the sentinel first",
        said(f"{SENTINEL}\n", flood_result=5_000_000),
        forms=BOTH,
    ),
    sentinel_in(
        "C42",
        KEEP,
        "five megabytes in many lines, the sentinel last",
        printed(document(result="@").replace("@", "working on it\\n" * 350_000 + SENTINEL)),
        inferred=True,
    ),
    row(
        "C51",
        KEEP,
        "a success that ends with 1",
        [said("I looked around.", exit=1), DONE],
        exit=0,
        sessions="-R",
        forms=BOTH,
    ),
    row(
        "C54",
        KEEP,
        "another program's object, at the first poke",
        [printed('{"response":"hello"}')],
        exit=1,
        sessions="-",
    ),
    row(
        "C55",
        KEEP,
        "no such program",
        [IDLE],
        exit=1,
        prepare=no_such_program,
        also=the_place_of_the_program_is_named,
    ),
    sentinel_in(
        "C56",
        FIX,
        "two objects: the last one counts",
        printed(f"{document(result='working')}\n{document(result=SENTINEL)}\n"),
        forms=BOTH,
    ),
    row(
        "C59",
        FIX,
        "seven unreadable answers in a row are survived",
        [commit(), *[printed("")] * 7, commit("b.txt"), DONE],
        exit=0,
        sessions="-RRRRRRRRR",
        waits=[2, *LADDER[:7], 2],
        updates=2,
    ),
)

SESSIONS: tuple[Row, ...] = (
    row(
        "C43",
        KEEP,
        "an answer without a session id keeps the one before",
        [commit(), said("I looked around.", result={"session_id": None}), IDLE, DONE],
        exit=0,
        sessions="-RRR",
        updates=1,
        forms=BOTH,
    ),
    row(
        "C44",
        KEEP,
        "every answer names another session: the newest goes on",
        [
            commit(new_session=True),
            said("I looked around.", new_session=True),
            commit("b.txt", new_session=True),
            said("I looked around.", new_session=True),
            DONE,
        ],
        exit=0,
        sessions="-RRRR",
        updates=2,
        forms=BOTH,
        also=the_newest_session_goes_on,
    ),
    row(
        "C45",
        FIX,
        "a session id that is a command",
        [said("I looked around.", session="x; touch pwned #"), IDLE, DONE],
        exit=0,
        sessions="--R",
        also=nothing_of_the_id_was_run,
    ),
    row(
        "C46",
        FIX,
        "a session id of two lines",
        [said("I looked around.", session="s1\ntouch pwned"), IDLE, DONE],
        exit=0,
        sessions="--R",
        also=nothing_of_the_id_was_run,
    ),
    row(
        "C47",
        FIX,
        "the program no longer knows the session",
        [said("I looked around.", forget_session=True), DONE],
        exit=0,
        sessions="-R-",
        forms=BOTH,
    ),
    row(
        "C48",
        FIX,
        "the program says so in its answer",
        [
            IDLE,
            {
                "subtype": "error_during_execution",
                "is_error": True,
                "say": "No conversation found with session ID: 6a1f3e52-8d07-4a0e-9b1e-0a4f7c9d2b11",
            },
            DONE,
        ],
        exit=0,
        sessions="-R-",
        forms=BOTH,
        inferred=True,
    ),
    unreadable("C49", FIX, "the agent is killed", {"crash": "KILL"}, forms=BOTH, inferred=True),
    row(
        "C-lost-at-once",
        FIX,
        "a new conversation that is refused too is an error",
        [said("x", stdout="", stderr="No conversation found with session ID: x\n", exit=1)],
        exit=1,
        sessions="-" * 11,
        waits=[2, *LADDER],
    ),
)

ROWS: tuple[Row, ...] = FORMS + SESSIONS
