"""The translations of ATen ops, forward and backward, by name."""

from __future__ import annotations

import math
from typing import Any

from ...aten.schema import Translate
from ...aten.table import AUTOGRAD
from ...importing.translation import Translation, Unmapped, Value, shape_of
from ..framework import aten

LEFT_TO_TORCH = frozenset(
    f"aten.{name}"
    for name in (
        *("native_dropout", "bernoulli", "dropout"),
        *("embedding", "gather", "index_select"),
        *("sort", "topk", "sign"),
        *("amax", "amin", "max.default", "min.default"),
    )
)
"""Ops that importers translate and that stay with torch here, for what is expected of torch: its random numbers
(dropout, bernoulli), its errors for indices out of range (embedding, gather, index_select), its order among equal
elements (sort, topk), zero for the sign of NaN, and infinity for the extreme of a row that is infinite altogether, as
masked scores are, of which the library makes the largest number (amax, amin, max, min)."""
INEXACT = frozenset(
    f"aten.{name}"
    for name in ("log", "log2", "log10", "_log_softmax", "softplus", "log_sigmoid", "logsumexp")
)
"""Ops whose primitives take logarithms that are right to 4e-6, not to their last digit: torch's have all digits of
what is near 0."""
MOST_SCORES = 1 << 22
"""Scores of an attention that a region makes at most; torch's kernel makes more of them in blocks."""


FEWEST_QUERIES = 8
"""Positions that ask at least: products of fewer rows, as at each step of a generation, take several times as long as
torch's kernel."""


def _attention(t: Translation, query: Value, key: Value, *more: Any) -> Any:
    """Attention where it takes no longer than torch's kernel.

    Raises:
        Unmapped: it would.
    """
    asking = shape_of(query)[-2]
    if asking < FEWEST_QUERIES:
        raise Unmapped(f"{asking} positions ask, for which torch's kernel is faster")
    scores = math.prod(shape_of(query)[:-1]) * shape_of(key)[-2]
    if scores > MOST_SCORES:
        raise Unmapped(f"its {scores:,} scores are more than are made at once")
    return AUTOGRAD[ATTENTION](t, query, key, *more)


ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu"
"""What torch makes of attention on the CPU."""
TABLE: dict[str, Translate] = {
    name: function
    for name, function in AUTOGRAD.items()
    if not any(name == left or name.startswith(f"{left}.") for left in LEFT_TO_TORCH | INEXACT)
} | {ATTENTION: _attention}
"""Name, with the overload or without → translation."""
VIEWS: dict[str, Any] = {
    f"aten.{name}": function
    for name, function in {
        "view.default": aten.reshape.default,
        "_unsafe_view.default": aten.reshape.default,
        "reshape.default": aten.reshape.default,
        "t.default": aten.t.default,
        "transpose.int": aten.transpose.int,
        "permute.default": aten.permute.default,
        "expand.default": aten.expand.default,
        "unsqueeze.default": aten.unsqueeze.default,
        "squeeze.dim": aten.squeeze.dim,
        "squeeze.dims": aten.squeeze.dims,
        "squeeze.default": aten.squeeze.default,
        "slice.Tensor": aten.slice.Tensor,
        "select.int": aten.select.int,
        "detach.default": aten.detach.default,
        "alias.default": aten.alias.default,
        "split.Tensor": aten.split.Tensor,
        "split_with_sizes.default": aten.split_with_sizes.default,
        "unbind.int": aten.unbind.int,
    }.items()
}
"""Ops that look at memory in another way → what torch is called with; a view that needs a copy makes one."""
