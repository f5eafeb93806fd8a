"""Weights and their adapters as one: what `adapters` has put beside weights is added to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ..core.building import G, content_of
from ..model.logical_tensor import LogicalTensor, PropertyType, label
from ..model.op import Op
from ..runtime.arrays import Array
from .adapters import A, B, Use, is_part, outputs_first, source_of, uses_of
from .rewriting import Rewriting


@frozen
class _Adapter:
    """An adapter that is found in a graph.

    Attributes:
        use: of the weights. result: what was made of both.
        product: what is to be added to the weights, as their op sees them.
        gone: ids of the ops that are not needed any more.
    """

    use: Use
    result: LogicalTensor
    product: Array
    gone: frozenset[int]


def merged(graph: G) -> G:
    """See `Graph.merge_adapters`."""
    r = Rewriting(graph)
    uses = {use.op.outputs[0].id: use for use in uses_of(r)}
    found = [one for op in r.ops if (one := _adapter(r, op, uses)) is not None]
    if not found:
        raise ArgumentError(
            "merge_adapters: the graph has no adapters; graph.adapters(rank, pattern) adds some"
        )
    gone = frozenset[int]().union(*(one.gone for one in found))
    whole, apart = _new_weights(r, found, gone)
    dropped = {t.id for op in r.ops if op.id in gone for t in op.inputs if t.id in r.held}
    dropped -= {t.id for op in r.ops if op.id not in gone for t in op.inputs} | r.outputs
    for tensor in graph.inputs:
        r.made.add_input(tensor)
    for number, array in r.arrays.items():
        if number not in dropped:
            r.made.add_constant(r.tensors[number], whole.get(number, array))
    for number, parameter in r.parameters.items():
        if number not in dropped:
            r.made.add_parameter(r.tensors[number], whole.get(number, parameter))
    at = {one.use.op.id: one for one in found}
    for op in r.ops:
        if op.id in gone:
            continue
        one, inputs = at.get(op.id), list(op.inputs)
        if one is None:
            r.made.add_op(op)
            continue
        if op.id in apart:
            tensor = r.beside(r.tensors[one.use.held], inputs[one.use.place].data_type, "merged")
            held = LogicalTensor(
                tensor.id,
                tensor.data_type,
                apart[op.id].shape,
                property_type=PropertyType.constant,
                name=tensor.name,
            )
            inputs[one.use.place] = r.made.add_constant(held, apart[op.id])
        r.made.add_op(op.with_tensors(inputs, [one.result]))
    r.mark()
    state = content_of(graph).state
    if state is not None:
        _name_state(r, state, dropped)
    return r.made


def _adapter(r: Rewriting[Any], op: Op, uses: dict[int, Use]) -> _Adapter | None:
    """The adapter whose product an op adds, if it does."""
    if op.kind != "Add" or op.inputs[0].id not in uses:
        return None
    use, gone = uses[op.inputs[0].id], {op.id}
    up = _behind_casts(r, op.inputs[1], gone)
    second = _weights(r, up, use, B, gone)
    if up is None or second is None:
        return None
    src = up.inputs[1 - second[0]]
    scaled, scale = r.topology.producer(src), 1.0
    if scaled is not None and scaled.kind == "Multiply" and scaled.inputs[1].id in r.arrays:
        gone.add(scaled.id)
        scale = float(r.arrays[scaled.inputs[1].id])
        scaled = r.topology.producer(scaled.inputs[0])
    first = _weights(r, scaled, use, A, gone)
    if first is None:
        return None
    a, b = (one[1].astype(np.float64) for one in (first, second))
    if use.op.kind == "Convolution":
        product = np.tensordot(b.reshape(b.shape[:2]), a, 1)
        product = np.transpose(product, np.argsort(outputs_first(use.op, a.ndim)))
    else:
        product = b @ a
        if use.turned == (use.place == 0):
            product = np.swapaxes(product, -1, -2)
    return _Adapter(use, op.outputs[0], product * scale, frozenset(gone))


def _behind_casts(r: Rewriting[Any], tensor: LogicalTensor, gone: set[int]) -> Op | None:
    """The op that makes a tensor, but for a cast, which is not needed any more."""
    op = r.topology.producer(tensor)
    if op is not None and op.kind == "TypeCast":
        gone.add(op.id)
        op = r.topology.producer(op.inputs[0])
    return op


def _weights(
    r: Rewriting[Any], op: Op | None, use: Use, ending: str, gone: set[int]
) -> tuple[int, Array] | None:
    """Which input of an op is an adapter's part, and its value."""
    if op is None or op.kind != use.op.kind:
        return None
    held, way = source_of(r, op.inputs[use.place])
    if held not in r.held or not is_part(label(r.tensors[held]), ending):
        return None
    gone.update((op.id, *(one.id for one in way)))
    return use.place, r.held[held]


def _new_weights(
    r: Rewriting[Any], found: list[_Adapter], gone: frozenset[int]
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Weights with what is added: by their id where nobody else reads them; else by the op's, as that sees them."""
    whole: dict[int, Array] = {}
    apart: dict[int, Array] = {}
    adapted = {one.use.op.id for one in found}
    for one in found:
        number = one.use.held
        weights = r.held[number]
        product, seen = one.product, weights
        for order in one.use.orders:
            seen = np.transpose(seen, order)
        if _readers(r, number) <= adapted:
            for order in reversed(one.use.orders):
                product = np.transpose(product, np.argsort(order))
            whole[number] = (weights.astype(np.float64) + product).astype(weights.dtype)
        else:
            apart[one.use.op.id] = (seen.astype(np.float64) + product).astype(weights.dtype)
    return whole, apart


def _readers(r: Rewriting[Any], number: int) -> set[int]:
    """Ids of the ops that read weights, but for those that only turn them or give them another type."""
    waiting, found = [r.tensors[number]], set[int]()
    while waiting:
        tensor = waiting.pop()
        if tensor.id in r.outputs:
            found.add(-1)
        for reader in r.topology.readers(tensor):
            if reader.kind in ("TypeCast", "StaticTranspose"):
                waiting.append(reader.outputs[0])
            else:
                found.add(reader.id)
    return found


def _name_state(r: Rewriting[Any], state: dict[str, Array | int], dropped: set[int]) -> None:
    """The state of the model without adapters, with the weights as they are now."""
    tensors = {t.id: t for t in r.made.parameter_tensors}
    constants = r.made.constants
    named: dict[str, LogicalTensor | Array] = {}
    for name, one in state.items():
        if isinstance(one, int):
            if one not in dropped:
                named[name] = tensors[one]
        else:
            named[name] = constants.get(name, one)
    r.made.name_state(named)
