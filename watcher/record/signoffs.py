"""A person's signature under the agent's work (H 5.3, 7.5): append-only, and out of the agent's reach.

Gates are necessary and not sufficient: what a person found by hand no test had found. A signature names
commits by their whole names, resolved when it was given, so that nothing added later slips under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from watcher.record.files import Disk
from watcher.record.lines import Damaged, Lines, iterate


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit as a person is shown it. Author and subject are the agent's words: escape them."""

    id: str
    tree: str
    author: str
    at: datetime
    subject: str


class SignOff(msgspec.Struct, frozen=True, kw_only=True):
    """One signature. Without a task it is for the state at `commit`: all that leads there as well."""

    at: datetime
    by: str  # the person, as given
    uid: int  # of the process that signed, which is what the machine knows
    user: str
    sudo_uid: int | None = None  # whom sudo says it was; a claim of the environment
    what: str  # the word that was given
    task: str = ""
    commit: str  # whole; of a task the newest of its commits
    commits: tuple[str, ...] = ()  # of a task: all that named it then
    branch: str
    note: str = ""

    @property
    def is_state(self) -> bool:
        return not self.task


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """All signatures of one project, in the order in which they were given."""

    signoffs: tuple[SignOff, ...] = ()
    damaged: tuple[str, ...] = ()  # lines that cannot be read, each in words

    @property
    def last_state(self) -> SignOff | None:
        """The last signature for a state: up to there everything was looked at."""
        return next((one for one in reversed(self.signoffs) if one.is_state), None)

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.commit for one in self.signoffs if one.is_state))

    def unsigned(self, commits: Iterable[Commit]) -> list[Commit]:
        """Those of `commits`, none of which a state covers, that no task's signature names either."""
        signed = {commit for one in self.signoffs for commit in one.commits}
        return [commit for commit in commits if commit.id not in signed]

    def same(self, new: SignOff) -> SignOff | None:
        """The signature of the same person for the same work, where there is one."""
        wanted = (new.by, new.task, new.commit, new.commits)
        found = (one for one in self.signoffs if (one.by, one.task, one.commit, one.commits) == wanted)
        return next(found, None)


def read(path: Path) -> Book:
    """Every signature there is. A damaged line is told, never skipped in silence. Raises RecordError."""
    good: list[SignOff] = []
    damaged: list[str] = []
    for line in iterate(path):
        if isinstance(line, Damaged):
            damaged.append(f"{path}, byte {line.offset}: {line.problem}")
            continue
        try:
            good.append(msgspec.convert(line.document, SignOff))
        except msgspec.ValidationError as error:
            damaged.append(f"{path}, byte {line.offset}: {error}")
    return Book(signoffs=tuple(good), damaged=tuple(damaged))


def add(path: Path, signoff: SignOff, disk: Disk) -> str:
    """Append one signature, durable on return; what had to be set aside, or "". Raises RecordError."""
    with Lines(disk, path) as lines:
        lines.append(signoff)
        return lines.note


def naming(task: str, commits: Sequence[Commit]) -> list[Commit]:
    """The commits whose subject names the task: one task, one commit, its id in the subject (H 8, rule 3)."""
    import re

    pattern = re.compile(rf"(?<![\w-]){re.escape(task)}(?![\w-])", re.IGNORECASE)
    return [commit for commit in commits if pattern.search(commit.subject)]
