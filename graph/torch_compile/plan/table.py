"""The translations of ATen ops, forward and backward, by name."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...aten import spelled
from ...aten.schema import Translate
from ...aten.table import AUTOGRAD
from ...importing.expressions import FLOATS, Operand
from ...importing.translation import Translation, Unmapped, Value, dtype_of, shape_of
from ..framework import aten

LEFT_TO_TORCH = frozenset(
    f"aten.{name}"
    for name in (
        *("native_dropout", "bernoulli", "dropout", "_int_mm"),
        *("embedding", "gather", "index_select", "_embedding_bag", "_embedding_bag_forward_only"),
        *("scatter", "scatter_add", "scatter_reduce"),
        *("sort", "topk", "sign"),
        *("amax", "amin", "max.default", "min.default"),
        *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    )
) | frozenset(spelled.OPS)
"""Ops that importers translate and that stay with torch here, for what is expected of torch: its random numbers
(dropout, bernoulli), its errors for indices out of range, below 0 as well, which NumPy counts from the end (embedding,
gather, index_select, scatter and their like), its order among equal elements (sort, topk), zero for the sign of NaN,
and infinity for the extreme of a row that is infinite altogether, as masked scores are, of which the library makes the
largest number (amax, amin, max, min), and its kernel for products of bytes (_int_mm). And those for which it has one
kernel where importers need several ops, or a product with a matrix that is mostly zeros."""
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


def _of_whole_numbers(translate: Translate, t: Translation, a: Operand, b: Operand, *more: Any) -> Any:
    """A division that torch rounds, of floating-point numbers, or of whole ones by what is never 0.

    Raises:
        Unmapped: it may be of whole numbers by 0: an error of torch's, and 0 of NumPy's.
    """
    rounded = more != (None,)  # without a mode of rounding the quotient is a floating-point number
    if rounded and _is_whole(a) and _is_whole(b):
        known = b if isinstance(b, int | np.ndarray) else 0
        if not np.all(known):
            raise Unmapped("whole numbers are divided by what may be 0, which is an error of torch's")
    return translate(t, a, b, *more)


def _is_whole(one: Operand) -> bool:
    """Whether it has whole numbers, or truths."""
    return isinstance(one, int) if isinstance(one, int | float) else dtype_of(one) not in FLOATS


def _of_fractions(translate: Translate, t: Translation, *operands: Any) -> Any:
    """A product of matrices of floating-point numbers.

    Raises:
        Unmapped: it is of whole numbers, of which torch has kernels.
    """
    if any(not isinstance(one, int | float) and dtype_of(one) not in FLOATS for one in operands):
        raise Unmapped("whole numbers are multiplied, for which torch has kernels")
    return translate(t, *operands)


PRODUCTS = frozenset(f"aten.{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "mv"))
"""Products of matrices."""
DIVISIONS = frozenset(
    f"aten.{name}"
    for name in (
        *("div.Tensor_mode", "div.Scalar_mode", "floor_divide"),
        *("remainder", "fmod.Tensor", "fmod.Scalar"),
    )
)
"""Ops that divide whole numbers as such."""
ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu"
"""What torch makes of attention on the CPU."""
_TAKEN: dict[str, Translate] = {
    name: function
    for name, function in AUTOGRAD.items()
    if not any(name == left or name.startswith(f"{left}.") for left in LEFT_TO_TORCH | INEXACT)
}
TABLE: dict[str, Translate] = (
    _TAKEN
    | {name: partial(_of_whole_numbers, _TAKEN[name]) for name in DIVISIONS}
    | {name: partial(_of_fractions, _TAKEN[name]) for name in PRODUCTS}
    | {ATTENTION: _attention}
)
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
