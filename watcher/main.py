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
    _guarded(["watch", *sys.argv[1:]], name="watcher")


def _guarded(argv: list[str], name: str = "harness") -> None:
    """A bug of ours is 70, with the traceback kept in a file and not on the screen."""
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


def _let_go(*streams: TextIO) -> None:
    """Flush what can be flushed; else Python's own last flush would fail and turn our code into 120."""
    import os

    for stream in streams:
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _confess() -> int:
    import contextlib
    import os
    import tempfile
    import traceback

    text = f"{' '.join(sys.argv)}\nPython {sys.version}\n\n{traceback.format_exc()}"
    where = "nowhere, since no file could be written"
    with contextlib.suppress(OSError):
        folder = _crash_folder()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor, where = tempfile.mkstemp(prefix="crash-", suffix=".txt", dir=folder)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    message = traceback.format_exc().strip().splitlines()[-1]
    with contextlib.suppress(OSError):
        print(
            f"harness: a bug in the harness, not in your project: {message}\n"
            f"The details are in {where}; please report them. The records are as they were: the next start "
            "goes on from the last one.",
            file=sys.stderr,
        )
    return 70


def _crash_folder() -> str:
    """Beside the state, which is private; the usual places only, since nothing can be configured here."""
    import os

    if os.geteuid() == 0:
        return "/var/lib/harness/crashes"
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "harness", "crashes")
