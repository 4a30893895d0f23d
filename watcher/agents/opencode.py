"""opencode (`opencode run --format json`): its events as a Response (DESIGN 10).

There is no final event: a turn is over when a step finished for another reason than tool calls,
or when the last thing said is an error. A rejected permission ends the run too, with exit code 0.
`isRetryable` does not mean soon: a five-hour limit has it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from datetime import datetime, timedelta
from typing import Any

from watcher.response import Response, Usage, Verdict, documents, fields

_REJECTED = re.compile(r"rejected permission|rule which prevents", re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,8}(?:\.[0-9]{1,6})?")


def read(stdout: bytes, stderr: str) -> Response:
    """The answer of one poke; what opencode says only on stderr has no verdict. Never raises on content."""
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
    before = dataclasses.replace(before, session_id=fields.text(event.get("sessionID")) or before.session_id)
    kind, part = event.get("type"), event.get("part")
    if kind == "error":
        return _failed(before, event)
    if kind == "step_start":
        return dataclasses.replace(before, verdict=Verdict.NONE, is_error=False, subtype="", text="")
    if kind == "text":
        return dataclasses.replace(before, text=fields.text(fields.member(part, "text")))
    if kind == "tool_use" and _REJECTED.search(fields.text(fields.member(part, "state", "error"))):
        tool = fields.label(fields.member(part, "tool")) or "?"
        return dataclasses.replace(before, denials=(*before.denials, tool))
    if kind == "step_finish":
        return _finished(before, event, part)
    return before


def _finished(before: Response, event: dict[str, Any], part: object) -> Response:
    usage = _add(before.usage, fields.member(part, "tokens"))
    cost = (before.cost_usd or 0.0) + (fields.money(fields.member(part, "cost")) or 0.0)
    before = dataclasses.replace(before, usage=usage, cost_usd=cost or None)  # 0: a model without a price
    if fields.member(part, "reason") == "tool-calls" and not before.denials:
        return before  # another step follows, unless a rejected permission ends the run here
    return dataclasses.replace(
        before,
        verdict=Verdict.SUCCESS,
        subtype="success",
        api_error="",
        api_status=None,
        reset_at=None,
        results=before.results + 1,
        document=fields.bounded(event),
    )


def _failed(before: Response, event: dict[str, Any]) -> Response:
    error = event.get("error")
    data = fields.member(error, "data")
    return dataclasses.replace(
        before,
        verdict=Verdict.FAILURE,
        subtype="error",
        is_error=True,
        text=fields.text(fields.member(data, "message")) or fields.text(fields.member(error, "message")),
        api_error=fields.label(fields.member(error, "name")),
        api_status=fields.status(fields.member(data, "statusCode")),
        reset_at=_retry_at(event.get("timestamp"), fields.member(data, "responseHeaders")),
        results=before.results + 1,
        document=fields.bounded(event),
    )


def _retry_at(timestamp: object, headers: object) -> datetime | None:
    """The time the provider's header asks for, counted from when the program printed the error."""
    said = fields.instant(timestamp)
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = fields.member(headers, name)
        if said and isinstance(value, str) and _SECONDS.fullmatch(value):
            return said + timedelta(seconds=math.ceil(float(value) * unit))
    return None


def _add(before: Usage | None, tokens: object) -> Usage | None:
    if not isinstance(tokens, dict):
        return before
    so_far = before or Usage()
    return Usage(
        input=so_far.input + (fields.count(tokens.get("input")) or 0),
        cache_read=so_far.cache_read + (fields.count(fields.member(tokens, "cache", "read")) or 0),
        cache_write=so_far.cache_write + (fields.count(fields.member(tokens, "cache", "write")) or 0),
        output=so_far.output
        + (fields.count(tokens.get("output")) or 0)
        + (fields.count(tokens.get("reasoning")) or 0),
    )
