"""Why post-ops must not go along with primitives, whatever the implementation."""

from __future__ import annotations

from collections.abc import Sequence


def post_op_is_wrong(dims: Sequence[int], operand: Sequence[int] | None) -> str | None:
    """Why a post-op must not go along with a kernel that is not elementwise, or None.

    Kernel and post-op tell by the strides whether the channels, axis 1, lie last, each in its own way, and they differ
    where no axis follows that has more than one element: seen with an operand per channel of results (N, C, 1, 1).

    Args:
        dims: of the result, in the axes of the primitive.
        operand: of the second operand, with as many axes; None for a post-op without one.
    """
    if operand is None or len(dims) < 3 or any(d != 1 for d in dims[2:]):
        return None
    if tuple(operand) == tuple(dims) or all(d == 1 for d in operand):
        return None
    return "kernel and post-op take the channels from different places where nothing follows them"


def window_post_op_is_wrong(dims: Sequence[int], operand: Sequence[int] | None) -> str | None:
    """Why a post-op must not go along with a pooling or a resampling, or None.

    Their kernels take the elements of a second operand from the wrong places, unless there is one of them for each
    channel or one for all: seen with `jit:avx512_core` poolings and `simple:any` resamplings, in all layouts and types.
    An operand that has one element for each channel and also one for each element of the result (of one position) is
    taken by them for one of each element.

    Args:
        dims, operand: as for `post_op_is_wrong`.
    """
    if operand is None or all(d == 1 for d in operand):
        return None
    if tuple(operand) == tuple(dims) or any(d != 1 for axis, d in enumerate(operand) if axis != 1):
        return "its kernels misplace operands that are not per channel"
    return post_op_is_wrong(dims, operand)
