"""Weights and their adapters as one: what `adapters` has put beside weights is added to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.errors import ArgumentError
from ..core.building import G, content_of
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..runtime.arrays import Array
from .adapted import Adapter, adapters_of, outputs_first
from .rewriting import Rewriting


def merged(graph: G) -> G:
    """See `Graph.merge_adapters`."""
    r = Rewriting(graph)
    found = adapters_of(r)
    if not found:
        raise ArgumentError(
            "merge_adapters: the graph has no adapters; graph.adapters(rank, pattern) adds some"
        )
    gone = frozenset[int]().union(*(one.gone for one in found))
    whole, apart = _new_weights(r, found, gone)
    dropped = {t.id for op in r.ops if op.id in gone for t in op.inputs if t.id in r.held}
    dropped -= {t.id for op in r.ops if op.id not in gone for t in op.inputs} | r.wanted
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


def _product(r: Rewriting[Any], one: Adapter) -> Array:
    """What an adapter adds to the weights, as their op sees them."""
    a, b = (r.held[number].astype(np.float64) for number in (one.first, one.second))
    if one.use.op.kind == "Convolution":
        product = np.tensordot(b.reshape(b.shape[:2]), a, 1)
        product = np.transpose(product, np.argsort(outputs_first(one.use.op, a.ndim)))
    else:
        product = b @ a
        if one.use.turned == (one.use.place == 0):
            product = np.swapaxes(product, -1, -2)
    return product * one.scale


def _new_weights(
    r: Rewriting[Any], found: list[Adapter], gone: frozenset[int]
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Weights with what is added: by their id where nobody else reads them; else by the op's, as that sees them."""
    whole: dict[int, Array] = {}
    apart: dict[int, Array] = {}
    adapted = {one.use.op.id for one in found}
    for one in found:
        number = one.use.held
        weights = r.held[number]
        product, seen = _product(r, one), weights
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
        if tensor.id in r.wanted:
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
