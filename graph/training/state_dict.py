"""Arrays as tensors of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ..runtime.arrays import Array
from ..runtime.libraries import library


def state_dict(state: Mapping[str, Array]) -> dict[str, Any]:
    """Copies of the arrays, as tensors under the same names.

    Raises:
        UnsupportedError: torch is not installed.
    """
    torch = library("torch", "torch", "export_state_dict")
    return {name: _tensor(torch, np.array(array)) for name, array in state.items()}


def _tensor(torch: Any, array: Array) -> Any:
    if array.dtype == ml_dtypes.bfloat16:  # which torch does not know of NumPy's
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
