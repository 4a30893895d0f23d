"""Where the harness keeps what it knows of a project, and that nobody else can reach it (DESIGN 6)."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from watcher.record import identity
from watcher.record.files import Disk
from watcher.record.runs import Run, Runs

_SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named to be refused

_IDENTITY = "project.json"


class HomeRefused(Exception):
    """The state cannot be kept where it was asked for; the message says why and what to do. Exit 78."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The places of one project's state. Nothing is made or checked on disk before `prepare`."""

    project: Path  # real path
    root: Path  # <state>, shared by this user's projects
    work_root: Path  # <work>, what the agent's user must reach
    key: str
    disk: Disk = field(default_factory=Disk, repr=False, compare=False)

    @classmethod
    def for_project(
        cls,
        project: Path,
        root: Path | None = None,
        work: Path | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        euid: int | None = None,
        disk: Disk | None = None,
    ) -> Home:
        """The home of the project at any path or symlink that leads to it. Raises HomeRefused.

        `root` and `work` name the two roots explicitly (configuration, tests); only then may they lie
        in /tmp and the like. A `root` without a `work` has its work root beside it: <root>-work.
        """
        real = Path(os.path.realpath(project))
        user = os.geteuid() if euid is None else euid
        if root is not None and work is None:
            work = Path(f"{os.path.realpath(root)}-work")
        state_root = _chosen(root, "XDG_STATE_HOME", ".local/state", "/var/lib/harness", environ, user)
        work_root = _chosen(work, "XDG_CACHE_HOME", ".cache", "/var/lib/harness-work", environ, user)
        for place in (state_root, work_root):
            if place.is_relative_to(real):
                raise HomeRefused(
                    f"the harness's directory {place} lies inside the project {real}, where the agent could "
                    "change what the harness remembers. Configure one elsewhere."
                )
        if work_root.is_relative_to(state_root):
            raise HomeRefused(
                f"the work directory {work_root} lies inside the private state directory {state_root}, where "
                "the agent's user cannot reach it. Configure one elsewhere."
            )
        return cls(
            project=real, root=state_root, work_root=work_root, key=project_key(real), disk=disk or Disk()
        )

    @property
    def path(self) -> Path:
        return self.root / self.key

    @property
    def work(self) -> Path:
        return self.work_root / self.key

    @property
    def runs(self) -> Runs:
        return Runs(path=self.path / "runs", tag=self.key[-4:], disk=self.disk)

    @property
    def publisher(self) -> Path:
        return self.path / "publisher.git"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def signoffs(self) -> Path:
        return self.path / "signoffs.jsonl"

    @property
    def answers(self) -> Path:
        return self.path / "answers.jsonl"

    @property
    def gates(self) -> Path:
        return self.path / "gates.jsonl"

    def account(self, name: str) -> Path:
        """The limit gate of an agent account, shared by every project of this user (DESIGN 4)."""
        return self.root / "accounts" / f"{_file_name(name)}.json"

    def prepare(self) -> None:
        """Make the directories, or refuse those that others could read or change. Safe to repeat.

        Raises HomeRefused, RecordError. Limit: the parents of an explicit root are taken as they are.
        """
        for parent in _missing(self.root):
            self.disk.make_dir(parent)
        private = (self.root, self.path, self.root / "accounts", self.path / "runs", self.snapshots)
        for place in private:
            self.disk.make_dir(place)
            _refuse_shared(place, stat.S_IRWXG | stat.S_IRWXO, "0700")
        for parent in _missing(self.work_root):
            self.disk.make_dir(parent, 0o711)
        for place in (self.work_root, self.work):
            self.disk.make_dir(place, 0o711)
            _refuse_shared(place, stat.S_IWGRP | stat.S_IWOTH, "0711")
            _let_through(place)

    def open_run(self, now: datetime, shift: str = "watch") -> Run:
        """The shift's latest run where it has no ending, else a new one. Under the lock."""
        run = self.runs.open(now, shift)
        self.runs.complete(run)
        return run

    def latest_run(self, shift: str | None = None) -> Run | None:
        return self.runs.latest(shift)

    def prune(self, keep: int) -> list[str]:
        """See `Runs.prune`. Under the lock."""
        return self.runs.prune(keep)

    def identity_change(self) -> str | None:
        """A sentence where the project is not the directory it was at the last `remember_identity`.

        None where it is, and at a first start, unless another project here was this very directory.
        Raises RecordError.
        """
        return identity.change(self.project, self.path / _IDENTITY, self.root.glob(f"*/{_IDENTITY}"))

    def remember_identity(self) -> None:
        """Write the project's path, device and inode down. Raises RecordError."""
        self.disk.replace(self.path / _IDENTITY, identity.document(self.project))

    def low_disk(self, min_free_mb: int) -> str | None:
        """A sentence where a filesystem of ours has less free than the floor (MiB), else None."""
        for place in (self.path, self.work):
            space = os.statvfs(next(p for p in (place, *place.parents) if p.exists()))
            free = space.f_bavail * space.f_frsize // 2**20
            if free < min_free_mb:
                return f"only {free} MiB are free at {place}; the floor (min_free_mb) is {min_free_mb} MiB"
            if space.f_files and space.f_favail < 1000:  # a poke makes some ten files
                return f"only {space.f_favail} more files can be made at {place}"
        return None


def project_key(real: Path) -> str:
    """A readable name and a short hash of the real path: the same after a reboot, different for each path."""
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return f"{_slug(real.name) or 'root'}-{digest}"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")


def _file_name(name: str) -> str:
    """`name` itself where it is a plain file name, else readable and unique."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9@._+-]{0,80}", name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{_slug(name) or 'account'}-{digest}"


def _chosen(
    explicit: Path | None, variable: str, fallback: str, of_root: str, environ: Mapping[str, str], user: int
) -> Path:
    if explicit is not None:
        return Path(os.path.realpath(explicit))
    if user == 0:
        place = of_root
    else:
        base = environ.get(variable, "")
        if not os.path.isabs(base):  # the XDG specification: a relative one is to be ignored
            base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), fallback)
        place = os.path.join(base, "harness")
    real = Path(os.path.realpath(place))
    for shared in _SHARED:
        if real.is_relative_to(shared):
            raise HomeRefused(
                f"{place} lies in {shared}, which every user can write to and a reboot may empty. "
                f"Set {variable} to a directory of yours."
            )
    return real


def _missing(place: Path) -> list[Path]:
    """The parents of `place` that do not exist, outermost first."""
    return [parent for parent in reversed(place.parents) if not os.path.exists(parent)]


def _refuse_shared(place: Path, forbidden: int, wanted: str) -> None:
    status = os.lstat(place)
    if status.st_uid != os.geteuid():
        raise HomeRefused(
            f"{place} belongs to user {status.st_uid}, not to the harness's user {os.geteuid()}, who could "
            "change what the harness remembers. Move it away or give it to the harness's user (chown)."
        )
    if status.st_mode & forbidden:
        raise HomeRefused(
            f"{place} has mode {stat.S_IMODE(status.st_mode):04o}: others could reach what the harness "
            f"remembers. chmod {wanted} {place}"
        )


def _let_through(place: Path) -> None:
    """Let the agent's user pass, also where a start was killed between making the directory and this."""
    mode = stat.S_IMODE(place.stat().st_mode)
    if mode & 0o011 != 0o011:
        place.chmod(mode | 0o011)
