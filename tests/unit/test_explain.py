"""`harness explain`: what an operator is told of an answer is what the loop would make of it (H 6.4)."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest
from click.testing import CliRunner

from tests.conformance import test_documents as documents
from tests.conformance import test_messages as messages
from tests.conformance import test_recordings as recordings
from tests.conftest import ROOT
from tests.unit.test_decide import policy
from watcher.cli.explain import command
from watcher.decision.outcome import Ended, Outcome
from watcher.explain import Channel, Question, explain

LIMIT = "You've hit your session limit · resets 3pm"
AT = ("--at", "2026-11-30T13:00Z", "--tz", "UTC")


def told(data: str | bytes, *argv: object) -> dict[str, Any]:
    """What the command says as JSON, in this process."""
    words = ["--json", *map(str, argv)]
    result = CliRunner().invoke(command, words, input=data, standalone_mode=False, catch_exceptions=False)
    assert result.stderr == ""
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def refused(*argv: object, data: str = LIMIT) -> str:
    """The words of a usage error."""
    with pytest.raises(click.UsageError) as error:
        told(data, *argv)
    return error.value.format_message()


def started(*argv: object, data: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """The real command line, which needs neither a home nor a place for records."""
    env = {"PYTHONPATH": str(ROOT), "HOME": "/nonexistent", **environ}
    words = [sys.executable, "-m", "watcher", "explain", *map(str, argv)]
    return subprocess.run(words, env=env, cwd="/", input=data, capture_output=True, check=False)


# --- the corpus, from outside -------------------------------------------------------------------


def of_message(row: dict[str, Any], channel: str) -> list[str]:
    words = [
        "--agent",
        row["agent"],
        "--channel",
        channel,
        "--at",
        row["observed_at"],
        "--tz",
        row["host_tz"],
    ]
    return [*words, "--no-error"] if row["class"] == "ordinary" else words


SURE = [row for row in messages.ROWS if row["confidence"] == "sure"]


@pytest.mark.parametrize("row", SURE, ids=lambda row: row["id"])
def test_a_message_has_its_class_and_its_reset(row: dict[str, Any]) -> None:
    for channel in {row["channel"], "stdout" if row["class"] == "ordinary" else "result"}:
        found = told(row["text"], *of_message(row, channel))
        assert Outcome[found["outcome"]] in messages.EXPECTED[row["class"]], found["because"]
        if row["class"] in {"limit", "transient"}:
            assert _instant(found["reset"]) == pytest.approx(_instant(row["expected_reset"]), abs=1)


def _instant(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0


DOCUMENTS = [row for row in documents.TABLE if row.ended is Ended.ITSELF]


def of_document(row: documents.Row) -> list[object]:
    path = documents.FOLDER / row.file
    words = ["--agent", row.file.partition("-")[0], "--at", row.now, "--tz", row.zone]
    return [*words, "--stderr", path] if row.stderr else [*words, path]


@pytest.mark.parametrize("row", DOCUMENTS, ids=lambda row: row.file)
def test_a_document_has_its_outcome_and_its_reset(row: documents.Row) -> None:
    found = told(b"", *of_document(row))
    assert found["outcome"] == row.outcome.name, found["because"]
    assert _instant(found["reset"]) == _instant(row.reset)


RECORDED = [row for row in recordings.ROWS if not recordings._stopped(row)]


@pytest.mark.parametrize("row", RECORDED, ids=recordings._name)
def test_a_recorded_run_has_its_outcome(row: dict[str, Any], tmp_path: Path) -> None:
    errors = tmp_path / "stderr"
    errors.write_text(row["stderr"] or " ")
    found = told(row["stdout"].encode(), "--agent", row["cli"], "--stderr", errors, *AT)
    assert found["outcome"] == recordings.EXPECTED[row["outcome"]].name, found["because"]


SAMPLE = [*SURE[:: len(SURE) // 5], *DOCUMENTS[:: len(DOCUMENTS) // 4]]


@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row["id"] if isinstance(row, dict) else row.file)
def test_the_real_command_line_says_what_the_loops_own_functions_say(row: Any) -> None:
    if isinstance(row, dict):
        argv, data, agent = of_message(row, row["channel"]), row["text"].encode(), row["agent"]
        at, zone, channel = row["observed_at"], row["host_tz"], Channel(_event(row["channel"]))
    else:
        argv, data, agent = of_document(row), b"", row.file.partition("-")[0]
        at, zone, channel = row.now, row.zone, None
    said = started("--json", *argv, data=data)
    assert (said.returncode, said.stderr) == (0, b"")
    path = None if isinstance(row, dict) else documents.FOLDER / row.file
    on_stderr = path is not None and row.stderr
    question = Question(
        data=data if path is None or on_stderr else path.read_bytes(),
        agent=agent,
        channel=channel,
        stderr=path.read_text() if path and on_stderr else "",
        error="--no-error" not in argv,
    )
    expected = explain(
        question, now=datetime.fromisoformat(at), zone=ZoneInfo(zone), policy=policy(zone=ZoneInfo(zone))
    )
    found, reset = json.loads(said.stdout), expected.reading.reset
    assert found["outcome"] == expected.reading.outcome.name
    assert found["because"] == expected.reading.because
    assert found["reset"] == (reset.at.isoformat() if reset else None)
    assert found["wait_s"] == expected.wait_s
    assert found["taken_for"] == expected.taken_for


def _event(channel: str) -> str:
    return "event" if channel == "json-field" else channel


# --- what is decided ----------------------------------------------------------------------------


def test_a_limit_is_waited_for_to_its_reset_and_the_margin() -> None:
    found = told(LIMIT, *AT)
    assert (found["outcome"], found["reset"], found["wait_s"]) == (
        "LIMIT",
        "2026-11-30T15:00:00+00:00",
        7320,
    )
    assert found["next"] == "usage limit"
    assert not found["session_kept"]


def test_the_decision_is_made_by_the_rules_of_the_same_agent() -> None:
    """Codex prints a bare clock only for the same day, so a past one is past and not tomorrow's."""
    late = ("--at", "2026-11-30T18:00Z", "--tz", "UTC")
    text = "You've hit your usage limit. Resets 3:00 PM."
    claude, codex = (told(text, "--agent", agent, *late) for agent in ("claude", "codex"))
    assert (codex["reset"], codex["wait_s"]) == ("2026-11-30T15:00:00+00:00", 2)
    assert claude["wait_s"] == 21 * 3600 + 120


@pytest.mark.parametrize(
    ("data", "argv", "outcome", "next_step"),
    [
        ("I added the parser.", ["--no-error"], "SUCCESS", "between pokes"),
        ("ALL-TASKS-DONE", ["--no-error"], "SUCCESS", "done"),
        ("ALL-TASKS-DONE", [], "ERROR", "after an error"),
        ("Not logged in · Please run /login", [], "NEEDS_HUMAN", "a person is needed"),
        ("API Error: 529 Overloaded", [], "TRANSIENT", "provider trouble"),
        ("", [], "UNREADABLE", "after an error"),
        (" \n", [], "UNREADABLE", "after an error"),
        ('{"a": 1}', [], "UNREADABLE", "unusable"),
        ('{"type": "result", "subtype": "new_in_2027"}', [], "UNKNOWN", "unusable"),
    ],
    ids=["work", "sentinel", "flagged sentinel", "login", "overload", "empty", "blank", "foreign", "unknown"],
)
def test_what_would_happen_next_is_said(data: str, argv: list[str], outcome: str, next_step: str) -> None:
    found = told(data, *argv, *AT)
    assert (found["outcome"], found["next"]) == (outcome, next_step)


def test_the_words_for_a_person_hold_the_same_facts() -> None:
    result = CliRunner().invoke(command, [*AT], input=LIMIT, standalone_mode=False)
    for words in ("LIMIT", "2026-11-30T15:00:00+00:00", '"resets 3pm"', "in UTC", "15:02:00 UTC"):
        assert words in result.stdout


# --- the configuration --------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(
        'project = "/srv/shop"\n[agent]\ntimezone = "Europe/Berlin"\n[limits]\nreset_margin_s = 7\n'
        'patterns = [{kind = "limit", regex = "(?i)allowance is used up"}]\n'
    )
    path.chmod(0o600)
    return path


def test_ones_own_patterns_numbers_and_zone_can_be_tried_from_anywhere(config: Path) -> None:
    said = started("--json", "--config", config, "--at", "2026-11-30T13:00Z", data=b"Allowance is used up")
    assert json.loads(said.stdout)["outcome"] == "LIMIT"
    clock = told(LIMIT, "--config", config, "--at", "2026-11-30T13:00Z")
    assert (clock["reset"], clock["wait_s"]) == ("2026-11-30T14:00:00+00:00", 3607)
    assert told(LIMIT, "--config", config, *AT)["wait_s"] == 7207, "--tz wins"


def test_an_instant_without_a_zone_is_in_the_agents_zone(config: Path) -> None:
    assert told(LIMIT, "--config", config, "--at", "2026-11-30 14:00")["wait_s"] == 3607
    assert told(LIMIT, "--tz", "America/New_York", "--at", "30 Nov 2026 14:00")["wait_s"] == 3720


def test_a_mistake_in_the_configuration_is_named(config: Path) -> None:
    config.write_text('[limits]\npatterns = [{kind = "limits", regex = "x"}]\n')
    said = started("--config", config, data=LIMIT.encode())
    assert said.returncode == 78
    assert f"{config}, line 2: limits.patterns".encode() in said.stderr


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/nonexistent/answer.json"], "/nonexistent/answer.json cannot be read: No such file"),
        (["/etc"], "/etc cannot be read: Is a directory"),
        (["--stderr", "/nonexistent"], "/nonexistent cannot be read"),
        (["--tz", "Nowhere/Land"], "--tz Nowhere/Land: no such time zone"),
        (["--tz", "../../etc/passwd"], "no such time zone"),
        (["--tz", "\x1b[31m"], r"--tz \x1b[31m: no such time zone"),
        (["--at", "tomorrow"], "--at tomorrow: no time"),
        (["--at", "2026-11-30 18:00 EST"], "no time"),
        (["--at", "2026-11-30T18:00+99:99"], "no time"),
        (["--at", "9999-12-31"], "no time"),
        (["--at", "0001-01-01"], "no time"),
        (["--channel", "telegram"], "'telegram' is not one of"),
        (["--exit", "many"], "'many' is not a valid integer"),
        (["one", "two"], "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_option_is_a_usage_error(argv: list[str], words: str) -> None:
    assert words in refused(*argv)


def test_a_usage_error_is_exit_64_and_no_traceback() -> None:
    said = started("--tz", "Nowhere/Land", data=b"x")
    assert (said.returncode, b"Traceback" in said.stderr) == (64, False)


@pytest.mark.parametrize("name", ["amp", "a program of next year", "", "\udcff"], ids=ascii)
def test_a_program_nobody_knows_is_read_as_the_reference_reads_it(name: str) -> None:
    assert told(LIMIT, "--agent", name, *AT)["outcome"] == "LIMIT"


HUGE = 10_000_000
BAD = {
    "binary": bytes(range(256)) * 50,
    "terminal escapes": b"\x1b]0;title\x07\x1b[31mlimit reached\x1b[0m \xc2\x9b31m \xe2\x80\xae",
    "no UTF-8": b"\xff\xfe limit \xff reached",
    "brackets": b"[" * 100_000 + b"{" * 100_000,
    "10 MB of words": b"You hit your limit. " * (HUGE // 20),
    "10 MB in one object": b'{"type":"result","subtype":"success","is_error":true,"result":"'
    + b"x" * HUGE
    + b'"}',
    "lone surrogates": b'{"type":"result","subtype":"\\ud800","is_error":true,"result":"\\udfff","a":NaN}',
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_that_is_printed_can_move_a_cursor(name: str) -> None:
    for form in ([], ["--json"]):
        result = CliRunner().invoke(command, [*form, *AT], input=BAD[name], catch_exceptions=False)
        assert result.exit_code == 0
        assert result.stderr == ""
        assert all(line.isprintable() for line in result.stdout.split("\n"))
        assert len(result.stdout) < 10_000


def test_a_file_of_10_mb_is_read_by_the_real_command_line(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_bytes(BAD["10 MB in one object"])
    said = started("--json", tmp_path / "answer.json", *AT)
    assert (said.returncode, json.loads(said.stdout)["outcome"]) == (0, "ERROR")


def test_nothing_is_started_and_nothing_is_written(tmp_path: Path) -> None:
    said = started(data=LIMIT.encode(), HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state"))
    assert said.returncode == 0
    assert list(tmp_path.iterdir()) == []
