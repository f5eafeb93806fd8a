"""ONNX's recurrent layers in ops of oneDNN Graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..importing.expressions import binary, cast, concat, cut, reshape, select, transpose, unsqueeze, where
from ..importing.hosted import compared, logical
from ..importing.recurrent import GATES, Cell, Masks, State, all_steps
from ..importing.tables import Entries
from ..importing.translation import TooLong, Translation, Unmapped, Value, dtype_of, sizes
from .node import Node, Translate

OPS = Entries[Translate]()
"""ONNX op → its translation."""


USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""Layer → the functions of its gates, in ONNX's order."""
FUNCTIONS = {"Sigmoid": "Sigmoid", "Tanh": "Tanh", "Relu": "ReLU"}
ORDERS = {"LSTM": (0, 1, 2, 3), "GRU": (0, 1), "RNN": (0,)}
"""Layer → where its gates lie in weights, as `Cell` has them: ONNX's order is the same."""


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
    masks = _masks(t, node.optional(4), steps, batch, dtype_of(x))
    if masks is not None:
        # What lies behind the end of a sequence may be NaN, which a product with 0 would keep.
        x = where(t, masks.inside, x, 0.0)
    weight, recurrent = (select(t, node[index], 0, number) for index in (1, 2))
    width = sizes(recurrent)[1]
    bias = node.optional(3)
    halves: tuple[Value | None, Value | None] = (None, None)
    if bias is not None:
        rows, both = GATES[node.kind] * width, select(t, bias, 0, number)
        halves = cut(t, both, 0, 0, rows), cut(t, both, 0, rows, 2 * rows)
    projected = t.op("MatMul", x, weight, transpose_b=True)
    if halves[0] is not None:
        projected = binary(t, "Add", projected, halves[0])
    state = tuple(
        np.zeros((batch, width), dtype_of(x)) if given is None else _first(t, given, number, node)
        for given in ([node.optional(5), node.optional(6)] if node.kind == "LSTM" else [node.optional(5)])
    )
    lengths = node.optional(4)
    if masks is not None and lengths is not None:
        # A sequence of no steps has no last one: onnxruntime gives zeros, not the state that it would begin with.
        begun = compared(t, "Greater", reshape(t, lengths, (batch, 1)), np.zeros((1, 1), dtype_of(lengths)))
        state = tuple(where(t, begun, given, 0.0) for given in state)
    cell = Cell(
        kind=node.kind,
        weights=recurrent,
        bias=halves[1],
        functions=functions,
        order=ORDERS[node.kind],
        resets_product=node.kind == "GRU" and bool(node.get("linear_before_reset", 0)),
    )
    return all_steps(t, cell, projected, state, backwards=backwards, masks=masks)


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
