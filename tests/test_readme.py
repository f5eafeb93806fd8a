"""What the README and the other documents say, run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_python_blocks_run_in_order_and_the_last_shows_its_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    *blocks, wrong = BLOCKS
    namespace: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README block {number}", "exec"), namespace)
    expected = " ".join(line.lstrip("# ") for line in wrong.splitlines() if line.startswith("#"))
    with pytest.raises(namespace["og"].ShapeError) as caught:
        exec(compile(wrong, "README error", "exec"), namespace)
    assert f"ShapeError: {caught.value}" == expected


def test_tour_has_about_twenty_lines():
    lines = [line for line in BLOCKS[0].splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 20


def test_printed_result_of_getting_started():
    """All but the numbers that depend on the machine, and the kernels, which depend on the CPU."""
    printed = re.search(r"and prints:\n\n```text\n(.*?)```", README, re.S).group(1)
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "getting_started.py"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    stable = [line for line in printed.splitlines() if line.startswith("weight gradient")]
    assert stable
    assert all(line in run.stdout.splitlines() for line in stable)
    assert "largest difference from NumPy" in run.stdout


def test_op_table_is_the_registrys():
    from onednn_graph.tools.op_table import with_table

    assert with_table(README) == README


def test_links_and_pictures_are_there():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert targets
    assert not missing


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"<!-- test command -->\n```sh\n(.*?)\n```", README, re.S).group(1)
    assert command.endswith("-m pytest")
    assert "<!-- test command -->" in script  # taken from the README, not repeated
