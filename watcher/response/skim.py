"""Collect JSON documents out of a stream in bounded memory, without building their values (H 6.4).

A scan follows brackets and strings only; whether what it collected is JSON, the parser says afterwards.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

# Compiled on first use: an ordinary answer needs none of these.
# Possessive throughout: no run keeps a way back, so memory stays flat and time linear.
_STRING = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_ATOM = rb'[^"{}\[\]]++|' + _STRING
_FLAT = rb"(?:%b)*+" % _ATOM
_RUN = rb"(?:%b|\{(?:%b)*+\}|\[(?:%b)*+\])*+" % (_ATOM, _ATOM, _ATOM)  # innermost pairs too
_TEXT = rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'  # inside a string, up to what is no text
# What ends with no half of an escape, nor with the first half of a pair of them.
_PAIR_CUT = rb"u[dD][89abAB]..(?:\\u?[0-9a-fA-F]{0,3})?\Z"
_SOUND = rb"[^\\]*+(?:\\(?!%b)(?:u[0-9a-fA-F]{4}|[^u])[^\\]*+)*+" % _PAIR_CUT
# Behind this a cut may end: a backslash after another byte begins an escape, six other bytes end any.
_SEAM = rb"(?:[^\\](?=\\)|[^\\]{6}(?![\x80-\xbf]))(?:\\u[dD][c-fC-F]..)?"
_LAST_CHARACTER = rb"[\xc0-\xff][\x80-\xbf]*\Z"  # if it may be cut
_QUOTE, _BACKSLASH, _OBJECT, _ARRAY = b'"\\{['
_OPENER = {ord("}"): _OBJECT, ord("]"): _ARRAY}

NESTING_MAX = 200  # levels kept of a document: orjson writes 254, and ours stand inside others
_STACK_MAX = 100_000  # levels followed at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many bytes a scan keeps: of either end of a string, of a member, of a document."""

    string: int
    member: int
    document: int


class Budget:
    """Steps that may still be taken: an output made of nothing but brackets must not take minutes."""

    def __init__(self) -> None:
        self.left = 3_000_000  # some seconds; a real answer takes a step every 40 bytes or so

    def earn(self, length: int) -> None:
        """Allow for `length` more bytes of output."""
        self.left += length // 16


class State(enum.Enum):
    """Where a scan stands: wants more, has its closing bracket, or met what cannot be JSON."""

    OPEN = "open"
    DONE = "done"
    BROKEN = "broken"


class Scan:
    """One top-level object, or one array whose objects are the documents, fed from its first bracket.

    `found` holds the bytes of complete documents until the caller takes them. A string that comes in
    several pieces loses its middle beyond the bound; a member too large or too deep becomes null.
    """

    def __init__(self, bounds: Bounds, budget: Budget) -> None:
        self.state = State.OPEN
        self.found: list[bytes] = []
        self._bounds = bounds
        self._budget = budget
        self._run, self._flat, self._in_text = re.compile(_RUN), re.compile(_FLAT), re.compile(_TEXT)
        self._stack = bytearray()  # the open brackets
        self._base = 0  # levels around a document: 1 inside an array
        self._last = 0  # the last byte that was no blank
        self._kept = bytearray()  # of the open document
        self._member = 0  # where in `_kept` the open member begins
        self._skipping = False  # to the end of the open member
        self._text: _Text | None = None  # the string that did not end in its piece
        self._held = b""  # a backslash whose other half comes with the next piece

    def feed(self, data: bytes, pos: int = 0) -> int:
        """Go on with `data` from `pos`; returns where it stopped, which is the end while OPEN."""
        held, self._held = len(self._held), b""
        if held:
            data = b"\\" + data[pos:]
        start = at = 0 if held else pos
        while at < len(data) and self.state is State.OPEN:
            at = self._step(data, at)
            self._budget.left -= 1
            if self._budget.left <= 0:
                self.state = State.BROKEN
        self._last = (data[start:at].rstrip() or bytes([self._last]))[-1]
        return at + pos - 1 if held else at

    def end_line(self, *, may_go_on: bool = True) -> None:
        """The line is over: a string does not go on in the next, so a line cut short breaks here."""
        if self._text is not None or not may_go_on:
            self.state = State.BROKEN
        self._keep(b" ")

    def takes(self, first: int) -> bool:
        """Whether JSON could go on with a line whose first byte is `first`."""
        if self.state is State.BROKEN:
            return False
        if len(self._stack) == 1 and self._last == self._stack[0]:
            return first in (b'"}' if self._stack[0] == _OBJECT else b"{]")
        if first in (_OBJECT, _ARRAY):
            return self._last in (b":" if self._stack[-1] == _OBJECT else b"[,")
        return first in b'"}],:-0123456789tfnNI'

    def _step(self, data: bytes, at: int) -> int:
        if self._text is not None:
            return self._through_text(self._text, data, at)
        run = (self._run if len(self._stack) > self._base else self._flat).match(data, at)
        if run and run.end() > at:
            self._keep(run.group())
            return run.end()
        if data[at] == _QUOTE:
            self._text = _Text(self._bounds.string)
        elif data[at] in (_OBJECT, _ARRAY):
            self._open(data[at])
        else:
            self._close(data[at])
        return at + 1

    def _through_text(self, text: _Text, data: bytes, at: int) -> int:
        part = self._in_text.match(data, at)
        end = part.end() if part else at
        text.add(data[at:end])
        if end == len(data):
            return end
        if data[end] == _QUOTE:
            self._text = None
            self._keep(b'"' + text.whole() + b'"')
        elif data[end] == _BACKSLASH and end + 1 == len(data):
            self._held = b"\\"
        else:
            self.state = State.BROKEN
        return end + 1

    def _open(self, bracket: int) -> None:
        depth = len(self._stack)
        if depth == 0:
            self._base = int(bracket == _ARRAY)
        if depth == self._base and bracket == _OBJECT:
            self._kept.clear()
        elif depth == self._base + 1 and not self._skipping:
            self._member = len(self._kept)
        self._stack.append(bracket)
        self._keep(bytes([bracket]))
        if depth >= _STACK_MAX:
            self.state = State.BROKEN
        elif depth >= self._base + NESTING_MAX and not self._skipping:
            self._skip_member()

    def _close(self, bracket: int) -> None:
        if self._stack[-1] != _OPENER[bracket]:
            self.state = State.BROKEN
            return
        self._keep(bytes([bracket]))
        self._stack.pop()
        depth = len(self._stack)
        if depth == self._base + 1:
            self._skipping = False
        elif depth == self._base and bracket == ord("}"):
            self.found.append(bytes(self._kept))
        if depth == 0:
            self.state = State.DONE

    def _keep(self, piece: bytes) -> None:
        if self._skipping or not self._in_document():
            return
        self._kept += piece
        if len(self._stack) > self._base + 1 and len(self._kept) - self._member > self._bounds.member:
            self._skip_member()
        elif len(self._kept) > self._bounds.document:
            self.state = State.BROKEN

    def _in_document(self) -> bool:
        return len(self._stack) > self._base and self._stack[self._base] == _OBJECT

    def _skip_member(self) -> None:
        del self._kept[self._member :]
        self._kept += b"null"
        self._skipping = True


class _Text:
    """The inside of a string that comes in pieces: all of it, or both ends of it."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._head = bytearray()
        self._tail = bytearray()
        self._lost = 0  # bytes

    def add(self, piece: bytes) -> None:
        room = self._bound - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        self._tail += piece
        if len(self._tail) > 2 * self._bound:
            self._lost += len(self._tail) - self._bound
            del self._tail[: -self._bound]

    def whole(self) -> bytes:
        if not self._lost:
            return bytes(self._head + self._tail)
        sound = re.match(_SOUND, self._head)
        head = re.sub(_LAST_CHARACTER, b"", sound.group() if sound else b"")
        seam = re.search(_SEAM, self._tail)
        tail = bytes(self._tail[seam.end() :]) if seam else b""
        # No line break around the note: what is left of a cut line must not read as a line of its own.
        return b"%b [... %d bytes left out ...] %b" % (head, self._lost, tail)
