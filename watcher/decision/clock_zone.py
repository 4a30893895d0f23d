"""Zones as the programs print them, and local times as instants (DESIGN 4).

Computed in the zone, never by adding 24 hours: on two days a year those differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

_ABBREVIATIONS = {
    "UTC": "UTC",
    "GMT": "UTC",
    "Z": "UTC",
    "PT": "America/Los_Angeles",
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "MT": "America/Denver",
    "MST": "America/Denver",
    "MDT": "America/Denver",
    "CT": "America/Chicago",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "ET": "America/New_York",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "AKST": "America/Anchorage",
    "AKDT": "America/Anchorage",
    "HST": "Pacific/Honolulu",
    "BRT": "America/Sao_Paulo",
    "ART": "America/Argentina/Buenos_Aires",
    "BST": "Europe/London",
    "WET": "Europe/Lisbon",
    "WEST": "Europe/Lisbon",
    "CET": "Europe/Paris",
    "CEST": "Europe/Paris",
    "EET": "Europe/Athens",
    "EEST": "Europe/Athens",
    "MSK": "Europe/Moscow",
    "TRT": "Europe/Istanbul",
    "SAST": "Africa/Johannesburg",
    "GST": "Asia/Dubai",
    "PKT": "Asia/Karachi",
    "IST": "Asia/Kolkata",
    "NPT": "Asia/Kathmandu",
    "ICT": "Asia/Bangkok",
    "WIB": "Asia/Jakarta",
    "SGT": "Asia/Singapore",
    "MYT": "Asia/Kuala_Lumpur",
    "PHT": "Asia/Manila",
    "HKT": "Asia/Hong_Kong",
    "AWST": "Australia/Perth",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "AEST": "Australia/Sydney",
    "AEDT": "Australia/Sydney",
    "ACST": "Australia/Adelaide",
    "ACDT": "Australia/Adelaide",
    "NZST": "Pacific/Auckland",
    "NZDT": "Pacific/Auckland",
    "PACIFIC": "America/Los_Angeles",
    "MOUNTAIN": "America/Denver",
    "CENTRAL": "America/Chicago",
    "EASTERN": "America/New_York",
    "BEIJING": "Asia/Shanghai",
    "CHINA": "Asia/Shanghai",
}
_OFFSET = re.compile(r"(?:UTC|GMT)?([+\-\u2212])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_TIME_WORD = re.compile(r"\s*\b(?:standard|daylight)?\s*time$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone and how its name was understood."""

    info: tzinfo
    name: str
    note: str = ""


def named_zone(name: str, *, host: tzinfo, on: datetime) -> Zone | None:
    """The zone a message names, or None for words that are no zone.

    `host` decides an abbreviation that several zones share: the agent ran there. A name that
    looks like a zone and is none means the zone of the agent's process, with a note.
    """
    text = _TIME_WORD.sub("", name.strip())
    if text.lower() in {"local", "your", "local time", "your local"}:
        return Zone(info=host, name=_label(host))
    if offset := _OFFSET.fullmatch(text.replace(" ", "")):
        return _fixed(offset, name=text)
    if text.upper() in _ABBREVIATIONS:
        return _abbreviated(text.upper(), host=host, on=on)
    packed = re.sub(r"\s+", "", text)
    if "/" not in packed:
        return None
    info = _load(packed)
    if info is not None:
        return Zone(info=info, name=packed)
    return Zone(info=host, name=_label(host), note=f"no zone is called {packed[:40]!r}")


def host_zone(host: tzinfo) -> Zone:
    """The zone the agent's process ran in, for times printed without one."""
    return Zone(info=host, name=_label(host))


def known_zone(name: str) -> Zone:
    """One of the zones this program names itself; UTC where the system has no zone data."""
    return Zone(info=_load(name) or UTC, name=name)


def _fixed(offset: re.Match[str], *, name: str) -> Zone | None:
    sign = 1 if offset[1] == "+" else -1
    hours, minutes = int(offset[2]), int(offset[3] or 0)
    if hours > 14 or minutes > 59:
        return None
    return Zone(info=timezone(sign * timedelta(hours=hours, minutes=minutes)), name=name, note="")


def _abbreviated(name: str, *, host: tzinfo, on: datetime) -> Zone:
    # "CST" is Chicago to one reader and Shanghai to the next: the agent's own zone knows best.
    for months in (0, 182):
        if (on + timedelta(days=months)).astimezone(host).tzname() == name:
            return Zone(info=host, name=_label(host))
    return Zone(info=_load(_ABBREVIATIONS[name]) or UTC, name=name)


def _load(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    return _load_any_case(name)


def _load_any_case(name: str) -> tzinfo | None:
    """Names differ in case between programs; the files do not forgive it."""
    from zoneinfo import ZoneInfo

    parts = [re.sub(r"[A-Za-z]+", lambda word: word[0].capitalize(), part) for part in name.split("/")]
    try:
        return ZoneInfo("/".join(parts))
    except (KeyError, ValueError, OSError):
        return None


def _label(zone: tzinfo) -> str:
    return getattr(zone, "key", None) or str(zone)


def instants(day: date, clock: time, zone: tzinfo) -> tuple[datetime, ...]:
    """The instants at which `zone` shows this local time, as UTC.

    One, or two where the hour is repeated, earlier first. In a gap: the first instant after it.
    """
    first = datetime.combine(day, clock.replace(fold=0), zone)
    second = first.replace(fold=1)
    try:
        early, late = first.astimezone(UTC), second.astimezone(UTC)
    except (OverflowError, ValueError):
        return ()
    if early == late:
        return (early,)
    if early < late:
        return (early, late)
    return (_gap_end(late, early, zone),)


def _gap_end(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The transition between two instants, by halving: the first second with the new offset."""
    old = before.astimezone(zone).utcoffset()
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def days_around(now: datetime, zone: tzinfo, *, first: int, last: int) -> Iterator[date]:
    """Calendar days of `zone`, counted from its own today, both ends included."""
    today = now.astimezone(zone).date()
    for step in range(first, last + 1):
        yield today + timedelta(days=step)
