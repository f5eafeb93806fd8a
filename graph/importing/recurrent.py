"""Recurrent layers in ops of oneDNN Graph: one product for the input at all times, then step by step.

Importers say how their layers differ: in which order the gates' rows lie in weights, which functions they have, whether
a GRU resets before its product or behind it, and whether an LSTM's output is projected.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.records import frozen
from .expressions import binary, concat, cut, squeeze, unsqueeze
from .translation import Translation, Value, sizes

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OPS_PER_STEP = 10

State = tuple[Value, ...]
"""What goes from step to step: the output, and the cell of an LSTM."""
_Affine = tuple[Value, "Value | None"]
"""A matrix and a bias."""


@frozen(kw_only=True, eq=False)
class Cell:
    """What one direction of a layer does at each step.

    Attributes:
        kind: a key of `GATES`.
        weights: (gates · H, H), of the output of the step before.
        bias: (gates · H), of that product.
        functions: kinds of ops: of the gates, of what enters, and of the cell's way out; an RNN has the first alone.
        order: places of the gates among the rows of weights: of an LSTM input, output, forget, cell; of a GRU update
            and reset, which come before the third.
        resets_product: of a GRU, whether the product is reset rather than the state in it.
        projection: (P, H), which makes the output of an LSTM narrower.
    """

    kind: str
    weights: Value
    bias: Value | None
    functions: Sequence[str]
    order: Sequence[int]
    resets_product: bool = False
    projection: Value | None = None


@frozen(eq=False)
class Masks:
    """Of sequences of their own lengths, (T, N, 1).

    Attributes:
        inside: whether a time is one of the sequence's.
        there, ended: the same and the opposite, as numbers 0 and 1.
    """

    inside: Value
    there: Value
    ended: Value


def all_steps(
    t: Translation, cell: Cell, projected: Value, state: State, *, backwards: bool, masks: Masks | None = None
) -> tuple[Value, State]:
    """The outputs (T, N, H) of all times, and the state after the last one.

    Args:
        projected: (T, N, gates · H), what the input gives to the gates, bias included.
        state: before the first step.
        masks: of sequences that end before T; behind its end one keeps its state, and its output is zeros.
    """
    steps = sizes(projected)[0]
    t.check_ops(OPS_PER_STEP * steps)
    step = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[cell.kind]
    products = _products(t, cell)
    # With an axis in front, gates are cut out as they lie; of matrices each part would be reshaped twice.
    state = tuple(unsqueeze(t, value, [0]) for value in state)
    outputs: list[Value] = []
    for time in reversed(range(steps)) if backwards else range(steps):
        made = step(t, cell, cut(t, projected, 0, time, time + 1), state, products)
        if masks is None:
            state, output = made, made[0]
        else:
            there, gone = (cut(t, mask, 0, time, time + 1) for mask in (masks.there, masks.ended))
            output = binary(t, "Multiply", made[0], there)
            kept = [binary(t, "Multiply", value, gone) for value in state]
            first = [output, *(binary(t, "Multiply", value, there) for value in made[1:])]
            state = tuple(binary(t, "Add", *pair) for pair in zip(first, kept, strict=True))
        outputs.append(output)
    every = concat(t, outputs[::-1] if backwards else outputs, 0)
    return every, tuple(squeeze(t, value, [0]) for value in state)


def _products(t: Translation, cell: Cell) -> Sequence[_Affine]:
    """What multiplies the output of the step before: of all gates together, of a GRU's hidden one apart."""
    if cell.kind != "GRU":
        return [(cell.weights, cell.bias)]
    width = sizes(cell.weights)[0] // 3
    split = [(0, 2 * width), (2 * width, 3 * width)]
    return [
        (cut(t, cell.weights, 0, *rows), None if cell.bias is None else cut(t, cell.bias, 0, *rows))
        for rows in split
    ]


def _product(t: Translation, h: Value, affine: _Affine) -> Value:
    weight, bias = affine
    return t.op("MatMul", h, weight, *(() if bias is None else (bias,)), transpose_b=True)


def _part(t: Translation, x: Value, number: int, width: int) -> Value:
    """A gate's columns."""
    return cut(t, x, 2, number * width, (number + 1) * width)


def _lstm(t: Translation, cell: Cell, gates: Value, state: State, products: Sequence[_Affine]) -> State:
    h, c = state
    width = sizes(gates)[2] // 4
    both = binary(t, "Add", gates, _product(t, h, products[0]))
    entering, leaving, fresh = cell.functions
    i, o, f = (t.op(entering, _part(t, both, gate, width)) for gate in cell.order[:3])
    new = t.op(leaving, _part(t, both, cell.order[3], width))
    c = binary(t, "Add", binary(t, "Multiply", f, c), binary(t, "Multiply", i, new))
    h = binary(t, "Multiply", o, t.op(fresh, c))
    if cell.projection is not None:
        h = t.op("MatMul", h, cell.projection, transpose_b=True)
    return h, c


def _gru(t: Translation, cell: Cell, gates: Value, state: State, products: Sequence[_Affine]) -> State:
    (h,) = state
    width = sizes(gates)[2] // 3
    both = binary(t, "Add", cut(t, gates, 2, 0, 2 * width), _product(t, h, products[0]))
    update, reset = (t.op(cell.functions[0], _part(t, both, gate, width)) for gate in cell.order[:2])
    if cell.resets_product:
        hidden = binary(t, "Multiply", reset, _product(t, h, products[1]))
    else:
        hidden = _product(t, binary(t, "Multiply", reset, h), products[1])
    fresh = t.op(cell.functions[1], binary(t, "Add", _part(t, gates, 2, width), hidden))
    kept = binary(t, "Multiply", update, binary(t, "Subtract", h, fresh))
    return (binary(t, "Add", fresh, kept),)


def _rnn(t: Translation, cell: Cell, gates: Value, state: State, products: Sequence[_Affine]) -> State:
    return (t.op(cell.functions[0], binary(t, "Add", gates, _product(t, state[0], products[0]))),)
