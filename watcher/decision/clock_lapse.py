"""Lengths of time as the programs write them: 119h36m35.4s, "4hr 10min", "2 days and 17 hours"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta

_I = re.IGNORECASE
_UNIT = {
    "ms": 0.001,
    "millisecond": 0.001,
    **dict.fromkeys(("s", "sec", "second", "秒"), 1),
    **dict.fromkeys(("m", "min", "minute", "分"), 60),
    **dict.fromkeys(("h", "hr", "hour", "小时", "个小时"), 3600),
    **dict.fromkeys(("d", "day", "天", "日"), 86400),
    **dict.fromkeys(("w", "wk", "week", "周"), 604800),
    **dict.fromkeys(("month", "月", "个月"), 2592000),
}
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNT = {word: float(number) for number, word in enumerate(_NUMBERS, 1)}
_COUNT |= {"a": 1.0, "an": 1.0, "half a": 0.5, "half an": 0.5}
_PART = re.compile(
    r"(?P<count>\d{1,9}(?:\.\d{1,12})?(?=\s{0,2}-?[a-z\u4e00-\u9fff])"
    rf"|(?:half an?|an?|{'|'.join(_NUMBERS)})(?=\s))"
    r"\s{0,2}-?(?P<unit>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|wks?|w"
    r"|months?|个?小时|分钟?|秒钟?|天|日|周|个?月)(?![a-zA-Z])",
    _I,
)
_JOIN = re.compile(r"\s{0,2}(?:,\s?)?(?:and\s|&\s)?", _I)
_LESS_THAN = re.compile(r"(?:(?:under|less than|<)\s?)(?=\d|an?\b|one\b)", _I)
_HOURS_CLOCK = re.compile(r"(?P<hours>\d{1,3}):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)(?!\d)")
_BARE_NUMBER = re.compile(
    r"(?P<number>\d{1,8}(?:\.\d{1,6})?)(?![\d:/.-]?\d)(?!\s?(?:[ap]\.?m|%|st|nd|rd|th|/))", _I
)
_PARTS_MAX = 7
_LONGEST_S = 10 * 366 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapse:
    """A length of time, rounded up to whole seconds, and where its words end."""

    wait: timedelta
    end: int


def read_lapse(text: str, start: int) -> Lapse | None:
    """The length that begins exactly at `start` of a one-line text, or None."""
    begin = start
    if found := _LESS_THAN.match(text, start):
        begin = found.end()
    seconds, end = 0.0, begin
    for _ in range(_PARTS_MAX):
        part = _PART.match(text, end)
        if part is None:
            break
        seconds += _count(part["count"]) * _unit(part["unit"])
        end = part.end()
        gap = _JOIN.match(text, end)
        after = gap.end() if gap else end
        if not _PART.match(text, after):
            break
        end = after
    return _lapse(seconds, end) if end > begin else None


def read_hours_clock(text: str, start: int) -> Lapse | None:
    """02:10:00 as a length: for places where the words before say "in" or "after"."""
    found = _HOURS_CLOCK.match(text, start)
    if found is None:
        return None
    return _lapse(int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]), found.end())


def read_number(text: str, start: int, unit_s: float) -> Lapse | None:
    """A number alone, as in the field retry-after; one of it is `unit_s` seconds."""
    found = _BARE_NUMBER.match(text, start)
    return _lapse(float(found[1]) * unit_s, found.end()) if found else None


def _lapse(seconds: float, end: int) -> Lapse | None:
    return Lapse(wait=timedelta(seconds=math.ceil(seconds)), end=end) if seconds <= _LONGEST_S else None


def _count(word: str) -> float:
    return _COUNT[word.lower()] if word.lower() in _COUNT else float(word)


def _unit(word: str) -> float:
    lowered = word.lower()
    return _UNIT.get(lowered) or _UNIT.get(lowered.rstrip("s钟")) or 0.0
