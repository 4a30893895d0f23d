"""Read single values of an agent program's JSON, and bound what is kept of it (H 6.4, 8.2).

Outside data: every reader takes any value, and answers with the empty one where the type is wrong.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import orjson

LABEL_MAX = 500  # characters of a name, a type or an id that is only shown
TEXT_MAX = 64 * 1024  # characters of a text in the history
DOCUMENT_MAX = 256 * 1024  # bytes of a document in the history
_MEMBERS_MAX = 1000  # members of a document in the history
_NAMED_MAX = 20  # members left out that are named
_WALK_MAX = 10_000  # values looked through for long texts inside one member
_MARGIN = 32  # levels a document stands inside others when it is written; orjson writes 254 in all
_UNWRITABLE = 1 << 50
_DIGITS = r"[0-9]{1,20}(?:\.[0-9]{1,9})?"
_ISO_START = r"[0-9]{4}-?[0-9W]"


def text(value: object) -> str:
    """A string as it is."""
    return value if isinstance(value, str) else ""


def label(value: object) -> str:
    """A short string to show or compare; numbers as their digits, so that a log can name them."""
    if isinstance(value, int | float):
        value = str(value).lower() if abs(value) < 1e15 else ""
    return value[:LABEL_MAX] if isinstance(value, str) else ""


def flag(value: object) -> bool:
    """True for true, "true", 1 and whatever else is not plainly a no: an error flag fails safe."""
    if isinstance(value, str):
        return value.strip().lower() not in ("", "0", "false", "no", "none", "null")
    return bool(value)


def count(value: object) -> int | None:
    """A whole number from 0 to 2**53."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**53 else None


def status(value: object) -> int | None:
    """An HTTP status, as a number or as digits."""
    found = count(int(value)) if isinstance(value, str) and re.fullmatch("[0-9]{3}", value) else count(value)
    return found if found is not None and 100 <= found < 600 else None


def names(value: object) -> tuple[str, ...]:
    """The keys of an object."""
    return tuple(key[:LABEL_MAX] for key in list(value)[:100]) if isinstance(value, dict) else ()


def money(value: object) -> float | None:
    """Dollars: a number from 0 to a million."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1e6 else None


def member(value: object, *path: str) -> Any:
    """The value at `path` inside nested objects; None where it ends."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def lines(value: object) -> str:
    """The strings of a list, or the `message` of its objects, one a line."""
    if not isinstance(value, list):
        return text(value)
    return "\n".join(filter(None, (text(item) or text(member(item, "message")) for item in value)))


def instant(value: object) -> datetime | None:
    """An aware instant, in UTC, from epoch seconds or milliseconds or ISO 8601 (no zone: UTC).

    None for what cannot be meant: before 2015, after 2100, a flag, a negative number.
    """
    if isinstance(value, str):
        return _from_words(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e13:
        return None
    return _plausible(datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC))


def _from_words(value: str) -> datetime | None:
    if re.fullmatch(_DIGITS, value):
        return instant(float(value))
    if not re.match(_ISO_START, value):
        return None
    try:
        at = datetime.fromisoformat(re.sub(r"\s*(?:UTC|GMT)$", "+00:00", value))
        return _plausible(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _plausible(at: datetime) -> datetime | None:
    at = at.astimezone(UTC)
    return at if 2015 <= at.year < 2100 else None


def cut(value: str, limit: int = TEXT_MAX) -> str:
    """`value`, or about `limit` characters of its two ends with a note of what is missing.

    The note stands inside a line: what is left of a cut line must not read as a line of its own.
    """
    if len(value) <= limit:
        return value
    half = limit // 2
    return f"{value[:half]} [... {len(value) - 2 * half} characters left out ...] {value[-half:]}"


def bounded(document: dict[str, Any]) -> dict[str, Any]:
    """`document` as the history keeps it: long texts cut, and at most about DOCUMENT_MAX bytes.

    What is left out for that, the largest first, is named in `_left_out`.
    """
    if size(document) <= TEXT_MAX:
        return document
    kept = {key[:LABEL_MAX]: _trimmed(value) for key, value in document.items()}
    sizes = {key: size(key) + size(value) for key, value in kept.items()}
    total, left_out = sum(sizes.values()), []
    for key in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if total <= DOCUMENT_MAX and len(kept) <= _MEMBERS_MAX:
            break
        total -= sizes[key]
        del kept[key]
        left_out.append(key)
    if left_out:
        more = [f"and {len(left_out) - _NAMED_MAX} more"] if len(left_out) > _NAMED_MAX else []
        kept["_left_out"] = left_out[:_NAMED_MAX] + more
    return kept


def size(value: object) -> int:
    """Bytes of `value` as JSON; more than any bound where it cannot be written, being nested too deeply."""
    for _ in range(_MARGIN):
        value = [value]
    try:
        return len(orjson.dumps(value)) - 2 * _MARGIN
    except orjson.JSONEncodeError:
        return _UNWRITABLE


def _trimmed(value: Any) -> Any:
    if isinstance(value, str):
        value = cut(value)
        return value if size(value) <= 2 * TEXT_MAX else cut(value, TEXT_MAX // 4)
    if isinstance(value, dict | list) and size(value) > TEXT_MAX:
        return _Trimmer().trim(value)
    return value


class _Trimmer:
    """Cuts the long texts inside a member, as far as it is not too large to look through."""

    def __init__(self) -> None:
        self._left = _WALK_MAX

    def trim(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > 100:
            return value
        if isinstance(value, str):
            return cut(value)
        if isinstance(value, list):
            return [self.trim(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {key: self.trim(item, depth + 1) for key, item in value.items()}
        return value
