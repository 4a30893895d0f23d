"""Read the configuration again between two pokes (DESIGN 9, HUP)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from watcher.config import ConfigError, Loaded, reload
from watcher.prepare.checks import Refused, agent_command, ask_of, demand_callable
from watcher.prepare.policy import policy
from watcher.standing import standing_command
from watcher.watch import Watch


class Reloading:
    """HUP: read the configuration again, between pokes. A bad file keeps the old one and says so."""

    def __init__(self, loaded: Loaded, *, env: Mapping[str, str], project: Path) -> None:
        self._loaded = loaded
        self._env = env
        self._project = project

    def __call__(self, shift: Watch) -> None:
        try:
            loaded = reload(self._loaded)
            prompt = standing_command(loaded.config)
            ask = ask_of(loaded.config, self._project, prompt)
            agent = dataclasses.replace(
                shift.agent,
                command=agent_command(loaded.config, self._env, self._project),
                timeout_s=loaded.config.watch.poke_timeout_s,
            )
            demand_callable(agent, ask)
            numbers = policy(loaded.config)
        except (ConfigError, Refused) as error:
            shift.log.error("the configuration was not reloaded; the old one stays in force", why=str(error))
            return
        self._loaded = loaded
        shift.policy, shift.ask, shift.prompt, shift.agent = numbers, ask, prompt, agent
        shift.log.info(
            "the configuration was reloaded; user, environment, branch and remote stay for this run",
            file=str(loaded.path or "none"),
        )
