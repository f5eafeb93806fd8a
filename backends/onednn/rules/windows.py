"""What is barred of poolings and resamplings."""

from __future__ import annotations

import math

from ..library.descriptors import PoolingBackward, PoolingForward, ResamplingBackward
from ..library.enumerators import Algorithm, Query
from .conditions import AMBIGUOUS, STRAY, ends, is_blocked_integers, operands, stray_ones
from .entry import Case, Entry
from .post_ops import window_post_op_is_wrong


def _positions_outside(case: Case) -> bool:
    """Whether the positions of a resampling's source, its last axis, are not adjacent."""
    strides = case.layout(Query.src_md).strides
    return strides is None or strides[-1] != 1


def _is_torn_between_neighbours(case: Case) -> bool:
    """Whether a nearest resampling has a position halfway between two of the source's, by a ratio that f32 rounds."""
    described = case.descriptor
    if not isinstance(described, ResamplingBackward):
        return False
    if described.algorithm is not Algorithm.resampling_nearest:
        return False
    sizes = zip(
        case.layout(Query.diff_src_md).shape[2:], case.layout(Query.diff_dst_md).shape[2:], strict=True
    )
    for src, dst in sizes:
        parts = src // math.gcd(src, dst)
        rounds = parts & (parts - 1) != 0
        if rounds and any(2 * x * dst % src == 0 and 2 * x * dst // src % 2 for x in range(1, src)):
            return True
    return False


def _averages(case: Case) -> bool:
    ways = (Algorithm.pooling_avg_include_padding, Algorithm.pooling_avg_exclude_padding)
    return isinstance(case.descriptor, PoolingForward | PoolingBackward) and case.descriptor.algorithm in ways


def _lies_in_two_ways(case: Case) -> bool:
    """Whether an image of one position is taken to lie as its other end, and has the strides of another layout."""
    first, second = ends(case)
    return first.last_stride != second.last_stride


NOT_PER_CHANNEL = Entry[[Case]](
    "",
    "a second operand has several elements and is not clearly per channel",
    lambda case: any(
        window_post_op_is_wrong(case.layout(Query.dst_md).shape, operand.shape) for operand in operands(case)
    ),
    "elements of the operand taken from the wrong places, also where it has one for each of (1, 8, 1)",
)


RESAMPLED = (
    Entry[[Case]](
        "",
        STRAY,
        stray_ones,
        f"{AMBIGUOUS}: wrong values and writes out of bounds, with channels-last (1, 9, 2, 1) say, seen with 3.6",
        since=(3, 3),
    ),
    Entry[[Case]](
        "",
        "data and result have different strides along the last axis",
        _lies_in_two_ways,
        f"{AMBIGUOUS}: most elements wrong from (2, 16, 1) channels-last to (2, 16, 3) in rows, seen with 3.6",
        since=(3, 3),
    ),
)

RULES: dict[str, tuple[Entry[[Case]], ...]] = {
    "pooling_forward": (
        NOT_PER_CHANNEL,
        Entry(
            "jit:sse41",
            "it averages",
            _averages,
            "crashes on data that does not begin at a multiple of 16 bytes, which it adds from memory",
        ),
    ),
    "resampling_backward": (
        *RESAMPLED,
        Entry(
            "jit",
            "it is nearest, and a position lies halfway between two by a ratio of sizes that f32 rounds",
            _is_torn_between_neighbours,
            "the gradient of the position goes to the other neighbour than the forward pass took, from 28 to 2 say",
        ),
    ),
    "resampling_forward": (
        NOT_PER_CHANNEL,
        *RESAMPLED,
        *(
            Entry[[Case]](
                kernel,
                "the result is of 8-bit integers in blocks, with a second operand of several elements",
                lambda case: (
                    is_blocked_integers(case.layout(Query.dst_md))
                    and any(math.prod(operand.shape) > 1 for operand in operands(case))
                ),
                "the operand's first elements for each vector of a block, which is longer than one",
            )
            for kernel in ("jit:sse41", "jit:avx2")
        ),
        Entry(
            "simple:any",
            "a second operand has more than one element and the positions of the source are not adjacent",
            lambda case: (
                any(math.prod(operand.shape) > 1 for operand in operands(case)) and _positions_outside(case)
            ),
            "takes the operand's elements by where the result lies, as if that were row-major: per channel and "
            "channels-last",
        ),
    ),
}
"""What made the primitive → what is barred of it."""
