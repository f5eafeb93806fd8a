"""Choices among many elements, bit for bit those of a plain loop over them."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.numpy.binary import BITS_AT_A_TIME, LEAST_BY_BITS
from onednn_graph.backends.numpy.kernels import KERNELS
from rows import each

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "s64": np.int64,
    "s8": np.int8,
    "boolean": np.bool_,
}
MANY = 2 * BITS_AT_A_TIME + 1000
SHAPES = {
    "one by one": ((MANY,), (MANY,), (MANY,)),
    "a number": ((MANY,), (MANY,), ()),
    "a number first": ((MANY,), (1,), (MANY,)),
    "a mask of rows": ((3, 1, 211), (3, 200, 211), (3, 200, 211)),
    "a mask of columns": ((200, 1), (200, 411), (411,)),
    "all broadcast": ((300, 1, 1), (1, 301, 1), (1, 1, 7)),
    "few": ((LEAST_BY_BITS - 1,), (LEAST_BY_BITS - 1,), ()),
    "none": ((0, MANY), (0, MANY), (1, MANY)),
}


def filled(rng, shape, name):
    """Any bits: NaN with all their payloads, infinities, both zeros."""
    dtype = np.dtype(TYPES[name])
    if name == "boolean":
        return rng.random(shape) < 0.5
    return np.frombuffer(bytearray(rng.bytes(int(np.prod(shape)) * dtype.itemsize)), dtype).reshape(shape)


def bits(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def chosen(condition, a, b, shape):
    """By indexing: each place that was taken, and each that was not."""
    taken = np.broadcast_to(condition, shape)
    result = np.array(np.broadcast_to(b, shape))
    result[taken] = np.broadcast_to(a, shape)[taken]
    return result


def run(name, condition, a, b, out):
    sides = [og.LogicalTensor(i + 1, name, one.shape) for i, one in enumerate((a, b))]
    inputs = [og.LogicalTensor(0, "boolean", condition.shape), *sides]
    op = og.Op(0, "HostSelect", inputs, [og.LogicalTensor(3, name, out.shape)])
    KERNELS["HostSelect"](op, [condition, a, b], [out])


@each("name", TYPES)
@each("which", SHAPES)
def test_every_bit_is_chosen(name, which):
    rng = np.random.default_rng(len(which))
    shapes = SHAPES[which]
    condition = rng.random(shapes[0]) < 0.5
    a, b = (filled(rng, shape, name) for shape in shapes[1:])
    shape = np.broadcast_shapes(*shapes)
    out = np.empty(shape, TYPES[name])
    run(name, condition, a, b, out)
    np.testing.assert_array_equal(bits(out), bits(chosen(condition, a, b, shape)))


@pytest.mark.parametrize(
    "lie",
    [
        lambda array: np.asfortranarray(array),
        lambda array: np.repeat(array, 2, axis=1)[:, ::2],
        lambda array: np.ascontiguousarray(array[::-1])[::-1],
    ],
    ids=["turned", "apart", "backwards"],
)
@pytest.mark.parametrize("place", range(4))
def test_arrays_of_any_layout(lie, place):
    rng = np.random.default_rng(place)
    arrays = [rng.random((257, 130)) < 0.5, *(filled(rng, (257, 130), "f32") for _ in range(3))]
    want = chosen(*arrays[:3], (257, 130))
    arrays[place] = lie(arrays[place])
    run("f32", *arrays)
    np.testing.assert_array_equal(bits(arrays[3]), bits(want))


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("by", [0, 1, 40_000])
def test_a_result_in_the_place_of_an_operand(place, by):
    rng = np.random.default_rng(by)
    memory = np.array(filled(rng, (MANY + by,), "f32"))
    arrays = [rng.random(MANY) < 0.5, *(filled(rng, (MANY,), "f32") for _ in range(2))]
    arrays[place] = memory[:MANY]
    want = chosen(*arrays, (MANY,))
    run("f32", *arrays, memory[by:])
    np.testing.assert_array_equal(bits(memory[by:]), bits(want))


def test_truths_of_any_byte():
    rng = np.random.default_rng(0)
    condition = rng.choice(np.array([0, 1, 2, 128, 255], np.uint8), MANY).view(np.bool_)
    a, b = (filled(rng, (MANY,), "f32") for _ in range(2))
    out = np.empty_like(a)
    run("f32", condition, a, b, out)
    np.testing.assert_array_equal(bits(out), bits(chosen(condition.view(np.uint8) != 0, a, b, (MANY,))))
