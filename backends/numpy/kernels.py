"""The registry of NumPy kernels: op kind → function from input arrays to output arrays; and what they share.

Kernels compute in f32, in f64 where an array is f64, and round once, when they store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ...graph.model.op import Op
from ...ops.errors import SchemaError
from ...ops.registry import REGISTRY

Array = NDArray[Any]
Kernel = Callable[[Op, Sequence[Array], Sequence[Array]], None]
"""Takes the op, with concrete tensors, its input arrays, and its output arrays to write into."""

KERNELS: dict[str, Kernel] = {}


def register_kernel(kind: str, kernel: Kernel) -> None:
    """Makes `kernel` the NumPy implementation of `kind`.

    Raises:
        UnknownOpError: no schema of that kind is registered.
        SchemaError: the kind has a kernel already, or `kernel` can't be called.
    """
    schema, _ = REGISTRY.resolve(kind)
    if schema.kind in KERNELS:
        raise SchemaError(f"op kind '{schema.kind}' has a NumPy kernel already; unregister it first")
    if not callable(kernel):
        raise SchemaError(
            f"the NumPy kernel of '{kind}' must be a function of (op, inputs, outputs), got {kernel!r}"
        )
    KERNELS[schema.kind] = kernel


def kernel(*kinds: str) -> Callable[[Kernel], Kernel]:
    """Decorator: registers a function as the kernel of these kinds."""

    def register(function: Kernel) -> Kernel:
        for kind in kinds:
            register_kernel(kind, function)
        return function

    return register


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
"""What kernels compute in. Types are compared with these: to make the name of one takes longer than a small kernel."""


def wide(array: Array) -> Array:
    """The array in the type that kernels compute in: f64 for f64 and s32, f32 for everything smaller."""
    if array.dtype in (SINGLE, DOUBLE):
        return array
    return array.astype(np.float64 if array.dtype.name in ("int32", "int64") else np.float32)


def store(target: Array, values: Array | float) -> None:
    """Writes `values` with one rounding; integers are rounded half to even and saturated, 8-bit floats saturated."""
    dtype = target.dtype
    if dtype in (SINGLE, DOUBLE):
        np.copyto(target, values, casting="unsafe")
        return
    if dtype.kind in "iu" or dtype.name in ("int4", "uint4"):
        low, high = _range(dtype)
        values = np.clip(np.rint(values), low, high)
    elif dtype.itemsize == 1 and dtype.kind != "b":
        low, high = _range(dtype)
        values = np.clip(values, low, high)
    array = np.asarray(values)
    if array.dtype == np.float64 and dtype.kind == "V":
        array = _odd(array)  # ml_dtypes goes through f32, and would round twice
    np.copyto(target, array.astype(dtype, copy=False))


def _odd(values: Array) -> Array:
    """f64 as f32, rounded to odd: rounding that once more gives what rounding once would."""
    single = values.astype(np.float32)
    away = np.abs(single) > np.abs(values)
    single = np.where(away, np.nextafter(single, np.float32(0)), single)
    inexact = (single != values) & np.isfinite(single)
    return (single.view(np.uint32) | inexact).view(np.float32)


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind in "iu" or dtype.name in ("int4", "uint4"):
        integers = ml_dtypes.iinfo(dtype) if dtype.name in ("int4", "uint4") else np.iinfo(dtype)
        return float(integers.min), float(integers.max)
    largest = float(ml_dtypes.finfo(dtype).max)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] -- untyped
    return -largest, largest


def total(values: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The sum in f64: in f32 each addition to a long sum would lose digits of what is added."""
    return np.asarray(np.add.reduce(values, axis=axis, keepdims=keepdims, dtype=DOUBLE))


def mean(values: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
    """The mean, in f64; NaN of nothing, without a warning."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    with np.errstate(invalid="ignore"):
        return np.asarray(total(values, axis, keepdims) / math.prod(values.shape[a] for a in axes))


def moments(values: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array, Array]:
    """The distances from the mean in the type of the values, the mean and the mean squared distance in f64.

    Both keep the axes with one element. Distances are taken from the mean as the type of the values has it, where the
    difference of what is near is exact, and then from what that lacks.
    """
    centre = mean(values, axis, keepdims=True)
    near = centre.astype(values.dtype)
    with np.errstate(invalid="ignore"):
        distances = values - near - (centre - near).astype(values.dtype)
    return distances, centre, mean(np.square(distances), axis, keepdims=True)


def along(values: Array, axis: int, rank: int) -> Array:
    """A vector as an array of `rank` axes that broadcasts along `axis`."""
    return values.reshape(tuple(-1 if a == axis else 1 for a in range(rank)))
