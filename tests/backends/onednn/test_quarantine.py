"""What must not run of the library's primitives: each rule with cases on both sides, and what happens instead."""

from functools import partial
from operator import attrgetter

import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve, field, fields, frozen
from onednn_graph.backends.onednn import proven, quarantine
from onednn_graph.backends.onednn.library.descriptors import DESCRIPTORS
from onednn_graph.backends.onednn.library.enumerators import Algorithm, Arg, Propagation, Query
from onednn_graph.backends.onednn.library.implementations import REFERENCE, begins
from onednn_graph.backends.onednn.library.loading import dims, load
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import (
    Decompression,
    Grouping,
    NativeEngine,
    PostOp,
    PrimitiveAttributes,
    described,
    implementations,
)
from onednn_graph.backends.onednn.plan.chooser import Choice, Chooser
from onednn_graph.backends.onednn.quarantine import IMPRECISE, SLOW, WRONG, refused, rules_of, unaskable
from onednn_graph.backends.onednn.rules.features import Features
from onednn_graph.graph.runtime.arrays import numpy_type
from onednn_graph.ops.data_types import DataType
from rows import each
from strategies import has_isa

DECONVOLUTION = "deconvolution_forward"
STRIDED = "brg_conv:avx512_core+brgconv_strided:avx512_core"
AMX_LATER = "avx10_1_512_amx"
AMX, AMX_DIRECT = "jit_1x1:avx512_core_amx", "jit:avx512_core_amx"
F32, BF16, F16, U8, S8 = DataType.f32, DataType.bf16, DataType.f16, DataType.u8, DataType.s8


def desc(shape, strides, dtype=F32):
    return MemoryDesc.strided(load(), shape, dtype, strides)


def rows(shape, dtype=F32):
    return desc(shape, [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))], dtype)


def last(shape, dtype=F32):
    return rows((shape[0], *shape[2:], shape[1]), dtype).permuted(
        (0, len(shape) - 1, *range(1, len(shape) - 1))
    )


@frozen
class Isa:
    effective_isa: str
    threads: int = 2


@frozen
class Machine:
    lib: Isa


@frozen(eq=False)
class Offered:
    """A primitive descriptor as a CPU of some instruction set would offer it."""

    function: str
    implementation: str
    layouts: dict = field(factory=dict)
    isa: str = "avx512_core_bf16"
    threads: int = 2

    @property
    def engine(self):
        return Machine(Isa(self.isa, self.threads))

    def memory_desc(self, what):
        return self.layouts[what]


def told(function, **known):
    """The descriptor for a function of the library, as far as a rule needs it."""
    made = DESCRIPTORS[function]
    return made(**{field.name: known.pop(field.name, None) for field in fields(made)}, **known)


def case(offered, descriptor):
    """What rules are asked of."""
    return Features(descriptor, offered)


def normalised(source):
    """A group normalisation by the kernel for groups of one channel."""
    layouts = {Query.src_md: source, Query.dst_md: source}
    return case(
        Offered("group_normalization_forward", "jit_instance:uni", layouts),
        told("group_normalization_forward", src=source, dst=source),
    )


class Halves:
    """A layout of elements of 4 bits, which 3.2 has no descriptor for."""

    data_type = DataType.s4

    def __init__(self, desc):
        self._desc = desc

    def __getattr__(self, name):
        return getattr(self._desc, name)

    def canonical(self):
        return self


def reordered(implementation, source, target, zero=None, mask=0):
    scales = {Arg.DST: mask}
    points = {} if zero is None else {Arg.DST: 0}
    attributes = PrimitiveAttributes(load(), scales=scales, zero_points=points)
    layouts = {Query.src_md: source, Query.dst_md: target}
    return case(
        Offered("reorder", implementation, layouts),
        told("reorder", src=source, dst=target, attributes=attributes),
    )


def multiplied(
    function, implementation, dtype=U8, isa="avx512_core_bf16", weights=(8, 8, 1, 1), operand=None, **more
):
    """A convolution, a deconvolution or a product; operand: shape of a post-op's."""
    source = more.get("source", last((1, 8, 4, 4), dtype))
    post = [] if operand is None else [PostOp(Algorithm.binary_add, operand=rows(operand))]
    attributes = PrimitiveAttributes(load(), post_ops=post, zero_points=more.get("points", {}))
    layouts = {
        Query.src_md: source,
        Query.weights_md: more.get("right", rows(weights, S8)),
        Query.dst_md: more.get("target", last((1, 8, 4, 4))),
    }
    numbers = {
        "strides": more.get("strides", (1, 1)),
        "dilates": more.get("dilates", (0, 0)),
        "pads_begin": more.get("pads", (0, 0)),
        "pads_end": more.get("pads_end", (0, 0)),
    }
    ends = {name: layouts[getattr(Query, f"{name}_md")] for name in ("src", "weights", "dst")}
    described = told(function, attributes=attributes, **ends, **(numbers if "conv" in function else {}))
    return case(Offered(function, implementation, layouts, isa), described)


def with_bias(plain):
    """The same with a bias."""
    return case(plain.desc, evolve(plain.descriptor, bias=rows((8,))))


def summed(outputs, inputs=64):
    """8-bit weights by input channels, with a sum for each output channel behind them."""
    made = MemoryDesc.clone(load(), desc((outputs, inputs), (1, outputs), S8).handle)
    made.nbytes += 4 * outputs
    return made


def product(target, operand):
    """A matrix product with an operand added to it."""
    return multiplied("matmul", "brg:avx512_core", F32, operand=operand, target=target)


def batched(data, weights):
    """Products of matrices with weights."""
    return multiplied("matmul", "brg:x", F32, weights=weights, source=rows(data), target=rows(data))


def lying(source, target):
    """Products of matrices that lie somehow, with as many in rows."""
    return multiplied("matmul", "brg:x", F32, source=source, right=rows(target), target=rows(target))


def decompressed(inner, group, points=None, dtype=DataType.bf16):
    """A product by integers with scales for groups of so many rows, or for columns, and zero points alike."""

    def each(size):
        mask, groups = (2, ()) if size is None else (3, (size, 1))
        return Grouping(mask, groups, F32)

    attributes = PrimitiveAttributes(load())
    attributes.decompression = Decompression(each(group), None if points is None else each(points))
    layouts = {
        Query.src_md: rows((7, inner), dtype),
        Query.weights_md: rows((inner, 2), U8),
        Query.dst_md: rows((7, 2)),
    }
    offered = Offered("matmul", "brg_matmul:avx512_core_bf16", layouts, "avx512_core_bf16")
    return case(offered, told("matmul", attributes=attributes))


def long_sums(order=(1, 8), inner=2048, columns=64, dtype=S8, count=8, threads=2):
    """A product of 8-bit integers with this length of sums."""
    layouts = {
        Query.src_md: desc((count, inner), order, dtype),
        Query.weights_md: rows((inner, columns), S8),
        Query.dst_md: rows((count, columns)),
    }
    offered = Offered("matmul", "brg_matmul:avx512_core_vnni", layouts, threads=threads)
    return case(offered, told("matmul", attributes=PrimitiveAttributes(load())))


def packed_product(inner, block, implementation="brg_matmul:avx2"):
    """A product with weights in blocks of columns."""
    weights = MemoryDesc.any(load(), (inner, 16), F32)
    weights.strides, weights.blocks = None, (16, block)
    return multiplied(
        "matmul", implementation, F32, source=rows((5, inner)), right=weights, target=rows((5, 16))
    )


def lower(channels=12, isa="avx512_core_vnni", operand=True, function="convolution_forward", groups=1):
    """An AVX2 kernel on another CPU."""
    grouped = {} if groups == 1 else {"weights": (groups, channels // groups, 8 // groups, 1, 1)}
    shape = (1, channels, 4, 4) if "conv" in function else (4, channels)
    each = (1, channels, *(1 for _ in shape[2:]))
    return multiplied(
        function,
        "brg:avx2_vnni",
        isa=isa,
        operand=each if operand else tuple(1 for _ in shape),
        target=rows(shape),
        **grouped,
        **({} if "conv" in function else {"source": rows((4, 8), U8), "right": rows((8, channels), S8)}),
    )


def sloped(data, slopes):
    """A PReLU with so many slopes."""
    layouts = {Query.src_md: data, Query.weights_md: rows((1, slopes, 1, 1))}
    return case(
        Offered("prelu_forward", "jit_uni", layouts),
        told("prelu_forward", attributes=PrimitiveAttributes(load())),
    )


def reaching(kernel, taps, step, made, apart=0):
    """A deconvolution of 4 positions along each axis."""
    return multiplied(
        DECONVOLUTION,
        f"{kernel}:avx512_core_vnni",
        weights=(8, 8, taps, taps),
        strides=(step, step),
        dilates=(apart, apart),
        target=last((1, 8, made, made)),
    )


def scattered(dtype, made, implementation="avx512_core_vnni", weights=(8, 8, 1, 1), **points):
    """A deconvolution of integers with stride 2 along the width, by the strided kernel."""
    return multiplied(
        DECONVOLUTION,
        f"brg_deconv:{implementation}+brgconv_strided:{implementation}",
        dtype,
        weights=weights,
        strides=(1, 2),
        target=last((1, 8, 4, made), U8),
        points={getattr(Arg, name): 0 for name in points},
    )


def of_elements(implementation, dtype, function="eltwise_forward"):
    """A function of each element, or its gradient."""
    backward = function.endswith("backward")
    ends = ("diff_src", "diff_dst") if backward else ("src", "dst")
    layouts = {getattr(Query, f"{end}_md"): rows((4, 8), dtype) for end in ends}
    return case(
        Offered(function, implementation, layouts), told(function, attributes=PrimitiveAttributes(load()))
    )


def convolved(function, implementation, weights, data, result, **numbers):
    """A convolution in bf16 of data to a result, its gradient, or a transposed one of the result to data."""
    names = {"convolution_backward_data": ("diff_src", "diff_dst"), DECONVOLUTION: ("dst", "src")}
    ends = dict(zip(names.get(function, ("src", "dst")), (last(data, BF16), last(result, BF16)), strict=True))
    ends["weights"] = rows(weights, BF16)
    layouts = {getattr(Query, f"{name}_md"): end for name, end in ends.items()}
    described = told(function, attributes=PrimitiveAttributes(load()), **ends, **numbers)
    return case(Offered(function, implementation, layouts), described)


def dilated(function, implementation, dilate):
    """Of one row: taps this far apart pass over it, beside each other not."""
    numbers = {"strides": (1, 1), "dilates": (dilate, 0), "pads_begin": (1, 0), "pads_end": (1, 0)}
    ends = (2, 8, 1, 9), (2, 8, 2 - dilate, 9)
    return convolved(function, implementation, (8, 8, 2, 1), *ends, **numbers)


def planes(function, implementation, channels):
    """By single taps, over planes."""
    numbers = {"strides": (1, 1, 1)} | dict.fromkeys(("dilates", "pads_begin", "pads_end"), (0, 0, 0))
    ends = [(1, channels, 3, 2, 9)] * 2
    return convolved(function, implementation, (channels, channels, 1, 1, 1), *ends, **numbers)


def resampled(implementation, source, operand, function="resampling_forward", target=None):
    """A resampling or a pooling with an operand added to it; of one size if there is no target."""
    post = [] if operand is None else [PostOp(Algorithm.binary_add, operand=rows(operand))]
    attributes = PrimitiveAttributes(load(), post_ops=post)
    layouts = {Query.src_md: source, Query.dst_md: source if target is None else target}
    return case(Offered(function, implementation, layouts), told(function, attributes=attributes))


def resampled_back(src, dst, algorithm=Algorithm.resampling_nearest, lies=rows):
    """The gradient of a resampling from one size to another."""
    layouts = {Query.diff_src_md: lies((1, 2, src)), Query.diff_dst_md: rows((1, 2, dst))}
    described = told("resampling_backward", algorithm=algorithm, attributes=PrimitiveAttributes(load()))
    return case(Offered("resampling_backward", "jit:avx512_core", layouts), described)


def pooled(algorithm):
    return case(
        Offered("pooling_forward", "jit:sse41"),
        told("pooling_forward", algorithm=algorithm, attributes=PrimitiveAttributes(load())),
    )


def softmax(target):
    attributes = PrimitiveAttributes(load())
    return case(
        Offered("softmax_forward", "jit:avx512_core", {Query.dst_md: target}),
        told("softmax_forward", attributes=attributes),
    )


def blocked(data_type, size=16, channels=32):
    """Channels in blocks, as the library offers them."""
    tag = MemoryDesc.any(load(), (1, channels, 4, 4), data_type)
    tag.strides = None
    tag.blocks = (size,)
    full = -(-channels // size) * size
    tag._outer_strides = (16 * full, 16 * size, 4 * size, size)
    tag.nbytes = full * 16 * tag.itemsize
    return tag


def blocks_apart(stride):
    """An image of one column in blocks of 8 channels, with a stride between columns."""
    made = blocked(F32, 8)
    made.shape, made._outer_strides = (1, 32, 4, 1), (128, 32, 8, stride)
    return made


def combined(target, implementation="jit:uni", operand=None):
    """A binary with this result; operand: shape of a post-op's."""
    post = [] if operand is None else [PostOp(Algorithm.binary_add, operand=rows(operand))]
    attributes = PrimitiveAttributes(load(), post_ops=post)
    return case(
        Offered("binary", implementation, {Query.dst_md: target}), told("binary", attributes=attributes)
    )


def of_positions(function, number, isa="avx512_core"):
    """A 1x1 convolution or a gradient of so many positions, in bf16."""
    wrapper = "conv:any+" if function == DECONVOLUTION else ""
    end, implementation = last((1, 8, 1, number), BF16), f"{wrapper}jit_bf16_1x1:{isa}"
    if function != "convolution_backward_data":
        return multiplied(function, implementation, BF16, source=end, target=end)
    numbers = dict.fromkeys(("dilates", "pads_begin", "pads_end"), (0, 0))
    described = told(
        function, diff_src=end, weights=rows((8, 8, 1, 1), BF16), diff_dst=end, strides=(1, 1), **numbers
    )
    return case(Offered(function, implementation), described)


DATA = (1, 64, 7, 7)
GAP = desc((2, 3, 8, 8), (400, 128, 16, 1))
TURNED = desc((1, 4, 15, 9), (540, 9, 36, 1))
DEPTHWISE = (8, 1, 1, 3, 3)
INT8 = [
    (name, multiplied(function, implementation, isa=isa), multiplied(function, implementation, F32, isa))
    for function in ("convolution_forward", DECONVOLUTION, "matmul")
    for name, implementation, isa in (
        (f"{function} without VNNI", "gemm:jit", "avx2"),
        (f"{function} by a kernel without VNNI", "brgconv:avx512_core", "avx512_core_bf16"),
    )
]
BETWEEN = desc((7, 3, 8), (8, 56, 1))
PADDED = {"weights": (8, 8, 3, 3), "points": {Arg.SRC: 0}, "target": last((1, 8, 4, 2))}
TALL = {"weights": (8, 8, 5, 3)}
BOUNDS = [
    *INT8,
    *(
        (f"{function} of five positions{what}", of_positions(function, 5), of_positions(function, *right))
        for function in ("convolution_forward", "convolution_backward_data", DECONVOLUTION)
        for what, right in ((", not six", (6,)), (" without bf16", (5, "avx512_core_bf16")))
    ),
    *(
        (f"a binary of {what}", combined(blocked(BF16, 4)), combined(right))
        for what, right in (
            ("blocks of four", blocked(BF16, 8)),
            ("bf16", blocked(F32, 4)),
            ("blocks", rows((1, 32, 4, 4), BF16)),
        )
    ),
    *(
        (f"a binary of {what}", combined(blocked(S8, channels=31)), combined(right))
        for what, right in (
            ("blocks that are not full", blocked(S8)),
            ("integers", blocked(F32, channels=31)),
            ("unblocked channels", rows((1, 31, 4, 4), S8)),
        )
    ),
    *(
        (
            f"a binary that ends with its channels and {what}",
            combined(rows((5, 4, 1, 1)), operand=(1, 4, 1, 1)),
            combined(target, operand=operand),
        )
        for what, target, operand in (
            ("positions", rows((5, 4, 1, 2)), (1, 4, 1, 1)),
            ("one operand", rows((5, 4, 1, 1)), (1, 1, 1, 1)),
            ("an operand of all", rows((5, 4, 1, 1)), (5, 4, 1, 1)),
            ("no further axes", rows((5, 4)), (1, 4)),
            ("no operand", rows((5, 4, 1, 1)), None),
        )
    ),
    ("a binary of f16", combined(blocked(DataType.f16, 4)), combined(blocked(DataType.f16))),
    ("softmax in blocks", softmax(blocked(U8)), softmax(blocked(F32))),
    ("softmax in rows", softmax(blocked(S8)), softmax(rows((1, 32, 4, 4), S8))),
    (
        "averages",
        pooled(Algorithm.pooling_avg_exclude_padding),
        pooled(Algorithm.pooling_max),
    ),
    (
        "int8 with VNNI",
        multiplied("matmul", "x", isa="avx512_core"),
        multiplied("matmul", "x", isa="avx512_core_vnni"),
    ),
    ("a kernel's VNNI", multiplied("matmul", "brg:avx2"), multiplied("matmul", "brg:avx2_vnni")),
    ("signed data", multiplied("matmul", "brg:sse41", S8), multiplied("matmul", "brg:avx512_core_vnni", S8)),
    (
        "reorder moves with a zero point",
        reordered("jit:uni", last(DATA), rows(DATA, U8), zero=130),
        reordered("jit:uni", last(DATA), last(DATA, U8), zero=130),
    ),
    (
        "reorder with a zero point moves",
        reordered("jit:uni", last(DATA), rows(DATA, U8), zero=130),
        reordered("jit:uni", last(DATA), rows(DATA, U8)),
    ),
    (
        "reorder with one scale and a zero point",
        reordered("jit:uni", last(DATA), rows(DATA, U8), zero=130),
        reordered("jit:uni", last(DATA), rows(DATA, U8), zero=130, mask=2),
    ),
    (
        "reorder by jit:uni",
        reordered("jit:uni", last(DATA), rows(DATA, U8), zero=130),
        reordered("simple:any", last(DATA), rows(DATA, U8), zero=130),
    ),
    (
        "reorder from gaps",
        reordered("jit:blk", GAP, rows(GAP.shape)),
        reordered("jit:uni", GAP, rows(GAP.shape)),
    ),
    (
        "reorder into gaps",
        reordered("jit:blk", rows(GAP.shape), GAP),
        reordered("jit:blk", rows(DATA), last(DATA)),
    ),
    *(
        (
            f"a 1×1 convolution by AMX of {tiles} of positions",
            multiplied("convolution_forward", AMX, BF16, target=last((1, 8, *wrong), BF16)),
            multiplied("convolution_forward", implementation, BF16, target=last((1, 8, *right), BF16)),
        )
        for tiles, wrong, right, implementation in (
            ("three tiles and four", (9, 3), (9, 4 * 3), AMX),
            ("three tiles and two", (3, 16), (2, 16), AMX),
            ("three tiles of three rows and fifteen", (5, 9), (15, 15), AMX),
            ("three tiles by another kernel", (14, 3), (14, 3), "brgconv_1x1:avx512_core_amx"),
        )
    ),
    *(
        (
            f"a zero point of data with zeros {what}",
            multiplied("convolution_forward", AMX_DIRECT, **(PADDED | {"pads_end": (4, 0)} | TALL)),
            multiplied("convolution_forward", AMX_DIRECT, **(PADDED | right)),
        )
        for what, right in (
            ("below three rows and two", {"pads_end": (2, 0)}),
            ("below and none", {"pads_end": (4, 0), "points": {}} | TALL),
            ("below and beside", {"pads_end": (0, 2), "target": last((1, 8, 2, 4))}),
        )
    ),
    (
        "a zero point of data with zeros above three rows",
        multiplied("convolution_forward", AMX_DIRECT, **(PADDED | {"pads": (4, 0)} | TALL)),
        multiplied("convolution_forward", AMX_DIRECT, **(PADDED | {"pads": (2, 0)})),
    ),
    *(
        (
            f"{implementation} of {function} passes over",
            dilated(function, implementation, 1),
            dilated(function, implementation, 0),
        )
        for function, implementation in (
            ("convolution_forward", "brgconv:avx512_core_amx"),
            ("convolution_forward", "jit:avx512_core_amx"),
            ("convolution_backward_data", "brg_fwd:avx512_core_amx+brgconv:avx512_core_amx"),
            ("convolution_backward_data", "jit:avx512_core_amx"),
            (DECONVOLUTION, "brg_conv:avx512_core_amx+brgconv:avx512_core_amx"),
            (DECONVOLUTION, "conv:any+brg_fwd:avx512_core_amx+brgconv:avx512_core_amx"),
            (DECONVOLUTION, "conv:any+jit:avx512_core_amx"),
        )
    ),
    *(
        (
            f"products of rounded factors{what}",
            multiplied("matmul", "brg:avx512_core_amx", F32, source=rows((7, 15, 3)), right=BETWEEN),
            multiplied("matmul", "brg:avx512_core_amx", dtype, source=rows((7, 15, 3), dtype), right=right),
        )
        for what, dtype, right in (
            (" with batches between rows", F32, rows((7, 3, 8))),
            (" in f32", BF16, desc((7, 3, 8), (8, 56, 1), BF16)),
        )
    ),
    (
        "products of rounded factors by columns",
        multiplied(
            "matmul", "brg:avx512_core_amx", F32, source=rows((7, 15, 3)), right=desc((7, 3, 8), (24, 1, 3))
        ),
        multiplied(
            "matmul", "brg:avx512_core", F32, source=rows((7, 15, 3)), right=desc((7, 3, 8), (24, 1, 3))
        ),
    ),
    *(
        (
            f"planes of ragged channels by {implementation}",
            planes(function, implementation, 5),
            planes(function, implementation, 8),
        )
        for function, implementation in (
            ("convolution_forward", "brgconv_1x1:avx512_core_amx"),
            ("convolution_backward_data", "brg_fwd:avx512_core_amx+brgconv_1x1:avx512_core_amx"),
            (DECONVOLUTION, "brg_conv:avx512_core_amx+brgconv_1x1:avx512_core_amx"),
            (DECONVOLUTION, "conv:any+brg_fwd:avx512_core_amx+brgconv_1x1:avx512_core_amx"),
        )
    ),
    (
        "im2col with an operand of all elements",
        multiplied("convolution_forward", "x64:gemm:jit", F32, operand=(1, 8, 4, 4)),
        multiplied("convolution_forward", "x64:gemm:jit", F32, operand=(1, 8, 1, 1)),
    ),
    (
        "an operand of all elements with im2col",
        multiplied("convolution_forward", "x64:gemm:jit", F32, operand=(1, 8, 4, 4)),
        multiplied("convolution_forward", "jit:avx512_core", F32, operand=(1, 8, 4, 4)),
    ),
    *(
        (f"product with an operand into {what}", product(wrong, (1, 1, 1, 8)), product(right, operand))
        for what, wrong, right, operand in (
            ("gaps between batches", desc((2, 3, 8, 8), (256, 64, 8, 1)), rows((2, 3, 8, 8)), (1, 1, 1, 8)),
            ("turned batches", desc((2, 3, 8, 8), (192, 8, 24, 1)), rows((2, 3, 8, 8)), (1, 1, 1, 8)),
            (
                "columns",
                desc((2, 3, 8, 8), (192, 64, 1, 8)),
                desc((2, 3, 8, 8), (192, 64, 1, 8)),
                (1, 1, 1, 1),
            ),
            (
                "gaps of several",
                desc((2, 3, 8, 8), (256, 64, 8, 1)),
                desc((1, 3, 8, 8), (99, 64, 8, 1)),
                (1, 1, 1, 8),
            ),
        )
    ),
    (
        "depthwise int8 with an operand",
        multiplied("convolution_forward", "jit_uni_int8:avx2_vnni", weights=DEPTHWISE, operand=(1, 8, 1, 1)),
        multiplied("convolution_forward", "jit_uni_int8:avx2_vnni", weights=DEPTHWISE),
    ),
    (
        "an operand of a depthwise int8",
        multiplied("convolution_forward", "jit_uni_int8:avx2_vnni", weights=DEPTHWISE, operand=(1, 1, 1, 1)),
        multiplied(
            "convolution_forward", "jit_uni_int8:avx2_vnni", weights=(4, 2, 2, 3, 3), operand=(1, 1, 1, 1)
        ),
    ),
    (
        "strided deconvolution with a post-op",
        multiplied(DECONVOLUTION, STRIDED, F32, operand=(1, 8, 1, 1)),
        multiplied(DECONVOLUTION, STRIDED, F32),
    ),
    (
        "strided deconvolution that adds a loop for post-ops",
        multiplied(DECONVOLUTION, "conv:any+brgconv_strided:avx512_core", F32, operand=(1, 8, 1, 1)),
        multiplied(DECONVOLUTION, "conv:any+jit:avx512_core", F32, operand=(1, 8, 1, 1)),
    ),
    (
        "strided deconvolution with a bias",
        with_bias(multiplied(DECONVOLUTION, STRIDED, F32)),
        with_bias(multiplied(DECONVOLUTION, "conv:any+brgconv_strided:avx512_core", F32)),
    ),
    *(
        (f"{kernel} reaches {what}", reaching(kernel, **few), reaching(kernel, **all_))
        for kernel in ("jit_deconvolution", "jit_uni_int8")
        for what, few, all_ in (
            ("every position", {"taps": 1, "step": 2, "made": 7}, {"taps": 2, "step": 2, "made": 8}),
            ("the last position", {"taps": 2, "step": 2, "made": 9}, {"taps": 1, "step": 1, "made": 4}),
            (
                "between dilated taps",
                {"taps": 2, "step": 2, "apart": 1, "made": 9},
                {"taps": 2, "step": 1, "apart": 1, "made": 6},
            ),
        )
    ),
    (
        "resampling of channels-last data with an operand per channel",
        resampled("simple:any", last(DATA), (1, 64, 1, 1)),
        resampled("simple:any", rows(DATA), (1, 64, 1, 1)),
    ),
    (
        "an operand per channel of a resampling",
        resampled("simple:any", last(DATA), (1, 64, 1, 1)),
        resampled("simple:any", last(DATA), (1, 1, 1, 1)),
    ),
    *(
        (
            f"{function} with an operand of {what}",
            resampled("jit:avx512_core", rows(DATA), operand, function),
            resampled("jit:avx512_core", rows(DATA), (1, 64, 1, 1), function),
        )
        for function in ("resampling_forward", "pooling_forward")
        for what, operand in (("all elements", DATA), ("rows", (1, 1, 1, 7)), ("images", (2, 1, 1, 1)))
    ),
    *(
        (
            f"{function} of one position with an operand of all channels, not {what}",
            resampled("jit:avx512_core", rows((1, 8, 5)), (1, 8, 1), function, rows((1, 8, 1))),
            resampled("jit:avx512_core", rows((1, 8, 5)), operand, function, rows((1, 8, out))),
        )
        for function in ("resampling_forward", "pooling_forward")
        for what, operand, out in (("of two", (1, 8, 1), 2), ("of one channel", (1, 1, 1), 1))
    ),
    *(
        (
            f"{kernel} resampling of integers in blocks with operands, not {what}",
            resampled(kernel, blocked(U8), (1, 32, 1, 1)),
            resampled(other, target, operand),
        )
        for kernel in ("jit:sse41", "jit:avx2")
        for what, other, target, operand in (
            ("in rows", kernel, rows((1, 32, 4, 4), U8), (1, 32, 1, 1)),
            ("of floats", kernel, blocked(F32), (1, 32, 1, 1)),
            ("with one operand", kernel, blocked(U8), (1, 1, 1, 1)),
            ("by wider vectors", "jit:avx512_core", blocked(U8), (1, 32, 1, 1)),
        )
    ),
    *(
        (f"PReLU of data in {what}", sloped(layout, slopes), sloped(right, right_slopes))
        for what, layout, slopes, right, right_slopes in (
            ("another order", TURNED, 4, rows((1, 4, 15, 9)), 4),
            ("another order, not channels-last", TURNED, 4, last((1, 4, 15, 9)), 4),
            ("another order with several slopes", TURNED, 4, TURNED, 1),
            ("gaps", GAP, 3, rows((2, 3, 8, 8)), 3),
        )
    ),
    (
        "resampling by simple:any",
        resampled("simple:any", last(DATA), (1, 64, 1, 1)),
        resampled("jit:avx2", last(DATA), (1, 64, 1, 1)),
    ),
    *(
        (f"nearest gradient and {what}", resampled_back(28, 2), right)
        for what, right in (
            ("no tie", resampled_back(27, 2)),
            ("an exact ratio", resampled_back(28, 14)),
            ("linear", resampled_back(28, 2, Algorithm.resampling_linear)),
        )
    ),
    *(
        (f"sums of weights, not {what}", reordered("jit:uni", rows((33, 64), S8), summed(33)), right)
        for what, right in (
            ("of fours", reordered("jit:uni", rows((36, 64), S8), summed(36))),
            ("of any", reordered("jit:uni", rows((33, 64), S8), desc((33, 64), (1, 33), S8))),
            ("in place", reordered("jit:uni", desc((33, 64), (1, 33), S8), summed(33))),
        )
    ),
    *(
        (f"sums of eights, not {what}", reordered("jit:uni", rows((8, 2048), S8), summed(8, 2048)), right)
        for what, right in (
            ("of twelves", reordered("jit:uni", rows((8, 12), S8), summed(8, 12))),
            ("without sums", reordered("jit:uni", rows((8, 8), S8), desc((8, 8), (1, 8), S8))),
            ("in place", reordered("jit:uni", desc((8, 8), (1, 8), S8), summed(8, 8))),
            ("by another", reordered("simple:any", rows((8, 8), S8), summed(8, 8))),
        )
    ),
    ("reference loops", multiplied("matmul", "ref:any", F32), multiplied("matmul", "gemm:jit", F32)),
    (
        "reference loops within",
        multiplied(DECONVOLUTION, "conv:any+ref:any", F32),
        multiplied(DECONVOLUTION, "conv:any+jit:avx2", F32),
    ),
]


VECTORS = {"source": rows((4, 8, 8)), "right": rows((4, 8, 8)), "target": rows((4, 8, 8))}
STRAY = desc((1, 8, 4, 1), (32, 1, 8, 1))
LATER_BOUNDS = [
    *(
        (
            f"{function} of integers to one column",
            multiplied(function, f"{before}x64:gemm_s8u8s32:jit", target=STRAY),
            multiplied(function, f"{before}x64:gemm_s8u8s32:jit", target=last(STRAY.shape)),
        )
        for function, before in (("convolution_forward", ""), (DECONVOLUTION, "conv:any+"))
    ),
    (
        "a convolution to one column",
        multiplied("convolution_forward", "brg_conv_fwd:x", F32, target=last((1, 8, 4, 1))),
        multiplied("convolution_forward", "brg_conv_fwd:x", F32, target=last((1, 8, 1, 1))),
    ),
    (
        "a convolution to one position",
        multiplied("convolution_forward", "brg_conv_fwd:x", F32, target=rows((1, 8, 1, 1))),
        multiplied("convolution_forward", "brg_conv_fwd:x", F32, target=last((1, 8, 1, 1))),
    ),
    *(
        (
            f"a convolution with an operand to one column, {what}",
            multiplied("convolution_forward", "jit:x", F32, operand=(1, 8, 1, 1), target=STRAY),
            multiplied("convolution_forward", "jit:x", F32, operand=operand, target=target),
        )
        for what, operand, target in (
            ("in order", (1, 8, 1, 1), last(STRAY.shape)),
            ("of one element", (1, 1, 1, 1), STRAY),
        )
    ),
    (
        "an AVX2 kernel with groups",
        lower(groups=4, channels=16),
        lower(groups=2, channels=16),
    ),
    *(
        (
            f"resampling of one column {where}",
            resampled("simple:any", wrong[0], None, target=wrong[1]),
            resampled("simple:any", last((1, 8, 4, 1)), None, target=last((1, 8, 7, 2))),
        )
        for where, wrong in (
            ("taken", (STRAY, last((1, 8, 7, 2)))),
            ("made", (last((1, 8, 7, 2)), STRAY)),
        )
    ),
    *(
        (
            f"resampling of one position {where}",
            resampled("simple:any", *wrong),
            resampled("simple:any", last((2, 16, 1)), None, target=last((2, 16, 3))),
        )
        for where, wrong in (
            ("taken", (last((2, 16, 1)), None, "resampling_forward", rows((2, 16, 3)))),
            ("made", (rows((2, 16, 3)), None, "resampling_forward", last((2, 16, 1)))),
        )
    ),
    (
        "resampling of blocks in columns",
        resampled("simple:any", blocks_apart(64), None),
        resampled("simple:any", blocks_apart(8), None),
    ),
    ("gradient of a resampling to one", resampled_back(16, 1), resampled_back(16, 4)),
    ("gradient of a resampling of one", resampled_back(1, 4, lies=last), resampled_back(2, 4)),
    *(
        (f"an AVX2 kernel with {what}", lower(function=function), right)
        for function in ("convolution_forward", DECONVOLUTION, "matmul")
        for what, right in (
            (f"full registers in a {function}", lower(16, function=function)),
            (f"its own CPU in a {function}", lower(isa="avx2_vnni", function=function)),
            (f"one operand in a {function}", lower(operand=False, function=function)),
        )
    ),
    *(
        (f"long sums of {what}", wrong, right)
        for what, wrong, right in (
            ("rows", long_sums(), long_sums(order=(2048, 1))),
            ("fewer", long_sums(), long_sums(inner=2047)),
            ("more columns", long_sums(), long_sums(columns=65)),
            ("one thread", long_sums(columns=1), long_sums(columns=1, threads=1)),
            ("a row", long_sums((2048, 1), count=1), long_sums((2048, 1), count=2)),
            ("other types", long_sums(), long_sums(dtype=BF16)),
        )
    ),
    *(
        (f"weights in blocks, {what}", packed_product(1025, 16), right)
        for what, right in (
            ("fewer", packed_product(1024, 16)),
            ("of 8", packed_product(1025, 8)),
            ("AVX-512", packed_product(1025, 16, "brg_matmul:avx512_core")),
        )
    ),
    (
        "a product of matrices whose one batch has a stride of its own",
        lying(desc((1, 3, 8, 8), (24, 8, 24, 1)), (1, 3, 8, 8)),
        lying(desc((1, 3, 8, 8), (192, 8, 24, 1)), (1, 3, 8, 8)),
    ),
    *(
        (f"batches that seem to lie evenly, {what}", wrong, right)
        for what, wrong, right in (
            (
                "with gaps",
                lying(desc((2, 3, 2, 31), (210, 35, 105, 1)), (2, 3, 2, 31)),
                lying(desc((2, 3, 3, 31), (279, 31, 93, 1)), (2, 3, 3, 31)),
            ),
            (
                "in columns",
                lying(desc((3, 1, 10, 8), (80, 240, 1, 10)), (3, 1, 10, 8)),
                lying(desc((1, 3, 10, 8), (240, 80, 1, 10)), (1, 3, 10, 8)),
            ),
        )
    ),
    *(
        (f"batches that share weights, {what}", batched((2, 1, 8, 8), (1, 1, 8, 8)), batched(data, weights))
        for what, data, weights in (
            ("weights of each", (2, 1, 8, 8), (2, 1, 8, 8)),
            ("one batch", (1, 1, 8, 8), (1, 1, 8, 8)),
            ("two axes", (2, 3, 8, 8), (1, 1, 8, 8)),
            ("one axis", (2, 8, 8), (1, 8, 8)),
        )
    ),
    *(
        (
            f"a product with a {what} with gaps",
            multiplied("matmul", "brg:x", F32, **{**VECTORS, place: desc(shape, [32, *strides])}),
            multiplied("matmul", "brg:x", F32, **{**VECTORS, place: desc(shape, [32, *adjacent])}),
        )
        for what, place, shape, strides, adjacent in (
            ("column", "right", (4, 16, 1), (2, 1), (1, 1)),
            ("row", "source", (4, 1, 16), (1, 2), (16, 1)),
            ("result", "target", (4, 16, 1), (2, 1), (1, 1)),
        )
    ),
    (
        "a product with a column with gaps, not in blocks",
        multiplied("matmul", "brg:x", F32, **{**VECTORS, "right": desc((4, 16, 1), [32, 2, 1])}),
        multiplied("matmul", "brg:x", F32, **{**VECTORS, "right": blocked(F32)}),
    ),
    (
        "group normalisation with one sum",
        case(Offered("group_normalization_forward", "ncsp_gnorm:any"), told("group_normalization_forward")),
        case(Offered("group_normalization_forward", "jit_group:uni"), told("group_normalization_forward")),
    ),
    (
        "group normalisation that sums many positions of a channel",
        normalised(rows((1, 8, 25, 41))),
        normalised(rows((1, 8, 32, 32))),
    ),
]
"""What 3.2 does right and 3.6 does not."""
NEWEST_BOUNDS = [
    (
        "a binary with an operand of a row",
        combined(rows((1, 7, 4, 4)), operand=(1, 1, 1, 4)),
        combined(rows((1, 7, 4, 4)), operand=(1, 1, 4, 4)),
    ),
    *(
        (f"a strided deconvolution of uneven width, {what}", wrong, right)
        for what, wrong, right in (
            ("not even", scattered(S8, 7), scattered(S8, 8)),
            ("of s8", scattered(S8, 7), scattered(U8, 7)),
            ("but by AMX", scattered(S8, 7), scattered(S8, 7, AMX_LATER)),
            ("with a zero point", scattered(U8, 7, SRC=1), scattered(U8, 7, DST=1)),
            ("with a zero point by AMX", scattered(S8, 7, AMX_LATER, SRC=1), scattered(S8, 8, SRC=1)),
            ("of integers", scattered(S8, 7), scattered(BF16, 7)),
        )
    ),
    *(
        (f"a result of uneven width that is not reached, {what}", scattered(U8, 7, AMX_LATER, DST=1), right)
        for what, right in (
            ("not even", scattered(U8, 8, AMX_LATER, DST=1)),
            ("with a zero point", scattered(U8, 7, AMX_LATER)),
            ("by AMX", scattered(U8, 7, DST=1)),
            ("not wholly", scattered(U8, 7, AMX_LATER, (8, 8, 1, 2), DST=1)),
        )
    ),
    *(
        (f"{function} of f16 by {kernel}, not {what}", of_elements(kernel, F16, function), right)
        for function in ("eltwise_forward", "eltwise_backward")
        for kernel in ("jit:sse41", "jit:avx")
        for what, right in (
            ("of bf16", of_elements(kernel, BF16, function)),
            ("by AVX2", of_elements("jit:avx2", F16, function)),
            ("by AVX-512", of_elements("jit:avx10_1_512", F16, function)),
        )
    ),
    *(
        (
            f"batches of one product with a gap {what}",
            multiplied(
                "matmul", "brg_matmul:x", F32, source=left, right=desc(shape, steps), target=rows(made)
            ),
            multiplied("matmul", "brg_matmul:x", F32, source=left, right=rows(shape), target=rows(made)),
        )
        for what, left, shape, steps, made in (
            ("between them", rows((2, 2, 1)), (2, 1, 8), (16, 8, 1), (2, 2, 8)),
            ("between some", rows((2, 2, 2, 1)), (2, 2, 1, 8), (40, 16, 8, 1), (2, 2, 2, 8)),
        )
    ),
    *(
        (f"bf16 by {what}", decompressed(*there), decompressed(*right))
        for what, there, right in (
            ("groups of 48", (144, 48), (128, 32)),
            ("groups of 80", (240, 80), (80, 80)),
            ("groups of 112", (224, 112), (32, 16)),
            ("points in groups of 48", (144, None, 48), (144, None, None)),
            ("groups of 48 again", (96, 48), (96, 48, None, DataType.f16)),
        )
    ),
    (
        "weights of 4 bits with gaps between rows",
        multiplied(
            "matmul",
            "brg_matmul:avx2",
            F32,
            source=rows((4, 8)),
            right=Halves(desc((8, 3), (4, 1))),
            target=rows((4, 3)),
        ),
        multiplied(
            "matmul",
            "brg_matmul:avx2",
            F32,
            source=rows((4, 8)),
            right=Halves(rows((8, 4))),
            target=rows((4, 4)),
        ),
    ),
    (
        "batches with a gap and two products",
        multiplied(
            "matmul",
            "brg_matmul:x",
            F32,
            source=rows((2, 2, 1)),
            right=desc((2, 1, 8), (9, 8, 1)),
            target=rows((2, 2, 8)),
        ),
        multiplied(
            "matmul",
            "brg_matmul:x",
            F32,
            source=rows((2, 2, 2)),
            right=desc((2, 2, 8), (17, 8, 1)),
            target=rows((2, 2, 8)),
        ),
    ),
]
"""What 3.6 does right and 3.13 does not."""


@each(
    ("version", "before", "wrong", "right"),
    [
        *(pytest.param((3, 6, 2), (3, 2, 0), w, r, id=name) for name, w, r in LATER_BOUNDS),
        *(pytest.param((3, 13, 1), (3, 6, 2), w, r, id=name) for name, w, r in NEWEST_BOUNDS),
    ],
)
def test_a_rule_of_later_versions_holds_on_its_side_and_from_its_version_on(
    onednn, monkeypatch, version, before, wrong, right
):
    of_version(monkeypatch, version)
    assert refused(wrong) is not None
    assert refused(right) is None
    of_version(monkeypatch, before)
    assert refused(wrong) is None


def of_version(monkeypatch, version):
    """The quarantine as it is for a version of the library."""
    monkeypatch.setattr(quarantine, "load", partial(evolve, load(), version=version))


@each(("wrong", "right"), [pytest.param(w, r, id=name) for name, w, r in BOUNDS])
def test_a_rule_holds_on_its_side_only(onednn, monkeypatch, wrong, right):
    of_version(monkeypatch, (3, 2, 0))
    reason = refused(wrong)
    assert reason is not None
    assert refused(right) is None


def test_every_rule_has_cases_on_both_sides(onednn):
    listed = [one for _, *both in (*BOUNDS, *LATER_BOUNDS, *NEWEST_BOUNDS) for one in both]
    functions = {*WRONG, *SLOW, *IMPRECISE} - {"convolution_backward_weights"}  # which has rows of its own
    for function in functions:
        for rule in filter(attrgetter("asked"), rules_of(function)):
            sides = {
                rule.applies(features)
                for features in listed
                if features.function == function and begins(features.implementation, rule.implementation)
            }
            assert sides == ({True} if rule.condition == "always" else {True, False}), (function, rule.name)


def test_a_rule_has_a_name_of_its_own_and_stands_in_one_table():
    for function in {*WRONG, *SLOW, *IMPRECISE}:
        names = [rule.name for rule in rules_of(function)]
        assert sorted(set(names)) == sorted(names), function


def test_reference_loops_run_where_that_is_allowed(onednn):
    assert refused(multiplied("matmul", "ref:any", F32), references=True) is None
    assert refused(multiplied("matmul", f"{REFERENCE}_int8:any", U8, "avx2"), references=True) is None


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        (desc((20_001,), (4,)), False),
        (desc((20_001,), (1,)), True),
        (desc((2, 3), (12, 4)), False),
        (desc((2, 3), (4, 12)), False),
        (desc((2, 3), (9, 1)), True),
        (desc((1, 3), (1, 4)), False),  # the one of the first axis is next to nothing
        (desc((1, 1), (8, 4)), True),
    ],
)
def test_the_library_is_not_asked_for_reorders_of_elements_apart(onednn, target, asked):
    assert (unaskable(told("reorder", src=rows(target.shape), dst=target)) is None) is asked
    assert unaskable(told("matmul", dst=target)) is None
    engine = NativeEngine()
    choice = Chooser(engine).reorder(rows(target.shape), target)
    assert (choice.desc is not None) is asked
    assert bool(choice.passed_over) is not asked


def test_another_implementation_takes_the_place_of_a_barred_one(onednn):
    engine = NativeEngine()
    source, target = last(DATA), rows(DATA, U8)
    choice = Chooser(engine).reorder(source, target, {Arg.DST: 0}, {Arg.DST: 0})
    assert choice.desc is None or choice.desc.implementation != "jit:uni"
    assert "jit:uni is barred" in choice.passed_over[0]


# --- what is not proven ---------------------------------------------------------------------------------


def chained(spoils=lambda text: False, monkeypatch=None):
    """A sum, its square and ReLU on two small tensors; the plans of which `spoils` is true are wrong."""
    if monkeypatch is not None:
        from onednn_graph.backends.onednn.executable import PlanExecutable

        run = PlanExecutable.run

        def wrong(self, inputs, outputs):
            run(self, inputs, outputs)
            if spoils(self.explanation.strategy):
                outputs[0].reshape(-1)[-1] += 1

        monkeypatch.setattr(PlanExecutable, "run", wrong)
    graph = og.Graph()
    x, y = graph.input("x", "f32", (4, 6)), graph.input("y", "f32", (4, 6))
    graph.op("ReLU", graph.op("Add", x, y), name="z")
    return graph.compile()


def answers(model):
    x = np.arange(24, dtype=np.float32).reshape(4, 6) - 12
    np.testing.assert_array_equal(model({"x": x, "y": np.ones_like(x)})["z"], np.maximum(x + 1, 0))
    return model.explain()[0]


def test_what_is_proven_is_not_verified(onednn, swept):
    explanation = answers(chained())
    assert explanation.backend == "onednn"
    assert not explanation.verified


def test_a_plan_with_an_unproven_implementation_is_verified(onednn, monkeypatch):
    monkeypatch.setattr(proven, "PROVEN", {})
    explanation = answers(chained())
    assert explanation.backend == "onednn"
    assert explanation.strategy.startswith("fused")
    assert explanation.verified


def test_a_fused_plan_that_fails_goes_on_unfused(onednn, monkeypatch):
    monkeypatch.setattr(proven, "PROVEN", {})
    explanation = answers(chained(lambda strategy: strategy.startswith("fused"), monkeypatch))
    assert explanation.backend == "onednn"
    assert not explanation.strategy.startswith("fused")
    assert any("failed verification" in reason for reason in explanation.rejected)


def test_a_plan_that_fails_in_every_way_is_numpys(onednn, monkeypatch):
    monkeypatch.setattr(proven, "PROVEN", {})
    assert answers(chained(lambda strategy: True, monkeypatch)).backend == "numpy"


def test_another_name_of_a_proven_function_is_not_proven(onednn):
    lib = evolve(load(), version=(3, 2, 0))
    assert proven.is_proven(lib, "reorder", "jit:uni")
    assert not proven.is_proven(lib, "reorder", "jit:uni_2")
    assert not proven.is_proven(lib, "matmul", "brg:avx512_core_amx_fp16")
    assert not proven.is_proven(lib, "shuffle", "jit:uni")


def test_weights_are_not_packed_with_wrong_sums(onednn):
    engine = NativeEngine()

    def packed(rows_, columns):
        """The reorder, and why there is none, of weights for the convolution that wants plain ones and their sums."""
        source, target, weights = (
            MemoryDesc.any(load(), shape, DataType.s8)
            for shape in ((2, rows_, 5, 5), (2, columns, 5, 5), (columns, rows_, 1, 1))
        )
        steps = [dims((1, 1)), dims((0, 0)), dims((0, 0)), dims((0, 0))]
        first = described(
            engine,
            "convolution_forward",
            engine,
            Propagation.forward_inference,
            Algorithm.convolution_direct,
            source,
            weights,
            None,
            target,
            *steps,
            PrimitiveAttributes(load()),
        )
        plain = [d for d in implementations(first) if "gemm_s8s8s32" in d.implementation]
        assert bool(plain) is has_isa("avx512_core")
        if not plain:
            return Choice(None, ("jit:uni is barred: no kernel asks for such weights here",))
        own = plain[0].memory_desc(Query.weights_md)
        return Chooser(engine).reorder(rows((columns, rows_, 1, 1), S8), own)

    for channels in ((64, 33), (8, 8)):
        choice = packed(*channels)
        assert choice.desc is None or choice.desc.implementation != "jit:uni"
        assert "jit:uni is barred" in choice.passed_over[0]
    assert (packed(64, 36).desc is not None) is has_isa("avx512_core")


@pytest.mark.parametrize("more", ["bias", "relu", "both"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_wide_transposed_convolutions_do_more_once_and_not_for_each_part_of_the_channels(more, dtype):
    graph = og.Graph()
    shapes = {"x": (2, 512, 4, 4), "weights": (512, 64, 4, 4)} | ({"bias": (64,)} if more != "relu" else {})
    given = [graph.input(name, dtype, shape) for name, shape in shapes.items()]
    window = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    made = graph.op("ConvTranspose", *given, **window, data_format="NCX", weights_format="IOX")
    graph.output(made if more == "bias" else graph.op("ReLU", made), name="y")
    rng = np.random.default_rng(3)
    kind = numpy_type(DataType(dtype))
    arrays = {name: rng.integers(-1, 2, shape).astype(kind) for name, shape in shapes.items()}
    expected = graph.compile(backend="numpy")(arrays)["y"]
    np.testing.assert_array_equal(graph.compile()(arrays)["y"], expected)
