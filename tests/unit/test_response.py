"""What an answer means, in every form Claude Code prints it, and in every broken one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.response import (
    RateLimit,
    Response,
    Usage,
    Verdict,
    fields,
    has_result,
    read_bytes,
    read_response,
)

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "claude_code_version": "2.1.332"}
SAID = {
    "type": "assistant",
    "message": {"content": [{"type": "text", "text": "working"}]},
    "session_id": "s-1",
}
DONE = {
    "duration_ms": 149,
    "session_id": "s-1",
    "total_cost_usd": 0.01,
    "usage": {
        "input_tokens": 2000,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 400,
        "output_tokens": 100,
        "output_tokens_details": {"thinking_tokens": 0},
    },
    "modelUsage": {"claude-opus-5-5": {"costUSD": 0.01}, "claude-haiku-4-5": {"costUSD": 0}},
    "permission_denials": [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "git push"}}],
    "terminal_reason": "completed",
    "is_error": False,
    "num_turns": 2,
    "subtype": "success",
    "api_error_status": None,
    "result": "Added the parser.\nALL-TASKS-DONE",
    "structured_output": {"status": "done"},
    "type": "result",
}
QUOTED = {"type": "result", "subtype": "success", "is_error": False, "result": "quoted", "session_id": "s-q"}


def dump(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **options).encode("utf-8", "surrogatepass")


def jsonl(*events: Any) -> bytes:
    return b"".join(dump(event) + b"\n" for event in events)


def result(**changes: Any) -> dict[str, Any]:
    return {**DONE, **changes}


FORMS = {
    "one object": dump(DONE),
    "pretty-printed": dump(DONE, indent=2),
    "an array of all events": dump([INIT, SAID, DONE]),
    "a pretty-printed array": dump([INIT, SAID, DONE], indent=2),
    "JSON lines": jsonl(INIT, SAID, DONE),
    "CRLF and a byte order mark": b"\xef\xbb\xbf" + jsonl(INIT, DONE).replace(b"\n", b"\r\n"),
    "warnings before": b"nvm: no such version\n[WARN] {old}\n" + dump(DONE) + b"\n",
    "warnings before, pretty-printed": b"[WARN] old\n" + dump(DONE, indent=4),
    "warnings before an array": b"motd\n" + dump([INIT, SAID, DONE]),
    "words after": jsonl(INIT, DONE) + b"Terminated\n",
    "words between": jsonl(INIT) + b"(node:1) Warning\n" + jsonl(SAID, DONE),
    "an unfinished line after": jsonl(INIT, SAID, DONE) + b'{"type":"sys',
    "a broken line before": jsonl(INIT) + b'{"type":"assistant","message":{"content":"cut\n' + jsonl(DONE),
    "unknown events": jsonl(INIT, {"type": "of the future", "payload": [1]}, DONE),
    "quoted in a tool result": jsonl({"type": "user", "tool_use_result": QUOTED, "session_id": "s-1"}, DONE),
    "several results": jsonl(INIT, result(result="first", session_id="s-0"), INIT, SAID, DONE),
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_every_form_of_output_is_read(data: bytes, tmp_path: Path) -> None:
    response = read_bytes(data)
    assert response.verdict is Verdict.SUCCESS
    assert response.text == "Added the parser.\nALL-TASKS-DONE"
    assert response.subtype == "success"
    assert response.session_id == "s-1"
    assert response.terminal_reason == "completed"
    assert (response.turns, response.cost_usd) == (2, 0.01)
    assert response.usage == Usage(input=2000, cache_read=400, cache_write=30, output=100)
    assert response.models == ("claude-opus-5-5", "claude-haiku-4-5")
    assert response.denials == ("Bash",)
    assert response.structured == {"status": "done"}
    assert response.document == DONE
    assert response.plain == ""
    (tmp_path / "out").write_bytes(data)
    assert read_response(tmp_path / "out") == response


def test_the_last_of_several_results_counts() -> None:
    first, last = result(result="one"), result(subtype="error_max_turns", result=None, errors=["Reached 1"])
    response = read_bytes(jsonl(INIT, first, INIT, last))
    assert (response.results, response.verdict, response.text) == (2, Verdict.FAILURE, "Reached 1")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"is_error": True}, DONE["result"]),
        ({"is_error": "true"}, DONE["result"]),
        ({"is_error": 1}, DONE["result"]),
        ({"is_error": True, "result": "You've hit your session limit", "api_error_status": 429}, None),
        ({"subtype": "error_max_turns", "result": None, "errors": ["a", "b"]}, "a\nb"),
        ({"subtype": "error_during_execution", "result": "", "errors": []}, ""),
        ({"subtype": "error_during_execution", "result": "said", "errors": None}, "said"),
        ({"subtype": "error_during_execution", "result": None, "error": {"message": "why"}}, "why"),
        ({"is_error": True, "result": "", "errors": ["why"]}, "why"),
        ({"subtype": "rate_limited"}, None),
        ({"subtype": "Success"}, None),
        ({"subtype": ["success"]}, None),
        ({"subtype": 5}, None),
        ({"subtype": None}, None),
    ],
    ids=str,
)
def test_success_is_nothing_but_success_without_the_error_flag(
    changes: dict[str, Any], text: str | None
) -> None:
    response = read_bytes(dump(result(**changes)))
    assert response.verdict is Verdict.FAILURE
    assert response.results == 1
    assert text is None or response.text == text


@pytest.mark.parametrize("is_error", [False, "false", 0, None, ""], ids=repr)
def test_an_error_flag_that_says_no_leaves_the_success(is_error: object) -> None:
    assert read_bytes(dump(result(is_error=is_error))).verdict is Verdict.SUCCESS


@pytest.mark.parametrize(
    ("document", "verdict"),
    [
        ({"subtype": "success", "is_error": False, "result": "ok", "session_id": "s"}, Verdict.SUCCESS),
        ({"subtype": "rate_limited", "is_error": True}, Verdict.FAILURE),
        (
            {"result": "", "session_id": "s", "terminal_reason": "blocking_limit", "is_error": True},
            Verdict.FAILURE,
        ),
        ({"type": None, "subtype": "success"}, Verdict.SUCCESS),
        ({"response": "ok", "stats": {}}, Verdict.NONE),
        ({"type": "turn.completed", "subtype": "success"}, Verdict.NONE),
        ({"type": ["result"], "subtype": "success"}, Verdict.NONE),
        ({**QUOTED, "parent_tool_use_id": "toolu_1"}, Verdict.NONE),
        ({"message": QUOTED}, Verdict.NONE),
        ({}, Verdict.NONE),
    ],
    ids=str,
)
def test_a_result_says_that_it_is_one_or_has_its_fields(document: dict[str, Any], verdict: Verdict) -> None:
    assert read_bytes(dump(document)).verdict is verdict


def test_a_document_of_another_program_is_kept_so_that_it_can_be_named() -> None:
    foreign = {"session_id": "g-1", "response": "ok", "stats": {}}
    response = read_bytes(b"a warning\n" + dump(foreign, indent=2))
    assert (response.verdict, response.plain, response.document) == (Verdict.NONE, "", foreign)


def test_events_without_a_result_are_no_foreign_document() -> None:
    response = read_bytes(jsonl(INIT, SAID, {"type": "of the future"}))
    assert (response.verdict, response.document, response.plain) == (Verdict.NONE, {}, "")
    assert (response.session_id, response.program_version) == ("s-1", "2.1.332")


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("result", ["a"], "text", ""),
        ("result", {"a": 1}, "text", ""),
        ("result", None, "text", ""),
        ("session_id", {"id": "x"}, "session_id", None),
        ("session_id", "", "session_id", None),
        ("total_cost_usd", "0.01", "cost_usd", None),
        ("total_cost_usd", -1, "cost_usd", None),
        ("total_cost_usd", True, "cost_usd", None),
        ("total_cost_usd", float("nan"), "cost_usd", None),
        ("total_cost_usd", float("inf"), "cost_usd", None),
        ("total_cost_usd", 10**400, "cost_usd", None),
        ("total_cost_usd", 0, "cost_usd", 0.0),
        ("num_turns", "2", "turns", None),
        ("num_turns", -2, "turns", None),
        ("usage", None, "usage", None),
        ("usage", [], "usage", None),
        ("usage", {}, "usage", Usage()),
        ("usage", {"input_tokens": "5", "output_tokens": 7}, "usage", Usage(output=7)),
        ("modelUsage", ["m"], "models", ()),
        ("permission_denials", None, "denials", ()),
        ("permission_denials", {}, "denials", ()),
        (
            "permission_denials",
            [{"tool_name": 5}, "Edit", None, {}],
            "denials",
            ("5", "Edit", "(unnamed)", "(unnamed)"),
        ),
        ("api_error_status", 429, "api_status", 429),
        ("api_error_status", "529", "api_status", 529),
        ("api_error_status", "soon", "api_status", None),
        ("terminal_reason", {"a": 1}, "terminal_reason", ""),
        ("api_error", "usage_limit_reached", "api_error", "usage_limit_reached"),
        ("api_error", ["x"], "api_error", ""),
        ("structured_output", [1], "structured", [1]),
    ],
    ids=str,
)
def test_a_field_of_a_wrong_type_is_as_good_as_missing(
    name: str, value: object, field: str, expected: object
) -> None:
    response = read_bytes(dump(result(**{name: value})))
    assert getattr(response, field) == expected
    assert response.verdict is Verdict.SUCCESS


def test_a_result_may_miss_every_field() -> None:
    response = read_bytes(b'{"type":"result"}')
    assert response == Response(verdict=Verdict.FAILURE, results=1, document={"type": "result"})


NOON = datetime(2026, 9, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("limits", "at"),
    [
        ({"five_hour": {"resets_at": NOON.timestamp()}}, NOON),
        ({"five_hour": {"resets_at": str(int(NOON.timestamp() * 1000))}}, NOON),
        ({"five_hour": {"resets_at": "00" + str(int(NOON.timestamp()))}}, NOON),
        ({"five_hour": {"resets_at": "2026-09-08T14:00:00+02:00"}}, NOON),
        ({"five_hour": {"resets_at": "2026-09-08T12:00:00"}}, NOON),
        ({"five_hour": {"resets_at": ""}}, None),
        ({"five_hour": {"resets_at": 5}}, None),
        ({"five_hour": [1]}, None),
        ("soon", None),
    ],
    ids=str,
)
def test_a_structured_reset_of_the_verdict_is_read(limits: object, at: datetime | None) -> None:
    document = {"subtype": "rate_limited", "is_error": True, "rate_limits": limits}
    assert read_bytes(dump(document)).reset_at == at


def limit_event(**info: Any) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": info, "session_id": "s-1"}


REJECTED = limit_event(status="rejected", resetsAt=int(NOON.timestamp()), rateLimitType="five_hour")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([REJECTED], RateLimit(status="rejected", resets_at=NOON, window="five_hour")),
        ([REJECTED, limit_event(status="allowed")], RateLimit(status="allowed")),
        (
            [limit_event(status="allowed"), REJECTED],
            RateLimit(status="rejected", resets_at=NOON, window="five_hour"),
        ),
        ([limit_event(status="rejected")], RateLimit(status="rejected")),
        (
            [limit_event(status="allowed", isUsingOverage=True)],
            RateLimit(status="allowed", using_overage=True),
        ),
        ([limit_event(status="x", resetsAt="never", rateLimitType=[])], RateLimit(status="x")),
        ([limit_event(status=None)], None),
        ([{"type": "rate_limit_event", "rate_limit_info": "rejected"}], None),
        ([{"type": "user", "rate_limit_info": {"status": "rejected"}}], None),
        ([{"type": "user", "in": REJECTED}], None),
    ],
    ids=[
        "one",
        "allowed later",
        "rejected later",
        "no time",
        "overage",
        "odd",
        "no status",
        "no info",
        "user",
        "in",
    ],
)
def test_the_last_rate_limit_event_counts(events: list[dict[str, Any]], expected: RateLimit | None) -> None:
    assert read_bytes(jsonl(INIT, *events, DONE)).rate_limit == expected
    assert read_bytes(jsonl(INIT, *events)).rate_limit == expected


def test_the_newest_session_id_counts() -> None:
    newer = {"type": "assistant", "session_id": "s-2"}
    assert read_bytes(jsonl(INIT, newer)).session_id == "s-2"
    assert read_bytes(jsonl(INIT, newer, result(session_id="s-3"))).session_id == "s-3"
    assert read_bytes(jsonl(INIT, newer, result(session_id=None))).session_id == "s-2"
    assert read_bytes(jsonl(DONE, newer)).session_id == "s-2"
    assert read_bytes(jsonl(INIT, {"type": "user", "tool_use_result": QUOTED})).session_id == "s-1"


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        (b"", ""),
        (b" \n", ""),
        (
            b"\xef\xbb\xbfYou've hit your limit \xc2\xb7 resets 3pm\r\n",
            "You've hit your limit \u00b7 resets 3pm",
        ),
        (b"42\n", "42"),
        (b"null", "null"),
        (b"[1, 2]", "[1, 2]"),
        (b"\xff\n", "\ufffd"),
        (b'API Error: 529 {"type":"error","error":{}}', 'API Error: 529 {"type":"error","error":{}}'),
    ],
)
def test_an_output_of_nothing_but_words_is_kept_as_words(data: bytes, plain: str) -> None:
    response = read_bytes(data)
    assert (response.verdict, response.plain, response.document) == (Verdict.NONE, plain, {})


def test_an_output_of_many_words_keeps_both_ends() -> None:
    plain = read_bytes(b"first " + b"words " * 100_000 + b"last").plain
    assert len(plain) < fields.TEXT_MAX + 100
    assert (plain[:6], plain[-4:]) == ("first ", "last")


def test_a_result_cut_short_is_no_words_either() -> None:
    """What it quotes must not be taken for an error that is the whole output."""
    assert read_bytes(dump(result(result="You've hit your session limit"))[:-1]) == Response()


def test_a_text_holds_no_lone_surrogate() -> None:
    response = read_bytes(dump(result(result="a\ud800b", structured_output={"\udfff": ["\ud83d"]})))
    assert response.verdict is Verdict.SUCCESS
    assert response.text == "a?b"
    orjson.dumps([response.document, response.structured])


def test_the_document_for_the_history_is_bounded_and_the_text_is_not() -> None:
    text = "words\n" * 500_000
    response = read_bytes(dump(result(result=text, structured_output=list(range(100_000)))))
    assert response.text == text
    assert response.structured == list(range(100_000))
    assert len(orjson.dumps(response.document)) <= fields.DOCUMENT_MAX
    assert "characters left out" in response.document["result"]
    assert response.document["_left_out"] == ["structured_output"]
    assert response.document["num_turns"] == 2


def test_a_missing_file_is_an_empty_answer(tmp_path: Path) -> None:
    assert read_response(tmp_path / "missing") == Response()
    assert has_result(tmp_path / "missing") is False


def test_only_what_came_before_the_limit_is_read(tmp_path: Path) -> None:
    first, second = jsonl(INIT, result(result="one")), jsonl(INIT, result(result="two"))
    (tmp_path / "out").write_bytes(first + second)
    assert read_response(tmp_path / "out", limit=len(first)).text == "one"
    assert read_response(tmp_path / "out", limit=len(first) + 20).text == "one"
    assert read_response(tmp_path / "out", limit=10**9).text == "two"
    for limit in (0, -1, len(first) - 3):
        assert read_response(tmp_path / "out", limit=limit).verdict is Verdict.NONE


HOLDING = [
    ("nothing", b"", False),
    ("words", b"Loading\n", False),
    ("init", jsonl(INIT), False),
    ("one object", dump(DONE), True),
    ("one object, cut", dump(DONE)[:-1], False),
    ("an array", dump([INIT, DONE]), True),
    ("an array, cut", dump([INIT, DONE])[:-1], True),
    ("an array, cut in the result", dump([INIT, DONE])[:-2], False),
    ("an array that goes on", dump([INIT, DONE, SAID]), False),
    ("pretty-printed", dump(DONE, indent=2) + b"\n", True),
    ("pretty-printed, cut", dump(DONE, indent=2)[:-1], False),
    ("lines", jsonl(INIT, SAID, DONE), True),
    ("lines without the last break", jsonl(INIT, SAID, DONE)[:-1], True),
    ("words after", jsonl(INIT, DONE) + b"bye\n", True),
    ("words before on its line", b"Loading... " + dump(DONE), True),
    ("byte order mark", b"\xef\xbb\xbf" + dump(DONE), True),
    ("a limit event after", jsonl(INIT, DONE, limit_event(status="allowed")), True),
    ("news of a task after", jsonl(DONE, {"type": "system", "subtype": "task_notification"}), True),
    ("another turn begins", jsonl(INIT, DONE, INIT), False),
    ("another turn goes on", jsonl(INIT, DONE, INIT, SAID), False),
    ("another turn is being printed", jsonl(INIT, DONE) + b'{"type":"sys', False),
    ("another turn ended", jsonl(INIT, DONE, INIT, SAID, DONE), True),
    ("quoted", jsonl({"type": "user", "tool_use_result": QUOTED}), False),
    ("a long answer", dump(result(result="words\n" * 300_000)), True),
    ("a long answer, cut", dump(result(result="words\n" * 300_000))[:-1], False),
    ("a long event", jsonl(INIT, DONE, {**SAID, "x": "words\n" * 300_000}), False),
    ("much news after", jsonl(DONE, *[{"type": "system", "subtype": "status"}] * 3000), True),
    ("much news", jsonl(*[{"type": "system", "subtype": "status"}] * 3000), False),
]


@pytest.mark.parametrize(("data", "holds"), [row[1:] for row in HOLDING], ids=[row[0] for row in HOLDING])
def test_a_result_holds_until_another_turn_begins(data: bytes, holds: bool, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(data)
    assert has_result(tmp_path / "out") is holds


def test_a_growing_output_has_its_result_from_the_byte_that_completes_it(tmp_path: Path) -> None:
    path, before, last = tmp_path / "out", jsonl(INIT, SAID), dump(DONE)
    for end in range(0, len(last) + 1, 1):
        path.write_bytes(before + last[:end])
        assert has_result(path) is (end == len(last))


@pytest.mark.parametrize("data", [FORMS[name] for name in ("one object", "pretty-printed", "JSON lines")])
def test_an_output_cut_anywhere_has_no_verdict_before_its_result_ends(data: bytes) -> None:
    end = data.rstrip().rindex(b"}") + 1
    for cut in range(end):
        assert read_bytes(data[:cut]).verdict is Verdict.NONE
    assert read_bytes(data[:end]).verdict is Verdict.SUCCESS


def test_an_array_has_its_verdict_from_the_end_of_the_result_on() -> None:
    data = dump([INIT, {"type": "user", "tool_use_result": QUOTED}, DONE])
    assert [read_bytes(data[:end]).verdict for end in range(len(data) - 1)] == [Verdict.NONE] * (
        len(data) - 1
    )
    assert read_bytes(data[:-1]).verdict is Verdict.SUCCESS


NOISE = st.lists(st.text(st.characters(codec="utf-8", exclude_characters='{}["'), max_size=20), max_size=3)


@settings(deadline=None)
@given(NOISE, NOISE)
def test_words_around_a_result_change_nothing(before: list[str], after: list[str]) -> None:
    head = "".join(line + "\n" for line in before).encode()
    tail = "".join("\n" + line for line in after).encode()
    assert read_bytes(head + dump(DONE) + tail) == read_bytes(dump(DONE))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(DONE)), JSON),
    st.sampled_from(["result", "rate_limit_event", None]),
)
def test_no_result_is_refused_for_its_values(changes: dict[str, Any], kind: str | None) -> None:
    response = read_bytes(dump({**DONE, **changes, "type": kind, "rate_limit_info": changes}))
    orjson.dumps(response.document)
    response.text.encode()
    assert response.cost_usd is None or response.cost_usd >= 0


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_are_refused(before: bytes, after: bytes) -> None:
    read_bytes(before)
    read_bytes(before + dump(DONE) + after)


CHILD = """
import sys
from pathlib import Path
from watcher.response import has_result, read_response

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

read_response(Path(sys.argv[1]))
before = peak()
response, ends = read_response(Path(sys.argv[2])), has_result(Path(sys.argv[2]))
print(peak() - before, response.verdict.value, response.session_id, ends)
print(len(response.text), len(response.plain), ascii(response.text[:5]), ascii(response.text[-4:]))
"""
MEGABYTE = 1 << 20
EVENT = dump({**SAID, "message": {"content": [{"type": "text", "text": "words\n" * 100}]}})


def many(piece: bytes, megabytes: int = 100) -> Iterator[bytes]:
    chunk = piece * (MEGABYTE // len(piece) + 1)
    return (chunk for _ in range(megabytes))


def lines() -> Iterator[bytes]:
    yield from many(EVENT + b"\n")
    yield dump(DONE) + b"\n"


def one_text() -> Iterator[bytes]:
    yield dump(DONE).replace(b'"Added', b'"first').partition(b"the parser")[0]
    yield from many(b"words\\n")
    yield b'last","session_id":"s-1","type":"result"}'


def one_array() -> Iterator[bytes]:
    yield b"["
    yield from many(EVENT + b",")
    yield dump(DONE) + b"]"


def flood() -> Iterator[bytes]:
    yield from many(b"words [of] {no} meaning\n")
    yield dump(DONE) + b"\n"


def flood_in_one_line() -> Iterator[bytes]:
    yield from many(b"words [of] {no} meaning ")
    yield b"\n" + dump(DONE) + b"\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
@pytest.mark.parametrize("output", [lines, one_text, one_array, flood, flood_in_one_line])
def test_an_answer_of_100_megabytes_is_read_in_bounded_memory(output: Any, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(dump(DONE))
    with large.open("wb") as file:
        file.writelines(output())
    assert large.stat().st_size >= 100 * MEGABYTE
    command = [sys.executable, "-c", CHILD, str(small), str(large)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    large.unlink()
    assert said[1:4] == ["success", "s-1", "True"]
    assert int(said[0]) < 64 * 1024  # kB
    if output is one_text:
        assert 100_000 < int(said[4]) < 2 * MEGABYTE
        assert said[6:] == ["'first'", "'last'"]
