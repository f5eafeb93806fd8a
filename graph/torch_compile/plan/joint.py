"""Changes of the graph that has forward and backward pass together, before torch cuts it in two."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...aten.layers import spread
from ..framework import aten, inner, torch
from ..mishaps import Mishaps

MAX_POOLS = {
    aten.max_pool2d_with_indices_backward.default: aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices_backward.default: aten.max_pool3d_with_indices.default,
}


def _max_pool_backward(
    grad_output: Any,
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    """By torch's kernels, from the input alone."""
    backward, forward = list(MAX_POOLS.items())[len(kernel_size) - 2]
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    _, indices = forward(x, *window)
    return backward(grad_output, x, *window, indices)


def _shape_of_input(
    grad_output: Any,
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    return torch.empty_like(x)


_library: Any = torch.library.Library("onednn_graph", "DEF")
_library.define(
    "max_pool_backward(Tensor grad_output, Tensor x, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool ceil_mode) -> Tensor"
)
_library.impl("max_pool_backward", _max_pool_backward, "CompositeExplicitAutograd")
torch.library.register_fake("onednn_graph::max_pool_backward", _shape_of_input, lib=_library)


def simplified(graph: Any) -> None:
    """Has the gradient of a max pooling read its input instead of indices, which then need not be kept."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in MAX_POOLS:
            continue
        gradient, x, kernel, stride, padding, dilation, ceil, indices = node.args
        forward = indices.args[0] if indices.target is operator.getitem else None
        if forward is None or forward.target is not MAX_POOLS[node.target] or forward.args[0] is not x:
            continue
        rank = len(x.meta["val"].shape) - 2 if len(x.meta["val"].shape) > 3 else 2
        window = [
            spread(kernel, rank),
            spread(stride or kernel, rank),
            spread(padding, rank),
            spread(dilation, rank),
        ]
        with graph.inserting_before(node):
            made = graph.call_function(
                torch.ops.onednn_graph.max_pool_backward.default, (gradient, x, *window, ceil)
            )
        made.meta = node.meta.copy()
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    graph.eliminate_dead_code()


def partition(mishaps: Mishaps, module: Any, inputs: Sequence[Any], **how: Any) -> tuple[Any, Any]:
    """Cuts a joint graph into forward and backward pass: all that the latter reads is kept, nothing computed again."""
    try:
        simplified(module.graph)
        module.recompile()
    except Exception as error:  # each change is whole: what was changed so far is right
        mishaps.note(error, (), "simplifying forward and backward pass")
    return inner("torch._functorch.partitioners", "default_partition")(module, inputs, **how)
