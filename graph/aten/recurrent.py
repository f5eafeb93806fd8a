"""ATen's recurrent layers in ops of oneDNN Graph.

Torch's own decomposition traces every step several times, which takes a minute for some hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..importing.expressions import binary, concat, select, transpose, unsqueeze
from ..importing.recurrent import GATES, Cell, State, all_steps
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, sizes
from .schema import Translate

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload."""
ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0), "RNN": (0,)}
"""Layer → where its gates lie in weights, as `Cell` has them."""
KINDS = {
    "lstm": ("LSTM", ("Sigmoid", "Tanh", "Tanh")),
    "gru": ("GRU", ("Sigmoid", "Tanh")),
    "rnn_tanh": ("RNN", ("Tanh",)),
    "rnn_relu": ("RNN", ("ReLU",)),
}
"""Op → layer, and the functions of its gates."""

Drop = Callable[[Translation, Value, float], Value]


def _dropping_nothing(t: Translation, x: Value, p: float) -> Value:
    if p:
        raise Unmapped("a recurrent layer with dropout in training mode")
    return x


def recurrent(
    t: Translation,
    x: Value,
    given: Value | Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    op: str,
    drop: Drop = _dropping_nothing,
) -> list[Value]:
    """All outputs, and the last states, of layers behind each other.

    Args:
        x: (T, N, C), or (N, T, C).
        given: the first states, (layers · directions, N, H) each.
        params: of each direction of each layer its weights, its biases if there are any, and its projection likewise.
        op: a key of `KINDS`.
        drop: what is done between layers for a chance to drop.
    """
    kind, functions = KINDS[op]
    starts = list(given) if isinstance(given, Sequence) else [given]
    directions = 2 if bidirectional else 1
    each = len(params) // (layers * directions)
    if each * layers * directions != len(params) or each - (4 if has_biases else 2) not in (0, 1):
        raise Unmapped(f"{len(params)} weights of {layers} layers")
    x = transpose(t, x, (1, 0, 2)) if batch_first else x
    ends: list[State] = []
    for layer in range(layers):
        x = drop(t, x, dropout if train and layer else 0.0)
        outputs: list[Value] = []
        for number in range(layer * directions, (layer + 1) * directions):
            weights, h_weights, *more = params[number * each : (number + 1) * each]
            projected = t.op("MatMul", x, weights, transpose_b=True)
            if has_biases:
                projected = binary(t, "Add", projected, more[0])
            cell = Cell(
                kind=kind,
                weights=h_weights,
                bias=more[1] if has_biases else None,
                functions=functions,
                order=ORDERS[kind],
                resets_product=True,
                projection=more[-1] if each % 2 else None,
            )
            if sizes(h_weights)[0] != GATES[kind] * sizes(starts[-1])[-1]:
                raise Unmapped(f"weights of {list(sizes(h_weights))} for states of {list(sizes(starts[-1]))}")
            state = tuple(select(t, start, 0, number) for start in starts)
            every, end = all_steps(t, cell, projected, state, backwards=bool(number % directions))
            outputs.append(every)
            ends.append(end)
        x = concat(t, outputs, 2)
    last = [concat(t, [unsqueeze(t, end[n], [0]) for end in ends], 0) for n in range(len(starts))]
    return [transpose(t, x, (1, 0, 2)) if batch_first else x, *last]


OPS.add({f"{op}.input": partial(recurrent, op=op) for op in KINDS})
