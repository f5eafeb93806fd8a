"""Quantised layers on CPUs whose 8-bit sums saturate: kernels for real numbers make them, and what is around them."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn.rules.features import Features
from onednn_graph.ops.data_types import DataType
from strategies import has_isa

PROGRAM = """
import json
import numpy as np
import onednn_graph as og

SCALE = 0.25
rng = np.random.default_rng(0)

def exact(x, w, kind):
    x, w = x.astype(np.float64) * SCALE, w.astype(np.float64) * 0.5
    return np.einsum("nhwc,oc->nhwo", x, w[:, :, 0, 0]) if kind == "Convolution" else x @ w

def rounded(real, scale, point):
    return (np.clip(np.rint(real / scale) + point, 0, 255) - point) * scale

def run(kind, residual):
    graph = og.Graph()
    shape, weights = ((2, 5, 5, 24), (16, 24, 1, 1)) if kind == "Convolution" else ((2, 40, 24), (24, 16))
    # Numbers at the ends, for which sums of two products are beyond 16 bits.
    x, w = (rng.choice([low, 0, high], size).astype(dtype) for low, high, size, dtype in
            ((1, 255, shape, np.uint8), (-127, 127, weights, np.int8)))
    real = graph.dequantize(graph.input("x", "u8", shape), scales=[SCALE], zps=[0])
    factor = graph.dequantize(graph.constant(w, name="w"), scales=[0.5], zps=[0])
    if kind == "Convolution":
        y = graph.convolution(real, factor, strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1],
                              data_format="NXC", weights_format="OIX")
    else:
        y = graph.matmul(real, factor)
    want = exact(x, w, kind)
    q = graph.quantize(y, output_type="u8", scales=[64.0], zps=[128])
    back = graph.dequantize(q, scales=[64.0], zps=[128])
    want = rounded(want, 64.0, 128)
    feeds = {"x": x}
    if residual:  # all of it might go along, up to the second rounding
        feeds["other"] = rng.integers(0, 255, want.shape, np.uint8)
        other = graph.dequantize(graph.input("other", "u8", want.shape), scales=[32.0], zps=[3])
        q = graph.quantize(graph.add(back, other), output_type="u8", scales=[128.0], zps=[100])
        back = graph.dequantize(q, scales=[128.0], zps=[100])
        want = rounded(want + (feeds["other"].astype(np.float64) - 3) * 32, 128.0, 100)
    graph.output(back, name="y")
    model = graph.compile()
    got = model(feeds)["y"]
    steps = [s.implementation for e in model.explain().values() for s in e.steps]
    return {"right": bool(np.array_equal(got, want)), "steps": steps}

print(json.dumps([run(kind, residual) for kind in ("Convolution", "MatMul") for residual in (False, True)]))
"""


NARROW = """
import json
import numpy as np
import onednn_graph as og

rng = np.random.default_rng(0)
told = []
for data_type, low, high in (("u8", -64, 64), ("u8", -65, 64), ("s8", -64, 64)):
    for kind, shape, weights in (("Convolution", (2, 7, 7, 40), (24, 40, 3, 3)), ("MatMul", (3, 20, 70), (70, 24)),
                                 ("turned", (3, 20, 70), (24, 70)), ("grouped", (1, 6, 6, 8), (8, 1, 3, 3))):
        for point in (0, 100):
            graph = og.Graph()
            ends = (0, 255) if data_type == "u8" else (-128, 127)
            x = rng.choice(ends, shape).astype(data_type.replace("s", "int").replace("u", "uint"))
            w = rng.choice([low, high], weights).astype(np.int8)
            real = graph.dequantize(graph.input("x", data_type, shape), scales=[0.5], zps=[point])
            held = graph.constant(w, name="w")
            factor = graph.dequantize(held, scales=[0.25], zps=[0])
            centred = x.astype(np.int64) - point
            if kind in ("Convolution", "grouped"):
                groups = 8 if kind == "grouped" else 1
                y = graph.convolution(real, factor, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1],
                                      dilations=[1, 1], groups=groups, data_format="NXC", weights_format="OIX")
                padded = np.pad(centred, ((0, 0), (1, 1), (1, 1), (0, 0)))
                size = shape[1]
                want = sum(
                    padded[:, i : i + size, j : j + size] * w[:, 0, i, j].astype(np.int64) if groups > 1
                    else padded[:, i : i + size, j : j + size] @ w[:, :, i, j].T.astype(np.int64)
                    for i in range(3) for j in range(3)
                )
            else:
                y = graph.matmul(real, factor, transpose_b=kind == "turned")
                want = centred @ (w.T if kind == "turned" else w).astype(np.int64)
            graph.output(y, name="y")
            model = graph.compile()
            got = model(x=x)["y"]
            names = [s.name for e in model.explain().values() for s in e.steps if not s.prepared]
            told.append([f"{data_type} {low} {kind} {point}", bool(np.array_equal(got, want * 0.125)),
                         any("dequantize" in name for name in names)])
print(json.dumps(told))
"""


@pytest.mark.parametrize("isa", ["sse41", "avx2", "avx512_core"])
def test_weights_of_seven_bits_are_multiplied_as_integers(onednn, isa):
    """Where the data is u8; all else could saturate, and is made real first."""
    if not has_isa(isa):
        pytest.skip(f"this CPU has no {isa}")
    for name, right, made_real in processes.printed(
        NARROW, env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper()}
    ):
        assert right, name
        if isa != "avx512_core":  # whose kernels nobody has tried
            assert made_real != name.startswith("u8 -64 "), name


@pytest.mark.parametrize(
    ("implementation", "isa", "may"),
    [
        ("jit_uni_int8:avx2", "avx512_core_vnni", False),
        ("gemm:jit", "avx2", False),
        ("gemm:jit", "avx512_core", True),
        ("brgconv:avx512_core", "avx512_core_vnni", True),
        ("brgconv:avx512_core", "avx512_core", True),
    ],
)
def test_only_kernels_that_were_tried_may_have_weights_of_seven_bits(implementation, isa, may):
    class Seen(Features):
        src = SimpleNamespace(data_type=DataType.u8)
        attributes = SimpleNamespace(narrow_weights=True)

    seen = Seen.__new__(Seen)
    seen.__dict__["implementation"] = implementation
    Seen.isa = isa
    assert seen.has_no_vnni
    assert seen.may_saturate == may


def test_parameters_of_seven_bits_may_become_others(onednn):
    graph = og.Graph()
    x = graph.dequantize(graph.input("x", "u8", [2, 4]), scales=[1.0], zps=[0])
    w = graph.parameter(np.full((4, 3), 64, np.int8), name="w")
    graph.output(graph.matmul(x, graph.dequantize(w, scales=[1.0], zps=[0])), name="y")
    model, data = graph.compile(), np.full((2, 4), 255, np.uint8)
    for value in (64, 127, -128):
        model.state["w"] = np.full((4, 3), value, np.int8)
        np.testing.assert_array_equal(model(data)["y"], np.full((2, 3), 255 * 4 * value))


def test_other_weights_than_those_that_it_was_compiled_for_are_refused(onednn):
    graph = og.Graph()
    x = graph.dequantize(graph.input("x", "u8", [2, 4]), scales=[1.0], zps=[0])
    w = graph.constant(np.full((4, 3), 64, np.int8), name="w")
    graph.output(graph.matmul(x, graph.dequantize(w, scales=[1.0], zps=[0])), name="y")
    graph.finalize()
    (partition,) = [p for p in graph.get_partitions() if "MatMul" in p.label]
    compiled = partition.compile()
    data, place = np.full((2, 4), 255, np.uint8), [t.name for t in partition.input_ports].index("w")
    given = [data, data]
    for weights in (None, np.full((4, 3), -64, np.int8)):
        given[place] = weights
        (y,) = compiled.execute(None, given)
        np.testing.assert_array_equal(y, np.full((2, 3), 255 * 4 * (64 if weights is None else -64)))
    given[place] = np.full((4, 3), 65, np.int8)
    with pytest.raises(og.errors.ArgumentError, match=r"'w'.*from -64 to 64.*got 65 to 65"):
        compiled.execute(None, given)


@pytest.mark.parametrize("isa", ["sse41", "avx2", "avx512_core"])
def test_all_of_it_runs_on_the_library_and_is_exact(onednn, isa):
    if not has_isa(isa):
        pytest.skip(f"this CPU has no {isa}")
    for made in processes.printed(PROGRAM, env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper()}):
        assert made["right"], made
        assert not any("numpy" in step for step in made["steps"]), made
