"""publications.jsonl: every attempt to publish, and what the remote said to it (H 6.7).

The line that announces a push is on disk before the push begins. What the remote once held is read
from here, so that nothing somebody took away there is ever put back unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from watcher.record.files import Disk
from watcher.record.lines import Lines, last


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the remote said when its branch was last seen to hold what we published."""

    holds: str  # "": never
    tips: frozenset[str]  # all it named then, `holds` among them


@dataclass(frozen=True, slots=True, kw_only=True)
class Publications:
    """The attempts of one project; `remote` and `to` say which of them concern us. Raises RecordError."""

    path: Path
    disk: Disk
    remote: str  # without passwords
    to: str
    now: Callable[[], datetime]

    def write(self, step: str, tip: str, **facts: Any) -> None:
        """One line, durable on return."""
        line = {"at": self.now().isoformat(), "step": step, "remote": self.remote, "to": self.to, "tip": tip}
        with Lines(self.disk, self.path) as lines:
            lines.append(line | facts)

    def memory(self) -> Memory:
        """What the remote was last known to hold."""
        line = last(self.path, self._is_ours)
        if line is None:
            return Memory(holds="", tips=frozenset())
        holds, tips = str(line.document["holds"]), line.document.get("tips")
        return Memory(holds=holds, tips=frozenset([holds, *map(str, tips if isinstance(tips, list) else ())]))

    def _is_ours(self, line: dict[str, Any]) -> bool:
        return bool(line.get("holds")) and (line.get("remote"), line.get("to")) == (self.remote, self.to)
