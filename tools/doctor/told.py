"""A primitive that another copy of the library has told of, as a descriptor of this one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...backends.onednn.library.descriptors import (
    Binary,
    ConvolutionForward,
    DeconvolutionForward,
    Descriptor,
    MatMul,
    PoolingForward,
    Reorder,
    SoftmaxForward,
)
from ...backends.onednn.library.enumerators import Algorithm, Arg, Propagation
from ...backends.onednn.library.loading import DATA_TYPES, Library, dims
from ...backends.onednn.library.memory import MemoryDesc
from ...backends.onednn.library.primitive import PostOp, PrimitiveAttributes
from ...ops.data_types import DataType
from ...ops.errors import OneDNNGraphError
from ...ops.records import frozen
from .verbose import Described, Primitive

SIZES = re.compile(r"([a-z]+)([0-9]+)")
"""A letter or two and a number, `ic64` say, of which a problem's text consists."""
TAGS = 700
"""Numbers of the library's layouts end below."""


def described(lib: Library, ran: Primitive) -> Descriptor | None:
    """What the library would be asked for; None for kinds without rules.

    Raises:
        OneDNNGraphError: this copy of the library does not know a type or a layout.
        LookupError, ValueError: it has said less than is wanted, or in other words.
    """
    maker = None if "backward" in ran.propagation else MAKERS.get(ran.kind)
    return None if maker is None else maker(lib, ran)


def _tensor(ran: Primitive, *names: str) -> Described:
    return next(one for name in names for one in ran.tensors if one.name == name)


def desc(lib: Library, tensor: Described, shape: tuple[int, ...]) -> MemoryDesc:
    """The descriptor of a tensor of which the library has told type and layout.

    Raises:
        OneDNNGraphError: this copy does not know them.
        LookupError: it does not say how it lies.
    """
    kind = DataType(tensor.data_type)
    if tensor.strides:
        return MemoryDesc.strided(lib, shape, kind, tensor.strides)
    tag = tensor.tag
    if tag.islower() and tag.isalpha():
        order = ["abcdefghijkl".index(letter) for letter in tag]
        strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= max(shape[axis], 1)
        return MemoryDesc.strided(lib, shape, kind, strides)
    number = blocked_tags(lib, len(shape))[tag]
    return MemoryDesc(
        lib, lib.new("dnnl_memory_desc_create_with_tag", len(shape), dims(shape), DATA_TYPES[kind], number)
    )


@lru_cache(maxsize=16)
def blocked_tags(lib: Library, rank: int) -> dict[str, int]:
    """Blocked layouts by their names, as numbers of the library."""
    found: dict[str, int] = {}
    for number in range(2, TAGS):
        try:
            sizes, kind = dims((16,) * rank), DATA_TYPES[DataType.f32]
            made = MemoryDesc(lib, lib.new("dnnl_memory_desc_create_with_tag", rank, sizes, kind, number))
        except OneDNNGraphError:
            continue
        if made.strides is None:
            found.setdefault(made.describe(), number)
    return found


def _attributes(lib: Library, ran: Primitive, dst: MemoryDesc) -> PrimitiveAttributes:
    post: list[PostOp] = []
    for text in filter(None, ran.attributes.get("post-ops", "").split("+")):
        name, *values = text.split(":")
        if name in Algorithm.__members__ and name.startswith("eltwise"):
            alpha, beta = [*(float(value) for value in values[:2]), 0.0, 0.0][:2]
            post.append(PostOp(Algorithm[name], alpha, beta))
        elif name in Algorithm.__members__ and name.startswith("binary"):
            kind, mask = DataType(values[0]), int(values[1]) if len(values) > 1 else 0
            shape = tuple(size if mask >> axis & 1 else 1 for axis, size in enumerate(dst.shape))
            strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
            post.append(PostOp(Algorithm[name], operand=MemoryDesc.strided(lib, shape, kind, strides)))
    return PrimitiveAttributes(
        lib, post_ops=post, scales=_masks(ran, "scales"), zero_points=_masks(ran, "zero-points")
    )


SIDES = {"src": Arg.SRC, "src0": Arg.SRC, "wei": Arg.WEIGHTS, "dst": Arg.DST}


def _masks(ran: Primitive, name: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in filter(None, ran.attributes.get(name, "").split("+")):
        side, _, mask = text.partition(":")
        number = mask.partition(":")[0]
        if side in SIDES and number.isdecimal() and int(number) in (0, 1, 2):
            found[SIDES[side]] = int(number)
    return found


@frozen(kw_only=True)
class _Windows:
    """The numbers of a convolution's or a pooling's text, one for each spatial axis."""

    batch: int
    groups: int
    inputs: int
    outputs: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilates: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of what goes in and what comes out."""
        return (self.batch, self.inputs, *self.src), (self.batch, self.outputs, *self.dst)


def _windows(text: str) -> _Windows:
    """Of `g2mb1_ic4oc6_ih8oh6kh3sh1dh0ph0_iw…`."""
    sizes = {name: int(size) for name, size in SIZES.findall(text)}
    axes = [axis for axis in "dhw" if f"i{axis}" in sizes]

    def of(letter: str) -> tuple[int, ...]:
        return tuple(sizes[f"{letter}{axis}"] for axis in axes)

    channels = sizes["ic"]
    return _Windows(
        batch=sizes["mb"],
        groups=sizes.get("g", 1),
        inputs=channels,
        outputs=sizes.get("oc", channels),
        src=of("i"),
        dst=of("o"),
        kernel=of("k"),
        strides=of("s"),
        dilates=of("d"),
        pads=of("p"),
    )


def _convolution(lib: Library, ran: Primitive, made: type[Any], algorithm: Algorithm) -> Any:
    w = _windows(ran.problem)
    src, dst = w.ends
    weights = (w.outputs // w.groups, w.inputs // w.groups, *w.kernel)
    told = _tensor(ran, "wei")
    letters = {letter.lower() for letter in told.tag if letter.isalpha()}
    grouped = w.groups > 1 or len(letters) > len(src)
    target = desc(lib, _tensor(ran, "dst"), dst)
    # Of a transposed one the result is the larger end.
    small, large = (w.src, w.dst) if made is DeconvolutionForward else (w.dst, w.src)
    numbers = zip(small, large, w.kernel, w.strides, w.dilates, w.pads, strict=True)
    behind = tuple((o - 1) * s + (k - 1) * (d + 1) + 1 - i - p for o, i, k, s, d, p in numbers)
    return made(
        propagation=Propagation.forward_inference,
        algorithm=algorithm,
        src=desc(lib, _tensor(ran, "src"), src),
        weights=desc(lib, told, (w.groups, *weights) if grouped else weights),
        bias=_bias(lib, ran, (w.outputs,)),
        dst=target,
        strides=w.strides,
        dilates=w.dilates,
        pads_begin=w.pads,
        pads_end=behind,
        attributes=_attributes(lib, ran, target),
    )


def _bias(lib: Library, ran: Primitive, shape: tuple[int, ...]) -> MemoryDesc | None:
    told = next((one for one in ran.tensors if one.name in ("bia", "bias")), None)
    if told is None or told.data_type == "undef":
        return None
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return MemoryDesc.strided(lib, shape, DataType(told.data_type), strides)


def _matmul(lib: Library, ran: Primitive) -> MatMul:
    left, right = (tuple(map(int, text.split("x"))) for text in ran.problem.split(":")[:2])
    batch = tuple(max(a, b) for a, b in zip(left[:-2], right[:-2], strict=True))
    shape = (*batch, left[-2], right[-1])
    target = desc(lib, _tensor(ran, "dst"), shape)
    return MatMul(
        src=desc(lib, _tensor(ran, "src", "src0"), left),
        weights=desc(lib, _tensor(ran, "wei"), right),
        bias=_bias(lib, ran, (*[1] * (len(shape) - 1), shape[-1])),
        dst=target,
        attributes=_attributes(lib, ran, target),
    )


def _pooling(lib: Library, ran: Primitive) -> PoolingForward:
    w = _windows(ran.problem)
    src, dst = w.ends
    target = desc(lib, _tensor(ran, "dst"), dst)
    numbers = zip(w.dst, w.src, w.kernel, w.strides, w.dilates, w.pads, strict=True)
    return PoolingForward(
        propagation=Propagation.forward_inference,
        algorithm=Algorithm[ran.algorithm],
        src=desc(lib, _tensor(ran, "src"), src),
        dst=target,
        strides=w.strides,
        kernel=w.kernel,
        dilates=w.dilates,
        pads_begin=w.pads,
        pads_end=tuple((o - 1) * s + (k - 1) * (d + 1) + 1 - i - p for o, i, k, s, d, p in numbers),
        attributes=_attributes(lib, ran, target),
    )


def _softmax(lib: Library, ran: Primitive) -> SoftmaxForward:
    shape = tuple(map(int, ran.problem.split("x")))
    axis = re.search(r"axis:([0-9]+)", ran.algorithm)
    target = desc(lib, _tensor(ran, "dst"), shape)
    logarithm = "log" in ran.algorithm
    return SoftmaxForward(
        propagation=Propagation.forward_inference,
        algorithm=Algorithm.softmax_log if logarithm else Algorithm.softmax_accurate,
        src=desc(lib, _tensor(ran, "src"), shape),
        dst=target,
        axis=int(axis[1]) if axis else len(shape) - 1,
        attributes=_attributes(lib, ran, target),
    )


def _reorder(lib: Library, ran: Primitive) -> Reorder:
    shape = tuple(map(int, ran.problem.split("x")))
    target = desc(lib, _tensor(ran, "dst"), shape)
    source = desc(lib, _tensor(ran, "src"), shape)
    return Reorder(src=source, dst=target, attributes=_attributes(lib, ran, target))


def _binary(lib: Library, ran: Primitive) -> Binary:
    left, right = (tuple(map(int, text.split("x"))) for text in ran.problem.split(":")[:2])
    sources = [one for one in ran.tensors if one.name.startswith("src")]
    target = desc(lib, _tensor(ran, "dst"), tuple(map(max, left, right)))
    return Binary(
        algorithm=Algorithm[ran.algorithm],
        src_0=desc(lib, sources[0], left),
        src_1=desc(lib, sources[1], right),
        dst=target,
        attributes=_attributes(lib, ran, target),
    )


def _forward(lib: Library, ran: Primitive) -> ConvolutionForward:
    made: ConvolutionForward = _convolution(lib, ran, ConvolutionForward, Algorithm.convolution_direct)
    return made


def _transposed(lib: Library, ran: Primitive) -> DeconvolutionForward:
    made: DeconvolutionForward = _convolution(lib, ran, DeconvolutionForward, Algorithm.deconvolution_direct)
    return made


MAKERS: dict[str, Callable[[Library, Primitive], Descriptor]] = {
    "convolution": _forward,
    "deconvolution": _transposed,
    "matmul": _matmul,
    "pooling": _pooling,
    "softmax": _softmax,
    "reorder": _reorder,
    "binary": _binary,
}
"""What makes the descriptor of a kind."""
