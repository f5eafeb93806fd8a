"""Layouts that backends choose: handles that belong to an engine and know what lies in them, and how much memory."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, LayoutError
from ...ops.records import frozen
from ..model.logical_tensor import LayoutType, LogicalTensor, format_shape
from ..model.numpy_types import itemsize
from .arrays import Array, address
from .locking import Lock


@frozen(eq=False)
class LayoutHandle:
    """A layout that a backend chose for tensors of one type and shape.

    Handles are made by `Layouts.give` alone; whoever names one does so by its id. Two are the same only if they are
    one object, so that no handle of another engine passes for one of this.

    Attributes:
        id: the `layout_id` of opaque logical tensors, drawn at random: no other engine or process has it.
        backend: name of the backend that chose it.
        data_type, shape: of the tensors that lie so.
        nbytes: size of a buffer for one of them.
        content: the backend's own description of the layout.
        to_plain: from the buffer of a tensor that lies so, large enough, to a plain array of its elements.
    """

    id: int
    backend: str
    data_type: DataType
    shape: tuple[int, ...]
    nbytes: int
    content: object = field(repr=False)
    to_plain: Callable[[Array], Array] = field(repr=False)


class Layouts:
    """The layouts that were given out for one engine. Thread-safe.

    They stay until the engine is closed, for a logical tensor may name one long after what was compiled is gone.
    Equal layouts share a handle, so that there are no more than an engine has seen shapes.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, LayoutHandle] = {}
        self._alike: dict[tuple[str, DataType, tuple[int, ...], int], list[LayoutHandle]] = {}
        self._lock = Lock()

    def give(
        self,
        backend: str,
        tensor: LogicalTensor,
        nbytes: int,
        content: object,
        same: Callable[[object], bool],
        to_plain: Callable[[Array], Array],
    ) -> LayoutHandle:
        """The handle of a layout that a backend has chosen, made if there is none yet.

        Args:
            backend: its name.
            tensor: concrete; its type and shape count.
            nbytes: size of a buffer.
            content: what the backend must know of the layout.
            same: whether the content of a handle of this backend, type, shape and size is the same layout.
            to_plain: see `LayoutHandle`. It must not hold the engine, which holds the handle.
        """
        key = (backend, tensor.data_type, tensor.dims, nbytes)
        with self._lock:
            alike = self._alike.setdefault(key, [])
            for known in alike:
                if same(known.content):
                    return known
            number = int.from_bytes(os.urandom(8)) >> 1  # as secrets, whose import takes five milliseconds
            made = LayoutHandle(number, backend, tensor.data_type, tensor.dims, nbytes, content, to_plain)
            alike.append(made)
            self._by_id[made.id] = made
            return made

    def of(self, tensor: LogicalTensor, what: str = "") -> LayoutHandle:
        """The layout of an opaque logical tensor.

        Args:
            what: how messages name the tensor.

        Raises:
            LayoutError: it is not opaque, has no id, or one that is not this engine's or of another type or shape.
        """
        what = what or str(tensor)
        if tensor.layout_type is not LayoutType.opaque:
            raise LayoutError(
                f"{what} must have layout_type 'opaque' here, got '{tensor.layout_type.value}'; use "
                "Tensor(logical_tensor, data) for known strides"
            )
        way = "take the logical tensor from CompiledPartition.query_logical_tensor"
        if tensor.layout_id is None:
            raise LayoutError(f"{what} is opaque and must have a layout_id, got none; {way}")
        found = self._by_id.get(tensor.layout_id)
        if found is None:
            raise LayoutError(
                f"{what} has layout_id {tensor.layout_id}, and this engine has given out no such layout; {way} of "
                "a partition that was compiled for the same engine"
            )
        if (found.data_type, found.shape) != (tensor.data_type, tensor.shape):
            raise LayoutError(
                f"{what} has layout_id {found.id}, which is a layout of {found.data_type.value} "
                f"{format_shape(found.shape)}, got {tensor.data_type.value} {format_shape(tensor.shape)}; {way}"
            )
        return found

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._by_id.clear()
            self._alike.clear()


def check_buffer(buffer: Array, layout: LayoutHandle, what: str) -> Array:
    """`buffer` if it can hold a tensor in this layout.

    Raises:
        ArgumentError: it is no flat array of bytes without gaps, too small, or begins at an odd address.
    """
    flat = buffer.dtype == np.uint8 and buffer.ndim == 1 and buffer.flags.c_contiguous
    if not flat or buffer.nbytes < layout.nbytes:
        gaps = "" if buffer.flags.c_contiguous else " with gaps"
        raise ArgumentError(
            f"{what} is opaque and takes a contiguous uint8 array of one axis and at least {layout.nbytes} bytes, got "
            f"{buffer.dtype} of shape {list(buffer.shape)}{gaps}, {buffer.nbytes} bytes; use what execute returns"
        )
    size = itemsize(layout.data_type)
    if address(buffer) % size:
        raise ArgumentError(
            f"{what} is opaque and must begin at a multiple of {size} bytes in memory, as "
            f"{layout.data_type.value} does, got address {address(buffer)}; pass a copy of the array"
        )
    return buffer
