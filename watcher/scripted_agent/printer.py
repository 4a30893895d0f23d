"""stdout: the four forms of output, and the ways an act can spoil it."""

from __future__ import annotations

import os

from watcher.scripted_agent.documents import filler, plain
from watcher.scripted_agent.options import Options
from watcher.scripted_agent.plain_json import encoded

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing (9 ms)
if TYPE_CHECKING:
    from watcher.scripted_agent.tape import Act

BOM = b"\xef\xbb\xbf"
LINE = 8192  # bytes of a filler line
PIECE = b"filler " * 9362  # 64 KiB, written again and again
MARK = "filler-goes-here"


class Printer:
    """Writes as things happen, unbuffered and in constant memory; a reader that has gone is ignored."""

    def __init__(self, options: Options, act: Act) -> None:
        form = options.value("--output-format", "text")
        self.options = options
        self.text = form == "text"
        self.array = bool(act.get("array")) or (form == "json" and options.has("--verbose"))
        self.stream = form == "stream-json" and not self.array
        self._start = BOM if act.get("bom") else b""
        self._end_of_line = b"\r\n" if act.get("crlf") else b"\n"
        self._held: list[bytes] = []  # events of the array form, which is printed at the end
        self._elements = 0
        self._cut = 0
        self._tail = b""

    def raw(self, text: str) -> None:
        """Text as it is; \\udc80 to \\udcff stand for single bytes."""
        self._write(text.encode("utf-8", "surrogateescape"))

    def event(self, document: object) -> None:
        """A line before the result; the json and text forms do not show it."""
        if self.stream:
            self._write(encoded(document) + b"\n")
        elif self.array:
            self._held.append(encoded(document))

    def flood(self, session_id: str, size: int) -> None:
        """At least `size` bytes of filler lines, in every form."""
        line = encoded(filler(session_id, LINE))
        self._release()
        for _ in range(-(-size // len(line))):
            self._element(line)

    def result(self, document: dict[str, object], filler_size: int = 0) -> None:
        """The result document, with filler at the end of its text where asked for."""
        self._release()
        if filler_size and "result" in document:
            document = document | {"result": f"{document['result']}{MARK}"}
        data = plain(document, self.options).encode() if self.text else encoded(document)
        head, found, rest = data.partition(MARK.encode())
        if not found:
            self._element(data)
            return
        self._element(head, end=False)
        for written in range(0, filler_size, len(PIECE)):
            self._write(PIECE[: filler_size - written])
        self._write(rest if self.array else rest + b"\n")

    def keep_back(self, count: int) -> None:
        """From here on, the last `count` bytes are never printed."""
        self._cut = count

    def close(self) -> None:
        """The end of the documents: closes the array."""
        self._release()
        if self.array:
            self._write(b"]\n" if self._elements else b"[]\n")

    def _release(self) -> None:
        held, self._held = self._held, []
        for data in held:
            self._element(data)

    def _element(self, data: bytes, end: bool = True) -> None:
        """One document: a line, or an element of the array."""
        if self.array:
            self._write((b"," if self._elements else b"[") + data)
        else:
            self._write(data + b"\n" if end else data)
        self._elements += 1

    def _write(self, data: bytes) -> None:
        if not data:
            return
        if self._end_of_line != b"\n":
            data = data.replace(b"\n", self._end_of_line)
        data = self._tail + self._start + data
        self._start = b""
        printed = max(len(data) - self._cut, 0)
        self._tail = data[printed:]
        _write_all(1, data[:printed])


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:  # nobody reads any more: the real program works on too
        pass
