"""What an act does to the project: files, the task list, git, and processes left behind.

This plays a foreign program: the doors of the harness (process.py, effect/git.py) are not for it.
"""

from __future__ import annotations

import os
import time

from watcher.scripted_agent.tape import Tape, TapeError

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing (9 ms)
if TYPE_CHECKING:
    from typing import Any

    from watcher.scripted_agent.tape import Act

TASK_LISTS = ("docs/tasks.md", "docs/TASKS.md")
IDENTITY = {
    "GIT_AUTHOR_NAME": "Scripted Agent",
    "GIT_AUTHOR_EMAIL": "scripted-agent@example.invalid",
    "GIT_COMMITTER_NAME": "Scripted Agent",
    "GIT_COMMITTER_EMAIL": "scripted-agent@example.invalid",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
}
QUIET = ["-c", "gc.auto=0", "-c", "maintenance.auto=false"]  # no process of git's own stays behind


def change_files(act: Act) -> None:
    """The steps write, append, delete and task_done."""
    for step, mode in (("write", "wb"), ("append", "ab")):
        for path, text in act.get(step, {}).items():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, mode) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
    for path in act.get("delete", []):
        _delete(path)
    if "task_done" in act:
        _finish_task(act["task_done"])


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            _delete(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


def _finish_task(task: str) -> None:
    """Flip one task to done in all three places, those of H appendix B."""
    path = next(filter(os.path.exists, TASK_LISTS), None)
    if path is None:
        raise TapeError(f"no task list: {' or '.join(TASK_LISTS)}")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(finished(text, task))


def finished(text: str, task: str) -> str:
    """The task list with this task done: table row, detail block, count line."""
    import re

    name = re.escape(task)
    row = re.search(rf"^\|[ ]*(\S.*?)([ ]*)\|[ ]*{name}[ ]*\|", text, re.MULTILINE)
    if row is None or row[1].lower() == "done":
        raise TapeError(f"no task {task} that could become done")
    old = row[1]
    done = "DONE" if old.isupper() else "done"
    text = text[: row.start(1)] + done.ljust(len(old + row[2]) - 1) + " " + text[row.end(2) :]
    today = time.strftime("%Y-%m-%d")
    block = rf"(^#+ {name}\b(?:(?!^#).*\n)*?- \*\*Status:\*\* )[^\n]*"
    text = re.sub(block, rf"\g<1>{done} ({today})", text, count=1, flags=re.MULTILINE)
    return re.sub(
        r"^\*\d+ tasks, .*\*$", lambda line: _count(line[0], old, done), text, count=1, flags=re.MULTILINE
    )


def _count(line: str, old: str, done: str) -> str:
    """The count line with one task moved from `old` to `done`; a status that no task has goes away."""
    import re

    counts = {word: int(number) for number, word in re.findall(r"(\d+) `([^`]+)`", line)}
    counts[old] = counts.get(old, 1) - 1
    counts = {done: counts.get(done, 0) + 1} | {word: n for word, n in counts.items() if word != done and n}
    return line.partition(",")[0] + ", " + ", ".join(f"{n} `{word}`" for word, n in counts.items()) + ".*"


def use_git(act: Act) -> None:
    """The steps git, commit, empty_commit and amend."""
    for arguments in act.get("git", []):
        if arguments[0] == "-":
            _git(*arguments[1:], may_fail=True)
        else:
            _git(*arguments)
    if "commit" in act:
        _git("add", "-A", "--", *act.get("paths", ["."]))
        _git("commit", "-q", "-m", act["commit"])
    if "empty_commit" in act:
        _git("commit", "-q", "--allow-empty", "-m", act["empty_commit"])
    if "amend" in act:
        _git("commit", "-q", "--amend", "--allow-empty", "-m", act["amend"])


def _git(*arguments: str, may_fail: bool = False) -> None:
    """Run git here, its output on stderr. (subprocess would cost 10 ms to import.)"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    streams: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
    child = os.posix_spawnp("git", ["git", *QUIET, *arguments], environment | IDENTITY, file_actions=streams)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status and not may_fail:
        raise TapeError(f"git {' '.join(arguments)}: exit {status}")


def leave_orphan(orphan: Act, tape: Tape) -> None:
    """Start a process that outlives this one, and note its id beside the tape."""
    if not orphan.get("double_fork"):
        _start_orphan(orphan, tape)
        return
    between = os.fork()
    if not between:
        _start_orphan(orphan, tape)
        os._exit(0)
    os.waitpid(between, 0)


def _start_orphan(orphan: Act, tape: Tape) -> None:
    closed = (0, 2) if orphan.get("hold_stdout") else (0, 1, 2)
    streams: list[Any] = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in closed]
    environment = {} if orphan.get("clear_env") else os.environ
    child = os.posix_spawnp(
        "sleep",
        ["sleep", str(orphan.get("seconds", 60))],
        environment,
        file_actions=streams,
        setsid=bool(orphan.get("setsid")),
    )
    tape.note(".orphans", str(child).encode())
