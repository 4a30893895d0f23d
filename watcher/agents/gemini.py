"""Gemini CLI (`gemini -p -o json`, also stream-json): its answer as a Response (DESIGN 10).

A success is one object on stdout. An error is an object on *stderr*, with an empty stdout and an
exit code that is the HTTP status modulo 256. Lines such as "Attempt 1 failed" are its own retries,
no verdict; a program killed while it retries has said nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from watcher.response import Response, Usage, Verdict, documents, fields

_REFUSED = re.compile(
    r"^Error executing tool (?P<tool>[\w.-]{1,80}): (?:Tool execution for .{1,80} requires user confirmation"
    r"|Tool \".{1,80}\" not found)",
    re.MULTILINE,
)


def read(stdout: bytes, stderr: str) -> Response:
    """The answer of one poke, from stdout, else from the error object on stderr. Never raises on content."""
    response = Response()
    seen = False
    for event in documents.in_bytes(stdout):
        seen = True
        response = _fold(response, event)
    if not seen:
        response = Response(plain=fields.cut(stdout.decode("utf-8", "replace").strip()))
    if response.verdict is Verdict.NONE and (error := error_object(stderr)):
        response = dataclasses.replace(_failed(response, error), plain="")
    refused = tuple(found["tool"] for found in _REFUSED.finditer(stderr))
    return dataclasses.replace(response, denials=refused)


def error_object(stderr: str) -> dict[str, Any] | None:
    """The last error object on stderr: the program's verdict where stdout has none."""
    last = None
    for document in documents.in_bytes(stderr.encode("utf-8", "replace")):
        if isinstance(fields.member(document, "error", "message"), str) and "type" in document["error"]:
            last = document
    return last


def _fold(before: Response, event: dict[str, Any]) -> Response:
    """What is known after one more document or event."""
    change = dataclasses.replace
    kind = event.get("type")
    session = fields.text(event.get("session_id")) or before.session_id
    before = change(before, session_id=session)
    if kind == "message" and event.get("role") == "assistant":
        content = fields.text(event.get("content"))
        return change(before, text=before.text + content if event.get("delta") else content)
    if kind == "result":
        failed = event.get("status") == "error" or "error" in event
        return _failed(before, event) if failed else _succeeded(before, event, before.text)
    if kind is None and event.get("error"):
        return _failed(before, event)
    if kind is None and isinstance(event.get("response"), str):
        return _succeeded(before, event, event["response"])
    return before


def _succeeded(before: Response, event: dict[str, Any], text: str) -> Response:
    stats = event.get("stats")
    return dataclasses.replace(
        before,
        verdict=Verdict.SUCCESS,
        subtype="success",
        is_error=False,
        text=text,
        usage=_usage(stats),
        models=fields.names(fields.member(stats, "models")),
        results=before.results + 1,
        document=fields.bounded(event),
    )


def _failed(before: Response, event: dict[str, Any]) -> Response:
    error = event.get("error")
    message = error if isinstance(error, str) else fields.text(fields.member(error, "message"))
    return dataclasses.replace(
        before,
        verdict=Verdict.FAILURE,
        subtype="error",
        is_error=True,
        text=message,
        session_id=fields.text(event.get("session_id")) or before.session_id,
        api_error=fields.label(fields.member(error, "type")),
        api_status=fields.status(fields.member(error, "code")),
        reset_at=_quota_reset(error),
        results=before.results + 1,
        document=fields.bounded(event),
    )


def _quota_reset(error: object) -> datetime | None:
    """The instant in the details of an error of the API, which is exact where the words are rounded."""
    details = fields.member(error, "details")
    for detail in details if isinstance(details, list) else ():
        if found := fields.instant(fields.member(detail, "metadata", "quotaResetTimeStamp")):
            return found
    return None


def _usage(stats: object) -> Usage | None:
    """Summed over the models; "prompt" counts the cached tokens too."""
    models = fields.member(stats, "models")
    if not isinstance(models, dict) or not models:
        return None
    tokens = [fields.member(each, "tokens") or each for each in models.values()]
    cached = _sum(tokens, "cached")
    return Usage(
        input=max(0, max(_sum(tokens, "prompt"), _sum(tokens, "input_tokens")) - cached),
        cache_read=cached,
        output=_sum(tokens, "candidates") + _sum(tokens, "thoughts") + _sum(tokens, "output_tokens"),
    )


def _sum(tokens: Iterable[object], name: str) -> int:
    return sum(fields.count(fields.member(each, name)) or 0 for each in tokens)
