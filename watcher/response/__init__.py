"""Understand: the bytes an agent program printed, as one value (H 6.4, 6.7, 8.2).

Pure apart from reading the one file it is given. Never raises on content: whatever was
printed, `read_response` answers with a `Response`, at worst with `Verdict.NONE`.
`documents` finds the JSON, `fields` reads its values; here is what they mean.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from watcher.response import documents, fields
from watcher.response.documents import Document


class Verdict(enum.Enum):
    """What the program itself says of the poke."""

    SUCCESS = "success"  # a result with subtype success and no error flag
    FAILURE = "failure"  # any other result
    NONE = "none"  # nothing that is a result


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """The last `rate_limit_event` of a poke (subscription accounts only)."""

    status: str  # allowed | allowed_warning | rejected | whatever comes next
    resets_at: datetime | None = None  # aware
    window: str = ""  # five_hour | seven_day | ...
    using_overage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of this poke, the four fields a price needs."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One poke's answer. Texts hold no lone surrogates; long ones may be cut in the middle."""

    verdict: Verdict = Verdict.NONE
    subtype: str = ""
    is_error: bool = False
    text: str = ""  # the result text; for error subtypes the joined `errors`
    session_id: str | None = None  # newest id seen, verdict or not; unvalidated
    terminal_reason: str = ""
    api_error: str = ""
    api_status: int | None = None
    rate_limit: RateLimit | None = None
    reset_at: datetime | None = None  # structured reset time of a verdict (not of an event)
    turns: int | None = None
    cost_usd: float | None = None
    usage: Usage | None = None
    models: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()  # tool names the program refused, one entry a refusal
    structured: Any = None
    program_version: str = ""
    results: int = 0  # result documents in the output; the last one is this
    plain: str = ""  # the whole output where it holds no document at all, cut to 64 kB
    document: dict[str, Any] = field(default_factory=dict)  # the result as printed, for the history


_CLAUDE_EVENTS = frozenset(("system", "assistant", "user", "stream_event", "rate_limit_event", "result"))
_TAILS = (64 << 10, 1 << 20, 16 << 20)  # bytes looked at from the end, more where they do not decide


def read_response(path: Path, *, limit: int | None = None) -> Response:
    """The answer in `path`, or in its first `limit` bytes. A missing file is an empty answer.

    Beyond `documents.WHOLE_MAX` bytes it is read in chunks: memory stays bounded, and what is very
    long may lose its middle.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Response()
    with file:
        length = file.seek(0, 2)
        length = length if limit is None else min(length, max(limit, 0))
        file.seek(0)
        return _answer(documents.in_file(file, length, is_result), lambda: _ends(file, length))


def read_bytes(data: bytes) -> Response:
    """The answer that `data` is."""
    return _answer(documents.in_bytes(data, is_result), lambda: data)


def has_result(path: Path) -> bool:
    """Whether the output ends with a complete result so far: no further turn has begun after it.

    Looks at the tail, as far back as the last event that tells. Only an output that is pretty-printed or
    begins with words on the same line is read from its start, and only if it ends with a bracket.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        length = file.seek(0, 2)
        told, tail = None, b""
        for span in _TAILS:
            at = max(0, length - span)
            file.seek(at)
            tail = file.read(length - at).rstrip()
            told = _tail_tells(tail if at == 0 else tail.partition(b"\n")[2])
            if told is not None or at == 0:
                break
        if told is None and tail.endswith((b"}", b"]")):
            file.seek(0)
            told = _last_told(documents.in_file(file, length, is_result))
        return bool(told)


def _tail_tells(tail: bytes) -> bool | None:
    """Whether whole lines end with a result, or with a turn that goes on; None if they do not tell."""
    last = True
    for line in reversed(tail.split(b"\n")):
        text = line.strip()
        if text[:1] not in (b"{", b"["):
            last = last and not text
            continue
        try:
            told = _last_told(documents.objects(documents.parse(text)))
        except ValueError:
            told = False if last and text[:1] == b"{" else None  # an event that is just being printed
        if told is not None:
            return told
        last = False
    return None


def _last_told(events: Iterable[Document]) -> bool | None:
    told = None
    for event in events:
        kind = event.get("type")
        if is_result(event):
            told = True
        elif kind in ("assistant", "user", "stream_event") or event.get("subtype") == "init":
            told = False
    return told


def _ends(file: IO[bytes], length: int) -> bytes:
    """Both ends of an output, joined: all of it where it is short."""
    keep = 4 * fields.TEXT_MAX
    file.seek(0)
    if length <= 2 * keep:
        return file.read(length)
    head = file.read(keep)
    file.seek(length - keep)
    return head + b" [...] " + file.read(keep)


def is_result(event: Document) -> bool:
    """A result says so, or has no type and the fields of one (the convention of H's own script)."""
    kind = event.get("type")
    if kind is not None:
        return bool(kind == "result") and not event.get("parent_tool_use_id")
    return "subtype" in event or ("is_error" in event and "result" in event)


def _answer(events: Iterable[Document], plain: Callable[[], bytes]) -> Response:
    seen = _Seen()
    for event in events:
        seen.add(event)
    said: dict[str, Any] = {
        "session_id": seen.session_id,
        "rate_limit": seen.rate_limit,
        "program_version": seen.program_version,
        "results": seen.results,
    }
    if seen.result is not None:
        return Response(**said, **_verdict(seen.result))
    if seen.any:
        return Response(**said, document=fields.bounded({} if seen.own else seen.foreign))
    output = plain()
    if documents.begins(output):  # cut short: what it quotes must not be taken for words of the program
        return Response(**said)
    return Response(**said, plain=fields.cut(output.decode("utf-8", "replace").strip("\ufeff \t\r\n")))


class _Seen:
    """What the events have said so far, in the order they were printed."""

    def __init__(self) -> None:
        self.any = False
        self.own = False  # an event of the program this reads
        self.foreign: Document = {}  # the last document that is none
        self.results = 0
        self.result: Document | None = None
        self.session_id: str | None = None
        self.rate_limit: RateLimit | None = None
        self.program_version = ""

    def add(self, event: Document) -> None:
        kind = event.get("type")
        self.any = True
        self.session_id = fields.text(event.get("session_id")) or self.session_id
        if is_result(event):
            self.results += 1
            self.result = event
        elif kind == "rate_limit_event":
            self.rate_limit = _rate_limit(event.get("rate_limit_info")) or self.rate_limit
        elif kind == "system":
            self.program_version = fields.label(event.get("claude_code_version")) or self.program_version
        if isinstance(kind, str) and kind in _CLAUDE_EVENTS:
            self.own = True
        else:
            self.foreign = event


def _rate_limit(info: object) -> RateLimit | None:
    status = fields.label(fields.member(info, "status"))
    if not status:
        return None
    return RateLimit(
        status=status,
        resets_at=fields.instant(fields.member(info, "resetsAt")),
        window=fields.label(fields.member(info, "rateLimitType")),
        using_overage=fields.flag(fields.member(info, "isUsingOverage")),
    )


def _verdict(result: Document) -> dict[str, Any]:
    get = result.get
    subtype, is_error = fields.label(get("subtype")), fields.flag(get("is_error"))
    success = subtype == "success" and not is_error
    said = fields.text(get("result"))
    errors = fields.lines(get("errors")) or fields.text(fields.member(get("error"), "message"))
    return {
        "verdict": Verdict.SUCCESS if success else Verdict.FAILURE,
        "subtype": subtype,
        "is_error": is_error,
        "text": (errors or said) if subtype.startswith("error") else (said or errors),
        "terminal_reason": fields.label(get("terminal_reason")),
        "api_error": fields.label(get("api_error")),
        "api_status": fields.status(get("api_error_status")),
        "reset_at": fields.instant(fields.member(result, "rate_limits", "five_hour", "resets_at")),
        "turns": fields.count(get("num_turns")),
        "cost_usd": fields.money(get("total_cost_usd")),
        "usage": _usage(get("usage")),
        "models": fields.names(get("modelUsage")),
        "denials": _denials(get("permission_denials")),
        "structured": get("structured_output"),
        "document": fields.bounded(result),
    }


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        input=fields.count(value.get("input_tokens")) or 0,
        cache_read=fields.count(value.get("cache_read_input_tokens")) or 0,
        cache_write=fields.count(value.get("cache_creation_input_tokens")) or 0,
        output=fields.count(value.get("output_tokens")) or 0,
    )


def _denials(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    names = (fields.label(fields.member(item, "tool_name")) or fields.label(item) for item in value)
    return tuple(name or "(unnamed)" for name in names)
