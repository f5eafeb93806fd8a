"""The normalisation family: batch, layer, group and root-mean-square normalisation.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import FINITE, POSITIVE, Attributes, AttributeSpec, AttributeType, Finite
from .registry import REGISTRY
from .schema import BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import (
    DATA_FORMAT,
    FLOATS,
    SOURCE,
    STATISTICS,
    axis_of,
    channels_of,
    flag,
    known,
    same,
    vector,
)

_EPSILON_DOC = "Added to the variance, so that nothing is divided by zero."
_EPSILON = AttributeSpec("epsilon", AttributeType.f32, required=True, rule=Finite(0), doc=_EPSILON_DOC)
_DEFAULT_EPSILON = AttributeSpec("epsilon", AttributeType.f32, default=1e-5, rule=Finite(0), doc=_EPSILON_DOC)
_BEGIN_NORM_AXIS = AttributeSpec(
    "begin_norm_axis",
    AttributeType.s64,
    default=-1,
    doc="First of the axes that are normalised, up to the last; counted from the end where negative.",
)
_GROUPS = AttributeSpec(
    "groups", AttributeType.s64, required=True, rule=POSITIVE, doc="How many groups of channels."
)
_KEEP_STATS = flag("keep_stats", True, "Whether mean and variance are outputs.")
_USE_AFFINE = flag("use_affine", True, "Whether gamma and beta are used.")
_TYPES = {"T1": FLOATS, "T2": STATISTICS}
_SRC = Port("src", "T1", doc="Data.")


def _stats(*names: str, doc: str, required: bool = True) -> tuple[Port, ...]:
    return tuple(Port(name, "T2", required=required, doc=doc) for name in names)


def _with_stats(attributes: Attributes) -> int:
    return 3 if attributes.flag("keep_stats") else 1


# --- batch normalisation -----------------------------------------------------------------------------


def _per_channel(ctx: InferenceContext, src: Shape, first: int, names: Sequence[str]) -> int:
    """Checks the vectors from input `first` on; the number of channels, as far as known."""
    size = -1 if src is None else channels_of(ctx, src)[1]
    for name, shape in zip(names, ctx.inputs[first:], strict=False):
        vector(ctx, shape, name, size)
        if not known(size) and shape is not None:
            size = shape[0]
    return size


def _batch_inference(ctx: InferenceContext) -> tuple[Shape, ...]:
    _per_channel(ctx, ctx.inputs[0], 1, ("gamma", "beta", "mean", "variance"))
    return (ctx.inputs[0],)


def _batch_training(ctx: InferenceContext) -> tuple[Shape, ...]:
    size = _per_channel(ctx, ctx.inputs[0], 1, ("mean", "variance", "gamma", "beta"))
    return (ctx.inputs[0], *[(size,)] * 4)


def _batch_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    shape = same(ctx, ctx.inputs[0], ctx.inputs[1], ("src", "diff_dst"))
    size = _per_channel(ctx, shape, 2, ("mean", "variance", "gamma"))
    return (shape, *[(size,)] * (len(ctx.outputs) - 1))


_CHANNEL = "One value per channel."

REGISTRY.register(
    OpSchema(
        kind="BatchNormInference",
        summary="Normalisation of each channel by given statistics.",
        formula="dst = gamma · (src − mean) / √(variance + epsilon) + beta",
        inputs=(_SRC, *_stats("gamma", "beta", "mean", "variance", doc=_CHANNEL)),
        outputs=(Port("dst", "T1", doc="The shape of src."),),
        attributes=(_EPSILON, DATA_FORMAT),
        types=_TYPES,
        infer_shapes=_batch_inference,
        source=SOURCE.format("BatchNormInference"),
        family="normalization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="BatchNormForwardTraining",
        summary="Normalisation of each channel by the statistics of the batch.",
        formula="dst = gamma · (src − batch_mean) / √(batch_variance + epsilon) + beta; "
        "running = momentum · given + (1 − momentum) · batch",
        inputs=(
            _SRC,
            *_stats("mean", "variance", doc="Running statistics so far, one value per channel."),
            *_stats("gamma", "beta", doc=_CHANNEL, required=False),
        ),
        outputs=(
            Port("dst", "T1", doc="The shape of src."),
            *_stats("running_mean", "running_variance", doc="Running statistics with this batch."),
            *_stats("batch_mean", "batch_variance", doc="Statistics of this batch."),
        ),
        attributes=(
            _EPSILON,
            AttributeSpec(
                "momentum",
                AttributeType.f32,
                rule=FINITE,
                doc="Share of the running statistics that stays; 0 if absent.",
            ),
            DATA_FORMAT,
        ),
        types=_TYPES,
        infer_shapes=_batch_training,
        notes=("The variance is that of the batch itself, the sum of squares divided by the count.",),
        backward=(
            BackwardOp(
                kind="BatchNormTrainingBackward",
                inputs=("src", "diff_dst", "batch_mean", "batch_variance", "gamma"),
                outputs=("src", "gamma", "beta"),
            ),
        ),
        source=SOURCE.format("BatchNormForwardTraining"),
        family="normalization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="BatchNormTrainingBackward",
        summary="Gradients of BatchNormForwardTraining.",
        formula="x̂ = (src − mean) / √(variance + epsilon); diff_gamma = Σ diff_dst · x̂; diff_beta = Σ diff_dst; "
        "diff_src = gamma / √(variance + epsilon) · (diff_dst − diff_beta / count − x̂ · diff_gamma / count)",
        inputs=(
            _SRC,
            Port("diff_dst", "T1", doc="Gradient of the forward op's output."),
            *_stats("mean", "variance", doc="Statistics of the batch."),
            *_stats("gamma", doc=_CHANNEL, required=False),
        ),
        outputs=(
            Port("diff_src", "T1", doc="The shape of src."),
            *_stats("diff_gamma", "diff_beta", doc=_CHANNEL, required=False),
        ),
        attributes=(_EPSILON, DATA_FORMAT),
        types=_TYPES,
        infer_shapes=_batch_backward,
        outputs_made=lambda attributes: 3,
        source=SOURCE.format("BatchNormTrainingBackward"),
        family="normalization",
    )
)

# --- layer, group and root-mean-square normalisation -------------------------------------------------


def _normalised(ctx: InferenceContext, src: tuple[int, ...]) -> int:
    return axis_of(ctx, ctx.attributes.integer("begin_norm_axis"), len(src), "begin_norm_axis")


def _affine(ctx: InferenceContext, first: int, want: Shape, names: Sequence[str]) -> None:
    """Checks gamma and beta: the normalised axes, or as many elements on one axis."""
    for name, shape in zip(names, ctx.inputs[first:], strict=False):
        if shape is None or want is None or shape == want or -1 in (*shape, *want):
            continue
        count = 1
        for d in want:
            count *= d
        if shape != (count,):
            raise ctx.error(
                f"'{ctx.names.spell(name)}' must have shape {format_shape(want)}, got {format_shape(shape)}"
            )


def _layer(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None:
        return (None,) * len(ctx.outputs)
    axis = _normalised(ctx, src)
    _affine(ctx, 1, src[axis:], ("gamma", "beta"))
    return (src, *[src[:axis]] * (len(ctx.outputs) - 1))


def _layer_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = same(ctx, ctx.inputs[0], ctx.inputs[1], ("src", "diff_dst"))
    if src is None:
        return (None,) * len(ctx.outputs)
    axis = _normalised(ctx, src)
    for index, name in ((2, "mean"), (3, "variance")):
        stats = ctx.inputs[index]
        if stats is not None and len(stats) == len(src) and set(stats[axis:]) <= {1, -1}:
            stats = stats[:axis]  # with the normalised axes as ones
        if stats is not None:
            same(ctx, src[:axis], stats, ("src", name))
    _affine(ctx, 4, src[axis:], ("gamma", "beta"))
    gamma = ctx.inputs[4] if len(ctx.inputs) > 4 else src[axis:]
    return (src, *[gamma] * (len(ctx.outputs) - 1))


def _group(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    size = _per_channel(ctx, src, 1, ("gamma", "beta"))
    groups = ctx.attributes.integer("groups")
    _check_groups(ctx, size, groups)
    batch = -1 if src is None else src[0]
    return (src, *[(batch, groups)] * (len(ctx.outputs) - 1))


def _group_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = same(ctx, ctx.inputs[0], ctx.inputs[1], ("src", "diff_dst"))
    size = _per_channel(ctx, src, 4, ("gamma",))
    groups = ctx.attributes.integer("groups")
    _check_groups(ctx, size, groups)
    for index, name in ((2, "mean"), (3, "variance")):
        if ctx.inputs[index] is not None:
            same(ctx, (-1 if src is None else src[0], groups), ctx.inputs[index], ("groups of src", name))
    return (src, *[(size,)] * (len(ctx.outputs) - 1))


def _check_groups(ctx: InferenceContext, channels: int, groups: int) -> None:
    if known(channels) and channels % groups:
        raise ctx.error(f"attribute 'groups' must divide the channels, got {groups} for {channels} channels")


def _rms(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is not None:
        _affine(ctx, 1, src[_normalised(ctx, src) :], ("gamma",))
    return (src,)


_MEAN_AND_VARIANCE = "One value per normalised part."

REGISTRY.register(
    OpSchema(
        kind="LayerNorm",
        summary="Normalisation over the last axes.",
        formula="dst = gamma · (src − mean) / √(variance + epsilon) + beta, with mean and variance of each part",
        inputs=(_SRC, *_stats("gamma", "beta", doc="The normalised axes' shape.", required=False)),
        outputs=(
            Port("dst", "T1", doc="The shape of src."),
            *_stats("mean", "variance", doc=_MEAN_AND_VARIANCE, required=False),
        ),
        input_counts=(1, 3),
        output_counts=(1, 3),
        outputs_made=_with_stats,
        attributes=(_KEEP_STATS, _BEGIN_NORM_AXIS, _USE_AFFINE, _DEFAULT_EPSILON),
        types=_TYPES,
        infer_shapes=_layer,
        backward=(
            BackwardOp(
                kind="LayerNormBackward",
                inputs=("src", "diff_dst", "mean", "variance", "gamma", "beta"),
                outputs=("src", "gamma", "beta"),
            ),
        ),
        source=SOURCE.format("LayerNorm"),
        family="normalization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="LayerNormBackward",
        summary="Gradients of LayerNorm.",
        formula="x̂ = (src − mean) / √(variance + epsilon); g = gamma · diff_dst; "
        "diff_src = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + epsilon); "
        "diff_gamma = Σ diff_dst · x̂; diff_beta = Σ diff_dst",
        inputs=(
            _SRC,
            Port("diff_dst", "T1", doc="Gradient of the forward op's output."),
            *_stats("mean", "variance", doc=_MEAN_AND_VARIANCE),
            *_stats("gamma", "beta", doc="The normalised axes' shape.", required=False),
        ),
        outputs=(
            Port("diff_src", "T1", doc="The shape of src."),
            *_stats("diff_gamma", "diff_beta", doc="The shape of gamma.", required=False),
        ),
        output_counts=(1, 3),
        outputs_made=lambda attributes: 3 if attributes.flag("use_affine") else 1,
        attributes=(_BEGIN_NORM_AXIS, _USE_AFFINE, _DEFAULT_EPSILON),
        types=_TYPES,
        infer_shapes=_layer_backward,
        source=SOURCE.format("LayerNormBackward"),
        family="normalization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="GroupNorm",
        summary="Normalisation of each image's groups of channels.",
        formula="dst = gamma · (src − mean) / √(variance + epsilon) + beta, with mean and variance of each group",
        inputs=(_SRC, *_stats("gamma", "beta", doc=_CHANNEL, required=False)),
        outputs=(
            Port("dst", "T1", doc="The shape of src."),
            *_stats("mean", "variance", doc="(N, groups).", required=False),
        ),
        input_counts=(1, 3),
        output_counts=(1, 3),
        outputs_made=_with_stats,
        attributes=(
            _KEEP_STATS,
            _GROUPS,
            _USE_AFFINE,
            _DEFAULT_EPSILON,
            DATA_FORMAT,
        ),
        types=_TYPES,
        infer_shapes=_group,
        backward=(
            BackwardOp(
                kind="GroupNormBackward",
                inputs=("src", "diff_dst", "mean", "variance", "gamma"),
                outputs=("src", "gamma", "beta"),
            ),
        ),
        source=SOURCE.format("GroupNorm"),
        family="normalization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="GroupNormBackward",
        summary="Gradients of GroupNorm.",
        formula="x̂ = (src − mean) / √(variance + epsilon); g = gamma · diff_dst; "
        "diff_src = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + epsilon), with means over each group; "
        "diff_gamma = Σ diff_dst · x̂; diff_beta = Σ diff_dst",
        inputs=(
            _SRC,
            Port("diff_dst", "T1", doc="Gradient of the forward op's output."),
            *_stats("mean", "variance", doc="(N, groups)."),
            *_stats("gamma", doc=_CHANNEL, required=False),
        ),
        outputs=(
            Port("diff_src", "T1", doc="The shape of src."),
            *_stats("diff_gamma", "diff_beta", doc=_CHANNEL, required=False),
        ),
        output_counts=(1, 3),
        outputs_made=lambda attributes: 3 if attributes.flag("use_affine") else 1,
        attributes=(_GROUPS, _USE_AFFINE, _DEFAULT_EPSILON, DATA_FORMAT),
        types=_TYPES,
        infer_shapes=_group_backward,
        source="an op of our own",
        family="normalization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="RMSNorm",
        summary="Division by the root of the mean square over the last axes.",
        formula="dst = gamma · src / √(mean(src²) + epsilon)",
        inputs=(_SRC, Port("gamma", "T2", required=False, doc="The normalised axes' shape.")),
        outputs=(Port("dst", "T1", doc="The shape of src."),),
        attributes=(_BEGIN_NORM_AXIS, _DEFAULT_EPSILON),
        types={"T1": FLOATS, "T2": FLOATS},
        infer_shapes=_rms,
        source=SOURCE.format("RMSNorm"),
        family="normalization",
    )
)
