"""Processes, signals and files (H 7, 8, 14.2)."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from typing import Any

from tests.conformance.reference_console import PATIENCE_S, PAUSE, Console, console
from tests.conformance.reference_drive import Scene, restarted
from tests.conformance.reference_row import (
    CLAUDE,
    DECIDE,
    DONE,
    FIX,
    IDLE,
    KEEP,
    SENTINEL,
    Row,
    commit,
    failed,
    row,
    said,
)
from tests.conformance.reference_signals import (
    in_a_terminal,
    in_a_wait,
    into_tee,
    killed_and_started_again,
    planted,
    signalled,
    somebody_elses,
    twice,
    two_at_once,
    with_err,
    without_a_reader,
)

LIMIT = failed("You've hit your session limit")


# --- the records between two starts ----------------------------------------------------------------------


def the_log_becomes_a_link(stage: Scene) -> None:
    (path,) = stage.state.glob("*/runs/*/watcher.log")
    shutil.move(path, stage.root / path.name)
    path.symlink_to(stage.root / path.name)


def the_history_becomes_a_directory(stage: Scene) -> None:
    (path,) = stage.state.glob("*/runs/*/history.jsonl")
    shutil.move(path, stage.root / path.name)
    path.mkdir()


# --- what is looked at beyond the facts -------------------------------------------------------------------


def a_restart_goes_on(seen: Any) -> None:
    """The conversation of a stopped poke is resumed, and the run comes to its end."""
    here = Console(seen.row, seen.form, seen.stage)
    here.stage.record(DONE)
    facts, _ = here.facts(here.start().wait(PATIENCE_S))
    assert (facts.exit, facts.sessions, facts.local) == (0, "-R", 0)


def private_state_and_nothing_elsewhere(seen: Any) -> None:
    for path in (seen.stage.state, *seen.stage.state.rglob("*")):
        status = path.lstat()
        assert stat.S_IMODE(status.st_mode) == (0o700 if stat.S_ISDIR(status.st_mode) else 0o600), path
    assert not list((seen.stage.root / "tmp").iterdir())


def the_link_was_not_followed(seen: Any) -> None:
    assert not seen.played.logged("goes on with an unfinished run")
    assert "goes on with an unfinished run" in seen.refused


def a_place_for_temporary_files(stage: Any) -> None:
    (stage.root / "tmp").mkdir()


def the_record_is_named(seen: Any) -> None:
    assert "history.jsonl" in seen.refused


def in_flight(**more: Any) -> Any:
    """The agent commits, then works on."""
    return commit(hang_before=600, **more)


ROWS: tuple[Row, ...] = (
    row(
        "F01",
        FIX,
        "TERM while the agent works: it is ended, and its commit published",
        [in_flight()],
        exit=143,
        sessions="-",
        updates=1,
        forms=CLAUDE,
        drive=signalled(lambda process: process.send_signal(signal.SIGTERM)),
        also=a_restart_goes_on,
    ),
    row(
        "F02",
        FIX,
        "INT to the watcher alone: the poke ends by itself, then the watcher",
        [commit(hang_before=0.5)],
        exit=130,
        sessions="-",
        updates=1,
        forms=CLAUDE,
        drive=signalled(lambda process: process.send_signal(signal.SIGINT)),
        also=a_restart_goes_on,
        inferred=True,
    ),
    row(
        "F03",
        FIX,
        "HUP without a terminal: the configuration is read again, the run goes on",
        [commit(hang_before=0.5), DONE],
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        updates=1,
        forms=CLAUDE,
        drive=signalled(lambda process: process.send_signal(signal.SIGHUP)),
    ),
    row(
        "F04",
        FIX,
        "KILL to the watcher, and a new start",
        [in_flight(), DONE],
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        updates=1,
        forms=CLAUDE,
        drive=killed_and_started_again,
        inferred=True,
    ),
    row(
        "F05",
        FIX,
        "Ctrl-C in its terminal: the poke ends by itself, then the watcher",
        [commit(hang_before=0.5)],
        exit=130,
        sessions="-",
        updates=1,
        forms=CLAUDE,
        drive=in_a_terminal(lambda master: os.write(master, b"\x03")),
        also=a_restart_goes_on,
        inferred=True,
    ),
    row(
        "F06",
        FIX,
        "its terminal is closed: the agent is ended, and its commit published",
        [in_flight()],
        exit=129,
        sessions="-",
        updates=1,
        forms=CLAUDE,
        drive=in_a_terminal(os.close),
        also=a_restart_goes_on,
    ),
    row(
        "F07",
        FIX,
        "TERM to its process group",
        [in_flight()],
        exit=143,
        sessions="-",
        updates=1,
        forms=CLAUDE,
        drive=signalled(lambda process: os.killpg(process.pid, signal.SIGTERM)),
        also=a_restart_goes_on,
    ),
    row(
        "F08",
        FIX,
        "TERM in a wait leaves no process",
        [LIMIT],
        exit=143,
        sessions="-",
        drive=in_a_wait(signal.SIGTERM),
        inferred=True,
    ),
    row(
        "F09",
        FIX,
        "two watchers on one project",
        [commit(hang_before=2), DONE],
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        updates=1,
        drive=two_at_once,
    ),
    row(
        "F10",
        FIX,
        "the records are private, and nothing is left among the temporary files",
        [IDLE],
        exit=2,
        sessions="-",
        drive=console("{project}", TMPDIR="{root}/tmp"),
        prepare=a_place_for_temporary_files,
        variables={"STALL_LIMIT": "1"},
        also=private_state_and_nothing_elsewhere,
    ),
    row(
        "F11",
        FIX,
        "a link planted at the reference's session file",
        [IDLE, DONE],
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        drive=planted("watcher-session-$$.txt"),
    ),
    row(
        "F12",
        FIX,
        "links planted at the reference's log and history",
        [DONE],
        exit=0,
        sessions="-",
        drive=planted("watcher-$$.log", "watcher-history-$$.jsonl"),
    ),
    row(
        "F13",
        FIX,
        "the reference's error file is a link to a secret",
        [said("x", subtype="error_of_tomorrow")],
        exit=1,
        sessions="-",
        drive=with_err(lambda path: path.symlink_to("/etc/shadow")),
    ),
    row(
        "F14",
        FIX,
        "the reference's error file belongs to somebody else",
        [DONE],
        exit=0,
        sessions="-",
        drive=with_err(somebody_elses),
    ),
    row(
        "F15",
        FIX,
        "the reference's error file is a pipe that nobody reads",
        [DONE],
        exit=0,
        sessions="-",
        drive=with_err(os.mkfifo),
        inferred=True,
    ),
    row(
        "F16",
        FIX,
        "a restart resumes the conversation",
        [IDLE, DONE],
        exit=0,
        sessions="-R",
        drive=restarted(),
        inferred=True,
    ),
    row(
        "F17",
        FIX,
        "a restart knows the stall counter",
        [IDLE],
        exit=2,
        sessions="-RR",
        drive=restarted(),
        inferred=True,
    ),
    row(
        "F18",
        FIX,
        "a restart in the middle of a wait waits for the same instant",
        [LIMIT, DONE],
        exit=0,
        sessions="--",
        waits=[3600],
        drive=restarted(),
    ),
    row(
        "F19",
        FIX,
        "the reader of the log goes away during the first poke",
        [commit(hang_before=0.5), DONE],
        exit=0,
        sessions="-R",
        waits=[PAUSE],
        updates=1,
        drive=without_a_reader,
    ),
    row(
        "F20",
        FIX,
        "the log cannot be written",
        [IDLE, DONE],
        exit=0,
        sessions="-R",
        drive=restarted(between=the_log_becomes_a_link),
        also=the_link_was_not_followed,
        inferred=True,
    ),
    row(
        "F21",
        DECIDE,
        "the history cannot be written: nothing is done unrecorded",
        [IDLE, DONE],
        exit=78,
        sessions="-",
        drive=restarted(between=the_history_becomes_a_directory),
        also=the_record_is_named,
    ),
    row(
        "F22",
        FIX,
        "a long answer, and no place for temporary files",
        [said(f"{SENTINEL}\n", flood_result=200_000)],
        exit=0,
        sessions="-",
        drive=console("{project}", TMPDIR="/nonexistent"),
        inferred=True,
    ),
    row(
        "F23",
        FIX,
        "USR1 ends the wait and not the watcher",
        [LIMIT, DONE],
        exit=0,
        sessions="--",
        waits=[3600],
        drive=in_a_wait(signal.SIGUSR1),
        inferred=True,
    ),
    row(
        "F24",
        FIX,
        "into tee, as its document starts it: the code is on record",
        [IDLE],
        exit=2,
        sessions="-RR",
        waits=[PAUSE] * 2,
        drive=into_tee,
    ),
    row(
        "F-drain-twice",
        KEEP,
        "INT twice ends the agent at once",
        [in_flight()],
        exit=130,
        sessions="-",
        updates=1,
        forms=CLAUDE,
        drive=signalled(twice),
        also=a_restart_goes_on,
    ),
)
