"""The eltwise family: functions of one tensor, element by element, and their gradients.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .attributes import AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .registry import REGISTRY
from .schema import BackwardOp, OpSchema, Port
from .shared import FLOATS, SOURCE, flag, real, same_as

_TYPES: dict[str, tuple[DataType, ...]] = {"T": FLOATS}
_USE_DST = flag("use_dst", True, "Whether the first input is the forward op's output; its input otherwise.")
_MODE = AttributeSpec(
    "mode",
    AttributeType.string,
    default="gelu_erf",
    rule=OneOf(("gelu_erf", "gelu_tanh")),
    doc="With the error function, or the approximation with tanh.",
)
_MIN = real("min", "Lower bound.", rule=None)
_MAX = real("max", "Upper bound.", rule=None)


_OF_DST = {"use_dst": True}
"""Gradients that the output decides are computed from it: it is mostly kept anyway, for the op that reads it."""


def _forward(
    kind: str,
    summary: str,
    formula: str,
    attributes: Sequence[AttributeSpec] = (),
    source: str = SOURCE,
    *,
    backward: Mapping[str, bool] | None = None,
) -> OpSchema:
    """`backward`: attributes of the gradient op, where there is one."""
    needs = "dst" if backward == _OF_DST else "src"
    gradient = BackwardOp(
        kind=f"{kind}Backward", inputs=(needs, "diff_dst"), outputs=("src",), attributes=backward or {}
    )
    return REGISTRY.register(
        OpSchema(
            kind=kind,
            summary=summary,
            formula=formula,
            inputs=(Port("src", "T", doc="Any shape."),),
            outputs=(Port("dst", "T", doc="The shape of src."),),
            attributes=tuple(attributes),
            types=_TYPES,
            infer_shapes=same_as("src"),
            backward=() if backward is None else (gradient,),
            source=source.format(kind),
            family="eltwise",
        )
    )


def _backward(
    kind: str, formula: str, attributes: Sequence[AttributeSpec] = (), source: str = SOURCE
) -> OpSchema:
    either = any(spec.name == "use_dst" for spec in attributes)
    first = (
        Port("src_or_dst", "T", doc="Output of the forward op; its input if use_dst is False.")
        if either
        else Port("src", "T", doc="Input of the forward op.")
    )
    return REGISTRY.register(
        OpSchema(
            kind=kind,
            summary=f"Gradient of {kind.removesuffix('Backward')}.",
            formula=formula,
            inputs=(first, Port("diff_dst", "T", doc="Gradient of the forward op's output.")),
            outputs=(Port("diff_src", "T", doc="Gradient of the forward op's input."),),
            attributes=tuple(attributes),
            types=_TYPES,
            infer_shapes=same_as(first.name, "diff_dst"),
            backward=(BackwardOp(kind=kind, inputs=(first.name, "diff_diff_src"), outputs=("diff_dst",)),),
            source=source.format(kind),
            family="eltwise",
        )
    )


_ELU_ALPHA = real("alpha", "Scale of the negative part.")
_SIGMOID_ALPHA = real("alpha", "Factor of src.")
_SIGMOID_BETA = real("beta", "Summand.")
_SOFTPLUS_BETA = real("beta", "Factor of src.", default=1.0)

_forward("Abs", "Absolute value.", "dst = |src|", backward={})
_backward("AbsBackward", "diff_src = diff_dst · sign(src)")
_forward(
    "Clamp", "Values between two bounds.", "dst = min(max(src, min), max)", (_MIN, _MAX), backward=_OF_DST
)
_backward(
    "ClampBackward",
    "diff_src = diff_dst where min < src < max, 0 elsewhere",
    (_MIN, _MAX, _USE_DST),
)
_forward(
    "Elu",
    "Exponential linear unit.",
    "dst = src where src > 0, alpha · (exp(src) − 1) elsewhere",
    (_ELU_ALPHA,),
    backward=_OF_DST,
)
_backward(
    "EluBackward",
    "diff_src = diff_dst where src > 0, diff_dst · alpha · exp(src) elsewhere; alpha · exp(src) = dst + alpha",
    (_ELU_ALPHA, _USE_DST),
)
_forward("Exp", "Exponential function.", "dst = exp(src)")
_forward(
    "GELU",
    "Gaussian error linear unit.",
    "dst = src · (1 + erf(src / √2)) / 2, or src · (1 + tanh(√(2/π) · (src + 0.044715 · src³))) / 2",
    (_MODE,),
    backward={},
)
_backward(
    "GELUBackward",
    "diff_src = diff_dst · dGELU(src)/dsrc, of the same mode",
    (_MODE,),
)
_forward(
    "HardSigmoid",
    "Sigmoid of straight lines.",
    "dst = max(0, min(1, alpha · src + beta))",
    (_SIGMOID_ALPHA, _SIGMOID_BETA),
    backward={},
)
_backward(
    "HardSigmoidBackward",
    "diff_src = diff_dst · alpha where 0 < alpha · src + beta < 1, 0 elsewhere",
    (_SIGMOID_ALPHA, _SIGMOID_BETA),
)
_forward("HardSwish", "Swish of straight lines.", "dst = src · min(max(src + 3, 0), 6) / 6", backward={})
_backward(
    "HardSwishBackward",
    "diff_src = 0 where src ≤ −3, diff_dst where src ≥ 3, diff_dst · (2 · src + 3) / 6 between",
    (),
)
_forward(
    "LeakyReLU",
    "Rectifier with a slope.",
    "dst = src where src ≥ 0, alpha · src elsewhere",
    (real("alpha", "Slope of the negative part."),),
)
_forward("Log", "Natural logarithm.", "dst = log(src)")
_forward("Mish", "Mish.", "dst = src · tanh(log(1 + exp(src)))", backward={})
_backward("MishBackward", "diff_src = diff_dst · dMish(src)/dsrc")
_forward("Pow", "Power.", "dst = src ^ beta", (real("beta", "Exponent."),))
_forward("Reciprocal", "Reciprocal.", "dst = 1 / src")
_forward("ReLU", "Rectifier.", "dst = max(src, 0)", backward=_OF_DST)
_backward(
    "ReLUBackward",
    "diff_src = diff_dst where src > 0, 0 elsewhere",
    (_USE_DST,),
)
_forward("Round", "The nearest integer, halves to the even one.", "dst = round(src)")
_forward("Sigmoid", "Logistic function.", "dst = 1 / (1 + exp(−src))", backward=_OF_DST)
_backward(
    "SigmoidBackward",
    "diff_src = diff_dst · dst · (1 − dst)",
    (_USE_DST,),
)
_forward(
    "SoftPlus", "Smooth rectifier.", "dst = log(1 + exp(beta · src)) / beta", (_SOFTPLUS_BETA,), backward={}
)
_backward(
    "SoftPlusBackward",
    "diff_src = diff_dst / (1 + exp(−beta · src))",
    (_SOFTPLUS_BETA,),
)
_forward("Sqrt", "Square root.", "dst = √src", backward=_OF_DST)
_backward(
    "SqrtBackward",
    "diff_src = diff_dst / (2 · dst)",
    (_USE_DST,),
)
_forward("Square", "Square.", "dst = src²")
_backward(
    "SwishBackward",
    "diff_src = diff_dst · s · (1 + src · (1 − s)), with s = 1 / (1 + exp(−src)): of src · s",
    source="an op of our own",
)
_forward("Tanh", "Hyperbolic tangent.", "dst = tanh(src)", backward=_OF_DST)
_backward(
    "TanhBackward",
    "diff_src = diff_dst · (1 − dst²)",
    (_USE_DST,),
)
