"""NumPy kernels of the host family, element by element: compared and counted as they are, integers exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from .eltwise import erf
from .kernels import Array, kernel, register_kernel, store, wide


def plain(array: Array) -> Array:
    """The array, in f32 where NumPy has no functions for its type."""
    return wide(array) if array.dtype.kind == "V" else array


BINARY: dict[str, Callable[..., Any]] = {
    "HostAdd": np.add,
    "HostSubtract": np.subtract,
    "HostMultiply": np.multiply,
    "HostMaximum": np.maximum,
    "HostMinimum": np.minimum,
    "HostGcd": np.gcd,
    "HostEqual": np.equal,
    "HostNotEqual": np.not_equal,
    "HostGreater": np.greater,
    "HostGreaterEqual": np.greater_equal,
    "HostAnd": np.bitwise_and,
    "HostOr": np.bitwise_or,
    "HostXor": np.bitwise_xor,
}
"""Kind → the function of two arrays that broadcast."""


def binary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src_0, src_1)."""
    np.copyto(outputs[0], BINARY[op.kind](plain(inputs[0]), plain(inputs[1])))


def log10(x: Array) -> Array:
    """The logarithm to the base 10, in f64: NumPy's in f32 is off at powers of 10."""
    return np.asarray(np.log10(x.astype(np.float64)))


UNARY: dict[str, Callable[..., Any]] = {
    "HostAbs": np.abs,
    "HostNot": np.invert,
    "HostIsNaN": np.isnan,
    "HostIsInf": np.isinf,
}
"""Kind → the function of one array, in its type."""
ROUNDED: dict[str, Callable[..., Any]] = {
    "HostAcos": np.arccos,
    "HostAcosh": np.arccosh,
    "HostAsin": np.arcsin,
    "HostAsinh": np.arcsinh,
    "HostAtan": np.arctan,
    "HostAtanh": np.arctanh,
    "HostCeil": np.ceil,
    "HostCos": np.cos,
    "HostCosh": np.cosh,
    "HostErf": erf,
    "HostExpm1": np.expm1,
    "HostFloor": np.floor,
    "HostLog10": log10,
    "HostLog1p": np.log1p,
    "HostLog2": np.log2,
    "HostSign": np.sign,
    "HostSin": np.sin,
    "HostSinh": np.sinh,
    "HostTan": np.tan,
    "HostTrunc": np.trunc,
}
"""Kind → the function of one array, computed in f32 at least."""


def unary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src)."""
    np.copyto(outputs[0], UNARY[op.kind](plain(inputs[0])))


def rounded(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src), rounded once."""
    store(outputs[0], ROUNDED[op.kind](wide(inputs[0])))


for _kinds, _function in ((BINARY, binary), (UNARY, unary), (ROUNDED, rounded)):
    for _kind in _kinds:
        register_kernel(_kind, _function)


@kernel("HostDivide")
def divide(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A quotient without its fraction; of integers 0 where the divisor is."""
    down = op.attributes.string("rounding") == "down"
    if inputs[0].dtype.kind not in "iu":
        a, b = map(wide, inputs)
        store(outputs[0], a // b if down else np.trunc(a / b))
        return
    a, b = np.broadcast_arrays(*inputs)
    lower = a // b
    if down:
        np.copyto(outputs[0], lower)
    else:
        np.copyto(
            outputs[0], lower + ((a - lower * b != 0) & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)
        )


@kernel("HostModulo")
def modulo(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A remainder."""
    function = np.fmod if op.attributes.flag("of_dividend") else np.mod
    np.copyto(outputs[0], function(plain(inputs[0]), plain(inputs[1])), casting="same_kind")


@kernel("HostPower", "HostAtan2")
def rounded_binary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src_0, src_1), rounded once."""
    function = np.power if op.kind == "HostPower" else np.arctan2
    store(outputs[0], function(wide(inputs[0]), wide(inputs[1])))


@kernel("HostCast")
def cast(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Numbers in another type. Integers and f64 reach bf16 with one rounding."""
    src, dst = inputs[0], outputs[0]
    if dst.dtype.kind == "V":
        store(dst, wide(src))
    else:
        np.copyto(dst, src, casting="unsafe")
