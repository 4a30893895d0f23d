"""Reset times: the clock rules, the spellings, and what holds for any text at all (DESIGN 4)."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.decision.reset import names_long_wait, read_reset

NOON = datetime(2026, 5, 5, 12, 0, tzinfo=UTC)  # a Tuesday
BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


def at(words: str) -> datetime:
    found = datetime.fromisoformat(words)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Row(NamedTuple):
    text: str
    expected: str  # ISO, UTC where it has no offset; "" = no time is named
    now: str = "2026-05-05T12:00"
    zone: str = "UTC"
    agent: str = ""


SPELLINGS = (
    Row("resets 3pm", "2026-05-05T15:00"),
    Row("RESETS AT 3 P.M.", "2026-05-05T15:00"),
    Row("resets 3:45\u202fPM", "2026-05-05T15:45"),
    Row("resets\u00a03:45\u00a0pm", "2026-05-05T15:45"),
    Row("Resets 15:30", "2026-05-05T15:30"),
    Row("resets 12:30am", "2026-05-06T00:30"),
    Row("resets noon tomorrow", "2026-05-06T12:00"),
    Row("resets at midnight UTC", "2026-05-06T00:00"),
    Row("resets at midnight Pacific Time", "2026-05-06T07:00"),
    Row("resets today at 11pm", "2026-05-05T23:00"),
    Row("resets tomorrow at 9am (Asia/Tokyo)", "2026-05-06T09:00+09:00"),
    Row("resets Fri 9:30am", "2026-05-08T09:30"),
    Row("resets on Friday at 9:30 AM", "2026-05-08T09:30"),
    Row("resets 9:30 AM on Friday", "2026-05-08T09:30"),
    Row("resets Mon 12:00am", "2026-05-11T00:00"),
    Row("resets May 9", "2026-05-09T00:00"),
    Row("resets May 9, 5pm", "2026-05-09T17:00"),
    Row("resets May 9 at 5:15pm (Europe/London)", "2026-05-09T16:15"),
    Row("resets Sat, May 9, 5pm", "2026-05-09T17:00"),
    Row("resets 9 May 2026, 16:29", "2026-05-09T16:29"),
    Row("resets 5pm on May 9th", "2026-05-09T17:00"),
    Row("try again at May 9th, 2026 4:13 PM.", "2026-05-09T16:13"),
    Row("resets 2026-05-09 17:00 UTC", "2026-05-09T17:00"),
    Row("resets 2026-05-09T17:00:00Z", "2026-05-09T17:00"),
    Row("resets 2026-05-09T17:00:00.123+02:00", "2026-05-09T15:00"),
    Row("resets 2026-05-09 17:00:00 +0800 CST", "2026-05-09T09:00"),
    Row("out of quota until 2026/05/09 17:00", "2026-05-09T17:00"),
    Row("your monthly cycle ends on 5/9/2026", "2026-05-09T00:00"),
    Row("resets 10-09 09:25:00 UTC", "2026-10-09T09:25"),
    Row("usage limit reached|1778000000", "2026-05-05T16:53:20"),
    Row("usage limit reached|1778000000000 and more", "2026-05-05T16:53:20"),
    Row('"resetsAt":1778000000', "2026-05-05T16:53:20"),
    Row("resets in 2 hours", "2026-05-05T14:00"),
    Row("resets in: 3 hours", "2026-05-05T15:00"),
    Row("try again in 2 days 17 hours 14 minutes", "2026-05-08T05:14"),
    Row("resets in 1 day, 3 hours and 5 minutes", "2026-05-06T15:05"),
    Row("reset after 119h36m35.41s", "2026-05-10T11:36:36"),
    Row("Resets in 4hr 10min", "2026-05-05T16:10"),
    Row("Please try again in 20ms", "2026-05-05T12:00:01"),
    Row("try again in under a minute", "2026-05-05T12:01"),
    Row("try again in an hour", "2026-05-05T13:00"),
    Row("try again in half an hour", "2026-05-05T12:30"),
    Row("try again in 02:13:45", "2026-05-05T14:13:45"),
    Row("wait 1 hours 48 minutes for your limit to reset", "2026-05-05T13:48"),
    Row("5 hours 30 minutes until reset", "2026-05-05T17:30"),
    Row("retry-after: 7200", "2026-05-05T14:00"),
    Row("retry-after-ms: 1500", "2026-05-05T12:00:02"),
    Row("retry-after: Wed, 06 May 2026 12:30:00 GMT", "2026-05-06T12:30"),
    Row("until the next hour starts", "2026-05-05T13:00"),
    Row("reset next month", "2026-06-01T00:00"),
    Row("您的限额将在 2026-05-06 09:59:59 重置。", "2026-05-06T01:59:59"),
    Row("你的限额将在 20 分钟后重置。", "2026-05-05T12:20"),
    Row("你的限额将在 5 月 9 日下午 3 点重置。", "2026-05-09T15:00+08:00"),
    Row("Youâ€™ve hit your limit Â· resets 3:45pm", "2026-05-05T15:45"),
    Row("limit \\u00b7 resets 3:45pm", "2026-05-05T15:45"),
    Row("\x1b[2m· resets 3pm (UTC)\x1b[0m", "2026-05-05T15:00"),
    Row("resets 3:4\n5pm (America/New_\nYork)", "2026-05-05T19:45"),
    Row("resets 3:45\n  pm (Europe/\n  Berlin)", "2026-05-05T13:45"),
    Row("· resets 3pm (UTC)\nYou've hit your limit", "2026-05-05T15:00"),
)

ZONES = (
    Row("resets 9pm", "2026-05-05T21:00+02:00", zone="Europe/Berlin"),
    Row("resets 9pm (America/Bogota)", "2026-05-05T21:00-05:00", zone="Europe/Berlin"),
    Row("resets 9pm (Etc/GMT+5)", "2026-05-05T21:00-05:00"),
    Row("resets 9 PM GMT+2", "2026-05-05T21:00+02:00"),
    Row("resets 9 PM UTC+05:30", "2026-05-05T21:00+05:30"),
    Row("resets 9pm (Asia/Calcutta)", "2026-05-05T21:00+05:30"),
    Row("resets 9pm (America/Cordoba)", "2026-05-05T21:00-03:00"),
    Row("resets 9pm SGT", "2026-05-05T21:00+08:00"),
    Row("resets 9pm PT", "2026-05-05T21:00-07:00"),
    Row("resets 9pm Eastern Time", "2026-05-05T21:00-04:00"),
    Row("resets 9pm CST", "2026-05-05T21:00+08:00", zone="Asia/Shanghai"),
    Row("resets 9pm CST", "2026-05-05T21:00-05:00"),
    Row("resets 9pm (europe/berlin)", "2026-05-05T21:00+02:00"),
    Row("resets 9pm (Etc/Unknown)", "2026-05-05T21:00+02:00", zone="Europe/Berlin"),
    Row("resets 9pm (local time)", "2026-05-05T21:00+02:00", zone="Europe/Berlin"),
    Row("limit resets at 2026-05-06 04:18:56", "2026-05-06T04:18:56", zone="Europe/Berlin"),
    Row("[1310][Limit Exhausted. Your limit will reset at 2026-05-06 04:18:56]", "2026-05-06T04:18:56+08:00"),
    Row("resets on May 9, 2026 at 2:00 AM", "2026-05-09T02:00", zone="Asia/Tokyo", agent="copilot-cli"),
)

STALE = (
    Row("5-hour limit reached ∙ resets 12am", "2026-05-05T00:00", now="2026-05-05T00:04"),
    Row("session limit · resets 5pm", "2026-05-05T17:00"),
    Row("session limit · resets 5:02pm", "2026-05-04T17:02"),
    Row("session limit · resets 7am", "2026-05-05T07:00"),
    Row("weekly limit · resets 7am", "2026-05-06T07:00"),
    Row("You've hit your limit · resets 7am", "2026-05-06T07:00"),
    Row("You've hit your limit · resets 11:45am", "2026-05-05T11:45"),
    Row("You've hit your limit · resets 12pm", "2026-05-05T12:00"),
    Row("Try again at 7:00 AM.", "2026-05-05T07:00", agent="codex"),
    Row("Try again at 11:59 PM.", "2026-05-05T23:59", agent="codex"),
    Row("weekly limit · resets May 4, 9am", "2026-05-04T09:00"),
    Row("weekly limit · resets Jan 2, 9am", "2027-01-02T09:00", now="2026-12-30T12:00"),
    Row("weekly limit · resets Dec 30, 9am", "2026-12-30T09:00", now="2027-01-02T12:00"),
    Row("weekly limit · resets Feb 29, 5pm", "2028-02-29T17:00", now="2028-02-26T10:00"),
    Row("weekly limit · resets Tue 9am", "2026-05-12T09:00"),
    Row("weekly limit · resets Tue 9pm", "2026-05-05T21:00"),
    Row("weekly limit · resets Tuesday", "2026-05-12T00:00"),
    Row("limit reached|1749924000", "2025-06-14T18:00"),
)

SAVINGS = (
    # Spring: 02:00 is 03:00. A clock in the gap means the first instant after it.
    Row("resets 2:30am", "2026-03-29T03:00+02:00", now="2026-03-28T23:00", zone="Europe/Berlin"),
    Row("resets 4am", "2026-03-29T04:00+02:00", now="2026-03-28T23:00", zone="Europe/Berlin"),
    # Autumn: 02:00 to 03:00 comes twice; the first, and between the two the second.
    Row("resets 2:30am", "2026-10-25T02:30+02:00", now="2026-10-24T22:00", zone="Europe/Berlin"),
    Row("session limit · resets 1:30am", "2026-11-01T01:30-05:00", "2026-11-01T05:40", "America/New_York"),
    Row("weekly limit · resets Nov 3 at 12:30am", "2026-11-03T05:30", "2026-10-30T16:00", "America/New_York"),
    # Half an hour only, on the other half of the world.
    Row("resets 3am", "2026-10-04T03:00+11:00", "2026-10-03T15:00", "Australia/Lord_Howe"),
)

NOTHING = (
    Row("Your limit will reset later.", ""),
    Row("Try again later.", ""),
    Row("resets 3:99pm", ""),
    Row("resets 25:00", ""),
    Row("resets Feb 31, 10am", ""),
    Row("resets at 57000-01-01", ""),
    Row("usage limit reached|17497920000000000", ""),
    Row("usage limit reached|invalid", ""),
    Row("usage limit reached|2999999999", ""),
    Row("try again in 9000 days", ""),
    Row("Limits reset every 5h and every week.", ""),
    Row("No response (waited 3m, then 10m on the retry)", ""),
    Row("retried 5 times (total retry wait time: 14.89 seconds)", ""),
    Row("reset reason: remote connection failure", ""),
    Row("discontinued as of 2026-04-15", ""),
    Row("API Error: limiting requests (not your usage limit)\n· resets 3pm (UTC)", ""),
)


def _name(row: Row) -> str:
    return f"{row.text[:40]!r} {row.zone} {row.now}"


@pytest.mark.parametrize("row", [*SPELLINGS, *ZONES, *STALE, *SAVINGS, *NOTHING], ids=_name)
def test_a_text_names_its_instant(row: Row) -> None:
    reset = read_reset(row.text, now=at(row.now), zone=ZoneInfo(row.zone), agent=row.agent)
    found = reset.at.astimezone(UTC) if reset else None
    assert found == (at(row.expected).astimezone(UTC) if row.expected else None), reset


def test_the_repeated_hour_keeps_its_second_instant_for_later() -> None:
    reset = read_reset("resets 2:30am", now=at("2026-10-24T22:00"), zone=BERLIN)
    assert reset is not None
    assert reset.at == at("2026-10-25T00:30")
    assert reset.other == at("2026-10-25T01:30")


def test_of_two_times_the_later_counts_and_the_other_is_kept() -> None:
    reset = read_reset("It will reset in 1 day 3 hours. [retrying in ~1 day attempt #7]", now=NOON, zone=UTC)
    assert reset is not None
    assert reset.at == NOON + timedelta(hours=27)
    assert reset.other == NOON + timedelta(hours=24)


def test_of_two_full_windows_the_later_reset_counts() -> None:
    text = (
        '{"primary":{"used_percent":100.0,"resets_at":1778000000},'
        '"secondary":{"used_percent":100.0,"resets_at":1778400000}}'
    )
    reset = read_reset(text, now=NOON, zone=UTC)
    assert reset is not None
    assert reset.at == datetime.fromtimestamp(1778400000, UTC)


def test_a_window_that_is_not_full_says_nothing_of_the_reset() -> None:
    text = (
        '{"primary":{"used_percent":100,"resets_at":1778000000},'
        '"secondary":{"used_percent":15,"resets_at":1778400000}}'
    )
    reset = read_reset(text, now=NOON, zone=UTC)
    assert reset is not None
    assert reset.at == datetime.fromtimestamp(1778000000, UTC)


def test_a_stale_clock_keeps_the_next_one_as_its_other_reading() -> None:
    reset = read_reset("You've hit your session limit · resets 7am", now=NOON, zone=UTC)
    assert reset is not None
    assert (reset.at, reset.other) == (at("2026-05-05T07:00"), at("2026-05-06T07:00"))
    assert reset.note == "already past"


def test_the_words_the_zone_and_the_window_are_told() -> None:
    reset = read_reset(
        "You've hit your weekly limit · resets 3pm (Europe/Berlin) · /upgrade", now=NOON, zone=UTC
    )
    assert reset is not None
    assert (reset.text, reset.zone) == ("resets 3pm (Europe/Berlin)", "Europe/Berlin")
    assert (reset.window, reset.source) == ("weekly", "text")


def test_a_zone_nobody_knows_is_the_agents_own_and_said_so() -> None:
    reset = read_reset("resets 3pm (Etc/Unknown)", now=NOON, zone=BERLIN)
    assert reset is not None
    assert reset.zone == "Europe/Berlin"
    assert "Etc/Unknown" in reset.note


def test_digits_without_a_zone_keep_the_local_reading_as_the_other() -> None:
    reset = read_reset("limit resets at 2026-05-06 04:18:56", now=NOON, zone=BERLIN)
    assert reset is not None
    assert reset.other == at("2026-05-06T02:18:56")


@pytest.mark.parametrize(
    ("text", "hour"),
    [("resets 3 (UTC)", 15), ("resets 12:0…", 12), ("resets May 5 at 4:", 16)],
    ids=["no minutes", "minutes cut off", "dated and cut off"],
)
def test_an_hour_without_its_half_of_the_day_is_the_nearer_one(text: str, hour: int) -> None:
    reset = read_reset(text, now=NOON, zone=UTC)
    assert reset is not None
    assert reset.at == NOON.replace(hour=hour)


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("Please retry in 59s", False),
        ("Please retry in 300 seconds", False),
        ("Please retry in 301s", True),
        ("resets 3pm", True),
        ("try again later", None),
    ],
)
def test_a_wait_of_more_than_five_minutes_is_long(text: str, long: bool | None) -> None:
    assert names_long_wait(text) is long


# --- any text at all ---------------------------------------------------------------------------

_PIECES = (
    *(
        "resets ",
        "reset at ",
        "try again in ",
        "until ",
        "retry-after: ",
        "重置",
        "您的限额将在 ",
        "|",
        "wait ",
    ),
    *("3pm", "15:30", "Oct 9, ", "Mon ", "2026-05-09 17:00", "1778000000", "99999999999999", "2 days ", "5h"),
    *(
        " (Europe/Berlin)",
        " GMT+99",
        " (UTC)",
        "Feb 31 ",
        "0:00 am",
        "57000-01-01",
        "\x1b[2m",
        "\\u00b7",
        "\ud83d",
    ),
    *("session limit ", "weekly ", "{", '"used_percent":100,"resets_at":', "}", "\n", " ", "١٢:٣٠", "³pm"),
)
_ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Pacific/Kiritimati",
)
_texts = st.one_of(
    st.text(),
    st.lists(st.sampled_from(_PIECES), max_size=12).map("".join),
    st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5)), max_size=12).map("".join),
)


@settings(max_examples=600, deadline=None)
@given(
    text=_texts,
    now=st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)),
    zone=st.sampled_from(_ZONES),
    agent=st.sampled_from(("", "claude", "codex", "gemini", "zai-glm", "copilot-cli")),
)
def test_any_text_gives_an_aware_instant_within_a_year_or_nothing(
    text: str, now: datetime, zone: str, agent: str
) -> None:
    reset = read_reset(text, now=now, zone=ZoneInfo(zone), agent=agent)
    if reset is not None:
        for moment in filter(None, (reset.at, reset.other)):
            assert moment.tzinfo is not None
            assert moment <= now + timedelta(days=366)


@settings(max_examples=300, deadline=None)
@given(
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    now=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),
)
def test_a_session_limit_is_never_read_as_more_than_its_window_ahead(
    hour: int, minute: int, now: datetime
) -> None:
    moment = now.replace(tzinfo=NEW_YORK)
    reset = read_reset(f"session limit · resets {hour}:{minute:02}", now=moment, zone=NEW_YORK)
    assert reset is not None
    assert reset.at - moment.astimezone(UTC) <= timedelta(hours=5, minutes=1)


_SEEDS = (
    "resets in 3 ",
    "a",
    "\x1b[",
    "{",
    "1:",
    "reset_",
    "重置",
    "try again at Oct 9, ",
    "resets 2 h ",
    "|",
)


def _seconds(text: str) -> float:
    best = 1e9
    for _ in range(3):
        began = time.perf_counter()
        read_reset(text, now=NOON, zone=UTC)
        best = min(best, time.perf_counter() - began)
    return best


@pytest.mark.parametrize("seed", _SEEDS, ids=repr)
def test_twice_the_text_costs_at_most_about_twice_the_time(seed: str) -> None:
    """A quadratic reader takes four times as long; the ratio leaves room for a busy machine."""
    half = seed * (500_000 // len(seed))
    assert _seconds(half * 2) < 3.5 * _seconds(half) + 0.05


def test_a_megabyte_of_shuffled_words_is_read_like_any_other_text() -> None:
    chance = random.Random(20260505)
    words = ("resets", "at", "3pm", "Oct", "9,", "2", "hours", "limit", "(UTC)", "·", "until", "重置", "|")
    text = " ".join(chance.choices(words, k=200_000))
    reset = read_reset(text, now=NOON, zone=UTC)
    assert reset is None or reset.at <= NOON + timedelta(days=366)
