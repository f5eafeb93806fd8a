"""Attention in ops: two products and a softmax, and nothing is copied for heads that share keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...ops.records import frozen
from ..runtime.arrays import Array
from .expressions import binary, concat, expand, matmul, reshape, where
from .translation import Reshaped, Translation, Value, dtype_of, sizes


def attention(
    t: Translation,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    *,
    causal: bool,
    scale: float | None,
    grouped: bool = False,
    drop: Callable[[Value], Value] = lambda weights: weights,
) -> Value:
    """softmax(Q · Kᵀ · scale + mask) · V over (…, L, E), (…, S, E) and (…, S, D).

    Args:
        mask: added to the scores, or a boolean one that says which take part.
        causal: each position sees itself and those before.
        grouped: several heads of Q share one of K and V, on axis -3. Heads that were repeated before are taken as
            such as well.
        drop: what is done to the softmax, in training.
    """
    q, dtype = sizes(query), dtype_of(query)
    heads, *others = (sizes(one)[-3:-2] for one in (query, key, value))
    if grouped and others[0] != others[1]:  # heads that share them differently
        key, value = (_for_each(t, one, *heads) for one in (key, value))
    masks: list[Value] = []
    if causal:
        t.check_room((q[-2], sizes(key)[-2]), dtype)
        masks.append(_added(t, np.tril(np.ones((q[-2], sizes(key)[-2]), np.bool_)), dtype))
    if mask is not None:
        masks.append(_added(t, _once(t, mask), dtype))
    shared = _shared(t, query, key, value, grouped=grouped)
    if shared is not None:
        query, key, value = shared.query, shared.key, shared.value
        masks = [shared.masked(t, one) for one in masks]
    scores = t.op("MatMul", query, key, transpose_b=True)
    scores = binary(t, "Multiply", scores, 1 / math.sqrt(q[-1]) if scale is None else scale)
    for one in masks:
        scores = binary(t, "Add", scores, one)
    # A row that sees nothing gives zeros, as in the frameworks.
    weights = t.op("SoftMax", scores, axis=-1, mode="inf_as_zero" if masks else "none")
    result = matmul(t, drop(weights), value)
    if shared is None:
        return result
    *batch, _, _, width = sizes(result)  # of keys, too, where one of queries is for all of them
    return reshape(t, result, (*batch, *q[-3:-1], width))


@frozen(eq=False)
class _Shared:
    """Queries of the heads that share one of keys and values, one below the other, and these.

    Attributes:
        query: (…, heads of K, heads of Q for each · L, E).
        key, value: with each head once.
        heads: of Q, for each of K.
        length: L.
    """

    query: Value
    key: Value
    value: Value
    heads: int
    length: int

    def masked(self, t: Translation, mask: Value) -> Value:
        """What is added to these scores, where the mask is added to those of one head below the other."""
        shape = sizes(mask)
        if len(shape) > 2 and shape[-3] != 1:
            whole = expand(t, mask, (*shape[:-2], self.length, shape[-1]))
            return reshape(
                t, whole, (*shape[:-3], shape[-3] // self.heads, self.heads * self.length, shape[-1])
            )
        if len(shape) < 2 or shape[-2] == 1:
            return mask
        if isinstance(mask, np.ndarray):
            return np.concatenate([mask] * self.heads, -2)
        key = (t.tensor(mask).id, self.heads)
        if key not in t.tiled:
            t.tiled[key] = concat(t, [mask] * self.heads, -2)
        return t.tiled[key]


def _shared(t: Translation, query: Value, key: Value, value: Value, *, grouped: bool) -> _Shared | None:
    """The operands where heads share keys and values; None where each has its own."""
    q, k = sizes(query), sizes(key)
    if len(q) < 3 or len(k) != len(q) or len(sizes(value)) != len(q):
        return None
    if not (grouped and q[-3] != k[-3]):
        if q[-3] != k[-3]:  # one head of queries for all
            return None
        found = [_unrepeated(t, one) for one in (key, value)]
        if found[0] is None or found[1] is None or sizes(found[0])[-3] != sizes(found[1])[-3]:
            return None
        key, value = found[0], found[1]
    heads = q[-3] // sizes(key)[-3]
    return _Shared(
        reshape(t, query, (*q[:-3], q[-3] // heads, heads * q[-2], q[-1])), key, value, heads, q[-2]
    )


def _for_each(t: Translation, x: Value, heads: int) -> Value:
    """Keys or values, the same for as many heads of queries behind each other as share them."""
    *batch, own, length, width = sizes(x)
    many = expand(
        t, reshape(t, x, (*batch, own, 1, length, width)), (*batch, own, heads // own, length, width)
    )
    return reshape(t, many, (*batch, heads, length, width))


def _unrepeated(t: Translation, x: Value) -> Value | None:
    """Keys or values with each head once, where several heads have the same behind each other; None otherwise."""
    if not isinstance(x, Reshaped):
        return None
    known, shape = t.repeated.get(x.base.id), x.shape
    if known is None:
        return None
    once, many = sizes(known.of), sizes(x.base)
    axis = known.axis
    heads = (*many[: axis - 1], many[axis - 1] * many[axis], *many[axis + 1 :])
    if axis != len(many) - 3 or axis < 1 or shape != heads:
        return None
    return reshape(t, known.of, (*once[:axis], *once[axis + 1 :]))


def _once(t: Translation, mask: Value) -> Value:
    """A mask that broadcasts by itself, where it was repeated for all heads."""
    known = None if isinstance(mask, np.ndarray) else t.repeated.get(t.tensor(mask).id)
    return mask if known is None or len(sizes(known.of)) != len(sizes(mask)) else known.of


def _added(t: Translation, mask: Value, dtype: np.dtype[np.generic]) -> Value:
    """What is added to scores: -∞ where a boolean mask says that they take no part. Made once for all layers."""
    if dtype_of(mask) != np.bool_:
        return mask
    if isinstance(mask, np.ndarray):
        return _additive(mask, dtype)
    key = (t.tensor(mask).id, str(dtype))
    if key not in t.additive:
        t.additive[key] = t.tensor(where(t, mask, np.zeros((), dtype), -math.inf))
    return t.additive[key]


def _additive(takes_part: Array, dtype: np.dtype[np.generic]) -> Array:
    return np.where(takes_part, 0.0, -np.inf).astype(dtype)
