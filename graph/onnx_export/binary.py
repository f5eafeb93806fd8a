"""Arithmetic of two tensors, comparisons, and choices between two."""

from __future__ import annotations

import math

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.formats import axis_positions
from ..model.op import Op
from .entries import Writers
from .writing import Writing

WRITERS = Writers()

WRITERS.renamed(
    {
        "GreaterEqual": "GreaterOrEqual",
        "HostAdd": "Add",
        "HostEqual": "Equal",
        "HostGreater": "Greater",
        "HostGreaterEqual": "GreaterOrEqual",
        "HostMaximum": "Max",
        "HostMinimum": "Min",
        "HostMultiply": "Mul",
        "HostPower": "Pow",
        "HostSelect": "Where",
        "HostSubtract": "Sub",
        "Maximum": "Max",
        "Minimum": "Min",
        "Select": "Where",
    }
)
ARITHMETIC = {"Add": "Add", "Divide": "Div", "Multiply": "Mul", "Subtract": "Sub"}
LOGICAL = {"HostAnd": "And", "HostOr": "Or", "HostXor": "Xor"}


@WRITERS.of(*ARITHMETIC)
def _arithmetic(out: Writing, op: Op) -> str:
    kinds = {t.data_type for t in (*op.inputs, *op.outputs)}
    (dst,) = op.outputs
    if len(kinds) == 1:
        return out.node(ARITHMETIC[op.kind], *map(out.name, op.inputs))
    # ONNX has one type for all: f32 holds what is between, and what is integer or double is computed as such.
    wide = next((one for one in (DataType.f64, DataType.s32) if one in kinds), DataType.f32)
    if wide is DataType.s32:
        wide = DataType.f64  # beside floating-point numbers: all integers of 32 bits are among its own
    operands = (out.cast(out.name(t), t.data_type, wide) for t in op.inputs)
    return out.cast(out.node(ARITHMETIC[op.kind], *operands), wide, dst.data_type)


@WRITERS.of("SquaredDifference")
def _squared_difference(out: Writing, op: Op) -> str:
    away = out.node("Sub", *map(out.name, op.inputs))
    return out.node("Mul", away, away)


@WRITERS.of("HostNotEqual")
def _not_equal(out: Writing, op: Op) -> str:
    return out.node("Not", out.node("Equal", *map(out.name, op.inputs)))


@WRITERS.of(*LOGICAL)
def _logical(out: Writing, op: Op) -> str:
    bits = "" if op.inputs[0].data_type is DataType.boolean else "Bitwise"
    return out.node(f"{bits}{LOGICAL[op.kind]}", *map(out.name, op.inputs))


@WRITERS.of("HostModulo")
def _modulo(out: Writing, op: Op) -> str:
    of_dividend = op.attributes.flag("of_dividend")
    if not of_dividend and op.inputs[0].data_type in (
        DataType.f16,
        DataType.bf16,
        DataType.f32,
        DataType.f64,
    ):
        a, b = map(out.name, op.inputs)
        zero = out.number(0, op.inputs[0].data_type)
        rest = out.node("Mod", a, b, fmod=1)  # of the dividend's sign
        wrong = out.node("Less", out.node("Mul", out.node("Sign", rest), out.node("Sign", b)), zero)
        return out.node("Where", wrong, out.node("Add", rest, b), rest)
    return out.node("Mod", *map(out.name, op.inputs), fmod=int(of_dividend))


@WRITERS.of("HostDivide")
def _divide(out: Writing, op: Op) -> str:
    a, b = map(out.name, op.inputs)
    data_type, down = op.inputs[0].data_type, op.attributes.string("rounding") == "down"
    quotient = out.node("Div", a, b)
    if data_type in (DataType.f16, DataType.bf16, DataType.f32, DataType.f64):
        if down:
            return out.node("Floor", quotient)
        return out.node("Mul", out.node("Sign", quotient), out.node("Floor", out.node("Abs", quotient)))
    if not down:
        return quotient
    # ONNX cuts the fractions of integers off: one less where there was one, and the signs differ.
    zero, one = out.number(0, data_type), out.number(1, data_type)
    rest = out.node("Sub", a, out.node("Mul", quotient, b))
    signs = out.node("Mul", out.node("Sign", rest), out.node("Sign", b))
    return out.node("Where", out.node("Less", signs, zero), out.node("Sub", quotient, one), quotient)


@WRITERS.of("HostAtan2")
def _atan2(out: Writing, op: Op) -> str:
    y, x = map(out.name, op.inputs)
    data_type = op.inputs[0].data_type

    def number(value: float) -> str:
        return out.number(value, data_type)

    def where(condition: str, value: str, other: str) -> str:
        return out.node("Where", condition, value, other)

    below = out.node("Less", y, number(0))
    half = where(below, number(-math.pi / 2), number(math.pi / 2))
    turn = where(below, number(-math.pi), number(math.pi))
    flat = out.node("Atan", out.node("Div", y, where(out.node("Equal", x, number(0)), number(1), x)))
    beyond = where(out.node("Less", x, number(0)), out.node("Add", flat, turn), flat)
    upright = where(out.node("Equal", y, number(0)), number(0), half)
    return where(out.node("Equal", x, number(0)), upright, beyond)


@WRITERS.of("BiasAdd")
def _bias_add(out: Writing, op: Op) -> str:
    src, bias = op.inputs
    rank = len(out.shape(src, op))
    return out.node("Add", out.name(src), out.along_channels(bias, op, rank))


@WRITERS.of("PReLU")
def _prelu(out: Writing, op: Op) -> str:
    src, slope = op.inputs
    shape, own = out.shape(src, op), out.shape(slope, op)
    if len(own) == 1 and own[0] != 1 and len(shape) > 1 and op.attributes.flag("per_channel_broadcast"):
        axis = axis_positions(op.attributes.string("data_format"), len(shape) - 2)["C"][0]
        if own[0] < 0 or shape[axis] < 0:
            raise UnsupportedError(
                f"to_onnx: the slope of {op} may be one of channels or of the last axis; give the sizes by "
                "graph.with_shapes({…}) first"
            )
        if shape[axis] == own[0]:
            return out.node("PRelu", out.name(src), out.along_channels(slope, op, len(shape)))
    return out.node("PRelu", out.name(src), out.name(slope))
