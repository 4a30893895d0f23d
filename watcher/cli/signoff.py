"""harness signoff: a person's signature under a task or a state of the work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here
from watcher.cli.review import NotSeen, history_of, opened, since_signed
from watcher.decision.endings import Exit

if TYPE_CHECKING:
    from watcher.config import Loaded
    from watcher.effect.commits import History
    from watcher.look.place import Place
    from watcher.record.runs import Run
    from watcher.record.signoffs import Book, Commit, SignOff

SHOWN = 20
LONGEST = 200  # of a name


@click.command("signoff")
@click.argument("project")
@click.argument("what", required=False, metavar="[TASK|COMMIT]")
@click.option("--by", default="", help="Who signs: your name.")
@click.option("--note", default="", help="What you looked at, or found.")
@click.option("--json", "as_json", is_flag=True, help="The signatures as JSON lines.")
@config_option
def command(
    project: str, what: str | None, by: str, note: str, as_json: bool, config_file: Path | None
) -> int:
    """Sign off work of PROJECT that you have checked by hand, or list what was signed off.

    A COMMIT is signed off as a state: everything that leads to it counts as looked at. A TASK is signed
    off with the commits whose subject names it. Signatures are only ever added.

    \b
    Exit: 0 signed or listed, 64 no such task or commit, 78 it cannot be signed.
    Example: harness signoff ~/project T-101 --by "Ann Smith"
    """
    from watcher.look.place import find
    from watcher.look.terminal import looking

    if what and not by.strip():
        raise click.UsageError('Say who signs: --by "Your Name".')
    if not what and (by or note):
        raise click.UsageError("Say what you sign off: a task's id, or a commit.")
    if by and (len(by) > LONGEST or not by.isprintable()):
        raise click.UsageError(f"--by must be a name: one line of at most {LONGEST} letters.")
    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        known = with_records(place)
        if what:
            refuse_the_agent(place)
            sign(Signing(place, known, opened_or_refused(project, config_file)), what, by.strip(), note)
        else:
            listing(place, as_json=as_json)
    return told.exit_code


def with_records(place: Place) -> list[Run]:
    """The project's runs. Raises CannotLook without any: then there is nothing of the agent's to sign."""
    from watcher.look.place import demand_known, runs
    from watcher.look.terminal import CannotLook

    demand_known(place)
    known = runs(place)
    if not known:
        raise CannotLook(f"{place.home.project} has had no run here, so there is nothing to sign off")
    return known


def refuse_the_agent(place: Place) -> None:
    """The records are out of its reach anyway; this says so in words. Raises CannotLook."""
    import pwd

    from watcher.look.terminal import CannotLook

    try:
        agent = pwd.getpwnam(place.agent_user).pw_uid if place.agent_user else None
    except KeyError:
        return
    if agent is not None and agent == os.getuid() != 0:
        raise CannotLook(f"{place.agent_user} is the agent's user: the agent does not sign off its own work")


def opened_or_refused(project: str, config_file: Path | None) -> Loaded:
    from watcher.look.terminal import CannotLook

    try:
        return opened(project, config_file)
    except NotSeen as error:
        raise CannotLook(str(error)) from error


class Signing:
    """One project in which something is to be signed."""

    def __init__(self, place: Place, known: Sequence[Run], loaded: Loaded) -> None:
        from watcher.effect.git import GitError
        from watcher.look.status import status
        from watcher.look.terminal import CannotLook
        from watcher.record.signoffs import read

        self.place = place
        self.book: Book = read(place.home.signoffs)
        try:
            self.history: History = history_of(loaded, place, status(place))
            self.tip = self.history.tip
            self.open = self.book.unsigned(since_signed(self.history, self.tip, self.book, known))
        except (GitError, NotSeen) as error:
            raise CannotLook(f"git could not be asked: {error}") from error
        self.tasks = task_ids(loaded, place.home.project)

    def resolved(self, what: str) -> tuple[str, Commit, list[Commit]]:
        """The task or "", the newest commit, and all that the signature covers anew. Raises CannotLook."""
        from watcher.effect.commits import Unknown
        from watcher.look.terminal import CannotLook
        from watcher.record.signoffs import naming

        listed = next((task for task in self.tasks if task.lower() == what.lower()), "")
        if listed or looks_like_a_task(what):
            named = naming(listed or what, self.history.since(self.tip, ()))
            if named:
                return listed or what, named[0], named
        try:
            commit = self.history.resolve(what, self.tip)
        except Unknown as error:
            why = (
                f"no commit on {self.history.branch} names the task {listed} in its subject: sign its "
                "commit instead"
                if listed
                else f"{what!r} is neither a task nor a commit here: {error}"
            )
            raise CannotLook(why, Exit.USAGE) from error
        leading = {one.id for one in self.history.since(commit.id, self.book.states)}
        return "", commit, [one for one in self.open if one.id in leading]


def task_ids(loaded: Loaded, project: Path) -> list[str]:
    from watcher.prepare import task_paths
    from watcher.tasks.list import read_plain_file
    from watcher.tasks.read import read_tasks

    texts = (read_plain_file(project / path) for path in task_paths(loaded))
    return [task.id for text in texts if text for task in read_tasks(text)]


def looks_like_a_task(what: str) -> bool:
    import re

    return re.fullmatch(r"[A-Za-z][A-Za-z0-9]*-\d+", what) is not None


def sign(signing: Signing, what: str, by: str, note: str) -> None:
    """Write the signature down, and tell what it covers. Raises CannotLook, RecordError."""
    from watcher.look.terminal import CannotLook, say
    from watcher.look.words import line, stamp
    from watcher.record.signoffs import add

    if not signing.tip:
        raise CannotLook(f"there is no commit on {line(signing.history.branch)} yet", Exit.USAGE)
    task, commit, covered = signing.resolved(what)
    new = signature(signing, what, task, commit, covered, by=by, note=note)
    if old := signing.book.same(new):
        say(f"already signed off by {line(old.by)} on {stamp(old.at)}; nothing was added")
        return
    problem = add(signing.place.home.signoffs, new, signing.place.home.disk)
    branch = line(signing.history.branch)
    kind = f"task {line(task)}" if task else f"{commit.id[:12]} and all that leads to it"
    say(f"signed off by {line(by)}: {kind}, on {branch}")
    for one in covered[:SHOWN]:
        say(f"  {one.id[:12]}  {line(one.author)}  {line(one.subject)}")
    if len(covered) > SHOWN:
        say(f"  and {len(covered) - SHOWN} more")
    if problem:
        say(f"note: {problem}")


def signature(
    signing: Signing,
    what: str,
    task: str,
    commit: Commit,
    covered: Sequence[Commit],
    *,
    by: str,
    note: str,
) -> SignOff:
    from watcher.look.place import user_name
    from watcher.record.signoffs import SignOff

    sudo = os.environ.get("SUDO_UID", "")
    return SignOff(
        at=datetime.now(UTC),
        by=by,
        uid=os.getuid(),
        user=user_name(os.getuid()),
        sudo_uid=int(sudo) if sudo.isascii() and sudo.isdigit() and os.getuid() == 0 else None,
        what=what,
        task=task,
        commit=commit.id,
        commits=tuple(one.id for one in covered) if task else (),
        branch=signing.history.branch,
        note=note,
    )


def listing(place: Place, *, as_json: bool) -> None:
    """Every signature, the oldest first. Raises CannotLook where one cannot be read."""
    from watcher.look.lines import escaped
    from watcher.look.review import signoff
    from watcher.look.terminal import CannotLook, on_terminal, say
    from watcher.look.words import line, stamp
    from watcher.record.documents import dump
    from watcher.record.signoffs import read

    book = read(place.home.signoffs)
    for one in book.signoffs:
        if as_json:
            words = dump(signoff(one)).decode()
            say(escaped(words) if on_terminal() else words)
            continue
        kind = f"task {line(one.task)} ({len(one.commits)} commits)" if one.task else "state"
        user = line(one.user) + (f", sudo of uid {one.sudo_uid}" if one.sudo_uid is not None else "")
        note = f": {line(one.note)}" if one.note else ""
        say(f"{stamp(one.at)}  {one.commit[:12]}  {kind}  by {line(one.by)} (user {user}){note}")
    if not book.signoffs and not as_json:
        say("nothing has been signed off yet")
    if book.damaged:
        raise CannotLook(f"some signatures cannot be read: {'; '.join(book.damaged)}")
