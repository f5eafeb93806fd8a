"""ONNX's recurrent layers in ops of oneDNN Graph: one product for the input at all times, then step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from ..importing.expressions import binary, cast, concat, cut, reshape, select, transpose, unsqueeze, where
from ..importing.hosted import compared, logical
from ..importing.tables import Entries
from ..importing.translation import TooLong, Translation, Unmapped, Value, dtype_of, sizes
from .node import Node, Translate

OPS = Entries[Translate]()
"""ONNX op → its translation."""


USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""Layer → the functions of its gates, in ONNX's order."""
FUNCTIONS = {"Sigmoid": "Sigmoid", "Tanh": "Tanh", "Relu": "ReLU"}
OPS_PER_STEP = 10
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

State = tuple[Value, ...]
"""What goes from step to step: the output, and the cell of an LSTM."""
Affine = tuple[Value, "Value | None"]
"""A matrix and a bias."""


def _part(t: Translation, x: Value, axis: int, number: int, width: int) -> Value:
    """A gate's columns, or rows."""
    return cut(t, x, axis, number * width, (number + 1) * width)


@OPS.enter("LSTM", "GRU", "RNN")
def _recurrent(t: Translation, node: Node) -> Sequence[Value]:
    """The whole layer, both directions of it."""
    x = transpose(t, node[0], (1, 0, 2)) if node.get("layout", 0) else node[0]
    direction = node.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    for weights in (node[1], node[2]):
        if sizes(weights)[0] != count:
            raise Unmapped(f"weights of {list(sizes(weights))} for the direction {direction!r}")
    width = sizes(node[2])[-1]
    if width < 1 or node.get("hidden_size", width) != width:
        raise Unmapped(f"hidden_size {node.get('hidden_size')} with weights for {width}")
    functions = node.get("activations") or list(USUAL[node.kind]) * count
    each = len(USUAL[node.kind])
    if len(functions) != each * count or not set(functions) <= set(FUNCTIONS):
        raise Unmapped(f"the functions {functions}")
    made: list[tuple[Value, State]] = []
    for number in range(count):
        backwards = direction == "reverse" or number == 1
        own = [FUNCTIONS[name] for name in functions[number * each : (number + 1) * each]]
        made.append(_one_way(t, node, x, number, backwards, own))
    batch_first = bool(node.get("layout", 0))
    every = concat(t, [unsqueeze(t, outputs, [1]) for outputs, _ in made], 1)
    results = [transpose(t, every, (2, 0, 1, 3)) if batch_first else every]
    for place in range(len(made[0][1])):
        last = concat(t, [unsqueeze(t, state[place], [0]) for _, state in made], 0)
        results.append(transpose(t, last, (1, 0, 2)) if batch_first else last)
    return results


def _one_way(
    t: Translation, node: Node, x: Value, number: int, backwards: bool, functions: Sequence[str]
) -> tuple[Value, State]:
    """One direction: the outputs (T, N, H) of all times, and the state after the last one."""
    steps, batch, _ = sizes(x)
    if not steps:
        raise Unmapped("a sequence of no steps")
    if steps > t.most_steps:
        raise TooLong(f"it has {steps} steps, and NumPy runs more than {t.most_steps} one after the other")
    t.check_ops(OPS_PER_STEP * steps)
    masks = _masks(t, node.optional(4), steps, batch, dtype_of(x))
    if masks is not None:
        # What lies behind the end of a sequence may be NaN, which a product with 0 would keep.
        x = where(t, masks.inside, x, 0.0)
    weight, recurrent = (select(t, node[index], 0, number) for index in (1, 2))
    width = sizes(recurrent)[1]
    bias = node.optional(3)
    halves: tuple[Value | None, Value | None] = (None, None)
    if bias is not None:
        both = select(t, bias, 0, number)
        halves = (
            _part(t, both, 0, 0, GATES[node.kind] * width),
            _part(t, both, 0, 1, GATES[node.kind] * width),
        )
    projected = t.op("MatMul", x, weight, transpose_b=True)
    if halves[0] is not None:
        projected = binary(t, "Add", projected, halves[0])
    state = tuple(
        np.zeros((batch, width), dtype_of(x)) if given is None else _first(t, given, number, node)
        for given in ([node.optional(5), node.optional(6)] if node.kind == "LSTM" else [node.optional(5)])
    )
    weights = _weights(t, node.kind, recurrent, halves[1], width)
    step: Callable[..., State] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[node.kind]
    more = {"before": bool(node.get("linear_before_reset", 0))} if node.kind == "GRU" else {}
    outputs: list[Value] = []
    for time in reversed(range(steps)) if backwards else range(steps):
        gates = reshape(t, cut(t, projected, 0, time, time + 1), (batch, GATES[node.kind] * width))
        made = step(t, gates, state, weights, functions, **more)
        if masks is None:
            state, output = made, made[0]
        else:
            there, gone = (
                reshape(t, cut(t, mask, 0, time, time + 1), (batch, 1)) for mask in (masks.there, masks.ended)
            )
            output = binary(t, "Multiply", made[0], there)
            kept = [binary(t, "Multiply", value, gone) for value in state]
            first = [output, *(binary(t, "Multiply", value, there) for value in made[1:])]
            state = tuple(binary(t, "Add", *pair) for pair in zip(first, kept, strict=True))
        outputs.append(unsqueeze(t, output, [0]))
    return concat(t, outputs[::-1] if backwards else outputs, 0), state


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


def _masks(
    t: Translation, lengths: Value | None, steps: int, batch: int, dtype: np.dtype[Any]
) -> Masks | None:
    """Which sequences are there at each time; None where all have all times.

    Behind its end a sequence has zeros, and keeps its state; backwards, it keeps its first state until then. A length
    below 0 is taken as 0, and one above T as T.
    """
    if lengths is None or (isinstance(lengths, np.ndarray) and (lengths >= steps).all()):
        return None
    times = np.arange(steps).astype(dtype_of(lengths)).reshape(steps, 1, 1)
    there = compared(t, "Greater", reshape(t, lengths, (1, batch, 1)), times)
    ended = logical(t, "Xor", there, np.ones((1, 1, 1), np.bool_))
    return Masks(there, cast(t, there, dtype), cast(t, ended, dtype))


def _first(t: Translation, given: Value, number: int, node: Node) -> Value:
    """A direction's state before the first step."""
    return select(t, given, 1 if node.get("layout", 0) else 0, number)


def _weights(t: Translation, kind: str, recurrent: Value, bias: Value | None, width: int) -> Sequence[Affine]:
    """What multiplies the output of the step before: of all gates together, of a GRU's hidden one apart."""
    if kind != "GRU":
        return [(recurrent, bias)]
    split = [(0, 2 * width), (2 * width, 3 * width)]
    return [(cut(t, recurrent, 0, *rows), None if bias is None else cut(t, bias, 0, *rows)) for rows in split]


def _product(t: Translation, h: Value, affine: Affine) -> Value:
    weight, bias = affine
    return t.op("MatMul", h, weight, *(() if bias is None else (bias,)), transpose_b=True)


def _lstm(
    t: Translation,
    gates: Value,
    state: State,
    weights: Sequence[Affine],
    functions: Sequence[str],
) -> State:
    h, c = state
    width = sizes(gates)[1] // 4
    both = binary(t, "Add", gates, _product(t, h, weights[0]))
    # ONNX has the gates in the order input, output, forget, cell.
    i, o, f = (t.op(functions[0], _part(t, both, 1, gate, width)) for gate in range(3))
    fresh = t.op(functions[1], _part(t, both, 1, 3, width))
    cell = binary(t, "Add", binary(t, "Multiply", f, c), binary(t, "Multiply", i, fresh))
    return binary(t, "Multiply", o, t.op(functions[2], cell)), cell


def _gru(
    t: Translation,
    gates: Value,
    state: State,
    weights: Sequence[Affine],
    functions: Sequence[str],
    *,
    before: bool,
) -> State:
    (h,) = state
    width = sizes(gates)[1] // 3
    # ONNX has the gates in the order update, reset, hidden.
    both = binary(t, "Add", _part(t, gates, 1, 0, 2 * width), _product(t, h, weights[0]))
    update, reset = (t.op(functions[0], _part(t, both, 1, gate, width)) for gate in range(2))
    if before:
        hidden = binary(t, "Multiply", reset, _product(t, h, weights[1]))
    else:
        hidden = _product(t, binary(t, "Multiply", reset, h), weights[1])
    fresh = t.op(functions[1], binary(t, "Add", _part(t, gates, 1, 2, width), hidden))
    kept = binary(t, "Multiply", update, binary(t, "Subtract", h, fresh))
    return (binary(t, "Add", fresh, kept),)


def _rnn(
    t: Translation,
    gates: Value,
    state: State,
    weights: Sequence[Affine],
    functions: Sequence[str],
) -> State:
    return (t.op(functions[0], binary(t, "Add", gates, _product(t, state[0], weights[0]))),)
