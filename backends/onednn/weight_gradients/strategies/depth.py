"""Strided convolutions over few channels, with positions turned into channels."""

from __future__ import annotations

import math

from attrs import evolve

from .....graph.model.logical_tensor import row_major
from .....ops.data_types import DataType
from .....ops.records import frozen
from ...library.implementations import LANES
from ..draft import Draft
from ..problem import Problem
from .base import Data, channels_last, compute_type, data_layout, is_direct, suffix, type_reason


@frozen(kw_only=True)
class SpaceToDepth:
    """A strided kernel over few channels as one of stride 1 over stride² times as many.

    src is copied so that each cell of stride × stride positions becomes channels; dW comes out with the taps of a
    cell as channels too, and is put in order.
    """

    via: DataType | None = None

    @property
    def name(self) -> str:
        return f"space to depth{suffix(self.via)}"

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
        return type_reason(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        rank = gradient.spatial_rank
        n, channels = problem.src.shape[:2]
        strides, out = gradient.strides, gradient.dst_spatial
        taps = tuple(-(-k // s) for k, s in zip(gradient.kernel, strides, strict=True))
        cells = tuple(p + t - 1 for p, t in zip(out, taps, strict=True))
        deep = channels * math.prod(strides)
        padded = tuple(
            max(c * s, b + size)
            for c, s, b, size in zip(cells, strides, gradient.pads_begin, gradient.src_spatial, strict=True)
        )
        # (N, cells, cell, C): the padded copy in its new order; src is written into it cell by cell of whole axes.
        lying = row_major((n, *cells, *strides, channels))
        staged = draft.layouts.temporary((n, *padded, channels), compute, zeroed=True)
        flat = row_major((n, *padded, channels))
        offset = sum(b * step for b, step in zip(gradient.pads_begin, flat[1:-1], strict=True))
        inside = draft.look(staged, problem.src.shape, (flat[0], 1, *flat[1:-1]), offset, compute)
        draft.emitter.copy("src", draft.src(), inside)
        shape = (n, *cells, *strides, channels)
        by_cell = draft.look(
            staged,
            shape,
            (flat[0], *(f * s for f, s in zip(flat[1:-1], strides, strict=True)), *flat[1:]),
            0,
            compute,
        )
        folded = draft.layouts.temporary((n * math.prod(cells) * deep,), compute)
        draft.emitter.copy("src by cells", by_cell, draft.look(folded, shape, lying, 0, compute))
        data = (n, deep, *cells)
        src = draft.look(folded, data, channels_last(data), 0, compute)
        unit = evolve(
            gradient,
            columns=deep,
            src_spatial=cells,
            kernel=taps,
            strides=(1,) * rank,
            pads_begin=(0,) * rank,
            pads_end=(0,) * rank,
        )
        layouts = (src.desc, data_layout(draft, problem.dst, Data.channels_last, compute))
        dw = draft.convolve(unit, src, draft.dst(), layouts, compute, is_direct)
        # dW (O, [cell, C], taps) → (O, C, [taps, cell]) of which the last taps may be beyond the kernel.
        whole = (gradient.rows, deep, *taps)
        gathered = draft.gathered(compute)
        plain = draft.emitter.bring(
            "deep diff_weights", dw, draft.layouts.desc(whole, row_major(whole), gathered)
        )
        shape = (gradient.rows, *strides, channels, *taps)
        ordered_shape = (gradient.rows, channels, *(t * s for t, s in zip(taps, strides, strict=True)))
        order = row_major(ordered_shape)
        ordered = draft.layouts.temporary(ordered_shape, gathered)
        at_taps = tuple(step * s for step, s in zip(order[2:], strides, strict=True))
        draft.emitter.copy(
            "deep diff_weights",
            draft.look(plain, shape, row_major(shape), 0, gathered),
            draft.look(ordered, shape, (order[0], *order[2:], order[1], *at_taps), 0, gathered),
        )
        kernel = (gradient.rows, channels, *gradient.kernel)
        draft.emitter.copy(
            "diff_weights",
            draft.look(ordered, kernel, order, 0, gathered),
            draft.weights(kernel, problem.weights.strides),
        )
