"""What several ONNX nodes say together, for which oneDNN Graph has one op.

A softmax whose rows of −inf, which attention masks make, become zeros instead of NaN. What ops of the set say together
is recognised after the translation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...ops.records import frozen
from ..runtime.arrays import Array

ScalarOf = Callable[[str], "float | None"]


@frozen(eq=False)
class Pattern:
    """One op in the place of several nodes.

    Attributes:
        kind: an ONNX op.
        source: the tensor that it reads.
        attributes: its attributes.
        folded: its value for a constant.
    """

    kind: str
    source: str
    attributes: Mapping[str, Any]
    folded: Callable[[Array], Array]


def patterns(
    nodes: Sequence[Any], scalar_of: ScalarOf, attributes_of: Callable[[Any], dict[str, Any]]
) -> dict[str, Pattern]:
    """What each of these tensors is, by the name of the tensor, from opset 13 on.

    Args:
        nodes: ONNX nodes.
        scalar_of: the number in a constant of one element, by name, or None.
        attributes_of: a node's attributes.
    """
    found: dict[str, Pattern] = {}
    for end, node in safe_softmaxes(nodes, scalar_of).items():
        attributes = attributes_of(node)
        folded = partial(safe_softmax, axis=attributes.get("axis", -1))
        found[end] = Pattern("Softmax", node.input[0], {**attributes, "mode": "inf_as_zero"}, folded)
    return found


def safe_softmaxes(nodes: Sequence[Any], scalar_of: ScalarOf) -> dict[str, Any]:
    """The tensors that are a softmax with 0 in the place of NaN: name → the softmax.

    Of finite numbers and −inf, NaN is what rows of −inf alone give.
    """
    producers = {name: node for node in nodes for name in node.output}
    found: dict[str, Any] = {}
    for node in nodes:
        if not _is(node, "Where") or len(node.input) != 3 or scalar_of(node.input[1]) != 0:
            continue
        test, softmax = producers.get(node.input[0]), producers.get(node.input[2])
        if test is None or not _is(test, "IsNaN") or list(test.input) != [node.input[2]]:
            continue
        if softmax is not None and _is(softmax, "Softmax"):
            found[node.output[0]] = softmax
    return found


def _is(node: Any, kind: str) -> bool:
    """Whether a node is this op of ONNX's own op set."""
    return not node.domain and node.op_type == kind


def safe_softmax(x: Array, axis: int) -> Array:
    """The value of the pattern for a constant."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis, keepdims=True))
        made = powers / powers.sum(axis, keepdims=True)
    return np.where(np.isnan(made), 0, made).astype(x.dtype)
