"""Decide what a poke came to and what happens next: the whole watch shift, as pure rules.

`decide` reads the answer (`classify`), settles what git and the task list say about it, and asks
the move for that outcome (`moves.py`). The order of outcomes is the order of `Outcome`: the error flag
is looked at before the stall counter, always (H 6.4, 12.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from watcher.decision.classify import classify
from watcher.decision.endings import Ending, demand_same
from watcher.decision.moves import MOVES, Case
from watcher.decision.outcome import Outcome, Reading
from watcher.decision.sentinel import says
from watcher.decision.state import Decision, Observation, Policy, Session, WatchState


def decide(policy: Policy, state: WatchState, seen: Observation, now: datetime) -> Decision:
    """Answer every poke with exactly one next step.

    Raises nothing for any answer; never waits into the past; a wait is never a stall.
    """
    reading = classify(
        seen.answer,
        now=now,
        zone=policy.zone,
        agent=policy.agent,
        patterns=policy.patterns,
        session_id=state.session.id if state.session else None,
    )
    state = _book(state, seen)
    progress, state = _compare(state, seen)
    outcome, because = _settle(policy, state, seen, reading, progress)
    if outcome is not Outcome.INTERRUPTED:
        state = replace(state, counted=state.counted + 1)
    case = Case(
        policy=policy,
        state=_keep_session(state, reading),
        seen=seen,
        reading=reading,
        outcome=outcome,
        because=because,
        progress=progress,
        now=now,
    )
    return _under_ceilings(case, MOVES[outcome](case))


# --- what every poke changes, whatever it came to ---------------------------------------------


def _book(state: WatchState, seen: Observation) -> WatchState:
    """Add the poke's cost. A total over the session is booked as its growth; unknown = the larger."""
    state = replace(state, in_flight=None, wait=None)
    cost = seen.answer.response.cost_usd
    if cost is None:
        return state
    before = state.session_usd if seen.answer.resumed and seen.cost_is_cumulative else 0.0
    grown = cost - before if cost >= before else cost
    return replace(state, spent_usd=state.spent_usd + grown, session_usd=cost)


def _compare(state: WatchState, seen: Observation) -> tuple[bool, WatchState]:
    """Progress = the branch moved to a tree this run has not had (H 5.2). Unreadable is never progress."""
    revision = seen.revision
    if revision is None or (state.revision and revision.tip == state.revision.tip):
        return False, state
    new = bool(revision.tip) and revision.tree not in state.seen
    state = replace(state, revision=revision)
    if not new:
        return False, state
    fresh = replace(state, seen=(*state.seen, revision.tree), stalls=0, caps=0, errors=0, denied=())
    return True, fresh


def _keep_session(state: WatchState, reading: Reading) -> WatchState:
    """Go on with the newest id; none left means a fresh conversation."""
    if reading.session_id is None:
        return replace(state, session=None, session_usd=0.0)
    return replace(state, session=Session(id=reading.session_id, begun=True))


def _settle(
    policy: Policy, state: WatchState, seen: Observation, reading: Reading, progress: bool
) -> tuple[Outcome, str]:
    """Turn a reading into the final outcome: git and the task list judge a success."""
    response = seen.answer.response
    if reading.outcome is Outcome.SESSION_LOST and state.lost:
        return Outcome.ERROR, f"{reading.because}; the other form was refused too"
    if reading.outcome is Outcome.UNREADABLE and state.pokes == 1 and _foreign(seen):
        return Outcome.UNKNOWN, "the first answer of the run is an object, but no result: another program?"
    if reading.outcome is not Outcome.SUCCESS:
        return reading.outcome, reading.because
    if says(response.text, policy.sentinel):
        if not seen.open_tasks:
            return Outcome.SENTINEL, f"a line of the result is {policy.sentinel}"
        listed = ", ".join(seen.open_tasks[:5])
        claim = f"false claim: {policy.sentinel} although the task list still has {listed}"
        return (Outcome.PROGRESS if progress else Outcome.NO_CHANGE), claim
    if seen.revision is None:
        return Outcome.ERROR, "the branch could not be read, so nobody can say whether there is progress"
    if progress and response.turns != 0:
        return Outcome.PROGRESS, f"new revision {state.revision.tip[:12] if state.revision else ''}"
    return Outcome.NO_CHANGE, _nothing(policy, seen)


def _foreign(seen: Observation) -> bool:
    """A program that is not the configured one is found out at once; an error it prints may pass."""
    document = seen.answer.response.document
    return bool(document) and "error" not in document


def _nothing(policy: Policy, seen: Observation) -> str:
    """Name why a success changed nothing, as far as the answer tells."""
    response, because = seen.answer.response, "no sentinel and no new revision"
    if response.turns == 0:
        because += "; the poke was empty (no turn was taken)"
    elif not response.text.strip():
        because += "; the poke was empty (no text)"
    elif policy.sentinel in response.text:
        because += f"; {policy.sentinel} stands inside prose, which counts for nothing"
    if response.denials:
        because += f"; refused: {', '.join(response.denials)}"
    return because


# --- what stands above the moves --------------------------------------------------------------


def _under_ceilings(case: Case, decision: Decision) -> Decision:
    """A ceiling ends the run before a wait, not after it, and never hides a real ending."""
    wait = decision.state.wait
    if wait is None or not (reached := ceiling(case.policy, decision.state, wait.until)):
        return decision
    return case.end(decision.state, Ending.CEILING, reached)


def ceiling(policy: Policy, state: WatchState, at: datetime) -> str:
    """Name the ceiling that forbids a poke at `at`, or "". Dollars are what the program reported."""
    if policy.poke_limit and state.counted >= policy.poke_limit:
        return f"POKE_LIMIT ({policy.poke_limit}) is reached"
    if policy.hours is not None and at >= state.began_at + policy.hours:
        return f"the run's {policy.hours.total_seconds() / 3600:g} hours are over before the next poke"
    if policy.cap_usd is not None and state.spent_usd >= policy.cap_usd:
        return f"{state.spent_usd:.2f} of {policy.cap_usd:.2f} dollars are spent"
    return ""


PRODUCES: Mapping[Ending, str] = {
    Ending.DONE: "_sentinel",
    Ending.UNUSABLE: "_error, _transient, _context, _needs_human, _unknown",
    Ending.STALLED: "_no_change, _cap",
    Ending.CEILING: "_under_ceilings",
    Ending.UNPUBLISHED: "watch: a DONE whose work the remote does not hold",
}
demand_same(Ending, PRODUCES)
