"""Publish: bring the configured branch to the remote, and believe only the remote (H 6.7, rule 11).

Plain fast-forward publishing of one branch, or the user's own tool. "Committed" is not "published":
after every attempt the remote itself is asked, and only its answer is recorded.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from watcher.effect.git import GitError, Repository, last_words
from watcher.process import ProcessError, run_tool


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
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes one branch to one remote; both are pinned when the run begins. Safe to repeat."""

    repository: Repository
    remote: str  # "": only the user's own tool knows where
    branch: str
    command: tuple[str, ...] = ()  # the user's own tool; called with the project's path
    env: Mapping[str, str]
    timeout_s: float

    @property
    def longest_s(self) -> float:
        """How long `publish` may take: ask, send, ask again."""
        return 3 * self.timeout_s

    def publish(self, tip: str) -> Publication:
        """Never raises: a failed publication is retried later and never ends a run."""
        if not self.remote:
            refused = self._send(tip)
            result = Published.FAILED if refused else Published.UNMEASURED
            return Publication(result=result, remote_tip="" if refused else tip, detail=refused)
        try:
            if self._holds(self._ask(), tip):
                return Publication(result=Published.ALREADY, remote_tip=tip)
        except GitError as error:
            return _failed("", f"the remote does not answer: {error}")
        return self._measured(tip, self._send(tip))

    def _ask(self) -> str:
        return self.repository.ask_remote(self.remote, self.branch)

    def _holds(self, there: str, tip: str) -> bool:
        """Whether the remote has that commit, be it below its own tip: going back is not published."""
        return there == tip or (bool(there) and self.repository.contains(there, tip))

    def _send(self, tip: str) -> str:
        """One attempt; why it was refused, or ""."""
        try:
            if self.command:
                return self._own_tool()
            self.repository.push(self.remote, tip, self.branch)
        except (GitError, ProcessError) as error:
            return str(error)
        return ""

    def _own_tool(self) -> str:
        argv = (*self.command, str(self.repository.path))
        tool = run_tool(argv, cwd=self.repository.path, env=self.env, timeout_s=self.timeout_s)
        if tool.timed_out:
            return f"{self.command[0]} did not end within {self.timeout_s:g} s"
        if tool.exit_code:
            return f"{self.command[0]} ended with {tool.exit_code}: {last_words(tool.stderr or tool.stdout)}"
        return ""

    def _measured(self, tip: str, refused: str) -> Publication:
        try:
            after = self._ask()
        except GitError as error:
            return _failed("", refused or f"the remote took the push and then went away: {error}")
        if self._holds(after, tip):
            return Publication(result=Published.DONE, remote_tip=tip, detail=refused)
        return _failed(after, refused or f"the push was accepted, but the remote holds {after or 'nothing'}")


def _failed(remote_tip: str, detail: str) -> Publication:
    return Publication(result=Published.FAILED, remote_tip=remote_tip, detail=detail)
