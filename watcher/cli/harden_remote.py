"""harness harden-remote: make a bare repository append-only, or say whether it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watcher.decision.endings import Exit

if TYPE_CHECKING:
    from watcher.effect.harden import Point

NOT_HARDENED = 1


@click.command("harden-remote")
@click.argument("path", required=False)
@click.option("--check", is_flag=True, help="Only look; change nothing.")
@click.option(
    "--hook",
    type=click.Choice(["pre-receive", "update"]),
    default="pre-receive",
    help="Under which of git's names the hook is installed (pre-receive).",
)
@click.option("--print-hook", is_flag=True, help="Print the hook, to be called by one of your own.")
def command(path: str | None, check: bool, hook: str, print_hook: bool) -> int:
    """Make the bare repository PATH append-only: no force push, no deletion, no moved tag, a full reflog.

    PATH is a directory on this machine, and you are its owner. A second call changes nothing; a hook of
    somebody else's is never overwritten. For a forge, see "An append-only remote" in the README.

    \b
    Exit: 0 it is append-only, 1 it is not, 78 it cannot be made so as it is.
    Example: harness harden-remote /srv/git/shop.git --check
    """
    from watcher.effect.git import GitError
    from watcher.effect.harden import HOOK, CannotHarden
    from watcher.look.terminal import complain
    from watcher.record.error import RecordError

    if print_hook:
        click.echo(HOOK, nl=False)
        return 0
    if path is None:
        raise click.UsageError("Name the bare repository: harness harden-remote PATH.")
    if "://" in path or (":" in path and not os.path.exists(path)):
        raise click.UsageError(
            f"{path} is a URL. Run this where the repository's directory is; a forge has settings of its own "
            '(README, "An append-only remote").'
        )
    try:
        return hardened(Path(os.path.realpath(path)), hook, check=check)
    except (CannotHarden, GitError, RecordError) as error:
        return complain(error, Exit.CONFIG)


def hardened(path: Path, hook: str, *, check: bool) -> int:
    from watcher.effect.git import git_env
    from watcher.effect.harden import Bare, unmet
    from watcher.log import printable
    from watcher.record.files import Disk

    env = git_env(
        os.environ.get("HOME", "/"), name=os.environ.get("USER", ""), path=os.environ.get("PATH", os.defpath)
    )
    bare = Bare(path=path, env=env, hook=hook, disk=Disk())
    before = bare.points()
    after = before if check else bare.harden()
    for was, now in zip(before, after, strict=True):
        click.echo(printable(row(was, now)))
    open_points = list(unmet(after))
    if not open_points:
        click.echo(f"{printable(str(path))} is append-only.")
        return 0
    how = "harness harden-remote does that" if check else "something overrides it: git config --show-origin"
    click.echo(
        f"{printable(str(path))} is not append-only: {len(open_points)} of {len(after)} are open ({how})."
    )
    return NOT_HARDENED


def row(was: Point, now: Point) -> str:
    state = "ok" if was.holds else "set" if now.holds else "OPEN"
    found = f" (it is {now.found})" if not now.holds else ""
    return f"  {state:<5} {now.name} = {now.wanted}: {now.why}{found}"
