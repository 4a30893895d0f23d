"""The tape: which act comes next, what was asked, and the words in braces."""

from __future__ import annotations

import os
import time

from watcher.scripted_agent.plain_json import encoded, loads

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing (9 ms)
if TYPE_CHECKING:
    from typing import Any

    Act = dict[str, Any]

_STEPS = """
ignore sleep stderr before write append delete task_done git commit paths empty_commit amend orphan denials
events rate_limit flood hang_before crash no_result repeat_result after hang exit say subtype is_error turns
usage cost cost_per_process result flood_result session new_session forget_session stdout bom crlf array cut
on_int
"""
STEPS = frozenset(_STEPS.split())
SHOWN = (  # values of the environment that hold no secret and say how the supervisor called
    "HOME",
    "LANG",
    "PATH",
    "TMPDIR",
    "TZ",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_MAX_RETRIES",
)


class TapeError(Exception):
    """The tape, its directory or an act is at fault: exit 3."""


class Tape:
    """A tape file and what is kept beside it. Acts are handed out in order, also to starts at one time."""

    def __init__(self, path: str) -> None:
        self.path = path

    def take(self) -> tuple[int, Act]:
        """The number of this act, counted from 1, and the act; moves the position on."""
        import fcntl

        try:
            with open(self.path, encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                acts = _acts(loads(file.read()))
                played = self._played()
                self._move_to(played + 1)
        except (OSError, ValueError) as error:
            raise TapeError(f"tape {self.path}: {error}") from None
        return played + 1, acts[min(played, len(acts) - 1)]

    def _played(self) -> int:
        try:
            with open(self.path + ".at", encoding="utf-8") as file:
                return int(file.read())
        except FileNotFoundError:
            return 0

    def _move_to(self, played: int) -> None:
        temporary = f"{self.path}.at.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(str(played))
        os.replace(temporary, self.path + ".at")

    def note(self, suffix: str, line: bytes) -> None:
        """Append one line to a file beside the tape, in one write."""
        try:
            fd = os.open(self.path + suffix, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.write(fd, line + b"\n")
            os.close(fd)
        except OSError as error:
            raise TapeError(f"cannot write beside the tape: {error}") from None


def _acts(document: Any) -> list[Act]:
    acts = document.get("pokes") if isinstance(document, dict) else None
    if not isinstance(acts, list) or not acts or not all(isinstance(act, dict) for act in acts):
        raise ValueError('not of the form {"pokes": [{...}, ...]}')
    for act in acts:
        if unknown := set(act) - STEPS:
            raise ValueError(f"unknown steps: {', '.join(sorted(unknown))}")
    return acts


def log_line(argv: list[str], **facts: object) -> bytes:
    """What the log keeps of an invocation. Values of the environment stay out, but for a few."""
    return encoded(
        {
            **facts,
            "time": time.time(),
            "argv": argv,
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "pgid": os.getpgrp(),
            "sid": os.getsid(0),
            "uid": os.getuid(),
            "gid": os.getgid(),
            "groups": os.getgroups(),
            "cwd": os.getcwd(),
            "env": {name: os.environ[name] for name in SHOWN if name in os.environ},
            "env_names": _given_names(),
        }
    )


def _given_names() -> list[str]:
    """The names of the environment as it was given: Python may have added LC_CTYPE to its own."""
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    return sorted(entry.partition(b"=")[0].decode("utf-8", "replace") for entry in entries if entry)


def prompt_facts(prompt: bytes) -> dict[str, str]:
    """The start of the prompt and the digest of all of it."""
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # hashlib loads OpenSSL: 2 ms
    except ImportError:  # Python 3.12 calls it otherwise
        from hashlib import sha256
    return {
        "prompt": prompt.decode("utf-8", "replace")[:200],
        "prompt_sha256": sha256(prompt).hexdigest(),
    }


def filled(value: Any, words: dict[str, str], now: float) -> Any:
    """The value with every {word} in its texts replaced; other braces stay as they are."""
    if isinstance(value, str):
        return _fill_text(value, words, now) if "{" in value else value
    if isinstance(value, dict):
        return {_fill_key(key, words, now): filled(item, words, now) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, words, now) for item in value]
    return value


def _fill_key(key: str, words: dict[str, str], now: float) -> str:
    return str(_fill_text(key, words, now)) if "{" in key else key


def _fill_text(text: str, words: dict[str, str], now: float) -> str | int:
    import re  # only for tapes that use it: 5 ms

    pattern = re.compile(r"\{(now|ms|digits|iso|clock24|clock|session|poke)([+-]\d+)?\}")
    whole = pattern.fullmatch(text)
    if whole and whole[1] in ("now", "ms"):
        return int(_word(whole[1], whole[2], words, now))
    return pattern.sub(lambda match: _word(match[1], match[2], words, now), text)


def _word(name: str, offset: str | None, words: dict[str, str], now: float) -> str:
    instant = int(now) + int(offset or 0)
    match name:
        case "now" | "digits":
            return str(instant)
        case "ms":
            return str(instant * 1000)
        case "iso":
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(instant))
        case "clock24":
            return time.strftime("%H:%M", time.localtime(instant))
        case "clock":
            return time.strftime("%-I:%M%p", time.localtime(instant)).lower()
        case _:
            return words[name]
