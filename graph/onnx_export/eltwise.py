"""Functions of one tensor, element by element."""

from __future__ import annotations

import math

from ...ops.data_types import DataType
from ..model.op import Op
from .entries import Writers
from .writing import NUMBERS, Writing

WRITERS = Writers()

WRITERS.renamed(
    {
        "Abs": "Abs",
        "Exp": "Exp",
        "HardSwish": "HardSwish",
        "HostAbs": "Abs",
        "HostAcos": "Acos",
        "HostAcosh": "Acosh",
        "HostAsin": "Asin",
        "HostAsinh": "Asinh",
        "HostAtan": "Atan",
        "HostAtanh": "Atanh",
        "HostCeil": "Ceil",
        "HostCos": "Cos",
        "HostCosh": "Cosh",
        "HostErf": "Erf",
        "HostFloor": "Floor",
        "HostIsInf": "IsInf",
        "HostIsNaN": "IsNaN",
        "HostMeanWeight": "Identity",
        "HostSign": "Sign",
        "HostSin": "Sin",
        "HostSinh": "Sinh",
        "HostStopGradient": "Identity",
        "HostTan": "Tan",
        "Log": "Log",
        "Mish": "Mish",
        "Reciprocal": "Reciprocal",
        "ReLU": "Relu",
        "Round": "Round",
        "Sigmoid": "Sigmoid",
        "Sqrt": "Sqrt",
        "Tanh": "Tanh",
    }
)


@WRITERS.of("Clamp")
def _clamp(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    bounds = (out.number(op.attributes.real(name), src.data_type) for name in ("min", "max"))
    return out.node("Clip", out.name(src), *bounds)


@WRITERS.of("Elu")
def _elu(out: Writing, op: Op) -> str:
    return out.node("Elu", out.name(op.inputs[0]), alpha=op.attributes.real("alpha"))


@WRITERS.of("LeakyReLU")
def _leaky_relu(out: Writing, op: Op) -> str:
    return out.node("LeakyRelu", out.name(op.inputs[0]), alpha=op.attributes.real("alpha"))


@WRITERS.of("HardSigmoid")
def _hard_sigmoid(out: Writing, op: Op) -> str:
    alpha, beta = (op.attributes.real(name) for name in ("alpha", "beta"))
    return out.node("HardSigmoid", out.name(op.inputs[0]), alpha=alpha, beta=beta)


@WRITERS.of("GELU")
def _gelu(out: Writing, op: Op) -> str:
    approximate = "tanh" if op.attributes.string("mode") == "gelu_tanh" else "none"
    return out.node("Gelu", out.name(op.inputs[0]), approximate=approximate)


@WRITERS.of("Pow")
def _pow(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    return out.node("Pow", out.name(src), out.number(op.attributes.real("beta"), src.data_type))


@WRITERS.of("Square")
def _square(out: Writing, op: Op) -> str:
    name = out.name(op.inputs[0])
    return out.node("Mul", name, name)


@WRITERS.of("SoftPlus")
def _soft_plus(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    beta = op.attributes.real("beta")
    if beta == 1:
        return out.node("Softplus", out.name(src))
    factor = out.number(beta, src.data_type)
    return out.node("Div", out.node("Softplus", out.node("Mul", out.name(src), factor)), factor)


@WRITERS.of("HostTrunc")
def _trunc(out: Writing, op: Op) -> str:
    name = out.name(op.inputs[0])
    return out.node("Mul", out.node("Sign", name), out.node("Floor", out.node("Abs", name)))


@WRITERS.of("HostExpm1")
def _expm1(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    x, dtype = out.name(src), src.data_type
    # exp(x) − 1 loses its digits near 0, where 2·t / (1 − t) with t = tanh(x / 2) has them.
    t = out.node("Tanh", out.node("Mul", x, out.number(0.5, dtype)))
    one = out.number(1, dtype)
    near = out.node("Div", out.node("Add", t, t), out.node("Sub", one, t))
    small = out.node("Less", out.node("Abs", x), one)
    return out.node("Where", small, near, out.node("Sub", out.node("Exp", x), one))


@WRITERS.of("HostLog1p")
def _log1p(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    x, dtype = out.name(src), src.data_type
    # log(1 + x) loses its digits near 0, where 2·artanh(x / (2 + x)) has them.
    half = out.node("Atanh", out.node("Div", x, out.node("Add", x, out.number(2, dtype))))
    small = out.node("Less", out.node("Abs", x), out.number(0.5, dtype))
    far = out.node("Log", out.node("Add", x, out.number(1, dtype)))
    return out.node("Where", small, out.node("Add", half, half), far)


@WRITERS.of("HostLog2", "HostLog10")
def _logarithm(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    base = math.log(2 if op.kind == "HostLog2" else 10)
    return out.node("Div", out.node("Log", out.name(src)), out.number(base, src.data_type))


@WRITERS.of("HostNot")
def _not(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    return out.node("Not" if src.data_type is DataType.boolean else "BitwiseNot", out.name(src))


@WRITERS.of("HostCast", "TypeCast")
def _cast(out: Writing, op: Op) -> str:
    return out.node("Cast", out.name(op.inputs[0]), to=NUMBERS[op.outputs[0].data_type])


@WRITERS.of("Reorder")
def _reorder(out: Writing, op: Op) -> str:
    return out.node("Identity", out.name(op.inputs[0]))
