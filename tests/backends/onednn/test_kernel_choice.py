"""What runs where: for a table of graphs the backend, the kernels and their number, so that no fall to NumPy is silent.

Rows hold on every instruction set, for they name the steps' roles and not the kernels of one CPU. A graph that is not
here, or of few elements, may run elsewhere.
"""

import itertools
from collections.abc import Callable

import numpy as np
import onednn_graph as og
import pytest
from attrs import frozen
from onednn_graph.backends.onednn.lowering import eltwise
from op_calls import EXAMPLES
from rows import each
from strategies import has_isa

DENSE = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
HALF = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
NCX = {"data_format": "NCX", "weights_format": "OIX"}
LAST, FIRST = (2, 14, 14, 32), (2, 32, 14, 14)
"""Images with channels last and first."""
NUMBERS = itertools.count()
VNNI = "avx512_core_vnni"
"""From there on 8-bit products are added up in 32 bits; before, kernels for them are barred."""
PER_CHANNEL = {"scales": [0.25, 0.5] * 16, "qtype": "per_channel"}


def take(graph, *shape, dtype="f32", constant=False):
    """A further input."""
    kind = "constant" if constant else "undef"
    return graph.input(f"x{next(NUMBERS)}", dtype, shape, property_type=kind)


def convolution(graph, dtype="f32", *, data=LAST, weights=(3, 3, 32, 32), **more):
    return graph.op(
        "Convolution",
        take(graph, *data, dtype=dtype),
        take(graph, *weights, dtype=dtype, constant=True),
        **DENSE,
        **more,
    )


def follow(graph, y, *chain, dtype="f32"):
    """Ops behind `y`; a binary one takes a vector of its last axis, or all of its elements after `=`."""
    for kind in chain:
        name, *whole = kind.split("=")
        if name in ("Add", "Multiply", "Maximum", "Subtract"):
            y = graph.op(name, y, take(graph, *(y.shape if whole else y.shape[-1:]), dtype=dtype))
        elif name == "BiasAdd":
            y = graph.op(name, y, take(graph, y.shape[-1], dtype=dtype))
        elif name == "Clamp":
            y = graph.op(name, y, min=0.0, max=6.0)
        elif name == "Swish":
            y = graph.op("Multiply", y, graph.op("Sigmoid", y))
        else:
            y = graph.op(name, y)
    return y


def behind(anchor, *chain):
    def build(graph, dtype="f32"):
        follow(graph, anchor(graph, dtype), *chain, dtype=dtype)

    return build


def product(graph, dtype="f32"):
    return graph.op(
        "MatMul",
        take(graph, 64, 96, dtype=dtype),
        take(graph, 96, 48, dtype=dtype, constant=True),
        take(graph, 48, dtype=dtype),
    )


def normalised(graph, dtype="f32"):
    y = convolution(graph, dtype)
    vectors = [take(graph, 32, constant=True) for _ in range(4)]
    return graph.op("BatchNormInference", y, *vectors, epsilon=1e-5)


def batch_norm(graph, dtype="f32"):
    return graph.op(
        "BatchNormInference",
        take(graph, *LAST, dtype=dtype),
        *[take(graph, 32) for _ in range(4)],
        epsilon=1e-5,
    )


def attention(graph, dtype="f32"):
    q, k, v = (take(graph, 2, 4, 16, 32, dtype=dtype) for _ in range(3))
    scores = graph.op("MatMul", q, k, transpose_b=True)
    scores = graph.op("Multiply", scores, take(graph, dtype=dtype))
    scores = graph.op("Add", scores, take(graph, 2, 1, 1, 16, dtype=dtype))
    graph.op("MatMul", graph.op("SoftMax", scores, axis=-1), v)


def integers(graph, kind="Convolution", last=None, dtype="f32"):
    """A quantised layer between u8 and f32, or what `last` quantises to."""
    if kind == "Convolution":
        x, w, more = (
            take(graph, *LAST, dtype="u8"),
            take(graph, 3, 3, 32, 32, dtype="s8", constant=True),
            DENSE,
        )
    else:
        x, w, more = take(graph, 64, 96, dtype="u8"), take(graph, 96, 32, dtype="s8", constant=True), {}
    x = graph.op("Dequantize", x, scales=[0.5], zps=[3])
    w = graph.op("Dequantize", w, axis=len(w.shape) - 1, **PER_CHANNEL)
    y = graph.op("ReLU", graph.op(kind, x, w, **more))
    if last:
        graph.op("Quantize", y, scales=[0.5], zps=[7], output_type=last)


def gradient_with_bias(graph, dtype="f32"):
    x, dy = (take(graph, *LAST, dtype=dtype) for _ in range(2))
    graph.op("ConvolutionBackwardWeights", x, dy, weights_shape=[3, 3, 32, 32], **DENSE)
    graph.op("BiasAddBackward", dy)


ELTWISE = {kind: EXAMPLES[kind][0].attributes for kind in eltwise.LOWERED}
"""Functions and their gradients, of which every one is to be a primitive."""


@frozen
class Row:
    """What is expected of a graph.

    Attributes:
        build: adds its ops to a graph, in a type.
        steps: roles of its steps, copies apart.
        copies: how many copies there may be at each call in f32, and in bf16 where the CPU has it.
        isa: the least instruction set that has kernels for it.
        halves: the same for bf16; None where it is not tried.
    """

    build: Callable[..., object]
    steps: tuple[str, ...]
    copies: int = 0
    isa: str = "sse41"
    halves: str | None = "sse41"


def row(build, *steps, **more):
    return Row(build, steps, **more)


def of(kind, *shapes, **attributes):
    """An op as the anchor of a chain."""

    def anchor(graph, dtype="f32"):
        return graph.op(kind, *[take(graph, *shape, dtype=dtype) for shape in shapes], **attributes)

    return anchor


def in_dtype(build, *args, **more):
    return lambda graph, dtype="f32": build(graph, *args, dtype=dtype, **more)


def dynamic(graph, dtype="f32"):
    graph.op("DynamicQuantize", take(graph, *LAST), take(graph, 1), output_type="s8")


SIZES = {"sizes": [28, 28]}
ENLARGED = (2, 28, 28, 32)
MATRIX = (64, 128)
NORM = {"epsilon": 1e-5}
GRADIENT = {"weights_shape": [3, 3, 32, 32], **DENSE}
ROWS = {
    **{
        kind: row(of(kind, LAST, LAST, **more), "eltwise gradient")
        if kind in eltwise.BACKWARD
        else row(of(kind, LAST, **more), "eltwise")
        for kind, more in ELTWISE.items()
    },
    **{
        kind: row(of(kind, LAST, LAST), "binary")
        for kind in ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference")
    },
    "Round": row(of("Round", LAST), "eltwise", halves=None),
    "Add of a vector": row(of("Add", LAST, (32,)), "binary"),
    "BiasAdd": row(of("BiasAdd", LAST, (32,)), "binary"),
    **{
        f"Reduce{name}": row(of(f"Reduce{name}", MATRIX, axes=[1], keep_dims=True), "reduction")
        for name in ("Max", "Mean", "Min", "Prod", "Sum")
    },
    "a global mean": row(of("ReduceMean", FIRST, axes=[2, 3], keep_dims=True), "reduction"),
    "a global mean without its axes": row(of("ReduceMean", FIRST, axes=[2, 3]), "reduction"),
    "Convolution": row(convolution, "convolution"),
    "Convolution, channels first": row(
        in_dtype(convolution, data=FIRST, weights=(32, 32, 3, 3), **NCX), "convolution", copies=2
    ),
    "Convolution in groups": row(in_dtype(convolution, weights=(3, 3, 8, 32), groups=4), "convolution"),
    "Convolution, depthwise": row(
        in_dtype(convolution, weights=(3, 3, 1, 32), groups=32), "convolution", halves="avx2"
    ),
    "ConvTranspose": row(of("ConvTranspose", LAST, (3, 3, 32, 32), **DENSE), "deconvolution", copies=1),
    "ConvolutionBackwardData": row(
        of("ConvolutionBackwardData", LAST, (3, 3, 32, 32), **DENSE),
        "convolution",
        copies=1,
        isa="avx2",
        halves="avx2",
    ),
    "ConvTransposeBackwardData": row(
        of("ConvTransposeBackwardData", LAST, (3, 3, 32, 32), **DENSE), "convolution", copies=1
    ),
    "ConvolutionBackwardWeights": row(
        of("ConvolutionBackwardWeights", LAST, LAST, **GRADIENT), "convolution", copies=1, isa="avx2"
    ),
    "ConvTransposeBackwardWeights": row(
        of("ConvTransposeBackwardWeights", LAST, LAST, **GRADIENT), "convolution", copies=1, isa="avx2"
    ),
    "weight gradient with bias": row(gradient_with_bias, "convolution", copies=1, isa="avx2"),
    "BiasAddBackward": row(of("BiasAddBackward", LAST), "sum of rows"),
    "MatMul": row(product, "matmul"),
    "MatMul in a batch": row(of("MatMul", (4, 16, 32), (4, 32, 24)), "matmul"),
    "MatMul of a turned matrix": row(of("MatMul", (16, 32), (24, 32), transpose_b=True), "matmul"),
    "AvgPool": row(of("AvgPool", LAST, **HALF, exclude_pad=False), "pooling"),
    "MaxPool": row(of("MaxPool", LAST, **HALF), "pooling"),
    "MaxPool, rounded up": row(
        of("MaxPool", (2, 15, 15, 32), **HALF | {"kernel": [3, 3], "rounding_type": "ceil"}), "pooling"
    ),
    "AvgPool, rounded up": row(
        of(
            "AvgPool", (2, 16, 16, 32), **HALF | {"kernel": [3, 3], "rounding_type": "ceil"}, exclude_pad=True
        ),
        "pooling",
    ),
    "AvgPoolBackward": row(
        of("AvgPoolBackward", (2, 7, 7, 32), **HALF, exclude_pad=False, src_shape=list(LAST)),
        "pooling gradient",
    ),
    "MaxPoolBackward": row(of("MaxPoolBackward", LAST, (2, 7, 7, 32), **HALF), "pooling", "pooling gradient"),
    "Interpolate": row(of("Interpolate", LAST, mode="linear", **SIZES), "resampling"),
    "Interpolate, nearest": row(of("Interpolate", LAST, mode="nearest", **SIZES), "resampling"),
    "InterpolateBackward": row(
        of("InterpolateBackward", LAST, ENLARGED, mode="linear", **SIZES), "resampling gradient"
    ),
    "SoftMax": row(of("SoftMax", MATRIX, axis=-1), "softmax"),
    "LogSoftmax": row(of("LogSoftmax", MATRIX, axis=-1), "softmax"),
    "SoftMaxBackward": row(
        of("SoftMaxBackward", MATRIX, MATRIX, axis=-1),
        "softmax gradient",
        isa="avx512_core",
        halves="avx512_core",
    ),
    "LogSoftmaxBackward": row(
        of("LogSoftmaxBackward", MATRIX, MATRIX, axis=-1),
        "softmax gradient",
        isa="avx512_core",
        halves="avx512_core",
    ),
    "LayerNorm": row(
        of("LayerNorm", MATRIX, (128,), (128,), keep_stats=False), "layer normalization", halves=None
    ),
    "LayerNormBackward": row(
        of("LayerNormBackward", MATRIX, MATRIX, (64,), (64,), (128,), (128,)),
        "layer normalization gradient",
        halves=None,
    ),
    "BatchNormInference": row(batch_norm, "batch normalization"),
    "BatchNormForwardTraining": row(
        of("BatchNormForwardTraining", LAST, *[(32,)] * 4, **NORM),
        "sums of parts",
        "batch normalization",
        "running statistics",
        "running statistics",
        copies=2,
        halves=None,
    ),
    "BatchNormTrainingBackward": row(
        of("BatchNormTrainingBackward", LAST, LAST, *[(32,)] * 3, **NORM),
        "batch normalization gradient",
        copies=3,
        halves=None,
    ),
    "Concat": row(of("Concat", LAST, LAST, axis=-1), "concat"),
    "PReLU, channels first": row(of("PReLU", FIRST, (32,), data_format="NCX"), "prelu"),
    "StaticTranspose": row(of("StaticTranspose", LAST, order=[0, 3, 1, 2]), copies=1),
    "Reorder": row(of("Reorder", LAST), copies=1),
    "TypeCast": row(
        in_dtype(lambda graph, dtype: graph.op("TypeCast", take(graph, *LAST), output_type="bf16")), copies=1
    ),
    "Quantize": row(of("Quantize", LAST, scales=[0.5], zps=[3]), "quantize", halves=None),
    "Quantize per channel": row(
        of("Quantize", LAST, axis=3, output_type="s8", **PER_CHANNEL), "quantize", halves=None
    ),
    "DynamicQuantize": row(dynamic, "dynamicquantize", halves=None),
    "convolution, bias, ReLU": row(behind(convolution, "BiasAdd", "ReLU"), "convolution"),
    "convolution, bias, swish": row(behind(convolution, "BiasAdd", "Swish"), "convolution"),
    "convolution, bias, clamp": row(behind(convolution, "BiasAdd", "Clamp"), "convolution"),
    "convolution, residual, ReLU": row(behind(convolution, "Add=", "ReLU"), "convolution"),
    "convolution, scale and shift, GELU": row(behind(convolution, "Multiply", "Add", "GELU"), "convolution"),
    "convolution, batch norm, ReLU": row(behind(normalised, "ReLU"), "convolution"),
    "convolution, batch norm, residual, ReLU": row(behind(normalised, "Add=", "ReLU"), "convolution"),
    "matmul, ReLU": row(behind(product, "ReLU"), "matmul"),
    "matmul, GELU, residual": row(behind(product, "GELU", "Add="), "matmul"),
    "matmul, residual, tanh": row(behind(product, "Add=", "Tanh"), "matmul"),
    "batch norm, ReLU": row(behind(batch_norm, "ReLU"), "batch normalization"),
    "binary, ReLU": row(behind(of("Add", LAST, LAST), "ReLU"), "binary"),
    "pooling, ReLU, sum": row(behind(of("MaxPool", LAST, **HALF), "ReLU", "Add"), "pooling"),
    "reduction, root": row(behind(of("ReduceSum", MATRIX, axes=[1], keep_dims=True), "Sqrt"), "reduction"),
    "attention": row(attention, "matmul", "softmax", "matmul"),
    "int8 convolution": row(integers, "convolution", halves=None, isa=VNNI),
    "int8 convolution to u8": row(
        in_dtype(lambda graph, dtype: integers(graph, last="u8")), "convolution", halves=None, isa=VNNI
    ),
    "int8 matmul": row(
        in_dtype(lambda graph, dtype: integers(graph, "MatMul")), "matmul", halves=None, isa=VNNI
    ),
    "int8 matmul to s8": row(
        in_dtype(lambda graph, dtype: integers(graph, "MatMul", "s8")), "matmul", halves=None, isa=VNNI
    ),
}


def split(explanation):
    """Roles of the steps that compute, and the number of those that only copy."""
    names = [name.split(" (")[0] for name in explanation.implementations]
    copies = [name for name in names if name.startswith(("reorder", "convert"))]
    return tuple(name for name in names if name not in copies), len(copies)


LOOKS = (
    "rows of infinities or NaN",
    "windows of -inf",
    "sums that tell of NaN",
    "batch statistics",
    "logarithms of sums",
)
"""Steps that look for what the library's kernels lose, and that of the digits."""


def check(name, dtype, isa, copies):
    if not has_isa(isa):
        pytest.skip(f"the library has kernels for it from {isa} on")
    graph = og.Graph()
    ROWS[name].build(graph, dtype=dtype)
    explanations = graph.compile().explain()
    text = str(explanations)
    (explanation,) = explanations.values()
    assert explanation.backend == "onednn", text
    steps, found = split(explanation)
    assert tuple(step for step in steps if step not in LOOKS) == ROWS[name].steps, text
    names = [one for one in explanation.implementations if one.rpartition(" (")[0] not in LOOKS]
    if not has_isa("avx512_core"):  # the library's copies to and from bf16 are a reference loop there
        names = [one for one in names if not one.startswith("convert ")]
    assert not any("numpy" in one or "(ref" in one for one in names), text
    assert copies is None or found <= copies, text


@each("name", ROWS)
def test_the_library_computes_it(onednn, name):
    check(name, "f32", ROWS[name].isa, ROWS[name].copies)


@each("name", [name for name, one in ROWS.items() if one.halves])
def test_the_library_computes_it_in_bf16(onednn, name):
    """Where the CPU has no arithmetic for it, by way of f32, with a copy for each operand and the result."""
    check(name, "bf16", ROWS[name].halves, ROWS[name].copies if has_isa("avx512_core") else None)


@pytest.mark.parametrize("kind", sorted({"Select", "GenIndex", "BiasAddBackward"}))
def test_what_the_library_has_no_primitive_for_tells_why(onednn, kind):
    build = {
        "Select": lambda graph: graph.op(
            "Select", take(graph, 4, dtype="boolean"), take(graph, 4), take(graph, 4)
        ),
        "GenIndex": of("GenIndex", MATRIX, axis=1),
        "BiasAddBackward": of("BiasAddBackward", FIRST, data_format="NCX"),
    }[kind]
    graph = og.Graph()
    build(graph)
    graph.finalize()
    (partition,) = graph.get_partitions()
    (explanation,) = graph.compile().explain().values()
    assert explanation.backend == "numpy"
    assert "onednn" in str(partition.why_not) or any("onednn" in reason for reason in explanation.rejected)


@pytest.mark.parametrize(("channels", "by_copies"), [(4, True), (24, True), (48, False)])
def test_short_rows_are_joined_by_copies_that_take_several_at_once(channels, by_copies):
    """The library's concat moves them one by one, in three times the time."""
    graph, random = og.Graph(), np.random.default_rng(0)
    parts = [
        graph.input(f"x{n}", "f32", [1, 20, 20, size]) for n, size in enumerate((channels, channels + 4))
    ]
    graph.op("Concat", *[graph.op("ReLU", part) for part in parts], axis=3, name="y")
    model = graph.compile()
    feeds = {part.name: random.standard_normal(part.dims).astype(np.float32) for part in parts}
    expected = np.concatenate([np.maximum(feeds[part.name], 0) for part in parts], 3)
    assert np.array_equal(model(feeds)["y"], expected)
    steps = [name for one in model.explain().values() for name in one.implementations if "concat" in name]
    assert len(steps) == (2 if by_copies else 1)
