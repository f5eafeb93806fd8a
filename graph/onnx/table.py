"""The vocabulary of ONNX: op → its translation."""

from __future__ import annotations

from ..importing.tables import merged, replaced
from . import elementwise, hosted, integers, layers, quantized, recurrent, sampling, shapes
from .node import Translate

PLAIN: dict[str, Translate] = merged(
    elementwise.OPS,
    shapes.OPS,
    layers.OPS,
    hosted.OPS,
    sampling.OPS,
    recurrent.OPS,
    quantized.OPS,
    integers.OPS,
)
"""Without what 8-bit integers make of it."""
TABLE: dict[str, Translate] = merged(
    replaced(PLAIN, quantized.moving(PLAIN)),
    quantized.on_integers(PLAIN),
)
"""All that is translated."""
