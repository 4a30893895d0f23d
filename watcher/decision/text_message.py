"""Read an agent program's error text: which family of messages it belongs to (DESIGN 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from watcher.decision.text_families import FAMILIES
from watcher.decision.text_fields import read_fields
from watcher.decision.text_kinds import Family, Kind, Match, compiled
from watcher.decision.text_plain import plain
from watcher.decision.text_prose import is_mild, is_statement, is_talk, is_value

_I = re.IGNORECASE
_GOOGLE = ("gemini", "antigravity")
_HITS = 40  # places looked at per family; a message has a handful
_END_CHARS = 3_000
_WORDS_MAX = 200
_FRAME = re.compile(r"at (?:async )?[\w.<>$ \[\]]{1,80}\(|at (?:async )?(?:file|node):|File \"|\^+$")
_SPACES = re.compile(r"[ \t]+")
_PER_MINUTE = re.compile(r"per[ _-]?min(?:ute)?\b|PerMinute|\bTPM\b|\bRPM\b|per[ _-]?second", _I)
_PER_DAY = re.compile(
    r"per[ _-]?day\b|(?:\b|_)[TR]PD\b|\bdaily\b|\bweekly\b|\bmonthly\b|per[ _-]?month\b|\bthis month\b"
    r"|\bbilling (?:period|cycle)\b",
    _I,
)
_PER_DAY_ID = re.compile(r"PerDay|Daily(?:Limit|Quota)|QUOTA_EXHAUSTED|limit_[tr]pd")


def read_message(text: str, *, channel: str = "", agent: str = "", error: bool | None = None) -> Match | None:
    """The family `text` belongs to and the words that say so, or None.

    `error`: the program flags this text as its error (True), as none (False), or nobody says
    (None); True lets a match count also inside a sentence. `channel`: where it was printed; in a
    "json-field" only the program speaks. Linear in a bounded part of `text`; never raises.
    """
    if error is False:
        return None
    if (fields := read_fields(text)) is not None:
        message = _bounded(plain("\n".join(fields.messages)))
        return fields.match or _read(message, fields.agent or agent, error=True, tale=False)
    tale = channel != "json-field"
    lines = _lines(plain(text))
    found = _read(_bounded("\n".join(lines)), agent, error=error is True, tale=tale)
    if found is None and len(lines) > 1:
        # A terminal may have wrapped in the middle of a word.
        found = _read(_bounded("".join(lines)), agent, error=error is True, tale=tale)
    return found


def _lines(text: str) -> list[str]:
    """The lines without stack frames and repetitions, which is most of what makes an error long."""
    lines = (_SPACES.sub(" ", line).strip() for line in text.split("\n"))
    return [line for line in dict.fromkeys(lines) if line and not _FRAME.match(line)]


def _bounded(text: str) -> str:
    """Both ends of it: a message stands at the start of an error or at the end of a log."""
    return text if len(text) <= 2 * _END_CHARS else text[:_END_CHARS] + "\n" + text[-_END_CHARS:]


def _read(text: str, agent: str, *, error: bool, tale: bool) -> Match | None:
    """The first family with a statement; without one, and only in an error, with any match."""
    lowered = text.lower()
    loose: tuple[Family, re.Match[str]] | None = None
    for family in FAMILIES:
        if not family.may_match(lowered) or not _applies(family, text, agent):
            continue
        for found in _hits(family, text):
            if _states(family, text, found, tale=tale):
                return _match(family, text, found, agent)
            if loose is None and not (_kind(family, text, agent) is Kind.LIMIT and _is_said(text, found)):
                loose = (family, found)
    return _match(loose[0], text, loose[1], agent) if loose and error else None


def _hits(family: Family, text: str) -> Iterator[re.Match[str]]:
    for count, found in enumerate(family.regex.finditer(text)):
        if count >= _HITS:
            return
        yield found


def _applies(family: Family, text: str, agent: str) -> bool:
    """What has to hold for the text as a whole."""
    if family.unless and (agent.startswith(_GOOGLE) or compiled(family.unless).search(text)):
        return False
    return not family.timed or _long_wait(text) is not None


def _states(family: Family, text: str, found: re.Match[str], *, tale: bool) -> bool:
    if family.anywhere:
        return is_value(text, found.start())
    if is_mild(text, found.start(), found.end()):
        return False
    return is_statement(text, found.start(), found.end(), tale=tale)


def _is_said(text: str, found: re.Match[str]) -> bool:
    """Also in a flagged error, a limit that is quoted or has not happened is none."""
    return is_talk(text, found.start(), found.end()) or is_mild(text, found.start(), found.end())


def _match(family: Family, text: str, found: re.Match[str], agent: str) -> Match:
    """The match with the rest of its line, for the log."""
    end = text.find("\n", found.end())
    words = text[found.start() : min(end if end >= 0 else len(text), found.start() + _WORDS_MAX)]
    return Match(kind=_kind(family, text, agent), words=words, family=family.name)


def _kind(family: Family, text: str, agent: str) -> Kind:
    """A soft family is a quota when its wait is too long for a throttle, or its window is a day."""
    if not family.soft:
        return family.kind
    if _PER_MINUTE.search(text):
        return Kind.TRANSIENT
    long = _long_wait(text)
    if long is None:
        # Copilot throttles with a time, and calls its quotas rate limits too.
        long = agent.startswith("copilot") or _PER_DAY.search(text) is not None
    return Kind.LIMIT if long or _PER_DAY_ID.search(text) else Kind.TRANSIENT


def _long_wait(text: str) -> bool | None:
    from watcher.decision.reset import names_long_wait  # slow to import, and only such words need it

    return names_long_wait(text)
