"""Random graphs with a fixed seed, for two minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "fuzz_graphs.py"
SECONDS = 120


@pytest.mark.fuzz
def test_random_graphs_are_right(tmp_path, onednn):
    out = tmp_path / "findings.jsonl"
    command = [sys.executable, str(TOOL), "--seconds", str(SECONDS), "--seed", "1", "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert run.returncode == 0, f"{run.stdout[-6000:]}\n{run.stderr[-2000:]}"
