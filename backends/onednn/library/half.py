"""Conversion between f16 and f32, which the library does element by element on CPUs without f16 arithmetic.

NumPy does so too. Here F16C does it (`f16c.py`), or, where that can't be had, integer operations on many elements at
once, in pieces that stay in the cache. Results are those of IEEE 754 conversion, rounded to the nearest, ties to even;
pieces with infinities or NaNs, and elements too small for the plain way, are left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....graph.runtime.arrays import Array
from . import f16c

FEW = 1024
"""Below so many elements NumPy is done before anything else has begun."""
PIECE = 1 << 16
"""Elements that are converted at a time: what they take fits the second-level cache."""
DROPPED = 23 - 10
"""Bits of an f32's fraction that an f16 lacks."""
BIAS = 127 - 15
"""Difference of the exponents' biases."""
SCALE = np.float32(2.0**BIAS)
MAGNITUDE = np.uint32(0x7FFF_FFFF)
UNSPREAD = np.int32(-0x7000_0001)  # 0x8FFF_FFFF
"""Clears the copies of the sign that a shift has left in the exponent."""
INFINITE, NEGATIVE_INFINITE = 0x7C00, 0xFC00
"""Bits of f16's infinities; NaNs are above them."""
LEAST_NORMAL = np.uint32((BIAS + 1) << 23)
"""Bits of 2⁻¹⁴ in f32; what is smaller is subnormal in f16."""
OVERFLOW = np.uint32((BIAS + 31) << 23)
"""Bits of 2¹⁶ in f32. What is a little smaller rounds up to f16's infinity by itself."""


Convert = Callable[[Array, Array], None]


def name(machine_code: bool) -> str:
    """Who converts, for explanations."""
    return "f16c" if machine_code and f16c.load() is not None else "numpy"


def cast(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The same numbers in another type, for a step on the host; fast where both arrays are flat and contiguous."""
    _cast(inputs[0], outputs[0], _CONVERSIONS)


def cast_without_code(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The same without machine code of our own."""
    _cast(inputs[0], outputs[0], _BY_PIECES)


def _cast(source: Array, target: Array, conversions: Mapping[tuple[str, str], Convert]) -> None:
    native = source.dtype.isnative and target.dtype.isnative
    convert = conversions.get((source.dtype.char, target.dtype.char)) if native else None
    flat = source.flags.c_contiguous and target.flags.c_contiguous and source.ndim == 1
    if convert is not None and flat and source.size >= FEW:
        convert(source, target)
    elif source.dtype.char == "e":
        np.copyto(target, source, casting="same_kind")
    else:
        with np.errstate(over="ignore"):
            np.copyto(target, source, casting="same_kind")


def widen(half: Array, single: Array) -> None:
    """`single[:] = half`, from f16 to f32; one-dimensional and contiguous."""
    fast = f16c.load()
    if fast is None:
        widen_by_pieces(half, single)
        return
    done = fast.widen(half, single)
    single[done:] = half[done:]


def narrow(single: Array, half: Array) -> None:
    """`half[:] = single`, from f32 to f16; one-dimensional and contiguous."""
    fast = f16c.load()
    if fast is None:
        narrow_by_pieces(single, half)
        return
    done = fast.narrow(single, half)
    with np.errstate(over="ignore"):
        half[done:] = single[done:]


def widen_by_pieces(half: Array, single: Array) -> None:
    """`single[:] = half`, from f16 to f32; by integer operations."""
    signed, unsigned, bits = half.view(np.int16), half.view(np.uint16), single.view(np.int32)
    keeps_subnormals = _keeps_subnormals()
    for start in range(0, half.size, PIECE):
        piece = slice(start, start + PIECE)
        finite = signed[piece].max() < INFINITE and unsigned[piece].max() < NEGATIVE_INFINITE
        if not (finite and keeps_subnormals):
            single[piece] = half[piece]
            continue
        out, value = bits[piece], single[piece]
        np.copyto(out, signed[piece])
        np.left_shift(out, DROPPED, out)
        np.bitwise_and(out, UNSPREAD, out)
        np.multiply(value, SCALE, value)


def narrow_by_pieces(single: Array, half: Array) -> None:
    """`half[:] = single`, from f32 to f16; by integer operations."""
    bits, out = single.view(np.uint32), half.view(np.uint16)
    work, odd = np.empty((2, min(single.size, PIECE)), np.uint32)
    for start in range(0, single.size, PIECE):
        piece = slice(start, start + PIECE)
        source, target = bits[piece], out[piece]
        magnitude, extra = work[: source.size], odd[: source.size]
        np.bitwise_and(source, MAGNITUDE, magnitude)
        if magnitude.max() >= OVERFLOW:
            with np.errstate(over="ignore"):
                half[piece] = single[piece]
            continue
        small = np.flatnonzero(magnitude < LEAST_NORMAL)
        # Half of the last bit that stays is added, less one where that bit is even: ties go to even.
        np.right_shift(magnitude, DROPPED, extra)
        np.bitwise_and(extra, 1, extra)
        np.add(magnitude, extra, magnitude)
        np.add(magnitude, (1 << (DROPPED - 1)) - 1, magnitude)
        np.subtract(magnitude, np.uint32(BIAS << 23), magnitude)
        np.right_shift(magnitude, DROPPED, magnitude)
        np.right_shift(source, 16, extra)
        np.bitwise_and(extra, 0x8000, extra)
        np.bitwise_or(magnitude, extra, magnitude)
        np.copyto(target, magnitude, casting="unsafe")
        if small.size:
            half[start + small] = single[start + small]


_CONVERSIONS: Mapping[tuple[str, str], Convert] = {("e", "f"): widen, ("f", "e"): narrow}
"""By NumPy's letters of the types."""
_BY_PIECES: Mapping[tuple[str, str], Convert] = {("e", "f"): widen_by_pieces, ("f", "e"): narrow_by_pieces}
"""The same without machine code."""


def _keeps_subnormals() -> bool:
    """Whether this thread's arithmetic takes subnormal numbers for what they are; some libraries turn that off."""
    least = np.array([1], np.uint32).view(np.float32)
    return bool((least * SCALE)[0] != 0)
