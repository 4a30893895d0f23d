"""Instants, lengths, money and foreign text in words for a person. Every time shown is UTC, as in the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from watcher.log import printable


def moment(at: datetime, now: datetime) -> str:
    """The time of day, with its date unless that is today's."""
    at = at.astimezone(UTC)
    return f"{at:%H:%M:%S} UTC" if at.date() == now.astimezone(UTC).date() else stamp(at)


def stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(length: timedelta) -> str:
    """A length by its two largest units: "2 h 10 min"."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    parts = (("d", seconds // 86_400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60))
    told = [f"{count} {unit}" for unit, count in parts if count]
    if seconds < 600 and seconds % 60:
        told.append(f"{seconds % 60} s")
    return " ".join(told[:2])


def ago(at: datetime, now: datetime) -> str:
    return f"{span(now - at)} ago"


def ahead(at: datetime, now: datetime) -> str:
    return f"in {span(at - now)}" if at > now else "now due"


def instant(value: object) -> datetime | None:
    """What a record of ours says of a time; None where it says nothing readable."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)


def dollars(value: object) -> str:
    """Four digits below ten cents, where a poke's cost is found; "-" for no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    return f"${value:.2f}" if abs(value) >= 0.1 or value == 0 else f"${value:.4f}"


def line(value: object) -> str:
    """Foreign text on one line, with nothing in it that moves a cursor."""
    return printable(" ".join(value.split())) if isinstance(value, str) else ""


def paragraph(value: str) -> str:
    """Foreign text with its own line ends, indented so that no line of it can pass for one of ours."""
    lines = value.removesuffix("\n").split("\n")
    return "\n".join(f"  {printable(text.expandtabs(8))}".rstrip(" ") for text in lines)
