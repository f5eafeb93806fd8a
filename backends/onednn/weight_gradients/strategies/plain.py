"""One convolution of the library, on src as it is or on a padded copy."""

from __future__ import annotations

from attrs import evolve

from .....ops.data_types import DataType
from .....ops.records import frozen
from ...library.implementations import is_reference
from ..draft import Draft
from ..problem import Problem
from .base import Data, channels_last, compute_type, data_bytes, data_layout, is_direct, suffix, type_reason


@frozen(kw_only=True)
class Direct:
    """One convolution, with reorders where its layouts are not the user's.

    Attributes:
        data: layout of src and diff_dst for the primitive.
        via: data type that src and diff_dst are converted to; their own if None.
        gemm: takes implementations by im2col and gemm, and only those; otherwise only direct ones.
        reference: takes the library's reference loop, and only that.
    """

    data: Data
    via: DataType | None = None
    gemm: bool = False
    reference: bool = False

    @property
    def name(self) -> str:
        how = "reference" if self.reference else "gemm" if self.gemm else "direct"
        return f"{how} on {self.data.value}{suffix(self.via)}"

    def applies(self, problem: Problem) -> str | None:
        if self.data is Data.channels_last and problem.channels_last:
            return "the channels are last already"
        return type_reason(problem, self.via)

    def takes(self, implementation: str) -> bool:
        """Whether it goes with an implementation of that name."""
        if self.reference or is_reference(implementation):
            return self.reference and is_reference(implementation)
        return ("gemm" in implementation) == self.gemm

    def copied_bytes(self, problem: Problem) -> int:
        """The size of its copies of src and diff_dst; of kernels that take channels last, none where they are."""
        last = self.data is Data.user or problem.channels_last
        return 0 if last and self.via is None else data_bytes(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem = draft.problem
        compute = compute_type(problem, self.via)
        layouts = (
            data_layout(draft, problem.src, self.data, compute),
            data_layout(draft, problem.dst, self.data, compute),
        )
        dw = draft.convolve(problem.gradient, draft.src(), draft.dst(), layouts, compute, self.takes)
        draft.result(dw)


@frozen(kw_only=True)
class Padded:
    """A convolution without pads on a copy of src that has them as zeros: kernels are choosy about wide pads."""

    via: DataType | None = None

    @property
    def name(self) -> str:
        return f"direct on a padded copy{suffix(self.via)}"

    def applies(self, problem: Problem) -> str | None:
        gradient = problem.gradient
        if not any(gradient.pads_begin) and not any(gradient.pads_end):
            return "there are no pads"
        return type_reason(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, gradient = draft.problem, draft.problem.gradient
        compute = compute_type(problem, self.via)
        sizes = [
            sum(three)
            for three in zip(gradient.pads_begin, gradient.src_spatial, gradient.pads_end, strict=True)
        ]
        shape = (*problem.src.shape[:2], *sizes)
        strides = channels_last(shape)
        padded = draft.layouts.temporary(shape, compute, strides, zeroed=True)
        offset = sum(pad * step for pad, step in zip(gradient.pads_begin, strides[2:], strict=True))
        draft.emitter.copy(
            "src", draft.src(), draft.look(padded, problem.src.shape, strides, offset, compute)
        )
        none = (0,) * gradient.spatial_rank
        bare = evolve(gradient, src_spatial=tuple(sizes), pads_begin=none, pads_end=none)
        layouts = (padded.desc, data_layout(draft, problem.dst, Data.channels_last, compute))
        draft.result(draft.convolve(bare, padded, draft.dst(), layouts, compute, is_direct))
