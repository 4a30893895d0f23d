"""What the agent printed can always be recorded, as JSON that every reader takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.record.documents import dump, load


@dataclass(frozen=True)
class Point:
    at: datetime


class Entry(msgspec.Struct):
    text: str
    inner: tuple[int, ...] = ()


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = {"in": [value]}
    return value


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"text": "half a pair \ud83d"}, {"text": "half a pair ?"}),
        ({"\udc80": 1}, {"?": 1}),
        ({"list": ["\udc80", ("\udc80",)]}, {"list": ["?", ["?"]]}),
        ({"big": 2**64, "small": -(2**63) - 1}, {"big": str(2**64), "small": str(-(2**63) - 1)}),
        ({"huge": 10**5000}, {"huge": hex(10**5000)}),
        ({"most": 2**64 - 1}, {"most": 2**64 - 1}),
        ({"nan": float("nan"), "inf": float("inf")}, {"nan": None, "inf": None}),
        ({"yes": True, "text": "\ud800"}, {"yes": True, "text": "?"}),
        ({"point": Point(datetime(2026, 7, 30, tzinfo=UTC))}, {"point": {"at": "2026-07-30T00:00:00+00:00"}}),
        ({"entry": Entry("a", (1, 2))}, {"entry": {"text": "a", "inner": [1, 2]}}),
        (Entry("\ud83d"), {"text": "?", "inner": []}),
        ({"entry": Entry("\ud83d")}, {"entry": {"text": "?", "inner": []}}),
        ({"line": "a\nb\r\u2028"}, {"line": "a\nb\r\u2028"}),
    ],
    ids=lambda value: None,
)
def test_every_document_is_one_line_of_plain_json(document: Any, expected: dict[str, Any]) -> None:
    line = dump(document)
    assert b"\n" not in line
    assert json.loads(line) == expected


@pytest.mark.parametrize("levels", [90, 120, 300, 900])
def test_nesting_of_any_depth_is_recorded_and_read_back(levels: int) -> None:
    line = dump({"text": "\ud83d", "deep": nested(levels)})
    assert load(line)["text"] == "?"
    assert (b"nested too deep" in line) == (levels > 99)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_json_can_hold_comes_back_as_it_was(value: Any) -> None:
    if value in (float("inf"), float("-inf")):
        return
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return
    assert load(dump({"value": value})) == {"value": value}


@pytest.mark.parametrize("line", [b"", b"1", b"[]", b"null", b'"x"', b"{", b"{} {}", b'{"a":NaN}', b"\xff"])
def test_what_is_no_json_object_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        load(line)


def test_a_type_of_ours_that_json_does_not_know_is_loud() -> None:
    with pytest.raises(TypeError, match="object"):
        dump({"value": object()})
