"""Take up a run that a crash of ours left behind (DESIGN 6): two agents never work one tree.

A poke in flight is never poked again: what is left of its agent is ended, what it finished is read, and
that is decided. An effect that a crash may have cut off is done again, since each is safe to repeat.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from watcher import tell
from watcher.decision.decide import decide
from watcher.decision.outcome import Answer, Ended
from watcher.decision.state import Decision, InFlight, Observation, Pause, Revision, WatchState
from watcher.poke import read_answer, tail
from watcher.process import Started, end_orphans

if TYPE_CHECKING:
    from watcher.watch import Watch

CORRECTION = timedelta(minutes=1)  # a clock that goes back by less was only put right


def take_up(shift: Watch, state: WatchState) -> WatchState:
    """End the orphan, read what it finished, decide, publish what is due. A new run has nothing of it."""
    if state.in_flight is not None:
        state = _in_flight(shift, state, state.in_flight)
    elif state.pokes:
        state = _shortened(shift, state)
        _remind(shift, state)
    # Also where nothing was in flight: the crash may have come between a decision and its publication,
    # and a wait of hours may follow.
    return shift.publish(state) if state.pokes and state.ending is None else state


def _shortened(shift: Watch, state: WatchState) -> WatchState:
    """No wait is longer than its kind can be: more means that the clock was set back while nobody worked."""
    policy, wait, now = shift.policy, state.wait, shift.clock.now()
    kinds = {
        Pause.BETWEEN: policy.pause,
        Pause.ERROR: max(policy.error_max, policy.pause),
        Pause.TRANSIENT: max(policy.far_probe, policy.pause),
        Pause.HUMAN: max(policy.human_every, policy.pause),
    }
    longest = kinds.get(wait.pause) if wait else None  # a reset is an instant, however far it is
    if wait is None or longest is None or wait.until <= now + longest + CORRECTION:
        return state
    shift.log.warning("the clock was set back meanwhile; the wait is shortened", until=wait.until.isoformat())
    return replace(state, wait=replace(wait, until=now + longest))


def _in_flight(shift: Watch, state: WatchState, flight: InFlight) -> WatchState:
    line, cut = shift.journal.line_of(flight.poke), shift.journal.note_cut(flight.poke)
    ended = end_orphans(flight.marker, _started(shift, flight))
    shift.log.warning("taking up a poke a crash left", poke=flight.poke, ended=", ".join(ended))
    if line is not None:
        return _again(shift, state, _answer(shift, flight, line, line.get("cut_at")), line)
    # What an orphan prints once it was signalled is no verdict.
    grown = shift.journal.out_size(flight.poke) > cut
    answer = _answer(shift, flight, {}, cut if grown else None)
    return shift.judge(_known_session(shift, state, flight, answer), answer)


def _started(shift: Watch, flight: InFlight) -> Started | None:
    note = shift.journal.started(flight.poke)
    if note is None:
        return None
    return Started(pid=note["pid"], started_at_ticks=note["ticks"], boot_id=note["boot_id"])


def _answer(shift: Watch, flight: InFlight, line: dict[str, Any], limit: int | None) -> Answer:
    """What that poke left in its files; an orphan's result counts if it was complete."""
    papers = shift.journal.papers(flight.poke)
    return read_answer(
        shift.agent.profile,
        papers,
        ended=Ended(line.get("ended", Ended.STOPPED.value)),
        limit=limit,
        exit_code=line.get("exit_code"),
        stderr=tail(papers.err),
        resumed=flight.resumed,
    )


def _known_session(shift: Watch, state: WatchState, flight: InFlight, answer: Answer) -> WatchState:
    """Without a session that was chosen but never begun: resuming it would be refused.

    Certain where the agent was not started at all, and where its first line would have named the session.
    """
    session = state.session
    if session is None or session.begun or answer.response.session_id:
        return state
    names_it = shift.agent.profile.name == "claude" and shift.ask.output == "stream-json"
    begun = shift.journal.started(flight.poke) is not None or shift.journal.out_size(flight.poke) > 0
    return state if begun and not names_it else replace(state, session=None)


def _again(shift: Watch, state: WatchState, answer: Answer, line: dict[str, Any]) -> WatchState:
    """Reach the recorded decision once more: the crash came before the checkpoint learned of it."""
    revision = line.get("revision")
    seen = Observation(
        answer=answer,
        revision=Revision(tip=revision["tip"], tree=revision["tree"]) if revision else None,
        open_tasks=tuple(line.get("open_tasks", ())),
        cost_is_cumulative=shift.agent.profile.cost_is_cumulative(answer.response.program_version),
    )
    if line.get("session_id") is None:
        state = replace(state, session=None)
    decision = decide(shift.policy, state, seen, datetime.fromisoformat(line["at"]))
    shift.journal.save(decision.state)
    tell.poke(shift.log, state, seen, decision, None, shift.seen_branches)
    _compare(shift, decision, line)
    _remind(shift, decision.state)
    return decision.state


def _compare(shift: Watch, decision: Decision, line: dict[str, Any]) -> None:
    """Say so where the same answer means something else today: the configuration or the zone has changed."""
    wait = decision.state.wait
    now = (decision.outcome.value, wait.until.isoformat() if wait else None)
    recorded = (line.get("outcome"), line.get("wait_until"))
    if now != recorded:
        shift.log.warning("that poke is decided otherwise than it was recorded", recorded=recorded, now=now)


def _remind(shift: Watch, state: WatchState) -> None:
    """Tell the account and the person once more what this run waits for: neither may have heard of it."""
    wait, now = state.wait, shift.clock.now()
    if wait is None or wait.until <= now:
        return
    if wait.pause in (Pause.LIMIT, Pause.OVERAGE) and shift.account.hold(now) is None:
        shift.account.limited(wait.until, wait.why)
    if wait.pause is Pause.HUMAN:
        shift.notifier.alert("needs you", wait.why, state)
