"""Spatial arithmetic of convolutions, one axis at a time. Pure integers.

k: kernel size, d: dilation, s: stride, ek = d·(k − 1) + 1: the kernel's extent.
Source: the documents of Convolution and ConvTranspose (oneDNN Graph 3.x).
"""

from __future__ import annotations

from collections.abc import Sequence


def effective_kernel(kernel: int, dilation: int) -> int:
    """Extent of a dilated kernel."""
    return dilation * (kernel - 1) + 1


def convolution_size(size: int, extent: int, stride: int, pads: int) -> int:
    """Output size of a convolution; zero or less where the kernel does not fit."""
    return (size + pads - extent) // stride + 1


def transposed_size(size: int, extent: int, stride: int, pads: int, output_padding: int) -> int:
    """Output size of a transposed convolution."""
    return stride * (size - 1) + extent + output_padding - pads


def same_pads(total: int, auto_pad: str) -> tuple[int, int]:
    """Splits the total padding of SAME_UPPER (the odd one at the end) or SAME_LOWER (at the beginning)."""
    small, large = total // 2, total - total // 2
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def convolution_same_total(size: int, extent: int, stride: int) -> int:
    """Total padding so that the output of a convolution has ceil(size / stride) positions."""
    output = -(-size // stride)
    return max(0, (output - 1) * stride + extent - size)


def transposed_same_total(extent: int, stride: int) -> int:
    """Total padding so that the output of a transposed convolution has size · stride positions."""
    return max(0, extent - stride)


def reaching(kernel: int, dilation: int, stride: int, begin: int, count: int, size: int) -> Sequence[int]:
    """The elements of a sliding window that reach inside the data at some position, ascending; along one axis.

    They are never many more than data and positions have to do with each other, however large the kernel is.

    Args:
        kernel, dilation: of the window.
        stride: from one position to the next.
        begin: padding in front of the data.
        count: of positions.
        size: of the data.
    """

    def between(first: int, last: int) -> range:
        """Those that are on the data when it is `first` to `last` from the beginning of the window."""
        return range(max(0, -(-first // dilation)), min(kernel - 1, last // dilation) + 1)

    if stride <= size or count == 1:
        return between(begin - (count - 1) * stride, begin + size - 1)
    nearest = max(0, -((dilation * (kernel - 1) - begin) // stride))
    positions = range(nearest, min(count - 1, (begin + size - 1) // stride) + 1)
    return sorted({k for p in positions for k in between(begin - p * stride, begin + size - 1 - p * stride)})


def reached(positions: slice, stride: int, offset: int, size: int) -> tuple[slice, slice] | None:
    """The positions of a sliding window that reach inside the data with one of its elements, and what they reach.

    Along one axis; None where none does.

    Args:
        positions: from start to stop; the result counts from start.
        stride: from one position to the next.
        offset: of what position 0 reaches, negative in the padding.
        size: of the data.
    """
    first = max(positions.start, -(offset // stride))
    last = min(positions.stop, (size - 1 - offset) // stride + 1)
    if last <= first:
        return None
    start = first * stride + offset
    inside = slice(first - positions.start, last - positions.start)
    return inside, slice(start, start + (last - first - 1) * stride + 1, stride)
