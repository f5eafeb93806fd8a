"""Small tensors and attributes of 2³⁰: each op is right, or refused by an error of ours, in memory and time."""

import itertools
import os
import sys

import numpy as np
import onednn_graph as og
import processes
import pytest

HUGE = 2**30
SIZE, CHANNELS = 6, 2
X = np.arange(SIZE * CHANNELS, dtype="f4").reshape(1, SIZE, CHANNELS)
WINDOW = {"kernel": [2 * HUGE - 1], "strides": [1], "pads_begin": [HUGE], "pads_end": [HUGE]}
EIGHT = (1, 8, CHANNELS)
"""As many windows has `WINDOW`, and each has all of the data in it."""
TAPS = np.ones((3, CHANNELS, 1), "f4")
TAPS_BACK = np.ones((3, 1, CHANNELS), "f4")
DENSE = {"strides": [1], "dilations": [1], "pads_begin": [0], "pads_end": [0]}
FAR = {
    "strides": [1, 1],
    "dilations": [1, 1],
    "pads_begin": [HUGE // 8 - 1] * 2,
    "pads_end": [0, 0],
    "weights_shape": [HUGE // 8, HUGE // 8, 1, 1],
}
"""Weights of which only the last element meets data."""
LONG = np.broadcast_to(np.float32(1), (2 * HUGE,))
NONE = np.zeros((0, SIZE, CHANNELS), "f4")
DEEP = np.arange(4, dtype="f4").reshape(2, *[1] * 12, 2)


def scattered(places):
    """What MaxPool hands back: 8 gradients of 1 at the largest element of each channel."""
    result = np.zeros_like(X)
    result[:, places] = 8
    return result


CASES = {
    # what: kind, arrays, attributes, and what comes out or the error
    "MaxPool": ("MaxPool", [X], WINDOW, np.broadcast_to(X.max(1, keepdims=True), EIGHT)),
    "MaxPool begin": (
        "MaxPool",
        [X],
        {**WINDOW, "kernel": [HUGE], "pads_end": [0]},
        np.maximum.accumulate(np.concatenate([np.full((1, 1, CHANNELS), -np.inf, "f4"), X], 1), 1),
    ),
    "MaxPool distance": (
        "MaxPool",
        [X],
        {**WINDOW, "kernel": [3], "dilations": [HUGE]},
        X,
    ),
    "MaxPool padding alone": (
        "MaxPool",
        [X],
        {**WINDOW, "kernel": [HUGE], "strides": [HUGE]},
        np.stack([np.full((1, CHANNELS), -np.inf, "f4"), X.max(1)], 1),
    ),
    "MaxPool result": ("MaxPool", [X], {**WINDOW, "kernel": [2]}, og.errors.OutOfMemoryError),
    "MaxPool fit": ("MaxPool", [X], {**WINDOW, "pads_end": [0]}, og.ShapeError),
    "MaxPoolBackward": ("MaxPoolBackward", [X, np.ones(EIGHT, "f4")], WINDOW, scattered(SIZE - 1)),
    "AvgPool": (
        "AvgPool",
        [X],
        {**WINDOW, "exclude_pad": True},
        np.broadcast_to(X.mean(1, keepdims=True), EIGHT),
    ),
    "AvgPool of zeros": (
        "AvgPool",
        [X],
        {**WINDOW, "exclude_pad": False},
        np.broadcast_to(X.sum(1, keepdims=True) / np.float32(2 * HUGE - 1), EIGHT),
    ),
    "AvgPoolBackward": (
        "AvgPoolBackward",
        [np.ones(EIGHT, "f4")],
        {**WINDOW, "exclude_pad": True, "src_shape": X.shape},
        np.full(X.shape, 8 / np.float32(SIZE)),
    ),
    "AvgPoolBackward of zeros": (
        "AvgPoolBackward",
        [np.ones(EIGHT, "f4")],
        {**WINDOW, "exclude_pad": False, "src_shape": X.shape},
        np.full(X.shape, 8 / np.float32(2 * HUGE - 1)),
    ),
    "Convolution distance": (
        "Convolution",
        [X, TAPS],
        {**DENSE, "dilations": [HUGE], "pads_begin": [HUGE], "pads_end": [HUGE]},
        X.sum(2, keepdims=True),
    ),
    "Convolution stride": (
        "Convolution",
        [X, TAPS],
        {**DENSE, "strides": [HUGE], "pads_begin": [HUGE], "pads_end": [HUGE]},
        np.array([0, X[:, :3].sum(), 0], "f4").reshape(1, 3, 1),
    ),
    "Convolution result": (
        "Convolution",
        [X, TAPS],
        {**DENSE, "pads_end": [HUGE]},
        og.errors.OutOfMemoryError,
    ),
    "ConvTranspose distance": (
        "ConvTranspose",
        [X, TAPS_BACK],
        {**DENSE, "dilations": [HUGE], "pads_begin": [HUGE], "pads_end": [HUGE]},
        X.sum(2, keepdims=True),
    ),
    "ConvTranspose result": (
        "ConvTranspose",
        [X, TAPS_BACK],
        {**DENSE, "strides": [HUGE]},
        og.errors.OutOfMemoryError,
    ),
    **{
        kind: (kind, [np.ones((1, 1, 1, 1), "f4")] * 2, FAR, og.errors.OutOfMemoryError)
        for kind in ("ConvolutionBackwardWeights", "ConvTransposeBackwardWeights")
    },
    "Quantize": (
        "Quantize",
        [X],
        {"scales": [1.0], "zps": [0], "qtype": "per_channel", "axis": 2 * HUGE},
        og.OneDNNGraphError,
    ),
}


def run(name, backend):
    """One case, in memory for hardly more than the package; what differs from what is expected is raised."""
    kind, arrays, attributes, expected = CASES[name]
    wanted = expected if isinstance(expected, type) else ()
    try:
        graph = og.Graph()
        inputs = [graph.input(f"x{i}", "f32", array.shape) for i, array in enumerate(arrays)]
        graph.op(
            kind,
            *inputs,
            name="y",
            **{key: list(v) if isinstance(v, range) else v for key, v in attributes.items()},
        )
        [result] = graph.compile(backend=backend)(*arrays).values()
    except wanted:
        return
    assert wanted == (), f"{name}: no error"
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=name)


SPLITS = {
    # what: attributes, sizes of the parts, number of outputs
    "Split": ({"axis": 1, "num_outputs": 2 * HUGE}, None, 2),
    "Split sizes": ({"axis": 1}, [2 * HUGE, 2 * HUGE], 2),
    "Split sizes whose sum fits": ({"axis": 1}, [2**62, SIZE - 2**62], 2),
    "Split axis": ({"axis": 2 * HUGE, "num_outputs": 2}, None, 2),
    "Split into more than there are": ({"axis": 1, "num_outputs": 20_000}, None, 20_000),
}
"""Nodes of ONNX on X that are refused."""


def split(name):
    """One of them."""
    import onnx

    attributes, sizes, count = SPLITS[name]
    make, names = onnx.helper, [f"y{i}" for i in range(count)]
    parts = [] if sizes is None else [make.make_tensor("sizes", onnx.TensorProto.INT64, [len(sizes)], sizes)]
    node = make.make_node("Split", ["x", *(part.name for part in parts)], names, **attributes)
    ports = [
        [make.make_tensor_value_info("x", 1, X.shape)],
        [make.make_tensor_value_info(y, 1, None) for y in names],
    ]
    model = make.make_model(
        make.make_graph([node], "g", *ports, parts), opset_imports=[make.make_opsetid("", 18)]
    )
    with pytest.raises((og.UnsupportedError, og.ArgumentError), match="^.{,1000}$"):
        og.from_onnx(model).compile()(X)


def all_cases():
    for name in SPLITS:
        print(name, flush=True)
        split(name)
    for name, backend in itertools.product(CASES, (None, "numpy")):
        print(name, backend, flush=True)
        run(name, backend)


def test_absurd_attributes_end_in_results_or_in_our_errors():
    """In a child of 3 GiB that must be done in time; the last line that it says is the case that broke it."""
    pytest.importorskip("resource", reason="of POSIX systems")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2); "
        f"sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}; "
        "import test_absurd_attributes; test_absurd_attributes.all_cases()"
    )
    done = processes.run(["-c", script])
    assert done.returncode == 0, (done.stderr[-2000:], done.stdout.splitlines()[-1:])


def windows_of(array, kernel, stride, dilation, begin, end, fill):
    """The elements of each window along the middle axis, padding and all."""
    pads = [np.full((1, n, array.shape[2]), fill, array.dtype) for n in (begin, end)]
    padded = np.concatenate([pads[0], array, pads[1]], 1)
    extent = dilation * (kernel - 1) + 1
    starts = range(0, padded.shape[1] - extent + 1, stride)
    return np.stack([padded[:, s : s + extent : dilation] for s in starts], 1)


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_windows_that_reach_far_beyond_the_data(backend):
    draw = np.random.default_rng(0)
    done = 0
    while done < 60:
        size, kernel, stride, dilation = (int(draw.integers(1, most)) for most in (6, 14, 5, 4))
        begin, end = (int(draw.integers(0, dilation * (kernel - 1) + 1)) for _ in range(2))
        if size + begin + end < dilation * (kernel - 1) + 1:
            continue
        done += 1
        x = draw.integers(-8, 9, (1, size, 2)).astype("f4")
        where = {"kernel": [kernel], "strides": [stride], "pads_begin": [begin], "pads_end": [end]}
        found = windows_of(x, kernel, stride, dilation, begin, end, -np.inf)
        graph = og.Graph()
        tensor = graph.input("x", "f32", x.shape)
        graph.max_pool(tensor, dilations=[dilation], **where, name="max")
        wanted = {"max": found.max(2)}
        if dilation == 1:
            inside = np.isfinite(found)
            sums, counts = np.where(inside, found, 0).sum(2), inside.sum(2)
            with np.errstate(invalid="ignore"):
                wanted |= {"mean": sums / counts, "mean of zeros": sums / np.float32(kernel)}
            graph.avg_pool(tensor, exclude_pad=True, **where, name="mean")
            graph.avg_pool(tensor, exclude_pad=False, **where, name="mean of zeros")
        results = graph.compile(backend=backend)(x)
        for name, array in wanted.items():
            np.testing.assert_allclose(
                results[name], array, rtol=1e-6, err_msg=f"{name} {where} {dilation} {size}"
            )
