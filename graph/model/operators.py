"""Operators on the tensors of a graph: `x @ w + b`, `2 * x`, `-x`, `abs(x)` add ops to the graph they come from."""

from __future__ import annotations

import math
import sys
import weakref
from numbers import Real
from typing import Any, Protocol, Self, cast

from ...ops.data_types import DataType
from ...ops.errors import DataTypeError, GraphError, OneDNNGraphError
from ...ops.values import format_value

_FLOATS = {
    DataType.f16: 65504.0,
    DataType.bf16: float.fromhex("0x1.fep127"),
    DataType.f32: float.fromhex("0x1.fffffep127"),
    DataType.f64: sys.float_info.max,
}
"""The types that have fractions, with the largest number that each has, by which masks are often made."""
_INTEGERS = {
    DataType.s64: (-(2**63), 2**63 - 1),
    DataType.s32: (-(2**31), 2**31 - 1),
    DataType.s8: (-128, 127),
    DataType.u8: (0, 255),
}


class Builder(Protocol):
    """What operators need of a graph."""

    def op(self, kind: str, *inputs: Any, **attributes: Any) -> Any:
        """Adds an op and returns its output."""
        ...

    def number(self, value: float, data_type: DataType) -> Any:
        """A constant of one element and no axes."""
        ...

    def constant(self, array: object) -> Any:
        """A constant."""
        ...

    def drop_constant(self, tensor: Any) -> None:
        """Takes a constant back that no op reads."""
        ...


class Home:
    """The graph that a tensor was taken from, which the tensor does not keep alive."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Builder) -> None:
        self._graph = weakref.ref(graph)

    @property
    def graph(self) -> Builder | None:
        """The graph, as long as somebody has it."""
        return self._graph()

    def belongs_to(self, graph: Builder) -> None:
        """Says that another graph has taken over the tensors."""
        self._graph = weakref.ref(graph)


class Operators:
    """The operators of `LogicalTensor`. They never change a tensor, and `==` compares descriptions.

    Numbers become constants of the tensor's type, arrays constants of their own.
    """

    __slots__ = ("_home",)
    _home: Home
    data_type: DataType
    __array_ufunc__ = None  # so that NumPy's arrays and numbers leave operators to a tensor on their right

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _graph(self) -> Builder:
        home = getattr(self, "_home", None)
        if home is None:
            raise GraphError(
                f"{self} was described by hand, and operators don't know its graph; take it from there, "
                "graph.tensor(…), or use graph.op"
            )
        graph = home.graph
        if graph is None:
            raise GraphError(
                f"the graph of {self} is gone, and operators have nothing to add to; keep the graph"
            )
        return graph

    def _binary(self, kind: str, other: object, *, swapped: bool = False) -> Any:
        """The op on this tensor and another operand; NotImplemented for what can't be one."""
        graph = self._graph()
        if isinstance(other, Operators):
            if getattr(other, "_home", None) is not None and other._graph() is not graph:
                raise GraphError(f"{self} and {other} are of two graphs; an op has its tensors from one")
            operand: object = other
        elif _is_number(other):
            if kind == "MatMul":
                return NotImplemented
            operand = graph.number(self._as_number(cast("float", other)), self.data_type)
        elif hasattr(other, "__array__") or hasattr(other, "__dlpack__"):
            operand = graph.constant(other)
        else:
            return NotImplemented
        try:
            return graph.op(kind, *((operand, self) if swapped else (self, operand)))
        except OneDNNGraphError:
            if operand is not other:  # the graph is as it was
                graph.drop_constant(operand)
            raise

    def _as_number(self, value: float) -> float:
        """A number that a constant of this tensor's type can have.

        Raises:
            DataTypeError: the type has no such number.
        """
        if self.data_type in _FLOATS:
            special = value != value or abs(value) == math.inf
            if special or abs(value) <= _FLOATS[self.data_type]:
                return float(value)
        elif self.data_type in _INTEGERS:
            low, high = _INTEGERS[self.data_type]
            if low <= value <= high and value == int(value):
                return int(value)
        raise DataTypeError(
            f"{format_value(value)} is no number of {self}, whose type the constant would have; cast the tensor with "
            "TypeCast first"
        )

    def __add__(self, other: object) -> Self:
        return self._binary("Add", other)

    def __radd__(self, other: object) -> Self:
        return self._binary("Add", other)  # kernels like the larger operand first

    def __sub__(self, other: object) -> Self:
        return self._binary("Subtract", other)

    def __rsub__(self, other: object) -> Self:
        return self._binary("Subtract", other, swapped=True)

    def __mul__(self, other: object) -> Self:
        return self._binary("Multiply", other)

    def __rmul__(self, other: object) -> Self:
        return self._binary("Multiply", other)

    def __truediv__(self, other: object) -> Self:
        return self._binary("Divide", other)

    def __rtruediv__(self, other: object) -> Self:
        return self._binary("Divide", other, swapped=True)

    def __matmul__(self, other: object) -> Self:
        return self._binary("MatMul", other)

    def __rmatmul__(self, other: object) -> Self:
        return self._binary("MatMul", other, swapped=True)

    def __pow__(self, exponent: object) -> Self:
        graph = self._graph()
        if not _is_number(exponent):  # Pow has its exponent as an attribute
            return self._binary("HostPower", exponent)
        beta = float(cast("float", exponent))
        return graph.op("Square", self) if beta == 2 else graph.op("Pow", self, beta=beta)

    def __rpow__(self, base: object) -> Self:
        return self._binary("HostPower", base, swapped=True)

    def __neg__(self) -> Self:
        return self._binary("Multiply", -1)

    def __abs__(self) -> Self:
        return self._graph().op("Abs", self)


def _is_number(value: object) -> bool:
    """Whether a value is a real number of Python's or NumPy's, and no truth value."""
    if isinstance(value, bool) or getattr(value, "shape", ()) != ():
        return False
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    # NumPy knows numbers of ml_dtypes, bfloat16 for one, by the kind V.
    return isinstance(value, Real) or (kind in "iufV" and kind != "" and hasattr(value, "__float__"))
