"""Play a row in this process, on a clock that jumps: the watch shift whole, only the agent is scripted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.reference_row import Act, Facts, Form, Row, bare
from tests.conftest import FakeClock, Played, Stage, instant
from watcher.cli.refusals import refusals
from watcher.scripted_agent import launcher
from watcher.signals import Inbox

COUNT_UPDATES = '#!/bin/sh\nwhile read -r old new ref; do echo "$ref" >>updates; done\n'


@dataclass
class Scene(Stage):
    """A stage on which a row is played."""

    command: list[str] = field(default_factory=list)
    publish: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agent_cli(self) -> Path:
        return self.root / "agent-cli"


def model(root: Path) -> Path:
    """A stage to copy: a remote that counts its updates, and the scripted agent as a program."""
    stage = Stage(root=root).build()
    hook = stage.remote / "hooks" / "post-receive"
    hook.write_text(COUNT_UPDATES)
    hook.chmod(0o755)
    return root


def scene(row: Row, original: Path, root: Path) -> Scene:
    """The row's own copy of the stage, as it is before the first poke."""
    shutil.copytree(original, root, dirs_exist_ok=True)
    here = Scene(root=root, clock=FakeClock(row.now), name=row.name, variables=row.variables)
    (root / "project").rename(here.project)
    config = here.project / ".git" / "config"
    config.write_text(config.read_text().replace(str(original), str(root)))
    here.agent_cli.write_text(launcher(os.path.realpath(sys.executable), str(here.tape)))
    here.agent_cli.chmod(0o755)
    here.command = [str(here.agent_cli)]
    if row.prepare:
        row.prepare(here)
    return here


@dataclass
class Seen:
    """What a row left behind, for a closer look."""

    row: Row
    form: Form
    stage: Scene
    sections: dict[str, dict[str, Any]]
    refused: str = ""  # standard error
    run: Played | None = None

    @property
    def played(self) -> Played:
        assert self.run is not None, self.refused
        return self.run


def acts(row: Row, form: Form) -> list[Act]:
    if form is Form.CLAUDE:
        return list(row.acts)
    return [act if "stdout" in act else bare(act) for act in row.acts]


def sections(row: Row, form: Form, stage: Scene) -> dict[str, dict[str, Any]]:
    profile = "claude" if form is Form.CLAUDE else "custom"
    agent = {"profile": profile, "command": stage.command, "timezone": row.zone}
    given = {name: dict(values) for name, values in row.sections.items()}
    given["agent"] = {**agent, **given.get("agent", {})}
    given["publish"] = {**given.get("publish", {}), **stage.publish}
    return given


def in_process(
    row: Row,
    form: Form,
    stage: Scene,
    *,
    starts: int = 1,
    between: Callable[[Scene], None] = lambda _: None,
) -> tuple[Facts, Seen]:
    """One start, or several: each but the last is stopped by TERM in its first wait."""
    seen = Seen(row=row, form=form, stage=stage, sections=sections(row, form, stage))
    stage.record(*acts(row, form))
    with refusals() as refusal:
        for start in range(1, starts):
            if stage.again(inbox=stopped_in_the_first_wait(stage), **seen.sections).exit_code != 143:
                raise AssertionError(f"start {start} did not stop")
            between(stage)
        seen.run = stage.again(**seen.sections)
    if seen.run is not None:
        facts = facts_of(seen.run, stage)
        assert sum(stage.clock.slept) == sum(facts.waits), "slept longer or shorter than decided"
        return facts, seen
    return Facts(refusal.exit_code, sessions_of(stage), (), updates(stage), local_commits(stage)), seen


def facts_of(played: Played, stage: Scene) -> Facts:
    waits = tuple(
        (instant(line["wait_until"]) - instant(line["at"])).total_seconds() for line in played.history[:-1]
    )
    assert len(played.history) == len(stage.calls()), "a poke without a line, or a line without a poke"
    return Facts(played.exit_code, sessions_of(stage), waits, updates(stage), local_commits(stage))


def stopped_in_the_first_wait(stage: Scene) -> Inbox:
    before = len(stage.clock.slept)

    class Stopping(Inbox):
        def read(self) -> None:
            if len(stage.clock.slept) > before:
                self.post(signal.SIGTERM)
            super().read()

    return Stopping()


def sessions_of(stage: Scene) -> str:
    return "".join("R" if "--resume" in call["argv"] else "-" for call in stage.calls())


def updates(stage: Scene) -> int:
    counted = stage.remote / "updates"
    return len(counted.read_text().splitlines()) if counted.exists() else 0


def local_commits(stage: Scene) -> int:
    """Commits of any branch, and of HEAD, that the remote does not have; 0 where git cannot say."""
    remote = stage.remote if stage.remote.exists() else stage.root / "away.git"
    there = set(stage.git("rev-list", "--all", cwd=remote).split())
    try:
        return len(set(stage.git("rev-list", "--all").split()) - there)
    except subprocess.CalledProcessError:
        return 0


def restarted(
    *, between: Callable[[Scene], None] = lambda _: None
) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """Two starts; something may happen to the records between them."""
    return lambda row, form, stage: in_process(row, form, stage, starts=2, between=between)


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
