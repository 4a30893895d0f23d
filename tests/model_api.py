"""A scripted model on loopback: the real agent program runs, and a test decides what the model says.

Speaks the one endpoint the Claude program asks in print mode (`POST /v1/messages`, streamed or not).
A script is a list of turns, used up one a request; a turn is a reply, a tool call or a refusal, or a
function of the request that returns one. What the program sent is kept in `requests`, so that a test can
look at the model's side of the conversation.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

USAGE = {
    "input_tokens": 1000,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 50,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of the model: content blocks, or an HTTP error when `status` is set."""

    blocks: tuple[dict[str, Any], ...] = ()
    status: int = 200
    error: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def say(text: str) -> Turn:
    """The model ends its turn with these words."""
    return Turn(blocks=({"type": "text", "text": text},))


def call(tool: str, **arguments: Any) -> Turn:
    """The model calls one tool."""
    block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:22]}", "name": tool, "input": arguments}
    return Turn(blocks=(block,))


def refuse(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Turn:
    """The service answers with an error."""
    return Turn(status=status, error={"type": kind, "message": message}, headers=headers or {})


def usage_limit(resets_at: float) -> Turn:
    """The five-hour quota of a subscription is used up until that epoch second."""
    name, epoch = "anthropic-ratelimit-unified", str(int(resets_at))
    headers = {
        f"{name}-status": "rejected",
        f"{name}-reset": epoch,
        f"{name}-representative-claim": "five_hour",
        f"{name}-5h-status": "rejected",
        f"{name}-5h-reset": epoch,
        f"{name}-5h-utilization": "1.0",
    }
    return refuse(429, "rate_limit_error", "This request would exceed your account's rate limit.", headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the program sent for one model turn."""

    at: float  # epoch seconds, when it came
    session_id: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def tools(self) -> list[str]:
        """The names of the tools the program offered to the model."""
        return [str(tool["name"]) for tool in self.body.get("tools", [])]

    @property
    def system(self) -> str:
        """The system prompt, as one text."""
        return _text(self.body.get("system", ""))

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The conversation so far as (role, text) pairs; tool results count as text."""
        return [(str(m["role"]), _text(m["content"])) for m in self.body.get("messages", [])]

    @property
    def conversation(self) -> str:
        """The conversation so far as one text."""
        return "\n".join(f"{role}: {text}" for role, text in self.messages)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(block) for block in content)
    if isinstance(content, dict):
        if content.get("type") == "tool_use":
            return f"{content['name']} {json.dumps(content['input'])}"
        return _text(content.get("text", content.get("content", "")))
    return str(content)


Line = Turn | Callable[[Request], Turn]


class ModelApi:
    """The scripted model: `script` what it says, read what it was asked in `requests`."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.overruns = 0  # requests that came after the script's end
        self.others: list[str] = []  # anything but a model turn: "GET /path"
        self.url = ""
        self._turns: list[Line] = []
        self._lock = threading.Lock()

    def script(self, *turns: Line) -> None:
        """Append turns to the script."""
        with self._lock:
            self._turns.extend(turns)

    @property
    def left(self) -> int:
        """Turns not yet asked for."""
        with self._lock:
            return len(self._turns)

    def next_turn(self, request: Request) -> Turn:
        """Take the turn that answers `request`; past the end the model only says so."""
        with self._lock:
            self.requests.append(request)
            line = self._turns.pop(0) if self._turns else None
            self.overruns += line is None
        if line is None:
            return say("The script is over.")
        return line if isinstance(line, Turn) else line(request)


@contextmanager
def serving() -> Iterator[ModelApi]:
    """A model API on a free port of 127.0.0.1, until the block ends."""
    api = ModelApi()
    handler = type("Handler", (_Handler,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ClassVar[ModelApi]

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the requests are kept, not printed."""

    def do_GET(self) -> None:
        self.api.others.append(f"{self.command} {self.path}")
        self._json(404, {"type": "error", "error": {"type": "not_found_error", "message": "no such path"}})

    do_HEAD = do_PUT = do_DELETE = do_GET

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path.partition("?")[0] != "/v1/messages":
            self.do_GET()
            return
        request = Request(
            at=time.time(),
            session_id=self.headers.get("X-Claude-Code-Session-Id", ""),
            headers=dict(self.headers.items()),
            body=body,
        )
        try:
            self._answer(self.api.next_turn(request), body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the program was stopped while the model spoke

    def _answer(self, turn: Turn, body: Mapping[str, Any]) -> None:
        if turn.status != 200:
            self._json(turn.status, {"type": "error", "error": dict(turn.error)}, turn.headers)
            return
        message = {
            "id": f"msg_{uuid.uuid4().hex[:22]}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "content": list(turn.blocks),
            "stop_reason": "tool_use" if any(b["type"] == "tool_use" for b in turn.blocks) else "end_turn",
            "stop_sequence": None,
            "usage": USAGE,
        }
        if body.get("stream"):
            self._stream(message, turn.headers)
        else:
            self._json(200, message, turn.headers)

    def _json(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(document).encode()
        self._head(status, "application/json", {"Content-Length": str(len(data)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "request-id": f"req_{uuid.uuid4().hex[:20]}",
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.close_connection = True
        self._head(200, "text/event-stream; charset=utf-8", {"Connection": "close", **headers})
        for event in _events(message):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()


def _events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The streamed form of a whole message."""
    opening = {**message, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    closing = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": closing, "usage": message["usage"]}
    yield {"type": "message_stop"}
