"""A status in words for a person, and as JSON for a script."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from watcher.decision.state import WatchState
from watcher.look.agent import burden
from watcher.look.status import Status
from watcher.look.words import ago, ahead, dollars, instant, line, moment, span, stamp

TIP = 12  # hexadecimal digits of a commit that tell it from the others of any project


def doing(seen: Status, now: datetime) -> str:
    """One line: working on what since when, waiting for what until when, or ended how."""
    running, state = seen.live is not None and seen.live.ours, seen.state
    if seen.ending is not None:
        anew = "a new run starts; the last one " if seen.live and running and not seen.live.run else ""
        return anew + _ended(seen.ending, now)
    if state is None:
        return "at work" if running else seen.problem or "stopped; the next start goes on"
    if state.in_flight:
        flight = state.in_flight
        since = f"since {moment(flight.started_at, now)} ({span(now - flight.started_at)})"
        if running:
            return f"poke {flight.poke}, the agent works {since}"
        return (
            f"stopped in poke {flight.poke}, begun {ago(flight.started_at, now)}: the next start takes it up"
        )
    if state.ending:
        what = f"about to end: {state.ending.value}: {line(state.because)}"
        return what if running else f"stopped, {what}; the next start records it"
    return _waiting(state, now, running=running)


def _ended(ending: dict[str, Any], now: datetime) -> str:
    if "unreadable" in ending:
        return f"ended; how cannot be read: {line(ending['unreadable'])}"
    at, code = instant(ending.get("at")), ending.get("exit_code")
    when = f", {ago(at, now)}" if at else ""
    return f"ended: {line(ending.get('ending'))} (exit {code}{when}): {line(ending.get('because'))}"


def _waiting(state: WatchState, now: datetime, *, running: bool) -> str:
    wait = state.wait
    if wait is None:
        return "between two steps" if running else "stopped; the next start goes on"
    what = f"{wait.pause.value} until {moment(wait.until, now)} ({ahead(wait.until, now)}): {line(wait.why)}"
    return f"waiting, {what}" if running else f"stopped while waiting, {what}"


# --- for a person -------------------------------------------------------------------------------


def text(seen: Status, now: datetime) -> str:
    """A few lines on one project."""
    rows = [("running", _running(seen)), ("now", doing(seen, now))]
    if seen.live and seen.live.ours and seen.live.holder.pid and seen.state and seen.state.in_flight:
        rows += [("agent", size)] if (size := burden(seen.live.holder.pid)) else []
    if seen.state:
        rows += _progress(seen.state)
    if seen.last:
        at = instant(seen.last.get("at"))
        said = f"poke {seen.last.get('poke')}: {line(seen.last.get('outcome'))}"
        rows.append(("last", f"{said}{f', {ago(at, now)}' if at else ''}: {line(seen.last.get('because'))}"))
    if seen.state:
        rows += [("revision", _revision(seen.state)), ("session", _session(seen.state))]
    if seen.run:
        began = f", begun {stamp(seen.state.began_at)}" if seen.state else ""
        rows += [("run", seen.run.name + began), ("log", str(seen.run.path / "watcher.log"))]
    rows += [("problem", seen.problem)] if seen.problem not in ("", rows[1][1]) else []
    rows += [("warning", line(warning)) for warning in seen.warnings]
    title = str(seen.place.home.project) + (f" ({seen.place.name})" if seen.place.name else "")
    return "\n".join([line(title), *(f"  {name:<9} {value}" for name, value in rows)])


def row(seen: Status, now: datetime) -> str:
    """One line on one project of many."""
    title = seen.place.name or str(seen.place.home.project)
    parts = ["running" if seen.live else "not running", doing(seen, now)]
    if seen.state:
        parts += [f"{seen.state.pokes} pokes", dollars(seen.state.spent_usd)]
        parts += ["not known to be on the remote"] if published(seen.state) is False else []
    return line(f"{title}: {', '.join(parts)}")


def _running(seen: Status) -> str:
    if seen.live is None:
        return "no"
    who = "" if seen.live.uid in (None, os.geteuid()) else f" as user {seen.live.user}"
    return f"yes, {seen.live.holder}{who}"


def _progress(state: WatchState) -> list[tuple[str, str]]:
    counts = {"errors": state.errors, "provider troubles": state.transients, "capped": state.caps}
    others = "".join(f", {count} {name}" for name, count in counts.items() if count)
    in_a_row = f"{state.stalls} stalls{others}"
    return [("pokes", f"{state.pokes}; in a row: {in_a_row}"), ("spent", dollars(state.spent_usd))]


def _revision(state: WatchState) -> str:
    tip = state.revision.tip[:TIP] if state.revision else ""
    if not tip:
        return f"none yet on {line(state.branch)}"
    remote = {
        True: "the remote holds it",
        False: "the remote is not known to hold it",
        None: "publishing is off",
    }
    return f"{line(tip)} on {line(state.branch)}; {remote[published(state)]}"


def _session(state: WatchState) -> str:
    return line(state.session.id) if state.session else "none; the next poke begins a fresh one"


def published(state: WatchState) -> bool | None:
    """Whether the remote itself said that it holds the tip; None where nothing is published."""
    return state.is_published if state.remote else None


# --- for a script -------------------------------------------------------------------------------


def document(seen: Status, now: datetime) -> dict[str, Any]:
    """The same as JSON. Keys are only ever added; what is not known is null."""
    state, run, ending = seen.state, seen.run, seen.ending
    return {
        "project": str(seen.place.home.project),
        "name": seen.place.name or None,
        "running": seen.live is not None,
        "pid": seen.live.holder.pid if seen.live else None,
        "user": seen.live.user if seen.live else None,
        "now": doing(seen, now),
        "run": run.name if run else None,
        "shift": run.shift if run else None,
        "began_at": state.began_at.isoformat() if state else None,
        "poke": state.in_flight.poke if state and state.in_flight else None,
        "poke_since": state.in_flight.started_at.isoformat() if state and state.in_flight else None,
        "wait": _wait(state),
        "ending": ending,
        "pokes": state.pokes if state else None,
        "counted": state.counted if state else None,
        "stalls": state.stalls if state else None,
        "errors": state.errors if state else None,
        "spent_usd": state.spent_usd if state else None,
        "session_id": state.session.id if state and state.session else None,
        "last": {key: seen.last.get(key) for key in ("poke", "at", "outcome", "because", "next", "cost_usd")}
        if seen.last
        else None,
        "branch": state.branch if state else None,
        "revision": state.revision.tip if state and state.revision else None,
        "remote": state.remote or None if state else None,
        "published": published(state) if state else None,
        "log": str(run.path / "watcher.log") if run else None,
        "problem": seen.problem or None,
        "warnings": list(seen.warnings),
    }


def _wait(state: WatchState | None) -> dict[str, str] | None:
    if state is None or state.wait is None:
        return None
    wait = state.wait
    return {"pause": wait.pause.value, "until": wait.until.isoformat(), "why": wait.why}
