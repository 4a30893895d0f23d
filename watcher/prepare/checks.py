"""Refuse before the first poke: each check says what is wrong, what it means and what to do."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from watcher.agents.custom import Custom
from watcher.agents.profile import Ask, Profile, profile
from watcher.config import Config
from watcher.decision.endings import WATCH, Ending, Exit
from watcher.effect.git import GitError, Repository, git_env
from watcher.poke import Agent
from watcher.process import Account, ProcessError


class Refused(Exception):
    """The shift cannot start; the message says what is wrong, what it means and what to do."""

    def __init__(self, message: str, exit_code: int = Exit.CONFIG) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def existing_directory(path: str) -> Path:
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        why = "" if is_directory else "it is not a directory"
        if is_directory and not os.access(path, os.R_OK | os.X_OK):
            why = "this user may not look into it"
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        why = "it does not exist" if missing else (error.strerror or str(error)).lower()
    if why:
        raise Refused(
            f"the project {path} cannot be worked on: {why}. Check the path, and who may enter it (ls -ld)."
        )
    return Path(os.path.realpath(path))


def agent_account(user: str) -> Account | None:
    """Who the agent runs as; None: the harness's own user."""
    if not user:
        return None
    try:
        account = Account.of(user)
    except ProcessError as error:
        raise Refused(f"agent.user: {error}. Create the user, or name one that exists.") from error
    if account.uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise Refused(
            f"agent.user is {user}, but only root can start a program as another user. "
            "Run the harness as root (systemctl start harness@NAME), or remove agent.user."
        )
    return account


def known_profile(config: Config) -> Profile:
    agent = config.agent
    if agent.profile == "custom":
        return Custom(resume_args=agent.resume_args, fresh_args=agent.fresh_args)
    try:
        return profile(agent.profile)
    except KeyError as error:
        raise Refused(f"agent.profile: {error.args[0]}, and custom.") from error


def agent_command(config: Config, env: Mapping[str, str], project: Path) -> tuple[str, ...]:
    """The program's words with its place resolved. A missing program is an unusable agent: exit 1."""
    words = tuple(config.agent.command) or (config.agent.profile,)
    name = words[0]
    found = shutil.which(name if "/" not in name else str(project / name), path=env.get("PATH", ""))
    if found is None:
        place = f"on the agent's PATH ({env.get('PATH', '')})" if "/" not in name else "there"
        raise Refused(
            f"the agent program {name!r} is not {place} or is not executable, so no poke can start. "
            "Install it, or set agent.command to its full path.",
            WATCH[Ending.UNUSABLE].exit_code,
        )
    return (os.path.abspath(found), *words[1:])


def repository_of(project: Path, account: Account | None, environ: Mapping[str, str]) -> Repository:
    """The project's repository as the agent's user sees it; anything but a work tree is refused."""
    home = account.home if account else environ.get("HOME", "/")
    name = account.name if account else environ.get("USER", "")
    passed = {} if account else {key: environ[key] for key in ("SSH_AUTH_SOCK",) if key in environ}
    repository = Repository(
        path=project,
        account=account,
        env=git_env(home, name=name, path=environ.get("PATH", os.defpath), passed=passed),
    )
    try:
        if repository.is_bare():
            raise Refused(f"{project} is a bare repository: there is no work tree to work in. Clone it.")
        repository.top()
    except GitError as error:
        hint = "Run git init there."
        if "dubious" in str(error):
            hint = f"It belongs to another user than {name or 'the agent'}; give it to that user (chown -R)."
        elif os.path.lexists(project / ".git"):
            hint = f"Is git installed, and may {name or 'the agent'} enter the project (ls -ld)?"
        raise Refused(
            f"git cannot work in {project}: {error}. Without git no progress can be seen. {hint}"
        ) from error
    return repository


def ask_of(config: Config, project: Path, prompt: str) -> Ask:
    agent = config.agent
    return Ask(
        session_id=None,
        resume=False,
        max_turns=config.watch.max_turns,
        output=agent.output,
        model=agent.model,
        budget_usd=agent.max_budget_usd or None,
        allow=tuple(agent.allow),
        deny=tuple(agent.deny),
        gates=tuple(agent.gates),
        instruction_file=instruction_file(agent.instruction_file, project),
        extra_args=tuple(agent.args),
        permission_mode=agent.permission_mode,
        prompt=prompt,
    )


def demand_callable(agent: Agent, ask: Ask) -> None:
    """What the profile refuses is a configuration error, said before the first poke."""
    try:
        agent.profile.argv(agent.command, ask)
    except ValueError as error:
        raise Refused(f"[agent] in the configuration: {error}.") from error


def instruction_file(name: str, project: Path) -> Path | None:
    """The project's own instructions for agents; the built-in names only where they exist."""
    if name == "none":
        return None
    if name:
        if not os.path.isfile(project / name):  # also where the agent has shut a directory on the way
            raise Refused(f"agent.instruction_file: {project / name} is not there. Name a file, or none.")
        return project / name
    return next(
        (project / known for known in ("CLAUDE.md", "AGENTS.md") if os.path.isfile(project / known)), None
    )
