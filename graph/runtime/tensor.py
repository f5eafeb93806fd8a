"""Tensor: a logical tensor with memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    LayoutError,
    OutOfMemoryError,
    ShapeError,
)
from ...ops.values import format_value
from ..model.logical_tensor import LayoutType, LogicalTensor, format_shape, may_overlap
from ..model.numpy_types import itemsize
from .arrays import Array, as_array, numpy_type, uninitialised
from .engine import Engine, check_engine, default_engine
from .layouts import LayoutHandle, check_buffer
from .misfits import fits, way_to_fit


def allocate(tensor: LogicalTensor, what: str = "") -> Array:
    """An uninitialised array with the shape and strides of a concrete strided tensor.

    Raises:
        OutOfMemoryError: there is not enough memory; `what` is how the message names the tensor.
    """
    dtype = numpy_type(tensor.data_type)
    try:
        if tensor.strides is None:
            return uninitialised(tensor.dims, dtype)
        buffer = uninitialised((tensor.nbytes // dtype.itemsize,), dtype)
    except (MemoryError, ValueError) as error:  # NumPy has a limit on sizes too
        raise OutOfMemoryError(
            f"{what or tensor} needs {tensor.nbytes} bytes of memory, more than there is; use a smaller shape"
        ) from error
    return strided_view(buffer, tensor.dims, tensor.element_strides)


def strided_view(buffer: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """`buffer`'s memory under this shape and these strides in elements; the caller knows that they fit."""
    steps = tuple(step * buffer.itemsize for step in strides)
    return as_strided(buffer, shape, steps)


def plain_array(value: object, what: str) -> Array:
    """What a user gave for a tensor, as an array: its elements, of a Tensor; else see `as_array`."""
    return value.numpy() if isinstance(value, Tensor) else as_array(value, what)


def check_array(array: Array, tensor: LogicalTensor, what: str) -> None:
    """Raises DataTypeError or ShapeError unless `array` has the type and shape of `tensor`.

    Another byte order of the same type passes: such arrays are copied into native order.
    """
    expected = numpy_type(tensor.data_type)
    if array.dtype != expected and array.dtype.newbyteorder("=") != expected:
        raise DataTypeError(
            f"{what} must be an array of {tensor.data_type.value} (NumPy {expected}), got {array.dtype}; "
            f"convert it with .astype({expected.name!r})"
        )
    if not fits(array.shape, tensor.shape):
        way = (
            way_to_fit(array.shape, tensor.shape)
            or "pass an array of that shape, or describe the tensor anew"
        )
        raise ShapeError(
            f"{what} must have shape {format_shape(tensor.shape)}, got {list(array.shape)}; {way}"
        )


def _check_logical(tensor: object) -> None:
    if not isinstance(tensor, LogicalTensor):
        raise ArgumentTypeError(
            f"a Tensor needs a LogicalTensor first, got {format_value(tensor)} of type {type(tensor).__name__}"
        )


class Tensor:
    """Data in memory, described by a logical tensor.

    Args:
        logical_tensor: concrete; a strided one, or an opaque one that a compiled partition gave out.
        data: array to use without a copy, or None to allocate. Anything with `__dlpack__` or `__array__`.
        engine: the engine that it belongs to; the default engine if None.

    Raises:
        ArgumentTypeError, ArgumentError, DataTypeError, ShapeError, LayoutError: the array does not fit.
    """

    def __init__(
        self, logical_tensor: LogicalTensor, data: object = None, engine: Engine | None = None
    ) -> None:
        _check_logical(logical_tensor)
        engine = default_engine() if engine is None else engine
        check_engine(engine)
        engine.check_open()
        if logical_tensor.layout_type is not LayoutType.strided:
            raise LayoutError(
                f"{logical_tensor}: a Tensor needs layout_type 'strided', got "
                f"'{logical_tensor.layout_type.value}'; opaque tensors come from CompiledPartition.execute"
            )
        if data is None:
            if may_overlap(logical_tensor.dims, logical_tensor.element_strides):
                raise LayoutError(
                    f"{logical_tensor}: strides {list(logical_tensor.element_strides)} overlap; "
                    "pass data, or strides that don't"
                )
            array = allocate(logical_tensor)
        else:
            array = as_array(data, str(logical_tensor))
            check_array(array, logical_tensor, str(logical_tensor))
        self._set(logical_tensor, array, engine, None)

    def _set(
        self, logical_tensor: LogicalTensor, data: Array, engine: Engine, layout: LayoutHandle | None
    ) -> None:
        self._logical_tensor = logical_tensor
        self._data = data
        self._engine = engine
        self._layout = layout

    @classmethod
    def from_opaque(cls, logical_tensor: LogicalTensor, buffer: object, engine: Engine) -> Tensor:
        """A tensor in a layout that a backend chose.

        Args:
            logical_tensor: opaque, from `CompiledPartition.query_logical_tensor`.
            buffer: the flat array of bytes that `execute` returned for it, or one that is to be written to.
            engine: the engine that the partition was compiled for.

        Raises:
            LayoutError: the engine has given out no such layout for this type and shape.
            ArgumentError: the buffer is no flat uint8 array without gaps, or smaller than the layout needs.
            ArgumentTypeError: an argument of another type. ResourceError: the engine is closed.
        """
        _check_logical(logical_tensor)
        check_engine(engine)
        engine.check_open()
        layout = engine.layouts.of(logical_tensor)
        array = check_buffer(as_array(buffer, str(logical_tensor)), layout, str(logical_tensor))
        tensor = object.__new__(cls)
        tensor._set(logical_tensor, array, engine, layout)
        return tensor

    @property
    def logical_tensor(self) -> LogicalTensor:
        """What it is."""
        return self._logical_tensor

    @property
    def data(self) -> Array:
        """The memory: an array of the elements, or the bytes of an opaque tensor."""
        return self._data

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to."""
        return self._engine

    @property
    def layout(self) -> LayoutHandle | None:
        """The layout of an opaque tensor, None for a strided one."""
        return self._layout

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, or of the opaque layout."""
        if self.layout is not None:
            return self.layout.nbytes
        return int(np.prod(self.data.shape, dtype=np.int64)) * itemsize(self.logical_tensor.data_type)

    def numpy(self) -> Array:
        """The elements as a NumPy array: a view, or a copy in plain layout for an opaque tensor.

        Raises:
            ResourceError: an opaque tensor's engine is closed.
            ArgumentError: its buffer was made smaller since.
        """
        if self.layout is None:
            return self.data
        self.engine.check_open()
        return self.layout.to_plain(check_buffer(self.data, self.layout, str(self.logical_tensor)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False and self.layout is not None:
            raise ArgumentError(
                f"{self.logical_tensor} is opaque and has no elements without a copy; leave copy out"
            )
        array = self.numpy()
        if copy is False and dtype is not None and np.dtype(dtype) != array.dtype:
            raise ArgumentError(
                f"{self.logical_tensor} can't become {np.dtype(dtype)} without a copy; leave copy out"
            )
        result = array if dtype is None else array.astype(dtype, copy=False)
        return result.copy() if copy and result is array else result

    def __repr__(self) -> str:
        return f"Tensor({self.logical_tensor})"
