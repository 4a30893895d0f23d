"""Who the agent and all git in its project run as: its user, within the configured sandbox (DESIGN 7.1)."""

from __future__ import annotations

import dataclasses
import os
import site
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import watcher
from watcher.config import Config, Loaded
from watcher.config.files import directories
from watcher.effect import sandbox
from watcher.effect.git import Repository
from watcher.effect.sandbox_mounts import NoSandbox, Places
from watcher.environment import PLAIN_PATH
from watcher.prepare.checks import Refused, agent_account, repository_of
from watcher.process import Account
from watcher.record.home import Home, HomeRefused

# Members of these can become root, or read what only root should.
MIGHTY_GROUPS = (
    "root",
    "sudo",
    "wheel",
    "admin",
    "docker",
    "lxd",
    "incus-admin",
    "libvirt",
    "disk",
    "shadow",
)


def confined(
    loaded: Loaded, account: Account | None, home: Home, environ: Mapping[str, str]
) -> Account | None:
    """The same user within the configured sandbox: for the agent, and for all git in its project.

    Git there reads the agent's own configuration, so outside of the walls it would be the way out of them.
    None: the harness's own user, without a sandbox. Raises Refused.
    """
    agent = loaded.config.agent
    if agent.sandbox == "none":
        if agent.sandbox_network == "none":
            raise Refused(
                "agent.sandbox_network is none, but there is no sandbox to take the network away in. "
                'Set agent.sandbox = "bwrap", or remove the key.'
            )
        return account
    inner = account or own_account(environ)
    path = environ.get("PATH", PLAIN_PATH)
    try:
        program = sandbox.find(path)
        places = Places(
            project=home.project,
            home=Path(inner.home),
            uid=inner.uid,
            hidden=tuple(_private(loaded, home, environ)),
            kept=(Path(program), *_trusted(loaded.config)),
            folders=tuple(_searched(path)),
            network=agent.sandbox_network == "host",
        )
        sandbox.make_missing(places)
        return dataclasses.replace(inner, walls=sandbox.walls(program, places))
    except (NoSandbox, OSError) as error:
        raise Refused(f"agent.sandbox: {error}") from error


def demand_sandbox(account: Account | None, env: Mapping[str, str], program: str) -> None:
    """Try the sandbox out before the first poke, with the agent's program in it. Raises Refused."""
    if account is None or not account.walls:
        return
    try:
        sandbox.prove(account, env, program)
    except NoSandbox as error:
        raise Refused(f"agent.sandbox: {error}") from error


def agents_repository(loaded: Loaded, home: Home, environ: Mapping[str, str]) -> Repository:
    """The project's repository as only the agent itself may touch it. Raises Refused, GitError."""
    account = agent_account(loaded.config.agent.user)
    repository = repository_of(home.project, account, environ)
    return dataclasses.replace(repository, account=confined(loaded, account, home, environ))


def exposures(account: Account | None, path: str, *, sandboxed: bool) -> Iterator[str]:
    """What the agent's user leaves open, in words for the log. `path` is the harness's own PATH."""
    if account is None:
        yield _shared(sandboxed=sandboxed)
        return
    if mighty := sorted(set(group_names(account)) & set(MIGHTY_GROUPS)):
        yield (
            f"the agent's user {account.name} is in the group {', '.join(mighty)}, which is as good as being "
            "root. Take it out (gpasswd -d)"
        )
    if open_to := [str(place) for place in (*_own_code(), *_searched(path)) if may_write(account, place)]:
        yield (
            f"the agent's user {account.name} can change programs of the harness: {', '.join(open_to)}. "
            "Install the harness where only root writes, and keep such places off its PATH"
        )


def _shared(*, sandboxed: bool) -> str:
    if os.geteuid() == 0 and sandboxed:
        return (
            "the agent runs as root: its sandbox keeps it from writing, but it can read what root can. "
            "Set agent.user to a user of its own"
        )
    if sandboxed:
        return (
            "the agent runs as the harness's own user, kept apart by its sandbox alone: what it leaves "
            "in that user's home may be run later. A user of its own (agent.user) is the stronger wall"
        )
    return (
        "the agent runs as the harness's own user: it can reach the harness's records. "
        "Set agent.user to a user of its own"
    )


def may_write(account: Account, place: Path) -> bool:
    """Whether that user may change the directory. Access lists, and its parents, are not looked at."""
    try:
        status = place.stat()
    except OSError:
        return False
    if status.st_uid == account.uid:
        return True  # an owner can always allow itself
    if status.st_gid in {account.gid, *account.groups}:
        return bool(status.st_mode & stat.S_IWGRP)
    return bool(status.st_mode & stat.S_IWOTH)


def group_names(account: Account) -> Iterator[str]:
    import grp

    for number in {account.gid, *account.groups}:
        with suppress(KeyError):
            yield grp.getgrgid(number).gr_name


def own_account(environ: Mapping[str, str]) -> Account:
    """The user we are, as one to run programs as."""
    uid = os.geteuid()
    return Account(
        uid=uid,
        gid=os.getegid(),
        groups=tuple(os.getgroups()),
        home=environ.get("HOME", "/"),
        name=environ.get("USER", str(uid)),
    )


def _private(loaded: Loaded, home: Home, environ: Mapping[str, str]) -> Iterator[Path]:
    """What the agent must not even read: the records of all projects, every configuration, and keys.

    Also as they are named, before links are followed: a link there could be made to lead elsewhere.
    """
    yield home.root
    if loaded.config.state.root:
        yield Path(loaded.config.state.root)
    if os.geteuid() != 0:
        base = environ.get("XDG_STATE_HOME", "")
        own = Path(environ.get("HOME", "/"), ".local/state")
        yield (Path(base) if os.path.isabs(base) else own) / "harness"
    with suppress(HomeRefused):
        yield Home.for_project(home.project, environ=environ).root
    yield from directories(environ)
    publish = loaded.config.publish
    yield from (Path(key) for key in (publish.ssh_key, publish.token_file) if key)
    if loaded.path is not None:
        yield loaded.path


def _trusted(config: Config) -> Iterator[Path]:
    """What is run or believed outside of the sandbox, and must not change under us wherever it lies."""
    yield from _own_code()
    words = (*config.notify.command, *config.publish.command, config.watch.standing_command_file)
    # A remote on this machine has hooks, which a push of ours would run.
    words = (*words, config.publish.remote.removeprefix("file://"))
    yield from (Path(word) for word in words if os.path.isabs(word))


def _own_code() -> Iterator[Path]:
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(watcher.__file__).parents[1])


def _searched(path: str) -> Iterator[Path]:
    """Where programs and modules of ours are looked for: whoever adds to one of these is run by us."""
    yield from (Path(folder) for folder in path.split(os.pathsep) if os.path.isabs(folder))
    if site.ENABLE_USER_SITE:
        yield Path(site.getusersitepackages())
