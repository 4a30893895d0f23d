"""Ways to disturb a running watcher: signals, terminals, a second watcher, planted files (H 7, 8, 14.2)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.reference_console import PATIENCE_S, Console, console, until
from tests.conformance.reference_drive import Scene, Seen, alive
from tests.conformance.reference_row import Facts, Form, Row

Process = subprocess.Popen[bytes]
ERR = Path("/tmp/watcher-poke-err.txt")


def working(here: Console) -> None:
    """Wait until the agent has made its commit."""
    before = here.stage.remote_tip()
    until(lambda: here.stage.calls() and here.stage.tip() != before, "the agent's commit")


def nothing_is_left(here: Console, process: Process) -> None:
    pids = [call["pid"] for call in here.stage.calls()]
    assert not [pid for pid in pids if alive(pid)]
    assert not others_in_session(process.pid)


def others_in_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if (
                os.getsid(int(entry.name)) == session
                and int(entry.name) != session
                and alive(int(entry.name))
            ):
                found.append(int(entry.name))
    return found


def signalled(send: Callable[[Process], None]) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """A signal while the agent works, a second after its commit at the most."""

    def drive(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
        here = Console(row, form, stage)
        process = here.start()
        working(here)
        send(process)
        code = process.wait(PATIENCE_S)
        nothing_is_left(here, process)
        return here.facts(code)

    return drive


def in_a_terminal(act: Callable[[int], object]) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """The watcher has a controlling terminal, and something happens to it while the agent works."""

    def drive(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
        here = Console(row, form, stage)
        master, slave = os.openpty()
        process = here.start(stdin=slave, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        working(here)
        act(master)
        code = process.wait(PATIENCE_S)
        with contextlib.suppress(OSError):
            os.close(master)
        nothing_is_left(here, process)
        return here.facts(code)

    return drive


def killed_and_started_again(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
    """KILL leaves the agent working alone; the next start ends it first and takes its work up."""
    here = Console(row, form, stage)
    process = here.start()
    working(here)
    process.kill()
    process.wait(PATIENCE_S)
    (orphan,) = [call["pid"] for call in stage.calls()]
    assert alive(orphan)
    code = here.start().wait(PATIENCE_S)
    assert not alive(orphan)
    return here.facts(code)


def in_a_wait(number: int) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """A signal during the wait for a reset, in which no other process is needed."""

    def drive(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
        here = Console(row, form, stage)
        process = here.start()
        until(lambda: here.decided() and "waiting" in here.stderr(), "the wait")
        assert not others_in_session(process.pid)
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
        nothing_is_left(here, process)
        return here.facts(code)

    return drive


def two_at_once(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
    """The second is refused, with the number of the first."""
    here = Console(row, form, stage)
    first = here.start()
    working(here)
    second = here.start()
    assert second.wait(PATIENCE_S) == 75
    assert str(first.pid) in here.stderr()
    return here.facts(first.wait(PATIENCE_S))


def without_a_reader(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
    """Whoever read the log goes away during the first poke."""
    here = Console(row, form, stage)
    process = here.start(err=subprocess.PIPE)
    working(here)
    assert process.stderr is not None
    process.stderr.close()
    return here.facts(process.wait(PATIENCE_S))


def into_tee(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
    """The shell reports tee's own 0; the real code is on record."""
    here = Console(row, form, stage)
    pipeline = here.start(before=("sh", "-c", '"$@" 2>&1 | tee harness-run.log', "sh"))
    assert pipeline.wait(PATIENCE_S) == 0
    (ending,) = stage.state.glob("*/runs/*/ending.json")
    assert (stage.root / "harness-run.log").stat().st_size
    return here.facts(json.loads(ending.read_text())["exit_code"])


def planted(*names: str) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """Links at the reference's own names in /tmp, $$ the watcher's pid, to a file that must stay as it is."""

    def drive(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
        here = Console(row, form, stage)
        victim = stage.root / "victim"
        victim.write_text("SECRET\n")
        links = " ".join(f'"/tmp/{name}"' for name in names)
        script = f'for link in {links}; do ln -s "{victim}" "$link" || exit 99; done; exec "$@"'
        process = here.start(before=("sh", "-c", script, "sh"))
        try:
            code = process.wait(PATIENCE_S)
        finally:
            for name in names:
                Path("/tmp", name.replace("$$", str(process.pid))).unlink(missing_ok=True)
        assert victim.read_text() == "SECRET\n"
        assert "SECRET" not in here.stderr()
        return here.facts(code)

    return drive


def with_err(make: Callable[[Path], None]) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """Something stands at the reference's one fixed name, and is neither used nor in the way."""

    def drive(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
        with taken(make) as before:
            facts, seen = console("{project}")(row, form, stage)
            assert identity(ERR) == before
        return facts, seen

    return drive


@contextlib.contextmanager
def taken(make: Callable[[Path], None]) -> Iterator[tuple[int, ...]]:
    if ERR.exists() or ERR.is_symlink():
        pytest.skip(f"{ERR} is somebody else's")
    make(ERR)
    try:
        yield identity(ERR)
    finally:
        ERR.unlink()


def identity(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


def somebody_elses(path: Path) -> None:
    path.write_text("left by another run\n")
    path.chmod(0)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)


def twice(process: Process) -> None:
    process.send_signal(signal.SIGINT)
    until(lambda: not (alive(process.pid) and pending(process.pid)), "the first INT")
    process.send_signal(signal.SIGINT)


def pending(pid: int) -> bool:
    """Whether a signal is still on its way; two of one kind would become one."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [line.split()[1] for line in status.splitlines() if line.startswith(("ShdPnd", "SigPnd"))]
    return any(int(mask, 16) for mask in masks)
