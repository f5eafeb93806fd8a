"""Fusions: which ops become one partition, and what the primitive of one takes along, in one table.

`matching.py` says how a row finds its ops, `links.py` how an op that goes along becomes a post-op. Priorities are
ordered as in oneDNN Graph: the longest and most valuable ones claim first.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....graph.compile.backend import SINGLE_OP_PRIORITY, Pattern
from ....graph.model.op import Op
from ..rules.post_ops import post_op_is_wrong, window_post_op_is_wrong
from .as_views import is_part
from .links import BINARY, ELTWISE, Link, post_op_shapes
from .matching import Attention, Fusion, Refusal, WithBias
from .reduction import ALGORITHMS as REDUCTIONS
from .reduction import EXTREMES

FORWARD_ELTWISE = frozenset(ELTWISE)
ARITHMETIC = frozenset(BINARY)
POST_OPS = FORWARD_ELTWISE | ARITHMETIC | {"BiasAdd", "TypeCast", "Reorder"}
CASTS = frozenset({"TypeCast", "Dequantize"})
QUANTIZE = frozenset({"Quantize"})


def _by_kernels(op: Op, link: Link) -> str | None:
    """What the kernels do wrong."""
    return post_op_is_wrong(*post_op_shapes(op, link))


def _by_windows(op: Op, link: Link) -> str | None:
    """What kernels with windows do wrong; a part, which is a view, takes nothing along."""
    if is_part(op):
        return "a part of a tensor is no primitive"
    return window_post_op_is_wrong(*post_op_shapes(op, link))


def _types_alone(op: Op, link: Link) -> str | None:
    """Another type of the result, scaled or not: all else the library's reference loops alone do."""
    del op
    changes = link.algorithm is not None or link.normalize is not None
    return "the library's kernels change the type of their result alone" if changes else None


def _quantisation_alone(op: Op, link: Link) -> str | None:
    """The quantisation of parts that are integers."""
    del op
    return "parts that are integers are quantised alone" if link.quantize is None else None


def _finite_scale(op: Op, link: Link) -> str | None:
    """Why a softmax does not take a quantisation along, or None: one with a zero point, or where rows of -∞ become NaN,
    which integers can't hold.
    """
    finite = len(op.outputs) == 1 and op.attributes.get("mode") != "inf_as_zero"
    if link.quantize is None or link.quantize.zero_point != 0:
        return "the kernels take a scale alone"
    return None if finite else "rows of -inf and further results are not quantised"


def _anything(op: Op, link: Link) -> str | None:
    """Any post-op goes along: its operand is seen as the tensors are."""
    del op, link
    return None


FUSIONS: tuple[Fusion | Attention | WithBias, ...] = (
    Attention(
        name="attention",
        priority=SINGLE_OP_PRIORITY + 20,
        before=CASTS | {"DynamicDequantize"},
        scores=ARITHMETIC | FORWARD_ELTWISE | {"Select", "TypeCast"},
        masks=CASTS | {"GenIndex", "GreaterEqual", "Add", "Subtract"},
        weights=frozenset({"TypeCast", "Dropout", "Multiply", "Quantize", "Dequantize"}),
        then=frozenset({"TypeCast", "StaticTranspose", "Reorder", "StaticReshape"}),
        last=QUANTIZE,
    ),
    WithBias("weight gradient with bias gradient", SINGLE_OP_PRIORITY + 11),
    Fusion(
        name="convolution with post-ops",
        priority=SINGLE_OP_PRIORITY + 10,
        anchor={"Convolution": _by_kernels, "ConvTranspose": _by_kernels},
        before=CASTS,
        then=POST_OPS | {"BatchNormInference"},
        last=QUANTIZE,
    ),
    Fusion(
        name="matmul with post-ops",
        priority=SINGLE_OP_PRIORITY + 10,
        anchor={"MatMul": _by_kernels},
        before=CASTS,
        then=POST_OPS,
        last=QUANTIZE,
    ),
    Fusion(
        name="normalization with ReLU or casts",
        priority=SINGLE_OP_PRIORITY + 9,
        anchor={"BatchNormInference": None, "LayerNorm": _types_alone, "SoftMax": _finite_scale},
        before=CASTS,
        then=frozenset({"ReLU", "TypeCast", "Multiply", "Add"}),
        last=QUANTIZE,
    ),
    Fusion(
        name="pooling, reduction or interpolation with post-ops",
        priority=SINGLE_OP_PRIORITY + 8,
        anchor={
            "AvgPool": _by_windows,
            "MaxPool": _by_windows,
            "Interpolate": _by_windows,
            **{kind: None if kind in EXTREMES else _by_kernels for kind in REDUCTIONS},
        },
        before=CASTS,
        then=FORWARD_ELTWISE | ARITHMETIC,
        last=QUANTIZE,
    ),
    Fusion(
        name="quantized movement",
        priority=SINGLE_OP_PRIORITY + 8,
        anchor={"Concat": _quantisation_alone, "Reorder": None},
        before=CASTS,
        then=frozenset({"Add"}),
        last=QUANTIZE,
    ),
    Fusion(
        name="gradient through a ReLU",
        priority=SINGLE_OP_PRIORITY + 7,
        anchor={"ReLUBackward": None},
        then=frozenset({"BatchNormTrainingBackward"}),
    ),
    Fusion(
        name="binary with post-ops",
        priority=SINGLE_OP_PRIORITY + 6,
        anchor=dict.fromkeys((*BINARY, "BiasAdd"), _anything),
        before=CASTS,
        then=FORWARD_ELTWISE | ARITHMETIC,
        last=QUANTIZE,
    ),
    Fusion(name="squared difference", priority=None, anchor={"SquaredDifference": _anything}),
    Fusion(
        name="eltwise with post-ops",
        priority=SINGLE_OP_PRIORITY + 5,
        anchor=dict.fromkeys(ELTWISE, _types_alone),
        before=CASTS,
        then=ARITHMETIC,
        last=QUANTIZE,
    ),
    Fusion(
        name="casts",
        priority=SINGLE_OP_PRIORITY + 1,
        anchor={"TypeCast": None, "Dequantize": None},
        then=frozenset({"TypeCast"}),
        last=QUANTIZE,
    ),
)
"""What is fused, from the first to the last that may claim."""

PATTERNS: tuple[Pattern, ...] = tuple(
    Pattern(f.name, f.priority, f.match, f.ends if isinstance(f, Fusion) else None)
    for f in FUSIONS
    if f.priority is not None
)
REFUSALS: Mapping[str, Refusal] = {
    kind: refuses
    for fusion in FUSIONS
    if isinstance(fusion, Fusion)
    for kind, refuses in fusion.anchor.items()
    if refuses is not None
}
"""Kind of an op whose primitive takes others along → why it does not take one of them."""
HOSTED = frozenset({"Select", "Dropout", "GenIndex", "GreaterEqual"})
"""Kinds that a pattern may contain without a primitive for them: they are steps on the host."""
