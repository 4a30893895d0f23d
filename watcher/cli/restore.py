"""harness restore: bring back the work that was uncommitted when a run began."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here, refusals, say

if TYPE_CHECKING:
    from watcher.config import Config, Loaded
    from watcher.effect.git import Repository
    from watcher.effect.restore import Step
    from watcher.effect.snapshot_manifest import Manifest
    from watcher.record.home import Home

REFUSED = 1  # a part, or all of it, was not restored


@click.command("restore")
@click.argument("project")
@click.argument("words", nargs=-1, metavar="[RUN] [PATH]...")
@click.option("--list", "only_list", is_flag=True, help="Only say what is kept and what would be done.")
@click.option("--to", type=click.Path(path_type=Path), help="Write them to this empty directory instead.")
@click.option("--deletions", is_flag=True, help="Also delete again what was deleted then.")
@config_option
def command(
    project: str,
    words: tuple[str, ...],
    only_list: bool,
    to: Path | None,
    deletions: bool,
    config_file: Path | None,
) -> int:
    """Bring back the uncommitted work that was in PROJECT when a run began.

    RUN is the run's name (default: the latest that kept something); PATHs, relative to the project,
    choose some of its files. What a restore replaces or deletes is kept first, so that another one
    brings it back.

    \b
    Exit: 0 all of it is there, 1 a part was refused, 75 a harness works on it.
    Example: harness restore ~/project notes/todo.txt
    """
    from watcher.config import load
    from watcher.effect.git import GitError
    from watcher.effect.snapshot_manifest import SnapshotError

    if to and (only_list or deletions):
        raise click.UsageError("--to writes to another directory; --list and --deletions do not go with it.")
    with refusals() as refusal:
        loaded = load(project, environ=os.environ, overrides={}, config_file=config_file, cwd=here())
        for warning in loaded.warnings:
            say(warning)
        try:
            return restored(loaded, words, only_list=only_list, to=to, deletions=deletions)
        except (GitError, SnapshotError) as error:
            say(error)
            return REFUSED
    return refusal.exit_code


def restored(
    loaded: Loaded, words: Sequence[str], *, only_list: bool, to: Path | None, deletions: bool
) -> int:
    from watcher.effect.snapshot_manifest import all_of, read
    from watcher.prepare.checks import existing_directory

    project = existing_directory(loaded.config.project)
    home = home_of(loaded.config, project)
    names = names_in(home)
    known = all_of(home.snapshots)
    if only_list:
        click.echo(listing(project, known))
    if not known and not words:
        if only_list:
            return 0
        raise click.UsageError(f"Nothing is kept for {project}: no run began with uncommitted work.")
    name, chosen = choice(names, known, words)
    paths = [within(path, project, read(home.snapshots / name)) for path in chosen]
    if only_list:
        return show_plan(repository_for(loaded, home), home, name, paths, deletions=deletions)
    if to:
        return write_elsewhere(home, name, paths, to)
    return write_back(repository_for(loaded, home), home, name, paths, deletions=deletions)


def show_plan(repository: Repository, home: Home, name: str, paths: Sequence[str], *, deletions: bool) -> int:
    from watcher.effect.restore import plan

    click.echo(f"\nRestoring {name} would now do this:")
    show(plan(repository, home.snapshots / name, paths=paths, deletions=deletions))
    return 0


def write_elsewhere(home: Home, name: str, paths: Sequence[str], to: Path) -> int:
    from watcher.effect.restore import extract

    steps = extract(home.snapshots / name, here() / to, home.disk, paths=paths)
    click.echo(f"The files of {name} are in {to}:")
    return show(steps)


def write_back(
    repository: Repository, home: Home, name: str, paths: Sequence[str], *, deletions: bool
) -> int:
    from datetime import UTC, datetime

    from watcher.effect.restore import Do, restore
    from watcher.record.lock import hold

    with hold(home, repository.path):
        done = restore(
            repository,
            home.snapshots / name,
            datetime.now(UTC),
            home.disk,
            paths=paths,
            deletions=deletions,
        )
    code = show(step for step in done.steps if step.do is not Do.NOTHING)
    if done.undo:
        click.echo(
            f"What stood there before is kept as {done.undo}; to go back:\n"
            f"  harness restore {repository.path} {done.undo} --deletions"
        )
    else:
        click.echo(f"Nothing was changed{'' if code else f': what {name} holds is there'}.")
    return code


def show(steps: Iterable[Step]) -> int:
    """A line for each step; the exit code they come to."""
    from watcher.effect.restore import Do

    code = 0
    for step in steps:
        click.echo(f"  {step}")
        if step.do is Do.REFUSE:
            code = REFUSED
    return code


def listing(project: Path, known: Mapping[str, Manifest]) -> str:
    """The snapshots, a line each."""
    from watcher.effect.snapshot_manifest import Kind

    if not known:
        return f"Nothing is kept for {project}: no run began with uncommitted work."
    lines = [f"Kept for {project}, the oldest first:"]
    for name, manifest in known.items():
        kept = manifest.kept()
        size = sum(entry.size for entry in kept)
        gone, left = len(manifest.of_kind(Kind.DELETED)), len(manifest.of_kind(Kind.SKIPPED))
        facts = [f"{len(kept)} files", f"{size} bytes"]
        facts += [f"{gone} deleted"] if gone else []
        facts += [f"{left} not kept"] if left else []
        facts += [f"before {manifest.before_restoring} was restored"] if manifest.before_restoring else []
        lines.append(f"  {name}  {manifest.taken_at:%Y-%m-%d %H:%M} UTC  {', '.join(facts)}")
    return "\n".join(lines)


def names_in(home: Home) -> list[str]:
    """What stands in the place of the snapshots, readable or not."""
    from watcher.effect.snapshot_manifest import SnapshotError
    from watcher.look.place import unreadable

    try:
        return os.listdir(home.snapshots)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SnapshotError(str(unreadable(home, error))) from error


def choice(
    names: Collection[str], known: Mapping[str, Manifest], words: Sequence[str]
) -> tuple[str, Sequence[str]]:
    """The snapshot meant and the paths: a first word that names no snapshot is a path of the latest."""
    if words and words[0] in names:
        return words[0], words[1:]
    if words and re.match(r"\d{8}T\d{6}Z-", words[0]):
        raise click.UsageError(
            f"There is no snapshot {words[0]!r}; harness restore PROJECT --list names them."
        )
    latest = [name for name, manifest in known.items() if not manifest.before_restoring]
    if not latest:
        raise click.UsageError(f"There is no snapshot {words[0]!r}." if words else "No run kept anything.")
    return latest[-1], words


def within(path: str, project: Path, manifest: Manifest) -> str:
    """A path of the user's as the snapshot names it: relative to the work tree's root."""
    place = Path(os.path.normpath(project / path))
    if not place.is_relative_to(manifest.top):
        raise click.UsageError(f"{path} is not in {manifest.top}.")
    return str(place.relative_to(manifest.top))


def home_of(config: Config, project: Path) -> Home:
    from watcher.record.home import Home

    return Home.for_project(
        project,
        Path(config.state.root) if config.state.root else None,
        Path(config.state.work_root) if config.state.work_root else None,
        environ=os.environ,
    )


def repository_for(loaded: Loaded, home: Home) -> Repository:
    from watcher.prepare.confined import agents_repository

    return agents_repository(loaded, home, os.environ)
