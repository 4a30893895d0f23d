"""JSON without the json package, whose import of regular expressions would double the start-up (6 ms)."""

from __future__ import annotations

import _json

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing (9 ms)
if TYPE_CHECKING:
    from typing import Any

_UNUSUAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class _Context:
    """What the interpreter's own scanner asks for."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(float)  # NaN, Infinity and -Infinity are words float() knows


def loads(text: str) -> Any:
    """The value of a JSON text; raises json.JSONDecodeError as the json package does."""
    start = len(text) - len(text.lstrip())
    try:
        value, end = _json.make_scanner(_Context())(text, start)  # type: ignore[arg-type]
    except (StopIteration, SystemError):  # SystemError: its own error is in the package we did not import
        value, end = None, -1
    if end < 0 or text[end:].strip():
        import json

        return json.loads(text)  # for its message
    return value


def dumps(value: object) -> str:
    """The JSON text of plain data, without blanks; characters beyond ASCII stay as they are."""
    if isinstance(value, str):
        return _json.encode_basestring(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _UNUSUAL.get(repr(value), repr(value))
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(str(key))}:{dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dumps, value)) + "]"
    raise TypeError(f"not JSON: {value!r}")


def encoded(value: object) -> bytes:
    """`dumps` as UTF-8; a lone surrogate becomes its escape, as the real program prints it."""
    return dumps(value).encode("utf-8", "backslashreplace")
