"""Explain: what would the harness make of this answer? The very functions the loop uses (H 6.4).

A whole response document speaks for itself; a bare message is put where the caller says it stood.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from datetime import datetime, tzinfo

from watcher.agents.readers import reader, recognise
from watcher.decision.classify import classify
from watcher.decision.decide import decide
from watcher.decision.outcome import Answer, Reading
from watcher.decision.state import Decision, Observation, Policy, Revision, Session, WatchState
from watcher.response import Response, Verdict

SESSION = "00000000-0000-4000-8000-000000000000"  # of the poke that is imagined around the answer
REVISION = Revision(tip="0" * 40, tree="0" * 40)  # before it and after it: what the agent did is not told


class Channel(enum.Enum):
    """Where a bare message stood."""

    RESULT = "result"  # the text of a result object
    STDOUT = "stdout"  # all there was on stdout
    STDERR = "stderr"
    EVENT = "event"  # the text of an error event


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The answer to explain, and what is known around it."""

    data: bytes
    agent: str = ""  # "": whichever program's reader finds a verdict
    channel: Channel | None = None  # None: a document where one is found, else a result's text, but
    # beside a stderr, and where it is empty, all there was on stdout
    stderr: str = ""
    error: bool = True  # of a bare message: whether it came with the error flag
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    reading: Reading
    decision: Decision
    agent: str
    taken_for: str  # "a document of claude", "a bare message as result"

    @property
    def wait_s(self) -> float | None:
        """Seconds until the watch shift would poke again; None where it would end."""
        wait = self.decision.state.wait
        return None if wait is None else (wait.until - self.decision.state.began_at).total_seconds()


def explain(question: Question, *, now: datetime, zone: tzinfo, policy: Policy) -> Explanation:
    """Classify and decide as the loop would on the first poke of a run. Raises nothing on content."""
    agent, response, taken_for = _response(question)
    stderr = question.stderr
    if question.channel is Channel.STDERR:
        stderr = question.data.decode("utf-8", "replace")
    exit_code = question.exit_code
    if exit_code is None:
        exit_code = 0 if response.verdict is Verdict.SUCCESS else 1
    answer = Answer(response=response, exit_code=exit_code, stderr=stderr, resumed=True)
    reading = classify(answer, now=now, zone=zone, agent=agent, patterns=policy.patterns, session_id=SESSION)
    state = WatchState(
        run="explain",
        began_at=now,
        branch="main",
        pokes=1,
        session=Session(id=SESSION, begun=True),
        revision=REVISION,
    )
    policy = dataclasses.replace(policy, agent=agent, zone=zone)
    decision = decide(policy, state, Observation(answer=answer, revision=REVISION), now)
    return Explanation(reading=reading, decision=decision, agent=agent, taken_for=taken_for)


def _response(question: Question) -> tuple[str, Response, str]:
    """The program, the response, and what the input was taken for."""
    agent = question.agent or "claude"
    if question.channel is Channel.STDERR:
        return agent, Response(), "a bare message on stderr"
    if question.channel is Channel.STDOUT:
        return agent, reader(agent)(question.data, question.stderr), "all there was on stdout"
    if question.channel is None:
        found, response = (
            (question.agent, reader(question.agent)(question.data, question.stderr))
            if question.agent
            else recognise(question.data, question.stderr)
        )
        if response.verdict is not Verdict.NONE or response.rate_limit is not None:
            return found, response, f"a document of {found}"
        if response.document:
            return agent, response, "a document without a verdict"
        if question.stderr or not question.data.strip():
            return agent, response, "all there was on stdout"
    text = question.data.decode("utf-8", "replace").strip()
    verdict = Verdict.FAILURE if question.error else Verdict.SUCCESS
    bare = Response(verdict=verdict, subtype="success", is_error=question.error, text=text, results=1)
    where = question.channel or Channel.RESULT
    flag = "with" if question.error else "without"
    return agent, bare, f"a bare message as {where.value}, {flag} the error flag"
