"""Put a watch shift together: everything that can be refused is refused before the first poke."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from watcher.config import Config, Loaded
from watcher.decision.state import WatchState
from watcher.effect import snapshot
from watcher.effect.git import Repository
from watcher.effect.notify import Notifier
from watcher.effect.remote import shown
from watcher.effect.systemd import Systemd
from watcher.effect.wait import Clock
from watcher.environment import agent_env, billing_mode, tool_env
from watcher.log import Log, open_log
from watcher.poke import Agent
from watcher.prepare.checks import (
    Refused,
    agent_account,
    agent_command,
    ask_of,
    demand_callable,
    existing_directory,
    known_profile,
    repository_of,
)
from watcher.prepare.confined import confined, demand_sandbox, exposures
from watcher.prepare.hearing import hear
from watcher.prepare.policy import policy
from watcher.prepare.publishing import publisher_for, wanted_url
from watcher.prepare.reloading import Reloading
from watcher.process import Account, become_subreaper
from watcher.record.account import Account as LimitGate
from watcher.record.files import Disk
from watcher.record.home import Home
from watcher.record.journal import Journal
from watcher.record.lock import hold
from watcher.record.runs import Run
from watcher.signals import Inbox
from watcher.standing import standing_command
from watcher.tasks.list import TaskList
from watcher.tasks.read import Words
from watcher.watch import Watch, begin

__all__ = ["Refused", "prepared"]


@contextmanager
def prepared(
    loaded: Loaded,
    *,
    clock: Clock,
    inbox: Inbox,
    environ: Mapping[str, str],
    readable: bool | None = None,
) -> Iterator[tuple[Watch, WatchState]]:
    """A shift that holds its project's locks for the length of the block, and where it stands.

    Raises Refused, ConfigError, HomeRefused, Held, CheckpointDamaged, RecordError.
    """
    config = loaded.config
    project = existing_directory(config.project)
    account = agent_account(config.agent.user)
    agent_profile = known_profile(config)
    env = agent_env(config.agent, account, environ)
    command = agent_command(config, env, project)
    repository = repository_of(project, account, environ)
    home = Home.for_project(
        project,
        Path(config.state.root) if config.state.root else None,
        Path(config.state.work_root) if config.state.work_root else None,
        environ=environ,
    )
    prompt = standing_command(config)
    ask = ask_of(config, project, prompt)
    agent = Agent(
        profile=agent_profile,
        command=command,
        project=project,
        env=env,
        account=account,
        timeout_s=config.watch.poke_timeout_s,
    )
    demand_callable(agent, ask)
    become_subreaper()
    with hold(home, project):
        moved = home.identity_change()
        if low := home.low_disk(config.state.min_free_mb):
            raise Refused(f"{low}. The run's records would not fit. Free some space, then start again.")
        agent_as = confined(loaded, account, home, environ)
        demand_sandbox(agent_as, env, command[0])
        repository = dataclasses.replace(repository, account=agent_as)
        agent = dataclasses.replace(agent, account=agent_as)
        removed = home.prune(config.state.keep_runs)
        run = home.open_run(clock.now())
        log = open_log(run.path / "watcher.log", readable=readable)
        journal = Journal(run)
        state, resumed = where_it_stands(config, journal, repository, clock)
        for note in (moved, journal.note, f"old runs removed: {', '.join(removed)}" if removed else ""):
            if note:
                log.warning(note)
        home.remember_identity()
        shift = Watch(
            policy=policy(config),
            agent=agent,
            ask=ask,
            prompt=prompt,
            repository=repository,
            publisher=publisher_for(
                config,
                url=state.remote,
                branch=state.branch,
                repository=repository,
                home=home,
                disk=run.disk,
                environ=environ,
                now=clock.now,
            ),
            tasks=TaskList(project=project, paths=task_paths(loaded), words=words_of(config)),
            journal=journal,
            account=account_of(config, home, run.disk, environ),
            notifier=Notifier(
                command=tuple(config.notify.command),
                project=str(project),
                cwd=run.path,
                env=tool_env(environ),
                timeout_s=config.notify.timeout_s,
                retries=config.notify.retries,
                log=log,
            ),
            inbox=inbox,
            clock=clock,
            systemd=Systemd(environ),
            log=log,
            seen_branches=dict(repository.look(state.branch).tips),
        )
        if not resumed:
            keep_uncommitted_work(log, repository, home, run, clock)
        snapshot.forget(home.snapshots, removed, run.disk)
        inbox.requests = lambda: hear(inbox, run, log)
        inbox.requests()
        shift.reload = Reloading(loaded, env=env, project=project)
        if doubt := shift.tasks.doubt():
            log.warning("a claim of being done cannot be checked against the task list", why=doubt)
        introduce(log, config, state, env, account, repository, resumed=resumed)
        try:
            yield shift, state
        finally:
            journal.close()


def where_it_stands(
    config: Config, journal: Journal, repository: Repository, clock: Clock
) -> tuple[WatchState, bool]:
    """The memory of the run that was left unfinished, or that of a new one."""
    known = journal.load()
    if known is not None:
        return known, True
    branch = config.publish.branch or repository.head_branch()
    if not branch:
        raise Refused(
            "HEAD is detached, so it is not clear which branch is worked on and published. "
            "Check out a branch, or set publish.branch."
        )
    look = repository.look(branch)
    if branch not in look.tips and branch != repository.head_branch():
        raise Refused(
            f"publish.branch: there is no branch {branch} in {repository.path}, so no progress could be seen "
            f"or published. There are: {', '.join(look.tips) or 'none yet'}."
        )
    remote = wanted_url(config, repository)
    state = begin(journal.run.name, clock.now(), look, branch=branch, remote=remote)
    journal.save(state)
    return state, False


def account_of(config: Config, home: Home, disk: Disk, environ: Mapping[str, str]) -> LimitGate:
    """Whose quota this is: the configured name, else the program and the user it runs as."""
    user = config.agent.user or environ.get("USER") or str(os.geteuid())
    name = config.agent.account or f"{config.agent.profile}-{user}"
    return LimitGate(home.account(name), name, str(home.project), disk)


def words_of(config: Config) -> Words:
    def lower(*words: str) -> frozenset[str]:
        return frozenset(word.lower() for word in words)

    tasks = config.tasks
    return Words(
        open=lower(*tasks.open_words, *tasks.progress_words),
        done=lower(*tasks.done_words),
        parked=lower(*tasks.parked_words),
        modes=lower(*tasks.autonomous_modes),
    )


def task_paths(loaded: Loaded) -> tuple[str, ...]:
    """The configured list; the two spellings of the reference where nothing is configured."""
    path = loaded.config.tasks.path
    return (path, "docs/tasks.md") if loaded.origins["tasks.path"] == "default" else (path,)


def keep_uncommitted_work(log: Log, repository: Repository, home: Home, run: Run, clock: Clock) -> None:
    """What is not committed yet is kept outside the project: an agent once overwrote such a file (H 6.2)."""
    kept = snapshot.take(repository, home.snapshots, run.name, clock.now(), run.disk)
    if kept is None:
        return
    log.warning(
        "the work tree has uncommitted work, which the agent may change; "
        "it is kept, and harness restore brings it back",
        kept=kept.kept,
        deleted=kept.deleted,
        not_kept="; ".join(kept.skipped[:10]),
        problem=kept.warning,
    )


def introduce(
    log: Log,
    config: Config,
    state: WatchState,
    env: Mapping[str, str],
    account: Account | None,
    repository: Repository,
    *,
    resumed: bool,
) -> None:
    """Say once what will happen, and what is not as safe as it could be."""
    log.info(
        "watch goes on with an unfinished run" if resumed else "watch begins",
        project=str(repository.path),
        run=state.run,
        branch=state.branch,
        remote=shown(state.remote) or "none: publishing is off",
        max_turns=config.watch.max_turns,
        stall_limit=config.watch.stall_limit,
        poke_limit=config.watch.poke_limit,
    )
    log.info("billing", mode=billing_mode(env))
    for open_to in exposures(account, os.environ.get("PATH", ""), sandboxed=config.agent.sandbox != "none"):
        log.warning(open_to)
    if state.remote and not config.publish.remote:
        log.warning("publish.remote is not set; origin's URL was taken and pinned for this run")
