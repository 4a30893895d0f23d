"""harness publish: bring the project's commits to the remote now, by the very way the shift takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.cli.options import config_option
from watcher.cli.refusals import here, refusals, say

if TYPE_CHECKING:
    from watcher.config import Loaded
    from watcher.effect.publish import Publication, Publisher
    from watcher.record.home import Home

NOT_PUBLISHED = 4  # as a shift whose work is not on the remote


@click.command("publish")
@click.argument("project")
@click.option("--dry-run", is_flag=True, help="Check everything and say what would be published.")
@click.option("--put-back", is_flag=True, help="Also publish commits that were taken away from the remote.")
@config_option
def command(project: str, dry_run: bool, put_back: bool, config_file: Path | None) -> int:
    """Publish the commits of PROJECT's branch, and ask the remote whether it has them.

    Remote and branch are those of the configuration, or those the unfinished run pinned. Nothing is ever
    forced, deleted or tagged. It may be done while a shift works.

    \b
    Exit: 0 the remote holds it (dry: nothing speaks against it), 4 it does not.
    Example: harness publish ~/project --dry-run
    """
    from watcher.config import load

    with refusals() as refusal:
        loaded = load(project, environ=os.environ, overrides={}, config_file=config_file, cwd=here())
        for warning in loaded.warnings:
            say(warning)
        return published(loaded, dry_run=dry_run, put_back=put_back)
    return refusal.exit_code


def published(loaded: Loaded, *, dry_run: bool, put_back: bool) -> int:
    """One attempt, told. Raises what `refusals` knows."""
    from watcher.effect.publish import Published

    publisher, tip = put_together(loaded, put_back=put_back)
    publication = publisher.prospect(tip) if dry_run else publisher.publish(tip)
    tell(publisher, publication, dry_run=dry_run)
    return NOT_PUBLISHED if publication.result is Published.FAILED else 0


def put_together(loaded: Loaded, *, put_back: bool) -> tuple[Publisher, str]:
    """The shift's own publisher, and the commit to publish. Raises Refused and others."""
    import dataclasses
    from datetime import UTC, datetime

    from watcher.effect.git import GitError
    from watcher.prepare import Refused
    from watcher.prepare.checks import existing_directory
    from watcher.prepare.confined import agents_repository
    from watcher.prepare.publishing import publisher_for, wanted_url
    from watcher.record.home import Home

    config = loaded.config
    home = Home.for_project(
        existing_directory(config.project),
        Path(config.state.root) if config.state.root else None,
        Path(config.state.work_root) if config.state.work_root else None,
        environ=os.environ,
    )
    repository = agents_repository(loaded, home, os.environ)
    home.prepare()
    pinned = pinned_by_run(home)
    branch = pinned[0] if pinned else config.publish.branch or repository.head_branch()
    if not branch:
        raise Refused("HEAD is detached: check out the branch to publish, or set publish.branch.")
    try:
        tip = repository.look(branch).revision.tip
    except GitError as error:
        raise Refused(f"the project's branches cannot be read: {error}") from error
    if not tip:
        raise Refused(f"the branch {branch} has no commit, so there is nothing to publish.")
    publisher = publisher_for(
        config,
        url=(pinned and pinned[1]) or wanted_url(config, repository),
        branch=branch,
        repository=repository,
        home=home,
        disk=home.disk,
        environ=os.environ,
        now=lambda: datetime.now(UTC),
    )
    if publisher is None:
        raise Refused("publishing is off: there is no remote. Set publish.remote (and publish.enabled).")
    return dataclasses.replace(publisher, put_back=put_back), tip


def pinned_by_run(home: Home) -> tuple[str, str] | None:
    """Branch and URL of the run that is not over yet; None where there is none."""
    from watcher.decision.state import SCHEMA, WatchState
    from watcher.record.checkpoint import Checkpoint

    run = home.latest_run("watch")
    if run is None or run.finished:
        return None
    state = Checkpoint(run.checkpoint, WatchState, schema_version=SCHEMA).load()
    return (state.branch, state.remote) if state else None


def tell(publisher: Publisher, publication: Publication, *, dry_run: bool) -> None:
    """What it came to, on stdout; why it did not, on stderr."""
    from watcher.effect.publish import Published
    from watcher.log import printable

    target = (
        f"{publisher.remote}, branch {publisher.remote.branch}" if publisher.remote else "the publish tool"
    )
    new = publication.new
    commits = f"{len(new.commits)} commit{'s' * (len(new.commits) != 1)}" if new else "the branch"
    match publication.result:
        case Published.FAILED:
            how = "would not be" if dry_run else "not"
            say(f"{commits} {how} published to {target}: {publication.detail}")
        case Published.ALREADY:
            click.echo(f"Already there: {printable(target)} holds {publication.remote_tip[:10]}.")
        case Published.DONE | Published.UNMEASURED if dry_run:
            click.echo(f"{commits} would be published to {printable(target)}.")
        case Published.DONE:
            click.echo(
                f"Published {commits} to {printable(target)}, which holds {publication.remote_tip[:10]} now."
            )
        case Published.UNMEASURED:
            click.echo(f"{publication.result.value[0].upper()}{publication.result.value[1:]}.")
    for subject in publisher.quarantine.subjects(new) if new else ():
        click.echo(f"  {printable(subject)}")
