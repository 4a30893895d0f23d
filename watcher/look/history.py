"""The history: a line a poke, or one exchange whole, with nothing in it that moves a cursor (H 8.2)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from watcher.look.lines import Entry, Start, damage, first_at_least, raw_lines, start_of_last
from watcher.look.terminal import CannotLook, complain, say, width
from watcher.look.words import dollars, instant, line, paragraph, span, stamp
from watcher.record.lines import Damaged, Line, backwards, iterate, last
from watcher.record.runs import Run

TEXT_MAX = 256 * 1024  # bytes of a prompt, an answer or an error output that are shown
HEAD = f"{'POKE':>6}  {'TIME (UTC)':<19}  {'OUTCOME':<12}  {'NEXT':<27}  {'COST':>8}  {'SESSION':<8}  BECAUSE"


def show(run: Run, count: int, outcomes: Collection[str], *, as_json: bool) -> None:
    """The last `count` pokes, or the last that came to one of `outcomes`, oldest first."""

    def wanted(entry: Entry) -> bool:
        return isinstance(entry, Damaged) or not outcomes or entry.document.get("outcome") in outcomes

    start = start_of_last(run.history, count, wanted)
    if start.cut:
        complain(f"older lines of {run.history} were not looked through; all of them are in that file")
    if next(backwards(run.history), None) is None:
        raise CannotLook(f"no poke of run {run.name} has been decided yet")
    if as_json:
        with raw_lines(run.history) as raw:
            for entry in filter(wanted, iterate(run.history, start.offset)):
                say(raw(entry))
        return
    columns = width()
    for text in (HEAD, *(text for entry, text in _rows(run.history, start) if wanted(entry))):
        say(text[:columns])


def _rows(path: Path, start: Start) -> Iterator[tuple[Entry, str]]:
    """Every line from `start` on. A poke's own cost is by how much it raised what the run has spent."""
    spent = _spent(start.before) if start.offset else 0.0
    for entry in iterate(path, start.offset):
        before, spent = spent, _spent(entry)
        if isinstance(entry, Damaged):
            yield entry, damage(entry)
        else:
            yield entry, row(entry.document, None if before is None or spent is None else spent - before)


def row(document: dict[str, Any], cost: float | None) -> str:
    at = instant(document.get("at"))
    cells = (
        f"{line(str(document.get('poke', '?'))):>6}",
        f"{stamp(at)[:19] if at else '?':<19}",
        f"{line(document.get('outcome')):<12}",
        f"{_next(document):<27}",
        f"{dollars(cost if document.get('cost_usd') is not None else None):>8}",
        f"{line(document.get('session_id'))[:8]:<8}",
        line(document.get("because")),
    )
    return "  ".join(cells)


def _spent(entry: Entry | None) -> float | None:
    value = entry.document.get("spent_usd") if isinstance(entry, Line) else None
    return float(value) if isinstance(value, int | float) else None


def _next(document: dict[str, Any]) -> str:
    until = instant(document.get("wait_until"))
    what = line(document.get("next"))
    if until is None:
        return f"end: {what}"
    return "poke" if what == "between pokes" else f"{what} until {until:%H:%M}"


# --- one exchange -------------------------------------------------------------------------------


def poke(run: Run, number: int) -> Line | None:
    """The line of that poke; None where it was never decided, or its line is damaged."""
    found = first_at_least(run.history, number, _number)
    return found if found is not None and _number(found) == number else None


def show_poke(run: Run, number: int, *, as_json: bool) -> None:
    """What was sent, what came back and what was decided. Raises CannotLook for a poke never begun."""
    found = poke(run, number)
    if found is None and (as_json or not run.poke(number).prompt.exists()):
        newest = last(run.history, lambda document: isinstance(document.get("poke"), int))
        known = f"its last decided one is {_number(newest)}" if newest else "none has been decided yet"
        raise CannotLook(f"run {run.name} has no line of a poke {number}; {known}")
    if as_json and found is not None:
        with raw_lines(run.history) as raw:
            say(raw(found))
        return
    for text in _exchange(run, number, found.document if found else None):
        say(text)


def _exchange(run: Run, number: int, document: dict[str, Any] | None) -> Iterator[str]:
    papers = run.poke(number)
    yield f"poke {number} of run {run.name}"
    if document is None:
        yield "  no decision is recorded: the agent is working, or the line is damaged"
    else:
        yield from (f"  {name:<10} {value}" for name, value in _facts(document) if value)
    yield from _file("prompt", papers.prompt)
    if document is not None:
        yield from _result(document)
    yield from _file("stderr", papers.err)
    yield from _output(papers.out, document)


def _facts(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    began, at = instant(document.get("started_at")), instant(document.get("at"))
    yield "decided", stamp(at) if at else ""
    yield "took", span(at - began) if at and began else ""
    yield "outcome", line(document.get("outcome")) + (", new revision" if document.get("progress") else "")
    yield "because", line(document.get("because"))
    until = instant(document.get("wait_until"))
    yield "next", line(document.get("next")) + (f" until {stamp(until)}" if until else "")
    reset = instant(document.get("reset"))
    yield "reset", f"{stamp(reset)}, from: {line(document.get('reset_text'))}" if reset else ""
    said, spent = dollars(document.get("cost_usd")), dollars(document.get("spent_usd"))
    yield "cost", f"the program said {said}; the run has spent {spent}"
    resumed = " (resumed)" if document.get("resumed") else ""
    yield "session", line(document.get("session_id")) + resumed
    yield "ended", f"{line(document.get('ended'))}, exit code {line(str(document.get('exit_code')))}"
    revision = document.get("revision")
    yield "revision", line(revision.get("tip")) if isinstance(revision, dict) else "git could not say"
    yield "denied", _list(document.get("denials"))
    yield "open tasks", _list(document.get("open_tasks"))


def _list(value: object) -> str:
    return ", ".join(line(item) for item in value if isinstance(item, str)) if isinstance(value, list) else ""


def _result(document: dict[str, Any]) -> Iterator[str]:
    """The answer's text as text, and everything else the program said about it."""
    import json

    result = document.get("result")
    if not isinstance(result, dict):
        yield "\nresult: none could be read"
        return
    if isinstance(said := result.get("result"), str):
        yield f"\nresult\n{paragraph(said)}"
    others = {key: value for key, value in result.items() if not (key == "result" and isinstance(value, str))}
    yield f"\nresult, the rest\n{paragraph(json.dumps(others, indent=2, ensure_ascii=False))}"


def _file(what: str, path: Path) -> Iterator[str]:
    """The end of a file, which is where an error stands; all of it where that is not long."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TEXT_MAX))
            content = file.read(TEXT_MAX).decode("utf-8", "replace")
    except OSError as error:
        yield f"\n{what}: {path} cannot be read: {error.strerror}"
        return
    shown = "" if size <= TEXT_MAX else f", the last {TEXT_MAX} shown"
    yield f"\n{what}: {path} ({size} bytes{shown})"
    if content:
        yield paragraph(content)


def _output(path: Path, document: dict[str, Any] | None) -> Iterator[str]:
    """Where the complete output is, and whether it is still as long as when it was recorded."""
    try:
        size = path.stat().st_size
    except OSError as error:
        yield f"\noutput: {path} cannot be read: {error.strerror}"
        return
    recorded = (document or {}).get("out_bytes", size)
    changed = "" if recorded == size else f"; it had {recorded} when it was recorded"
    yield f"\noutput: {path} ({size} bytes{changed})"


def _number(found: Line) -> int | None:
    value = found.document.get("poke")
    return value if isinstance(value, int) and not isinstance(value, bool) else None
