"""Publish: bring the configured branch to the remote, and believe only the remote (H 6.7, 7.2, rule 11).

    ask the remote -> take the commits into the quarantine -> check each -> push -> ask again

"Committed" is not "published": after every attempt the remote itself is asked, and only its answer is
recorded. Nothing is forced, deleted or tagged. The user's own tool takes the place of the push.
"""

from __future__ import annotations

import enum
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from watcher.effect.collect import Collector, Until
from watcher.effect.git import GitError, Repository, last_words
from watcher.effect.handover import unfinished
from watcher.effect.new_commits import NewCommits
from watcher.effect.publications import Publications
from watcher.effect.quarantine import Quarantine
from watcher.effect.refusals import Check
from watcher.effect.remote import Remote
from watcher.log import printable
from watcher.process import ProcessError, run_tool

_TURN_S = 0.05  # between two looks whether another publication is over


class Published(enum.Enum):
    DONE = "published"
    ALREADY = "already there"
    UNMEASURED = "handed to the publish tool; no remote is known that could be asked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What an attempt came to. `remote_tip` is the remote's own word, "" where it could not be had."""

    result: Published
    remote_tip: str
    detail: str = ""  # safe to print
    tips: tuple[str, ...] = ()  # all the remote named when it was asked
    new: NewCommits | None = field(default=None, repr=False)  # what was, or would have been, published


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes one branch to one remote; both are pinned when the run begins. Safe to repeat."""

    repository: Repository
    remote: Remote | None  # None: only the user's own tool knows where
    branch: str  # the project's
    quarantine: Quarantine
    publications: Publications
    checks: tuple[Check, ...] = ()  # each may refuse; a gate is one more
    max_total_mb: int = 1024
    command: tuple[str, ...] = ()  # the user's own tool; called with the project's path
    env: Mapping[str, str] = field(default_factory=dict)  # that tool's
    timeout_s: float = 120
    put_back: bool = False  # publish also what somebody took away from the remote
    lock: Path

    @property
    def longest_s(self) -> float:
        """How long `publish` may take: ask and check, send, ask again."""
        return 3 * self.timeout_s

    def publish(self, tip: str) -> Publication:
        """One attempt, recorded. A failure is a value, retried later. Raises RecordError alone."""
        if self.remote is None:
            return self._recorded(tip, self._handed_over(tip))
        until = Until(self.timeout_s)
        try:
            with self._alone(until):
                found = self._prospect(tip, self.remote, until)
                if found.result is Published.DONE:
                    found = self._sent(tip, self.remote, found)
                return self._recorded(tip, found)
        except GitError as error:
            return self._recorded(tip, _failed("", str(error)))

    def prospect(self, tip: str) -> Publication:
        """What `publish` would come to, as far as that can be known; nothing is sent. Raises RecordError."""
        if self.remote is None:
            return Publication(result=Published.UNMEASURED, remote_tip="")
        until = Until(self.timeout_s)
        try:
            with self._alone(until):
                return self._prospect(tip, self.remote, until)
        except GitError as error:
            return _failed("", str(error))

    # --- the steps ------------------------------------------------------------------------------

    def _prospect(self, tip: str, remote: Remote, until: Until) -> Publication:
        """DONE: nothing speaks against it, and it has to be sent."""
        fresh = not self.quarantine.ready(tip)
        try:
            tips = self.quarantine.ask(remote, timeout_s=until.left())
        except GitError as error:
            return _failed("", f"the remote does not answer: {error}")
        there, named = tips.get(remote.ref, ""), tuple(dict.fromkeys(tips.values()))
        if there == tip:
            return Publication(result=Published.ALREADY, remote_tip=tip, tips=named)
        if self.command:
            return Publication(result=Published.DONE, remote_tip=there)
        if half := unfinished(self.repository, self.branch):
            return _failed(there, f"{half} is half done on {printable(self.branch)}: {FINISH}")
        collector = self._collector(remote, until)
        new, gone = collector.collect(tip, there, tips, self.publications.memory(), fresh=fresh)
        if not new.commits:
            return Publication(result=Published.ALREADY, remote_tip=tip, tips=named)
        refusal = self._refusal(new, gone)
        result = Published.FAILED if refusal else Published.DONE
        return Publication(result=result, remote_tip=there, detail=refusal, tips=named, new=new)

    def _refusal(self, new: NewCommits, gone: frozenset[str]) -> str:
        branch = self.remote.branch if self.remote else self.branch
        onto = new.onto[:10]
        if not new.continues:
            return (
                f"the remote's {printable(branch)} is at {onto}, which the project's branch does not build "
                "on: one of the two was rewritten, or somebody else published. Nothing is overwritten. "
                f"Bring the project's branch onto it (git fetch, git rebase {onto}), or publish to another "
                "branch (publish.to)"
            )
        if not self.put_back and (back := gone.intersection(new.commits)):
            return (
                f"the remote's {printable(branch)} held {len(back)} of these commits before, and was moved "
                f"back since (to {onto or 'nothing'}): what somebody took away is not put back. If it is "
                "meant: harness publish PROJECT --put-back. If not: take them out of the project's branch "
                "(git rebase, git reset)"
            )
        return next((refusal for check in self.checks if (refusal := check(new))), "")

    def _sent(self, tip: str, remote: Remote, found: Publication) -> Publication:
        self.publications.write("push", tip, onto=found.remote_tip)
        refused = self._send(tip, remote)
        until = Until(self.timeout_s)
        try:
            tips = self.quarantine.ask(remote, timeout_s=until.left())
            after = tips.get(remote.ref, "")
            holds = after == tip or (after and self._collector(remote, until).is_below(tip, after))
        except GitError as error:
            return _failed("", refused or f"the remote took the push and then went away: {error}")
        if holds:
            named = tuple(dict.fromkeys(tips.values()))
            return Publication(
                result=Published.DONE, remote_tip=tip, detail=refused, tips=named, new=found.new
            )
        return _failed(after, refused or f"the push was accepted, but the remote holds {after or 'nothing'}")

    def _send(self, tip: str, remote: Remote) -> str:
        """One attempt; why it was refused, or ""."""
        try:
            if self.command:
                return self._own_tool()
            self.quarantine.push(remote, tip, timeout_s=self.timeout_s)
        except (GitError, ProcessError) as error:
            return str(error)
        return ""

    def _handed_over(self, tip: str) -> Publication:
        try:
            refused = self._own_tool()
        except ProcessError as error:
            refused = str(error)
        result = Published.FAILED if refused else Published.UNMEASURED
        return Publication(result=result, remote_tip="" if refused else tip, detail=refused)

    def _own_tool(self) -> str:
        argv = (*self.command, str(self.repository.path))
        tool = run_tool(argv, cwd=self.repository.path, env=self.env, timeout_s=self.timeout_s)
        if tool.timed_out:
            return f"{self.command[0]} did not end within {self.timeout_s:g} s"
        if tool.exit_code:
            return f"{self.command[0]} ended with {tool.exit_code}: {last_words(tool.stderr or tool.stdout)}"
        return ""

    # --- small parts ----------------------------------------------------------------------------

    def _collector(self, remote: Remote, until: Until) -> Collector:
        return Collector(
            repository=self.repository,
            quarantine=self.quarantine,
            remote=remote,
            most=self.max_total_mb * 10**6,
            until=until,
        )

    def _recorded(self, tip: str, publication: Publication) -> Publication:
        holds = publication.remote_tip if publication.result in (Published.DONE, Published.ALREADY) else ""
        self.publications.write(
            publication.result.value,
            tip,
            remote_tip=publication.remote_tip,
            holds=holds,
            tips=publication.tips,
            commits=len(publication.new.commits) if publication.new else 0,
            detail=publication.detail,
        )
        return publication

    @contextmanager
    def _alone(self, until: Until) -> Iterator[None]:
        """One publication of a project at a time, whoever asked for it."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise GitError(f"{self.lock} cannot be opened: {error.strerror}") from error
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    until.left("another publication of this project is still under way")
                    time.sleep(_TURN_S)
            yield
        finally:
            os.close(descriptor)


FINISH = "finish or abort it there (git status says how). What is committed is published after that"


def _failed(remote_tip: str, detail: str) -> Publication:
    return Publication(result=Published.FAILED, remote_tip=remote_tip, detail=detail)
