"""Proof of an executable on integer data, against the NumPy backend."""

from __future__ import annotations

import numpy as np
from attrs import evolve

from ..model.logical_tensor import as_plain
from ..runtime.arguments import Arguments
from ..runtime.arrays import Array, numpy_type
from ..runtime.executable import Executable
from ..runtime.tensor import allocate
from .backend import BACKENDS, CompileRequest
from .options import CompileOptions

ROUNDINGS = 64
"""By how many roundings of its type a number may be off elsewhere: a chain of functions, sums in another order."""


def _close(have: Array, want: Array) -> Array:
    """Whether numbers agree within a few roundings of their type; integers within a step."""
    if have.dtype.kind in "iub":
        return np.abs(have.astype(np.int64) - want.astype(np.int64)) <= 1
    step = {1: 2.0**-2, 2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-52}[have.dtype.itemsize]
    first, second = have.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.abs(first - second) <= ROUNDINGS * step * np.maximum(np.abs(second), 1)


def wrong_on_integers(request: CompileRequest, executable: Executable) -> str | None:
    """What is wrong with `executable` on small integers, held against the NumPy backend element for element, or None.

    Integers from -2 to 2 keep every partial sum of a weight gradient exact in f32, so that any difference is a wrong
    kernel. Other ops may differ by a few roundings of their types, which are enough to see a wrong kernel too.
    """
    rng = np.random.default_rng(1)
    inputs: list[Array] = []
    for tensor in request.inputs:
        array = allocate(tensor)
        array[...] = (
            np.asarray(request.values[tensor.id])
            if tensor.id in request.values
            else rng.integers(-2, 3, tensor.dims).astype(numpy_type(tensor.data_type))
        )
        inputs.append(array)
    plain = tuple(as_plain(t) for t in request.outputs)
    asked = evolve(request, outputs=plain, fpmath_mode="strict", forced=True, options=CompileOptions())
    (reference,) = BACKENDS.get("numpy").compile(asked)
    expected = [allocate(t) for t in plain]
    reference.run(inputs, expected)
    arguments = Arguments(executable, request.ops, request.engine, {})
    got = [arguments.plain(i, a) for i, a in enumerate(arguments.execute(inputs, None))]
    for tensor, have, want in zip(plain, got, expected, strict=True):
        wrong = ~(
            (have == want) | (want != want)
        )  # NaN, of a negative variance, say, tells nothing of a kernel
        if not all(op.schema.exact_on_integers for op in request.ops):
            wrong &= ~_close(have, want)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"{int(wrong.sum())} of {wrong.size} elements of {tensor} are wrong on integer data, the first "
                f"at {list(at)}: {have[at]} instead of {want[at]}"
            )
    return None
