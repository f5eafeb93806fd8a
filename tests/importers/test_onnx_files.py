"""`tests/tools/fuzz_onnx_files.py`: files with wrong bytes and fields run, or end in one error of ours."""

import sys
from pathlib import Path

import pytest
from onnx_seeds import feeds_of, seeds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import fuzz_onnx_files
import onednn_graph as og


@pytest.mark.parametrize("name", sorted({*seeds()} - {"outside"}))
def test_what_is_changed_runs_before(name):
    graph = og.from_onnx(seeds()[name])
    assert graph.compile()(feeds_of(graph.inputs))


def test_some_files():
    found = {seed: fuzz_onnx_files.judged(fuzz_onnx_files.drawn(seed)) for seed in range(5000, 5040)}
    assert not {seed: one for seed, one in found.items() if one["status"] == "foreign"}
    assert len({one["status"] for one in found.values()}) > 1
