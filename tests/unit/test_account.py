"""The gate of an account's limit: what one project learned, all know, and one of them tries first."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.simulation.program import WORDINGS
from tests.simulation.provider import Plan, Provider
from tests.simulation.shifts import Scenario, put_together
from tests.simulation.world import Diary, World
from watcher.decision.state import Pause, Wait, WatchState
from watcher.record.account import AGAIN, REFUSAL, Account
from watcher.record.files import Disk
from watcher.watch import Watch

NOW = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
RESET = NOW + timedelta(hours=2)
SECOND = timedelta(seconds=1)


@pytest.fixture
def account(tmp_path: Path) -> Callable[[str], Account]:
    """The gate as one project sees it; each call is another process's own object on the same file."""
    return lambda project: Account(tmp_path / "claude.json", "claude", project, Disk())


def test_an_account_without_a_limit_holds_nobody(account: Callable[[str], Account]) -> None:
    assert account("one").hold(NOW) is None


def test_a_limit_met_by_one_project_holds_the_others_until_then(account: Callable[[str], Account]) -> None:
    account("one").limited(RESET, "resets 8pm (UTC)")
    held = account("two").hold(NOW)
    assert held is not None
    assert held.until == RESET
    assert "resets 8pm (UTC)" in held.why
    assert "met by one" in held.why
    assert account("two").hold(RESET - SECOND) is not None


def test_at_the_reset_the_first_tries_and_the_others_wait_as_long_as_a_refusal_takes(
    account: Callable[[str], Account],
) -> None:
    account("one").limited(RESET, "")
    assert account("two").hold(RESET) is None
    for other in ("one", "three"):
        held = account(other).hold(RESET + SECOND)
        assert held is not None
        assert held.until == RESET + REFUSAL
        assert "two is trying" in held.why


def test_who_tries_is_not_held_by_its_own_try(account: Callable[[str], Account]) -> None:
    account("one").limited(RESET, "")
    assert account("two").hold(RESET) is None
    assert account("two").hold(RESET + SECOND) is None


def test_a_try_that_outlives_a_refusal_lets_the_others_go(account: Callable[[str], Account]) -> None:
    """Also the way on where the one that tried was killed."""
    account("one").limited(RESET, "")
    assert account("two").hold(RESET) is None
    assert account("one").hold(RESET + REFUSAL - SECOND) is not None
    assert [account(name).hold(RESET + REFUSAL) for name in ("one", "three")] == [None, None]


def test_an_answer_to_the_one_that_tried_lets_the_others_go_at_once(
    account: Callable[[str], Account],
) -> None:
    account("one").limited(RESET, "")
    trying = account("two")
    assert trying.hold(RESET) is None
    trying.answered()
    assert account("one").hold(RESET + SECOND) is None


def test_an_answer_to_another_project_opens_nothing(account: Callable[[str], Account]) -> None:
    """Its poke may have begun before the limit was met."""
    account("one").limited(RESET, "")
    account("three").answered()
    assert account("two").hold(NOW) is not None


def test_a_refusal_of_the_one_that_tried_holds_everybody_until_the_new_instant(
    account: Callable[[str], Account],
) -> None:
    account("one").limited(RESET, "")
    trying, later = account("two"), RESET + timedelta(days=2)
    assert trying.hold(RESET) is None
    trying.limited(later, "weekly")
    for name in ("one", "two", "three"):
        held = account(name).hold(RESET + REFUSAL)
        assert held is not None
        assert held.until == later


def test_a_later_instant_that_is_known_already_stays(account: Callable[[str], Account]) -> None:
    week = NOW + timedelta(days=3)
    account("one").limited(week, "weekly")
    account("two").limited(RESET, "5-hour")
    held = account("three").hold(RESET)
    assert held is not None
    assert held.until == week


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_refused_try_is_not_repeated_at_once_though_its_words_say_now(
    account: Callable[[str], Account], name: str
) -> None:
    account("two").limited(RESET, "resets")
    trying = account("one")
    assert trying.hold(RESET) is None
    trying.limited(RESET + SECOND, "a reset that has passed", over=True)
    held = account(name).hold(RESET + 3 * SECOND)
    assert held is not None
    assert held.until == RESET + AGAIN
    assert account(name).hold(RESET + AGAIN) is None


def test_an_instant_that_is_still_ahead_is_taken_as_it_is(account: Callable[[str], Account]) -> None:
    trying = account("one")
    assert trying.hold(RESET) is None
    trying.limited(RESET + 5 * SECOND, "a reset in five seconds")
    assert account("two").hold(RESET + 5 * SECOND) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"until": "2026-11-',
        b"\x00" * 40,
        b'{"until": "next week"}',
        b'{"until": 7}',
        b"[]",
        b"\xff\xfe",
    ],
    ids=["empty", "torn", "torn in a time", "zeros", "no time", "a number", "a list", "no text"],
)
def test_an_unreadable_file_is_an_open_gate_and_can_be_closed_again(
    account: Callable[[str], Account], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "claude.json").write_bytes(content)
    assert account("one").hold(NOW) is None
    account("one").limited(RESET, "")
    assert account("two").hold(NOW) is not None


def test_a_gate_of_an_older_or_a_newer_version_is_read_as_far_as_it_goes(
    account: Callable[[str], Account], tmp_path: Path
) -> None:
    (tmp_path / "claude.json").write_text(f'{{"until": "{RESET.isoformat()}", "colour": "red"}}')
    held = account("one").hold(NOW)
    assert held is not None
    assert held.until == RESET


def test_another_account_is_another_gate(tmp_path: Path) -> None:
    Account(tmp_path / "a.json", "a", "one", Disk()).limited(RESET, "")
    assert Account(tmp_path / "b.json", "b", "two", Disk()).hold(NOW) is None


def test_a_clock_set_back_does_not_hold_for_hours_what_was_meant_for_a_minute(
    account: Callable[[str], Account],
) -> None:
    """The clock was three hours ahead when the gate was closed; then one tries, the others follow."""
    fast = NOW + timedelta(hours=3)
    met = account("one")
    assert met.hold(fast) is None
    met.limited(fast + timedelta(minutes=1), "")
    assert account("two").hold(NOW) is None
    assert account("three").hold(NOW + SECOND) is not None
    assert account("three").hold(NOW + REFUSAL) is None


def test_who_tried_after_a_clock_set_back_puts_the_instant_right(account: Callable[[str], Account]) -> None:
    fast = NOW + timedelta(hours=3)
    met, trying = account("one"), account("two")
    assert met.hold(fast) is None
    met.limited(fast + timedelta(minutes=1), "")
    assert trying.hold(NOW) is None
    trying.limited(NOW + timedelta(minutes=2), "")
    held = account("three").hold(NOW)
    assert held is not None
    assert held.until == NOW + timedelta(minutes=2)


def test_the_clocks_own_small_corrections_open_nothing(account: Callable[[str], Account]) -> None:
    met = account("one")
    assert met.hold(NOW) is None
    met.limited(RESET, "")
    assert account("two").hold(NOW - 5 * SECOND) is not None


def test_a_try_that_a_clock_set_back_puts_in_the_future_is_taken_over(
    account: Callable[[str], Account],
) -> None:
    account("one").limited(NOW, "")
    assert account("one").hold(RESET) is None
    assert account("two").hold(NOW + SECOND) is None


# --- real processes -----------------------------------------------------------------------------


def at_once(number: int, work: Callable[[int], bool]) -> list[bool]:
    """Run `work(i)` in as many processes, let go together; what each answered."""
    go, ready = os.pipe()
    children = []
    for index in range(number):
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.close(ready)
                os.read(go, 1)  # end of file once the parent lets go
                code = 1 if work(index) else 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(go)
    os.close(ready)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(codes) <= {0, 1}
    return [code == 1 for code in codes]


@pytest.mark.parametrize("turn", range(5))
def test_of_processes_that_ask_at_once_exactly_one_tries(
    account: Callable[[str], Account], tmp_path: Path, turn: int
) -> None:
    account("met").limited(RESET, "")
    let_go = at_once(8, lambda index: account(f"project {index}").hold(RESET) is None)
    assert let_go.count(True) == 1
    tried = f"project {let_go.index(True)}"
    assert tried in (tmp_path / "claude.json").read_text()


@pytest.mark.parametrize("turn", range(5))
def test_of_limits_met_at_once_the_latest_stays(account: Callable[[str], Account], turn: int) -> None:
    hours = random.Random(turn).sample(range(1, 100), 8)

    def meets(index: int) -> bool:
        account(f"project {index}").limited(NOW + timedelta(hours=hours[index]), "")
        return True

    assert all(at_once(8, meets))
    held = account("one").hold(NOW)
    assert held is not None
    assert held.until == NOW + timedelta(hours=max(hours))


# --- in a shift ---------------------------------------------------------------------------------


@pytest.fixture
def shift(tmp_path: Path) -> tuple[Watch, WatchState]:
    """A real shift that has not begun, on a clock that stands still."""
    scenario = Scenario(plan=Plan(), wording=WORDINGS["json, zone"], begin=NOW, seed=1)
    world = World(now=NOW.timestamp(), end=RESET.timestamp())
    provider = Provider(
        plan=scenario.plan,
        wording=scenario.wording,
        zone=UTC,
        projects=1,
        begin=world.now,
        end=world.end,
        now=lambda: world.now,
        chance=random.Random(1),
    )
    return put_together(scenario, world, provider, tmp_path / "records", "one", Diary())


def test_a_shift_whose_account_is_limited_waits_before_its_first_poke(
    shift: tuple[Watch, WatchState],
) -> None:
    watch, state = shift
    watch.account.limited(RESET, "resets 8pm (UTC)")
    state = watch.sit_out(state)
    assert state.wait is not None
    assert (state.wait.pause, state.wait.until) == (Pause.ACCOUNT, RESET)
    assert watch.journal.load() == state


@pytest.mark.parametrize("pause", [None, Pause.LIMIT, Pause.ACCOUNT], ids=str)
def test_a_wake_passes_the_gate_once(shift: tuple[Watch, WatchState], pause: Pause | None) -> None:
    watch, state = shift
    watch.account.limited(RESET, "")
    if pause is not None:
        state = replace(state, wait=Wait(until=RESET, pause=pause, why=""))
    watch.inbox.post(signal.SIGUSR1)
    assert watch.sit_out(state).wait is None
    assert watch.sit_out(replace(state, wait=None)).wait is not None
