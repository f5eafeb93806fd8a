"""What primitives are described by: a class for each function of the library, with its arguments by name.

Fields stand in the order of oneDNN's `dnnl_<function>_primitive_desc_create`, without the engine. Dilates are
zero-based: 0 is dense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_float, c_void_p
from typing import ClassVar, TypeAlias, cast

from attrs import fields

from ....ops.records import frozen
from .enumerators import Algorithm, NormalizationFlags, Propagation
from .loading import LATER_DATA_TYPES, dims
from .memory import MemoryDesc
from .primitive import NativeEngine, PrimitiveAttributes, PrimitiveDesc, described

Numbers: TypeAlias = tuple[int, ...]
"""One for each spatial axis."""


class Descriptor:
    """A primitive that the library is asked for.

    Attributes:
        function: of the library.
        attributes: post-ops, scales and zero points.
    """

    function: ClassVar[str]
    attributes: PrimitiveAttributes

    @property
    def swept_as(self) -> str:
        """What sweeps count it as: its function, or one of its own for what few libraries have, as packed weights."""
        packed = self.attributes.decompression is not None or any(
            isinstance(one, MemoryDesc) and one.data_type in LATER_DATA_TYPES
            for one in (getattr(self, field.name) for field in fields(type(self)))
        )
        if packed:
            return f"{self.function}_of_packed_weights"
        squares = NormalizationFlags.rms_norm & getattr(self, "flags", NormalizationFlags.none)
        return f"{self.function}_of_squares" if squares else self.function

    def arguments(self, engine: NativeEngine) -> tuple[object, ...]:
        """What the library's function takes, in order."""
        values: list[object] = [getattr(self, field.name) for field in fields(type(self))]
        return (engine, *[dims(cast("Numbers", v)) if isinstance(v, tuple) else v for v in values])

    def described(self, engine: NativeEngine) -> PrimitiveDesc | None:
        """The primitive on the library's first implementation; None where it has none."""
        made = described(engine, self.function, *self.arguments(engine))
        if made is not None:
            made.asked = self
        return made


@frozen(kw_only=True, eq=False)
class _Forward(Descriptor):
    """A convolution, transposed or not."""

    propagation: Propagation
    algorithm: Algorithm
    src: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc | None
    dst: MemoryDesc
    strides: Numbers
    dilates: Numbers
    pads_begin: Numbers
    pads_end: Numbers
    attributes: PrimitiveAttributes


class ConvolutionForward(_Forward):
    """A convolution."""

    function = "convolution_forward"


class DeconvolutionForward(_Forward):
    """A transposed convolution; its weights are by output channels first."""

    function = "deconvolution_forward"


@frozen(kw_only=True, eq=False)
class ConvolutionBackwardData(Descriptor):
    """A convolution's gradient by its data."""

    function: ClassVar[str] = "convolution_backward_data"
    algorithm: Algorithm
    diff_src: MemoryDesc
    weights: MemoryDesc
    diff_dst: MemoryDesc
    strides: Numbers
    dilates: Numbers
    pads_begin: Numbers
    pads_end: Numbers
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class ConvolutionBackwardWeights(Descriptor):
    """A convolution's gradient by its weights and its bias."""

    function: ClassVar[str] = "convolution_backward_weights"
    algorithm: Algorithm
    src: MemoryDesc
    diff_weights: MemoryDesc
    diff_bias: MemoryDesc | None
    diff_dst: MemoryDesc
    strides: Numbers
    dilates: Numbers
    pads_begin: Numbers
    pads_end: Numbers
    hint: PrimitiveDesc | None
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class MatMul(Descriptor):
    """A product over the last two axes; the others are batches."""

    function: ClassVar[str] = "matmul"
    src: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc | None
    dst: MemoryDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class Binary(Descriptor):
    """A function of two tensors, the second of which broadcasts."""

    function: ClassVar[str] = "binary"
    algorithm: Algorithm
    src_0: MemoryDesc
    src_1: MemoryDesc
    dst: MemoryDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class EltwiseForward(Descriptor):
    """A function of each element."""

    function: ClassVar[str] = "eltwise_forward"
    propagation: Propagation
    algorithm: Algorithm
    src: MemoryDesc
    dst: MemoryDesc
    alpha: float
    beta: float
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class EltwiseBackward(Descriptor):
    """Its gradient; data are what it read, or what it made."""

    function: ClassVar[str] = "eltwise_backward"
    algorithm: Algorithm
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    data: MemoryDesc
    alpha: float
    beta: float
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class PreluForward(Descriptor):
    """A ReLU with slopes below zero that broadcast."""

    function: ClassVar[str] = "prelu_forward"
    propagation: Propagation
    src: MemoryDesc
    weights: MemoryDesc
    dst: MemoryDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class PreluBackward(Descriptor):
    """Its gradients."""

    function: ClassVar[str] = "prelu_backward"
    src: MemoryDesc
    weights: MemoryDesc
    diff_src: MemoryDesc
    diff_weights: MemoryDesc
    diff_dst: MemoryDesc
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class Reduction(Descriptor):
    """A reduction to what dst has one element along."""

    function: ClassVar[str] = "reduction"
    algorithm: Algorithm
    src: MemoryDesc
    dst: MemoryDesc
    p: float
    epsilon: float
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class PoolingForward(Descriptor):
    """A pooling."""

    function: ClassVar[str] = "pooling_forward"
    propagation: Propagation
    algorithm: Algorithm
    src: MemoryDesc
    dst: MemoryDesc
    strides: Numbers
    kernel: Numbers
    dilates: Numbers
    pads_begin: Numbers
    pads_end: Numbers
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class PoolingBackward(Descriptor):
    """Its gradient."""

    function: ClassVar[str] = "pooling_backward"
    algorithm: Algorithm
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    strides: Numbers
    kernel: Numbers
    dilates: Numbers
    pads_begin: Numbers
    pads_end: Numbers
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class ResamplingForward(Descriptor):
    """An interpolation; the factors are those of the sizes where there are none."""

    function: ClassVar[str] = "resampling_forward"
    propagation: Propagation
    algorithm: Algorithm
    factors: None = None
    src: MemoryDesc
    dst: MemoryDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class ResamplingBackward(Descriptor):
    """Its gradient."""

    function: ClassVar[str] = "resampling_backward"
    algorithm: Algorithm
    factors: None = None
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class SoftmaxForward(Descriptor):
    """A softmax along an axis, or its logarithm."""

    function: ClassVar[str] = "softmax_forward"
    propagation: Propagation
    algorithm: Algorithm
    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class SoftmaxBackward(Descriptor):
    """Its gradient."""

    function: ClassVar[str] = "softmax_backward"
    algorithm: Algorithm
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    dst: MemoryDesc
    axis: int
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class BatchNormalizationForward(Descriptor):
    """A batch normalisation."""

    function: ClassVar[str] = "batch_normalization_forward"
    propagation: Propagation
    src: MemoryDesc
    dst: MemoryDesc
    epsilon: float
    flags: NormalizationFlags
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class BatchNormalizationBackward(Descriptor):
    """Its gradients."""

    function: ClassVar[str] = "batch_normalization_backward"
    propagation: Propagation
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    src: MemoryDesc
    epsilon: float
    flags: NormalizationFlags
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class LayerNormalizationForward(Descriptor):
    """A layer normalisation over the last axis."""

    function: ClassVar[str] = "layer_normalization_forward"
    propagation: Propagation
    src: MemoryDesc
    dst: MemoryDesc
    statistics: MemoryDesc
    epsilon: float
    flags: NormalizationFlags
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class LayerNormalizationBackward(Descriptor):
    """Its gradients."""

    function: ClassVar[str] = "layer_normalization_backward"
    propagation: Propagation
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    src: MemoryDesc
    statistics: MemoryDesc
    epsilon: float
    flags: NormalizationFlags
    hint: PrimitiveDesc
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class GroupNormalizationForward(Descriptor):
    """A group normalisation."""

    function: ClassVar[str] = "group_normalization_forward"
    propagation: Propagation
    src: MemoryDesc
    dst: MemoryDesc
    groups: int
    epsilon: float
    flags: NormalizationFlags
    attributes: PrimitiveAttributes


@frozen(kw_only=True, eq=False)
class Reorder(Descriptor):
    """A copy between layouts and data types."""

    function: ClassVar[str] = "reorder"
    src: MemoryDesc
    dst: MemoryDesc
    attributes: PrimitiveAttributes

    def arguments(self, engine: NativeEngine) -> tuple[object, ...]:
        """What the library's function takes, in order."""
        return self.src, engine, self.dst, engine, self.attributes


@frozen(kw_only=True, eq=False)
class Concat(Descriptor):
    """Tensors one after another along an axis."""

    function: ClassVar[str] = "concat"
    dst: MemoryDesc
    axis: int
    sources: Sequence[MemoryDesc]
    attributes: PrimitiveAttributes

    def arguments(self, engine: NativeEngine) -> tuple[object, ...]:
        """What the library's function takes, in order."""
        return engine, self.dst, len(self.sources), self.axis, _handles(self.sources), self.attributes


@frozen(kw_only=True, eq=False)
class Sum(Descriptor):
    """The sum of tensors of one shape, each times its factor."""

    function: ClassVar[str] = "sum"
    dst: MemoryDesc
    factors: Sequence[float]
    terms: Sequence[MemoryDesc]
    attributes: PrimitiveAttributes

    def arguments(self, engine: NativeEngine) -> tuple[object, ...]:
        """What the library's function takes, in order."""
        count = len(self.terms)
        factors = (c_float * count)(*self.factors)
        return engine, self.dst, count, factors, _handles(self.terms), self.attributes


def _handles(descs: Sequence[MemoryDesc]) -> object:
    return (c_void_p * len(descs))(*[desc.handle for desc in descs])


DESCRIPTORS: Mapping[str, type[Descriptor]] = {
    one.function: one
    for one in (
        BatchNormalizationBackward,
        BatchNormalizationForward,
        Binary,
        Concat,
        ConvolutionBackwardData,
        ConvolutionBackwardWeights,
        ConvolutionForward,
        DeconvolutionForward,
        EltwiseBackward,
        EltwiseForward,
        GroupNormalizationForward,
        LayerNormalizationBackward,
        LayerNormalizationForward,
        MatMul,
        PoolingBackward,
        PoolingForward,
        PreluBackward,
        PreluForward,
        Reduction,
        Reorder,
        ResamplingBackward,
        ResamplingForward,
        SoftmaxBackward,
        SoftmaxForward,
        Sum,
    )
}
"""Function of the library → what describes its primitives."""
