"""Frame: the JSON documents in an agent program's output, whatever stands around them (H 6.4).

A document is a top-level object, or an object directly inside a top-level array. It begins a line, and
is one line or pretty-printed over several. Only where there is no such one at all, and nothing follows
it, an object behind other words on its line counts if the caller knows it. Never raises on content.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import orjson

from watcher.response.skim import Bounds, Budget, Scan, State

Document = dict[str, Any]
Known = Callable[[Document], bool]  # whether a document is one of the program's own

WHOLE_MAX = 16 << 20  # bytes: up to here an output is read as a whole, and nothing of it is left out
CHUNK = 256 << 10  # bytes read at a time beyond that
_LINE_MAX = 4 << 20  # bytes of a line parsed as a whole in an output beyond that
_WHOLE = Bounds(string=WHOLE_MAX, member=WHOLE_MAX, document=2 * WHOLE_MAX)
STREAM = Bounds(string=CHUNK, member=1 << 20, document=4 << 20)
_ASIDE_MAX = 8  # documents
_PROLOGUE = 4096  # bytes in which an output begins
_BEGINNING = 10  # steps that a new scan costs

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\v\f\0"
_START = rb'\{\s*(?:["}]|\Z)|\[\s*(?:\{|\Z)'
# What may stand before a line's first word: blanks, control characters, a BOM, terminal sequences.
_NO_WORDS = (
    rb"(?:[\x00-\x1a\x1c-\x20\x7f]|\xef\xbb\xbf"
    rb"|\x1b(?:\[[\x20-\x3f]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[^\[\]]))*+"
)


def parse(data: bytes) -> Any:
    """The one JSON value that `data` is; ValueError where it is none.

    What orjson refuses (lone surrogates, NaN, raw control characters, bytes that are no UTF-8) the
    standard parser reads, with what cannot be written again replaced.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        text = data.decode("utf-8", "replace")
        return _clean(json.loads(text, strict=False, parse_int=_integer, parse_constant=_nothing))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else float(digits)


def _nothing(_name: str) -> None:
    return None


def begins(data: bytes) -> bool:
    """Whether an output begins like a document, complete or not."""
    start = re.search(_START, data[:_PROLOGUE])
    return start is not None and re.fullmatch(_NO_WORDS, data[: start.start()]) is not None


def _none(_document: Document) -> bool:
    return False


def objects(value: Any) -> list[Document]:
    """The documents that a parsed value is: itself, or the objects of an array."""
    if isinstance(value, dict):
        return [value]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def in_bytes(data: bytes, known: Known = _none) -> Iterator[Document]:
    """The documents in `data`, in order; beyond WHOLE_MAX as `in_chunks` reads them."""
    if len(data) > WHOLE_MAX:
        return in_chunks((data[at : at + CHUNK] for at in range(0, len(data), CHUNK)), known)
    data = data.removeprefix(_BOM)
    try:
        return iter(objects(orjson.loads(data)))
    except orjson.JSONDecodeError:
        return _by_lines([data], _Lines(_WHOLE, known), WHOLE_MAX)


def in_file(file: IO[bytes], length: int, known: Known = _none) -> Iterator[Document]:
    """The documents in the next `length` bytes of `file`."""
    if length <= WHOLE_MAX:
        return in_bytes(file.read(length), known)
    return in_chunks(_chunks(file, length), known)


def _chunks(file: IO[bytes], length: int) -> Iterator[bytes]:
    while length > 0 and (chunk := file.read(min(CHUNK, length))):
        length -= len(chunk)
        yield chunk


def in_chunks(
    chunks: Iterable[bytes], known: Known = _none, *, bounds: Bounds = STREAM, line_max: int = _LINE_MAX
) -> Iterator[Document]:
    """The documents in a stream, in order and in bounded memory: what is very long loses its middle.

    Lines up to `line_max` bytes are read as a whole.
    """
    return _by_lines(chunks, _Lines(bounds, known), line_max)


def _by_lines(chunks: Iterable[bytes], lines: _Lines, line_max: int) -> Iterator[Document]:
    rest, long = b"", False  # the line not ended yet, and whether its beginning is already read
    for chunk in chunks:
        lines.earn(len(chunk))
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield from lines.go_on(line, ends=True) if long else lines.line(line)
            long = False
        if long or len(rest) > line_max:
            yield from lines.go_on(rest) if long else lines.line(rest, ends=False)
            rest, long = b"", True
    yield from lines.go_on(rest, ends=True) if long else lines.line(rest)
    yield from lines.close()


class _Lines:
    """Reads an output line by line, and over several lines where one line alone is no document."""

    def __init__(self, bounds: Bounds, known: Known) -> None:
        self._bounds = bounds
        self._known = known
        self._budget = Budget()
        self._scan: Scan | None = None
        self._leads = False  # the scan began its line, or right behind another document there
        self._spans = False  # the scan may go on over the line's end
        self._aside: list[Document] | None = None  # whole lines the scan may be swallowing
        self._joined = False  # on this line a document has just ended
        self._words = False  # on this line nothing begins any more
        self._last: list[Document] = []  # one behind words, known and with nothing after it so far
        self._any = False

    def earn(self, length: int) -> None:
        """Allow for the work that `length` bytes of output may cost."""
        self._budget.earn(length)

    def line(self, line: bytes, *, ends: bool = True) -> list[Document]:
        """The documents that are complete with this line, or with the beginning of a very long one."""
        text = line.strip(_BLANK)
        if not text:
            return []
        self._joined = self._words = False
        self._last.clear()
        found: list[Document] = []
        if self._scan is not None:
            if self._scan.takes(text[0]):
                self._set_aside(text)
                found = self.go_on(line, ends=ends)
                if self._scan is None or self._scan.state is not State.BROKEN:
                    return found
            found += self._give_up()
        return found + self._afresh(line, text, ends)

    def go_on(self, piece: bytes, *, ends: bool = False) -> list[Document]:
        """The documents that are complete with a further piece of the line."""
        found: list[Document] = []
        pos = 0
        while pos < len(piece):
            if self._scan is None:
                pos = self._begin(piece, pos)
            if self._scan is None or self._scan.state is State.BROKEN:
                break
            pos = self._scan.feed(piece, pos)
            found += self._take(self._scan)
        if self._last and piece[pos:].strip(_BLANK):
            self._last.clear()
        if ends and self._scan is not None:
            self._scan.end_line(may_go_on=self._spans)
        return found

    def close(self) -> list[Document]:
        """What is left to say at the end of the output."""
        found = self._give_up()
        return found if found or self._any else self._last

    def _afresh(self, line: bytes, text: bytes, ends: bool) -> list[Document]:
        if ends and text[0] in b"{[":
            try:
                found = objects(parse(text))
            except ValueError:
                return self.go_on(line, ends=True)
            self._any = self._any or bool(found)
            return found
        return self.go_on(line, ends=ends)

    def _begin(self, piece: bytes, pos: int) -> int:
        """Open a scan where the next document may begin; returns that place."""
        start = None if self._words or self._budget.left <= 0 else re.compile(_START).search(piece, pos)
        if start is None:
            self._words = self._words or bool(piece[pos:].strip(_BLANK))
            return pos
        before = piece[pos : start.start()].rpartition(b"\r")[2]
        self._leads = re.fullmatch(_NO_WORDS, before) is not None
        if self._joined and not self._leads:
            self._words = True
            return pos
        self._budget.left -= _BEGINNING
        self._scan = Scan(self._bounds, self._budget)
        pretty = len(start.group().rstrip()) == 1
        self._spans = self._leads or (pretty and start.group()[:1] == b"{")
        self._aside = None if pretty or start.group()[:1] == b"[" else []
        return start.start()

    def _take(self, scan: Scan) -> list[Document]:
        documents = [document for raw in scan.found for document in _parsed(raw)]
        scan.found.clear()
        if scan.state is State.DONE:
            self._scan = None
            self._joined, self._words = self._leads, not self._leads
            documents, self._aside = documents or self._aside or [], None
        if not self._leads:
            self._last = [*self._last, *filter(self._known, documents)][-1:]
            return []
        self._any = self._any or bool(documents)
        return documents

    def _set_aside(self, text: bytes) -> None:
        """Remember a line that is a document by itself: the scan it stands in may be a line cut short."""
        if self._aside is not None and text[0] == b"{"[0]:
            self._aside = [*self._aside[1 - _ASIDE_MAX :], *_parsed(text)]

    def _give_up(self) -> list[Document]:
        self._scan = None
        found, self._aside = self._aside or [], None
        self._any = self._any or bool(found)
        return found


def _parsed(raw: bytes) -> list[Document]:
    try:
        return objects(parse(raw))
    except ValueError:
        return []
