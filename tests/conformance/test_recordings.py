"""Runs of the real programs: what a supervisor must make of each (DESIGN 3 and 10).

Every row is a case. A run that its recorder stopped is fed as one we stopped: what it printed
after the signal tells its id and its cost and is no verdict.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from watcher.agents import codex, gemini, opencode, qwen
from watcher.decision.classify import classify
from watcher.decision.outcome import Answer, Ended, Outcome, Reading
from watcher.response import Response, Verdict, read_bytes

FILE = Path(__file__).parents[1] / "data" / "recordings.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
READERS: dict[str, Callable[[bytes, str], Response]] = {
    "claude": lambda stdout, _stderr: read_bytes(stdout),
    "codex": codex.read,
    "gemini": gemini.read,
    "opencode": opencode.read,
    "qwen": qwen.read,
}
NOW = datetime(2026, 11, 30, 16, 0, tzinfo=UTC)
EXPECTED = {"NOT_A_POKE": Outcome.UNREADABLE} | {outcome.name: outcome for outcome in Outcome}


def _name(row: dict[str, Any]) -> str:
    return f"{row['cli']}-{row['version']}-{row['scenario']}"


def _stopped(row: dict[str, Any]) -> bool:
    return "signal=" in row["note"] or "TIMEOUT=" in row["note"]


def _response(row: dict[str, Any]) -> Response:
    response = READERS[row["cli"]](row["stdout"].encode(), row["stderr"])
    return dataclasses.replace(response, verdict=Verdict.NONE) if _stopped(row) else response


def _id(row: dict[str, Any]) -> str | None:
    """The id the run was told to begin or to resume."""
    argv = row["argv"] or []
    for flag in ("--session-id", "--resume", "--session"):
        if flag in argv[:-1]:
            return str(argv[argv.index(flag) + 1])
    return str(argv[-2]) if row["cli"] == "codex" and "resume" in argv else None


def _read(row: dict[str, Any]) -> tuple[Response, Reading]:
    response = _response(row)
    answer = Answer(
        response=response,
        ended=Ended.STOPPED if _stopped(row) else Ended.ITSELF,
        stderr=row["stderr"],
        resumed="--resume" in (row["argv"] or []),
    )
    return response, classify(answer, now=NOW, zone=UTC, agent=row["cli"], session_id=_id(row))


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_a_recorded_run_gives_its_outcome(row: dict[str, Any]) -> None:
    _, reading = _read(row)
    assert reading.outcome is EXPECTED[row["outcome"]], reading.because


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_a_recorded_run_says_which_session_goes_on(row: dict[str, Any]) -> None:
    _, reading = _read(row)
    # A caller who asked for a session that is not kept has none to go on with, whatever id is printed.
    kept = None if "--no-session-persistence" in (row["argv"] or []) else reading.session_id
    assert kept == row["session_after"], reading.because


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_a_recorded_run_says_what_it_cost(row: dict[str, Any]) -> None:
    response, _ = _read(row)
    assert response.cost_usd == row["cost"]


@pytest.mark.parametrize("row", [row for row in ROWS if _stopped(row)], ids=_name)
def test_the_same_bytes_at_a_deadline_are_a_timeout(row: dict[str, Any]) -> None:
    answer = Answer(response=_response(row), ended=Ended.DEADLINE, stderr=row["stderr"])
    reading = classify(answer, now=NOW, zone=UTC, agent=row["cli"], session_id=_id(row))
    assert reading.outcome is Outcome.TIMED_OUT
    assert reading.session_id == row["session_after"]


def _noted(pattern: str) -> list[Any]:
    found = [(row, match[1]) for row in ROWS if (match := re.search(pattern, row["note"]))]
    return [pytest.param(row, words, id=_name(row)) for row, words in found if not _stopped(row)]


@pytest.mark.parametrize(("row", "words"), _noted(r"text_reset='([^']+)'"))
def test_a_recorded_limit_names_the_words_of_its_reset(row: dict[str, Any], words: str) -> None:
    _, reading = _read(row)
    assert reading.reset is not None
    assert reading.reset.text == words
    assert NOW < reading.reset.at < NOW + timedelta(hours=5)


@pytest.mark.parametrize(("row", "seconds"), _noted(r"retry_after=(\d+)s"))
def test_a_recorded_throttle_says_when_to_retry(row: dict[str, Any], seconds: str) -> None:
    _, reading = _read(row)
    printed = datetime.fromtimestamp(json.loads(row["stdout"])["timestamp"] / 1000, UTC)
    assert reading.reset is not None
    assert reading.reset.at == printed + timedelta(seconds=int(seconds))


@pytest.mark.parametrize(("row", "count"), _noted(r"(?:denials|refused)=(\d+)"))
def test_a_recorded_refusal_is_counted(row: dict[str, Any], count: str) -> None:
    response, _ = _read(row)
    assert len(response.denials) == int(count)


@pytest.mark.parametrize(("row", "_"), _noted(r"\b(EMPTY)\b"))
def test_a_recorded_empty_answer_has_no_text(row: dict[str, Any], _: str) -> None:
    response, _reading = _read(row)
    assert response.text == ""


def test_every_row_is_a_case() -> None:
    with FILE.open(encoding="utf-8") as file:
        assert len(ROWS) == sum(1 for line in file if line.strip()) == 279
    assert not [name for name, times in Counter(map(_name, ROWS)).items() if times > 1]
    assert {row["cli"] for row in ROWS} == set(READERS)
    assert {row["outcome"] for row in ROWS} <= set(EXPECTED)
    assert not [row for row in ROWS if row["reset"] is not None], "a judged reset needs a test of its own"
