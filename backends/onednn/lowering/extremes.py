"""Infinities and NaN where the library's kernels lose them: a look at a result, and another way where that is in doubt.

Its largest elements begin at the lowest finite number, so that −∞ alone becomes that, and NaN is passed over; its
softmax gives zeros beside a NaN. Each look is at as little as tells whether there may be any such thing, so that what
is everyday pays next to nothing for it; only then is it seen to, with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import evolve

from ....graph.compile.backend import BACKENDS
from ....graph.model.logical_tensor import LogicalTensor, as_plain, evolve_tensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ..plan.steps import Above, Buffer
from .as_views import is_move
from .links import swish
from .lowering import Lowering

Run = Callable[[Sequence[Array], Sequence[Array]], None]

BOUNDED = frozenset(
    {
        "Abs",
        "Exp",
        "GELU",
        "HardSigmoid",
        "HardSwish",
        "Mish",
        "ReLU",
        "Sigmoid",
        "SoftMax",
        "Sqrt",
        "Square",
        "Tanh",
    }
)
"""Kinds whose results are never below −1."""


def _dequantized(op: Op) -> float:
    """Of scaled integers; 8-bit floats have −∞ of their own."""
    if op.inputs[0].data_type not in (DataType.u8, DataType.s8):
        return -np.inf
    points = op.attributes.get("zps") or (0,)
    farthest = max(map(abs, points)) if isinstance(points, tuple) else 0
    return -max(map(abs, op.attributes.reals("scales"))) * (255.0 + farthest)


LEAST: Mapping[str, Callable[[Op], float]] = {
    "Clamp": lambda op: op.attributes.real("min"),
    "Dequantize": _dequantized,
    "Elu": lambda op: -max(op.attributes.real("alpha"), 0.0),
    "SoftPlus": lambda op: 0.0 if op.attributes.real("beta") > 0 else -np.inf,
}
"""Kind → a bound of its results, which depends on attributes."""
PASSING = frozenset({"AvgPool", "Concat", "MaxPool", "ReduceMax", "TypeCast"})
"""Kinds whose results are no less than the least of their inputs."""
SUMMED = 2.0**64
"""What is less than its negative may be −∞ once it is summed, as for a mean."""
MOST_PASSED = 24
"""Ops that are looked through, one after another."""
LARGEST = {DataType.f32: 2.0**128 - 2.0**104, DataType.bf16: 2.0**128 - 2.0**120, DataType.f16: 65504.0}
"""Type → its largest finite number."""
INTEGERS = {2: np.uint16, 4: np.uint32}
"""Bytes of a floating-point number → integers of its size."""


def may_be_minus_infinity(low: Lowering, tensor: LogicalTensor) -> bool:
    """Whether −∞ can be among the elements, as far as the ops before tell."""
    return _least(low, tensor, MOST_PASSED) == -np.inf


def _least(low: Lowering, tensor: LogicalTensor, most: int) -> float:
    """What no element is less than; −∞ where its type holds no such number, for −10⁶ is −∞ in f16."""
    op = low.edges.producer(tensor)
    if op is None or not most:
        return -np.inf
    if op.kind in BOUNDED or (op.kind == "Multiply" and any(swish(t, low.edges.users) for t in op.inputs)):
        found = -1.0
    elif op.kind in LEAST:
        found = LEAST[op.kind](op)
    elif op.kind == "Maximum":
        found = max(_least(low, t, most - 1) for t in op.inputs)
    elif op.kind in PASSING or is_move(op):
        inputs = op.inputs if op.kind == "Concat" else op.inputs[:1]
        found = min(_least(low, t, most - 1) for t in inputs)
    else:
        found = -np.inf
    finite = SUMMED if op.kind == "AvgPool" else LARGEST.get(tensor.data_type, 0.0)
    return found if -finite <= found else -np.inf


def mended(
    low: Lowering,
    role: str,
    run: Run,
    reads: Sequence[Buffer],
    result: Buffer,
    unless: Sequence[Above | None] = (),
) -> None:
    """Adds a step that looks at a result, and at what it was made of, and may write some of it anew.

    Args:
        unless: what tells, without Python, that nothing is to be written; the result is the last argument.

    Raises:
        Unfit: a blocked layout.
    """
    low.emitter.on_host(role, run, reads, (result,), updates=True, unless=unless)


def holds(array: Array, value: float) -> bool:
    """Whether a number is among the elements, compared as integers, which is as fast for halves."""
    bits = INTEGERS[array.dtype.itemsize]
    return bool((array.view(bits) == np.asarray(value, array.dtype).view(bits)).any())


def kernel_of(low: Lowering, op: Op, inputs: Sequence[Buffer], result: Buffer) -> Run:
    """The op's NumPy kernel on buffers, of whatever type they are computed in."""

    def as_computed(tensor: LogicalTensor, buffer: Buffer) -> LogicalTensor:
        return evolve_tensor(as_plain(tensor), data_type=buffer.desc.data_type, strides=None)

    ins = tuple(as_computed(t, b) for t, b in zip(op.inputs, inputs, strict=True))
    outs = (as_computed(op.outputs[0], result),)
    (executable,) = BACKENDS.get("numpy").compile(
        evolve(low.request, ops=(op.with_tensors(ins, outs),), inputs=ins, outputs=outs)
    )
    return executable.run


def largest_of_windows(
    low: Lowering, op: Op, inputs: Sequence[Buffer], result: Buffer, pooled: Buffer
) -> None:
    """Has NumPy do a max pooling, or the gradient of one, where −∞ or NaN may be all that a window has.

    Kernels begin with the lowest finite number in f32, which is −∞ where it is rounded to bf16.

    Args:
        inputs: of the op.
        result: what it makes.
        pooled: what the windows' largest elements are.
    """
    data_type, kernel = pooled.desc.data_type, kernel_of(low, op, inputs, result)
    starts = (-LARGEST[data_type], -np.inf)[: 2 if data_type is DataType.bf16 else 1]

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        found = inputs[-1] if pooled is not result else outputs[0]
        if any(holds(found, start) for start in starts):
            kernel(inputs if pooled is result else inputs[:-1], outputs)

    reads = inputs if pooled is result else (*inputs, pooled)
    number = len(reads) - (pooled is not result)  # the last argument, or the last that is read
    unless = (Above.of(number, pooled, starts[0]),)
    mended(low, "windows of -inf", run, reads, result, unless)


def extremes_of_rows(
    low: Lowering, op: Op, src: Buffer, total: Buffer, result: Buffer, axes: Sequence[int]
) -> None:
    """Finds largest or smallest elements anew where infinities are all there is, or NaN among it.

    Args:
        total: what is NaN where one of the elements is: their sums, or they themselves.
        result: what the library found, with the reduced axes.
    """
    largest = LARGEST[result.desc.data_type]
    start, find = (-largest, np.max) if op.kind == "ReduceMax" else (largest, np.min)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        elements, sums = inputs[0], inputs[-1]
        # Of one row, as of a single token, two comparisons of Python's tell at once.
        if sums.size == 1 and outputs[0].item() != start and not math.isnan(sums.item()):
            return
        if holds(outputs[0], start) or np.isnan(sums).any():
            with np.errstate(invalid="ignore"):  # bf16's maximum warns of a NaN
                outputs[0][...] = find(elements, axis=tuple(axes), keepdims=True)

    reads, unless = tuple(dict.fromkeys((src, total))), tuple[Above | None, ...]()
    if op.kind == "ReduceMax":
        unless = Above.of(len(reads) - 1, total, -np.inf), Above.of(len(reads), result, start)
    mended(low, "rows of infinities or NaN", run, reads, result, unless)


def shares_of_rows(low: Lowering, op: Op, src: Buffer, result: Buffer, axis: int) -> None:
    """NaN for all of a row that has a NaN or ∞ among its elements, and zeros for one of −∞ where the op says so.

    The library gives zeros, or −∞ for their logarithms, to all others of such a row. So a row of which one element is
    more than that has none of them: where all first elements are, nothing else is looked at.
    """
    floor = -np.inf if op.kind == "LogSoftmax" else 0.0
    empty_is_zero = op.attributes.get("mode") == "inf_as_zero"
    first = (*(slice(None),) * axis, 0)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if (outputs[0][first] > floor).all():
            return
        elements, shares = (np.moveaxis(one, axis, -1) for one in (inputs[0], outputs[0]))
        doubtful = ~(shares[..., 0] > floor)
        doubtful &= ~(shares[..., -1] > floor)
        rows = elements[doubtful]
        with np.errstate(invalid="ignore"):  # bf16's maximum warns of a NaN
            largest: Array = rows.max(axis=-1, keepdims=True) if rows.size else rows
        if np.isfinite(largest).all():
            return
        mended = shares[doubtful]
        np.copyto(mended, np.nan, where=np.isnan(largest) | (largest == np.inf))
        if empty_is_zero:
            np.copyto(mended, 0, where=largest == -np.inf)
        shares[doubtful] = mended

    unless = (Above.of(1, result, floor, axis),)
    mended(low, "rows of infinities or NaN", run, (src,), result, unless)
