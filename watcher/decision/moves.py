"""What happens next: one move for every outcome. A new behaviour is usually one rule here.

A move is a small named function; its docstring says why. It returns the memory after the poke, in which
the next step stands: a wait, or an ending.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from watcher.decision.endings import Ending, demand_same
from watcher.decision.outcome import Outcome, Reading, Reset
from watcher.decision.state import Decision, Observation, Pause, Policy, Wait, WatchState


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One poke, settled: what a move needs to choose the next step."""

    policy: Policy
    state: WatchState  # with this poke's cost, session and revision already in it
    seen: Observation
    reading: Reading
    outcome: Outcome
    because: str
    progress: bool
    now: datetime

    def go_on(self, state: WatchState, pause: Pause, length: timedelta, why: str = "") -> Decision:
        wait = Wait(until=self.now + max(length, self.policy.pause), pause=pause, why=why or self.because)
        return self._decision(replace(state, wait=wait))

    def poke_again(self, state: WatchState) -> Decision:
        return self.go_on(state, Pause.BETWEEN, self.policy.pause)

    def end(self, state: WatchState, ending: Ending, because: str = "") -> Decision:
        return self._decision(replace(state, wait=None, ending=ending, because=because or self.because))

    def _decision(self, state: WatchState) -> Decision:
        return Decision(
            outcome=self.outcome,
            because=self.because,
            state=state,
            progress=self.progress,
            reset=self.reading.reset,
        )


def _interrupted(case: Case) -> Decision:
    """We stopped it ourselves, so it counts for nothing; the session goes on after the restart."""
    return case.poke_again(case.state)


def _timed_out(case: Case) -> Decision:
    """A poke that ran out of time but brought a revision was productive; otherwise it is an error."""
    return case.poke_again(case.state) if case.progress else _error(case)


def _error(case: Case) -> Decision:
    """One hiccup must not end the night, and a broken program must not burn it: a ladder with a top."""
    lost = case.state.lost if case.reading.outcome is Outcome.SESSION_LOST else 0
    state = replace(case.state, errors=case.state.errors + 1, lost=lost)
    if state.errors >= case.policy.error_limit:
        why = f"{state.errors} pokes in a row failed; the last one: {case.because}"
        return case.end(state, Ending.UNUSABLE, why)
    return case.go_on(
        state, Pause.ERROR, doubling(case.policy.error_first, case.policy.error_max, state.errors)
    )


def _limit(case: Case) -> Decision:
    """A usage limit is not an error and not a stall: sleep to the reset and a little past it (H 6.4)."""
    policy, reset, before = case.policy, case.reading.reset, case.state
    state = replace(_able(before), session=None, session_usd=0.0)
    if reset is None:
        why = f"{case.because}; no time could be read, so a fixed wait"
        return case.go_on(state, Pause.LIMIT, policy.fixed_wait, why)
    words = reset.text or reset.at.isoformat()
    state = replace(state, limit_words=words, limit_at=reset.at)
    first = before.limit_at if words == before.limit_words else None
    if first and first <= case.now and not _second(reset, first, case.now):
        return _stale(case, replace(state, limit_at=first, stales=before.stales + 1))
    away = reset.at - case.now
    if away > policy.far_reset:
        why = f"{case.because}; the reset {reset.at.isoformat()} is too far away to sit out unattended"
        return _alerting(case.go_on(state, Pause.LIMIT, min(away, policy.far_probe), why), why)
    return case.go_on(state, Pause.LIMIT, away + policy.reset_margin, _read_from(case, reset))


def _second(reset: Reset, first: datetime, now: datetime) -> bool:
    """A clock that comes twice (the hour put back, either half of the day): the earlier, then the second."""
    return reset.zone != "offset" and now < reset.at <= first + timedelta(hours=12)


def _stale(case: Case, state: WatchState) -> Decision:
    """The same words again after their time has passed are an old text, not another day of waiting."""
    length = doubling(case.policy.stale_wait, case.policy.transient_max, state.stales)
    why = f"{case.because}; the time it names has passed already, so a short wait"
    return case.go_on(state, Pause.LIMIT, length, why)


def _read_from(case: Case, reset: Reset) -> str:
    """Say which words and which zone the reset was read from, and the other reading where there is one."""
    words = f' "{reset.text}"' if reset.text else ""
    zone = f" in {reset.zone}" if reset.zone else ""
    other = f"; the other reading is {reset.other.isoformat()}" if reset.other else ""
    note = f"; {reset.note}" if reset.note else ""
    margin = case.policy.reset_margin.total_seconds()
    return (
        f"{case.because}; reset {reset.at.isoformat()} read from the {reset.source}{words}{zone}"
        f"{other}{note}, plus {margin:g} s"
    )


def _transient(case: Case) -> Decision:
    """The provider is in trouble: back off on the same session, and give up after hours of it."""
    policy, state = case.policy, case.state
    since = state.transient_since or case.now
    state = replace(state, transients=state.transients + 1, transient_since=since, lost=0)
    if case.now - since >= policy.transient_limit:
        why = f"provider trouble since {since.isoformat()}; the last answer: {case.because}"
        return case.end(state, Ending.UNUSABLE, why)
    length = doubling(policy.transient_first, policy.transient_max, state.transients)
    if case.reading.reset is not None:
        length = max(length, case.reading.reset.at - case.now)
    return case.go_on(state, Pause.TRANSIENT, min(length, policy.far_probe))


def _context(case: Case) -> Decision:
    """A full conversation is dropped; if a fresh one is full at once, no poke will ever fit."""
    fresh = not case.seen.answer.resumed
    state = replace(case.state, contexts=case.state.contexts + 1 if fresh else 0, session=None, lost=0)
    if state.contexts >= case.policy.context_limit:
        why = f"{state.contexts} fresh sessions in a row were too long at once: {case.because}"
        return case.end(state, Ending.UNUSABLE, why)
    return case.poke_again(state)


def _session_lost(case: Case) -> Decision:
    """Take the other form: an id already in use is resumed, an unknown one replaced by a fresh one."""
    return case.poke_again(replace(case.state, lost=case.state.lost + 1))


def _needs_human(case: Case) -> Decision:
    """Login and billing are a person's matter, and a person may log in at 2 a.m.: say so, and retry."""
    policy, state = case.policy, case.state
    since = state.human_since or case.now
    state = replace(state, humans=state.humans + 1, human_since=since, lost=0)
    if case.now - since >= policy.human_limit:
        why = f"nobody answered since {since.isoformat()}: {case.because}"
        return case.end(state, Ending.UNUSABLE, why)
    decision = case.go_on(state, Pause.HUMAN, policy.human_every)
    return _alerting(decision, case.because) if state.humans == 1 else decision


def _cap(case: Case) -> Decision:
    """A cut turn goes on in the same session; cut turns without a revision are bounded all the same."""
    state = _able(case.state)
    if not case.progress:
        state = replace(state, caps=state.caps + 1)
    if state.caps >= case.policy.cap_limit:
        why = f"{state.caps} pokes in a row were cut off without a new revision"
        return case.end(state, Ending.STALLED, why)
    return case.poke_again(state)


def _sentinel(case: Case) -> Decision:
    """The agreed word, and nothing eligible is left to contradict it. Publishing decides 0 or 4."""
    return case.end(_able(case.state), Ending.DONE)


def _progress(case: Case) -> Decision:
    return _unless_overage(case, case.poke_again(_able(case.state)))


def _no_change(case: Case) -> Decision:
    """The stall guard (H 6.3): an agent that only talks is stopped before it burns the night."""
    state = _able(case.state)
    if not case.progress:
        denied = (*state.denied, *case.seen.answer.response.denials)[-20:]
        state = replace(state, stalls=state.stalls + 1, denied=denied)
    if state.stalls >= case.policy.stall_limit:
        why = f"{state.stalls} successful pokes in a row, {case.because}"
        if state.denied:
            why += f"; tools refused meanwhile: {', '.join(sorted(set(state.denied)))}"
        return case.end(state, Ending.STALLED, why)
    return _unless_overage(case, case.poke_again(state))


def _unknown(case: Case) -> Decision:
    """A kind of result nobody knows: stop rather than guess, with the whole answer on record."""
    return case.end(case.state, Ending.UNUSABLE)


def _unless_overage(case: Case, decision: Decision) -> Decision:
    """Paid extra usage ends the quota silently; unless allowed, the next poke waits for the reset."""
    limit = case.seen.answer.response.rate_limit
    if case.policy.allow_paid_overage or limit is None or not limit.using_overage or decision.state.ending:
        return decision
    why = "the plan's quota is used up and paid extra usage has begun (agent.allow_paid_overage is off)"
    if limit.resets_at is None:
        length = case.policy.fixed_wait
    else:
        length = limit.resets_at - case.now + case.policy.reset_margin
    state = replace(decision.state, session=None, session_usd=0.0)
    return _alerting(case.go_on(state, Pause.OVERAGE, length, why), why)


def _able(state: WatchState) -> WatchState:
    """The agent answered as itself: every ladder of failures is over."""
    return replace(
        state,
        errors=0,
        transients=0,
        transient_since=None,
        humans=0,
        human_since=None,
        contexts=0,
        lost=0,
        limit_words="",
        limit_at=None,
        stales=0,
    )


def _alerting(decision: Decision, alert: str) -> Decision:
    return dataclasses.replace(decision, alert=alert)


def doubling(first: timedelta, top: timedelta, n: int) -> timedelta:
    """The n-th step (from 1) of a ladder that doubles up to `top`."""
    return min(first * (1 << min(n - 1, 30)), top)


MOVES: Mapping[Outcome, Callable[[Case], Decision]] = {
    Outcome.INTERRUPTED: _interrupted,
    Outcome.TIMED_OUT: _timed_out,
    Outcome.UNREADABLE: _error,
    Outcome.LIMIT: _limit,
    Outcome.TRANSIENT: _transient,
    Outcome.CONTEXT: _context,
    Outcome.SESSION_LOST: _session_lost,
    Outcome.NEEDS_HUMAN: _needs_human,
    Outcome.TURN_CAP: _cap,
    Outcome.BUDGET_CAP: _cap,
    Outcome.ERROR: _error,
    Outcome.SENTINEL: _sentinel,
    Outcome.PROGRESS: _progress,
    Outcome.NO_CHANGE: _no_change,
    Outcome.UNKNOWN: _unknown,
}
demand_same(set(Outcome) - {Outcome.SUCCESS}, MOVES)
