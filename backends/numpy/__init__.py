"""The executable reference: one NumPy kernel per op."""

from . import (
    binary,
    convolution,
    convolution_weights,
    dropout,
    eltwise,
    host,
    host_sampling,
    interpolate,
    matmul,
    movement,
    normalization,
    pooling,
    prelu,
    quantization,
    reduction,
    softmax,
)

__all__ = [
    "binary",
    "convolution",
    "convolution_weights",
    "dropout",
    "eltwise",
    "host",
    "host_sampling",
    "interpolate",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "prelu",
    "quantization",
    "reduction",
    "softmax",
]
