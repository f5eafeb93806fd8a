"""The ways to compute a weight gradient on the library's primitives, one small class each.

A strategy says whether it applies to a problem and writes its steps into a draft. `STRATEGIES` is the whole table;
which of them runs is decided in `selection.py`. All see the same normalised problem, so that a transposed op needs
nothing of its own. Shapes are canonical: src (N, G·I, X), dst (N, G·O, P), dW (G, O, I, K).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from typing import Protocol

from attrs import evolve, frozen

from ...graph.logical_tensor import row_major
from ...ops.data_types import DataType
from ...ops.spatial import effective_kernel
from ...ops.weights_gradient import WeightsGradient
from .draft import Draft, Unfit
from .memory import MemoryDesc
from .plan import Buffer
from .problem import Problem, View
from .quarantine import LANES


class Strategy(Protocol):
    """One way to compute dW."""

    @property
    def name(self) -> str:
        """For `explain`, and for the user who pins it."""
        ...

    def applies(self, problem: Problem) -> str | None:
        """Why it is nothing for this problem, or None."""
        ...

    def write(self, draft: Draft) -> None:
        """Writes the steps.

        Raises:
            Unfit: the library can't do a step.
        """
        ...


class Data(StrEnum):
    """Where src and diff_dst lie for a convolution."""

    user = "the user's layout"
    channels_last = "channels last"
    free = "the primitive's own layout"


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense (N, C, X) array that lies as (N, X, C)."""
    lying = row_major((shape[0], *shape[2:], shape[1]))
    return (lying[0], lying[-1], *lying[1:-1])


def _layout(draft: Draft, view: View, data: Data, compute: DataType) -> MemoryDesc:
    """The descriptor of src or diff_dst for a convolution."""
    problem = draft.problem
    if data is Data.free:
        return MemoryDesc.any(draft.engine.lib, view.shape, compute)
    strides = view.strides
    converts = compute != problem.data_type
    if data is Data.channels_last or (converts and problem.channels_last):
        strides = channels_last(view.shape)
    elif converts:
        strides = row_major(view.shape)
    return draft.desc(view.shape, strides, compute)


def _compute(problem: Problem, through_f32: bool) -> DataType:
    return DataType.f32 if through_f32 else problem.data_type


def _type_reason(problem: Problem, through_f32: bool) -> str | None:
    """Whether a strategy in the tensors' own type, or in f32, makes sense."""
    if through_f32 and problem.data_type is DataType.f32:
        return "the tensors are f32 already"
    if not through_f32 and problem.data_type is DataType.f16:
        return "the library has only a reference loop in f16"
    return None


def _suffix(through_f32: bool) -> str:
    return " in f32" if through_f32 else ""


@frozen(kw_only=True)
class Direct:
    """One convolution, with reorders where its layouts are not the user's.

    Attributes:
        data: layout of src and diff_dst for the primitive.
        through_f32: half precisions are converted, and dW is rounded back.
        gemm: takes implementations by im2col and gemm, and only those; otherwise only direct ones.
        reference: takes the library's reference loop, and only that.
    """

    data: Data
    through_f32: bool = False
    gemm: bool = False
    reference: bool = False

    @property
    def name(self) -> str:
        how = "reference" if self.reference else "gemm" if self.gemm else "direct"
        return f"{how} on {self.data.value}{_suffix(self.through_f32)}"

    def applies(self, problem: Problem) -> str | None:
        if self.data is Data.channels_last and problem.channels_last:
            return "the channels are last already"
        return _type_reason(problem, self.through_f32)

    def takes(self, implementation: str) -> bool:
        """Whether it goes with an implementation of that name."""
        if self.reference or implementation.startswith("ref"):
            return self.reference and implementation.startswith("ref")
        return ("gemm" in implementation) == self.gemm

    def write(self, draft: Draft) -> None:
        problem = draft.problem
        compute = _compute(problem, self.through_f32)
        layouts = (
            _layout(draft, problem.src, self.data, compute), _layout(draft, problem.dst, self.data, compute)
        )  # fmt: skip
        dw = draft.convolve(problem.gradient, draft.src(), draft.dst(), layouts, compute, self.takes)
        draft.result(dw)


@frozen(kw_only=True)
class Padded:
    """A convolution without pads on a copy of src that has them as zeros: kernels are choosy about wide pads."""

    through_f32: bool = False

    @property
    def name(self) -> str:
        return f"direct on a padded copy{_suffix(self.through_f32)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if not any(gradient.pads_begin) and not any(gradient.pads_end):
            return "there are no pads"
        return _type_reason(problem, self.through_f32)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = _compute(problem, self.through_f32)
        sizes = [sum(three) for three in zip(
            gradient.pads_begin, gradient.src_spatial, gradient.pads_end, strict=True)]  # fmt: skip
        shape = (*problem.src.shape[:2], *sizes)
        strides = channels_last(shape)
        padded = draft.temporary(shape, compute, strides, zeroed=True)
        offset = sum(pad * step for pad, step in zip(gradient.pads_begin, strides[2:], strict=True))
        draft.copy("src", draft.src(), draft.look(padded, problem.src.shape, strides, offset, compute))
        none = (0,) * gradient.spatial_rank
        bare = evolve(gradient, src_spatial=tuple(sizes), pads_begin=none, pads_end=none)
        layouts = (padded.desc, _layout(draft, problem.dst, Data.channels_last, compute))
        draft.result(draft.convolve(bare, padded, draft.dst(), layouts, compute, _is_direct))


@frozen(kw_only=True)
class MergedGroups:
    """Several groups as one dense group of about 16 channels, of whose dW only the diagonal blocks are kept.

    More multiplications, but all lanes of a vector at work: where groups have few channels the library pads each of
    them to 16.
    """

    data: Data
    through_f32: bool = False

    @property
    def name(self) -> str:
        return f"merged groups on {self.data.value}{_suffix(self.through_f32)}"

    @staticmethod
    def merged(gradient: WeightsGradient) -> int:
        """How many groups become one: as many as divide them all and fill the lanes."""
        widest = max(gradient.rows, gradient.columns)
        fitting = [m for m in range(1, LANES + 1) if gradient.groups % m == 0 and m * widest <= LANES]
        return max(fitting, default=1)

    def applies(self, problem: Problem) -> str | None:
        if self.merged(problem.gradient) < 2:
            return "there are no groups that fit into 16 channels together"
        if self.data is Data.channels_last and problem.channels_last:
            return "the channels are last already"
        return _type_reason(problem, self.through_f32)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = _compute(problem, self.through_f32)
        m = self.merged(gradient)
        outer, rows, columns = gradient.groups // m, gradient.rows, gradient.columns
        dense = evolve(gradient, groups=outer, rows=m * rows, columns=m * columns)
        layouts = (
            _layout(draft, problem.src, self.data, compute), _layout(draft, problem.dst, self.data, compute)
        )  # fmt: skip
        dw = draft.convolve(dense, draft.src(), draft.dst(), layouts, compute, _is_direct)
        shape = (m * rows, m * columns, *gradient.kernel)
        row, column, *taps = row_major(shape)
        block = rows * row + columns * column
        # The library takes strides only if each is beyond what the smaller ones span, so groups keep a distance.
        group = m * block
        whole = (
            draft.desc(shape, (row, column, *taps), compute)
            if outer == 1
            else draft.desc((outer, *shape), (group, row, column, *taps), compute)
        )
        plain = draft.bring("dense diff_weights", dw, whole)
        blocks = (outer, m, rows, columns, *gradient.kernel)
        diagonal = draft.look(plain, blocks, (group, block, row, column, *taps), 0, compute)
        user = problem.weights.strides
        draft.copy("diff_weights", diagonal, draft.weights(blocks, (m * user[0], *user)))


def _is_direct(implementation: str) -> bool:
    return "gemm" not in implementation and not implementation.startswith("ref")


@frozen(kw_only=True)
class SplitWidth:
    """A depthwise kernel wider than 3 as pieces of at most 3, which the library has fast kernels for.

    Each piece reads src from a padded copy whose pointer is moved along the width. diff_dst gets columns of zeros so
    that the widths agree. 2-D, without dilation.
    """

    through_f32: bool = False
    pieces_of = 3

    @property
    def name(self) -> str:
        return f"depthwise by pieces of the width{_suffix(self.through_f32)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if not gradient.depthwise or gradient.spatial_rank != 2:
            return "it is not depthwise in 2-D"
        if gradient.kernel[1] <= self.pieces_of:
            return "the kernel is at most 3 wide"
        if any(d > 1 for d in gradient.dilations):
            return "the kernel is dilated"
        return _type_reason(problem, self.through_f32)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = _compute(problem, self.through_f32)
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
        source = draft.temporary((flat,), compute, zeroed=True)
        inner = draft.look(source, problem.src.shape, strides, begin * c, compute)
        target = draft.temporary(dst_shape, compute, channels_last(dst_shape), zeroed=True)
        narrow = draft.look(target, problem.dst.shape, channels_last(dst_shape), 0, compute)
        draft.copy("src", draft.src(), inner)
        draft.copy("diff_dst", draft.dst(), narrow)
        # The last piece overlaps the one before it: both write the same values of the taps that they share.
        starts = sorted({*range(0, kernel - self.pieces_of, self.pieces_of), kernel - self.pieces_of})
        piece = evolve(
            gradient, kernel=(gradient.kernel[0], self.pieces_of), src_spatial=(height, padded),
            dst_spatial=(out_height, wide), pads_begin=(gradient.pads_begin[0], 0), pads_end=(gradient.pads_end[0], 0),
        )  # fmt: skip
        size = (c, 1, 1, *piece.kernel)
        for start in starts:
            moved = draft.look(source, src_shape, strides, start * c, compute)
            dw = draft.convolve(
                piece, moved, target, (moved.desc, target.desc), compute, _is_depthwise, again=start > 0
            )
            at = start * problem.weights.strides[-1]
            draft.copy("diff_weights", dw, draft.weights(size, problem.weights.strides, at))


def _is_depthwise(implementation: str) -> bool:
    return implementation.startswith("jit_dw")


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

    through_f32: bool = False
    parts: int = 1

    @property
    def name(self) -> str:
        cut = f" in {self.parts} parts" if self.parts > 1 else ""
        return f"matrix product{cut}{_suffix(self.through_f32)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if any(k > 1 for k in gradient.kernel) or any(gradient.pads_begin) or any(gradient.pads_end):
            return "it is not a pointwise convolution without pads"
        if (gradient.batch * math.prod(gradient.dst_spatial)) % self.parts:
            return f"{self.parts} does not divide the positions"
        if gradient.groups > 1 and self.parts > 1:
            return "groups are parts enough"
        return _type_reason(problem, self.through_f32)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = _compute(problem, self.through_f32)
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
    dense = draft.temporary(view.shape, compute, channels_last(view.shape))
    draft.copy(other[what] if exchanged else what, buffer, dense)
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
    draft: Draft, dst: Buffer, dst_row: int, src: Buffer, src_row: int, taps: tuple[int, ...], compute: DataType,
    parts: int,
) -> None:  # fmt: skip
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
    if parts == 1 and compute == problem.data_type and step is not None and 1 in (step, row_step):
        c = Matrix(draft.result_array(), lead, group_step, rows, row_step, wide, step)
        if step == 1:
            draft.multiply(a.look(draft, compute), b.look(draft, compute), c.look(draft, compute), compute)
        else:
            b, a, c = (m.turned() for m in (b, a, c))
            draft.multiply(b.look(draft, compute), a.look(draft, compute), c.look(draft, compute), compute)
        return
    gathered = compute if parts == 1 else DataType.f32
    dw = draft.temporary((lead * rows * wide,), gathered)
    c = Matrix(dw, lead, rows * wide, rows, wide, wide, 1)
    draft.multiply(a.look(draft, compute), b.look(draft, compute), c.look(draft, gathered), compute)
    if parts > 1:
        one = [draft.look(dw, (rows, wide), (wide, 1), p * rows * wide, gathered) for p in range(parts)]
        dw = draft.temporary((rows, wide), gathered)
        draft.total("parts", one, dw)
    draft.compute = gathered
    # (G, O, taps, I) into the user's (G, O, I, K).
    shape = (g, rows, *taps, inputs)
    lying = draft.look(dw, shape, row_major(shape), 0, gathered)
    draft.copy("diff_weights", lying, draft.weights(shape, (group_step, row_step, *taps_at, column_step)))


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


@frozen(kw_only=True)
class Columns:
    """Patches of src gathered into the rows of a matrix, and one product with diff_dst.

    A patch is gathered tap by tap by strided reorders, or by one where the kernel is as large as the stride.
    """

    through_f32: bool = False
    most_taps = 64

    @property
    def name(self) -> str:
        return f"columns and matrix product{_suffix(self.through_f32)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if gradient.groups > 1:
            return "there are groups"
        if all(k == 1 for k in gradient.kernel):
            return "the kernel is pointwise"
        if not self.tiles(gradient) and math.prod(gradient.kernel) > self.most_taps:
            return f"the kernel has more than {self.most_taps} taps"
        return _type_reason(problem, self.through_f32)

    @staticmethod
    def tiles(gradient: WeightsGradient) -> bool:
        """Whether patches neither overlap nor leave gaps."""
        return (
            gradient.kernel == gradient.strides
            and not any(gradient.pads_begin)
            and not any(gradient.pads_end)
            and all(d == 1 for d in gradient.dilations)
        )

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = _compute(problem, self.through_f32)
        n, channels = problem.src.shape[:2]
        out, kernel = gradient.dst_spatial, gradient.kernel
        wide = math.prod(kernel) * channels
        tiles = self.tiles(gradient)
        columns = draft.temporary((n * math.prod(out), wide), compute, zeroed=not tiles)
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
            draft.copy("src", source, draft.look(columns, shape, strides, 0, compute))
        else:
            for tap in product(*map(range, kernel)):
                self._gather(draft, columns, tap, (strides[0], *at_out, 1), at_kernel, compute)
        rows, row = _as_rows(draft, "diff_dst", draft.dst(), problem.dst, compute)
        multiply_rows(draft, rows, row, columns, wide, kernel, compute, 1)

    @staticmethod
    def _gather(
        draft: Draft, columns: Buffer, tap: tuple[int, ...], strides: tuple[int, ...], at_kernel: tuple[int, ...],
        compute: DataType,
    ) -> None:  # fmt: skip
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
        draft.copy("src", source, draft.look(columns, shape, strides, target_offset, compute))


@frozen(kw_only=True)
class SpaceToDepth:
    """A strided kernel over few channels as one of stride 1 over stride² times as many.

    src is copied so that each cell of stride × stride positions becomes channels; dW comes out with the taps of a
    cell as channels too, and is put in order.
    """

    through_f32: bool = False

    @property
    def name(self) -> str:
        return f"space to depth{_suffix(self.through_f32)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if gradient.groups > 1:
            return "there are groups"
        if all(s == 1 for s in gradient.strides):
            return "no stride is above 1"
        if gradient.columns * math.prod(gradient.strides) > 4 * LANES:
            return "there are channels enough"
        if any(d > 1 for d in gradient.dilations):
            return "the kernel is dilated"
        return _type_reason(problem, self.through_f32)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = _compute(problem, self.through_f32)
        rank = gradient.spatial_rank
        n, channels = problem.src.shape[:2]
        strides, out = gradient.strides, gradient.dst_spatial
        taps = tuple(-(-k // s) for k, s in zip(gradient.kernel, strides, strict=True))
        cells = tuple(p + t - 1 for p, t in zip(out, taps, strict=True))
        deep = channels * math.prod(strides)
        padded = tuple(max(c * s, b + size) for c, s, b, size in zip(
            cells, strides, gradient.pads_begin, gradient.src_spatial, strict=True))  # fmt: skip
        # (N, cells, cell, C): the padded copy in its new order; src is written into it cell by cell of whole axes.
        lying = row_major((n, *cells, *strides, channels))
        staged = draft.temporary((n, *padded, channels), compute, zeroed=True)
        flat = row_major((n, *padded, channels))
        offset = sum(b * step for b, step in zip(gradient.pads_begin, flat[1:-1], strict=True))
        inside = draft.look(staged, problem.src.shape, (flat[0], 1, *flat[1:-1]), offset, compute)
        draft.copy("src", draft.src(), inside)
        shape = (n, *cells, *strides, channels)
        by_cell = draft.look(
            staged, shape, (flat[0], *(f * s for f, s in zip(flat[1:-1], strides, strict=True)), *flat[1:]), 0, compute
        )  # fmt: skip
        folded = draft.temporary((n * math.prod(cells) * deep,), compute)
        draft.copy("src by cells", by_cell, draft.look(folded, shape, lying, 0, compute))
        data = (n, deep, *cells)
        src = draft.look(folded, data, channels_last(data), 0, compute)
        unit = evolve(
            gradient, columns=deep, src_spatial=cells, kernel=taps, strides=(1,) * rank, pads_begin=(0,) * rank,
            pads_end=(0,) * rank,
        )  # fmt: skip
        layouts = (src.desc, _layout(draft, problem.dst, Data.channels_last, compute))
        dw = draft.convolve(unit, src, draft.dst(), layouts, compute, _is_direct)
        # dW (O, [cell, C], taps) → (O, C, [taps, cell]) of which the last taps may be beyond the kernel.
        whole = (gradient.rows, deep, *taps)
        plain = draft.bring("deep diff_weights", dw, draft.desc(whole, row_major(whole), compute))
        shape = (gradient.rows, *strides, channels, *taps)
        ordered_shape = (gradient.rows, channels, *(t * s for t, s in zip(taps, strides, strict=True)))
        order = row_major(ordered_shape)
        ordered = draft.temporary(ordered_shape, compute)
        at_taps = tuple(step * s for step, s in zip(order[2:], strides, strict=True))
        draft.copy(
            "deep diff_weights",
            draft.look(plain, shape, row_major(shape), 0, compute),
            draft.look(ordered, shape, (order[0], *order[2:], order[1], *at_taps), 0, compute),
        )
        kernel = (gradient.rows, channels, *gradient.kernel)
        draft.copy(
            "diff_weights",
            draft.look(ordered, kernel, order, 0, compute),
            draft.weights(kernel, problem.weights.strides),
        )


_NATIVE_THEN_F32 = (False, True)

STRATEGIES: tuple[Strategy, ...] = tuple(
    strategy
    for through_f32 in _NATIVE_THEN_F32
    for strategy in (
        Direct(data=Data.user, through_f32=through_f32),
        Direct(data=Data.free, through_f32=through_f32),
        Direct(data=Data.channels_last, through_f32=through_f32),
        Direct(data=Data.user, through_f32=through_f32, gemm=True),
        Direct(data=Data.channels_last, through_f32=through_f32, gemm=True),
        MergedGroups(data=Data.user, through_f32=through_f32),
        MergedGroups(data=Data.channels_last, through_f32=through_f32),
        Padded(through_f32=through_f32),
        SplitWidth(through_f32=through_f32),
        Product(through_f32=through_f32),
        Product(through_f32=through_f32, parts=2),
        Product(through_f32=through_f32, parts=4),
        Columns(through_f32=through_f32),
        SpaceToDepth(through_f32=through_f32),
    )
)
"""Every strategy. The order decides only between equals."""


SMALL_FLOPS = 200_000
"""Below, a convolution takes no longer than the calls around it."""


def work_is_small(gradient: WeightsGradient) -> bool:
    """Whether estimates mean nothing for it."""
    return gradient.flops < SMALL_FLOPS


def usual(problem: Problem) -> tuple[Strategy, ...]:
    """The plain convolutions from which a problem is rarely far off, best first.

    With the channels last, kernels read the user's layout as it is. With the channels first they would fall to
    im2col and gemm, which is good for pointwise kernels only; elsewhere blocked layouts of the library's choice are
    better, but for 1-D, whose blocked kernels are slow.
    """
    gradient = problem.gradient
    if work_is_small(gradient):
        # Overheads decide: no blocked layouts, and f32 kernels have less to prepare than those of half precisions.
        order = [Direct(data=Data.user if problem.channels_last else Data.channels_last)]
        return (*(evolve(one, through_f32=True) for one in order), *order, Direct(data=Data.user, gemm=True))
    if problem.channels_last:
        order = [Direct(data=Data.user), Direct(data=Data.free)]
    elif gradient.spatial_rank == 1:
        order = [Direct(data=Data.channels_last), Direct(data=Data.free)]
    else:
        order = [Direct(data=Data.free), Direct(data=Data.channels_last)]
        if all(k == 1 for k in gradient.kernel):
            order = [Direct(data=Data.user, gemm=True), *order]
    return (*order, *(evolve(one, through_f32=True) for one in order))


REFERENCE_STRATEGIES: tuple[Strategy, ...] = (
    Direct(data=Data.user, reference=True),
    Direct(data=Data.user, reference=True, through_f32=True),
)
"""The last resort where a user forces the backend."""

__all__: Sequence[str] = [
    "REFERENCE_STRATEGIES", "STRATEGIES", "Columns", "Data", "Direct", "MergedGroups", "Product", "SpaceToDepth",
    "SplitWidth", "Strategy", "Unfit", "effective_kernel",
]  # fmt: skip
