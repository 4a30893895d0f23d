"""The demo is the first thing anybody runs: whole, as a subprocess, with nothing but what a machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def test_the_demo_runs_to_its_end(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "watcher", "demo", "--in", str(tmp_path / "stage")]
    played = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert played.returncode == 0, played.stderr
    for step in ("turn_cap", "progress", "usage limit", "false claim", "sentinel", "ended: done"):
        assert step in played.stderr
    assert "Say goodbye (T-102)" in played.stdout
