"""Random primitives as the lowerings make them, each with what NumPy says it must give; for `fuzz_primitives.py`.

A family's function draws one `Trial` from a random number generator. Data are small integers, so that what is exact in the
library is exact here; functions that are not, and types that round, are compared within a rounding.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from ctypes import c_float, c_void_p
from dataclasses import dataclass, field

import numpy as np
from onednn_graph.backends.onednn.enumerators import Algorithm as A
from onednn_graph.backends.onednn.enumerators import Arg, NormalizationFlags, Propagation, Query
from onednn_graph.backends.onednn.library import DATA_TYPES, dims
from onednn_graph.backends.onednn.memory import MemoryDesc
from onednn_graph.backends.onednn.primitive import PostOp, PrimitiveAttributes, described
from onednn_graph.graph.arrays import numpy_type
from onednn_graph.ops.data_types import DataType as D
from onednn_graph.ops.errors import LibraryError

FLOATS = (D.f32, D.bf16, D.f16)
LIMITS = {D.u8: (0, 255), D.s8: (-128, 127), D.s32: (-(2**31), 2**31 - 1)}
RELATIVE = {D.f32: 2e-6, D.bf16: 2**-8, D.f16: 2**-11}
CHANNELS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 130)
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 28)
MOST = 1 << 16
"""Elements of a tensor."""


class Undrawn(Exception):  # noqa: N818 -- it ends an attempt
    """Something that the library has no descriptor for."""


@dataclass
class Trial:
    """One primitive.

    Attributes:
        function: what describes it.
        arguments: of that function, from the engine to the attributes.
        inputs: argument number → layout, or the query that tells it; array.
        outputs: argument number → the same with what is expected.
        tolerance: by how many roundings of its type a result may be off.
        absolute: by how much in any case, for sums that cancel and polynomials.
        q: what it is, in words.
        before: arguments whose content the hint primitive makes: (desc, its arguments).
        keep: objects that the arguments point to.
    """

    function: str
    arguments: list
    inputs: dict
    outputs: dict
    q: dict
    tolerance: float = 1.0
    absolute: float = 0.0
    keep: list = field(default_factory=list)
    workspace: object = None


class Maker:
    """Draws trials for one engine."""

    def __init__(self, engine, rng):
        self.engine, self.lib, self.rng = engine, engine.lib, rng
        self.data = np.random.default_rng(rng.randrange(2**31))
        self.tags = {}

    # --- values and layouts ---

    def values(self, shape, dtype=D.f32, low=-3, high=4):
        if dtype is D.u8:
            low = 0
        return self.data.integers(low, high, shape).astype(np.float64)

    def full(self, shape, dtype):
        """Any value of an 8-bit type."""
        low, high = LIMITS[dtype]
        return self.data.integers(low, high + 1, shape).astype(np.float64)

    def some(self, *choices):
        return self.rng.choice(choices)

    def shape(self, rank=None, most=MOST):
        rank = rank or self.rng.choice([2, 3, 4, 4, 4, 5])
        while True:
            made = [self.rng.choice([1, 1, 2, 3, 5]), self.rng.choice(CHANNELS)]
            made += [self.rng.choice(SIZES) for _ in range(rank - 2)]
            if self.rng.random() < 0.3:
                made[2:] = made[2:3] * (rank - 2)
            if self.rng.random() < 0.1:
                made[2:] = [1] * (rank - 2)
            if math.prod(made) <= most:
                return tuple(made)

    def strides(self, shape, order, gaps=()):
        """Strides with axes from outermost to innermost as in `order`; gaps: axis → factor or summand."""
        made, step = [0] * len(shape), 1
        for place, axis in enumerate(reversed(order)):
            if place in gaps:
                step = step * gaps[place] if place == 0 else step + gaps[place]
            made[axis] = step
            step *= shape[axis]
        for axis in reversed(range(len(shape))):  # an axis of one element lies as it would in rows
            if shape[axis] == 1:
                made[axis] = made[axis + 1] * shape[axis + 1] if axis + 1 < len(shape) else 1
        return tuple(made)

    def plain(self, shape, dtype, kind=None):
        """A plain layout: rows, channels last, any order, or gaps."""
        rank = len(shape)
        kind = kind or self.some("rows", "rows", "last", "last", "order", "gaps", "apart")
        order = list(range(rank))
        if kind == "last":
            order = [0, *range(2, rank), *([1] if rank > 1 else [])]
        elif kind == "order" or (kind in ("gaps", "apart") and self.rng.random() < 0.5):
            self.rng.shuffle(order)
        gaps = {}
        if kind == "gaps":
            gaps = {self.rng.randrange(1, rank + 1): self.rng.choice([1, 3, 4, 8, 16])}
        elif kind == "apart":
            gaps = {0: self.rng.choice([2, 3, 4, 8])}
        return MemoryDesc.strided(self.lib, shape, dtype, self.strides(shape, order, gaps))

    def dense(self, shape, dtype=D.f32, kind=None):
        return self.plain(shape, dtype, kind or self.some("rows", "rows", "last", "order"))

    def any(self, shape, dtype):
        return MemoryDesc.any(self.lib, shape, dtype)

    def blocked(self, shape, dtype, *, of_weights=False):
        """A blocked layout as convolutions make it of data; any that the library has a name for where it may be of weights."""
        names = self.tags_of(len(shape))
        data = [
            n
            for n in names
            if n.startswith("aB") and n.endswith(("8b", "16b")) and n.count("1") + n.count("8") == 1
        ]
        chosen = names if of_weights and self.rng.random() < 0.6 else data
        if not chosen:
            raise Undrawn("no blocked layout")
        try:
            new = self.lib.new(
                "dnnl_memory_desc_create_with_tag", len(shape), dims(tuple(shape)), DATA_TYPES[dtype],
                self.tags[len(shape)][self.rng.choice(list(chosen))],
            )  # fmt: skip
        except LibraryError as error:
            raise Undrawn(str(error)) from error
        return MemoryDesc(self.lib, new)

    def tags_of(self, rank):
        """Blocked layouts by their names, as numbers of the library."""
        if rank not in self.tags:
            self.tags[rank] = {}
            for number in range(2, 700):
                try:
                    new = self.lib.new(
                        "dnnl_memory_desc_create_with_tag", rank, dims((16,) * rank), 3, number
                    )
                except LibraryError:
                    continue
                desc = MemoryDesc(self.lib, new)
                if desc.strides is None:
                    self.tags[rank][desc.describe()] = number
        return self.tags[rank]

    def like(self, desc, dtype):
        """The plain layout of another tensor, in another type."""
        return MemoryDesc.strided(self.lib, desc.shape, dtype, desc.strides)

    # --- attributes ---

    def attributes(self, shape, dst, links=True, scales=None, points=None, order=None, channel=1):
        """Post-ops as the lowerings make them: attributes, arguments, what they do to the result, words."""
        post, inputs, todo, words = [], {}, [], []
        count = self.rng.choice([0, 0, 0, 1, 1, 2, 3]) if links else 0
        for place in range(count):
            if self.rng.random() < 0.5:
                name, alpha, beta, what = self.rng.choice(POST_ELTWISE)
                post.append(PostOp(getattr(A, name), alpha, beta))
                todo.append((what, None))
                words.append(name)
                continue
            name, what = self.rng.choice(POST_BINARY)
            mask = self.rng.choice(["one", "channel", "channel", "last", "all", "any"])
            keep = {
                "one": [0] * len(shape), "channel": [a == channel for a in range(len(shape))],
                "last": [a == len(shape) - 1 for a in range(len(shape))], "all": [1] * len(shape),
                "any": [self.rng.random() < 0.5 for _ in shape],
            }[mask]  # fmt: skip
            own = tuple(d if k else 1 for d, k in zip(shape, keep, strict=True))
            dtype = self.rng.choice([D.f32, D.f32, dst if dst in FLOATS else D.f32])
            operand = MemoryDesc.strided(
                self.lib, own, dtype, self.strides(own, order or list(range(len(own))))
            )
            array = self.values(own, dtype, 1, 4)
            post.append(PostOp(getattr(A, name), operand=operand))
            inputs[Arg.ATTR_MULTIPLE_POST_OP_BASE * (place + 1) | Arg.SRC_1] = (operand, array)
            todo.append((what, array))
            words.append(f"{name} {mask} {own} {dtype.value}")
        masks = {}
        for argument, (mask, array) in (scales or {}).items():
            masks[argument] = mask
            inputs[Arg.ATTR_SCALES | argument] = (self.vector(array.size), array.ravel())
        zero = {}
        for argument, value in (points or {}).items():
            zero[argument] = 0
            desc = MemoryDesc.strided(self.lib, (1,), D.s32, (1,))
            inputs[Arg.ATTR_ZERO_POINTS | argument] = (desc, np.array([float(value)]))
        made = PrimitiveAttributes(self.lib, post_ops=post, scales=masks, zero_points=zero)

        def after(result):
            for what, array in todo:
                result = what(result) if array is None else what(result, array)
            return result

        return made, inputs, after, words

    def vector(self, size, dtype=D.f32):
        return MemoryDesc.strided(self.lib, (size,), dtype, (1,))

    def quantization(self, dst):
        """Scale and zero point of an integer result."""
        if dst not in (D.s8, D.u8) or self.rng.random() < 0.4:
            return {}, {}, lambda r: r
        scale = self.some(0.5, 1.0, 2.0)
        point = self.some(0, 0, 3, 100 if dst is D.u8 else -7)
        points = {Arg.DST: point} if point else {}
        return {Arg.DST: (0, np.array([scale]))}, points, lambda r: r / scale + point


POST_ELTWISE = (
    ("eltwise_relu", 0.0, 0.0, lambda r: np.maximum(r, 0)),
    ("eltwise_linear", 2.0, 1.0, lambda r: 2 * r + 1),
    ("eltwise_abs", 0.0, 0.0, np.abs),
    ("eltwise_clip_v2", -4.0, 40.0, lambda r: np.clip(r, -4, 40)),
)
POST_BINARY = (
    ("binary_add", np.add), ("binary_sub", np.subtract), ("binary_mul", np.multiply), ("binary_max", np.maximum),
    ("binary_min", np.minimum),
)  # fmt: skip


def name_of(desc):
    """A layout in words."""
    if desc.strides is None and not desc.nbytes:
        return f"{desc.data_type.value} any {list(desc.shape)}"
    return f"{desc.data_type.value} {desc.describe()} {list(desc.shape)}" + (
        f" strides {list(desc.strides)}" if desc.strides else ""
    )


# --- families ------------------------------------------------------------------------------------------


def reorder(m):
    rng = m.rng
    types = (D.f32, D.bf16, D.f16, D.s32, D.s8, D.u8)
    a, b = rng.choice(types), rng.choice(types)
    if rng.random() < 0.3:
        a, b = rng.choice([(D.f32, D.u8), (D.f32, D.s8), (D.u8, D.f32), (D.s8, D.f32), (D.f32, D.f32)])
    rank = rng.choice([1, 2, 3, 4, 4, 4, 5])
    shape = (rng.choice([1, 5, 64, 6145, 20001]),) if rank == 1 else m.shape(rank)
    if rng.random() < 0.1 and rank > 1:
        shape = (rng.choice([1, 7, 96]), rng.choice([64, 100, 999]), *([1] * (rank - 2)))

    def layout(dtype):
        if rank > 1 and rng.random() < 0.3:
            return m.blocked(shape, dtype, of_weights=True)
        return m.plain(shape, dtype)

    source = layout(a)
    target = layout(b)
    if rng.random() < 0.15 and source.strides is not None:
        target = m.like(source, b)
    scales, points, words = {}, {}, []
    factor = np.ones((1,) * rank)
    kind = rng.choice(["none", "none", "src", "dst", "both"])
    mask = 0 if rng.random() < 0.5 else 1 << rng.randrange(rank)
    own = tuple(d if mask >> axis & 1 else 1 for axis, d in enumerate(shape))
    for side, argument in (("src", Arg.SRC), ("dst", Arg.DST)):
        if kind in (side, "both"):
            values = m.data.choice([0.5, 1.0, 2.0, 0.25], own)
            scales[argument] = (mask, values)
            factor = factor * (values if side == "src" else 1 / values)
            words.append(f"{side} scales mask {mask}")
    zero = {}
    for side, argument in (("src", Arg.SRC), ("dst", Arg.DST)):
        if rng.random() < 0.35 and (kind != "none" or rng.random() < 0.3):
            zero[argument] = rng.choice([1, -3, 7, 100])
            words.append(f"{side} zero point {zero[argument]}")
    points = zero
    low, high = {D.u8: (0, 256), D.s8: (-128, 128)}.get(a, (-300, 301))
    if b is D.bf16 or a is D.bf16 or rng.random() < 0.5:
        low, high = max(low, -60), min(high, 61)
    x = m.data.integers(low, high, shape).astype(np.float64)
    attributes, inputs, _, _ = m.attributes(shape, b, False, scales, points)
    y = factor * (x - zero.get(Arg.SRC, 0)) + zero.get(Arg.DST, 0)
    return Trial(
        "reorder", [source, m.engine, target, m.engine, attributes],
        {Arg.SRC: (source, x), **inputs}, {Arg.DST: (target, y)},
        {"from": name_of(source), "to": name_of(target), "attributes": words},
    )  # fmt: skip


ELTWISE = {
    "eltwise_relu": (lambda x, a, b: np.where(x > 0, x, a * x), [(0, 0), (0.5, 0)]),
    "eltwise_abs": (lambda x, a, b: np.abs(x), [(0, 0)]),
    "eltwise_square": (lambda x, a, b: x * x, [(0, 0)]),
    "eltwise_clip_v2": (lambda x, a, b: np.clip(x, a, b), [(-2, 1)]),
    "eltwise_round": (lambda x, a, b: np.rint(x), [(0, 0)]),
    "eltwise_pow": (lambda x, a, b: a * np.where(x == 0, np.nan, x) ** b, [(1, 2), (1, -1), (1, 3)]),
    "eltwise_exp": (lambda x, a, b: np.exp(x), [(0, 0)]),
    "eltwise_tanh": (lambda x, a, b: np.tanh(x), [(0, 0)]),
    "eltwise_logistic": (lambda x, a, b: 1 / (1 + np.exp(-x)), [(0, 0)]),
    "eltwise_elu": (lambda x, a, b: np.where(x > 0, x, a * np.expm1(x)), [(1, 0)]),
    "eltwise_gelu_tanh": (
        lambda x, a, b: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), [(0, 0)],
    ),
    "eltwise_gelu_erf": (
        lambda x, a, b: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))), [(0, 0)],
    ),
    "eltwise_hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), [(0.25, 0.5)]),
    "eltwise_hardswish": (lambda x, a, b: x * np.clip(a * x + b, 0, 1), [(0.25, 0.5)]),
    "eltwise_soft_relu": (lambda x, a, b: np.log1p(np.exp(a * x)) / a, [(1, 0), (2, 0)]),
    "eltwise_mish": (lambda x, a, b: x * np.tanh(np.log1p(np.exp(x))), [(0, 0)]),
    "eltwise_swish": (lambda x, a, b: x / (1 + np.exp(-a * x)), [(1, 0)]),
    "eltwise_log": (lambda x, a, b: np.log(np.where(x > 0, x, np.nan)), [(0, 0)]),
    "eltwise_sqrt": (lambda x, a, b: np.sqrt(np.where(x >= 0, x, np.nan)), [(0, 0)]),
}  # fmt: skip


def eltwise(m):
    rng = m.rng
    name = rng.choice(list(ELTWISE))
    what, parameters = ELTWISE[name]
    alpha, beta = rng.choice(parameters)
    exact = name in ("eltwise_relu", "eltwise_abs", "eltwise_square", "eltwise_clip_v2", "eltwise_round")
    a = rng.choice(
        [D.f32, D.f32, D.bf16, D.f16, D.s32, D.s8, D.u8] if exact else [D.f32, D.f32, D.bf16, D.f16]
    )
    b = a if rng.random() < 0.9 else rng.choice([D.f32, D.bf16, D.u8])
    shape = m.shape(rng.choice([2, 3, 4, 5, 6])) if rng.random() < 0.9 else (rng.choice([1, 7, 1000]),)
    source = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.2 else m.plain(shape, a)
    target = m.any(shape, b) if source.strides is None or rng.random() < 0.5 else m.like(source, b)
    scales, points, quantize = m.quantization(b)
    attributes, inputs, after, words = m.attributes(shape, b, True, scales, points)
    x = m.values(shape, a)
    with np.errstate(all="ignore"):
        y = quantize(after(what(x, alpha, beta)))
    return Trial(
        "eltwise_forward",
        [m.engine, Propagation.forward_inference, getattr(A, name), source, target, alpha, beta, attributes],
        {Arg.SRC: (source, x), **inputs}, {Arg.DST: (Query.dst_md, y)},
        {"algorithm": name, "alpha": alpha, "beta": beta, "src": name_of(source), "dst": name_of(target), "post": words},
        2.0, 0.0 if exact else 2e-4,
    )  # fmt: skip


def eltwise_backward(m):
    rng = m.rng
    name, derivative = rng.choice([
        ("eltwise_relu", lambda x: (x > 0) * 1.0), ("eltwise_abs", np.sign), ("eltwise_square", lambda x: 2 * x),
        ("eltwise_logistic", lambda x: 1 / (1 + np.exp(-x)) * (1 - 1 / (1 + np.exp(-x)))),
        ("eltwise_tanh", lambda x: 1 - np.tanh(x) ** 2),
        ("eltwise_clip_v2", lambda x: ((x > -2) & (x < 1)) * 1.0),
    ])  # fmt: skip
    alpha, beta = (-2.0, 1.0) if name == "eltwise_clip_v2" else (0.0, 0.0)
    a = rng.choice(FLOATS)
    shape = m.shape()
    data = m.blocked(shape, a) if rng.random() < 0.15 else m.plain(shape, a)
    attributes, inputs, _, _ = m.attributes(shape, a, False)
    hint = described(
        m.engine, "eltwise_forward", m.engine, Propagation.forward_training, getattr(A, name), data, data,
        alpha, beta, attributes,
    )  # fmt: skip
    if hint is None:
        raise Undrawn("no hint")
    x, dy = m.values(shape), m.values(shape)
    return Trial(
        "eltwise_backward", [m.engine, getattr(A, name), data, data, data, alpha, beta, hint, attributes],
        {Arg.SRC: (data, x), Arg.DIFF_DST: (data, dy)}, {Arg.DIFF_SRC: (Query.diff_src_md, dy * derivative(x))},
        {"algorithm": name, "data": name_of(data)}, 2.0, 2e-4,
    )  # fmt: skip


def binary(m):
    rng = m.rng
    name, what = rng.choice([*POST_BINARY, ("binary_div", np.divide)])
    a, b = rng.choice([(D.f32, D.f32), (D.bf16, D.bf16), (D.f16, D.f16), (D.f32, D.f32), (D.s8, D.s8), (D.u8, D.s8),
                       (D.f32, D.bf16), (D.u8, D.u8)])  # fmt: skip
    dst = rng.choice([a, a, D.f32, D.u8, D.s8])
    shape = m.shape(rng.choice([1, 2, 2, 3, 4, 4, 5])) if rng.random() < 0.9 else (rng.choice([1, 9, 100]),)
    if rng.random() < 0.15 and len(shape) > 1:
        source = m.blocked(shape, a)
        second = MemoryDesc.clone(m.lib, source.handle) if a is b else m.dense(shape, b, "rows")
        keep = [True] * len(shape)
        other = shape
    else:
        source = m.plain(shape, a)
        keep = [rng.random() < 0.5 for _ in shape] if rng.random() < 0.7 else [True] * len(shape)
        other = tuple(d if k else 1 for d, k in zip(shape, keep, strict=True))
        second = m.dense(other, b, "rows") if other != shape or rng.random() < 0.5 else m.plain(other, b)
    target = m.any(shape, dst) if source.strides is None or rng.random() < 0.6 else m.like(source, dst)
    scales, points, quantize = m.quantization(dst)
    attributes, inputs, after, words = m.attributes(shape, dst, True, scales, points)
    x, y = m.values(shape, a), m.values(other, b)
    if name == "binary_div":
        y = m.data.choice([1.0, 2.0, 4.0], other)
    return Trial(
        "binary", [m.engine, getattr(A, name), source, second, target, attributes],
        {Arg.SRC: (source, x), Arg.SRC_1: (second, y), **inputs}, {Arg.DST: (Query.dst_md, quantize(after(what(x, y))))},
        {"algorithm": name, "src": name_of(source), "src1": name_of(second), "dst": name_of(target), "post": words,
         "scales": str(scales), "points": str(points)}, 2.0, 1e-5,
    )  # fmt: skip


REDUCTIONS = {
    "reduction_sum": (0.0, lambda x, axes: x.sum(axes, keepdims=True)),
    "reduction_mean": (0.0, lambda x, axes: x.mean(axes, keepdims=True)),
    "reduction_max": (0.0, lambda x, axes: x.max(axes, keepdims=True)),
    "reduction_min": (0.0, lambda x, axes: x.min(axes, keepdims=True)),
    "reduction_mul": (0.0, lambda x, axes: x.prod(axes, keepdims=True)),
    "reduction_norm_lp_power_p_sum": (1.0, lambda x, axes: np.abs(x).sum(axes, keepdims=True)),
    "reduction_norm_lp_sum": (2.0, lambda x, axes: np.sqrt((x * x).sum(axes, keepdims=True))),
}


def reduction(m):
    rng = m.rng
    name = rng.choice(list(REDUCTIONS))
    p, what = REDUCTIONS[name]
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8])
    dst = rng.choice([a, a, D.f32])
    shape = m.shape(rng.choice([1, 2, 3, 4, 5])) if rng.random() < 0.9 else (rng.choice([2, 100, 1000]),)
    count = rng.randint(1, len(shape))
    axes = tuple(rng.sample(range(len(shape)), count))
    if rng.random() < 0.5:
        axes = tuple(range(len(shape) - count, len(shape)))
    kept = tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    if kept == shape:
        raise Undrawn("nothing is reduced")
    source = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.15 else m.plain(shape, a)
    target = rng.choice([m.any(kept, dst), m.dense(kept, dst, "rows")])
    x = m.values(shape, a)
    if name == "reduction_mul":
        x = m.data.choice([1.0, 1.0, 1.0, 2.0], shape) if math.prod(shape) < 60 else np.ones(shape)
    attributes, inputs, after, words = m.attributes(kept, dst, True)
    return Trial(
        "reduction", [m.engine, getattr(A, name), source, target, p, 0.0, attributes],
        {Arg.SRC: (source, x), **inputs}, {Arg.DST: (Query.dst_md, after(what(x, axes)))},
        {"algorithm": name, "src": name_of(source), "dst": name_of(target), "axes": list(axes), "post": words}, 4.0, 1e-4,
    )  # fmt: skip


def softmax(m, backward=False):
    rng = m.rng
    log = rng.random() < 0.5
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    shape = (
        m.shape(rng.choice([1, 2, 3, 4, 4, 5])) if rng.random() < 0.9 else (rng.choice([1, 3, 100, 1001]),)
    )
    axis = rng.randrange(len(shape)) if rng.random() < 0.6 else len(shape) - 1
    data = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.1 else m.plain(shape, a)
    algorithm = A.softmax_log if log else A.softmax_accurate
    attributes, _, _, _ = m.attributes(shape, a, False)
    x = m.values(shape)
    e = np.exp(x - x.max(axis, keepdims=True))
    y = e / e.sum(axis, keepdims=True)
    y = np.log(y) if log else y
    if not backward:
        dst = rng.choice([a, a, D.f32])
        target = m.any(shape, dst) if data.strides is None or rng.random() < 0.6 else m.plain(shape, dst)
        return Trial(
            "softmax_forward", [m.engine, Propagation.forward_inference, algorithm, data, target, axis, attributes],
            {Arg.SRC: (data, x)}, {Arg.DST: (Query.dst_md, y)},
            {"src": name_of(data), "dst": name_of(target), "axis": axis, "log": log}, 2.0, 1e-5,
        )  # fmt: skip
    y = y.astype(np.float32).astype(numpy_type(a)).astype(np.float64)
    dy = m.values(shape)
    if log:
        dx = dy - np.exp(y) * dy.sum(axis, keepdims=True)
    else:
        dx = y * (dy - (dy * y).sum(axis, keepdims=True))
    hint = described(
        m.engine,
        "softmax_forward",
        m.engine,
        Propagation.forward_training,
        algorithm,
        data,
        data,
        axis,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    target = rng.choice([m.any(shape, a), MemoryDesc.clone(m.lib, data.handle)])
    return Trial(
        "softmax_backward", [m.engine, algorithm, target, data, data, axis, hint, attributes],
        {Arg.DST: (data, y), Arg.DIFF_DST: (data, dy)}, {Arg.DIFF_SRC: (Query.diff_src_md, dx)},
        {"data": name_of(data), "axis": axis, "log": log}, 4.0, 1e-3,
    )  # fmt: skip


def windows(m, rank, most=9):
    """Kernel, strides, dilations, pads, source and destination sizes."""
    rng = m.rng
    found = []
    same = rng.random() < 0.5
    first = None
    for _ in range(rank):
        while True:
            if same and first is not None:
                k, s, d = first
            else:
                k, s, d = rng.choice([1, 2, 3, 3, 5, 7]), rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 1, 2])
            extent = d * (k - 1) + 1
            size = rng.choice([1, 2, 3, 5, 7, 8, 9, 13, 14, 16, 17, 28, 31][: {1: 13, 2: 12, 3: 8}[rank]])
            begin = rng.choice([0, 0, (extent - 1) // 2, rng.randint(0, max(extent - 1, 0))])
            end = rng.choice([begin, begin, 0, rng.randint(0, max(extent - 1, 0))])
            out = (size + begin + end - extent) // s + 1
            if out >= 1 and size + begin + end >= extent:
                break
        first = (k, s, d)
        found.append((k, s, d, begin, end, size, out))
    return [tuple(column) for column in zip(*found, strict=True)]


def patches(x, geometry, fill=0.0):
    """(N, C, out…, taps…) of (N, C, X)."""
    kernel, strides, dilations, begin, end, _, out = geometry
    rank = len(kernel)
    pad = [(0, 0), (0, 0)] + [
        (b, e + s + d * k) for b, e, s, d, k in zip(begin, end, strides, dilations, kernel, strict=True)
    ]
    padded = np.pad(x, pad, constant_values=fill)
    made = np.empty((*x.shape[:2], *out, *kernel))
    for tap in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, dilations, strides, out, strict=True)
        )
        made[(slice(None), slice(None), *[slice(None)] * rank, *tap)] = padded[
            (slice(None), slice(None), *cut)
        ]
    return made


def scattered(grads, geometry, shape):
    """The adjoint of `patches`."""
    kernel, strides, dilations, begin, end, size, out = geometry
    rank = len(kernel)
    pad = [
        b + e + s + d * k + n
        for b, e, s, d, k, n in zip(begin, end, strides, dilations, kernel, size, strict=True)
    ]
    total = np.zeros((*shape[:2], *pad))
    for tap in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, dilations, strides, out, strict=True)
        )
        total[(slice(None), slice(None), *cut)] += grads[
            (slice(None), slice(None), *[slice(None)] * rank, *tap)
        ]
    inside = tuple(slice(b, b + n) for b, n in zip(begin, size, strict=True))
    return total[(slice(None), slice(None), *inside)]


def _geometry_arguments(geometry):
    kernel, strides, dilations, begin, end, _, _ = geometry
    return dims(strides), dims(kernel), dims(tuple(d - 1 for d in dilations)), dims(begin), dims(end)


def _data_layout(m, shape, dtype, blocked=0.15):
    roll = m.rng.random()
    if roll < blocked:
        return m.blocked(shape, dtype)
    return m.plain(shape, dtype, m.some("rows", "last", "last", "rows", "order", "gaps"))


def pooling(m, backward=False):
    rng = m.rng
    rank = rng.choice([1, 2, 2, 2, 3])
    geometry = windows(m, rank)
    size, out = geometry[5], geometry[6]
    n, c = rng.choice([1, 2, 3]), rng.choice(CHANNELS)
    while n * c * math.prod(size) > MOST or n * c * math.prod(out) * math.prod(geometry[0]) > 16 * MOST:
        c = max(1, c // 2)
        n = 1
        if c == 1 and n == 1:
            break
    shape, result = (n, c, *size), (n, c, *out)
    name = rng.choice(["pooling_max", "pooling_avg_include_padding", "pooling_avg_exclude_padding"])
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16] if backward else [D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8])
    dst = a if backward or a in FLOATS else rng.choice([a, D.f32])
    source = _data_layout(m, shape, a)
    x = (
        m.data.permutation(math.prod(shape)).reshape(shape) % 200 - 100.0
        if backward and name == "pooling_max"
        else m.values(shape, a)
    )
    if name == "pooling_max":
        found = patches(x, geometry, -np.inf)
    else:
        found = patches(x, geometry)
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    counts = patches(np.ones((1, 1, *size)), geometry).sum(taps)
    if (counts == 0).any():
        raise Undrawn("a window in the padding alone")
    share = 1 / math.prod(geometry[0]) if name == "pooling_avg_include_padding" else 1 / counts
    y = found.max(taps) if name == "pooling_max" else found.sum(taps) * share
    words = {"algorithm": name, "src": name_of(source), "geometry": [list(g) for g in geometry]}
    numbers = _geometry_arguments(geometry)
    if not backward:
        order = [0, *range(2, rank + 2), 1] if rng.random() < 0.5 else None
        scales, points, quantize = m.quantization(dst)
        attributes, inputs, after, post = m.attributes(result, dst, rng.random() < 0.5, scales, points, order)
        target = rng.choice([m.any(result, dst), m.plain(result, dst, m.some("rows", "last", "gaps"))])
        words |= {"dst": name_of(target), "post": post, "scales": str(scales)}
        return Trial(
            "pooling_forward", [m.engine, Propagation.forward_inference, getattr(A, name), source, target, *numbers, attributes],
            {Arg.SRC: (source, x), **inputs}, {Arg.DST: (Query.dst_md, quantize(after(y)))}, words, 2.0, 1e-5,
        )  # fmt: skip
    attributes, _, _, _ = m.attributes(result, dst, False)
    dy = m.values(result)
    forward_target = (
        m.any(result, a) if name == "pooling_max" or rng.random() < 0.5 else m.plain(result, a, "rows")
    )
    hint_source = source if name == "pooling_max" else m.dense(shape, a, "rows")
    hint = described(
        m.engine, "pooling_forward", m.engine, Propagation.forward_training, getattr(A, name), hint_source,
        forward_target, *numbers, attributes,
    )  # fmt: skip
    if hint is None:
        raise Undrawn("no hint")
    diff_dst = hint.memory_desc(Query.dst_md) if name == "pooling_max" else _data_layout(m, result, a)
    target = source if name == "pooling_max" else m.any(shape, a)
    if name == "pooling_max":
        grads = np.zeros_like(found)
        flat = found.reshape(*found.shape[: 2 + rank], -1)
        at = flat.argmax(-1)
        np.put_along_axis(grads.reshape(flat.shape), at[..., None], dy[..., None], -1)
    else:
        grads = np.broadcast_to((dy * share).reshape(*result, *[1] * rank), found.shape)
    trial = Trial(
        "pooling_backward", [m.engine, getattr(A, name), target, diff_dst, *numbers, hint, attributes],
        {Arg.DIFF_DST: (diff_dst, dy)}, {Arg.DIFF_SRC: (Query.diff_src_md, scattered(grads, geometry, shape))},
        words | {"diff_dst": name_of(diff_dst)}, 4.0, 1e-4,
    )  # fmt: skip
    if name == "pooling_max":
        trial.workspace = (hint, {Arg.SRC: (source, x)}, {Arg.DST: (diff_dst, y)})
    return trial


def batch_normalization(m, backward=False):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    shape = m.shape(rng.choice([2, 3, 4, 4, 5]))
    axes = (0, *range(2, len(shape)))
    channels = shape[1]
    per = (1, channels, *[1] * (len(shape) - 2))
    x = m.values(shape)
    epsilon = 0.5
    f32 = m.vector(channels)
    training = backward or rng.random() < 0.5
    data = (
        m.blocked(shape, a)
        if rng.random() < 0.2
        else m.plain(
            shape,
            a,
            m.some("rows", "rows", "last", "gaps") if not training else m.some("rows", "rows", "gaps"),
        )
    )
    attributes, _, _, _ = m.attributes(shape, a, False)
    gamma, beta = m.data.choice([0.5, 1.0, 2.0], channels), m.values((channels,))
    if training:
        mean, variance = x.mean(axes), x.var(axes)
    else:
        mean, variance = m.values((channels,)), m.data.choice([0.5, 3.5], channels)
    hat = (x - mean.reshape(per)) / np.sqrt(variance.reshape(per) + epsilon)
    y = hat * gamma.reshape(per) + beta.reshape(per)
    flags = NormalizationFlags.use_scale | NormalizationFlags.use_shift
    words = {"data": name_of(data), "training": training}
    if not backward:
        relu = not training and rng.random() < 0.4
        if not training:
            flags |= NormalizationFlags.use_global_stats
        if relu:
            flags |= NormalizationFlags.fuse_norm_relu
            y = np.maximum(y, 0)
        kind = Propagation.forward_training if training else Propagation.forward_inference
        inputs = {Arg.SRC: (data, x), Arg.SCALE: (f32, gamma), Arg.SHIFT: (f32, beta)}
        outputs = {Arg.DST: (Query.dst_md, y)}
        statistics = {Arg.MEAN: (f32, mean), Arg.VARIANCE: (f32, variance)}
        (outputs if training else inputs).update(statistics)
        return Trial(
            "batch_normalization_forward", [m.engine, kind, data, data, epsilon, flags, attributes],
            inputs, outputs, words | {"relu": relu}, 8.0, 1e-3,
        )  # fmt: skip
    hint = described(
        m.engine,
        "batch_normalization_forward",
        m.engine,
        Propagation.forward_training,
        data,
        data,
        epsilon,
        flags,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    dy = m.values(shape)
    count = math.prod(shape) / channels
    dgamma, dbeta = (dy * hat).sum(axes), dy.sum(axes)
    dx = (
        gamma.reshape(per)
        / np.sqrt(variance.reshape(per) + epsilon)
        * (dy - dbeta.reshape(per) / count - hat * dgamma.reshape(per) / count)
    )
    return Trial(
        "batch_normalization_backward", [m.engine, Propagation.backward, data, data, data, epsilon, flags, hint, attributes],
        {Arg.SRC: (data, x), Arg.DIFF_DST: (data, dy), Arg.MEAN: (f32, mean), Arg.VARIANCE: (f32, variance), Arg.SCALE: (f32, gamma)},
        {Arg.DIFF_SRC: (Query.diff_src_md, dx), Arg.DIFF_SCALE: (f32, dgamma), Arg.DIFF_SHIFT: (f32, dbeta)}, words, 16.0, 4e-3,
    )  # fmt: skip


def layer_normalization(m, backward=False):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    rows, inner = (
        rng.choice([1, 2, 3, 17, 64, 200]),
        rng.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 100, 129]),
    )
    shape = (rows, inner)
    x = m.values(shape)
    epsilon = 0.5
    source = m.dense(shape, a, "rows")
    statistics, vector = m.vector(rows), m.vector(inner)
    mean, variance = x.mean(1), x.var(1)
    hat = (x - mean[:, None]) / np.sqrt(variance[:, None] + epsilon)
    affine = rng.random() < 0.6
    gamma = m.data.choice([0.5, 1.0, 2.0], inner) if affine else np.ones(inner)
    beta = m.values((inner,)) if affine else np.zeros(inner)
    flags = NormalizationFlags.use_scale | NormalizationFlags.use_shift if affine else NormalizationFlags.none
    vectors = {Arg.SCALE: (vector, gamma), Arg.SHIFT: (vector, beta)} if affine else {}
    if not backward:
        dst = rng.choice([a, a, D.f32, D.u8, D.s8])
        keeps = rng.random() < 0.5
        kind = Propagation.forward_training if keeps else Propagation.forward_inference
        scales, points, quantize = m.quantization(dst)
        points = {}
        attributes, inputs, _, _ = m.attributes(shape, dst, False, scales, points)
        scale = scales[Arg.DST][1][0] if scales else 1.0
        y = (hat * gamma + beta) / scale
        outputs = {Arg.DST: (m.dense(shape, dst, "rows"), y)}
        if keeps:
            outputs |= {Arg.MEAN: (statistics, mean), Arg.VARIANCE: (statistics, variance)}
        return Trial(
            "layer_normalization_forward",
            [m.engine, kind, source, outputs[Arg.DST][0], statistics, epsilon, flags, attributes],
            {Arg.SRC: (source, x), **vectors, **inputs}, outputs,
            {"src": name_of(source), "dst": dst.value, "keeps": keeps, "affine": affine, "scales": str(scales)}, 8.0, 1e-3,
        )  # fmt: skip
    attributes, _, _, _ = m.attributes(shape, a, False)
    hint = described(
        m.engine, "layer_normalization_forward", m.engine, Propagation.forward_training, source, source, statistics,
        epsilon, flags, attributes,
    )  # fmt: skip
    if hint is None:
        raise Undrawn("no hint")
    dy = m.values(shape)
    g = dy * gamma
    dx = (g - g.mean(1)[:, None] - hat * (g * hat).mean(1)[:, None]) / np.sqrt(variance[:, None] + epsilon)
    outputs = {Arg.DIFF_SRC: (Query.diff_src_md, dx)}
    if affine:
        outputs |= {Arg.DIFF_SCALE: (vector, (dy * hat).sum(0)), Arg.DIFF_SHIFT: (vector, dy.sum(0))}
    return Trial(
        "layer_normalization_backward",
        [m.engine, Propagation.backward if affine else Propagation.backward_data, source, source, source, statistics, epsilon, flags, hint, attributes],
        {Arg.SRC: (source, x), Arg.DIFF_DST: (source, dy), Arg.MEAN: (statistics, mean), Arg.VARIANCE: (statistics, variance), **vectors},
        outputs, {"src": name_of(source), "affine": affine}, 16.0, 4e-3,
    )  # fmt: skip


def resampling(m, backward=False):
    rng = m.rng
    rank = rng.choice([1, 2, 2, 3])
    n, c = rng.choice([1, 2]), rng.choice([x for x in CHANNELS if x <= 65])
    size = tuple(rng.choice([1, 2, 3, 4, 5, 7, 8]) for _ in range(rank))
    out = tuple(rng.choice([1, 2, 3, 4, 6, 7, 8, 14, 16]) for _ in range(rank))
    linear = rng.random() < 0.5
    shape, result = (n, c, *size), (n, c, *out)
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8] if not backward else FLOATS)
    source = _data_layout(m, shape, a)
    weights = []
    for i, o in zip(size, out, strict=True):
        w = np.zeros((o, i))
        for k in range(o):
            at = np.float32(np.float32(k + 0.5) * np.float32(i) / np.float32(o))
            if not linear:
                w[k, min(max(int(np.rint(np.float32(at - np.float32(0.5)))), 0), i - 1)] += 1
                if abs((float(at) - 0.5) % 1 - 0.5) < 1e-4:
                    raise Undrawn("a tie between neighbours")
            else:
                place = (k + 0.5) * i / o - 0.5
                left = math.floor(place)
                w[k, min(max(left, 0), i - 1)] += 1 - (place - left)
                w[k, min(max(left + 1, 0), i - 1)] += place - left
        weights.append(w)

    def along(array, turn):
        for axis, w in enumerate(weights):
            array = np.moveaxis(np.tensordot(array, w.T if not turn else w, axes=(2 + axis, 0)), -1, 2 + axis)
        return array

    name = A.resampling_linear if linear else A.resampling_nearest
    words = {"linear": linear, "src": name_of(source), "out": list(out)}
    if not backward:
        x = m.values(shape, a)
        dst = rng.choice([a, a, D.f32]) if linear else a
        order = [0, *range(2, rank + 2), 1] if rng.random() < 0.5 else None
        attributes, inputs, after, post = m.attributes(result, dst, rng.random() < 0.5, None, None, order)
        target = rng.choice([m.any(result, dst), m.plain(result, dst, m.some("rows", "last", "gaps"))])
        return Trial(
            "resampling_forward", [m.engine, Propagation.forward_inference, name, None, source, target, attributes],
            {Arg.SRC: (source, x), **inputs}, {Arg.DST: (Query.dst_md, after(along(x, False)))},
            words | {"dst": name_of(target), "post": post}, 2.0, 1e-4,
        )  # fmt: skip
    attributes, _, _, _ = m.attributes(result, a, False)
    hint = described(
        m.engine, "resampling_forward", m.engine, Propagation.forward_inference, name, None, m.dense(shape, a, "rows"),
        m.any(result, a), attributes,
    )  # fmt: skip
    if hint is None:
        raise Undrawn("no hint")
    dy = m.values(result)
    diff_dst = _data_layout(m, result, a)
    return Trial(
        "resampling_backward", [m.engine, name, None, m.any(shape, a), diff_dst, hint, attributes],
        {Arg.DIFF_DST: (diff_dst, dy)}, {Arg.DIFF_SRC: (Query.diff_src_md, along(dy, True))},
        words | {"diff_dst": name_of(diff_dst)}, 4.0, 1e-3,
    )  # fmt: skip


def prelu(m, backward=False):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16] if backward else [D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8])
    shape = m.shape(rng.choice([1, 2, 3, 4, 5]))
    keep = rng.choice([[a == 1 for a in range(len(shape))], [True] * len(shape), [False] * len(shape),
                       [rng.random() < 0.5 for _ in shape], [a == len(shape) - 1 for a in range(len(shape))]])  # fmt: skip
    own = tuple(d if k else 1 for d, k in zip(shape, keep, strict=True))
    data = (
        m.dense(shape, a, "rows")
        if backward
        else (m.blocked(shape, a) if rng.random() < 0.1 else m.plain(shape, a))
    )
    slope = m.dense(own, a, "rows")
    attributes, _, _, _ = m.attributes(shape, a, False)
    x, w = m.values(shape, a), m.values(own, a)
    words = {"data": name_of(data), "slope": name_of(slope)}
    if not backward:
        return Trial(
            "prelu_forward", [m.engine, Propagation.forward_inference, data, slope, data, attributes],
            {Arg.SRC: (data, x), Arg.WEIGHTS: (slope, w)}, {Arg.DST: (Query.dst_md, np.where(x > 0, x, x * w))}, words, 2.0,
        )  # fmt: skip
    dy = m.values(shape)
    hint = described(
        m.engine, "prelu_forward", m.engine, Propagation.forward_training, data, slope, data, attributes
    )
    if hint is None:
        raise Undrawn("no hint")
    axes = tuple(axis for axis, k in enumerate(keep) if not k)
    dw = np.where(x > 0, 0, x * dy).sum(axes, keepdims=True) if axes else np.where(x > 0, 0, x * dy)
    return Trial(
        "prelu_backward", [m.engine, data, slope, data, slope, data, hint, attributes],
        {Arg.SRC: (data, x), Arg.WEIGHTS: (slope, w), Arg.DIFF_DST: (data, dy)},
        {Arg.DIFF_SRC: (Query.diff_src_md, np.where(x > 0, dy, dy * w)), Arg.DIFF_WEIGHTS: (Query.diff_weights_md, dw)},
        words, 4.0, 1e-3,
    )  # fmt: skip


def matmul(m):
    rng = m.rng
    batch = rng.choice([(), (), (1,), (3,), (2, 3), (2, 1), (1, 1)])
    rows, inner, columns = (
        rng.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, 64, 65, 100]) for _ in range(3)
    )
    kinds = [(D.f32, D.f32, D.f32)] * 3 + [
        (D.bf16, D.bf16, D.bf16),
        (D.bf16, D.bf16, D.f32),
        (D.f16, D.f16, D.f16),
    ]
    kinds += [
        (D.u8, D.s8, rng.choice([D.f32, D.u8, D.s8, D.s32, D.bf16])),
        (D.s8, D.s8, rng.choice([D.f32, D.u8, D.s8])),
    ]
    a, b, dst = rng.choice(kinds)
    integers = a in (D.u8, D.s8)
    wide = tuple(1 if rng.random() < 0.2 else d for d in batch)
    first, second, result = (*batch, rows, inner), (*wide, inner, columns), (*batch, rows, columns)

    def operand(shape, dtype):
        order = list(range(len(shape)))
        if rng.random() < 0.4:
            order[-1], order[-2] = order[-2], order[-1]
        if rng.random() < 0.15 and len(order) == 4:
            order = [0, 2, 1, 3]
        gaps = {rng.randrange(1, len(shape)): rng.choice([1, 4, 8])} if rng.random() < 0.2 else {}
        return MemoryDesc.strided(m.lib, shape, dtype, m.strides(shape, order, gaps))

    left = operand(first, a)
    right = m.any(second, b) if rng.random() < 0.25 and max(wide, default=1) == 1 else operand(second, b)
    target = m.any(result, dst) if rng.random() < 0.5 else operand(result, dst)
    x, w = m.values(first, a), m.values(second, b)
    large = integers and rng.random() < 0.3
    if large:
        x, w = m.full(first, a), m.full(second, b)
    scales, points, quantize = m.quantization(dst) if integers else ({}, {}, lambda r: r)
    if integers and rng.random() < 0.7:
        scales[Arg.SRC] = (0, np.array([0.5]))
        if rng.random() < 0.5:
            scales[Arg.WEIGHTS] = (1 << (len(second) - 1), m.data.choice([0.5, 1.0, 2.0], (columns,)))
        else:
            scales[Arg.WEIGHTS] = (0, np.array([2.0]))
        if rng.random() < 0.5:
            points[Arg.SRC] = rng.choice([1, 3, -2])
    attributes, inputs, after, words = m.attributes(result, dst, True, scales, points, None, len(result) - 1)
    y = np.matmul(x - points.get(Arg.SRC, 0), w)
    if Arg.SRC in scales:
        y = y * scales[Arg.SRC][1] * scales[Arg.WEIGHTS][1]
    bias = None
    if rng.random() < 0.3:
        own = (
            tuple(d if rng.random() < 0.3 else 1 for d in result[:-1]) + (columns,)
            if rng.random() < 0.3
            else (1,) * (len(result) - 1) + (columns,)
        )
        bias = m.dense(own, D.f32 if integers else a, "rows")
        z = m.values(own)
        inputs[Arg.BIAS] = (bias, z)
        y = y + z
    inputs |= {Arg.SRC: (left, x), Arg.WEIGHTS: (Query.weights_md, w)}
    return Trial(
        "matmul", [m.engine, left, right, bias, target, attributes],
        inputs, {Arg.DST: (Query.dst_md, quantize(after(y)))},
        {"a": name_of(left), "b": name_of(right), "c": name_of(target), "bias": bias and name_of(bias), "post": words,
         "scales": str({int(k): v[0] for k, v in scales.items()}), "points": str(points), "large": large}, 2.0, 1e-4,
    )  # fmt: skip


def convolution(m, way="convolution_forward"):
    rng = m.rng
    rank = rng.choice([1, 2, 2, 2, 3])
    geometry = windows(m, rank)
    kernel, size, out = geometry[0], geometry[5], geometry[6]
    kind = rng.choice(["dense", "dense", "few", "grouped", "depthwise", "first"])
    groups, i, o = 1, rng.choice([1, 3, 8, 16, 17, 32, 48, 64]), rng.choice([1, 4, 8, 16, 20, 32, 64])
    if kind == "few":
        i, o = rng.randint(1, 5), rng.randint(1, 5)
    elif kind == "grouped":
        groups, i, o = (
            rng.choice([2, 3, 4, 8]),
            rng.choice([1, 2, 3, 4, 8, 16]),
            rng.choice([1, 2, 3, 4, 8, 16]),
        )
    elif kind == "depthwise":
        groups, i, o = rng.choice([2, 3, 8, 15, 16, 17, 32, 48, 64]), 1, 1
    elif kind == "first":
        i, o = rng.choice([1, 2, 3, 4]), rng.choice([16, 32, 64])
    n = rng.choice([1, 1, 2, 3])
    if (
        n * groups * i * math.prod(out) * math.prod(kernel) > 1 << 21
        or math.prod(size) * groups * max(i, o) * n > 4 * MOST
    ):
        raise Undrawn("too large")
    kinds = [(D.f32, D.f32, D.f32)] * 3 + [
        (D.bf16, D.bf16, D.bf16),
        (D.bf16, D.bf16, D.f32),
        (D.f16, D.f16, D.f16),
    ]
    if way != "convolution_backward_data":
        kinds += [
            (D.u8, D.s8, rng.choice([D.f32, D.u8, D.s8, D.s32])),
            (D.s8, D.s8, rng.choice([D.f32, D.u8, D.s8])),
        ] * 2
    a, b, dst = rng.choice(kinds)
    integers = a in (D.u8, D.s8)
    small, large = (n, groups * o, *out), (n, groups * i, *size)
    weights = (groups, o, i, *kernel)
    w = m.values(weights, b, -2, 3)
    strides_k = [
        dims(geometry[1]),
        dims(tuple(d - 1 for d in geometry[2])),
        dims(geometry[3]),
        dims(geometry[4]),
    ]

    def data(shape, dtype):
        if shape[1] > 1 and rng.random() < 0.5:
            return m.plain(shape, dtype, "last")
        return m.any(shape, dtype)

    forward = way == "convolution_forward"
    source_shape, result = (large, small) if forward else (small, large)
    x = m.values(source_shape, a)
    large_values = integers and rng.random() < 0.3
    if large_values:
        x, w = m.full(source_shape, a), m.full(weights, b)
    scales, points, quantize = m.quantization(dst) if integers else ({}, {}, lambda r: r)
    if integers and rng.random() < 0.7:
        scales[Arg.SRC] = (0, np.array([0.5]))
        many = rng.random() < 0.5
        made = groups * (o if forward else i)
        scales[Arg.WEIGHTS] = (
            ((1 if groups == 1 else 3), m.data.choice([0.5, 1.0, 2.0], (made,)))
            if many
            else (0, np.array([2.0]))
        )
        if rng.random() < 0.4:
            points[Arg.SRC] = rng.choice([1, 3])
    order = [0, *range(2, rank + 2), 1] if rng.random() < 0.5 else None
    links = way != "convolution_backward_data"
    attributes, inputs, after, words = m.attributes(result, dst, links, scales, points, order)
    shifted = x - points.get(Arg.SRC, 0)
    if forward:
        found = (
            patches(shifted, geometry)
            if not points.get(Arg.SRC)
            else patches(x, geometry, points[Arg.SRC]) - points[Arg.SRC]
        )
        found = found.reshape(n, groups, i, math.prod(out), math.prod(kernel))
        y = np.einsum("ngipk,goik->ngop", found, w.reshape(groups, o, i, -1)).reshape(small)
    else:
        grads = np.einsum("ngop,goik->ngipk", shifted.reshape(n, groups, o, -1), w.reshape(groups, o, i, -1))
        y = scattered(grads.reshape(n, groups * i, *out, *kernel), geometry, large)
    per = (1, -1, *[1] * rank)
    if Arg.SRC in scales:
        y = (
            y
            * scales[Arg.SRC][1]
            * scales[Arg.WEIGHTS][1].reshape(per if scales[Arg.WEIGHTS][1].size > 1 else ())
        )
    deconv = way == "deconvolution_forward"
    own = np.swapaxes(w, 1, 2) if deconv else w
    own = own[0] if groups == 1 else own
    wanted = m.any(own.shape, b)
    bias = None
    if links and rng.random() < 0.4:
        bias = m.vector(result[1], D.f32 if integers else a)
        z = m.values((result[1],))
        inputs[Arg.BIAS] = (bias, z)
        y = y + z.reshape(per)
    source, target = data(source_shape, a), data(result, dst)
    words = {"kind": kind, "groups": groups, "src": name_of(source), "dst": name_of(target), "weights": list(own.shape),
             "geometry": [list(g) for g in geometry], "bias": bias is not None, "post": words, "w": b.value, "large": large_values,
             "scales": str({int(k): v[0] for k, v in scales.items()}), "points": str(points)}  # fmt: skip
    expected = quantize(after(y))
    if way == "convolution_backward_data":
        hint = described(
            m.engine, "convolution_forward", m.engine, Propagation.forward_training, A.convolution_direct,
            m.any(large, a), wanted, None, m.any(small, a), *strides_k, attributes,
        )  # fmt: skip
        if hint is None:
            raise Undrawn("no hint")
        return Trial(
            way, [m.engine, A.convolution_direct, target, wanted, source, *strides_k, hint, attributes],
            {Arg.DIFF_DST: (Query.diff_dst_md, x), Arg.WEIGHTS: (Query.weights_md, own)},
            {Arg.DIFF_SRC: (Query.diff_src_md, expected)}, words, 2.0, 1e-4,
        )  # fmt: skip
    algorithm = A.deconvolution_direct if deconv else A.convolution_direct
    return Trial(
        way, [m.engine, Propagation.forward_inference, algorithm, source, wanted, bias, target, *strides_k, attributes],
        {Arg.SRC: (Query.src_md, x), Arg.WEIGHTS: (Query.weights_md, own), **inputs},
        {Arg.DST: (Query.dst_md, expected)}, words, 2.0, 1e-4,
    )  # fmt: skip


def total(m):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    dst = rng.choice([a, a, D.f32])
    shape = m.shape(rng.choice([1, 2, 3, 4, 5])) if rng.random() < 0.8 else (rng.choice([1, 5, 100, 4097]),)
    count = rng.choice([2, 2, 3, 5])
    layout = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.15 else m.plain(shape, a)
    terms = [
        MemoryDesc.clone(m.lib, layout.handle) if rng.random() < 0.8 else m.plain(shape, a)
        for _ in range(count)
    ]
    target = m.like(layout, dst) if layout.strides is not None and rng.random() < 0.7 else m.any(shape, dst)
    factors = [rng.choice([1.0, 1.0, 0.5, 2.0, 0.25]) for _ in range(count)]
    arrays = [m.values(shape, a) for _ in range(count)]
    attributes = PrimitiveAttributes(m.lib)
    return Trial(
        "sum", [m.engine, target, count, (c_float * count)(*factors), (c_void_p * count)(*[t.handle for t in terms]), attributes],
        {Arg.MULTIPLE_SRC + k: (t, x) for k, (t, x) in enumerate(zip(terms, arrays, strict=True))},
        {Arg.DST: (Query.dst_md, sum(f * x for f, x in zip(factors, arrays, strict=True)))},
        {"terms": [name_of(t) for t in terms], "dst": name_of(target), "factors": factors}, 4.0, 1e-5, [terms],
    )  # fmt: skip


def concat(m):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8, D.s32])
    shape = m.shape(rng.choice([1, 2, 3, 4, 4, 5]))
    axis = rng.randrange(len(shape))
    count = rng.choice([1, 2, 2, 3, 5])
    shapes = [
        tuple(rng.choice([1, 2, 3, 8, 16, d]) if k == axis else d for k, d in enumerate(shape))
        for _ in range(count)
    ]
    result = tuple(sum(s[axis] for s in shapes) if k == axis else d for k, d in enumerate(shape))
    kind = m.some("rows", "last", "order", None)
    terms = [m.plain(s, a, kind if kind != "order" else None) for s in shapes]
    if rng.random() < 0.1 and len(shape) > 1:
        terms = [m.blocked(s, a) for s in shapes]
    target = m.any(result, a) if rng.random() < 0.5 else m.plain(result, a, rng.choice([kind, None]))
    arrays = [m.values(s, a) for s in shapes]
    attributes = PrimitiveAttributes(m.lib)
    descs = (c_void_p * count)(*[t.handle for t in terms])
    return Trial(
        "concat", [m.engine, target, count, axis, ctypes.cast(descs, ctypes.POINTER(c_void_p)), attributes],
        {Arg.MULTIPLE_SRC + k: (t, x) for k, (t, x) in enumerate(zip(terms, arrays, strict=True))},
        {Arg.DST: (Query.dst_md, np.concatenate(arrays, axis))},
        {"terms": [name_of(t) for t in terms], "dst": name_of(target), "axis": axis}, 0.0, 0.0, [terms, descs],
    )  # fmt: skip


FAMILIES = {
    "reorder": reorder,
    "eltwise": eltwise,
    "eltwise_backward": eltwise_backward,
    "binary": binary,
    "reduction": reduction,
    "softmax": softmax,
    "softmax_backward": lambda m: softmax(m, True),
    "pooling": pooling,
    "pooling_backward": lambda m: pooling(m, True),
    "batch_normalization": batch_normalization,
    "batch_normalization_backward": lambda m: batch_normalization(m, True),
    "layer_normalization": layer_normalization,
    "layer_normalization_backward": lambda m: layer_normalization(m, True),
    "resampling": resampling,
    "resampling_backward": lambda m: resampling(m, True),
    "prelu": prelu,
    "prelu_backward": lambda m: prelu(m, True),
    "matmul": matmul,
    "convolution": convolution,
    "convolution_backward_data": lambda m: convolution(m, "convolution_backward_data"),
    "deconvolution": lambda m: convolution(m, "deconvolution_forward"),
    "sum": total,
    "concat": concat,
}
