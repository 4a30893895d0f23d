"""The scan that collects documents in bounded memory: what it keeps, what it cuts, when it gives up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.response.skim import NESTING_MAX, Bounds, Budget, Scan, State

AMPLE = Bounds(string=1 << 20, member=1 << 20, document=1 << 20)


def pieces(data: bytes, length: int) -> Iterator[bytes]:
    return (data[at : at + length] for at in range(0, len(data), length))


def scanned(data: bytes, length: int = 1 << 20, bounds: Bounds = AMPLE) -> tuple[State, list[bytes]]:
    scan = Scan(bounds, Budget())
    for piece in pieces(data, length):
        scan.feed(piece)
    return scan.state, scan.found


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None), max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
OBJECT = st.dictionaries(st.text(max_size=5), VALUE, max_size=4)


@settings(deadline=None)
@given(OBJECT, st.integers(1, 40))
def test_an_object_is_collected_whatever_its_pieces(value: dict[str, Any], length: int) -> None:
    data = json.dumps(value).encode()
    assert scanned(data, length) == (State.DONE, [data])


@settings(deadline=None)
@given(st.lists(OBJECT, max_size=5), st.integers(1, 40))
def test_the_objects_of_an_array_are_collected_one_by_one(values: list[dict[str, Any]], length: int) -> None:
    state, found = scanned(json.dumps(values).encode(), length)
    assert state is State.DONE
    assert [json.loads(each) for each in found] == values


@settings(deadline=None)
@given(OBJECT, st.integers(1, 40))
def test_an_object_cut_anywhere_stays_open(value: dict[str, Any], length: int) -> None:
    data = json.dumps(value).encode()
    for end in range(1, len(data)):
        assert scanned(data[:end], length) == (State.OPEN, [])


@pytest.mark.parametrize(
    "data",
    [b'[[{"a":1}]]', b'["x",{"a":[{"b":2}]}]', b'[{"a":{"b":{}}},"x",[{"c":3}]]', b"[1,null,[],{}]"],
    ids=bytes.decode,
)
def test_only_objects_directly_inside_the_array_count(data: bytes) -> None:
    found = [json.loads(each) for each in scanned(data)[1]]
    assert found == [each for each in json.loads(data) if isinstance(each, dict)]


@pytest.mark.parametrize("data", [b'{"a":[1}', b'{"a":1]', b"[{]", b'[{"a":"}"]]'], ids=bytes.decode)
def test_brackets_that_do_not_match_break_the_scan(data: bytes) -> None:
    assert scanned(data) == (State.BROKEN, [])


def test_a_string_open_at_the_end_of_its_line_breaks_the_scan() -> None:
    scan = Scan(AMPLE, Budget())
    scan.feed(b'{"a":"cut')
    scan.end_line()
    assert scan.state is State.BROKEN


def test_a_scan_stops_behind_the_closing_bracket() -> None:
    scan = Scan(AMPLE, Budget())
    assert scan.feed(b'xx{"a":"}"} {"b":2}', 2) == len(b'xx{"a":"}"}')
    assert scan.feed(b'{"b":2}') == 0


def test_a_scan_stops_at_the_right_place_behind_a_backslash_that_was_held_back() -> None:
    scan = Scan(AMPLE, Budget())
    scan.feed(b'{"a":"x\\')
    assert scan.feed(b'--""}{', 2) == len(b'--""}')
    assert scan.found == [b'{"a":"x\\""}']


@pytest.mark.parametrize(
    ("so_far", "first", "takes"),
    [
        (b"{", b'"', True),
        (b"{", b"}", True),
        (b"{", b"{", False),
        (b"{", b"w", False),
        (b"[", b"{", True),
        (b"[", b"]", True),
        (b"[", b"w", False),
        (b'{"a":', b"{", True),
        (b'{"a":1', b"{", False),
        (b'{"a":1,', b"{", False),
        (b'{"a":1,  ', b'"', True),
        (b'{"a":[', b"[", True),
        (b'{"a":[{}', b"{", False),
        (b'{"a":[{},', b"{", True),
        (b'{"a":[{},', b"W", False),
        (b'{"a":[{},', b"-", True),
    ],
)
def test_a_scan_takes_only_a_line_that_json_could_go_on_with(
    so_far: bytes, first: bytes, takes: bool
) -> None:
    scan = Scan(AMPLE, Budget())
    scan.feed(so_far)
    assert scan.takes(first[0]) is takes


TIGHT = Bounds(string=100, member=2000, document=5000)
AWKWARD = {
    "letters": "abcdefghij" * 300,
    "backslashes": "\\" * 3000,
    "quotes": '"' * 3000,
    "line breaks": "\n" * 3000,
    "astral": "😀" * 1500,
    "wide": "é漢" * 1500,
    "controls": "\x00\x1f" * 1500,
    "mixed": 'a\\"\n😀\\\\u00' * 300,
}


@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "utf-8"])
@pytest.mark.parametrize("length", [1, 7, 50, 64, 1000])
@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_a_long_string_keeps_both_ends_and_stays_a_string(text: str, length: int, ascii_only: bool) -> None:
    data = json.dumps({"a": "first" + text + "last", "b": 2}, ensure_ascii=ascii_only).encode()
    state, found = scanned(data, length, TIGHT)
    value = json.loads(found[0].decode("utf-8"))
    assert state is State.DONE
    assert value["b"] == 2
    assert value["a"].startswith("first")
    assert len(found[0]) < 3 * TIGHT.string + length + 100
    head, note, tail = value["a"].partition(" [... ")
    assert note
    assert head == ("first" + text)[: len(head)]
    tail = tail.partition(" bytes left out ...] ")[2]
    assert (text + "last").endswith(tail)


def test_a_short_string_is_kept_whole_in_any_pieces() -> None:
    data = json.dumps({"a": '\\"\n😀' * 20}).encode()
    for length in range(1, 50):
        assert scanned(data, length, Bounds(string=1000, member=2000, document=5000))[1] == [data]


def test_a_member_too_large_becomes_null() -> None:
    data = json.dumps({"a": 1, "big": {"x": [[n] for n in range(5000)]}, "b": [2]}).encode()
    (found,) = scanned(data, 64, TIGHT)[1]
    assert json.loads(found) == {"a": 1, "big": None, "b": [2]}


@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 10_000])
def test_a_member_too_deep_becomes_null(depth: int) -> None:
    data = b'{"a":' + b"[" * depth + b"]" * depth + b',"b":2}'
    assert [json.loads(each) for each in scanned(data)[1]] == [{"a": None, "b": 2}]
    assert [json.loads(each) for each in scanned(b"[" + data + b"]", 100)[1]] == [{"a": None, "b": 2}]


def test_a_document_of_too_many_members_breaks_the_scan() -> None:
    data = json.dumps({str(n): n for n in range(5000)}).encode()
    assert scanned(data, 64, TIGHT) == (State.BROKEN, [])


def test_endless_brackets_break_the_scan() -> None:
    assert scanned(b"[" * 200_000)[0] is State.BROKEN


def test_a_spent_budget_breaks_the_scan() -> None:
    budget = Budget()
    budget.left = 100
    scan = Scan(AMPLE, budget)
    scan.feed(b'{"a":[' + b"[[[]]]," * 1000)
    assert scan.state is State.BROKEN
    budget.earn(1600)
    assert budget.left == 100


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(1, 30))
def test_a_scan_refuses_no_bytes(data: bytes, length: int) -> None:
    scanned(b"{" + data.replace(b"\n", b" "), length, Bounds(string=5, member=20, document=100))
