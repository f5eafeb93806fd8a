"""Implementations of the library that are not trusted, each with its condition and what was seen.

The library offers kernels that give wrong numbers or write out of bounds. `barred` is asked for every
implementation of a weight gradient before it is chosen, and `refused` for those of every other primitive; the next
implementation, or another lowering, takes its place. New entries come from `tests/tools/fuzz_kernels.py` and
`tests/tools/fuzz_primitives.py`, which run every implementation in a child process. Entries carry versions: what was
seen on one holds for all later ones until a sweep proves it gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, ParamSpec

from attrs import frozen

from ...ops.convolution_geometry import ConvolutionGeometry
from ...ops.data_types import DataType
from ...ops.spatial import effective_kernel
from .library.descriptors import (
    DeconvolutionForward,
    Descriptor,
    PoolingBackward,
    PoolingForward,
    Reorder,
    ResamplingBackward,
)
from .library.enumerators import Algorithm, Query
from .library.implementations import LANES, REFERENCE, is_reference
from .library.loading import Version, load
from .library.memory import MemoryDesc
from .library.primitive import PrimitiveAttributes, PrimitiveDesc

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
        since: first version of the library that is known for it. What later versions do wrong is not held against
            those before, where the fuzzers have covered these.
        fixed: first version that is proven to be free of it; None where none is, so that it holds for all that come.
    """

    implementation: str
    condition: str
    applies: Callable[What, bool]
    seen: str
    since: Version = (3, 2)
    fixed: Version | None = None

    def holds(self, version: Version) -> bool:
        """Whether a version of the library does it, as far as anybody knows."""
        return self.since <= version and (self.fixed is None or version < self.fixed)


@frozen(eq=False)
class Case:
    """A primitive as one implementation would run it.

    Attributes:
        desc: it, on that implementation.
        descriptor: what it was made of.
    """

    desc: PrimitiveDesc
    descriptor: Descriptor

    @property
    def attributes(self) -> PrimitiveAttributes:
        """Its post-ops, scales and zero points."""
        return self.descriptor.attributes

    def layout(self, what: Query) -> MemoryDesc:
        """The layout of one argument as the implementation takes it."""
        return self.desc.memory_desc(what)


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


def _gaps(desc: MemoryDesc) -> bool:
    """Whether memory lies between its elements, or behind a row, that is none of its own."""
    return desc.strides is not None and desc.nbytes > math.prod(desc.shape) * desc.itemsize


def _sums_off_fours(case: Case) -> bool:
    """Whether sums of 8-bit weights go behind them, and 4 does not divide their innermost axis."""
    target = case.layout(Query.dst_md)
    if target.strides is None or target.data_type is not DataType.s8:
        return False
    innermost = [d for d, s in zip(target.shape, target.strides, strict=True) if s == 1 and d > 1]
    return target.has_more and any(d % 4 for d in innermost)


def _sums_of_eights(case: Case) -> bool:
    """Whether sums of 8-bit weights go behind eight by a multiple of eight of them, which may be cut into eights."""
    target = case.layout(Query.dst_md)
    eights = 8 in target.shape and sum(d % 8 == 0 for d in target.shape) > 1
    return target.data_type is DataType.s8 and target.has_more and eights


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


def _loops(implementation: str) -> bool:
    """Whether an implementation, or what it hands its work to, is a reference loop."""
    return any(is_reference(part) for part in implementation.split("+"))


def _without_vnni(case: Case) -> bool:
    """Whether 8-bit products are added up in 16 bits, which saturate, as CPUs and kernels without VNNI do it."""
    if case.layout(Query.src_md).data_type not in (DataType.s8, DataType.u8):
        return False
    name, isa = case.desc.implementation, case.desc.engine.lib.effective_isa
    own = any(f":{low}" in name and f":{low}_" not in name for low in ("sse41", "avx2", "avx512_core"))
    return own or isa in WITHOUT_VNNI


def _is_blocked_integers(desc: MemoryDesc) -> bool:
    return desc.strides is None and desc.data_type in (DataType.s8, DataType.u8)


def _halves_in_fours(desc: MemoryDesc) -> bool:
    """Whether numbers of 16 bits lie in blocks of four."""
    return desc.itemsize == 2 and desc.blocks[:1] == (4,)


def _integers_in_part_blocks(desc: MemoryDesc) -> bool:
    """Whether 8-bit integers lie in blocks that they don't fill."""
    return _is_blocked_integers(desc) and desc.nbytes != math.prod(desc.shape)


def _operands(case: Case) -> list[MemoryDesc]:
    """Second operands of its binary post-ops."""
    return [one.operand for one in case.attributes.post_ops if one.operand is not None]


def _operand_off_channels(case: Case) -> bool:
    """Whether a second operand has more than one element along another axis than the channels."""
    return any(
        size > 1 and axis != 1 for operand in _operands(case) for axis, size in enumerate(operand.shape)
    )


def _channels_at_the_end(case: Case) -> bool:
    """Whether nothing follows the channels of a plain result that has post-ops with an operand for each of them."""
    target = case.layout(Query.dst_md)
    return target.strides is not None and any(
        post_op_is_wrong(target.shape, operand.shape) for operand in _operands(case)
    )


def _positions_outside(case: Case) -> bool:
    """Whether the positions of a resampling's source, its last axis, are not adjacent."""
    strides = case.layout(Query.src_md).strides
    return strides is None or strides[-1] != 1


def _reaches_all(case: Case) -> bool:
    """Whether every position of a deconvolution's result gets a product, as far as the axes tell one by one."""
    described = case.descriptor
    if not isinstance(described, DeconvolutionForward):
        return True
    numbers = described.strides, described.dilates, described.pads_begin
    src, dst = case.layout(Query.src_md).shape[2:], case.layout(Query.dst_md).shape[2:]
    kernel = case.layout(Query.weights_md).shape[-len(src) :]
    return all(
        len({i * s + t * (d + 1) - p for i in range(size) for t in range(k)} & set(range(out))) == out
        for size, out, k, s, d, p in zip(src, dst, kernel, *numbers, strict=True)
    )


def _strided_with_more(case: Case) -> bool:
    """Whether a deconvolution by the strided kernel does more than products."""
    described = case.descriptor
    has_bias = isinstance(described, DeconvolutionForward) and described.bias is not None
    return "brgconv_strided" in case.desc.implementation and (has_bias or bool(case.attributes.post_ops))


def _otherwise_ordered(case: Case) -> bool:
    """Whether plain data lie neither in rows nor channels-last, without gaps."""
    source = case.layout(Query.src_md)
    rank = len(source.shape)

    def lies(order: Sequence[int]) -> bool:
        step = 1
        for axis in order:
            if source.shape[axis] > 1 and source.strides is not None and source.strides[axis] != step:
                return False
            step *= source.shape[axis]
        return True

    rows = range(rank - 1, -1, -1)
    return not lies(rows) and not (rank > 1 and lies((1, *range(rank - 1, 1, -1), 0)))


def _depthwise_with_operand(case: Case) -> bool:
    weights = case.layout(Query.weights_md).shape
    grouped = len(weights) > len(case.layout(Query.src_md).shape)
    return grouped and weights[1] == weights[2] == 1 and bool(_operands(case))


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


def _result_elsewhere(case: Case) -> bool:
    """Whether a product with a second operand of several elements goes to batches that don't lie as rows do."""
    target = case.layout(Query.dst_md)
    strides, step = target.strides, 1
    if not any(math.prod(operand.shape) > 1 for operand in _operands(case)):
        return False
    for axis in reversed(range(len(target.shape))):
        if target.shape[axis] > 1 and strides is not None and strides[axis] != step:
            return True
        step *= target.shape[axis]
    return False


def _lower_than_the_cpu(case: Case) -> bool:
    """Whether a kernel of AVX2 on a CPU with AVX-512 ends its rows in part of a register, with an operand."""
    target = case.layout(Query.dst_md)
    weights, channels = case.layout(Query.weights_md).shape, target.shape[-1]
    if "conv" in case.desc.function:  # those of one group
        channels = weights[1] if len(weights) > len(target.shape) else target.shape[1]
    return (
        "avx2" in case.desc.implementation
        and case.desc.engine.lib.effective_isa.startswith("avx512")
        and channels % (LANES // 2) != 0
        and any(math.prod(operand.shape) > 1 for operand in _operands(case))
    )


def _ends(case: Case) -> tuple[MemoryDesc, MemoryDesc]:
    """The layouts of what goes in and comes out."""
    backward = case.desc.function.endswith("backward")
    first, second = (Query.diff_src_md, Query.diff_dst_md) if backward else (Query.src_md, Query.dst_md)
    return case.layout(first), case.layout(second)


def _stray_ones(case: Case) -> bool:
    """Whether an axis of one element, of what goes in or comes out, has a stride that the layout does not give it."""
    return any(end.has_stray_ones for end in _ends(case))


def _stray_ones_and_operands(case: Case) -> bool:
    """The same where a post-op has a second operand of several elements."""
    return any(math.prod(operand.shape) > 1 for operand in _operands(case)) and _stray_ones(case)


def _some_positions(case: Case) -> bool:
    """Whether some spatial axes of what goes in or comes out have one element, and not all."""
    return any({1} < set(end.shape[2:]) for end in _ends(case))


def _lies_in_two_ways(case: Case) -> bool:
    """Whether an image of one position is taken to lie as its other end, and has the strides of another layout."""
    first, second = _ends(case)
    return first.last_stride != second.last_stride


def _batches_apart(case: Case) -> bool:
    """Whether batches along the first of four axes, the second being of one element, share the second matrix."""
    batches, shared = case.layout(Query.dst_md).shape[:-2], case.layout(Query.weights_md).shape[:-2]
    return len(batches) == 2 and batches[0] > 1 and batches[1] == 1 and shared == (1, 1)


def _batches_misjudged(case: Case) -> bool:
    """Whether the batches of a matrix lie evenly as the library tells it, and do not.

    It asks whether the largest stride is the smallest times the number of batches, and goes by that of the last axis.
    """
    batches = case.layout(Query.dst_md).shape[:-2]
    if len(batches) < 2:
        return False
    for what in MATRICES:
        desc = case.layout(what)
        steps, sizes = (desc.strides or ())[: len(batches)], desc.shape[: len(batches)]
        if not steps or max(steps) // min(steps) != math.prod(batches):
            continue
        step = steps[-1]
        for size, stride in zip(reversed(sizes), reversed(steps), strict=True):
            if size > 1 and stride != step:
                return True
            step *= size
    return False


def _stray_ones_of_matrices(case: Case) -> bool:
    """Whether an axis of one element of a matrix has another stride than follows from the others."""
    layouts = [case.layout(what) for what in MATRICES]
    return any(desc.canonical() is not desc for desc in layouts)


def _shared_sum(case: Case) -> bool:
    """Whether threads share the sums of a product of 8-bit integers, as they do where there is little else to share."""
    rows, inner = case.layout(Query.src_md).shape[-2:]
    steps = case.layout(Query.src_md).strides
    columns = case.layout(Query.dst_md).shape[-1]
    return (
        case.layout(Query.src_md).data_type in (DataType.s8, DataType.u8)
        and inner >= 2048
        and (rows == 1 or steps is None or steps[-1] != 1)
        and -(-columns // 64) < case.desc.engine.lib.threads
    )


def _long_sums_of_sixteen(case: Case) -> bool:
    """Whether sums of more than 1024 f32 meet weights in blocks of 16 columns, in AVX2's kernel."""
    weights = case.layout(Query.weights_md)
    return weights.blocks[-1:] == (16,) and weights.shape[-2] > 1024


def _vector_with_gaps(case: Case) -> bool:
    """Whether a matrix of a product has a single row or column whose elements are not adjacent."""
    for desc in map(case.layout, MATRICES):
        if desc.strides is None:
            continue
        (rows, step), (columns, along) = list(zip(desc.shape, desc.strides, strict=True))[-2:]
        if (columns == 1 < rows and step != 1) or (rows == 1 < columns and along != 1):
            return True
    return False


MATRICES = (Query.src_md, Query.weights_md, Query.dst_md)
AMBIGUOUS = (
    "takes images whose axes of one element have another stride than its own for images in the other order"
)


WITHOUT_VNNI = ("sse41", "avx", "avx2", "avx512_core")
"""Instruction sets whose 8-bit products are added up in 16 bits."""
INTEGERS = Entry[[Case]](
    "",
    "the operands are 8-bit integers and the CPU or the kernel has no VNNI",
    _without_vnni,
    "sums of two products saturate at 16 bits, and weights of signed data are halved against that and rounded",
)

NOT_PER_CHANNEL = Entry[[Case]](
    "",
    "a second operand has several elements and is not clearly per channel",
    lambda case: any(
        window_post_op_is_wrong(case.layout(Query.dst_md).shape, operand.shape) for operand in _operands(case)
    ),
    "elements of the operand taken from the wrong places, also where it has one for each of (1, 8, 1)",
)

STRAY = "an axis of one element, of data or result, has another stride than the layout gives it"
LOWER = Entry[[Case]](
    "brg",
    "it is AVX2's on a CPU with AVX-512, 8 does not divide the channels, and there is an operand of several elements",
    _lower_than_the_cpu,
    "zeros in the channels behind the last whole eight, in products of 8-bit integers, seen with 3.6",
    since=(3, 3),
)

RESAMPLED = (
    Entry[[Case]](
        "",
        STRAY,
        _stray_ones,
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

PRIMITIVES: dict[str, tuple[Entry[[Case]], ...]] = {
    "binary": (
        Entry(
            "jit:uni",
            "the result is of 16-bit numbers in blocks of four",
            lambda case: _halves_in_fours(case.layout(Query.dst_md)),
            "writes eight bytes of zeros behind each four elements: beyond the result, and over what it has not read "
            "yet where it works in place, in bf16 behind grouped deconvolutions of few channels",
        ),
        Entry(
            "jit:uni",
            "the result is of 8-bit integers in blocks that the channels don't fill",
            lambda case: _integers_in_part_blocks(case.layout(Query.dst_md)),
            "crashes with an operand per channel of a post-op, in blocks of 16; quotients are not zero in the padding",
        ),
        Entry(
            "jit:uni",
            "a second operand of a post-op is per channel and only axes of one element follow the channels",
            _channels_at_the_end,
            "walks the channels as if they lay last and takes the operand as if they did not: one element of it for a "
            "whole vector, in results (5, 4, 1, 1) of every type",
        ),
    ),
    "softmax_forward": (
        Entry(
            "jit",
            "the result is of 8-bit integers in a blocked layout",
            lambda case: _is_blocked_integers(case.layout(Query.dst_md)),
            "its code can't be generated, and no other softmax's on that thread after it",
        ),
    ),
    "convolution_forward": (
        INTEGERS,
        LOWER,
        Entry(
            "brg_conv_fwd",
            "some spatial axes of data or result have one element and others more",
            _some_positions,
            "wrong elements in u8 (1, 2, 28, 1) in two groups with taps 1×3, most of bf16 (3, 64, 1, 3, 1), with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg_conv_fwd",
            STRAY,
            _stray_ones,
            "a quarter of all elements wrong in s8 (3, 1, 13, 8), with a zero point and padding, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "",
            f"a second operand has several elements and {STRAY}",
            _stray_ones_and_operands,
            f"{AMBIGUOUS}: most elements wrong in f32 to rows (2, 5, 1, 1) and (2, 512, 1, 1), seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "x64:gemm_s8",
            STRAY,
            _stray_ones,
            f"{AMBIGUOUS}: most elements wrong in u8 to f32 channels-last (2, 512, 3, 1), seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "jit_uni_int8",
            "it is depthwise with a second operand of a post-op",
            _depthwise_with_operand,
            "wrong values in all channels but the first of 2 and 3",
        ),
        Entry(
            "x64:gemm",
            "a second operand has elements along another axis than the channels",
            _operand_off_channels,
            "elements of the operand taken from the wrong places, in bf16",
        ),
    ),
    "deconvolution_forward": (
        INTEGERS,
        LOWER,
        Entry(
            "conv:any+x64:gemm_s8",
            STRAY,
            _stray_ones,
            f"{AMBIGUOUS}: half the elements wrong in s8 to u8 channels-last (1, 3, 8, 1), seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "conv:any",
            "it goes by the strided kernel and has post-ops",
            lambda case: "brgconv_strided" in case.desc.implementation and bool(case.attributes.post_ops),
            "a reference loop over the result, that takes as long as the products; an op of its own takes a tenth",
        ),
        Entry(
            "brg",
            "it goes by the strided kernel and has a bias or post-ops",
            _strided_with_more,
            "a bias and ReLU for each part of the taps instead of once, where it takes them in parts as its cost model "
            "likes: most elements wrong in f32 with 480 to 1000 input channels of 4×4 under 4×4 taps and stride 2",
        ),
        *(
            Entry[[Case]](
                kernel,
                "some position of the result gets no product",
                lambda case: not _reaches_all(case),
                "what was in registers in the place of zero, with strides above the kernel and behind the last window",
            )
            for kernel in ("jit_deconvolution", "jit_uni_int8")
        ),
    ),
    "matmul": (
        INTEGERS,
        LOWER,
        Entry(
            "brg_matmul:avx512",
            "threads share sums of 2048 or more 8-bit products: src lies by columns or is one row, and the columns are "
            "fewer than 64 for each thread",
            _shared_sum,
            "crashes, with s8 (8, 2048) lying by columns or (1, 2048) by (2048, 64) on two threads, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg_matmul:avx2",
            "more than 1024 products are summed and the weights are in blocks of 16 columns",
            _long_sums_of_sixteen,
            "reads what nobody wrote: all elements wrong in f32 with 9 to 16 columns, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg",
            "an axis of one element of a matrix has another stride than follows from the others",
            _stray_ones_of_matrices,
            "goes by it: most elements wrong in bf16 by (1, 3, 7, 31) of strides (93, 31, 93, 1), seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg",
            "the largest stride of a matrix's batches is the smallest times their number, and they lie unevenly",
            _batches_misjudged,
            "takes them as even: s8 (3, 1, 1000, 32) in another order, bf16 (2, 3, 2, 31) of strides (210, 35, 105, 1)",
            since=(3, 6),
        ),
        Entry(
            "brg",
            "a matrix is one row or column whose elements are not adjacent",
            _vector_with_gaps,
            "takes them as adjacent: all elements wrong in f32 and bf16 for columns (16, 1) of stride 2, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg",
            "batches of two axes share the second matrix, and the second axis has one element",
            _batches_apart,
            "takes the rows of all batches as one matrix and the stride of the second axis for that between rows, as "
            "the layout is that of (batch, row, 1, column) too: wrong from the second batch on and written far beyond "
            "the result, s8 (2, 1, 100, 48) by (1, 1, 48, 64) say, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "",
            "a second operand has more than one element and the result is not dense rows",
            _result_elsewhere,
            "takes the operand's elements by where the result lies, as if that were row-major: wrong values and "
            "crashes with gaps between batches and with transposed ones, by gemm and brg alike",
        ),
    ),
    "group_normalization_forward": tuple(
        Entry[[Case]](
            kernel,
            "always",
            lambda case: True,
            "sums one after the other, slower than NumPy, and variances of ten thousand numbers are off by 1e-5",
            since=(3, 3),
        )
        for kernel in ("ncsp_gnorm", "nspc_gnorm")
    ),
    "pooling_forward": (
        NOT_PER_CHANNEL,
        Entry(
            "jit:sse41",
            "it averages",
            _averages,
            "crashes on data that does not begin at a multiple of 16 bytes, which it adds from memory",
        ),
    ),
    "prelu_forward": (
        Entry(
            "jit_uni",
            "there is more than one slope, and the data lie neither in rows nor channels-last",
            lambda case: math.prod(case.layout(Query.weights_md).shape) > 1 and _otherwise_ordered(case),
            "slopes of other channels with the channels between the spatial axes",
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
                    _is_blocked_integers(case.layout(Query.dst_md))
                    and any(math.prod(operand.shape) > 1 for operand in _operands(case))
                ),
                "the operand's first elements for each vector of a block, which is longer than one",
            )
            for kernel in ("jit:sse41", "jit:avx2")
        ),
        Entry(
            "simple:any",
            "a second operand has more than one element and the positions of the source are not adjacent",
            lambda case: (
                any(math.prod(operand.shape) > 1 for operand in _operands(case)) and _positions_outside(case)
            ),
            "takes the operand's elements by where the result lies, as if that were row-major: per channel and "
            "channels-last",
        ),
    ),
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
            "jit:uni",
            "sums of 8-bit weights go behind them, elements move, and 4 does not divide the innermost axis",
            lambda case: _sums_off_fours(case) and _moves(case),
            "wrong sums, and so all results of x64:gemm_s8s8s32:jit convolutions, from 17 output channels on where 64 "
            "divides the input channels: 64 to 33 and 768 to 127 say, with taps 1×1",
        ),
        Entry(
            "jit:uni",
            "sums of 8-bit weights go behind them, elements move, one axis has eight elements and another a multiple",
            lambda case: _sums_of_eights(case) and _moves(case),
            "no sums, and so wrong results of x64:gemm_s8s8s32:jit convolutions, from 8 or 2048 to 8 channels, 1×1",
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


UNASKED: dict[str, tuple[Entry[[Descriptor]], ...]] = {
    "reorder": (
        Entry(
            "reorder",
            "no two elements of the target are adjacent",
            lambda described: isinstance(described, Reorder) and _elements_apart(described.dst),
            "jit:uni divides by zero while it is described, or never writes most elements, where the stride is a "
            "multiple of 4 and there are more elements than three quarters of the first-level cache hold, a number "
            "that 16 does not divide",
        ),
    ),
}
"""What the library must not even be asked for: function → conditions on what describes it."""


def unaskable(descriptor: Descriptor) -> str | None:
    """Why the library must not be asked for a primitive, or None when it may."""
    return _first(UNASKED.get(descriptor.function, ()), descriptor.function, descriptor)


def refused(case: Case, *, references: bool = False) -> str | None:
    """Why an implementation must not run a primitive that is no weight gradient, or None when it may.

    Args:
        references: whether the library's reference loops may run.
    """
    implementation = case.desc.implementation
    if _loops(implementation):
        return None if references else f"the library has a reference loop only for this {case.desc.function}"
    return _first(PRIMITIVES.get(case.desc.function, ()), implementation, case)


def barred(implementation: str, problem: ConvolutionGeometry, data_type: DataType) -> str | None:
    """Why `implementation` must not run this weight gradient in `data_type`, or None when it may."""
    return _first(TABLE, implementation, problem, data_type)


def _first(
    table: Sequence[Entry[What]], implementation: str, *what: What.args, **also: What.kwargs
) -> str | None:
    version = load().version[:2]
    for entry in table:
        if not entry.holds(version):
            continue
        if implementation.startswith(entry.implementation) and entry.applies(*what, **also):
            return f"{implementation} is barred when {entry.condition}: {entry.seen}"
    return None


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
    One for each channel that is one for each element is taken for the latter.

    Args:
        dims, operand: as for `post_op_is_wrong`.
    """
    if operand is None or all(d == 1 for d in operand):
        return None
    if tuple(operand) == tuple(dims) or any(d != 1 for axis, d in enumerate(operand) if axis != 1):
        return "its kernels misplace operands that are not per channel"
    return post_op_is_wrong(dims, operand)
