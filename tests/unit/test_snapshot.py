"""The project's uncommitted work is kept at a run's start, and comes back without costing any other work."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import resource
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import Stage
from watcher.cli import run
from watcher.effect import snapshot_child
from watcher.effect.git import Repository, git_env
from watcher.effect.restore import Do, Restored, extract, plan, restore
from watcher.effect.snapshot import Snapshot, dirty, forget, take
from watcher.effect.snapshot_hands import heard, pythons, ranges
from watcher.effect.snapshot_manifest import (
    FILES,
    MANIFEST,
    Entry,
    Kind,
    Manifest,
    SnapshotError,
    all_of,
    index,
    read,
    shown,
    write,
)
from watcher.process import Account
from watcher.record.faults import FailingDisk
from watcher.record.files import Disk

NOW = datetime(2026, 7, 30, 2, 15, tzinfo=UTC)
RUN = "20260730T021500Z-watch-3f2a"
WHO = ("-c", "user.name=Tester", "-c", "user.email=tester@localhost")

as_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user"),
]


def nobody() -> Account:
    return Account.of("nobody")


@dataclass
class World:
    """A repository with one commit, a place for snapshots, and an agent that may be another user."""

    root: Path
    account: Account | None
    disk: Disk = field(default_factory=Disk)

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def repository(self) -> Repository:
        home = self.account.home if self.account else str(self.root)
        env = git_env(home, name="agent", path=os.environ["PATH"])
        return Repository(path=self.project, account=self.account, env=env)

    def build(self) -> World:
        self.project.mkdir()
        self.snapshots.mkdir(mode=0o700)
        self.git("init", "-q", "-b", "main")
        for name in ("tracked.txt", "other.txt", "folder/inner.txt"):
            self.put(name, f"{name}, committed\n")
        self.git("add", ".")
        self.git(*WHO, "commit", "-q", "-m", "begin")
        self.give()
        return self

    def give(self) -> None:
        """Everything in the project belongs to the agent, as in a real one."""
        if self.account:
            for place in (self.project, *self.project.rglob("*")):
                os.chown(place, self.account.uid, self.account.gid, follow_symlinks=False)

    def git(self, *args: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        safe = ("-c", f"safe.directory={self.project}")
        if self.account:  # the tests' own git; root's HOME is not read
            env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"}
            env |= {"GIT_CONFIG_VALUE_0": str(self.project)}
        return subprocess.run(
            ["git", *safe, *args], cwd=self.project, env=env, capture_output=True, text=True, check=True
        ).stdout

    def put(self, name: str, content: str | bytes = "work\n", mode: int = 0o644) -> Path:
        place = self.project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        self.give()
        return place

    def take(self, disk: Disk | None = None, **limits: tuple[int, int]) -> Snapshot | None:
        self.give()
        return take(self.repository, self.snapshots, RUN, NOW, disk or self.disk, **limits)

    def taken(self) -> Manifest:
        """A snapshot with nothing left out."""
        taken = self.take()
        assert taken is not None
        assert taken.warning == ""
        return read(taken.path)

    def restore(
        self, name: str = RUN, *, paths: tuple[str, ...] = (), deletions: bool = False, minutes: int = 1
    ) -> Restored:
        return restore(
            self.repository,
            self.snapshots / name,
            NOW + timedelta(minutes=minutes),
            self.disk,
            paths=paths,
            deletions=deletions,
        )

    def state(self) -> dict[bytes, tuple[str, int, bytes]]:
        """Every file and link of the work tree, as it is."""
        return tree(self.project)


def tree(top: Path) -> dict[bytes, tuple[str, int, bytes]]:
    found = {}
    for folder, folders, names in os.walk(os.fsencode(top)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*names, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]:
            place = os.path.join(folder, name)
            status = os.lstat(place)
            where = os.path.relpath(place, os.fsencode(top))
            if stat.S_ISLNK(status.st_mode):
                found[where] = ("link", 0, os.readlink(place))
            elif stat.S_ISREG(status.st_mode):
                with open(place, "rb") as file:
                    found[where] = ("file", stat.S_IMODE(status.st_mode), file.read())
            else:
                found[where] = ("special", 0, b"")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that other users can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)  # noqa: S103 - meant
        yield Path(os.path.realpath(name))


@pytest.fixture(params=["one user", pytest.param("two users", marks=as_root)])
def world(request: pytest.FixtureRequest, folder: Path) -> World:
    return World(folder, nobody() if request.param == "two users" else None).build()


@pytest.fixture
def alone(folder: Path) -> World:
    return World(folder, None).build()


# --- what is kept and comes back --------------------------------------------------------------------


def test_a_clean_tree_keeps_nothing(world: World) -> None:
    assert world.take() is None
    assert list(world.snapshots.iterdir()) == []


def test_an_ignored_file_is_not_kept(world: World) -> None:
    world.put(".git/info/exclude", "*.log\n")
    world.put("build.log")
    assert world.take() is None


def test_an_untracked_file_the_agent_overwrote_comes_back_byte_for_byte(world: World) -> None:
    content = bytes(range(256)) * 5000 + b"no newline at the end"
    world.put("notes/plan.md", content)
    world.taken()
    world.put("notes/plan.md", "a helpful draft\n")
    world.restore()
    assert (world.project / "notes/plan.md").read_bytes() == content


def replaced_by_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("/etc/passwd")


CHANGES: dict[str, Callable[[World], object]] = {
    "tracked modification": lambda w: w.put("tracked.txt", "changed\n"),
    "staged modification": lambda w: (w.put("tracked.txt", "staged\n"), w.git("add", "tracked.txt")),
    "staged, then changed": lambda w: (
        w.put("tracked.txt", "staged\n"),
        w.git("add", "tracked.txt"),
        w.put("tracked.txt", "changed\n"),
    ),
    "staged new file": lambda w: (w.put("new.txt"), w.git("add", "new.txt")),
    "intent to add": lambda w: (w.put("new.txt"), w.git("add", "-N", "new.txt")),
    "untracked file": lambda w: w.put("deep/er/new.txt"),
    "empty file": lambda w: w.put("empty", ""),
    "executable bit": lambda w: w.put("run.sh", "#!/bin/sh\n", 0o755),
    "private file": lambda w: w.put("secret.txt", "s\n", 0o600),
    "executable bit of a tracked file": lambda w: (w.project / "tracked.txt").chmod(0o755),
    "link to a file": lambda w: (w.project / "link").symlink_to("tracked.txt"),
    "link to a directory": lambda w: (w.project / "link").symlink_to("folder"),
    "link to nowhere": lambda w: (w.project / "link").symlink_to("/no/such/place" * 20),
    "tracked file made a link": lambda w: replaced_by_link(w.project / "tracked.txt"),
    "renamed": lambda w: w.git("mv", "tracked.txt", "moved.txt"),
    "very long name": lambda w: w.put("/".join(["d" * 200] * 5) + "/" + "f" * 200),
    "leading dash": lambda w: w.put("-rf"),
    "newline": lambda w: w.put("two\nlines"),
    "quotes, blanks, backslash": lambda w: w.put(' "it\'s" \\n\t* '),
    "not UTF-8": lambda w: w.put("caf\udce9.txt"),
    "looks like a status line": lambda w: w.put("# branch.oid x"),
    "hard links": lambda w: (w.project / "two").hardlink_to(w.put("one")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_kind_of_uncommitted_work_comes_back(world: World, change: Callable[[World], object]) -> None:
    change(world)
    world.taken()
    before = world.state()
    world.git("reset", "-q", "--hard")
    world.git("clean", "-q", "-fdx")
    world.give()
    assert world.state() != before
    world.restore(deletions=True)
    assert world.state() == before


def test_a_deletion_is_repeated_only_when_that_is_asked_for(world: World) -> None:
    (world.project / "tracked.txt").unlink()
    assert [entry.kind for entry in world.taken().entries] == [Kind.DELETED]
    world.git("checkout", "-q", "--", "tracked.txt")
    world.give()
    first = world.restore()
    assert [step.do for step in first.steps] == [Do.LEAVE]
    assert (world.project / "tracked.txt").exists()
    second = world.restore(deletions=True)
    assert not (world.project / "tracked.txt").exists()
    world.restore(second.undo)
    assert (world.project / "tracked.txt").read_text() == "tracked.txt, committed\n"


def test_work_on_an_unborn_branch_is_kept(folder: Path) -> None:
    world = World(folder, None)
    world.project.mkdir()
    world.snapshots.mkdir()
    world.git("init", "-q", "-b", "trunk")
    world.put("first.txt")
    manifest = world.taken()
    assert (manifest.head, manifest.branch) == ("", "trunk")
    assert [entry.path for entry in manifest.entries] == ["first.txt"]


def test_the_manifest_says_when_where_and_what(world: World) -> None:
    world.put("new.txt", "four", 0o640)
    manifest = world.taken()
    assert manifest.taken_at == NOW
    assert manifest.head == world.git("rev-parse", "HEAD").strip()
    assert (manifest.branch, manifest.top) == ("main", str(world.project))
    digest = hashlib.sha256(b"four").hexdigest()
    assert manifest.entries == (Entry(path="new.txt", kind=Kind.FILE, mode="0640", size=4, sha256=digest),)


def test_a_content_that_is_only_staged_is_named(world: World) -> None:
    world.put("tracked.txt", "only staged\n")
    world.git("add", "tracked.txt")
    world.put("tracked.txt", "in the work tree\n")
    (entry,) = world.taken().entries
    assert world.git("cat-file", "blob", entry.staged) == "only staged\n"


def test_a_work_tree_below_the_repositorys_root_is_kept_with_the_whole(world: World) -> None:
    world.put("outside.txt")
    world.put("folder/new.txt")
    below = Repository(path=world.project / "folder", account=world.account, env=world.repository.env)
    taken = take(below, world.snapshots, RUN, NOW, world.disk)
    assert taken is not None
    assert sorted(entry.path for entry in read(taken.path).kept()) == ["folder/new.txt", "outside.txt"]


def test_a_snapshot_is_a_plain_tar_that_needs_no_harness(alone: World) -> None:
    alone.put("caf\udce9 -x.txt", "by hand\n")
    alone.taken()
    to = alone.root / "by-hand"
    to.mkdir()
    subprocess.run(["tar", "-xf", alone.snapshots / RUN / FILES, "-C", to], check=True)
    assert (to / "caf\udce9 -x.txt").read_text() == "by hand\n"


def test_nothing_but_the_tar_and_the_manifest_stays_and_only_we_can_read_them(world: World) -> None:
    world.put("new.txt")
    world.taken()
    places = sorted((world.snapshots / RUN).iterdir())
    assert [place.name for place in places] == [FILES, MANIFEST]
    assert {stat.S_IMODE(place.stat().st_mode) for place in places} == {0o600}
    assert {place.stat().st_uid for place in places} == {os.geteuid()}


def test_taking_a_snapshot_changes_nothing_in_the_project(world: World) -> None:
    world.put("new.txt")
    world.put("tracked.txt", "changed\n")
    before, index_before = world.state(), (world.project / ".git/index").read_bytes()
    world.taken()
    assert world.state() == before
    assert (world.project / ".git/index").read_bytes() == index_before


def test_a_runs_first_snapshot_is_never_replaced(world: World) -> None:
    world.put("new.txt", "the user's\n")
    first = world.take()
    world.put("new.txt", "the agent's\n")
    assert world.take() == first
    world.restore()
    assert (world.project / "new.txt").read_text() == "the user's\n"


def test_a_snapshot_cut_short_is_made_again(world: World) -> None:
    world.put("new.txt")
    left = world.snapshots / RUN
    left.mkdir()
    (left / FILES).write_bytes(b"half a tar" * 1000)
    (left / f"{FILES}.names.tmp").write_bytes(b"[")
    assert all_of(world.snapshots) == {}
    assert [entry.path for entry in world.taken().entries] == ["new.txt"]


# --- what is not kept -------------------------------------------------------------------------------


def test_beyond_the_size_limit_the_largest_is_named_and_the_rest_kept(world: World) -> None:
    world.put("large.bin", bytes(3500))
    world.put("small.txt")
    (world.project / "sparse").touch()
    os.truncate(world.project / "sparse", 2**40)
    taken = world.take(most=(3502, 100))
    assert taken is not None
    assert (taken.kept, taken.size) == (1, 5)
    assert [why.split(":")[0] for why in sorted(taken.skipped)] == ["large.bin", "sparse"]
    assert "large.bin: too large: 3500 bytes" in taken.warning
    world.put("large.bin", "the agent's\n")
    done = world.restore()
    assert {step.entry.path: step.do for step in done.steps} == {
        "small.txt": Do.NOTHING,
        "large.bin": Do.LEAVE,
        "sparse": Do.LEAVE,
    }


def test_beyond_the_file_limit_the_rest_is_named(world: World) -> None:
    for number in range(5):
        world.put(f"{number}.txt", "x" * number)
    taken = world.take(most=(10_000, 3))
    assert taken is not None
    assert taken.kept == 3
    assert sorted(taken.skipped) == [
        "3.txt: beyond the limit of 3 files",
        "4.txt: beyond the limit of 3 files",
    ]


def test_special_files_are_named_and_left_alone(world: World) -> None:
    for name in ("tracked.txt", "other.txt"):
        (world.project / name).unlink()
    os.mkfifo(world.project / "tracked.txt")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(world.project / "other.txt"))
    taken = world.take()
    assert taken is not None
    assert taken.kept == 0
    assert len(taken.skipped) == 2
    assert all("special file" in why for why in taken.skipped)


def test_a_repository_within_the_project_is_named(world: World) -> None:
    world.git("init", "-q", "nested")
    world.put("nested/file.txt")
    taken = world.take()
    assert taken is not None
    assert taken.skipped == ("nested: a repository of its own",)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
def test_what_the_agents_user_may_not_read_is_not_read_for_it(folder: Path) -> None:
    world = World(folder, nobody()).build()
    world.put("mine.txt", "mine\n", 0o600)
    world.put("readable.txt")
    os.chown(world.project / "mine.txt", 0, 0)
    taken = take(world.repository, world.snapshots, RUN, NOW, world.disk)
    assert taken is not None
    assert taken.skipped == ("mine.txt: Permission denied",)
    assert [entry.path for entry in read(taken.path).kept()] == ["readable.txt"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
def test_what_is_laid_back_belongs_to_the_agents_user(folder: Path) -> None:
    world = World(folder, nobody()).build()
    place = world.put("deep/new.txt")
    world.taken()
    place.unlink()
    place.parent.rmdir()
    world.restore()
    uid = pwd.getpwnam("nobody").pw_uid
    assert {place.stat().st_uid, place.parent.stat().st_uid} == {uid}


def test_names_beyond_what_is_read_of_git_are_not_half_read(alone: World) -> None:
    for number in range(17_000):
        (alone.project / f"{number:0250d}").touch()
    dirt = dirty(alone.repository)
    assert dirt.unlisted
    assert all(len(name) == 250 for name in dirt.changes)


# --- when it cannot be kept -------------------------------------------------------------------------


def failing_calls(folder: Path) -> int:
    """How many calls of the disk one snapshot makes."""
    world = World(folder, None).build()
    world.put("new.txt")
    disk = FailingDisk()
    world.take(disk)
    return len(disk.calls)


def test_whatever_call_of_the_disk_fails_the_run_is_told_and_can_go_on(tmp_path: Path) -> None:
    (tmp_path / "count").mkdir()
    calls = failing_calls(tmp_path / "count")
    assert calls > 10
    for nth in range(1, calls + 1):
        root = tmp_path / str(nth)
        root.mkdir()
        world = World(root, None).build()
        world.put("new.txt")
        taken = world.take(FailingDisk(nth=nth, lasting=True))
        assert taken is not None
        assert "the disk is full (ENOSPC)" in taken.warning, nth
        assert taken.kept == 0
        assert all_of(world.snapshots) == {}
        assert [entry.path for entry in world.taken().entries] == ["new.txt"]


def test_a_tar_that_cannot_be_written_leaves_nothing_on_the_disk(alone: World) -> None:
    alone.put("large.bin", bytes(3 * 2**20))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        taken = alone.take()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert taken is not None
    assert "the snapshot cannot be written: " + os.strerror(errno.EFBIG) in taken.warning
    assert list(alone.snapshots.iterdir()) == []


def test_a_snapshot_leaves_half_of_the_free_space(alone: World, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.put("new.bin", bytes(6000))
    real = os.statvfs(alone.root)
    small = os.statvfs_result((*real[:1], 1, *real[2:4], 10_000, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda place: small)
    taken = alone.take()
    assert taken is not None
    assert taken.skipped == ("new.bin: too large: 6000 bytes, where 5000 more would have fitted",)


def test_a_repository_git_cannot_read_is_a_warning(alone: World) -> None:
    alone.put(".git/index", "no index")
    taken = alone.take()
    assert taken is not None
    assert taken.warning.startswith("uncommitted work in the project is not kept: ")


def test_a_planted_work_tree_elsewhere_is_refused(world: World) -> None:
    elsewhere = world.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("s")
    world.git("config", "core.worktree", str(elsewhere))
    taken = world.take()
    assert taken is not None
    assert "core.worktree" in taken.warning
    assert taken.kept == 0


def test_a_damaged_manifest_is_said_and_nothing_is_deleted(alone: World) -> None:
    alone.put("new.txt")
    alone.taken()
    (alone.snapshots / RUN / MANIFEST).write_text("{}")
    taken = alone.take()
    assert taken is not None
    assert "cannot be read" in taken.warning
    assert (alone.snapshots / RUN / FILES).exists()
    with pytest.raises(SnapshotError, match="cannot be read"):
        alone.restore()


# --- restoring loses nothing ------------------------------------------------------------------------


def test_restoring_twice_is_harmless(world: World) -> None:
    world.put("new.txt", "the user's\n")
    world.taken()
    world.put("new.txt", "the agent's\n")
    assert world.restore().undo
    before = world.state()
    second = world.restore(minutes=2)
    assert second.undo == ""
    assert [step.do for step in second.steps] == [Do.NOTHING]
    assert world.state() == before
    assert len(all_of(world.snapshots)) == 2


def test_restoring_can_be_taken_back_whole(world: World) -> None:
    world.put("kept.txt", "the user's\n")
    world.put("gone.txt", "the user's, later deleted\n")
    (world.project / "link").symlink_to("kept.txt")
    (world.project / "other.txt").unlink()
    world.taken()
    world.put("kept.txt", "the agent's\n", 0o755)
    (world.project / "gone.txt").unlink()
    (world.project / "link").unlink()
    world.put("link", "a file now\n")
    world.put("other.txt", "written again by the agent\n")
    agents = world.state()
    done = world.restore(deletions=True)
    users = world.state()
    assert users != agents
    undone = world.restore(done.undo, deletions=True, minutes=2)
    assert world.state() == agents
    world.restore(undone.undo, deletions=True, minutes=3)
    assert world.state() == users


def test_a_file_that_is_the_same_is_not_kept_once_more(world: World) -> None:
    world.put("same.txt")
    world.put("changed.txt")
    world.taken()
    world.put("changed.txt", "the agent's\n")
    undo = read(world.snapshots / world.restore().undo)
    assert [entry.path for entry in undo.entries] == ["changed.txt"]
    assert (undo.before_restoring, undo.run) == (RUN, RUN)


def test_what_cannot_be_kept_first_is_not_overwritten(world: World) -> None:
    world.put("a.txt", "the user's\n")
    world.put("b.txt", "the user's\n")
    world.taken()
    world.put("a.txt", "agent\n")
    world.put("b.txt", "the agent's, too large to keep\n" * 10)
    done = restore(
        world.repository, world.snapshots / RUN, NOW + timedelta(minutes=1), world.disk, most=(100, 10)
    )
    assert {step.entry.path: step.do for step in done.steps} == {"a.txt": Do.REPLACE, "b.txt": Do.REFUSE}
    assert (world.project / "a.txt").read_text() == "the user's\n"
    assert (world.project / "b.txt").read_text().startswith("the agent's")


def test_a_full_disk_stops_a_restore_before_it_changes_anything(world: World) -> None:
    world.put("new.txt", "the user's\n")
    world.taken()
    world.put("new.txt", "the agent's\n")
    world.disk = FailingDisk("rename", 1, lasting=True)
    with pytest.raises(Exception, match="the disk is full"):
        world.restore()
    assert (world.project / "new.txt").read_text() == "the agent's\n"
    assert list(all_of(world.snapshots)) == [RUN]


def test_a_directory_where_a_file_was_is_not_replaced(world: World) -> None:
    world.put("notes", "the user's\n")
    world.taken()
    (world.project / "notes").unlink()
    world.put("notes/agent.txt", "the agent's\n")
    (step,) = world.restore().steps
    assert (step.do, step.why) == (Do.REFUSE, "a directory stands there now")
    assert (world.project / "notes/agent.txt").exists()


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((), ["a.txt", "dir/b.txt", "dir/c.txt", "dirt"]),
        ((".",), ["a.txt", "dir/b.txt", "dir/c.txt", "dirt"]),
        (("a.txt",), ["a.txt"]),
        (("dir",), ["dir/b.txt", "dir/c.txt"]),
        (("dir/", "a.txt"), ["a.txt", "dir/b.txt", "dir/c.txt"]),
    ],
    ids=["all", "the top", "a file", "a directory", "two"],
)
def test_paths_choose_what_is_restored(alone: World, paths: tuple[str, ...], expected: list[str]) -> None:
    for name in ("a.txt", "dir/b.txt", "dir/c.txt", "dirt"):
        alone.put(name)
    alone.taken()
    alone.git("clean", "-qfd")
    alone.restore(paths=paths)
    assert sorted(name.decode() for name in alone.state() if name != b"tracked.txt") == sorted(
        [*expected, "other.txt", "folder/inner.txt"]
    )


def test_a_path_the_snapshot_does_not_hold_is_refused(alone: World) -> None:
    alone.put("a.txt")
    alone.taken()
    with pytest.raises(SnapshotError, match=r"holds nothing at b\.txt"):
        alone.restore(paths=("b.txt",))


def test_a_plan_says_what_a_restore_would_do_and_does_nothing(world: World) -> None:
    for name in ("gone", "same", "changed"):
        world.put(name)
    world.taken()
    (world.project / "gone").unlink()
    world.put("changed", "the agent's\n")
    before = world.state()
    steps = plan(world.repository, world.snapshots / RUN)
    assert {step.entry.path: step.do for step in steps} == {
        "gone": Do.CREATE,
        "same": Do.NOTHING,
        "changed": Do.REPLACE,
    }
    assert world.state() == before
    assert list(all_of(world.snapshots)) == [RUN]


def test_a_setuid_bit_is_not_laid_back(world: World) -> None:
    place = world.put("tool", "#!/bin/sh\n")
    place.chmod(0o4755)
    assert [entry.mode for entry in world.taken().entries] == ["0755"]
    place.unlink()
    world.restore()
    assert stat.S_IMODE(place.stat().st_mode) == 0o755


def test_forgetting_a_run_takes_all_its_snapshots_and_no_other(alone: World) -> None:
    alone.put("new.txt")
    alone.taken()
    take(alone.repository, alone.snapshots, f"{RUN}-2", NOW, alone.disk)
    (alone.project / "new.txt").unlink()
    undo = alone.restore().undo
    assert {place.name for place in alone.snapshots.iterdir()} == {RUN, f"{RUN}-2", undo}
    forget(alone.snapshots, [RUN, "20200101T000000Z-watch-0000"], alone.disk)
    assert [place.name for place in alone.snapshots.iterdir()] == [f"{RUN}-2"]


# --- nothing leads outside --------------------------------------------------------------------------


def test_a_planted_link_on_the_way_does_not_lead_a_restore_outside(world: World) -> None:
    outside = world.root / "outside"
    outside.mkdir()
    outside.chmod(0o777)  # even where the agent's user could write
    world.put("notes/plan.md", "the user's\n")
    world.taken()
    (world.project / "notes/plan.md").unlink()
    (world.project / "notes").rmdir()
    (world.project / "notes").symlink_to(outside)
    (step,) = world.restore().steps
    assert step.do is Do.REFUSE
    assert "is no directory now" in step.why
    assert list(outside.iterdir()) == []


def test_a_planted_link_in_place_of_a_file_is_replaced_not_followed(world: World) -> None:
    outside = world.root / "outside.txt"
    outside.write_text("precious\n")
    outside.chmod(0o666)
    world.put("plan.md", "the user's\n")
    world.taken()
    (world.project / "plan.md").unlink()
    (world.project / "plan.md").symlink_to(outside)
    world.give()
    done = world.restore()
    assert outside.read_text() == "precious\n"
    assert (world.project / "plan.md").read_text() == "the user's\n"
    assert not (world.project / "plan.md").is_symlink()
    world.restore(done.undo)
    assert os.readlink(world.project / "plan.md") == str(outside)


def test_a_link_planted_before_the_snapshot_is_not_read_through(world: World) -> None:
    secret = world.root / "secret"
    secret.write_text("secret\n")
    (world.project / "tracked.txt").unlink()
    (world.project / "tracked.txt").symlink_to(secret)
    (world.project / "folder/inner.txt").unlink()
    (world.project / "folder").rmdir()
    (world.project / "folder").symlink_to(world.root)
    world.taken()
    assert b"secret\n" not in (world.snapshots / RUN / FILES).read_bytes()


HOSTILE = [
    "../outside.txt",
    "a/../../outside.txt",
    "/tmp/outside.txt",
    ".git/config",
    "a/.GIT/hooks/x",
    "a//b",
]


def crafted(world: World, names: list[str]) -> Path:
    """A snapshot such as no `take` makes."""
    folder = world.snapshots / "crafted"
    folder.mkdir()
    with tarfile.open(folder / FILES, "w:") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 5
            with open(world.project / "five", "w+b") as file:
                file.write(b"evil\n")
                file.seek(0)
                archive.addfile(member, file)
    (world.project / "five").unlink()
    write(
        folder,
        Manifest(
            run=RUN, taken_at=NOW, top=str(world.project), head="", branch="main", entries=index(folder)
        ),
        world.disk,
    )
    return folder


def test_a_hostile_name_is_refused_wherever_it_would_be_written(alone: World) -> None:
    folder = crafted(alone, HOSTILE)
    git_before = tree(alone.project / ".git")
    steps = restore(alone.repository, folder, NOW, alone.disk).steps
    assert [step.do for step in steps] == [Do.REFUSE] * len(HOSTILE)
    to = alone.root / "empty"
    steps = extract(folder, to, alone.disk)
    assert [step.do for step in steps] == [Do.REFUSE] * len(HOSTILE)
    assert tree(to) == {}
    assert not list(to.parent.glob("outside*"))
    assert tree(alone.project / ".git") == git_before


def test_a_name_cannot_command_the_terminal() -> None:
    assert shown("\x1b[2Jcaf\udce9\nü") == "\\x1b[2Jcaf\\udce9\\nü"


# --- the child --------------------------------------------------------------------------------------


def test_the_child_needs_nothing_but_an_older_python_and_its_library() -> None:
    source = Path(snapshot_child.__file__).read_text()
    modules = {
        line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))
    }
    assert modules <= set(sys.stdlib_module_names)
    compile(source, "child", "exec", flags=0x400, _feature_version=8)  # 0x400: only parse (ast.PyCF_ONLY_AST)


def test_an_interpreter_out_of_reach_is_passed_over(alone: World, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.put("new.txt")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert pythons()[0] == "/no/such/python"
    assert [entry.path for entry in alone.taken().entries] == ["new.txt"]


def test_without_any_interpreter_it_says_what_to_install(
    alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone.put("new.txt")
    monkeypatch.setattr("watcher.effect.snapshot_hands.pythons", lambda: ("/bin/false", "/no/such/python"))
    taken = alone.take()
    assert taken is not None
    assert "install python3 for all users" in taken.warning
    assert list(alone.snapshots.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "names", "complaint"),
    [
        (b'["a", "kept", ""]\n', ["a"], ""),
        (b'["a", "kept", ""]\nTraceback\nMemoryError: \x1b[2J\n', ["a"], "MemoryError: ?[2J"),
        (b"[1]\n{}\nnull\n\xff\n", [], "?"),
        (b"", [], ""),
    ],
    ids=["a note", "a crash", "nonsense", "nothing"],
)
def test_what_the_child_says_is_read_with_care(said: bytes, names: list[str], complaint: str) -> None:
    notes, heard_complaint = heard(said)
    assert list(notes) == names
    assert heard_complaint.replace("�", "?") == complaint


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0,2-3,7")],
    ids=["none", "one", "a range", "mixed"],
)
def test_a_choice_of_files_fits_into_an_argument(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
    assert snapshot_child._numbers(text) == set(numbers)
    assert len(ranges(range(0, 20_000, 2))) < 128 * 1024


# --- the command ------------------------------------------------------------------------------------


def harness_restore(stage: Stage, *words: str) -> int:
    config = str(stage.root / "harness.toml")
    return run(["restore", str(stage.project), "--config", config, *words])


@pytest.fixture
def kept(stage: Stage) -> Stage:
    """A project with a snapshot of two files that the agent changed since."""
    from watcher.record.home import Home
    from watcher.record.lock import hold

    stage.config()
    home = Home.for_project(stage.project, stage.state, stage.root / "work")
    (stage.project / "notes.txt").write_text("the user's\n")
    (stage.project / "plan.txt").write_text("the user's\n")
    repository = Repository(
        path=stage.project, account=None, env=git_env("/", name="t", path=os.environ["PATH"])
    )
    with hold(home, stage.project):
        assert take(repository, home.snapshots, RUN, NOW, home.disk)
    (stage.project / "notes.txt").write_text("the agent's\n")
    (stage.project / "plan.txt").unlink()
    return stage


def test_the_command_brings_everything_back_and_says_how_to_undo_it(
    kept: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness_restore(kept) == 0
    said = capsys.readouterr().out
    assert (kept.project / "notes.txt").read_text() == "the user's\n"
    assert (kept.project / "plan.txt").read_text() == "the user's\n"
    assert "replace    notes.txt" in said
    assert f"harness restore {kept.project} {RUN}.before-restore-1 --deletions" in said
    assert harness_restore(kept, f"{RUN}.before-restore-1", "--deletions") == 0
    assert (kept.project / "notes.txt").read_text() == "the agent's\n"
    assert not (kept.project / "plan.txt").exists()


def test_the_command_without_a_run_means_the_latest_run_not_its_undo(kept: Stage) -> None:
    assert harness_restore(kept) == 0
    (kept.project / "notes.txt").write_text("the agent's again\n")
    assert harness_restore(kept, "notes.txt") == 0
    assert (kept.project / "notes.txt").read_text() == "the user's\n"


def test_the_command_takes_a_path_with_or_without_a_run(kept: Stage) -> None:
    assert harness_restore(kept, "plan.txt") == 0
    assert (kept.project / "plan.txt").exists()
    assert (kept.project / "notes.txt").read_text() == "the agent's\n"
    assert harness_restore(kept, RUN, str(kept.project / "notes.txt")) == 0
    assert (kept.project / "notes.txt").read_text() == "the user's\n"


def test_the_command_lists_and_changes_nothing(kept: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(kept.project)
    assert harness_restore(kept, "--list") == 0
    said = capsys.readouterr().out
    assert f"{RUN}  2026-07-30 02:15 UTC  2 files, 22 bytes" in said
    assert "create     plan.txt" in said
    assert "replace    notes.txt" in said
    assert tree(kept.project) == before


def test_the_command_writes_elsewhere(kept: Stage) -> None:
    to = kept.root / "elsewhere"
    before = tree(kept.project)
    assert harness_restore(kept, "--to", str(to)) == 0
    assert tree(to) == {
        b"notes.txt": ("file", 0o644, b"the user's\n"),
        b"plan.txt": ("file", 0o644, b"the user's\n"),
    }
    assert harness_restore(kept, "--to", str(to)) == 1  # no longer empty
    assert tree(kept.project) == before


def test_the_command_does_not_write_elsewhere_within_the_project(
    kept: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness_restore(kept, "--to", str(kept.project / "new")) == 1
    assert "lies in the project" in capsys.readouterr().err
    assert not (kept.project / "new").exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
def test_root_does_not_write_below_what_another_user_can_move(
    kept: Stage, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chown(folder, nobody().uid, nobody().gid)
    assert harness_restore(kept, "--to", str(folder / "new")) == 1
    assert "can be changed by other users" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_the_command_does_not_touch_a_project_somebody_works_on(
    kept: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    from watcher.record.home import Home
    from watcher.record.lock import hold

    with hold(Home.for_project(kept.project, kept.state, kept.root / "work"), kept.project):
        assert harness_restore(kept) == 75
    assert "two agents never work one tree" in capsys.readouterr().err
    assert (kept.project / "notes.txt").read_text() == "the agent's\n"


def test_a_refused_part_shows_in_the_exit_code(kept: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    (kept.project / "plan.txt").mkdir()
    assert harness_restore(kept) == 1
    assert "refuse     plan.txt  (a directory stands there now)" in capsys.readouterr().out
    assert (kept.project / "notes.txt").read_text() == "the user's\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("../elsewhere",), 64, "is not in"),
        (("missing.txt",), 1, "holds nothing at missing.txt"),
        (("20250101T000000Z-watch-3f2a",), 64, "There is no snapshot"),
        (("--to", "x", "--list"), 64, "do not go with it"),
    ],
    ids=["outside", "not held", "no such run", "contradiction"],
)
def test_the_command_refuses_what_cannot_be_meant(
    kept: Stage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    assert harness_restore(kept, *words) == code
    assert said in capsys.readouterr().err


def test_the_command_says_when_there_is_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.config()
    assert harness_restore(stage, "--list") == 0
    assert "Nothing is kept" in capsys.readouterr().out
    assert harness_restore(stage) == 64
    assert "Nothing is kept" in capsys.readouterr().err
    assert harness_restore(stage, "some.txt") == 64
    assert "There is no snapshot 'some.txt'" in capsys.readouterr().err
