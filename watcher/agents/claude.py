"""Claude Code in print mode: its flags, its permissions, its facts (H 6.1, DESIGN 7.4 and 10).

Every flag and every rule here was tried against the real program, version 2.1.332; the tests
marked `agent` do so again. The permissions are a fence, not a wall: a command that is allowed
can do what its author likes. What keeps the remote safe is that the agent has no key to it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from watcher.agents.profile import Ask
from watcher.response import Response, read_response

# Tools that outlive a poke, wait inside it, or take the work to where nobody looks for it. The
# program passes unknown names over, so a name of another version does no harm.
UNSUITABLE_TOOLS = (
    "ScheduleWakeup",  # holds a poke up to an hour, asleep
    "CronCreate",
    "CronDelete",
    "CronList",
    "Monitor",
    "RemoteTrigger",
    "Workflow",  # runs in the background and answers later
    "SendMessage",
    "ListAgents",
    "TaskStop",
    "EnterWorktree",  # the work would land beside the branch that is published
    "ExitWorktree",
    "AskUserQuestion",  # nobody is there
)

ALLOWED = (
    "Edit",
    "Write",
    "Bash(git add *)",  # matches the bare command too
    "Bash(git commit *)",
    "Bash(git status *)",
    "Bash(git diff *)",
    "Bash(git log *)",
    "Bash(git show *)",
)

# The program itself sees through paths, wrappers such as `env` and `timeout`, quotes, variables,
# substitutions and compound commands; options between `git` and `push`, and shells, need words of
# their own. A pattern with two stars does not match without the last part, hence the pairs.
DENIED = (
    "Bash(git push *)",
    "Bash(git -C * push)",
    "Bash(git -C * push *)",
    "Bash(git -c * push)",
    "Bash(git -c * push *)",
    "Bash(git -c alias.* *)",
    "Bash(git --* push)",
    "Bash(git --* push *)",
    "Bash(git -P push *)",
    "Bash(git -p push *)",
    "Bash(git send-pack *)",
    "Bash(git http-push *)",
    "Bash(git subtree push *)",
    "Bash(git lfs push *)",
    "Bash(git-push *)",
    "Bash(*/git-push *)",  # in git's own directory of programs
    "Bash(git remote-* *)",  # what a push over the network consists of
    "Bash(git http-* *)",
    "Bash(git svn dcommit *)",
    "Bash(git p4 submit *)",
    "Bash(git send-email *)",
    # What makes git, or a word of it, run something else later.
    "Bash(git --config-env* *)",
    "Bash(git config *alias*)",
    "Bash(git config *pushurl*)",
    "Bash(git submodule foreach *push*)",
    "Bash(git rebase *git push*)",
    "Bash(git bisect run *push*)",
    *(f"Bash({shell} * *git push*)" for shell in ("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox")),
    *(f"Bash({language}* *git push*)" for language in ("python", "perl", "ruby", "node")),
    "Bash(eval *git push*)",
    "Bash(find * git push*)",
    # The forges' own programs.
    *(f"Bash(gh {verb} *)" for verb in ("pr create", "pr merge", "release", "repo", "api")),
    *(f"Bash(glab {verb} *)" for verb in ("mr create", "mr merge", "release", "repo", "api")),
    "Bash(hub push *)",
    "Bash(hub pull-request *)",
)

# Flags this module sets itself: a second one in `agent.args` would silently lose or break the poke.
OWNED_FLAGS = frozenset(
    {
        *("-p", "--print", "-c", "--continue", "-r", "--resume", "--from-pr", "--session-id"),
        *("--fork-session", "--no-session-persistence", "--output-format", "--input-format"),
        *("--verbose", "--max-turns", "--settings", "--json-schema", "--bg", "--background"),
        *("--cloud", "--teleport", "--desktop", "-w", "--worktree", "--tmux", "--"),
    }
)

TAIL = 64 * 1024  # bytes of the output looked at first; a longer last line is fetched by doubling
LINE_MAX = 8 * 1024 * 1024  # so that memory stays bounded; a model's longest answer is half a megabyte
_RULE = re.compile(r"(?P<tool>\*|[A-Z]\w*|mcp__[\w*-]+)(?:\((?P<what>.+)\))?", re.ASCII)
_SHELL_WORDS = re.compile(r"[|&;<>()`$\n]")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def _rule(kind: str, rule: object) -> str:
    """Refuse a rule the program would silently pass over: then nothing would be fenced by it."""
    if not isinstance(rule, str):
        raise ValueError(f"permission rule in {kind}: {rule!r} is not text")
    found = _RULE.fullmatch(rule) if rule.isprintable() else None
    what = found["what"] if found else None
    if found is None or (what is not None and not what.strip()):
        raise ValueError(f"permission rule in {kind}: {rule!r} is not of the form Tool or Tool(what)")
    if what is not None and re.search(r"\)[\s,]+[A-Z]\w*\(", what):
        raise ValueError(f"permission rule in {kind}: {rule!r} looks like several rules in one")
    if what is not None and ":*" in what[:-2] and found["tool"] == "Bash":
        raise ValueError(f"permission rule in {kind}: {rule!r} has ':*' before its end and never matches")
    return rule


def _gate_rule(command: object) -> str:
    """A gate may be run as written, and a plain one also with further arguments."""
    if not isinstance(command, str) or not command.strip() or not command.isprintable():
        raise ValueError(f"gate command {command!r} cannot be a permission rule: it must be one line of text")
    command = command.strip()
    return f"Bash({command})" if _SHELL_WORDS.search(command) else f"Bash({command} *)"


def permission_settings(allow: Sequence[str], deny: Sequence[str], gates: Sequence[str]) -> str:
    """Build the inline `--settings` JSON: the standing rules, then the configured ones.

    The program ignores a broken setting without a word, so a bad rule is a ValueError here.
    """
    allowed = [*ALLOWED, *(_gate_rule(gate) for gate in gates), *(_rule("allow", rule) for rule in allow)]
    denied = [*DENIED, *(_rule("deny", rule) for rule in deny)]
    rules = {"allow": list(dict.fromkeys(allowed)), "deny": list(dict.fromkeys(denied))}
    return json.dumps({"permissions": rules}, separators=(",", ":"))


def _checked_args(args: Sequence[str]) -> Iterator[str]:
    for arg in args:
        if arg.partition("=")[0] in OWNED_FLAGS:
            raise ValueError(f"agent argument {arg!r} is set by the harness itself and cannot be given")
        yield arg


def _session(ask: Ask) -> list[str]:
    if ask.session_id is None:
        if ask.resume:
            raise ValueError("a poke that resumes needs a session id")
        return []
    return ["--resume" if ask.resume else "--session-id", ask.session_id]


def _optional(ask: Ask) -> Iterator[str]:
    if ask.model:
        yield from ("--model", ask.model)
    if ask.budget_usd is not None and math.isfinite(ask.budget_usd) and ask.budget_usd > 0:
        yield from ("--max-budget-usd", f"{ask.budget_usd:.6f}")  # the program refuses 0
    if ask.schema is not None:
        yield from ("--json-schema", ask.schema)
    if ask.instruction_file is not None:
        # Without the snapshot switch a session keeps the text it began with, whatever the file says now.
        yield from ("--append-system-prompt-file", str(ask.instruction_file))
        yield from ("--system-prompt-snapshot", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claude:
    """The profile of Claude Code."""

    name: str = "claude"
    chooses_session_id: bool = True
    native_budget: bool = True

    def argv(self, command: Sequence[str], ask: Ask) -> list[str]:
        """Build the whole argument list; ValueError names a bad rule, argument or output form.

        What a person may override comes before `extra_args`, what the supervisor relies on after
        them. An option that takes many values is always followed by another option.
        """
        if ask.output not in ("stream-json", "json"):
            raise ValueError(f"output form {ask.output!r} is neither stream-json nor json")
        return [
            *command,
            "-p",
            *("--permission-mode", ask.permission_mode),
            *("--setting-sources", ""),  # neither the repository's nor the home's settings and hooks
            "--strict-mcp-config",  # nor servers planted there, or connected to the account
            *("--disallowedTools", ",".join(UNSUITABLE_TOOLS)),
            *_checked_args(ask.extra_args),
            *_optional(ask),
            *("--settings", permission_settings(ask.allow, ask.deny, ask.gates)),
            *_session(ask),
            *("--max-turns", str(ask.max_turns)),
            *("--output-format", ask.output),
            *(("--verbose",) if ask.output == "stream-json" else ()),  # demanded there, harmful with json
        ]

    def env(self) -> dict[str, str]:
        """Give the switches without which a poke outlives its work or hides its trouble for minutes."""
        return {
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # else a background shell holds the poke 600 s
            "DISABLE_AUTOUPDATER": "1",  # the program of 3 a.m. is the one that was tested
            # Its own 10 retries last 3 minutes; 5 bridge a blip of 15 s, the back-off does the rest.
            "CLAUDE_CODE_MAX_RETRIES": "5",
        }

    def read(self, stdout: Path, *, limit: int | None, stderr: str) -> Response:
        """Understand the output; what goes wrong before there is one, the caller reads from stderr."""
        del stderr
        return read_response(stdout, limit=limit)

    def is_complete(self, stdout: Path) -> bool:
        """Whether the newest event that belongs to a turn is a result; a turn begun after it counts."""
        for line in _last_lines(stdout):
            event = _event(line)
            if event.get("type") == "result":
                return True
            if event.get("type") in ("assistant", "user") or event.get("subtype") == "init":
                return False
        return False

    def cost_is_cumulative(self, version: str) -> bool | None:
        """Per process up to 2.0.77, over the session in 2.1.332; between the two nobody measured."""
        found = _VERSION.match(version)
        if found is None:
            return None
        number = tuple(int(part) for part in found.groups())
        if number >= (2, 1, 332):
            return True
        return False if number <= (2, 0, 77) else None


PROFILE = Claude()


def _last_lines(path: Path) -> list[bytes]:
    """The last lines of a file, newest first; the oldest of them may lack its start when very long."""
    try:
        with path.open("rb") as file:
            size, span = file.seek(0, os.SEEK_END), TAIL
            while True:
                file.seek(max(0, size - span))
                lines = file.read(span).splitlines()
                if len(lines) > 1 or span >= min(size, LINE_MAX):
                    break
                span *= 2
    except OSError:
        return []
    return lines[::-1] if span >= size or len(lines) == 1 else lines[:0:-1]


def _parse(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)  # reads a cut emoji and NaN, which orjson refuses


def _event(line: bytes) -> dict[str, Any]:
    """One line as an event. A line still being written is none; a list is the verbose json form."""
    try:
        event = _parse(line)
    except (ValueError, RecursionError):
        # A line beyond LINE_MAX lacks its start. Inside a text these quotes would be escaped.
        cut_result = len(line) > TAIL and line.endswith(b"}") and b'"type":"result"' in line
        return {"type": "result"} if cut_result else {}
    if isinstance(event, list) and event:
        event = event[-1]
    return event if isinstance(event, dict) else {}
