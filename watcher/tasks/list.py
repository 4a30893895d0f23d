"""The task list as a file in the agent's hands: read carefully, believed as far as it goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watcher.tasks.read import Words, doubts, eligible, read_tasks

SIZE_LIMIT = 10 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskList:
    """The first of `paths` that exists in the project is the list."""

    project: Path
    paths: Sequence[str]
    words: Words

    def eligible(self) -> tuple[str, ...]:
        """Ids of the tasks an agent may work on now. No list, or one that cannot be read: none."""
        return tuple(task.id for task in eligible(read_tasks(self._text() or "", self.words), self.words))

    def doubt(self) -> str:
        """Why a claim of being done could not be held against this list; "" where it can."""
        text = self._text()
        if text is None:
            return f"there is no task list at {' or '.join(self.paths)}"
        tasks = read_tasks(text, self.words)
        return (
            "no task can be read in the task list" if not tasks else "; ".join(doubts(tasks, self.words)[:5])
        )

    def _text(self) -> str | None:
        for path in self.paths:
            if (text := read_plain_file(self.project / path)) is not None:
                return text
        return None


def read_plain_file(path: Path) -> str | None:
    """Decode a regular file of bounded size; None for anything else (a link, a pipe, too large)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_LIMIT:
            return None
        return file.read(SIZE_LIMIT).decode("utf-8", "replace")
