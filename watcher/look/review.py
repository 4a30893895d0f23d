"""What waits for a person (H 5.3, 7.5): told in words, and as JSON.

Everything the agent chose, such as the name of a branch or the subject of a commit, is shown escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from watcher.look.review_records import Item, Records
from watcher.look.words import ago, line, stamp
from watcher.record.signoffs import Commit, SignOff

SHOWN = 20  # of a kind, in words; all of them are in the JSON
TIP = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Somewhere beside the branch that has work."""

    name: str
    tip: Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What git says of the project."""

    branch: str
    tip: str
    unsigned: tuple[Commit, ...] = ()
    unpublished: tuple[Commit, ...] | None = None  # None: publishing is off, or nothing is known
    elsewhere: tuple[Elsewhere, ...] = ()
    uncommitted: tuple[str, ...] = ()
    lost: tuple[SignOff, ...] = ()  # signatures whose commit the branch no longer has
    shallow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A snapshot of uncommitted work."""

    name: str
    at: datetime
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Everything that waits, and what could not be looked at."""

    project: str
    since: SignOff | None  # the last signature for a state
    work: Work | None
    records: Records
    snapshots: tuple[Kept, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        work, seen = self.work, self.records
        in_git = work and (
            work.unsigned or work.unpublished or work.elsewhere or work.uncommitted or work.lost
        )
        return bool(in_git or seen.runs or seen.needs or seen.alerts or seen.denied or seen.refused)


# --- for a person -------------------------------------------------------------------------------


def text(review: Review, now: datetime) -> str:
    """A paragraph for each kind of thing that waits."""
    lines = [line(review.project), *(f"  {part}" for part in _body(review, now))]
    lines += [f"  problem: {line(problem)}" for problem in review.problems]
    if not review.waits and not review.problems:
        lines.append("  nothing waits for a person")
    return "\n".join(lines)


def _body(review: Review, now: datetime) -> Iterator[str]:
    if review.since:
        who, what = line(review.since.by), review.since.commit[:TIP]
        yield f"last signed off: {what} by {who}, {ago(review.since.at, now)}"
    if review.work:
        yield from _work(review.work)
    seen = review.records
    yield from _items("runs that did not end in done", seen.runs, now)
    yield from _items("the agent could not go on without a person", seen.needs, now)
    yield from _items("alerts", seen.alerts, now)
    yield from _items("tools the agent was denied", seen.denied, now)
    yield from _items("publications that were refused", seen.refused, now)
    kept = [f"{one.name}, {one.files} files, {ago(one.at, now)}" for one in review.snapshots]
    yield from _listed("uncommitted work that is kept (harness restore)", kept)
    if seen.cut:
        yield "older records were not looked through"


def _work(work: Work) -> Iterator[str]:
    branch = line(work.branch)
    yield from _listed(f"not signed off on {branch}", map(_commit, work.unsigned))
    if work.shallow:
        yield "the repository is shallow: what was before its first commit is not shown"
    for gone in work.lost:
        yield (
            f"signed off by {line(gone.by)} on {stamp(gone.at)} and no longer on {branch}: "
            f"{gone.commit[:TIP]}. History was rewritten"
        )
    yield from _listed("not known to be on the remote", map(_commit, work.unpublished or ()))
    yield from _listed(
        "work elsewhere, which is not published",
        (f"{line(place.name)}: {_commit(place.tip)}" for place in work.elsewhere),
    )
    yield from _listed("not committed", map(line, work.uncommitted))


def _commit(commit: Commit) -> str:
    return f"{commit.id[:TIP]}  {stamp(commit.at)[:16]}  {line(commit.author)}  {line(commit.subject)}"


def _items(title: str, items: Sequence[Item], now: datetime) -> Iterator[str]:
    yield from _listed(title, (_item(item, now) for item in items))


def _item(item: Item, now: datetime) -> str:
    where = ", ".join(
        part
        for part in (
            item.run,
            f"poke {item.poke}" if item.poke else "",
            ago(item.at, now) if item.at else "",
            f"{item.count} times" if item.count > 1 else "",
        )
        if part
    )
    return f"{line(item.text)}{f' ({where})' if where else ''}"


def _listed(title: str, entries: Iterable[str]) -> Iterator[str]:
    shown = list(entries)
    if shown:
        yield f"{title}: {len(shown)}"
        yield from (f"  {entry}" for entry in shown[:SHOWN])
    if len(shown) > SHOWN:
        yield f"  and {len(shown) - SHOWN} more (--json shows all)"


# --- for a script -------------------------------------------------------------------------------


def document(review: Review) -> dict[str, Any]:
    """The same as JSON. Keys are only ever added; what is not known is null."""
    work, seen = review.work, review.records
    return {
        "project": review.project,
        "waits": review.waits,
        "last_signoff": signoff(review.since) if review.since else None,
        "branch": work.branch if work else None,
        "tip": work.tip if work else None,
        "unsigned": [_as_json(one) for one in work.unsigned] if work else None,
        "unpublished": [_as_json(one) for one in work.unpublished]
        if work and work.unpublished is not None
        else None,
        "elsewhere": [{"name": one.name, **_as_json(one.tip)} for one in work.elsewhere] if work else None,
        "uncommitted": list(work.uncommitted) if work else None,
        "signed_and_gone": [signoff(one) for one in work.lost] if work else None,
        "shallow": work.shallow if work else None,
        "runs": list(map(_thing, seen.runs)),
        "needs_human": list(map(_thing, seen.needs)),
        "alerts": list(map(_thing, seen.alerts)),
        "denied": list(map(_thing, seen.denied)),
        "refused_publications": list(map(_thing, seen.refused)),
        "snapshots": [
            {"name": one.name, "at": one.at.isoformat(), "files": one.files} for one in review.snapshots
        ],
        "cut": seen.cut,
        "problems": list(review.problems),
    }


def signoff(one: SignOff) -> dict[str, Any]:
    """One signature as JSON."""
    import msgspec

    whole: dict[str, Any] = msgspec.to_builtins(one)
    return whole


def _as_json(commit: Commit) -> dict[str, str]:
    return {
        "commit": commit.id,
        "at": commit.at.isoformat(),
        "author": commit.author,
        "subject": commit.subject,
    }


def _thing(item: Item) -> dict[str, Any]:
    at = item.at.isoformat() if item.at else None
    return {"text": item.text, "at": at, "run": item.run or None, "poke": item.poke, "count": item.count}
