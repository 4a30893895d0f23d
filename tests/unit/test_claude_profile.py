"""The Claude profile without the program: argv, permissions, the end of an output, the facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from watcher.agents.claude import DENIED, LINE_MAX, PROFILE, TAIL, UNSUITABLE_TOOLS, permission_settings
from watcher.agents.profile import Ask, profile
from watcher.response import Verdict

ID = "0f2c6a2e-6f52-4c38-9d53-0d6d1d9b1b11"
INIT = {"type": "system", "subtype": "init", "session_id": ID}
SAID = {"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}, "session_id": ID}
RESULT = {"subtype": "success", "is_error": False, "result": "done", "type": "result", "session_id": ID}
LIMIT_EVENT = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}


def ask(**changes: Any) -> Ask:
    given: dict[str, Any] = {"session_id": ID, "resume": False, "max_turns": 12, "output": "stream-json"}
    return Ask(**{**given, **changes})


def argv(**changes: Any) -> list[str]:
    return PROFILE.argv(["claude"], ask(**changes))


def after(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def rules(**changes: Any) -> dict[str, list[str]]:
    permissions: dict[str, list[str]] = json.loads(after(argv(**changes), "--settings"))["permissions"]
    return permissions


def test_a_profile_is_found_by_name_and_an_unknown_name_lists_the_known_ones() -> None:
    assert profile("claude") is PROFILE
    with pytest.raises(KeyError, match="known: claude"):
        profile("clod")


def test_the_command_may_be_several_words_and_stays_first() -> None:
    assert PROFILE.argv(["nice", "-n5", "/opt/claude"], ask())[:4] == ["nice", "-n5", "/opt/claude", "-p"]


@pytest.mark.parametrize(
    ("changes", "pair"),
    [
        ({}, ("--session-id", ID)),
        ({"resume": True}, ("--resume", ID)),
        ({}, ("--max-turns", "12")),
        ({}, ("--output-format", "stream-json")),
        ({"output": "json"}, ("--output-format", "json")),
        ({}, ("--permission-mode", "acceptEdits")),
        ({}, ("--setting-sources", "")),
        ({"model": "opus"}, ("--model", "opus")),
        ({"budget_usd": 1.5}, ("--max-budget-usd", "1.500000")),
        ({"schema": "{}"}, ("--json-schema", "{}")),
        ({"instruction_file": Path("/p/AGENTS.md")}, ("--append-system-prompt-file", "/p/AGENTS.md")),
        ({"instruction_file": Path("/p/AGENTS.md")}, ("--system-prompt-snapshot", "off")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_what_is_asked_becomes_its_flag(changes: dict[str, Any], pair: tuple[str, str]) -> None:
    assert after(argv(**changes), pair[0]) == pair[1]


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({}, "--resume"),
        ({"resume": True}, "--session-id"),
        ({"session_id": None}, "--session-id"),
        ({"output": "json"}, "--verbose"),
        ({}, "--model"),
        ({}, "--append-system-prompt-file"),
        ({}, "--json-schema"),
        ({}, "--max-budget-usd"),
        ({"budget_usd": 0.0}, "--max-budget-usd"),
        ({"budget_usd": -1.0}, "--max-budget-usd"),
        ({"budget_usd": float("nan")}, "--max-budget-usd"),
        ({"budget_usd": float("inf")}, "--max-budget-usd"),
    ],
)
def test_what_is_not_asked_leaves_no_flag(changes: dict[str, Any], flag: str) -> None:
    assert flag not in argv(**changes)


def test_an_option_of_many_values_is_followed_by_an_option() -> None:
    """`--allowedTools A B` would swallow what follows; the prompt is on stdin, but not only the prompt."""
    args = argv(extra_args=("--add-dir", "/a", "/b"))
    for flag, values in (("--disallowedTools", 1), ("--add-dir", 2)):
        assert args[args.index(flag) + values + 1].startswith("--")
    assert args[-1] == "--verbose"


def test_configured_arguments_come_before_what_the_supervisor_relies_on() -> None:
    args = argv(extra_args=("--permission-mode", "plan"))
    assert args.index("plan") > args.index("acceptEdits")
    assert args.index("plan") < min(args.index(f) for f in ("--settings", "--session-id", "--max-turns"))


@pytest.mark.parametrize("arg", ["--resume", "--output-format=text", "--settings", "-c", "--", "--verbose"])
def test_an_argument_that_would_break_the_poke_is_refused_by_name(arg: str) -> None:
    with pytest.raises(ValueError, match=arg):
        argv(extra_args=("--effort", "low", arg))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"output": "text"}, "output form"), ({"resume": True, "session_id": None}, "needs a session id")],
)
def test_an_impossible_request_is_an_error(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        argv(**changes)


def test_tools_that_outlive_a_poke_are_taken_away() -> None:
    named = after(argv(), "--disallowedTools").split(",")
    assert named == list(UNSUITABLE_TOOLS)
    assert {"ScheduleWakeup", "CronCreate", "Monitor", "RemoteTrigger"} <= set(named)


def test_edits_and_commits_are_allowed_and_a_push_never() -> None:
    standing = rules(allow=("Bash",))
    assert {"Edit", "Write", "Bash(git add *)", "Bash(git commit *)", "Bash"} <= set(standing["allow"])
    assert not any("push" in rule for rule in standing["allow"])
    assert set(DENIED) <= set(standing["deny"])


@pytest.mark.parametrize(
    ("gate", "rule"),
    [
        ("pytest -q", "Bash(pytest -q *)"),
        ("  ./gate.sh ", "Bash(./gate.sh *)"),
        ("make check && make lint", "Bash(make check && make lint)"),
        ("python3 -c 'print(1)'", "Bash(python3 -c 'print(1)')"),
    ],
)
def test_a_gate_may_be_run_and_only_a_plain_one_with_more_arguments(gate: str, rule: str) -> None:
    """Further arguments of a compound command would be a rule the program never matches."""
    assert rules(gates=(gate,))["allow"][-1] == rule


def test_a_rule_given_twice_is_passed_once() -> None:
    assert rules(deny=("Bash(git push *)", "WebFetch"))["deny"] == [*DENIED, "WebFetch"]


@pytest.mark.parametrize(
    "rule",
    [
        "Read",
        "Bash",
        "*",
        "Bash(npm run *)",
        "Bash(git log:*)",
        "Edit(/etc/**)",
        "WebFetch(domain:x.org)",
        "Bash(python3 -c 'print(1)')",
        "mcp__server",
        "mcp__server__tool",
        "mcp__server__*",
        "Bash(grep -e é *)",
    ],
)
def test_a_good_rule_is_passed_on_as_it_is(rule: str) -> None:
    settings = json.loads(permission_settings([rule], [rule], []))["permissions"]
    assert settings["allow"][-1] == settings["deny"][-1] == rule


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "  ",
        " Bash(ls)",
        "bash(rm *)",
        "Bash(",
        "Bash)",
        "Bash()",
        "Bash( )",
        "Bash(ls",
        "Bash(a\nb)",
        "Bash(ls)\n",
        "Bash(a) Bash(b)",
        "Bash(a), Bash(b)",
        "Bash(git:*push)",
        5,
        None,
        ["Bash"],
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["allow", "deny"])
def test_a_rule_the_program_would_silently_ignore_is_refused_by_name(kind: str, rule: Any) -> None:
    given = {"allow": [], "deny": [], kind: [rule]}
    with pytest.raises(ValueError, match=f"in {kind}") as error:
        permission_settings(given["allow"], given["deny"], [])
    assert repr(rule) in str(error.value)


@pytest.mark.parametrize("gate", ["", " ", "a\nb", 7], ids=repr)
def test_a_gate_that_cannot_be_a_rule_is_refused_by_name(gate: Any) -> None:
    with pytest.raises(ValueError, match="gate command"):
        permission_settings([], [], [gate])


def test_background_work_and_updates_are_off_and_retries_bounded() -> None:
    env = PROFILE.env()
    assert env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == env["DISABLE_AUTOUPDATER"] == "1"
    assert int(env["CLAUDE_CODE_MAX_RETRIES"]) <= 5


def lines(*events: Any) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


LONG = {**RESULT, "result": "x" * (3 * TAIL)}
HUGE = {"result": "x" * (2 * LINE_MAX), "subtype": "success", "type": "result", "is_error": False}
QUOTED = {**SAID, "message": {"content": [{"type": "text", "text": json.dumps(RESULT) + "x" * 2 * LINE_MAX}]}}


@pytest.mark.parametrize(
    ("output", "complete"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(lines(INIT, SAID), False, id="a turn is running"),
        pytest.param(lines(INIT, SAID, RESULT), True, id="a result"),
        pytest.param(lines(RESULT), True, id="one object, the json form"),
        pytest.param(lines(RESULT)[:-1], True, id="without a line end"),
        pytest.param(lines(INIT, RESULT) + b"\n \n", True, id="blank lines after it"),
        pytest.param(lines([INIT, SAID, RESULT]), True, id="the json form with --verbose"),
        pytest.param(lines([INIT, SAID]), False, id="an array without a result"),
        pytest.param(lines(INIT, SAID, RESULT)[:-20], False, id="a result cut while written"),
        pytest.param(lines(INIT, RESULT, LIMIT_EVENT), True, id="an event of no turn after it"),
        pytest.param(lines(INIT, RESULT) + b"warning: junk\n", True, id="junk after it"),
        pytest.param(lines(INIT, RESULT, INIT), False, id="another turn began"),
        pytest.param(lines(INIT, RESULT, INIT, SAID, RESULT), True, id="another turn ended"),
        pytest.param(lines(INIT, RESULT, SAID), False, id="the agent speaks again"),
        pytest.param(b"\xff\xfe\x00{[\n" * 3, False, id="no text at all"),
        pytest.param(b"[" * 100_000, False, id="nesting without end"),
        pytest.param(lines(INIT, LONG), True, id="a result longer than the first look"),
        pytest.param(lines(INIT, LONG)[:-20], False, id="a long result cut"),
        pytest.param(lines(INIT, HUGE), True, id="a result longer than any look"),
        pytest.param(lines(INIT, QUOTED), False, id="a long text that quotes a result"),
    ],
)
def test_an_output_is_complete_once_its_last_turn_has_a_result(
    tmp_path: Path, output: bytes, complete: bool
) -> None:
    out = tmp_path / "out"
    out.write_bytes(output)
    assert PROFILE.is_complete(out) is complete


def test_an_output_that_is_not_there_is_not_complete(tmp_path: Path) -> None:
    assert PROFILE.is_complete(tmp_path / "none") is False


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    """What the program printed after our first signal is no verdict."""
    out = tmp_path / "out"
    before = lines(INIT, SAID)
    out.write_bytes(before + lines(RESULT))
    assert PROFILE.read(out, limit=None, stderr="").verdict is Verdict.SUCCESS
    cut = PROFILE.read(out, limit=len(before), stderr="")
    assert (cut.verdict, cut.session_id) == (Verdict.NONE, ID)


@pytest.mark.parametrize(
    ("version", "cumulative"),
    [
        ("2.1.332", True),
        ("2.1.332 (Claude Code)", True),
        ("3.0.0", True),
        ("2.0.77", False),
        ("1.0.128", False),
        ("2.1.0", None),
        ("", None),
        ("next", None),
    ],
)
def test_whether_a_cost_is_cumulative_is_known_only_where_it_was_measured(
    version: str, cumulative: bool | None
) -> None:
    assert PROFILE.cost_is_cumulative(version) is cumulative
