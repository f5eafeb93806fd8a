"""NumPy's types of our data types."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np

from ...ops.data_types import DataType, parse_data_type
from ...ops.errors import DataTypeError
from ...ops.values import format_value

NUMPY_TYPES: dict[DataType, np.dtype[Any]] = {
    DataType.f16: np.dtype(np.float16),
    DataType.bf16: np.dtype(ml_dtypes.bfloat16),
    DataType.f32: np.dtype(np.float32),
    DataType.f64: np.dtype(np.float64),
    DataType.s64: np.dtype(np.int64),
    DataType.s32: np.dtype(np.int32),
    DataType.s8: np.dtype(np.int8),
    DataType.u8: np.dtype(np.uint8),
    DataType.boolean: np.dtype(np.bool_),
    DataType.f8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    DataType.f8_e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
    DataType.s4: np.dtype(ml_dtypes.int4),
    DataType.u4: np.dtype(ml_dtypes.uint4),
}
"""NumPy's type of each data type; what NumPy lacks comes from `ml_dtypes`."""

DATA_TYPES = {dtype: data_type for data_type, dtype in NUMPY_TYPES.items()}


def itemsize(data_type: DataType) -> int:
    """Bytes per element in a NumPy array."""
    return NUMPY_TYPES[data_type].itemsize


def as_data_type(value: Any, what: str) -> DataType:
    """A data type from its name, a `DataType`, or a dtype such as `np.float32`, `torch.float32` or `"float32"`.

    Raises:
        ArgumentTypeError, ArgumentError, DataTypeError: nothing of the kind, or one without a counterpart.
    """
    if isinstance(value, np.dtype | type):
        try:
            found = DATA_TYPES.get(np.dtype(cast("Any", value)).newbyteorder("="))
        except (TypeError, ValueError, RecursionError):  # a class with a dtype attribute of its own
            found = None
        if found is None:
            got = format_value(cast("object", value))
            raise DataTypeError(f"{what} must be a type of oneDNN Graph, got {got}; use 'f32', say")
        return found
    return parse_data_type(value, what)
