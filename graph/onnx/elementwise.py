"""ONNX ops in ops of oneDNN Graph: element by element, and products.

A translation takes the node and returns its output, or its outputs in order; `TABLE` has one for each op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from typing import cast as typed

import numpy as np
from attrs import frozen

from ...ops.values import format_value
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
    uniform,
    where,
)
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of
from ..runtime.arrays import Array
from .types import numpy_type_of


@frozen(eq=False)
class Node:
    """A node of an ONNX graph.

    Attributes:
        kind: its op.
        opset: the version of the op set.
        inputs: values; None for an optional one that is not there.
        outputs: how many of its outputs, from the first, somebody needs.
        listed: how many outputs it has.
        attributes: Python values; strings are str.
    """

    kind: str
    opset: int
    inputs: tuple[Value | None, ...]
    outputs: int
    listed: int
    attributes: Mapping[str, Any]

    def optional(self, index: int) -> Value | None:
        """An input, or None where it is not there."""
        return self.inputs[index] if index < len(self.inputs) else None

    def __getitem__(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise Unmapped(f"input {index} is missing")
        return value

    def given(self) -> list[Value]:
        """All inputs of a variadic op."""
        return [self[index] for index in range(len(self.inputs))]

    def constant(self, index: int, what: str) -> Array | None:
        """An input whose value must be known now, or None where it is not there."""
        value = self.optional(index)
        if value is not None and not isinstance(value, np.ndarray):
            raise Unmapped(f"its {what} must be constant, but other nodes compute it at execution")
        return value

    def integers(self, name: str, index: int, default: Sequence[int] | None = None) -> list[int] | None:
        """A list that is an attribute in some opsets and an input in others."""
        if name in self.attributes:
            return [int(v) for v in self.attributes[name]]
        value = self.constant(index, name) if index >= 0 else None
        if value is None:
            return None if default is None else list(default)
        return [int(v) for v in value.reshape(-1)]

    def number(self, index: int, what: str, default: float | None = None) -> float | None:
        """A constant scalar input, or `default` where it is not there."""
        value = self.constant(index, what)
        if value is None:
            return default
        if value.size != 1:
            raise Unmapped(f"its {what} must be one number, got {value.size}")
        number = float(value.reshape(-1)[0])
        if value.dtype.kind in "iu" and int(number) != int(value.reshape(-1)[0]):
            raise Unmapped(f"its {what} is {value.reshape(-1)[0]}, which no double has")
        return number

    def positive(self, name: str, default: int | None = None) -> int:
        """An attribute that counts something."""
        value = self.get(name, default)
        if not isinstance(value, int) or value < 1:
            raise Unmapped(f"its attribute {name} must be an integer above 0, got {format_value(value)}")
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)


Translate = Callable[[Translation, Node], "Value | Sequence[Value]"]
TABLE: dict[str, Translate] = {}
"""ONNX op → its translation."""


def onnx_op(*kinds: str) -> Callable[[Translate], Translate]:
    """Enters a translation."""

    def enter(function: Translate) -> Translate:
        TABLE.update(dict.fromkeys(kinds, function))
        return function

    return enter


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


TABLE.update({name: partial(_same, kind=kind) for name, kind in SAME.items()})
TABLE.update({name: partial(_binary, kind=kind) for name, kind in BINARY.items()})
TABLE.update({name: partial(_variadic, kind=kind) for name, kind in VARIADIC.items()})


@onnx_op("Neg")
def _neg(t: Translation, node: Node) -> Value:
    return negative(t, node[0])


@onnx_op("Mean")
def _mean(t: Translation, node: Node) -> Value:
    values = node.given()
    return binary(t, "Multiply", chain(t, "Add", values), 1 / len(values))


@onnx_op("LeakyRelu")
def _leaky_relu(t: Translation, node: Node) -> Value:
    return t.op("LeakyReLU", node[0], alpha=node.get("alpha", 0.01))


@onnx_op("PRelu")
def _prelu(t: Translation, node: Node) -> Value:
    return t.op("PReLU", node[0], node[1], data_format="NCX", per_channel_broadcast=False)


@onnx_op("Elu")
def _elu(t: Translation, node: Node) -> Value:
    return t.op("Elu", node[0], alpha=node.get("alpha", 1.0))


@onnx_op("Selu")
def _selu(t: Translation, node: Node) -> Value:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return binary(t, "Multiply", t.op("Elu", node[0], alpha=alpha), gamma)


@onnx_op("Celu")
def _celu(t: Translation, node: Node) -> Value:
    alpha = node.get("alpha", 1.0)
    if not alpha > 0:
        raise Unmapped(f"an alpha of {alpha}; it must be above 0")
    return binary(t, "Multiply", t.op("Elu", binary(t, "Divide", node[0], alpha), alpha=1.0), alpha)


@onnx_op("Softsign")
def _softsign(t: Translation, node: Node) -> Value:
    return binary(t, "Divide", node[0], binary(t, "Add", t.op("Abs", node[0]), 1.0))


@onnx_op("Swish")
def _swish(t: Translation, node: Node) -> Value:
    alpha = node.get("alpha", 1.0)
    if alpha == 1:
        return silu(t, node[0])
    return t.op("Multiply", node[0], t.op("Sigmoid", binary(t, "Multiply", node[0], alpha)))


@onnx_op("HardSigmoid")
def _hard_sigmoid(t: Translation, node: Node) -> Value:
    return t.op("HardSigmoid", node[0], alpha=node.get("alpha", 0.2), beta=node.get("beta", 0.5))


@onnx_op("Gelu")
def _gelu(t: Translation, node: Node) -> Value:
    return t.op("GELU", node[0], mode="gelu_tanh" if node.get("approximate") == "tanh" else "gelu_erf")


@onnx_op("Clip")
def _clip(t: Translation, node: Node) -> Value:
    low, high = node.number(1, "min"), node.number(2, "max")
    for bound in (low, high):
        if bound is not None and math.isnan(bound):
            raise Unmapped("one of its bounds is NaN, with which ONNX does not say what comes out")
    if low is not None and high is not None and low > high:  # all become the upper bound, but for NaN
        return binary(t, "Minimum", binary(t, "Maximum", node[0], low), high)
    return clamp(t, node[0], low, high)


@onnx_op("Pow")
def _pow(t: Translation, node: Node) -> Value:
    return power(t, node[0], node[1])


@onnx_op("Where")
def _where(t: Translation, node: Node) -> Value:
    return where(t, node[0], node[1], node[2])


@onnx_op("Identity", "Dropout")
def _identity(t: Translation, node: Node) -> Value:
    if node.kind == "Dropout" and bool(node.number(2, "training_mode", 0.0)):
        raise Unmapped("a dropout in training mode")
    return node[0]


@onnx_op("Cast", "CastLike")
def _cast(t: Translation, node: Node) -> Value:
    dtype = numpy_type_of(node.get("to")) if node.kind == "Cast" else dtype_of(node[1])
    return cast(t, node[0], dtype)


# --- products --------------------------------------------------------------------------------------------


@onnx_op("MatMul")
def _matmul(t: Translation, node: Node) -> Value:
    return matmul(t, node[0], node[1])


@onnx_op("Gemm")
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


def constant_scalar(value: object) -> float | None:
    """The number in a constant of one element, or None."""
    array = typed("Array", value)
    return uniform(array) if isinstance(value, np.ndarray) and array.size == 1 else None
