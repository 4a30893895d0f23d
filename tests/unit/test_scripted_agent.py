"""The scripted agent, run as what it is: a program. Every step kind has a test that sees it from outside."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher import scripted_agent
from watcher.scripted_agent import plain_json

SCRIPT = Path(scripted_agent.__file__).with_name("__main__.py")
STREAM = ("-p", "--output-format", "stream-json", "--verbose")
JSON = ("-p", "--output-format", "json")
ID = "11111111-1111-4222-8333-444444444444"
UNKNOWN = "99999999-1111-4222-8333-444444444444"
PATIENCE_S = 20.0

Done = subprocess.CompletedProcess[bytes]


@dataclass
class Agent:
    """A tape, a home and a working directory, and the program run on them."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def tape(self) -> Path:
        return self.root / "tape.json"

    @property
    def cwd(self) -> Path:
        return self.root / "project"

    def plays(self, *acts: dict[str, Any]) -> None:
        self.tape.write_text(json.dumps({"pokes": acts}))

    def start(
        self, *argv: str, prompt: bytes = b"go on", output: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", str(SCRIPT), *argv]
        with tempfile.TemporaryFile(dir=self.root) as stdin:
            stdin.write(prompt)
            stdin.seek(0)
            return subprocess.Popen(
                command, cwd=self.cwd, env=self.env, stdin=stdin, stdout=output, stderr=output
            )

    def run(self, *argv: str, prompt: bytes = b"go on") -> Done:
        process = self.start(*(argv or JSON), prompt=prompt)
        out, err = process.communicate(timeout=PATIENCE_S)
        return Done(process.args, process.returncode, out, err)

    def result(self, *argv: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run(*JSON, *argv).stdout)
        return document

    def log(self) -> list[dict[str, Any]]:
        path = self.root / "tape.json.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def played(self) -> int:
        path = self.root / "tape.json.at"
        return int(path.read_text()) if path.exists() else 0

    def git(self, *args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.cwd), *args], check=True, capture_output=True, text=True
        ).stdout.strip()


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    made = Agent(tmp_path)
    made.env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "TZ": "Europe/Berlin"}
    made.env["SCRIPTED_AGENT_TAPE"] = str(made.tape)
    made.plays({})
    return made


@pytest.fixture
def repository(agent: Agent) -> Agent:
    agent.git("init", "-q", "-b", "main")
    (agent.cwd / "README").write_text("start\n")
    agent.git("add", "-A")
    agent.git("-c", "user.name=A Person", "-c", "user.email=a@example.invalid", "commit", "-qm", "start")
    return agent


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Running: a zombie that nobody has reaped yet is dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# The command line


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-p", "hi", "--nope"], "error: unknown option '--nope'"),
        (["-p", "hi", "-Z"], "error: unknown option '-Z'"),
        (["-p", "--looks-like-an-option"], "error: unknown option '--looks-like-an-option'"),
        (["-p", "hi", "--model"], "error: option '--model <model>' argument missing"),
        (
            ["-p", "hi", "--output-format", "xml"],
            "error: option '--output-format <format>' argument 'xml' is invalid. "
            "Allowed choices are text, json, stream-json.",
        ),
        (
            ["-p", "hi", "--max-turns", "abc"],
            "error: option '--max-turns <turns>' argument 'abc' is invalid. must be a number",
        ),
        (
            ["-p", "hi", "--max-budget-usd", "0"],
            "error: option '--max-budget-usd <amount>' argument '0' is invalid. "
            "--max-budget-usd must be a number greater than 0",
        ),
        (
            ["-p", "hi", "--output-format", "stream-json"],
            "Error: When using --print, --output-format=stream-json requires --verbose",
        ),
        (["-p", "hi", "--settings", "/no/x.json"], "Error: Settings file not found: /no/x.json"),
        (
            ["-p", "hi", "--append-system-prompt-file", "/no/x"],
            "Error: Append system prompt file not found: /no/x",
        ),
        (
            ["-p", "hi", "--setting-sources", "everywhere"],
            "Error processing --setting-sources: Invalid setting source: everywhere. "
            "Valid options are: user, project, local",
        ),
        (["-p", "hi", "--session-id", "mine"], "Error: Invalid session ID. Must be a valid UUID."),
        (
            ["-p", "hi", "--session-id", ID, "--resume", ID],
            "Error: --session-id with --continue or --resume also needs --fork-session.",
        ),
        (["-p", "hi", "--resume", UNKNOWN], f"No conversation found with session ID: {UNKNOWN}"),
        (
            ["-p", "hi", "--resume"],
            "Error: --resume requires a valid session ID or session title when used with --print. "
            "Usage: claude -p --resume <session-id|title>",
        ),
        (
            ["-p", "--allowedTools", "Bash", "the prompt at the end"],
            "Error: Input must be provided either through stdin or as a prompt argument when using --print",
        ),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_refused_start_says_what_the_real_program_says_and_leaves_the_tape(
    agent: Agent, argv: list[str], message: str
) -> None:
    done = agent.run(*argv, prompt=b"")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", message + "\n")
    assert agent.played() == 0
    assert [entry["refused"] for entry in agent.log()] == [message]


def test_a_schema_that_is_no_json_is_refused(agent: Agent) -> None:
    done = agent.run(*JSON, "--json-schema", "{bad")
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: --json-schema is not valid JSON: ")


def test_a_prompt_beyond_ten_megabytes_is_refused(agent: Agent) -> None:
    done = agent.run(*JSON, prompt=b"x" * (10 * 1024 * 1024 + 1))
    assert (done.returncode, agent.played()) == (1, 0)
    assert b"piped stdin input exceeds 10MB" in done.stderr


@pytest.mark.parametrize(
    "argv", [["--dangerously-skip-permissions"], ["--permission-mode", "bypassPermissions"]]
)
def test_bypassing_permissions_is_refused_to_root_alone(agent: Agent, argv: list[str]) -> None:
    refused = agent.run(*JSON, *argv).returncode == 1
    assert refused == (os.getuid() == 0)
    agent.env["IS_SANDBOX"] = "1"
    assert agent.run(*JSON, *argv).returncode == 0


def test_the_command_line_of_the_claude_profile_is_accepted(agent: Agent) -> None:
    (agent.cwd / "AGENTS.md").write_text("rules")
    done = agent.run(
        *("-p", "--output-format", "stream-json", "--verbose", "--session-id", ID, "--max-turns", "12"),
        *("--model", "m1", "--settings", '{"permissions": {}}', "--setting-sources", "", "--permission-mode"),
        *("acceptEdits", "--append-system-prompt-file", "AGENTS.md", "--system-prompt-snapshot", "off"),
        *("--max-budget-usd", "2.5", "--json-schema", "{}", "--allowedTools", "Bash(git add *)", "Edit"),
        *("--disallowedTools", "ScheduleWakeup"),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines(done)[0]["permissionMode"] == "acceptEdits"
    assert lines(done)[0]["model"] == "m1"


def test_the_calling_convention_of_the_reference_works(agent: Agent) -> None:
    first = agent.result()["session_id"]
    done = agent.run(
        *("-p", "Continue working.", "--resume", first, "--max-turns", "12"),
        *("--permission-mode", "acceptEdits", "--output-format", "json"),
    )
    assert json.loads(done.stdout)["session_id"] == first
    assert agent.log()[1]["prompt"] == "Continue working."


def test_the_version_needs_no_tape(agent: Agent) -> None:
    del agent.env["SCRIPTED_AGENT_TAPE"]
    assert agent.run("--version").stdout == b"2.1.332 (Claude Code)\n"


# The tape


def test_acts_are_played_in_order_and_the_last_repeats(agent: Agent) -> None:
    agent.plays({"say": "one"}, {"say": "two"})
    assert [agent.result()["result"] for _ in range(4)] == ["one", "two", "two", "two"]
    assert agent.played() == 4


def test_starts_at_one_time_get_different_acts(agent: Agent) -> None:
    agent.plays(*({"say": str(number)} for number in range(12)))
    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda _: agent.result()["result"], range(12)))
    assert sorted(said, key=int) == [str(number) for number in range(12)]
    assert sorted(entry["poke"] for entry in agent.log()) == list(range(1, 13))


def test_the_log_tells_how_the_program_was_called(agent: Agent) -> None:
    prompt = ("ä" * 300).encode()
    agent.env["ODD_ONE"] = "hush"
    agent.run(*JSON, "--session-id", ID, prompt=prompt)
    (entry,) = agent.log()
    assert entry["argv"] == [*JSON, "--session-id", ID]
    assert entry["prompt"] == "ä" * 200
    assert entry["prompt_sha256"] == hashlib.sha256(prompt).hexdigest()
    assert entry["session"] == {"form": "chosen", "id": ID}
    assert (entry["cwd"], entry["uid"], entry["ppid"]) == (str(agent.cwd), os.getuid(), os.getpid())
    assert entry["env"]["TZ"] == "Europe/Berlin"
    assert "ODD_ONE" in entry["env_names"]
    assert "hush" not in json.dumps(entry)


@pytest.mark.parametrize(
    ("tape", "blame"),
    [
        ("{", "tape"),
        ("[]", "not of the form"),
        ('{"pokes": []}', "not of the form"),
        ('{"pokes": [{"comit": "typing error"}]}', "unknown steps: comit"),
    ],
)
def test_a_faulty_tape_is_exit_3(agent: Agent, tape: str, blame: str) -> None:
    agent.tape.write_text(tape)
    done = agent.run()
    assert (done.returncode, done.stdout) == (3, b"")
    assert blame in done.stderr.decode()


@pytest.mark.parametrize("suffix", [".at", ".log"])
def test_files_beside_the_tape_that_cannot_be_written_are_exit_3(agent: Agent, suffix: str) -> None:
    (agent.root / f"tape.json{suffix}").mkdir()  # holds against root, too
    done = agent.run()
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"scripted agent: ")


def test_no_tape_is_exit_3(agent: Agent) -> None:
    del agent.env["SCRIPTED_AGENT_TAPE"]
    assert agent.run().returncode == 3
    agent.env["SCRIPTED_AGENT_TAPE"] = "/nonexistent/tape.json"
    assert agent.run().returncode == 3


def test_words_in_braces_are_filled_in_wherever_a_text_stands(agent: Agent) -> None:
    agent.plays(
        {
            "say": "{session} {poke} {other} {iso+0} {clock24+3600} {clock+3600}",
            "result": {"at": "{now+60}", "ms": "{ms-60}", "digits": "{digits+60}", "text": "at {now}"},
            "write": {"file-{poke}": "{poke}"},
        }
    )
    before = int(time.time())
    result = agent.result("--session-id", ID)
    after = int(time.time())
    session, poke, other, iso, clock24, clock = result["result"].split()
    assert (session, poke, other) == (ID, "1", "{other}")
    at = int(datetime.fromisoformat(iso).replace(tzinfo=UTC).timestamp())
    assert before <= at <= after
    assert (result["at"], result["ms"]) == (at + 60, (at - 60) * 1000)
    assert (result["digits"], result["text"]) == (str(at + 60), f"at {at}")
    assert (agent.cwd / "file-1").read_text() == "1"
    berlin = subprocess.run(
        ["date", "-d", f"@{at + 3600}", "+%H:%M %-I:%M%P"], env=agent.env, capture_output=True, check=True
    )
    assert [clock24, clock] == berlin.stdout.decode().split()


# What is printed


def test_json_is_one_object(agent: Agent) -> None:
    done = agent.run(*JSON)
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert {name: result[name] for name in ("type", "subtype", "is_error", "result", "num_turns")} == {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "num_turns": 1,
    }
    assert result["terminal_reason"] == "completed"
    assert result["usage"]["output_tokens"] == 50
    assert result["modelUsage"]["claude-opus-5-5"]["costUSD"] == 0.01


def test_a_stream_is_init_then_assistant_then_events_then_the_result(agent: Agent) -> None:
    agent.plays(
        {
            "events": [{"type": "system", "subtype": "api_retry", "session_id": "{session}"}],
            "rate_limit": {"status": "rejected", "resetsAt": "{now+60}", "rateLimitType": "five_hour"},
            "denials": ["Bash"],
        }
    )
    init, assistant, denied, retry, limit, result = lines(agent.run(*STREAM))
    assert (init["type"], init["subtype"], init["claude_code_version"]) == ("system", "init", "2.1.332")
    assert (init["cwd"], init["permissionMode"], init["apiKeySource"]) == (str(agent.cwd), "default", "none")
    assert assistant["message"]["content"] == [{"type": "text", "text": "done"}]
    assert denied["tool_name"] == "Bash"
    assert retry["session_id"] == init["session_id"] == result["session_id"] == limit["session_id"]
    assert isinstance(limit["rate_limit_info"]["resetsAt"], int)
    assert [entry["tool_name"] for entry in result["permission_denials"]] == ["Bash"]


def test_json_shows_nothing_but_the_result(agent: Agent) -> None:
    agent.plays({"events": [{"type": "x"}], "rate_limit": {"status": "rejected"}, "denials": ["Bash"]})
    (result,) = lines(agent.run(*JSON))
    assert result["type"] == "result"


@pytest.mark.parametrize(
    ("act", "argv"), [({}, [*JSON, "--verbose"]), ({"array": True}, [*JSON]), ({"array": True}, [*STREAM])]
)
def test_the_array_form_holds_all_events(agent: Agent, act: dict[str, Any], argv: list[str]) -> None:
    agent.plays({"rate_limit": {"status": "allowed"}, "flood": 20000, **act})
    done = agent.run(*argv)
    kinds = [document["type"] for document in json.loads(done.stdout)]
    assert kinds == ["system", "assistant", "rate_limit_event", "user", "user", "user", "result"]
    assert done.stdout.count(b"\n") == 1


def test_text_is_the_result_text(agent: Agent) -> None:
    agent.plays({"say": "Hello."})
    assert agent.run("-p").stdout == b"Hello.\n"


@pytest.mark.parametrize(
    ("act", "argv", "errors", "text", "reason"),
    [
        (
            {"subtype": "error_max_turns"},
            ["--max-turns", "7"],
            ["Reached maximum number of turns (7)"],
            "Error: Reached max turns (7)",
            "max_turns",
        ),
        (
            {"subtype": "error_max_budget_usd"},
            ["--max-budget-usd", "0.5"],
            ["Reached maximum budget ($0.5)"],
            "Error: Exceeded USD budget (0.5)",
            "budget_exhausted",
        ),
        ({"subtype": "error_during_execution", "say": "boom"}, [], ["boom"], "Execution error", None),
    ],
    ids=lambda value: value["subtype"] if isinstance(value, dict) and "subtype" in value else "",
)
def test_an_error_subtype_has_errors_and_no_result(
    agent: Agent, act: dict[str, Any], argv: list[str], errors: list[str], text: str, reason: str | None
) -> None:
    agent.plays(act)
    done = agent.run(*JSON, *argv)
    result = json.loads(done.stdout)
    assert (done.returncode, result["is_error"], result["errors"]) == (1, True, errors)
    assert "result" not in result
    assert result.get("terminal_reason") == reason
    assert agent.run("-p", *argv).stdout.decode() == text + "\n"


def test_an_api_error_is_a_success_with_the_flag_set(agent: Agent) -> None:
    limit = {"api_error_status": 429, "api_error": "usage_limit_reached"}
    agent.plays({"is_error": True, "say": "You've hit your 5-hour limit", "result": limit, "cost": 0})
    done = agent.run(*STREAM)
    _, assistant, result = lines(done)
    assert (done.returncode, result["subtype"], result["is_error"]) == (1, "success", True)
    assert (result["terminal_reason"], result["api_error_status"]) == ("api_error", 429)
    assert (result["usage"]["output_tokens"], result["modelUsage"]) == (0, {})
    assert (assistant["message"]["model"], assistant["is_api_error_message"]) == ("<synthetic>", True)


def test_the_act_has_the_last_word_on_the_result(agent: Agent) -> None:
    agent.plays(
        {
            "turns": 9,
            "usage": {"output_tokens": 0},
            "result": {"session_id": None, "structured_output": {"status": "unsure"}, "is_error": "true"},
            "exit": 5,
        }
    )
    done = agent.run()
    result = json.loads(done.stdout)
    assert done.returncode == 5
    assert "session_id" not in result
    assert (result["num_turns"], result["usage"]["output_tokens"], result["is_error"]) == (9, 0, "true")
    assert result["structured_output"] == {"status": "unsure"}


@pytest.mark.parametrize(
    ("act", "code"), [({"is_error": True}, 1), ({}, 0), ({"is_error": True, "exit": 0}, 0)]
)
def test_the_exit_code_follows_the_result_unless_it_is_given(
    agent: Agent, act: dict[str, Any], code: int
) -> None:
    agent.plays(act)
    assert agent.run().returncode == code


def test_raw_text_takes_the_place_of_all_documents(agent: Agent) -> None:
    agent.plays({"stdout": "no json \udcff\u0000", "stderr": "Warning\n", "is_error": True})
    for argv in (JSON, STREAM, [*JSON, "--verbose"]):
        done = agent.run(*argv)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"no json \xff\x00", b"Warning\n")


def test_raw_text_can_stand_before_and_after_the_documents(agent: Agent) -> None:
    agent.plays({"before": "Welcome!\n", "after": "bye"})
    first, *documents, last = agent.run(*STREAM).stdout.split(b"\n")
    assert (first, last) == (b"Welcome!", b"bye")
    assert [json.loads(document)["type"] for document in documents] == ["system", "assistant", "result"]


def test_a_result_can_be_left_out_or_repeated(agent: Agent) -> None:
    agent.plays({"no_result": True, "is_error": True}, {"repeat_result": 3})
    done = agent.run(*STREAM)
    assert (done.returncode, [line["type"] for line in lines(done)]) == (0, ["system", "assistant"])
    assert [line["result_index"] for line in lines(agent.run(*JSON))] == [0, 1, 2]


def test_bom_and_crlf_are_those_of_windows(agent: Agent) -> None:
    agent.plays({"bom": True, "crlf": True})
    out = agent.run(*STREAM).stdout
    assert out.startswith(b'\xef\xbb\xbf{"type"')
    assert out.count(b"\r\n") == out.count(b"\n") == 3
    assert out.count(b"\xef\xbb\xbf") == 1


@pytest.mark.parametrize("argv", [JSON, STREAM])
def test_a_cut_takes_bytes_from_the_end_of_the_result(agent: Agent, argv: tuple[str, ...]) -> None:
    same = {"result": {"duration_ms": 1, "duration_api_ms": 1}}  # the rest keeps its length
    agent.plays(same, same | {"cut": 10}, same | {"cut": 100000})
    whole, cut, gone = (agent.run(*argv).stdout.splitlines(keepends=True) for _ in range(3))
    assert len(cut[-1]) == len(whole[-1]) - 10
    assert not cut[-1].endswith(b"}\n")
    assert len(gone) == len(whole) - 1


def test_a_lone_surrogate_is_printed_as_an_escape(agent: Agent) -> None:
    agent.plays({"say": "cut emoji \ud83d and ä"})
    out = agent.run(*JSON).stdout
    assert b"cut emoji \\ud83d and \xc3\xa4" in out


@pytest.mark.parametrize("argv", [JSON, STREAM, ("-p",)], ids=["json", "stream", "text"])
def test_a_flood_is_lines_before_the_result(agent: Agent, argv: tuple[str, ...]) -> None:
    agent.plays({"flood": 1_000_000, "say": "end"})
    *before, last = agent.run(*argv).stdout.splitlines()
    filler = [line for line in before if b"filler" in line]
    assert 1_000_000 <= sum(map(len, filler)) < 1_020_000
    assert all(json.loads(line)["type"] == "user" for line in filler)
    assert b"end" in last


@pytest.mark.parametrize("argv", [JSON, STREAM, [*JSON, "--verbose"]], ids=["json", "stream", "array"])
def test_a_flooded_result_is_still_one_document(agent: Agent, argv: tuple[str, ...]) -> None:
    agent.plays({"flood_result": 1_000_000, "say": "start "})
    document = json.loads(agent.run(*argv).stdout.splitlines()[-1])
    result = document[-1] if isinstance(document, list) else document
    assert result["result"].startswith("start filler filler")
    assert len(result["result"]) == 1_000_000 + len("start ")


def test_a_flood_needs_no_memory(agent: Agent) -> None:
    agent.plays({}, {"flood": 50_000_000, "flood_result": 50_000_000})
    peaks = []
    for _ in range(2):
        process = agent.start(*STREAM, output=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peaks.append(usage.ru_maxrss)
    assert peaks[1] < peaks[0] + 8_000  # KiB


def test_a_closed_stdout_does_not_stop_the_work(agent: Agent) -> None:
    agent.plays({"flood": 1_000_000, "write": {"late": "x"}, "hang_before": 0.2})
    process = agent.start(*STREAM)
    assert process.stdout
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert (agent.cwd / "late").exists()
    process.communicate()


# Sessions and cost


def test_a_session_can_be_chosen_resumed_and_not_chosen_again(agent: Agent) -> None:
    assert agent.result("--session-id", ID)["session_id"] == ID
    assert agent.result("--resume", ID)["session_id"] == ID
    done = agent.run(*JSON, "--session-id", ID)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"Error: Session ID {ID} is already in use.\n"
    assert agent.run(*JSON, "--resume", ID.replace("1", "A")).returncode == 1


@pytest.mark.parametrize(
    ("asked", "printed"),
    [(UNKNOWN, UNKNOWN), ("no-such-title", None), ("", None)],
    ids=["id", "title", "empty"],
)
def test_an_unknown_session_gives_a_stream_a_result(agent: Agent, asked: str, printed: str | None) -> None:
    done = agent.run(*STREAM, "--resume", asked)
    (result,) = lines(done)
    assert (done.returncode, agent.played()) == (1, 0)
    assert (result["subtype"], result["is_error"]) == ("error_during_execution", True)
    assert (result["num_turns"], result["total_cost_usd"]) == (0, 0)
    assert result["errors"] == [done.stderr.decode().rstrip("\n")]
    if printed:
        assert result["session_id"] == printed


def test_a_forgotten_session_is_unknown_afterwards(agent: Agent) -> None:
    agent.plays({"forget_session": True})
    assert agent.result("--session-id", ID)["session_id"] == ID
    assert (
        agent.run(*JSON, "--resume", ID).stderr.decode() == f"No conversation found with session ID: {ID}\n"
    )
    assert agent.run(*JSON, "--session-id", ID).returncode == 0


def test_a_printed_id_can_be_another_than_the_one_asked_for(agent: Agent) -> None:
    agent.plays({}, {"new_session": True}, {"session": "x; touch pwned #{poke}"}, {"session": "named"})
    first = agent.result("--session-id", ID)["session_id"]
    fresh, odd, named = (agent.result("--resume", ID)["session_id"] for _ in range(3))
    assert first == ID
    assert fresh not in ("", ID)
    assert (odd, named) == ("x; touch pwned #3", "named")
    for known in (fresh, "named"):
        assert agent.run(*JSON, "--resume", known).returncode == 0


def test_a_fork_gets_an_id_of_its_own_and_inherits_the_cost(agent: Agent) -> None:
    agent.run(*JSON, "--session-id", ID)
    fork = agent.result("--resume", ID, "--fork-session")
    assert fork["session_id"] != ID
    assert fork["total_cost_usd"] == 0.02


def test_a_session_that_is_not_kept_cannot_be_resumed(agent: Agent) -> None:
    assert agent.result("--session-id", ID, "--no-session-persistence")["session_id"] == ID
    assert agent.run(*JSON, "--resume", ID).returncode == 1


def test_without_a_home_sessions_are_kept_beside_the_tape(agent: Agent) -> None:
    del agent.env["HOME"]
    agent.run(*JSON, "--session-id", ID)
    assert (agent.root / "tape.json.sessions" / ID).exists()
    assert agent.run(*JSON, "--resume", ID).returncode == 0


def test_the_cost_adds_up_over_a_session_unless_it_is_counted_per_process(agent: Agent) -> None:
    agent.plays({"cost": 0.5}, {"cost": 0.25}, {"cost": 1, "cost_per_process": True}, {})
    totals = [agent.result("--session-id", ID)["total_cost_usd"]]
    totals += [agent.result("--resume", ID)["total_cost_usd"] for _ in range(3)]
    assert totals == [0.5, 0.75, 1, 1.76]
    assert agent.result()["total_cost_usd"] == 0.01


# The project


def test_files_are_written_appended_and_deleted(agent: Agent) -> None:
    (agent.cwd / "old").write_text("x")
    (agent.cwd / "tree" / "deep").mkdir(parents=True)
    (agent.cwd / "tree" / "deep" / "leaf").write_text("x")
    agent.plays(
        {"write": {"a/b": "1\n", "raw": "\udcff"}, "append": {"a/b": "2\n"}, "delete": ["old", "tree"]}
    )
    assert agent.run().returncode == 0
    assert (agent.cwd / "a" / "b").read_text() == "1\n2\n"
    assert (agent.cwd / "raw").read_bytes() == b"\xff"
    assert sorted(path.name for path in agent.cwd.iterdir()) == ["a", "raw"]


TASKS = """\
# tasks.md

| Status | ID    | Title                                   |
|--------|-------|-----------------------------------------|
| done   | T-101 | Read the price list                     |
| open   | T-102 | Show it                                 |
| in progress | T-103 | Print it                           |

*3 tasks, 1 `done`, 1 `open`, 1 `in progress`.*

### T-101: Read the price list

- **Status:** done (2026-01-01)
- **Deps:** none

### T-102: Show it

- **Status:** open
- **Deps:** T-101 (done)

### T-103: Print it

- **Mode:** Loop
- **Status:** in progress
"""


def test_a_finished_task_is_done_in_all_three_places(agent: Agent) -> None:
    path = agent.cwd / "docs" / "tasks.md"
    path.parent.mkdir()
    path.write_text(TASKS)
    agent.plays({"task_done": "T-102"}, {"task_done": "T-103"}, {"task_done": "T-103"})
    assert agent.run().returncode == 0
    text = path.read_text()
    today = time.strftime("%Y-%m-%d")
    assert "| done   | T-102 | Show it                                 |\n" in text
    assert f"### T-102: Show it\n\n- **Status:** done ({today})\n- **Deps:** T-101 (done)\n" in text
    assert "*3 tasks, 2 `done`, 1 `in progress`.*\n" in text
    assert text.count("2026-01-01") == 1
    assert agent.run().returncode == 0
    text = path.read_text()
    assert "| done        | T-103 | Print it                           |\n" in text
    assert f"- **Mode:** Loop\n- **Status:** done ({today})\n" in text
    assert "*3 tasks, 3 `done`.*\n" in text
    assert agent.run().returncode == 3


def test_a_finished_task_keeps_the_capitals_of_its_list(agent: Agent) -> None:
    path = agent.cwd / "docs" / "TASKS.md"
    path.parent.mkdir()
    path.write_text("| IN-PROGRESS | T-1 | x |\n| OPEN | T-2 | y |\n")
    agent.plays({"task_done": "T-1"})
    assert agent.run().returncode == 0
    assert path.read_text() == "| DONE        | T-1 | x |\n| OPEN | T-2 | y |\n"


def test_a_commit_takes_everything_and_has_a_fixed_author(repository: Agent) -> None:
    (repository.root / "home" / ".gitconfig").write_text(
        "[user]\nname = Somebody\n[commit]\ngpgsign = true\n"
    )
    repository.env["GIT_DIR"] = "/nonexistent"
    (repository.cwd / "README").unlink()
    repository.plays({"write": {"new": "1"}, "commit": "poke {poke}"})
    assert repository.run().returncode == 0
    assert repository.git("log", "-1", "--format=%an|%cn|%s") == "Scripted Agent|Scripted Agent|poke 1"
    assert repository.git("show", "--format=", "--name-status", "--no-renames") == "D\tREADME\nA\tnew"
    assert repository.git("status", "--porcelain") == ""


def test_a_commit_can_be_restricted_to_paths(repository: Agent) -> None:
    repository.plays({"write": {"a": "1", "b": "2"}, "commit": "a only", "paths": ["a"]})
    assert repository.run().returncode == 0
    assert repository.git("status", "--porcelain") == "?? b"


def test_empty_and_amended_commits_and_any_other_git_command(repository: Agent) -> None:
    repository.plays(
        {"empty_commit": "empty"},
        {"amend": "reworded"},
        {"git": [["checkout", "-q", "-b", "side"]], "write": {"s": "1"}, "commit": "aside"},
        {"git": [["checkout", "-q", "main"], ["reset", "-q", "--hard", "HEAD~1"]]},
    )
    start = repository.git("rev-parse", "HEAD")
    for subject, parent, branch in [
        ("empty", start, "main"),
        ("reworded", start, "main"),
        ("aside", None, "side"),
        ("start", None, "main"),
    ]:
        assert repository.run().returncode == 0
        assert repository.git("log", "-1", "--format=%s") == subject
        assert repository.git("branch", "--show-current") == branch
        if parent:
            assert repository.git("rev-parse", "HEAD~1") == parent
    assert repository.git("rev-parse", "HEAD") == start


def test_a_failing_git_is_exit_3_unless_marked(repository: Agent) -> None:
    repository.plays(
        {"commit": "nothing to commit"},
        {"git": [["push", "nowhere", "main"]]},
        {"git": [["-", "push", "nowhere", "main"]]},
    )
    commit, push, marked = (repository.run() for _ in range(3))
    assert (commit.returncode, push.returncode, marked.returncode) == (3, 3, 0)
    assert "git push nowhere main: exit 128" in push.stderr.decode()
    assert json.loads(marked.stdout)["result"] == "done"


# Time, signals, processes


def hanging(agent: Agent, *argv: str, act: dict[str, Any], until: str) -> subprocess.Popen[bytes]:
    """Start an act that hangs; come back when it has printed a line of that type, or was logged."""
    agent.plays(act)
    process = agent.start(*argv)
    assert process.stdout
    if until == "log":
        wait_until(agent.log, "the act is logged")
    else:
        while json.loads(process.stdout.readline())["type"] != until:
            pass
    return process


def ended(process: subprocess.Popen[bytes], number: int) -> tuple[int, list[dict[str, Any]]]:
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, [json.loads(line) for line in out.splitlines()]


def test_an_interrupt_in_a_tool_call_prints_a_result_with_the_cost(agent: Agent) -> None:
    process = hanging(
        agent, *STREAM, "--session-id", ID, act={"hang_before": 60, "cost": 2}, until="assistant"
    )
    code, (result,) = ended(process, signal.SIGINT)
    assert (code, result["subtype"], result["is_error"]) == (0, "error_during_execution", True)
    assert (result["terminal_reason"], result["total_cost_usd"]) == ("aborted_tools", 2)
    agent.plays({"cost": 1})
    assert agent.result("--resume", ID)["total_cost_usd"] == 3


@pytest.mark.parametrize(
    ("argv", "printed"),
    [(JSON, b'"aborted_tools"'), ([*JSON, "--verbose"], b'"aborted_tools"'), (["-p"], b"Execution error\n")],
    ids=["json", "array", "text"],
)
def test_an_interrupt_is_answered_in_every_form(agent: Agent, argv: list[str], printed: bytes) -> None:
    agent.plays({"hang_before": 60, "write": {"working": ""}})
    process = agent.start(*argv)
    wait_until((agent.cwd / "working").exists, "the act has begun")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert printed in out
    if "json" in argv:
        json.loads(out)


@pytest.mark.parametrize(
    ("act", "until", "number", "code", "printed"),
    [
        ({"hang_before": 60, "on_int": "nothing"}, "assistant", signal.SIGINT, 0, []),
        ({"hang_before": 60}, "assistant", signal.SIGTERM, 143, []),
        ({"hang_before": 60}, "assistant", signal.SIGHUP, 129, []),
        ({"hang": 60}, "result", signal.SIGINT, 0, []),
        ({"hang": 60}, "result", signal.SIGTERM, 143, []),
        ({"hang": 60, "on_int": "result"}, "result", signal.SIGINT, 0, ["result"]),
        ({"sleep": 60}, "log", signal.SIGINT, 0, []),
        ({"sleep": 60}, "log", signal.SIGTERM, 143, []),
        ({"hang_before": 60}, "assistant", signal.SIGKILL, -9, []),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else str(value),
)
def test_signals_end_a_hanging_act_as_they_end_the_real_program(
    agent: Agent, act: dict[str, Any], until: str, number: int, code: int, printed: list[str]
) -> None:
    process = hanging(agent, *STREAM, act=act, until=until)
    exit_code, after = ended(process, number)
    assert (exit_code, [line["type"] for line in after]) == (code, printed)


def test_an_ignored_signal_does_not_end_the_act(agent: Agent) -> None:
    act = {"hang_before": 0.5, "ignore": ["INT", "TERM", "HUP"], "say": "still here"}
    process = hanging(agent, *STREAM, act=act, until="assistant")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["result"]) == (0, "still here")


def test_a_program_killed_while_it_starts_leaves_no_session_and_later_leaves_one(agent: Agent) -> None:
    early = hanging(agent, *STREAM, "--session-id", ID, act={"sleep": 60}, until="log")
    early.kill()
    early.communicate()
    assert agent.run(*JSON, "--resume", ID).returncode == 1
    late = hanging(agent, *STREAM, "--session-id", ID, act={"hang_before": 60, "cost": 5}, until="assistant")
    late.kill()
    late.communicate()
    agent.plays({"cost": 1})
    assert agent.run(*JSON, "--session-id", ID).returncode == 1
    assert agent.result("--resume", ID)["total_cost_usd"] == 1  # the killed poke's cost is left out


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM", "ABRT"])
def test_a_crash_dies_of_its_signal_before_the_result_and_after_the_work(agent: Agent, name: str) -> None:
    agent.plays({"crash": name, "write": {"made": ""}, "sleep": 0.01})
    done = agent.run(*STREAM)
    assert done.returncode == -getattr(signal, f"SIG{name}")
    assert [line["type"] for line in lines(done)] == ["system", "assistant"]
    assert (agent.cwd / "made").exists()


@pytest.fixture
def orphans(agent: Agent) -> Iterator[Any]:
    """The ids of the orphans that still live; they are ended with the test."""

    def living() -> list[int]:
        path = agent.root / "tape.json.orphans"
        pids = [int(line) for line in path.read_text().split()] if path.exists() else []
        return [pid for pid in pids if is_alive(pid)]

    yield living
    for pid in living():
        os.kill(pid, signal.SIGKILL)


def test_an_orphan_outlives_the_program(agent: Agent, orphans: Any) -> None:
    agent.plays({"orphan": {"seconds": 60}})
    process = agent.start(*JSON)
    process.communicate(timeout=PATIENCE_S)  # ends, so nobody holds stdout
    (pid,) = orphans()
    wait_until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x0060\x00", "it is sleep")
    assert os.getpgid(pid) == os.getpgrp()
    assert b"HOME=" in Path(f"/proc/{pid}/environ").read_bytes()


def test_an_orphan_can_hide_in_a_session_of_its_own_with_an_empty_environment(
    agent: Agent, orphans: Any
) -> None:
    agent.plays({"orphan": {"seconds": 60, "setsid": True, "clear_env": True, "double_fork": True}})
    assert agent.run().returncode == 0
    (pid,) = orphans()
    wait_until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"), "it is sleep")
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""


def test_a_double_forked_orphan_is_not_a_child_of_the_program(agent: Agent, orphans: Any) -> None:
    act = {"orphan": {"seconds": 60, "double_fork": True}, "hang_before": 60}
    process = hanging(agent, *STREAM, act=act, until="assistant")
    (pid,) = orphans()
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert parent != process.pid
    assert ended(process, signal.SIGTERM)[0] == 143
    assert orphans() == [pid]


def test_an_orphan_can_hold_stdout_and_inherit_ignored_signals(agent: Agent, orphans: Any) -> None:
    agent.plays({"orphan": {"seconds": 60, "hold_stdout": True}, "ignore": ["TERM"]})
    process = agent.start(*JSON)
    assert process.wait(PATIENCE_S) == 0
    (pid,) = orphans()
    os.kill(pid, signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.3)
    assert orphans() == [pid]
    os.kill(pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["result"] == "done"


# Ways to start it, and what it costs


def test_a_launcher_is_a_program_with_its_tape_built_in(agent: Agent) -> None:
    program = agent.root / "claude"
    program.write_text(scripted_agent.launcher(sys.executable, str(agent.tape)))
    program.chmod(0o755)
    done = subprocess.run(
        [str(program), *JSON],
        input=b"hi",
        cwd=agent.cwd,
        env={"HOME": agent.env["HOME"]},
        capture_output=True,
    )
    assert json.loads(done.stdout)["result"] == "done"
    assert agent.log()[0]["env_names"] == ["HOME"]


def test_it_runs_as_a_module(agent: Agent) -> None:
    root = Path(scripted_agent.__file__).parents[2]
    command = [sys.executable, "-m", "watcher.scripted_agent", "-p", "hi"]
    done = subprocess.run(command, cwd=root, env=agent.env, capture_output=True)
    assert done.stdout == b"done\n"


def test_a_plain_poke_imports_no_heavy_module(agent: Agent) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(SCRIPT), *STREAM]
    done = subprocess.run(command, input=b"hi", cwd=agent.cwd, env=agent.env, capture_output=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "watcher.scripted_agent.play" in imported
    assert not imported & {"json", "re", "typing", "enum", "signal", "subprocess", "dataclasses", "argparse"}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
def test_its_own_json_is_the_json_of_the_standard_library(value: Any) -> None:
    assert json.loads(plain_json.encoded(value)) == value
    assert plain_json.loads(f" {json.dumps(value)}\n") == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{} x", "nul", '{"a"}'])
def test_its_own_json_refuses_what_the_standard_library_refuses(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        plain_json.loads(text)
