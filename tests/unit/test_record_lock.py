"""One harness a project: real processes, real locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from watcher.record.home import Home, HomeRefused
from watcher.record.lock import Held, flock_holders, hold, holder, taking_turns

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": os.environ["PATH"]}

START = """
    import os, subprocess, sys
    from pathlib import Path
    from watcher.record.home import Home
    from watcher.record.lock import Held, hold
    project, root, user = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    home = Home.for_project(project, root=root)
"""
HOLD = (
    START
    + """
    with hold(home, project):
        print("held", flush=True)
        sys.stdin.read()
"""
)
HOLD_WITH_A_CHILD = (
    START
    + """
    with hold(home, project):
        child = subprocess.Popen(["sleep", "600"], close_fds=False)  # as an agent started carelessly
        print("held", child.pid, flush=True)
        sys.stdin.read()
"""
)
TRY = (
    START
    + """
    try:
        with hold(home, project):
            print("held")
    except Held as held:
        print(held.pid, held.who, held, sep="|")
"""
)
RACE = (
    START
    + """
    won = 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(200):
        try:
            with hold(home, project):
                os.close(os.open(root / "inside", os.O_CREAT | os.O_EXCL))  # fails if anybody else is inside
                os.unlink(root / "inside")
                won += 1
        except Held:
            pass
    print(won)
"""
)


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to other users
        os.chmod(name, 0o755)  # noqa: S103 - the other user must get in
        (Path(name) / "project").mkdir(mode=0o755)
        yield Path(name)


def home_of(place: Path) -> Home:
    return Home.for_project(place / "project", root=place / "state")


def started(
    code: str, place: Path, root: str = "state", user: int = 0, before: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-c", textwrap.dedent(code), place / "project", place / root, str(user)],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def holding(
    code: str, place: Path, root: str = "state", user: int = 0, before: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that holds the lock until the block ends, and what it said."""
    process = started(code, place, root, user, before)
    assert process.stdout
    try:
        said = process.stdout.readline()
        assert said.startswith("held")
        yield process, said
    finally:
        process.kill()
        process.communicate()


def test_the_second_harness_is_refused_and_told_who_works_there(place: Path) -> None:
    with holding(HOLD, place) as (other, _):
        with pytest.raises(Held) as refused, hold(home_of(place), place / "project"):
            pytest.fail("two agents never work one tree")
        assert refused.value.pid == other.pid
        assert Path(sys.executable).name in refused.value.who
        assert f"process {other.pid}" in str(refused.value)
        assert str(place / "project") in str(refused.value)
    with hold(home_of(place), place / "project"):
        pass


def test_another_state_root_does_not_make_room_for_a_second_harness(place: Path) -> None:
    with holding(HOLD, place, root="other-state") as (other, _):
        with pytest.raises(Held) as refused, hold(home_of(place), place / "project"):
            pytest.fail("the project is what is held")
        assert refused.value.pid == other.pid
    assert not (place / "state").exists()  # who is refused touches nothing


def test_the_state_directory_is_held_as_well(place: Path) -> None:
    home = home_of(place)
    with holding(HOLD, place) as (other, _):
        found = holder(home.path)
        assert found is not None
        assert found.pid == other.pid
        (place / "project").rename(place / "moved")
        (place / "project").mkdir()  # under the same path another directory, whose lock is free
        with pytest.raises(Held) as refused, hold(home, place / "project"):
            pytest.fail("the state is in use")
        assert refused.value.place == home.path
        assert refused.value.pid == other.pid


def test_a_killed_harness_leaves_no_lock(place: Path) -> None:
    with holding(HOLD, place) as (other, _):
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert holder(place / "project") is None
        with hold(home_of(place), place / "project"):
            pass


def test_a_surviving_agent_does_not_keep_the_lock(place: Path) -> None:
    with holding(HOLD_WITH_A_CHILD, place) as (other, said):
        child = int(said.split()[1])
        try:
            other.send_signal(signal.SIGKILL)
            other.wait()
            os.kill(child, 0)  # it lives
            with hold(home_of(place), place / "project"):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_lock_is_free_after_the_block_and_after_an_exception_in_it(place: Path) -> None:
    home, project = home_of(place), place / "project"
    before = len(os.listdir("/proc/self/fd"))
    for error in (BlockingIOError, KeyboardInterrupt, ValueError):
        with pytest.raises(error), hold(home, project):
            raise error if holder(project) else AssertionError("not held")  # its BlockingIOError is no "Held"
    assert holder(project) is None
    assert holder(home.path) is None
    with hold(home, project), pytest.raises(Held) as refused, hold(home, project):
        pytest.fail("not twice in one process either")
    assert refused.value.pid == os.getpid()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_to_the_project_is_the_project(place: Path) -> None:
    (place / "link").symlink_to(place / "project")
    with holding(HOLD, place), pytest.raises(Held), hold(home_of(place), place / "link"):
        pytest.fail("the same directory")


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_project_that_is_no_directory_is_a_configuration_error(place: Path, kind: str) -> None:
    (place / "project").rmdir()
    if kind == "file":
        (place / "project").touch()
    with pytest.raises(HomeRefused, match="there is no directory"), hold(home_of(place), place / "project"):
        pytest.fail("nothing to hold")
    assert not (place / "state").exists()


def test_of_many_that_race_one_at_a_time_gets_in(place: Path) -> None:
    (place / "state").mkdir(mode=0o700)
    racers = [started(RACE, place) for _ in range(6)]
    for racer in racers:
        assert racer.stdout
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate()[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 6
    assert sum(won) >= 1


@pytest.mark.root
@as_root
@pytest.mark.parametrize(("first", "second"), [(0, 65534), (65534, 0)], ids=["root first", "user first"])
def test_two_users_with_their_own_state_see_each_others_lock(place: Path, first: int, second: int) -> None:
    for user in (first, second):
        (place / str(user)).mkdir(mode=0o700)
        os.chown(place / str(user), user, user)
    with holding(HOLD, place, f"{first}/state", first) as (other, _):
        said, _ = started(TRY, place, f"{second}/state", second).communicate()
        pid, who, message = said.strip().split("|")
        assert int(pid) == other.pid
        assert Path(sys.executable).name in who
        assert "is held by process" in message
    said, _ = started(TRY, place, f"{second}/state", second).communicate()
    assert said == "held\n"


@pytest.mark.root
@as_root
def test_a_holder_in_another_pid_namespace_is_a_refusal_without_a_pid(place: Path) -> None:
    apart = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with holding(HOLD, place):
        said, _ = started(TRY, place, before=apart).communicate()
        assert said.startswith("None||")
        assert "a process this one cannot see" in said


def test_who_holds_a_lock_can_be_asked_without_a_right_on_the_directory(place: Path) -> None:
    (place / "project").chmod(0o000)
    try:
        assert holder(place / "project") is None
    finally:
        (place / "project").chmod(0o755)
    assert holder(place / "missing") is None


def test_the_kernels_table_is_read_for_holders_only() -> None:
    table = (
        "1: POSIX  ADVISORY  WRITE 500 fe:00:77 0 EOF\n"
        "2: FLOCK  ADVISORY  WRITE 1234 fe:00:131073 0 EOF\n"
        "2: -> FLOCK  ADVISORY  WRITE 999 fe:00:131073 0 EOF\n"
        "3: FLOCK  ADVISORY  READ  0 00:2f:9 0 EOF\n"
        "4: OFDLCK ADVISORY  WRITE -1 08:01:12 0 EOF\n"
        "5: LEASE  ACTIVE    READ  600 08:01:13 0 EOF\n"
        "nonsense\n\n"
    )
    assert flock_holders(table) == {"fe:00:131073": 1234, "00:2f:9": 0}


ACCOUNT = """
    import json, sys
    from pathlib import Path
    from watcher.record.files import Disk
    from watcher.record.lock import taking_turns
    place = Path(sys.argv[1])
    for _ in range(100):
        with taking_turns(place.parent):
            count = json.loads(place.read_text())["count"]
            Disk().replace(place, json.dumps({"count": count + 1}).encode())
"""


def test_harnesses_that_take_turns_lose_no_change_of_a_shared_file(place: Path) -> None:
    shared = place / "account.json"
    shared.write_text('{"count": 0}')
    command = [sys.executable, "-c", textwrap.dedent(ACCOUNT), str(shared)]
    writers = [subprocess.Popen(command, env=ENVIRONMENT) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert shared.read_text() == '{"count": 400}'
    with taking_turns(place):
        assert holder(place) is not None
