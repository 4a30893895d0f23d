"""A sandbox for those without a second user: bubblewrap around all that runs as the agent (DESIGN 7.1).

Inside it the project and the agent's home can be written, the rest of the machine only be read, and what
the harness keeps, what it is configured with and what logs in elsewhere is not there at all. Process
numbers are the sandbox's own, so nothing outside it can be signalled, traced or looked into.

It is a wall between programs, not between users. Its limits: the agent's home stays the agent's, so a
file it adds there may be run by its owner later; `host` as network leaves the services of this machine
within reach; /tmp is memory. As root it hides no file that is not named here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from watcher.effect.sandbox_mounts import CREATED, NoSandbox, Places, real, words
from watcher.process import Account, ProcessError, run_tool

PROGRAM = "bwrap"
PROBE_S = 20.0


def walls(program: str, places: Places) -> tuple[str, ...]:
    """The words to put in front of a program so that it runs in the sandbox. Raises NoSandbox."""
    return (
        program,
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if places.network else ("--unshare-net",)),
        *("--cap-drop", "ALL"),  # as root it would keep all, and could unmount every wall
        *words(places),
        "--",
    )


def find(path: str) -> str:
    """Where bubblewrap is. Raises NoSandbox."""
    import shutil

    if found := shutil.which(PROGRAM, path=path):
        return os.path.abspath(found)
    raise NoSandbox(
        f"the sandbox needs the program {PROGRAM} (bubblewrap), which is not on the PATH ({path}). "
        "Install it: apt-get install bubblewrap, dnf install bubblewrap."
    )


def prove(account: Account, env: Mapping[str, str], needed: str) -> None:
    """Run something harmless in it, so that a sandbox that cannot be built is refused at the start.

    `needed` is the program that must be within reach in there. Raises NoSandbox.
    """
    try:
        tool = run_tool(("test", "-x", needed), cwd=Path("/"), env=env, account=account, timeout_s=PROBE_S)
    except ProcessError as error:
        raise NoSandbox(str(error)) from error
    said = "".join(c if c.isprintable() else " " for c in tool.stderr.decode("utf-8", "replace")).strip()
    if tool.timed_out:
        raise NoSandbox(f"{PROGRAM} did not build the sandbox within {PROBE_S:g} s")
    if tool.exit_code and not said:
        raise NoSandbox(
            f"{needed} cannot be run inside the sandbox, where /tmp and /run are empty and the harness's "
            "own directories are hidden. Install it somewhere else."
        )
    if tool.exit_code:
        raise NoSandbox(
            f"{PROGRAM} cannot build the sandbox here: {said[:300]}. It needs user namespaces and a full "
            "/proc, which some kernels, containers and security modules withhold (see sysctl "
            "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)."
        )


def make_missing(places: Places) -> None:
    """Make what is covered in the home and not there yet, or the agent would be the first to make it.

    Only in a home of our own: in another user's, every name may be a link of that user's.
    """
    if places.uid != os.geteuid() or not os.path.isdir(places.home):
        return
    created = (places.home / name for name in CREATED)
    for place in (*places.hidden, *places.folders, *created):
        if not os.path.lexists(place) and real(place).is_relative_to(real(places.home)):
            os.makedirs(place, mode=0o700, exist_ok=True)
