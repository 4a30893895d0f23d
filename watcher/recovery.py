"""Take up a poke that a crash of ours left behind (DESIGN 6): two agents never work one tree."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from watcher.decision.decide import decide
from watcher.decision.outcome import Answer, Ended
from watcher.decision.state import InFlight, Observation, Revision, WatchState
from watcher.poke import read_answer, tail
from watcher.process import Started, end_orphans

if TYPE_CHECKING:
    from watcher.watch import Watch


def take_up(shift: Watch, state: WatchState) -> WatchState:
    """End the orphan, read what it finished, decide, go on. Nothing in flight: nothing to do."""
    flight = state.in_flight
    if flight is None:
        return state
    ended = end_orphans(flight.marker, _started(shift, flight))
    shift.log.warning("taking up a poke a crash left", poke=flight.poke, ended=", ".join(ended))
    line = shift.journal.line_of(flight.poke)
    answer = _answer(shift, flight, line or {})
    return shift.publish(shift.judge(state, answer) if line is None else _again(shift, state, answer, line))


def _started(shift: Watch, flight: InFlight) -> Started | None:
    note = shift.journal.started(flight.poke)
    if note is None:
        return None
    return Started(pid=note["pid"], started_at_ticks=note["ticks"], boot_id=note["boot_id"])


def _answer(shift: Watch, flight: InFlight, line: dict[str, Any]) -> Answer:
    """What that poke left in its files; an orphan's result counts if it was complete."""
    papers = shift.journal.papers(flight.poke)
    return read_answer(
        shift.agent.profile,
        papers,
        ended=Ended(line.get("ended", Ended.STOPPED.value)),
        limit=line.get("cut_at"),
        exit_code=line.get("exit_code"),
        stderr=tail(papers.err),
        resumed=flight.resumed,
    )


def _again(shift: Watch, state: WatchState, answer: Answer, line: dict[str, Any]) -> WatchState:
    """Reach the recorded decision once more: the crash came before the checkpoint learned of it."""
    revision = line.get("revision")
    observation = Observation(
        answer=answer,
        revision=Revision(tip=revision["tip"], tree=revision["tree"]) if revision else None,
        open_tasks=tuple(line.get("open_tasks", ())),
        cost_is_cumulative=shift.agent.profile.cost_is_cumulative(answer.response.program_version),
    )
    state = decide(shift.policy, state, observation, datetime.fromisoformat(line["at"])).state
    shift.journal.save(state)
    return state
