"""An append-only remote (H 7.4): a bare repository that takes additions, and nothing that undoes.

Git's own settings cover branches; a hook covers tags and says why. What it holds against is a push.
Whoever may write to the repository's files by another way than a push can undo all of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watcher.effect.git import GitError, answer, git
from watcher.record.files import Disk

# Each with what it refuses or keeps, in the order in which they are shown.
SETTINGS: Mapping[str, tuple[str, str]] = {
    "receive.denyNonFastForwards": ("true", "no branch is rewound or rewritten"),
    "receive.denyDeletes": ("true", "no branch is deleted"),
    "receive.fsckObjects": ("true", "no damaged or malicious object is taken"),
    "core.logAllRefUpdates": ("always", "every change of a branch or tag is written down"),
    "gc.reflogExpire": ("never", "and stays written down"),
    "gc.reflogExpireUnreachable": ("never", "even where a branch was rewound on the machine itself"),
}
HOOKS = ("pre-receive", "update")
SIGNATURE = "# Written by never-sleeping-harness: harness harden-remote"
HOOK = f"""#!/bin/sh
{SIGNATURE}
# Nothing that is here is rewritten or removed. As pre-receive it reads OLD NEW REF, as update it is given
# REF OLD NEW; another hook may call it the latter way: hooks/NAME "$ref" "$old" "$new" || exit 1

refuse() {{
	echo "append-only: $1" >&2
	echo "append-only: this repository takes additions only; correct it with a further commit." >&2
	exit 1
}}

check() {{
	ref=$1 old=$2 new=$3
	case $ref in refs/replace/*) refuse "$ref would make other commits appear in the place of these" ;; esac
	case $old in *[!0]*) ;; *) return 0 ;; esac # a new branch or tag
	case $new in *[!0]*) ;; *) refuse "$ref would be deleted" ;; esac
	[ "$old" != "$new" ] || return 0
	case $ref in refs/tags/*) refuse "the tag ${{ref#refs/tags/}} would be moved" ;; esac
	git merge-base --is-ancestor "$old" "$new" ||
		refuse "$ref would lose commits: $new does not build on $old"
}}

if [ $# -eq 3 ]; then
	check "$1" "$2" "$3"
else
	while read -r old new ref; do
		check "$ref" "$old" "$new"
	done
fi
exit 0
"""


class CannotHarden(Exception):
    """It cannot be made append-only as it is; the text says why, what to do, and that nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing an append-only remote has."""

    name: str
    wanted: str
    found: str
    why: str

    @property
    def holds(self) -> bool:
        return self.found == self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A bare repository on this machine, looked at and changed as its owner."""

    path: Path
    env: Mapping[str, str]
    hook: str = HOOKS[0]
    disk: Disk

    def points(self) -> list[Point]:
        """Everything that makes it append-only, as it stands. Raises CannotHarden, GitError."""
        self._demand_bare()
        found = [self._setting(key) for key in SETTINGS]
        return [*found, self._hook()]

    def harden(self) -> list[Point]:
        """Set what is missing, leave what is right, look again. Raises as `points`, and RecordError."""
        before = self.points()
        self._demand_owner()
        self._refuse_foreign_hook()
        for point in before:
            if point.holds:
                continue
            if point.name in SETTINGS:
                self._git("config", "--local", "--replace-all", point.name, point.wanted)
            else:
                self._write_hook()
        return self.points()

    # --- settings -------------------------------------------------------------------------------

    def _setting(self, key: str) -> Point:
        """As git itself would find it, whatever else includes or overrides it."""
        wanted, why = SETTINGS[key]
        kind = ("--type=bool",) if wanted == "true" else ()
        tool = git("config", *kind, "--get", key, cwd=Path("/"), env=self._env)
        found = answer(tool, "config", 30).strip() if tool.exit_code == 0 else "not set"
        return Point(name=key, wanted=wanted, found=found, why=why)

    # --- the hook -------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where git looks for hooks. Raises CannotHarden where that is not in the repository itself."""
        own = self.path / "hooks"
        named = self._git("rev-parse", "--git-path", "hooks").removesuffix("\n")
        place = Path(os.path.join(self.path, named))
        if os.path.realpath(place) != os.path.realpath(own) or own.is_symlink():
            raise CannotHarden(
                f"git takes the hooks of {self.path} from {place} (core.hooksPath), which others may share. "
                "Nothing was changed. Unset it (git config --unset core.hooksPath), or have the hook there "
                "call this one, which harness harden-remote --print-hook prints."
            )
        return own

    def _hook(self) -> Point:
        """Whether ours is in force, under either of the names it can have."""
        states = {name: self._hook_state(self.folder / name) for name in HOOKS}
        named = next((name for name, state in states.items() if state == "ours"), self.hook)
        why = "no tag is moved or deleted, and a refusal says why"
        return Point(name=f"hooks/{named}", wanted="ours", found=states[named], why=why)

    def _hook_state(self, place: Path) -> str:
        try:
            status = os.lstat(place)
            if not stat.S_ISREG(status.st_mode):
                return "somebody else's"
            text = place.read_bytes()[: 4 * len(HOOK)].decode("utf-8", "replace")
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            raise CannotHarden(f"{place} cannot be read: {error.strerror}. Nothing was changed.") from error
        if SIGNATURE not in text.splitlines()[1:2]:
            return "somebody else's"
        if text != HOOK:
            return "an older or changed one of ours"
        return "ours" if status.st_mode & stat.S_IXUSR else "ours, but not executable"

    def _refuse_foreign_hook(self) -> None:
        point = self._hook()
        if point.found != "somebody else's":
            return
        place = self.folder / self.hook
        other = next(name for name in HOOKS if name != self.hook)
        raise CannotHarden(
            f"{place} is somebody else's hook. It was left alone, and nothing was changed. Install this one "
            f"under git's other name for it (--hook {other}), or print it (--print-hook), keep it beside "
            "yours, and let yours call it."
        )

    def _write_hook(self) -> None:
        self.disk.make_dir(self.folder, 0o755)
        self.disk.replace(self.folder / self.hook, HOOK.encode(), 0o755)

    # --- what is refused --------------------------------------------------------------------------

    def _demand_bare(self) -> None:
        if not self.path.is_dir():
            raise CannotHarden(f"{self.path} is not a directory. Name the bare repository on this machine.")
        try:
            bare = self._git("rev-parse", "--is-bare-repository").strip() == "true"
        except GitError as error:
            if not os.path.lexists(self.path / ".git"):
                raise CannotHarden(f"{self.path} is no git repository: {error}.") from error
            bare = False
        if not bare:
            raise CannotHarden(
                f"{self.path} is not bare: somebody works in it. Only a bare repository (git clone --bare, "
                "git init --bare) can be a remote that is only added to."
            )

    def _demand_owner(self) -> None:
        """Not even root: a file of root's would keep the owner out, and a link of the owner's root in."""
        owner = os.stat(self.path).st_uid
        if owner != os.geteuid():
            raise CannotHarden(
                f"{self.path} belongs to user {_name(owner)}, and this is {_name(os.geteuid())}. "
                f"Nothing was changed. Use sudo -u {_name(owner)} harness harden-remote {self.path}"
            )

    @property
    def _env(self) -> dict[str, str]:
        """Named, not looked for: a directory that is no repository must not stand for one around it."""
        return {**self.env, "GIT_DIR": str(self.path)}

    def _git(self, *args: str) -> str:
        return answer(git(*args, cwd=Path("/"), env=self._env), args[0], 30)


def unmet(points: list[Point]) -> Iterator[Point]:
    return (point for point in points if not point.holds)


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
