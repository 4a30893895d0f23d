"""An append-only remote: real pushes against a real bare repository, before and after."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT, WHO
from watcher.cli.harden_remote import command
from watcher.effect.harden import HOOK, SETTINGS

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a second user")


class Pair:
    """A bare repository with two branches, a tag, and a clone that pushes to it."""

    def __init__(self, root: Path) -> None:
        self.bare = root / "remote.git"
        self.clone = root / "clone"
        self.git("init", "-q", "--bare", "-b", "main", str(self.bare), cwd=root)
        self.git("init", "-q", "-b", "main", str(self.clone), cwd=root)
        for name in ("one", "two"):
            self.commit(name)
        self.git("branch", "side")
        self.git("tag", "-a", "v1", "-m", "v1")
        self.git("tag", "light")
        self.push("main", "side", "v1", "light")

    def git(self, *args: str, cwd: Path | None = None, check: bool = True) -> str:
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in WHO.items()}
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        done = subprocess.run(
            ["git", *args],
            cwd=cwd or self.clone,
            env={**env, **who},
            capture_output=True,
            text=True,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def commit(self, name: str) -> str:
        (self.clone / f"{name}.txt").write_text(f"{name}\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "HEAD").strip()

    def push(self, *what: str) -> str:
        return self.git("push", "--porcelain", str(self.bare), *what, check=False)

    def refs(self) -> str:
        return self.git("for-each-ref", cwd=self.bare)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.fixture
def hardened(pair: Pair) -> Pair:
    assert harden(pair.bare).exit_code == 0
    return pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the command printed, and the exit code that `harness` would have."""

    exit_code: int
    stdout: str
    stderr: str


def harden(*argv: object) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command.main([str(word) for word in argv], standalone_mode=False)
    return Said(exit_code=code, stdout=out.getvalue(), stderr=err.getvalue())


# --- pushes --------------------------------------------------------------------------------------------


def rewritten(pair: Pair) -> tuple[str, ...]:
    pair.git("reset", "-q", "--hard", "HEAD~1")
    pair.commit("other")
    return ("--force", "main")


def rewound(pair: Pair) -> tuple[str, ...]:
    return ("--force", "main~1:main")


def leased(pair: Pair) -> tuple[str, ...]:
    pair.git("commit", "-q", "--amend", "-m", "amended")
    return (f"--force-with-lease=main:{pair.git('rev-parse', 'side').strip()}", "main")


def moved_tag(pair: Pair) -> tuple[str, ...]:
    pair.commit("three")
    pair.git("tag", "-f", "light")
    return ("--force", "light")


def moved_annotated_tag(pair: Pair) -> tuple[str, ...]:
    pair.git("tag", "-f", "-a", "v1", "-m", "again")
    return ("--force", "v1")


def replacement(pair: Pair) -> tuple[str, ...]:
    pair.git("replace", "HEAD~1", "HEAD")
    return ("refs/replace/*:refs/replace/*",)


def other_ref(pair: Pair) -> tuple[str, ...]:
    pair.push("main:refs/meta/x")
    return ("--force", "main~1:refs/meta/x")


UNDOING: dict[str, tuple[Callable[[Pair], tuple[str, ...]], str]] = {
    "force": (rewritten, "refs/heads/main would lose commits"),
    "rewind": (rewound, "refs/heads/main would lose commits"),
    "force with lease": (leased, "refs/heads/main would lose commits"),
    "delete a branch": (lambda _: (":side",), "refs/heads/side would be deleted"),
    "delete a tag": (lambda _: (":refs/tags/v1",), "refs/tags/v1 would be deleted"),
    "move a tag": (moved_tag, "the tag light would be moved"),
    "move an annotated tag": (moved_annotated_tag, "the tag v1 would be moved"),
    "mirror": (lambda pair: (pair.git("branch", "-D", "side") and "--mirror",), "would be deleted"),
    "replace commits": (replacement, "would make other commits appear"),
    "rewind another ref": (other_ref, "refs/meta/x would lose commits"),
}
ADDING: dict[str, Callable[[Pair], tuple[str, ...]]] = {
    "a commit": lambda pair: (pair.commit("three") and "main",),
    "a branch": lambda pair: (pair.git("branch", "new") or "new",),
    "an unrelated branch": lambda pair: (
        pair.git("checkout", "-q", "--orphan", "else") or (pair.commit("root") and "else"),
    ),
    "a tag": lambda pair: (pair.git("tag", "-a", "v2", "-m", "v2") or "v2",),
    "nothing": lambda _: ("main",),
}


@pytest.mark.parametrize("hook", ["pre-receive", "update"])
@pytest.mark.parametrize("name", UNDOING)
def test_what_would_undo_something_is_refused_and_says_why(pair: Pair, name: str, hook: str) -> None:
    assert harden(pair.bare, "--hook", hook).exit_code == 0
    prepare, reason = UNDOING[name]
    what = prepare(pair)
    before = pair.refs()
    said = pair.push(*what)
    assert pair.refs() == before
    assert "rejected" in said
    if hook == "pre-receive":  # git's own refusals come before the other one
        assert reason in said
        assert "takes additions only" in said


@pytest.mark.parametrize("name", [name for name in UNDOING if name != "nothing"])
def test_an_ordinary_bare_repository_takes_all_of_that(pair: Pair, name: str) -> None:
    what = UNDOING[name][0](pair)
    before = pair.refs()
    pair.push(*what)
    assert pair.refs() != before


@pytest.mark.parametrize("name", ADDING)
def test_what_adds_something_is_taken(hardened: Pair, name: str) -> None:
    what = ADDING[name](hardened)
    said = hardened.push(*what)
    assert "rejected" not in said
    ref = what[-1]
    assert hardened.git("rev-parse", ref) == hardened.git("rev-parse", ref, cwd=hardened.bare)


def test_one_forbidden_part_keeps_the_whole_push_out(hardened: Pair) -> None:
    hardened.commit("three")
    before = hardened.refs()
    hardened.push("main", ":side")
    assert hardened.refs() == before


def test_a_damaged_object_is_not_taken(hardened: Pair) -> None:
    """A tree with an entry named .git, which a checkout would write into the repository itself."""
    blob = hardened.git("hash-object", "-w", "one.txt").strip()
    raw = b"100644 .git\0" + bytes.fromhex(blob)
    made = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        cwd=hardened.clone,
        input=raw,
        capture_output=True,
        check=True,
    )
    commit = hardened.git("commit-tree", made.stdout.decode().strip(), "-m", "x", "-p", "main").strip()
    before = hardened.refs()
    said = hardened.push(f"{commit}:refs/heads/main")
    assert "hasDotgit" in said
    assert hardened.refs() == before


def test_every_change_is_in_the_reflog_and_is_kept(hardened: Pair) -> None:
    first = hardened.git("rev-parse", "main").strip()
    second = hardened.commit("three")
    hardened.push("main")
    hardened.git("tag", "v3")
    hardened.push("v3")
    hardened.git("reflog", "expire", "--all", cwd=hardened.bare)
    hardened.git("gc", "-q", "--prune=now", cwd=hardened.bare)
    assert f"{first} {second}" in (hardened.bare / "logs/refs/heads/main").read_text()
    assert (hardened.bare / "logs/refs/tags/v3").exists()


# --- the command ----------------------------------------------------------------------------------------


def test_a_check_changes_nothing_and_says_what_is_open(pair: Pair) -> None:
    before = snapshot(pair.bare)
    said = harden(pair.bare, "--check")
    assert said.exit_code == 1
    assert snapshot(pair.bare) == before
    assert said.stdout.count("OPEN") == len(SETTINGS) + 1
    assert "not append-only: 7 of 7 are open" in said.stdout


def test_a_second_call_changes_nothing(pair: Pair) -> None:
    assert "set" in harden(pair.bare).stdout
    before = snapshot(pair.bare)
    again = harden(pair.bare)
    assert again.exit_code == 0
    assert again.stdout.count("  ok ") == len(SETTINGS) + 1
    assert snapshot(pair.bare) == before
    assert harden(pair.bare, "--check").exit_code == 0


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes()) for path in files}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_single_setting_that_is_off_is_seen_and_mended(hardened: Pair, key: str) -> None:
    hardened.git("config", "--unset-all", key, cwd=hardened.bare)
    hardened.git("config", "--add", key, "false", cwd=hardened.bare)
    said = harden(hardened.bare, "--check")
    assert said.exit_code == 1
    assert f"OPEN  {key}" in said.stdout
    assert harden(hardened.bare).exit_code == 0


@pytest.mark.parametrize(("change", "word"), [("x", "changed one of ours"), ("mode", "not executable")])
def test_a_hook_of_ours_that_is_not_in_force_is_seen_and_mended(
    hardened: Pair, change: str, word: str
) -> None:
    hook = hardened.bare / "hooks/pre-receive"
    if change == "mode":
        hook.chmod(0o644)
    else:
        hook.write_text(HOOK.replace("exit 1", "exit 0"))
    said = harden(hardened.bare, "--check")
    assert (said.exit_code, word in said.stdout) == (1, True)
    assert harden(hardened.bare).exit_code == 0
    assert hook.read_text() == HOOK
    assert stat.S_IMODE(hook.stat().st_mode) == 0o755


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_somebody_elses_hook_is_left_alone_and_nothing_is_changed(pair: Pair, kind: str) -> None:
    hook = pair.bare / "hooks/pre-receive"
    elsewhere = pair.clone / "hook"
    elsewhere.write_text("#!/bin/sh\n")
    {
        "file": lambda: hook.write_text("#!/bin/sh\nexit 0\n"),
        "link": lambda: hook.symlink_to(elsewhere),
        "folder": hook.mkdir,
    }[kind]()
    before = snapshot(pair.bare)
    said = harden(pair.bare)
    assert said.exit_code == 78
    assert "somebody else's hook" in said.stderr
    assert "--hook update" in said.stderr
    assert snapshot(pair.bare) == before
    assert elsewhere.read_text() == "#!/bin/sh\n"


def test_with_somebody_elses_hook_the_other_name_serves(pair: Pair) -> None:
    (pair.bare / "hooks/pre-receive").write_text("#!/bin/sh\ncat >/dev/null\n")
    (pair.bare / "hooks/pre-receive").chmod(0o755)
    assert harden(pair.bare, "--hook", "update").exit_code == 0
    assert harden(pair.bare, "--check").exit_code == 0  # found without being told which
    before = pair.refs()
    assert "the tag v1 would be moved" in pair.push(*moved_annotated_tag(pair))
    assert pair.refs() == before


def test_another_hook_can_call_the_printed_one(pair: Pair, tmp_path: Path) -> None:
    printed = harden("--print-hook").stdout
    (pair.bare / "hooks/append-only").write_text(printed)
    (pair.bare / "hooks/append-only").chmod(0o755)
    (pair.bare / "hooks/update").write_text('#!/bin/sh\nexec hooks/append-only "$@"\n')
    (pair.bare / "hooks/update").chmod(0o755)
    before = pair.refs()
    assert "would be deleted" in pair.push(":side")
    assert pair.refs() == before


def test_hooks_that_are_taken_from_elsewhere_are_refused(pair: Pair, tmp_path: Path) -> None:
    pair.git("config", "core.hooksPath", str(tmp_path / "shared"), cwd=pair.bare)
    said = harden(pair.bare)
    assert said.exit_code == 78
    assert "core.hooksPath" in said.stderr
    assert not (tmp_path / "shared").exists()


def test_an_override_that_stays_in_force_is_told(pair: Pair) -> None:
    with (pair.bare / "config").open("a") as file:
        file.write("[include]\n\tpath = more\n")
    (pair.bare / "more").write_text("[receive]\n\tdenyDeletes = false\n")
    harden(pair.bare)
    pair.git("config", "--unset", "receive.denyDeletes", cwd=pair.bare)
    text = (pair.bare / "config").read_text()
    (pair.bare / "config").write_text("[receive]\n\tdenyDeletes = true\n" + text)
    said = harden(pair.bare, "--check")
    assert said.exit_code == 1
    assert "receive.denyDeletes" in said.stdout


@pytest.mark.parametrize(
    ("path", "word"),
    [("missing", "not a directory"), ("clone", "not bare"), ("clone/.git", "not bare"), ("plain", "no git")],
)
def test_what_is_no_bare_repository_is_refused(pair: Pair, tmp_path: Path, path: str, word: str) -> None:
    """Also within one: it must be the repository itself, not a directory below it."""
    (tmp_path / "plain").mkdir()
    said = harden(tmp_path / path)
    assert said.exit_code == 78
    assert word in said.stderr


def test_a_directory_inside_a_repository_is_not_taken_for_it(pair: Pair) -> None:
    before = snapshot(pair.bare)
    assert harden(pair.bare / "refs").exit_code == 78
    assert snapshot(pair.bare) == before


@pytest.mark.parametrize("url", ["git@forge.example:shop.git", "https://forge.example/shop.git"])
def test_a_url_is_a_usage_error_that_points_to_the_forges(url: str) -> None:
    done = harness("harden-remote", url)
    assert done.returncode == 64
    assert "README" in done.stderr


def test_no_path_is_a_usage_error() -> None:
    assert harness("harden-remote").returncode == 64


def harness(*argv: str) -> subprocess.CompletedProcess[str]:
    from watcher.cli import COMMANDS

    if "harden-remote" not in COMMANDS:
        pytest.skip("not registered yet")
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    argv_ = [sys.executable, "-m", "watcher", *argv]
    return subprocess.run(argv_, env=env, capture_output=True, text=True, check=False)


@pytest.mark.root
@as_root
def test_another_users_repository_is_refused_with_the_user_to_be(pair: Pair) -> None:
    for path in (pair.bare, *pair.bare.rglob("*")):
        os.chown(path, 65534, 65534)
    before = snapshot(pair.bare)
    said = harden(pair.bare)
    assert said.exit_code == 78
    assert "sudo -u nobody harness harden-remote" in said.stderr
    assert snapshot(pair.bare) == before
    assert harden(pair.bare, "--check").exit_code == 1


def test_a_path_with_control_characters_is_shown_escaped(pair: Pair, tmp_path: Path) -> None:
    odd = tmp_path / "re\x1b[2Jmote.git"
    shutil.move(pair.bare, odd)
    said = harden(odd)
    assert said.exit_code == 0
    assert "\x1b" not in said.stdout
    assert "\\x1b[2J" in said.stdout
