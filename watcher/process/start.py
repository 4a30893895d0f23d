"""Start one process: the only place in this program that does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from watcher.process.proc import Identity, look
from watcher.process.values import Account, ProcessError


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    account: Account | None,
    umask: int,
    stdin: int,
    stdout: int,
    stderr: int,
) -> subprocess.Popen[bytes]:
    """The running program, in a session of its own, holding these three descriptors and no other.

    No shell, nothing inherited but limits and signal mask. Whatever keeps it from starting is a
    ProcessError whose text is one sentence.
    """
    if not argv:
        raise ProcessError("no program was named")
    _keep_exit_codes()
    if account is not None:
        argv = (*account.walls, *argv)
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            close_fds=True,
            start_new_session=True,
            umask=umask,
            **_switch_to(account),
        )
    except OSError as error:
        raise ProcessError(_sentence(argv[0], cwd, env, account, error)) from error
    except (ValueError, subprocess.SubprocessError) as error:  # such as a NUL byte in an argument
        raise ProcessError(_refusal(argv[0], None, str(error))) from error


@contextmanager
def never_alone(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a child that was started when the work of taking charge of it fails."""
    try:
        yield
    except BaseException:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)  # it leads its own group, and is not yet reaped
        child.wait()
        raise


def identity_of(child: subprocess.Popen[bytes]) -> Identity:
    """Who that child is; it may have ended, but only we can reap it."""
    seen = look(child.pid)
    if seen is None:
        raise ProcessError("/proc does not show our own child: is it mounted with hidepid or ProtectProc?")
    return seen.identity


def _switch_to(account: Account | None) -> dict[str, Any]:
    """Popen's arguments for that user; none where it is us and we could not change groups anyway."""
    if account is None or (os.geteuid() != 0 and account.uid == os.geteuid()):
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}


def _keep_exit_codes() -> None:
    """Undo an inherited "ignore SIGCHLD", under which every exit code would read 0."""
    if (
        signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _sentence(
    program: str, cwd: Path, env: Mapping[str, str], account: Account | None, error: OSError
) -> str:
    """Why it did not start, in words a person can act on."""
    if not cwd.is_dir():
        return _refusal(program, None, f"its working directory {str(cwd)!r} does not exist")
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return _missing(program, cwd, env)
        case errno.EACCES:
            return _refusal(program, account, "it is not executable, or not within reach of that user")
        case errno.ENOEXEC:
            return _refusal(program, None, "it is no program of this machine and has no #! line")
        case errno.E2BIG:
            return _refusal(program, None, "its arguments and environment are too long for this system")
        case errno.EPERM if account:
            return _refusal(program, account, "only root may start programs as another user")
        case errno.EAGAIN:
            return _refusal(program, account, "that user already has as many processes as allowed")
        case _:
            return _refusal(program, account, error.strerror or str(error))


def _refusal(program: str, account: Account | None, why: str) -> str:
    user = f" as user {account.name}" if account else ""
    return f"{program!r} cannot be started{user}: {why}"


def _missing(program: str, cwd: Path, env: Mapping[str, str]) -> str:
    """A script whose interpreter is missing and a missing script give the same error number."""
    if "/" not in program:
        return f"there is no program {program!r} on the PATH {env.get('PATH', os.defpath)!r}"
    if not (cwd / program).exists():
        return f"there is no program {program!r}"
    first = b""
    with suppress(OSError), (cwd / program).open("rb") as file:
        first = file.readline(200)
    interpreter = first[2:].decode("utf-8", "replace").strip() if first.startswith(b"#!") else "the loader"
    return _refusal(program, None, f"the interpreter it asks for, {interpreter!r}, does not exist")
