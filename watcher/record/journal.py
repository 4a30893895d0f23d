"""The watch shift's record: checkpoint, history, the complete exchange of every poke (H 8, DESIGN 6).

The order that nothing can break: the history line is durable, then the checkpoint, then the effect.
A crash between the two leaves a poke that is in flight for the checkpoint and decided for the
history; `line_of` finds it, and since deciding is pure, the same decision is reached again.
"""

from __future__ import annotations

import hashlib
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from watcher.decision.state import SCHEMA, Decision, Observation, WatchState
from watcher.record.checkpoint import Checkpoint, CheckpointDamaged, Refusal
from watcher.record.documents import dump, load
from watcher.record.files import RecordError, Survives
from watcher.record.lines import Line, Lines, last, tail
from watcher.record.runs import PokeFiles, Run


class CheckpointBehind(CheckpointDamaged):
    """A checkpoint older than the history, or gone: going on from it would do decided pokes again."""

    def __init__(self, run: Run, decided: int, known: int | None) -> None:
        super().__init__(run.checkpoint, Refusal.UNREADABLE, "")
        what = "is gone" if known is None else f"knows {known} pokes"
        self.args = (
            f"the checkpoint {run.checkpoint} {what}, and the history beside it knows {decided}. Nothing is "
            "resumed from it, since pokes that are decided would be done again. Put the checkpoint that "
            f"belongs to it back, or move {run.path} away to begin a new run.",
        )


class Journal:
    """Everything one run writes down. All methods raise RecordError when the disk refuses."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._checkpoint = Checkpoint(run.checkpoint, WatchState, schema_version=SCHEMA, disk=run.disk)
        self._history = Lines(run.disk, run.history)
        self._flight = run.path / "flight.json"
        self._prompt = ""
        self.note = self._history.note

    def load(self) -> WatchState | None:
        """The memory to go on from; None for a run that has none yet. Raises CheckpointDamaged.

        Refused, too, is a memory that does not fit the history: going on from it would do pokes again.
        Removes what killed writes left unfinished.
        """
        for path in (self.run.checkpoint, self.run.history, self.run.ending_file, self._flight):
            self.run.disk.sweep(path)
        state = self._checkpoint.load()
        self._compare(state)
        for number in (state.pokes, state.pokes + 1) if state else (1,):
            self.run.disk.sweep(self.run.poke(number).prompt)
        return state

    def _compare(self, state: WatchState | None) -> None:
        """Hold the checkpoint against the end of the history."""
        decided = self._decided()
        if decided > (state.pokes if state else 0):
            raise CheckpointBehind(self.run, decided, state.pokes if state else None)
        least = state.pokes - bool(state.in_flight) if state else 0
        if decided < least:
            lost = f"the history ends at poke {decided}, and {least} were decided: its end is lost"
            self.note = "; ".join(filter(None, (self.note, lost)))

    def _decided(self) -> int:
        """The number of the last poke in the history; 0 without one."""
        newest = last(self.run.history, lambda document: isinstance(document.get("poke"), int))
        return int(newest.document["poke"]) if newest else 0

    def save(self, state: WatchState) -> None:
        self._checkpoint.save(state)

    def papers(self, number: int) -> PokeFiles:
        return self.run.poke(number)

    def prepare(self, number: int, prompt: str) -> PokeFiles:
        """Write the prompt down before it is sent, and make the files its answer goes to.

        A half-made poke of a killed start is overwritten.
        """
        papers = self.run.poke(number)
        for old in (papers.out, papers.err, papers.prompt):
            try:
                old.unlink(missing_ok=True)
            except OSError as error:
                raise RecordError(old, "delete", error.errno) from error
        same = self._prompt == prompt and self.run.disk.again(self.run.poke(number - 1).prompt, papers.prompt)
        if not same:
            self.run.disk.replace(papers.prompt, prompt.encode("utf-8", "replace"))
        self._prompt = prompt
        for path in (papers.out, papers.err):  # here, where a disk that refuses has its message
            os.close(self.run.disk.create(path, sync=False))
        return papers

    def note_start(self, number: int, pid: int, ticks: int, boot_id: str) -> None:
        """Who works on the poke: only needed while this boot lasts, so it need not survive a power cut."""
        note = {"poke": number, "pid": pid, "ticks": ticks, "boot_id": boot_id}
        self.run.disk.replace(self._flight, dump(note), survives=Survives.KILL)

    def started(self, number: int) -> dict[str, Any] | None:
        """What `note_start` noted of that poke; None where it was not started, or the note is lost."""
        note = self._noted(number)
        kinds = (note.get("pid"), note.get("ticks"), note.get("boot_id"))
        whole = isinstance(kinds[0], int) and isinstance(kinds[1], int) and isinstance(kinds[2], str)
        return note if whole else None

    def note_cut(self, number: int) -> int:
        """How many bytes that poke had printed before its orphan was first signalled, to be called before.

        The first answer stands, also where ending the orphan was itself cut short.
        """
        note = {"poke": number, **self._noted(number)}
        if not isinstance(note.get("cut_at"), int):
            note["cut_at"] = self.out_size(number)
            self.run.disk.replace(self._flight, dump(note), survives=Survives.KILL)
        return int(note["cut_at"])

    def out_size(self, number: int) -> int:
        """Bytes of that poke's output; 0 where there is none."""
        try:
            return self.run.poke(number).out.stat().st_size
        except OSError:
            return 0

    def _noted(self, number: int) -> dict[str, Any]:
        try:
            note = load(self._flight.read_bytes())
        except (OSError, ValueError):
            return {}
        return note if note.get("poke") == number else {}

    def record(self, state: WatchState, seen: Observation, decision: Decision, now: datetime) -> None:
        """The decision, before anything acts on it: history first, then the checkpoint.

        A power cut may bring the checkpoint before back; the history line then leads to the same decision.
        """
        self._history.append(self._line(state, seen, decision, now))
        self._checkpoint.save(decision.state, survives=Survives.POWER_CUT_OR_FORMER)

    def line_of(self, number: int) -> dict[str, Any] | None:
        """The history line of that poke where it is the last one; None where it was never decided."""
        newest = next((line for line in reversed(tail(self.run.history, 1)) if isinstance(line, Line)), None)
        return newest.document if newest and newest.document.get("poke") == number else None

    def end(self, state: WatchState, ending: str, exit_code: int, now: datetime) -> None:
        """The ending, for good: the next start is a new run."""
        self.save(state)
        self.run.end(
            {
                "ending": ending,
                "exit_code": exit_code,
                "because": state.because,
                "at": now.isoformat(),
                "pokes": state.pokes,
                "spent_usd": state.spent_usd,
                "session_id": state.session.id if state.session else None,
                "revision": state.revision.tip if state.revision else None,
                "published": state.published,
            }
        )

    def close(self) -> None:
        self._history.close()

    def _line(
        self, state: WatchState, seen: Observation, decision: Decision, now: datetime
    ) -> dict[str, Any]:
        answer, response, after = seen.answer, seen.answer.response, decision.state
        papers = self.run.poke(state.pokes)
        flight = state.in_flight
        out_sha, out_bytes = digest(papers.out)
        return {
            "poke": state.pokes,
            "at": now.isoformat(),
            "started_at": flight.started_at.isoformat() if flight else None,
            "outcome": decision.outcome.value,
            "because": decision.because,
            "progress": decision.progress,
            "next": after.ending.value if after.ending else after.wait.pause.value if after.wait else "",
            "wait_until": after.wait.until.isoformat() if after.wait else None,
            "reset": decision.reset.at.isoformat() if decision.reset else None,
            "reset_text": decision.reset.text if decision.reset else None,
            "reset_zone": decision.reset.zone if decision.reset else None,
            "session_id": response.session_id or (state.session.id if state.session else None),
            "resumed": answer.resumed,
            "ended": answer.ended.value,
            "exit_code": answer.exit_code,
            "cut_at": answer.cut_at,
            "revision": {"tip": seen.revision.tip, "tree": seen.revision.tree} if seen.revision else None,
            "open_tasks": list(seen.open_tasks),
            "denials": list(response.denials),
            "cost_usd": response.cost_usd,
            "spent_usd": after.spent_usd,
            "result": response.document,
            "prompt": papers.prompt.name,
            "prompt_sha256": digest(papers.prompt)[0],
            "out": papers.out.name,
            "out_sha256": out_sha,
            "out_bytes": out_bytes,
            "err": papers.err.name,
        }


def digest(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, read in blocks; ("", 0) where it cannot be read."""
    total = hashlib.sha256()
    size = 0
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return "", 0
    try:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while block := file.read(1 << 20):
                total.update(block)
                size += len(block)
    except OSError:
        return "", 0
    return total.hexdigest(), size
