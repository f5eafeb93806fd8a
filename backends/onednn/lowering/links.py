"""Links: what follows an op and can go along with its primitive as post-ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.attributes import Attributes
from ....ops.data_types import DataType
from ....ops.formats import axis_positions, data_axes
from ....ops.records import frozen
from ..library.enumerators import Algorithm
from .collapse import spread_shape

MOST_LINKS = 32
"""oneDNN's limit on post-ops."""


@frozen
class PostEltwise:
    """An eltwise with its parameters."""

    algorithm: Algorithm
    alpha: float
    beta: float


ELTWISE: Mapping[str, Callable[[Attributes], tuple[Algorithm, float, float]]] = {
    "Abs": lambda a: (Algorithm.eltwise_abs, 0, 0),
    "Clamp": lambda a: (Algorithm.eltwise_clip_v2, a.real("min"), a.real("max")),
    "Elu": lambda a: (Algorithm.eltwise_elu, a.real("alpha"), 0),
    "Exp": lambda a: (Algorithm.eltwise_exp, 0, 0),
    "GELU": lambda a: (
        Algorithm.eltwise_gelu_erf if a.string("mode") == "gelu_erf" else Algorithm.eltwise_gelu_tanh,
        0,
        0,
    ),
    "HardSigmoid": lambda a: (Algorithm.eltwise_hardsigmoid, a.real("alpha"), a.real("beta")),
    "HardSwish": lambda a: (Algorithm.eltwise_hardswish, 1 / 6, 0.5),
    "LeakyReLU": lambda a: (Algorithm.eltwise_relu, a.real("alpha"), 0),
    "Mish": lambda a: (Algorithm.eltwise_mish, 0, 0),
    "Pow": lambda a: (Algorithm.eltwise_pow, 1, a.real("beta")),
    "Reciprocal": lambda a: (Algorithm.eltwise_pow, 1, -1),
    "ReLU": lambda a: (Algorithm.eltwise_relu, 0, 0),
    "Round": lambda a: (Algorithm.eltwise_round, 0, 0),
    "Sigmoid": lambda a: (Algorithm.eltwise_logistic, 0, 0),
    "SoftPlus": lambda a: (Algorithm.eltwise_soft_relu, a.real("beta"), 0),
    "Sqrt": lambda a: (Algorithm.eltwise_sqrt, 0, 0),
    "Square": lambda a: (Algorithm.eltwise_square, 0, 0),
    "Tanh": lambda a: (Algorithm.eltwise_tanh, 0, 0),
}
"""Kind → algorithm, alpha and beta."""

BINARY: Mapping[str, Algorithm] = {
    "Add": Algorithm.binary_add,
    "Divide": Algorithm.binary_div,
    "Maximum": Algorithm.binary_max,
    "Minimum": Algorithm.binary_min,
    "Multiply": Algorithm.binary_mul,
    "Subtract": Algorithm.binary_sub,
}
"""Kind → algorithm."""


@frozen(kw_only=True)
class Turned:
    """A binary whose second operand is the chain, as one whose first operand it is.

    Attributes:
        algorithm: of that other binary.
        before, after: an eltwise that comes before or behind it.
    """

    algorithm: Algorithm
    before: PostEltwise | None = None
    after: PostEltwise | None = None


TURNED: Mapping[str, Turned] = {
    "Subtract": Turned(before=PostEltwise(Algorithm.eltwise_linear, -1, 0), algorithm=Algorithm.binary_add),
    "Divide": Turned(algorithm=Algorithm.binary_div, after=PostEltwise(Algorithm.eltwise_pow, 1, -1)),
}
"""Kind → how it is done where the chain is the second operand.

c / x is 1 / (x / c), for x / c leaves the range of f32 only where c / x does, but for subnormal results, which become
0; 1 / x leaves it wherever x is subnormal.
"""


@frozen
class OneScale:
    """The scale and the zero point of all elements of a quantised tensor."""

    scale: float
    zero_point: int


def zero_point_of(op: Op) -> int | None:
    """The zero point of a Quantize or Dequantize; None where there are several."""
    values = op.attributes.get("zps") or (0,)
    if not isinstance(values, tuple) or len(set(values)) > 1:
        return None
    return int(values[0])


def has_subnormal_scale(op: Op) -> bool:
    """Whether a Quantize divides by a number whose reciprocal, by which the library multiplies, may be infinite."""
    return op.kind == "Quantize" and min(op.attributes.reals("scales"), default=1.0) < LEAST


def one_scale(op: Op) -> OneScale | None:
    """The scale and the zero point of a Quantize or Dequantize; None where several are, or none can be."""
    if has_subnormal_scale(op):
        return None
    scales, zero_point = set(op.attributes.reals("scales")), zero_point_of(op)
    return OneScale(scales.pop(), zero_point) if zero_point is not None and len(scales) == 1 else None


LEAST = float(np.finfo(np.float32).tiny)
"""Smaller numbers are subnormal."""
REORDERING = ("StaticReshape", "StaticTranspose")
"""Ops whose result has all elements of their input, each once."""
REAL_ALONE = frozenset({"LayerNorm", "LogSoftmax", "SoftMax"})
"""Kinds whose primitives are given no integers."""


@frozen(kw_only=True)
class Rounding:
    """A Quantize and the Dequantize that alone reads it: what lies between is rounded, and is a real number again.

    Attributes:
        to: the integers' scale and zero point. data_type: their type.
        back: the scale and the zero point with which they become real.
        alone: the Quantize, where nothing comes along behind it.
        ends: whether a chain may end with it, as nobody has a use for the integers.
    """

    to: OneScale
    data_type: DataType
    back: OneScale
    alone: Link
    ends: bool

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest integer of the type."""
        return (0, 255) if self.data_type is DataType.u8 else (-128, 127)


@frozen(kw_only=True)
class Link:
    """One step of a chain.

    Attributes:
        ops: the ops that it stands for.
        result: the tensor that it makes.
        algorithm: of the post-op; None where only the type changes.
        alpha, beta: parameters of an eltwise.
        before, after: an eltwise that comes before or behind a binary.
        operand: second operand of a binary.
        axis: where a vector operand stands, for a bias per channel.
        quantize: what the Quantize that ends the chain divides by and adds.
        rounding: of a Quantize in the middle of the chain, with the Dequantize behind it.
        normalize: a BatchNormInference, which is a factor and a summand per channel.
    """

    ops: tuple[Op, ...]
    result: LogicalTensor
    algorithm: Algorithm | None = None
    alpha: float = 0.0
    beta: float = 0.0
    before: PostEltwise | None = None
    after: PostEltwise | None = None
    operand: LogicalTensor | None = None
    axis: int | None = None
    quantize: OneScale | None = None
    rounding: Rounding | None = None
    normalize: Op | None = None

    @property
    def has_operand(self) -> bool:
        """Whether it reads another tensor."""
        return self.operand is not None or self.normalize is not None


class Ops(Protocol):
    """What a chain must know of a partition."""

    def is_port(self, tensor: LogicalTensor) -> bool: ...

    def users(self, tensor: LogicalTensor) -> Sequence[Op]: ...


def chain(ops: Ops, op: Op) -> list[Link]:
    """What follows the one output of `op`, each link on the result of the one before.

    It ends where a tensor was cast to bf16 or f16 and is cast again, for its author wants that rounding: a primitive
    computes in f32 and rounds its result alone. A Quantize ends it too, unless a Dequantize follows and behind that
    another link, up to one more Quantize; `cut` makes a shorter chain of it.
    """
    links: list[Link] = []
    tensor, is_rounded = op.outputs[0], False
    while len(op.outputs) == 1 and len(links) < MOST_LINKS and not ops.is_port(tensor):
        found = _next(ops, tensor)
        if found is None or (is_rounded and found.ops[0].kind == "TypeCast"):
            break
        is_rounded |= rounds_to_halves(found.ops[0])
        links.append(found if found.quantize is None else _rounding(ops, found) or found)
        tensor = links[-1].result
        if links[-1].quantize is not None:
            return links
    return cut(links, len(links))


def rounds_to_halves(op: Op) -> bool:
    """Whether it is a cast that rounds, as its author wants it: to bf16 or f16 from another type."""
    if op.kind != "TypeCast":
        return False
    wanted = op.outputs[0].data_type
    return wanted in (DataType.bf16, DataType.f16) and op.inputs[0].data_type is not wanted


def cut(links: Sequence[Link], count: int) -> list[Link]:
    """The first links of a chain that fit a primitive: no more than `count`, and what was rounded ends in integers."""
    following = links[count].rounding if count < len(links) else None
    if following is not None:
        return [*links[:count], following.alone]
    kept = list(links[:count])
    last = max((n for n, one in enumerate(kept) if one.rounding is not None), default=None)
    if last is None or kept[-1].quantize is not None or in_integers(kept) is not None:
        return kept
    return cut(links, last)


def shortened(links: Sequence[Link]) -> list[list[Link]]:
    """A chain and all shorter ones that fit a primitive, the longest first.

    What was rounded ends in integers, or before the rounding: kernels for real numbers alone make no integers.
    """
    found = {len(one): one for one in (cut(links, count) for count in range(len(links) + 1))}
    before = next((n for n, one in enumerate(links) if one.rounding is not None), len(links))
    found.setdefault(before, list(links[:before]))  # `cut` has its integers with it
    return [found[length] for length in sorted(found, reverse=True)]


def in_integers(links: Sequence[Link]) -> list[Link] | None:
    """The same with integers as the result; None where it does not end with those made real again."""
    last = links[-1].rounding if links else None
    return None if last is None or not last.ends else [*links[:-1], last.alone]


def _rounding(ops: Ops, quantize: Link) -> Link | None:
    """A Quantize with the Dequantize that alone reads it; None where there is no such."""
    users: Sequence[Op] = () if ops.is_port(quantize.result) else ops.users(quantize.result)
    reader = next(iter(users), None)
    back = (
        one_scale(reader) if reader is not None and len(users) == 1 and reader.kind == "Dequantize" else None
    )
    if reader is None or back is None or quantize.quantize is None:
        return None
    to, data_type, real = quantize.quantize, quantize.result.data_type, reader.outputs[0]
    ends = _is_read_as_real(ops, real)
    rounding = Rounding(to=to, data_type=data_type, back=back, alone=quantize, ends=ends)
    return Link(ops=(*quantize.ops, reader), result=real, rounding=rounding)


def _is_read_as_real(ops: Ops, tensor: LogicalTensor) -> bool:
    """Whether nobody has a use for the integers behind a tensor, be it moved."""
    return not ops.is_port(tensor) and all(
        user.kind in REAL_ALONE or (user.kind in REORDERING and _is_read_as_real(ops, user.outputs[0]))
        for user in ops.users(tensor)
    )


def _next(ops: Ops, tensor: LogicalTensor) -> Link | None:
    gated = swish(tensor, ops.users)
    if gated is not None and not ops.is_port(gated[0].outputs[0]):
        result = gated[1].outputs[0]
        return Link(ops=gated, result=result, algorithm=Algorithm.eltwise_swish, alpha=1)
    users = ops.users(tensor)
    if len(users) != 1:
        return None
    op = users[0]
    result = op.outputs[0] if op.outputs else None
    if result is None or [t.id for t in op.inputs].count(tensor.id) != 1:
        return None
    link = LINKS.get(op.kind)
    return None if link is None else link(op, tensor, result)


def _eltwise(op: Op, tensor: LogicalTensor, result: LogicalTensor) -> Link:
    del tensor
    algorithm, alpha, beta = ELTWISE[op.kind](op.attributes)
    return Link(ops=(op,), result=result, algorithm=algorithm, alpha=alpha, beta=beta)


def _channels(op: Op, tensor: LogicalTensor) -> int | None:
    """The axis of the channels of an op's first input; None where that is another tensor."""
    if op.inputs[0].id != tensor.id:
        return None
    return axis_positions(op.attributes.string("data_format"), len(tensor.dims) - 2)["C"][0]


def _bias(op: Op, tensor: LogicalTensor, result: LogicalTensor) -> Link | None:
    axis = _channels(op, tensor)
    if axis is None:
        return None
    return Link(ops=(op,), result=result, algorithm=Algorithm.binary_add, operand=op.inputs[1], axis=axis)


def _normalization(op: Op, tensor: LogicalTensor, result: LogicalTensor) -> Link | None:
    axis = _channels(op, tensor)
    return None if axis is None else Link(ops=(op,), result=result, axis=axis, normalize=op)


def _type(op: Op, tensor: LogicalTensor, result: LogicalTensor) -> Link:
    del tensor
    return Link(ops=(op,), result=result)


def _quantisation(op: Op, tensor: LogicalTensor, result: LogicalTensor) -> Link | None:
    del tensor
    quantize = one_scale(op) if result.data_type in (DataType.u8, DataType.s8) else None
    return None if quantize is None else Link(ops=(op,), result=result, quantize=quantize)


def _binary(op: Op, tensor: LogicalTensor, result: LogicalTensor) -> Link | None:
    if result.dims != tensor.dims:
        return None
    first = op.inputs[0].id == tensor.id
    other = op.inputs[1 if first else 0]
    if first or op.kind not in TURNED:
        return Link(ops=(op,), result=result, algorithm=BINARY[op.kind], operand=other)
    turned = TURNED[op.kind]
    if turned.after is not None and other.dims == result.dims:
        return None  # a primitive of its own rounds once
    return Link(
        ops=(op,),
        result=result,
        before=turned.before,
        algorithm=turned.algorithm,
        after=turned.after,
        operand=other,
    )


LINKS: Mapping[str, Callable[[Op, LogicalTensor, LogicalTensor], Link | None]] = {
    **dict.fromkeys(ELTWISE, _eltwise),
    **dict.fromkeys(BINARY, _binary),
    "BiasAdd": _bias,
    "BatchNormInference": _normalization,
    **dict.fromkeys(("TypeCast", "Reorder", "HostStopGradient"), _type),
    "Quantize": _quantisation,
}
"""Kinds that may go along with another op → the link, from an op, what it follows and what it makes; or None."""


def swish(tensor: LogicalTensor, readers: Callable[[LogicalTensor], Sequence[Op]]) -> tuple[Op, Op] | None:
    """Sigmoid and Multiply of x · sigmoid(x), where these alone read x, and the product alone what the gate makes.

    Args:
        tensor: x.
        readers: from a tensor to the ops that read it.
    """
    users = readers(tensor)
    if len(users) != 2:
        return None
    for gate, product in (users, users[::-1]):
        if gate.kind != "Sigmoid" or product.kind != "Multiply":
            continue
        gated = gate.outputs[0]
        if {t.id for t in product.inputs} == {tensor.id, gated.id} and len(readers(gated)) == 1:
            return gate, product
    return None


def bias_gradients(op: Op, readers: Callable[[LogicalTensor], Sequence[Op]]) -> Iterator[Op]:
    """The gradients of a bias that sum the same diff_dst as a weight gradient does.

    Args:
        op: the weight gradient; no other op has any.
        readers: from a tensor to the ops that read it.
    """
    if op.kind == "ConvolutionBackwardWeights":
        for reader in readers(op.inputs[1]):
            same = reader.attributes.get("data_format") == op.attributes.get("data_format")
            if reader.kind == "BiasAddBackward" and same:
                yield reader


def result_of(op: Op, links: Sequence[Link]) -> LogicalTensor:
    """What a primitive makes that takes `links` along."""
    return links[-1].result if links else op.outputs[0]


def post_op_shapes(op: Op, link: Link) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
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
