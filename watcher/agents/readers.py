"""Whose output is this? One reader an agent program, found by the names people use (DESIGN 10)."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from watcher.response import Response, Verdict, read_bytes

Reader = Callable[[bytes, str], Response]

NAMES = {
    "claude-code": "claude",
    "antigravity": "gemini",
    "gemini-cli": "gemini",
    "qwen-code": "qwen",
}
OTHERS = ("codex", "gemini", "opencode", "qwen")


def reader(agent: str) -> Reader:
    """The reader of that program; the reference's fields for every name not known here."""
    name = NAMES.get(agent, agent)
    if name not in OTHERS:
        return lambda stdout, stderr: read_bytes(stdout)
    read: Reader = importlib.import_module(f"watcher.agents.{name}").read
    return read


def recognise(stdout: bytes, stderr: str) -> tuple[str, Response]:
    """The first program whose reader finds a verdict here, and what it found; "" for none.

    Two programs print results that look like Claude's at a glance, so their own marks come first.
    """
    first = ["qwen"] if b'"qwen_code_version"' in stdout else []
    plain = read_bytes(stdout)
    if plain.verdict is not Verdict.NONE and not plain.subtype and "status" in plain.document:
        first.append("gemini")
    for name in (*first, "claude", *OTHERS):
        response = reader(name)(stdout, stderr)
        if response.verdict is not Verdict.NONE or response.rate_limit is not None:
            return name, response
    return "", plain
