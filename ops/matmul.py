"""The matmul family.

Source: the oneDNN Graph document of MatMul.
"""

from __future__ import annotations

from .attributes import AttributeSpec, AttributeType, OneOf
from .registry import REGISTRY
from .schema import InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, SOURCE, broadcast, flag, known


def _matmul(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, weights = ctx.inputs[0], ctx.inputs[1]
    if src is None or weights is None:
        return (None,)
    if not src or not weights:
        raise ctx.error(
            f"'src' and 'weights' must have at least one axis, got shapes {format_shape(src)} and "
            f"{format_shape(weights)}"
        )
    a, b = matrix_shapes(src, weights, ctx.attributes.flag("transpose_a"), ctx.attributes.flag("transpose_b"))
    if known(a[-1]) and known(b[-2]) and a[-1] != b[-2]:
        raise ctx.error(
            f"'src' and 'weights' must agree on the axis that is summed, got {a[-1]} and {b[-2]} in "
            f"{format_shape(src)} and {format_shape(weights)} with "
            f"transpose_a={ctx.attributes.flag('transpose_a')} and transpose_b={ctx.attributes.flag('transpose_b')}"
        )
    batch = broadcast(ctx, (a[:-2], b[:-2]), ("src", "weights")) or ()
    rows = () if len(src) == 1 else (a[-2],)
    columns = () if len(weights) == 1 else (b[-1],)
    dst = (*batch, *rows, *columns)
    if len(ctx.inputs) > 2:
        bias = ctx.inputs[2]
        if (
            bias is not None
            and broadcast(ctx, (dst, bias), ("dst", "bias")) != dst
            and -1 not in (*dst, *bias)
        ):
            raise ctx.error(
                f"'bias' must broadcast to the output, {format_shape(dst)}, got shape {format_shape(bias)}"
            )
    return (dst,)


def matrix_shapes(
    src: tuple[int, ...], weights: tuple[int, ...], transpose_a: bool, transpose_b: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Both as matrices, (…, M, K) and (…, K, N): vectors become a row and a column, which no flag transposes."""
    a = (1, *src) if len(src) == 1 else (*src[:-2], src[-1], src[-2]) if transpose_a else src
    b = (
        (*weights, 1)
        if len(weights) == 1
        else (*weights[:-2], weights[-1], weights[-2])
        if transpose_b
        else weights
    )
    return a, b


REGISTRY.register(
    OpSchema(
        kind="MatMul",
        summary="Product of matrices, with broadcast batches and a bias.",
        formula="dst[…, m, n] = Σ_k src[…, m, k] · weights[…, k, n] + bias[n]",
        inputs=(
            Port("src", "T", doc="(…, M, K), (…, K, M) with transpose_a, or (K)."),
            Port("weights", "T", doc="(…, K, N), (…, N, K) with transpose_b, or (K)."),
            Port("bias", "T", required=False, doc="One value per column, or a shape that broadcasts to dst."),
        ),
        outputs=(Port("dst", "T1", doc="(…, M, N)."),),
        attributes=(
            flag("transpose_a", False, "Whether the last two axes of src are exchanged."),
            flag("transpose_b", False, "Whether the last two axes of weights are exchanged."),
            AttributeSpec(
                "accumulation_mode",
                AttributeType.string,
                default="strict",
                rule=OneOf(("strict", "relaxed", "any", "f32", "s32", "f16")),
                doc="The least precise type that sums may have; here they are f32 at least.",
            ),
        ),
        types={"T": FLOATS, "T1": FLOATS},
        infer_shapes=_matmul,
        source=SOURCE.format("MatMul"),
        family="matmul",
    )
)
