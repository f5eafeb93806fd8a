"""Edges of the NumPy kernels, worked out by hand: infinities, NaN, empty tensors and rank 0, ties, saturation, halves.

Rows are (op, inputs, attributes, expected); what is expected is written down, not computed.
"""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.model.builder import snake_case
from op_calls import EXAMPLES
from rows import each

INF, NAN = np.inf, np.nan
F32, F64, F16, BF16 = np.float32, np.float64, np.float16, ml_dtypes.bfloat16
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
ONE_D = {"strides": [1], "pads_begin": [0], "pads_end": [0]}


@dataclass(frozen=True)
class Row:
    """One call. Lists are f32 arrays; several outputs are a tuple."""

    kind: str
    inputs: tuple
    expected: object
    attributes: dict = field(default_factory=dict)


def row(kind, *inputs, to, **attributes):
    return Row(kind, inputs, to, attributes)


def as_array(value):
    return value if isinstance(value, np.ndarray | np.generic) else np.asarray(value, F32)


def run(kind, *inputs, **attributes):
    return getattr(og, snake_case(kind))(*map(as_array, inputs), backend="numpy", **attributes)


def check(row):
    """Equal to the last bit, NaN and the sign of zero included."""
    results = run(row.kind, *row.inputs, **row.attributes)
    single = not isinstance(row.expected, tuple)
    for result, expected in zip(
        (results,) if single else results, (row.expected,) if single else row.expected, strict=True
    ):
        expected = as_array(expected)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        result, expected = result.astype(F64), expected.astype(F64)
        np.testing.assert_array_equal(result, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


def a(values, dtype):
    return np.asarray(values, dtype)


def parametrised(rows):
    return each("row", rows.values(), ids=[f"{name}: {r.kind}" for name, r in rows.items()])


# --- infinities and NaN -------------------------------------------------------------------------------

SPECIAL = [-INF, INF, NAN, -0.0, 0.0]

INFINITE = {
    "Abs": row("Abs", SPECIAL, to=[INF, INF, NAN, 0, 0]),
    "Clamp": row("Clamp", SPECIAL, min=-1.0, max=2.0, to=[-1, 2, NAN, -0.0, 0]),
    "Elu": row("Elu", SPECIAL, alpha=2.0, to=[-2, INF, NAN, 0, 0]),
    "Exp": row("Exp", SPECIAL, to=[0, INF, NAN, 1, 1]),
    "Exp beyond f32": row("Exp", [89.0, -104.0], to=[INF, 0]),
    "Exp beyond f16": row("Exp", a([12.0, -20.0], F16), to=a([INF, 0], F16)),
    "HardSigmoid": row("HardSigmoid", [-INF, INF, NAN, 0], alpha=0.5, beta=0.25, to=[0, 1, NAN, 0.25]),
    "HardSwish": row("HardSwish", [INF, NAN, -3, 3, -1.5], to=[INF, NAN, -0.0, 3, -0.375]),
    "LeakyReLU": row("LeakyReLU", SPECIAL, alpha=0.5, to=[-INF, INF, NAN, -0.0, 0]),
    "Log": row("Log", [0.0, 1, INF, -1, NAN], to=[-INF, 0, INF, NAN, NAN]),
    "Pow": row("Pow", [0.0, 2, INF, 0], beta=-1.0, to=[INF, 0.5, 0, INF]),
    "Pow of nothing": row("Pow", [0.0, -3, INF, NAN], beta=0.0, to=[1, 1, 1, 1]),
    "Pow of a negative number": row("Pow", [-8.0], beta=0.5, to=[NAN]),
    "Reciprocal": row("Reciprocal", SPECIAL, to=[-0.0, 0, NAN, -INF, INF]),
    "ReLU": row("ReLU", [-INF, INF, NAN, -5, 5], to=[0, INF, NAN, 0, 5]),
    "Sigmoid": row("Sigmoid", [-INF, INF, NAN, 0, -104], to=[0, 1, NAN, 0.5, 0]),
    "SoftPlus": row("SoftPlus", [-INF, INF, NAN, 1000], to=[0, INF, NAN, 1000]),
    "SoftPlus with beta": row("SoftPlus", [-INF, INF, 1000], beta=2.0, to=[0, INF, 1000]),
    "SoftPlus with negative beta": row("SoftPlus", [-1000.0, 1000], beta=-1.0, to=[-1000, -0.0]),
    "Sqrt": row("Sqrt", [-1.0, 0, INF, NAN], to=[NAN, 0, INF, NAN]),
    "Square": row("Square", [-INF, INF, NAN, 1e30], to=[INF, INF, NAN, INF]),
    "Tanh": row("Tanh", [-INF, INF, NAN, -0.0], to=[-1, 1, NAN, -0.0]),
    "GELU": row("GELU", [INF, NAN, 0, 10, -20], to=[INF, NAN, 0, 10, -0.0]),
    "GELU with tanh": row("GELU", [INF, NAN, 0, 10, -20], mode="gelu_tanh", to=[INF, NAN, 0, 10, -0.0]),
    "Mish": row("Mish", [INF, NAN, 0, 100], to=[INF, NAN, 0, 100]),
    "Maximum": row("Maximum", [1.0, NAN, INF, -INF], [NAN, 1.0, 0, -INF], to=[NAN, NAN, INF, -INF]),
    "Minimum": row("Minimum", [1.0, NAN, INF, -INF], [NAN, 1.0, 0, INF], to=[NAN, NAN, 0, -INF]),
    "Divide": row("Divide", [1.0, -1, 0, INF], [0.0, 0, 0, INF], to=[INF, -INF, NAN, NAN]),
    "Add": row("Add", [INF, INF, 3e38], [-INF, 1, 3e38], to=[NAN, INF, INF]),
    "Subtract": row("Subtract", [INF, INF, 1], [INF, -INF, 1], to=[NAN, INF, 0]),
    "Multiply": row("Multiply", [INF, -INF, 1e30], [0.0, 2, 1e30], to=[NAN, -INF, INF]),
    "SquaredDifference": row("SquaredDifference", [INF, 3], [INF, 5], to=[NAN, 4]),
    "GreaterEqual": row(
        "GreaterEqual", [NAN, 1, INF, -INF, -0.0], [1.0, NAN, INF, INF, 0], to=a([0, 0, 1, 0, 1], bool)
    ),
    "Select leaves NaN behind": row("Select", a([True, False], bool), [1.0, NAN], [NAN, 2.0], to=[1, 2]),
    "MatMul": row("MatMul", [[INF, 1.0]], [[0.0], [1]], to=[[NAN]]),
    "MatMul beyond f16": row("MatMul", a([[300.0]], F16), a([[300.0]], F16), to=a([[INF]], F16)),
    "ReduceMax": row("ReduceMax", [[1.0, NAN], [-INF, -INF]], axes=[1], to=[NAN, -INF]),
    "ReduceMin": row("ReduceMin", [[1.0, NAN], [INF, INF]], axes=[1], to=[NAN, INF]),
    "ReduceSum": row("ReduceSum", [[INF, 1], [INF, -INF]], axes=[1], to=[INF, NAN]),
    "ReduceL2": row("ReduceL2", [[-INF, 1], [3, 4]], axes=[1], to=[INF, 5]),
    "ReduceProd": row("ReduceProd", [[INF, 0], [2, 3]], axes=[1], to=[NAN, 6]),
    "TypeCast beyond bf16": row(
        "TypeCast", [3.4e38, -3.4e38, NAN], output_type="bf16", to=a([INF, -INF, NAN], BF16)
    ),
    "TypeCast beyond f16": row(
        "TypeCast", [65519.0, 65520, INF], output_type="f16", to=a([65504, INF, INF], F16)
    ),
    "TypeCast beyond f32": row("TypeCast", a([1e39, -1e39], F64), output_type="f32", to=[INF, -INF]),
    "PReLU": row("PReLU", [[-INF, INF, NAN, -2]], [0.5], to=[[-INF, INF, NAN, -1]]),
    "Interpolate": row(
        "Interpolate", [[[INF, 1]]], mode="nearest", sizes=[4], data_format="NCX", to=[[[INF, INF, 1, 1]]]
    ),
}


@parametrised(INFINITE)
def test_infinities_and_nan(row):
    check(row)


DY = [3.0, 5.0, 7.0, 2.0, 4.0]
KINKS = {
    "0 is no positive number": row(
        "ReLUBackward", [-1.0, 0, 1, INF, -0.0], DY, use_dst=False, to=[0, 0, 7, 2, 0]
    ),
    "of dst": row("ReLUBackward", [0.0, 0, 1, INF, 0], DY, to=[0, 0, 7, 2, 0]),
    "both bounds are outside": row(
        "ClampBackward", [-1.0, 0, 2, 1.5, -7], DY, min=-1.0, max=2.0, use_dst=False, to=[0, 5, 0, 2, 0]
    ),
    "bounds of dst": row("ClampBackward", [-1.0, 0, 2, 1.5, -1], DY, min=-1.0, max=2.0, to=[0, 5, 0, 2, 0]),
    "no sign of 0": row("AbsBackward", [-1.0, 0, -0.0, INF, -INF], DY, to=[-3, 0, 0, 2, -4]),
    "0 belongs below": row(
        "EluBackward", [0.0, -0.0, 1, INF, -INF], DY, alpha=2.0, use_dst=False, to=[6, 10, 7, 2, 0]
    ),
    "0 of dst belongs below": row("EluBackward", [0.0, -2, 1, INF, -1], DY, alpha=2.0, to=[6, 0, 7, 2, 4]),
    "both ends are flat": row(
        "HardSigmoidBackward", [-0.5, 1.5, 0, -9, 9], DY, alpha=0.5, beta=0.25, to=[0, 0, 3.5, 0, 0]
    ),
    "−3 is flat and 3 is not": row("HardSwishBackward", [-3.0, 3, 0, INF, -INF], DY, to=[0, 5, 3.5, 2, 0]),
    "far away": row("SoftPlusBackward", [-INF, INF, 0, -500, 500], DY, to=[0, 5, 3.5, 0, 4]),
    "far away, of dst": row("TanhBackward", [1.0, -1, 0, 0.5, -0.5], DY, to=[0, 0, 7, 1.5, 3]),
    "far away, of src": row("TanhBackward", [INF, -INF, 0, 50, -50], DY, use_dst=False, to=[0, 0, 7, 0, 0]),
    "far away, sigmoid": row(
        "SigmoidBackward", [INF, -INF, 0, 500, -500], DY, use_dst=False, to=[0, 0, 1.75, 0, 0]
    ),
    "of 0": row("SqrtBackward", [0.0, 4, INF, 1, 0.25], DY, to=[INF, 0.625, 0, 1, 8]),
    "infinite upstream where it is flat": row(
        "ReLUBackward", [-1.0, 0, 1], [INF, NAN, INF], use_dst=False, to=[0, 0, INF]
    ),
    "mish far away": row("MishBackward", [100.0, -200, 50, 30, 90], DY, to=[3, -0.0, 7, 2, 4]),
    "swish far away": row("SwishBackward", [100.0, -200, 50, 0, 90], DY, to=[3, -0.0, 7, 1, 4]),
    "gelu far away": row("GELUBackward", [20.0, -20, 30, 0, 40], DY, to=[3, -0.0, 7, 1, 4]),
    "0 belongs to the slope": row(
        "PReLUBackward", [[0.0, -2, 3]], [0.5], [[4.0, 6, 8]], to=([[2, 3, 8]], [-12])
    ),
}


@parametrised(KINKS)
def test_kinks_and_far_ends_of_derivatives(row):
    if row.kind in ("MishBackward", "GELUBackward", "SwishBackward"):  # a zero of either sign
        result = run(row.kind, *row.inputs, **row.attributes)
        np.testing.assert_allclose(result, row.expected, rtol=1e-6, atol=1e-30)
    else:
        check(row)


# --- softmax of −∞ ------------------------------------------------------------------------------------

ROWS = [[-INF, -INF], [-INF, 0.0], [0.0, 0.0]]
SOFTMAX = {
    "all −∞": row("SoftMax", ROWS, axis=1, to=[[NAN, NAN], [0, 1], [0.5, 0.5]]),
    "mode none": row("SoftMax", ROWS, axis=1, mode="none", to=[[NAN, NAN], [0, 1], [0.5, 0.5]]),
    "inf_as_zero": row("SoftMax", ROWS, axis=1, mode="inf_as_zero", to=[[0, 0], [0, 1], [0.5, 0.5]]),
    "the default axis is 1": row("SoftMax", ROWS, mode="inf_as_zero", to=[[0, 0], [0, 1], [0.5, 0.5]]),
    "axis 0": row("SoftMax", [[-INF, 0.0], [-INF, 0.0]], axis=0, mode="inf_as_zero", to=[[0, 0.5], [0, 0.5]]),
    "stats": row(
        "SoftMax",
        [[-INF, 3.0], [7, -INF]],
        axis=1,
        mode="inf_as_zero",
        outputs=2,
        to=([[0, 1], [1, 0]], [[3], [7]]),
    ),
    "large": row("SoftMax", [[1000.0, 1000], [-1000, -1000]], axis=1, to=[[0.5, 0.5], [0.5, 0.5]]),
    "+∞": row("SoftMax", [[INF, 0.0]], axis=1, to=[[NAN, NAN]]),
    "one element": row("SoftMax", [[5.0], [-3]], axis=1, outputs=2, to=([[1], [1]], [[5], [-3]])),
    "bf16 stats": row(
        "SoftMax", a([[5.0], [-3]], BF16), axis=1, outputs=2, to=(a([[1], [1]], BF16), a([[5], [-3]], F32))
    ),
    "log of all −∞": row("LogSoftmax", [[-INF, -INF], [-INF, 0]], to=[[NAN, NAN], [-INF, 0]]),
    "log of large": row("LogSoftmax", [[1000.0, -1000]], to=[[0, -2000]]),
    "gradient of certainty": row("SoftMaxBackward", [[3.0, 4]], [[1.0, 0]], axis=1, to=[[0, 0]]),
    "log gradient of certainty": row("LogSoftmaxBackward", [[3.0, 4]], [[0.0, -INF]], to=[[-4, 4]]),
}


@parametrised(SOFTMAX)
def test_softmax_of_infinities(row):
    check(row)


# --- ties and borders of pooling ----------------------------------------------------------------------

NCX = {"data_format": "NCX"}
PAIRS = {"kernel": [2], "strides": [2], "pads_begin": [0], "pads_end": [0], **NCX}
THREES = {"kernel": [3], "strides": [1], "pads_begin": [1], "pads_end": [1], **NCX}

POOLING = {
    "the first of equals": row(
        "MaxPoolBackward", [[[2.0, 2, 1, 1]]], [[[5.0, 7]]], **PAIRS, to=[[[5, 0, 7, 0]]]
    ),
    "the first of overlapping equals": row(
        "MaxPoolBackward", [[[1.0, 1, 1]]], [[[1.0, 10, 100]]], **THREES, to=[[[11, 100, 0]]]
    ),
    "row-major order": row(
        "MaxPoolBackward",
        [[[[0.0, 3], [3, 3]]]],
        [[[[5.0]]]],
        kernel=[2, 2],
        strides=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        **NCX,
        to=[[[[0, 5], [0, 0]]]],
    ),
    "ties of −∞": row(
        "MaxPoolBackward", [[[-INF, -INF, 1, -INF]]], [[[5.0, 7]]], **PAIRS, to=[[[5, 0, 7, 0]]]
    ),
    "ties of −∞ beside padding": row(
        "MaxPoolBackward", [[[-INF, -INF]]], [[[3.0, 4]]], **THREES, to=[[[7, 0]]]
    ),
    "a tie of bf16": row(
        "MaxPoolBackward", a([[[2, 2]]], BF16), a([[[5]]], BF16), **PAIRS, to=a([[[5, 0]]], BF16)
    ),
    "MaxPool of negatives beside padding": row("MaxPool", [[[-3.0, -5]]], **THREES, to=[[[-3, -3]]]),
    "MaxPool of −∞": row("MaxPool", [[[-INF, -INF, -INF, 2]]], **PAIRS, to=[[[-INF, 2]]]),
    "MaxPool of NaN": row("MaxPool", [[[NAN, 1, 2, NAN]]], **PAIRS, to=[[[NAN, NAN]]]),
    "the gradient goes to NaN": row("MaxPoolBackward", [[[9.0, NAN]]], [[[5.0]]], **PAIRS, to=[[[0, 5]]]),
    "average with padding": row("AvgPool", [[[3.0, 6]]], exclude_pad=False, **THREES, to=[[[3, 3]]]),
    "average without padding": row("AvgPool", [[[3.0, 6]]], exclude_pad=True, **THREES, to=[[[4.5, 4.5]]]),
    "what ceil adds counts as padding": row(
        "AvgPool", [[[2.0, 4, 6]]], exclude_pad=False, rounding_type="ceil", **PAIRS, to=[[[3, 3]]]
    ),
    "what ceil adds is left out like padding": row(
        "AvgPool", [[[2.0, 4, 6]]], exclude_pad=True, rounding_type="ceil", **PAIRS, to=[[[3, 6]]]
    ),
    "negative pads cut off": row(
        "MaxPool",
        [[[9.0, 1, 2, 3, 8]]],
        kernel=[2],
        strides=[1],
        pads_begin=[-1],
        pads_end=[-1],
        **NCX,
        to=[[[2, 3]]],
    ),
    "a window that ceil adds does not see what is cut off": row(
        "MaxPool",
        [[[1.0, 2, 3, 9]]],
        kernel=[2],
        strides=[2],
        pads_begin=[0],
        pads_end=[-1],
        rounding_type="ceil",
        **NCX,
        to=[[[2, 3]]],
    ),
    "no gradient for what is cut off": row(
        "AvgPoolBackward",
        [[[2.0]]],
        kernel=[2],
        strides=[1],
        pads_begin=[-1],
        pads_end=[-2],
        exclude_pad=True,
        src_shape=[1, 1, 5],
        **NCX,
        to=[[[0, 1, 1, 0, 0]]],
    ),
    "ceil in any letter case": row("MaxPool", [[[2.0, 4, 6]]], rounding_type="CEIL", **PAIRS, to=[[[4, 6]]]),
    "floor leaves the rest out": row("MaxPool", [[[2.0, 4, 6]]], rounding_type="floor", **PAIRS, to=[[[4]]]),
    "no window begins in the padding behind": row(
        "MaxPool",
        [[[1.0, 2]]],
        kernel=[2],
        strides=[2],
        pads_begin=[0],
        pads_end=[1],
        rounding_type="ceil",
        **NCX,
        to=[[[2]]],
    ),
    "average gradient with padding": row(
        "AvgPoolBackward", [[[3.0, 6]]], exclude_pad=False, src_shape=[1, 1, 2], **THREES, to=[[[3, 3]]]
    ),
    "average gradient without padding": row(
        "AvgPoolBackward", [[[3.0, 6]]], exclude_pad=True, src_shape=[1, 1, 2], **THREES, to=[[[4.5, 4.5]]]
    ),
    "average gradient of a ceil window": row(
        "AvgPoolBackward", [[[2.0, 4]]], exclude_pad=False, src_shape=[1, 1, 3], **PAIRS, to=[[[1, 1, 2]]]
    ),
    "same_lower pads in front": row(
        "MaxPool",
        [[[1.0, 5, 2, 4]]],
        kernel=[2],
        strides=[1],
        pads_begin=[0],
        pads_end=[0],
        auto_pad="SAME_LOWER",
        **NCX,
        to=[[[1, 5, 5, 4]]],
    ),
    "same_upper pads behind": row(
        "MaxPool",
        [[[1.0, 5, 2, 4]]],
        kernel=[2],
        strides=[1],
        pads_begin=[0],
        pads_end=[0],
        auto_pad="SAME_UPPER",
        **NCX,
        to=[[[5, 5, 4, 4]]],
    ),
}


@parametrised(POOLING)
def test_borders_and_ties_of_pooling(row):
    check(row)


INTERPOLATION = {
    "halves go up": row("Interpolate", [[[1.0, 2]]], mode="nearest", sizes=[1], **NCX, to=[[[2]]]),
    "corners stay, halves go up": row(
        "Interpolate",
        [[[1.0, 2]]],
        mode="nearest",
        sizes=[3],
        coordinate_transformation_mode="align_corners",
        **NCX,
        to=[[[1, 2, 2]]],
    ),
    "the ends are repeated": row(
        "Interpolate", [[[0.0, 8]]], mode="linear", sizes=[4], **NCX, to=[[[0, 2, 6, 8]]]
    ),
    "corners stay": row(
        "Interpolate",
        [[[0.0, 8]]],
        mode="linear",
        sizes=[5],
        coordinate_transformation_mode="align_corners",
        **NCX,
        to=[[[0, 2, 4, 6, 8]]],
    ),
    "corners of one": row(
        "Interpolate",
        [[[3.0, 8]]],
        mode="linear",
        sizes=[1],
        coordinate_transformation_mode="align_corners",
        **NCX,
        to=[[[3]]],
    ),
    "from one": row("Interpolate", [[[3.0]]], mode="linear", sizes=[3], **NCX, to=[[[3, 3, 3]]]),
    "scales are rounded down": row(
        "Interpolate", [[[1.0, 2, 3]]], mode="nearest", scales=[1.5], **NCX, to=[[[1, 2, 2, 3]]]
    ),
    "gradient": row(
        "InterpolateBackward",
        [[[9.0, 9]]],
        [[[1.0, 10, 100, 1000]]],
        mode="linear",
        sizes=[4],
        **NCX,
        to=[[[1 + 7.5 + 25, 2.5 + 75 + 1000]]],
    ),
}


@parametrised(INTERPOLATION)
def test_coordinates_of_interpolation(row):
    check(row)


# --- rounding and saturation --------------------------------------------------------------------------

HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
PER_CHANNEL = {"qtype": "per_channel", "axis": 0}

ROUNDING = {
    "Round": row("Round", HALVES, to=[0, 2, 2, -0.0, -2, -2]),
    "Round of f64": row("Round", a([0.5, 4503599627370497.5], F64), to=a([0, 4503599627370498], F64)),
    "Round of bf16": row("Round", a(HALVES, BF16), to=a([0, 2, 2, -0.0, -2, -2], BF16)),
    "s8 halves": row("Quantize", HALVES, scales=[1.0], output_type="s8", to=a([0, 2, 2, 0, -2, -2], np.int8)),
    "u8 halves": row("Quantize", HALVES, scales=[1.0], output_type="u8", to=a([0, 2, 2, 0, 0, 0], np.uint8)),
    "halves of the sum with zp": row(
        "Quantize", HALVES, scales=[1.0], zps=[1], output_type="s8", to=a([2, 2, 4, 0, 0, -2], np.int8)
    ),
    "s8 saturates": row(
        "Quantize",
        [127.4, 127.5, 1e9, INF, -128.5, -1e9, -INF],
        scales=[1.0],
        output_type="s8",
        to=a([127, 127, 127, 127, -128, -128, -128], np.int8),
    ),
    "u8 saturates": row(
        "Quantize",
        [255.4, 255.5, 1e9, INF, -0.6, -INF],
        scales=[1.0],
        output_type="u8",
        to=a([255, 255, 255, 255, 0, 0], np.uint8),
    ),
    "u8 is the first type": row("Quantize", [3.0], scales=[1.0], to=a([3], np.uint8)),
    "zp moves the range": row(
        "Quantize", [0.0, 1, -1], scales=[0.5], zps=[127], output_type="s8", to=a([127, 127, 125], np.int8)
    ),
    "e4m3 saturates": row(
        "Quantize",
        [448.0, 464, 1e9, INF, -1e9],
        scales=[1.0],
        output_type="f8_e4m3",
        to=a([448, 448, 448, 448, -448], E4M3),
    ),
    "e5m2 saturates": row(
        "Quantize",
        [57344.0, 61440, 1e9, INF, -INF],
        scales=[1.0],
        output_type="f8_e5m2",
        to=a([57344, 57344, 57344, 57344, -57344], E5M2),
    ),
    # 3 bits after the point: 1, 1.125; 2 bits: 1, 1.25
    "e4m3 halves": row(
        "Quantize", [1.0625, 1.1875], scales=[1.0], output_type="f8_e4m3", to=a([1, 1.25], E4M3)
    ),
    "e5m2 halves": row("Quantize", [1.125, 1.375], scales=[1.0], output_type="f8_e5m2", to=a([1, 1.5], E5M2)),
    "e4m3 keeps NaN": row("Quantize", [NAN], scales=[1.0], output_type="f8_e4m3", to=a([NAN], E4M3)),
    "a scale per channel": row(
        "Quantize",
        [[8.0], [8]],
        scales=[1.0, 4.0],
        zps=[0, 1],
        **PER_CHANNEL,
        output_type="s8",
        to=a([[8], [3]], np.int8),
    ),
    "a zp for all channels": row(
        "Quantize",
        [[8.0], [8]],
        scales=[1.0, 4.0],
        zps=[1],
        **PER_CHANNEL,
        output_type="s8",
        to=a([[9], [3]], np.int8),
    ),
    "a scale for all channels": row(
        "Quantize",
        [[8.0], [8]],
        scales=[2.0],
        zps=[0, 1],
        **PER_CHANNEL,
        output_type="s8",
        to=a([[4], [5]], np.int8),
    ),
    # As for the weights (I, O / groups, X) of a transposed convolution with two groups: a scale per output channel.
    "scales of grouped weights, IOX": row(
        "Dequantize",
        a(np.ones((4, 2, 1)), np.int8),
        scales=[1.0, 2, 3, 4],
        qtype="per_channel",
        axis=1,
        to=[[[1], [2]], [[1], [2]], [[3], [4]], [[3], [4]]],
    ),
    "scales of grouped weights, XOI": row(
        "Dequantize",
        a(np.ones((1, 1, 2, 4)), np.int8),
        scales=[1.0, 2, 3, 4],
        qtype="per_channel",
        axis=2,
        to=[[[[1, 1, 3, 3], [2, 2, 4, 4]]]],
    ),
    "scales of three groups along the last axis": row(
        "Quantize",
        np.full((1, 1, 2, 6), 8, F32),
        scales=[1.0, 2, 4, 8, 16, 0.5],
        qtype="per_channel",
        axis=2,
        output_type="s8",
        to=a([[[[8, 8, 2, 2, 0, 0], [4, 4, 1, 1, 16, 16]]]], np.int8),
    ),
    "zero points of grouped weights": row(
        "Quantize",
        np.zeros((2, 1, 1), F32),
        scales=[1.0],
        zps=[3, 4],
        qtype="per_channel",
        axis=1,
        output_type="s8",
        to=a([[[3]], [[4]]], np.int8),
    ),
    "Dequantize of the ends": row(
        "Dequantize", a([-128, 127], np.int8), scales=[0.5], zps=[-128], to=[0, 127.5]
    ),
    "Dequantize of u8": row("Dequantize", a([0, 255], np.uint8), scales=[2.0], zps=[255], to=[-510, 0]),
    "Dequantize of e5m2": row("Dequantize", a([INF, -1.5], E5M2), scales=[2.0], to=[INF, -3]),
    "DynamicQuantize saturates": row(
        "DynamicQuantize",
        [1e9, -1e9, 2.5],
        [1.0],
        a([1], np.int32),
        output_type="s8",
        to=a([127, -128, 4], np.int8),
    ),
    "DynamicDequantize of s4": row("DynamicDequantize", a([-8, 7], ml_dtypes.int4), [0.5], to=[-4, 3.5]),
    "DynamicDequantize of u4": row(
        "DynamicDequantize", a([0, 15], ml_dtypes.uint4), [2.0], a([15], ml_dtypes.uint4), to=[-30, 0]
    ),
    "groups along both axes": row(
        "DynamicDequantize",
        a([[1, 2, 3, 4], [5, 6, 7, 8]], np.int8),
        [[1.0, 10]],
        qtype="per_group",
        group_shape=[2, 2],
        to=[[1, 2, 30, 40], [5, 6, 70, 80]],
    ),
    "groups along the first axis": row(
        "DynamicDequantize",
        a([[1, 2], [3, 4], [5, 6], [7, 8]], np.int8),
        [[1.0, 10], [100, 1000]],
        qtype="per_group",
        group_shape=[2, 1],
        to=[[1, 20], [3, 40], [500, 6000], [700, 8000]],
    ),
    "groups of s8": row(
        "DynamicDequantize",
        a([[1, 2, 3, 4], [5, 6, 7, 8]], np.int8),
        [[1.0, 10], [100, 1000]],
        a([[0, 1], [2, 3]], np.int8),
        qtype="per_group",
        group_shape=[1, 2],
        to=[[1, 2, 20, 30], [300, 400, 4000, 5000]],
    ),
    "s32 is exact": row(
        "Add", a([2**24 + 1, -7], np.int32), a([0, 3], np.int32), to=a([2**24 + 1, -4], np.int32)
    ),
    "s32 saturates": row(
        "Add", a([2**31 - 1, -(2**31)], np.int32), a([1, -1], np.int32), to=a([2**31 - 1, -(2**31)], np.int32)
    ),
    "s32 and f32": row("Add", a([2**24 + 1], np.int32), a([1], F32), output_type="f32", to=[2**24 + 2]),
    "bf16 halves": row(
        "TypeCast",
        [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20],
        output_type="bf16",
        to=a([1, 1 + 2**-6, 1 + 2**-7], BF16),
    ),
    "f16 halves": row("TypeCast", [1 + 2**-11, 1 + 3 * 2**-11], output_type="f16", to=a([1, 1 + 2**-9], F16)),
    "f64 to f16 is rounded once": row(
        "TypeCast", a([1 + 2**-11 + 2**-40], F64), output_type="f16", to=a([1 + 2**-10], F16)
    ),
    # Through f32 it would become a half first, and then the even number.
    "f64 to bf16 is rounded once": row(
        "TypeCast", a([1 + 2**-8 + 2**-40], F64), output_type="bf16", to=a([1 + 2**-7], BF16)
    ),
    "f64 as bf16 is rounded once": row(
        "Multiply", a([1 + 2**-8 + 2**-40], F64), a([1], F64), output_type="bf16", to=a([1 + 2**-7], BF16)
    ),
    "bf16 sums are f32 ones": row("ReduceSum", a([256, 1, 1], BF16), axes=[0], to=a(258, BF16)),
    "bf16 sum rounded once": row("ReduceSum", a([256, 1], BF16), axes=[0], to=a(256, BF16)),
    "f16 means do not overflow": row("ReduceMean", a([60000, 60000], F16), axes=[0], to=a(60000, F16)),
    "f16 norms do not overflow": row("ReduceL2", a([300, 400], F16), axes=[0], to=a(500, F16)),
    "f16 SquaredDifference": row("SquaredDifference", a([300], F16), a([45], F16), to=a([65024], F16)),
}


@parametrised(ROUNDING)
def test_rounding_and_saturation(row):
    check(row)


# --- rank 0 and no elements ---------------------------------------------------------------------------

NONE = np.zeros((0, 3), F32)

SMALL = {
    "eltwise": row("Square", a(3, F32), to=a(9, F32)),
    "eltwise backward": row("TanhBackward", a(0.5, F32), a(4, F32), to=a(3, F32)),
    "binary": row("Add", a(3, F32), a(4, F32), to=a(7, F32)),
    "with a matrix": row("Multiply", a(3, F32), [[1.0, 2]], to=[[3, 6]]),
    "select": row("Select", a(True, bool), a(3, F32), a(4, F32), to=a(3, F32)),
    "greater": row("GreaterEqual", a(3, F32), a(4, F32), to=a(False, bool)),
    "reduction of nothing": row("ReduceSum", a(3, F32), to=a(3, F32)),
    "reduction without axes": row("ReduceMean", [[1.0, 2]], to=[[1, 2]]),
    "L1 without axes": row("ReduceL1", [[-1.0, 2]], axes=[], to=[[1, 2]]),
    "L2 without axes": row("ReduceL2", [[-1.0, 2]], axes=[], to=[[1, 2]]),
    "reduction to rank 0": row("ReduceSum", [[1.0, 2]], axes=[0, -1], to=a(3, F32)),
    "reduction to ones": row("ReduceMax", [[1.0, 2]], axes=[0, 1], keep_dims=True, to=[[2]]),
    "reshape to rank 0": row("StaticReshape", [[3.0]], shape=[], special_zero=False, to=a(3, F32)),
    "reshape from rank 0": row("StaticReshape", a(3, F32), shape=[1, -1], special_zero=False, to=[[3]]),
    "transpose": row("StaticTranspose", a(3, F32), order=[], to=a(3, F32)),
    "reorder": row("Reorder", a(3, F32), to=a(3, F32)),
    "cast": row("TypeCast", a(3, F32), output_type="f16", to=a(3, F16)),
    "quantize": row("Quantize", a(3, F32), scales=[2.0], output_type="s8", to=a(2, np.int8)),
    "dequantize": row("Dequantize", a(3, np.int8), scales=[2.0], to=a(6, F32)),
    "dynamic": row("DynamicQuantize", a(3, F32), a(2, F32), output_type="s8", to=a(2, np.int8)),
    "dynamic dequantize": row("DynamicDequantize", a(3, np.int8), a(2, F32), a(1, np.int8), to=a(4, F32)),
    "product of vectors": row("MatMul", [1.0, 2], [3.0, 4], to=a(11, F32)),
    "product of vectors with a bias": row("MatMul", [1.0, 2], [3.0, 4], a(1, F32), to=a(12, F32)),
    "dropout": row(
        "Dropout",
        a(3, F32),
        a(1, np.int64),
        a(2, np.int64),
        a(0, F32),
        outputs=2,
        to=(a(3, F32), a(1, np.uint8)),
    ),
}


@parametrised(SMALL)
def test_rank_0(row):
    check(row)


EMPTY3 = np.zeros((0, 2, 3), F32)
CONV = {**ONE_D, "dilations": [1], **NCX}
WINDOW = {"kernel": [2], **ONE_D, **NCX}
NORM = {"epsilon": 1e-5, **NCX}
TWO = a([1, 2], F32)

EMPTY = {
    "eltwise": row("Exp", NONE, to=NONE),
    "eltwise backward": row("ReLUBackward", NONE, NONE, to=NONE),
    "gelu": row("GELU", NONE, to=NONE),
    "binary with broadcasting": row("Add", NONE, [[1.0, 2, 3]], to=NONE),
    "binary with one": row("Multiply", NONE, [1.0], to=NONE),
    "0 against 1": row("Divide", np.zeros((0,), F32), [1.0], to=np.zeros((0,), F32)),
    "select": row("Select", np.zeros((0, 3), bool), NONE, NONE, to=NONE),
    "concat with nothing": row("Concat", NONE, [[1.0, 2, 3]], axis=0, to=[[1, 2, 3]]),
    "concat of nothing": row("Concat", NONE, NONE, axis=1, to=np.zeros((0, 6), F32)),
    "sum": row("ReduceSum", NONE, axes=[0], to=[0, 0, 0]),
    "L1": row("ReduceL1", NONE, axes=[0], to=[0, 0, 0]),
    "L2": row("ReduceL2", NONE, axes=[0], to=[0, 0, 0]),
    "product": row("ReduceProd", NONE, axes=[0], to=[1, 1, 1]),
    "maximum along another axis": row("ReduceMax", NONE, axes=[1], to=np.zeros((0,), F32)),
    "reshape": row("StaticReshape", NONE, shape=[3, 0], special_zero=False, to=np.zeros((3, 0), F32)),
    "reshape with the old size": row(
        "StaticReshape", NONE, shape=[0, 3, 1], special_zero=True, to=np.zeros((0, 3, 1), F32)
    ),
    "transpose": row("StaticTranspose", NONE, order=[1, 0], to=np.zeros((3, 0), F32)),
    "index": row("GenIndex", NONE, axis=0, to=np.zeros((0, 3), np.int32)),
    "cast": row("TypeCast", NONE, output_type="bf16", to=NONE.astype(BF16)),
    "quantize": row("Quantize", NONE, scales=[1.0], output_type="u8", to=NONE.astype(np.uint8)),
    "per channel": row(
        "Quantize",
        NONE,
        scales=[1.0, 2, 3],
        qtype="per_channel",
        axis=1,
        output_type="u8",
        to=NONE.astype(np.uint8),
    ),
    "softmax": row("SoftMax", NONE, axis=1, to=NONE),
    "softmax along nothing": row("SoftMax", np.zeros((2, 0), F32), axis=1, to=np.zeros((2, 0), F32)),
    "log softmax along nothing": row("LogSoftmax", np.zeros((2, 0), F32), to=np.zeros((2, 0), F32)),
    "softmax with stats": row("SoftMax", NONE, axis=1, outputs=2, to=(NONE, np.zeros((0, 1), F32))),
    "log softmax": row("LogSoftmax", NONE, to=NONE),
    "softmax backward": row("SoftMaxBackward", NONE, NONE, axis=1, to=NONE),
    "product of an empty batch": row("MatMul", NONE, np.ones((3, 2), F32), to=np.zeros((0, 2), F32)),
    "product along nothing": row(
        "MatMul", np.ones((2, 0), F32), np.ones((0, 3), F32), to=np.zeros((2, 3), F32)
    ),
    "product along nothing and a bias": row(
        "MatMul", np.ones((1, 0), F32), np.ones((0, 2), F32), [5.0, 6], to=[[5, 6]]
    ),
    "dropout": row("Dropout", NONE, a(1, np.int64), a(2, np.int64), a(0.5, F32), to=NONE),
    "bias": row("BiasAdd", EMPTY3, TWO, **NCX, to=EMPTY3),
    "bias backward": row("BiasAddBackward", EMPTY3, **NCX, to=[0, 0]),
    "prelu": row("PReLU", EMPTY3, [0.5], **NCX, to=EMPTY3),
    "prelu backward": row("PReLUBackward", EMPTY3, [0.5], EMPTY3, **NCX, to=(EMPTY3, [0])),
    "convolution": row(
        "Convolution",
        EMPTY3,
        np.ones((4, 2, 2), F32),
        weights_format="OIX",
        **CONV,
        to=np.zeros((0, 4, 2), F32),
    ),
    "transposed convolution": row(
        "ConvTranspose",
        EMPTY3,
        np.ones((2, 4, 2), F32),
        weights_format="IOX",
        **CONV,
        to=np.zeros((0, 4, 4), F32),
    ),
    "convolution backward data": row(
        "ConvolutionBackwardData",
        np.zeros((0, 4, 2), F32),
        np.ones((4, 2, 2), F32),
        weights_format="OIX",
        **CONV,
        to=EMPTY3,
    ),
    "convolution backward data with the shape": row(
        "ConvolutionBackwardData",
        np.zeros((0, 4, 2), F32),
        np.ones((4, 2, 2), F32),
        dst_shape=[0, 2, 3],
        weights_format="OIX",
        **CONV,
        to=EMPTY3,
    ),
    "transposed convolution backward data": row(
        "ConvTransposeBackwardData",
        np.zeros((0, 4, 4), F32),
        np.ones((2, 4, 2), F32),
        weights_format="IOX",
        **CONV,
        to=EMPTY3,
    ),
    "convolution backward weights": row(
        "ConvolutionBackwardWeights",
        EMPTY3,
        np.zeros((0, 4, 2), F32),
        weights_shape=[4, 2, 2],
        weights_format="OIX",
        **CONV,
        to=np.zeros((4, 2, 2), F32),
    ),
    "max pool": row("MaxPool", EMPTY3, **WINDOW, to=np.zeros((0, 2, 2), F32)),
    "max pool backward": row("MaxPoolBackward", EMPTY3, np.zeros((0, 2, 2), F32), **WINDOW, to=EMPTY3),
    "average pool": row("AvgPool", EMPTY3, exclude_pad=True, **WINDOW, to=np.zeros((0, 2, 2), F32)),
    "average pool backward": row(
        "AvgPoolBackward",
        np.zeros((0, 2, 2), F32),
        src_shape=[0, 2, 3],
        exclude_pad=True,
        **WINDOW,
        to=EMPTY3,
    ),
    "interpolation": row("Interpolate", EMPTY3, mode="linear", sizes=[5], **NCX, to=np.zeros((0, 2, 5), F32)),
    "interpolation backward": row(
        "InterpolateBackward", EMPTY3, np.zeros((0, 2, 5), F32), mode="linear", sizes=[5], **NCX, to=EMPTY3
    ),
    "batch norm": row("BatchNormInference", EMPTY3, TWO, TWO, TWO, TWO, **NORM, to=EMPTY3),
    "layer norm": row("LayerNorm", EMPTY3, to=(EMPTY3, np.zeros((0, 2), F32), np.zeros((0, 2), F32))),
    "layer norm backward": row(
        "LayerNormBackward",
        EMPTY3,
        EMPTY3,
        np.zeros((0, 2), F32),
        np.zeros((0, 2), F32),
        a([1, 1, 1], F32),
        a([1, 1, 1], F32),
        outputs=3,
        to=(EMPTY3, [0, 0, 0], [0, 0, 0]),
    ),
    "group norm": row(
        "GroupNorm", EMPTY3, groups=2, **NCX, to=(EMPTY3, np.zeros((0, 2), F32), np.zeros((0, 2), F32))
    ),
    "group norm backward": row(
        "GroupNormBackward",
        EMPTY3,
        EMPTY3,
        *[np.zeros((0, 2), F32)] * 2,
        a([1, 1], F32),
        groups=2,
        **NCX,
        outputs=3,
        to=(EMPTY3, [0, 0], [0, 0]),
    ),
    "rms norm": row("RMSNorm", EMPTY3, to=EMPTY3),
}


@parametrised(EMPTY)
def test_an_empty_batch(row):
    check(row)


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
def test_the_largest_of_nothing_is_refused_in_our_words(kind):
    with pytest.raises(og.OneDNNGraphError, match=kind):
        run(kind, NONE, axes=[0])


# --- small results by hand ----------------------------------------------------------------------------

BY_HAND = {
    "convolution": row(
        "Convolution",
        [[[1.0, 2, 3]]],
        [[[10.0, 1]]],
        [0.5],
        weights_format="OIX",
        **CONV,
        to=[[[12.5, 23.5]]],
    ),
    "transposed": row(
        "ConvTranspose",
        [[[1.0, 2]]],
        [[[10.0, 1]]],
        [0.5],
        weights_format="IOX",
        **CONV,
        to=[[[10.5, 21.5, 2.5]]],
    ),
    "output padding": row(
        "ConvTranspose",
        [[[1.0, 2]]],
        [[[10.0]]],
        strides=[2],
        pads_begin=[0],
        pads_end=[0],
        dilations=[1],
        output_padding=[1],
        weights_format="IOX",
        **NCX,
        to=[[[10, 0, 20, 0]]],
    ),
    "groups, documented weights": row(
        "ConvTranspose",
        [[[1.0], [2]]],
        [[[10.0], [100]]],
        groups=2,
        weights_format="IOX",
        **CONV,
        to=[[[10], [200]]],
    ),
    "groups, the library's weights": row(
        "ConvTranspose",
        [[[1.0], [2]]],
        [[[10.0]], [[100]]],
        groups=2,
        weights_format="IOX",
        **CONV,
        to=[[[10], [200]]],
    ),
    "the data's gradient": row(
        "ConvolutionBackwardData",
        [[[1.0, 2]]],
        [[[10.0, 1]]],
        weights_format="OIX",
        **CONV,
        to=[[[10, 21, 2]]],
    ),
    "the transposed data's gradient": row(
        "ConvTransposeBackwardData",
        [[[1.0, 2, 3]]],
        [[[10.0, 1]]],
        weights_format="IOX",
        **CONV,
        to=[[[12, 23]]],
    ),
    "batch norm, training": row(
        "BatchNormForwardTraining",
        [[[1.0, 3]]],
        [10.0],
        [20.0],
        [2.0],
        [5.0],
        epsilon=0.0,
        momentum=0.5,
        **NCX,
        to=([[[3, 7]]], [6], [10.5], [2], [1]),
    ),
    "batch norm without momentum": row(
        "BatchNormForwardTraining",
        [[[1.0, 3]]],
        [10.0],
        [20.0],
        epsilon=0.0,
        **NCX,
        to=([[[-1, 1]]], [2], [1], [2], [1]),
    ),
    "layer norm": row(
        "LayerNorm",
        [[1.0, 3], [5, 9]],
        [1.0, 2],
        [0.0, 1],
        epsilon=0.0,
        to=([[-1, 3], [-1, 3]], [2, 7], [1, 4]),
    ),
    "affine parameters that are not used": row(
        "LayerNorm",
        [[1.0, 3]],
        [1.0, 2],
        [0.0, 1],
        epsilon=0.0,
        use_affine=False,
        keep_stats=False,
        to=[[-1, 1]],
    ),
    "group norm": row(
        "GroupNorm",
        [[[1.0], [3], [5], [9]]],
        groups=2,
        epsilon=0.0,
        **NCX,
        to=([[[-1], [1], [-1], [1]]], [[2, 7]], [[1, 4]]),
    ),
    "rms norm": row("RMSNorm", [[3.0, -3]], [2.0, 1], epsilon=0.0, to=[[2, -1]]),
    # The mean of 1, 49, 25 and 25 is 25; of the last axis alone, or the first of the two, it would be another.
    "rms norm over two axes": row(
        "RMSNorm",
        [[[1.0, -7], [5, 5]], [[0, 0], [0, 10]]],
        [[10.0, 10], [5, 1]],
        begin_norm_axis=1,
        epsilon=0.0,
        to=[[[2, -14], [5, 1]], [[0, 0], [0, 2]]],
    ),
    "rms norm over all axes but the first of three, from behind": row(
        "RMSNorm", [[[1.0, -7], [5, 5]]], begin_norm_axis=-2, epsilon=75.0, to=[[[0.1, -0.7], [0.5, 0.5]]]
    ),
    # Means 4 and variances 9; then gamma and beta of both axes.
    "layer norm over two axes": row(
        "LayerNorm",
        [[[1.0, 7], [7, 1]], [[7, 7], [1, 1]]],
        [[1.0, 2], [3, 4]],
        [[0.0, 0], [1, 1]],
        epsilon=0.0,
        begin_norm_axis=1,
        to=([[[-1, 2], [4, -3]], [[1, 2], [-2, -3]]], [4, 4], [9, 9]),
    ),
    "batch norm has the documents' epsilon": row(
        "BatchNormInference", [[[1.0, 3]]], [3.0], [1.0], [1.0], [0.75], epsilon=0.25, **NCX, to=[[[1, 7]]]
    ),
    "index of a negative axis": row(
        "GenIndex", [[5.0, 5, 5], [5, 5, 5]], axis=-2, to=a([[0, 0, 0], [1, 1, 1]], np.int32)
    ),
    "all is dropped": row(
        "Dropout",
        [1.0, INF, 3],
        a(1, np.int64),
        a(2, np.int64),
        a(1, F32),
        outputs=2,
        to=([0, 0, 0], a([0, 0, 0], np.uint8)),
    ),
    # Philox of seed 0 and offset 0 begins with 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8: the shares are
    # 0.399, 0.881, 0.736, 0.606.
    "some is dropped": row(
        "Dropout",
        [1.0, 2, 3, 4],
        a(0, np.int64),
        a(0, np.int64),
        a(0.75, F32),
        outputs=2,
        to=([0, 8, 0, 0], a([0, 1, 0, 0], np.uint8)),
    ),
}


@parametrised(BY_HAND)
def test_small_results(row):
    check(row)


# --- every op on awkward arrays -----------------------------------------------------------------------

COMPUTED = [
    pytest.param(example, id=f"{kind} {i}")
    for kind, examples in EXAMPLES.items()
    for i, example in enumerate(examples)
    if kind not in ("End", "Wildcard")
]


def extreme(example, dtype):
    """The example's arrays and types with infinities, NaN, zeros and what overflows in `dtype`, where it is allowed."""
    values = [INF, -INF, NAN, float(np.finfo(dtype).max), float(np.finfo(dtype).min), 1e-7, 0.0, -0.0]
    arrays, types = example.arrays(), list(example.types)
    if dtype is F16 and any(t != "f32" for t in types):
        return arrays, types
    for i, array in enumerate(arrays):
        if array.dtype == F32:
            arrays[i] = np.asarray(np.resize(np.roll(values, i), array.shape)).astype(dtype)
            types[i] = "f32" if dtype is F32 else "f16"
    return arrays, types


@each("kind", EXAMPLES)
@each("dtype", [F32, F16])
def test_no_warning_of_numpy_comes_out(kind, dtype):
    """Infinities, NaN and numbers that overflow are values like others; warnings are errors in these tests."""
    for example in EXAMPLES[kind]:
        arrays, types = extreme(example, dtype)
        try:
            op = example.op(types=types)
        except og.DataTypeError:  # f16 statistics
            assert dtype is F16
            continue
        assert len(example.run(op, arrays)) == len(example.outputs)


def stretched(array):
    """The same values with every axis in steps of two, and the axes in another order in memory."""
    memory = np.zeros(tuple(2 * n for n in reversed(array.shape)), array.dtype)
    view = memory.T[(..., *[slice(None, None, 2)] * array.ndim)]
    view[...] = array
    return view


@each("example", COMPUTED)
def test_arrays_may_lie_in_any_way_and_are_only_read(example):
    """Inputs and outputs with gaps and axes in another order; what was there before does not matter."""
    arrays = example.arrays()
    expected = example.run()
    given_ = [a if i in example.values else stretched(a) for i, a in enumerate(arrays)]
    before = [a.copy() for a in given_]
    out = [stretched(np.full(r.shape, 7, r.dtype)) for r in expected]
    operands = [a.tolist() if i in example.values else a for i, a in enumerate(given_)]
    count, types = len(example.outputs), expected[0].dtype
    results = og.run_op(
        example.kind,
        operands,
        example.attributes,
        outputs=count,
        backend="numpy",
        out=out if count > 1 else out[0],
    )
    results = results if isinstance(results, tuple) else (results,)
    assert results[0].dtype == types
    for result, target, wanted in zip(results, out, expected, strict=True):
        assert result is target
        # The order of a sum follows the memory; no sum here is of more than 64 numbers.
        size = 64 * 2.0**-24 * np.abs(wanted.astype(F64)).max(initial=0.0)
        np.testing.assert_allclose(result.astype(F64), wanted.astype(F64), rtol=0, atol=size)
    for array, old in zip(given_, before, strict=True):
        np.testing.assert_array_equal(array.astype(F64), old.astype(F64))
