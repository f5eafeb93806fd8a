"""Quantised layers on CPUs whose 8-bit sums saturate: kernels for real numbers make them, and what is around them."""

from __future__ import annotations

import os

import processes
import pytest
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


@pytest.mark.parametrize("isa", ["sse41", "avx2", "avx512_core"])
def test_all_of_it_runs_on_the_library_and_is_exact(onednn, isa):
    if not has_isa(isa):
        pytest.skip(f"this CPU has no {isa}")
    for made in processes.printed(PROGRAM, env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper()}):
        assert made["right"], made
        assert not any("numpy" in step for step in made["steps"]), made
