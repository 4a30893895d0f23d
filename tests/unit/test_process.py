"""Claims about starting and ending processes, each shown on real ones."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from watcher import process
from watcher.process import (
    MARKER,
    Account,
    Command,
    End,
    Finished,
    Ladder,
    ProcessError,
    Started,
    boot_id,
    end_orphans,
    run_tool,
    supervise,
)
from watcher.process import proc as proc_module
from watcher.process.family import Before, Family, deliver
from watcher.process.proc import Identity

ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-I", "-S", "-c")
SHORT = Ladder(int_s=0.3, term_s=0.3, kill_s=5.0, settle_s=0.3, leftover_s=0.3, poll_s=0.02)
OBEDIENT = replace(SHORT, term_s=60)  # for what ends on TERM, however busy the machine is
PATIENT = Ladder(int_s=60, term_s=60, kill_s=10, settle_s=60, leftover_s=60, poll_s=0.02)
PATH = "/usr/bin:/bin"
LONG = "300"  # seconds; nothing here waits for it

# A process that has left its session, its parent and its environment; $1 receives its pid.
HIDDEN = 'setsid env -i /bin/sh -c \'(exec /bin/sh -c "echo \\$\\$ >$0; exec sleep 300" "$0") & exit 0\' "$1"'

as_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user"),
]


class Place:
    """A directory for one test, and a name by which everything started in it is found again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tag = uuid.uuid4().hex
        self.env = {"PATH": PATH, "TEST_TAG": self.tag}

    def command(self, *argv: str, **changes: Any) -> Command:
        command = Command(
            argv=argv,
            cwd=self.folder,
            env=self.env,
            stdin=None,
            stdout=self.folder / "out",
            stderr=self.folder / "err",
            marker=self.tag,
        )
        return replace(command, **changes)

    def sh(self, script: str, *arguments: str, **changes: Any) -> Command:
        return self.command("/bin/sh", "-c", script, "sh", *arguments, **changes)

    def python(self, script: str, *arguments: str, **changes: Any) -> Command:
        return self.command(*PYTHON, script, *arguments, **changes)

    def out(self) -> str:
        return (self.folder / "out").read_text()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def pid_in(self, name: str) -> int:
        eventually(lambda: (self.folder / name).exists() and (self.folder / name).read_text().strip())
        return int((self.folder / name).read_text())

    def running(self) -> list[int]:
        """Processes with this test's tag, or named in one of its pid files; zombies are not running."""
        pids = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if f"TEST_TAG={self.tag}".encode() in (entry / "environ").read_bytes():
                        pids.add(int(entry.name))
                except OSError:
                    continue
        pids.update(int(file.read_text()) for file in self.folder.glob("*.pid") if file.read_text().strip())
        return sorted(pid for pid in pids if alive(pid))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    left = place.running()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "the test left processes running"


@pytest.fixture
def subreaper() -> Iterator[None]:
    """This process adopts orphans, as a shift does, for one test."""
    assert process.become_subreaper()
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


class Requests:
    """Stop requests over a pipe, as the signal handlers of a shift make them."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self.asked = 0

    def fileno(self) -> int:
        return self._read

    def stop_now(self) -> bool:
        self.asked += 1
        return b"S" in os.read(self._read, 100)

    def stop(self) -> None:
        os.write(self._write, b"S")

    def wake(self) -> None:
        os.write(self._write, b"W")

    def hang_up(self) -> None:
        os.close(self._write)
        self._write = -1

    def close(self) -> None:
        os.close(self._read)
        if self._write >= 0:
            os.close(self._write)


@pytest.fixture
def requests() -> Iterator[Requests]:
    requests = Requests()
    yield requests
    requests.close()


def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def overdue(place: Place, command: Command, **rest: Any) -> Finished:
    """Supervise with a deadline that passes as soon as the program has printed "ready"."""

    def on_start(started: Started) -> None:
        eventually(lambda: "ready\n" in place.out())

    return supervise(replace(command, timeout_s=0.05), on_start=on_start, **rest)


def alive(pid: int) -> bool:
    seen = proc_module.look(pid)
    return seen is not None and seen.alive


def when_exists(path: str, *actions: Callable[[], object]) -> threading.Thread:
    """Do these once the child shows by a file that it is ready."""

    def wait() -> None:
        eventually(lambda: os.path.exists(path))
        for action in actions:
            action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


EARLIER: set[int] = set()  # children that other test files left to this process; none of them is ours


@pytest.fixture(autouse=True, scope="module")
def earlier_children() -> None:
    EARLIER.update(proc_module.own_children())


def children() -> set[int]:
    return proc_module.own_children() - EARLIER


# --- a program that ends by itself --------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, id="success"),
        pytest.param("exit 7", 7, id="failure"),
        pytest.param("kill -9 $$", -9, id="died of a signal"),
    ],
)
def test_the_exit_code_of_a_program_that_ends_itself_is_known(place: Place, script: str, code: int) -> None:
    finished = supervise(place.sh(script))
    assert (finished.end, finished.exit_code) == (End.EXITED, code)
    assert (finished.signalled, finished.stdout_before_signal, finished.leftovers) == ((), None, ())
    assert not children()


def test_output_goes_to_private_files_and_replaces_what_was_there(place: Place) -> None:
    (place.folder / "out").write_text("a longer answer of an earlier attempt\n")
    supervise(place.sh("echo answer; echo complaint >&2"))
    assert (place.out(), (place.folder / "err").read_text()) == ("answer\n", "complaint\n")
    assert (place.folder / "err").stat().st_mode & 0o777 == 0o600


def test_the_environment_is_exactly_the_commands_and_the_marker(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of the operator")
    supervise(place.command("env"))
    assert set(place.out().split()) == {f"PATH={PATH}", f"TEST_TAG={place.tag}", f"{MARKER}={place.tag}"}


def test_no_descriptor_of_ours_reaches_the_child(place: Place) -> None:
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        supervise(place.python("import os; print(*sorted(os.listdir('/proc/self/fd')))"))
    finally:
        os.close(leak)
    assert place.out().split() == ["0", "1", "2", "3"]  # 3 is the listing itself


def test_the_child_leads_a_session_of_its_own(place: Place) -> None:
    finished = supervise(place.python("import os; print(os.getsid(0), os.getpgrp())"))
    assert place.out().split() == [str(finished.pid)] * 2


def test_stdin_is_the_prompt_file(place: Place) -> None:
    (place.folder / "prompt").write_text("-- do the next task\n")
    supervise(place.sh("cat; readlink /proc/self/fd/0", stdin=place.folder / "prompt"))
    assert place.out() == f"-- do the next task\n{place.path('prompt')}\n"


def test_stdin_without_a_prompt_is_empty(place: Place) -> None:
    assert supervise(place.sh("cat")).exit_code == 0
    assert place.out() == ""


def test_the_child_has_the_umask_of_the_command(place: Place) -> None:
    supervise(place.sh("umask", umask=0o027))
    assert place.out() == "0027\n"


def test_what_the_checkpoint_needs_is_told_while_the_child_runs(place: Place) -> None:
    told: list[Started] = []
    seen: list[object] = []

    def on_start(started: Started) -> None:
        told.append(started)
        seen.append(proc_module.look(started.pid))

    finished = supervise(place.sh("exit 0"), on_start=on_start)
    assert [started.pid for started in told] == [finished.pid]
    assert told[0].boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert isinstance(seen[0], proc_module.Seen)
    assert seen[0].identity.ticks == told[0].started_at_ticks
    assert seen[0].parent == os.getpid()


# --- a program that cannot be started -----------------------------------------------------------


def make_unstartable(place: Place) -> None:
    for name, text, mode in [
        ("plain", "#!/bin/sh\n", 0o644),
        ("orphaned", "#!/no/such/interpreter -x\n", 0o755),
        ("no-hash-bang", "echo no\n", 0o755),
    ]:
        (place.folder / name).write_text(text)
        (place.folder / name).chmod(mode)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(("no-such-program-here",), "no program .* on the PATH", id="nowhere on the PATH"),
        pytest.param(("/no/such/program",), "there is no program '/no/such/program'", id="missing"),
        pytest.param(("./plain",), "not executable", id="not executable"),
        pytest.param(("./orphaned",), "'/no/such/interpreter -x', does not exist", id="bad interpreter"),
        pytest.param(("./no-hash-bang",), "no #! line", id="no #! line: no shell steps in"),
        pytest.param(("/",), "not executable", id="a directory"),
        pytest.param(("/bin/true", "x" * 3_000_000), "too long for this system", id="huge argument"),
        pytest.param(("/bin/true", "a\0b"), "null byte", id="NUL byte"),
        pytest.param((), "no program was named", id="nothing"),
    ],
)
def test_a_program_that_cannot_start_is_a_result_that_says_why(
    place: Place, argv: tuple[str, ...], words: str
) -> None:
    make_unstartable(place)
    finished = supervise(place.command(*argv))
    assert (finished.end, finished.exit_code, finished.pid) == (End.NOT_STARTED, None, None)
    assert re.search(words, finished.error), finished.error
    assert not children()


def test_a_vanished_working_directory_is_named(place: Place) -> None:
    finished = supervise(place.command("/bin/true", cwd=place.folder / "gone"))
    assert finished.end is End.NOT_STARTED
    assert f"working directory '{place.path('gone')}' does not exist" in finished.error


def test_output_that_cannot_be_created_is_an_error_of_the_caller(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        supervise(place.command("/bin/true", stdout=place.folder / "gone" / "out"))


def test_output_is_never_written_through_a_symbolic_link(place: Place) -> None:
    (place.folder / "precious").write_text("kept")
    (place.folder / "out").symlink_to("precious")
    with pytest.raises(OSError, match="symbolic links"):
        supervise(place.sh("echo overwritten"))
    assert (place.folder / "precious").read_text() == "kept"


def test_an_unknown_user_is_a_clear_error() -> None:
    with pytest.raises(ProcessError, match="no user 'no-such-user'"):
        Account.of("no-such-user")


# --- a program that we end ----------------------------------------------------------------------


def test_at_the_deadline_a_tool_in_its_own_session_is_ended_too(place: Place, subreaper: None) -> None:
    script = f"setsid sleep {LONG} & trap '' INT; echo ready; while :; do sleep 0.05; done"
    finished = overdue(place, place.sh(script), ladder=OBEDIENT)
    assert finished.end is End.DEADLINE
    assert finished.signalled == ("INT", "TERM")
    assert finished.exit_code == -signal.SIGTERM
    assert finished.leftovers
    assert not place.running()
    assert not children()


def test_a_result_printed_on_int_is_kept_and_told_from_what_came_before(place: Place) -> None:
    script = "trap 'echo result; exit 0' INT; echo ready; while :; do sleep 0.05; done"
    finished = overdue(place, place.sh(script), ladder=PATIENT)
    assert (finished.end, finished.exit_code, finished.signalled) == (End.DEADLINE, 0, ("INT",))
    assert finished.stdout_before_signal == len("ready\n")
    assert place.out() == "ready\nresult\n"


def test_a_program_that_ignores_everything_is_killed(place: Place) -> None:
    script = f"trap '' INT TERM HUP; echo ready; sleep {LONG}; sleep {LONG}"
    finished = overdue(place, place.sh(script), ladder=SHORT)
    assert (finished.exit_code, finished.signalled) == (-signal.SIGKILL, ("INT", "TERM", "KILL"))
    assert place.out() == "ready\n"
    assert not finished.survivors


def test_a_stopped_program_still_hears_the_request(place: Place) -> None:
    finished = overdue(place, place.sh("echo ready; kill -STOP $$; exit 3"), ladder=PATIENT)
    assert (finished.exit_code, finished.signalled) == (-signal.SIGINT, ("INT",))


FORK_LOOP = """
import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("ready", flush=True)
while True:
    try:
        if os.fork() == 0:
            {child}
            time.sleep(300)
    except BlockingIOError:
        pass
    time.sleep(0.002)
"""

HOPPER = """
import os, signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("ready", flush=True)
while True:
    if os.fork():
        os._exit(0)
    {child}
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(FORK_LOOP.format(child="pass"), id="a loop in one session"),
        pytest.param(FORK_LOOP.format(child="os.setsid()"), id="a loop of sessions"),
        pytest.param(HOPPER.format(child="pass"), id="a chain in one session"),
        pytest.param(HOPPER.format(child="os.setsid()"), id="a chain of sessions"),
    ],
)
def test_nothing_remains_of_a_program_that_forks_while_it_is_killed(
    place: Place, subreaper: None, script: str
) -> None:
    finished = overdue(place, place.python(script), ladder=SHORT)
    assert not finished.survivors
    assert finished.leftovers
    assert not place.running()
    assert not children()


@pytest.fixture
def hopper(place: Place) -> str:
    """A program that forks and exits without end, faster than a script can."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    source = Path(__file__).parents[1] / "data" / "hopper.c"
    subprocess.run(["cc", "-O2", "-o", place.path("hopper"), source], check=True)
    return place.path("hopper")


def test_chains_of_processes_that_hop_from_session_to_session_are_ended(
    place: Place, subreaper: None, hopper: str
) -> None:
    finished = supervise(place.command(hopper), ladder=replace(SHORT, kill_s=3))
    assert finished.leftovers
    assert not finished.survivors
    assert not place.running()
    assert not children()


def test_orphans_are_caught_without_a_scan(place: Place, subreaper: None, hopper: str) -> None:
    """Where our turn comes too rarely for a scan to meet a link of the chain alive."""
    family = Family(None, marker="", uid=None, before=Before.now())
    assert subprocess.run([hopper], env=place.env).returncode == 0
    caught = set(family.chase())
    while family.adopted():
        caught |= family.chase().keys()
    assert caught
    assert not place.running()


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="needs a system call's number")
def test_a_program_whose_main_thread_has_ended_still_runs(place: Place) -> None:
    leave = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    script = (
        "import ctypes, threading, time\n"
        "def stay():\n"
        "    time.sleep(0.2); open('ready', 'w').close(); time.sleep(300)\n"
        "threading.Thread(target=stay).start()\n"
        f"ctypes.CDLL(None).syscall({leave}, 0)\n"
    )
    requests = Requests()
    thread = when_exists(place.path("ready"), requests.stop)
    finished = supervise(place.command(sys.executable, "-c", script), interrupts=requests, ladder=SHORT)
    thread.join()
    requests.close()
    assert finished.end is End.STOPPED
    assert finished.exit_code is not None
    assert finished.exit_code < 0


# --- requests while it runs ---------------------------------------------------------------------


def test_a_stop_request_ends_the_running_program(place: Place, requests: Requests) -> None:
    thread = when_exists(place.path("ready"), requests.stop)
    finished = supervise(place.sh(f">ready; exec sleep {LONG}"), interrupts=requests, ladder=PATIENT)
    thread.join()
    assert (finished.end, finished.signalled) == (End.STOPPED, ("INT",))
    assert finished.stdout_before_signal == 0


def test_a_second_stop_request_goes_straight_to_kill(place: Place, requests: Requests) -> None:
    script = "trap '>again' INT; trap '' TERM; >ready; while :; do sleep 0.05; done"
    threads = [
        when_exists(place.path("ready"), requests.stop),
        when_exists(place.path("again"), requests.stop),
    ]
    finished = supervise(place.sh(script), interrupts=requests, ladder=PATIENT)
    for thread in threads:
        thread.join()
    assert (finished.end, finished.signalled) == (End.STOPPED, ("INT", "KILL"))
    assert finished.exit_code == -signal.SIGKILL


def test_one_stop_request_does_not_hurry_a_ladder_begun_for_another_reason(
    place: Place, requests: Requests
) -> None:
    script = "trap '>asked; sleep 0.3; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    thread = when_exists(place.path("asked"), requests.stop)
    finished = overdue(place, place.sh(script), interrupts=requests, ladder=PATIENT)
    thread.join()
    assert (finished.end, finished.exit_code, finished.signalled) == (End.DEADLINE, 5, ("INT",))


def test_a_request_that_is_no_stop_changes_nothing(place: Place, requests: Requests) -> None:
    thread = when_exists(place.path("ready"), requests.wake, lambda: open(place.path("go"), "w").close())
    finished = supervise(
        place.sh(">ready; while [ ! -e go ]; do sleep 0.02; done; sleep 0.2; exit 4"), interrupts=requests
    )
    thread.join()
    assert (finished.end, finished.exit_code) == (End.EXITED, 4)
    assert requests.asked == 1


def test_a_closed_request_pipe_is_left_alone(place: Place, requests: Requests) -> None:
    requests.hang_up()
    finished = supervise(place.sh("sleep 0.2; exit 4"), interrupts=requests)
    assert (finished.end, finished.exit_code, requests.asked) == (End.EXITED, 4, 0)


def test_waiting_costs_no_processor_time(place: Place, requests: Requests) -> None:
    """Beside a closed request pipe, and after a first request was heard."""
    requests.wake()
    requests.hang_up()
    before = time.process_time()
    supervise(place.sh("sleep 1"), interrupts=requests)
    assert time.process_time() - before < 0.5  # a loop that does not sleep takes the whole second


# --- a complete result, and a program that does not end -----------------------------------------


def has_result(stdout: Path) -> bool:
    lines = stdout.read_text().splitlines()
    return bool(lines) and lines[-1] == "result"


def test_a_program_that_stays_after_its_result_is_settled(place: Place, subreaper: None) -> None:
    finished = supervise(
        place.sh(f"echo result; setsid sleep {LONG}; wait"), complete=has_result, ladder=SHORT
    )
    assert finished.end is End.SETTLED
    assert finished.stdout_before_signal == len("result\n")
    assert finished.signalled[0] == "INT"
    assert not place.running()


def test_a_program_that_ends_within_the_grace_has_exited(place: Place) -> None:
    finished = supervise(place.sh("echo result; sleep 0.2; exit 6"), complete=has_result, ladder=PATIENT)
    assert (finished.end, finished.exit_code) == (End.EXITED, 6)


def test_output_after_a_result_is_a_new_turn_with_a_new_grace(place: Place) -> None:
    """It prints for longer than the grace, and is never silent for so long."""
    script = "for i in 1 2 3 4; do echo result; sleep 0.3; echo working; sleep 0.3; done; echo result; exit 8"
    ladder = replace(SHORT, settle_s=1.5)
    finished = supervise(place.sh(script), complete=has_result, ladder=ladder)
    assert (finished.end, finished.exit_code) == (End.EXITED, 8)


def test_silent_work_after_a_result_is_not_cut_off(place: Place) -> None:
    """The last word was no result, so no grace is running."""
    script = "echo result; sleep 0.2; echo working; sleep 2; exit 8"
    finished = supervise(place.sh(script), complete=has_result, ladder=replace(SHORT, settle_s=1.2))
    assert (finished.end, finished.exit_code) == (End.EXITED, 8)


def test_the_output_is_only_read_when_it_grew(place: Place) -> None:
    sizes: list[int] = []

    def complete(stdout: Path) -> bool:
        sizes.append(stdout.stat().st_size)
        return False

    supervise(place.sh("echo one; sleep 0.3; echo two; sleep 0.3"), complete=complete, ladder=SHORT)
    assert sizes == [4, 8]


def test_a_broken_record_never_leaves_an_agent_running(place: Place, subreaper: None) -> None:
    def on_start(started: Started) -> None:
        eventually(lambda: len(place.running()) == 3)
        raise OSError(28, "No space left on device")

    script = f"setsid sleep {LONG} & trap '' INT TERM; sleep {LONG}; :"
    with pytest.raises(OSError, match="No space left"):
        supervise(place.sh(script), on_start=on_start, ladder=PATIENT)
    assert not place.running()
    assert not children()


def test_a_request_that_fails_never_leaves_an_agent_running(place: Place) -> None:
    class Broken(Requests):
        def stop_now(self) -> bool:
            raise RuntimeError("a bug of ours")

    broken = Broken()
    broken.stop()
    with pytest.raises(RuntimeError, match="a bug of ours"):
        supervise(place.sh(f"sleep {LONG}; :"), interrupts=broken, ladder=PATIENT)
    broken.close()
    assert not place.running()
    assert not children()


def test_a_program_we_cannot_take_charge_of_is_not_left_running(place: Place, requests: Requests) -> None:
    class Closed(Requests):
        def fileno(self) -> int:
            raise ValueError("a bug of ours")

    closed = Closed()
    with pytest.raises(ValueError, match="a bug of ours"):
        supervise(place.sh(f"sleep {LONG}; :"), interrupts=closed)
    closed.close()
    eventually(lambda: not place.running())  # killed with its group, but only the main process is waited for
    assert not children()


# --- what a program leaves behind ---------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(f"sleep {LONG} &", id="in the background"),
        pytest.param(f"sleep {LONG} >/dev/null 2>&1 &", id="with output closed"),
        pytest.param(f"(setsid sleep {LONG} &)", id="double fork, own session"),
        pytest.param(f"(trap '' TERM; sleep {LONG}; :) &", id="ignores TERM"),
        pytest.param(HIDDEN.replace("$1", "hidden.pid"), id="without its environment"),
    ],
)
def test_leftovers_of_a_normal_end_are_ended_and_named(place: Place, subreaper: None, script: str) -> None:
    finished = supervise(place.sh(f"{script}\nsleep 0.2; echo result"), ladder=SHORT)
    assert (finished.end, finished.exit_code, finished.signalled) == (End.EXITED, 0, ())
    assert finished.leftovers
    assert not finished.survivors
    assert place.out() == "result\n"
    assert not place.running()
    assert not children()


def test_leftovers_are_found_by_their_marker_where_orphans_are_not_adopted(place: Place) -> None:
    finished = supervise(place.sh(f"(setsid sleep {LONG} &)"), ladder=SHORT)
    assert len(finished.leftovers) == 1
    assert not place.running()


def test_a_leftover_that_holds_stdout_does_not_hold_us(place: Place, subreaper: None) -> None:
    finished = supervise(place.sh("echo result; while :; do echo more; sleep 0.05; done & exit 0"))
    assert finished.end is End.EXITED
    assert place.out().startswith("result\n")
    assert not place.running()


def test_a_child_started_by_other_code_is_neither_ended_nor_reaped(place: Place, subreaper: None) -> None:
    ours = subprocess.Popen(
        ["/bin/sh", "-c", f"sleep {LONG} & wait; exit 8"], env=place.env, start_new_session=True
    )
    ended = subprocess.Popen(["/bin/sh", "-c", "exit 9"], env=place.env)
    eventually(lambda: not alive(ended.pid) and len(place.running()) == 2)
    script = f"trap '' INT TERM; (setsid sleep {LONG} &); echo ready; sleep {LONG}; :"
    finished = overdue(place, place.sh(script), ladder=SHORT)
    assert finished.signalled == ("INT", "TERM", "KILL")
    assert len(place.running()) == 2
    for pid in place.running():
        if pid != ours.pid:
            os.kill(pid, signal.SIGKILL)
    assert (ours.wait(), ended.wait()) == (8, 9)


def test_a_long_poke_collects_no_zombies(place: Place, subreaper: None, requests: Requests) -> None:
    counted: list[int] = []

    def complete(stdout: Path) -> bool:
        eventually(lambda: not any(alive(pid) for pid in children() - {started[0].pid}))
        counted.append(len(children()))
        return False

    started: list[Started] = []
    script = "for i in 1 2 3; do (setsid true &); done; sleep 0.2; echo 1; sleep 0.2; echo 2; sleep 0.2"
    supervise(place.sh(script), complete=complete, on_start=started.append, ladder=SHORT)
    assert counted[-1] == 1
    assert not children()


def test_exit_codes_survive_a_parent_that_ignored_child_signals(place: Place) -> None:
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from pathlib import Path\n"
        "from watcher.process import run_tool\n"
        "print(run_tool(['/bin/sh', '-c', 'exit 7'], cwd=Path('/'), env={}, timeout_s=60).exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("7\n", "")


@pytest.fixture(params=["missing", "forbidden"])
def no_pidfd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(pid: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    if request.param == "missing":
        monkeypatch.delattr(os, "pidfd_open")
    else:
        monkeypatch.setattr(os, "pidfd_open", forbidden)


@pytest.mark.usefixtures("no_pidfd", "subreaper")
def test_without_pidfds_everything_still_works(place: Place, requests: Requests) -> None:
    assert supervise(place.sh("sleep 0.1; exit 7")).exit_code == 7
    script = f"trap '' INT; (setsid sleep {LONG} &); echo ready; sleep {LONG}; :"
    finished = overdue(place, place.sh(script), ladder=OBEDIENT)
    assert (finished.end, finished.signalled) == (End.DEADLINE, ("INT", "TERM"))
    thread = when_exists(place.path("ready"), requests.stop)
    assert supervise(place.sh(f">ready; exec sleep {LONG}"), interrupts=requests).end is End.STOPPED
    thread.join()
    assert run(place, "/bin/sh", "-c", "sleep 0.1; echo out").stdout == b"out\n"
    assert not children()


# --- another user -------------------------------------------------------------------------------


def nobody() -> Account:
    return Account.of("nobody")


class TestAsAnotherUser:
    pytestmark = as_root

    def test_the_child_has_that_users_ids_groups_and_umask(self, place: Place) -> None:
        account = replace(nobody(), groups=(nobody().gid, 12345))
        supervise(place.sh("id -u; id -g; id -G; umask", cwd=Path("/"), account=account, umask=0o077))
        uid, gid, groups, umask = place.out().splitlines()
        assert (int(uid), int(gid), umask) == (account.uid, account.gid, "0077")
        assert set(map(int, groups.split())) == set(account.groups)

    def test_it_reads_and_writes_files_it_could_not_open(self, place: Place) -> None:
        place.folder.chmod(0o700)
        (place.folder / "prompt").write_text("secret prompt")
        (place.folder / "prompt").chmod(0o600)
        command = place.sh(
            "cat; cat prompt", cwd=place.folder, account=nobody(), stdin=place.folder / "prompt"
        )
        assert supervise(command).exit_code == 1
        assert place.out() == "secret prompt"
        assert "denied" in (place.folder / "err").read_text()

    def test_its_tools_are_ended_too(self, place: Place, subreaper: None) -> None:
        script = f"trap '' INT TERM; (setsid sleep {LONG} &); echo ready; sleep {LONG}; :"
        finished = overdue(place, place.sh(script, cwd=Path("/"), account=nobody()), ladder=SHORT)
        assert finished.signalled == ("INT", "TERM", "KILL")
        assert len(finished.leftovers) >= 2
        assert not place.running()

    def test_its_leftovers_are_found_by_their_marker(self, place: Place) -> None:
        finished = supervise(
            place.sh(f"(setsid sleep {LONG} &)", cwd=Path("/"), account=nobody()), ladder=SHORT
        )
        assert len(finished.leftovers) == 1
        assert not place.running()

    def test_a_program_out_of_its_reach_is_named_with_the_user(self, place: Place) -> None:
        place.folder.chmod(0o700)
        make_unstartable(place)
        finished = supervise(place.command(place.path("plain"), cwd=Path("/"), account=nobody()))
        assert finished.end is End.NOT_STARTED
        assert "as user nobody: it is not executable, or not within reach" in finished.error

    def test_a_tool_runs_as_that_user(self, place: Place) -> None:
        tool = run_tool(["id", "-u"], cwd=Path("/"), env=place.env, account=nobody(), timeout_s=60)
        assert tool.stdout.decode().strip() == str(nobody().uid)

    def test_only_root_can_change_user(self, place: Place) -> None:
        done = as_nobody(
            "import sys\n"
            "from pathlib import Path\n"
            "from watcher.process import *\n"
            "try: run_tool(['/bin/true'], cwd=Path('/'), env={}, account=Account.of('root'), timeout_s=60)\n"
            "except ProcessError as error: print(error)\n"
        )
        assert "as user root: only root may start programs as another user" in done.stdout, done.stderr

    def test_what_cannot_be_ended_is_an_error(self, place: Place) -> None:
        """A process of root, asked for by another user."""
        child = subprocess.Popen(["/bin/sleep", LONG], env=place.env)
        ticks = ticks_of(child.pid)
        done = as_nobody(
            "from watcher.process import *\n"
            f"started = Started(pid={child.pid}, started_at_ticks={ticks}, boot_id=boot_id())\n"
            "try: end_orphans('none', started, ladder=Ladder(int_s=.1, term_s=.1, kill_s=.1))\n"
            "except ProcessError as error: print(error)\n"
        )
        assert alive(child.pid)
        child.kill()
        child.wait()
        assert f"cannot be ended: sleep({child.pid})" in done.stdout, done.stderr

    @pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
    def test_as_pid_1_of_a_container_strangers_orphans_are_spared(self, place: Place) -> None:
        """A stranger is a process whose parent, no child of the poke, ends while the poke runs."""
        script = (
            "import os, subprocess, sys, time\n"
            "from pathlib import Path\n"
            "from watcher.process import *\n"
            "from watcher.process import proc\n"
            "assert os.getpid() == 1\n"
            "subprocess.Popen(['/bin/sh', '-c', 'sleep 0.2; sleep 300 & echo $! > stranger'])\n"
            "here = Path.cwd()\n"
            "poke = Command(argv=('/bin/sh', '-c', 'sleep 0.6; (setsid sleep 300 &)'), cwd=here,\n"
            "    env={'PATH': os.environ['PATH']}, stdin=None, stdout=here / 'out', stderr=here / 'err',\n"
            "    marker='in-a-container')\n"
            "finished = supervise(poke, ladder=Ladder(leftover_s=.3))\n"
            "seen = proc.look(int((here / 'stranger').read_text()))\n"
            "print(len(finished.leftovers), seen.name, seen.parent, seen.alive)\n"
        )
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", script],
            cwd=place.folder,
            env={**place.env, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        if "Operation not permitted" in done.stderr:
            pytest.skip("no namespaces here")
        assert done.stdout == "1 sleep 1 True\n", done.stderr


def as_nobody(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of ours as another user, in a process that has loaded it before it changed."""
    change = (
        "import os; import watcher.process; os.setgroups([])\n"
        f"os.setgid({nobody().gid}); os.setuid({nobody().uid})\n"
    )
    return subprocess.run(
        [sys.executable, "-c", change + script], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def ticks_of(pid: int) -> int:
    seen = proc_module.look(pid)
    assert seen is not None
    return seen.identity.ticks


# --- after a crash of ours ----------------------------------------------------------------------

SUPERVISOR = """
import sys
from pathlib import Path
from watcher.process import *
folder, tag, script = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if sys.argv[4] == 'adopting':
    become_subreaper()
def note(started):
    text = f'{started.pid} {started.started_at_ticks} {started.boot_id}'
    (folder / 'started.tmp').write_text(text)
    (folder / 'started.tmp').rename(folder / 'started')
supervise(Command(argv=('/bin/sh', '-c', script), cwd=folder, env={'PATH': '/usr/bin:/bin', 'TEST_TAG': tag},
    stdin=None, stdout=folder / 'out', stderr=folder / 'err', marker=tag), on_start=note)
"""


def crash(place: Place, script: str, count: int, *, mode: str = "adopting") -> Started:
    """Run a poke in a supervisor of its own and kill that: the poke goes on without one."""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(place.folder), place.tag, script, mode], cwd=ROOT
    )
    eventually(lambda: (place.folder / "started").exists() and len(place.running()) >= count)
    supervisor.kill()
    supervisor.wait()
    pid, ticks, boot = (place.folder / "started").read_text().split()
    assert len(place.running()) >= count
    return Started(pid=int(pid), started_at_ticks=int(ticks), boot_id=boot)


@pytest.mark.parametrize("mode", ["adopting", "plain"])
@pytest.mark.parametrize(
    ("script", "count"),
    [
        pytest.param(f"exec sleep {LONG}", 1, id="one process"),
        pytest.param(f"(setsid sleep {LONG} &); sleep {LONG}; :", 3, id="with a tool in its own session"),
        pytest.param(f"trap '' INT TERM; setsid sleep {LONG} & sleep {LONG}; :", 3, id="deaf"),
    ],
)
def test_after_a_crash_of_ours_the_orphans_are_ended(
    place: Place, script: str, count: int, mode: str
) -> None:
    started = crash(place, script, count, mode=mode)
    ended = end_orphans(place.tag, started, ladder=SHORT)
    assert f"({started.pid})" in ended[0]
    assert len(ended) >= count
    assert not place.running()
    assert end_orphans(place.tag, started, ladder=SHORT) == ()


def test_orphans_are_found_by_their_marker_where_no_start_was_recorded(place: Place) -> None:
    crash(place, f"(setsid sleep {LONG} &); sleep {LONG}; :", 3)
    assert len(end_orphans(place.tag, None, ladder=SHORT)) == 3
    assert not place.running()


@pytest.mark.parametrize("recorded", [True, False], ids=["start recorded", "marker only"])
def test_orphans_without_their_environment_are_found_by_descent(place: Place, recorded: bool) -> None:
    """The parent ends at the first signal; what it had started is remembered."""
    script = "env -i /bin/sh -c 'trap \"\" INT TERM; echo $$ >bare.pid; sleep 300; :' & sleep 300; :"
    started = crash(place, script, 3)
    place.pid_in("bare.pid")
    ended = end_orphans(place.tag, started if recorded else None, ladder=SHORT)
    assert len(ended) == 4
    assert not place.running()


def test_a_signal_never_reaches_a_process_that_inherited_a_pid(place: Place) -> None:
    child = subprocess.Popen(["/bin/sleep", LONG], env=place.env)
    ticks = ticks_of(child.pid)
    assert not deliver(Identity(child.pid, ticks - 1), signal.SIGKILL)
    assert child.poll() is None
    assert deliver(Identity(child.pid, ticks), signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_neither_pid_1_nor_we_can_be_signalled() -> None:
    for pid in (1, os.getpid()):
        assert not deliver(Identity(pid, ticks_of(pid)), signal.SIGCONT)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"started_at_ticks": 1}, id="the pid belongs to another process now"),
        pytest.param({"boot_id": "another"}, id="the machine was rebooted"),
    ],
)
def test_a_process_that_only_has_the_recorded_pid_is_left_alone(place: Place, change: dict[str, Any]) -> None:
    stranger = subprocess.Popen(["/bin/sleep", LONG], env=place.env)
    started = Started(pid=stranger.pid, started_at_ticks=ticks_of(stranger.pid), boot_id=boot_id())
    assert end_orphans("of no process", replace(started, **change), ladder=SHORT) == ()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_we_and_our_ancestors_are_never_ended_even_with_the_marker(place: Place) -> None:
    """A harness that an agent runs inside its own poke carries that poke's marker."""
    script = f"from watcher.process import *; print(end_orphans({place.tag!r}, None))"
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -c "$1"; echo parent $?', sys.executable, script],
        cwd=ROOT,
        env={**place.env, MARKER: place.tag},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("()\nparent 0\n", "")


def test_a_marker_is_matched_whole(place: Place) -> None:
    other = subprocess.Popen(
        ["/bin/sleep", LONG], env={**place.env, MARKER: place.tag + "0", "X" + MARKER: place.tag}
    )
    eventually(lambda: place.running())
    assert end_orphans(place.tag, None, ladder=SHORT) == ()
    other.kill()
    other.wait()


# --- short helpers ------------------------------------------------------------------------------


def run(place: Place, *argv: str, timeout_s: float = 60, **rest: Any) -> process.Tool:
    return run_tool(argv, cwd=place.folder, env=place.env, timeout_s=timeout_s, **rest)


def test_a_tools_output_and_exit_code_come_back(place: Place) -> None:
    tool = run(place, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (tool.exit_code, tool.stdout, tool.stderr) == (3, b"out\n", b"err\n")
    assert not tool.timed_out
    assert not tool.truncated


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
def test_a_tool_gets_its_whole_input_while_it_prints(place: Place, size: int) -> None:
    given = os.urandom(size)
    assert run(place, "cat", input=given).stdout == given


def test_a_tool_need_not_read_its_input(place: Place) -> None:
    tool = run(place, "sh", "-c", "exec 0<&-; echo done", input=b"x" * 3_000_000)
    assert (tool.exit_code, tool.stdout) == (0, b"done\n")


def test_a_tool_without_input_reads_nothing(place: Place) -> None:
    assert run(place, "cat").stdout == b""


def test_a_tools_output_is_cut_without_blocking_it(place: Place) -> None:
    tool = run(
        place,
        "sh",
        "-c",
        "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo end",
        max_output=1000,
    )
    assert (tool.exit_code, len(tool.stdout), len(tool.stderr), tool.truncated) == (0, 1000, 1000, True)


def test_output_of_exactly_the_limit_is_whole(place: Place) -> None:
    tool = run(place, "sh", "-c", "printf 12345", max_output=5)
    assert (tool.stdout, tool.truncated) == (b"12345", False)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param(f"echo part; exec sleep {LONG}", -signal.SIGTERM, id="obedient"),
        pytest.param(f"echo part; trap '' TERM; sleep {LONG}; :", -signal.SIGKILL, id="deaf"),
        pytest.param(f"echo part; setsid sleep {LONG} & wait", -signal.SIGTERM, id="with another session"),
        pytest.param(
            f"echo part; (setsid sleep {LONG} &); sleep {LONG}; :", -signal.SIGTERM, id="with an orphan"
        ),
        pytest.param(
            f"echo part; exec >&- 2>&-; exec sleep {LONG}", -signal.SIGTERM, id="with output closed"
        ),
    ],
)
def test_a_tool_is_ended_with_all_it_started_when_its_time_is_up(
    place: Place, subreaper: None, script: str, code: int
) -> None:
    tool = run(place, "sh", "-c", script, timeout_s=1)
    assert (tool.timed_out, tool.exit_code, tool.stdout) == (True, code, b"part\n")
    assert not place.running()
    assert not children()


@pytest.mark.parametrize("orphan", ["sleep 300", "yes"])
def test_a_tool_is_over_when_its_main_process_is(place: Place, subreaper: None, orphan: str) -> None:
    tool = run(place, "sh", "-c", f"echo out; {orphan} & exit 5")
    assert (tool.exit_code, tool.timed_out, tool.stdout[:4]) == (5, False, b"out\n")
    assert not place.running()
    assert not children()


def test_a_writer_that_escaped_cannot_hold_a_tool(place: Place) -> None:
    """Not adopted and without a marker it is not found, but what it writes is not waited for."""
    tool = run(place, "sh", "-c", "(setsid sh -c 'echo $$ >writer.pid; exec yes' &); sleep 0.2; exit 5")
    assert (tool.exit_code, tool.timed_out) == (5, False)
    os.kill(place.pid_in("writer.pid"), signal.SIGKILL)
    eventually(lambda: not place.running())


def test_a_missing_tool_is_a_clear_error(place: Place) -> None:
    with pytest.raises(ProcessError, match="no program 'no-such-tool' on the PATH '/usr/bin:/bin'"):
        run(place, "no-such-tool")


# --- reading /proc ------------------------------------------------------------------------------


def test_a_processs_name_cannot_forge_its_line_or_our_log(place: Place) -> None:
    forged = place.folder / "a) Z 1 (\x1b[2J\n"
    shutil.copy("/bin/sleep", forged)
    child = subprocess.Popen([str(forged), LONG], env=place.env)
    seen = proc_module.look(child.pid)
    child.kill()
    child.wait()
    assert seen is not None
    assert (seen.parent, seen.alive) == (os.getpid(), True)
    assert seen.name == "a) Z 1 (?[2J?"


def test_children_are_found_on_a_kernel_that_does_not_list_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = proc_module._read

    def read(path: str) -> bytes:
        if path.endswith("/children"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path)

    monkeypatch.setattr(proc_module, "_read", read)
    child = subprocess.Popen(["/bin/sleep", LONG], env=place.env)
    found = children()
    child.kill()
    child.wait()
    assert found == {child.pid}
