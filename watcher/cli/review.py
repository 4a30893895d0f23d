"""harness review: what waits for a person."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here
from watcher.decision.endings import Exit

if TYPE_CHECKING:
    from watcher.config import Loaded
    from watcher.effect.commits import History
    from watcher.look import place as places
    from watcher.look.review import Kept, Review, Work
    from watcher.look.status import Status
    from watcher.record.runs import Run
    from watcher.record.signoffs import Book, Commit

SIGNATURES = 20  # the newest ones, whose commits are looked for on the branch


@click.command("review")
@click.argument("project")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@config_option
def command(project: str, as_json: bool, config_file: Path | None) -> int:
    """Say what waits for a person in PROJECT: work nobody has signed off, and what went wrong.

    Commits without a signature, work that is not published or stands elsewhere, runs that did not end in
    done, alerts, tools the agent was denied, publications that were refused, kept uncommitted work.
    Signing off a commit (harness signoff) says that everything up to it was looked at.

    \b
    Exit: 0 told, 78 there is nothing to tell, or something that cannot be read.
    Example: harness review ~/project
    """
    from watcher.look.lines import escaped
    from watcher.look.place import find
    from watcher.look.review import document, text
    from watcher.look.terminal import looking, on_terminal, say
    from watcher.record.documents import dump

    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        review = reviewed(place, project, config_file)
        if as_json:
            words = dump(document(review)).decode()
            say(escaped(words) if on_terminal() else words)
        else:
            say(text(review, datetime.now(UTC)))
        told.exit_code = Exit.CONFIG if review.problems else 0
    return told.exit_code


def reviewed(place: places.Place, project: str, config_file: Path | None) -> Review:
    """Look at everything. What cannot be looked at is a problem told; raises CannotLook, RecordError."""
    from watcher.look.place import runs
    from watcher.look.review import Review
    from watcher.look.review_records import records
    from watcher.look.status import status
    from watcher.record.signoffs import read

    known = runs(place)
    seen = status(place)
    book = read(place.home.signoffs)
    problems = [*book.damaged, *([seen.problem] if seen.problem else [])]
    work: Work | None = None
    try:
        work = in_git(opened(project, config_file), place, seen, known, book)
    except NotSeen as error:
        problems.append(f"git could not be asked: {error}")
    since = book.last_state
    working = seen.live.run if seen.live else ""
    return Review(
        project=str(place.home.project) + (f" ({place.name})" if place.name else ""),
        since=since,
        work=work,
        records=records(place.home, known, since.at if since else None, working),
        snapshots=tuple(kept(place.home.snapshots, since.at if since else None)),
        problems=tuple(problems),
    )


class NotSeen(Exception):
    """The project cannot be asked; the records still can."""


def opened(project: str, config_file: Path | None) -> Loaded:
    """The configuration, without which nobody knows as whom git may run. Raises NotSeen."""
    from watcher.config import ConfigError, load

    try:
        return load(project, environ=os.environ, overrides={}, config_file=config_file, cwd=here())
    except ConfigError as error:
        raise NotSeen(str(error)) from error


def history_of(loaded: Loaded, place: places.Place, seen: Status) -> History:
    """The branch that is worked on, as only the agent's user may touch it. Raises NotSeen."""
    from watcher.effect.commits import History
    from watcher.effect.git import GitError
    from watcher.prepare import Refused
    from watcher.prepare.checks import existing_directory
    from watcher.prepare.confined import agents_repository

    try:
        existing_directory(str(place.home.project))
        repository = agents_repository(loaded, place.home, os.environ)
        branch = seen.state.branch if seen.state else loaded.config.publish.branch
        return History(repository=repository, branch=branch or repository.head_branch())
    except (GitError, Refused) as error:
        raise NotSeen(str(error)) from error


def in_git(
    loaded: Loaded, place: places.Place, seen: Status, known: Sequence[Run], book: Book
) -> Work | None:
    """What the project itself says. Raises NotSeen."""
    from watcher.effect.git import GitError
    from watcher.look.review import Elsewhere, Work

    history = history_of(loaded, place, seen)
    try:
        tip = history.tip
        if not tip:
            return Work(branch=history.branch, tip="", uncommitted=history.repository.disarmed().dirty())
        return Work(
            branch=history.branch,
            tip=tip,
            unsigned=tuple(book.unsigned(since_signed(history, tip, book, known))),
            unpublished=unpublished(history, tip, seen),
            elsewhere=tuple(Elsewhere(name=one.name, tip=one.tip) for one in history.elsewhere(tip)),
            uncommitted=history.repository.disarmed().dirty(),
            lost=tuple(one for one in book.signoffs[-SIGNATURES:] if not history.leads(one.commit, tip)),
            shallow=history.is_shallow(),
        )
    except GitError as error:
        raise NotSeen(str(error)) from error


def since_signed(history: History, tip: str, book: Book, known: Sequence[Run]) -> list[Commit]:
    """The commits after the last state somebody signed; where nobody has, since the first run began.

    A run knows the tree that it began with, and not the commit. Of several commits with that tree the
    oldest is taken: rather too much is shown than too little.
    """
    if book.states:
        return history.since(tip, book.states)
    commits = history.since(tip, ())
    began = first_tree(known)
    at = max((place for place, commit in enumerate(commits) if commit.tree == began), default=len(commits))
    return commits[:at]


def first_tree(known: Sequence[Run]) -> str:
    from watcher.decision.state import SCHEMA, WatchState
    from watcher.record.checkpoint import Checkpoint, CheckpointDamaged

    for run in known:
        if run.shift != "watch":
            continue
        try:
            state = Checkpoint(run.checkpoint, WatchState, schema_version=SCHEMA).load()
        except CheckpointDamaged:
            continue
        if state is not None and state.seen:
            return state.seen[0]
    return ""


def unpublished(history: History, tip: str, seen: Status) -> tuple[Commit, ...] | None:
    """What the remote was not known to hold when it was last asked; None where nothing is published."""
    state = seen.state
    if state is None or not state.remote:
        return None
    if not state.published:
        return tuple(history.since(tip, ())[:1])  # nobody knows how much: the newest stands for all
    return tuple(history.since(tip, (state.published,)))


def kept(snapshots: Path, since: datetime | None) -> Iterator[Kept]:
    """The snapshots taken since, the newest first."""
    from watcher.effect.snapshot_manifest import Manifest, all_of
    from watcher.look.review import Kept

    known: Mapping[str, Manifest] = all_of(snapshots)
    for name, manifest in reversed(list(known.items())):
        if since is None or manifest.taken_at > since:
            yield Kept(name=name, at=manifest.taken_at, files=len(manifest.kept()))
