"""One place where the refusals a user can meet become a message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from watcher.decision.endings import Exit
from watcher.log import printable


@dataclass(slots=True)
class Refusal:
    exit_code: int = 0


@contextmanager
def refusals() -> Iterator[Refusal]:
    """Print a known refusal as one message and leave its exit code; anything else passes through."""
    from watcher.config import ConfigError
    from watcher.prepare import Refused
    from watcher.record.checkpoint import CheckpointDamaged
    from watcher.record.files import RecordError
    from watcher.record.home import HomeRefused
    from watcher.record.lock import Held

    refusal = Refusal()
    try:
        yield refusal
    except ConfigError as error:
        refusal.exit_code = Exit.USAGE if error.usage else Exit.CONFIG
        say(error)
    except Refused as error:
        refusal.exit_code = error.exit_code
        say(error)
    except Held as error:
        refusal.exit_code = Exit.HELD
        say(error)
    except (CheckpointDamaged, HomeRefused, RecordError) as error:
        refusal.exit_code = Exit.CONFIG
        say(error)


def say(error: object) -> None:
    """One sentence on stderr, on one line whatever letters a path holds; nobody need be there to read it."""
    with suppress(OSError):
        print(f"harness: {printable(str(error))}", file=sys.stderr, flush=True)


def here() -> Path:
    """The current directory, which relative paths begin at. Raises ClickException where it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise click.ClickException(
            "The current directory is gone, so no relative path can be found. Go to one that is there (cd)."
        ) from error
