"""What torch says of the nodes of an ATen graph."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, cast

from ...aten.schema import draws
from ..framework import torch
from ..tensors import CHANNELS_LAST
from .table import VIEWS

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


def may_lie_otherwise(node: Any) -> bool:
    """Whether an argument of a backward pass may have been saved channels last, however it was traced.

    What the graph writes to is left out, as that is the user's.
    """
    meta = node.meta.get("val")
    if not isinstance(meta, torch.Tensor) or meta.layout is not torch.strided:
        return False
    return len(meta.shape) in CHANNELS_LAST and not any(mutates(user.target) for user in node.users)


def is_pure(node: Any) -> bool:
    """Whether an op may be computed once, at another time, or, where nobody reads its results, never."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target in (operator.getitem,) or getattr(target, "__module__", "") in ("_operator", "math")
    if not target._schema.returns:
        return False  # it is there for what it does: most check something
    return not mutates(target) and not draws(target, node.args, node.kwargs)


def is_lasting(node: Any) -> bool:
    """Whether what an op does can't be done again from the same arguments and random numbers."""
    if is_pure(node):
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable:
        return True
    return not str(node.target).startswith("aten._assert") and not draws(node.target, node.args, node.kwargs)


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


def overlaid(wanted: Iterable[Any]) -> set[Any]:
    """Views on the way to outputs of which several look at one tensor: they must do so for users, too."""
    chains: dict[Any, list[list[Any]]] = {}
    for node in wanted:
        if isinstance(node, torch.fx.Node):
            root, views = _looked_at(node)
            chains.setdefault(root, []).append(views)
    return {view for several in chains.values() if len(several) > 1 for views in several for view in views}


def _looked_at(node: Any) -> tuple[Any, list[Any]]:
    """What a node is a view of in the end, and the views on the way there."""
    views: list[Any] = []
    while node.op == "call_function" and (node.target is operator.getitem or is_view(node.target)):
        if is_view(node.target):
            views.append(node)
        node = node.args[0]
    return node, views
