"""A Quantize and a Dequantize between two functions go along with the primitive in front, also past reshapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array
from strategies import has_isa

# Sums of such products, scales and zero points are exact in f32.
SCALE, COARSE = 0.25, 4.0
TAKES_INTEGERS = has_isa("avx512_core_vnni") or has_isa("avx2_vnni")


def integers(array: Array, scale: float, point: int) -> Array:
    """What `array` is quantised to, in exact arithmetic."""
    return np.clip(np.rint(array.astype(np.float64) / scale + point), 0, 255)


def rounded(array: Array, scale: float, point: int) -> Array:
    """The numbers that these integers stand for."""
    return (integers(array, scale, point) - point) * scale


class Drawn:
    """A product of integers, and what the tests put behind it."""

    def __init__(self, rows: tuple[int, ...] = (2, 5), inner: int = 9, columns: int = 12) -> None:
        rng = np.random.default_rng(7)
        self.graph = og.Graph()
        self.data = rng.integers(0, 255, (*rows, inner), np.uint8)
        weights = rng.integers(-7, 7, (inner, columns), np.int8)
        x = self.graph.input("x", "u8", self.data.shape)
        w = self.graph.constant(weights)
        real = self.graph.dequantize(x, scales=[SCALE], zps=[128])
        self.tensor = self.graph.matmul(real, self.graph.dequantize(w, scales=[0.5], zps=[0]))
        self.real = (self.data.astype(np.float64) - 128) * SCALE @ (weights * 0.5)

    def round(self, scale: float, point: int = 0) -> None:
        """Quantises and dequantises the result."""
        q = self.graph.quantize(self.tensor, output_type="u8", scales=[scale], zps=[point])
        self.tensor = self.graph.dequantize(q, scales=[scale], zps=[point])
        self.real = rounded(self.real, scale, point)

    def reshape(self, *shape: int) -> None:
        """Gives it another shape."""
        self.tensor = self.graph.static_reshape(self.tensor, shape=list(shape), special_zero=False)
        self.real = self.real.reshape(shape)

    def run(self, output: Any = None) -> tuple[Array, Sequence[str]]:
        """The result, and what ran."""
        tensor = self.tensor if output is None else output
        self.graph.output(tensor, name="y")
        model = self.graph.compile()
        return model(self.data)["y"], steps(model)


def steps(model: og.CompiledGraph) -> list[str]:
    """What runs on the library at each call, which is all."""
    found = {id(e): e for e in (model.explain()[part.id] for part in model.partitions)}
    assert all(e is not None and e.backend == "onednn" for e in found.values())
    return [step.name for e in found.values() if e is not None for step in e.steps if not step.prepared]


def test_it_goes_along_between_reshapes() -> None:
    """One primitive is left, and writes the integers."""
    drawn = Drawn()
    drawn.round(COARSE, 100)
    drawn.reshape(10, 12)
    drawn.round(COARSE, 100)
    drawn.tensor, drawn.real = drawn.graph.relu(drawn.tensor), np.maximum(drawn.real, 0)
    drawn.reshape(2, 5, 3, 4)
    drawn.round(2 * COARSE, 9)
    factor = drawn.graph.constant(np.float32(-2))
    drawn.tensor, drawn.real = drawn.graph.multiply(drawn.tensor, factor), drawn.real * -2
    last = drawn.graph.quantize(drawn.tensor, output_type="u8", scales=[8 * COARSE], zps=[200])
    result, ran = drawn.run(last)
    np.testing.assert_array_equal(result, integers(drawn.real, 8 * COARSE, 200))
    if TAKES_INTEGERS:
        assert len(ran) == 1, ran


def test_a_transposition_comes_last() -> None:
    """The function goes before it, and the result lies as the graph says."""
    drawn = Drawn()
    drawn.round(COARSE, 128)
    drawn.tensor = drawn.graph.static_transpose(drawn.tensor, order=[2, 0, 1])
    drawn.real = drawn.real.transpose(2, 0, 1)
    drawn.tensor, drawn.real = drawn.graph.abs(drawn.tensor), np.abs(drawn.real)
    drawn.round(2 * COARSE)
    result, _ = drawn.run()
    np.testing.assert_array_equal(result, drawn.real)


def test_it_is_verified() -> None:
    """What the plan has beside the graph's own tensors is nothing to look at."""
    drawn = Drawn()
    drawn.round(COARSE, 100)
    drawn.reshape(10, 12)
    drawn.tensor, drawn.real = drawn.graph.relu(drawn.tensor), np.maximum(drawn.real, 0)
    drawn.round(COARSE, 3)
    drawn.graph.output(drawn.tensor, name="y")
    np.testing.assert_array_equal(drawn.graph.compile(verify=True)(drawn.data)["y"], drawn.real)


@pytest.mark.parametrize("side", [0, 1])
def test_a_residual_of_another_shape_is_reshaped(side: int) -> None:
    """The sum has the product's shape, on whichever side that stands."""
    drawn = Drawn()
    other = np.random.default_rng(1).integers(-40, 40, (10, 12)).astype(np.float32)
    drawn.round(COARSE, 90)
    drawn.reshape(10, 12)
    y = drawn.graph.input("other", "f32", other.shape)
    operands = (drawn.tensor, y) if side == 0 else (y, drawn.tensor)
    drawn.tensor = drawn.graph.subtract(*operands)
    drawn.real = drawn.real - other if side == 0 else other - drawn.real
    drawn.graph.output(drawn.tensor, name="y")
    result = drawn.graph.compile()({"x": drawn.data, "other": other})["y"]
    np.testing.assert_array_equal(result, drawn.real)


def test_two_operands_that_are_reshaped_alike() -> None:
    """It ends, and is right."""
    drawn = Drawn()
    first, real = drawn.tensor, drawn.real
    drawn.round(COARSE, 90)
    drawn.reshape(10, 12)
    other = drawn.graph.static_reshape(drawn.graph.relu(first), shape=[10, 12], special_zero=False)
    drawn.tensor = drawn.graph.add(drawn.tensor, other)
    drawn.real = drawn.real + np.maximum(real, 0).reshape(10, 12)
    result, _ = drawn.run()
    np.testing.assert_array_equal(result, drawn.real)


def test_another_scale_rounds_again() -> None:
    """Only what is quantised by the same scale and zero point is the same."""
    drawn = Drawn()
    drawn.round(COARSE, 128)
    drawn.round(2 * COARSE, 128)
    drawn.round(2 * COARSE, 77)
    drawn.round(2 * COARSE, 77)
    last = drawn.graph.quantize(drawn.tensor, output_type="s8", scales=[2 * COARSE], zps=[0])
    result, _ = drawn.run(last)
    np.testing.assert_array_equal(result, np.clip(drawn.real / (2 * COARSE), -128, 127))


def test_integers_that_a_product_takes_stay_integers() -> None:
    """The second product is one of integers."""
    drawn = Drawn(columns=16)
    drawn.round(COARSE, 128)
    weights = np.random.default_rng(3).integers(-3, 3, (16, 8), np.int8)
    w = drawn.graph.dequantize(drawn.graph.constant(weights), scales=[1.0], zps=[0])
    drawn.tensor = drawn.graph.matmul(drawn.tensor, w)
    drawn.graph.output(drawn.tensor, name="y")
    model = drawn.graph.compile()
    np.testing.assert_array_equal(model(drawn.data)["y"], drawn.real @ weights)
    with og.profiling.profile() as profile:
        model(drawn.data)
    products = [event for event in profile.events if event.name == "matmul"]
    assert len(products) == 2
    if TAKES_INTEGERS:
        assert all("u8" in event.tensors[0] for event in products)


def test_integers_that_others_read_are_written() -> None:
    """They are an output of the graph, and what is made of them goes on."""
    drawn = Drawn()
    q = drawn.graph.quantize(drawn.tensor, output_type="u8", scales=[COARSE], zps=[128])
    y = drawn.graph.relu(drawn.graph.dequantize(q, scales=[COARSE], zps=[128]))
    drawn.graph.output(q, name="q")
    drawn.graph.output(drawn.graph.quantize(y, output_type="u8", scales=[COARSE], zps=[1]), name="y")
    result = drawn.graph.compile()(drawn.data)
    whole = integers(drawn.real, COARSE, 128)
    np.testing.assert_array_equal(result["q"], whole)
    np.testing.assert_array_equal(result["y"], np.clip(np.maximum(whole - 128, 0) + 1, 0, 255))


def test_an_output_is_quantised_whatever_was_before() -> None:
    """Integers that are an output are there, the same ones as before."""
    drawn = Drawn()
    drawn.round(COARSE, 128)
    result, _ = drawn.run(drawn.graph.quantize(drawn.tensor, output_type="u8", scales=[COARSE], zps=[128]))
    np.testing.assert_array_equal(result, drawn.real / COARSE + 128)


def test_a_part_takes_no_rounding_along() -> None:
    """It is a view; what follows it is quantised, and made real for a function behind."""
    graph = og.Graph()
    data = np.random.default_rng(2).integers(-50, 50, (2, 3, 4, 8)).astype(np.float32)
    x = graph.relu(graph.input("x", "f32", data.shape))
    part = graph.max_pool(
        x, kernel=[1, 1], strides=[1, 1], pads_begin=[0, -4], pads_end=[0, 0], data_format="NCX"
    )
    q = graph.quantize(part, output_type="u8", scales=[COARSE], zps=[3])
    y = graph.multiply(graph.dequantize(q, scales=[COARSE], zps=[3]), graph.constant(np.float32(-1)))
    graph.output(graph.quantize(y, output_type="u8", scales=[COARSE], zps=[100]), name="y")
    model = graph.compile()
    wanted = -rounded(np.maximum(data, 0)[..., 4:], COARSE, 3)
    np.testing.assert_array_equal(model(data)["y"], integers(wanted, COARSE, 100))
    assert not any("numpy:" in name for name in steps(model))


def test_integers_that_nobody_takes_are_not_written() -> None:
    """A normalisation reads numbers in f32, which the product has rounded."""
    drawn = Drawn()
    drawn.round(COARSE, 128)
    drawn.reshape(10, 12)
    drawn.tensor = drawn.graph.layer_norm(drawn.tensor, use_affine=False, keep_stats=False, epsilon=1e-5)
    mean, variance = drawn.real.mean(-1, keepdims=True), drawn.real.var(-1, keepdims=True)
    result, ran = drawn.run()
    np.testing.assert_allclose(result, (drawn.real - mean) / np.sqrt(variance + 1e-5), rtol=1e-5, atol=1e-6)
    if TAKES_INTEGERS:
        assert len(ran) == 2, ran


def test_what_is_beyond_the_integers_is_cut_off() -> None:
    """As -inf in a mask is: the lowest integer stands for it."""
    graph = og.Graph()
    rng = np.random.default_rng(5)
    x, mask = graph.input("x", "f32", (2, 3, 8, 4)), graph.input("mask", "f32", (1, 1, 8, 8))
    keys = graph.input("keys", "f32", (2, 3, 4, 8))
    scores = graph.matmul(x, keys)
    for operand in (None, mask):
        scores = scores if operand is None else graph.add(scores, operand)
        q = graph.quantize(scores, output_type="u8", scales=[0.5], zps=[120])
        scores = graph.dequantize(q, scales=[0.5], zps=[120])
    graph.output(graph.softmax(scores, axis=3), name="y")
    feeds = {
        "x": rng.integers(-9, 9, (2, 3, 8, 4)).astype(np.float32),
        "keys": rng.integers(-9, 9, (2, 3, 4, 8)).astype(np.float32),
        "mask": np.triu(np.full((1, 1, 8, 8), -np.inf, np.float32), 1),
    }
    wanted = rounded(rounded(feeds["x"] @ feeds["keys"], 0.5, 120) + feeds["mask"], 0.5, 120)
    shares = np.exp(wanted - wanted.max(-1, keepdims=True))
    model = graph.compile()
    result = model(feeds)["y"]
    assert not any("numpy:" in name for name in steps(model))
    np.testing.assert_allclose(result, shares / shares.sum(-1, keepdims=True), rtol=1e-5, atol=1e-30)
