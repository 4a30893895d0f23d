"""Ask: one start-work-end cycle of the agent program (H 15.1, DESIGN 2, 10).

The prompt is a file on standard input, the answer goes straight to files of ours, and nothing stands
between us and the program: no shell, no prompt in the argument list.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from watcher.agents.profile import Ask, Profile
from watcher.decision.outcome import Answer, Ended
from watcher.process import Account, Command, End, Finished, Interrupts, Started, supervise

STDERR_TAIL = 16_384

ENDED: Mapping[End, Ended] = {
    End.EXITED: Ended.ITSELF,
    End.SETTLED: Ended.ITSELF,  # a complete result, and a process that would not end: the result decides
    End.STOPPED: Ended.STOPPED,
    End.DEADLINE: Ended.DEADLINE,
    End.NOT_STARTED: Ended.NOT_STARTED,
}


class Papers(Protocol):
    """Where one poke's exchange is kept: prompt in, output and errors out."""

    @property
    def prompt(self) -> Path: ...
    @property
    def out(self) -> Path: ...
    @property
    def err(self) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Poked:
    """A poke that is over: what came back, and how its process went."""

    answer: Answer
    finished: Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The agent program as this project runs it."""

    profile: Profile
    command: tuple[str, ...]
    project: Path
    env: Mapping[str, str]
    account: Account | None
    timeout_s: float | None

    def poke(
        self,
        ask: Ask,
        papers: Papers,
        *,
        marker: str,
        interrupts: Interrupts | None,
        on_start: Callable[[Started], None] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> Poked:
        """Run the program to its end. Raises OSError only when our own output files cannot be made."""
        with handed_over(papers.prompt, self.account) as prompt:
            command = Command(
                argv=tuple(self.profile.argv(self.command, ask)),
                cwd=self.project,
                env={**self.profile.env(), **self.env},  # what a person configured wins
                stdin=prompt,
                stdout=papers.out,
                stderr=papers.err,
                account=self.account,
                timeout_s=self.timeout_s,
                marker=marker,
            )
            finished = supervise(
                command,
                interrupts=interrupts,
                complete=self.profile.is_complete,
                on_start=on_start,
                tick=tick,
            )
        return Poked(answer=self.read(papers, ask, finished), finished=finished)

    def read(self, papers: Papers, ask: Ask, finished: Finished) -> Answer:
        ended = ENDED[finished.end]
        limit = finished.stdout_before_signal if ended in (Ended.STOPPED, Ended.DEADLINE) else None
        stderr = finished.error or tail(papers.err)
        return read_answer(
            self.profile,
            papers,
            ended=ended,
            limit=limit,
            exit_code=finished.exit_code,
            stderr=stderr,
            resumed=ask.resume,
        )


@contextmanager
def handed_over(prompt: Path, account: Account | None) -> Iterator[Path]:
    """The file that becomes the agent's standard input: in a sandbox a copy, which is removed again.

    A process of our own user can open its standard input once more, for writing, however well the file
    is hidden by its path; and the record of one prompt may be that of the next one too.
    """
    if account is None or not account.walls:
        yield prompt
        return
    copy = prompt.with_name("given")  # one for all pokes: what a crash leaves, the next one removes
    copy.unlink(missing_ok=True)
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(prompt.read_bytes())
    try:
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def read_answer(
    profile: Profile,
    papers: Papers,
    *,
    ended: Ended,
    limit: int | None,
    exit_code: int | None,
    stderr: str,
    resumed: bool,
) -> Answer:
    """Read what a poke left in its files; only what preceded our first signal is a verdict.

    What came after it still tells the cost and the session.
    """
    response = profile.read(papers.out, limit=limit, stderr=stderr)
    if limit is not None:
        later = profile.read(papers.out, limit=None, stderr=stderr)
        response = dataclasses.replace(
            response,
            cost_usd=later.cost_usd if response.cost_usd is None else response.cost_usd,
            session_id=later.session_id or response.session_id,
            usage=response.usage or later.usage,
            program_version=response.program_version or later.program_version,
        )
    return Answer(
        response=response,
        ended=ended,
        exit_code=exit_code,
        stderr=stderr,
        resumed=resumed,
        cut_at=limit,
    )


def tail(path: Path, size: int = STDERR_TAIL) -> str:
    """The last `size` bytes of a file, decoded; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""
