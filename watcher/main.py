"""The console script: nothing but the outermost net (DESIGN 1).

Python's own crash code is 1, which would read as "unusable agent", so even the imports are wrapped.
"""

from __future__ import annotations

import sys
from typing import TextIO


def main() -> None:
    """`harness COMMAND ...`: run the command line and exit with its code."""
    _guarded(sys.argv[1:])


def watcher() -> None:
    """`watcher PROJECT [MAX_TURNS]`: the reference's calling convention."""
    _guarded(sys.argv[1:], name="watcher")


def _guarded(argv: list[str], name: str = "harness") -> None:
    """A bug of ours is 70, with the traceback kept in a file and not on the screen."""
    _keep_three_descriptors()
    try:
        from watcher.cli import run

        code = run(argv, name)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 70
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        code = _confess()
    _let_go(sys.stdout, sys.stderr)
    sys.exit(code)


def _keep_three_descriptors() -> None:
    """Stand in for a closed one: a record opened as descriptor 2 would get every message written into it."""
    import os

    for number, mode in ((0, "r"), (1, "w"), (2, "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)


def _let_go(*streams: TextIO) -> None:
    """Flush what can be flushed; else Python's own last flush would fail and turn our code into 120."""
    import os

    for stream in streams:
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _confess() -> int:
    """Keep the traceback and say where; whatever fails meanwhile, a bug stays 70."""
    import contextlib

    with contextlib.suppress(Exception):
        _keep_traceback()
    return 70


def _keep_traceback() -> None:
    import contextlib
    import os
    import tempfile
    import traceback

    text = f"{' '.join(sys.argv)}\nPython {sys.version}\n\n{traceback.format_exc()}"
    where = "nowhere, since no file could be written"
    with contextlib.suppress(OSError):
        folder = _crash_folder()
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)  # the state root, were it the first
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor, where = tempfile.mkstemp(prefix="crash-", suffix=".txt", dir=folder)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    message = traceback.format_exc().strip().splitlines()[-1]
    with contextlib.suppress(OSError):
        print(
            f"harness: a bug in the harness, not in your project: {message}\n"
            f"The details are in {where}; please report them. The records are as they were: the next start "
            "goes on from the last one.",
            file=sys.stderr,
        )


def _crash_folder() -> str:
    """Beside the state, which is private; the usual places only, since nothing can be configured here."""
    import os

    if os.geteuid() == 0:
        return "/var/lib/harness/crashes"
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative one is to be ignored
        base = os.path.expanduser("~/.local/state")
    return os.path.join(base, "harness", "crashes")
