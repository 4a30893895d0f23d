"""Where a text announces a reset, and the time it names there.

A time counts only behind (in Chinese, before) words that announce one: "resets", "try again at",
"until", a field such as retry-after. An error may also name when it began, how long it waited, or
the date of a price list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from watcher.decision.clock_hours import Spoken
from watcher.decision.clock_lapse import read_lapse
from watcher.decision.clock_words import read_spoken

_I = re.IGNORECASE
_ANCHOR = re.compile(
    r"(?P<key>\breset(?:s|ting)?(?![a-z_\-])"
    r"|(?<![a-z_\-])[a-z_\-]{0,40}reset[a-z_\-]{0,40}"
    r"|(?:try(?:ing)?|available|back|use it|send messages?|continue)\s(?:it\s)?again"
    r"|\bretry(?:ing|able)?(?:[-_ ]?(?:after|delay|in|at))?(?:[-_ ]?(?:seconds?|secs?|ms|millis))?"
    r"|\brefresh(?:es|ed)?|\brenew(?:s|ed|al)?|\breplenish(?:es|ed)?|\bregain access|\brestored?"
    r"|\bunlock(?:s|ed)?|\blift(?:s|ed)|\bresum(?:e|es|ed)|\breopens?|\b(?:cycle|period|window) ends"
    r"|\bexpires?|\bcooldown(?:\sends)?|\bavailable|\bback|\bcomes? back"
    r"|\bnext (?:window|reset)(?:\sstarts)?|\bstarts|\bends"
    r"|\buntil|(?<!retry )\bwait(?![a-z])|\|)",
    _I,
)
_FILLER = re.compile(
    r"(?:[\s:=·,;\"'(\[~≈<>*_`-]"
    r"|(?:at|on|in|after|by|around|about|approximately|approx\.?|roughly|within|until|for|from now"
    r"|is|are|be|will(?: be)?|your|the|again|limits?|usage|quota|access|automatically|time|date|window"
    r"|another|once|only|it|and|null)\b)",
    _I,
)
_FILLERS_MAX = 14
_CLOCK_KEY = re.compile(r"^resets?\b(?! ?in\b)|again at", _I)
_LAPSE_WORD = re.compile(r"\b(?:in|within|for|wait)\b|after|delay", _I)
_SECONDS_KEY = re.compile(r"sec(?:ond)?s?$|(?:retry|reset)[-_ ]?(?:after|delay)", _I)
_MILLIS_KEY = re.compile(r"(?:ms|millis)$", _I)
_BRIDGE = re.compile(
    r"(?:\s|,|left|until|till|before|to|for|more|your|the|usage|limit|quota|next|go|\bit\b){1,12}$", _I
)
_BRIDGE_WORD = re.compile(r"until|till|before|left", _I)
_CHINESE_ANCHOR = re.compile(r"重置|恢复|刷新|解除|重试|解锁|再试")
_CHINESE_LEAD = re.compile(
    r"(?:将在|将于|会在|请在|请于|预计|时间为?|需等待|请等待|等待|约|于|在|将|:|到期|后)\s?(?:约\s?)?"
)
_CHINESE_NUMBER = re.compile(r"(?<![\d.])\d")
_CHINESE_SKIP = re.compile(r"(?:时间|于|在|为|:|\s){0,6}")
_WINDOWS = (
    ("session", re.compile(r"\b5[- ]?h(?:r|rs|ours?)?\b|\bfive[-_ ]hours?\b|\bsession\b|5\s?个?小时", _I)),
    ("weekly", re.compile(r"\bweek(?:ly)?\b|\b7[- ]?d(?:ays?)?\b|\bseven[-_ ]day|每周|周限|一周", _I)),
    ("monthly", re.compile(r"\bmonth(?:ly)?\b|\bbilling (?:cycle|period)\b|每月|月限|月度", _I)),
    ("daily", re.compile(r"\bdaily\b|\bper day\b|\b24[- ]?h(?:ours?)?\b|\btoday\b|每日|每天", _I)),
)
_CLAUSE = re.compile(r"[·•|;\n]")
_MANY = 60  # anchors read from each end: a message has a handful


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A time with the words that announce it, and the window it is of."""

    words: str
    spoken: Spoken
    window: str  # session | daily | weekly | monthly | ""


def announced(line: str) -> Iterator[Announced]:
    """Every time that a one-line text announces, in bounded number."""
    anchors = list(_ANCHOR.finditer(line))
    if len(anchors) > 2 * _MANY:
        anchors = anchors[:_MANY] + anchors[-_MANY:]
    end = 0
    for anchor in anchors:
        if anchor.start() < end:
            continue
        spoken = _behind(line, anchor) or _before(line, anchor)
        if spoken is not None:
            end = spoken.end
            yield _announced(line, anchor.start(), end, spoken)
    yield from _chinese(line)


def _announced(line: str, start: int, end: int, spoken: Spoken) -> Announced:
    return Announced(words=line[start:end], spoken=spoken, window=_window(line, start, end))


def _behind(line: str, anchor: re.Match[str]) -> Spoken | None:
    """The time right behind the anchor, over words that say nothing of their own."""
    key, place = anchor["key"], anchor.end()
    if key == "|":
        # Only the old form "limit reached|1749924000".
        spoken = read_spoken(line, place + (line[place : place + 1] == " "))
        return spoken if spoken is not None and spoken.form == "epoch" else None
    unit = 0.001 if _MILLIS_KEY.search(key) else 1.0 if _SECONDS_KEY.search(key) else 0.0
    for _ in range(_FILLERS_MAX):
        words = line[anchor.start() : place]
        bare = not unit and _CLOCK_KEY.search(words) is not None
        spoken = read_spoken(line, place, lapse=_LAPSE_WORD.search(words) is not None, unit=unit, bare=bare)
        if spoken is not None:
            return spoken
        filler = _FILLER.match(line, place)
        if filler is None:
            return None
        place = filler.end()
    return None


def _before(line: str, anchor: re.Match[str]) -> Spoken | None:
    """The length before its anchor, as in "2 hours until your limit resets"."""
    if not anchor["key"].lower().startswith("reset"):
        return None
    begin = max(0, anchor.start() - 70)
    lead = line[begin : anchor.start()]
    bridge = _BRIDGE.search(lead)
    if bridge is None or not _BRIDGE_WORD.search(bridge[0]):
        return None
    for place in range(max(0, bridge.start() - 40), bridge.start() + 1):
        length = read_lapse(lead, place)
        if length is not None and length.end >= bridge.start():
            return Spoken(words=lead[place : length.end], end=anchor.end(), wait=length.wait, form="wait")
    return None


def _chinese(line: str) -> Iterator[Announced]:
    """In Chinese the time stands before its verb, or behind a colon."""
    for count, anchor in enumerate(_CHINESE_ANCHOR.finditer(line)):
        if count > _MANY:
            return
        begin = max(0, anchor.start() - 60)
        lead = line[begin : anchor.start()]
        found = _chinese_before(lead)
        if found is not None:
            place, spoken = found
            yield _announced(line, begin + place, anchor.end(), spoken)
            continue
        skip = _CHINESE_SKIP.match(line, anchor.end())
        behind = read_spoken(line, skip.end() if skip else anchor.end())
        if behind is not None:
            yield _announced(line, anchor.start(), behind.end, behind)


def _chinese_before(lead: str) -> tuple[int, Spoken] | None:
    places = {found.end() for found in _CHINESE_LEAD.finditer(lead)}
    places |= {found.start() for found in _CHINESE_NUMBER.finditer(lead)}
    for place in sorted(places):
        spoken = read_spoken(lead, place)
        if spoken is not None and len(lead) - spoken.end <= 12:
            return place, spoken
    return None


def _window(line: str, start: int, end: int) -> str:
    """Which window the time is of: the nearest words before it say, else the first behind it."""
    for clause in reversed(_CLAUSE.split(line[max(0, start - 300) : start])):
        found = [(match.start(), name) for name, regex in _WINDOWS for match in regex.finditer(clause)]
        if found:
            return max(found)[1]
    rest = line[end : end + 200]
    found = [(match.start(), name) for name, regex in _WINDOWS if (match := regex.search(rest))]
    return min(found)[1] if found else ""
