"""The registry of NumPy kernels: op kind → function from input arrays to output arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from ...graph.op import Op
from ...ops.errors import SchemaError
from ...ops.registry import REGISTRY

Array = NDArray[Any]
Kernel = Callable[[Op, Sequence[Array], Sequence[Array]], None]
"""Takes the op, with concrete tensors, its input arrays, and its output arrays to write into."""

KERNELS: dict[str, Kernel] = {}


def register_kernel(kind: str, kernel: Kernel) -> None:
    """Makes `kernel` the NumPy implementation of `kind`.

    Raises:
        UnknownOpError: no schema of that kind is registered.
        SchemaError: the kind has a kernel already, or `kernel` can't be called.
    """
    schema, _ = REGISTRY.resolve(kind)
    if schema.kind in KERNELS:
        raise SchemaError(f"op kind '{schema.kind}' has a NumPy kernel already; unregister it first")
    if not callable(kernel):
        raise SchemaError(
            f"the NumPy kernel of '{kind}' must be a function of (op, inputs, outputs), got {kernel!r}"
        )
    KERNELS[schema.kind] = kernel
