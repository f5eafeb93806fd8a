"""NumPy kernels of the host family, continued: the steps of optimizers, in one pass over memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...graph.runtime.arrays import address
from ...ops.formulas import Call, Numeric, Operation, Term, parsed
from .chunks import CHUNK, Work, in_chunks
from .kernels import Array, kernel

SUMMED = 1 << 12
"""Squares that are summed in f32; such sums are added up in f64."""


def _flat(array: Array) -> Array:
    """The elements of an input in row-major order."""
    return array.reshape(-1)


@contextmanager
def _targets(outputs: Sequence[Array]) -> Generator[list[Array]]:
    """The elements of outputs in row-major order, to be written; they are copied to where outputs lie otherwise."""
    held = [array if array.flags.c_contiguous else np.empty(array.shape, array.dtype) for array in outputs]
    yield [array.reshape(-1) for array in held]
    for array, own in zip(outputs, held, strict=True):
        if own is not array:
            np.copyto(array, own)


def _begun(sources: Sequence[Array], targets: Sequence[Array], first: int, end: int) -> list[Array]:
    """The elements of targets, which are those of sources at first."""
    found: list[Array] = []
    for source, target in zip(sources, targets, strict=True):
        piece = target[first:end]
        if address(source) != address(target):
            np.copyto(piece, source[first:end])
        found.append(piece)
    return found


def _unchanged(sources: Sequence[Array], targets: Sequence[Array]) -> None:
    for source, target in zip(sources, targets, strict=True):
        if address(source) != address(target):
            np.copyto(target, source)


@kernel("HostSGD")
def sgd(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """One step, chunk by chunk; each number is rounded to f32 as the parameter is."""
    with _targets(outputs) as targets:
        _sgd(op, inputs, targets)


def _sgd(op: Op, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
    a = op.attributes
    sources, gradient = [_flat(array) for array in (inputs[0], *inputs[4:])], _flat(inputs[1])
    rate, scale = (float(number) for number in inputs[2:4])
    if scale == 0:
        return _unchanged(sources, targets)
    decay, momentum, nesterov = a.real("weight_decay"), a.real("momentum"), a.flag("nesterov")
    clip = a.real("clip_value")

    def make() -> Work:
        scratch, other = np.empty((2, CHUNK), gradient.dtype)

        def work(first: int, end: int) -> None:
            parameter, *velocity = _begun(sources, targets, first, end)
            step, spare = gradient[first:end], other[: end - first]
            own = scratch[: end - first]
            if scale != 1:
                step = np.multiply(step, scale, out=own, dtype=own.dtype)
            if clip:
                step = np.minimum(np.maximum(step, -clip, out=own, dtype=own.dtype), clip, out=own)
            if decay:
                np.multiply(parameter, decay, out=spare, dtype=own.dtype)
                step = np.add(step, spare, out=own)
            if velocity:
                (speed,) = velocity
                np.multiply(speed, momentum, out=speed, dtype=own.dtype)
                np.add(speed, step, out=speed)
                if nesterov:
                    np.multiply(speed, momentum, out=spare, dtype=own.dtype)
                    step = np.add(step, spare, out=own)
                else:
                    step = speed
            np.multiply(step, rate, out=own, dtype=own.dtype)
            np.subtract(parameter, own, out=parameter)

        return work

    in_chunks(gradient.size, make)
    return None


@kernel("HostAdam")
def adam(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """One step, chunk by chunk; the corrections of the bias are computed in f64."""
    with _targets(outputs) as targets:
        _adam(op, inputs, targets)


def _adam(op: Op, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
    a = op.attributes
    sources, gradient = [_flat(array) for array in (inputs[0], *inputs[5:])], _flat(inputs[1])
    rate, scale, step = float(inputs[2]), float(inputs[3]), int(inputs[4])
    if scale == 0:
        return _unchanged(sources, targets)
    first_share, second_share = a.real("beta1"), a.real("beta2")
    epsilon, decay, decoupled = a.real("epsilon"), a.real("weight_decay"), a.flag("decoupled")
    clip = a.real("clip_value")
    length = rate / (1 - first_share**step)
    root = math.sqrt(1 - second_share**step)

    def make() -> Work:
        scratch, other = np.empty((2, CHUNK), gradient.dtype)

        def work(first: int, end: int) -> None:
            parameter, mean, square = _begun(sources, targets, first, end)
            given, own, spare = gradient[first:end], scratch[: end - first], other[: end - first]
            if scale != 1:
                given = np.multiply(given, scale, out=own, dtype=own.dtype)
            if clip:
                given = np.minimum(np.maximum(given, -clip, out=own, dtype=own.dtype), clip, out=own)
            if decay and decoupled:
                np.multiply(parameter, 1 - rate * decay, out=parameter, dtype=own.dtype)
            elif decay:
                np.multiply(parameter, decay, out=spare, dtype=own.dtype)
                given = np.add(given, spare, out=own)
            np.subtract(given, mean, out=spare)
            np.multiply(spare, 1 - first_share, out=spare, dtype=own.dtype)
            np.add(mean, spare, out=mean)
            np.multiply(given, given, out=spare)
            np.multiply(spare, 1 - second_share, out=spare, dtype=own.dtype)
            np.multiply(square, second_share, out=square, dtype=own.dtype)
            np.add(square, spare, out=square)
            np.sqrt(square, out=spare)
            np.divide(spare, root, out=spare, dtype=own.dtype)
            np.add(spare, epsilon, out=spare, dtype=own.dtype)
            np.divide(mean, spare, out=spare)
            np.multiply(spare, length, out=spare, dtype=own.dtype)
            np.subtract(parameter, spare, out=parameter)

        return work

    in_chunks(gradient.size, make)
    return None


@kernel("HostUpdate")
def update(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The operations of the formula, chunk by chunk; what is made of numbers alone is computed in f64."""
    with _targets(outputs) as targets:
        _update(op, inputs, targets)


def _update(op: Op, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
    states = tuple(port.name for port in op.input_ports[5:])
    formula = parsed(op.attributes.string("formula"), states)
    sources, gradient = [_flat(array) for array in (inputs[0], *inputs[5:])], _flat(inputs[1])
    rate, scale, step = float(inputs[2]), float(inputs[3]), int(inputs[4])
    if scale == 0:
        return _unchanged(sources, targets)
    numbers = {"rate": rate, "scale": scale, "step": float(step)}
    operations = _bound(formula.operations, numbers)
    count, names = formula.temporaries, ("parameter", *states)
    squares = np.zeros((2, -(-gradient.size // CHUNK) or 1))

    def make(
        run: Sequence[_Bound], then: Callable[[Array, Array, int], None], begun: Sequence[Array] = sources
    ) -> Work:
        scratch = np.empty((count, min(CHUNK, gradient.size)), gradient.dtype)

        def work(first: int, end: int) -> None:
            arrays: dict[str | int, Array] = {"gradient": gradient[first:end]}
            arrays |= zip(names, _begun(begun, targets, first, end), strict=True)
            arrays |= {number: scratch[number, : end - first] for number in range(count)}
            for function, target, operands in run:
                given = [one if isinstance(one, float) else arrays[one] for one in operands]
                function(*given, out=arrays[target], dtype=gradient.dtype)
            then(arrays["parameter"], arrays[formula.update], first)

        return work

    def move(parameter: Array, update: Array, first: int, length: float = rate) -> None:
        np.multiply(update, length, out=update, dtype=update.dtype)
        np.subtract(parameter, update, out=parameter)

    def measure(parameter: Array, update: Array, first: int) -> None:
        squares[:, first // CHUNK] = _sum_of_squares(parameter), _sum_of_squares(update)

    if not op.attributes.flag("trust_ratio"):
        in_chunks(gradient.size, lambda: make(operations, move))
        return None
    in_chunks(gradient.size, lambda: make(operations, measure))
    weight, length = np.sqrt(np.sum(squares, axis=1))
    again = _bound(formula.again, numbers)
    trusted = rate * float(weight / length) if weight > 0 and length > 0 else rate
    # The states are those of the first time, wherever they came from.
    in_chunks(gradient.size, lambda: make(again, lambda p, u, first: move(p, u, first, trusted), targets))
    return None


_Bound = tuple[Callable[..., Array], str | int, tuple[str | int | float, ...]]


def _bound(operations: Sequence[Operation], numbers: Mapping[str, float]) -> list[_Bound]:
    """Functions, the array that each writes, and what it reads: arrays by name, and numbers."""
    return [
        (
            _sign if one.function == "sign" else getattr(np, one.function),
            one.target,
            tuple(_number(o.term, numbers) if isinstance(o, Numeric) else o for o in one.operands),
        )
        for one in operations
    ]


def _sign(values: Array, *, out: Array, dtype: np.dtype[Any]) -> Array:
    """-1, 0 or 1, and 0 of NaN. NumPy's own branches at each number, which takes ten times as long where they vary."""
    above, below = np.greater(values, 0), np.less(values, 0)
    return np.subtract(above.view(np.int8), below.view(np.int8), out=out, dtype=np.int8, casting="unsafe")


def _number(term: Term, numbers: Mapping[str, float]) -> float:
    """The value of a term of numbers alone; infinite or NaN where there is none."""
    if isinstance(term, str):
        return numbers[term]
    if not isinstance(term, Call):
        return term
    operands = [np.float64(_number(one, numbers)) for one in term.operands]
    with np.errstate(all="ignore"):
        return float(getattr(np, term.function)(*operands))


@kernel("HostGradientScale")
def gradient_scale(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Sums of a few thousand squares are added up in f64 in their order, whatever the threads."""
    total = 0.0
    for array in inputs:
        sums = np.zeros(-(-array.size // CHUNK) or 1)
        in_chunks(array.size, partial(_squares, _flat(array), sums))
        total += float(np.sum(sums))
    norm, most = math.sqrt(total) if total >= 0 else total, op.attributes.real("max_norm")
    scale = min(1.0, most / norm) if most and norm > 0 else 1.0
    if op.attributes.flag("guard") and not math.isfinite(norm):
        scale = 0.0
    outputs[0][...] = scale
    outputs[1][...] = norm


def _squares(flat: Array, into: Array) -> Work:
    def work(first: int, end: int) -> None:
        into[first // CHUNK] = _sum_of_squares(flat[first:end])

    return work


def _sum_of_squares(piece: Array) -> float:
    if piece.dtype != np.float64:
        piece = piece.astype(np.float32, copy=False)
    rest = piece[piece.size - piece.size % SUMMED :]
    rows = piece[: piece.size - rest.size].reshape(-1, 1, SUMMED)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.matmul(rows, rows.reshape(-1, SUMMED, 1))
        total = np.sum(sums, dtype=np.float64) + float(np.dot(rest, rest))
    if not np.isfinite(total):  # f32 has no squares of numbers from 2e19 on
        total = np.sum(np.square(piece, dtype=np.float64))
    return float(total)
