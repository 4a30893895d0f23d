"""An agent that tries to get at what it must not, and writes down how far it got.

Run as a program, with the names of two files in its environment: PROBE holds the attempts as JSON,
[name, verb, argument, ...] each, and PROBE_OUT takes the answers by name: "done", or the error's name.
It answers like an agent that is done, so that one poke is the whole run.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, MNT_DETACH = 0x4206, 2


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def contents(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str) -> None:
    """Opened for writing, made where it is missing; what is there is left as it is."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def open_for_writing(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def overwrite(path: str) -> None:
    with open(path, "r+b") as file:
        file.write(b"planted")


def replace(path: str) -> None:
    """Another directory of that name, with a file of ours in it."""
    os.rename(path, path + ".moved")
    os.makedirs(path)


def remove(path: str) -> None:
    os.unlink(path)


def signal(pid: str) -> None:
    os.kill(int(pid), 0)


def lock(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def trace(pid: str) -> None:
    _call(LIBC.ptrace(PTRACE_SEIZE, int(pid), None, None))


def unmount(path: str) -> None:
    _call(LIBC.umount2(path.encode(), MNT_DETACH))


def connect(host: str, port: str) -> None:
    socket.create_connection((host, int(port)), timeout=5).close()


def call(path: str) -> None:
    """A service of this machine, by its socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def run(*argv: str) -> Any:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return [done.returncode, done.stdout + done.stderr]


def facts() -> Any:
    umask = os.umask(0)
    os.umask(umask)
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": sorted(os.getgroups()),
        "umask": umask,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "fds": sorted(int(name) for name in os.listdir("/proc/self/fd") if int(name) < 1000),
        "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "status": open("/proc/self/status").read(),
        "leads": os.getsid(0) == os.getpid(),
    }


def _call(result: int) -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def attempt(verb: str, *arguments: str) -> Any:
    try:
        said = globals()[verb](*arguments)
    except TimeoutError:
        return "ETIMEDOUT"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    return "done" if said is None else said


def main() -> None:
    with open(os.environ["PROBE"]) as file:
        tries = json.load(file)
    answers = {name: attempt(verb, *arguments) for name, verb, *arguments in tries}
    with open(os.environ["PROBE_OUT"], "w") as file:
        json.dump(answers, file)
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "ALL-TASKS-DONE"}
    sys.stdout.write(json.dumps({**result, "session_id": "probe"}) + "\n")


if __name__ == "__main__":
    main()
