"""Implementations of the library that are not trusted, each with its condition and what was seen.

The library offers kernels that give wrong numbers or write out of bounds. `barred` is asked for every
implementation of a weight gradient before it is chosen, and `refused` for those of every other primitive; the next
implementation, or another lowering, takes its place. New entries come from `tests/tools/fuzz_kernels.py` and
`tests/tools/fuzz_primitives.py`, which run every implementation in a child process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, ParamSpec

from attrs import frozen

from ...graph.op import Op
from ...ops.data_types import DataType
from ...ops.formats import data_axes
from ...ops.spatial import effective_kernel
from ...ops.weights_gradient import WeightsGradient
from .collapse import spread_shape
from .enumerators import Query
from .fusing import Link
from .memory import MemoryDesc
from .primitive import PrimitiveAttributes, PrimitiveDesc

What = ParamSpec("What")


@frozen
class Entry(Generic[What]):
    """One rule of a table.

    Attributes:
        implementation: beginning of the library's implementation name.
        condition: in words.
        applies: the condition: on problem and primitive data type of a weight gradient, on the `Case` of another
            primitive.
        seen: what happened.
    """

    implementation: str
    condition: str
    applies: Callable[What, bool]
    seen: str


@frozen(eq=False)
class Case:
    """A primitive as one implementation would run it.

    Attributes:
        desc: it, on that implementation.
        arguments: what it was made of, the attributes last.
    """

    desc: PrimitiveDesc
    arguments: tuple[object, ...]

    @property
    def attributes(self) -> PrimitiveAttributes:
        """Its post-ops, scales and zero points."""
        return next(one for one in reversed(self.arguments) if isinstance(one, PrimitiveAttributes))

    def layout(self, what: Query) -> MemoryDesc:
        """The layout of one argument as the implementation takes it."""
        return self.desc.memory_desc(what)


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

TABLE: tuple[Entry[[WeightsGradient, DataType]], ...] = (
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


def _gaps(desc: MemoryDesc) -> bool:
    """Whether memory lies between its elements, or behind a row, that is none of its own."""
    return desc.strides is not None and desc.nbytes > math.prod(desc.shape) * desc.itemsize


def _elements_apart(desc: MemoryDesc) -> bool:
    """Whether no two elements are adjacent."""
    steps = [s for s, d in zip(desc.strides or (), desc.shape, strict=False) if d > 1]
    return bool(steps) and 1 not in steps


def _moves(case: Case) -> bool:
    """Whether a reorder brings elements to other places."""
    source, target = case.layout(Query.src_md), case.layout(Query.dst_md)
    if source.strides is None or target.strides is None:
        return source.describe() != target.describe()
    along = zip(source.strides, target.strides, source.shape, strict=True)
    return any(a != b for a, b, size in along if size > 1)


PRIMITIVES: dict[str, tuple[Entry[[Case]], ...]] = {
    "reorder": (
        Entry(
            "jit:uni",
            "there are zero points but no scales along an axis, and elements move",
            lambda case: (
                bool(case.attributes.zero_points)
                and not any(case.attributes.scales.values())
                and _moves(case)
            ),
            "zero points left out, where four adjacent elements of the source go to four places: "
            "f32 channels-last to plain u8 with channels a multiple of 64 and odd spatial sizes",
        ),
        Entry(
            "jit:blk",
            "there are gaps in the source or in the target",
            lambda case: _gaps(case.layout(Query.src_md)) or _gaps(case.layout(Query.dst_md)),
            "all axes but three are walked as one, so that elements behind a gap are read and written elsewhere",
        ),
    ),
}
"""What made the primitive → what is barred of it, beside the library's reference loops."""


def _target(arguments: Sequence[object]) -> MemoryDesc:
    """Where a reorder writes to."""
    target = arguments[2]
    if not isinstance(target, MemoryDesc):
        raise TypeError(f"a reorder's target is a MemoryDesc, not {target!r}")
    return target


UNASKED: dict[str, tuple[Entry[[Sequence[object]]], ...]] = {
    "reorder": (
        Entry(
            "reorder",
            "no two elements of the target are adjacent",
            lambda arguments: _elements_apart(_target(arguments)),
            "jit:uni divides by zero while it is described, or never writes most elements, where the stride is a "
            "multiple of 4 and there are more elements than three quarters of the first-level cache hold, a number "
            "that 16 does not divide",
        ),
    ),
}
"""What the library must not even be asked for: function → conditions on the arguments of its description."""


def unaskable(function: str, arguments: Sequence[object]) -> str | None:
    """Why the library must not be asked for a primitive of these arguments, or None when it may."""
    return _first(UNASKED.get(function, ()), function, arguments)


def refused(case: Case, *, references: bool = False) -> str | None:
    """Why an implementation must not run a primitive that is no weight gradient, or None when it may.

    Args:
        references: whether the library's reference loops may run.
    """
    implementation = case.desc.implementation
    if implementation.startswith(REFERENCE) and not references:
        return f"the library has a reference loop only for this {case.desc.function}"
    return _first(PRIMITIVES.get(case.desc.function, ()), implementation, case)


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
    """Why `implementation` must not run this weight gradient in `data_type`, or None when it may."""
    return _first(TABLE, implementation, problem, data_type)


def _first(
    table: Sequence[Entry[What]], implementation: str, *what: What.args, **also: What.kwargs
) -> str | None:
    for entry in table:
        if implementation.startswith(entry.implementation) and entry.applies(*what, **also):
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
