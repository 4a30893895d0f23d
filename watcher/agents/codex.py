"""Codex (`codex exec --json`): its events as a Response (DESIGN 10).

A thread names its id first; a turn ends with `turn.completed` or `turn.failed`, and the exit code
is no witness (a failed turn has ended with 0). `error` events are also progress ("Reconnecting...
1/5"), items of type error also warnings. Session files and the app server's errors are read too:
they carry the times that `exec --json` drops.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from watcher.response import Response, Usage, Verdict, documents, fields

_PROGRESS = re.compile(r"reconnecting\b|retrying\b", re.IGNORECASE)


def read(stdout: bytes, stderr: str) -> Response:
    """The answer of one poke; what Codex says only on stderr has no verdict. Never raises on content."""
    response = Response()
    seen = False
    for event in documents.in_bytes(stdout):
        seen = True
        response = _fold(response, event)
    if seen:
        return response
    return Response(plain=fields.cut(stdout.decode("utf-8", "replace").strip()))


def _fold(before: Response, event: dict[str, Any]) -> Response:
    """What is known after one more event."""
    change = dataclasses.replace
    kind = event.get("type")
    if kind == "thread.started":
        return change(before, session_id=fields.text(event.get("thread_id")) or before.session_id)
    if kind == "turn.started":
        return change(before, verdict=Verdict.NONE, is_error=False, text="", document={})
    if kind == "turn.completed":
        usage = _usage(event.get("usage")) or before.usage
        return _result(before, event, Verdict.SUCCESS, before.text, usage=usage)
    if kind == "turn.failed":
        return _result(before, event, Verdict.FAILURE, _message(event.get("error")))
    if kind == "error" and (words := _message(event)) and not _PROGRESS.match(words):
        return _result(before, event, Verdict.FAILURE, words, counts=False)
    if kind == "item.completed":
        return _item(before, event.get("item"))
    if kind == "event_msg":
        return _session_line(before, event)
    if kind is None and fields.member(event, "error", "data", "codexErrorInfo"):
        return _result(before, event, Verdict.FAILURE, _message(event["error"]))
    return before


def _item(before: Response, item: object) -> Response:
    if fields.member(item, "type") != "agent_message":
        return before
    # An agent that goes on to speak has overcome whatever an earlier error event said.
    return dataclasses.replace(
        before, verdict=Verdict.NONE, is_error=False, text=fields.text(fields.member(item, "text"))
    )


def _session_line(before: Response, event: dict[str, Any]) -> Response:
    """A line of a session file: token counts with the windows, and the end of a task."""
    payload = event.get("payload")
    if fields.member(payload, "type") == "token_count":
        return dataclasses.replace(before, reset_at=_full_until(fields.member(payload, "rate_limits")))
    if fields.member(payload, "type") != "task_complete":
        return before
    error = fields.member(payload, "error")
    if not error:
        return _result(
            before, event, Verdict.SUCCESS, fields.text(fields.member(payload, "last_agent_message"))
        )
    return _result(before, event, Verdict.FAILURE, _message(error))


def _full_until(windows: object) -> datetime | None:
    """The latest reset among the windows that are used up; which one is "primary" says nothing."""
    found = [
        fields.instant(fields.member(window, "resets_at"))
        for window in (windows.values() if isinstance(windows, dict) else ())
        if (fields.money(fields.member(window, "used_percent")) or 0) >= 100
    ]
    return max(filter(None, found), default=None)


def _result(
    before: Response,
    event: dict[str, Any],
    verdict: Verdict,
    text: str,
    *,
    usage: Usage | None = None,
    counts: bool = True,
) -> Response:
    error = event.get("error") or fields.member(event, "payload", "error")
    details = [error, fields.member(error, "data")]
    return dataclasses.replace(
        before,
        verdict=verdict,
        subtype="success" if verdict is Verdict.SUCCESS else "error",
        is_error=verdict is Verdict.FAILURE,
        text=text,
        api_error=_first(details, "codex_error_info", "codexErrorInfo"),
        api_status=fields.status(fields.member(error, "status")),
        reset_at=before.reset_at or _structured_reset(error),
        usage=usage or before.usage,
        results=before.results + int(counts),
        document=fields.bounded(event),
    )


def _first(values: Iterable[object], *names: str) -> str:
    return next(
        (found for each in values for name in names if (found := fields.label(fields.member(each, name)))), ""
    )


def _structured_reset(error: object) -> datetime | None:
    return fields.instant(fields.member(error, "resets_at")) or fields.instant(
        fields.member(error, "data", "resets_at")
    )


def _message(error: object) -> str:
    """The words of an error: the inner ones where the outer only say that something went wrong."""
    if isinstance(error, str):
        return error
    return fields.text(fields.member(error, "data", "message")) or fields.text(
        fields.member(error, "message")
    )


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    cached = fields.count(value.get("cached_input_tokens")) or 0
    return Usage(
        input=max(0, (fields.count(value.get("input_tokens")) or 0) - cached),
        cache_read=cached,
        cache_write=fields.count(value.get("cache_write_input_tokens")) or 0,
        output=fields.count(value.get("output_tokens")) or 0,
    )
