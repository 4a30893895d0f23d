"""What a verification finds: what is wrong where, and what that means for the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing worth telling. Only a `damaged` one makes the state unsound."""

    path: Path
    problem: str
    meaning: str
    damaged: bool = True


@dataclass(slots=True)
class Looked:
    """How much was looked at, counted while it happens."""

    runs: int = 0
    pokes: int = 0  # lines of histories
    lines: int = 0  # of every other file of lines
    files: int = 0  # prompts and outputs, read whole
    bytes: int = 0  # of these
    snapshots: int = 0
    damaged: int = 0
    notes: int = 0

    def count(self, finding: Finding) -> Finding:
        if finding.damaged:
            self.damaged += 1
        else:
            self.notes += 1
        return finding


def note(path: Path, problem: str, meaning: str) -> Finding:
    """Something that lies there and harms nothing."""
    return Finding(path=path, problem=problem, meaning=meaning, damaged=False)


def damage(path: Path, problem: str, meaning: str) -> Finding:
    return Finding(path=path, problem=problem, meaning=meaning)


def numbers(first: int, last: int) -> str:
    """ "poke 4", or "pokes 4 to 7"."""
    return f"poke {first}" if first == last else f"pokes {first} to {last}"
