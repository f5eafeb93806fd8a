"""The option `precision="bf16"`: what torch has traced, run under its autocast."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from .framework import torch


def with_autocast(module: Any) -> Any:
    """A copy of a traced graph under `torch.autocast("cpu", torch.bfloat16)`, with results of the types that it had."""
    made = copy.copy(module)
    made.graph = copy.deepcopy(module.graph)
    graph = made.graph
    mode = torch.amp.autocast_mode
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        entered = graph.call_function(mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    end = next(node for node in reversed(graph.nodes) if node.op == "output")
    with graph.inserting_before(end):
        graph.call_function(mode._exit_autocast, (entered,))
        end.args = torch.fx.map_arg(end.args, partial(_as_it_was, graph))
    made.recompile()
    return made


def _as_it_was(graph: Any, node: Any) -> Any:
    """An output in the type that it has without autocast."""
    example = node.meta.get("example_value")
    if not isinstance(example, torch.Tensor) or not example.is_floating_point() or node.op == "placeholder":
        return node
    return graph.call_method("to", (node, example.dtype))
