"""What is barred of convolutions, forward and transposed."""

from __future__ import annotations

import math

from ..library.descriptors import DeconvolutionForward
from ..library.enumerators import Query
from .conditions import AMBIGUOUS, INTEGERS, LOWER, STRAY, ends, operands, stray_ones
from .entry import Case, Entry


def _operand_off_channels(case: Case) -> bool:
    """Whether a second operand has more than one element along another axis than the channels."""
    return any(
        size > 1 and axis != 1 for operand in operands(case) for axis, size in enumerate(operand.shape)
    )


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


def _depthwise_with_operand(case: Case) -> bool:
    weights = case.layout(Query.weights_md).shape
    grouped = len(weights) > len(case.layout(Query.src_md).shape)
    return grouped and weights[1] == weights[2] == 1 and bool(operands(case))


def _stray_ones_and_operands(case: Case) -> bool:
    """Whether an axis of one element has a stride that the layout does not give it, and a post-op a second operand of
    several elements.
    """
    return any(math.prod(operand.shape) > 1 for operand in operands(case)) and stray_ones(case)


def _some_positions(case: Case) -> bool:
    """Whether some spatial axes of what goes in or comes out have one element, and not all."""
    return any({1} < set(end.shape[2:]) for end in ends(case))


RULES: dict[str, tuple[Entry[[Case]], ...]] = {
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
            stray_ones,
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
            stray_ones,
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
            stray_ones,
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
                "whatever a register held where the result should be zero: between taps where strides are above the "
                "kernel, and behind the last window",
            )
            for kernel in ("jit_deconvolution", "jit_uni_int8")
        ),
    ),
}
"""What made the primitive → what is barred of it."""
