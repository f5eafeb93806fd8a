"""What is barred of weight gradients."""

from __future__ import annotations

from ....ops.convolution_geometry import ConvolutionGeometry
from ....ops.data_types import DataType
from ....ops.spatial import effective_kernel
from ..library.implementations import LANES, REFERENCE
from .entry import Entry

REGISTER_BLOCK = 28
"""Output positions along the width that the AVX-512 kernels hold in registers; wider rows take another path."""


def _strided(p: ConvolutionGeometry) -> bool:
    return any(stride > 1 for stride in p.strides)


def _small_src(p: ConvolutionGeometry) -> bool:
    """Whether some padded axis of src has less room than the kernel's extent and a stride.

    What failed had no more room than the extent; the stride is a margin.
    """
    return any(
        max(begin, end) > 0 and size < effective_kernel(k, d) + s
        for size, k, d, s, begin, end in zip(
            p.src_spatial, p.kernel, p.dilations, p.strides, p.pads_begin, p.pads_end, strict=True
        )
    )


def _ragged_groups(p: ConvolutionGeometry) -> bool:
    return p.groups > 1 and bool(p.columns % LANES or p.rows % LANES)


def _dilated_rows(p: ConvolutionGeometry) -> bool:
    """A dilated kernel height over wide rows, with input channels that leave lanes empty."""
    return (
        p.spatial_rank == 2
        and p.dilations[0] > 1
        and p.dst_spatial[1] > REGISTER_BLOCK
        and p.columns % LANES != 0
    )


TABLE: tuple[Entry[[ConvolutionGeometry, DataType]], ...] = (
    Entry(
        REFERENCE,
        "always",
        lambda p, dtype: True,
        "a reference loop, 100 to 700 times slower than any other way",
    ),
    Entry(
        "jit_1x1",
        "a stride is above 1 and 16 does not divide the input channels",
        lambda p, dtype: _strided(p) and p.columns % LANES != 0,
        "wrong values, writes beyond its scratchpad, crashes and endless loops with 2 to 15 channels",
    ),
    Entry(
        "jit_bf16_1x1",
        "a stride is above 1 and 16 does not divide the input channels",
        lambda p, dtype: _strided(p) and p.columns % LANES != 0,
        "wrong values and heap corruption with 2 and 8 channels",
    ),
    Entry(
        "jit:avx512_core",
        "the stride of the width is above 1, diff_dst is wider than 28 and 7 or more zeros follow src",
        lambda p, dtype: p.strides[-1] > 1 and p.dst_spatial[-1] > REGISTER_BLOCK and p.pads_end[-1] >= 7,
        "wrong values with 14 to 26 zeros behind rows of 29 to 37 positions",
    ),
    Entry(
        "jit:avx512_core",
        "the stride of the width is above 1, diff_dst is wider than 28, more than 14 zeros precede src and some follow",
        lambda p, dtype: (
            p.strides[-1] > 1
            and p.dst_spatial[-1] > REGISTER_BLOCK
            and p.pads_begin[-1] > REGISTER_BLOCK // 2
            and p.pads_end[-1] > 0
        ),
        "wrong values with 15 to 28 zeros before rows of 29 to 33 positions: it halves its block and takes the zeros "
        "that are left for as many positions of diff_dst",
    ),
    Entry(
        "jit:avx512_core",
        "it is 3-D and a padded axis of src is smaller than the kernel's extent and a stride",
        lambda p, dtype: p.spatial_rank == 3 and _small_src(p),
        "wrong values, writes beyond its scratchpad and heap corruption with strides and deep kernels",
    ),
    Entry(
        "jit_bf16:",
        "a padded axis of src is smaller than the kernel's extent and a stride",
        lambda p, dtype: _small_src(p),
        "wrong values and crashes, mostly in 3-D, for all kinds of channels",
    ),
    Entry(
        "jit_bf16:",
        "there are groups whose channels 16 does not divide",
        lambda p, dtype: _ragged_groups(p),
        "wrong values: always when the height is dilated and diff_dst wider than 28, sometimes else",
    ),
    Entry(
        "jit_bf16:",
        "the height is dilated, diff_dst is wider than 28 and 16 does not divide the input channels",
        lambda p, dtype: _dilated_rows(p),
        "wrong values with 17, 20 and 24 channels, and crashes",
    ),
    Entry(
        "jit_bf16:",
        "the stride of the width is above 1 and diff_dst is narrower than 4",
        lambda p, dtype: p.strides[-1] > 1 and p.dst_spatial[-1] < 4,
        "wrong values with one or two output positions along the width",
    ),
)
