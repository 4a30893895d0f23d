"""One run held against itself: checkpoint, history, ending, and what else lies in its directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from watcher.decision.endings import NIGHT, WATCH, Ending
from watcher.decision.state import SCHEMA, WatchState
from watcher.look.finding import Finding, Looked, damage, note, numbers
from watcher.look.verify_history import History
from watcher.look.verify_lines import lines_of, torn_end, unfinished
from watcher.look.words import instant
from watcher.record import checkpoint
from watcher.record.checkpoint import Checkpoint, CheckpointDamaged
from watcher.record.documents import load
from watcher.record.error import RecordError
from watcher.record.requests import RequestDamaged, pending, read
from watcher.record.runs import Run

_ASIDE = re.compile(r".+\.(torn|damaged)-\d+")
_EXCHANGE = re.compile(r"(\d{6,})\.(prompt|out|err)")
_STRAY = re.compile(r".+\.[0-9a-f]{8}\.tmp|\d{6,}\.given")  # the second: a prompt on its way to the agent
REFUSED = "the next start is refused until it is moved away: nothing is resumed from it"
DISAGREE = "one of the two is not what was written; look at both before the next start"


def run_findings(run: Run, looked: Looked, *, is_live: bool) -> Iterator[Finding]:
    """Everything found in one run. `is_live`: a harness works on it, so its end may still move."""
    before, problems = _memory(run)
    yield from problems
    history = History(run, looked)
    yield from history.findings()
    ending, problems = _ending(run)
    yield from problems
    after = (_memory(run)[0] or before) if is_live else before
    if before is not None and after is not None:
        yield from _decided(run, before, after, history)
        yield from _whole(run, after, history, ending) if not is_live else ()
    elif not problems and run.shift == "watch" and history.last and not run.checkpoint.exists():
        memory = f"is gone, and the history knows {numbers(1, history.last)}"
        yield damage(run.checkpoint, memory, "the run cannot go on: what it remembered is lost")
    if not is_live:
        yield from torn_end(run.history, history.end)
    yield from lines_of(run.ledger, looked)
    yield from _folder(run)
    yield from _exchanges(run, after, history)


# --- what the run remembers ---------------------------------------------------------------------


def _memory(run: Run) -> tuple[WatchState | None, list[Finding]]:
    """The checkpoint. Of another shift only the frame is known here."""
    try:
        if run.shift != "watch":
            checkpoint.load(run.checkpoint)
            return None, []
        return Checkpoint(run.checkpoint, WatchState, schema_version=SCHEMA).load(), []
    except CheckpointDamaged as error:
        meaning = "the run is over, and how is in ending.json" if run.finished else REFUSED
        return None, [damage(run.checkpoint, str(error), meaning)]
    except RecordError as error:
        return None, [damage(run.checkpoint, str(error), "nothing of it could be verified")]


def _decided(run: Run, before: WatchState, after: WatchState, history: History) -> Iterator[Finding]:
    """Which pokes are decided: the checkpoint before and after the history was read, and the history."""
    if before.run != run.name:
        yield damage(run.checkpoint, f"is of another run: {before.run}", DISAGREE)
        return
    least = before.pokes - (1 if before.in_flight else 0)
    if history.last + history.holes < least:
        lost = f"{numbers(history.last + history.holes + 1, least)} missing at its end"
        meaning = "the checkpoint knows that they were decided; what they came to is lost with their lines"
        yield damage(run.history, lost, meaning)
    elif history.last > after.pokes:
        ahead = f"it knows {after.pokes} pokes, the history {history.last}: it is older than the history"
        yield damage(run.checkpoint, ahead, "a start from it would do pokes again that are done already")


def _whole(run: Run, state: WatchState, history: History, ending: dict[str, Any] | None) -> Iterator[Finding]:
    """What else two records of one moment must agree in."""
    flight = state.in_flight
    if flight is not None and flight.poke != state.pokes:
        yield damage(run.checkpoint, f"has poke {flight.poke} in flight after {state.pokes} pokes", DISAGREE)
    elif flight is not None and not run.poke(flight.poke).prompt.exists():
        gone = f"is not there, and poke {flight.poke} is in flight"
        yield damage(run.poke(flight.poke).prompt, gone, "what the agent was told is lost; the run goes on")
    spent = history.newest.get("spent_usd")
    if flight is None and history.last == state.pokes and spent is not None and spent != state.spent_usd:
        told = f"says that {state.spent_usd} dollars are spent, the history says {spent}"
        yield damage(run.checkpoint, told, DISAGREE)
    if ending is not None:
        yield from _ending_fits(run, state, ending)
    elif state.ending is not None:
        about = f"has decided to end ({state.ending.value}), and no ending is recorded"
        yield note(run.checkpoint, about, "the next start records it")


# --- how it ended -------------------------------------------------------------------------------


def _ending(run: Run) -> tuple[dict[str, Any] | None, list[Finding]]:
    """What is recorded of the ending, None where it is not, or not to be read."""
    path, lost = run.ending_file, "how the run ended cannot be shown; its history says what it came to"
    try:
        document = run.ending()
    except RecordError as error:
        return None, [damage(path, str(error), lost)]
    if document is None:
        return None, []
    if "unreadable" in document:
        return None, [damage(path, f"cannot be read: {document['unreadable']}", lost)]
    known = {kind.value: its.exit_code for kind, its in (*WATCH.items(), *NIGHT.items())}
    word, code = document.get("ending"), document.get("exit_code")
    if word not in known or code != known[word]:
        return document, [damage(path, f"tells of no ending there is: {word!r}, exit {code!r}", lost)]
    if instant(document.get("at")) is None:
        return document, [damage(path, "says no time", lost)]
    return document, []


def _ending_fits(run: Run, state: WatchState, ending: dict[str, Any]) -> Iterator[Finding]:
    word = state.ending.value if state.ending else "none"
    done = {Ending.DONE.value, Ending.UNPUBLISHED.value}  # the second: the remote does not hold the work
    told: dict[str, object] = {
        "pokes": state.pokes,
        "spent_usd": state.spent_usd,
        "revision": state.revision.tip if state.revision else None,
        "published": state.published,
        "session_id": state.session.id if state.session else None,
    }
    if ending.get("ending") not in (done if word in done else {word}):
        told["ending"] = word
    for key, value in told.items():
        if ending.get(key) != value:
            yield damage(
                run.ending_file, f"says {key} {ending.get(key)!r}, the checkpoint {value!r}", DISAGREE
            )
    if state.in_flight is not None:
        yield damage(run.ending_file, "is there, and a poke is still in flight", DISAGREE)


# --- the rest of the directory ------------------------------------------------------------------


def _folder(run: Run) -> Iterator[Finding]:
    """Notes, requests, what was set aside and what was left unfinished."""
    for path in _listed(run.path):
        if _STRAY.fullmatch(path.name):
            yield unfinished(path)
        elif found := _ASIDE.fullmatch(path.name):
            yield from _aside(path, found[1])
    for name in ("submission.json", "flight.json"):
        try:
            load((run.path / name).read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            said = f"cannot be read: {error}"
            if name == "flight.json":  # not made to outlive a power cut
                yield note(run.path / name, said, "an agent left from a crash is found by its marker alone")
            else:
                yield damage(run.path / name, said, "what the run was asked for is lost")
    for path in pending(run):
        try:
            read(path)
        except RequestDamaged as error:
            yield note(path, str(error), "the next look drops it; ask again")


def _aside(path: Path, kind: str) -> Iterator[Finding]:
    """What was set aside once. A torn line that is whole after all was a decided poke's."""
    kept = "it was set aside and is kept for you to look at; nothing is read from it"
    yield note(path, "is a line that was cut short" if kind == "torn" else "was refused once", kept)


def _exchanges(run: Run, state: WatchState | None, history: History) -> Iterator[Finding]:
    """No exchange may be newer than every record: both would have been put back to an earlier day."""
    newest = 0
    for path in _listed(run.path / "pokes"):
        if found := _EXCHANGE.fullmatch(path.name):
            newest = max(newest, int(found[1]))
        elif _STRAY.fullmatch(path.name):
            yield unfinished(path)
    known = max(history.last, state.pokes if state else 0)
    if newest > known + 1 and state is not None:  # the next one's prompt is there before it is begun
        unknown = f"holds an exchange of poke {newest}, and no record knows more than {known} pokes"
        yield damage(run.path / "pokes", unknown, "the records were put back, or lost their end")


def _listed(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries)
    except OSError:
        return
