"""What is barred of products of matrices."""

from __future__ import annotations

import math

from ....ops.data_types import DataType
from ..library.loading import LATER_DATA_TYPES
from .features import Features
from .rule import Rule, Table
from .shared import BELOW_THE_CPU, SATURATING


def _has_groups_across_tiles(features: Features) -> bool:
    """Whether groups of rows that share a scale end in the middle of the 32 rows that kernels of bf16 take at once."""
    how = features.attributes.decompression
    if how is None or features.src.data_type is not DataType.bf16:
        return False
    rows = features.weights.shape[-2]
    given = [
        numbers.group[0] for numbers in (how.scales, how.points) if numbers is not None and numbers.group
    ]
    return any(16 < group < rows and group % 32 == 16 for group in given)


def _goes_elsewhere(features: Features) -> bool:
    """Whether a product with a second operand of several elements goes to batches that don't lie as rows do."""
    target = features.dst
    strides, step = target.strides, 1
    if not features.has_large_operand:
        return False
    for axis in reversed(range(len(target.shape))):
        if target.shape[axis] > 1 and strides is not None and strides[axis] != step:
            return True
        step *= target.shape[axis]
    return False


def _has_batches_apart(features: Features) -> bool:
    """Whether batches along the first of four axes, the second being of one element, share the second matrix."""
    batches, shared = features.dst.shape[:-2], features.weights.shape[:-2]
    return len(batches) == 2 and batches[0] > 1 and batches[1] == 1 and shared == (1, 1)


def _has_misjudged_batches(features: Features) -> bool:
    """Whether the batches of a matrix lie evenly as the library tells it, and do not.

    It asks whether the largest stride is the smallest times the number of batches, and goes by that of the last axis.
    """
    batches = features.dst.shape[:-2]
    if len(batches) < 2:
        return False
    for desc in features.matrices:
        steps, sizes = (desc.strides or ())[: len(batches)], desc.shape[: len(batches)]
        if not steps or max(steps) // min(steps) != math.prod(batches):
            continue
        step = steps[-1]
        for size, stride in zip(reversed(sizes), reversed(steps), strict=True):
            if size > 1 and stride != step:
                return True
            step *= size
    return False


def _rounds_what_is_not_in_rows(features: Features) -> bool:
    """Whether factors in f32 are rounded, and the second matrix does not lie in rows that follow one another."""
    strides = features.weights.strides
    dense = strides is None or strides[-2:] == (features.weights.shape[-1], 1)
    return not dense and features.src.data_type is DataType.f32


def _steps_over_gaps(features: Features) -> bool:
    """Whether sums have one product each, and the second matrices of several batches don't lie one behind another."""
    weights, step = features.weights, 1
    if features.src.shape[-1] != 1 or weights.strides is None or weights.shape[-1] == 1:
        return False
    step = weights.shape[-1]
    for size, stride in zip(reversed(weights.shape[:-2]), reversed(weights.strides[:-2]), strict=True):
        if size > 1 and stride != step:
            return True
        step *= size
    return False


def _shares_sums(features: Features) -> bool:
    """Whether threads share the sums of a product of 8-bit integers, as they do where there is little else to share."""
    rows, inner = features.src.shape[-2:]
    steps = features.src.strides
    return (
        features.has_integers
        and inner >= 2048
        and (rows == 1 or steps is None or steps[-1] != 1)
        and -(-features.dst.shape[-1] // 64) < features.threads
    )


def _has_long_sums_of_sixteen(features: Features) -> bool:
    """Whether sums of more than 1024 f32 meet weights in blocks of 16 columns."""
    return features.weights.blocks[-1:] == (16,) and features.weights.shape[-2] > 1024


def _has_vector_with_gaps(features: Features) -> bool:
    """Whether a matrix has a single row or column whose elements are not adjacent."""
    for desc in features.matrices:
        if desc.strides is None:
            continue
        (rows, step), (columns, along) = list(zip(desc.shape, desc.strides, strict=True))[-2:]
        if (columns == 1 < rows and step != 1) or (rows == 1 < columns and along != 1):
            return True
    return False


WRONG: Table = {
    "matmul": (
        BELOW_THE_CPU,
        Rule(
            name="batches-of-rows-with-gaps",
            implementation="brg_matmul",
            condition="sums have one product each, and there is a gap between the second matrices of two batches",
            applies=_steps_over_gaps,
            seen="most elements are what lies in the gaps, in f32 (2, 2, 1) by (2, 1, 8); right with 3.6",
            since=(3, 7),
        ),
        Rule(
            name="rounded-not-in-rows",
            implementation="brg:avx512_core_amx",
            condition="factors in f32 are rounded to bf16, and the second matrix does not lie in rows that follow one "
            "another",
            applies=_rounds_what_is_not_in_rows,
            seen="nearly all elements wrong in batches of 2 and 3 rows with others between them, and half of them with "
            "33 and 65 rows that lie by columns",
        ),
        Rule(
            name="shared-sums",
            implementation="brg_matmul:avx512",
            condition="threads share sums of 2048 or more 8-bit products: src lies by columns or is one row, and the "
            "columns are fewer than 64 for each thread",
            applies=_shares_sums,
            seen="crashes, with s8 (8, 2048) lying by columns or (1, 2048) by (2048, 64) on two threads, seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="long-sums",
            implementation="brg_matmul:avx2",
            condition="more than 1024 products are summed and the weights are in blocks of 16 columns",
            applies=_has_long_sums_of_sixteen,
            seen="reads what nobody wrote: all elements wrong in f32 with 9 to 16 columns, seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="stray-ones",
            implementation="brg",
            condition="an axis of one element of a matrix has another stride than follows from the others",
            applies=lambda features: any(desc.canonical() is not desc for desc in features.matrices),
            seen="goes by it: most elements wrong in bf16 by (1, 3, 7, 31) of strides (93, 31, 93, 1), seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="misjudged-batches",
            implementation="brg",
            condition="the largest stride of a matrix's batches is the smallest times their number, and they lie "
            "unevenly",
            applies=_has_misjudged_batches,
            seen="takes them as even: s8 (3, 1, 1000, 32) in another order, bf16 (2, 3, 2, 31) of strides "
            "(210, 35, 105, 1)",
            since=(3, 6),
        ),
        Rule(
            name="vector-with-gaps",
            implementation="brg",
            condition="a matrix is one row or column whose elements are not adjacent",
            applies=_has_vector_with_gaps,
            seen="takes them as adjacent: all elements wrong in f32 and bf16 for columns (16, 1) of stride 2, seen "
            "with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="batches-apart",
            implementation="brg",
            condition="batches of two axes share the second matrix, and the second axis has one element",
            applies=_has_batches_apart,
            seen="takes the rows of all batches as one matrix and the stride of the second axis for that between rows, "
            "as the layout is that of (batch, row, 1, column) too: wrong from the second batch on and written far "
            "beyond the result, s8 (2, 1, 100, 48) by (1, 1, 48, 64) say, seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="halves-with-gaps",
            implementation="brg_matmul",
            condition="weights of 4 bits have gaps between their rows, as where these end within a byte",
            applies=lambda features: (
                features.weights.data_type in LATER_DATA_TYPES and features.weights.has_gaps
            ),
            seen="takes other weights for most columns: f32 (1, 512) by s4 (512, 3) of strides (4, 1), and u4 with 15 "
            "to 129 columns",
            since=(3, 13),
        ),
        Rule(
            name="groups-across-tiles",
            implementation="brg_matmul",
            condition="rows of bf16 meet integers in several groups of rows, of an odd multiple of 16 rows above 16",
            applies=_has_groups_across_tiles,
            seen="numbers of other groups, and NaN: groups of 48, 80 and 112 of bf16 (7, 144) by u8 (144, 2) say, in a "
            "fifth of the problems by kernels of AVX-512 with bf16 and in most by AMX's; groups of 16 and of multiples "
            "of 32 were right in 500, as were those of f32 and f16",
            since=(3, 13),
        ),
        Rule(
            name="operand-elsewhere",
            implementation="",
            condition="a second operand has more than one element and the result is not dense rows",
            applies=_goes_elsewhere,
            seen="takes the operand's elements by where the result lies, as if that were row-major: wrong values and "
            "crashes with gaps between batches and with transposed ones, by gemm and brg alike",
        ),
    )
}

IMPRECISE: Table = {"matmul": (SATURATING,)}
