"""What a value must be beyond its type. A rule answers with a complaint, or with None."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

Rule = Callable[[Any], str | None]

YEAR_S = 366 * 86_400.0  # longer lengths are slips of the hand, and overflow a date sooner or later
YEAR_H = 366 * 24.0
MOST = 1_000_000_000  # of anything counted

# Compiled when first used: most runs need few of them, and each costs a part of the start.
_WORD = r"[A-Za-z][A-Za-z0-9_-]*"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_USER = r"[A-Za-z_][A-Za-z0-9_.-]*\$?"  # shadow's own rule, upper case allowed
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_REF_FORBIDDEN = r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|\Z)"  # git check-ref-format


def between(low: float, high: float, why: str = "") -> Rule:
    """A number from low to high, both included."""

    def rule(value: float) -> str | None:
        if low <= value <= high:  # NaN is not
            return None
        bound = f"at least {low:g}" if value < low else f"at most {high:g}"
        return f"it must be {bound}{f': {why}' if why else ''}"

    return rule


def above_zero(high: float, why: str = "") -> Rule:
    """A number above zero, up to high."""

    def rule(value: float) -> str | None:
        if 0 < value <= high:
            return None
        bound = f"at most {high:g}" if value > high else "above 0"
        return f"it must be {bound}{f': {why}' if why else ''}"

    return rule


def count(least: int, why: str = "") -> Rule:
    """A whole number of things."""
    return between(least, MOST, why)


def _matches(pattern: str, words: str) -> Rule:
    def rule(value: str) -> str | None:
        return None if not value or re.fullmatch(pattern, value) else f"it must be {words}"

    return rule


word = _matches(_WORD, "one word of letters, digits, - and _")
name = _matches(_NAME, "a name of letters, digits, '.', '_' and '-'")
user = _matches(_USER, "the name of a user of this machine")


def one_line(value: str) -> str | None:
    """A text without line breaks and other control characters."""
    return "it must be one line without control characters" if re.search(_CONTROL, value) else None


def argument(value: str) -> str | None:
    """One line that no program can take for an option."""
    if value.startswith("-"):
        return "it must not begin with '-': a program would take it for an option"
    return one_line(value)


def sentinel(value: str) -> str | None:
    """The word that ends the run: one non-empty line, since an empty one would end it at once (H 3)."""
    if not value.strip():
        return "it must not be empty: the watcher would take any answer for the end"
    if value != value.strip() or len(value) > 200:
        return "it must be short and without spaces around it: it is compared with whole lines"
    return one_line(value)


def text(value: str) -> str | None:
    """Any text a process can be given."""
    return "it must not hold a NUL byte" if "\0" in value else None


def texts(values: tuple[str, ...]) -> str | None:
    """A list whose entries all say something."""
    if any(not value.strip() for value in values):
        return "it must not hold an empty text"
    return arguments(values)


def arguments(values: tuple[str, ...]) -> str | None:
    """What a process can be given; an empty argument may be meant."""
    return next((complaint for value in values if (complaint := text(value))), None)


def words(values: tuple[str, ...]) -> str | None:
    """A vocabulary of the task list: never empty, each entry one line."""
    if not values:
        return "it must hold at least one word: with none no task would ever be found"
    return texts(values) or next((complaint for value in values if (complaint := one_line(value))), None)


def command(values: tuple[str, ...]) -> str | None:
    """An argv: the program first, no shell around it."""
    if values and not values[0].strip():
        return "its first word must be a program"
    return arguments(values)


def own_command(values: tuple[str, ...]) -> str | None:
    """An argv the harness runs itself, so never a program found by way of the project."""
    if values and "/" in values[0] and not values[0].startswith("/"):
        return "its program must be a bare name or an absolute path"
    return command(values)


def variables(names: tuple[str, ...] | dict[str, str]) -> str | None:
    """Names of environment variables; with values, values a process can be given."""
    wrong = next((given for given in names if not re.fullmatch(_VARIABLE, given)), None)
    if wrong is not None:
        return f"{wrong!r} must be the name of a variable: letters, digits and _"
    return arguments(tuple(names.values())) if isinstance(names, dict) else None


def absolute(value: str) -> str | None:
    """An absolute path, or nothing. `~` is not expanded: root and the agent have other homes."""
    if value and not os.path.isabs(value):
        return "it must be an absolute path (beginning with '/')"
    return one_line(value)


def within_project(value: str) -> str | None:
    """A path below the project, written without `..`."""
    if not value:
        return "it must not be empty"
    if os.path.isabs(value) or ".." in value.split("/"):
        return "it must be a path inside the project, relative to it"
    return one_line(value)


def remote(value: str) -> str | None:
    """A URL or an absolute path, or nothing. The name of a remote would be looked up in the agent's reach."""
    if value and ":" not in value and not os.path.isabs(value):
        return (
            "it must be a URL or an absolute path: what a name stands for is written where the agent writes"
        )
    return argument(value)


def branch(value: str) -> str | None:
    """A branch name git accepts, as `main`, or nothing."""
    if not value:
        return None
    if value.startswith("refs/"):
        return "it must be the bare name of a branch, as main, without refs/heads/"
    ends = value.startswith(("-", ".", "/")) or value.endswith((".", "/"))
    if ends or value in {"@", "HEAD"} or re.search(_REF_FORBIDDEN, value):
        return "it must be a branch name git accepts, as main or work/night"
    return None


def regex(value: str) -> str | None:
    """A regular expression that compiles and does not fit every text."""
    try:
        compiled = re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it must be a regular expression, and this is none ({error})"
    return "it must not match an empty text: it would match every answer" if compiled.search("") else None


def optional_regex(value: str) -> str | None:
    """A regular expression, or nothing."""
    return regex(value) if value else None


def timezone(value: str) -> str | None:
    """A zone this system knows, or nothing."""
    if not value:
        return None
    import zoneinfo  # only where a zone is named: it costs milliseconds

    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"it must be a time zone this system knows, as Europe/Berlin or UTC{_near_zone(value)}"
    return None


def _near_zone(value: str) -> str:
    import difflib
    import zoneinfo

    known = {zone.lower(): zone for zone in zoneinfo.available_timezones()}
    near = difflib.get_close_matches(value.lower(), known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""
