"""Become another user, and then another program: for what git starts by itself (DESIGN 7.3).

Never imported: `effect/remote.py` makes it the far end of a remote that is another user's directory
on this machine. The environment is built from nothing.

    as_user.py UID GID GROUPS HOME NAME PATH PROGRAM [ARGUMENT]...     (GROUPS as "4,24", or "")
"""

from __future__ import annotations

import os
import sys


def main(uid: str, gid: str, groups: str, home: str, name: str, path: str, *program: str) -> None:
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setresgid(int(gid), int(gid), int(gid))
    os.setresuid(int(uid), int(uid), int(uid))
    os.umask(0o022)
    env = {"HOME": home, "USER": name, "LOGNAME": name, "PATH": path, "LC_ALL": "C"}
    for folder in path.split(os.pathsep):  # by hand: our own Python may be out of that user's reach by now
        try:
            os.execve(f"{folder}/{program[0]}", program, env)  # noqa: S606  # no shell is what we want
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    sys.exit(f"fatal: {name} finds no program {program[0]!r} on the PATH {path!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
