"""The specification: data types, schemas, registry, formats, spatial arithmetic, shape inference. No arrays, no I/O.

Importing the package registers the op set; a family is one module.
"""

from . import (
    binary,
    convolution,
    dropout,
    eltwise,
    host,
    host_communication,
    host_eltwise,
    host_gather,
    host_movement,
    host_onnx,
    host_reduction,
    host_sampling,
    host_training,
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
    "dropout",
    "eltwise",
    "host",
    "host_communication",
    "host_eltwise",
    "host_gather",
    "host_movement",
    "host_onnx",
    "host_reduction",
    "host_sampling",
    "host_training",
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
