"""The agent runs as a user of its own (ring 1): what it cannot reach, tried by a real second user."""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Played, Stage
from tests.ring_stage import Attempt, Ring, open_ring
from watcher.cli import run
from watcher.prepare.confined import exposures
from watcher.process import Account

as_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user"),
]
SECRETS = {"SECRET_TOKEN": "s", "SSH_AUTH_SOCK": "/run/agent", "XDG_STATE_HOME": "/srv", "TMPDIR": "/srv"}


def nobody() -> Account:
    return Account.of("nobody")


@pytest.fixture(scope="module")
def tried() -> Iterator[dict[str, Any]]:
    """Everything of ATTEMPTS, tried in the second run of a project whose first run left records."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a second user")
    with open_ring(nobody()) as ring:
        ring.attempts([])
        secret = ring.place / "deploy-key"
        secret.write_text("a key")
        secret.chmod(0o600)
        (ring.records / "publisher.git").mkdir(mode=0o700, exist_ok=True)
        ring.stage = replace_variables(ring.stage, SECRETS)
        played, answers = ring.attempts([*(attempt for _, attempt, _ in attempts(ring)), ("facts", "facts")])
        yield {**answers, "played": played, "ring": ring}


def replace_variables(stage: Stage, variables: dict[str, str]) -> Stage:
    return replace(stage, variables=variables)


def attempts(ring: Ring | None = None) -> list[tuple[str, Attempt, tuple[str, ...]]]:
    """Name, attempt, and the errors that are a refusal. Without a stage the paths do not matter."""
    place = ring.place if ring else Path("/")
    records = ring.records if ring else Path("/")
    old = next(records.glob("runs/*")) if ring else Path("/")
    us, denied = str(os.getpid()), ("EACCES",)
    table: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
        ("list the state root", ("run", "ls", str(place / "state")), ()),
        ("read the records", ("read", str(records / "project.json")), denied),
        ("add a sign-off", ("write", str(records / "signoffs.jsonl")), denied),
        ("read an older prompt", ("read", str(old / "pokes/000001.prompt")), denied),
        ("change an older prompt", ("overwrite", str(old / "pokes/000001.prompt")), denied),
        ("change the history", ("overwrite", str(old / "history.jsonl")), denied),
        ("change the checkpoint", ("overwrite", str(old / "checkpoint.json")), denied),
        ("enter the publisher's repository", ("run", "ls", str(records / "publisher.git")), ()),
        ("read the configuration", ("read", str(place / "harness.toml")), denied),
        ("change the configuration", ("overwrite", str(place / "harness.toml")), denied),
        ("put another state root there", ("replace", str(place / "state")), denied),
        ("read a key", ("read", str(place / "deploy-key")), denied),
        ("read the harness's environment", ("read", f"/proc/{us}/environ"), denied),
        ("read the harness's memory", ("read", f"/proc/{us}/mem"), denied),
        ("list the harness's files", ("run", "ls", f"/proc/{us}/fd"), ()),
        ("signal the harness", ("signal", us), ("EPERM",)),
        ("trace the harness", ("trace", us), ("EPERM",)),
        ("take the project's lock", ("lock", str(place / "project")), ("EAGAIN",)),
        ("take the records' lock", ("lock", str(records)), denied),
        ("write its own prompt", ("open_for_writing", "/proc/self/fd/0"), denied),
        ("open its output anew", ("open_for_writing", "/proc/self/fd/1"), denied),
    ]
    return [(name, (name, *what), refused) for name, what, refused in table]


@pytest.mark.root
@pytest.mark.parametrize(
    ("name", "refused"),
    [(name, refused) for name, _, refused in attempts()],
    ids=[name for name, *_ in attempts()],
)
def test_it_cannot(tried: dict[str, Any], name: str, refused: tuple[str, ...]) -> None:
    answer = tried[name]
    if refused:
        assert answer in refused
    else:
        assert answer[0] != 0
        assert "Permission denied" in answer[1]


@pytest.mark.root
class TestWhatItIs:
    def test_its_rights_are_those_of_that_user(self, tried: dict[str, Any]) -> None:
        facts, user = tried["facts"], nobody()
        assert (facts["uid"], facts["gid"]) == (user.uid, user.gid)
        assert facts["groups"] == sorted(set(user.groups))
        assert "CapEff:\t0000000000000000" in facts["status"]
        assert facts["umask"] == 0o022

    def test_its_environment_is_that_users_and_holds_nothing_of_ours(self, tried: dict[str, Any]) -> None:
        env = tried["facts"]["env"]
        user = nobody()
        assert (env["HOME"], env["USER"], env["LOGNAME"]) == (user.home, user.name, user.name)
        assert not set(SECRETS) & set(env)
        ours = {"HOME", "USER", "LOGNAME", "PATH", "TERM", "TZ", "HARNESS_POKE", "PROBE", "PROBE_OUT"}
        configured = {"PYTHONPATH", "SCRIPTED_AGENT_TAPE"}
        assert set(env) <= ours | configured | {"LC_CTYPE"}  # Python's own

    def test_it_holds_three_files_and_leads_a_session_of_its_own(self, tried: dict[str, Any]) -> None:
        assert tried["facts"]["fds"] == [0, 1, 2, 3]  # the last one lists them
        assert tried["facts"]["leads"]

    def test_nothing_it_tried_has_changed_a_record(self, tried: dict[str, Any]) -> None:
        ring: Ring = tried["ring"]
        files = [path for path in ring.records.glob("runs/**/*") if path.is_file()]
        assert len(files) > 10
        planted = [path for path in files if b"planted" in path.read_bytes()]
        assert planted == []
        assert not (ring.records / "signoffs.jsonl").exists()

    def test_a_user_of_its_own_is_nothing_to_warn_of(self, tried: dict[str, Any]) -> None:
        played: Played = tried["played"]
        assert not played.logged("harness's own user")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
def test_every_git_command_in_the_project_runs_as_that_user() -> None:
    """Whatever the harness asks git there: the project's configuration may name programs to run."""
    with open_ring(nobody()) as ring:
        spy(ring)
        variables = {"PATH": f"{ring.place}/bin:{os.environ['PATH']}"}
        ring.stage = replace_variables(ring.stage, variables)
        (ring.project / "uncommitted.txt").write_text("work\n")
        ring.attempts([])
        seen = [line.split(" ", 2) for line in (ring.place / "calls").read_text().splitlines()]
    inside = [(uid, verb) for uid, cwd, verb in seen if Path(cwd).is_relative_to(ring.project)]
    assert len(inside) > 3
    assert {uid for uid, _ in inside} == {str(nobody().uid)}


def spy(ring: Ring) -> None:
    """A git that writes down who called it where, and goes on as the real one."""
    folder = ring.place / "bin"
    folder.mkdir()
    calls = ring.place / "calls"
    calls.touch()
    calls.chmod(0o666)
    real = next(p for p in (Path(d) / "git" for d in os.environ["PATH"].split(":")) if p.exists())
    (folder / "git").write_text(
        f'#!/bin/sh\necho "$(id -u) $(pwd) $*" >>{calls}\nexec {real} "$@"\n',
    )
    (folder / "git").chmod(0o755)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
def test_what_the_project_makes_git_run_is_run_as_that_user() -> None:
    """A clean filter is a program of the repository's choice, which `git status` starts."""
    with open_ring(nobody()) as ring:
        traces = ring.place / "traces"
        traces.touch()
        traces.chmod(0o666)
        trap = ring.project / "trap.sh"
        trap.write_text(f"#!/bin/sh\nid -u >>{traces}\ncat\n")
        trap.chmod(0o755)
        ring.stage.git("-c", f"safe.directory={ring.project}", "config", "filter.trap.clean", str(trap))
        (ring.project / ".git/info").mkdir(exist_ok=True)
        (ring.project / ".git/info/attributes").write_text("README.md filter=trap\n")
        (ring.project / "README.md").write_text("HELLO\n")  # as long as before: git has to read it
        ring.give(nobody())
        ring.attempts([])
        assert set(traces.read_text().split()) == {str(nobody().uid)}


@pytest.mark.parametrize("user", ["", "self"], ids=["no user", "a user that is us"])
def test_a_shared_user_is_warned_about(stage: Stage, user: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = Account.of(pwd.getpwuid(os.geteuid()).pw_name).name if user else ""
    sections = {"agent": {"user": name}} if name else {}
    played = stage.watch({"say": "ALL-TASKS-DONE"}, **sections)
    warnings = [line for line in played.log if "harness's own user" in line["event"]]
    assert [line["level"] for line in warnings] == ["warning"]
    assert run(["status", str(stage.project), "--config", str(stage.root / "harness.toml")]) == 0
    assert "agent runs as the harness's own user" in capsys.readouterr().out


def test_a_user_that_is_as_good_as_root_is_warned_about() -> None:
    mighty = grp.getgrnam("root").gr_gid
    user = Account(uid=4242, gid=4242, groups=(4242,), home="/", name="agent")
    assert list(exposures(user, "/usr/bin", sandboxed=False)) == []
    for account in (replace(user, groups=(4242, mighty)), replace(user, gid=mighty)):
        said = " ".join(exposures(account, "/usr/bin", sandboxed=False))
        assert "agent is in the group root, which is as good as being root" in said


def test_a_program_of_the_harness_that_the_agents_user_can_change_is_warned_about(tmp_path: Path) -> None:
    owner = Account(uid=os.geteuid(), gid=4242, groups=(), home="/", name="agent")
    other = replace(owner, uid=4242)
    path = f"{tmp_path}:/usr/bin"
    assert str(tmp_path) in " ".join(exposures(owner, path, sandboxed=False))
    assert list(exposures(other, path, sandboxed=False)) == []
    tmp_path.chmod(0o777)
    assert str(tmp_path) in " ".join(exposures(other, path, sandboxed=False))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")
def test_the_records_are_closed_to_everybody_else(stage: Stage) -> None:
    """Not by the run's directory alone: by every one on the way to a record."""
    stage.watch({"say": "ALL-TASKS-DONE"})
    for path in (stage.state, *stage.state.rglob("*")):
        if path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    files = [path for path in stage.state.rglob("*") if path.is_file()]
    assert files
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {"0o600"}
    assert json.loads((next(stage.state.glob("*/project.json"))).read_text())
