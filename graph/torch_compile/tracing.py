"""What torch's tracing takes apart, and leaves whole while we compile."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..runtime.locking import Lock
from .framework import aten, torch

RESIZINGS = (
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
)
"""Ops that have one counterpart here, and that torch in Python would make of dozens of look-ups."""
_lock = Lock()


@contextmanager
def resizings_whole() -> Generator[None]:
    """Has torch trace resizings as the ops that they are, but for those of sizes that are symbols.

    Torch has no shape rules for the gradients of these, so that it takes them apart as ever.
    """
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    packets = [getattr(aten, name) for name in RESIZINGS]
    with _lock:
        before = [(op, dict(op.py_kernels)) for packet in packets for op in (packet.default, packet.vec)]
        for op, kernels in before:
            for key in keys & kernels.keys():
                if op._overloadname == "vec":
                    op.py_kernels[key] = partial(_whole, op.overloadpacket.default, kernels[key])
                else:
                    del op.py_kernels[key]
            op._dispatch_cache.clear()
        try:
            yield
        finally:
            for op, kernels in before:
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()


def _whole(op: Any, apart: Any, x: Any, output_size: Sequence[Any] | None, *more: Any) -> Any:
    """A resizing to sizes, or by factors, which are the last argument, as the op that does both.

    Args:
        op: that one.
        apart: torch's way to do it by look-ups, which takes symbols.
        x, output_size: what is resized, and to which sizes, if not by factors.
        more: whether corners are aligned, and the factors.
    """
    *corners, factors = more
    if any(isinstance(one, torch.SymInt) for one in (*x.shape, *(output_size or ()))) or any(
        isinstance(one, torch.SymFloat) for one in factors or ()
    ):
        return apart(x, output_size, *more)
    if 0 in x.shape:  # which torch's own shape rules of the op take for an error
        return apart(x, output_size, *more)
    if output_size is None:
        output_size = [int(size * factor) for size, factor in zip(x.shape[2:], factors, strict=True)]
    return op(x, output_size, *corners, *(factors or ()))
