"""Tell a person (DESIGN 9): one program of the user's, the facts as JSON on its standard input.

Never able to hurt the run: it has a deadline, its failures are logged and tried again, and what it
prints is only logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watcher.decision.state import WatchState
from watcher.log import Log
from watcher.process import ProcessError, run_tool
from watcher.record.documents import dump


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """Runs `notify.command`. Without one, an alert is only in the log."""

    command: tuple[str, ...]
    project: str
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float
    retries: int
    log: Log

    @property
    def longest_s(self) -> float:
        """How long `alert` may take."""
        return self.timeout_s * (self.retries + 1) if self.command else 0.0

    def alert(self, subject: str, text: str, state: WatchState) -> None:
        self.log.warning(f"alert: {subject}", why=text)
        if not self.command:
            return
        document = dump(
            {
                "project": self.project,
                "subject": subject,
                "text": text,
                "run": state.run,
                "pokes": state.pokes,
                "session": state.session.id if state.session else None,
                "spent_usd": state.spent_usd,
            }
        )
        for attempt in range(self.retries + 1):
            if not (problem := self._run(document)):
                return
            self.log.warning("the alert could not be delivered", attempt=attempt + 1, why=problem)

    def _run(self, document: bytes) -> str:
        try:
            tool = run_tool(
                self.command, cwd=self.cwd, env=self.env, timeout_s=self.timeout_s, input=document
            )
        except (ProcessError, OSError) as error:
            return str(error)
        if tool.timed_out:
            return f"{self.command[0]} did not end within {self.timeout_s:g} s"
        return f"{self.command[0]} ended with {tool.exit_code}" if tool.exit_code else ""
