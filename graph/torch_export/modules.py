"""What ops of a torch module are called: after the submodule that they are of, `layer1.0.conv1`."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast


def titles(nodes: Iterable[Any]) -> dict[str, str]:
    """Names of ops, by the name of the exported program's node.

    An op that is all that a submodule does has the submodule's path. One of several has the ATen op's name behind it,
    `layer1.0.add`, and what no submodule does keeps the node's name.

    Args:
        nodes: of the program, in order; only calls count.
    """
    calls = [node for node in nodes if node.op == "call_function" and node.target is not operator.getitem]
    stacks = {node.name: _stack(node) for node in calls}
    called = Counter(stack[-1][0] for stack in stacks.values() if stack)
    outer = {path for stack in stacks.values() for _, path in stack[:-1]}
    found: dict[str, str] = {}
    for name, stack in stacks.items():
        if not stack or not stack[-1][1]:
            found[name] = name
            continue
        call, path = stack[-1]
        alone = called[call] == 1 and path not in outer
        found[name] = path if alone else f"{path}.{re.sub(r'_[0-9]+$', '', name).strip('_')}"
    return found


def _stack(node: Any) -> list[tuple[str, str]]:
    """The modules around a node, from the outermost: a key, of which each call has its own, and the path."""
    stack = cast("Mapping[Any, Any]", node.meta.get("nn_module_stack") or {})
    return [(str(key), str(value[0])) for key, value in stack.items()]
