"""Implementations of the library that are not trusted, each with its condition and what was seen.

The library offers kernels that give wrong numbers or write out of bounds. `barred` is asked for every
implementation before it is chosen; the next implementation, or another lowering, takes its place. New
entries come from `tests/tools/fuzz_kernels.py`, which runs every implementation in a child process.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from ...graph.op import Op
from ...ops.data_types import DataType
from ...ops.formats import data_axes
from ...ops.spatial import effective_kernel
from ...ops.weights_gradient import WeightsGradient
from .collapse import spread_shape
from .fusing import Link


@frozen
class Entry:
    """One rule of the table.

    Attributes:
        implementation: beginning of the library's implementation name.
        condition: in words.
        applies: the condition on problem and primitive data type.
        seen: what happened.
    """

    implementation: str
    condition: str
    applies: Callable[[WeightsGradient, DataType], bool]
    seen: str


REGISTER_BLOCK = 28
"""Output positions along the width that the AVX-512 kernels hold in registers; wider rows take another path."""
LANES = 16
"""f32 lanes of AVX-512, to which channels are padded."""


def _strided(p: WeightsGradient) -> bool:
    return any(stride > 1 for stride in p.strides)


def _small_src(p: WeightsGradient) -> bool:
    """Whether some padded axis of src has less room than the kernel's extent and a stride.

    What failed had no more room than the extent; the stride is a margin.
    """
    return any(
        max(begin, end) > 0 and size < effective_kernel(k, d) + s
        for size, k, d, s, begin, end in zip(
            p.src_spatial, p.kernel, p.dilations, p.strides, p.pads_begin, p.pads_end, strict=True
        )
    )


def _ragged_groups(p: WeightsGradient) -> bool:
    return p.groups > 1 and bool(p.columns % LANES or p.rows % LANES)


def _dilated_rows(p: WeightsGradient) -> bool:
    """A dilated kernel height over wide rows, with input channels that leave lanes empty."""
    return (
        p.spatial_rank == 2
        and p.dilations[0] > 1
        and p.dst_spatial[1] > REGISTER_BLOCK
        and p.columns % LANES != 0
    )


REFERENCE = "ref"
"""How the names of the library's reference loops begin; they run only where a user forces the backend."""

TABLE: tuple[Entry, ...] = (
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

PROVEN = frozenset(
    {
        "brg:avx512_core",
        "brg:avx512_core_bf16",
        "gemm:jit:bf16",
        "gemm:jit:f32",
        "jit:avx2",
        "jit:avx512_core",
        "jit_1x1:avx2",
        "jit_1x1:avx512_core",
        "jit_bf16:avx512_core",
        "jit_bf16:avx512_core_bf16",
        "jit_bf16_1x1:avx512_core",
        "jit_bf16_1x1:avx512_core_bf16",
        "jit_dw:avx2",
        "jit_dw:avx512_core",
        "jit_dw:avx512_core_bf16",
        "jit_dw:sse41",
        "x64:gemm:jit",
    }
)
"""Implementations that the fuzzer has covered. Any other is verified on integer data at each compile."""


def is_proven(implementation: str) -> bool:
    """Whether the fuzzer has covered it, so that TABLE tells all that is known to be wrong with it."""
    return implementation in PROVEN


def barred(implementation: str, problem: WeightsGradient, data_type: DataType) -> str | None:
    """Why `implementation` must not run this problem in `data_type`, or None when it may."""
    for entry in TABLE:
        if implementation.startswith(entry.implementation) and entry.applies(problem, data_type):
            return f"{implementation} is barred when {entry.condition}: {entry.seen}"
    return None


def post_op_is_wrong(op: Op, link: Link) -> str | None:
    """Why a post-op must not go along with a kernel that is not elementwise, or None.

    Kernel and post-op tell by the strides whether the channels, axis 1, lie last, each in its own way, and they differ
    where no axis follows that has more than one element: seen with an operand per channel of results (N, C, 1, 1).
    """
    dims, operand = _seen(op, link)
    if operand is None or len(dims) < 3 or any(d != 1 for d in dims[2:]):
        return None
    if operand == dims or all(d == 1 for d in operand):
        return None
    return "kernel and post-op take the channels from different places where nothing follows them"


def window_post_op_is_wrong(op: Op, link: Link) -> str | None:
    """Why a post-op must not go along with a pooling or a resampling, or None.

    Their kernels take the elements of a second operand from the wrong places, unless there is one of them for each
    channel or one for all: seen with `jit:avx512_core` poolings and `simple:any` resamplings, in all layouts and types.
    One for each channel that is one for each element is taken for the latter.
    """
    dims, operand = _seen(op, link)
    if operand is None or all(d == 1 for d in operand):
        return None
    if operand == dims or any(d != 1 for axis, d in enumerate(operand) if axis != 1):
        return "its kernels misplace operands that are not per channel"
    return post_op_is_wrong(op, link)


def _seen(op: Op, link: Link) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The result and the operand of a post-op in the axes of the primitive: N, C and the spatial ones for images."""
    dims = op.outputs[0].dims
    rank = len(dims)
    order = tuple(range(rank))
    if rank > 2 and op.attributes.get("data_format") is not None:
        order = data_axes(op.attributes.string("data_format"), rank - 2).order
    result = tuple(dims[a] for a in order)
    tensor = link.operand if link.normalize is None else link.normalize.inputs[1]
    if tensor is None:
        return result, None
    wide = spread_shape(tensor.dims, rank, link.axis)
    return result, tuple(wide[a] for a in order)
