"""The sandbox (ring 1 for those without a second user): what an agent inside it can and cannot do, tried."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Stage
from tests.ring_stage import Attempt, Ring, open_ring, python
from watcher.effect import sandbox
from watcher.effect.sandbox import walls
from watcher.effect.sandbox_mounts import NoSandbox, Places
from watcher.prepare import Refused
from watcher.process import Account, Command, End, Finished, Ladder, end_orphans, run_tool, supervise
from watcher.process.family import Before, Family
from watcher.process.proc import Identity, look

ROOT_ALONE, SECOND_USER, SHARED = "root alone", "second user", "shared uid"
MADE = f"made-by-the-agent-{os.getpid()}"
# The second user is nobody, who has no home: this one is as the rest of the machine.
NOT_ITS_HOME = {
    "write in the home": ("EROFS",),
    "let somebody in": ("EROFS",),
    **dict.fromkeys(("read a key", "read a token"), ("done",)),
}
PATIENT = Ladder(int_s=60, term_s=60, kill_s=10, settle_s=60, leftover_s=60, poll_s=0.02)
SHORT = Ladder(int_s=0.3, term_s=0.3, kill_s=5.0, settle_s=0.3, leftover_s=0.3, poll_s=0.02)


def nobody() -> Account:
    return Account.of("nobody")


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> str:
    """The real program: CI installs it and may not do without."""
    found = shutil.which("bwrap")
    works = found and subprocess.run(
        [found, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"],
        capture_output=True,
        check=False,
    )
    if not found or not works or works.returncode:
        reason = "needs bubblewrap and a kernel that lets it work"
        if os.environ.get("HARNESS_CI") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


# --- what the agent can and cannot do -----------------------------------------------------------------


@pytest.fixture(scope="module", params=[SHARED, ROOT_ALONE, SECOND_USER])
def tried(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """One run in the sandbox after one that left records, for each way to be harness and agent."""
    if os.geteuid() != 0 and request.param != SHARED:
        pytest.skip("needs root")
    with open_mode(request.param) as ring, outside(ring) as world:
        once(ring, [])
        answers = once(ring, [attempt for _, attempt, _ in table(ring, world)] + [("facts", "facts")])
        yield {**answers, "mode": request.param, "ring": ring, "world": world}


@contextlib.contextmanager
def open_mode(mode: str) -> Iterator[Ring]:
    apart = mode == SHARED and os.geteuid() == 0
    with open_ring(
        user=nobody() if mode == SECOND_USER else None, harness=nobody() if apart else None
    ) as ring:
        for name in (".ssh/id_ed25519", ".bashrc", ".config/harness/other.toml", ".config/gh/hosts.yml"):
            (ring.home / name).parent.mkdir(parents=True, exist_ok=True)
            (ring.home / name).write_text("before\n")
        if owner := ring.user or ring.harness:
            ring.give(owner)
        yield ring


def once(ring: Ring, attempts: list[Attempt], **agent: Any) -> dict[str, Any]:
    agent = {"sandbox": "bwrap", **agent}
    if ring.harness:
        return ring.attempts_apart(attempts, **agent)
    return ring.attempts(attempts, **agent)[1]


class World:
    """Things outside of the sandbox: a file, a service on a socket, another on a port."""

    def __init__(self, ring: Ring) -> None:
        self.file = ring.place / "elsewhere"
        self.file.write_text("before\n")
        self.file.chmod(0o666)
        self.in_tmp = Path("/tmp") / f"harness-test-{uuid.uuid4().hex}"
        self.in_tmp.write_text("before\n")
        self.in_tmp.chmod(0o666)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket_path = self.in_tmp.with_suffix(".sock")
        self.socket.bind(str(self.socket_path))
        self.socket_path.chmod(0o777)
        self.socket.listen()
        self.port = socket.create_server(("127.0.0.1", 0))

    @property
    def number(self) -> str:
        return str(self.port.getsockname()[1])


@contextlib.contextmanager
def outside(ring: Ring) -> Iterator[World]:
    world = World(ring)
    try:
        yield world
    finally:
        world.socket.close()
        world.port.close()
        world.in_tmp.unlink()
        world.socket_path.unlink()


def table(ring: Ring | None = None, world: World | None = None) -> list[tuple[str, Attempt, tuple[str, ...]]]:
    """Name, attempt, the answers that are right."""
    home, project, state, place, records, old = (Path("/"),) * 6
    file = in_tmp = sock = "/"
    port = us = "1"
    if ring and world:
        home, project, place, state = ring.home, ring.project, ring.place, ring.state_root
        records, old = ring.records, next(ring.records.glob("runs/*"))
        file, in_tmp, sock = str(world.file), str(world.in_tmp), str(world.socket_path)
        port, us = world.number, str(os.getpid())
    done, gone, fixed = ("done",), ("ENOENT", "EACCES"), ("EROFS", "EACCES")
    busy = ("EBUSY", "EROFS", "EACCES")
    rows: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
        ("write in the project", ("write", str(project / "made.txt")), done),
        ("write in the home", ("write", str(home / "made.txt")), done),
        ("write in /tmp", ("write", f"/tmp/{MADE}"), done),
        ("write in /dev/shm", ("write", f"/dev/shm/{MADE}"), done),
        ("read the system", ("read", "/etc/passwd"), done),
        ("read elsewhere", ("read", file), done),
        ("reach the network", ("connect", "127.0.0.1", port), done),
        ("write elsewhere", ("overwrite", file), fixed),
        ("change the system", ("open_for_writing", "/etc/passwd"), fixed),
        ("write beside the project", ("write", str(place / "made.txt")), fixed),
        ("see what others have in /tmp", ("read", in_tmp), gone),
        ("call a service by its socket", ("call", sock), gone),
        ("read the records", ("read", str(records / "project.json")), gone),
        ("add a sign-off", ("write", str(records / "signoffs.jsonl")), (*gone, "EROFS")),
        ("write where the records are", ("write", str(state / "made.txt")), (*gone, "EROFS")),
        ("read an older prompt", ("read", str(old / "pokes/000001.prompt")), gone),
        ("put other records there", ("replace", str(state)), busy),
        ("put another state directory there", ("replace", str(state.parent)), busy),
        ("read this configuration", ("contents", str(place / "harness.toml")), ("EACCES", "")),
        ("change this configuration", ("overwrite", str(place / "harness.toml")), fixed),
        ("read a key", ("read", str(home / ".ssh/id_ed25519")), gone),
        ("let somebody in", ("write", str(home / ".ssh/authorized_keys")), (*gone, "EROFS")),
        ("read a token", ("read", str(home / ".config/gh/hosts.yml")), gone),
        ("change what a shell starts with", ("overwrite", str(home / ".bashrc")), fixed),
        ("remove what a shell starts with", ("remove", str(home / ".bashrc")), busy),
        ("put another home there", ("replace", str(home)), busy),
        ("signal a process outside", ("signal", us), ("ESRCH",)),
        ("trace a process outside", ("trace", us), ("ESRCH", "EPERM")),
        ("take a wall away", ("unmount", "/tmp"), ("EPERM",)),
        ("take the home away", ("unmount", str(home)), ("EPERM", "EINVAL")),
        ("set the kernel", ("open_for_writing", "/proc/sys/kernel/core_pattern"), fixed),
        ("change its own prompt", ("overwrite", "/proc/self/fd/0"), ("done", "EACCES")),
    ]
    return [(name, (name, *what), right) for name, what, right in rows]


@pytest.mark.parametrize(
    ("name", "right"), [(name, right) for name, _, right in table()], ids=[name for name, *_ in table()]
)
def test_an_agent_may_try_to(tried: dict[str, Any], name: str, right: tuple[str, ...]) -> None:
    if tried["mode"] == SECOND_USER:
        right = NOT_ITS_HOME.get(name, right)
    assert tried[name] in right


def test_it_keeps_the_user_and_loses_every_capability(tried: dict[str, Any]) -> None:
    facts = tried["facts"]
    expected = {SHARED: os.geteuid() or nobody().uid, ROOT_ALONE: 0, SECOND_USER: nobody().uid}
    assert facts["uid"] == expected[tried["mode"]]
    for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000" in facts["status"]
    assert "NoNewPrivs:\t1" in facts["status"]


def test_it_sees_only_processes_of_the_sandbox(tried: dict[str, Any]) -> None:
    assert tried["facts"]["pids"][0] == 1
    assert len(tried["facts"]["pids"]) < 6


def test_its_files_are_the_three_and_it_works_in_the_project(tried: dict[str, Any]) -> None:
    facts = tried["facts"]
    assert [number for number in facts["fds"] if number < 3] == [0, 1, 2]
    assert len(facts["fds"]) == 4  # the last one lists them
    assert facts["cwd"] == str(tried["ring"].project)
    assert "TMPDIR" not in facts["env"]
    assert "XDG_RUNTIME_DIR" not in facts["env"]


def test_what_it_left_outside_is_what_it_was_allowed_to(tried: dict[str, Any]) -> None:
    ring: Ring = tried["ring"]
    world: World = tried["world"]
    assert (ring.project / "made.txt").exists()
    assert (ring.home / "made.txt").exists() is (tried["mode"] != SECOND_USER)
    assert not any((Path(folder) / MADE).exists() for folder in ("/tmp", "/dev/shm"))
    assert world.file.read_text() == world.in_tmp.read_text() == "before\n"
    assert (ring.home / ".bashrc").read_text() == "before\n"
    assert not (ring.home / ".ssh/authorized_keys").exists()


def test_the_record_of_its_prompt_is_what_was_sent(tried: dict[str, Any]) -> None:
    """Standard input can be opened again, for writing, by a process of the same user."""
    prompts = list(tried["ring"].records.glob("runs/*/pokes/*.prompt"))
    assert len(prompts) == 2
    assert {b"planted" in path.read_bytes() for path in prompts} == {False}
    assert not list(tried["ring"].records.glob("runs/*/pokes/*given*"))


# --- the network ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "answers"), [("host", {"done"}), ("none", {"ECONNREFUSED", "ENETUNREACH"})]
)
def test_the_network_is_the_machines_or_none(network: str, answers: set[str]) -> None:
    with open_mode(SHARED) as ring, outside(ring) as world:
        said = once(ring, [("there", "connect", "127.0.0.1", world.number)], sandbox_network=network)
    assert said["there"] in answers


def test_a_network_to_take_away_needs_a_sandbox_to_take_it_from(stage: Stage) -> None:
    with pytest.raises(Refused, match="no sandbox to take the network away in") as refused:
        stage.watch({}, agent={"sandbox_network": "none"})
    assert refused.value.exit_code == 78


# --- git in the agent's project ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bwrap", "none"])
def test_git_in_the_agents_project_runs_inside_too(kind: str) -> None:
    """It reads the agent's configuration. Outside is only the question whether there is a repository."""
    with open_mode(SHARED) as ring:
        calls = ring.home / "calls"
        folder = ring.place / "bin"
        folder.mkdir()
        (folder / "git").write_text(
            f'#!/bin/sh\necho "$(cat /proc/1/comm) $(pwd) $*" >>{calls}\nexec {shutil.which("git")} "$@"\n'
        )
        (folder / "git").chmod(0o755)
        ring.stage.variables = {"PATH": f"{folder}:{os.environ['PATH']}"}
        (ring.project / "uncommitted.txt").write_text("work\n")
        if ring.harness:
            ring.give(ring.harness)
        once(ring, [], sandbox=kind)
        seen = [line.split(" ", 2) for line in calls.read_text().splitlines()]
    inside = {words for first, _, words in seen if first == "bwrap"}
    outside = {words for first, cwd, words in seen if first != "bwrap" and cwd == str(ring.project)}
    if kind == "none":
        assert not inside
    else:
        assert any(" status " in words for words in inside)
        assert any(" for-each-ref " in words for words in inside)
        assert [words for words in outside if " rev-parse " not in words] == []


def test_a_whole_run_with_commits_is_the_same_inside(stage: Stage) -> None:
    """The scripted agent, its tape in the home, commits and leaves a process behind."""
    tape = stage.root / "home" / "tape.json"
    program = stage.root / "home" / "lib"  # a checkout in /tmp could not be seen
    shutil.copytree(ROOT / "watcher/scripted_agent", program / "watcher/scripted_agent")
    shutil.copy(ROOT / "watcher/__init__.py", program / "watcher")
    stage.record(
        {"write": {"a.txt": "a\n"}, "commit": "Add a", "say": "worked", "orphan": {"seconds": 300}},
        {"say": "ALL-TASKS-DONE"},
    )
    stage.tape.rename(tape)
    agent: dict[str, Any] = {"sandbox": "bwrap", "command": [python(), "-m", "watcher.scripted_agent"]}
    agent["env"] = {"SCRIPTED_AGENT_TAPE": str(tape), "PYTHONPATH": str(program)}
    played = stage.again(agent=agent)
    assert played.exit_code == 0, played.log
    assert played.outcomes == ["progress", "sentinel"]
    assert stage.remote_tip() == stage.tip()
    assert [line for line in played.log if "sleep(" in line.get("names", "")]


# --- refusals -------------------------------------------------------------------------------------------


def test_a_missing_bubblewrap_is_refused_with_what_to_install(stage: Stage, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("git", "python3", "test"):
        (bare / name).symlink_to(shutil.which(name) or "/bin/false")
    stage.variables = {"PATH": str(bare)}
    with pytest.raises(Refused, match=r"bubblewrap.*apt-get install bubblewrap") as refused:
        stage.watch({}, agent={"sandbox": "bwrap", "command": ["/bin/true"]})
    assert refused.value.exit_code == 78


def test_a_sandbox_that_cannot_be_built_is_refused_with_its_own_words(stage: Stage, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "bwrap").write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
    )
    (bare / "bwrap").chmod(0o755)
    stage.variables = {"PATH": f"{bare}:{os.environ['PATH']}"}
    with pytest.raises(Refused, match=r"cannot build the sandbox here: bwrap: No permissions.*namespaces"):
        stage.watch({}, agent={"sandbox": "bwrap", "command": ["/bin/true"]})
    assert not list(stage.state.glob("*/runs/*"))


def test_a_program_the_sandbox_hides_is_refused(stage: Stage) -> None:
    program = Path("/tmp") / f"agent-{uuid.uuid4().hex}"
    program.symlink_to("/bin/true")
    try:
        with pytest.raises(Refused, match="cannot be run inside the sandbox"):
            stage.watch({}, agent={"sandbox": "bwrap", "command": [str(program)]})
    finally:
        program.unlink()


# --- the words ------------------------------------------------------------------------------------------


def words(places: Places) -> list[str]:
    return list(walls("/usr/bin/bwrap", places))


def mounts(places: Places) -> dict[str, str]:
    """The last word on each path."""
    said = words(places)
    return {said[at + 2]: word for at, word in enumerate(said) if word in ("--bind", "--ro-bind")}


def a_project(tmp_path: Path, name: str = "home/work/project") -> Places:
    project = tmp_path / name
    (project / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    return Places(project=project, home=tmp_path / "home", uid=os.geteuid())


def test_the_parents_of_what_is_covered_are_mounts_and_cannot_be_renamed(tmp_path: Path) -> None:
    places = a_project(tmp_path)
    (places.home / ".config/gh").mkdir(parents=True)
    binds = mounts(places)
    assert binds[str(places.home / "work")] == "--bind"
    assert binds[str(places.home / ".config")] == "--bind"


def test_outer_mounts_come_before_inner_ones(tmp_path: Path) -> None:
    places = a_project(tmp_path)
    order = [word for word in words(places) if word.startswith(str(tmp_path))]
    assert order.index(str(places.home)) < order.index(str(places.project))


def test_a_home_of_somebody_else_is_not_made_writable(tmp_path: Path) -> None:
    places = replace(a_project(tmp_path), uid=4242)
    assert str(places.home) not in mounts(places)


def test_what_is_believed_outside_is_read_only_wherever_it_lies(tmp_path: Path) -> None:
    places = a_project(tmp_path)
    tool = places.home / "notify"
    tool.touch()
    assert mounts(replace(places, kept=(tool,)))[str(tool)] == "--ro-bind"


@pytest.mark.parametrize("kind", ["hidden", "kept", "folders"])
@pytest.mark.parametrize("at", ["link", "link/inner"])
def test_a_link_that_the_agent_could_replace_is_refused(tmp_path: Path, kind: str, at: str) -> None:
    """Nothing can be mounted over a link itself."""
    places = a_project(tmp_path)
    (tmp_path / "elsewhere/inner").mkdir(parents=True)
    (places.home / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoSandbox, match="is a link within the agent's reach"):
        words(replace(places, **{kind: (places.home / at,)}))


def test_what_is_run_outside_must_not_be_in_the_project(tmp_path: Path) -> None:
    places = a_project(tmp_path)
    with pytest.raises(NoSandbox, match="is in the project, where the agent could change it"):
        words(replace(places, kept=(places.project / ".venv",)))


def test_what_is_searched_for_programs_is_made_before_the_agent_can_make_it(tmp_path: Path) -> None:
    places = replace(a_project(tmp_path), folders=(tmp_path / "home/.local/bin",))
    sandbox.make_missing(places)
    assert mounts(places)[str(places.home / ".local/bin")] == "--ro-bind"
    assert mounts(places)[str(places.home / ".local")] == "--bind"


def test_a_project_inside_a_hidden_directory_is_refused(tmp_path: Path) -> None:
    places = a_project(tmp_path)
    with pytest.raises(NoSandbox, match="is hidden from the agent"):
        words(replace(places, hidden=(places.home / "work",)))


def test_a_linked_work_tree_may_write_to_its_own_repository(stage: Stage) -> None:
    tree = stage.root / "tree"
    stage.git("worktree", "add", "-q", str(tree))
    places = Places(project=tree, home=stage.root / "home", uid=os.geteuid())
    assert mounts(places)[str(stage.project / ".git")] == "--bind"


@pytest.mark.parametrize("target", ["other/.git", "other/.git/worktrees/tree", "missing", "."])
def test_a_git_file_that_leads_elsewhere_opens_nothing(stage: Stage, target: str) -> None:
    """`.git` is the agent's to write: a directory it names is believed only when that names it back."""
    other = stage.root / "other"
    other.mkdir()
    git = stage.git
    git("init", "-q", cwd=other)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    git("worktree", "add", "-q", str(stage.root / "tree"), cwd=other)
    forged = stage.root / "forged"
    forged.mkdir()
    (forged / ".git").write_text(f"gitdir: {stage.root / target}\n")
    with pytest.raises(NoSandbox):
        words(Places(project=forged, home=stage.root / "home", uid=os.geteuid()))


def test_a_project_below_the_top_of_its_repository_may_commit(tmp_path: Path) -> None:
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/sub").mkdir()
    places = Places(project=tmp_path / "repo/sub", home=tmp_path / "home", uid=os.geteuid())
    binds = mounts(places)
    assert binds[str(tmp_path / "repo/.git")] == "--bind"
    assert str(tmp_path / "repo") not in binds


# --- signals, orphans, leftovers --------------------------------------------------------------------------


class Inside:
    """Programs run by the process room in a sandbox around one folder."""

    def __init__(self, folder: Path, bwrap: str) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        account = Account(
            uid=os.geteuid(), gid=os.getegid(), groups=(), home=str(folder / "home"), name="agent"
        )
        places = Places(project=folder, home=folder / "home", uid=account.uid)
        self.account = replace(account, walls=walls(bwrap, places))
        self.tag = uuid.uuid4().hex
        self.env = {"PATH": "/usr/bin:/bin"}

    def python(self, script: str, **changes: Any) -> Command:
        command = Command(
            argv=(python(), "-c", script),
            cwd=self.folder,
            env=self.env,
            stdin=None,
            stdout=self.folder / "out",
            stderr=self.folder / "err",
            account=self.account,
            marker=self.tag,
        )
        return replace(command, **changes)

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    def left(self) -> list[int]:
        """Whatever of this test still runs, here seen from outside."""
        wanted = f"HARNESS_POKE={self.tag}".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
        return found


@pytest.fixture
def inside(tmp_path: Path, bubblewrap: str) -> Iterator[Inside]:
    made = Inside(tmp_path, bubblewrap)
    yield made
    for pid in made.left():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class AskedToStop:
    """A request to stop once the program has said that it is ready, another one when it says so again."""

    def __init__(self, inside: Inside, requests: int = 1) -> None:
        self.read, self._write = os.pipe()
        self._inside, self._left = inside, requests

    def fileno(self) -> int:
        return self.read

    def tick(self) -> None:
        path = self._inside.folder / "out"
        if self._left and path.exists() and "ready" in path.read_text():
            self._left -= 1
            os.write(self._write, b"x")

    def stop_now(self) -> bool:
        return bool(os.read(self.read, 100))


def stopped(inside: Inside, script: str, ladder: Ladder) -> Finished:
    asked = AskedToStop(inside)
    return supervise(inside.python(script), interrupts=asked, tick=asked.tick, ladder=ladder)


READY = "import os, signal, subprocess, sys, time; print('ready', flush=True);"


def test_its_exit_code_and_its_output_come_through(inside: Inside) -> None:
    (inside.folder / "in").write_text("hello")
    script = "import sys; print(sys.stdin.read()); print('oops', file=sys.stderr); sys.exit(7)"
    finished = supervise(inside.python(script, stdin=inside.folder / "in"))
    assert (finished.end, finished.exit_code, inside.out) == (End.EXITED, 7, "hello\n")
    assert (inside.folder / "err").read_text() == "oops\n"
    assert finished.leftovers == ()


def test_an_interrupt_reaches_the_program_itself_which_may_still_answer(inside: Inside) -> None:
    """The sandbox passes no signal on: it would die of this one, and the answer with the cost be lost."""
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: (print('the result'), sys.exit(5)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    finished = stopped(inside, script, PATIENT)
    assert (finished.end, finished.exit_code, finished.signalled) == (End.STOPPED, 5, ("INT",))
    assert inside.out == "ready\nthe result\n"
    assert inside.left() == []


def test_what_ignores_the_interrupt_is_asked_to_end_and_may_clean_up(inside: Inside) -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('cleaned up', flush=True), sys.exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    finished = stopped(inside, script, replace(PATIENT, int_s=0.2))
    assert finished.end is End.STOPPED
    assert inside.out == "ready\ncleaned up\n"
    assert inside.left() == []


def test_what_ignores_everything_is_killed_with_all_it_started(inside: Inside) -> None:
    script = (
        "import os, signal, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    finished = stopped(inside, script, SHORT)
    assert "KILL" in finished.signalled
    assert finished.survivors == ()
    assert inside.left() == []


def test_a_deadline_ends_it(inside: Inside) -> None:
    finished = supervise(inside.python(f"{READY} time.sleep(300)", timeout_s=1.5), ladder=SHORT)
    assert finished.end is End.DEADLINE
    assert inside.left() == []


def test_what_outlives_the_program_is_found_ended_and_named(inside: Inside) -> None:
    script = f"{READY} subprocess.Popen(['sleep', '300'], start_new_session=True, env={{}})"
    finished = supervise(inside.python(script), ladder=SHORT)
    assert finished.end is End.EXITED
    assert any(name.startswith("sleep(") for name in finished.leftovers)
    assert inside.left() == []


def test_after_a_crash_the_next_start_ends_it_by_its_marker(inside: Inside) -> None:
    """Started by a process that is gone: this one knows nothing but the marker."""
    argv = [*inside.account.walls, python(), "-c", f"{READY} time.sleep(300)"]
    with (inside.folder / "out").open("wb") as out:
        orphan = subprocess.Popen(
            argv, env={**inside.env, "HARNESS_POKE": inside.tag}, stdout=out, start_new_session=True
        )
    until(lambda: "ready" in inside.out)
    names = end_orphans(inside.tag, None, ladder=SHORT)
    orphan.wait()
    assert any(name.startswith("python3") for name in names)
    assert inside.left() == []


def test_the_program_is_told_from_the_sandbox_in_front_of_it(inside: Inside) -> None:
    before = Before.now()
    argv = [*inside.account.walls, python(), "-c", f"{READY} time.sleep(300)"]
    with (inside.folder / "out").open("wb") as out:
        outer = subprocess.Popen(argv, env={"HARNESS_POKE": inside.tag}, stdout=out, start_new_session=True)
    try:
        until(lambda: "ready" in inside.out)
        seen = look(outer.pid)
        assert seen is not None
        family = Family(seen.identity, marker=inside.tag, uid=None, before=before)
        program = family.program()
        assert isinstance(program, Identity)
        assert b"time.sleep(300)" in Path(f"/proc/{program.pid}/cmdline").read_bytes()
        assert program.pid != outer.pid
    finally:
        outer.kill()
        end_orphans(inside.tag, None, ladder=SHORT)
        outer.wait()


def test_short_helpers_leave_nothing_to_sweep(inside: Inside) -> None:
    """The sandbox's own processes follow their program at once: they are no leftovers."""
    for _ in range(5):
        tool = run_tool(
            ["git", "--version"], cwd=Path("/"), env=inside.env, account=inside.account, timeout_s=60
        )
        assert tool.exit_code == 0
        assert tool.stdout.startswith(b"git version")


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_probing_says_what_the_sandbox_said(tmp_path: Path, bubblewrap: str) -> None:
    account = Account(uid=os.geteuid(), gid=os.getegid(), groups=(), home="/", name="agent")
    broken = replace(account, walls=(bubblewrap, "--ro-bind", "/missing", "/", "--"))
    with pytest.raises(NoSandbox, match=r"cannot build the sandbox here: bwrap: .*missing"):
        sandbox.prove(broken, {"PATH": "/usr/bin:/bin"}, "/bin/true")


@pytest.mark.parametrize("kind", ["bwrap", "none"])
def test_a_shared_user_is_warned_about_as_far_as_the_sandbox_leaves_it_open(stage: Stage, kind: str) -> None:
    played = stage.watch({}, agent={"sandbox": kind, "command": ["/bin/false"]}, retries={"error_limit": 1})
    said = "its sandbox" if kind == "bwrap" else "can reach the harness's records"
    assert [line["level"] for line in played.logged(said)] == ["warning"]
