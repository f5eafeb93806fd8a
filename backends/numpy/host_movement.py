"""NumPy kernels of the host family's movement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.host_movement import slices
from . import movement
from .host_gather import added, counting
from .kernels import Array, kernel, register_kernel, store, total, wide

register_kernel("HostReshape", movement.static_reshape)
register_kernel("HostTranspose", movement.static_transpose)
register_kernel("HostConcat", movement.concat)


@kernel("HostSlice")
def part(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A part along axes."""
    np.copyto(outputs[0], inputs[0][tuple(slices(op.attributes, inputs[0].ndim))])


@kernel("HostPad")
def pad(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Elements around."""
    src, a = inputs[0], op.attributes
    widths = list(zip(a.integers("pads_begin"), a.integers("pads_end"), strict=True))
    mode = a.string("mode")
    if mode != "constant":
        around: Callable[..., Array] = np.pad
        np.copyto(outputs[0], around(src, widths, mode=mode))
        return
    outputs[0][...] = np.asarray(a.real("value")).astype(src.dtype)
    inside = tuple(slice(begin, begin + d) for (begin, _), d in zip(widths, src.shape, strict=True))
    outputs[0][inside] = src


@kernel("HostExpand")
def expand(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Repeated along axes of one element."""
    np.copyto(outputs[0], np.broadcast_to(inputs[0], outputs[0].shape))


@kernel("HostSliceBackward")
def part_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_dst in its place, and zeros elsewhere."""
    outputs[0][...] = 0
    outputs[0][tuple(slices(op.attributes, outputs[0].ndim))] = inputs[0]


@kernel("HostPadBackward")
def pad_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst wherever an element went."""
    a, sums = op.attributes, wide(inputs[0])
    around: Callable[..., Array] = np.pad
    for axis, (begin, end) in enumerate(zip(a.integers("pads_begin"), a.integers("pads_end"), strict=True)):
        size = outputs[0].shape[axis]
        if a.string("mode") == "constant":
            sums = sums.take(begin + counting(size), axis)
        elif begin or end:
            sums = added(sums, around(counting(size), (begin, end), mode=a.string("mode")), axis, size)
    store(outputs[0], sums)


register_kernel("HostExpandTo", expand)


@kernel("HostSumTo")
def sum_to(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = Σ src over what like has one element along."""
    src, target = wide(inputs[0]), outputs[0]
    lead = src.ndim - target.ndim
    kept = (1,) * lead + target.shape
    axes = tuple(axis for axis, d in enumerate(kept) if d == 1 and src.shape[axis] != 1)
    store(target, total(src, axes, keepdims=True).reshape(target.shape))
