"""What a looking command prints, and how it ends: a closed pipe, Ctrl-C, a record that cannot be read."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from watcher.decision.endings import Exit


class CannotLook(Exception):
    """There is nothing to see here, or not for this user; the message says why and what to do."""

    def __init__(self, message: str, exit_code: int = Exit.CONFIG) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class OutputLost(Exception):
    """The output takes nothing more: its disk is full, for one."""


@dataclass(slots=True)
class Told:
    """How the command ends."""

    exit_code: int = 0


@contextlib.contextmanager
def looking() -> Iterator[Told]:
    """Turn every way a looking command can fail into one sentence and an exit code.

    A reader that closed its end of the pipe has seen what it wanted: that is no failure.
    """
    from watcher.config import ConfigError
    from watcher.record.checkpoint import CheckpointDamaged
    from watcher.record.error import RecordError
    from watcher.record.home import HomeRefused

    told = Told()
    try:
        yield told
        flush()
    except BrokenPipeError:
        _hush()
    except KeyboardInterrupt:
        _hush()
        told.exit_code = Exit.INTERRUPT
    except ConfigError as error:
        told.exit_code = complain(error, Exit.USAGE if error.usage else Exit.CONFIG)
    except CannotLook as error:
        told.exit_code = complain(error, error.exit_code)
    except (CheckpointDamaged, HomeRefused, RecordError, OutputLost) as error:
        told.exit_code = complain(error, Exit.CONFIG)


def say(text: str) -> None:
    """One line, or several, on stdout. Raises BrokenPipeError, OutputLost."""
    try:
        print(text)
    except UnicodeEncodeError:  # a terminal that knows few letters
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _lost(error) from error


def flush() -> None:
    """Let a reader at the other end of a pipe see what was said so far. Raises as `say`."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _lost(error) from error


def complain(error: object, exit_code: int = 0) -> int:
    """A sentence on stderr, after all that was said; the exit code that goes with it."""
    try:
        flush()
    except (OSError, OutputLost):
        _hush()
    with contextlib.suppress(OSError):
        print(f"harness: {error}", file=sys.stderr)
    return exit_code


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere and nothing is cut."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if on_terminal() else None
    except (OSError, ValueError):
        return None


def rest(seconds: float) -> None:
    """Do nothing for a moment. Raises BrokenPipeError as soon as the reader of our output is gone."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        time.sleep(seconds)
        return
    poller = select.poll()
    poller.register(descriptor, 0)  # errors and hang-ups only
    if poller.poll(seconds * 1000):
        raise BrokenPipeError


def _lost(error: OSError) -> OutputLost:
    _hush()
    return OutputLost(f"the output cannot be written: {error.strerror}")


def _hush() -> None:
    """Send what is still in the buffer nowhere, or the interpreter complains of it while it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
