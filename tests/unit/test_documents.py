"""Finding the JSON documents in an output, whatever stands around them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from watcher.response import documents
from watcher.response.skim import Bounds

A, B, R = {"type": "a"}, {"type": "b", "in": [{"type": "r"}]}, {"type": "r", "n": 1}
a, b, r = (json.dumps(each, separators=(",", ":")).encode() for each in (A, B, R))
PRETTY = json.dumps(B, indent=2).encode()
FLAT = json.dumps(B, indent=0).encode()
AMPLE = Bounds(string=1 << 20, member=1 << 20, document=1 << 20)


def known(document: documents.Document) -> bool:
    return document.get("type") == "r"


def found(data: bytes) -> list[dict[str, Any]]:
    return list(documents.in_bytes(data, known))


def streamed(data: bytes, length: int, line_max: int) -> list[dict[str, Any]]:
    chunks = (data[at : at + length] for at in range(0, len(data), length))
    return list(documents.in_chunks(chunks, known, bounds=AMPLE, line_max=line_max))


OUTPUTS = {
    "nothing": (b"", []),
    "blanks": (b" \r\n\t\n", []),
    "one object": (a, [A]),
    "one object and a line's end": (a + b"\r\n", [A]),
    "byte order mark": (b"\xef\xbb\xbf" + a, [A]),
    "byte order mark and more lines": (b"\xef\xbb\xbf" + a + b"\r\n" + b, [A, B]),
    "an array": (b"[%b,%b,%b]" % (a, b, r), [A, B, R]),
    "an array of more than objects": (b'[1,"x",%b,[%b],null]' % (a, r), [A]),
    "an array of scalars": (b"[1,2]", []),
    "a scalar": (b'"%b"' % r.replace(b'"', b'\\"'), []),
    "lines": (b"%b\n%b\n%b\n" % (a, b, r), [A, B, R]),
    "lines with empty ones": (b"\n\n%b\n\r\n  %b\n\n" % (a, r), [A, R]),
    "lines without breaks": (a + b + r, [A, B, R]),
    "pretty": (PRETTY, [B]),
    "pretty twice": (PRETTY + b"\n" + PRETTY, [B, B]),
    "pretty between lines": (a + b"\n" + PRETTY + b"\n" + r, [A, B, R]),
    "pretty without indent after words": (b"words\n" + FLAT + b"\n" + r, [B, R]),
    "array of lines": (b"words\n[\n%b,\n%b,\n%b\n]\n" % (a, b, r), [A, B, R]),
    "wrapped": (b'words\n{"type":\n"b","in":[\n{"type":"r"}\n]}\n', [B]),
    "words before": (b"nvm: not found\n[WARN] old\n" + r, [R]),
    "words after": (r + b"\nTerminated\n", [R]),
    "words behind": (r + b" Terminated", [R]),
    "words between": (a + b"\n(node:1) Warning: x\n" + r, [A, R]),
    "a warning line that begins like an array": (b"[WARN] x\n[1/2] y\n[ERR: {]\n" + r, [R]),
    "an open bracket in words": (b"func main() {\n" + r, [R]),
    "an open bracket by itself": (b"{\n" + r, [R]),
    "an open array by itself": (b"[\n" + r + b"\n" + a, [R, A]),
    "words that end with an open array": (a + b"\nlist [\n" + r + b"\n" + r, [A, R, R]),
    "a quote in words": (b'say "hello\n' + r + b'\nand "\n', [R]),
    "an object in words": (b'the config {"a": 1} is fine\n' + r, [R]),
    "braces that are no JSON": (b'{"foo" bar}\n{foo}\n' + r, [R]),
    "a terminal sequence before": (b"\x1b[0m\x1b]0;title\x07" + r, [R]),
    "an overwritten line before": (b"50 %\r100 %\r" + r, [R]),
    "a hole before": (b"\0\0\0\0" + r, [R]),
    "a line cut in a string": (b'{"type":"a","t":"cut\n' + r, [R]),
    "a line cut behind a value": (b'{"type":"a","t":1\n' + r, [R]),
    "a line cut behind a comma": (b'{"type":"a",\n' + r, [R]),
    "a line cut behind a colon": (b'{"type":"a","t":\n' + r, [R]),
    "a line cut behind a colon, more lines": (b'{"type":"a","t":\n' + r + b"\n" + a + b"\n" + r, [R, A, R]),
    "a line cut in an array": (b'{"type":"a","t":[1,\n' + r + b"\n" + a, [R, A]),
    "a line cut in an escape": (b'{"type":"a","t":"\\\n' + r, [R]),
    "an array cut behind an element": (b"[%b,%b" % (a, r), [A, R]),
    "an array cut in an element": (b"[%b,%b" % (a, r[:-1]), [A]),
    "a pretty one cut": (PRETTY[:-2], []),
    "a pretty one cut after words": (b"words\n" + PRETTY[:-2], []),
    "a flat one cut after words": (b"words\n" + FLAT[:-2], []),
    "a pretty one cut, then a line": (PRETTY[:20] + b"\n" + r, [R]),
    "the last line cut": (a + b"\n" + b[:-1], [A]),
    "brackets that do not match": (b'{"a":[1}\n' + r, [R]),
    "not a number": (b'{"a":NaN,"b":-Infinity,"c":1e999}', [{"a": None, "b": None, "c": None}]),
    "a lone surrogate": (b'{"a":"x\\ud800y","\\udfff":1}', [{"a": "x?y", "?": 1}]),
    "a pair of them": (b'{"a":"\\ud83d\\ude00"}', [{"a": "😀"}]),
    "bytes that are no UTF-8": (b'{"a":"x\xff\xc3"}', [{"a": "x\ufffd\ufffd"}]),
    "raw control characters": (b'{"a":"x\0\x1f\ty"}', [{"a": "x\0\x1f\ty"}]),
    "escaped control characters": (b'{"a":"\\u0000\\u001f"}', [{"a": "\0\x1f"}]),
    "a key twice": (b'{"a":1,"a":2}', [{"a": 2}]),
    "huge numbers": (b'{"a":%b}' % (b"9" * 30), [{"a": 1e30}]),
    "a number of 5,000 digits": (b'{"a":%b,"b":NaN}' % (b"9" * 5000), [{"a": None, "b": None}]),
    "deep nesting": (b'{"a":%b%b,"b":1}' % (b"[" * 10_000, b"]" * 10_000), [{"a": None, "b": 1}]),
    "deep nesting, then lines": (b'{"a":%b\n%b' % (b"[" * 10_000, r), [R]),
    "nothing but brackets": (b"[" * 10_000, []),
    "nothing but closing brackets": (b"}" * 10_000 + b"\n" + r, [R]),
    "behind words, and known": (b"Loading... " + r + b"\n", [R]),
    "behind words, with words after": (b"it printed " + r + b" and ended", []),
    "behind words, with a line after": (b"it printed " + r + b"\nand ended", []),
    "behind words, but others lead": (b"it printed " + r + b"\n" + a + b"\nit printed " + r, [A]),
    "behind words, not known": (b"Error: 402 " + a, []),
    "behind words, inside an unknown one": (b"Loading... " + b, []),
    "behind words, pretty": (b"Loading... " + json.dumps(R, indent=2).encode(), [R]),
}


@pytest.mark.parametrize(("data", "expected"), OUTPUTS.values(), ids=OUTPUTS)
def test_documents_are_found_wherever_they_begin_a_line(data: bytes, expected: list[dict[str, Any]]) -> None:
    assert found(data) == expected


@pytest.mark.parametrize(("data", "expected"), OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize("length", [1, 7, 64])
def test_a_stream_is_read_as_a_whole_output_is(
    data: bytes, expected: list[dict[str, Any]], length: int
) -> None:
    assert streamed(data, length, 1 << 20) == expected


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20) | st.just(R),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
EVENT = st.fixed_dictionaries({"type": st.sampled_from(["user", "assistant"]), "v": VALUE})
INDENT = st.sampled_from([None, None, 0, 2])
NOISE = st.lists(
    st.sampled_from([b"words", b"[WARN] {x}", b'say "', b"func {", b"{", b"]", b"\x1b[0m", b"", b"\xff"])
).map(lambda lines: b"".join(line + b"\n" for line in lines))


def printed(events: Iterable[dict[str, Any]], indent: int | None, noise: bytes) -> bytes:
    return noise.join(json.dumps(event, indent=indent).encode() + b"\n" for event in events)


@settings(deadline=None)
@given(st.lists(EVENT, max_size=4), INDENT, NOISE, NOISE, st.integers(1, 50), st.integers(1, 40))
def test_what_was_printed_is_found_through_noise(
    events: list[dict[str, Any]],
    indent: int | None,
    before: bytes,
    between: bytes,
    length: int,
    line_max: int,
) -> None:
    """In pieces of any length, and whether or not a line is short enough to be parsed as a whole."""
    data = before + printed(events, indent, between)
    assert found(data) == events
    assert streamed(data, length, line_max) == events


@settings(deadline=None)
@given(EVENT, INDENT, NOISE)
@example(B, 0, b"words\n")
def test_an_event_cut_anywhere_gives_nothing_away(
    event: dict[str, Any], indent: int | None, before: bytes
) -> None:
    """A result quoted inside it least of all."""
    data = json.dumps(event, indent=indent).encode()
    for end in range(len(data)):
        assert found(before + data[:end]) == []


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([a, b, r, PRETTY, b"\n", b"{", b"[", b'"', b"\\", b",", b":", b"}", b"]", b"x"]))
)
def test_no_broken_output_is_refused(parts: list[bytes]) -> None:
    data = b"".join(parts)
    for each in (found(data), streamed(data, 3, 5)):
        assert all(isinstance(document, dict) for document in each)


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_are_refused(data: bytes, length: int) -> None:
    found(data)
    streamed(data, length, 10)


@pytest.mark.parametrize(
    ("data", "begins"),
    [
        (a, True),
        (a[:5], True),
        (b"\n {\n", True),
        (b"[{", True),
        (b"\xef\xbb\xbf{", True),
        (b"\x1b[0m[{", True),
        (b"[WARN] {", False),
        (b"words {", False),
        (b"[1,2]", False),
        (b"", False),
    ],
)
def test_an_output_that_begins_like_a_document_is_told_from_words(data: bytes, begins: bool) -> None:
    assert documents.begins(data) is begins


def test_a_very_long_line_of_a_stream_loses_its_middle_only() -> None:
    text = "first " + "words\n" * 500_000 + "last"
    data = a + b"\n" + json.dumps({"type": "r", "text": text, "n": 1}).encode() + b"\n" + b
    chunks = (data[at : at + documents.CHUNK] for at in range(0, len(data), documents.CHUNK))
    first, long, last = documents.in_chunks(chunks, line_max=1 << 20)
    assert (first, last) == (A, B)
    assert (long["type"], long["n"]) == ("r", 1)
    assert long["text"].startswith("first words\n")
    assert long["text"].endswith("words\nlast")
    assert len(long["text"]) < 4 * documents.CHUNK


def test_nothing_of_an_output_that_is_read_as_a_whole_is_left_out() -> None:
    text = "words\n" * 500_000
    for data in (
        json.dumps({"text": text}).encode(),
        b"words\n" + json.dumps({"text": text}, indent=1).encode(),
    ):
        assert [each["text"] for each in found(data)] == [text]
