"""The watcher log: one line a step, to a file of the run and to the console (H 8, DESIGN 9).

The file holds JSON lines. The console shows readable lines on a terminal and JSON lines elsewhere.
Text from outside is escaped, so a poke can never forge a line or move the cursor. A log that cannot
be written (closed pipe, full disk) never ends a run: the history is the record, this is the view.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import orjson

# structlog takes longer to import than `harness status` may take in all: only who writes a log loads it.
if TYPE_CHECKING:
    import structlog

    Log = structlog.typing.FilteringBoundLogger
else:
    Log = Any


class Sink:
    """Writes each line twice. Unwritable outputs are skipped; the file is tried again every time."""

    def __init__(self, path: Path | None, console: TextIO | None, *, readable: bool) -> None:
        self._file = -1
        if path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with contextlib.suppress(OSError):
                self._file = os.open(path, flags, 0o600)
        self._console = console
        self._readable = readable

    def msg(self, event: MutableMapping[str, Any]) -> None:
        line = orjson.dumps(event, default=str).decode()
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.write(self._file, line.encode() + b"\n")
        if self._console is not None:
            try:
                print(render(event) if self._readable else line, file=self._console, flush=True)
            except (OSError, ValueError):
                self._console = None  # nobody reads any more; the file goes on

    info = debug = warning = error = critical = msg


def open_log(path: Path | None, *, console: TextIO | None = None, readable: bool | None = None) -> Log:
    """A log for one run. `console` defaults to stderr, `readable` to whether that is a terminal."""
    import structlog

    console = sys.stderr if console is None else console
    sink = Sink(path, console, readable=console.isatty() if readable is None else readable)
    log: Log = structlog.wrap_logger(
        sink,
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            _printable,
            _hand_over,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return log


def _printable(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}


def _hand_over(_: Any, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[Any], dict[str, Any]]:
    return (event,), {}


def printable(text: str) -> str:
    """The text with every character that could move a cursor or start a line made visible."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def render(event: MutableMapping[str, Any]) -> str:
    """One readable line: time, what happened, then the fields."""
    known = ("at", "level", "event")
    mark = {"warning": "! ", "error": "!! ", "critical": "!! "}.get(str(event.get("level")), "")
    fields = "  ".join(f"{key}={value}" for key, value in event.items() if key not in known and value != "")
    return f"{str(event.get('at', ''))[11:19]} {mark}{event.get('event', '')}" + (
        f"  {fields}" if fields else ""
    )
