"""A person looks: what waits is named, signatures are only added, and the agent has no way in."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from tests.conftest import Played, Stage, json_lines
from tests.ring_stage import as_user, open_ring
from watcher.cli import reopen, review, signoff
from watcher.process import Account
from watcher.record.files import Disk
from watcher.record.signoffs import Book, Commit, SignOff, add, naming, read

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
DONE = {"say": "ALL-TASKS-DONE"}
ANN = ("--by", "Ann Smith")
AT = datetime(2026, 7, 30, 2, 15, tzinfo=UTC)


def work(name: str, subject: str) -> dict[str, Any]:
    return {"write": {f"{name}.txt": f"{name}\n"}, "commit": subject, "say": "worked"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document


def call(command: click.Command, *argv: object) -> Said:
    """A command, and the exit code that `harness` would have."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command.main([str(word) for word in argv], standalone_mode=False)
        except click.UsageError as error:
            code = 64
            err.write(error.format_message())
    return Said(code=code, out=out.getvalue(), err=err.getvalue())


def of(stage: Stage) -> tuple[object, ...]:
    return stage.project, "--config", stage.root / "harness.toml"


def reviewed(stage: Stage) -> dict[str, Any]:
    said = call(review.command, *of(stage), "--json")
    assert said.code == 0, said.err + said.out
    return said.json


def sign(stage: Stage, what: str, *options: object) -> Said:
    return call(signoff.command, *of(stage)[:1], what, *of(stage)[1:], *(options or ANN))


def book(stage: Stage) -> Path:
    return next(stage.state.glob("*/runs")).parent / "signoffs.jsonl"


def subjects(stage: Stage) -> list[str]:
    return [commit["subject"] for commit in reviewed(stage)["unsigned"]]


@pytest.fixture
def worked(stage: Stage) -> Stage:
    """A run that is done: two tasks, a commit each."""
    stage.watch(work("a", "T-101: Add a"), work("b", "T-102: Add b"), DONE)
    return stage


# --- what waits ----------------------------------------------------------------------------------------


def test_the_agents_commits_wait_and_those_from_before_the_first_run_do_not(worked: Stage) -> None:
    assert subjects(worked) == ["T-102: Add b", "T-101: Add a"]


def test_a_review_in_words_names_each_of_them(worked: Stage) -> None:
    said = call(review.command, *of(worked))
    assert said.code == 0
    assert "not signed off on main: 2" in said.out
    assert "T-101: Add a" in said.out


def test_signing_a_task_leaves_the_others_waiting(worked: Stage) -> None:
    said = sign(worked, "T-101")
    assert said.code == 0, said.err
    assert "task T-101" in said.out
    assert subjects(worked) == ["T-102: Add b"]


def test_signing_a_commit_covers_all_that_leads_to_it(worked: Stage) -> None:
    said = sign(worked, worked.tip()[:10])
    assert "T-101: Add a" in said.out
    assert subjects(worked) == []
    assert reviewed(worked)["waits"] is False
    assert "nothing waits for a person" in call(review.command, *of(worked)).out


def test_what_comes_after_a_signature_waits_again(worked: Stage) -> None:
    sign(worked, worked.tip())
    worked.watch(work("c", "T-101: More"), DONE)
    assert subjects(worked) == ["T-101: More"]


def test_a_tasks_signature_does_not_reach_what_is_named_so_later(worked: Stage) -> None:
    sign(worked, "T-101")
    worked.watch(work("c", "T-101: More, later"), DONE)
    assert subjects(worked) == ["T-101: More, later", "T-102: Add b"]


def test_without_a_run_there_is_nothing_to_tell(stage: Stage) -> None:
    stage.config()
    said = call(review.command, *of(stage))
    assert said.code == 78
    assert "no run yet" in said.out + said.err


def test_work_elsewhere_is_named(worked: Stage) -> None:
    worked.git("checkout", "-q", "-b", "spike")
    worked.git("commit", "-q", "--allow-empty", "-m", "A try")
    worked.git("checkout", "-q", "--detach")
    worked.git("commit", "-q", "--allow-empty", "-m", "Lost")
    (worked.project / "a.txt").write_text("changed\n")
    worked.git("stash")
    (worked.project / "new.txt").write_text("new\n")
    seen = reviewed(worked)
    assert {one["name"]: one["subject"] for one in seen["elsewhere"] if one["name"] != "the stash"} == {
        "spike": "A try",
        "a detached HEAD": "Lost",
    }
    assert "the stash" in [one["name"] for one in seen["elsewhere"]]
    assert seen["uncommitted"] == ["new.txt"]


def test_a_branch_that_holds_nothing_more_is_not_work_elsewhere(worked: Stage) -> None:
    worked.git("branch", "old", "main~1")
    assert reviewed(worked)["elsewhere"] == []


def test_what_is_not_on_the_remote_is_named(worked: Stage) -> None:
    assert reviewed(worked)["unpublished"] == []
    worked.git("commit", "-q", "--allow-empty", "-m", "By hand")
    assert [one["subject"] for one in reviewed(worked)["unpublished"]] == ["By hand"]


def test_a_run_that_did_not_end_in_done_waits_until_a_state_is_signed(worked: Stage) -> None:
    worked.clock.time -= timedelta(days=1)
    worked.watch({"say": "nothing"}, {"say": "nothing"}, {"say": "nothing"})
    assert "ended: stalled (exit 2)" in reviewed(worked)["runs"][0]["text"]
    sign(worked, "T-101")
    assert len(reviewed(worked)["runs"]) == 1
    sign(worked, worked.tip())
    assert reviewed(worked)["runs"] == []


def test_a_person_who_is_needed_a_denied_tool_and_an_alert_are_named(stage: Stage) -> None:
    refused = {"tool_name": "Bash", "tool_use_id": "x", "tool_input": {"command": "git push origin"}}
    login = {"subtype": "success", "is_error": True, "say": "Not logged in · Please run /login", "exit": 1}
    stage.watch({"say": "I could not push", "denials": [refused]}, login, login, DONE)
    seen = reviewed(stage)
    assert [(one["text"], one["poke"]) for one in seen["denied"]] == [("Bash: git push origin", 1)]
    assert sum(one["count"] for one in seen["needs_human"]) == 2
    assert any("needs you" in one["text"] for one in seen["alerts"])


@pytest.mark.parametrize("key", ["step", "result"])
@pytest.mark.parametrize(
    ("results", "named"),
    [
        (["failed"], 1),
        (["published", "push", "failed", "push", "failed"], 1),
        (["failed", "push", "published"], 0),
        (["failed", "already there"], 0),
        (["push"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_publications_that_were_refused_since_the_last_one_are_named(
    worked: Stage, key: str, results: list[str], named: int
) -> None:
    base = {"at": AT.isoformat(), "tip": "b" * 40, "remote_tip": "", "detail": "a secret in a.txt"}
    path = book(worked).with_name("publications.jsonl")
    path.write_text("".join(json.dumps({**base, key: result}) + "\n" for result in results))
    refused = reviewed(worked)["refused_publications"]
    assert len(refused) == named
    assert all("a secret in a.txt" in one["text"] for one in refused)


def test_uncommitted_work_that_is_kept_is_named(stage: Stage) -> None:
    (stage.project / "mine.txt").write_text("mine\n")
    stage.watch(DONE)
    assert [one["files"] for one in reviewed(stage)["snapshots"]] == [1]


# --- an agent that would rather not be looked at ---------------------------------------------------------


def test_a_branch_that_is_called_like_a_commit_is_not_taken_for_it(worked: Stage) -> None:
    """Git takes the branch, where both are there."""
    good = worked.git("rev-parse", "main~1").strip()
    worked.git("branch", good[:8], "main")
    assert sign(worked, good[:8]).code == 0
    [signed] = json_lines(book(worked))
    assert signed["commit"] == good
    assert subjects(worked) == ["T-102: Add b"]


def test_history_that_is_shown_shorter_than_it_is_is_seen_whole(worked: Stage) -> None:
    first, base = worked.git("rev-parse", "main", "main~2").split()
    info = worked.project / ".git/info"
    info.mkdir(exist_ok=True)
    (info / "grafts").write_text(f"{first} {base}\n")
    assert subjects(worked) == ["T-102: Add b", "T-101: Add a"]


def test_a_rewritten_history_takes_its_signature_along_and_says_so(worked: Stage) -> None:
    sign(worked, worked.tip())
    worked.git("commit", "-q", "--amend", "-m", "Something else")
    seen = reviewed(worked)
    assert [one["by"] for one in seen["signed_and_gone"]] == ["Ann Smith"]
    assert seen["unsigned"][0]["subject"] == "Something else"
    assert "History was rewritten" in call(review.command, *of(worked)).out


def test_what_it_chose_is_shown_escaped(worked: Stage) -> None:
    odd = "T-103: \x1b[2Jgone\u2028next"
    worked.git("-c", "user.name=E\x1bvil\x0bx", "commit", "-q", "--allow-empty", "-m", odd)
    worked.git("branch", "e\u202evil")
    worked.git("checkout", "-q", "e\u202evil")
    worked.git("commit", "-q", "--allow-empty", "-m", "\x1b]0;title\x07")
    (worked.project / "n\x1b[Am\ne").write_text("x")
    said = call(review.command, *of(worked))
    assert said.code == 0, said.out
    assert all(letter.isprintable() or letter == "\n" for letter in said.out)
    assert "\\x1b[2Jgone" in said.out
    signed = call(signoff.command, worked.project, "T-103", *of(worked)[1:], "--by", "Ann")
    assert signed.code == 0, signed.err
    assert all(letter.isprintable() or letter == "\n" for letter in signed.out)


# --- signatures ------------------------------------------------------------------------------------------


def test_a_signature_says_who_what_when_and_as_whom(worked: Stage) -> None:
    assert sign(worked, "HEAD", *ANN, "--note", "tried the import by hand").code == 0
    [signed] = json_lines(book(worked))
    assert (signed["by"], signed["what"], signed["note"]) == ("Ann Smith", "HEAD", "tried the import by hand")
    assert (signed["commit"], signed["branch"]) == (worked.tip(), "main")
    assert (signed["uid"], signed["task"]) == (os.getuid(), "")
    assert datetime.fromisoformat(signed["at"]).tzinfo


def test_of_a_task_every_commit_is_written_down(worked: Stage) -> None:
    worked.watch(work("c", "t-101 again"), DONE)
    sign(worked, "T-101")
    [signed] = json_lines(book(worked))
    assert len(signed["commits"]) == 2
    assert signed["commit"] == worked.tip()


def test_signing_twice_adds_nothing_and_another_person_adds_a_line(worked: Stage) -> None:
    sign(worked, "T-101")
    assert "already signed off by Ann Smith" in sign(worked, "T-101").out
    assert len(json_lines(book(worked))) == 1
    sign(worked, "T-101", "--by", "Bob")
    assert [line["by"] for line in json_lines(book(worked))] == ["Ann Smith", "Bob"]


def test_signatures_are_only_ever_added(worked: Stage) -> None:
    sign(worked, "T-101")
    before = book(worked).read_bytes()
    sign(worked, "T-102")
    assert book(worked).read_bytes().startswith(before)
    assert oct(book(worked).stat().st_mode & 0o777) == "0o600"


def test_a_list_of_them(worked: Stage) -> None:
    assert "nothing has been signed off yet" in call(signoff.command, *of(worked)).out
    sign(worked, "T-101", *ANN, "--note", "fine\x1b[2J")
    said = call(signoff.command, *of(worked))
    assert "task T-101 (1 commits)  by Ann Smith" in said.out
    assert "\x1b" not in said.out
    [line] = call(signoff.command, *of(worked), "--json").out.splitlines()
    assert json.loads(line)["task"] == "T-101"


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("T-999", "neither a task nor a commit"),
        ("deadbeef", "neither a task nor a commit"),
        ("0" * 40, "neither a task nor a commit"),
        ("nonsense", "neither a task nor a commit"),
        ("--all", "no such option"),
        ("side", "neither a task nor a commit"),
        ("main:README.md", "neither a task nor a commit"),
        ("HEAD\nHEAD", "neither a task nor a commit"),
        ("T-104", "no commit on main names the task T-104"),
    ],
)
def test_what_is_not_there_cannot_be_signed(worked: Stage, what: str, word: str) -> None:
    """A branch beside is there, and its commit is not on the branch that is worked on."""
    worked.git("checkout", "-q", "-b", "side")
    worked.git("commit", "-q", "--allow-empty", "-m", "beside")
    worked.git("checkout", "-q", "main")
    (worked.project / "docs").mkdir()
    (worked.project / "docs/tasks.md").write_text("| open | T-104 | Say hello |\n")
    said = sign(worked, what)
    assert said.code == 64
    assert word in said.err.lower() or word in said.err
    assert not book(worked).exists()


@pytest.mark.parametrize(
    "options", [(), ("--by", ""), ("--by", "  "), ("--by", "A\nB"), ("--by", "\x1b[2J"), ("--by", "x" * 300)]
)
def test_a_signature_needs_a_name(worked: Stage, options: tuple[str, ...]) -> None:
    said = call(signoff.command, worked.project, "T-101", *of(worked)[1:], *options)
    assert said.code == 64
    assert "--by" in said.err
    assert not book(worked).exists()


def test_a_name_without_a_task_is_a_usage_error(worked: Stage) -> None:
    assert call(signoff.command, *of(worked), *ANN).code == 64


def test_a_project_without_records_cannot_be_signed(stage: Stage) -> None:
    stage.config()
    said = sign(stage, "HEAD")
    assert said.code == 78
    assert not list(stage.root.glob("state/*/signoffs.jsonl"))


def test_a_damaged_signature_is_told_and_the_others_count(worked: Stage) -> None:
    sign(worked, "T-101")
    with book(worked).open("a") as file:
        file.write('not json\n{"by": 1}\n')
    sign(worked, "T-102")
    said = call(review.command, *of(worked), "--json")
    assert said.code == 78
    assert len(said.json["problems"]) == 2
    assert said.json["unsigned"] == []


def test_a_torn_signature_was_never_given(tmp_path: Path) -> None:
    path = tmp_path / "signoffs.jsonl"
    whole = SignOff(at=AT, by="Ann", uid=0, user="root", what="T-1", commit="a" * 40, branch="main")
    add(path, whole, Disk())
    with path.open("a") as file:
        file.write('{"by": "Eve"')
    assert read(path).signoffs == (whole,)
    assert "signoffs.jsonl.torn-1" in add(path, replace_by(whole, "Bob"), Disk())
    assert [one.by for one in read(path).signoffs] == ["Ann", "Bob"]


def replace_by(signed: SignOff, by: str) -> SignOff:
    import msgspec

    return msgspec.structs.replace(signed, by=by)


@pytest.mark.parametrize(
    ("subject", "named"),
    [
        ("T-1: x", True),
        ("Finish T-1", True),
        ("(t-1)", True),
        ("T-11: x", False),
        ("XT-1", False),
        ("T-1-2", False),
        ("UT-1", False),
    ],
)
def test_a_task_is_named_by_its_whole_id(subject: str, named: bool) -> None:
    commit = Commit(id="a", tree="b", author="c", at=AT, subject=subject)
    assert bool(naming("T-1", [commit])) is named


def test_a_later_signature_for_a_task_does_not_become_the_last_state() -> None:
    state = SignOff(at=AT, by="Ann", uid=0, user="root", what="x", commit="a" * 40, branch="main")
    task = SignOff(
        at=AT, by="Ann", uid=0, user="root", what="T-1", task="T-1", commit="b" * 40, branch="main"
    )
    assert Book(signoffs=(state, task)).last_state == state


# --- reopen ----------------------------------------------------------------------------------------------


@pytest.fixture
def claude(stage: Stage) -> tuple[Stage, dict[str, Any]]:
    """A run of the scripted agent under the real program's name."""
    program = stage.root / "home" / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m watcher.scripted_agent "$@"\n')
    program.chmod(0o755)
    return stage, {"command": [str(program)], "env": {"CLAUDE_CONFIG_DIR": str(stage.root / "home/.claude")}}


def runs_with(stage: Stage, agent: Mapping[str, Any], *pokes: Mapping[str, Any]) -> Played:
    return stage.watch(*pokes, agent=agent)


def test_the_command_opens_the_last_session_in_the_project(claude: tuple[Stage, dict[str, Any]]) -> None:
    stage, agent = claude
    played = runs_with(stage, agent, work("a", "Add a"), DONE)
    said = call(reopen.command, *of(stage))
    assert said.code == 0, said.err
    assert "of two writers on one session, one is lost" in said.err
    moved, _, rest = said.out.strip().partition(" && ")
    assert shlex.split(moved) == ["cd", str(stage.project)]
    words = shlex.split(rest)
    assert words[0] == "env"
    assert f"CLAUDE_CONFIG_DIR={stage.root / 'home/.claude'}" in words
    assert words[-4:] == ["--resume", played.history[-1]["session_id"], "--setting-sources", ""]


def test_the_printed_command_can_be_run_as_it_is(claude: tuple[Stage, dict[str, Any]]) -> None:
    stage, agent = claude
    odd = stage.root / "a project's \x24(touch gone)"
    stage.project.rename(odd)
    stage.name = odd.name
    played = runs_with(stage, agent, DONE)
    (stage.root / "home" / "claude").write_text('#!/bin/sh\npwd; printf "<%s>" "$@"\n')
    said = call(reopen.command, *of(stage))
    done = subprocess.run(["/bin/sh", "-c", said.out], capture_output=True, text=True, check=True, cwd="/")
    session = played.history[-1]["session_id"]
    assert done.stdout == f"{odd}\n<--resume><{session}><--setting-sources><>"


def test_a_poke_names_its_own_session(claude: tuple[Stage, dict[str, Any]]) -> None:
    stage, agent = claude
    played = runs_with(stage, agent, {"say": "x", "new_session": True}, {"say": "y"}, DONE)
    first = played.history[0]["session_id"]
    assert f"--resume {first}" in call(reopen.command, *of(stage), "--poke", 1).out


@pytest.mark.parametrize(("poke", "word"), [("9", "no line of a poke 9"), ("0", "")])
def test_a_poke_that_was_not_is_refused(claude: tuple[Stage, dict[str, Any]], poke: str, word: str) -> None:
    stage, agent = claude
    runs_with(stage, agent, DONE)
    said = call(reopen.command, *of(stage), "--poke", poke)
    assert said.code == (78 if word else 64)
    assert word in said.err
    assert said.out == ""


def test_a_session_with_an_odd_name_is_not_printed_to_be_typed(claude: tuple[Stage, dict[str, Any]]) -> None:
    stage, agent = claude
    played = runs_with(stage, agent, DONE)
    history = played.run / "history.jsonl"
    line = json.loads(history.read_text())
    history.write_text(json.dumps({**line, "session_id": "--dangerously-skip-permissions"}) + "\n")
    said = call(reopen.command, *of(stage))
    assert (said.code, said.out) == (78, "")


def test_while_somebody_works_there_it_is_refused(worked: Stage) -> None:
    import fcntl

    descriptor = os.open(next(worked.state.glob("*/runs")).parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        said = call(reopen.command, *of(worked))
    finally:
        os.close(descriptor)
    assert said.code == 75
    assert "Of two writers on one session" in said.err
    assert said.out == ""


def test_another_program_is_named_with_its_session(worked: Stage) -> None:
    worked.config(agent={"profile": "custom"})
    said = call(reopen.command, *of(worked))
    assert said.code == 78
    assert json_lines(next(worked.state.glob("*/runs/*/history.jsonl")))[-1]["session_id"] in said.err


@pytest.mark.root
@as_root
def test_it_is_opened_as_the_agents_user() -> None:
    with open_ring(Account.of("nobody")) as ring:
        ring.attempts([])
        ring.stage.config(**ring.sections(profile="claude"))
        said = call(reopen.command, *of(ring.stage))
    assert said.code == 0, said.err
    words = shlex.split(said.out.partition(" && ")[2])
    assert words[0] in ("sudo", "runuser")
    assert words[1:3] == ["-u", "nobody"]
    assert "HOME=/nonexistent" in words


# --- the agent has no way in -----------------------------------------------------------------------------


@pytest.mark.root
@as_root
@pytest.mark.parametrize("verb", ["review", "signoff", "signoff WHAT", "reopen"])
def test_another_user_gets_nothing_and_changes_nothing(verb: str) -> None:
    """The agent's user, with the right configuration in hand and `harness` on its path."""
    with open_ring(Account.of("nobody")) as ring:
        ring.attempts([("commit", "run", "git", *WHO, "commit", "-q", "--allow-empty", "-m", "T-1: mine")])
        call(signoff.command, *of(ring.stage)[:1], "T-1", *of(ring.stage)[1:], *ANN)
        before = (ring.records / "signoffs.jsonl").read_bytes()
        assert b"Ann" in before
        (ring.place / "harness.toml").chmod(0o644)
        name, _, what = verb.partition(" ")
        words = [str(ring.project), *(["HEAD", "--by", "Boss"] if what else [])]
        words += ["--config", str(ring.place / "harness.toml")]
        said = as_user(
            Account.of("nobody"),
            f"from watcher.cli.{name} import command\n"
            f"sys.exit(int(command.main({words!r}, standalone_mode=False)))",
            {**ring.stage.environ(), "HOME": "/nonexistent"},
        )
        assert said.returncode == 78, said.stderr
        assert "Ann" not in said.stdout + said.stderr
        assert (ring.records / "signoffs.jsonl").read_bytes() == before


WHO = ("-c", "user.name=Agent", "-c", "user.email=agent@localhost")


@pytest.mark.root
@as_root
def test_the_agents_user_is_told_that_it_does_not_sign_its_own_work() -> None:
    """Where it could reach the records after all, as the owner of records of its own."""
    with open_ring(harness=Account.of("nobody")) as ring:
        ring.attempts_apart([("commit", "run", "git", *WHO, "commit", "-q", "--allow-empty", "-m", "T-1")])
        config = ring.stage.config(**ring.sections(user="nobody"))
        config.chmod(0o644)
        words = [str(ring.project), "T-1", "--by", "Boss", "--config", str(config)]
        said = as_user(
            Account.of("nobody"),
            f"from watcher.cli.signoff import command\n"
            f"sys.exit(int(command.main({words!r}, standalone_mode=False)))",
            {**ring.stage.environ(), "HOME": str(ring.home)},
        )
        assert said.returncode == 78
        assert "does not sign off its own work" in said.stderr
        assert not (ring.records / "signoffs.jsonl").exists()
