"""harness history: every poke in a line, or one exchange whole."""

from __future__ import annotations

import os
from pathlib import Path

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here


@click.command("history")
@click.argument("project")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20, help="How many pokes (20).")
@click.option("--outcome", help="Only pokes that came to this, such as limit,error.")
@click.option("--poke", type=click.IntRange(min=1), help="One exchange whole: sent, answered, decided.")
@click.option("--run", "run_id", help="Another run than the latest, by its id or how the id begins.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they were recorded.")
@config_option
def command(
    project: str,
    lines: int,
    outcome: str | None,
    poke: int | None,
    run_id: str | None,
    as_json: bool,
    config_file: Path | None,
) -> int:
    """Print one line for each poke of PROJECT's latest run: what it came to, what followed, and why.

    Only the last pokes are read, however long the history is. What the agent wrote is shown with its
    control characters made visible.

    Example: harness history ~/project --poke 14
    """
    from watcher.look import history
    from watcher.look.live import current_run, live
    from watcher.look.place import find, run_named, runs, some_run
    from watcher.look.terminal import looking

    outcomes = _outcomes(outcome)
    with looking() as told:
        place = find(project, environ=os.environ, cwd=here(), config_file=config_file)
        run = some_run(place, current_run(runs(place), live(place.home)))
        run = run_named(place, run_id) if run_id else run
        if poke:
            history.show_poke(run, poke, as_json=as_json)
        else:
            history.show(run, lines, outcomes, as_json=as_json)
    return told.exit_code


def _outcomes(words: str | None) -> set[str]:
    from watcher.decision.outcome import Outcome

    known = [outcome.value for outcome in Outcome if outcome is not Outcome.SUCCESS]
    wanted = {word.strip().lower().replace("-", "_") for word in (words or "").split(",")} - {""}
    if unknown := wanted - set(known):
        raise click.UsageError(
            f"no outcome is called {', '.join(sorted(unknown))}; known: {', '.join(known)}"
        )
    return wanted
