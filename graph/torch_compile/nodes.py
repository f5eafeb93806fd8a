"""What torch says of the nodes of an ATen graph."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

from ..aten.schema import draws
from .aten_table import VIEWS
from .framework import torch

WITH_STATISTICS = frozenset(
    f"aten.{name}"
    for name in (
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit",
        "native_batch_norm",
        "native_layer_norm",
        "native_group_norm",
    )
)
"""Normalisations that return mean and inverse deviation beside the data."""
SPATIAL = frozenset(
    f"aten.{name}"
    for name in (
        "convolution",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "native_batch_norm",
        "max_pool2d_with_indices",
        "avg_pool2d",
        "convolution_backward",
        "native_batch_norm_backward",
    )
)
"""Ops whose results are data of convolutions."""


def is_symbol(meta: Any) -> bool:
    """Whether a size is open."""
    return isinstance(meta, torch.SymInt) and not meta.node.expr.is_Integer


def has_several(node: Any) -> bool:
    """Whether its result is a sequence."""
    return isinstance(node.meta.get("val"), list | tuple)


def is_view(target: Any) -> bool:
    """Whether an op looks at memory in another way."""
    return str(target) in VIEWS


def mutates(target: Any) -> bool:
    """Whether an op writes to an argument."""
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable


def is_pure(node: Any) -> bool:
    """Whether an op may be computed once, at another time, or, where nobody reads its results, never."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target in (operator.getitem,) or getattr(target, "__module__", "") in ("_operator", "math")
    if not target._schema.returns:
        return False  # it is there for what it does: most check something
    return not mutates(target) and not draws(target, node.args, node.kwargs)


def strangeness(node: Any) -> str | None:
    """Why an op's tensors are none that anybody but torch can read: what lies elsewhere, and what is not strided."""
    for one in (node, *node.all_input_nodes):
        meta = one.meta.get("val")
        for tensor in cast("Sequence[Any]", meta) if isinstance(meta, list | tuple) else [meta]:
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.device.type != "cpu":
                return f"it is on the device {tensor.device}"
            if tensor.layout is not torch.strided:
                return f"its layout is {tensor.layout}"
    return None


def read_results(node: Any) -> set[int]:
    """Numbers of the results that somebody reads."""
    if not has_several(node):
        return {0}
    if all(user.target is operator.getitem for user in node.users):
        return {user.args[1] for user in node.users}
    return set(range(len(node.meta["val"])))
