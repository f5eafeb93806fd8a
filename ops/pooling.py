"""The pooling family.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from . import spatial
from .attributes import NON_NEGATIVE, POSITIVE, Attributes, AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .records import frozen
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import (
    AUTO_PAD,
    DATA_FORMAT,
    FLOATS,
    PADS_BEGIN,
    PADS_END,
    SOURCE,
    STRIDES,
    integers,
    known,
)
from .windows import WindowAttributes, check_per_axis, resolve_pads, window_attributes

_KERNEL = integers("kernel", POSITIVE, "Size of the window along each spatial axis.")
_DILATIONS = integers(
    "dilations",
    POSITIVE,
    "Distance between window elements; 1, which is dense, if absent.",
    required=False,
    unset_as=1,
)


def _pads(spec: AttributeSpec, where: str, what: str) -> AttributeSpec:
    """A padding of a pooling. A negative one, which real graphs have, leaves out elements at that end."""
    return evolve(
        spec,
        rule=None,
        doc=f"{what} {where} of the spatial axes, or with a negative number elements that are left out there; an "
        "empty list means none, and auto_pad other than None overrules it.",
    )


_BEFORE, _BEHIND = "before the front, top and left", "after the back, bottom and right"
_AVERAGE_PADS, _MAX_PADS = (
    (_pads(PADS_BEGIN, _BEFORE, what), _pads(PADS_END, _BEHIND, what))
    for what in ("Zeros", "Padding, which is −∞ and never the largest,")
)
_ROUNDING = AttributeSpec(
    "rounding_type",
    AttributeType.string,
    default="floor",
    rule=OneOf(("floor", "ceil"), any_case=True),
    doc="Whether a window that begins inside but ends beyond the padding counts: ceil.",
)
_EXCLUDE_PAD = AttributeSpec(
    "exclude_pad", AttributeType.bool, required=True, doc="Whether padding is left out of the averages."
)
_SRC_SHAPE = integers(
    "src_shape",
    NON_NEGATIVE,
    "Shape of the forward op's input; the input of that name wins over it.",
    required=False,
    unset_as=0,
)


@frozen(kw_only=True)
class Windows:
    """A pooling with everything resolved, one value per spatial axis.

    Attributes:
        pads_begin, pads_end: padding that the attributes give.
        beyond: positions that the last window of ceil rounding reaches behind that.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    beyond: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]

    @property
    def reaching(self) -> tuple[Sequence[int], ...]:
        """The elements of a window along each axis that are inside the data in some window."""
        return tuple(
            spatial.reaching(kernel, dilation, stride, begin, count, size + min(0, end))
            for kernel, dilation, stride, begin, end, count, size in zip(
                self.kernel,
                self.dilations,
                self.strides,
                self.pads_begin,
                self.pads_end,
                self.dst,
                self.src,
                strict=True,
            )
        )

    @property
    def trimmed(self) -> Windows:
        """The same without the first and last elements of windows that are never inside the data, though they count in
        averages.

        A window that has no other keeps one. Padding is negative where windows leave out as many elements of the data
        as one more would have.
        """
        kernel: list[int] = []
        begin: list[int] = []
        end: list[int] = []
        for axis, taps in enumerate(self.reaching):
            first, last = (taps[0], taps[-1]) if taps else (0, 0)
            size, dilation = last - first + 1, self.dilations[axis]
            kernel.append(size)
            begin.append(self.pads_begin[axis] - first * dilation)
            extent = spatial.effective_kernel(size, dilation)
            stop = (self.dst[axis] - 1) * self.strides[axis] + extent
            beyond = stop - self.src[axis] - begin[-1]
            end.append(0 if -self.strides[axis] < beyond < 0 else beyond)
        return evolve(
            self,
            kernel=tuple(kernel),
            pads_begin=tuple(begin),
            pads_end=tuple(end),
            beyond=(0,) * len(kernel),
        )

    def axis_by_axis(self) -> Iterator[Windows]:
        """Poolings of one axis each, the last axis first, that make the same sums one after another."""
        sizes = list(self.src)
        for axis in reversed(range(len(sizes))):

            def alone(values: tuple[int, ...], other: int, axis: int = axis) -> tuple[int, ...]:
                return tuple(value if a == axis else other for a, value in enumerate(values))

            before = tuple(sizes)
            sizes[axis] = self.dst[axis]
            yield Windows(
                kernel=alone(self.kernel, 1),
                strides=alone(self.strides, 1),
                dilations=alone(self.dilations, 1),
                pads_begin=alone(self.pads_begin, 0),
                pads_end=alone(self.pads_end, 0),
                beyond=alone(self.beyond, 0),
                src=before,
                dst=tuple(sizes),
            )


@frozen(kw_only=True)
class PoolingAttributes:
    """What the attributes of a pooling say.

    Attributes:
        window: how the windows lie on the data.
        kernel: size of a window, one value per spatial axis.
        ceil: a window that begins inside but ends beyond the padding counts; the backward ops do not say.
        exclude_pad: padding is left out of the averages.
    """

    window: WindowAttributes
    kernel: tuple[int, ...]
    ceil: bool
    exclude_pad: bool


def pooling_attributes(attributes: Attributes, rank: int) -> PoolingAttributes:
    """The attributes of a pooling over `rank` spatial axes whose lists have passed `check_per_axis`."""
    return PoolingAttributes(
        window=window_attributes(attributes, rank),
        kernel=attributes.integers("kernel"),
        ceil=attributes.get("rounding_type") == "ceil",
        exclude_pad="exclude_pad" in attributes and attributes.flag("exclude_pad"),
    )


def windows(pooling: PoolingAttributes, src: Sequence[int]) -> Windows:
    """The pooling of spatial sizes `src`; an unknown one stays unknown."""
    window, kernel = pooling.window, pooling.kernel
    begin: list[int] = []
    end: list[int] = []
    beyond: list[int] = []
    dst: list[int] = []
    for axis, size in enumerate(src):
        stride = window.strides[axis]
        extent = spatial.effective_kernel(kernel[axis], window.dilations[axis])
        first, last = resolve_pads(window, axis, kernel[axis], size)
        room = size + first + last - extent
        out = UNKNOWN_DIM
        if known(size):
            out = (-(-room // stride) if pooling.ceil else room // stride) + 1
            if pooling.ceil and out > 1 and (out - 1) * stride >= size + first:
                out -= 1  # a window must begin inside
        begin.append(first)
        end.append(last)
        dst.append(out)
        beyond.append(max(0, (out - 1) * stride + extent - (size + first + last)) if known(size) else 0)
    return Windows(
        kernel=kernel,
        strides=window.strides,
        dilations=window.dilations,
        pads_begin=tuple(begin),
        pads_end=tuple(end),
        beyond=tuple(beyond),
        src=tuple(src),
        dst=tuple(dst),
    )


def windows_between(pooling: PoolingAttributes, src: Sequence[int], dst: Sequence[int]) -> Windows:
    """The windows that give spatial sizes `dst`: backward ops do not say how sizes are rounded, dst tells it."""
    found = windows(pooling, src)
    return found if found.dst == tuple(dst) else windows(evolve(pooling, ceil=True), src)


def _attributes(ctx: InferenceContext, src: tuple[int, ...]) -> PoolingAttributes:
    """The attributes, checked against the rank of the forward op's input.

    Raises:
        ShapeError: too few axes, or an attribute of another length.
    """
    rank = len(src) - 2
    if rank < 1:
        raise ctx.error(
            f"the data must have a batch, channels and spatial axes, got shape {format_shape(src)}"
        )
    check_per_axis(ctx, src)
    return pooling_attributes(ctx.attributes, rank)


def _output(ctx: InferenceContext, pooling: PoolingAttributes, src: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the forward op's output.

    Raises:
        ShapeError: a window that does not fit.
    """
    axes = pooling.window.spatial_axes
    result = _sizes(pooling, src)
    if any(known(src[axis]) and result[axis] < 1 for axis in axes):
        found = windows(pooling, [src[a] for a in axes])
        raise ctx.error(
            f"the window must fit into the padded data, got kernel {list(found.kernel)}, pads "
            f"{list(found.pads_begin)} and {list(found.pads_end)} for shape {format_shape(src)} in data_format "
            f"'{pooling.window.data_format}'"
        )
    return result


def _sizes(pooling: PoolingAttributes, src: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the forward op's output; below 1 where no window fits."""
    axes = pooling.window.spatial_axes
    made = dict(zip(axes, windows(pooling, [src[a] for a in axes]).dst, strict=True))
    return tuple(made.get(axis, size) for axis, size in enumerate(src))


def _forward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    return (None if src is None else _output(ctx, _attributes(ctx, src), src),)


def _check_backward(ctx: InferenceContext, src: Shape, diff_dst: Shape) -> None:
    if src is None or diff_dst is None:
        return
    pooling = _attributes(ctx, src)
    # The backward ops have no rounding_type: diff_dst tells what it was. One window may fit by ceil alone.
    ceil = _output(ctx, evolve(pooling, ceil=True), src)
    floor = _sizes(pooling, src)
    agrees = len(diff_dst) == len(src) and any(
        all(a == b or UNKNOWN_DIM in (a, b) for a, b in zip(diff_dst, want, strict=True))
        for want in (floor, ceil)
    )
    if not agrees:
        _output(ctx, pooling, src)
        raise ctx.error(
            f"'diff_dst' must have shape {format_shape(floor)} for the input {format_shape(src)} with kernel "
            f"{list(pooling.kernel)} and strides {list(pooling.window.strides)}, got {format_shape(diff_dst)}"
        )


def _max_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    _check_backward(ctx, ctx.inputs[0], ctx.inputs[1])
    return (ctx.inputs[0],)


def _average_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src: Shape = ctx.values.get("src_shape")
    if src is None and len(ctx.inputs) == 1:
        if "src_shape" not in ctx.attributes:
            raise ctx.error(
                "the shape of the input is missing; give attribute 'src_shape' or connect input 'src_shape'"
            )
        src = ctx.attributes.integers("src_shape")
    if src is None:
        return (None if ctx.inputs[0] is None else (UNKNOWN_DIM,) * len(ctx.inputs[0]),)
    _check_backward(ctx, src, ctx.inputs[0])
    return (src,)


_SRC = Port("src", "T", doc="Data, in data_format.")
_DST = (Port("dst", "T", doc="One value per window."),)
_DIFF_DST = Port("diff_dst", "T", doc="Gradient of the forward op's output.")
_DIFF_SRC = (Port("diff_src", "T", doc="Gradient of the forward op's input."),)

REGISTRY.register(
    OpSchema(
        kind="AvgPool",
        summary="Average of each window.",
        formula="dst[n, c, p] = Σ_k src[n, c, p·stride + k − pad] / count",
        inputs=(_SRC,),
        outputs=_DST,
        attributes=(STRIDES, *_AVERAGE_PADS, _EXCLUDE_PAD, _KERNEL, DATA_FORMAT, _ROUNDING, AUTO_PAD),
        types={"T": FLOATS},
        infer_shapes=_forward,
        notes=("count is the window's size, or the number of its elements inside src with exclude_pad.",),
        backward=(
            BackwardOp(
                kind="AvgPoolBackward", inputs=("diff_dst",), outputs=("src",), shapes={"src_shape": "src"}
            ),
        ),
        source=SOURCE.format("AvgPool"),
        family="pooling",
    )
)
REGISTRY.register(
    OpSchema(
        kind="AvgPoolBackward",
        summary="Gradient of AvgPool.",
        formula="diff_src[n, c, p·stride + k − pad] += diff_dst[n, c, p] / count",
        inputs=(
            _DIFF_DST,
            Port(
                "src_shape",
                "T1",
                required=False,
                shape_operand=True,
                doc="1-D tensor with the shape of the forward op's input; wins over the attribute.",
            ),
        ),
        outputs=_DIFF_SRC,
        attributes=(
            STRIDES,
            *_AVERAGE_PADS,
            _EXCLUDE_PAD,
            _KERNEL,
            AUTO_PAD,
            DATA_FORMAT,
            _SRC_SHAPE,
        ),
        types={"T": FLOATS, "T1": (DataType.s32,)},
        infer_shapes=_average_backward,
        source=SOURCE.format("AvgPoolBackward"),
        family="pooling",
    )
)
MAX_POOL = REGISTRY.register(
    OpSchema(
        kind="MaxPool",
        summary="Largest element of each window.",
        formula="dst[n, c, p] = max_k src[n, c, p·stride + k·dilation − pad]",
        inputs=(_SRC,),
        outputs=_DST,
        attributes=(STRIDES, *_MAX_PADS, _KERNEL, _DILATIONS, DATA_FORMAT, _ROUNDING, AUTO_PAD),
        types={"T": FLOATS},
        infer_shapes=_forward,
        backward=(BackwardOp(kind="MaxPoolBackward", inputs=("src", "diff_dst"), outputs=("src",)),),
        source=SOURCE.format("MaxPool"),
        family="pooling",
    )
)
REGISTRY.register(
    OpSchema(
        kind="MaxPoolBackward",
        summary="Gradient of MaxPool.",
        formula="diff_src at the first largest element of each window += diff_dst[n, c, p]",
        inputs=(Port("src", "T", doc="Input of the forward op, in data_format."), _DIFF_DST),
        outputs=_DIFF_SRC,
        attributes=(STRIDES, *_MAX_PADS, _KERNEL, AUTO_PAD, _DILATIONS, DATA_FORMAT),
        types={"T": FLOATS},
        infer_shapes=_max_backward,
        source=SOURCE.format("MaxPoolBackward"),
        family="pooling",
    )
)
