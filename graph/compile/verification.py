"""Proof of an executable on integer data, against the NumPy backend."""

from __future__ import annotations

import numpy as np
from attrs import evolve

from ...ops.data_types import DataType
from ...ops.errors import OneDNNGraphError
from ..model.logical_tensor import LogicalTensor, as_plain
from ..runtime.arguments import Arguments
from ..runtime.arrays import Array, numpy_type
from ..runtime.executable import Executable
from ..runtime.tensor import allocate
from .backend import BACKENDS, CompileRequest
from .options import CompileOptions

ROUNDINGS = 64
"""By how many roundings of its type a number may be off elsewhere: a chain of functions, sums in another order."""

INTEGERS = (DataType.s64, DataType.s32, DataType.s8, DataType.u8)


def _close(have: Array, want: Array) -> Array:
    """Whether numbers agree within a few roundings of their type; integers within a step."""
    if have.dtype.kind in "iub":
        return np.abs(have.astype(np.int64) - want.astype(np.int64)) <= 1
    step = {1: 2.0**-2, 2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-52}[have.dtype.itemsize]
    first, second = have.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.abs(first - second) <= ROUNDINGS * step * np.maximum(np.abs(second), 1)


def _bounds(request: CompileRequest) -> dict[int, int]:
    """For each tensor that elements are counted by, or that makes such a one, the number that all are below."""
    found: dict[int, int] = {}

    def note(tensor: LogicalTensor, bound: int) -> None:
        found[tensor.id] = min(bound, found.get(tensor.id, bound))

    for op in reversed(request.ops):
        inputs = list(zip(op.input_ports, op.inputs, strict=True))
        ports = {
            port.name: tensor for port, tensor in (*inputs, *zip(op.output_ports, op.outputs, strict=True))
        }
        made = min((found[t.id] for t in op.outputs if t.id in found), default=None)
        for port, tensor in inputs:
            if port.index:
                note(tensor, max(min(ports[port.index].dims, default=1), 1))
            elif made is not None and tensor.data_type in INTEGERS:
                note(tensor, made)
    return found


def wrong_on_integers(request: CompileRequest, executable: Executable) -> str | None:
    """What is wrong with `executable` on small integers, held against the NumPy backend element for element, or None.

    Integers from -2 to 2 keep every partial sum of a weight gradient exact in f32, so that any difference is a wrong
    kernel. What elements are counted by fits what is counted. Other ops may differ by a few roundings of their types,
    which are enough to see a wrong kernel too.
    """
    rng, bounds = np.random.default_rng(1), _bounds(request)
    inputs: list[Array] = []
    for tensor in request.inputs:
        array = allocate(tensor)
        low, end = (0, bounds[tensor.id]) if tensor.id in bounds else (-2, 3)
        array[...] = (
            np.asarray(request.values[tensor.id])
            if tensor.id in request.values
            else rng.integers(low, end, tensor.dims).astype(numpy_type(tensor.data_type))
        )
        inputs.append(array)
    plain = tuple(as_plain(t) for t in request.outputs)
    asked = evolve(request, outputs=plain, fpmath_mode="strict", forced=True, options=CompileOptions())
    (reference,) = BACKENDS.get("numpy").compile(asked)
    expected = [allocate(t) for t in plain]
    try:
        reference.run(inputs, expected)
    except OneDNNGraphError as error:
        if executable.explanation.backend == reference.explanation.backend:
            return None  # the reference itself
        return f"it can't be tried, for NumPy refuses the data that was made up for it: {error}"
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
