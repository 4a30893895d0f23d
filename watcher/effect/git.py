"""The one door to git (DESIGN 7.2).

The repository belongs to the agent, so its configuration, hooks, filters and links are hostile: every
command there runs as the agent's user, with all that could start a program or reach another machine
switched off, without a prompt and without our environment. `safe.directory` is never widened.
What reaches a remote runs elsewhere: in a repository of the harness's own (quarantine.py).
"""

from __future__ import annotations

import dataclasses
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watcher.decision.state import Revision
from watcher.log import printable
from watcher.process import Account, Command, End, Finished, ProcessError, Tool, run_tool, supervise

MAX_OUTPUT = 4 * 2**20  # bytes of what a git command prints that are kept
# Settings with a fixed name that run a program, open a connection or change what is read.
DISARMED = tuple(
    word
    for setting in (
        *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=false"),
        *("core.askPass=", "core.sshCommand=false", "core.alternateRefsCommand=false"),
        *("core.attributesFile=/dev/null", "core.commitGraph=false", "core.useReplaceRefs=false"),
        *("credential.helper=", "diff.external=", "protocol.allow=never", "protocol.ext.allow=never"),
        *("gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false", "log.showSignature=false"),
        *("gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "status.submoduleSummary=false"),
        *("pack.threads=1", "uploadpack.packObjectsHook="),
    )
    for word in ("-c", setting)
)
# And those whose names the agent chooses; they must be found before they can be emptied.
_ARMED = re.compile(
    r"(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver|pager\..*)",
    re.DOTALL,
)


class GitError(Exception):
    """git could not say, or would not do. The text is git's own last words, made safe to print."""


class TooMuch(GitError):
    """git has more to say than there is room for."""


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
        out = self.ask(
            "for-each-ref",
            "--format=%(HEAD)%00%(refname:lstrip=2)%00%(objectname)%00%(tree)%00%(authorname)",
            "refs/heads",
        )
        tips: dict[str, str] = {}
        revision, checked_out, author = Revision(tip="", tree=""), "", ""
        for line in out.split("\n")[:-1]:  # a name may hold what else ends a line
            try:
                head, name, tip, tree, who = line.split("\0")
            except ValueError as error:
                raise GitError("git for-each-ref did not answer in the form it was asked for") from error
            tips[name] = tip
            if head == "*":
                checked_out = name
            if name == branch:
                revision, author = Revision(tip=tip, tree=tree), who
        return Look(revision=revision, checked_out=checked_out, author=author, tips=tips)

    def head_branch(self) -> str:
        """The branch HEAD names, also while it is unborn; "" when HEAD is detached."""
        try:
            return self.ask("symbolic-ref", "--quiet", "--short", "HEAD").strip()
        except GitError:
            return ""

    def head_commit(self) -> str:
        """The commit HEAD stands on; "" on an unborn branch."""
        try:
            return self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
        except GitError:
            return ""

    def top(self) -> Path:
        """The root of the work tree. GitError for a bare repository or none at all."""
        return Path(self.ask("rev-parse", "--show-toplevel").removesuffix("\n"))

    def is_bare(self) -> bool:
        return self.ask("rev-parse", "--is-bare-repository").strip() == "true"

    def dirty(self) -> tuple[str, ...]:
        """Paths with uncommitted work, tracked and untracked."""
        out = self.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        return tuple(entry[3:] for entry in out.split("\0") if entry)

    def remote_url(self, name: str = "origin") -> str:
        """What the repository calls its remote; "" when it has none."""
        try:
            return self.ask("config", "--get", f"remote.{name}.url").strip()
        except GitError:
            return ""

    def disarmed(self) -> Repository:
        """The same, with every filter and driver switched off that its configuration names.

        For commands that look at files (status). Another user's programs may run: as that user, with
        that user's rights. Under our own uid they would run with ours.
        """
        if self.account is not None and self.account.uid != os.geteuid():
            return self
        names = self.ask("config", "--list", "--name-only", "-z").split("\0")
        armed = sorted({name for name in names if _ARMED.fullmatch(name)})
        empty = dict.fromkeys(armed, "")
        empty |= {
            f"{name.rpartition('.')[0]}.required": "false" for name in armed if name.startswith("filter.")
        }
        return dataclasses.replace(self, env={**self.env, **settings(empty)})

    def ask(self, *args: str, input: bytes | None = None, timeout_s: float | None = None) -> str:
        """What a git command in the project printed. Raises GitError where it failed, and TooMuch."""
        tool = self.run(*args, input=input, timeout_s=timeout_s)
        text = answer(tool, args[0], timeout_s or self.timeout_s)
        if tool.truncated:
            raise TooMuch(f"git {args[0]} printed more than {MAX_OUTPUT >> 20} MiB")
        return text

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        timeout_s: float | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> Tool:
        """A git command in the project, disarmed, to its end."""
        return git(
            *DISARMED,
            *args,
            cwd=self.path,
            env=self.env,
            account=self.account,
            timeout_s=timeout_s or self.timeout_s,
            input=input,
            max_output=max_output,
        )


def git(
    *args: str,
    cwd: Path,
    env: Mapping[str, str],
    account: Account | None = None,
    timeout_s: float = 30.0,
    input: bytes | None = None,
    max_output: int = MAX_OUTPUT,
    umask: int = 0o022,
) -> Tool:
    """One git command to its end. Raises GitError only where git cannot be started."""
    try:
        return run_tool(
            ("git", *args),
            cwd=cwd,
            env=env,
            account=account,
            timeout_s=timeout_s,
            input=input,
            max_output=max_output,
            umask=umask,
        )
    except ProcessError as error:
        raise GitError(str(error)) from error


def git_between_files(
    *args: str,
    verb: str,
    cwd: Path,
    env: Mapping[str, str],
    account: Account | None = None,
    timeout_s: float,
    stdin: Path,
    stdout: Path,
    most: int,
    umask: int = 0o077,
) -> None:
    """One git command whose input and output do not fit into memory. Raises GitError, TooMuch."""
    complaints = stdout.with_suffix(".complaints")

    def within_limits() -> None:
        if max(stdout.stat().st_size, complaints.stat().st_size) > most:
            raise TooMuch(f"git {verb} printed more than {most >> 20} MiB")

    command = Command(
        argv=("git", *args),
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=complaints,
        account=account,
        umask=umask,
        timeout_s=timeout_s,
        marker=f"publish-{uuid.uuid4().hex}",
    )
    try:
        finished = supervise(command, tick=within_limits)
        within_limits()
        with complaints.open("rb") as file:
            words = last_words(file.read(2**20))
    except OSError as error:
        raise GitError(f"{stdout.parent} cannot be used: {error.strerror}") from error
    if trouble := _trouble(finished, words, verb, timeout_s):
        raise GitError(trouble)


def _trouble(finished: Finished, words: str, verb: str, timeout_s: float) -> str:
    match finished.end:
        case End.NOT_STARTED:
            return finished.error
        case End.DEADLINE:
            return f"git {verb} did not end within {timeout_s:g} s"
        case _:
            return "" if finished.exit_code == 0 else words or f"git {verb} ended with {finished.exit_code}"


def settings(values: Mapping[str, str]) -> dict[str, str]:
    """git configuration as environment variables, which no other user's process list shows."""
    env = {"GIT_CONFIG_COUNT": str(len(values))}
    for number, (name, value) in enumerate(values.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return env


def answer(tool: Tool, verb: str, timeout_s: float) -> str:
    """What git printed; GitError with its last words where it failed."""
    if tool.timed_out:
        raise GitError(f"git {verb} did not answer within {timeout_s:g} s")
    if tool.exit_code != 0:
        words = last_words(tool.stderr) or last_words(tool.stdout)
        raise GitError(words or f"git {verb} ended with {tool.exit_code}")
    return tool.stdout.decode("utf-8", "surrogateescape")


def git_env(home: str, *, name: str, path: str, passed: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git command in a project: nothing of ours is inherited by accident.

    No command there may reach another machine or fetch what is missing: the place it would be fetched
    from, and the program that does it, are the agent's choice.
    """
    return {
        **(passed or {}),
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "PATH": path,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SSH_COMMAND": "false",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


def last_words(output: bytes) -> str:
    """The lines of git's complaint that matter, on one line and safe to print."""
    text = output.decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    marked = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "!"))]
    return printable(" | ".join((marked or lines)[-3:]))[:500]
