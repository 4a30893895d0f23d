"""publisher.git: the harness's own repository between a project and its remote (DESIGN 7.3).

What comes from the project is checked here object by object, and nothing else of the project gets here:
no configuration, hook, reference, replacement or alternate. Only git's own objects decide what is
pushed. It holds no state: whatever is wrong with it, it is made anew from the project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watcher.effect.git import GitError, TooMuch, answer, git, git_between_files
from watcher.effect.handover import OBJECT
from watcher.effect.new_commits import FORMAT, Change, NewCommits, Objects, batch, parsed
from watcher.effect.quarantine_form import config, is_intact
from watcher.effect.remote import Remote
from watcher.process import Tool
from watcher.record.files import Disk

# Errors of git that mean that objects are missing or damaged here.
DAMAGE = re.compile(
    r"unresolved delta|did not receive expected object|bad object|bad tree|not a valid (object|commit)"
    r"|missing|corrupt|unable to (read|find|unpack)|inflate|is empty|could not read|loose object"
    r"|failed to (read|traverse)",
    re.IGNORECASE,
)
_CHECKED = "--strict=nulInCommit=error"  # nothing may hide behind what `git log` shows
_MEMORY = {"GIT_ALLOC_LIMIT": "1g"}  # a delta of bytes can stand for an object of terabytes
_MANY = 100  # objects that are kept as a pack: git's own number (receive.unpackLimit)
_UNPACKED = 2**20  # and bytes of a pack beyond which it is kept
_LOG = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """One bare repository. Under the publisher's lock; every call may raise GitError."""

    path: Path
    env: Mapping[str, str]  # of remote.isolated
    disk: Disk

    @property
    def incoming(self) -> Path:
        return self.path / "incoming.pack"

    def ready(self, like: str) -> bool:
        """Make it where it is missing or not as we left it; whether it was there.

        `like` is an object name, which tells the kind of names. Raises RecordError.
        """
        if is_intact(self.path, like):
            for stray in (*self.path.glob("incoming.*"), *self.path.glob("objects/pack/tmp_*")):
                with suppress(OSError):
                    stray.unlink()
            return True
        self.remake(like)
        return False

    def remake(self, like: str) -> None:
        """An empty one in its place. Raises RecordError."""
        if os.path.lexists(self.path):
            self.disk.remove_tree(self.path)
        self.disk.make_dir(self.path)
        kind = "sha256" if len(like) == 64 else "sha1"
        self._ask("init", "-q", "--bare", "--template=", f"--object-format={kind}")
        self.disk.replace(self.path / "config", config(like))

    def take(self, pack: bytes, *, timeout_s: float) -> None:
        """Take a pack in, every object checked: form, and that all it refers to is here."""
        many = int.from_bytes(pack[8:12], "big")
        if not many:
            return
        if many < _MANY and len(pack) <= _UNPACKED:
            way = ["unpack-objects", "-q", _CHECKED]
        else:
            way = ["index-pack", "--stdin", "--fix-thin", "--threads=1", _CHECKED]
        self._ask(*way, input=pack, timeout_s=timeout_s, more=_MEMORY)

    def take_file(self, *, checked: bool, most: int, timeout_s: float) -> None:
        """Take `incoming` in. Unchecked: for what the remote holds, of which nothing is published."""
        git_between_files(
            *self._where(),
            *("index-pack", "--stdin", "--fix-thin", f"--max-input-size={most}"),
            *(("--threads=1", _CHECKED) if checked else ()),
            verb="index-pack",
            cwd=self.path,
            env={**self.env, **_MEMORY},
            timeout_s=timeout_s,
            stdin=self.incoming,
            stdout=self.incoming.with_suffix(".said"),
            most=most,
        )
        self.incoming.unlink()

    def missing(self, objects: Iterable[str]) -> tuple[str, ...]:
        """Those of these objects that are not here."""
        asked = tuple(objects)
        if not asked:
            return ()
        out = self._ask("cat-file", "--batch-check=%(objectname)", input=_lines(asked))
        here = set(out.splitlines())
        return tuple(name for name in asked if name not in here)

    def is_whole(self, tips: Sequence[str], without: Sequence[str], *, timeout_s: float) -> bool:
        """Whether all below `tips` is here, where all below `without` is."""
        asked = _lines([*tips, *(f"^{name}" for name in without)])
        tool = self._run("rev-list", "--objects", "--quiet", "--stdin", input=asked, timeout_s=timeout_s)
        return tool.exit_code == 0 and not tool.timed_out

    def contains(self, descendant: str, ancestor: str) -> bool:
        """Whether `ancestor` is `descendant` or below it."""
        tool = self._run("merge-base", "--is-ancestor", ancestor, descendant)
        if tool.exit_code not in (0, 1):
            answer(tool, "merge-base", 0)
        return tool.exit_code == 0

    def between(self, tip: str, without: Sequence[str]) -> frozenset[str]:
        """The commits below `tip` that are not below `without`."""
        return frozenset(self._ask("rev-list", tip, *(f"^{name}" for name in without)).split())

    def new_commits(
        self, tip: str, onto: str, held: Sequence[str], *, left: Callable[[], float]
    ) -> NewCommits:
        """What the remote does not hold, where `held` are the tips it named and `onto` is one of them.

        `left` tells the seconds that are left, and raises when there are none.
        """
        out = self._ask(
            *("log", "-z", "--raw", "-r", "-c", "--no-renames", "--no-abbrev", "--no-color", FORMAT),
            *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none", tip),
            *(f"^{name}" for name in held),
            timeout_s=left(),
            max_output=_LOG,
        )
        try:
            commits, changes = parsed(out)
        except (ValueError, IndexError) as error:
            raise GitError(f"git log did not answer in the form it was asked for: {error}") from error
        if onto and any(len(parents) > 1 for _, parents in commits):
            changes += self._overall(tip, onto)
        follows = not onto or any(onto in parents for _, parents in commits)
        return NewCommits(
            tip=tip,
            onto=onto,
            commits=tuple(name for name, _ in commits),
            changes=tuple(changes),
            git_dir=self.path,
            objects=Objects(together=self._together, measure=self._measure, in_time=left),
            continues=follows or not commits or self.contains(tip, onto),
        )

    def subjects(self, new: NewCommits, most: int = 20) -> list[str]:
        """The first line of each, newest first; not safe to print."""
        if not new.commits:
            return []
        shown = new.commits[:most]
        return self._ask("log", "--no-walk=unsorted", "--format=%h %s", *shown).splitlines()

    # --- the remote -----------------------------------------------------------------------------

    def ask(self, remote: Remote, *, timeout_s: float) -> dict[str, str]:
        """What the remote itself names: the tips of HEAD and of the branches that concern us, by name."""
        wanted = dict.fromkeys(("HEAD", remote.ref, f"refs/heads/{remote.source or remote.branch}"))
        args = ("ls-remote", "--", remote.url, *wanted)
        if remote.account is None:
            out = self._ask(*args, timeout_s=timeout_s, more=remote.access())
        else:  # who may see no more than that directory
            env = {**self.env, "HOME": remote.account.home}
            tool = git(*args, cwd=Path("/"), env=env, account=remote.account, timeout_s=timeout_s)
            out = answer(tool, "ls-remote", timeout_s)
        tips = {}
        for line in out.split("\n"):
            tip, _, name = line.partition("\t")
            if name in wanted and OBJECT.fullmatch(tip):
                tips[name] = tip
        return tips

    def push(self, remote: Remote, tip: str, *, timeout_s: float) -> None:
        """Send exactly this commit to exactly that branch. Nothing is ever forced, deleted or tagged."""
        self._ask(
            *("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags"),
            "--no-recurse-submodules",
            *remote.far_end("git-receive-pack", self.env["PATH"]),
            *("--", remote.url, f"{tip}:{remote.ref}"),
            timeout_s=timeout_s,
            more=remote.access(),
        )

    def fetch(self, remote: Remote, refs: Sequence[str], have: Sequence[str], *, timeout_s: float) -> None:
        """Bring what the remote holds here, to read its history. It is there already, so it is not judged."""
        self._ask(
            *("-c", "fetch.fsckObjects=false"),
            *("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap="),
            *(f"--negotiation-tip={name}" for name in have),
            *remote.far_end("git-upload-pack", self.env["PATH"]),
            *("--", remote.url, *refs),
            timeout_s=timeout_s,
            more=remote.access(),
        )

    # --- small parts ----------------------------------------------------------------------------

    def _overall(self, tip: str, onto: str) -> list[Change]:
        """What differs from the remote's tree: a merge can undo what neither parent touched."""
        out = self._ask("diff-tree", "-r", "-z", "--no-renames", "--name-only", onto, tip, max_output=_LOG)
        return [Change(commit=tip, path=path) for path in out.split("\0") if path]

    def _together(self, names: Sequence[str], room: int) -> dict[str, bytes] | None:
        room += 128 * len(names)  # for the line before each
        tool = self._run("cat-file", "--batch", input=_lines(names), max_output=room)
        if tool.truncated:
            return None
        answer(tool, "cat-file", 0)
        try:
            return batch(tool.stdout)
        except ValueError as error:
            raise GitError(f"an object is missing in {self.path}") from error

    def _measure(self, names: Sequence[str]) -> dict[str, int]:
        form = "--batch-check=%(objectname) %(objectsize)"
        out = self._ask("cat-file", form, input=_lines(names), max_output=_LOG)
        try:
            return {name: int(size) for name, size in (line.split(" ") for line in out.splitlines())}
        except ValueError as error:
            raise GitError(f"an object is missing in {self.path}") from error

    def _where(self) -> tuple[str, ...]:
        return (f"--git-dir={self.path}",)

    def _ask(
        self,
        *args: str,
        input: bytes | None = None,
        timeout_s: float = 30.0,
        max_output: int = 4 * 2**20,
        more: Mapping[str, str] | None = None,
    ) -> str:
        tool = self._run(*args, input=input, timeout_s=timeout_s, max_output=max_output, more=more)
        verb = next(arg for arg in args if not arg.startswith("-") and "=" not in arg)
        text = answer(tool, verb, timeout_s)
        if tool.truncated:
            raise TooMuch(f"git {verb} printed more than {max_output >> 20} MiB")
        return text

    def _run(
        self,
        *args: str,
        input: bytes | None = None,
        timeout_s: float = 30.0,
        max_output: int = 4 * 2**20,
        more: Mapping[str, str] | None = None,
    ) -> Tool:
        return git(
            *self._where(),
            *args,
            cwd=self.path,
            env={**self.env, **(more or {})},
            timeout_s=timeout_s,
            input=input,
            max_output=max_output,
            umask=0o022 if args[0] == "push" else 0o077,  # what is pushed is for others
        )


def _lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
