"""What `decide` and the readers promise of every case, tried on cases nobody thought of (DESIGN 2, 3)."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from msgspec.structs import replace

from tests.unit.test_decide import ID, NEW, NOW, OLD, policy
from watcher.agents.readers import OTHERS, Reader, reader
from watcher.decision.classify import classify, usable_id
from watcher.decision.decide import ceiling, decide
from watcher.decision.endings import WATCH, Ending
from watcher.decision.moves import MOVES
from watcher.decision.outcome import Answer, Ended, Outcome
from watcher.decision.sentinel import says
from watcher.decision.state import (
    InFlight,
    Observation,
    Pause,
    Policy,
    Revision,
    Session,
    WatchState,
)
from watcher.response import RateLimit, Response, Verdict

DATA = Path(__file__).parents[1] / "data"
SENTINEL = "ALL-TASKS-DONE"
DAY = 86_400


# --- the cases ----------------------------------------------------------------------------------


def span(low: int, high: int) -> st.SearchStrategy[timedelta]:
    return st.integers(low, high).map(lambda seconds: timedelta(seconds=seconds))


def corpus() -> list[str]:
    lines = (DATA / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


LOST = [f"No conversation found with session ID: {ID}", f"Error: Session ID {ID} is already in use."]
WORDS = st.sampled_from(["worked", SENTINEL, f"Nothing left.\n**{SENTINEL}**", f"not yet {SENTINEL}"])
ERRORS = st.sampled_from(corpus()) | st.sampled_from(LOST) | st.text(max_size=30)
TEXTS = st.just("") | WORDS | ERRORS
QUIET = st.just("") | st.just("") | ERRORS
INSTANTS = st.builds(NOW.__add__, span(-2 * DAY, 30 * DAY) | span(-400 * DAY, 20_000 * DAY))
LATELY = st.builds(NOW.__add__, span(-2 * DAY, DAY))  # of our own clock, which may have been set back
IDS = st.none() | st.sampled_from([ID, "other-id", "", "--settings", "$(touch pwned)", "a\nb", "A" * 10_000])
DOLLARS = st.floats(0, 100)
REVISIONS = st.sampled_from(
    [None, OLD, NEW, Revision(tip="c" * 40, tree=OLD.tree), Revision(tip="", tree="")]
)
LIMITS = st.builds(
    RateLimit,
    status=st.sampled_from(["allowed", "allowed_warning", "rejected", "later"]),
    resets_at=st.none() | INSTANTS,
    window=st.sampled_from(["", "five_hour", "seven_day", "seven_day_opus", "overage"]),
    using_overage=st.booleans(),
)
PAID = st.builds(
    RateLimit, status=st.just("allowed"), resets_at=st.none() | INSTANTS, using_overage=st.just(True)
)


def consistent(response: Response) -> Response:
    """As the reader makes them: the verdict follows from subtype and flag."""
    if response.verdict is Verdict.NONE:
        return dataclasses.replace(response, subtype="", is_error=False, text="", turns=None)
    success = response.subtype == "success" and not response.is_error
    return dataclasses.replace(response, verdict=Verdict.SUCCESS if success else Verdict.FAILURE)


USUAL = st.builds(
    Response,
    verdict=st.just(Verdict.SUCCESS),
    subtype=st.just("success"),
    text=st.just("") | WORDS,
    session_id=IDS,
    rate_limit=st.none() | PAID | LIMITS,
    turns=st.sampled_from([None, 0, 3]),
    cost_usd=st.none() | DOLLARS,
    denials=st.sampled_from([(), ("Bash",), ("Bash", "Write")]),
)
FLAGGED = st.builds(dataclasses.replace, USUAL, is_error=st.just(True), text=ERRORS).map(consistent)
CUT = st.builds(
    dataclasses.replace,
    USUAL,
    subtype=st.sampled_from(["error_max_turns", "error_max_budget_usd", "error_during_execution"])
    | st.sampled_from(["rate_limited", "error_of_the_future"]),
    rate_limit=st.none(),
).map(consistent)
ANY = st.builds(
    Response,
    verdict=st.sampled_from(Verdict),
    subtype=st.sampled_from(["success", "error_max_turns", "error", ""]),
    is_error=st.booleans(),
    text=TEXTS,
    session_id=IDS,
    terminal_reason=st.sampled_from(["", "completed", "aborted_tools", "blocking_limit"]),
    api_error=st.sampled_from(["", "overloaded", "rate_limit", "invalid_request"]),
    api_status=st.sampled_from([None, 200, 400, 401, 429, 500, 529]),
    rate_limit=st.none() | LIMITS,
    reset_at=st.none() | INSTANTS,
    cost_usd=st.none() | DOLLARS,
    plain=QUIET,
    document=st.sampled_from([{}, {"a": 1}, {"error": "no"}]),
).map(consistent)
ANSWERS = [
    st.builds(
        Answer,
        response=responses,
        ended=st.sampled_from([Ended.ITSELF] * 9 + list(Ended)),
        exit_code=st.sampled_from([None, 0, 1, 2, -9, 137]),
        stderr=QUIET,
        resumed=st.booleans(),
    )
    for responses in (USUAL, FLAGGED, CUT, ANY)
]
KILLED = st.builds(
    Answer, response=st.builds(Response, session_id=IDS), ended=st.sampled_from(Ended), resumed=st.booleans()
)
SEEN = st.builds(
    Observation,
    answer=st.one_of(*ANSWERS, KILLED),
    revision=REVISIONS,
    open_tasks=st.sampled_from([(), ("T-101",)]),
    cost_is_cumulative=st.sampled_from([None, False, True]),
)
COUNTS = st.integers(0, 3) | st.integers(0, 12)
STATES = st.builds(
    WatchState,
    run=st.just("r"),
    began_at=LATELY,
    branch=st.just("main"),
    pokes=st.integers(1, 50),
    counted=COUNTS,
    session=st.none() | st.builds(Session, id=st.just(ID), begun=st.booleans()),
    stalls=COUNTS,
    errors=COUNTS,
    transients=st.integers(0, 1000),
    transient_since=st.none() | LATELY,
    humans=COUNTS,
    human_since=st.none() | LATELY,
    contexts=COUNTS,
    lost=COUNTS,
    caps=COUNTS,
    limit_words=st.sampled_from(["", "resets 3pm", "resets 8:00pm (UTC)"]),
    limit_at=st.none() | LATELY,
    stales=st.integers(0, 100),
    revision=REVISIONS,
    seen=st.sampled_from([(), (OLD.tree,), (OLD.tree, NEW.tree)]),
    spent_usd=DOLLARS,
    session_usd=DOLLARS,
    in_flight=st.none()
    | st.builds(InFlight, poke=st.integers(1, 50), started_at=LATELY, marker=st.just("r/1")),
)


def _ordered(numbers: dict[str, Any]) -> Policy:
    """Policy with no ladder that begins above its top, as the configuration has it."""
    for name in ("error", "transient"):
        numbers[f"{name}_max"] = max(numbers[f"{name}_first"], numbers[f"{name}_max"])
    return policy(**numbers)


POLICIES = st.fixed_dictionaries(
    {
        "stall_limit": st.integers(1, 9),
        "poke_limit": st.sampled_from([*[0] * 9, 1, 3, 12]),
        "hours": st.sampled_from([*[None] * 9, timedelta(hours=1), timedelta(days=3)]),
        "cap_usd": st.sampled_from([*[None] * 9, 0.01, 5.0, 99.0]),
        "pause": span(0, 60),
        "reset_margin": span(0, 600),
        "fixed_wait": span(1, DAY),
        "far_reset": span(1, 30 * DAY),
        "far_probe": span(1, DAY),
        "stale_wait": span(1, 3600),
        "error_first": span(1, 900),
        "error_max": span(1, 3600),
        "error_limit": st.integers(1, 12),
        "transient_first": span(1, 900),
        "transient_max": span(1, 3600),
        "transient_limit": span(1, 9 * DAY),
        "human_every": span(1, 3600),
        "human_limit": span(1, 9 * DAY),
        "cap_limit": st.integers(1, 25),
        "context_limit": st.integers(1, 5),
        "allow_paid_overage": st.booleans(),
        "agent": st.sampled_from(["claude", "codex", "custom", "gemini"]),
        "zone": st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")]),
        "patterns": st.sampled_from([(), (("(?i)worked", "limit"),), (("not yet", "needs_human"),)]),
    }
).map(_ordered)
CALM: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine
every_case = settings(max_examples=150, **CALM)


# --- decide -------------------------------------------------------------------------------------


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_every_answer_gets_one_next_step_and_none_in_the_past(
    policy: Policy, state: WatchState, seen: Observation, now: datetime
) -> None:
    decision = decide(policy, state, seen, now)
    after = decision.state
    assert decision.outcome in MOVES
    assert decision.because
    assert after.in_flight is None
    assert (after.wait is None) is (after.ending is not None)
    if after.wait:
        assert after.wait.until >= now + policy.pause
        assert after.wait.why
    if after.ending:
        assert after.ending in WATCH
        assert after.ending is not Ending.UNPUBLISHED, "only publishing can tell"
        assert after.because


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_no_wait_is_longer_than_the_top_of_its_ladder(
    policy: Policy, state: WatchState, seen: Observation, now: datetime
) -> None:
    """A quota's reset may be days away; what is further than `far_reset` is tried all the same.

    Not so while extra usage is paid: there a try costs money.
    """
    wait = decide(policy, state, seen, now).state.wait
    if wait is None:
        return
    limit = seen.answer.response.rate_limit
    paid_until = (limit.resets_at if limit else None) or now
    quota = max(policy.far_reset + policy.reset_margin, policy.far_probe, policy.fixed_wait)
    top = {
        Pause.BETWEEN: policy.pause,
        Pause.ERROR: policy.error_max,
        Pause.TRANSIENT: max(policy.transient_max, policy.far_probe),
        Pause.HUMAN: policy.human_every,
        Pause.LIMIT: max(quota, policy.transient_max),
        Pause.OVERAGE: max(quota, paid_until - now + policy.reset_margin),
    }
    assert wait.until - now <= max(policy.pause, top[wait.pause])


FAILED = {Outcome.ERROR, Outcome.UNREADABLE}
AS_ITSELF = {Outcome.LIMIT, Outcome.TURN_CAP, Outcome.BUDGET_CAP, Outcome.SENTINEL, Outcome.PROGRESS}


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_waiting_is_never_counted_as_idling_or_as_an_error(
    policy: Policy, state: WatchState, seen: Observation, now: datetime
) -> None:
    decision = decide(policy, state, seen, now)
    after, outcome = decision.state, decision.outcome
    stalls, errors = (0, 0) if decision.progress else (state.stalls, state.errors)
    if outcome in FAILED or (outcome is Outcome.TIMED_OUT and not decision.progress):
        errors += 1
    elif outcome in AS_ITSELF:
        errors = 0
    elif outcome is Outcome.NO_CHANGE and not decision.progress:
        stalls, errors = stalls + 1, 0
    else:
        errors = 0 if outcome is Outcome.NO_CHANGE else errors
    assert (outcome, after.stalls, after.errors) == (outcome, stalls, errors)
    if outcome in (Outcome.LIMIT, Outcome.INTERRUPTED):
        assert after.ending in (None, Ending.CEILING)


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_the_books_only_grow(policy: Policy, state: WatchState, seen: Observation, now: datetime) -> None:
    decision = decide(policy, state, seen, now)
    after = decision.state
    assert after.pokes == state.pokes, "who pokes numbers"
    assert after.counted == state.counted + (decision.outcome is not Outcome.INTERRUPTED)
    assert after.spent_usd >= state.spent_usd
    assert after.spent_usd <= state.spent_usd + (seen.answer.response.cost_usd or 0)
    new = (seen.revision.tree,) if decision.progress and seen.revision else ()
    assert after.seen == (*state.seen, *new)
    for counter in ("transients", "humans", "contexts", "lost", "caps", "stales"):
        assert getattr(after, counter) in {0, getattr(state, counter), getattr(state, counter) + 1}


@every_case
@given(POLICIES, STATES, st.lists(SEEN, min_size=1, max_size=4), LATELY)
def test_a_restart_after_any_poke_changes_no_decision(
    policy: Policy, state: WatchState, answers: list[Observation], now: datetime
) -> None:
    """The state goes through the checkpoint's JSON after each poke; the same case gives the same decision."""
    through = state
    for seen in answers:
        decision = decide(policy, state, seen, now)
        state, through = decision.state, _reloaded(decide(policy, through, seen, now).state)
        assert through == state
        now = state.wait.until if state.wait else now


def _reloaded(state: WatchState) -> WatchState:
    return msgspec.json.decode(msgspec.json.encode(state), type=WatchState)


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_a_ceiling_hides_no_ending_and_lets_no_poke_pass(
    policy: Policy, state: WatchState, seen: Observation, now: datetime
) -> None:
    free = decide(dataclasses.replace(policy, poke_limit=0, hours=None, cap_usd=None), state, seen, now)
    bound = decide(policy, state, seen, now)
    if bound.state.ending is not Ending.CEILING:
        assert bound == free
        wait = bound.state.wait
        assert wait is None or not ceiling(policy, bound.state, wait.until)
        return
    assert free.state.wait is not None, "it hid an ending"
    assert bound.state.because == ceiling(policy, free.state, free.state.wait.until)
    assert replace(bound.state, wait=free.state.wait, ending=None, because="") == free.state


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_nothing_but_evidence_is_done_or_progress(
    policy: Policy, state: WatchState, seen: Observation, now: datetime
) -> None:
    decision = decide(policy, state, seen, now)
    response, revision = seen.answer.response, seen.revision
    if decision.state.ending is Ending.DONE:
        assert response.verdict is Verdict.SUCCESS
        assert says(response.text, policy.sentinel)
        assert not seen.open_tasks
    if decision.progress:
        assert revision is not None
        assert revision.tip
        assert revision.tip != (state.revision.tip if state.revision else "")
        assert revision.tree not in state.seen
    if decision.outcome is Outcome.PROGRESS:
        assert decision.progress
        assert response.verdict is Verdict.SUCCESS


@every_case
@given(POLICIES, STATES, SEEN, LATELY)
def test_no_session_id_goes_on_that_could_be_read_as_anything_else(
    policy: Policy, state: WatchState, seen: Observation, now: datetime
) -> None:
    session = decide(policy, state, seen, now).state.session
    assert session is None or usable_id(session.id) == session.id


@every_case
@given(SEEN, st.sampled_from(sorted({"", "amp", *OTHERS})))
def test_no_answer_is_refused_whoever_it_came_from(seen: Observation, agent: str) -> None:
    reading = classify(seen.answer, now=NOW, zone=UTC, agent=agent)
    assert reading.reset is None or reading.reset.at.tzinfo is not None


# --- the readers of the other programs; Claude's own are in test_response.py --------------------


RECORDED = sorted(path for path in (DATA / "responses").iterdir() if path.name.startswith(OTHERS))
VERDICTS = (Verdict.NONE, Verdict.FAILURE, Verdict.SUCCESS)


def _reader_of(path: Path) -> Reader:
    return reader(path.name.partition("-")[0])


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_an_output_cut_at_any_byte_is_no_success_before_the_program_said_so(path: Path) -> None:
    data, read = path.read_bytes().rstrip(), _reader_of(path)
    whole = read(data, "").verdict
    last = data.rindex(b"\n") + 1 if b"\n" in data else 0
    cuts = {*range(0, len(data), max(1, len(data) // 150)), *range(last, len(data))}
    found = [read(data[:end], "").verdict for end in sorted(cuts)]
    for before, after in pairwise([*found, whole]):
        assert not (before is Verdict.SUCCESS and after is not Verdict.SUCCESS), "it took its success back"
    assert whole is Verdict.SUCCESS or Verdict.SUCCESS not in found


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=60, **CALM)
@given(data=st.data())
def test_no_bytes_are_refused_by_any_reader(name: str, data: st.DataObject) -> None:
    own = [path.read_bytes() for path in RECORDED if path.name.startswith(name)] or [b"{}"]
    middle = data.draw(st.sampled_from(own))
    at = data.draw(st.integers(0, len(middle)))
    junk = data.draw(st.binary(max_size=100))
    reader(name)(middle[:at] + junk + middle[at:], junk.decode("utf-8", "replace"))


def test_the_cases_reach_every_outcome_pause_and_ending() -> None:
    wanted: set[Enum] = {*MOVES, *Pause, *Ending} - {Pause.ACCOUNT, Ending.UNPUBLISHED}

    def is_the_last_wanted(case: tuple[Policy, WatchState, Observation]) -> bool:
        decision = decide(*case, NOW)
        wait = decision.state.wait
        wanted.difference_update({decision.outcome, decision.state.ending, wait and wait.pause})
        return not wanted

    with suppress(NoSuchExample):
        many = settings(max_examples=4000, database=None, phases=[Phase.generate], **CALM)
        find(st.tuples(POLICIES, STATES, SEEN), is_the_last_wanted, settings=many)
    assert not wanted
