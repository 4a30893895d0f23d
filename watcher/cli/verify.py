"""harness verify-state: is everything that is remembered of a project still what was written?"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here

if TYPE_CHECKING:
    from watcher.look.finding import Finding, Looked

DAMAGED = 1
MOST = 10_000  # findings in one JSON document; all of them are counted


@click.command("verify-state")
@click.argument("project")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@config_option
def command(project: str, as_json: bool, config_file: Path | None) -> int:
    """Read everything remembered of PROJECT and say what is damaged, and what that means.

    Checkpoints, histories, every prompt and output against its recorded checksum, endings, snapshots, the
    account's gate, and who can reach them. Nothing is changed or repaired, and a running harness is not
    disturbed.

    \b
    Exit: 0 all is well, 1 something is damaged, 78 there is nothing to read.
    Example: harness verify-state ~/project
    """
    from watcher.look.finding import Looked
    from watcher.look.place import find
    from watcher.look.terminal import complain, looking, say
    from watcher.look.verify import verify

    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        if place.trouble:
            complain(f"the configuration has a mistake: {place.trouble}")
        looked = Looked()
        findings = verify(place, looked, snapshot_problem)
        if as_json:
            shown = list(islice(findings, MOST))
            for _ in findings:  # to the end, for the counts
                pass
            say(_json(place.home.project, shown, looked))
        else:
            for finding in findings:
                say(text(finding))
            say(summary(place.home.project, looked))
        told.exit_code = DAMAGED if looked.damaged else 0
    return told.exit_code


def snapshot_problem(folder: Path) -> str:
    """Hold a snapshot's files against its manifest; "" where they are what was kept."""
    from watcher.effect.snapshot_manifest import SnapshotError, index, read

    try:
        kept = read(folder).kept()
        found = index(folder) if kept else ()
    except SnapshotError as error:
        return str(error)
    if [(e.path, e.kind, e.size, e.sha256) for e in kept] != [
        (e.path, e.kind, e.size, e.sha256) for e in found
    ]:
        return "holds other contents than its manifest says"
    return ""


def text(finding: Finding) -> str:
    from watcher.look.words import line

    mark = "damaged" if finding.damaged else "note"
    return line(f"{mark}: {finding.path} {finding.problem}") + f"\n    {line(finding.meaning)}"


def summary(project: Path, looked: Looked) -> str:
    from watcher.look.words import line

    read = (
        f"{line(str(project))}: {looked.runs} runs, {looked.pokes} pokes, {looked.files} prompts and outputs "
        f"({looked.bytes} bytes), {looked.lines} other lines, {looked.snapshots} snapshots were read."
    )
    if not looked.damaged:
        return f"{read} All is well."
    return f"{read} Damaged: {looked.damaged}. Nothing was changed."


def _json(project: Path, findings: list[Finding], looked: Looked) -> str:
    import dataclasses

    from watcher.look.lines import escaped
    from watcher.look.terminal import on_terminal
    from watcher.record.documents import dump

    document = {
        "project": str(project),
        "well": not looked.damaged,
        "looked": dataclasses.asdict(looked),
        "findings": [
            {
                "damaged": finding.damaged,
                "path": str(finding.path),
                "problem": finding.problem,
                "meaning": finding.meaning,
            }
            for finding in findings
        ],
    }
    words = dump(document).decode()
    return escaped(words) if on_terminal() else words
