"""Outcomes of single answers: the order of the rules, the trust order, what is kept and why (DESIGN 3, 4)."""

from __future__ import annotations

import dataclasses
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watcher.agents import codex, gemini, opencode, qwen
from watcher.decision.classify import RULES, Kind, classify, read_message
from watcher.decision.outcome import Answer, Ended, Outcome, Reading
from watcher.decision.text_families import FAMILIES
from watcher.decision.text_kinds import Family
from watcher.response import RateLimit, Response, Usage, Verdict, read_bytes

NOW = datetime(2026, 5, 5, 12, 0, tzinfo=UTC)
RESET = NOW + timedelta(hours=2)
BANNER = "You've hit your session limit · resets 3pm (UTC)"


def failed(text: str = "", **fields: Any) -> Response:
    said: dict[str, Any] = {"subtype": "success", "is_error": True, **fields}
    return Response(verdict=Verdict.FAILURE, text=text, session_id="seen", **said)


def succeeded(text: str = "done", **fields: Any) -> Response:
    return Response(verdict=Verdict.SUCCESS, subtype="success", text=text, session_id="seen", **fields)


def read(response: Response, *, ended: Ended = Ended.ITSELF, stderr: str = "", **options: Any) -> Reading:
    answer = Answer(response=response, ended=ended, stderr=stderr)
    return classify(answer, now=NOW, zone=UTC, **options)


REJECTED = RateLimit(status="rejected", resets_at=RESET, window="five_hour")
ALLOWED = RateLimit(status="allowed_warning", resets_at=RESET, window="five_hour")
NOTHING = Response()


class Row(NamedTuple):
    name: str
    response: Response
    outcome: Outcome
    ended: Ended = Ended.ITSELF
    stderr: str = ""


TABLE = (
    Row("stopped before a result", NOTHING, Outcome.INTERRUPTED, Ended.STOPPED),
    Row("stopped after a result", succeeded(), Outcome.SUCCESS, Ended.STOPPED),
    Row("stopped after an error", failed("API Error: 529 Overloaded"), Outcome.TRANSIENT, Ended.STOPPED),
    Row(
        "the answer to our signal",
        failed("[ede_diagnostic]", subtype="error_during_execution", terminal_reason="aborted_tools"),
        Outcome.INTERRUPTED,
        Ended.STOPPED,
    ),
    Row("aborted without a signal of ours", failed("x", terminal_reason="aborted_tools"), Outcome.ERROR),
    Row(
        "stopped with a banner in what it printed", Response(plain=BANNER), Outcome.INTERRUPTED, Ended.STOPPED
    ),
    Row("deadline", NOTHING, Outcome.TIMED_OUT, Ended.DEADLINE),
    Row("deadline with a banner on stderr", NOTHING, Outcome.TIMED_OUT, Ended.DEADLINE, BANNER),
    Row("deadline after a result", succeeded(), Outcome.SUCCESS, Ended.DEADLINE),
    Row("never started", NOTHING, Outcome.UNREADABLE, Ended.NOT_STARTED, "claude: permission_denied"),
    Row("nothing printed", NOTHING, Outcome.UNREADABLE),
    Row("only prose printed", Response(plain="I refactored the rate limiter."), Outcome.UNREADABLE),
    Row("unknown words on stderr", NOTHING, Outcome.UNREADABLE, stderr="error: unknown option '--x'"),
    Row("limit on stderr alone", NOTHING, Outcome.LIMIT, stderr=BANNER),
    Row("limit as the whole output", Response(plain=BANNER), Outcome.LIMIT),
    Row("flagged limit", failed(BANNER, api_status=429), Outcome.LIMIT),
    Row(
        "flagged limit under another subtype", failed(BANNER, subtype="error_during_execution"), Outcome.LIMIT
    ),
    Row("turn cap with a limit text", failed(BANNER, subtype="error_max_turns"), Outcome.LIMIT),
    Row("rejected event without a text", failed("", rate_limit=REJECTED), Outcome.LIMIT),
    Row("rejected event and no result", Response(rate_limit=REJECTED), Outcome.LIMIT),
    Row("rejected event, then a success", succeeded(rate_limit=REJECTED), Outcome.SUCCESS),
    Row("allowed event beside an error", failed("odd", rate_limit=ALLOWED), Outcome.ERROR),
    Row("typed limit", failed("", subtype="rate_limited"), Outcome.LIMIT),
    Row(
        "typed limit without the flag",
        failed("", subtype="error_rate_limited", is_error=False),
        Outcome.LIMIT,
    ),
    Row("the program's own name for it", failed("odd", api_error="usage_limit_reached"), Outcome.LIMIT),
    Row("success that quotes a banner", succeeded(f"It prints: {BANNER}"), Outcome.SUCCESS),
    Row(
        "success that is a banner, said by the model",
        succeeded(BANNER, usage=Usage(output=9)),
        Outcome.SUCCESS,
    ),
    Row("old banner", succeeded(BANNER, usage=Usage()), Outcome.LIMIT),
    Row("old banner with an epoch", succeeded("Claude AI usage limit reached|1777999999"), Outcome.LIMIT),
    Row(
        "throttle 429",
        failed("API Error: Request rejected (429) · This would exceed your rate limit", api_status=429),
        Outcome.TRANSIENT,
    ),
    Row(
        "denied limit 429",
        failed("API Error: Server is temporarily limiting requests (not your usage limit)", api_status=429),
        Outcome.TRANSIENT,
    ),
    Row(
        "gateway's quota inside a 429",
        failed("API Error: Request rejected (429) · The usage limit has been reached", api_status=429),
        Outcome.LIMIT,
    ),
    Row("429 without words", failed("", api_status=429), Outcome.TRANSIENT),
    Row("503 without words", failed("odd", api_status=503), Outcome.TRANSIENT),
    Row("overloaded by name", failed("odd", api_error="overloaded"), Outcome.TRANSIENT),
    Row("connection by name", failed("odd", api_error="connection_failed"), Outcome.TRANSIENT),
    Row("rate_limit by name says nothing", failed("odd", api_error="rate_limit"), Outcome.ERROR),
    Row("too long by name", failed("", terminal_reason="prompt_too_long"), Outcome.CONTEXT),
    Row("blocked for its length", failed("", terminal_reason="blocking_limit"), Outcome.CONTEXT),
    Row("request too large", failed("odd", api_status=413), Outcome.CONTEXT),
    Row("id unknown", NOTHING, Outcome.SESSION_LOST, stderr="No conversation found with session ID: x"),
    Row("id taken", NOTHING, Outcome.SESSION_LOST, stderr="Error: Session ID x is already in use."),
    Row("not logged in", failed("Not logged in · Please run /login"), Outcome.NEEDS_HUMAN),
    Row("401 without words", failed("odd", api_status=401), Outcome.NEEDS_HUMAN),
    Row("404 without words", failed("odd", api_status=404), Outcome.NEEDS_HUMAN),
    Row("billing by name", failed("odd", api_error="billing_error"), Outcome.NEEDS_HUMAN),
    Row(
        "turn cap", failed("Reached maximum number of turns (2)", subtype="error_max_turns"), Outcome.TURN_CAP
    ),
    Row("turn cap of old programs", failed("", subtype="error_max_turns", is_error=False), Outcome.TURN_CAP),
    Row("budget cap", failed("", subtype="error_max_budget_usd"), Outcome.BUDGET_CAP),
    Row("answer too long", failed("exceeded the 32000 output token maximum"), Outcome.ERROR),
    Row("flagged, nothing known", failed("something odd"), Outcome.ERROR),
    Row("known error subtype", failed("", subtype="error_during_execution", is_error=False), Outcome.ERROR),
    Row("flagged, subtype unknown", failed("odd", subtype="error_of_tomorrow"), Outcome.ERROR),
    Row("subtype unknown", failed("odd", subtype="paused", is_error=False), Outcome.UNKNOWN),
    Row("success", succeeded(), Outcome.SUCCESS),
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_an_answer_has_its_outcome(row: Row) -> None:
    reading = read(row.response, ended=row.ended, stderr=row.stderr)
    assert reading.outcome is row.outcome, reading.because


def test_the_rules_stand_in_the_order_of_the_outcomes() -> None:
    names = [rule.__name__ for rule in RULES]
    order = [outcome.value for outcome in Outcome]
    assert names == sorted(names, key=lambda name: order.index("turn_cap" if name == "capped" else name))
    assert all(rule.__doc__ for rule in RULES)


# --- resets: whom to trust -----------------------------------------------------------------------


def test_the_events_time_wins_over_the_text_and_the_text_is_kept_as_the_other_reading() -> None:
    reset = read(failed(BANNER, rate_limit=REJECTED)).reset
    assert reset is not None
    assert (reset.at, reset.source, reset.window) == (RESET, "event", "session")
    assert reset.other == NOW + timedelta(hours=3)


def test_an_event_that_agrees_with_the_text_has_no_other_reading() -> None:
    event = dataclasses.replace(REJECTED, resets_at=NOW + timedelta(hours=3, seconds=40))
    reset = read(failed(BANNER, rate_limit=event)).reset
    assert reset is not None
    assert reset.other is None


def test_a_rejected_event_without_a_time_leaves_it_to_the_text() -> None:
    reset = read(failed(BANNER, rate_limit=RateLimit(status="rejected"))).reset
    assert reset is not None
    assert (reset.at, reset.source) == (NOW + timedelta(hours=3), "text")


def test_the_time_of_an_allowed_event_is_never_a_reset() -> None:
    reset = read(failed("You've hit your limit.", rate_limit=ALLOWED)).reset
    assert reset is None


def test_a_field_of_the_verdict_wins_over_the_text() -> None:
    reset = read(failed(BANNER, reset_at=RESET)).reset
    assert reset is not None
    assert (reset.at, reset.source) == (RESET, "field")


@pytest.mark.parametrize("years", [2, 55_000 // 1000])
def test_an_absurd_structured_time_is_passed_over(years: int) -> None:
    far = NOW + timedelta(days=366 * years)
    reset = read(failed(BANNER, rate_limit=dataclasses.replace(REJECTED, resets_at=far))).reset
    assert reset is not None
    assert reset.source == "text"


def test_a_throttle_keeps_the_time_it_asks_for() -> None:
    reset = read(failed("Rate limit exceeded. Please try again in 20 seconds.")).reset
    assert reset is not None
    assert reset.at == NOW + timedelta(seconds=20)


def test_the_clock_beside_a_throttle_is_the_rest_of_an_older_message() -> None:
    reading = read(failed("API Error: limiting requests (not your usage limit)\n· resets 3pm (UTC)"))
    assert (reading.outcome, reading.reset) == (Outcome.TRANSIENT, None)


def test_what_a_person_must_do_has_no_reset() -> None:
    assert read(failed("Credit balance is too low. Try again in 59s")).reset is None


# --- sessions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("success", "seen"),
        ("throttle 429", "seen"),
        ("not logged in", "seen"),
        ("turn cap", "seen"),
        ("flagged, nothing known", "seen"),
        ("flagged limit", None),
        ("old banner", None),
        ("too long by name", None),
        ("id unknown", None),
        ("id taken", "known"),
        ("nothing printed", "known"),
        ("deadline", "known"),
        ("stopped before a result", "known"),
    ],
)
def test_the_session_to_go_on_with(name: str, kept: str | None) -> None:
    row = next(row for row in TABLE if row.name == name)
    assert read(row.response, ended=row.ended, stderr=row.stderr, session_id="known").session_id == kept


@pytest.mark.parametrize(
    "printed",
    ["x; touch /tmp/pwned #", "a b", "a\nb", "-rf", "", "é", "x" * 129, "../../etc"],
    ids=["shell", "blank", "newline", "option", "empty", "letter", "long", "path"],
)
def test_an_id_that_could_hurt_is_not_taken(printed: str) -> None:
    response = dataclasses.replace(succeeded(), session_id=printed)
    assert read(response, session_id="known").session_id == "known"
    assert read(NOTHING, session_id=printed).session_id is None


def test_a_session_full_of_context_errors_is_not_resumed_after_a_stop() -> None:
    response = Response(session_id="seen", api_error="ContextOverflowError")
    assert read(response, ended=Ended.STOPPED).session_id is None
    assert read(response, ended=Ended.DEADLINE).session_id is None


# --- reasons and patterns ------------------------------------------------------------------------


def test_every_reading_says_why_and_in_whose_words() -> None:
    reading = read(failed("API Error: 529 Overloaded. This is usually temporary."))
    assert reading.because.startswith("transient")
    assert "Overloaded" in reading.because
    assert reading.details["family"] == "overload"
    assert all(read(row.response, ended=row.ended, stderr=row.stderr).because for row in TABLE)


def test_a_users_pattern_comes_before_the_built_in_families() -> None:
    patterns = [("kaput today", "limit"), ("overloaded", "needs_human")]
    assert read(failed("Kaput today, back in 2 hours"), patterns=patterns).outcome is Outcome.LIMIT
    assert read(failed("529 Overloaded"), patterns=patterns).outcome is Outcome.NEEDS_HUMAN
    assert read(NOTHING, stderr="kaput today", patterns=patterns).outcome is Outcome.LIMIT
    assert read(succeeded("kaput today"), patterns=patterns).outcome is Outcome.SUCCESS


# --- statements and talk ---------------------------------------------------------------------------

STATEMENTS = {
    Kind.LIMIT: (
        "✗ 5-hour limit reached ∙ resets 3am",
        "You've reached your Fable 5 limit. Run /usage-credits to continue or switch models with /model.",
        "CLI exited with code 1: You've hit your limit · resets 2:40pm (Europe/London)",
        '403 {"error":{"message":"You\'ve reached your usage limit for this billing cycle."}}',
        "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-05-18 11:22:32",
        "✕ Allocated quota exceeded, please increase your quota limit.",
        "✕ Qwen API quota exceeded: Your Qwen API quota has been exhausted.",
        "Free usage exceeded, subscribe to Go [retrying in 1h 30m attempt #5]",
        "Rate Limited [retrying in 2h5m attempt #4]",
        "Rate limit reached for x on requests per day (RPD): Limit 200, Used 200.",
        "Too many tokens per day, please wait before trying again.",
        "google returned 429: Your quota will reset after 18h31m10s",
        "You're out of usage credits · resets 7:50pm",
        "Monthly message limit reached. Upgrade or wait for your limit to reset.",
        "Error: You are out of requests for this month",
        "Amp Free limit reached. Wait until the next hour starts.",
        "已达到 5 小时的使用上限。",
        "You've hit your session lim\nit · resets 3pm",
        '{"type":"turn.failed","error":{"message":"You\'ve hit your usage limit."}}',
        '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","rateLimitType":"five_hour"}}',
        "stream disconnected before completion\nERROR: You've hit your usage limit.",
    ),
    Kind.TRANSIENT: (
        "API Error (529) · Retrying in 5s · attempt 3/10",
        "Rate limit exceeded. Please wait a moment and try again.",
        "google returned 429: Your quota will reset after 39s",
        "Too Many Requests [retrying in 2m 5s attempt #3]",
        "HTTP 503 MODEL_CAPACITY_EXHAUSTED on claude-opus-4-6",
        "Opus is experiencing high load, please use /model to switch to Sonnet",
        "unexpected status 503: upstream connect error or disconnect/reset before headers. reset reason: x",
        "TypeError: fetch failed",
        "Error: T: [resource_exhausted] Error",
        "stream disconnected, request id: req_7ed401c82d7429a",
        "Unable to connect to API due to poor internet connection",
    ),
    Kind.CONTEXT: (
        "prompt is too long: 208310 tokens > 200000 maximum",
        "Context limit reached · /compact or /clear to continue",
        "The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).",
        "Codex ran out of room in the model's context window. Start a new thread.",
        '{"error":{"message":"x","code":"context_length_exceeded","data":"context_length_exceeded"}}',
    ),
    Kind.AUTH: (
        "OAuth token revoked · Please run /login",
        'API Error: 401 {"type":"error","error":{"message":"invalid x-api-key"}}',
        "Failed to authenticate: OAuth session expired and could not be refreshed",
        "This organization has been disabled.",
        "403 Forbidden: Access blocked by Cloudflare",
    ),
    Kind.BILLING: (
        "Credit balance is too low",
        "Your workspace is out of credits.",
        "You hit your spend cap set by the owner of your workspace.",
        "Quota exceeded. Check your plan and billing details.",
        "LLM provider error: Membership expired, please renew your plan",
        "402 Payment Required: Insufficient balance",
    ),
    Kind.BAD_MODEL: ("The model `gpt-9` does not exist or you do not have access to it.",),
    Kind.UNTRUSTED: ("Not inside a trusted directory and --skip-git-repo-check was not specified.",),
    Kind.ENTITLEMENT: ("To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com",),
    Kind.SESSION_LOST: (
        "Error: thread/resume failed: no rollout found for thread id 4e69",
        "Session not found",
    ),
    Kind.SESSION_TAKEN: ("Error: Session Id 8b33 already exists (active or archived). Delete it first.",),
    Kind.TURN_CAP: ("Error: Reached max turns (10)",),
    Kind.BUDGET: ("Run aborted: wall-clock budget of 3s exceeded (--max-wall-time).",),
}

TALK = (
    "You've used 92% of your weekly limit · resets May 9 at 3pm",
    "Approaching 5-hour limit · resets 3pm",
    "Claude Opus 4 limit reached, now using Sonnet 4",
    "Current session\n████ 12% used\nResets 3pm (UTC)",
    "Weekly limit: 20% left · resets May 9",
    "You are close to your usage limit. Your limit resets at 5pm.",
    "You have 3 messages left until 4:00 PM.",
    "You could hit your usage limit if you keep going.",
    "session limit resets at 3pm",
    "Usage limit reset! You can continue.",
    'Added a test that checks the "5-hour limit reached ∙ resets 3pm" banner is parsed.',
    'assert classify("You\'ve hit your session limit · resets 3pm") == "limit"',
    'The CHANGELOG says: "You\'ve hit your limit" was reworded in 2.1.4.',
    "Here is the section:\n```\nClaude usage limit reached. Your limit will reset at 3pm.\n```\n",
    "The function now raises RateLimitError when the quota is exceeded.",
    "I hit the rate limit of the GitHub API, waited, and finished the task.",
    "All tests pass. The retry logic handles 429 and 503 with exponential backoff.",
    "The CI job failed with `Error: connect ETIMEDOUT 10.0.0.1:443`; it is unrelated to this change.",
    "Login page done. Users who are not logged in are redirected to /login.",
    "Done. The session expired message is now localized.",
    "Three of the four hit Codex's usage limit (#151) - no code review delivered.",
    "- usage limit reached → pause\n- overloaded → retry",
    "the rate limiter in worker.js is wrong",
    "测试通过。已为 usage limit reached 添加处理。",
    "你已使用超过 75% 的每周使用限额。你的限额将在 4 月 24 日下午 3 点重置。",
    '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}',
    '{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1791236400}}',
    '{"type":"user","message":{"content":[{"type":"tool_result","content":"429 rate_limit"}]}}',
    '{"type":"result","subtype":"success","is_error":false,"result":"You\'ve hit your session limit"}',
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [pytest.param(kind, text, id=text[:60]) for kind, texts in STATEMENTS.items() for text in texts],
)
def test_a_programs_statement_is_of_its_kind_flagged_or_not(kind: Kind, text: str) -> None:
    for flagged in (True, None):
        match = read_message(text, channel="stderr", error=flagged)
        assert match is not None, flagged
        assert match.kind is kind, match


@pytest.mark.parametrize("text", TALK, ids=lambda text: text[:60])
def test_talk_about_limits_and_errors_is_no_message(text: str) -> None:
    assert read_message(text, channel="stdout") is None


def test_inside_a_flagged_error_the_words_may_stand_anywhere() -> None:
    text = "The agent gave up when it was told that it had hit a snag: quota exceeded errors"
    assert read_message(text) is None
    assert read_message(text, error=True) is not None
    assert read_message(BANNER, error=False) is None


def test_the_line_of_its_own_wins_over_words_inside_the_kept_partial_answer() -> None:
    text = "I wrote that you've hit your weekly limit.\nAPI Error: Connection lost mid-response."
    match = read_message(text, error=True)
    assert match is not None
    assert match.kind is Kind.TRANSIENT


# --- any text at all -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_expression_matches_a_text_without_one_of_its_needles(family: Family) -> None:
    """The needles only save time: they must never decide."""

    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.from_regex(family.regex, fullmatch=True))
    def claim(text: str) -> None:
        assert family.may_match(" ".join(text.split()).lower())

    claim()


_WORDS = st.sampled_from(
    [
        "You've hit your ",
        "limit",
        " reached",
        "|",
        "1778000000",
        " resets ",
        "3pm",
        "429",
        "quota ",
        "```",
        "\n",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(st.text(), st.lists(st.one_of(_WORDS, st.text(max_size=4)), max_size=12).map("".join)),
    verdict=st.sampled_from(Verdict),
    ended=st.sampled_from(Ended),
    error=st.booleans(),
)
def test_any_answer_has_an_outcome_and_a_usable_id(
    text: str, verdict: Verdict, ended: Ended, error: bool
) -> None:
    response = Response(
        verdict=verdict, is_error=error, subtype=text[:9], text=text, plain=text, session_id=text
    )
    reading = read(response, ended=ended, stderr=text, session_id="known")
    assert reading.because
    assert reading.session_id is None or reading.session_id.replace("-", "").replace("_", "").isalnum()
    assert reading.reset is None or reading.reset.at.tzinfo is not None


@settings(max_examples=200, deadline=None)
@given(stdout=st.binary(max_size=200), stderr=st.text(max_size=100))
def test_every_reader_takes_any_bytes(stdout: bytes, stderr: str) -> None:
    for reader in (codex.read, gemini.read, opencode.read, qwen.read):
        assert isinstance(reader(stdout, stderr), Response)
    assert isinstance(read_bytes(stdout), Response)


_EVENTS = st.dictionaries(
    st.sampled_from(
        ["type", "error", "item", "part", "message", "usage", "payload", "session_id", "stats", "data"]
    ),
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(["error", "result"])
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["turn.failed", "error", "result", "step_finish", "event_msg", "message"]),
    event=_EVENTS,
)
def test_every_reader_takes_events_of_any_shape(kind: str, event: dict[str, Any]) -> None:
    for document in (event, {**event, "type": kind}):
        data = json.dumps(document).encode()
        for reader in (codex.read, gemini.read, opencode.read, qwen.read):
            response = reader(data, data.decode())
            assert read(response).because


def _seconds(text: str) -> float:
    best = 1e9
    for _ in range(3):
        began = time.perf_counter()
        read(failed(text))
        best = min(best, time.perf_counter() - began)
    return best


@pytest.mark.parametrize(
    "seed",
    [
        "You've hit your a b c ",
        "quota x ",
        "error: 429 ",
        "prompt of 1 tokens ",
        "{",
        "\\u",
        "limit reached|",
        "a",
    ],
    ids=repr,
)
def test_twice_the_text_costs_at_most_about_twice_the_time(seed: str) -> None:
    """A quadratic reader takes four times as long; the ratio leaves room for a busy machine."""
    half = seed * (500_000 // len(seed))
    assert _seconds(half * 2) < 3.5 * _seconds(half) + 0.05
