"""What the README and the other documents say, run."""

import importlib.util
import os
import re
import subprocess
import sys

import onednn_graph as og
import pytest
from conftest import ROOT
from documents import Page, blocks_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [block.text for block in blocks_of(README) if block.language == "python"]


@pytest.fixture
def page(monkeypatch, tmp_path):
    """The README's Python blocks, about to be run."""
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    page = Page(ROOT / "README.md", tmp_path)
    page.blocks = [block for block in page.blocks if block.language == "python"]
    return page


def test_python_blocks_run_in_order_and_show_their_errors(page):
    assert len(page.blocks) == len(re.findall(r"^```python", README, re.M))
    assert any("# ShapeError: " in block.text for block in page.blocks)  # which `Page` compares
    page.run()


def test_what_the_fusion_block_prints(page, capsys):
    """The comments behind its last line; names of kernels depend on the CPU."""
    if og.list_backends()["onednn"] is not None:
        pytest.skip(f"backend onednn is not available: {og.list_backends()['onednn']}")
    [number] = [i for i, block in enumerate(page.blocks) if "fused" in block.text]
    namespace: dict = {}
    for block in page.blocks[:number]:
        if block.runs:
            exec(compile(block.text, "README", "exec"), namespace)
    capsys.readouterr()
    exec(compile(page.blocks[number].text, "README", "exec"), namespace)
    printed = [without_kernels(line) for line in capsys.readouterr().out.splitlines()]
    promised = [line[2:] for line in page.blocks[number].text.splitlines() if line.startswith("# ")]
    assert promised
    assert all(without_kernels(line) in printed for line in promised)


def without_kernels(line):
    return re.sub(r"\([\w:]+\)", "()", line)


def test_the_first_block_has_ten_lines():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10


def test_the_first_screen():
    """Picture, both commands and the first lines of Python come before anything else."""
    first = README.partition("\n## ")[0]
    for part in (
        "docs/pages/pictures/speed.png",
        "<!-- install command -->",
        "<!-- test command -->",
        "```python",
    ):
        assert part in first
    assert len(first.splitlines()) <= 45
    assert "mermaid" not in README  # which no package index draws


def test_the_chart_is_of_todays_results():
    spec = importlib.util.spec_from_file_location("chart", ROOT / "benchmarks" / "chart.py")
    chart = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chart)
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    inference, training = chart.numbers(results)
    assert [len(inference), len(training)] == [8, 7]
    assert inference[0] == ("ResNet-50", {"onnxruntime": 19.52 / 19.48, "OpenVINO": 19.04 / 19.48})
    assert training[2] == ("MobileNetV2", {"torch": 2.01})
    drawn = chart.described(results).encode("latin-1")
    assert drawn in chart.PICTURE.read_bytes(), "run python benchmarks/chart.py"


def test_printed_result_of_getting_started():
    """All but the numbers that depend on the machine, and the kernels, which depend on the CPU."""
    printed = re.search(r"and prints[^`]*```text\n(.*?)```", README, re.S).group(1)
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


def test_links_and_pictures_are_there():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert targets
    assert not missing


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"<!-- test command -->\n```sh\n(.*?)\n```", README, re.S).group(1)
    assert command.endswith("-m pytest -n auto --cov=onednn_graph --cov-fail-under=95")
    assert "<!-- test command -->" in script  # taken from the README, not repeated
