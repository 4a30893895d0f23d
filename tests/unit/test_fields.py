"""Single values of outside JSON: what they mean, and that a wrong type means nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.response import fields

WRONG: tuple[Any, ...] = (None, True, [], [1], {}, {"a": 1}, float("nan"), float("inf"), -1, 10**400)
RESET = datetime(2026, 9, 8, 13, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (1788875400, RESET),
        (1788875400.0, RESET),
        (1788875400000, RESET),
        ("1788875400", RESET),
        ("001788875400", RESET),
        (" 1788875400\n", RESET),
        ("1788875400000", RESET),
        ("1788875400.0", RESET),
        ("2026-09-08T13:50:00Z", RESET),
        ("2026-09-08T15:50:00+02:00", RESET),
        ("2026-09-08T13:50:00.000000Z", RESET),
        ("2026-09-08T13:50", RESET),
        ("2026-09-08 13:50 UTC", RESET),
        ("20260908T135000Z", RESET),
        (0, None),
        ("", None),
        ("soon", None),
        ("3pm", None),
        (1788875400000000, None),
        (9_999_999_999, None),
        ("9" * 5000, None),
        ("٣" * 10, None),
        ("0001-01-01T00:00:00+23:59", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("2026-13-40T99:00:00Z", None),
        *((value, None) for value in WRONG),
    ],
    ids=str,
)
def test_an_instant_is_read_from_numbers_digits_and_iso(value: object, meant: datetime | None) -> None:
    found = fields.instant(value)
    assert found == meant
    assert found is None or found.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "meant"),
    [(0, 0.0), (0.5, 0.5), (3, 3.0), ("0.5", None), (-0.5, None), *((value, None) for value in WRONG)],
    ids=str,
)
def test_money_is_a_finite_number_that_is_not_negative(value: object, meant: float | None) -> None:
    assert fields.money(value) == meant


@pytest.mark.parametrize(
    ("value", "meant"),
    [(0, 0), (7, 7), (7.0, 7), (7.5, None), ("7", None), (2**53, None), *((v, None) for v in WRONG)],
    ids=str,
)
def test_a_count_is_a_whole_number(value: object, meant: int | None) -> None:
    assert fields.count(value) == meant


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (429, 429),
        ("429", 429),
        (429.0, 429),
        (99, None),
        (600, None),
        ("4xx", None),
        (True, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_status_is_one_of_http(value: object, meant: int | None) -> None:
    assert fields.status(value) == meant


@pytest.mark.parametrize(
    "value", [True, "true", "True", " TRUE ", 1, "1", "yes", 0.5, "whatever", [0], {"a": 0}]
)
def test_an_error_flag_of_any_shape_is_set(value: object) -> None:
    assert fields.flag(value) is True


@pytest.mark.parametrize("value", [False, "false", "FALSE", 0, "0", "", "no", None, "null", [], {}])
def test_an_error_flag_that_says_no_is_not_set(value: object) -> None:
    assert fields.flag(value) is False


@pytest.mark.parametrize(
    ("value", "meant"),
    [("ok", "ok"), (5, "5"), (True, "true"), (None, ""), ([], ""), (10**400, ""), (float("nan"), "")],
    ids=str,
)
def test_a_label_is_short_and_shows_numbers(value: object, meant: str) -> None:
    assert fields.label(value) == meant
    assert len(fields.label("x" * 10_000)) == fields.LABEL_MAX


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (["a", "b"], "a\nb"),
        (["a", None, 3, "", {"message": "m"}, {"message": 4}, {}], "a\nm"),
        ("alone", "alone"),
        (None, ""),
        ({"message": "m"}, ""),
    ],
    ids=str,
)
def test_lines_are_the_strings_of_a_list(value: object, meant: str) -> None:
    assert fields.lines(value) == meant


def test_a_member_ends_where_its_path_does() -> None:
    assert fields.member({"a": {"b": 3}}, "a", "b") == 3
    assert fields.member({"a": [1]}, "a", "b") is None
    assert fields.member("text", "a") is None


def test_a_cut_text_keeps_both_ends_and_counts_what_is_missing() -> None:
    cut = fields.cut("a" * 100 + "b" * 1000 + "c" * 100, 200)
    assert cut == "a" * 100 + " [... 1000 characters left out ...] " + "c" * 100
    assert fields.cut("a" * 200, 200) == "a" * 200


def test_a_cut_makes_no_line_that_was_not_there() -> None:
    """The tail of a cut line must not read as the sentinel on a line of its own."""
    text = "x" * 100 + "not yet: ALL-TASKS-DONE"
    assert "ALL-TASKS-DONE" not in fields.cut(text, 2 * len("ALL-TASKS-DONE")).splitlines()


LONG = "é" * 200_000
DEEP: Any = 1
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("document", "kept", "left_out"),
    [
        ({"type": "result", "result": LONG}, {"type", "result"}, []),
        ({"type": "result", "result": "\x00" * 200_000}, {"type", "result"}, []),
        ({"type": "result", "out": {"patch": [LONG, LONG]}}, {"type"}, ["out"]),
        ({"type": "result", "out": {"patch": LONG}}, {"type", "out"}, []),
        ({"type": "result", "list": list(range(100_000))}, {"type"}, ["list"]),
        ({"type": "result", "deep": DEEP}, {"type"}, ["deep"]),
        ({"type": "result", "deep": DEEP, "list": [0] * 200_000}, {"type"}, ["deep", "list"]),
    ],
    ids=[
        "long text",
        "text that grows when written",
        "two texts",
        "text inside",
        "list",
        "deep",
        "two members",
    ],
)
def test_a_document_for_the_history_is_bounded(
    document: dict[str, Any], kept: set[str], left_out: list[str]
) -> None:
    bounded = fields.bounded(document)
    missing = bounded.pop("_left_out", [])
    assert (set(bounded), missing) == (kept, left_out)
    assert len(orjson.dumps(bounded)) <= fields.DOCUMENT_MAX
    assert orjson.loads(orjson.dumps(bounded)) == bounded


def test_a_short_document_is_kept_as_it_is() -> None:
    document = {"type": "result", "a": [1, {"b": None}]}
    assert fields.bounded(document) == document


def test_what_is_left_out_of_a_document_is_named_within_a_bound() -> None:
    bounded = fields.bounded({f"key {n:06}" + "k" * 600: n for n in range(5000)})
    assert len(orjson.dumps(bounded)) <= 2 * fields.DOCUMENT_MAX
    assert bounded["_left_out"][-1].endswith("more")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_no_value_is_refused(value: Any) -> None:
    for read in (fields.text, fields.label, fields.lines, fields.flag, fields.count, fields.status):
        read(value)
    for look in (fields.money, fields.instant, fields.names, fields.size):
        look(value)
    fields.bounded({"value": value})
