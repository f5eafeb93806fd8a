"""What other CPUs than this one would run is planned here: kernels, conversions of halves, costs."""

import pytest
from described_cpu import BITS, described

pytestmark = pytest.mark.usefixtures("onednn", "swept")

PLANS = """
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.weight_gradients.cost import CpuClass, cost_data

SAME = {name: [1, 1] for name in ("strides", "pads_begin", "pads_end", "dilations")}

def layer(dtype):
    graph = og.Graph()
    x = graph.input("x", dtype, (2, 8, 8, 16))
    w = graph.input("w", dtype, (3, 3, 16, 32), property_type="constant")
    graph.op("ReLU", graph.op("Convolution", x, w, **SAME))
    return graph.compile(backend="onednn").explain()[0]

def patches(transposed, data_format):
    graph = og.Graph()
    channels_last = data_format == "NXC"
    x = graph.input("x", "f16", (2, 40, 8) if channels_last else (2, 8, 40))
    y = graph.input("y", "f16", (2, 40, 6) if channels_last else (2, 6, 40))
    kind = "ConvTransposeBackwardWeights" if transposed else "ConvolutionBackwardWeights"
    shape = (5, 6, 8) if transposed else (5, 8, 6)
    numbers = dict(strides=[1], pads_begin=[2], pads_end=[2], dilations=[1], weights_shape=shape)
    graph.op(kind, x, y, data_format=data_format, weights_format="XOI" if transposed else "XIO", **numbers)
    return graph.compile(strategy="columns and matrix product in f32").explain()[0].implementations

def gradient(dtype):
    graph = og.Graph()
    x, y = graph.input("x", dtype, (4, 12, 12, 16)), graph.input("y", dtype, (4, 12, 12, 32))
    graph.op("ConvolutionBackwardWeights", x, y, weights_shape=(3, 3, 16, 32), **SAME)
    told = graph.compile(backend="onednn").explain()[0]
    return [told.strategy, [one.estimated_seconds for one in told.considered]]

layers = {dtype: layer(dtype) for dtype in ("f32", "bf16", "f16")}
isa = load().effective_isa
print(json.dumps({
    "isa": isa,
    "class": CpuClass.of(isa).name,
    "measured on": cost_data(isa, 2).isa,
    "kernels": {dtype: told.implementations for dtype, told in layers.items()},
    "prepared": {dtype: told.prepared for dtype, told in layers.items()},
    "patches": [patches(t, f) for t in (False, True) for f in ("NXC", "NCX")] if isa == sys.argv[1] else [],
    "gradients": {dtype: gradient(dtype) for dtype in layers},
}))
"""
HALF_TAKES_F32 = ("avx2", "avx512_core", "avx512_core_vnni", "avx512_core_bf16")


def names(steps):
    return [step.split(" (")[0] for step in steps]


@pytest.mark.parametrize("isa", BITS)
def test_what_a_cpu_would_run(isa):
    told = described(isa, PLANS)
    assert told["isa"] == isa
    wide = isa != "avx2"
    assert told["class"] == ("avx512" if wide else "avx2") == told["measured on"].split("_")[0]
    kernels = told["kernels"]
    assert "avx512" in kernels["f32"][0] if wide else "avx2" in kernels["f32"][0]
    # Halves are converted on the host where the CPU doesn't compute in them, and only there.
    converts = isa in HALF_TAKES_F32
    assert [len(names(kernels["f16"])), len(names(told["prepared"]["f16"]))] == (
        [3, 2] if converts else [1, 1]
    )
    assert ("convert x" in names(kernels["f16"])) is converts
    assert ("convert w" in names(told["prepared"]["f16"])) is converts
    for steps in told["patches"]:
        assert sum(name.startswith("reorder") for name in names(steps)) >= 5
        assert sum(name.startswith("convert") for name in names(steps)) == (3 if converts else 0)
        assert not any("simple" in step for step in steps)
    # bf16 is computed as such from AVX-512 on.
    assert (len(kernels["bf16"]) == 1) is wide
    for strategy, estimates in told["gradients"].values():
        assert strategy
        assert all(0 < seconds < 1 for seconds in estimates)
