"""Grouped and depthwise convolutions in ways that suit the library's kernels better."""

from __future__ import annotations

import math

from attrs import evolve

from .....graph.model.logical_tensor import row_major
from .....ops.convolution_geometry import ConvolutionGeometry
from .....ops.data_types import DataType
from .....ops.records import frozen
from ...library.implementations import LANES
from ..draft import Draft
from ..problem import Problem
from .base import Data, channels_last, compute_type, data_bytes, data_layout, is_direct, suffix, type_reason


@frozen(kw_only=True)
class MergedGroups:
    """Several groups as one dense group that fills vectors, of whose dW only the diagonal blocks are kept.

    More multiplications, but all lanes of a vector at work: where groups have few channels the library pads each of
    them to 16.
    """

    data: Data
    via: DataType | None = None

    @property
    def name(self) -> str:
        return f"merged groups on {self.data.value}{suffix(self.via)}"

    @staticmethod
    def merged(gradient: ConvolutionGeometry) -> int:
        """How many groups become one: the most that fit into a vector on one side, and into two on the other."""
        narrow, wide = sorted((gradient.rows, gradient.columns))
        return max(
            m
            for m in range(1, LANES + 1)
            if m == 1 or (gradient.groups % m == 0 and m * narrow <= LANES and m * wide <= 2 * LANES)
        )

    def applies(self, problem: Problem) -> str | None:
        if self.merged(problem.gradient) < 2:
            return (
                f"no two groups fit together into {LANES} channels on one side and {2 * LANES} on the other"
            )
        if self.data is Data.channels_last and problem.channels_last:
            return "the channels are last already"
        return type_reason(problem, self.via)

    def copied_bytes(self, problem: Problem) -> int:
        """The size of its copies of src and diff_dst."""
        return data_bytes(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        m = self.merged(gradient)
        outer, rows, columns = gradient.groups // m, gradient.rows, gradient.columns
        dense = evolve(gradient, groups=outer, rows=m * rows, columns=m * columns)
        layouts = (
            data_layout(draft, problem.src, self.data, compute),
            data_layout(draft, problem.dst, self.data, compute),
        )
        dw = draft.convolve(dense, draft.src(), draft.dst(), layouts, compute, is_direct)
        shape = (m * rows, m * columns, *gradient.kernel)
        row, column, *taps = row_major(shape)
        gathered = draft.gathered(compute)
        block = rows * row + columns * column
        # The library takes strides only if each is beyond what the smaller ones span, so groups keep a distance.
        group = m * block
        whole = (
            draft.layouts.desc(shape, (row, column, *taps), gathered)
            if outer == 1
            else draft.layouts.desc((outer, *shape), (group, row, column, *taps), gathered)
        )
        plain = draft.emitter.bring("dense diff_weights", dw, whole)
        blocks = (outer, m, rows, columns, *gradient.kernel)
        diagonal = draft.look(plain, blocks, (group, block, row, column, *taps), 0, gathered)
        user = problem.weights.strides
        draft.emitter.copy("diff_weights", diagonal, draft.weights(blocks, (m * user[0], *user)))


@frozen(kw_only=True)
class SplitWidth:
    """A depthwise kernel wider than 3 as pieces of at most 3, which the library has fast kernels for.

    Each piece reads src from a padded copy whose pointer is moved along the width. diff_dst gets columns of zeros so
    that the widths agree. 2-D, without dilation.
    """

    via: DataType | None = None
    pieces_of = 3

    @property
    def name(self) -> str:
        return f"depthwise by pieces of the width{suffix(self.via)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if not gradient.depthwise or gradient.spatial_rank != 2:
            return "it is not depthwise in 2-D"
        if gradient.kernel[1] <= self.pieces_of:
            return "the kernel is at most 3 wide"
        if any(d > 1 for d in gradient.dilations):
            return "the kernel is dilated"
        return type_reason(problem, self.via)

    def copied_bytes(self, problem: Problem) -> int:
        """The size of its copies of src and diff_dst."""
        return data_bytes(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        n, c, height, width = problem.src.shape
        out_height = gradient.dst_spatial[0]
        kernel, stride, begin = gradient.kernel[1], gradient.strides[1], gradient.pads_begin[1]
        # One width for all pieces: what the widest one reads, counted from its own pointer.
        padded = begin + width + gradient.pads_end[1]
        wide = (padded - self.pieces_of) // stride + 1
        src_shape, dst_shape = (n, c, height, padded), (n, c, out_height, wide)
        strides = channels_last(src_shape)
        # Pieces read up to a kernel's width beyond the last row; the zeros of diff_dst meet what they read there.
        flat = math.prod(src_shape) + kernel * c
        source = draft.layouts.temporary((flat,), compute, zeroed=True)
        inner = draft.look(source, problem.src.shape, strides, begin * c, compute)
        target = draft.layouts.temporary(dst_shape, compute, channels_last(dst_shape), zeroed=True)
        narrow = draft.look(target, problem.dst.shape, channels_last(dst_shape), 0, compute)
        draft.emitter.copy("src", draft.src(), inner)
        draft.emitter.copy("diff_dst", draft.dst(), narrow)
        # The last piece overlaps the one before it: both write the same values of the taps that they share.
        starts = sorted({*range(0, kernel - self.pieces_of, self.pieces_of), kernel - self.pieces_of})
        piece = evolve(
            gradient,
            kernel=(gradient.kernel[0], self.pieces_of),
            src_spatial=(height, padded),
            dst_spatial=(out_height, wide),
            pads_begin=(gradient.pads_begin[0], 0),
            pads_end=(gradient.pads_end[0], 0),
        )
        size = (c, 1, 1, *piece.kernel)
        for start in starts:
            moved = draft.look(source, src_shape, strides, start * c, compute)
            dw = draft.convolve(
                piece, moved, target, (moved.desc, target.desc), compute, _is_depthwise, again=start > 0
            )
            at = start * problem.weights.strides[-1]
            draft.emitter.copy("diff_weights", dw, draft.weights(size, problem.weights.strides, at))


def _is_depthwise(implementation: str) -> bool:
    return implementation.startswith("jit_dw")
