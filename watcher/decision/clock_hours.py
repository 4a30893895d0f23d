"""A time of day as the programs write it, with the zone printed behind it.

Every pattern is anchored where it is tried and bounded in length, so that reading stays linear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

_I = re.IGNORECASE
_SECONDS = r"(?:\s?:\s?(?P<second>\d\d)(?:[.,]\d{1,9})?)?"
_HALF_DAY = re.compile(
    # A terminal may wrap between two digits, hence the blanks.
    rf"(?P<hour>\d{{1,2}})(?:\s?:\s?(?P<minute>\d\s?\d){_SECONDS}(?!\d|\s?:))?"
    r"\s{0,2}(?P<half>[ap])\s?\.?\s?m\b\.?",
    _I,
)
_WHOLE_DAY = re.compile(
    rf"(?:T\s?)?(?P<hour>\d{{1,2}})\s?:\s?(?P<minute>\d\d){_SECONDS}(?![\d…])(?!\s?:\s?\d)", _I
)
_CHINESE = re.compile(
    r"(?:(?P<half>上午|下午|凌晨|早上|中午|晚上)\s?)?(?P<hour>\d{1,2})\s?[点时](?!间)\s?(?:(?P<minute>\d\d)\s?分?)?"
)
_CHINESE_HALF = re.compile(
    r"(?P<half>上午|下午|凌晨|早上|中午|晚上)\s?(?P<hour>\d{1,2}):(?P<minute>\d\d)(?!\d)"
)
# The minutes are cut off ("12:0…", "9:"), so their digits say nothing.
_CUT = re.compile(r"(?P<hour>\d{1,2}):\d?(?=…|\.\.|\s|$|[·)\"'])")
_BARE = re.compile(r"(?P<hour>\d{1,2})(?=\s?[(·…]|\s?$)")
_NAMED = re.compile(r"(?P<named>midnight|noon)\b", _I)

_BRACKETS = re.compile(r"\s?[(\[]\s?(?P<zone>[A-Za-z][A-Za-z0-9_/+\- ]{0,46}?)\s?[)\]]")
_OFFSET = re.compile(r"\s?(?P<zone>(?:UTC|GMT)\s?[+-]\s?\d{1,2}(?::?\d\d)?|[+-]\d\d:?\d\d)(?!\d)", _I)
_NAME = re.compile(
    r"\s?(?P<zone>[A-Z][A-Za-z_]{1,20}/\s?[A-Z][A-Za-z_+\-0-9]{1,24}(?:/[A-Z][A-Za-z_]{1,20})?)"
)
_LETTERS = re.compile(r"\s?,?\s?(?P<zone>Z|[A-Z]{2,5})(?![A-Za-z/])")
_WORDS = re.compile(
    r"\s(?P<zone>(?:Pacific|Mountain|Central|Eastern|Beijing|China|local)"
    r"(?:\s(?:Standard|Daylight))?(?:\sTime)?)\b",
    _I,
)
_CHINESE_ZONE = re.compile(r"\s?[(]?\s?(?:北京时间|中国时间)\s?[)]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The parts of a time that a text names; None is "not said"."""

    words: str
    end: int  # where the words end in their text
    wait: timedelta | None = None
    epoch: float | None = None
    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None  # Monday is 0
    ahead: str = ""  # the next hour | day | week | month, or today | tomorrow
    hour: int | None = None
    minute: int = 0
    second: int = 0
    half: bool = False  # neither am nor pm nor minutes: the hour may be in either half of the day
    zone: str = ""
    form: str = ""  # iso | month | slashed | dashed | chinese | weekday | clock | wait | epoch | next


def read_clock(text: str, start: int) -> Spoken | None:
    """The time of day that begins exactly at `start`, or None."""
    begin, zone = start, ""
    if found := _CHINESE_ZONE.match(text, start):
        begin, zone = found.end(), "Beijing"
    if found := _NAMED.match(text, begin):
        return _spoken(text, start, found, zone, hour=12 if found["named"].lower() == "noon" else 0)
    if found := _HALF_DAY.match(text, begin):
        hour = int(found["hour"])
        later = 12 if found["half"].lower() == "p" else 0
        return _spoken(text, start, found, zone, hour=hour % 12 + later) if 1 <= hour <= 12 else None
    if found := _CHINESE_HALF.match(text, begin) or _CHINESE.match(text, begin):
        hour = int(found["hour"])
        later = 12 if found["half"] in {"下午", "晚上"} and hour < 12 else 0
        return _spoken(text, start, found, zone, hour=hour + later)
    if found := _WHOLE_DAY.match(text, begin):
        return _spoken(text, start, found, zone, hour=int(found["hour"]))
    if found := _CUT.match(text, begin):
        return _spoken(text, start, found, zone, hour=int(found["hour"]), half=True)
    return None


def read_bare_hour(text: str, start: int) -> Spoken | None:
    """A number that can only be an hour, as in "resets 3 (UTC)"; which half of the day is not said."""
    found = _BARE.match(text, start)
    return _spoken(text, start, found, "", hour=int(found["hour"]), half=True) if found else None


def read_zone(text: str, start: int) -> tuple[str, int]:
    """The zone printed at `start` and where it ends; ("", start) for none."""
    for pattern in (_OFFSET, _BRACKETS, _NAME, _WORDS, _LETTERS):
        if found := pattern.match(text, start):
            return found["zone"], found.end()
    if found := _CHINESE_ZONE.match(text, start):
        return "Beijing", found.end()
    return "", start


def _spoken(
    text: str, start: int, found: re.Match[str], zone: str, *, hour: int, half: bool = False
) -> Spoken | None:
    groups = found.groupdict()
    minute = int((groups.get("minute") or "0").replace(" ", ""))
    second = int(groups.get("second") or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    end = found.end()
    if not zone:
        zone, end = read_zone(text, end)
    return Spoken(
        words=text[start:end],
        end=end,
        hour=hour,
        minute=minute,
        second=second,
        half=half,
        zone=zone,
        form="clock",
    )
