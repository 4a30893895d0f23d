"""Play a row as real processes: the reference's own command line, real signals, a real terminal."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.reference_drive import (
    Scene,
    Seen,
    acts,
    facts_of,
    local_commits,
    sections,
    sessions_of,
    updates,
)
from tests.conformance.reference_row import Facts, Form, Row
from tests.conftest import ROOT, Played, json_lines, toml

PAUSE = 0.1  # between two pokes; two seconds would be a minute of tests
WATCHER = [sys.executable, "-c", "from watcher.main import watcher; watcher()"]
PATIENCE_S = 30


@dataclass
class Console:
    """The command line of one row, with its configuration where the harness looks for it."""

    row: Row
    form: Form
    stage: Scene
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sections = sections(self.row, self.form, self.stage)
        self.sections["watch"] = {"pause_s": PAUSE, **self.sections.get("watch", {})}
        self.stage.record(*acts(self.row, self.form))
        folder = self.stage.root / "config" / "harness"
        folder.mkdir(parents=True, exist_ok=True)
        text = self.stage.config(**self.sections).read_text()
        path = folder / "row.toml"
        path.write_text(toml({"project": str(self.stage.project)}) + text)
        path.chmod(0o600)
        base = {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(self.stage.root / "config")}
        given = {name: value.format(root=self.stage.root) for name, value in self.environ.items()}
        self.environ = {**self.stage.environ(), **base, **given}

    def start(
        self, words: Sequence[str] | None = None, *, before: Sequence[str] = (), err: Any = None, **more: Any
    ) -> subprocess.Popen[bytes]:
        """`watcher PROJECT [MAX_TURNS]`, for the row's project where no words are given."""
        words = [str(self.stage.project)] if words is None else words
        usual: dict[str, Any] = {
            "cwd": self.stage.root,
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
        }
        with (self.stage.root / "stderr").open("ab") as file:
            return subprocess.Popen(
                [*before, *WATCHER, *words],
                env=self.environ,
                stdout=subprocess.DEVNULL,
                stderr=file if err is None else err,
                **(usual | more),
            )

    def facts(self, exit_code: int) -> tuple[Facts, Seen]:
        """What the run came to, and what it left behind."""
        seen = Seen(
            row=self.row, form=self.form, stage=self.stage, sections=self.sections, refused=self.stderr()
        )
        runs = sorted(self.stage.state.glob("*/runs/*/history.jsonl"))
        if not runs:
            facts = Facts(
                exit_code, sessions_of(self.stage), (), updates(self.stage), local_commits(self.stage)
            )
            return facts, seen
        run = runs[-1].parent
        seen.run = Played(
            exit_code=exit_code,
            history=json_lines(run / "history.jsonl"),
            log=json_lines(run / "watcher.log") if (run / "watcher.log").is_file() else [],
            run=run,
            clock=self.stage.clock,
        )
        found = facts_of(seen.run, self.stage)
        return found._replace(waits=tuple(round(wait, 1) for wait in found.waits)), seen

    def stderr(self) -> str:
        return (self.stage.root / "stderr").read_text(errors="replace")

    def decided(self) -> int:
        """How many pokes are decided."""
        return sum(len(json_lines(path)) for path in self.stage.state.glob("*/runs/*/history.jsonl"))


def console(*argv: str, **environ: str) -> Callable[[Row, Form, Scene], tuple[Facts, Seen]]:
    """One start with these words; {project}, {root} and {name} stand for the row's own."""

    def drive(row: Row, form: Form, stage: Scene) -> tuple[Facts, Seen]:
        here = Console(row, form, stage, environ)
        words = {"project": str(stage.project), "root": str(stage.root), "name": stage.name}
        process = here.start([word.format(**words) for word in argv])
        return here.facts(process.wait(PATIENCE_S))

    return drive


def until(what: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, f"waited in vain: {why}"
        time.sleep(0.01)
