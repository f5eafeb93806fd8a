"""Features of a primitive on one implementation: what a rule may ask of it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from ....graph.runtime.cached import cached
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.descriptors import (
    ConvolutionBackwardData,
    ConvolutionBackwardWeights,
    ConvolutionForward,
    DeconvolutionForward,
    Descriptor,
    MatMul,
    PoolingBackward,
    PoolingForward,
    ResamplingBackward,
    ResamplingForward,
)
from ..library.enumerators import Algorithm, Query
from ..library.implementations import is_reference
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveAttributes, PrimitiveDesc

INTEGERS = (DataType.s8, DataType.u8)
"""The types whose products are added up as integers."""
WRAPPER = "jit_uni_ncsp:conv+"
"""What later versions put before the name of a kernel that is given copies of plain images, channels last."""
WITHOUT_VNNI = ("sse41", "avx", "avx2", "avx512_core")
"""Instruction sets whose 8-bit products are added up in 16 bits."""
TRIED = ("sse41", "avx", "avx2")
"""Those of them whose kernels are exact by weights of 7 bits."""


@frozen(kw_only=True)
class Window:
    """How a convolution's kernel lies on its data, one number for each spatial axis.

    Attributes:
        groups: how many.
        rows, columns: output and input channels of a group.
        kernel, strides, dilations, pads_begin, pads_end: as oneDNN Graph has them; a dilation of 1 is dense.
        src, dst: sizes; of a transposed convolution dst is the larger one.
    """

    groups: int
    rows: int
    columns: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]

    @property
    def is_depthwise(self) -> bool:
        """Whether each group has one channel on both sides."""
        return self.groups > 1 and self.rows == self.columns == 1

    @property
    def is_strided(self) -> bool:
        """Whether a stride is above 1."""
        return any(stride > 1 for stride in self.strides)


@frozen(eq=False, slots=False)
class Features:
    """A primitive as one implementation would run it, or as the library is going to be asked for it.

    Each of the properties is read from the library when a rule first asks for it.

    Args:
        descriptor: what it is made of.
        desc: it, on that implementation; None before the library is asked, when only rules that keep it from being
            asked may look, at layouts that are chosen.

    Attributes:
        descriptor: what it is made of.
    """

    descriptor: Descriptor
    _desc: PrimitiveDesc | None = None

    @property
    def desc(self) -> PrimitiveDesc:
        """The primitive on the implementation."""
        if self._desc is None:
            raise LookupError(
                f"the library must have been asked for this {self.function} before its kernel is looked at"
            )
        return self._desc

    @property
    def function(self) -> str:
        """What describes it, `matmul`, say."""
        return self.descriptor.function

    @cached
    def implementation(self) -> str:
        """The library's name of the implementation; empty before it is asked."""
        return "" if self._desc is None else self._desc.implementation

    @property
    def kernel(self) -> str:
        """The implementation that does the work, where another only makes copies for it."""
        return self.implementation.removeprefix(WRAPPER)

    @property
    def is_loop(self) -> bool:
        """Whether the implementation, or what it hands its work to, is a reference loop."""
        return any(is_reference(part) for part in self.implementation.split("+"))

    # --- the machine -----------------------------------------------------------------------------------

    @property
    def isa(self) -> str:
        """The instruction set that the library's kernels use."""
        return self.desc.engine.lib.effective_isa

    @property
    def threads(self) -> int:
        """How many the primitive will run on."""
        return self.desc.threads

    @property
    def is_below_the_cpu(self) -> bool:
        """Whether it is a kernel of AVX2 on a CPU with AVX-512."""
        return "avx2" in self.implementation and self.isa.startswith("avx512")

    @property
    def has_no_vnni(self) -> bool:
        """Whether the CPU, or the kernel on a CPU that could, multiplies 8-bit integers without VNNI."""
        return self._is_of(WITHOUT_VNNI)

    def _is_of(self, sets: Collection[str]) -> bool:
        """Whether the kernel by its name, or the CPU, is of just one of these instruction sets."""
        return self.isa in sets or not {*sets}.isdisjoint(re.split("[:+]", self.implementation))

    # --- tensors ---------------------------------------------------------------------------------------

    def layout(self, what: Query) -> MemoryDesc:
        """The layout of one argument as the implementation takes it."""
        if self._desc is None:
            described: MemoryDesc = getattr(self.descriptor, what.name.removesuffix("_md"))
            return described
        return self._desc.memory_desc(what)

    @cached
    def src(self) -> MemoryDesc:
        """What goes in."""
        return self.layout(Query.src_md)

    @cached
    def weights(self) -> MemoryDesc:
        """The second one: a convolution's weights, a product's second matrix, a PReLU's slopes."""
        return self.layout(Query.weights_md)

    @cached
    def dst(self) -> MemoryDesc:
        """What comes out."""
        return self.layout(Query.dst_md)

    @cached
    def diff_src(self) -> MemoryDesc:
        """The gradient that comes out."""
        return self.layout(Query.diff_src_md)

    @cached
    def diff_dst(self) -> MemoryDesc:
        """The gradient that goes in."""
        return self.layout(Query.diff_dst_md)

    @property
    def ends(self) -> tuple[MemoryDesc, MemoryDesc]:
        """Data and result, or their gradients."""
        if self.function.endswith("backward"):
            return self.diff_src, self.diff_dst
        return self.src, self.dst

    @property
    def matrices(self) -> tuple[MemoryDesc, MemoryDesc, MemoryDesc]:
        """Both factors of a product and the result."""
        return self.src, self.weights, self.dst

    @property
    def has_stray_ones(self) -> bool:
        """Whether an axis of one element, of data or result, has a stride that the layout does not give it."""
        return any(end.has_stray_ones for end in self.ends)

    @property
    def has_integers(self) -> bool:
        """Whether products of 8-bit integers are added up."""
        return self.src.data_type in INTEGERS

    @property
    def may_saturate(self) -> bool:
        """Whether sums of two products of 8-bit integers may be beyond 16 bits, as far as is known of the weights.

        With AVX-512 nobody has tried which kernels without VNNI are exact then.
        """
        tried = self._is_of(TRIED)
        return not (tried and self.src.data_type is DataType.u8 and self.attributes.narrow_weights)

    # --- what goes along -------------------------------------------------------------------------------

    @property
    def attributes(self) -> PrimitiveAttributes:
        """Its post-ops, scales and zero points."""
        return self.descriptor.attributes

    @property
    def operands(self) -> tuple[MemoryDesc, ...]:
        """Second operands of its binary post-ops."""
        return tuple(one.operand for one in self.attributes.post_ops if one.operand is not None)

    @property
    def has_large_operand(self) -> bool:
        """Whether a post-op has a second operand of several elements."""
        return any(math.prod(operand.shape) > 1 for operand in self.operands)

    @property
    def has_bias(self) -> bool:
        """Whether a bias is added."""
        described = self.descriptor
        if isinstance(described, ConvolutionForward | DeconvolutionForward | MatMul):
            return described.bias is not None
        return False

    # --- numbers ---------------------------------------------------------------------------------------

    @property
    def algorithm(self) -> Algorithm | None:
        """What a pooling or a resampling computes; None of all others."""
        described = self.descriptor
        if isinstance(described, PoolingForward | PoolingBackward | ResamplingForward | ResamplingBackward):
            return described.algorithm
        return None

    @cached
    def window(self) -> Window:
        """How a convolution's kernel lies on its data; of convolutions and their gradients alone."""
        described = self.descriptor
        if isinstance(described, ConvolutionBackwardWeights):
            src, weights, dst = described.src, described.diff_weights, described.diff_dst
        elif isinstance(described, ConvolutionBackwardData):
            src, weights, dst = described.diff_src, described.weights, described.diff_dst
        elif isinstance(described, ConvolutionForward | DeconvolutionForward):
            src, weights, dst = described.src, described.weights, described.dst
        else:
            raise TypeError(f"{self.function} must be a convolution to have a window")
        grouped = len(weights.shape) > len(src.shape)
        rows, columns, *kernel = weights.shape[1:] if grouped else weights.shape
        return Window(
            groups=weights.shape[0] if grouped else 1,
            rows=rows,
            columns=columns,
            kernel=tuple(kernel),
            strides=tuple(described.strides),
            dilations=tuple(d + 1 for d in described.dilates),
            pads_begin=tuple(described.pads_begin),
            pads_end=tuple(described.pads_end),
            src=src.shape[2:],
            dst=dst.shape[2:],
        )
