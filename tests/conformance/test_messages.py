"""Messages of many programs and providers: the class of each, and the instant it names (DESIGN 4).

Every row is tried as the program's flagged error and as bare output, in the channels it can come
through; a row that is no error only as bare output, which is the harder reading.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from watcher.decision.classify import classify
from watcher.decision.outcome import Answer, Outcome, Reading
from watcher.response import Response, Verdict, read_bytes

FILE = Path(__file__).parents[1] / "data" / "messages.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
EXPECTED = {
    "limit": {Outcome.LIMIT},
    "transient": {Outcome.TRANSIENT},
    "context": {Outcome.CONTEXT},
    "auth": {Outcome.NEEDS_HUMAN},
    "billing": {Outcome.NEEDS_HUMAN},
    "max_turns": {Outcome.TURN_CAP},
    "ordinary": {Outcome.SUCCESS, Outcome.UNREADABLE},
    "other": set(Outcome) - {Outcome.LIMIT, Outcome.TRANSIENT},
}
PROFILES = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "antigravity": "gemini",
    "opencode": "opencode",
    "qwen-code": "qwen",
}
PRECISION = timedelta(seconds=1)  # for rows precise to a minute or a day too: the words say the same


def _ways(row: dict[str, Any]) -> dict[str, Answer]:
    """How the row's text can reach us."""
    text = row["text"]
    bare = Answer(response=read_bytes(text.encode()), exit_code=1)
    on_stderr = Answer(response=Response(), stderr=text, exit_code=1)
    if row["class"] == "ordinary":
        return {"bare": bare, "stderr": on_stderr}
    flagged = Response(verdict=Verdict.FAILURE, subtype="success", is_error=True, text=text)
    other = on_stderr if row["channel"] == "stderr" else bare
    return {"flagged": Answer(response=flagged, exit_code=1), row["channel"]: other}


def _reading(row: dict[str, Any], answer: Answer, agent: str) -> Reading:
    return classify(
        answer,
        now=datetime.fromisoformat(row["observed_at"]),
        zone=ZoneInfo(row["host_tz"]),
        agent=agent,
    )


def _right_class(row: dict[str, Any], agent: str) -> bool:
    return all(
        _reading(row, answer, agent).outcome in EXPECTED[row["class"]] for answer in _ways(row).values()
    )


def _right_reset(row: dict[str, Any], agent: str) -> bool:
    return all(_reset_fits(row, _reading(row, answer, agent)) for answer in _ways(row).values())


def _reset_fits(row: dict[str, Any], reading: Reading) -> bool:
    if row["expected_reset"] is None:
        return reading.reset is None
    if reading.reset is None:
        return False
    off = abs(reading.reset.at - datetime.fromisoformat(row["expected_reset"]))
    return off <= PRECISION


def _rows(*confidence: str, timed: bool = False) -> list[Any]:
    found = [row for row in ROWS if row["confidence"] in confidence]
    if timed:
        found = [row for row in found if row["class"] in {"limit", "transient"}]
    return [pytest.param(row, id=row["id"]) for row in found]


@pytest.mark.parametrize("row", _rows("sure"))
def test_a_message_has_its_class_whichever_way_it_comes(row: dict[str, Any]) -> None:
    for way, answer in _ways(row).items():
        reading = _reading(row, answer, row["agent"])
        assert reading.outcome in EXPECTED[row["class"]], (way, reading.because)


@pytest.mark.parametrize("row", _rows("sure", timed=True))
def test_a_message_names_its_reset_and_one_without_a_time_names_none(row: dict[str, Any]) -> None:
    for way, answer in _ways(row).items():
        reading = _reading(row, answer, row["agent"])
        assert _reset_fits(row, reading), (way, reading.reset)


@pytest.mark.parametrize("row", _rows("sure", "assumed", "ambiguous"))
def test_a_wait_says_which_words_and_which_zone_it_was_read_from(row: dict[str, Any]) -> None:
    for answer in _ways(row).values():
        reset = _reading(row, answer, row["agent"]).reset
        if reset is not None:
            assert reset.at.tzinfo is not None
            assert reset.zone
            assert reset.text


@pytest.mark.parametrize("row", [each for each in _rows("sure") if each.values[0]["class"] == "ordinary"])
def test_a_success_that_speaks_of_limits_stays_a_success(row: dict[str, Any]) -> None:
    response = Response(verdict=Verdict.SUCCESS, subtype="success", text=row["text"])
    reading = classify(Answer(response=response), now=datetime.now(UTC), zone=UTC)
    assert reading.outcome is Outcome.SUCCESS


@pytest.mark.parametrize("row", [each for each in _rows("sure") if each.values[0]["class"] == "ordinary"])
def test_talk_of_a_limit_is_none_even_inside_a_flagged_error(row: dict[str, Any]) -> None:
    response = Response(verdict=Verdict.FAILURE, subtype="success", is_error=True, text=row["text"])
    reading = _reading(row, Answer(response=response), row["agent"])
    assert reading.outcome is not Outcome.LIMIT, reading.because


# What is not sure is counted, not demanded row by row: at least so many of each are right.
LEAST = {"class": {"assumed": 16, "ambiguous": 8}, "reset": {"assumed": 14, "ambiguous": 8}}


def test_the_rows_that_are_not_sure_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    counts: dict[tuple[str, str], list[bool]] = {}
    for row in ROWS:
        if row["confidence"] == "sure":
            continue
        counts.setdefault(("class", row["confidence"]), []).append(_right_class(row, row["agent"]))
        if row["class"] in {"limit", "transient"}:
            counts.setdefault(("reset", row["confidence"]), []).append(_right_reset(row, row["agent"]))
    with capsys.disabled():
        print()
        for (what, confidence), results in sorted(counts.items()):
            print(f"  {what} of {confidence} rows: {sum(results)} of {len(results)} right")
    for (what, confidence), results in counts.items():
        assert sum(results) >= LEAST[what][confidence]


def test_a_message_is_understood_without_knowing_who_printed_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The profile in use may be another than the program behind a gateway."""
    with capsys.disabled():
        print()
        for name, agents in (("profile", PROFILES), ("nothing", {})):
            wrong = [row["id"] for row in ROWS if not _right_class(row, agents.get(row["agent"], ""))]
            print(f"  class, knowing {name}: {len(ROWS) - len(wrong)} of {len(ROWS)} right {wrong}")
            assert len(wrong) <= 2


def test_every_row_is_a_case() -> None:
    with FILE.open(encoding="utf-8") as file:
        assert len(ROWS) == sum(1 for line in file if line.strip()) == 241
    assert not [name for name, times in Counter(row["id"] for row in ROWS).items() if times > 1]
    assert {row["class"] for row in ROWS} == set(EXPECTED)
    assert {row["confidence"] for row in ROWS} == {"sure", "assumed", "ambiguous"}
