"""A time as the programs write it, parsed at one place of a text, not yet an instant.

Dates, weekdays, lengths and epochs; the time of day is read by `clock_hours`. Every pattern is
anchored where it is tried and bounded in length, so that reading stays linear.
"""

from __future__ import annotations

import re
from dataclasses import replace

from watcher.decision.clock_hours import Spoken, read_bare_hour, read_clock, read_zone
from watcher.decision.clock_lapse import Lapse, read_hours_clock, read_lapse, read_number

_I = re.IGNORECASE
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY = re.compile(
    r"(?P<weekday>mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?"
    r"|sat(?:urday)?|sun(?:day)?)\b\.?",
    _I,
)
_ORDINAL = r"(?:st|nd|rd|th)?"
_YEAR = r"(?:\s?,?\s(?P<year>20\d\d)\b)?"

_EPOCH = re.compile(r"(?P<epoch>[12]\d{9}(?:\d{3})?)(?:\.\d{1,9})?(?![\d.:/-]?\d)")
_ISO = re.compile(
    r"(?P<year>20\d\d)(?:[-/.]|\s?年\s?)(?P<number>\d{1,2})(?:[-/.]|\s?月\s?)(?P<day>\d{1,2})(?!\d)(?:\s?日)?"
)
_CHINESE = re.compile(r"(?P<number>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[日号]")
_MONTH_DAY = re.compile(rf"{_MONTH}\s{{0,2}}(?P<day>\d{{1,2}}){_ORDINAL}(?![\d:]){_YEAR}", _I)
_DAY_MONTH = re.compile(rf"(?P<day>\d{{1,2}}){_ORDINAL}\s{{1,2}}(?:of\s)?{_MONTH}{_YEAR}", _I)
_DASHED = re.compile(r"(?P<number>\d\d)[-/](?P<day>\d\d)(?=[ T]\s?\d{1,2}:\d\d)")
_FORMS = (
    (_ISO, "iso"),
    (_MONTH_DAY, "month"),
    (_DAY_MONTH, "month"),
    (_CHINESE, "chinese"),
    (_DASHED, "dashed"),
)
_SLASHED = re.compile(r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>20\d\d|\d\d)(?!\d)")
_RELATIVE = re.compile(r"(?P<today>today|tonight|今天|今日|今晚)|(?P<tomorrow>tomorrow|明天|明日|次日)", _I)
_NEXT = re.compile(
    r"(?:the\s)?(?:(?:start|beginning|first(?: day)?)\sof\s(?:the\s)?)?"
    r"next\s(?:calendar\s|billing\s)?(?P<next>hour|day|week|month)\b",
    _I,
)
_JOIN = re.compile(r"\s?(?:,|·|-|@|(?:\bat|\bon|\baround|\bby)\b)?\s?,?\s?", _I)


def read_spoken(
    text: str, start: int, *, lapse: bool = False, unit: float = 0.0, bare: bool = False
) -> Spoken | None:
    """The time that begins exactly at `start` of a one-line text, or None.

    `lapse`: the words before say "in" or "after", so 02:10:00 is a length. `unit`: seconds that
    a bare number counts (the words before are a field such as retry-after); 0 = no such number.
    `bare`: a number alone may be an hour ("resets 3").
    """
    for reader in (_epoch, _dated, _named_day):
        if (spoken := reader(text, start)) is not None:
            return spoken
    length = read_lapse(text, start) or (read_hours_clock(text, start) if lapse else None)
    if length is not None:
        return _waiting(text, start, length)
    spoken = _clock_first(text, start) or (read_bare_hour(text, start) if bare else None)
    if spoken is None and unit and (length := read_number(text, start, unit)):
        return _waiting(text, start, length)
    return spoken


def _waiting(text: str, start: int, length: Lapse) -> Spoken:
    return Spoken(words=text[start : length.end], end=length.end, wait=length.wait, form="wait")


def _epoch(text: str, start: int) -> Spoken | None:
    found = _EPOCH.match(text, start)
    if found is None:
        return None
    number = int(found["epoch"])
    seconds = number / 1000 if len(found["epoch"]) == 13 else float(number)
    return Spoken(words=found[0], end=found.end(), epoch=seconds, form="epoch")


def _dated(text: str, start: int) -> Spoken | None:
    """A day of the month, perhaps after its weekday, with or without year and clock."""
    weekday = _WEEKDAY.match(text, start)
    gap = _JOIN.match(text, weekday.end()) if weekday else None
    date = _day(text, gap.end() if gap else start)
    return _with_clock(text, start, date) if date is not None else None


def _day(text: str, start: int) -> Spoken | None:
    for pattern, form in _FORMS:
        if found := pattern.match(text, start):
            groups = found.groupdict()
            year = int(groups["year"]) if groups.get("year") else None
            return _date(found, year, _month(groups), int(found["day"]), form)
    if found := _SLASHED.match(text, start):
        # Month first, as the American programs that print it do, unless that cannot be.
        first, second, year = int(found["first"]), int(found["second"]), int(found["year"])
        month, day = (second, first) if first > 12 else (first, second)
        return _date(found, year + 2000 if year < 100 else year, month, day, "slashed")
    return None


def _month(groups: dict[str, str | None]) -> int:
    if number := groups.get("number"):
        return int(number)
    return _MONTHS.index((groups.get("month") or "jan")[:3].lower()) + 1


def _date(found: re.Match[str], year: int | None, month: int, day: int, form: str) -> Spoken | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return Spoken(words=found[0], end=found.end(), year=year, month=month, day=day, form=form)


def _named_day(text: str, start: int) -> Spoken | None:
    """A weekday, today, tomorrow, or the start of the next hour, day, week, month."""
    if (named := _weekday_or_relative(text, start)) is not None:
        spoken = _with_clock(text, start, named)
        return None if spoken.ahead == "today" and spoken.hour is None else spoken
    if found := _NEXT.match(text, start):
        return Spoken(words=found[0], end=found.end(), ahead=found["next"].lower(), form="next")
    return None


def _weekday_or_relative(text: str, start: int) -> Spoken | None:
    if found := _WEEKDAY.match(text, start):
        number = _DAYS.index(found["weekday"][:3].lower())
        return Spoken(words=found[0], end=found.end(), weekday=number, form="weekday")
    if found := _RELATIVE.match(text, start):
        ahead = "today" if found["today"] else "tomorrow"
        return Spoken(words=found[0], end=found.end(), ahead=ahead, form="next")
    return None


def _with_clock(text: str, start: int, date: Spoken) -> Spoken:
    """The date, with the clock and the zone that follow it."""
    gap = _JOIN.match(text, date.end)
    clock = read_clock(text, gap.end()) if gap else None
    if clock is not None:
        return _at(date, clock, text, start, clock.zone, clock.end)
    zone, end = read_zone(text, date.end)
    return replace(date, zone=zone, end=end, words=text[start:end])


def _clock_first(text: str, start: int) -> Spoken | None:
    """A clock, alone or with its day behind it ("9:00 AM on Monday")."""
    clock = read_clock(text, start)
    if clock is None:
        return None
    gap = _JOIN.match(text, clock.end)
    if gap is None or gap.end() == clock.end:
        return clock
    date = _day(text, gap.end()) or _weekday_or_relative(text, gap.end())
    if date is None:
        return clock
    zone, end = (clock.zone, date.end) if clock.zone else read_zone(text, date.end)
    return _at(date, clock, text, start, zone, end)


def _at(date: Spoken, clock: Spoken, text: str, start: int, zone: str, end: int) -> Spoken:
    return replace(
        date,
        hour=clock.hour,
        minute=clock.minute,
        second=clock.second,
        half=clock.half,
        zone=zone,
        end=end,
        words=text[start:end],
    )
