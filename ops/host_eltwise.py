"""The host family, element by element: arithmetic of integers, comparisons, bits and functions."""

from __future__ import annotations

from collections.abc import Sequence

from . import binary, eltwise
from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .host import BOOLEAN, DST, HOSTED, INTEGERS, NUMBERS, SRC, VALUES, register, twin
from .schema import InferenceContext, Port, Shape, shape_of_first_input
from .shared import FLOATS, broadcast, flag

TWINNED = (binary, eltwise)
"""The families that have twins here, and are registered first."""

twin("Select", "HostSelect", "T2", VALUES)
twin("Abs", "HostAbs", "T", INTEGERS)


def _broadcast(ctx: InferenceContext) -> tuple[Shape, ...]:
    return (broadcast(ctx, ctx.inputs, ("src_0", "src_1")),)


def _binary(
    kind: str,
    summary: str,
    formula: str,
    types: tuple[DataType, ...],
    result: str = "T",
    attributes: Sequence[AttributeSpec] = (),
) -> None:
    register(
        kind,
        summary,
        formula,
        (Port("src_0", "T", doc="First operand."), Port("src_1", "T", doc="Second operand.")),
        Port("dst", result, doc="The broadcast shape of both."),
        {"T": types} if result == "T" else {"T": types, result: BOOLEAN},
        _broadcast,
        attributes,
    )


def _unary(kind: str, summary: str, formula: str, types: tuple[DataType, ...], result: str = "T") -> None:
    types_of = {"T": types} if result == "T" else {"T": types, result: BOOLEAN}
    output = Port("dst", result, doc="The shape of src.")
    register(kind, summary, formula, (SRC,), output, types_of, shape_of_first_input)


for _kind, _summary, _sign in (
    ("Add", "Sum of integers.", "+"),
    ("Subtract", "Difference of integers.", "−"),
    ("Multiply", "Product of integers.", "·"),
):
    _binary(f"Host{_kind}", _summary, f"dst = src_0 {_sign} src_1", INTEGERS)
    HOSTED[_kind] = f"Host{_kind}"
for _kind, _summary, _name in (
    ("Maximum", "The larger of two integers.", "max"),
    ("Minimum", "The smaller of two integers.", "min"),
):
    _binary(f"Host{_kind}", _summary, f"dst = {_name}(src_0, src_1)", INTEGERS)
    HOSTED[_kind] = f"Host{_kind}"
_binary("HostGcd", "The greatest common divisor.", "dst = gcd(|src_0|, |src_1|)", INTEGERS)
_binary(
    "HostDivide",
    "Quotient without its fraction.",
    "dst = src_0 / src_1, rounded",
    NUMBERS,
    attributes=(
        AttributeSpec(
            "rounding",
            AttributeType.string,
            default="zero",
            rule=OneOf(("zero", "down")),
            doc="zero: towards zero; down: towards −∞.",
        ),
    ),
)
_binary(
    "HostModulo",
    "Remainder of a division.",
    "dst = src_0 − src_1 · round(src_0 / src_1)",
    NUMBERS,
    attributes=(
        flag("of_dividend", False, "Whether the result has the dividend's sign, not the divisor's."),
    ),
)
_binary("HostPower", "A power whose exponents are computed.", "dst = src_0 ^ src_1", FLOATS)
_binary("HostAtan2", "Angle of a point.", "dst = angle of (src_1, src_0)", FLOATS)
for _kind, _summary, _sign in (
    ("Equal", "Whether two elements are equal.", "="),
    ("NotEqual", "Whether two elements differ.", "≠"),
    ("Greater", "Whether the first operand is above the second.", ">"),
    ("GreaterEqual", "Whether the first operand is at least the second.", "≥"),
):
    _binary(f"Host{_kind}", _summary, f"dst = src_0 {_sign} src_1", VALUES, "TB")
HOSTED["GreaterEqual"] = "HostGreaterEqual"
for _kind, _summary, _sign in (
    ("And", "Both: of truths, or of the bits of integers.", "∧"),
    ("Or", "One or both: of truths, or of the bits of integers.", "∨"),
    ("Xor", "One and not both: of truths, or of the bits of integers.", "⊕"),
):
    _binary(f"Host{_kind}", _summary, f"dst = src_0 {_sign} src_1", (*BOOLEAN, *INTEGERS))
_unary("HostNot", "The contrary: of truths, or of the bits of integers.", "dst = ¬src", (*BOOLEAN, *INTEGERS))
_unary("HostIsNaN", "Whether an element is no number.", "dst = src ≠ src", FLOATS, "TB")
_unary("HostIsInf", "Whether an element is infinite.", "dst = |src| = ∞", FLOATS, "TB")
for _kind, _summary, _formula in (
    ("Acos", "Angle of a cosine.", "dst = arccos(src)"),
    ("Acosh", "Inverse of the hyperbolic cosine.", "dst = arcosh(src)"),
    ("Asin", "Angle of a sine.", "dst = arcsin(src)"),
    ("Asinh", "Inverse of the hyperbolic sine.", "dst = arsinh(src)"),
    ("Atan", "Angle of a tangent.", "dst = arctan(src)"),
    ("Atanh", "Inverse of the hyperbolic tangent.", "dst = artanh(src)"),
    ("Ceil", "The next integer above.", "dst = ⌈src⌉"),
    ("Cos", "Cosine.", "dst = cos(src)"),
    ("Cosh", "Hyperbolic cosine.", "dst = cosh(src)"),
    ("Erf", "Error function.", "dst = erf(src)"),
    ("ErfInv", "Inverse of the error function.", "erf(dst) = src"),
    ("Expm1", "Exponential less 1.", "dst = exp(src) − 1"),
    ("Floor", "The next integer below.", "dst = ⌊src⌋"),
    ("Log10", "Logarithm to the base 10.", "dst = log₁₀(src)"),
    ("Log1p", "Logarithm of 1 more.", "dst = log(1 + src)"),
    ("Log2", "Logarithm to the base 2.", "dst = log₂(src)"),
    ("LogGamma", "Logarithm of the size of the gamma function.", "dst = log |Γ(src)|"),
    ("Sin", "Sine.", "dst = sin(src)"),
    ("Sinh", "Hyperbolic sine.", "dst = sinh(src)"),
    ("Tan", "Tangent.", "dst = tan(src)"),
    ("Trunc", "The next integer towards zero.", "dst = src without its fraction"),
):
    _unary(f"Host{_kind}", _summary, _formula, FLOATS)
_unary("HostSign", "−1, 0 or 1.", "dst = sign(src)", NUMBERS)
register(
    "HostPolygamma",
    "A derivative of the logarithm of the gamma function: the digamma function, or one of its own.",
    "dst = dⁿ⁺¹/dsrcⁿ⁺¹ log Γ(src), n = order",
    (SRC,),
    DST,
    {"T": FLOATS},
    shape_of_first_input,
    (
        AttributeSpec(
            "order",
            AttributeType.s64,
            default=0,
            rule=NON_NEGATIVE,
            doc="How many derivatives of the digamma function.",
        ),
    ),
)
register(
    "HostStopGradient",
    "A tensor as a constant: gradients do not flow through, as with torch's detach() and jax's stop_gradient.",
    "dst = src",
    (SRC,),
    DST,
    {"T": FLOATS},
    shape_of_first_input,
)
register(
    "HostCast",
    "The same numbers in another type; fractions are cut off where it is one of integers.",
    "dst = src",
    (Port("src", "T1", doc="Any shape."),),
    Port("dst", "T2", doc="The shape of src."),
    {"T1": VALUES, "T2": VALUES},
    shape_of_first_input,
)
