"""Weight gradients as matrix products, of the data as they are or of gathered patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from attrs import evolve

from .....graph.model.logical_tensor import row_major
from .....ops.convolution_geometry import ConvolutionGeometry
from .....ops.data_types import DataType
from .....ops.records import frozen
from ...library.memory import packed
from ...plan.steps import Buffer
from ..draft import Draft
from ..problem import Problem, View
from .base import channels_last, compute_type, suffix, type_reason


def _rows(view: View) -> int | None:
    """The stride between rows where batch and positions are one axis of rows, else None."""
    sizes, strides = (view.shape[0], *view.shape[2:]), (view.strides[0], *view.strides[2:])
    return _one_step(sizes, strides) if math.prod(sizes) > 1 else view.shape[1]


@frozen(kw_only=True)
class Product:
    """A pointwise convolution as one matrix product: dW = diff_dstᵀ · src over all positions.

    Attributes:
        parts: the positions are cut into so many products, summed in f32, for more parallel work.
    """

    via: DataType | None = None
    parts: int = 1

    @property
    def name(self) -> str:
        cut = f" in {self.parts} parts" if self.parts > 1 else ""
        return f"matrix product{cut}{suffix(self.via)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if any(k > 1 for k in gradient.kernel) or any(gradient.pads_begin) or any(gradient.pads_end):
            return "it is not a pointwise convolution without pads"
        if (gradient.batch * math.prod(gradient.dst_spatial)) % self.parts:
            return f"{self.parts} does not divide the positions"
        if gradient.groups > 1 and self.parts > 1:
            return "groups are parts enough"
        return type_reason(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        jumps = [a * b for a, b in zip(problem.src.strides[2:], gradient.strides, strict=True)]
        picked = View((*problem.src.shape[:2], *gradient.dst_spatial), (*problem.src.strides[:2], *jumps))
        src = draft.look(draft.src(), picked.shape, picked.strides, 0, problem.data_type)
        columns, column_row = _as_rows(draft, "src", src, picked, compute)
        rows, row_row = _as_rows(draft, "diff_dst", draft.dst(), problem.dst, compute)
        multiply_rows(draft, rows, row_row, columns, column_row, (), compute, self.parts)


def _as_rows(draft: Draft, what: str, buffer: Buffer, view: View, compute: DataType) -> tuple[Buffer, int]:
    """Data as a matrix of (positions, channels): a buffer and the stride of its rows."""
    row = _rows(view)
    if row is not None and view.strides[1] == 1 and compute == draft.problem.data_type:
        return buffer, row
    exchanged = draft.problem.gradient.exchanged
    other = {"src": "diff_dst", "diff_dst": "src"}
    dense = draft.layouts.temporary(view.shape, compute, channels_last(view.shape))
    draft.emitter.copy(other[what] if exchanged else what, buffer, dense)
    return dense, view.shape[1]


@frozen
class Matrix:
    """A batch of matrices in a buffer; steps in elements."""

    buffer: Buffer
    batch: int
    batch_step: int
    rows: int
    row_step: int
    columns: int
    column_step: int

    def turned(self) -> Matrix:
        """Its transpose."""
        return evolve(
            self, rows=self.columns, row_step=self.column_step, columns=self.rows, column_step=self.row_step
        )

    def look(self, draft: Draft, data_type: DataType) -> Buffer:
        """The operand of a matmul: the batch axis only where there is one.

        The step of an axis of size 1 means nothing, but the library takes it for a leading dimension.
        """
        row_step, column_step = self.row_step, self.column_step
        if self.columns == 1:
            column_step = 1
            row_step = max(row_step, 1)
        elif self.rows == 1:
            row_step = self.columns if column_step == 1 else 1
        shape, steps = (self.rows, self.columns), (row_step, column_step)
        if self.batch > 1:
            shape, steps = (self.batch, *shape), (self.batch_step, *steps)
        return draft.look(self.buffer, shape, steps, 0, data_type)


def multiply_rows(
    draft: Draft,
    dst: Buffer,
    dst_row: int,
    src: Buffer,
    src_row: int,
    taps: tuple[int, ...],
    compute: DataType,
    parts: int,
) -> None:
    """DW = dstᵀ · columns, where each row of `columns` is (G, taps, I), and into the user's array.

    Args:
        dst: positions by G·O channels. dst_row, src_row: strides of the rows.
        src: positions by G · taps · I.
        taps: sizes of the kernel axes that are part of the columns; none for a pointwise kernel.
        parts: the positions are cut into so many products, whose f32 results are summed.
    """
    problem, gradient = draft.problem, draft.problem.gradient
    g, rows, inputs = gradient.groups, gradient.rows, gradient.columns
    positions = gradient.batch * math.prod(gradient.dst_spatial)
    wide = math.prod(taps) * inputs
    size = positions // parts
    lead = parts if parts > 1 else g
    a_batch, b_batch = (size * dst_row, size * src_row) if parts > 1 else (rows, wide)
    a = Matrix(dst, lead, a_batch, rows, 1, size, dst_row)
    b = Matrix(src, lead, b_batch, size, src_row, wide, 1)
    user = problem.weights.strides if g > 1 else (0, *problem.weights.strides)
    group_step, row_step, column_step = user[:3]
    taps_at = user[3:] if taps else ()
    step = _one_step((*taps, inputs), (*taps_at, column_step))
    gathered = draft.gathered(compute) if parts == 1 else DataType.f32
    if parts == 1 and gathered == draft.result_type and step is not None and 1 in (step, row_step):
        c = Matrix(draft.result_array(), lead, group_step, rows, row_step, wide, step)
        if step == 1:
            draft.multiply(a.look(draft, compute), b.look(draft, compute), c.look(draft, gathered), compute)
        else:
            b, a, c = (m.turned() for m in (b, a, c))
            draft.multiply(b.look(draft, compute), a.look(draft, compute), c.look(draft, gathered), compute)
        return
    dw = draft.layouts.temporary((lead * rows * wide,), gathered)
    c = Matrix(dw, lead, rows * wide, rows, wide, wide, 1)
    draft.multiply(a.look(draft, compute), b.look(draft, compute), c.look(draft, gathered), compute)
    if parts > 1:
        one = [draft.look(dw, (rows, wide), (wide, 1), p * rows * wide, gathered) for p in range(parts)]
        dw = draft.layouts.temporary((rows, wide), gathered)
        draft.total("parts", one, dw)
    draft.compute = gathered
    # (G, O, taps, I) into the user's (G, O, I, K).
    shape = (g, rows, *taps, inputs)
    lying = draft.look(dw, shape, row_major(shape), 0, gathered)
    draft.emitter.copy(
        "diff_weights", lying, draft.weights(shape, (group_step, row_step, *taps_at, column_step))
    )


def _one_step(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of these axes taken as one, or None where they can't be."""
    step = expected = 0
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if expected and stride != expected:
            return None
        step = step or stride
        expected = stride * size
    return step or 1


def _no_patches(gradient: ConvolutionGeometry) -> str | None:
    """Why there are no patches of several positions of all channels, or None."""
    if gradient.groups > 1:
        return "there are groups"
    return "the kernel is pointwise" if all(k == 1 for k in gradient.kernel) else None


@frozen(kw_only=True)
class Columns:
    """Patches of src gathered into the rows of a matrix, and one product with diff_dst.

    A patch is gathered tap by tap by strided reorders, or by one where the kernel is as large as the stride.
    """

    via: DataType | None = None
    most_taps = 64

    @property
    def name(self) -> str:
        return f"columns and matrix product{suffix(self.via)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        reason = _no_patches(gradient)
        if reason is not None:
            return reason
        if not self.tiles(gradient) and math.prod(gradient.kernel) > self.most_taps:
            return f"the kernel has more than {self.most_taps} taps"
        return type_reason(problem, self.via)

    @staticmethod
    def tiles(gradient: ConvolutionGeometry) -> bool:
        """Whether patches neither overlap nor leave gaps."""
        return (
            gradient.kernel == gradient.strides
            and not any(gradient.pads_begin)
            and not any(gradient.pads_end)
            and all(d == 1 for d in gradient.dilations)
        )

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        n, channels = problem.src.shape[:2]
        out, kernel = gradient.dst_spatial, gradient.kernel
        wide = math.prod(kernel) * channels
        tiles = self.tiles(gradient)
        columns = draft.layouts.temporary((n * math.prod(out), wide), compute, zeroed=not tiles)
        strides = row_major((n, *out, *kernel, channels))
        rank = gradient.spatial_rank
        at_out, at_kernel = strides[1 : 1 + rank], strides[1 + rank : 1 + 2 * rank]
        batch_step, channel_step, *steps = problem.src.strides
        if tiles:
            shape = (n, *out, *kernel, channels)
            jumps = [step * s for step, s in zip(steps, gradient.strides, strict=True)]
            source = draft.look(
                draft.src(), shape, (batch_step, *jumps, *steps, channel_step), 0, problem.data_type
            )
            draft.emitter.copy("src", source, draft.look(columns, shape, strides, 0, compute))
        else:
            for tap in product(*map(range, kernel)):
                self._gather(draft, columns, tap, (strides[0], *at_out, 1), at_kernel, compute)
        rows, row = _as_rows(draft, "diff_dst", draft.dst(), problem.dst, compute)
        multiply_rows(draft, rows, row, columns, wide, kernel, compute, 1)

    @staticmethod
    def _gather(
        draft: Draft,
        columns: Buffer,
        tap: tuple[int, ...],
        strides: tuple[int, ...],
        at_kernel: tuple[int, ...],
        compute: DataType,
    ) -> None:
        """The rectangle of positions for which one tap is inside of src."""
        problem, gradient = draft.problem, draft.problem.gradient
        n, channels = problem.src.shape[:2]
        batch_step, channel_step, *steps = problem.src.strides
        sizes: list[int] = []
        source_offset = target_offset = 0
        for axis, t in enumerate(tap):
            s = gradient.strides[axis]
            first = t * gradient.dilations[axis] - gradient.pads_begin[axis]
            low = max(0, -(first // s)) if first < 0 else 0
            high = min(gradient.dst_spatial[axis], (gradient.src_spatial[axis] - 1 - first) // s + 1)
            if high <= low:
                return
            sizes.append(high - low)
            source_offset += (first + low * s) * steps[axis]
            target_offset += low * strides[1 + axis] + t * at_kernel[axis]
        jumps = [step * s for step, s in zip(steps, gradient.strides, strict=True)]
        shape = (n, *sizes, channels)
        source = draft.look(
            draft.src(), shape, (batch_step, *jumps, channel_step), source_offset, problem.data_type
        )
        draft.emitter.copy("src", source, draft.look(columns, shape, strides, target_offset, compute))


@frozen(kw_only=True)
class WholeImages:
    """Windows that are the whole image, each of one position: dW = diff_dstᵀ · src, a row for each image.

    A fully connected layer written as a convolution, and the transposed first layer of a generator. dW is larger than
    all else together and is written once, in the user's order: src is turned to that first, which is small. The size of
    the window leaves no dilation above 1.
    """

    via: DataType | None = None

    @property
    def name(self) -> str:
        return f"matrix product of whole images{suffix(self.via)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        reason = _no_patches(gradient)
        if reason is not None:
            return reason
        if any(p > 1 for p in gradient.dst_spatial) or gradient.kernel != gradient.src_spatial:
            return "the window is not the whole image"
        if any(gradient.pads_begin) or any(gradient.pads_end):
            return "there are pads"
        return type_reason(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        images, window = problem.src.shape[0], problem.src.shape[1:]
        wide = math.prod(window)
        row_step, *steps = problem.weights.strides
        lying = packed(window, steps)
        src = draft.emitter.bring(
            "diff_dst" if gradient.exchanged else "src",
            draft.src(),
            draft.layouts.desc(problem.src.shape, (wide, *lying), compute),
        )
        dst, dst_row = _as_rows(draft, "diff_dst", draft.dst(), problem.dst, compute)
        a = Matrix(dst, 1, 0, gradient.rows, 1, images, dst_row)
        b = Matrix(src, 1, 0, images, wide, wide, 1)
        ordered = sorted(zip(lying, window, steps, strict=True), reverse=True)
        step = _one_step([size for _, size, _ in ordered], [step for _, _, step in ordered])
        gathered = draft.gathered(compute)
        in_place = gathered == draft.result_type and step is not None and 1 in (step, row_step)
        if in_place:
            c = Matrix(draft.result_array(), 1, 0, gradient.rows, row_step, wide, step or 1)
        else:
            c = Matrix(
                draft.layouts.temporary((gradient.rows * wide,), gathered), 1, 0, gradient.rows, wide, wide, 1
            )
        first, second = (a, b) if c.column_step == 1 else (b.turned(), a.turned())
        target = c if c.column_step == 1 else c.turned()
        draft.multiply(
            first.look(draft, compute), second.look(draft, compute), target.look(draft, gathered), compute
        )
        draft.compute = gathered
        if not in_place:
            shape = (gradient.rows, *window)
            made = draft.look(c.buffer, shape, (wide, *lying), 0, gathered)
            draft.emitter.copy("diff_weights", made, draft.weights(shape, problem.weights.strides))
