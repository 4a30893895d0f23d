"""The agent program: what it prints in each case, in the words of real versions.

A time in a sentence is cut to the minute and shown in the zone the program runs in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from watcher.agents.profile import Ask
from watcher.process import End

DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How one version of the program says that a limit is reached."""

    stream: bool  # stream-json, else one json object
    event: str = ""  # "": none; "bare": a rejected event without a time; "epoch": with one
    session: str = "You've hit your session limit · resets {when}"
    weekly: str = "You've hit your weekly limit · resets {when}"
    dated: str = "{date}, {clock}"
    zoned: bool = True

    def sentence(self, *, weekly: bool, reset: float, now: float, zone: tzinfo) -> str:
        """What is printed; a date only where the reset is a day or more away."""
        local = datetime.fromtimestamp(reset, zone)
        clock = f"{local.hour % 12 or 12}{f':{local.minute:02}' if local.minute else ''}{local:%p}".lower()
        date = f"{local:%b} {local.day}"
        when = self.dated.format(date=date, clock=clock) if reset - now >= DAY else clock
        named = f"{when} ({zone})" if self.zoned else when
        template = self.weekly if weekly else self.session
        return template.format(when=named, epoch=int(reset))


WORDINGS = {
    "stream, epoch": Wording(  # 2.1.332
        stream=True, event="epoch", session="You've hit your 5-hour limit · resets {when}"
    ),
    "stream, no epoch": Wording(stream=True, event="bare"),  # 2.1.220
    "json, zone": Wording(stream=False, session="You've hit your 5-hour limit · resets {when}"),  # 2.1.332
    "json, limit unnamed": Wording(  # 2.1.4 to 2.1.143
        stream=False,
        session="You've hit your limit · resets {when}",
        weekly="You've hit your limit · resets {when}",
        dated="{date} at {clock}",
    ),
    "json, no zone": Wording(  # 1.0.8x to 2.0.4x
        stream=False,
        session="5-hour limit reached ∙ resets {when}",
        weekly="Weekly limit reached ∙ resets {when}",
        zoned=False,
    ),
    "json, old epoch": Wording(  # until 2.0
        stream=False,
        session="Claude AI usage limit reached|{epoch}",
        weekly="Claude AI usage limit reached|{epoch}",
    ),
}

THROTTLED = (
    "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited",
    "API Error: Request rejected (429) · This request would exceed your organization's rate limit of 50 "
    "requests per minute",
)
OVERLOADED = (
    "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary. Try "
    "again in a moment. If it persists, check https://status.claude.com.",
)
DOWN = (
    "API Error: 500 Internal server error. This is a server-side issue, usually temporary — try again in a "
    "moment. If it persists, check https://status.claude.com.",
    "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
    *OVERLOADED,
)
TROUBLES = {"throttle": (429, THROTTLED), "overload": (529, OVERLOADED), "outage": (500, DOWN)}
RETRIES = (0.5, 1.5, 3.5, 7.5, 15.5)  # when the program itself asks again (5 retries)
TOO_LONG = "Prompt is too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What the program left behind when it ended, and how it did."""

    out: bytes
    err: bytes = b""
    exit_code: int = 0
    end: End = End.EXITED
    before_signal: int | None = None


@dataclass(slots=True)
class Session:
    pokes: int = 0
    cost: float = 0.0


class Saying:
    """What the program prints of one poke, in its own words."""

    def __init__(self, wording: Wording, zone: tzinfo, ask: Ask) -> None:
        self._wording = wording
        self._zone = zone
        self._ask = ask
        self.session = ask.session_id or ""

    def session_refused(self, *, known: bool) -> Printed | None:
        """What is said of a session that cannot be resumed, or not begun; None where all is well."""
        if self._ask.resume == known:
            return None
        said = f"Session ID {self.session} is already in use."
        if not known:
            said = f"No conversation found with session ID: {self.session}"
        return Printed(out=b"", err=f"Error: {said}\n".encode(), exit_code=1)

    def worked(self, session: Session) -> Printed:
        result = self._result("Worked on the next task and committed it.", cost=session.cost, turns=8)
        return self._printed([self._event("allowed"), result])

    def hung(self) -> Printed:
        """Ended by the ladder at the deadline; the json form has printed nothing by then."""
        out = _lines([self._init()]) if self._wording.stream else b""
        return Printed(out=out, exit_code=143, end=End.DEADLINE, before_signal=len(out))

    def failed(
        self, text: str, *, status: int, reason: str = "api_error", throttled: bool = False
    ) -> Printed:
        kind = {429: "rate_limit_error", 529: "overloaded_error", 400: "invalid_request_error"}
        result = self._result(text, status=status, reason=reason, kind=kind.get(status, "api_error"))
        event = self._event("rejected") if throttled else None  # subscribers get one for a plain 429
        return self._printed([event, result], exit_code=1)

    def limited(self, *, weekly: bool, reset: float, now: float) -> Printed:
        text = self._wording.sentence(weekly=weekly, reset=reset, now=now, zone=self._zone)
        result = self._result(text, status=429, kind="rate_limit_error", code="usage_limit_reached")
        window = "seven_day" if weekly else "five_hour"
        event = self._event("rejected", window, reset) if self._wording.event else None
        synthetic = {
            "type": "assistant",
            "message": {
                "model": "<synthetic>",
                "role": "assistant",
                "content": [{"type": "text", "text": text}],
            },
            "session_id": self.session,
            "error": "rate_limit",
            "is_api_error_message": True,
        }
        return self._printed([event, synthetic, result], exit_code=1)

    def _printed(self, events: list[dict[str, Any] | None], exit_code: int = 0) -> Printed:
        told = [event for event in events if event is not None]
        shown = [self._init(), *told] if self._wording.stream else told[-1:]
        return Printed(out=_lines(shown), exit_code=exit_code)

    def _init(self) -> dict[str, Any]:
        return {
            "type": "system",
            "subtype": "init",
            "session_id": self.session,
            "tools": ["Bash", "Edit", "Read", "Write"],
            "slash_commands": ["compact", "usage", "usage-credits"],
            "claude_code_version": "2.1.332",
        }

    def _event(self, status: str, window: str = "", reset: float = 0.0) -> dict[str, Any]:
        info: dict[str, Any] = {"status": status, "overageStatus": "rejected", "isUsingOverage": False}
        if window:
            info["rateLimitType"] = window
            if self._wording.event == "epoch":
                info["resetsAt"] = int(reset)
        return {"type": "rate_limit_event", "rate_limit_info": info, "session_id": self.session}

    def _result(
        self,
        text: str,
        *,
        status: int | None = None,
        reason: str = "",
        kind: str = "",
        code: str = "",
        cost: float = 0.0,
        turns: int = 1,
    ) -> dict[str, Any]:
        told: dict[str, Any] = {
            "duration_api_ms": 0,
            "session_id": self.session,
            "total_cost_usd": cost,
            "usage": {"input_tokens": 0, "output_tokens": 0},
            "permission_denials": [],
            "terminal_reason": reason or ("api_error" if status else "completed"),
            "is_error": status is not None,
            "num_turns": turns,
            "subtype": "success",
            "api_error_status": status,
            "result": text,
            "type": "result",
        }
        return told | ({"api_error_type": kind} if kind else {}) | ({"api_error": code} if code else {})


def _lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)
