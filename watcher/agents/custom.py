"""Any other agent program, by a template of its arguments (H 12.2; DESIGN 10).

The words of `agent.command` may hold {prompt}, {session} and {max_turns}; a word that is exactly
{session_args} stands for `agent.resume_args` when a session is resumed, for `agent.fresh_args` when one
is begun under a chosen id, and for nothing otherwise. A command without any of them is called the way
the reference calls its own: -p PROMPT --resume ID --max-turns N. Without {prompt} the prompt is on
standard input only. The answer is read as the reference reads it: subtype, is_error, result, session_id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watcher.agents.profile import Ask
from watcher.response import Response, has_result, read_response

REFERENCE = (
    *("-p", "{prompt}"),
    "{session_args}",
    *("--max-turns", "{max_turns}"),
    *("--permission-mode", "acceptEdits"),
    *("--output-format", "json"),
)
PLACES = ("{prompt}", "{session}", "{max_turns}", "{session_args}")
ARGUMENT_LIMIT = 128 * 1024 - 1  # bytes of one argument; the kernel refuses more (MAX_ARG_STRLEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """A profile made of the configuration."""

    resume_args: tuple[str, ...] = ("--resume", "{session}")
    fresh_args: tuple[str, ...] = ()
    name: str = "custom"
    native_budget: bool = False

    @property
    def chooses_session_id(self) -> bool:
        return bool(self.fresh_args)

    def argv(self, command: Sequence[str], ask: Ask) -> list[str]:
        """Fill the template; ValueError when the prompt does not fit into one argument."""
        words = list(command)
        if not any(place in word for word in words[1:] for place in PLACES):
            words += REFERENCE
        if any("{prompt}" in word for word in words) and len(ask.prompt.encode()) > ARGUMENT_LIMIT:
            raise ValueError(
                f"the standing command has {len(ask.prompt.encode())} bytes, and one argument holds "
                f"{ARGUMENT_LIMIT}; shorten it, or let the program read its standard input"
            )
        filled: list[str] = [words[0]]
        for word in words[1:]:
            parts = self._session_args(ask) if word == "{session_args}" else (word,)
            filled += (_fill(part, ask) for part in parts)
        return [*filled, *ask.extra_args]

    def _session_args(self, ask: Ask) -> tuple[str, ...]:
        if ask.session_id is None:
            return ()
        return self.resume_args if ask.resume else self.fresh_args

    def env(self) -> dict[str, str]:
        return {}

    def read(self, stdout: Path, *, limit: int | None, stderr: str) -> Response:
        """Read the reference's fields; stderr only speaks where stdout holds no verdict."""
        del stderr
        return read_response(stdout, limit=limit)

    def is_complete(self, stdout: Path) -> bool:
        return has_result(stdout)

    def cost_is_cumulative(self, version: str) -> bool | None:
        """Nobody knows; the larger reading is booked."""
        del version
        return None


def _fill(word: str, ask: Ask) -> str:
    """One pass over the word, so that a prompt that holds a placeholder is passed on as it is."""
    values = {"{prompt}": ask.prompt, "{session}": ask.session_id or "", "{max_turns}": str(ask.max_turns)}
    out, rest = [], word
    while rest:
        at, place = min(((rest.find(p), p) for p in values if p in rest), default=(-1, ""))
        if at < 0:
            break
        out += [rest[:at], values[place]]
        rest = rest[at + len(place) :]
    return "".join((*out, rest))
