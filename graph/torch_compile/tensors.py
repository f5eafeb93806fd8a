"""Tensors of torch as oneDNN Graph's logical tensors, and as NumPy's arrays, over the same memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...ops.data_types import DataType
from ..aten.schema import NUMPY_TYPES
from ..model.logical_tensor import may_overlap
from ..runtime.arrays import Array, data_type_of
from .framework import inner, torch

StorageWeakRef: Any = inner("torch.multiprocessing.reductions", "StorageWeakRef")
expired: Callable[[int], bool] = torch.UntypedStorage._expired
data_ptr: Callable[[Any], int] = torch.Tensor.data_ptr
empty: Callable[[Sequence[int], Sequence[int], Any], Any] = getattr(
    torch._C._dynamo.guards, "_empty_strided_cpu", None
) or (lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device="cpu"))
"""An uninitialised tensor of a shape, strides and a type: what inductor's programs call, or what all do."""
DATA_TYPES: dict[Any, DataType] = {
    getattr(torch, name.removeprefix("torch.")): data_type_of(np.empty(0, dtype), name)
    for name, dtype in NUMPY_TYPES.items()
    if dtype != np.float64
}
"""The types of elements that regions take; all else is torch's."""
CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""Axes from the outermost to the innermost, by rank."""


class KnownMemory:
    """The memory of a tensor, known without being kept: its number is not given again as long as this is there.

    A weak reference of the tensor itself, Python's or torch's own, would bar it from `torch.utils.swap_tensors`.
    """

    __slots__ = ("_reference", "number")

    def __init__(self, tensor: Any) -> None:
        self._reference = StorageWeakRef(tensor.untyped_storage())
        self.number = self._reference.cdata

    def is_gone(self) -> bool:
        """Whether nobody has it any longer."""
        return expired(self.number)


def memory_of(tensor: Any) -> int:
    """The number of a tensor's memory."""
    return tensor.untyped_storage()._cdata


def memory_of_all(model: Any) -> set[int]:
    """Numbers of the memory of a model's parameters and buffers; sparse ones have several, and none of their own."""
    held = (*model.parameters(), *model.buffers())
    return {memory_of(one) for one in held if one.layout is torch.strided}


def as_numpy(tensor: Any) -> Array:
    """A tensor's elements where they lie."""
    plain = tensor.detach().resolve_neg().resolve_conj()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether each element has a place of its own, so that a primitive can read or write it."""
    used = [(d, s) for d, s in zip(shape, strides, strict=True) if d > 1]
    return all(s > 0 for _, s in used) and not may_overlap([d for d, _ in used], [s for _, s in used])


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor whose channels are innermost."""
    return in_order(shape, CHANNELS_LAST[len(shape)])


def in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor with its axes in an order, the outermost first."""
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def normal(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, with those of axes of one element as a dense tensor would have them: nothing depends on them."""
    if 0 in shape:
        return tuple(strides)
    result = list(strides)
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            inner = axis + 1
            result[axis] = result[inner] * shape[inner] if inner < len(shape) else 1
    return tuple(result)


def placed(tensor: Any, strides: Sequence[int], dtype: Any) -> Any:
    """A copy that lies as it should, in a type."""
    made = torch.empty_strided(tensor.shape, strides, dtype=dtype)
    return made.copy_(tensor)


def as_bytes(tensor: Any) -> Array:
    """The memory of a dense tensor, byte by byte."""
    memory: Any = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    return np.frombuffer(memory, np.uint8)
