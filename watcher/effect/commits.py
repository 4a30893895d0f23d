"""What stands in a repository, for a person's eyes: commits, and where else there is work (H 7.6, 8.3).

The repository is the agent's, so its own ways of showing another history (grafts, replacements, a
prepared commit graph) are switched off. Limit: it is still the agent's copy; what was published and
fetched anew is the independent witness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from watcher.effect.git import GitError, Repository, answer
from watcher.process import Tool
from watcher.record.signoffs import Commit

# Each field ends with a NUL, the last one with that between two records.
_SHOW = ("-z", "--no-show-signature", "--encoding=UTF-8", "--format=tformat:%H%x00%T%x00%an%x00%ct%x00%s")
_REF = "%(refname)%00%(objectname)%00%(tree)%00%(authorname)%00%(committerdate:unix)%00%(subject)"
_PLAIN = ("-c", "log.mailmap=false")
_HEX = re.compile(r"[0-9a-fA-F]{4,64}")
_LATEST = 4102444800  # the year 2100: the agent sets a commit's date, and some no calendar has
MOST = 5000  # commits looked at; a person signs long before


class Unknown(Exception):
    """No commit of the branch is called that; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A place beside the branch that is worked on, with work in it that is not there."""

    name: str
    tip: Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One branch of a project. Every call may raise GitError."""

    repository: Repository
    branch: str

    @property
    def tip(self) -> str:
        """The branch's newest commit, "" where it has none yet."""
        return self.repository.look(self.branch).revision.tip

    def since(self, tip: str, known: Sequence[str]) -> list[Commit]:
        """The commits that lead to `tip` and to none of `known`, the newest first; MOST of them.

        A known commit that is gone from the repository covers nothing.
        """
        words = ("log", f"--max-count={MOST}", *_SHOW, "--ignore-missing", tip, "--not", *known, "--")
        return list(_commits(self._git(*words)))

    def resolve(self, word: str, tip: str) -> Commit:
        """The commit of the branch that is meant. Raises Unknown.

        Hexadecimal digits are a commit's name, or how it begins, and never that of a branch or tag: the
        agent could call one so.
        """
        if _HEX.fullmatch(word):
            names = self._git("rev-parse", f"--disambiguate={word.lower()}").split()
        elif word.startswith("-") or not word.isprintable():
            raise Unknown("that is no name of a commit")
        else:
            tool = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
            names = tool.stdout.decode("ascii", "replace").split() if tool.exit_code == 0 else []
        found = [commit for name in names if self.leads(name, tip) for commit in self._one(name)]
        if len(found) == 1:
            return found[0]
        what = "several commits are" if found else "none that git knows there is" if names else "nothing is"
        raise Unknown(f"{what} called so on the branch {self.branch}")

    def leads(self, commit: str, tip: str) -> bool:
        """Whether that commit is still there, and `tip` is it or builds on it."""
        return self._run("merge-base", "--is-ancestor", commit, tip).exit_code == 0

    def elsewhere(self, tip: str) -> list[Branch]:
        """Other branches, the stash and a detached HEAD, as far as they hold what the branch does not."""
        out = self._git("for-each-ref", f"--format={_REF}", f"--no-merged={tip}", "refs/heads", "refs/stash")
        found = [Branch(name=_short(name), tip=commit) for name, commit in _refs(out)]
        if not self.repository.head_branch():
            head = self.repository.head_commit()
            if head and not self.leads(head, tip):
                found += [Branch(name="a detached HEAD", tip=commit) for commit in self._one(head)]
        return found

    def is_shallow(self) -> bool:
        """Whether the repository was told where history begins: what is before cannot be shown."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == "true"

    def _one(self, name: str) -> list[Commit]:
        """The commit of that whole name; none where the name is a tree's or a blob's."""
        if not name or self._run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").exit_code:
            return []
        return list(_commits(self._git("log", "--no-walk", *_SHOW, name, "--")))

    def _git(self, *args: str) -> str:
        return answer(self._run(*args), args[0], self.repository.timeout_s)

    def _run(self, *args: str) -> Tool:
        return self.repository.run(*_PLAIN, *args)


def _commits(out: str) -> Iterator[Commit]:
    """What `git log` printed: five fields a commit, each ended by a NUL, which none of them can hold."""
    fields = out.removesuffix("\0").split("\0") if out else []
    if len(fields) % 5:
        raise GitError("git log printed something else than was asked for")
    for at in range(0, len(fields), 5):
        yield _commit(fields[at : at + 5])


def _refs(out: str) -> Iterator[tuple[str, Commit]]:
    for line in out.split("\n"):  # not splitlines: a subject may hold what that takes for a line's end
        name, *fields = line.split("\0")
        if len(fields) == 5:
            yield name, _commit(fields)


def _commit(fields: Sequence[str]) -> Commit:
    name, tree, author, at, subject = fields
    seconds = int(at) if at.isascii() and at.isdigit() else 0
    when = datetime.fromtimestamp(min(seconds, _LATEST), UTC)
    return Commit(id=name, tree=tree, author=author, at=when, subject=subject)


def _short(ref: str) -> str:
    return "the stash" if ref == "refs/stash" else ref.removeprefix("refs/heads/")
