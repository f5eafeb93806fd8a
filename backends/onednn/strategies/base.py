"""What a strategy is, and what most of them need."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from ....graph.logical_tensor import row_major
from ....ops.data_types import DataType
from ..draft import Draft
from ..memory import MemoryDesc
from ..problem import Problem, View


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


def data_layout(draft: Draft, view: View, data: Data, compute: DataType) -> MemoryDesc:
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


def compute_type(problem: Problem, through_f32: bool) -> DataType:
    """The data type that a primitive works in."""
    return DataType.f32 if through_f32 else problem.data_type


def type_reason(problem: Problem, through_f32: bool) -> str | None:
    """Whether a strategy in the tensors' own type, or in f32, makes sense."""
    if through_f32 and problem.data_type is DataType.f32:
        return "the tensors are f32 already"
    if not through_f32 and problem.data_type is DataType.f16:
        return "the library has only a reference loop in f16"
    return None


def suffix(through_f32: bool) -> str:
    """What a strategy's name says about its data type."""
    return " in f32" if through_f32 else ""


def is_direct(implementation: str) -> bool:
    """Whether an implementation is neither im2col with gemm nor a reference loop."""
    return "gemm" not in implementation and not implementation.startswith("ref")
