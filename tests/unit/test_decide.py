"""The watch shift's rules, one claim each, without a clock or a process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from watcher.decision.decide import decide
from watcher.decision.endings import Ending
from watcher.decision.outcome import Answer, Ended, Outcome
from watcher.decision.state import Decision, Observation, Pause, Policy, Revision, Session, WatchState
from watcher.response import RateLimit, Response, Verdict

NOW = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
OLD = Revision(tip="a" * 40, tree="1" * 40)
NEW = Revision(tip="b" * 40, tree="2" * 40)
ID = "6a1f3e52-8d07-4a0e-9b1e-0a4f7c9d2b11"


def policy(**changes: Any) -> Policy:
    numbers: dict[str, Any] = {
        "stall_limit": 3,
        "poke_limit": 0,
        "hours": None,
        "cap_usd": None,
        "pause": timedelta(seconds=2),
        "sentinel": "ALL-TASKS-DONE",
        "reset_margin": timedelta(seconds=120),
        "fixed_wait": timedelta(hours=1),
        "far_reset": timedelta(days=8),
        "far_probe": timedelta(hours=4),
        "stale_wait": timedelta(seconds=45),
        "error_first": timedelta(seconds=10),
        "error_max": timedelta(minutes=15),
        "error_limit": 10,
        "transient_first": timedelta(seconds=30),
        "transient_max": timedelta(minutes=15),
        "transient_limit": timedelta(hours=6),
        "human_every": timedelta(minutes=15),
        "human_limit": timedelta(hours=12),
        "cap_limit": 25,
        "context_limit": 2,
        "allow_paid_overage": False,
        "agent": "claude",
        "zone": UTC,
    }
    return Policy(**(numbers | changes))


def state(**changes: Any) -> WatchState:
    start = WatchState(
        run="r",
        began_at=NOW - timedelta(hours=1),
        branch="main",
        pokes=1,
        session=Session(id=ID, begun=True),
        revision=OLD,
        seen=(OLD.tree,),
    )
    return replace(start, **changes)


def success(text: str = "worked on it", **fields: Any) -> Response:
    facts = {"verdict": Verdict.SUCCESS, "subtype": "success", "text": text, "turns": 3, "session_id": ID}
    return Response(**(facts | fields))


def failure(text: str = "", subtype: str = "success", **fields: Any) -> Response:
    facts = {"verdict": Verdict.FAILURE, "subtype": subtype, "is_error": True, "text": text, "session_id": ID}
    return Response(**(facts | fields))


def seen(
    response: Response, revision: Revision | None = OLD, *, resumed: bool = True, **fields: Any
) -> Observation:
    told = {key: fields.pop(key) for key in ("open_tasks", "cost_is_cumulative") if key in fields}
    return Observation(answer=Answer(response=response, resumed=resumed, **fields), revision=revision, **told)


LIMIT = "You've hit your 5-hour limit · resets 8:00pm (UTC)"


def after(*answers: Observation, start: WatchState | None = None, **changes: Any) -> Decision:
    """Play several pokes, each as long after the last as its wait says."""
    now, current = NOW, start or state()
    for answer in answers:
        decision = decide(policy(**changes), replace(current, pokes=current.pokes + 1), answer, now)
        current = decision.state
        now = current.wait.until if current.wait else now
    return decision


def wait_s(decision: Decision, since: datetime = NOW) -> float:
    assert decision.state.wait is not None
    return (decision.state.wait.until - since).total_seconds()


def test_three_talks_without_a_revision_are_a_stall() -> None:
    decision = after(*[seen(success())] * 3)
    assert decision.outcome is Outcome.NO_CHANGE
    assert decision.state.ending is Ending.STALLED


def test_a_revision_starts_the_stall_counter_again() -> None:
    decision = after(*[seen(success())] * 2, seen(success(), NEW), *[seen(success(), NEW)] * 2)
    assert decision.state.stalls == 2
    assert decision.state.ending is None


def test_waiting_for_a_reset_is_not_a_stall() -> None:
    decision = after(*[seen(success())] * 2, seen(failure(LIMIT)))
    assert decision.outcome is Outcome.LIMIT
    assert (decision.state.stalls, decision.state.errors) == (2, 0)
    assert decision.state.session is None


def test_the_error_flag_is_looked_at_before_the_sentinel_and_the_stall_counter() -> None:
    assert after(seen(failure("ALL-TASKS-DONE"))).outcome is Outcome.ERROR
    assert after(seen(failure(LIMIT)), start=state(stalls=2)).state.ending is None


def test_a_limit_waits_to_its_reset_and_the_margin() -> None:
    decision = after(seen(failure(LIMIT)))
    assert wait_s(decision) == 2 * 3600 + 120
    assert "8:00pm" in decision.state.wait.why  # type: ignore[union-attr]


def test_a_limit_without_a_time_waits_the_fixed_hour() -> None:
    assert wait_s(after(seen(failure("You've hit your limit")))) == 3600


def test_a_rejected_event_gives_the_reset_as_an_instant() -> None:
    event = RateLimit(status="rejected", resets_at=NOW + timedelta(minutes=10), window="five_hour")
    assert wait_s(after(seen(failure("You've hit your 5-hour limit", rate_limit=event)))) == 720


def test_the_same_words_after_their_time_are_stale() -> None:
    first = after(seen(failure(LIMIT)))
    again = decide(policy(), first.state, seen(failure(LIMIT)), NOW + timedelta(hours=2, seconds=125))
    assert wait_s(again, NOW + timedelta(hours=2, seconds=125)) == 45


def test_a_reset_weeks_away_is_for_a_person_and_probed() -> None:
    event = RateLimit(status="rejected", resets_at=NOW + timedelta(days=20))
    decision = after(seen(failure("You've hit your limit", rate_limit=event)))
    assert wait_s(decision) == 4 * 3600
    assert decision.alert


def test_going_back_to_a_tree_this_run_has_had_is_no_progress() -> None:
    back = Revision(tip="c" * 40, tree=OLD.tree)
    decision = after(seen(success(), NEW), seen(success(), back))
    assert decision.outcome is Outcome.NO_CHANGE
    assert decision.state.stalls == 1


def test_an_unreadable_branch_is_an_error_and_never_progress() -> None:
    blind = after(seen(success(), None))
    assert (blind.outcome, blind.progress) == (Outcome.ERROR, False)
    assert after(*[seen(success(), None)] * 10).state.ending is Ending.UNUSABLE


def test_a_branch_that_could_not_be_read_once_does_not_start_the_stall_counter_again() -> None:
    decision = after(*[seen(success())] * 2, seen(success(), None), seen(success()))
    assert decision.state.ending is Ending.STALLED


def test_a_commit_made_in_a_cut_turn_is_progress() -> None:
    decision = after(seen(failure(subtype="error_max_turns"), NEW), start=state(stalls=2, caps=7))
    assert decision.outcome is Outcome.TURN_CAP
    assert decision.progress
    assert (decision.state.stalls, decision.state.caps) == (0, 0)


def test_a_productive_poke_that_ran_out_of_time_is_no_error() -> None:
    decision = after(seen(Response(), NEW, ended=Ended.DEADLINE), start=state(errors=4))
    assert decision.outcome is Outcome.TIMED_OUT
    assert (decision.state.errors, wait_s(decision)) == (0, 2)


def test_an_idle_poke_that_ran_out_of_time_keeps_the_session_and_climbs_the_ladder() -> None:
    decision = after(seen(Response(), ended=Ended.DEADLINE))
    assert (decision.state.errors, wait_s(decision)) == (1, 10)
    assert decision.state.session == Session(id=ID, begun=True)


def test_the_error_ladder_doubles_to_a_quarter_of_an_hour_and_ends_at_ten() -> None:
    lengths, current, now = [], state(), NOW
    while current.ending is None:
        current = decide(policy(), current, seen(failure("tool crashed")), now).state
        if current.wait:
            lengths.append((current.wait.until - now).total_seconds())
            now = current.wait.until
    assert lengths == [10, 20, 40, 80, 160, 320, 640, 900, 900]
    assert current.ending is Ending.UNUSABLE


def test_one_success_ends_every_ladder() -> None:
    worn = state(errors=9, transients=3, transient_since=NOW, humans=2, human_since=NOW, contexts=1, lost=1)
    calm = after(seen(success(), NEW), start=worn).state
    assert (calm.errors, calm.transients, calm.humans, calm.contexts, calm.lost) == (0, 0, 0, 0, 0)
    assert (calm.transient_since, calm.human_since) == (None, None)


def test_provider_trouble_backs_off_on_the_same_session_and_ends_after_hours() -> None:
    overloaded = seen(failure("API Error: 529 Overloaded.", api_status=529))
    first = after(overloaded)
    assert (first.outcome, wait_s(first), first.state.session) == (Outcome.TRANSIENT, 30, state().session)
    late = decide(policy(), first.state, overloaded, NOW + timedelta(hours=6))
    assert late.state.ending is Ending.UNUSABLE


def test_a_full_conversation_is_dropped() -> None:
    decision = after(seen(failure("Prompt is too long")))
    assert (decision.outcome, decision.state.session) == (Outcome.CONTEXT, None)


def test_two_fresh_sessions_too_long_at_once_are_unusable() -> None:
    decision = after(*[seen(failure("Prompt is too long"), resumed=False)] * 2)
    assert decision.state.ending is Ending.UNUSABLE


def test_a_lost_session_is_replaced_at_once_and_lost_twice_is_an_error() -> None:
    lost = seen(Response(), stderr=f"No conversation found with session ID: {ID}\n", exit_code=1)
    first = after(lost)
    assert (first.outcome, first.state.session, wait_s(first)) == (Outcome.SESSION_LOST, None, 2)
    assert after(lost, lost).outcome is Outcome.ERROR


def test_an_id_in_use_is_resumed() -> None:
    used = seen(Response(), stderr=f"Error: Session ID {ID} is already in use.\n", exit_code=1, resumed=False)
    assert after(used).state.session == Session(id=ID, begun=True)


def test_a_person_is_told_once_and_given_twelve_hours() -> None:
    login = seen(failure("Not logged in · Please run /login"))
    first, second = after(login), after(login, login)
    assert (first.outcome, wait_s(first), bool(first.alert)) == (Outcome.NEEDS_HUMAN, 900, True)
    assert not second.alert
    assert decide(policy(), first.state, login, NOW + timedelta(hours=12)).state.ending is Ending.UNUSABLE


def test_cut_turns_without_a_revision_are_bounded() -> None:
    decision = after(seen(failure(subtype="error_max_turns")), start=state(caps=24))
    assert decision.state.ending is Ending.STALLED


def test_an_old_program_cuts_a_turn_without_the_error_flag() -> None:
    old = Response(verdict=Verdict.FAILURE, subtype="error_max_turns", session_id=ID)
    assert after(seen(old)).outcome is Outcome.TURN_CAP


@pytest.mark.parametrize(
    "text",
    [
        "ALL-TASKS-DONE",
        "\nALL-TASKS-DONE\n",
        "**ALL-TASKS-DONE**",
        "`ALL-TASKS-DONE`.",
        "Nothing left.\nALL-TASKS-DONE",
    ],
    ids=["alone", "with newlines", "bold", "code", "on its own line"],
)
def test_the_sentinel_is_one_whole_line(text: str) -> None:
    assert after(seen(success(text))).state.ending is Ending.DONE


@pytest.mark.parametrize(
    "text",
    ["I will not output ALL-TASKS-DONE yet", "all-tasks-done", "ALL-TASKS-DONE is what I say at the end", ""],
    ids=["negated", "lower case", "in prose", "empty"],
)
def test_anything_else_is_not_the_sentinel(text: str) -> None:
    assert after(seen(success(text))).outcome is Outcome.NO_CHANGE


def test_a_claim_the_task_list_contradicts_is_false() -> None:
    decision = after(seen(success("ALL-TASKS-DONE"), open_tasks=("T-102",)))
    assert decision.outcome is Outcome.NO_CHANGE
    assert "T-102" in decision.because
    with_work = after(seen(success("ALL-TASKS-DONE"), NEW, open_tasks=("T-102",)))
    assert with_work.outcome is Outcome.PROGRESS


def test_an_unknown_subtype_ends_the_run() -> None:
    odd = Response(verdict=Verdict.FAILURE, subtype="error_of_the_future")
    assert after(seen(odd)).state.ending is Ending.UNUSABLE


def test_an_interrupted_poke_counts_for_nothing() -> None:
    decision = after(seen(Response(), ended=Ended.STOPPED), start=state(stalls=2, errors=9), poke_limit=1)
    assert decision.outcome is Outcome.INTERRUPTED
    assert (decision.state.stalls, decision.state.errors, decision.state.counted) == (2, 9, 0)
    assert decision.state.ending is None


def test_a_complete_result_before_our_signal_decides() -> None:
    assert after(seen(success(), NEW, ended=Ended.STOPPED)).outcome is Outcome.PROGRESS


def test_the_poke_limit_is_exact_and_comes_before_a_wait() -> None:
    assert after(seen(success(), NEW), poke_limit=2).state.ending is None
    assert after(seen(success(), NEW), seen(success(), NEW), poke_limit=2).state.ending is Ending.CEILING
    assert after(seen(failure(LIMIT)), poke_limit=1).state.ending is Ending.CEILING


def test_a_ceiling_never_hides_a_real_ending() -> None:
    assert after(seen(success("ALL-TASKS-DONE")), poke_limit=1).state.ending is Ending.DONE


def test_hours_and_dollars_are_ceilings() -> None:
    assert after(seen(failure(LIMIT)), hours=timedelta(hours=2)).state.ending is Ending.CEILING
    assert after(seen(success(cost_usd=3.0)), cap_usd=3.0).state.ending is Ending.CEILING


def test_a_total_over_the_session_is_booked_as_its_growth() -> None:
    first = seen(success(cost_usd=0.5), NEW, resumed=False, cost_is_cumulative=True)
    second = seen(success(cost_usd=0.8), NEW, cost_is_cumulative=True)
    assert after(first, second).state.spent_usd == pytest.approx(0.8)


def test_a_cost_of_unknown_kind_is_read_as_the_larger() -> None:
    first = seen(success(cost_usd=0.5), NEW, resumed=False)
    assert after(first, seen(success(cost_usd=0.8), NEW)).state.spent_usd == pytest.approx(1.3)


def test_paid_extra_usage_waits_for_the_plan_unless_allowed() -> None:
    event = RateLimit(status="allowed", resets_at=NOW + timedelta(hours=1), using_overage=True)
    paid = seen(success(rate_limit=event), NEW)
    decision = after(paid)
    assert (decision.outcome, wait_s(decision)) == (Outcome.PROGRESS, 3720)
    assert decision.state.wait.pause is Pause.OVERAGE  # type: ignore[union-attr]
    assert wait_s(after(paid, allow_paid_overage=True)) == 2


def test_refused_tools_are_named_in_a_stall() -> None:
    decision = after(*[seen(success(denials=("Bash",)))] * 3)
    assert "Bash" in decision.state.because


def test_an_empty_poke_is_named() -> None:
    assert "empty" in after(seen(success("", turns=0), NEW)).because
    assert after(seen(success("", turns=0), NEW)).outcome is Outcome.NO_CHANGE
