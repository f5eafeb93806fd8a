"""What the inputs of a case are filled with."""

from __future__ import annotations

import math

import numpy as np

from .case import TYPES, Case

GRID = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 4.0])
"""Sizes of numbers: sums and products of them are exact, and no function of the op set has a kink there."""


def array_of(case: Case, number: int, fill: int = 0) -> np.ndarray:
    """The elements of an input, dense, in its own type."""
    wire = case.wires[number]
    dtype = np.dtype(TYPES[wire.type])
    if wire.values is not None:
        return np.array(wire.values, dtype).reshape(wire.dims)
    rng = np.random.default_rng([case.seed, number, 0 if wire.constant else fill])
    array = _numbers(rng, wire.data, wire.dims, wire.type, case.real).astype(dtype)
    if wire.layout is not None:
        for axis in wire.layout.still:
            array = (
                np.ascontiguousarray(np.broadcast_to(array.take([0], axis), array.shape))
                if array.size
                else array
            )
    return array


def _numbers(
    rng: np.random.Generator, data: str, shape: tuple[int, ...], kind: str, real: bool
) -> np.ndarray:
    if kind == "boolean":
        return rng.random(shape) < 0.5
    if kind in ("s8", "u8"):
        low, high = {"s8": (-128, 128), "u8": (0, 256)}[kind]
        return rng.integers(low, high, shape)
    if kind in ("s32", "s64"):
        return rng.integers(-9, 10, shape)
    sign = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    if data == "fraction":
        return rng.choice([0.25, 0.5, 0.75], shape)
    if data == "positive":
        return rng.choice([0.5, 1.0, 2.0, 4.0], shape) if not real else 0.25 + 2 * rng.random(shape)
    if data == "power":
        return sign * rng.choice([0.5, 1.0, 2.0], shape)
    if data == "distinct":
        count = math.prod(shape)
        return (rng.permutation(count).reshape(shape) - count // 2 + 0.5) / max(
            1, 2 ** round(math.log2(max(count, 1)) - 3)
        )
    if real:
        return rng.standard_normal(shape) + 0.01 * sign
    return sign * rng.choice(GRID, shape)
