"""Random graphs with fixed seeds: the same ones on every machine, a minute or two of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "fuzz_graphs.py"


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("kinds", "graphs", "seed"),
    [
        *[pytest.param("", 1500, seed, id=f"all-{seed}") for seed in range(1, 5)],
        pytest.param("training", 150, 1, id="training"),  # with gradients and steps of optimizers
    ],
)
def test_random_graphs_are_right(kinds, graphs, seed, tmp_path, onednn):
    out = tmp_path / "findings.jsonl"
    command = [sys.executable, str(TOOL), "--graphs", str(graphs), "--seed", str(seed), "--out", str(out)]
    command += ["--kinds", kinds]
    run = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert run.returncode == 0, f"{run.stdout[-6000:]}\n{run.stderr[-2000:]}"
