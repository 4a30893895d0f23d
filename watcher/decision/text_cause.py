"""What the error of an answer says: by the program's own fields first, then by its text (DESIGN 4).

Trust in this order: the structured verdict, the program's own name for the cause, the error's own
text, the HTTP status. A success is asked nothing; prose, tool results and echoes are never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from watcher.decision.outcome import Answer
from watcher.decision.text_fields import fields_of
from watcher.decision.text_kinds import Kind, Match
from watcher.decision.text_message import read_message
from watcher.decision.text_plain import plain
from watcher.response import Response, Verdict

Pattern = tuple[str, str]  # a user's (expression, kind); the kind is a value of `Kind`

_WORDS_MAX = 200
_BANNER_CHARS = 300
# What the program itself calls the cause. `rate_limit`, `invalid_request` and `unknown` stand for
# several causes each: there the text decides.
_REASONS = {
    "prompt_too_long": Kind.CONTEXT,
    "blocking_limit": Kind.CONTEXT,  # the prompt is blocked for its length; no account limit
    "ContextOverflowError": Kind.CONTEXT,
    "usage_limit_reached": Kind.LIMIT,
    "authentication_failed": Kind.AUTH,
    "oauth_org_not_allowed": Kind.AUTH,
    "account_on_hold": Kind.AUTH,
    "cloud_credential_error": Kind.AUTH,
    "billing_error": Kind.BILLING,
    "model_not_found": Kind.BAD_MODEL,
    "max_output_tokens": Kind.FAILED,
}
# Asked only where neither the program's word nor the text says more: 429 alone is plan limit,
# throttle and missing entitlement alike.
_HINTS = {"overloaded": Kind.TRANSIENT, "server_error": Kind.TRANSIENT, "connection_failed": Kind.TRANSIENT}
_STATUSES = {
    401: Kind.AUTH,
    402: Kind.BILLING,
    403: Kind.AUTH,
    404: Kind.BAD_MODEL,
    408: Kind.TRANSIENT,
    413: Kind.CONTEXT,
    429: Kind.TRANSIENT,
}


def cause(answer: Answer, agent: str, patterns: Sequence[Pattern]) -> tuple[Match | None, str]:
    """The kind of error, if it is a known one, and the text from which a time may be read."""
    response = answer.response
    if response.verdict is Verdict.SUCCESS:
        return _unflagged(response, agent), response.text
    if response.verdict is Verdict.FAILURE:
        return _failure(response, agent, patterns), response.text
    return _no_verdict(answer, agent, patterns)


def is_reason(name: str, kind: Kind) -> bool:
    """Whether `name` is the program's own word for this kind of error."""
    return _REASONS.get(name) is kind


def _unflagged(response: Response, agent: str) -> Match | None:
    """Old programs print a limit or a full context without the error flag: it is the whole text.

    The model said nothing then. A text that only speaks of a limit or a context window is prose.
    """
    text = response.text.strip()
    if len(text) > _BANNER_CHARS or (response.usage is not None and response.usage.output > 0):
        return None
    match = read_message(text, channel="result", agent=agent)
    if match is None:
        return None
    if match.kind is Kind.LIMIT:
        return match if response.usage is not None or "limit reached|" in text else None
    full = match.kind is Kind.CONTEXT and plain(text).lower().startswith(plain(match.words).lower())
    return match if full else None


def _failure(response: Response, agent: str, patterns: Sequence[Pattern]) -> Match | None:
    if taught := _taught(response.text, patterns):
        return taught
    for reason in (response.terminal_reason, response.api_error):
        if reason in _REASONS:
            words = response.text[:_WORDS_MAX] or reason
            return Match(kind=_REASONS[reason], words=words, family=reason)
    match = read_message(response.text, channel="result", agent=agent, error=True)
    return match or _hint(response)


def _hint(response: Response) -> Match | None:
    kind, name, status = _HINTS.get(response.api_error), response.api_error, response.api_status
    if kind is None and status is not None:
        kind = Kind.TRANSIENT if 500 <= status <= 599 else _STATUSES.get(status)
        name = f"status {status}"
    return Match(kind=kind, words=response.text[:_WORDS_MAX], family=name) if kind else None


def _no_verdict(answer: Answer, agent: str, patterns: Sequence[Pattern]) -> tuple[Match | None, str]:
    """No result: an error document, an output that is only text, or stderr may still say why."""
    response = answer.response
    if response.document:
        whole = json.dumps(response.document, ensure_ascii=False, default=str)
        taught = _taught("\n".join(fields_of([response.document]).messages), patterns)
        match = taught or read_message(whole, channel="json-field", agent=agent)
        if match:
            return match, whole
    for text, channel in ((response.plain, "stdout"), (answer.stderr, "stderr")):
        match = _taught(text, patterns) or read_message(text, channel=channel, agent=agent)
        if match:
            return match, text
    return None, ""


def _taught(text: str, patterns: Sequence[Pattern]) -> Match | None:
    """The user's own patterns, in his order; the configuration has compiled them before."""
    for expression, kind in patterns:
        if found := re.search(expression, plain(text), re.IGNORECASE):
            return Match(kind=Kind(kind), words=found[0][:_WORDS_MAX], family="configured pattern")
    return None
