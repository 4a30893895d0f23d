"""What the supervisor must know of an agent program: one profile a program (DESIGN 10).

A profile builds the argument list, names the environment switches, reads the output and answers
the few facts that differ between programs. It starts nothing and decides nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from watcher.response import Response

_MODULES = {"claude": "watcher.agents.claude"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One poke as the profile sees it."""

    session_id: str | None  # None: the program chooses
    resume: bool  # go on with `session_id`; False: begin a conversation under it
    max_turns: int
    output: str  # "stream-json" | "json"
    model: str = ""  # "": the program's own default
    budget_usd: float | None = None  # the program's own ceiling for this one process
    allow: tuple[str, ...] = ()  # permission rules in the program's words, on top of the standing ones
    deny: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()  # command lines the agent may run to check its work
    instruction_file: Path | None = None  # readable by the agent's user
    schema: str | None = None  # a JSON schema the answer must fit
    extra_args: tuple[str, ...] = ()  # from the configuration
    permission_mode: str = "acceptEdits"
    prompt: str = ""  # only for programs that take it as an argument; every program gets it on stdin


class Profile(Protocol):
    """An agent program, as far as the supervisor needs to know it."""

    @property
    def name(self) -> str:
        """The word in the configuration."""

    @property
    def chooses_session_id(self) -> bool:
        """Whether a session can be given an id before it begins, so that a killed poke can be resumed."""

    @property
    def native_budget(self) -> bool:
        """Whether the program itself stops at `Ask.budget_usd`."""

    def argv(self, command: Sequence[str], ask: Ask) -> list[str]:
        """Build the whole argument list; ValueError names what in `ask` the program cannot take."""

    def env(self) -> dict[str, str]:
        """Give the switches the supervisor needs; the configuration's own variables go on top."""

    def read(self, stdout: Path, *, limit: int | None, stderr: str) -> Response:
        """Understand the first `limit` bytes of a poke's output (None: all); never raises on content."""

    def is_complete(self, stdout: Path) -> bool:
        """Whether the program has already said its last word, though it may still be running."""

    def cost_is_cumulative(self, version: str) -> bool | None:
        """Whether a resumed session's reported cost includes its earlier pokes; None: not known."""


def profile(name: str) -> Profile:
    """Find a profile by its name, importing only that one; KeyError lists the known names."""
    if name not in _MODULES:
        raise KeyError(f"no agent profile {name!r}; known: {', '.join(sorted(_MODULES))}")
    return cast(Profile, importlib.import_module(_MODULES[name]).PROFILE)
