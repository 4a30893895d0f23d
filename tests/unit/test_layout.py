"""The walls of the house: who may import whom, and which rooms have the only door to something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

WATCHER = Path(__file__).resolve().parents[2] / "watcher"

# Room -> the rooms it may use. A room is the first part below `watcher`.
MAY_USE = {
    "response": set(),
    "decision": {"response"},
    "config": set(),
    "process": set(),
    "scripted_agent": set(),
    "tasks": set(),
    "agents": {"decision", "response"},
    "poke": {"agents", "decision", "process", "response"},
    "log": set(),
    "environment": {"config", "process"},
    "standing": {"config"},
    "record": {"decision"},
    "effect": {"decision", "log", "process", "record"},
    "signals": {"decision"},
    "look": {"config", "decision", "log", "record"},
}
PURE = ("decision", "response")
IMPURE = {
    *("os", "io", "time", "random", "secrets", "socket", "subprocess", "threading", "signal", "shutil"),
    *("tempfile", "select", "psutil", "structlog", "urllib", "http", "ctypes", "multiprocessing", "asyncio"),
}


def modules() -> list[Path]:
    return sorted(WATCHER.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(WATCHER).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "watcher":
                yield from (f"watcher.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(WATCHER)))
def test_imports_point_one_way(path: Path) -> None:
    if (here := room(path)) not in MAY_USE:
        return  # the shifts, what puts them together, and the command line may use everything below
    used = {name.split(".")[1] for name in imports(path) if name.startswith("watcher.")}
    assert used - {here, "__version__"} <= MAY_USE[here]


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if room(path) in PURE],
    ids=lambda path: str(path.relative_to(WATCHER)),
)
def test_the_pure_rooms_import_nothing_impure(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE


def calls(path: Path) -> set[str]:
    return {
        ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
    }


CHILD = "effect/snapshot_child.py"  # runs as the agent's user, and writes into the project
DOORS = {
    "starting processes": (
        {"subprocess.Popen", "subprocess.run", "subprocess.check_output", "os.system", "os.popen", "os.fork"}
        | {"os.posix_spawn", "os.execv", "os.execve", "os.execvp", "os.execvpe", "pty.spawn"},
        ("process", "scripted_agent"),
    ),
    "durable bytes": (
        {"os.fsync", "os.fdatasync", "os.replace", "os.rename"},
        ("record/files.py", "scripted_agent", CHILD),
    ),
}


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_each_danger_has_one_door(door: str) -> None:
    danger, allowed = DOORS[door]
    found = {
        str(path.relative_to(WATCHER))
        for path in modules()
        if calls(path) & danger and not str(path.relative_to(WATCHER)).startswith(allowed)
    }
    assert found == set()


def test_only_one_module_runs_git() -> None:
    naming = {
        str(path.relative_to(WATCHER))
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple | ast.List)
        and node.elts
        and isinstance(node.elts[0], ast.Constant)
        and node.elts[0].value == "git"
    }
    assert {name for name in naming if not name.startswith("scripted_agent")} == {"effect/git.py"}


def test_a_claim_about_imports_can_fail(tmp_path: Path) -> None:
    offender = tmp_path / "offender.py"
    offender.write_text("import os.path\nfrom watcher.cli import run\nfrom watcher import watch\n")
    assert set(imports(offender)) == {"os.path", "watcher.cli", "watcher", "watcher.watch"}
