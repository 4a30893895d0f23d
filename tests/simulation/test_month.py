"""A simulated month: how much of the possible agent time is used, over limits, trouble and bad clocks.

Shown by `pytest -rP tests/simulation`. Three numbers must hold for every month: at least 99 % of the
possible agent time is used, at most one poke a window and account is wasted on finding out that the
limit still holds, and after a reset somebody works again within the margin and a minute. The pauses
between pokes and the margin itself count as lost. Where ten projects share an account, fewer days
are played.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.figures import Figures, common, complement, figures, union
from tests.simulation.program import DAY, WORDINGS
from tests.simulation.provider import HOUR, MINUTE, Plan, Provider, Quota
from tests.simulation.shifts import Played, Scenario, play
from tests.simulation.world import World
from watcher.agents.claude import Claude
from watcher.record.account import Account
from watcher.response import Response
from watcher.watch import Watch

SHARE = 0.99
WASTED = 1
GAP_S = 120 + 60  # the margin of the default configuration, and a minute

AUTUMN = datetime(2026, 10, 10, tzinfo=UTC)
SPRING = datetime(2027, 3, 5, tzinfo=UTC)
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
# Resets at a quarter or half of the hour that comes twice, the second time, and of the one after the gap.
PINS = {
    (AUTUMN, BERLIN): datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    (AUTUMN, NEW_YORK): datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    (SPRING, BERLIN): datetime(2027, 3, 28, 1, 15, tzinfo=UTC),
    (SPRING, NEW_YORK): datetime(2027, 3, 14, 7, 15, tzinfo=UTC),
}
# The week is used up before the night of the change and comes back after it, mostly announced by its date.
WEEKS: dict[str, Any] = {"week_h": 90.0, "week_at": 3.3 * DAY, "pinned": ()}
TROUBLES: dict[str, Any] = {
    "outages": 3,
    "overloads_a_week": 3,
    "throttles_a_day": 1.5,
    "hangs_a_week": 0.7,
    "full_after": 40,
    "tight": 0.4,
}
TROUBLED = frozenset({"progress", "no_change", "limit", "transient", "timed_out", "context"})


def suspends(world: World, quota: Quota, number: int) -> None:
    """In every second wait the machine is suspended: until before the reset, past it, twice shortly."""
    now = world.now
    if number % 2 or quota.reset - now < HOUR:
        return
    spans = (
        [(now + 10 * MINUTE, quota.reset - 10 * MINUTE)],
        [(now + 10 * MINUTE, quota.reset + 50 * MINUTE)],
        [(now + 10 * MINUTE, now + 14 * MINUTE), (quota.reset - 5 * MINUTE, quota.reset + 30)],
    )
    world.off.extend(spans[number // 2 % 3])


def corrected_clock(world: World, quota: Quota, number: int) -> None:
    """A clock that is slow or a little fast is set right in a wait; in others it leaps back for a while."""
    now = world.now
    if number % 2:
        world.wrong += [(now + 10 * MINUTE, 0.0), (quota.reset + HOUR, (-3 * HOUR, -600.0, 90.0)[number % 3])]
    else:
        world.wrong += [(now + 5 * MINUTE, -3 * HOUR), (now + 10 * MINUTE, 0.0)]


def leaping_clock(world: World, quota: Quota, number: int) -> None:
    """In every second wait the clock leaps three hours ahead, and back a minute later."""
    if number % 2:
        world.wrong += [(world.now + 5 * MINUTE, 3 * HOUR), (world.now + 6 * MINUTE, 0.0)]


def set_back_in_outages(world: World, provider: Provider) -> None:
    """The clock is an hour fast, and set right while the provider is down."""
    for trouble in provider.troubles:
        if trouble.kind == "outage":
            world.wrong += [(trouble.begin - HOUR, HOUR), (trouble.end - 5 * MINUTE, 0.0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """A scenario, what must be met in it, and where it may differ from the three numbers."""

    scenario: Scenario
    holds: frozenset[str] = frozenset({"progress", "no_change", "limit"})
    wasted: int = WASTED
    gap_s: float = GAP_S


def month(
    wording: str,
    *,
    begin: datetime = AUTUMN,
    zone: str = BERLIN,
    seed: int = 1,
    days: float = 30,
    projects: int = 1,
    more: dict[str, Any] | None = None,
    **plan: Any,
) -> Scenario:
    return Scenario(
        plan=Plan(**{"pinned": (PINS[begin, zone],), **plan}),
        wording=WORDINGS[wording],
        zone=zone,
        begin=begin,
        days=days,
        projects=projects,
        seed=seed,
        **(more or {}),
    )


MONTHS = {
    "autumn, Berlin, json with zone": Month(scenario=month("json, zone")),
    "autumn, New York, json without zone": Month(scenario=month("json, no zone", zone=NEW_YORK, seed=2)),
    "spring, Berlin, json without zone": Month(scenario=month("json, no zone", begin=SPRING, seed=3)),
    "spring, New York, event without epoch": Month(
        scenario=month("stream, no epoch", begin=SPRING, zone=NEW_YORK, seed=4)
    ),
    "weeks, event with epoch": Month(scenario=month("stream, epoch", seed=5, **WEEKS)),
    "weeks, a date with at": Month(scenario=month("json, limit unnamed", zone=NEW_YORK, seed=6, **WEEKS)),
    "weeks, a date without zone": Month(scenario=month("json, no zone", begin=SPRING, seed=7, **WEEKS)),
    "weeks, epoch in the text": Month(scenario=month("json, old epoch", seed=8, **WEEKS)),
    "trouble of every kind, stream": Month(
        scenario=month("stream, epoch", seed=9, **TROUBLES), holds=TROUBLED
    ),
    "trouble of every kind, json": Month(
        scenario=month("json, zone", zone=NEW_YORK, begin=SPRING, seed=10, **TROUBLES), holds=TROUBLED
    ),
    "limits lifted late": Month(scenario=month("json, zone", seed=11, late_s=120)),
    "stale words after the reset": Month(
        scenario=month("json, no zone", begin=SPRING, seed=12, stale=0.5),
    ),
    "a suspended machine": Month(scenario=month("stream, epoch", seed=13, more={"on_limit": suspends})),
    "a clock set right": Month(
        scenario=month("json, zone", begin=SPRING, seed=19, more={"on_limit": corrected_clock})
    ),
    "ten projects, weeks and trouble": Month(
        scenario=month("stream, epoch", seed=15, days=8, projects=10, **WEEKS, **TROUBLES | {"outages": 1}),
        holds=TROUBLED,
    ),
    "ten projects, late and stale": Month(
        scenario=month("json, zone", seed=16, days=5, projects=10, late_s=120, stale=0.2)
    ),
}


@contextmanager
def place() -> Iterator[Path]:
    """In memory where that can be: a month is tens of thousands of files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as path:
        yield Path(path)


@pytest.fixture
def records() -> Iterator[Path]:
    with place() as path:
        yield path


@pytest.fixture(scope="module", params=MONTHS, ids=lambda name: f"{name}, seed {MONTHS[name].scenario.seed}")
def played(request: pytest.FixtureRequest) -> tuple[Month, Played, Figures]:
    this = MONTHS[request.param]
    with place() as path:
        result = play(this.scenario, path)
    return this, result, told(request.param, result)


def told(name: str, played: Played) -> Figures:
    found, scenario = figures(played), played.scenario
    low, high = scenario.plan.poke_min
    print(f"{name}: {scenario.projects} projects, {scenario.days:g} days, pokes of {low:g} to {high:g} min")
    print(f"  {found}")
    return found


def test_the_agents_use_what_they_could(played: tuple[Month, Played, Figures]) -> None:
    _, _, found = played
    assert found.share >= SHARE, str(found)


def test_a_window_wastes_at_most_one_poke(played: tuple[Month, Played, Figures]) -> None:
    this, _, found = played
    assert found.wasted_most <= this.wasted, str(found)


def test_after_a_reset_somebody_works_soon(played: tuple[Month, Played, Figures]) -> None:
    this, _, found = played
    assert found.resets > 0
    assert found.gap_s <= this.gap_s, str(found)


def test_the_month_held_what_it_is_about_and_no_run_ended(played: tuple[Month, Played, Figures]) -> None:
    this, result, found = played
    assert set(result.exit_codes) == {143}, result.last_words
    assert this.holds <= set(result.outcomes)
    assert found.limits >= 5
    plan, used_up = this.scenario.plan, result.provider.used_up
    end = datetime.fromtimestamp(result.world.end, UTC)
    met = {quota.reset for quota in used_up}
    assert {pin.timestamp() for pin in plan.pinned if pin < end} <= met
    night = PINS[this.scenario.begin, this.scenario.zone].timestamp()
    over_it = any(quota.weekly and (quota.used_up_at or 0) < night < quota.reset for quota in used_up)
    assert over_it == (plan.week_h < 168 and night < result.world.end)
    assert bool(result.world.off) == (this.scenario.on_limit is suspends)
    assert bool(result.world.wrong) == (this.scenario.on_limit is corrected_clock)


# --- clocks that are badly wrong ----------------------------------------------------------------


def test_a_leap_ahead_and_back_in_a_wait_costs_a_few_pokes_and_no_time(records: Path) -> None:
    found = told(
        "leaping clock",
        play(month("stream, epoch", seed=17, days=10, more={"on_limit": leaping_clock}), records),
    )
    assert found.share >= SHARE
    assert found.gap_s <= GAP_S
    assert found.wasted_most <= 3  # while the clock is wrong nobody can know better


def test_a_clock_set_back_in_an_outage_does_not_stretch_the_wait(records: Path) -> None:
    scenario = month(
        "stream, epoch",
        seed=18,
        days=12,
        tight=0,
        outages=4,
        pinned=(),
        more={"arrange": set_back_in_outages},
    )
    assert told("clock set back in outages", play(scenario, records)).share >= SHARE


# --- each number can be red ---------------------------------------------------------------------


class NoGate(Account):
    """Every project for itself."""

    def hold(self, now: datetime) -> None:
        del now


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeless(Claude):
    """Reads everything but the time of a reset: what is left is the fixed hour."""

    def read(self, stdout: Path, *, limit: int | None, stderr: str) -> Response:
        response = Claude.read(self, stdout, limit=limit, stderr=stderr)
        text = response.text.partition(" · resets")[0]
        return dataclasses.replace(response, text=text, rate_limit=None)


def without_gate(shift: Watch) -> None:
    path = shift.journal.run.path.parents[2] / "accounts" / "none.json"
    shift.account = NoGate(path, "none", str(shift.agent.project), shift.journal.run.disk)


def fixed_hour(shift: Watch) -> None:
    shift.agent = dataclasses.replace(shift.agent, profile=Timeless())


def zone_ignored(shift: Watch) -> None:
    shift.policy = dataclasses.replace(shift.policy, zone=UTC)


def hour_after_stale_words(shift: Watch) -> None:
    shift.policy = dataclasses.replace(shift.policy, stale_wait=timedelta(hours=1))


def no_wait_after_stale_words(shift: Watch) -> None:
    without_gate(shift)  # which would hold the next try back as well
    shift.policy = dataclasses.replace(shift.policy, stale_wait=timedelta(seconds=1))


def long_pauses(shift: Watch) -> None:
    shift.policy = dataclasses.replace(shift.policy, pause=timedelta(seconds=20))


BROKEN = {
    "the gate is off": (
        month("json, zone", seed=20, days=3, projects=10, late_s=120),
        without_gate,
        {"wasted"},
    ),
    "a fixed hour": (month("json, zone", seed=21, days=5), fixed_hour, {"share", "gap"}),
    "the zone is ignored": (month("json, no zone", seed=22, days=5), zone_ignored, {"share", "gap"}),
    "an hour after stale words": (
        month("json, zone", seed=23, days=5, stale=0.5),
        hour_after_stale_words,
        {"share", "gap"},
    ),
    "no wait after stale words": (
        month("json, zone", seed=24, days=5, late_s=120),
        no_wait_after_stale_words,
        {"wasted"},
    ),
    "long pauses": (month("json, zone", seed=25, days=5), long_pauses, {"share"}),
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda name: f"{name}, seed {BROKEN[name][0].seed}")
def test_a_broken_policy_is_red(broken: str, records: Path) -> None:
    scenario, bent, red = BROKEN[broken]
    found = told(broken, play(dataclasses.replace(scenario, bent=bent), records))
    is_red = {"share": found.share < SHARE, "wasted": found.wasted_most > WASTED, "gap": found.gap_s > GAP_S}
    assert {name for name in red if is_red[name]} == red, str(found)
    sound = told(f"{broken}: not so", play(scenario, records / "sound"))
    assert (sound.share >= SHARE, sound.wasted_most <= WASTED) == (True, True), str(sound)


def test_the_same_seed_is_the_same_month(records: Path) -> None:
    scenario = month("json, zone", seed=30, days=2, projects=3, **TROUBLES)
    first, second = (figures(play(scenario, records / name)) for name in ("first", "second"))
    assert first == second


def test_spans_of_time_are_counted_right() -> None:
    spans = union([(5, 7), (1, 3), (2, 4), (9, 9)])
    assert spans == [(1, 4), (5, 7)]
    assert complement(spans, 0, 10) == [(0, 1), (4, 5), (7, 10)]
    assert complement(spans, 2, 6) == [(4, 5)]
    assert common(spans, [(3, 6)]) == [(3, 4), (5, 6)]
