"""The task list as a file in the agent's hands: read carefully, believed as far as it goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watcher.tasks.read import eligible, read_tasks

SIZE_LIMIT = 10 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskList:
    """The first of `paths` that exists in the project is the list."""

    project: Path
    paths: Sequence[str]
    modes: Sequence[str]

    def eligible(self) -> tuple[str, ...]:
        """Ids of the tasks an agent may work on now. No list, or one that cannot be read: none."""
        text = self._text()
        return tuple(task.id for task in eligible(read_tasks(text), self.modes))

    def _text(self) -> str:
        for path in self.paths:
            if (text := read_plain_file(self.project / path)) is not None:
                return text
        return ""


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
