"""What torch's tracing takes apart, and leaves whole while we compile."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from .framework import aten, torch

RESIZINGS = (
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
)
"""Ops that have one counterpart here, and that torch in Python would make of dozens of look-ups."""
_lock = RLock()


@contextmanager
def resizings_whole() -> Generator[None]:
    """Has torch trace resizings as the ops that they are."""
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    with _lock:
        taken = [
            (op, key, op.py_kernels.pop(key)) for op in _overloads() for key in keys if key in op.py_kernels
        ]
        for op, _, _ in taken:
            op._dispatch_cache.clear()
        try:
            yield
        finally:
            for op, key, kernel in taken:
                op.py_kernels[key] = kernel
                op._dispatch_cache.clear()


def _overloads() -> list[Any]:
    packets = [getattr(aten, name) for name in RESIZINGS]
    return [getattr(packet, name) for packet in packets for name in packet.overloads() if "out" not in name]
