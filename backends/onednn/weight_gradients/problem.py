"""The weight gradient as the lowering strategies see it: the normalised problem and where its tensors lie."""

from __future__ import annotations

from attrs import evolve

from ....ops.convolution_geometry import ConvolutionGeometry
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.enumerators import FpmathMode
from ..library.loading import MAX_SPATIAL_RANK

NATIVE_TYPES = (DataType.f32, DataType.bf16, DataType.f16)
INT_MAX = 2**31 - 1
SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_BIAS = 0, 1, 2, 3
"""Numbers of an executable's arguments: the op's inputs, then its output, then that of a BiasAddBackward."""


@frozen
class View:
    """Shape and strides, in elements, of a canonical view."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@frozen(kw_only=True)
class Problem:
    """A weight gradient with everything that a choice of kernels depends on.

    Attributes:
        gradient: the normalised problem.
        data_type: of all three tensors.
        src: (N, G·I, X) and where it lies; it plays src under normalised roles. dst: (N, G·O, P).
        weights: (G, O, I, K), without G where there is one group.
        fpmath: how far the library may lower the precision of f32.
        free_weights: dW may stay in the layout that the primitive chooses.
        bias: where the sum of diff_dst per channel goes, if it is wanted too.
    """

    gradient: ConvolutionGeometry
    data_type: DataType
    src: View
    dst: View
    weights: View
    fpmath: FpmathMode = FpmathMode.strict
    free_weights: bool = False
    bias: View | None = None

    @property
    def may_lower_to_bf16(self) -> bool:
        """Whether the user allows f32 tensors to be multiplied as bf16; sums stay f32."""
        return self.data_type is DataType.f32 and self.fpmath in (FpmathMode.bf16, FpmathMode.any)

    @property
    def channels_last(self) -> bool:
        """Whether the channels of src are adjacent in memory."""
        return self.src.strides[1] == 1


def make_problem(
    gradient: ConvolutionGeometry,
    data_type: DataType,
    op_src: View,
    op_diff_dst: View,
    op_diff_weights: View,
    fpmath: FpmathMode = FpmathMode.strict,
    free_weights: bool = False,
) -> Problem:
    """Canonical views of the op's arrays, roles normalised.

    Args:
        op_src, op_diff_dst, op_diff_weights: shapes and strides in the op's own formats.
    """
    playing_src, playing_dst = (op_diff_dst, op_src) if gradient.exchanged else (op_src, op_diff_dst)
    src_shape, src_strides = gradient.src_axes.apply(playing_src.shape, playing_src.strides)
    dst = View(*gradient.dst_axes.apply(playing_dst.shape, playing_dst.strides))
    weights = View(*gradient.weights_axes.apply(op_diff_weights.shape, op_diff_weights.strides))
    if gradient.groups == 1:
        weights = View(weights.shape[1:], weights.strides[1:])
    return Problem(
        gradient=gradient,
        data_type=data_type,
        src=View((*src_shape[:2], *gradient.src_spatial), src_strides),
        dst=dst,
        weights=weights,
        fpmath=fpmath,
        free_weights=free_weights,
    )


SMALL_FLOPS = 200_000
"""Below, a convolution takes no longer than the calls around it."""


def is_small(gradient: ConvolutionGeometry) -> bool:
    """Whether overheads decide, so that estimates mean nothing."""
    return gradient.flops < SMALL_FLOPS


def lifted(problem: Problem) -> Problem:
    """A 1-D problem as a 2-D one of height 1, on the same memory."""
    gradient = problem.gradient
    ones = {
        name: (1, *getattr(gradient, name))
        for name in ("src_spatial", "dst_spatial", "kernel", "strides", "dilations")
    }
    zeros = {name: (0, *getattr(gradient, name)) for name in ("pads_begin", "pads_end")}

    def tall(view: View) -> View:
        at = len(view.shape) - 1
        step = view.shape[at] * view.strides[at]
        return View((*view.shape[:at], 1, view.shape[at]), (*view.strides[:at], step, view.strides[at]))

    return evolve(
        problem,
        gradient=evolve(gradient, **ones, **zeros),
        src=tall(problem.src),
        dst=tall(problem.dst),
        weights=tall(problem.weights),
    )


def check(problem: Problem) -> str | None:
    """Why no lowering can take the problem, or None when one may."""
    gradient = problem.gradient
    if problem.data_type not in NATIVE_TYPES:
        return f"oneDNN convolutions take f32, bf16 and f16, not {problem.data_type.value}"
    if gradient.spatial_rank > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {gradient.spatial_rank}"
    largest = max(
        *gradient.strides,
        *gradient.dilations,
        *gradient.pads_begin,
        *gradient.pads_end,
        *problem.src.shape,
        *problem.dst.shape,
        *problem.weights.shape,
    )
    if largest > INT_MAX // 8:
        return f"a size, stride, pad or dilation of {largest} is beyond the library's 32-bit kernels"
    return None
