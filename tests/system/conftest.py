"""The real agent program for the tests marked `agent`, and the world such a test works in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.model_api import ModelApi, serving
from tests.system.agent_world import SOURCE, World


@pytest.fixture(scope="session")
def claude() -> Path:
    """The pinned Claude Code program; skips where it is not installed, fails where CI says it must be."""
    script = [str(SOURCE / "scripts" / "real-agent"), "--cached"]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return Path(found.stdout.strip())
    reason = found.stderr.strip() or "scripts/real-agent failed"
    if os.environ.get("HARNESS_CI") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, so that what a fixture checks afterwards does not bury it."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[ModelApi]:
    """A scripted model; a test that passed still fails when the script was too long or too short."""
    with serving() as model:
        yield model
    if not request.node.stash.get(FAILED, False):
        assert (model.left, model.overruns, model.others) == (0, 0, [])


@pytest.fixture
def world(tmp_path: Path, claude: Path, api: ModelApi) -> World:
    """A project with a bare remote, a fresh home, and a harness configured for the real program."""
    return World.make(tmp_path, claude=claude, api_url=api.url)
