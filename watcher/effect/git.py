"""The one door to git (DESIGN 7.2).

The repository belongs to the agent, so its configuration and hooks are treated as hostile: every
command runs as the agent's user, with hooks and the file monitor off, without a prompt and without
our environment. `safe.directory` is never widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watcher.decision.state import Revision
from watcher.process import Account, ProcessError, Tool, run_tool

DISARMED = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.pager=cat",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "gc.auto=0",
)


class GitError(Exception):
    """git could not say, or would not do. The text is git's own last words, made safe to print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The branches at one moment. `tips` holds every local branch, the configured one included."""

    revision: Revision
    checked_out: str  # the branch HEAD is on; "" when detached
    author: str = ""  # of the configured branch's tip: somebody else's commit is progress too, and named
    tips: Mapping[str, str] = field(default_factory=dict)

    def elsewhere(self, branch: str, known: Mapping[str, str]) -> tuple[str, ...]:
        """Where work stands that is not on `branch` and was not there before: named, never published."""
        moved = [name for name, tip in self.tips.items() if name != branch and known.get(name) != tip]
        return (*moved, *(() if self.checked_out else ("a detached HEAD",)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A project's repository, seen as the agent's user. Every call may raise GitError."""

    path: Path
    account: Account | None
    env: Mapping[str, str]
    timeout_s: float = 30.0

    def look(self, branch: str) -> Look:
        """One process for everything a poke's end needs. An unborn branch is a known state: ("", "")."""
        out = self._git(
            "for-each-ref",
            "--format=%(HEAD)%00%(refname:lstrip=2)%00%(objectname)%00%(tree)%00%(authorname)",
            "refs/heads",
        )
        tips: dict[str, str] = {}
        revision, checked_out, author = Revision(tip="", tree=""), "", ""
        for line in out.splitlines():
            head, name, tip, tree, who = line.split("\0")
            tips[name] = tip
            if head == "*":
                checked_out = name
            if name == branch:
                revision, author = Revision(tip=tip, tree=tree), who
        return Look(revision=revision, checked_out=checked_out, author=author, tips=tips)

    def head_branch(self) -> str:
        """The branch HEAD names, also while it is unborn; "" when HEAD is detached."""
        try:
            return self._git("symbolic-ref", "--quiet", "--short", "HEAD").strip()
        except GitError:
            return ""

    def head_commit(self) -> str:
        """The commit HEAD stands on; "" on an unborn branch."""
        try:
            return self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        except GitError:
            return ""

    def top(self) -> Path:
        """The root of the work tree. GitError for a bare repository or none at all."""
        return Path(self._git("rev-parse", "--show-toplevel").removesuffix("\n"))

    def is_bare(self) -> bool:
        return self._git("rev-parse", "--is-bare-repository").strip() == "true"

    def dirty(self) -> tuple[str, ...]:
        """Paths with uncommitted work, tracked and untracked."""
        out = self._git("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        return tuple(entry[3:] for entry in out.split("\0") if entry)

    def remote_url(self, name: str = "origin") -> str:
        """What the repository calls its remote; "" when it has none."""
        try:
            return self._git("config", "--get", f"remote.{name}.url").strip()
        except GitError:
            return ""

    def ask_remote(self, url: str, branch: str) -> str:
        """The tip the remote itself reports for the branch; "" when it has no such branch."""
        out = self._git("ls-remote", "--refs", "--", url, f"refs/heads/{branch}")
        for line in out.splitlines():
            tip, _, name = line.partition("\t")
            if name == f"refs/heads/{branch}":
                return tip
        return ""

    def push(self, url: str, tip: str, branch: str) -> None:
        """Send exactly `tip` to exactly that branch, fast-forward only; GitError when refused."""
        self._git(
            "push", "--no-verify", "--no-follow-tags", "--porcelain", "--", url, f"{tip}:refs/heads/{branch}"
        )

    def contains(self, descendant: str, ancestor: str) -> bool:
        """True when `ancestor` is known here and `descendant` builds on it."""
        return self._run("merge-base", "--is-ancestor", ancestor, descendant).exit_code == 0

    def _git(self, *args: str) -> str:
        return answer(self._run(*args), args[0], self.timeout_s)

    def _run(self, *args: str) -> Tool:
        return git(
            *DISARMED, *args, cwd=self.path, env=self.env, account=self.account, timeout_s=self.timeout_s
        )


def git(
    *args: str, cwd: Path, env: Mapping[str, str], account: Account | None = None, timeout_s: float = 30.0
) -> Tool:
    """One git command to its end. Raises GitError only where git cannot be started."""
    try:
        return run_tool(("git", *args), cwd=cwd, env=env, account=account, timeout_s=timeout_s)
    except ProcessError as error:
        raise GitError(str(error)) from error


def answer(tool: Tool, verb: str, timeout_s: float) -> str:
    """What git printed; GitError with its last words where it failed."""
    if tool.timed_out:
        raise GitError(f"git {verb} did not answer within {timeout_s:g} s")
    if tool.exit_code != 0:
        words = last_words(tool.stderr) or last_words(tool.stdout)
        raise GitError(words or f"git {verb} ended with {tool.exit_code}")
    return tool.stdout.decode("utf-8", "surrogateescape")


def git_env(home: str, *, name: str, path: str, passed: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git command: nothing of ours is inherited by accident."""
    return {
        **(passed or {}),
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "PATH": path,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def last_words(output: bytes) -> str:
    """The lines of git's complaint that matter, on one line and safe to print."""
    text = output.decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    marked = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "!"))]
    chosen = " | ".join((marked or lines)[-3:])
    return "".join(c if c.isprintable() else "?" for c in chosen)[:500]
