"""What the records hold that a person has not looked at yet: read from their ends, no further than that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from watcher.look.words import instant
from watcher.record.home import Home
from watcher.record.lines import Damaged, backwards
from watcher.record.runs import Run

RUNS = 20  # looked at where nobody has signed anything yet
SEARCH = 32 * 2**20  # bytes of one file
NEEDS = "needs_human"
ALERT = "alert: "
BEGUN = "push"  # announces one; what came of it is in the next line
FINE = ("published", "already", "handed")  # how the results of a publication begin that went through


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that waits, or several alike. `text` holds words of the agent: escape them."""

    text: str
    at: datetime | None = None  # the last time
    run: str = ""
    poke: int | None = None
    count: int = 1


@dataclass(slots=True, kw_only=True)
class Records:
    """What the runs since the last signature left for a person, the newest first."""

    runs: list[Item] = field(default_factory=list)
    needs: list[Item] = field(default_factory=list)
    alerts: list[Item] = field(default_factory=list)
    denied: list[Item] = field(default_factory=list)
    refused: list[Item] = field(default_factory=list)
    cut: bool = False  # older records were not looked through


def records(home: Home, runs: list[Run], since: datetime | None, working: str) -> Records:
    """Everything after `since`. `working` is the run somebody works on now. Raises RecordError."""
    found = Records()
    for looked_at, run in enumerate(reversed(runs)):
        ending = run.ending()
        at = instant(ending.get("at")) if ending else None
        if since and at and at <= since:
            break
        if not since and looked_at == RUNS:
            found.cut = True
            break
        if (said := _how_it_ended(ending, live=run.name == working)) is not None:
            found.runs.append(Item(text=said, at=at, run=run.name))
        _history(run, since, found)
        _log(run, since, found)
        _publications(run.path, run.name, since, found)
    _publications(home.path, "", since, found)
    return found


def _how_it_ended(ending: dict[str, Any] | None, *, live: bool) -> str | None:
    """None for a run that is done, or that is going on."""
    if ending is None:
        return None if live else "stopped; the next start goes on with it"
    if "unreadable" in ending:
        return f"ended, and how cannot be read: {ending['unreadable']}"
    if ending.get("exit_code") == 0:
        return None
    return f"ended: {ending.get('ending')} (exit {ending.get('exit_code')}): {ending.get('because')}"


def _history(run: Run, since: datetime | None, found: Records) -> None:
    for document in _since(run.history, since, found):
        at, number = instant(document.get("at")), document.get("poke")
        poke = number if isinstance(number, int) else None
        if document.get("outcome") == NEEDS:
            _count(found.needs, Item(text=str(document.get("because")), at=at, run=run.name, poke=poke))
        for text in _denials(document):
            _count(found.denied, Item(text=text, at=at, run=run.name, poke=poke))


def _denials(document: dict[str, Any]) -> Iterator[str]:
    """The tool that was refused, with what it was to do where the program said so."""
    result = document.get("result")
    refused = result.get("permission_denials") if isinstance(result, dict) else None
    entries = refused if isinstance(refused, list) else document.get("denials")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            given = entry.get("tool_input")
            given = given if isinstance(given, dict) else {}
            what = given.get("command") or given.get("file_path") or given.get("url") or ""
            yield f"{entry.get('tool_name')}{f': {what}' if what else ''}"


def _log(run: Run, since: datetime | None, found: Records) -> None:
    for document in _since(run.path / "watcher.log", since, found):
        event = document.get("event")
        if isinstance(event, str) and event.startswith(ALERT):
            text = f"{event.removeprefix(ALERT)}: {document.get('why')}"
            _count(found.alerts, Item(text=text, at=instant(document.get("at")), run=run.name))


def _publications(folder: Path, run: str, since: datetime | None, found: Records) -> None:
    for document in _since(folder / "publications.jsonl", since, found):
        result = str(document.get("step") or document.get("result"))
        if result.lower().startswith(FINE):
            return  # what was refused before that has been published since
        if result != BEGUN:
            text = f"{result}: {document.get('detail')} (commit {document.get('tip')})"
            _count(found.refused, Item(text=text, at=instant(document.get("at")), run=run))


def _since(path: Path, since: datetime | None, found: Records) -> Iterator[dict[str, Any]]:
    """The readable lines after that instant, the newest first, of the last SEARCH bytes."""
    end: int | None = None
    for line in backwards(path):
        end = line.end if end is None else end
        if end - line.offset > SEARCH:
            found.cut = True
            return
        if isinstance(line, Damaged):
            continue  # `harness verify` tells of those
        at = instant(line.document.get("at"))
        if since and at and at <= since:
            return
        yield line.document


def _count(items: list[Item], new: Item) -> None:
    """Add one, or count it to its like: the newest of them came first and is the one that is dated."""
    for place, item in enumerate(items):
        if (item.text, item.run) == (new.text, new.run):
            items[place] = Item(
                text=item.text, at=item.at, run=item.run, poke=item.poke, count=item.count + 1
            )
            return
    items.append(new)
