"""ONNX's element types, by their numbers in `TensorProto.DataType`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..importing.translation import Unmapped

_NUMPY_TYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(kind)
    for number, kind in {
        1: np.float32,
        2: np.uint8,
        3: np.int8,
        4: np.uint16,
        5: np.int16,
        6: np.int32,
        7: np.int64,
        9: np.bool_,
        10: np.float16,
        11: np.float64,
        12: np.uint32,
        13: np.uint64,
        16: ml_dtypes.bfloat16,
        17: ml_dtypes.float8_e4m3fn,
        19: ml_dtypes.float8_e5m2,
        21: ml_dtypes.uint4,
        22: ml_dtypes.int4,
    }.items()
}
NUMBERS = {dtype: number for number, dtype in _NUMPY_TYPES.items()}
"""NumPy type → ONNX's number."""


def numpy_type_of(number: int) -> np.dtype[Any]:
    """NumPy's type.

    Raises:
        Unmapped: strings, complex numbers, and types that came later.
    """
    if number not in _NUMPY_TYPES:
        raise Unmapped(f"element type {number} of ONNX has no counterpart")
    return _NUMPY_TYPES[number]
