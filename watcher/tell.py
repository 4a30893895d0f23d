"""Tell: the lines of the watcher log about one poke and about the end (H 8.1)."""

from __future__ import annotations

from collections.abc import Mapping

from watcher.decision.endings import WATCH, Ending
from watcher.decision.outcome import Outcome
from watcher.decision.state import Decision, Observation, WatchState
from watcher.effect.git import Look
from watcher.log import Log
from watcher.process import Finished

SNIPPET = 120
FAILED = frozenset({Outcome.UNREADABLE, Outcome.ERROR, Outcome.NEEDS_HUMAN, Outcome.UNKNOWN})


def poke(
    log: Log,
    state: WatchState,
    seen: Observation,
    decision: Decision,
    look: Look | None,
    known: Mapping[str, str],
) -> None:
    """One line a poke: outcome, error flag, the whole session id, a snippet, the decision and why."""
    response = seen.answer.response
    failed = decision.outcome in FAILED
    say = log.warning if failed else log.info
    say(
        f"poke {state.pokes}: {decision.outcome.value}",
        because=decision.because,
        next=next_step(decision.state),
        subtype=response.subtype,
        is_error=response.is_error,
        exit=seen.answer.exit_code,
        session=response.session_id or (state.session.id if state.session else ""),
        said=response.text[:SNIPPET],
        stderr=seen.answer.stderr.strip()[-SNIPPET:] if failed else "",
        author=look.author if look and decision.progress else "",
        elsewhere=", ".join(look.elsewhere(state.branch, known)[:10]) if look else "",
    )
    if decision.state.ending is Ending.UNUSABLE:
        log.warning("the whole answer", document=response.document, stderr=seen.answer.stderr[-2000:])


def leftovers(log: Log, finished: Finished) -> None:
    """Name what the agent left running and what could not be ended."""
    if finished.leftovers:
        log.warning("processes the agent left were ended", names=", ".join(finished.leftovers))
    if finished.survivors:
        log.error("processes could not be ended", names=", ".join(finished.survivors))


def ending(log: Log, state: WatchState, how: Ending, *, published: bool | None) -> None:
    """The last line of a run. `published` None: publishing is off."""
    kind = WATCH[how]
    say = log.info if kind.exit_code == 0 else log.warning
    say(
        f"ended: {how.value}",
        meaning=kind.meaning,
        because=state.because,
        exit=kind.exit_code,
        pokes=state.pokes,
        spent_usd=round(state.spent_usd, 4),
        session=state.session.id if state.session else "",
        published={None: "off", True: "yes", False: "no"}[published],
    )


def next_step(state: WatchState) -> str:
    if state.wait is None:
        return f"end: {state.ending.value}" if state.ending else "poke"
    return f"{state.wait.pause.value} until {state.wait.until:%Y-%m-%d %H:%M:%S} UTC"
