"""A user's own ops: a schema and a NumPy kernel, in their own file."""

from __future__ import annotations

from ...graph.gradients.rules import RULES
from ...ops.errors import SchemaError
from ...ops.registry import REGISTRY
from ...ops.schema import CUSTOM, OpSchema
from .kernels import KERNELS, Kernel, register_kernel


def register_op(schema: OpSchema, kernel: Kernel) -> OpSchema:
    """Adds an op to the set; graphs, eager calls and `verify` then know it like a built-in one.

    Args:
        schema: ports, attributes, types, and the shape rule.
        kernel: called as `kernel(op, inputs, outputs)`; writes its results into the output arrays, and returns nothing.
            The inputs are read-only. All arrays are the kernel's own, to be kept if it likes.

    Raises:
        SchemaError: the kind is taken, or an argument is not what it should be.
    """
    if not isinstance(schema, OpSchema):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise SchemaError(f"register_op takes an OpSchema first, got {type(schema).__name__}")
    REGISTRY.register(schema)
    try:
        register_kernel(schema.kind, kernel)
    except SchemaError:
        REGISTRY.unregister(schema.kind)
        raise
    return schema


def unregister_op(kind: str) -> None:
    """Removes a user's op again.

    Raises:
        UnknownOpError: there is no such op.
        SchemaError: it is a built-in one.
    """
    schema, _ = REGISTRY.resolve(kind)
    if schema.family != CUSTOM:
        raise SchemaError(f"'{kind}' is built in and can't be unregistered; only your own ops can")
    REGISTRY.unregister(schema.kind)
    del KERNELS[schema.kind]
    RULES.pop(schema.kind, None)
