"""All rules: importing the families fills the table."""

from __future__ import annotations

from . import (
    binary,
    convolution,
    eltwise,
    host,
    host_alignment,
    host_functions,
    host_grid,
    interpolate,
    matmul,
    movement,
    norm_backward,
    normalization,
    pooling,
    prelu,
    quantization,
    reduction,
    softmax,
)
from .rules import RULES

__all__ = [
    "RULES",
    "binary",
    "convolution",
    "eltwise",
    "host",
    "host_alignment",
    "host_functions",
    "host_grid",
    "interpolate",
    "matmul",
    "movement",
    "norm_backward",
    "normalization",
    "pooling",
    "prelu",
    "quantization",
    "reduction",
    "softmax",
]
