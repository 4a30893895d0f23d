"""One project at a glance: what its harness does now, how far it came, and whether the work is safe (H 8).

Read from the checkpoint, the ending and the last line of the history, none of which is ever locked.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field
from typing import Any

from watcher.decision.state import SCHEMA, WatchState
from watcher.look.live import Live, current_run, live
from watcher.look.place import Place, demand_known, runs
from watcher.look.terminal import CannotLook
from watcher.record.checkpoint import Checkpoint, CheckpointDamaged
from watcher.record.error import RecordError
from watcher.record.lines import Damaged, tail
from watcher.record.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything that is known of one project without asking anybody."""

    place: Place
    live: Live | None
    run: Run | None = None
    state: WatchState | None = None  # the checkpoint; None: none yet, or not to be read
    ending: dict[str, Any] | None = None
    last: dict[str, Any] = field(default_factory=dict)  # the newest line of the history
    problem: str = ""  # why something above is missing, where it should be there
    warnings: tuple[str, ...] = ()


def status(place: Place) -> Status:
    """Look once. What cannot be read is told in `problem`. Raises CannotLook where nothing is known."""
    demand_known(place)
    now_live = live(place.home)
    try:
        run = current_run(runs(place), now_live)
    except CannotLook as error:
        return Status(place=place, live=now_live, problem=str(error))
    if run is None:
        return Status(place=place, live=now_live, problem=_no_run(place, now_live))
    state, problem = _checkpoint(run)
    last, damage = _last_line(run)
    return Status(
        place=place,
        live=now_live,
        run=run,
        state=state,
        last=last,
        ending=_ending(run),  # read last: an ending may come while we look
        problem=" ".join(filter(None, (problem, damage, _elsewhere(place, now_live)))),
        warnings=_warnings(place),
    )


def _checkpoint(run: Run) -> tuple[WatchState | None, str]:
    if run.shift != "watch":
        return None, ""
    try:
        return Checkpoint(run.checkpoint, WatchState, schema_version=SCHEMA).load(), ""
    except (CheckpointDamaged, RecordError) as error:
        return None, str(error)


def _last_line(run: Run) -> tuple[dict[str, Any], str]:
    try:
        found = tail(run.history, 1)
    except RecordError as error:
        return {}, str(error)
    if not found:
        return {}, ""
    newest = found[0]
    if isinstance(newest, Damaged):
        return {}, f"the last line of {run.history} is damaged: {newest.problem}."
    return newest.document, ""


def _ending(run: Run) -> dict[str, Any] | None:
    try:
        return run.ending()
    except RecordError as error:
        return {"unreadable": str(error)}


def _elsewhere(place: Place, now_live: Live | None) -> str:
    """Why these are not the records of the harness that works there now."""
    if now_live is None or now_live.ours:
        return ""
    if now_live.uid != os.geteuid():
        return (
            f"a harness of user {now_live.user} works on it, and keeps records that only that user can read: "
            f"sudo -u {now_live.user} harness status {place.home.project}"
        )
    return f"its records are kept elsewhere than in {place.home.path}: name its configuration (--config)"


def _no_run(place: Place, now_live: Live | None) -> str:
    if now_live is None:
        return f"no run yet; one begins with: harness watch {place.home.project}"
    return _elsewhere(place, now_live)


def _warnings(place: Place) -> tuple[str, ...]:
    warnings = []
    if place.trouble:
        warnings.append(f"the configuration has a mistake: {place.trouble}")
    if _shares_uid(place.agent_user):
        warnings.append(
            "the agent runs as the harness's own user, kept apart by its sandbox alone"
            if place.sandboxed
            else "the agent runs as the harness's own user and can reach these records: set agent.user "
            "to a user of its own"
        )
    if not os.path.isdir(place.home.project):
        warnings.append("the project directory is gone")
    return tuple(warnings)


def _shares_uid(user: str) -> bool:
    try:
        return not user or pwd.getpwnam(user).pw_uid == os.geteuid()
    except KeyError:
        return False  # its start refuses it
