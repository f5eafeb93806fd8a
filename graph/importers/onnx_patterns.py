"""What several ONNX nodes say together, for which oneDNN Graph has one op.

GELU written with Erf, and a softmax whose rows of −inf, which attention masks make, become zeros instead of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from ..runtime.arrays import Array

CLOSE = 5e-4
"""How far a constant may be off, relatively: models have √2 in half precision too."""

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
    """What each of these tensors is, by the name of the tensor.

    Args:
        nodes: ONNX nodes.
        scalar_of: the number in a constant of one element, by name, or None.
        attributes_of: a node's attributes.
    """
    found = {end: Pattern("Gelu", x, {}, gelu) for end, x in erf_gelus(nodes, scalar_of).items()}
    for end, node in safe_softmaxes(nodes, scalar_of).items():
        attributes = attributes_of(node)
        folded = partial(safe_softmax, axis=attributes.get("axis", -1))
        found[end] = Pattern("Softmax", node.input[0], {**attributes, "mode": "inf_as_zero"}, folded)
    return found


def _is(number: float | None, wanted: float) -> bool:
    return number is not None and math.isclose(number, wanted, rel_tol=CLOSE)


def erf_gelus(nodes: Sequence[Any], scalar_of: ScalarOf) -> dict[str, str]:
    """The tensors that are x · (1 + erf(x / √2)) / 2, in whatever order the factors are multiplied: name → x.

    Args:
        nodes: ONNX nodes.
        scalar_of: the number in a constant of one element, by name, or None.
    """
    producers = {name: node for node in nodes for name in node.output}
    readers: dict[str, list[Any]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def scaled(name: str) -> tuple[str, float] | None:
        """(x, factor) of what is x · factor or x / number."""
        node = producers.get(name)
        if node is None or node.op_type not in ("Mul", "Div") or len(node.input) != 2:
            return None
        left, right = node.input
        if node.op_type == "Div":
            number = scalar_of(right)
            return (left, 1 / number) if number else None
        for x, other in ((left, right), (right, left)):
            number = scalar_of(other)
            if number is not None:
                return x, number
        return None

    found: dict[str, str] = {}
    for node in nodes:
        if node.op_type != "Erf" or len(node.input) != 1 or len(node.output) != 1:
            continue
        inside = scaled(node.input[0])
        if inside is None or not _is(inside[1], math.sqrt(0.5)):
            continue
        end = _product(inside[0], node.output[0], readers, scalar_of, scaled)
        if end is not None:
            found[end] = inside[0]
    return found


def _product(
    x: str,
    erf: str,
    readers: dict[str, list[Any]],
    scalar_of: ScalarOf,
    scaled: Callable[[str], tuple[str, float] | None],
) -> str | None:
    """The tensor where (1 + erf) has met x and 1/2, or None."""
    add = _only(erf, readers)
    if add is None or add.op_type != "Add" or not _is(scalar_of(_other(add, erf)), 1.0):
        return None
    name, factor, met = add.output[0], 1.0, False
    while True:
        node = _only(name, readers)
        if node is None or node.op_type not in ("Mul", "Div"):
            return None
        other = _other(node, name)
        number = scalar_of(other)
        if node.op_type == "Div":
            if not number or node.input[0] != name:
                return None
            factor /= number
        elif number is not None:
            factor *= number
        elif other == x and not met:
            met = True
        else:
            part = scaled(other)
            if part is None or part[0] != x or met:
                return None
            met, factor = True, factor * part[1]
        name = node.output[0]
        if met and _is(factor, 0.5):
            return name


def _only(name: str, readers: dict[str, list[Any]]) -> Any:
    """The one node that reads a tensor, if it has two inputs and one output."""
    nodes = readers.get(name, [])
    fits = len(nodes) == 1 and len(nodes[0].input) == 2 and len(nodes[0].output) == 1
    return nodes[0] if fits else None


def _other(node: Any, name: str) -> str:
    """The other input of a node of two."""
    left, right = node.input
    return right if left == name else left


def gelu(x: Array) -> Array:
    """The value of the pattern for a constant."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        erf = np.vectorize(math.erf, otypes=[np.float64])(wide / math.sqrt(2))
        return (wide * (1 + erf) / 2).astype(x.dtype)


def safe_softmaxes(nodes: Sequence[Any], scalar_of: ScalarOf) -> dict[str, Any]:
    """The tensors that are a softmax with 0 in the place of NaN: name → the softmax.

    Of finite numbers and −inf, NaN is what rows of −inf alone give.
    """
    producers = {name: node for node in nodes for name in node.output}
    found: dict[str, Any] = {}
    for node in nodes:
        if node.op_type != "Where" or len(node.input) != 3 or scalar_of(node.input[1]) != 0:
            continue
        test, softmax = producers.get(node.input[0]), producers.get(node.input[2])
        if test is None or test.op_type != "IsNaN" or list(test.input) != [node.input[2]]:
            continue
        if softmax is not None and softmax.op_type == "Softmax":
            found[node.output[0]] = softmax
    return found


def safe_softmax(x: Array, axis: int) -> Array:
    """The value of the pattern for a constant."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis, keepdims=True))
        made = powers / powers.sum(axis, keepdims=True)
    return np.where(np.isnan(made), 0, made).astype(x.dtype)
