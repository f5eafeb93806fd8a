"""Random graphs with a fixed seed: the same ones on every machine, a minute or two of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "fuzz_graphs.py"
GRAPHS = 6000


@pytest.mark.fuzz
def test_random_graphs_are_right(tmp_path, onednn):
    out = tmp_path / "findings.jsonl"
    command = [sys.executable, str(TOOL), "--graphs", str(GRAPHS), "--seed", "1", "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert run.returncode == 0, f"{run.stdout[-6000:]}\n{run.stderr[-2000:]}"
