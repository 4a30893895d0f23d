"""harness explain: what would the harness make of this? For trying a new wording before it matters."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here
from watcher.log import printable

if TYPE_CHECKING:
    from watcher.explain import Explanation

YEARS = (1970, 9000)  # of an instant that can be waited from


@click.command("explain")
@click.argument("file", default="-")
@click.option("--agent", default="", help="Who printed it: claude, codex, gemini, ...")
@click.option("--program-version", default="", help="Its version, as it prints it.")
@click.option(
    "--channel",
    type=click.Choice(["result", "stdout", "stderr", "event", "json-field"]),
    metavar="WHERE",
    help="Of a bare message: result, stdout, stderr or event.",
)
@click.option("--stderr", "stderr", type=click.Path(path_type=Path), help="What the program wrote to stderr.")
@click.option("--error/--no-error", default=True, help="Whether a bare message came with the error flag.")
@click.option("--exit", "exit_code", type=int, help="The program's exit code.")
@click.option("--at", help="When, as 2026-11-30T18:00+01:00; now by default.")
@click.option("--tz", help="The zone it ran in; the system's by default.")
@config_option
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

    Example: echo "Session limit reached · resets 3pm" | harness explain
    """
    from watcher.config import load
    from watcher.explain import Channel, Question, explain
    from watcher.look.terminal import looking, say
    from watcher.prepare.policy import policy

    zone = zone_of(tz) if tz else None
    with looking() as told:
        loaded = load(
            project_of(config_file), environ=os.environ, overrides={}, config_file=config_file, cwd=here()
        )
        numbers = policy(loaded.config, zone)
        question = Question(
            data=read(file),
            agent=agent,
            channel=Channel("event" if channel == "json-field" else channel) if channel else None,
            stderr=read(str(stderr)).decode("utf-8", "replace") if stderr else "",
            error=error,
            exit_code=exit_code,
        )
        now = instant_of(at, numbers.zone) if at else datetime.now(UTC)
        found = explain(question, now=now, zone=numbers.zone, policy=numbers)
        say(as_document(found, program_version) if as_json else as_text(found))
    return told.exit_code


def project_of(config_file: Path | None) -> str:
    """The project that a configuration is for: any may be tried from anywhere, one without a project too."""
    from watcher.config.files import read as read_config
    from watcher.look.place import NOWHERE

    if config_file is None:
        return str(here())
    declared = read_config(here() / config_file).data.get("project")
    return declared if isinstance(declared, str) else str(NOWHERE)


def read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(
            f"{printable(file)} cannot be read: {error.strerror}. Name a readable file, or -."
        ) from error


def zone_of(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise click.UsageError(
            f"--tz {printable(name)}: no such time zone. Write it like Europe/Berlin or UTC."
        ) from error


def instant_of(text: str, zone: tzinfo) -> datetime:
    import warnings

    from dateutil.parser import UnknownTimezoneWarning, parse

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnknownTimezoneWarning)  # "18:00 EST" would be read in `zone`
            at = parse(text)  # ISO 8601, and what people write: "30 Nov 2026 18:00"
        at = at if at.tzinfo else at.replace(tzinfo=zone)
        if at.utcoffset() is None or not YEARS[0] <= at.year <= YEARS[1]:
            raise ValueError
    except (ValueError, OverflowError, UnknownTimezoneWarning) as error:
        raise click.UsageError(
            f"--at {printable(text)}: no time. Write it like 2026-11-30T18:00+01:00."
        ) from error
    return at


def as_document(found: Explanation, program_version: str) -> str:
    from watcher.look.lines import escaped
    from watcher.record.documents import dump

    reset, state = found.reading.reset, found.decision.state
    document = dump(
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
    )
    return escaped(document.decode())


def as_text(found: Explanation) -> str:
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
