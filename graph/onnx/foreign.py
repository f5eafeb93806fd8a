"""Inputs of ONNX models of types that graphs don't have: 16-bit integers and text, sequences, what may not be there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentTypeError, DataTypeError, ShapeError
from ...ops.records import frozen
from ..runtime.arrays import Array, as_array
from .types import STRING, numpy_type_of


@frozen
class Foreign:
    """What an input takes.

    Attributes:
        form: `tensor`, `sequence`, `optional`, `map`, or another of ONNX's.
        dtype: of a tensor's elements, or those of tensors in it; None for text.
        shape: of a tensor, with -1 for open sizes; None where nothing is said.
    """

    form: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...] | None

    def checked(self, value: object, what: str) -> Any:
        """The value as nodes take it.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: it is none that the input takes.
        """
        if self.form == "optional" and value is None:
            return None
        if self.form == "map" and isinstance(value, Mapping):
            return cast("Mapping[object, object]", value)
        if isinstance(value, list) and self.form in ("sequence", "optional"):
            elements = cast("list[object]", value)
            return [self._array(one, f"{what}, element {n}") for n, one in enumerate(elements)]
        given = cast("object", value)
        if self.form not in ("tensor", "optional"):
            raise ArgumentTypeError(
                f"{what} must be a {self.form}, got {type(given).__name__}; pass a list of arrays for a sequence, a "
                "dict for a map"
            )
        return self._array(given, what)

    def _array(self, value: object, what: str) -> Array:
        if self.dtype is None:
            array = np.asarray(value)
            if array.dtype.kind not in "OUT":
                raise DataTypeError(f"{what} must be an array of text, got {array.dtype}; pass strings")
            return array.astype(object)
        array = as_array(value, what)
        if array.dtype.newbyteorder("=") != self.dtype:
            raise DataTypeError(
                f"{what} must be an array of {self.dtype}, got {array.dtype}; convert it with "
                f".astype({self.dtype.name!r})"
            )
        shape = self.shape if self.form == "tensor" else None
        if shape is not None and (
            len(shape) != array.ndim
            or any(-1 != want != have for want, have in zip(shape, array.shape, strict=True))
        ):
            raise ShapeError(
                f"{what} must have shape {list(shape)}, -1 standing for any size, got {list(array.shape)}; pass an "
                "array of that shape"
            )
        return array.astype(self.dtype, copy=False)


def foreign_of(info: Any) -> Foreign:
    """What an input takes, as the model describes it.

    Raises:
        Unmapped: elements of a type that NumPy has none for.
    """
    form = (info.type.WhichOneof("value") or "tensor_type").removesuffix("_type")
    inner = info.type
    while inner.WhichOneof("value") in ("sequence_type", "optional_type"):
        inner = getattr(inner, inner.WhichOneof("value")).elem_type
    if form == "map":
        return Foreign(form, None, None)
    tensor = inner.tensor_type
    shape = None
    if form == "tensor" and tensor.HasField("shape"):
        shape = tuple(size.dim_value if size.HasField("dim_value") else -1 for size in tensor.shape.dim)
    dtype = None if tensor.elem_type == STRING else numpy_type_of(tensor.elem_type)
    return Foreign(form, dtype, shape)
