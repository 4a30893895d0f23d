"""What a publication would add to the remote, as the checks before it see it.

Every commit counts by itself: what a later one deletes again can be read by whoever fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FORMAT = "--format=commit %H %P"  # of `git log -z --raw`, which `parsed` reads

ONE_LOOK = 8 * 2**20  # bytes of contents that are read at once

_SUBMODULE = "160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path in one commit, and what stands there since."""

    commit: str
    path: str  # as git has it; bytes that are no UTF-8 are surrogates. Not safe to print
    blob: str = ""  # "": nothing (deleted), or a submodule


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One text that would be published, and where it stands first."""

    commit: str
    path: str  # "": the commit itself, with its message
    size: int  # bytes
    data: bytes | None  # None: larger than was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommits:
    """The commits the remote does not hold yet. Reading contents may raise GitError."""

    tip: str
    onto: str  # the remote branch's tip, "" where it has no such branch
    commits: tuple[str, ...]  # children before their parents
    changes: tuple[Change, ...]  # of a merge only what is in none of its parents, and `overall`
    git_dir: Path  # where all of it is: the quarantine
    objects: Objects = field(compare=False, repr=False)
    continues: bool = True  # whether `onto` is below `tip`

    def contents(self, most: int) -> Iterator[Content]:
        """Every file and every commit once, in no order; `most` bytes of each at most are read."""
        first = {commit: (commit, "") for commit in reversed(self.commits)}
        for change in reversed(self.changes):
            if change.blob:
                first.setdefault(change.blob, (change.commit, change.path))
        for name, size, data in self.objects.read(tuple(first), most):
            commit, path = first[name]
            yield Content(commit=commit, path=path, size=size, data=data)


@dataclass(slots=True, kw_only=True)
class Objects:
    """Reads objects by name. What is small is read once and kept, since each check wants to see it."""

    together: Callable[[Sequence[str], int], dict[str, bytes] | None]  # None: beyond so many bytes
    measure: Callable[[Sequence[str]], dict[str, int]]
    in_time: Callable[[], object]  # raises once the time is over
    _kept: dict[str, bytes] | None = None
    _sizes: dict[str, int] = field(default_factory=dict)

    def read(self, names: Sequence[str], most: int) -> Iterator[tuple[str, int, bytes | None]]:
        """Name, size and content of each; no content where it is larger than `most` bytes."""
        if self._kept is None and not self._sizes:
            self._kept = self.together(names, ONE_LOOK)
            if self._kept is None:
                self._sizes = self.measure(names)
        if self._kept is not None:
            for name, data in self._kept.items():
                self.in_time()
                yield name, len(data), data if len(data) <= most else None
            return
        for group in groups(self._sizes, most):
            room = sum(self._sizes[name] for name in group)
            for name, data in (self.together(group, room) or {}).items():
                self.in_time()
                yield name, len(data), data
        yield from ((name, size, None) for name, size in self._sizes.items() if size > most)


def groups(sizes: Mapping[str, int], most: int, room: int = ONE_LOOK) -> Iterator[list[str]]:
    """The names of what is not larger than `most`, as many at a time as fit into the room; at least one."""
    group: list[str] = []
    used = 0
    for name, size in sizes.items():
        if size > most:
            continue
        if group and used + size > room:
            yield group
            group, used = [], 0
        group.append(name)
        used += size
    if group:
        yield group


def batch(out: bytes) -> dict[str, bytes]:
    """The objects in what `git cat-file --batch` printed, by name. Raises ValueError."""
    found: dict[str, bytes] = {}
    place = 0
    while place < len(out):
        end = out.index(b"\n", place)
        name, _, size = out[place:end].decode("ascii", "replace").split(" ")
        found[name] = out[end + 1 : end + 1 + int(size)]
        place = end + 2 + int(size)
    return found


def parsed(out: str) -> tuple[list[tuple[str, tuple[str, ...]]], list[Change]]:
    """The commits with their parents, and the changes, of `git log -z --raw -r -c FORMAT`.

    Raises ValueError on anything else.
    """
    commits: list[tuple[str, tuple[str, ...]]] = []
    changes: list[Change] = []
    words = iter(out.split("\0"))
    for word in words:
        word = word.lstrip("\n")
        if word.startswith("commit "):
            _, name, *parents = word.split()
            commits.append((name, tuple(parents)))
        elif word.startswith(":"):
            changes.append(_change(commits[-1][0], word, next(words, "")))
        elif word:
            raise ValueError(f"unexpected {word[:40]!r}")
    return commits, changes


def _change(commit: str, record: str, path: str) -> Change:
    """ ":mode mode name name status"; of a merge a colon, a mode and a name more for each parent more."""
    parents = len(record) - len(record.lstrip(":"))
    fields = record.lstrip(":").split()
    if len(fields) != 2 * parents + 3 or not path:
        raise ValueError(f"unexpected {record[:80]!r}")
    mode, name = fields[parents], fields[2 * parents + 1]
    there = mode != _SUBMODULE and name.strip("0")
    return Change(commit=commit, path=path, blob=name if there else "")
