"""Collect into the quarantine what a publication needs: the new commits, and what the remote holds below.

Nearly always the remote is where it was last time, and one small pack is all. Otherwise its tips are
taken from the project, which has them cheaply, and where that fails from the remote.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watcher.effect import handover
from watcher.effect.git import GitError, Repository, TooMuch
from watcher.effect.new_commits import NewCommits
from watcher.effect.publications import Memory
from watcher.effect.quarantine import DAMAGE, Quarantine
from watcher.effect.remote import Remote


class Until:
    """A moment until which all must be done. Raises GitError once it is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self, why: str = "it takes too long") -> float:
        """Seconds that are left, more than none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise GitError(f"{why}: not done within {self._seconds:g} s (publish.timeout_s)")
        return left


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """One publication's way of bringing things together. Every call may raise GitError and RecordError."""

    repository: Repository
    quarantine: Quarantine
    remote: Remote
    most: int  # bytes of packs, as they come from the project
    until: Until

    def collect(
        self, tip: str, there: str, tips: Mapping[str, str], last: Memory, *, fresh: bool
    ) -> tuple[NewCommits, frozenset[str]]:
        """The commits up to `tip` that the remote does not hold, and those it held once and does no more.

        `tips` is what the remote named by reference, `there` its branch's tip, `last` what it was known to
        hold, `fresh` that the quarantine was made just now.
        """
        names = tuple(dict.fromkeys(tips.values()))
        if not fresh and last.holds in names and last.tips.issuperset(names):
            try:
                return self._taken(tip, there, names, names), frozenset()
            except TooMuch:
                raise
            except GitError:
                pass  # the longer way either succeeds or says more
        try:
            return self._thorough(tip, there, tips, last.holds)
        except GitError as error:
            if fresh or not DAMAGE.search(str(error)):
                raise
            if self.quarantine.is_whole(names, (), timeout_s=self.until.left()):
                raise GitError(f"the project does not hand over whole commits: {error}") from error
        self.quarantine.remake(tip)  # something in it is damaged, and nothing in it is precious
        return self._thorough(tip, there, tips, last.holds)

    def is_below(self, tip: str, after: str) -> bool:
        """Whether the remote's new tip builds on ours."""
        if self.quarantine.missing((after,)):
            self.quarantine.fetch(self.remote, (self.remote.ref,), (), timeout_s=self.until.left())
        return not self.quarantine.missing((tip, after)) and self.quarantine.contains(after, tip)

    def _thorough(
        self, tip: str, there: str, tips: Mapping[str, str], held: str
    ) -> tuple[NewCommits, frozenset[str]]:
        names = tuple(dict.fromkeys(tips.values()))
        asked = tuple(dict.fromkeys((*names, *((held,) if held else ()))))
        known = handover.known(self.repository, asked)
        absent = self.quarantine.missing(asked)
        have = tuple(name for name in asked if name not in absent)
        shared = tuple(name for name in have if name in known)
        lacking = set(absent) - self._seeded([name for name in absent if name in known], shared)
        if refs := [ref for ref, name in tips.items() if name in lacking]:
            self.quarantine.fetch(self.remote, refs, have, timeout_s=self.until.left())
            if self.quarantine.missing(names):
                raise GitError("the remote was moved on while it was read; it is tried again later")
        base = dict.fromkeys((*shared, *(name for name in names if name in known)))
        new = self._taken(tip, there, names, tuple(base))
        gone: frozenset[str] = frozenset()
        if held and held not in names and not self.quarantine.missing((held,)):
            gone = self.quarantine.between(held, names)
        return new, gone

    def _seeded(self, wanted: Sequence[str], without: Sequence[str]) -> frozenset[str]:
        """What the remote holds, taken from the project; those that came whole, all or none."""
        if not wanted:
            return frozenset()
        self._by_file(wanted, without, checked=False)
        whole = self.quarantine.is_whole(wanted, without, timeout_s=self.until.left())
        return frozenset(wanted) if whole else frozenset()  # of a shallow clone nothing is

    def _taken(self, tip: str, there: str, names: Sequence[str], without: Sequence[str]) -> NewCommits:
        try:
            pack = handover.pack(self.repository, (tip,), without, timeout_s=self.until.left())
            self.quarantine.take(pack, timeout_s=self.until.left())
        except TooMuch:
            self._by_file((tip,), without, checked=True)
        return self.quarantine.new_commits(tip, there, names, left=self.until.left)

    def _by_file(self, wanted: Sequence[str], without: Sequence[str], *, checked: bool) -> None:
        file = self.quarantine.incoming
        left = self.until.left()
        try:
            handover.pack_into(self.repository, file, wanted, without, most=self.most, timeout_s=left)
        except TooMuch as error:
            raise TooMuch(
                f"more than {self.most / 10**6:g} MB would have to be taken from the project. "
                "If that is no mistake, raise publish.max_total_mb"
            ) from error
        self.quarantine.take_file(checked=checked, most=self.most, timeout_s=self.until.left())
