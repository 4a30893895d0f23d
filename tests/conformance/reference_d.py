"""Git and publishing (H 5.2, 6.7, 14.3): progress is a new tree, published is what the remote says."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.conformance.reference_row import (
    BOTH,
    CAP,
    DECIDE,
    DONE,
    FIX,
    IDLE,
    KEEP,
    Act,
    Row,
    commit,
    row,
)

AS_ROOT = (
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user"),
)


def elsewhere(*switch: str, back: bool = False, name: str = "a.txt", author: str = "A <a@localhost>") -> Act:
    """A commit after one git command, usually to another branch."""
    steps = [list(switch), ["add", "-A"], ["commit", "-q", "-m", f"Add {name}", f"--author={author}"]]
    return {
        "write": {name: name},
        "git": [*steps, *([["checkout", "-q", "main"]] if back else [])],
        "say": "done",
    }


# --- the stage before the run -------------------------------------------------------------------------


def without_git(stage: Any) -> None:
    (stage.project / ".git").rename(stage.root / "not-git")


def of_another_user(stage: Any) -> None:
    for path in (stage.project, *stage.project.rglob("*")):
        os.chown(path, 65534, 65534)


def unborn(stage: Any) -> None:
    stage.git("update-ref", "-d", "refs/heads/main")


def detached(stage: Any) -> None:
    stage.git("checkout", "-q", "--detach")


def without_remote(stage: Any) -> None:
    stage.remote.rename(stage.root / "away.git")


def refused_by_the_remote(stage: Any) -> None:
    hook = stage.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no pushes today >&2\nexit 1\n")
    hook.chmod(0o755)


def the_remote_moved_on(stage: Any) -> None:
    """Somebody else published meanwhile, and the project does not know it."""
    other = stage.root / "other"
    stage.git("clone", "-q", str(stage.remote), str(other), cwd=stage.root)
    (other / "theirs.txt").write_text("theirs\n")
    stage.git("add", ".", cwd=other)
    stage.git("commit", "-q", "-m", "theirs", cwd=other)
    stage.git("push", "-q", "origin", "main", cwd=other)
    (stage.remote / "updates").unlink()


def tool(text: str) -> Any:
    """A publication tool of the user's own: a shell script that is given the project's path."""

    def prepare(stage: Any) -> None:
        path = stage.root / "publish-tool"
        path.write_text(f'#!/bin/sh\necho "$@" >>{stage.root}/published-by-tool\ncd "$1" || exit 9\n{text}\n')
        path.chmod(0o755)
        stage.publish = {"command": [str(path)]}

    return prepare


FAILS = 'n=$(wc -l <../published-by-tool); [ "$n" -gt {} ] || { echo "the network is down"; exit 7; }\n'
PUSH = "git push -q origin main"


def failing(times: int) -> str:
    return FAILS.replace("{}", str(times)) + PUSH


# --- what is looked at beyond the facts ---------------------------------------------------------------


def named(words: str) -> Any:
    def also(seen: Any) -> None:
        assert words in seen.refused

    return also


def a_no_op_is_called_one(seen: Any) -> None:
    events = [entry["event"] for entry in seen.played.log]
    assert "already there" in events
    assert "published" not in events
    assert not (seen.stage.root / "published-by-tool").exists()


def the_foreign_author_is_named(seen: Any) -> None:
    assert seen.played.logged("Somebody Else")


ROWS: tuple[Row, ...] = (
    row("D01", FIX, "not a git repository", [IDLE], exit=78, prepare=without_git, also=named("git init")),
    row(
        "D02",
        FIX,
        "a repository of another user",
        [IDLE],
        exit=78,
        prepare=of_another_user,
        also=named("chown"),
        marks=AS_ROOT,
    ),
    row(
        "D03",
        FIX,
        "HEAD cannot be read after one poke: neither progress nor stall",
        [
            IDLE,
            IDLE,
            {**IDLE, "write": {".git/HEAD": "nonsense\n"}},
            {**IDLE, "write": {".git/HEAD": "ref: refs/heads/main\n"}},
        ],
        exit=2,
        sessions="-RRR",
        waits=[2, 2, 10],
    ),
    row(
        "D03-for-ever",
        FIX,
        "HEAD can never be read again",
        [{**IDLE, "write": {".git/HEAD": "nonsense\n"}}],
        exit=1,
        sessions="-RRRRRRRRR",
        waits=[10, 20, 40, 80, 160, 320, 640, 900, 900],
    ),
    row("D04", KEEP, "no commit yet", [IDLE], exit=2, sessions="-RR", prepare=unborn),
    row(
        "D05",
        FIX,
        "a commit on a detached HEAD is named, and is no progress",
        [elsewhere("checkout", "-q", "--detach"), DONE],
        exit=0,
        sessions="-R",
        local=1,
        forms=BOTH,
        also=named("a detached HEAD"),
    ),
    row(
        "D05-at-start",
        FIX,
        "HEAD is detached at the start, and no branch is configured",
        [IDLE],
        exit=78,
        prepare=detached,
        publish={"branch": ""},
        also=named("HEAD is detached"),
    ),
    row(
        "D06",
        DECIDE,
        "commits on another branch, and back: named, no progress",
        [
            elsewhere("checkout", "-q", "-b", "side", back=True),
            elsewhere("checkout", "-q", "side", back=True, name="b.txt"),
            IDLE,
        ],
        exit=2,
        sessions="-RR",
        local=2,
        also=named("side"),
    ),
    row(
        "D07",
        FIX,
        "a commit on another branch, and it stays there",
        [elsewhere("checkout", "-q", "-b", "side"), DONE],
        exit=0,
        sessions="-R",
        local=1,
        also=named("side"),
    ),
    row(
        "D08",
        FIX,
        "an amended message is no progress, and no fast-forward",
        [commit(), {"amend": "Add a.txt, said better", "say": "done"}, IDLE, IDLE],
        exit=2,
        sessions="-RRR",
        updates=1,
        local=1,
        inferred=True,
    ),
    row(
        "D09",
        FIX,
        "going back is no progress, and the remote keeps what it has",
        [commit(), {"git": [["reset", "-q", "--hard", "HEAD~1"]], "say": "done"}, IDLE, DONE],
        exit=0,
        sessions="-RRR",
        updates=1,
    ),
    row(
        "D10",
        DECIDE,
        "empty commits are published, and are no progress",
        [{"empty_commit": "Nothing", "say": "done"}],
        exit=2,
        sessions="-RR",
        updates=3,
        inferred=True,
    ),
    row(
        "D11",
        FIX,
        "the remote is gone",
        [commit(), DONE],
        exit=4,
        sessions="-R",
        local=1,
        prepare=without_remote,
        also=named("does not appear to be a git repository"),
        forms=BOTH,
    ),
    row(
        "D12",
        KEEP,
        "the publication tool fails once",
        [commit(), IDLE, DONE],
        exit=0,
        sessions="-RR",
        updates=1,
        prepare=tool(failing(1)),
        also=named("the network is down"),
    ),
    row(
        "D13",
        KEEP,
        "nothing to publish, with a tool",
        [IDLE, DONE],
        exit=0,
        sessions="-R",
        prepare=tool('echo "Nichts zu pushen"'),
        also=a_no_op_is_called_one,
    ),
    row(
        "D14",
        FIX,
        "nothing to publish, by plain push",
        [IDLE, DONE],
        exit=0,
        sessions="-R",
        also=a_no_op_is_called_one,
    ),
    row(
        "D15",
        FIX,
        "a tool that says yes and does nothing",
        [commit(), DONE],
        exit=4,
        sessions="-R",
        local=1,
        prepare=tool('echo "Publish OK"'),
        also=named("the push was accepted, but the remote holds"),
        inferred=True,
    ),
    row(
        "D16",
        FIX,
        "a tool that hangs",
        [commit(), IDLE, DONE],
        exit=0,
        sessions="-RR",
        updates=1,
        prepare=tool(f"[ $(wc -l <../published-by-tool) -gt 1 ] || exec sleep 600\n{PUSH}"),
        publish={"timeout_s": 2},
        also=named("did not end within 2 s"),
    ),
    row(
        "D17",
        FIX,
        "a tool that prints 200 kB is judged by the remote",
        [commit(), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        prepare=tool(f'echo "Nichts zu pushen"; head -c 200000 /dev/zero | tr "\\0" x\n{PUSH}'),
    ),
    row(
        "D18",
        FIX,
        "the remote refuses",
        [commit(), DONE],
        exit=4,
        sessions="-R",
        local=1,
        prepare=refused_by_the_remote,
        also=named("no pushes today"),
        inferred=True,
    ),
    row(
        "D19",
        KEEP,
        "POKE_LIMIT=2 is exactly two pokes",
        [IDLE, commit()],
        exit=3,
        sessions="-R",
        updates=1,
        variables={"POKE_LIMIT": "2"},
        inferred=True,
    ),
    row(
        "D20",
        FIX,
        "POKE_LIMIT=1, and the one poke is a cut turn with a commit",
        [commit(**CAP)],
        exit=3,
        sessions="-",
        updates=1,
        variables={"POKE_LIMIT": "1"},
        forms=BOTH,
    ),
    row(
        "D21",
        DECIDE,
        "POKE_LIMIT=abc",
        [IDLE],
        exit=64,
        variables={"POKE_LIMIT": "abc"},
        also=named("POKE_LIMIT"),
    ),
    row(
        "D22",
        FIX,
        "POKE_LIMIT is a command",
        [IDLE],
        exit=64,
        variables={"POKE_LIMIT": "a[$(touch pwned)]"},
        inferred=True,
    ),
    row(
        "D23",
        DECIDE,
        "somebody else commits during a poke: progress, and the author is named",
        [elsewhere("status", "-s", author="Somebody Else <else@localhost>"), DONE],
        exit=0,
        sessions="-R",
        updates=1,
        also=the_foreign_author_is_named,
        inferred=True,
    ),
    row(
        "D25",
        FIX,
        "publishing fails until the last try at the end",
        [commit(), IDLE, IDLE, IDLE],
        exit=2,
        sessions="-RRR",
        updates=1,
        prepare=tool(failing(3)),
    ),
    row(
        "D26",
        FIX,
        "somebody else has published: no fast-forward, nothing is overwritten",
        [commit(), DONE],
        exit=4,
        sessions="-R",
        local=1,
        prepare=the_remote_moved_on,
        inferred=True,
    ),
    row(
        "D-before-unusable",
        FIX,
        "a commit in the poke that ends the run as unusable is published",
        [commit(subtype="error_of_tomorrow")],
        exit=1,
        sessions="-",
        updates=1,
    ),
)
