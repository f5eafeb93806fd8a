"""ONNX's element types, by their numbers in `TensorProto.DataType`."""

from __future__ import annotations

from typing import Any, TypeGuard

import ml_dtypes
import numpy as np

from ..importing.translation import Unmapped
from ..runtime.arrays import Array

_NUMPY_TYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(getattr(ml_dtypes, kind) if isinstance(kind, str) else kind)
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
        14: np.complex64,
        15: np.complex128,
        18: "float8_e4m3fnuz",
        19: ml_dtypes.float8_e5m2,
        20: "float8_e5m2fnuz",
        21: ml_dtypes.uint4,
        22: ml_dtypes.int4,
        23: "float4_e2m1fn",
        24: "float8_e8m0fnu",
        25: "uint2",
        26: "int2",
    }.items()
    if not isinstance(kind, str) or hasattr(ml_dtypes, kind)
}
"""Those whose names are text came to ml_dtypes later than the others."""
STRING = 8
"""`TensorProto.STRING`."""
NUMBERS = {dtype: number for number, dtype in _NUMPY_TYPES.items()}
"""NumPy type → ONNX's number."""


def numpy_type_of(number: int) -> np.dtype[Any]:
    """NumPy's type.

    Raises:
        Unmapped: strings, and types that came later.
    """
    if number not in _NUMPY_TYPES:
        raise Unmapped(f"element type {number} of ONNX has no counterpart")
    return _NUMPY_TYPES[number]


def is_array(value: object) -> TypeGuard[Array]:
    """Whether it is an array of NumPy."""
    return isinstance(value, np.ndarray)
