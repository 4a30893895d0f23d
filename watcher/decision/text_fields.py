"""A message that is itself a JSON document: its fields speak, its prose does not (DESIGN 4).

A `rate_limit_event` or a table of windows says which of them are full; an event of the agent's
own (a tool result, an answer, a retry in progress) says nothing about the poke.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from watcher.decision.text_kinds import Kind, Match

_LENGTH_MAX = 200_000
_NODES_MAX = 2_000
_SILENT = (
    "user",
    "system",
    "stream_event",
    "item.completed",
    "item.started",
    "item.updated",
    "text",
    "tool_use",
)
_CODES = {
    "usage_limit_reached": Kind.LIMIT,
    "usage_limit_exceeded": Kind.LIMIT,
    "usageLimitExceeded": Kind.LIMIT,
    # z.ai's own numbers, all sent with HTTP 429
    "1113": Kind.BILLING,
    "1302": Kind.TRANSIENT,
    "1303": Kind.TRANSIENT,
    "1304": Kind.LIMIT,
    "1305": Kind.TRANSIENT,
    "1308": Kind.LIMIT,
    "1309": Kind.BILLING,
    "1310": Kind.LIMIT,
    "1311": Kind.ENTITLEMENT,
    "1312": Kind.TRANSIENT,
    "1316": Kind.LIMIT,
}
_SPEAKING = (
    "message",
    "error",
    "errors",
    "result",
    "detail",
    "details",
    "error_msg",
    "title",
    "text",
    "msg",
    "reason",
    "data",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What the documents of a text say: a kind by structure, else messages to be read as errors."""

    match: Match | None = None
    messages: tuple[str, ...] = ()
    agent: str = ""  # the program whose shape the documents have, where that says how to read them


def read_fields(text: str) -> Fields | None:
    """The fields of a text that is JSON, or JSON lines; None for anything else."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith(("{", "[")) or len(stripped) > _LENGTH_MAX:
        return None
    documents = list(_documents(stripped))
    return fields_of(documents) if documents else None


def fields_of(documents: list[dict[str, Any]]) -> Fields:
    """What parsed documents say."""
    nodes = [node for document in documents for node in _nodes(document)]
    for node in nodes:
        if match := _structural(node):
            return Fields(match=match)
    if any(_is_silent(document) for document in documents):
        documents = [document for document in documents if not _is_silent(document)]
    return Fields(
        messages=tuple(message for document in documents for message in _messages(document)),
        agent="copilot" if any(document.get("type") == "session.error" for document in documents) else "",
    )


def _documents(text: str) -> list[dict[str, Any]]:
    """The objects of a text: as one value, as one that a terminal wrapped, or one a line."""
    for whole in (text, text.replace("\n", "")):
        if found := _objects(whole):
            return found
    return [document for line in text.split("\n") for document in _objects(line)]


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return []
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside, breadth first, in bounded number."""
    level, count = [value], 0
    while level and count < _NODES_MAX:
        following: list[Any] = []
        for each in level:
            count += 1
            if isinstance(each, dict):
                yield each
                following.extend(each.values())
            elif isinstance(each, list):
                following.extend(each)
        level = following


def _structural(node: dict[str, Any]) -> Match | None:
    info = node.get("rate_limit_info", node)
    # Without a time and a window it comes with a throttle too.
    if (
        isinstance(info, dict)
        and info.get("status") == "rejected"
        and (info.get("resetsAt") or info.get("rateLimitType"))
    ):
        return Match(kind=Kind.LIMIT, words="rate limit status rejected", family="event")
    for key in ("used_percent", "usedPercent"):
        used = node.get(key)
        if isinstance(used, (int, float)) and used >= 100:
            return Match(kind=Kind.LIMIT, words=f"{key} {used}", family="windows")
    for value in (
        node.get("code"),
        node.get("type"),
        node.get("codex_error_info"),
        node.get("codexErrorInfo"),
        node.get("api_error"),
    ):
        if isinstance(value, str) and value in _CODES:
            return Match(kind=_CODES[value], words=value, family="code")
    return None


def _is_silent(document: dict[str, Any]) -> bool:
    """Events that report what happened on the way: tool results, retries, windows not yet full."""
    kind = document.get("type")
    if kind in _SILENT or "rate_limit_info" in document:
        return True
    message = document.get("message")
    if kind == "assistant" and isinstance(message, dict):
        return message.get("model") != "<synthetic>"
    return kind == "result" and document.get("is_error") is False and document.get("subtype") == "success"


def _messages(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth > 8:
        return
    elif isinstance(value, list):
        for each in value[:50]:
            yield from _messages(each, depth + 1)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in _SPEAKING or isinstance(each, (dict, list)):
                yield from _messages(each, depth + 1)
