"""Graphs that the fuzzer draws, as models of ONNX: onnxruntime, or our importer without it, agrees with NumPy."""

import importlib.util

import numpy as np
import onednn_graph as og
import onnx
import pytest
from graph_fuzz.case import build
from graph_fuzz.chains import case_of, kinds_for
from graph_fuzz.data import array_of
from onednn_graph.graph.onnx_export.exporter import model_of
from onednn_graph.graph.onnx_export.table import TABLE

KINDS = tuple(kind for kind in kinds_for("") if kind not in ("huge", "training") and "Backward" not in kind)
ROOM = {"bf16": 4e-2, "f16": 2e-2, "f32": 1e-4, "f64": 1e-6}
"""Type → what results may differ by, beside the largest, where it is the narrowest that a graph has."""
STEPS = {"Round", "GreaterEqual", "Quantize", "DynamicQuantize"}
"""Kinds by which a few elements that differ by rounding become quite others, and so does what follows."""
WITHOUT_KERNELS = ("NOT_IMPLEMENTED", "bfloat16", "Numpy_type 256", "output_dtype INT8", "MatmulInteger")
"""What onnxruntime says where it lacks a kernel, or where its own rewriting of integers goes wrong."""


def runs(model, feeds):
    """By onnxruntime where it can; None where nobody can."""
    if importlib.util.find_spec("onnxruntime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
        except Exception as error:
            if not any(word in str(error) for word in WITHOUT_KERNELS):
                raise
    try:
        return list(og.from_onnx(model).compile(backend="numpy")(feeds).values())
    except og.UnsupportedError:
        return None


def agree(got, want, room):
    got, want = np.asarray(got).astype(np.float64), np.asarray(want)
    room = 0 if want.dtype.kind in "iub" else room
    want = want.astype(np.float64)
    finite = np.isfinite(want)
    assert got.shape == want.shape
    np.testing.assert_array_equal(np.isfinite(got), finite)
    away = np.abs(got[finite] - want[finite])
    if (
        not room
    ):  # halves between two integers go the other way where zero points are odd, and grids have many
        assert away.max(initial=0) <= 1
    else:
        assert away.max(initial=0) <= room * max(1, np.abs(want[finite]).max(initial=0))


def check(seed, count):
    held = 0
    for number in range(count):
        case = case_of(seed, number, KINDS)
        kinds = {node.kind for node in case.nodes}
        if not kinds <= TABLE.keys() | {"End"} or 0 in {
            size for wire in case.wires.values() for size in wire.dims
        }:
            continue
        graph = build(case)
        model = model_of(graph)
        onnx.checker.check_model(model, full_check=True)
        arrays = [np.array(array_of(case, t.id), order="C") for t in graph.inputs]
        feeds = dict(zip([info.name for info in model.graph.input], arrays, strict=True))
        got = runs(model, feeds)
        if got is None:
            continue
        held += 1
        want = graph.compile(backend="numpy")(dict(zip(graph.input_names, arrays, strict=True)))
        types = {wire.type for wire in case.wires.values()}
        room = next((value for name, value in ROOM.items() if name in types), 0)
        for one, expected in zip(got, want.values(), strict=True):
            if STEPS & kinds and expected.dtype.kind not in "iub":
                continue
            try:
                agree(one, expected, room)
            except AssertionError as error:
                raise AssertionError(f"graph {number} of seed {seed}, {sorted(kinds)}: {error}") from error
    assert held > count / 4


def test_some_random_graphs():
    check(0, 40)


@pytest.mark.fuzz
def test_many_random_graphs():
    check(1, 600)
