"""Attention of onnxruntime's own domain as ONNX's: heads, caches, masks, rotations.

Sizes are known when a node becomes others: a model of open sizes has its nodes rewritten for those of each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.records import frozen
from ...importing.translation import Unmapped
from .rewriting import Rewrite, Rewriting

FILL = -10000.0
"""What is added to scores of what is masked, where the node does not say it."""


@frozen
class Sizes:
    """Sizes of attention.

    Attributes:
        batch, heads, queries, keys: what they say; keys has those of the past as well.
        past: how many keys were there before.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    past: int = 0


def _heads(made: Rewriting, x: str, batch: int, length: int, heads: int, width: int) -> str:
    """(batch, length, heads · each) as (batch, heads, length, each)."""
    return made("Transpose", made.reshape(x, (batch, length, heads, width // heads)), perm=[0, 2, 1, 3])


def _causal(made: Rewriting, size: Sizes) -> str:
    """What is added to scores so that nothing counts that comes later."""
    dtype = made.float_type()
    made.check_room((size.queries, size.keys), dtype)
    later = np.arange(size.keys) > size.past + np.arange(size.queries)[:, None]
    return made.constant("later", np.where(later, -np.inf, 0).astype(dtype))


def _mask(made: Rewriting, place: int, size: Sizes, fill: float) -> str:
    """What is added to scores, from ones and zeros or the number of keys of each row."""
    name, shape = made.input(place), made.sizes(place)
    batch, queries, keys = size.batch, size.queries, size.keys
    if len(shape) == 1 and shape[0] in (batch, 2 * batch):
        places = made.constant("places", np.arange(keys, dtype=np.int32))
        parts = [name]
        if shape[0] == 2 * batch and batch:
            parts = made.split(name, [batch, batch], 0)
        tests = [made("Less", places, made.reshape(parts[0], (batch, 1)))]
        if len(parts) > 1:  # where keys begin
            tests.append(made("Not", made("Less", places, made.reshape(parts[1], (batch, 1)))))
        name = tests[0] if len(tests) == 1 else made("And", *tests)
        shape = batch, keys
    if shape == (batch, keys):
        shape = batch, 1, 1, keys
    elif shape == (batch, queries, keys):
        shape = batch, 1, queries, keys
    else:
        raise Unmapped(f"a mask of shape {list(shape)} for {batch} rows of {queries} queries and {keys} keys")
    if name == made.input(place) and made.dtype(place).kind in "iu":
        # Numbers above 1 stand for keys that are there, too.
        name = made("Greater", name, made.number("nothing", 0, place))
    there = made.reshape(made.cast(name, made.float_type()), shape)
    gone = made("Sub", made.constant("one", np.asarray(1, made.float_type())), there)
    return made("Mul", gone, made.constant("fill", np.asarray(fill, made.float_type())))


def _attend(
    made: Rewriting,
    parts: Sequence[str],
    size: Sizes,
    added: Sequence[str],
    *,
    causal: bool,
    width: int,
    scale: float,
) -> None:
    """The output of a node from queries, keys and values by heads.

    Args:
        added: what is added to scores.
        width: of all heads of the values together.
        scale: of scores; 0 for the usual one.
    """
    if causal and size.queries + size.past != size.keys:
        raise Unmapped(
            f"unidirectional attention of {size.queries} queries behind {size.past} of {size.keys} keys, of which "
            "nothing says what comes later"
        )
    added = [name for name in added if name]
    simply = causal and not added and size.past == 0
    if causal and not simply:
        added.append(_causal(made, size))
    masks = added[:1]
    for one in added[1:]:
        masks = [made("Add", masks[0], one)]
    scaling: dict[str, Any] = {"scale": scale} if scale else {}
    y = made("Attention", *parts, *masks, is_causal=int(simply), **scaling)
    y = made("Transpose", y, perm=[0, 2, 1, 3])
    made.reshape(y, (size.batch, size.queries, width), into=made.output(0))


def self_attention(
    made: Rewriting, product: str, widths: Sequence[int], mask: int, past: int, bias: int
) -> None:
    """The outputs of Attention, and of the same on integers, from queries, keys and values side by side.

    Args:
        product: (batch, length, sum of widths).
        widths: of queries, keys and values.
        mask, past, bias: places of inputs; bias is added to scores, and -1 where there is none.
    """
    made.usual(do_rotary=0, past_present_share_buffer=0)
    heads = made.positive("num_heads")
    if widths[0] != widths[1] or any(width % heads for width in widths):
        raise Unmapped(f"queries, keys and values of widths {list(widths)} for {heads} heads")
    batch, length, _ = made.sizes(0)
    q, k, v = (
        _heads(made, part, batch, length, heads, width)
        for part, width in zip(made.split(product, widths, 2), widths, strict=True)
    )
    before = 0
    if made.input(past):
        two, rows, own, before, each = made.sizes(past)
        if (two, rows, own, each) != (2, batch, heads, widths[0] // heads) or widths[1] != widths[2]:
            raise Unmapped(
                f"what was before of shape {list(made.sizes(past))} for {batch} rows of {heads} heads"
            )
    if before:
        halves = made.split(made.input(past), [1, 1], 0)
        earlier = [made.reshape(half, (batch, heads, before, widths[0] // heads)) for half in halves]
        k, v = (made("Concat", a, b, axis=2) for a, b in zip(earlier, (k, v), strict=True))
    if made.output(1):
        if widths[1] != widths[2]:
            raise Unmapped(
                "keys and values of different widths, of which there is an output for the next call"
            )
        shape = 1, batch, heads, before + length, widths[1] // heads
        made("Concat", *[made.reshape(one, shape) for one in (k, v)], into=made.output(1), axis=0)
    size = Sizes(batch, heads, length, before + length, before)
    fill = float(made.attribute("mask_filter_value", FILL))
    added = [_mask(made, mask, size, fill) if made.input(mask) else "", made.input(bias) if bias >= 0 else ""]
    causal, scale = bool(made.attribute("unidirectional", 0)), float(made.attribute("scale", 0.0))
    _attend(made, (q, k, v), size, added, causal=causal, width=widths[2], scale=scale)


def _attention(made: Rewriting) -> None:
    made.only(6, 2)
    made.usual(rotary_embedding_dim=0)
    total = made.sizes(1)[-1]
    widths = list(made.attribute("qkv_hidden_sizes", ())) or [total // 3] * 3
    if len(widths) != 3 or sum(widths) != total:
        raise Unmapped(f"queries, keys and values of widths {widths} from weights of {total} columns")
    product = made("MatMul", made.input(0), made.input(1))
    product = made("Add", product, made.input(2)) if made.input(2) else product
    self_attention(made, product, widths, 3, 4, 5)


# --- queries, keys and values apart ----------------------------------------------------------------------


def _packed(made: Rewriting, place: int, heads: int) -> list[str]:
    """Several of queries, keys and values in one input of rank 5, (batch, length, heads, how many, each)."""
    batch, length, own, count, each = made.sizes(place)
    if own != heads:
        raise Unmapped(f"an input of {own} heads where num_heads says {heads}")
    parts = made.split(made.input(place), [1] * count, 3)
    shape = batch, length, heads, each
    return [made("Transpose", made.reshape(part, shape), perm=[0, 2, 1, 3]) for part in parts]


def _biases(made: Rewriting, widths: Sequence[int]) -> list[str]:
    """The biases of queries, keys and values; empty ones where there are none."""
    if not made.input(3):
        return ["", "", ""]
    return made.split(made.input(3), widths, 0)


def _multi_head(made: Rewriting) -> None:
    made.only(8, 3)
    heads = made.positive("num_heads")
    shape = made.sizes(0)
    batch, queries = shape[:2]
    key = made.sizes(1) if made.input(1) else ()
    if len(shape) == 5:
        made.without(1, 2, 3)
        q, k, v = _packed(made, 0, heads)
        keys, each = queries, shape[4]
    else:
        q, k, v, keys, each = _apart(made, heads, key)
    past = 0
    if made.input(6) or made.input(7):
        past = made.sizes(6)[2]
        if made.sizes(6)[:2] != (batch, heads) or made.sizes(7)[:3] != (batch, heads, past):
            raise Unmapped(
                f"what was before of shape {list(made.sizes(6))} for {batch} rows of {heads} heads"
            )
    if past:
        k, v = (made("Concat", made.input(place), one, axis=2) for place, one in ((6, k), (7, v)))
    for place, one in ((1, k), (2, v)):
        if made.output(place):
            made("Identity", one, into=made.output(place))
    size = Sizes(batch, heads, queries, past + keys, past)
    fill = float(made.attribute("mask_filter_value", FILL))
    added = [_mask(made, 4, size, fill) if made.input(4) else "", made.input(5)]
    causal, scale = bool(made.attribute("unidirectional", 0)), float(made.attribute("scale", 0.0))
    _attend(made, (q, k, v), size, added, causal=causal, width=heads * each, scale=scale)


def _apart(made: Rewriting, heads: int, key: Sequence[int]) -> tuple[str, str, str, int, int]:
    """Queries, keys and values by heads, how many keys there are, and the width of a head of the values."""
    batch, queries, width = made.sizes(0)
    if width % heads:
        raise Unmapped(f"queries of width {width} for {heads} heads")
    if len(key) == 4 and made.input(2):  # by heads already, as they were kept from an earlier call
        keys, each = key[2], made.sizes(2)[3]
        bias = _biases(made, [width, key[1] * key[3], each * heads])[0]
        query = made("Add", made.input(0), bias) if bias else made.input(0)
        return _heads(made, query, batch, queries, heads, width), made.input(1), made.input(2), keys, each
    if len(key) == 5:
        made.without(2, 3)
        k, v = _packed(made, 1, heads)
        return _heads(made, made.input(0), batch, queries, heads, width), k, v, key[1], key[4]
    if len(key) != 3 or made.rank(2) != 3:
        raise Unmapped("keys or values that are neither apart nor packed")
    keys, last = key[1], made.sizes(2)[2]
    widths = [width, key[2], last]
    if any(one % heads for one in widths):
        raise Unmapped(f"queries, keys and values of widths {widths} for {heads} heads")
    parts: list[str] = []
    for place, (bias, length, own) in enumerate(
        zip(_biases(made, widths), (queries, keys, keys), widths, strict=True)
    ):
        x = made("Add", made.input(place), bias) if bias else made.input(place)
        parts.append(_heads(made, x, batch, length, heads, own))
    return parts[0], parts[1], parts[2], keys, last // heads


# --- rotations -------------------------------------------------------------------------------------------


def _rotated(made: Rewriting) -> None:
    made.only(4, 1)
    made.usual(is_packed_batching=0, scale=1.0)
    shape, half = made.sizes(0), made.sizes(2)[1]
    heads, turned = int(made.attribute("num_heads", 0)), int(made.attribute("rotary_embedding_dim", 0))
    interleaved = bool(made.attribute("interleaved", 0))
    if turned and turned != 2 * half:
        raise Unmapped(f"a rotation of {turned} elements by {half} angles")
    if len(shape) == 4:
        batch, heads, length, each = shape
        inner = shape
    else:
        batch, length, width = shape
        heads = heads or width // (2 * half)
        each = width // max(1, heads)
        inner = batch, length, heads, each
    if heads < 1 or heads * each * length * batch != int(np.prod(shape)) or 2 * half > each:
        raise Unmapped(f"a rotation of shape {list(shape)} for {heads} heads by {half} angles")
    places = made.input(1)
    if made.sizes(1) == (1,):
        counts = made.constant("counts", np.arange(length, dtype=made.dtype(1)))
        places = made.reshape(made("Add", places, counts), (1, length))
    elif made.sizes(1) != (batch, length):
        raise Unmapped(f"places of shape {list(made.sizes(1))} for {batch} rows of {length}")
    rows = made.sizes(1)[0] if made.sizes(1) != (1,) else 1
    around = (rows, 1, length, half) if len(shape) == 4 else (rows, length, 1, half)
    cos, sin = (made.reshape(made("Gather", made.input(place), places), around) for place in (2, 3))
    y = _turned(made, made.reshape(made.input(0), inner), inner, (cos, sin), interleaved=interleaved)
    made.reshape(y, shape, into=made.output(0))


def _turned(
    made: Rewriting, x: str, shape: Sequence[int], angles: tuple[str, str], *, interleaved: bool
) -> str:
    """Pairs of elements of the last axis turned, halves of it or neighbours; what is behind them stays.

    Args:
        shape: of the tensor, of rank 4.
        angles: cosine and sine, for as many pairs as they have.
    """
    cos, sin = angles
    half = made.sizes(2)[1]
    each = shape[3]
    rest = ""
    if 2 * half < each:
        x, rest = made.split(x, [2 * half, each - 2 * half], 3)
    if interleaved:
        x = made.reshape(x, (*shape[:3], half, 2))
        a, b = made.split(x, [1, 1], 4)
        a, b = (made.reshape(one, (*shape[:3], half)) for one in (a, b))
    else:
        a, b = made.split(x, [half, half], 3)
    first = made("Sub", made("Mul", a, cos), made("Mul", b, sin))
    second = made("Add", made("Mul", a, sin), made("Mul", b, cos))
    if interleaved:
        pairs = [made.reshape(one, (*shape[:3], half, 1)) for one in (first, second)]
        y = made.reshape(made("Concat", *pairs, axis=4), (*shape[:3], 2 * half))
    else:
        y = made("Concat", first, second, axis=3)
    return made("Concat", y, rest, axis=3) if rest else y


REWRITES: Mapping[str, Rewrite] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "RotaryEmbedding": _rotated,
}
"""Op → nodes of ONNX's own op set."""
