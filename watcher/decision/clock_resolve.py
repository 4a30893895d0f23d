"""From the parts of a time to an instant: the clock rules of DESIGN 4.

A printed clock without a date names two instants, the last and the next one. Which of them is
meant depends on the limit: a five-hour window cannot end more than five hours from now.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from watcher.decision.clock_hours import Spoken
from watcher.decision.clock_zone import Zone, days_around, host_zone, instants, known_zone, named_zone

HORIZON = timedelta(days=366)  # later is a misreading (57,000 years, in the field)
SESSION = timedelta(hours=5, minutes=1)  # the session window, and the precision of its clock
JUST_PAST = timedelta(hours=1)  # messages outlive their reset: a probe costs one poke, a wrong wait a day
TWIN = timedelta(hours=12)  # two readings of one clock are at most this far apart
LONGEST_UNDATED = timedelta(days=183)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the message around a time says about how to take it."""

    window: str = ""  # session | daily | weekly | monthly | ""
    rolls: bool = True  # False: a clock without a date is today's, even if past
    undated_zone: str = ""  # the zone of dates printed without one, where it is not the agent's


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An instant, with the second reading where the words allow two."""

    at: datetime
    other: datetime | None = None
    zone: str
    note: str = ""


def resolve(spoken: Spoken, *, now: datetime, host: tzinfo, rules: Rules) -> Resolved | None:
    """The instant meant, or None where it would be absurd."""
    resolved = _resolve(spoken, now=now, host=host, rules=rules)
    if resolved is None or resolved.at > now + HORIZON:
        return None
    if resolved.other is not None and resolved.other > now + HORIZON:
        return Resolved(at=resolved.at, zone=resolved.zone, note=resolved.note)
    return resolved


def _resolve(spoken: Spoken, *, now: datetime, host: tzinfo, rules: Rules) -> Resolved | None:
    if spoken.wait is not None:
        return Resolved(at=now + spoken.wait, zone="offset") if spoken.wait <= HORIZON else None
    if spoken.epoch is not None:
        return Resolved(at=datetime.fromtimestamp(spoken.epoch, UTC), zone="epoch")
    zone = _zone_of(spoken, now=now, host=host, rules=rules)
    if spoken.month is not None and spoken.day is not None:
        return _dated(spoken, zone, now=now, host=host)
    if spoken.weekday is not None:
        return _weekday(spoken, zone, now=now)
    if spoken.ahead:
        return _ahead(spoken, zone, now=now)
    if spoken.hour is not None:
        return _clock_only(spoken, zone, now=now, rules=rules)
    return None


def _zone_of(spoken: Spoken, *, now: datetime, host: tzinfo, rules: Rules) -> Zone:
    if spoken.zone and (zone := named_zone(spoken.zone, host=host, on=now)):
        return zone
    dated = spoken.month is not None
    if dated and rules.undated_zone:
        return known_zone(rules.undated_zone)
    if dated and spoken.form in {"iso", "dashed"} and spoken.hour is not None:
        return known_zone("UTC")
    return host_zone(host)


def _times(spoken: Spoken) -> tuple[time, ...]:
    """The clock said; both halves of the day where the words do not say which."""
    hour = spoken.hour or 0
    hours = (hour % 12, hour % 12 + 12) if spoken.half and hour <= 12 else (hour,)
    return tuple(time(each, spoken.minute, spoken.second) for each in hours)


def _moments(day: date, spoken: Spoken, zone: Zone) -> tuple[datetime, ...]:
    return tuple(moment for clock in _times(spoken) for moment in instants(day, clock, zone.info))


def _dated(spoken: Spoken, zone: Zone, *, now: datetime, host: tzinfo) -> Resolved | None:
    year = now.astimezone(zone.info).year
    years = (spoken.year,) if spoken.year is not None else (year - 1, year, year + 1, year + 2)
    found = sorted(moment for each in years for moment in _on_day(each, spoken, zone))
    if not found:
        return None
    if spoken.year is not None and not spoken.half:
        at, other = found[0], found[1] if len(found) > 1 else None
    else:
        at, other = _nearest(found, now)
    if (
        not spoken.zone
        and zone.name in {"UTC", "Asia/Shanghai"}
        and spoken.hour is not None
        and other is None
    ):
        other = _elsewhere(at, zone, host)
    return Resolved(at=at, other=other, zone=zone.name, note=zone.note)


def _on_day(year: int, spoken: Spoken, zone: Zone) -> tuple[datetime, ...]:
    try:
        day = date(year, spoken.month or 1, spoken.day or 1)
    except ValueError:  # 29 February, 31 April
        return ()
    return _moments(day, spoken, zone)


def _nearest(found: list[datetime], now: datetime) -> tuple[datetime, datetime | None]:
    """No year is printed: the next such date, unless the last one is much nearer."""
    ahead = [each for each in found if each >= now]
    past = [each for each in found if each < now]
    if ahead and (not past or ahead[0] - now <= LONGEST_UNDATED):
        twin = ahead[1] if len(ahead) > 1 and ahead[1] - ahead[0] <= TWIN else None
        return ahead[0], twin
    return past[-1], None


def _elsewhere(at: datetime, zone: Zone, host: tzinfo) -> datetime | None:
    """The same digits read in the agent's own zone: the reading that was not taken."""
    local = at.astimezone(zone.info)
    other = instants(local.date(), local.time(), host)
    return other[0] if other and other[0] != at else None


def _weekday(spoken: Spoken, zone: Zone, *, now: datetime) -> Resolved:
    found = [
        moment
        for day in days_around(now, zone.info, first=-7, last=7)
        if day.weekday() == spoken.weekday
        for moment in _moments(day, spoken, zone)
    ]
    last, following = _around(found, now)
    if last is not None and spoken.hour is not None and now - last < JUST_PAST:
        return Resolved(at=last, other=following, zone=zone.name, note=zone.note or "already past")
    # A day without a clock, seen on that very day, was printed for the next one: its start is over.
    today = last if last is not None and now - last < timedelta(days=1) else None
    return Resolved(at=following or last or now, other=today, zone=zone.name, note=zone.note)


def _ahead(spoken: Spoken, zone: Zone, *, now: datetime) -> Resolved | None:
    local = now.astimezone(zone.info)
    if spoken.ahead == "hour":
        at = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return Resolved(at=at, zone=zone.name, note=zone.note)
    if spoken.ahead == "month":
        first = date(local.year + local.month // 12, local.month % 12 + 1, 1)
        return _first(first, spoken, zone)
    if spoken.ahead == "week":
        return _first(local.date() + timedelta(days=7 - local.weekday()), spoken, zone)
    step = 1 if spoken.ahead in {"tomorrow", "day"} else 0
    return _first(local.date() + timedelta(days=step), spoken, zone)


def _first(day: date, spoken: Spoken, zone: Zone) -> Resolved | None:
    found = _moments(day, spoken, zone)
    if not found:
        return None
    return Resolved(at=found[0], other=found[1] if len(found) > 1 else None, zone=zone.name, note=zone.note)


def _clock_only(spoken: Spoken, zone: Zone, *, now: datetime, rules: Rules) -> Resolved | None:
    if not rules.rolls:
        return _first(now.astimezone(zone.info).date(), spoken, zone)
    found = [
        moment
        for day in days_around(now, zone.info, first=-2, last=2)
        for moment in _moments(day, spoken, zone)
    ]
    last, following = _around(found, now)
    if last is None or following is None:
        return None
    far = following - now > SESSION
    if far and (rules.window == "session" or now - last <= JUST_PAST):
        return Resolved(at=last, other=following, zone=zone.name, note=zone.note or "already past")
    twin = _twin(found, following)
    return Resolved(at=following, other=twin, zone=zone.name, note=zone.note)


def _around(found: list[datetime], now: datetime) -> tuple[datetime | None, datetime | None]:
    """The last instant before `now` and the first not before it."""
    place = bisect_left(found, now)
    return found[place - 1] if place else None, found[place] if place < len(found) else None


def _twin(found: list[datetime], chosen: datetime) -> datetime | None:
    """The second instant of a repeated hour, or of an hour that may be in either half of the day."""
    place = found.index(chosen)
    if place + 1 < len(found) and found[place + 1] - chosen <= TWIN:
        return found[place + 1]
    return None
