"""What is put into an argument and written back to it: done where it lies, as eager torch does with a cache."""

from __future__ import annotations

from typing import Any

from ..framework import aten, torch

IN_PLACE: dict[Any, Any] = {
    aten.index_copy.default: aten.index_copy_.default,
    aten.index_put.default: aten.index_put_.default,
}
"""Ops that make a copy with some elements replaced → those that replace them."""


def written_at_once(node: Any) -> Any | None:
    """The argument of the graph that a node may replace elements of; None if it may not.

    That is so where nobody reads what was there before, and the graph ends with what the node makes in it.
    """
    if node.target not in IN_PLACE or any(user.op == "output" for user in node.users):
        return None
    held, *more = node.args
    if not isinstance(held, torch.fx.Node) or held.op != "placeholder" or len(held.users) != 2:
        return None
    if any(one is True for one in more) or node.kwargs:  # numbers are added to what is there
        return None
    if any(held is one or (isinstance(one, list | tuple) and held in one) for one in more):
        return None
    back = next(user for user in held.users if user is not node)
    ends = back.target is aten.copy_.default and back.args == (held, node) and not back.users
    return held if ends else None
