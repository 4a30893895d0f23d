"""What an agent program's error text can be about, and the shape of a family of messages."""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass


class Kind(enum.Enum):
    """The kinds of error messages; `classify` turns each into an outcome."""

    LIMIT = "limit"  # a plan's quota is used up and comes back by itself
    TRANSIENT = "transient"  # overload, throttle, network: seconds to minutes
    CONTEXT = "context"  # the conversation no longer fits
    SESSION_LOST = "session_lost"  # the id to resume is unknown
    SESSION_TAKEN = "session_taken"  # the chosen id exists already: resuming works on it
    AUTH = "auth"
    BILLING = "billing"
    ENTITLEMENT = "entitlement"  # the plan does not include what was asked for
    BAD_MODEL = "bad_model"
    UNTRUSTED = "untrusted"  # the program refuses this directory
    TURN_CAP = "turn_cap"
    BUDGET = "budget"
    HUMAN = "needs_human"  # a user's own pattern
    FAILED = "error"  # a known error of none of the kinds above


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The family a text belongs to and the words that say so."""

    kind: Kind
    words: str
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of sentence that programs print, as expressions compiled when first needed."""

    name: str
    kind: Kind
    needles: tuple[str, ...]  # lower case; without any of them no expression can match
    expression: str
    soft: bool = False  # the wait it names says whether a quota or a throttle is meant
    timed: bool = False  # counts only where a time for the reset is printed
    anywhere: bool = False  # unmistakable: needs no start of a clause before it
    unless: str = ""  # words elsewhere in the text that say something else is meant

    @property
    def regex(self) -> re.Pattern[str]:
        return compiled(self.expression)

    def may_match(self, lowered: str) -> bool:
        return any(needle in lowered for needle in self.needles)


def family(
    name: str,
    kind: Kind,
    needles: str,
    *patterns: str,
    soft: bool = False,
    timed: bool = False,
    anywhere: bool = False,
    unless: str = "",
) -> Family:
    """A family; `needles` are separated by bars, a blank in a pattern stands for any white space."""
    return Family(
        name=name,
        kind=kind,
        needles=tuple(needles.split("|")),
        expression="|".join(f"(?:{pattern})" for pattern in patterns),
        soft=soft,
        timed=timed,
        anywhere=anywhere,
        unless=unless,
    )


@functools.cache
def compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression.replace(" ", r"\s"), re.IGNORECASE)
