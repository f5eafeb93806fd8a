"""The NumPy kernel of the gradients of convolution weights: one for any rank, groups, layout and data type.

dW is a sum of matrix products. For a block of images, the windows of src are copied into a matrix
`columns` (window elements × positions) that stays in the cache, and one matmul with diff_dst adds a block of dW.
The only Python loops are over blocks of about a megabyte, over kernel taps, and over the taps whose copies fill
`columns`; groups are a batch axis of the matmul. Temporaries are a block, the sum in f32 or f64, and, with more
than one block, one summand of it.

Half precisions are converted while they are copied, and everything is summed in f32 (f64 for f64).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...ops.convolution_geometry import ConvolutionGeometry, geometry
from ...ops.records import frozen
from ...ops.spatial import reached
from .convolution import grouped, view
from .kernels import Array, kernel

BLOCK_BYTES = 1 << 20
"""Size that a block's columns aim at: they are written once and read once, so they should stay in L2."""
SMALLEST_BLOCK_BYTES = 1 << 18
"""Below this the calls cost more than the memory; small problems take no more than their own size otherwise."""
ENOUGH_COLUMNS = 64
"""Fewer window elements than this make a matmul too thin; more kernel axes are then merged into it."""
WIDE_CHANNELS = 16
"""From this many adjacent channels on, copying channel runs beats copying along the positions."""


@kernel("ConvolutionBackwardWeights", "ConvTransposeBackwardWeights")
def backward_weights(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Kernel of both backward-weights ops."""
    src, diff_dst, result = inputs[0], inputs[1], outputs[0]
    p = geometry(op.kind, op.attributes, src.shape, diff_dst.shape, result.shape)
    dw = view(result, p.weights_axes)
    if p.is_zero:
        dw[...] = 0
        return
    playing_src, playing_dst = (diff_dst, src) if p.exchanged else (src, diff_dst)
    x = grouped(view(playing_src, p.src_axes), p.groups)
    dy = grouped(view(playing_dst, p.dst_axes), p.groups)
    accumulator = np.dtype(np.float64 if result.dtype == np.float64 else np.float32)
    if p.depthwise:
        _depthwise(p, x, dy, dw, accumulator)
    else:
        _matrix_products(p, x, dy, dw, accumulator)


# --- which positions of a tap lie inside src ---------------------------------------------------------


@frozen
class _Block:
    """A block of images and of rows along the first spatial axis."""

    images: slice
    rows: slice

    @property
    def size(self) -> tuple[int, int]:
        return self.images.stop - self.images.start, self.rows.stop - self.rows.start


def _block_bytes(x: Array, dy: Array) -> int:
    """How large a block may be, so that temporaries stay below the size of the inputs."""
    return min(BLOCK_BYTES, max(SMALLEST_BLOCK_BYTES, x.nbytes + dy.nbytes))


def _blocks(p: ConvolutionGeometry, bytes_per_row: int, limit: int) -> Iterator[_Block]:
    """Blocks of about `limit` bytes: whole images where several fit, else rows of one image."""
    rows = p.dst_spatial[0]
    images_at_once = max(1, limit // max(1, bytes_per_row * rows))
    rows_at_once = rows if images_at_once > 1 else max(1, min(rows, limit // max(1, bytes_per_row)))
    for image in range(0, p.batch, images_at_once):
        for row in range(0, rows, rows_at_once):
            yield _Block(
                slice(image, min(image + images_at_once, p.batch)),
                slice(row, min(row + rows_at_once, rows)),
            )


def _position_slices(
    p: ConvolutionGeometry, taps: Sequence[int], block: _Block
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Slices of the block's positions and of src that belong together for these taps; None if none do."""
    positions: list[slice] = []
    source: list[slice] = []
    for axis, tap in enumerate(taps):
        rows = block.rows if axis == 0 else slice(0, p.dst_spatial[axis])
        offset = tap * p.dilations[axis] - p.pads_begin[axis]
        found = reached(rows, p.strides[axis], offset, p.src_spatial[axis])
        if found is None:
            return None
        positions.append(found[0])
        source.append(found[1])
    return tuple(positions), tuple(source)


def _zero_outside(target: Array, positions: Sequence[slice]) -> None:
    """Zeros in `target` (…, X) outside of `positions`."""
    for axis, inside in enumerate(positions):
        lead = (slice(None),) * (target.ndim - len(positions) + axis)
        target[(*lead, slice(0, inside.start))] = 0
        target[(*lead, slice(inside.stop, None))] = 0


# --- matrix products -------------------------------------------------------------------------------


def _merged_axes(p: ConvolutionGeometry, limit: int) -> int:
    """How many trailing kernel axes go into the columns together."""
    merged = 1
    row = math.prod(p.dst_spatial[1:])
    while merged < p.spatial_rank:
        width = p.columns * math.prod(p.kernel[p.spatial_rank - merged :])
        wider = width * p.kernel[p.spatial_rank - merged - 1]
        if width >= ENOUGH_COLUMNS or wider * row * p.groups > limit:
            break
        merged += 1
    return merged


def _matrix_products(
    p: ConvolutionGeometry, x: Array, dy: Array, dw: Array, accumulator: np.dtype[Any]
) -> None:
    limit = _block_bytes(x, dy)
    merged = _merged_axes(p, limit // accumulator.itemsize)
    looped = p.kernel[: p.spatial_rank - merged]
    together = p.kernel[p.spatial_rank - merged :]
    width = math.prod(together) * p.columns
    row = math.prod(p.dst_spatial[1:])
    total = np.empty((*looped, p.groups, p.rows, width), accumulator)
    product: Array | None = None
    channels_inside = x.strides[2] == x.itemsize and p.columns >= WIDE_CHANNELS
    for number, block in enumerate(_blocks(p, row * width * p.groups * accumulator.itemsize, limit)):
        images, rows = block.size
        size = (images, rows, *p.dst_spatial[1:])
        count = math.prod(size)
        gradient = _gradient_matrix(dy[block.images, :, :, block.rows], accumulator)
        if channels_inside:
            columns = np.empty((*size, p.groups, math.prod(together), p.columns), accumulator)
            # (…X, G, K, I) seen as (K, N, G, I, X)
            order = (columns.ndim - 2, 0, columns.ndim - 3, columns.ndim - 1)
            by_tap = columns.transpose(*order, *range(1, 1 + p.spatial_rank))
            matrix = columns.reshape(count, p.groups, width).transpose(1, 0, 2)
        else:
            columns = np.empty((p.groups, math.prod(together), p.columns, *size), accumulator)
            # (G, K, I, N, X) seen as (K, N, G, I, X)
            by_tap = columns.transpose(1, 3, 0, 2, *range(4, 4 + p.spatial_rank))
            matrix = columns.reshape(p.groups, width, count).transpose(0, 2, 1)
        block_src = x[block.images]
        for outer in itertools.product(*map(range, looped)):
            inside = _fill(p, by_tap, block_src, block, outer, together)
            if number == 0:
                if inside:
                    np.matmul(gradient, matrix, out=total[outer])
                else:
                    total[outer] = 0
            elif inside:
                product = np.matmul(gradient, matrix, out=product)
                total[outer] += product
    # (…looped, G, O, K, I) seen as (G, O, I, …K)
    expanded = total.reshape(*looped, p.groups, p.rows, *together, p.columns)
    lead = len(looped)
    axes = (lead, lead + 1, expanded.ndim - 1, *range(lead), *range(lead + 2, expanded.ndim - 1))
    dw[...] = expanded.transpose(axes)


def _gradient_matrix(dy: Array, accumulator: np.dtype[Any]) -> Array:
    """diff_dst of a block, (N, G, O, X), as (G, O, positions): a view where its memory allows it."""
    groups, rows = dy.shape[1], dy.shape[2]
    by_group = dy.transpose(1, 2, 0, *range(3, dy.ndim))
    if dy.strides[2] == dy.itemsize:  # channels last: the transpose of (positions, O)
        flat = dy.transpose(0, *range(3, dy.ndim), 1, 2)
        return flat.astype(accumulator, copy=False).reshape(-1, groups, rows).transpose(1, 2, 0)
    return by_group.astype(accumulator, order="C", copy=False).reshape(groups, rows, -1)


def _fill(
    p: ConvolutionGeometry,
    by_tap: Array,
    src: Array,
    block: _Block,
    outer: tuple[int, ...],
    together: tuple[int, ...],
) -> bool:
    """Copies the windows of the block into the columns; False if no tap reads inside src."""
    any_inside = False
    for number, inner in enumerate(itertools.product(*map(range, together))):
        target = by_tap[number]
        found = _position_slices(p, (*outer, *inner), block)
        if found is None:
            target[...] = 0
            continue
        positions, source = found
        _zero_outside(target, positions)
        lead = (slice(None),) * 3
        target[(*lead, *positions)] = src[(*lead, *source)]
        any_inside = True
    return any_inside


# --- depthwise -------------------------------------------------------------------------------------


def _depthwise(p: ConvolutionGeometry, x: Array, dy: Array, dw: Array, accumulator: np.dtype[Any]) -> None:
    """One channel a group: a product of arrays summed over images and positions, a tap at a time."""
    x, dy = x[:, :, 0], dy[:, :, 0]
    total = np.zeros((*p.kernel, p.groups), accumulator)
    row = math.prod(p.dst_spatial[1:])
    last = x.strides[1] == x.itemsize
    letters = "defghijklmopqrstuvwxyz"[: p.spatial_rank] if p.spatial_rank <= 20 else None
    for block in _blocks(p, row * p.groups * accumulator.itemsize, _block_bytes(x, dy)):
        src = x[block.images].astype(accumulator, copy=False)
        gradient = dy[block.images, :, block.rows].astype(accumulator, copy=False)
        for taps in itertools.product(*map(range, p.kernel)):
            found = _position_slices(p, taps, block)
            if found is None:
                continue
            positions, source = found
            a = src[(slice(None), slice(None), *source)]
            b = gradient[(slice(None), slice(None), *positions)]
            if last or letters is None:
                product = np.multiply(np.moveaxis(a, 1, -1), np.moveaxis(b, 1, -1))
                total[taps] += product.reshape(-1, p.groups).sum(axis=0)
            else:
                total[taps] += np.einsum(f"nc{letters},nc{letters}->c", a, b)
    dw[:, 0, 0] = np.moveaxis(total, -1, 0)
