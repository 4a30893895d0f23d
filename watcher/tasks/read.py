"""Read the task list, the only source of work (H 4, Appendix B).

Reads Markdown tables of `| status | ID | title |` and the detail blocks under headings that name an
ID. A list it cannot make sense of has no tasks, which never contradicts the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The list's vocabulary, lower case, and the modes an agent may work in without a person."""

    open: frozenset[str] = frozenset({"open", "in progress", "in-progress"})
    done: frozenset[str] = frozenset({"done"})
    parked: frozenset[str] = frozenset({"planned", "dropped", "blocked"})
    modes: frozenset[str] = frozenset({"direct", "loop", "goal"})

    def knows(self, status: str) -> bool:
        return status in self.open | self.done | self.parked


_ID = r"[A-Za-z][A-Za-z0-9]*-\d+"
_ROW = re.compile(rf"^\s*\|\s*([^|]*?)\s*\|\s*`?({_ID})`?\s*\|\s*([^|]*?)\s*(?:\||$)")
_ITEM = re.compile(rf"^\s*(?:[-*+]|\d+\.)\s+\**\[?([A-Za-z -]+?)\]?\**\s*[:|]?\s+\**({_ID})\**\b[:.\s]*(.*)$")
_HEADING = re.compile(rf"^#{{1,6}}\s+.*?({_ID})\b[:.\s]*(.*)$")
_FIELD = re.compile(r"^\s*[-*+]?\s*\**(status|mode|deps)(?:\s*:\s*\**|\**\s*:)\s*(.*)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    id: str
    title: str = ""
    status: str = ""  # lower case; "" when the list does not say
    mode: str = ""  # as written; "" when the list has no such field
    deps: tuple[str, ...] = ()


def read_tasks(text: str, words: Words = Words()) -> tuple[Task, ...]:
    """Every task the list names, in its order. A detail block's fields win over the table row."""
    tasks: dict[str, Task] = {}
    current = ""
    for line in _outside_fences(text):
        if row := _ROW.match(line) or _ITEM.match(line):
            status, name, title = row.groups()
            if words.knows(status.strip().lower()):
                tasks.setdefault(name, Task(id=name, title=title, status=status.strip().lower()))
        elif heading := _HEADING.match(line):
            current = heading.group(1)
            tasks.setdefault(current, Task(id=current, title=heading.group(2)))
        elif line.startswith("#"):
            current = ""
        elif current and (field := _FIELD.match(line)):
            tasks[current] = _with_field(tasks[current], field.group(1).lower(), field.group(2))
    return tuple(task for task in tasks.values() if task.status)


def eligible(tasks: tuple[Task, ...], words: Words = Words()) -> tuple[Task, ...]:
    """Open tasks an agent may work on now: the mode allows it and every dependency is done.

    A list whose tasks carry no mode at all has only the first dimension.
    """
    done = {task.id for task in tasks if task.status in words.done}
    moded = any(task.mode for task in tasks)
    return tuple(
        task
        for task in tasks
        if task.status in words.open
        and (not moded or task.mode.lower() in words.modes)
        and set(task.deps) <= done
    )


def doubts(tasks: tuple[Task, ...], words: Words) -> tuple[str, ...]:
    """What would make a task disappear unnoticed: unknown status words and dependencies on nothing."""
    ids = {task.id for task in tasks}
    unknown = [f"{task.id} has the status {task.status!r}" for task in tasks if not words.knows(task.status)]
    waiting = [
        f"{task.id} waits for {dep}, which is not in the list"
        for task in tasks
        for dep in task.deps
        if dep not in ids and task.status in words.open
    ]
    return (*unknown, *waiting)


def _with_field(task: Task, name: str, value: str) -> Task:
    value = value.strip().strip("*`").strip()
    if name == "status":
        word = re.split(r"\s*[(,;]", value.lower(), maxsplit=1)[0].strip()
        return replace(task, status=word)
    if name == "mode":
        return replace(task, mode=re.split(r"\s*[(,;]", value, maxsplit=1)[0].strip())
    return replace(task, deps=tuple(re.findall(_ID, value)))


def _outside_fences(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence else fence
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            yield line
