"""harness explain: what would the harness make of this? For trying a new wording before it matters."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.refusals import refusals

if TYPE_CHECKING:
    from watcher.explain import Explanation


@click.command("explain")
@click.argument("file", default="-")
@click.option("--agent", default="", help="The program it comes from: claude, codex, gemini, ...")
@click.option("--program-version", default="", help="Its version, as it prints it.")
@click.option(
    "--channel",
    type=click.Choice(["result", "stdout", "stderr", "event", "json-field"]),
    help="Where a bare message stood; a whole document needs none.",
)
@click.option("--stderr", "stderr", type=click.Path(path_type=Path), help="What the program wrote to stderr.")
@click.option("--error/--no-error", default=True, help="Whether a bare message came with the error flag.")
@click.option("--exit", "exit_code", type=int, help="The program's exit code.")
@click.option("--at", help="When it was seen, such as 2026-11-30T18:00+01:00; now by default.")
@click.option("--tz", help="The zone the program ran in; the system's by default.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Your patterns and numbers.")
@click.option("--json", "as_json", is_flag=True, help="outcome, reset, wait_s, because and more, as JSON.")
def command(
    file: str,
    agent: str,
    program_version: str,
    channel: str | None,
    stderr: Path | None,
    error: bool,
    exit_code: int | None,
    at: str | None,
    tz: str | None,
    config_file: Path | None,
    as_json: bool,
) -> int:
    """Say what the harness would make of a response document or a bare message.

    FILE is a file, or - for standard input. Nothing is started and nothing is changed.

    Example: echo "You've hit your limit · resets 3pm" | harness explain --tz Europe/Berlin
    """
    from watcher.config import load
    from watcher.environment import zone_named
    from watcher.explain import Channel, Question, explain
    from watcher.prepare.policy import policy

    question = Question(
        data=read(file),
        agent=agent,
        channel=Channel("event" if channel == "json-field" else channel) if channel else None,
        stderr=read(str(stderr)).decode("utf-8", "replace") if stderr else "",
        error=error,
        exit_code=exit_code,
    )
    zone = zone_of(tz) if tz else zone_named("")
    now = instant_of(at, zone) if at else datetime.now(UTC)
    with refusals() as refusal:
        loaded = load(os.getcwd(), environ={}, overrides={}, config_file=config_file, cwd=Path.cwd())
        found = explain(question, now=now, zone=zone, policy=policy(loaded.config, zone))
        click.echo(as_document(found, program_version) if as_json else as_text(found))
    return refusal.exit_code


def read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(
            f"{file} cannot be read: {error.strerror}. Name a readable file, or -."
        ) from error


def zone_of(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise click.UsageError(
            f"--tz {name}: no such time zone. Write it like Europe/Berlin or UTC."
        ) from error


def instant_of(text: str, zone: tzinfo) -> datetime:
    from dateutil.parser import ParserError, parse

    try:
        at = parse(text)  # ISO 8601, and what people write: "30 Nov 2026 18:00"
    except (ParserError, OverflowError) as error:
        raise click.UsageError(f"--at {text}: no time. Write it like 2026-11-30T18:00+01:00.") from error
    return at if at.tzinfo else at.replace(tzinfo=zone)


def as_document(found: Explanation, program_version: str) -> str:
    import orjson

    reset, state = found.reading.reset, found.decision.state
    return orjson.dumps(
        {
            "outcome": found.reading.outcome.name,
            "reset": reset.at.isoformat() if reset else None,
            "wait_s": found.wait_s,
            "because": found.reading.because,
            "reset_text": reset.text if reset else None,
            "reset_zone": reset.zone if reset else None,
            "reset_source": reset.source if reset else None,
            "reset_other": reset.other.isoformat() if reset and reset.other else None,
            "next": state.ending.value if state.ending else state.wait.pause.value if state.wait else None,
            "session_kept": found.reading.session_id is not None,
            "taken_for": found.taken_for,
            "program_version": program_version or None,
        }
    ).decode()


def as_text(found: Explanation) -> str:
    from watcher.log import printable
    from watcher.tell import next_step

    reset, state = found.reading.reset, found.decision.state
    lines = [
        ("taken for", found.taken_for),
        ("outcome", found.reading.outcome.name),
        ("because", found.reading.because),
        ("reset", reset.at.isoformat() if reset else "none could be read"),
    ]
    if reset:
        lines.append(("read from", f'{reset.source}: "{reset.text}" in {reset.zone or "no zone"}'))
        if reset.other:
            lines.append(("or", reset.other.isoformat()))
        if reset.note:
            lines.append(("note", reset.note))
    lines.append(("watch", next_step(state)))
    if state.wait:
        lines.append(("", state.wait.why))
    return "\n".join(f"{name:<10}{printable(text)}" for name, text in lines)
