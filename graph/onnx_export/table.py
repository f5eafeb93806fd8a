"""Who writes which kind of op."""

from __future__ import annotations

from . import (
    binary,
    convolution,
    eltwise,
    matmul,
    movement,
    nodes,
    normalization,
    pooling,
    quantization,
    reduction,
)
from .entries import Writers

TABLE = Writers()
for _family in (
    binary,
    convolution,
    eltwise,
    matmul,
    movement,
    nodes,
    normalization,
    pooling,
    quantization,
    reduction,
):
    TABLE.take(_family.WRITERS)
"""All that ONNX has ops for. What is not here belongs to training, or to oneDNN Graph's own files."""
