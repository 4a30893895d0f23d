"""The way to the remote, put together: where the URL comes from decides what it may reach (DESIGN 7.3)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from watcher.config import Config
from watcher.effect.git import Repository
from watcher.effect.publications import Publications
from watcher.effect.publish import Publisher
from watcher.effect.quarantine import Quarantine
from watcher.effect.refusals import checks
from watcher.effect.remote import Remote, isolated, local_path, owner_of, shown, token_trouble
from watcher.environment import tool_env
from watcher.prepare.checks import Refused
from watcher.record.files import Disk
from watcher.record.home import Home


def wanted_url(config: Config, repository: Repository) -> str:
    """Where to publish to: as configured, else what the project calls origin; "" where publishing is off."""
    if not config.publish.enabled:
        return ""
    url = config.publish.remote or repository.remote_url()
    if url and ":" not in url and not os.path.isabs(url):
        return os.path.normpath(repository.path / url)  # as git reads it
    return url


def publisher_for(
    config: Config,
    *,
    url: str,
    branch: str,
    repository: Repository,
    home: Home,
    disk: Disk,
    environ: Mapping[str, str],
    now: Callable[[], datetime],
) -> Publisher | None:
    """Publishes `branch` to `url`, which was pinned when the run began. None: publishing is off.

    Raises Refused.
    """
    publish = config.publish
    if not publish.enabled or not (url or publish.command):
        return None
    to = publish.to or branch
    remote = remote_for(config, url, branch, to, repository, environ) if url else None
    return Publisher(
        repository=dataclasses.replace(repository, timeout_s=publish.timeout_s),
        remote=remote,
        branch=branch,
        quarantine=Quarantine(path=home.publisher, env=isolated(environ, home.publisher), disk=disk),
        publications=Publications(
            path=home.path / "publications.jsonl", disk=disk, remote=shown(url), to=to, now=now
        ),
        checks=checks(
            max_file_mb=publish.max_file_mb,
            protected=publish.protected_paths,
            allowed_secrets=publish.allow_secrets,
        ),
        max_total_mb=publish.max_total_mb,
        command=tuple(publish.command),
        env=tool_env(environ),
        timeout_s=publish.timeout_s,
        lock=home.path / "publisher.lock",
    )


def remote_for(
    config: Config, url: str, branch: str, to: str, repository: Repository, environ: Mapping[str, str]
) -> Remote:
    """The remote with its keys, and with whose rights its other end works. Raises Refused."""
    publish = config.publish
    configured = url == publish.remote
    if trouble := keys_trouble(config, url, configured=configured):
        raise Refused(trouble)
    place = local_path(url)
    if configured:
        far_end = owner_of(place) if place else None
    else:
        if trouble := origin_trouble(url, place, repository):
            raise Refused(
                f"publish.remote is not set, and origin's URL, which the agent can change, {trouble}. "
                f'If it is right: [publish] remote = "{shown(url)}"'
            )
        far_end = repository.account if place and is_foreign(repository) else None
    return Remote(
        url=url,
        branch=to,
        source=branch,
        account=far_end,
        ssh_key=publish.ssh_key,
        token_file=publish.token_file,
        ssh_agent=environ.get("SSH_AUTH_SOCK", ""),
    )


def is_foreign(repository: Repository) -> bool:
    """Whether the agent is another user than the harness."""
    return repository.account is not None and repository.account.uid != os.geteuid()


def keys_trouble(config: Config, url: str, *, configured: bool) -> str:
    """What is wrong with the configured keys, in one sentence; "" where nothing is."""
    publish = config.publish
    for name, value, protocols in (
        ("ssh_key", publish.ssh_key, ("ssh",)),
        ("token_file", publish.token_file, ("https", "http")),
    ):
        if not value:
            continue
        if not configured:
            return (
                f"publish.{name} is set and publish.remote is not: the key would be used for whatever "
                "origin's URL names, which the agent can change. Set publish.remote"
            )
        if protocol_of(url) not in protocols:
            return f"publish.{name} is for {' and '.join(protocols)}, and publish.remote is {shown(url)}"
    if publish.ssh_key and not os.access(publish.ssh_key, os.R_OK):
        return f"publish.ssh_key: {publish.ssh_key} cannot be read. Check the path, and whose it is (ls -l)"
    if publish.token_file and (trouble := token_trouble(publish.token_file)):
        return f"publish.token_file: {trouble}"
    return ""


def origin_trouble(url: str, place: str, repository: Repository) -> str:
    """Why what the agent may have written is not taken for the remote; "" where it can do no harm."""
    if url.startswith("-") or protocol_of(url) not in ("file", "git", "http", "https", "ssh"):
        return f"is none that is published to ({shown(url)})"
    if repository.account is None:
        inside = place and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(repository.path))
        return "is a place within the project, whose hooks would run" if inside else ""
    if protocol_of(url) == "ssh":
        return "would be opened with the harness's own keys"
    if place and not is_foreign(repository):
        return "is a place on this machine, whose hooks would run outside of the agent's sandbox"
    return ""


def protocol_of(url: str) -> str:
    """What git would speak with it; the name of a helper program for `helper::address`."""
    if local_path(url):
        return "file"
    name, _, rest = url.partition(":")
    return name.lower() if rest.startswith(("//", ":")) else "ssh"
