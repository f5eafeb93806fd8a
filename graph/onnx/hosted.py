"""ONNX ops that oneDNN Graph has none for: on the host, but for Einstein sums, which are products of matrices."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..importing.einsum import einsum
from ..importing.expressions import operands
from ..importing.hosted import compared, cumulative, extreme, logical
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, shape_of
from .node import Node, Translate

OPS = Entries[Translate]()
"""ONNX op → its translation."""


COMPARISONS = {
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterOrEqual": "GreaterEqual",
    "Less": "Less",
    "LessOrEqual": "LessEqual",
}
LOGICAL = {
    "And": "And",
    "Or": "Or",
    "Xor": "Xor",
    "BitwiseAnd": "And",
    "BitwiseOr": "Or",
    "BitwiseXor": "Xor",
}
FUNCTIONS = {
    "BitwiseNot": "HostNot",
    **{
        name: f"Host{name}"
        for name in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan")
    },
    "Ceil": "HostCeil",
    "Cos": "HostCos",
    "Erf": "HostErf",
    "Floor": "HostFloor",
    "Not": "HostNot",
    "Sign": "HostSign",
    "Sin": "HostSin",
}


def _compared(t: Translation, node: Node, kind: str) -> Value:
    return compared(t, kind, node[0], node[1])


def _logical(t: Translation, node: Node, kind: str) -> Value:
    return logical(t, kind, node[0], node[1])


def _function(t: Translation, node: Node, kind: str) -> Value:
    return t.op(kind, node[0])


OPS.add({name: partial(_compared, kind=kind) for name, kind in COMPARISONS.items()})
OPS.add({name: partial(_logical, kind=kind) for name, kind in LOGICAL.items()})
OPS.add({name: partial(_function, kind=kind) for name, kind in FUNCTIONS.items()})


@OPS.enter("IsNaN")
def _is_nan(t: Translation, node: Node) -> Value:
    if t.is_dequantised(node[0]) and -1 not in shape_of(node[0]):
        return np.zeros(shape_of(node[0]), np.bool_)
    return t.op("HostIsNaN", node[0])


@OPS.enter("IsInf")
def _is_inf(t: Translation, node: Node) -> Value:
    if not node.get("detect_negative", 1) or not node.get("detect_positive", 1):
        raise Unmapped("a search for infinities of one sign; compare with one instead")
    return t.op("HostIsInf", node[0])


@OPS.enter("Mod")
def _mod(t: Translation, node: Node) -> Value:
    return t.op("HostModulo", *operands(t, node[0], node[1]), of_dividend=bool(node.get("fmod", 0)))


@OPS.enter("CumSum")
def _cum_sum(t: Translation, node: Node) -> Value:
    axis = node.number(1, "axis")
    if axis is None:
        raise Unmapped("its axis is missing")
    exclusive, reverse = bool(node.get("exclusive", 0)), bool(node.get("reverse", 0))
    return cumulative(t, node[0], int(axis), exclusive=exclusive, reverse=reverse)


@OPS.enter("ArgMax", "ArgMin")
def _extreme(t: Translation, node: Node) -> Value:
    last, keep = bool(node.get("select_last_index", 0)), bool(node.get("keepdims", 1))
    return extreme(t, node.kind, node[0], node.get("axis", 0), keep, last=last)


@OPS.enter("Einsum")
def _einsum(t: Translation, node: Node) -> Value:
    return einsum(t, node.get("equation", ""), node.given())
