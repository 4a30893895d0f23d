"""JSON as the record writes it: one compact line of UTF-8, whatever strings a program printed."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

_DEEPEST = 200  # orjson stops at 254 levels; a document of ours has five


def dump(document: Any) -> bytes:
    """One line of JSON without its newline; of a dict, a dataclass or a msgspec Struct.

    What JSON or UTF-8 cannot hold is replaced, never refused: a lone surrogate by "?", a number of
    more than 64 bits by its digits as text, levels below the 200th by a note. Only a type of
    our own that JSON does not know raises TypeError.
    """
    try:
        if isinstance(document, msgspec.Struct):
            return msgspec.json.encode(document)
        return orjson.dumps(document, default=_struct)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return orjson.dumps(_clean(document, _DEEPEST), default=_struct)


def load(line: bytes) -> dict[str, Any]:
    """The JSON object in `line`. Raises ValueError on anything else, a bare number or list included."""
    document = orjson.loads(line)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


def _struct(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _clean(value: Any, levels: int) -> Any:
    """The same document with only what every JSON reader takes."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return _digits(value)
    if isinstance(value, dict | list | tuple) and not levels:
        return "(nested too deep for the record)"
    if isinstance(value, dict):
        return {_clean(key, levels - 1): _clean(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner, levels - 1) for inner in value]
    return value


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # beyond Python's own limit of 4300 digits
        return hex(value)
