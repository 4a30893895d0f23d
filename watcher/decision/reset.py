"""When does the quota come back? Read from the words of a message (DESIGN 4, H 6.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from watcher.decision.clock_anchor import Announced, announced
from watcher.decision.clock_hours import Spoken
from watcher.decision.clock_resolve import Resolved, Rules, resolve
from watcher.decision.outcome import Reset
from watcher.decision.text_plain import joined, plain

THROTTLE = timedelta(minutes=5)  # above it, Gemini's own client stops retrying and calls it a quota
_SAME = timedelta(minutes=2)  # readings closer than this agree: most are printed to the minute
_WORDS_MAX = 200

_I = re.IGNORECASE
_OBJECT = re.compile(r"\{[^{}]{0,600}\}")
_USED = re.compile(r"\"?(?:used_percent|usedPercent|utilization)\"?\s?:\s?(?P<used>\d{1,4}(?:\.\d{1,6})?)")
_RESETS = re.compile(r"\"?resets?_?(?:at|in_seconds|after_seconds)\"?\s?:\s?\"?(?P<number>\d{1,13})", _I)
_HEADER_USED = re.compile(r"x-codex-(?P<name>[a-z]{1,20})-used-percent\"?\s?[:=]\s?\"?(?P<used>\d{1,3})", _I)
_HEADER_AFTER = re.compile(
    r"x-codex-(?P<name>[a-z]{1,20})-reset-after-seconds\"?\s?[:=]\s?\"?(?P<after>\d{1,9})", _I
)
_DENIED = re.compile(r"not your (?:usage|plan|session) limit", _I)
_QUOTA_PER_DAY = re.compile(r"quotaId[\"']?\s?:\s?[\"']?[A-Za-z]{0,60}(?:PerDay|Daily)", _I)
_DAILY = re.compile(r"\bdaily\b", _I)
_CHINA_FORM = re.compile(r"limit will reset at 20\d\d-|\[1[123]\d\d\]|[\u4e00-\u9fff]{2}", _I)
_CHINA_AGENTS = ("zai", "glm", "zhipu", "bigmodel", "kimi", "moonshot", "minimax")
_GOOGLE_AGENTS = ("gemini", "antigravity")
_UTC_AGENTS = ("copilot", "qwen")


def read_reset(text: str, *, now: datetime, zone: tzinfo, agent: str = "") -> Reset | None:
    """The instant `text` names for the reset: aware, at most 366 days ahead, or None.

    `zone` is the zone the agent ran in; a printed zone wins over it. Where the text names two
    times, the later one is taken and the other kept in `other`. Linear in a bounded part of
    `text`; never raises on content.
    """
    cleaned = plain(text)
    line = joined(cleaned)
    found = _read(line, now=now, zone=zone, agent=agent)
    if found is None and "\n" in cleaned.strip() and not _DENIED.search(line):
        # A terminal may have wrapped in the middle of a word.
        unwrapped = "".join(part.strip() for part in cleaned.split("\n"))
        found = _read(unwrapped, now=now, zone=zone, agent=agent)
    return found


def names_long_wait(text: str) -> bool | None:
    """Whether a message asks for more than a throttle's few minutes; None: it names no time.

    A length of up to five minutes is what the programs sit out themselves; dates and clocks are
    printed only for longer ones.
    """
    waits = [each.spoken.wait for each in announced(joined(plain(text)))]
    return any(wait is None or wait > THROTTLE for wait in waits) if waits else None


def _read(line: str, *, now: datetime, zone: tzinfo, agent: str) -> Reset | None:
    measured = list(_measured(line, now))
    if measured:
        return _latest(measured)
    readings: list[tuple[Resolved, Announced]] = []
    denied = _DENIED.search(line) is not None
    for each in announced(line):
        if denied and each.spoken.wait is None:
            continue  # a clock beside a throttle is the rest of an older message
        rules = Rules(
            window=each.window,
            rolls=_rolls(agent, each.words),
            undated_zone=_undated_zone(agent, line, each.spoken),
        )
        resolved = resolve(each.spoken, now=now, host=zone, rules=rules)
        if resolved is not None:
            readings.append((resolved, each))
    if all(resolved.at - now < THROTTLE for resolved, _ in readings):
        readings += _google_midnight(line, now=now, zone=zone, agent=agent)
    return _latest(readings)


def _latest(readings: list[tuple[Resolved, Announced]]) -> Reset | None:
    """The later of several times: the precise length next to a rounded one, the longer window."""
    if not readings:
        return None
    resolved, said = max(readings, key=lambda reading: reading[0].at)
    others = [each.at for each, _ in readings if abs(each.at - resolved.at) > _SAME]
    return Reset(
        at=resolved.at,
        source="text",
        text=said.words[:_WORDS_MAX],
        zone=resolved.zone,
        other=resolved.other or (max(others) if others else None),
        window=said.window,
        note=resolved.note,
    )


def _google_midnight(
    line: str, *, now: datetime, zone: tzinfo, agent: str
) -> Iterator[tuple[Resolved, Announced]]:
    """Google's quotas per day end at midnight in California; the "retry in 34s" beside them is untrue."""
    if not (_QUOTA_PER_DAY.search(line) or (agent.startswith(_GOOGLE_AGENTS) and _DAILY.search(line))):
        return
    midnight = Spoken(words="quota per day", end=0, hour=0, zone="Pacific", form="clock")
    resolved = resolve(midnight, now=now, host=zone, rules=Rules(window="daily"))
    if resolved is not None:
        yield resolved, Announced(words=midnight.words, spoken=midnight, window="daily")


def _measured(line: str, now: datetime) -> Iterator[tuple[Resolved, Announced]]:
    """Windows printed with how full they are: only a full one says when work can go on."""
    if "sed" not in line and "tilization" not in line:
        return
    for found in _OBJECT.finditer(line):
        used, number = _USED.search(found[0]), _RESETS.search(found[0])
        if used and number and float(used["used"]) >= (1 if "tilization" in used[0] else 100):
            yield from _instant(int(number["number"]), found[0], now)
    full = {found["name"].lower() for found in _HEADER_USED.finditer(line) if int(found["used"]) >= 100}
    for found in _HEADER_AFTER.finditer(line):
        if found["name"].lower() in full:
            yield from _instant(int(found["after"]), found[0], now)


def _instant(number: int, words: str, now: datetime) -> Iterator[tuple[Resolved, Announced]]:
    """A number that is an epoch in seconds or milliseconds, or seconds from now."""
    if number >= 10**9:
        spoken = Spoken(words=words, end=0, epoch=number / 1000 if number > 10**11 else number, form="epoch")
    else:
        spoken = Spoken(words=words, end=0, wait=timedelta(seconds=number), form="wait")
    resolved = resolve(spoken, now=now, host=now.tzinfo or UTC, rules=Rules())
    if resolved is not None:
        yield resolved, Announced(words=words, spoken=spoken, window="")


def _rolls(agent: str, words: str) -> bool:
    """Codex prints a clock alone only for a reset of the same local day: a past one is past."""
    return not (agent.startswith("codex") or words.lower().startswith("try again at"))


def _undated_zone(agent: str, line: str, spoken: Spoken) -> str:
    """The zone of dates printed without one: Chinese providers write Beijing time, some others UTC."""
    if agent.startswith(_UTC_AGENTS):
        return "UTC" if spoken.hour is not None else ""
    numbers = spoken.form in {"iso", "chinese", "dashed"}
    if numbers and (agent.startswith(_CHINA_AGENTS) or _CHINA_FORM.search(line)):
        return "Asia/Shanghai"
    return ""
