"""ONNX ops in ops of oneDNN Graph: element by element, and products.

A translation takes the node and returns its output, or its outputs in order; `TABLE` has one for each op. What it knows
of the op's versions and attributes is a row of `known.py`: whatever else a node has is refused.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..importing.expressions import (
    binary,
    cast,
    chain,
    clamp,
    matmul,
    multiplied,
    negative,
    operands,
    power,
    silu,
    where,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of
from .node import Node, Translate
from .types import numpy_type_of

OPS = Entries[Translate]()
"""ONNX op → its translation."""


# --- element by element ----------------------------------------------------------------------------------

SAME = {
    "Relu": "ReLU",
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
    "Exp": "Exp",
    "Log": "Log",
    "Sqrt": "Sqrt",
    "Abs": "Abs",
    "Reciprocal": "Reciprocal",
    "Round": "Round",
    "Softplus": "SoftPlus",
    "Mish": "Mish",
    "HardSwish": "HardSwish",
}
"""Ops of one input that are called something else at most."""
BINARY = {"Add": "Add", "Sub": "Subtract", "Mul": "Multiply", "Div": "Divide"}
VARIADIC = {"Sum": "Add", "Max": "Maximum", "Min": "Minimum"}


def _same(t: Translation, node: Node, kind: str) -> Value:
    return t.op(kind, node[0])


def _binary(t: Translation, node: Node, kind: str) -> Value:
    if kind == "Divide" and dtype_of(node[0]).kind in "iu":
        return t.op("HostDivide", *operands(t, node[0], node[1]))
    return binary(t, kind, node[0], node[1])


def _variadic(t: Translation, node: Node, kind: str) -> Value:
    return chain(t, kind, node.given())


OPS.add({name: partial(_same, kind=kind) for name, kind in SAME.items()})
OPS.add({name: partial(_binary, kind=kind) for name, kind in BINARY.items()})
OPS.add({name: partial(_variadic, kind=kind) for name, kind in VARIADIC.items()})


@OPS.enter("Neg")
def _neg(t: Translation, node: Node) -> Value:
    return negative(t, node[0])


@OPS.enter("Mean")
def _mean(t: Translation, node: Node) -> Value:
    values = node.given()
    return binary(t, "Multiply", chain(t, "Add", values), 1 / len(values))


@OPS.enter("LeakyRelu")
def _leaky_relu(t: Translation, node: Node) -> Value:
    return t.op("LeakyReLU", node[0], alpha=node.get("alpha", 0.01))


@OPS.enter("PRelu")
def _prelu(t: Translation, node: Node) -> Value:
    return t.op("PReLU", node[0], node[1], data_format="NCX", per_channel_broadcast=False)


@OPS.enter("Elu")
def _elu(t: Translation, node: Node) -> Value:
    return t.op("Elu", node[0], alpha=node.get("alpha", 1.0))


@OPS.enter("Selu")
def _selu(t: Translation, node: Node) -> Value:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return binary(t, "Multiply", t.op("Elu", node[0], alpha=alpha), gamma)


@OPS.enter("Celu")
def _celu(t: Translation, node: Node) -> Value:
    alpha = node.get("alpha", 1.0)
    if not alpha > 0:
        raise Unmapped(f"an alpha of {alpha}; it must be above 0")
    return binary(t, "Multiply", t.op("Elu", binary(t, "Divide", node[0], alpha), alpha=1.0), alpha)


@OPS.enter("Softsign")
def _softsign(t: Translation, node: Node) -> Value:
    return binary(t, "Divide", node[0], binary(t, "Add", t.op("Abs", node[0]), 1.0))


@OPS.enter("Swish")
def _swish(t: Translation, node: Node) -> Value:
    alpha = node.get("alpha", 1.0)
    if alpha == 1:
        return silu(t, node[0])
    return t.op("Multiply", node[0], t.op("Sigmoid", binary(t, "Multiply", node[0], alpha)))


@OPS.enter("HardSigmoid")
def _hard_sigmoid(t: Translation, node: Node) -> Value:
    return t.op("HardSigmoid", node[0], alpha=node.get("alpha", 0.2), beta=node.get("beta", 0.5))


@OPS.enter("Gelu")
def _gelu(t: Translation, node: Node) -> Value:
    return t.op("GELU", node[0], mode="gelu_tanh" if node.get("approximate") == "tanh" else "gelu_erf")


@OPS.enter("Clip")
def _clip(t: Translation, node: Node) -> Value:
    low, high = node.number(1, "min"), node.number(2, "max")
    for bound in (low, high):
        if bound is not None and math.isnan(bound):
            raise Unmapped("one of its bounds is NaN, with which ONNX does not say what comes out")
    if low is not None and high is not None and low > high:  # all become the upper bound, but for NaN
        return binary(t, "Minimum", binary(t, "Maximum", node[0], low), high)
    return clamp(t, node[0], low, high)


@OPS.enter("Pow")
def _pow(t: Translation, node: Node) -> Value:
    made, dtype = power(t, node[0], node[1]), dtype_of(node[0])
    return made if dtype_of(made) == dtype else cast(t, made, dtype)  # whatever type the exponent has


@OPS.enter("Where")
def _where(t: Translation, node: Node) -> Value:
    return where(t, node[0], node[1], node[2])


@OPS.enter("Identity", "Dropout")
def _identity(t: Translation, node: Node) -> Value:
    if node.kind == "Dropout" and bool(node.number(2, "training_mode", 0.0)):
        raise Unmapped("a dropout in training mode")
    return node[0]


@OPS.enter("Cast", "CastLike")
def _cast(t: Translation, node: Node) -> Value:
    dtype = numpy_type_of(node.get("to")) if node.kind == "Cast" else dtype_of(node[1])
    return cast(t, node[0], dtype)


# --- products --------------------------------------------------------------------------------------------


@OPS.enter("MatMul")
def _matmul(t: Translation, node: Node) -> Value:
    return matmul(t, node[0], node[1])


@OPS.enter("Gemm")
def _gemm(t: Translation, node: Node) -> Value:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    flags = {"transpose_a": bool(node.get("transA", 0)), "transpose_b": bool(node.get("transB", 0))}
    bias = node.optional(2)
    if bias is not None and alpha == 1 and beta == 1 and len(shape_of(bias)) == 1:
        columns = shape_of(node[1])[0 if flags["transpose_b"] else 1]
        if shape_of(bias) == (columns,):
            return t.op("MatMul", node[0], node[1], bias, **flags)
    product: Value = t.op("MatMul", node[0], node[1], **flags)
    if alpha != 1:
        product = binary(t, "Multiply", product, alpha)
    if bias is None or beta == 0:
        return product
    if beta != 1:
        bias = (
            multiplied(bias, beta, product)
            if isinstance(bias, np.ndarray)
            else binary(t, "Multiply", bias, beta)
        )
    return binary(t, "Add", product, bias)
