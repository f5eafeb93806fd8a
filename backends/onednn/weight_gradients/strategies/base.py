"""What a strategy is, and what most of them need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from .....graph.model.logical_tensor import row_major
from .....graph.runtime.arrays import numpy_type
from .....ops.data_types import DataType
from ...library.implementations import is_reference
from ...library.memory import MemoryDesc
from ..draft import Draft
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


class Copying(Strategy, Protocol):
    """A strategy that works on copies."""

    def copied_bytes(self, problem: Problem) -> int:
        """The size of its copies of src and diff_dst."""
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
        return draft.layouts.any(view.shape, compute)
    strides = view.strides
    converts = compute != problem.data_type
    if data is Data.channels_last or (converts and problem.channels_last):
        strides = channels_last(view.shape)
    elif converts:
        strides = row_major(view.shape)
    return draft.layouts.desc(view.shape, strides, compute)


def compute_type(problem: Problem, via: DataType | None) -> DataType:
    """The data type that a primitive works in."""
    return problem.data_type if via is None else via


def type_reason(problem: Problem, via: DataType | None) -> str | None:
    """Why a strategy by way of that type makes no sense, or None."""
    if via is None:
        return "the library has only a reference loop in f16" if problem.data_type is DataType.f16 else None
    if via is problem.data_type:
        return f"the tensors are {via.value} already"
    if via is DataType.bf16 and not problem.may_lower_to_bf16:
        return "only f32 tensors go through bf16, and only where fpmath_mode allows it"
    return None


def data_bytes(problem: Problem, via: DataType | None) -> int:
    """The size of src and diff_dst in the data type that a primitive works in."""
    elements = sum(math.prod(view.shape) for view in (problem.src, problem.dst))
    return elements * numpy_type(compute_type(problem, via)).itemsize


def suffix(via: DataType | None) -> str:
    """What a strategy's name says about its data type."""
    return "" if via is None else f" in {via.value}"


def is_direct(implementation: str) -> bool:
    """Whether an implementation is neither im2col with gemm nor a reference loop."""
    return "gemm" not in implementation and not is_reference(implementation)
