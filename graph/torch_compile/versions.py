"""What torch's versions have in different places: `torch >= 2.4` is supported, and asked about here alone."""

from __future__ import annotations

from typing import Any

from .framework import torch


def tracing() -> Any:
    """What torch knows of the graph that it compiles now: a `TracingContext`, or None."""
    return torch._guards.TracingContext.try_get()


def steady_arguments(context: Any) -> frozenset[int]:
    """Numbers of the arguments that are weights: parameters and buffers.

    Args:
        context: a `TracingContext` with metadata.
    """
    indices = getattr(context.fw_metadata, "static_input_indices", None)
    if indices is None:  # torch 2.4, where a module's weights are put before what it is called with
        return frozenset(range(len(context.params_flat or ())))
    return frozenset(indices)
