"""Response documents of many programs and versions: what a supervisor should decide on each.

The table says of every document in tests/data/responses what its INDEX says, in our words.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from watcher.agents import codex, gemini, opencode, qwen
from watcher.decision.classify import classify
from watcher.decision.outcome import Answer, Ended, Outcome
from watcher.response import Response, read_bytes

FOLDER = Path(__file__).parents[1] / "data" / "responses"
READERS: dict[str, Callable[[bytes, str], Response]] = {
    "codex": codex.read,
    "gemini": gemini.read,
    "opencode": opencode.read,
    "qwen": qwen.read,
}


class Row(NamedTuple):
    file: str
    outcome: Outcome
    reset: str = ""  # ISO; "" = none
    now: str = "2026-08-13T12:00:00+00:00"
    zone: str = "UTC"  # of the agent's process
    ended: Ended = Ended.ITSELF
    stderr: bool = False  # the document is what the program printed there


L, T, H = Outcome.LIMIT, Outcome.TRANSIENT, Outcome.NEEDS_HUMAN
OK, CONTEXT, ERROR = Outcome.SUCCESS, Outcome.CONTEXT, Outcome.ERROR

TABLE = (
    Row("claude-json-success.json", OK),
    Row("claude-json-success-quoting-limit.json", OK),
    Row(
        "claude-json-session-limit.json",
        L,
        "2026-08-13T15:50:00+09:00",
        "2026-08-13T13:49:00+09:00",
        "Europe/Berlin",
    ),
    Row("claude-json-limit-terminal-reason-completed.json", L, "2026-08-14T06:50Z", "2026-08-14T03:00Z"),
    Row("claude-json-limit-blocking-limit-empty-result.json", CONTEXT),
    Row("claude-json-legacy-epoch-is-error.json", L, "2025-06-14T18:00Z", "2025-06-14T15:00Z"),
    Row("claude-json-not-logged-in.json", H),
    Row("claude-json-org-disabled.json", H),
    Row("claude-json-credit-balance.json", H),
    # The same sentence is a row of the messages, class context: the smaller context is the cure.
    Row("claude-json-1m-credits-required.json", CONTEXT),
    Row("claude-json-bad-model-404.json", H),
    Row("claude-json-prompt-too-long.json", CONTEXT),
    Row("claude-json-zai-1310.json", L, "2026-07-24T09:59:59+08:00", "2026-07-20T08:00Z", "Europe/Berlin"),
    Row("claude-json-gateway-codex-limit.json", L),
    Row("claude-json-error-max-turns.json", Outcome.TURN_CAP),
    Row("claude-json-error-max-budget.json", Outcome.BUDGET_CAP),
    Row("claude-json-error-during-execution-errors.json", ERROR),
    Row("claude-json-error-interrupted.json", Outcome.INTERRUPTED, ended=Ended.STOPPED),
    Row("claude-json-error-structured-output-retries.json", ERROR),
    Row("claude-json-empty.json", Outcome.UNREADABLE),
    Row("claude-json-crlf-bom.json", OK),
    Row(
        "claude-text-session-limit.txt",
        L,
        "2026-08-13T15:50:00+09:00",
        "2026-08-13T13:49:00+09:00",
    ),
    Row("claude-text-mid-response.txt", T),
    Row("claude-array-verbose-limit.json", L, "2026-09-08T13:50Z", "2026-09-08T10:00Z"),
    Row("claude-array-with-banner-line.jsonl", OK),
    Row("claude-stream-session-limit.jsonl", L, "2026-07-25T09:00:00+02:00", "2026-07-25T05:10:00+02:00"),
    Row("claude-stream-limit-rejected-then-allowed.jsonl", OK),
    Row("claude-stream-limit-using-overage.jsonl", L, "2026-09-15T02:40Z", "2026-09-14T23:00Z"),
    Row("claude-stream-api-retry-success.jsonl", OK),
    Row("claude-stream-tool-result-echo.jsonl", OK),
    Row("claude-stream-subagent-limit.jsonl", OK),
    Row("claude-stream-noise.jsonl", OK),
    Row("claude-stream-hook-context-exhausted.jsonl", CONTEXT),
    Row("acp-claude-session-limit.jsonl", L, "2026-10-05T21:40Z", "2026-10-05T18:00Z"),
    Row("codex-exec-success.jsonl", OK),
    Row("codex-exec-reconnect-success.jsonl", OK),
    Row("codex-exec-internal-error-exit0.jsonl", T),
    Row("codex-exec-rollout-budget.jsonl", Outcome.BUDGET_CAP),
    Row("codex-exec-auth.jsonl", H),
    Row("codex-exec-credits.jsonl", H),
    Row("codex-rollout-limit.jsonl", L, "2026-09-21T19:42:41Z", "2026-09-21T18:00Z"),
    Row(
        "codex-app-server-error.json",
        L,
        "2026-10-08T16:13:00+02:00",
        "2026-10-06T12:00:00+02:00",
        "Europe/Berlin",
    ),
    Row("gemini-json-success.json", OK),
    Row("gemini-json-quota.json", L, "2026-08-14T07:14:47Z", stderr=True),
    Row("gemini-json-quota-nested.json", L, "2026-08-14T00:00:00-07:00"),
    Row("gemini-api-429-array.json", L, "2025-11-13T18:44:07Z", "2025-11-13T10:00Z"),
    Row("gemini-json-auth.json", H, stderr=True),
    Row("gemini-stderr-attempts-then-success.jsonl", OK),
    Row("opencode-run-success.jsonl", OK),
    Row("opencode-run-429.jsonl", T, "2026-09-12T14:45:20.390Z", "2026-09-12T14:45:00.390Z"),
    Row("opencode-run-429-hours.jsonl", L, "2026-09-12T18:55:00.390Z", "2026-09-12T14:45:00.390Z"),
    Row("opencode-run-auth.jsonl", H),
    Row("opencode-run-context.jsonl", CONTEXT),
    Row("cursor-limit-stderr.txt", L, "2025-11-17T00:00Z", "2025-10-20T12:00Z", stderr=True),
    Row("grok-json-limit.json", L),
    Row("droid-402-limit.txt", L, "2026-08-18T12:00Z"),
)


def _claude(stdout: bytes, _stderr: str) -> Response:
    return read_bytes(stdout)


def _answer(row: Row) -> Answer:
    data = (FOLDER / row.file).read_bytes()
    reader = READERS.get(row.file.partition("-")[0], _claude)
    stdout, stderr = (b"", data.decode()) if row.stderr else (data, "")
    return Answer(response=reader(stdout, stderr), stderr=stderr, ended=row.ended)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.file)
def test_a_document_gives_its_outcome_and_its_reset(row: Row) -> None:
    reading = classify(
        _answer(row),
        now=datetime.fromisoformat(row.now),
        zone=ZoneInfo(row.zone),
        agent=row.file.partition("-")[0],
    )
    assert reading.outcome is row.outcome, reading.because
    expected = datetime.fromisoformat(row.reset) if row.reset else None
    found = reading.reset.at if reading.reset else None
    assert (found and found.astimezone(UTC)) == (expected and expected.astimezone(UTC)), reading.reset


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.file)
def test_a_document_cut_anywhere_before_its_end_is_never_taken_for_a_success(row: Row) -> None:
    """A truncated output may quote anything; without its verdict it is no success."""
    data = (FOLDER / row.file).read_bytes().rstrip()
    step = max(1, len(data) // 40)
    for end in range(0, len(data) - 1, step):
        reading = classify(
            Answer(response=read_bytes(data[:end])),
            now=datetime.fromisoformat(row.now),
            zone=UTC,
            agent="claude",
        )
        assert reading.outcome is not Outcome.SUCCESS


def test_every_document_is_in_the_table() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.name != "INDEX.md"}
    assert {row.file for row in TABLE} == files
    assert len(TABLE) == len(files) == 56


def test_a_retry_after_is_counted_from_when_it_was_printed() -> None:
    row = next(row for row in TABLE if row.file == "opencode-run-429.jsonl")
    later = datetime.fromisoformat(row.now) + timedelta(minutes=10)
    reading = classify(_answer(row), now=later, zone=UTC, agent="opencode")
    assert reading.reset is not None
    assert reading.reset.at < later
