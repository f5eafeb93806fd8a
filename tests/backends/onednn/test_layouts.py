"""Layouts as users may declare them: any order, gaps, and anything for axes of one element."""

import math
import random

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from onednn_graph.backends.onednn.library.memory import LARGEST_DIM, canonical_strides, packed
from onednn_graph.backends.onednn.lowering.collapse import collapse


def integers(shape, seed, strides=None):
    """Small integers that lie with these strides, in elements."""
    values = np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)
    if strides is None:
        return values
    reach = sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
    array = as_strided(np.full(reach + 1, np.nan, np.float32), shape, [4 * s for s in strides])
    array[...] = values
    return array


def run(build, shapes, declared=None, result=None, backend="onednn"):
    """Builds `build(graph, *tensors)` on inputs of these shapes, and runs it as one partition.

    Args:
        build: makes the ops.
        shapes: of the inputs.
        declared: strides by number of input.
        result: strides of the output.
        backend: that must run it; None for any.

    Returns:
        The arrays, what came out, and the names of the kernels.
    """
    declared = declared or {}
    graph = og.Graph()
    arrays = [integers(shape, i, declared.get(i)) for i, shape in enumerate(shapes)]
    tensors = [graph.input(f"x{i}", "f32", shape, strides=declared.get(i)) for i, shape in enumerate(shapes)]
    build(graph, *tensors)
    graph.finalize()
    (partition,) = graph.get_partitions()
    order = [t.id for t in tensors]
    inputs = [tensors[order.index(t.id)] for t in partition.input_ports]
    (port,) = partition.output_ports
    target = og.LogicalTensor(port.id, "f32", port.shape, strides=result)
    compiled = partition.compile(inputs, [target])
    assert backend in (None, compiled.backend)
    given_arrays = [arrays[order.index(t.id)] for t in inputs]
    out = [None] if result is None else [integers(port.shape, 99, result)]
    (array,) = compiled.execute(None, given_arrays, out)
    return arrays, array, compiled.explain().only.implementations


def add_then_multiply(graph, x, b, c):
    graph.op("Multiply", graph.op("Add", x, b), c)


# --- an operand per channel where nothing follows the channels ---


@pytest.mark.parametrize("shape", [(4, 8, 1, 1), (2, 3, 1), (2, 3, 1, 1, 1), (3, 20, 1, 1)])
def test_a_factor_per_channel_of_pixels(shape):
    vector = (1, shape[1], *(1 for _ in shape[2:]))
    (x, b, c), y, _ = run(add_then_multiply, [shape, vector, vector])
    np.testing.assert_array_equal(y, (x + b) * c)


@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool", "ReduceSum", "ReduceL1", "ReduceMax", "Interpolate"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_factor_per_channel_after_all_positions_became_one(kind, batch):
    def build(graph, x, c):
        if kind.startswith("Reduce"):
            y = graph.op(kind, x, axes=[2, 3], keep_dims=True)
        elif kind == "Interpolate":
            y = graph.op(kind, x, mode="nearest", sizes=[1, 1], data_format="NCX")
        else:
            more = {"exclude_pad": False} if kind == "AvgPool" else {}
            window = {"kernel": [2, 4], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
            y = graph.op(kind, x, **window, data_format="NCX", **more)
        graph.op("Multiply", y, c)

    (x, c), y, _ = run(build, [(batch, 6, 2, 4), (1, 6, 1, 1)])
    axes = {"axis": (2, 3), "keepdims": True}
    want = {
        "AvgPool": lambda: x.mean(**axes),
        "MaxPool": lambda: x.max(**axes),
        "ReduceSum": lambda: x.sum(**axes),
        "ReduceL1": lambda: np.abs(x).sum(**axes),
        "ReduceMax": lambda: x.max(**axes),
        "Interpolate": lambda: x[:, :, 1:, 2:3],
    }[kind]()
    np.testing.assert_array_equal(y, want * c)


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_a_factor_per_channel_after_a_convolution_of_pixels(data_format):
    channels = [4, 8, 1, 1] if data_format == "NCX" else [4, 1, 1, 8]
    vector = [1, 8, 1, 1] if data_format == "NCX" else [1, 1, 1, 8]

    def build(graph, x, w, c):
        attributes = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
        y = graph.op("Convolution", x, w, **attributes, data_format=data_format, weights_format="OIX")
        graph.op("Maximum", y, c)

    (x, w, c), y, _ = run(build, [channels, (8, 8, 1, 1), vector])
    product = (x.reshape(4, 8) @ w.reshape(8, 8).T).reshape(channels)
    np.testing.assert_array_equal(y, np.maximum(product, c))


# --- strides of axes of one element ---


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1,), (4,)),
        ((5, 8, 1, 16), (128, 16, 128, 1)),
        ((1, 1), (0, 0)),
        ((3, 1, 5), (5, 77, 1)),
        ((1, 6, 1, 1), (1, 1, 6, 6)),
        ((2, 1, 3, 1), (1, 9, 2, 100)),
    ],
)
@pytest.mark.parametrize("side", ["input", "output"])
def test_strides_of_axes_of_one_element_mean_nothing(shape, strides, side):
    declared = {0: strides} if side == "input" else {}
    result = strides if side == "output" else None
    (x, b), y, _ = run(lambda g, x, b: g.op("Multiply", x, b), [shape, shape], declared, result)
    np.testing.assert_array_equal(y, x * b)


def test_a_product_into_strides_of_axes_of_one_element():
    def build(graph, a, b, c):
        graph.op("Add", graph.op("MatMul", a, b), c)

    (a, b, c), y, _ = run(build, [(3, 1, 4), (3, 4, 1), (3, 1, 1)], result=(8, 40, 1))
    np.testing.assert_array_equal(y, a @ b + c)


def test_a_product_with_a_row_into_matrices_with_gaps_between_them():
    def build(graph, a, b, c):
        graph.op("Multiply", graph.op("MatMul", a, b), c)

    (a, b, c), y, _ = run(build, [(3, 4, 5), (3, 5, 6), (6,)], result=(40, 6, 1))
    np.testing.assert_array_equal(y, (a @ b) * c)


def test_column_major_with_a_factor_per_column():
    strides = {0: (1, 5), 1: (1, 5)}
    (x, b, c), y, _ = run(add_then_multiply, [(5, 5), (5, 5), (5,)], strides, (1, 5))
    np.testing.assert_array_equal(y, (x + b) * c)


@pytest.mark.parametrize("strides", [(1, 2, 10), (15, 1, 5), (15, 3, 1), (3, 6, 1), (1, 6, 2), (40, 8, 2)])
@pytest.mark.parametrize("slope", [(3,), (2, 5, 3), (1, 5, 1)])
def test_prelu_in_any_order(strides, slope):
    def build(graph, x, s):
        graph.op("PReLU", x, s, data_format="NXC")

    (x, s), y, _ = run(build, [(2, 5, 3), slope], {0: strides})
    np.testing.assert_array_equal(y, np.where(x > 0, x, x * s))


@pytest.mark.no_cover
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_elementwise_ops_on_any_layout(seed):
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 1, 2, 3, 5, 8, 17]) for _ in range(rng.randint(1, 4)))
    functions = {"Add": np.add, "Multiply": np.multiply, "Subtract": np.subtract, "Maximum": np.maximum}
    kinds = [rng.choice(list(functions)) for _ in range(rng.randint(1, 3))]
    turned = [rng.random() < 0.4 for _ in kinds]
    shapes, declared = [shape], {}
    for _ in kinds:
        kept = tuple(d if rng.random() < 0.6 else 1 for d in shape)
        shapes.append(rng.choice([shape, kept, kept[rng.randrange(len(kept)) :]]))
    for number, one in enumerate(shapes):
        declared[number] = any_strides(rng, one)

    def build(graph, y, *others):
        for kind, other, turn in zip(kinds, others, turned, strict=True):
            y = graph.op(kind, other, y) if turn else graph.op(kind, y, other)

    arrays, y, _ = run(build, shapes, declared, any_strides(rng, shape), backend=None)
    want = arrays[0]
    for kind, other, turn in zip(kinds, arrays[1:], turned, strict=True):
        want = functions[kind](other, want) if turn else functions[kind](want, other)
    np.testing.assert_array_equal(y, want)


def any_strides(rng, shape):
    """Strides of the axes in some order, some with gaps, and anything for axes of one element."""
    strides, step = [0] * len(shape), rng.choice([1, 1, 1, 2])
    for axis in rng.sample(range(len(shape)), len(shape)):
        strides[axis] = step if shape[axis] != 1 else rng.choice([0, 1, step, 7 * step])
        step = step * shape[axis] + rng.choice([0, 0, 0, 4])
    return tuple(strides)


# --- sizes that the library's counters don't hold ---


@pytest.mark.parametrize(("m", "k", "n"), [(2**32, 1, 1), (1, 2**32, 1), (3, 2**33, 2), (2**31, 1, 4)])
def test_an_axis_beyond_32_bits_is_left_to_numpy(m, k, n):
    graph = og.Graph()
    graph.op("MatMul", graph.input("a", "f32", (m, k)), graph.input("b", "f32", (k, n)))
    graph.finalize()
    (partition,) = graph.get_partitions()
    assert partition.compile(list(partition.input_ports), list(partition.output_ports)).backend == "numpy"


def test_a_weight_gradient_over_an_axis_beyond_32_bits_is_left_to_numpy():
    graph = og.Graph()
    tensors = [graph.input(name, "f32", (1, 2**32, 1)) for name in ("src", "diff_dst")]
    attributes = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    graph.op("ConvolutionBackwardWeights", *tensors, weights_shape=[1, 1, 1], **attributes)
    graph.finalize()
    (partition,) = graph.get_partitions()
    assert partition.compile(list(partition.input_ports), list(partition.output_ports)).backend == "numpy"


# --- the functions ---


@pytest.mark.parametrize(
    ("shape", "strides", "plain", "last"),
    [
        ((4, 8, 1, 1), (8, 1, 5, 0), (8, 1, 1, 1), (8, 1, 8, 8)),
        ((1, 8, 3, 2), (0, 6, 2, 1), (48, 6, 2, 1), (48, 6, 2, 1)),
        ((1, 8, 3, 2), (0, 1, 16, 8), (48, 1, 16, 8), (48, 1, 16, 8)),
        ((2, 1, 3, 2), (6, 9, 2, 1), (6, 6, 2, 1), (6, 6, 2, 1)),
        ((5, 1, 3), (1, 9, 5), (1, 15, 5), (1, 15, 5)),
        ((1, 1), (3, 4), (1, 1), (1, 1)),
        ((4, 1, 8), (16, 0, 1), (16, 8, 1), (16, 8, 1)),
    ],
)
def test_canonical_strides(shape, strides, plain, last):
    assert canonical_strides(shape, strides) == plain
    assert canonical_strides(shape, strides, channels_last=True) == last


@given(data=st.data())
def test_packed_keeps_the_order_and_has_no_gaps(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    strides = any_strides(random.Random(data.draw(st.integers())), shape)
    made = packed(shape, strides)
    wide = [a for a, d in enumerate(shape) if d != 1]
    assert sorted(wide, key=lambda a: made[a]) == sorted(wide, key=lambda a: strides[a])
    assert sum((shape[a] - 1) * made[a] for a in wide) == math.prod(shape) - 1


@pytest.mark.parametrize(
    ("tensor", "operands", "groups"),
    [
        (((2, 8, 3, 4), (96, 12, 4, 1)), [((1, 8, 1, 1), (8, 1, 1, 1))], ((0,), (1,), (2, 3))),
        (((2, 8, 3, 4), (96, 1, 32, 8)), [((1, 8, 1, 1), (8, 1, 1, 1))], ((0, 2, 3), (1,))),
        (((1, 8, 3, 4), (96, 12, 4, 1)), [((1, 8, 1, 1), (8, 1, 1, 1))], ((), (1,), (2, 3))),
        (((2, 8, 1, 1), (8, 1, 1, 1)), [], ((0, 1),)),
        (((2, 8), (8, 1)), [((2, 8), (8, 1))], ((0, 1),)),
        (((1, 1), (1, 1)), [((1, 1), (1, 1))], ((),)),
        (((32, 2048), (2048, 1)), [((1, 1), (1, 1))], ((0,), (1,))),
    ],
)
def test_axes_are_taken_together_as_far_as_operands_allow(tensor, operands, groups):
    assert collapse(tensor, operands, LARGEST_DIM).groups == groups


def test_axes_do_not_grow_beyond_the_limit():
    assert collapse(((4, 8), (8, 1)), [], 31).groups == ((0,), (1,))
