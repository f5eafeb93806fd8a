"""Whether a number format is slower here than f32, said once; what a CPU is said to have does not tell."""

from __future__ import annotations

import warnings

from ...ops.data_types import DataType
from ...ops.errors import LibraryError, SlowTypeWarning, UnsupportedError
from ..compile.backend import BACKENDS, Rated
from ..runtime.callers import outside

SLOWER = 0.9
"""Below this part of f32's speed a type is told to be slower; between that and 1 is what measurements differ by."""
_told: set[tuple[str, DataType]] = set()


def tell_if_slow(data_type: DataType) -> None:
    """Warns, once in a process, where products in this type were measured to be slower than in f32.

    Args:
        data_type: `bf16`; `u8` for 8-bit integers.
    """
    for backend in BACKENDS.candidates():
        if not isinstance(backend, Rated) or backend.unavailable() is not None:
            continue
        if (backend.name, data_type) in _told:
            continue
        _told.add((backend.name, data_type))
        try:
            rates = backend.rates()
        except (UnsupportedError, LibraryError):  # nothing is known then, and what is asked for goes on
            continue
        part = rates[data_type] / rates[DataType.f32]
        if part < SLOWER:
            what = "8-bit integers" if data_type is DataType.u8 else data_type.value
            way = ", or try weights of 7 bits by reduce_range=True" if data_type is DataType.u8 else ""
            warnings.warn(
                f"products of {what} reach {part:.0%} of f32's speed on this machine "
                f"({rates[data_type] / 1e9:.0f} for {rates[DataType.f32] / 1e9:.0f} GF/s), so it saves memory and "
                f"no time; stay with f32 for speed{way}",
                SlowTypeWarning,
                stacklevel=outside(),
            )
