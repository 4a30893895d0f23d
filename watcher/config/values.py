"""One given value, checked against its row of the table, or an error that says what is wrong with it."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from watcher.config.errors import ConfigError
from watcher.config.files import line_of
from watcher.config.rules import Rule, regex
from watcher.config.schema import Entry, Pattern, PatternKind, sections, table
from watcher.config.show import shown

At = tuple[str | int, ...]  # a key in parts, with the places in a list

_LENGTH = r"([0-9]+(?:\.[0-9]*)?)([smhd]?)"  # as timeout(1), which the reference used, reads it
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NO_FIT = (msgspec.ValidationError, UnicodeEncodeError)  # the latter of bytes that are no UTF-8
_WHOLE = r"[+-]?[0-9]{1,18}"
_BROKEN = r"[+-]?[0-9]{1,18}\.[0-9]{0,18}"

_KINDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotes",
    Pattern: f'{{kind = "...", regex = "..."}} with a kind of {", ".join(get_args(PatternKind))}',
}
_GIVEN: dict[type, str] = {bool: "a truth value", int: "a whole number", float: "a number", str: "text"}


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A value as somebody gave it."""

    value: object
    origin: str  # a file, "environment NAME" or "command line"
    text: str = ""  # the file's text, to name the line
    usage: bool = False


def error(key: str, given: Given, message: str, at: At | None = None) -> ConfigError:
    """The error for one key, with the line it stands on."""
    line = line_of(given.text, at or tuple(key.split("."))) if given.text else None
    return ConfigError(message, where=given.origin, key=key, line=line, usage=given.usage)


def checked(entry: Entry, given: Given) -> Any:
    """The value in its proper type."""
    value = _prepared(entry, given)
    try:
        result = msgspec.convert(value, entry.kind)
    except _NO_FIT:
        at, culprit, kind = _culprit(tuple(entry.key.split(".")), value, entry.kind)
        what = f"{_spelled(at)} is {_described(at, culprit)}; it must be {_expected(entry, at, kind)}"
        raise error(entry.key, given, what, at) from None
    for at, part, rule in _parts(entry, result):
        complaint = rule(part)
        if complaint:
            raise error(entry.key, given, f"{_spelled(at)} is {_described(at, part)}; {complaint}", at)
    return result


def unknown(key: str, given: Given, at: At) -> ConfigError:
    """The refusal of a key nobody knows, with the one probably meant."""
    import difflib  # only for a mistake

    is_section = isinstance(given.value, dict) and "." not in key
    known = sections() if is_section else tuple(table())
    wanted = key.lower().replace("-", "_")
    last = wanted.rpartition(".")[2]
    near = [name for name in known if name.rpartition(".")[2] == last]
    near = (
        near or difflib.get_close_matches(wanted, known, n=1) or difflib.get_close_matches(last, known, n=1)
    )
    meant = f"did you mean {near[0]}?" if near else f"the known sections are {', '.join(sections())}"
    return error(key, given, f"{key} is no known {'section' if is_section else 'key'}; {meant}", at)


def _prepared(entry: Entry, given: Given) -> object:
    """The value with the shapes allowed beside the exact one brought to it."""
    value = given.value
    if isinstance(value, str) and entry.row.argv:
        return _words(entry, given, value)
    if isinstance(value, str) and given.usage:  # variables and options know only texts
        return _from_text(entry, value)
    return value


def _words(entry: Entry, given: Given, value: str) -> list[str]:
    import shlex

    try:
        return shlex.split(value)
    except ValueError as problem:
        message = f"{entry.key} cannot be split into words ({problem}); close the quote, or give a list"
        raise error(entry.key, given, message) from problem


def _from_text(entry: Entry, value: str) -> object:
    stripped = value.strip()
    if entry.kind is float and entry.key.endswith("_s") and (length := re.fullmatch(_LENGTH, stripped)):
        return float(length[1]) * _UNITS[length[2]]
    if entry.kind in {int, float} and re.fullmatch(_WHOLE, stripped):
        return int(stripped)
    if entry.kind is float and re.fullmatch(_BROKEN, stripped):
        return float(stripped)
    if entry.kind is bool and stripped in {"true", "false"}:
        return stripped == "true"
    return value


def _culprit(at: At, value: object, kind: Any) -> tuple[At, object, Any]:
    """The innermost part that does not fit: where it is, what it is, what it should be."""
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, list | tuple) and get_origin(kind) is tuple:
        items, inner = enumerate(value), get_args(kind)[0]
    elif isinstance(value, dict) and get_origin(kind) is dict:
        items, inner = value.items(), get_args(kind)[1]
    for index, item in items:
        try:
            msgspec.convert(item, inner)
        except _NO_FIT:
            return (*at, index), item, inner
    return at, value, kind


def _parts(entry: Entry, result: Any) -> Iterator[tuple[At, Any, Rule]]:
    """What the rules are asked of: the value, or each expression in a list of patterns."""
    at = tuple(entry.key.split("."))
    if entry.row.rule:
        yield at, result, entry.row.rule
    if entry.kind == tuple[Pattern, ...]:
        for index, pattern in enumerate(result):
            yield (*at, index, "regex"), pattern.regex, regex


def _spelled(at: At) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).lstrip(".")


def _described(at: At, value: object) -> str:
    """A value as it may be repeated in a message: short, and never one of the agent's secrets."""
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"  # arguments may hold secrets
    kind = "a table" if isinstance(value, dict) else _GIVEN.get(type(value), "a date or time")
    if at[:2] == ("agent", "env"):
        return kind
    literal = repr(value) if isinstance(value, float) else shown(value)  # 12.0 is not 12
    return f"{literal if len(literal) <= 60 else literal[:57] + '...'} ({kind})"


def _expected(entry: Entry, at: At, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(kind))
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        either = ", or one text to split into words" if entry.row.argv else ""
        return f"a list, each entry {_KINDS[item]}{either}"
    if isinstance(kind, types.GenericAlias):
        return 'a table of texts, as {NAME = "value"}'
    example = f", such as {shown(entry.default)}" if kind in {int, float} and len(at) == 2 else ""
    return f"{_KINDS[kind]}{example}"
