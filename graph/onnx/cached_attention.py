"""Attention with keys and values of earlier calls, whose number is different in each row: onnxruntime's, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array
from .calls import Call

UNKNOWN = ("sliding_window_cache", "qk_output", "kv_cache_bit_width")
"""Attributes of GroupQueryAttention that only 0 is known of."""


def grouped_attention(call: Call) -> list[Array]:
    """GroupQueryAttention of onnxruntime: (batch, queries, heads · each), and keys and values with those of before.

    Rows are filled up behind their ends; what stands there after it is of no use to anybody.

    Raises:
        Unmapped: attributes or inputs that are not known here, or sizes that don't fit together.
    """
    for name in UNKNOWN:
        if call.get(name, 0):
            raise Unmapped(f"its attribute {name} is {call.get(name)}, and only 0 can be done")
    for name in ("k_quant_type", "v_quant_type"):
        if call.get(name, "NONE") != "NONE":
            raise Unmapped(f"its attribute {name} is {call.get(name)}, and only 'NONE' can be done")
    if any(call.optional(place) is not None for place in (12, 13, 16)) or call.listed > 3:
        raise Unmapped("scales of what was before, lengths of queries or scores as an output")
    dtype = call[0].dtype
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    q, k, v = _by_heads(call, wide)
    batch, _, queries, each = q.shape
    total = int(np.reshape(call[6], ()))
    ends = np.reshape(call[5], -1).astype(np.int64) + 1
    if len(ends) != batch or (batch and not 0 < int(ends.min()) <= int(ends.max()) <= total):
        raise Unmapped(f"seqlens_k {(ends - 1).tolist()} for {batch} rows of at most {total} keys")
    starts = np.zeros_like(ends) if queries == total else ends - queries
    if batch and int(starts.min()) < 0:
        raise Unmapped(f"{queries} queries in rows of {ends.tolist()} keys")
    q, k = (_normed(call, x, place, wide) for x, place in ((q, 14), (k, 15)))
    if call.get("do_rotary", 0):
        q, k = _rotated(call, q, k, starts, wide)
    past = [call.optional(place) for place in (3, 4)]
    kept = [_kept(call, before, new, starts, total) for before, new in zip(past, (k, v), strict=True)]
    scale = call.get("scale", 0.0) or 1 / math.sqrt(max(1, each))
    made = np.empty((batch, queries, q.shape[1], kept[1].shape[3]), wide)
    for row in range(batch):
        own = [x[row, :, : ends[row]].astype(wide, copy=False) for x in kept]
        bias = call.optional(10)
        if bias is not None:
            bias = bias[row if len(bias) > 1 else 0][..., : ends[row]].astype(wide, copy=False)
        made[row] = _row(call, q[row] * wide.type(scale), own[0], own[1], int(starts[row]), bias)
    flat = made.reshape(batch, queries, -1).astype(dtype, copy=False)
    return [flat, *kept][: max(1, call.outputs)]


def _by_heads(call: Call, wide: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Queries, keys and values as (batch, heads, length, each)."""
    heads, own = int(call.get("num_heads", 0)), int(call.get("kv_num_heads", 0))
    parts: list[Array] = [call[0]]
    if heads < 1 or own < 1 or heads % own or call[0].ndim != 3:
        raise Unmapped(f"{heads} heads of queries for {own} of keys, in an input of rank {call[0].ndim}")
    if call.optional(1) is None:
        each = call[0].shape[-1] // (heads + 2 * own)
        parts = np.split(call[0], [heads * each, (heads + own) * each], -1)
    else:
        parts += [call[1], call[2]]
    found: list[Array] = []
    for x, count in zip(parts, (heads, own, own), strict=True):
        if x.shape[-1] % count:
            raise Unmapped(f"{count} heads in a width of {x.shape[-1]}")
        split = x.reshape(*x.shape[:2], count, x.shape[-1] // count).astype(wide, copy=False)
        found.append(split.transpose(0, 2, 1, 3))
    q, k, v = found
    if q.shape[0] != k.shape[0] or q.shape[2:] != k.shape[2:] or k.shape[:3] != v.shape[:3]:
        raise Unmapped(f"queries, keys and values of shapes {[list(x.shape) for x in found]}")
    return q, k, v


def _normed(call: Call, x: Array, place: int, wide: np.dtype[Any]) -> Array:
    weights = call.optional(place)
    if weights is None:
        return x
    epsilon = call.get("qk_norm_epsilon", 1e-6)
    epsilon = call.get("q_norm_epsilon" if place == 14 else "k_norm_epsilon", epsilon)
    root = np.sqrt((x * x).mean(-1, keepdims=True, dtype=wide) + wide.type(epsilon))
    return x / root * weights.astype(wide)


def _rotated(call: Call, q: Array, k: Array, starts: Array, wide: np.dtype[Any]) -> tuple[Array, Array]:
    """Queries and keys, turned by their places."""
    places = np.add.outer(starts, np.arange(int(q.shape[2]))) if call.optional(9) is None else call[9]
    most, half = call[7].shape
    # Places behind the end of a row that is filled up have no angles of their own.
    places = np.minimum(places, most - 1)
    if places.size and int(places.min()) < 0:
        raise Unmapped(f"places below 0: {places.tolist()}")
    cos, sin = (call[place][places][:, None].astype(wide, copy=False) for place in (7, 8))
    interleaved = bool(call.get("rotary_interleaved", 0))
    first, second = (
        (np.s_[..., : 2 * half : 2], np.s_[..., 1 : 2 * half : 2])
        if interleaved
        else (np.s_[..., :half], np.s_[..., half : 2 * half])
    )
    turned: list[Array] = []
    for x in (q, k):
        y = np.array(x, order="C")
        y[first] = x[first] * cos - x[second] * sin
        y[second] = x[first] * sin + x[second] * cos
        turned.append(y)
    return turned[0], turned[1]


def _kept(call: Call, before: Array | None, new: Array, starts: Array, total: int) -> Array:
    """Keys or values of before with the new ones behind them."""
    dtype = call[0].dtype if before is None else before.dtype
    batch, heads, length, each = new.shape
    if before is None:
        before = np.empty((batch, heads, 0, each), dtype)
    if before.shape[:2] != (batch, heads) or before.shape[3] != each:
        raise Unmapped(
            f"what was before of shape {list(before.shape)} for {batch} rows of {heads} heads of {each}"
        )
    had = before.shape[2]
    if batch and int(starts.max()) > had:
        raise Unmapped(f"rows that go on at {starts.tolist()} with {had} keys of before")
    shape = batch, heads, max(had, total), each
    check_room(shape, dtype, call.limit)
    kept = np.empty(shape, dtype)
    kept[:, :, :had], kept[:, :, had:] = before, 0
    for row, start in enumerate(starts.tolist()):
        kept[row, :, start : start + length] = new[row]
    return kept


def _row(call: Call, q: Array, k: Array, v: Array, start: int, bias: Array | None) -> Array:
    """One row's result, (queries, heads, each)."""
    heads, queries, each = q.shape
    own, keys, _ = k.shape
    group = heads // own
    scores = (q.reshape(own, group * queries, each) @ k.swapaxes(1, 2)).reshape(heads, queries, keys)
    softcap = call.get("softcap", 0.0)
    if softcap > 0:
        scores = np.tanh(scores / scores.dtype.type(softcap)) * scores.dtype.type(softcap)
    if bias is not None:
        scores = scores + bias
    if call.get("causal", 1):
        window = int(call.get("local_window_size", -1))
        ahead = np.subtract.outer(np.arange(int(keys)), np.arange(start, start + int(queries))).T
        gone = ahead > 0
        if window >= 0:
            gone |= ahead <= -window
        scores = np.where(gone, scores.dtype.type(-np.inf), scores) if bool(gone.any()) else scores
    sink = call.optional(11)
    if sink is None and call.get("smooth_softmax", 0):
        sink = np.zeros(heads)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        sink = np.reshape(sink, (heads, 1, 1)).astype(scores.dtype)
        most = np.maximum(most, sink)
    powers = np.exp(scores - np.where(np.isfinite(most), most, 0))
    weight = powers.sum(-1, keepdims=True)
    if sink is not None:
        weight = weight + np.exp(sink - most)
    powers /= np.where(weight == 0, 1, weight)
    made = (powers.reshape(own, group * queries, keys) @ v).reshape(heads, queries, -1)
    return made.swapaxes(0, 1)
