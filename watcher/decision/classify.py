"""What one poke came to: DESIGN 3's table of outcomes as an ordered tuple of rules (H 6.4).

The first rule that fits decides. Nothing here reads a clock, a file or a process: `now`, the
zone the agent ran in, and the id the poke ran with are arguments. Trust in this order: the
structured verdict, structured times, the error's own text; prose is never read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from watcher.decision.outcome import Answer, Ended, Outcome, Reading, Reset
from watcher.decision.text_cause import Pattern, cause, is_reason
from watcher.decision.text_kinds import Kind, Match
from watcher.decision.text_message import read_message
from watcher.response import Verdict

__all__ = ["Kind", "Match", "Pattern", "classify", "read_message"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_HORIZON = timedelta(days=366)
_APART = timedelta(minutes=2)  # two readings of one reset that differ by more disagree
_LIMIT_SUBTYPES = {"rate_limited", "error_rate_limited"}
_ERROR_SUBTYPES = {"success", "error_during_execution", "error_max_structured_output_retries", "error"}
_CAP_SUBTYPES = {"error_max_turns": Kind.TURN_CAP, "error_max_budget_usd": Kind.BUDGET}
_WINDOWS = {"five_hour": "session", "seven_day": "weekly"}
_HUMAN = {Kind.AUTH, Kind.BILLING, Kind.ENTITLEMENT, Kind.BAD_MODEL, Kind.UNTRUSTED, Kind.HUMAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer with all that the rules may look at."""

    answer: Answer
    now: datetime
    zone: tzinfo
    agent: str
    known: str | None  # the id the poke ran with
    match: Match | None  # what the error's own words or fields say; None for a success
    words: str  # the text a reset is read from

    @property
    def session(self) -> str | None:
        """The newest usable id: the response's, else the one the poke ran with."""
        return usable_id(self.answer.response.session_id) or self.known

    @property
    def kind(self) -> Kind | None:
        return self.match.kind if self.match else None

    @property
    def rejected(self) -> bool:
        """Whether the last `rate_limit_event` refused; no other word of an event is believed.

        One that names neither a time nor a window is a throttle: subscribers get it for a plain 429.
        """
        event = self.answer.response.rate_limit
        return event is not None and event.status == "rejected" and bool(event.resets_at or event.window)

    def reading(
        self, outcome: Outcome, *, keep: bool = True, reset: Reset | None = None, why: str = ""
    ) -> Reading:
        """The outcome with its reason: the rule's word and the program's words."""
        name = outcome.value.replace("_", " ")
        because = f"{name}: {why}" if why else name
        details: dict[str, str] = {}
        if self.match is not None:
            details = {"kind": self.match.kind.value, "family": self.match.family, "words": self.match.words}
            because += f" ({self.match.family}: {self.match.words!r})"
        return Reading(
            outcome=outcome,
            because=because,
            reset=reset,
            session_id=self.session if keep else None,
            details=details,
        )


Rule = Callable[[Case], Reading | None]


def usable_id(text: str | None) -> str | None:
    """A session id that may stand in an argument list; an agent could print anything."""
    return text if text is not None and _ID.fullmatch(text) else None


def classify(
    answer: Answer,
    *,
    now: datetime,
    zone: tzinfo,
    agent: str = "claude",
    patterns: Sequence[Pattern] = (),
    session_id: str | None = None,
) -> Reading:
    """The outcome of one poke; the first rule of `RULES` that fits decides.

    `session_id` is the id the poke ran with, chosen or resumed. `patterns` are the user's own
    (expression, kind) pairs, tried before the built-in families. Never raises on what a program printed.
    """
    match, words = cause(answer, agent, patterns)
    case = Case(
        answer=answer, now=now, zone=zone, agent=agent, known=usable_id(session_id), match=match, words=words
    )
    for rule in RULES:
        reading = rule(case)
        if reading is not None:
            return reading
    return unknown(case)


# --- the rules, in DESIGN 3's order ------------------------------------------------------------


def interrupted(case: Case) -> Reading | None:
    """We stopped it before it had a result, so nothing it did or printed is its fault."""
    if case.answer.ended is not Ended.STOPPED or _has_result(case):
        return None
    return case.reading(Outcome.INTERRUPTED, keep=_worth_keeping(case), why="stopped by us before a result")


def timed_out(case: Case) -> Reading | None:
    """The deadline passed before it had a result; its session is as good as before."""
    if case.answer.ended is not Ended.DEADLINE or _has_result(case):
        return None
    return case.reading(Outcome.TIMED_OUT, keep=_worth_keeping(case), why="no result before the deadline")


def _has_result(case: Case) -> bool:
    """A result that says it was aborted is the program's answer to our signal, not one before it."""
    response = case.answer.response
    return response.verdict is not Verdict.NONE and not response.terminal_reason.startswith("aborted")


def _worth_keeping(case: Case) -> bool:
    """A program stopped while it went round and round on a full context must not resume that session."""
    return not is_reason(case.answer.response.api_error, Kind.CONTEXT)


def unreadable(case: Case) -> Reading | None:
    """No verdict and no known error: one hiccup must not end the night (H 6.4), nor look like success."""
    if case.answer.ended is Ended.NOT_STARTED:
        return case.reading(Outcome.UNREADABLE, why="the program could not be started")
    if case.answer.response.verdict is not Verdict.NONE or case.match is not None or case.rejected:
        return None
    return case.reading(Outcome.UNREADABLE, why="no result and no known error in the output")


def limit(case: Case) -> Reading | None:
    """A session limit is not an error: sleep to the reset and a little past it, then begin afresh."""
    response = case.answer.response
    if response.verdict is Verdict.SUCCESS and case.kind is not Kind.LIMIT:
        return None  # a success that quotes a banner, or ran while an event refused something else
    rejected = case.rejected and response.verdict is not Verdict.SUCCESS
    if not rejected and case.kind is not Kind.LIMIT and response.subtype not in _LIMIT_SUBTYPES:
        return None
    why = "rate limit event rejected" if rejected else "" if case.kind is Kind.LIMIT else response.subtype
    return case.reading(Outcome.LIMIT, keep=False, reset=_reset(case), why=why)


def _reset(case: Case) -> Reset | None:
    """Structured times before words; a disagreement is kept, since either can be stale."""
    from watcher.decision.reset import read_reset  # its 60 expressions cost 15 ms, and most nights need none

    response = case.answer.response
    event = response.rate_limit if case.rejected else None
    said = read_reset(case.words, now=case.now, zone=case.zone, agent=case.agent)
    structured: Reset | None = None
    if event and event.resets_at and event.resets_at <= case.now + _HORIZON:
        window = next(
            (name for word, name in _WINDOWS.items() if event.window.startswith(word)), event.window
        )
        structured = Reset(at=event.resets_at, source="event", zone="epoch", window=window)
    elif response.reset_at and response.reset_at <= case.now + _HORIZON:
        structured = Reset(at=response.reset_at, source="field", zone="epoch")
    if structured is None or said is None:
        return structured or said
    apart = abs(said.at - structured.at) > _APART
    return dataclasses.replace(structured, text=said.text, other=said.at if apart else None)


def transient(case: Case) -> Reading | None:
    """Overload and network pass within minutes; the session is intact, so go on with it."""
    if case.kind is not Kind.TRANSIENT:
        return None
    return case.reading(Outcome.TRANSIENT, reset=_reset(case))


def context(case: Case) -> Reading | None:
    """The conversation is full: resuming it can never work again, a fresh one can (H, problem 3)."""
    return case.reading(Outcome.CONTEXT, keep=False) if case.kind is Kind.CONTEXT else None


def session_lost(case: Case) -> Reading | None:
    """The id is unknown, so drop it; or it exists already, so resume it."""
    if case.kind is Kind.SESSION_LOST:
        return case.reading(Outcome.SESSION_LOST, keep=False, why="no such session")
    if case.kind is Kind.SESSION_TAKEN:
        return case.reading(Outcome.SESSION_LOST, why="the id is taken: resuming works on it")
    return None


def needs_human(case: Case) -> Reading | None:
    """Login, billing, plan, model, directory: no waiting cures these, a person can."""
    return case.reading(Outcome.NEEDS_HUMAN) if case.kind in _HUMAN else None


def capped(case: Case) -> Reading | None:
    """The poke's own budget is used up; older programs say so without the error flag."""
    if case.answer.response.verdict is Verdict.SUCCESS:
        return None
    kind = _CAP_SUBTYPES.get(case.answer.response.subtype, case.kind)
    if kind is Kind.TURN_CAP:
        return case.reading(Outcome.TURN_CAP)
    return case.reading(Outcome.BUDGET_CAP) if kind is Kind.BUDGET else None


def error(case: Case) -> Reading | None:
    """The flag comes before everything a success could mean: a locked-out agent is no stall (H 6.4)."""
    response = case.answer.response
    if response.verdict is Verdict.SUCCESS:
        return None
    if response.is_error or case.kind is Kind.FAILED or response.subtype in _ERROR_SUBTYPES:
        return case.reading(Outcome.ERROR, why=" ".join(response.text[:200].split()) or response.subtype)
    return None


def success(case: Case) -> Reading | None:
    """The program says the turn ended well; git and the task list say what that is worth."""
    if case.answer.response.verdict is not Verdict.SUCCESS:
        return None
    return case.reading(Outcome.SUCCESS)


def unknown(case: Case) -> Reading:
    """A subtype nobody knows: the program has changed, and guessing would hide it."""
    return case.reading(Outcome.UNKNOWN, why=f"subtype {case.answer.response.subtype[:100]!r}")


RULES: tuple[Rule, ...] = (
    interrupted,
    timed_out,
    unreadable,
    limit,
    transient,
    context,
    session_lost,
    needs_human,
    capped,
    error,
    success,
)
