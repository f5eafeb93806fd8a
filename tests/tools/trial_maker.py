"""What draws random primitives: layouts, post-ops, scales, and the `Trial` of it all; see `primitive_trials.py`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import wide_draws
from attrs import fields
from onednn_graph.backends.onednn.library.descriptors import DESCRIPTORS, Concat, Reorder, Sum
from onednn_graph.backends.onednn.library.enumerators import Algorithm, Arg, FpmathMode, Query
from onednn_graph.backends.onednn.library.loading import DATA_TYPES, Dims, dims
from onednn_graph.backends.onednn.library.memory import MemoryDesc, canonical_strides
from onednn_graph.backends.onednn.library.primitive import PostOp, PrimitiveAttributes
from onednn_graph.backends.onednn.plan.chooser import Chooser
from onednn_graph.ops.data_types import DataType as D
from onednn_graph.ops.errors import LibraryError

FLOATS = (D.f32, D.bf16, D.f16)


LIMITS = {
    D.u8: (0, 255),
    D.s8: (-128, 127),
    D.s32: (-(2**31), 2**31 - 1),
    D.s4: (-8, 7),
    D.u4: (0, 15),
}


RELATIVE = {D.f32: 2e-6, D.bf16: 2**-8, D.f16: 2**-11}


CHANNELS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 130)


SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 28)


MOST = 1 << 16


MOST_BYTES = 1 << 23
"""Of one tensor with the padding of its blocks."""


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
        offset: by how many elements what goes in and comes out lies off a cache line.
        pack: the beginning of the name of the reorder that packs weights with their sums; what may run where None.
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
    offset: int = 0
    pack: str | None = None

    @property
    def descriptor(self):
        """The same by name, as the rules read it."""
        made = DESCRIPTORS[self.function]
        if made is Reorder:
            source, _, target, _, attributes = self.arguments
            return Reorder(src=source, dst=target, attributes=attributes)
        if made is Concat:
            return Concat(
                dst=self.arguments[1], axis=self.arguments[3], sources=(), attributes=self.arguments[-1]
            )
        if made is Sum:
            return Sum(dst=self.arguments[1], factors=(), terms=(), attributes=self.arguments[-1])
        rank = next(len(one.shape) for one in self.arguments[1:] if isinstance(one, MemoryDesc)) - 2
        values = [tuple(one)[:rank] if isinstance(one, Dims) else one for one in self.arguments[1:]]
        return made(**dict(zip((one.name for one in fields(made)), values, strict=True)))


@lru_cache
def blocked_tags(lib, rank):
    """Blocked layouts by their names, as numbers of the library."""
    found = {}
    for number in range(2, 700):
        try:
            new = lib.new("dnnl_memory_desc_create_with_tag", rank, dims((16,) * rank), 3, number)
        except LibraryError:
            continue
        desc = MemoryDesc(lib, new)
        if desc.strides is None:
            found[desc.describe()] = number
    return found


class Maker:
    """Draws trials for one engine.

    Attributes:
        wide: whether something about the trial is large, as in `wide_draws.py`; so is a `share` of them.
    """

    def __init__(self, engine, rng, share=wide_draws.SHARE):
        self.engine, self.lib, self.rng = engine, engine.lib, rng
        self.wide = rng.random() < share
        self.data = np.random.default_rng(rng.randrange(2**31))

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
        if self.wide:
            return wide_draws.shape(self.rng, rank)
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
        if 1 in shape and self.rng.random() < 0.7:  # as lowerings have them, of matrices or of images
            return canonical_strides(shape, made, channels_last=self.rng.random() < 0.5)
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

    def packed(self, shape, dtype):
        """The layout in which a product of matrices on many rows wants its second one."""
        rows = (*shape[:-2], 64, shape[-2])
        columns = (*shape[:-2], 64, shape[-1])
        result = D.s32 if dtype is D.s8 else dtype
        first = D.u8 if dtype is D.s8 else dtype
        found = Chooser(self.engine).matmul(
            self.dense(rows, first), self.any(shape, dtype), self.dense(columns, result)
        )
        if found is None:
            raise Undrawn("no product")
        return found.memory_desc(Query.weights_md)

    def blocked(self, shape, dtype, *, of_weights=False):
        """A blocked layout as convolutions make it of data; of any name where it may be one of weights."""
        names = blocked_tags(self.lib, len(shape))
        data = [
            n
            for n in names
            if n.startswith("aB") and n.removeprefix("aB").lstrip("cde") in ("4b", "8b", "16b")
        ]
        chosen = names if of_weights and self.rng.random() < 0.6 else data
        if not chosen:
            raise Undrawn("no blocked layout")
        try:
            new = self.lib.new(
                "dnnl_memory_desc_create_with_tag",
                len(shape),
                dims(tuple(shape)),
                DATA_TYPES[dtype],
                names[self.rng.choice(list(chosen))],
            )
        except LibraryError as error:
            raise Undrawn(str(error)) from error
        made = MemoryDesc(self.lib, new)
        if made.nbytes > MOST_BYTES:
            raise Undrawn("mostly padding")
        return made

    def like(self, desc, dtype):
        """The plain layout of another tensor, in another type."""
        return MemoryDesc.strided(self.lib, desc.shape, dtype, desc.strides)

    # --- attributes ---

    def rounded(self, dtype):
        """Of f32, sometimes, that factors may be multiplied as bf16, in which numbers of trials are exact."""
        if dtype is D.f32 and self.rng.random() < 0.25:
            return {"fpmath": FpmathMode.bf16}
        return {}

    def attributes(self, shape, dst, links=True, scales=None, points=None, order=None, channel=1, **more):
        """Post-ops as the lowerings make them: attributes, arguments, what they do to the result, words."""
        post, inputs, todo, words = [], {}, [], []
        count = self.rng.choice([0, 0, 0, 1, 1, 2, 3]) if links else 0
        for place in range(count):
            if self.rng.random() < 0.5:
                name, alpha, beta, what = self.rng.choice(POST_ELTWISE)
                post.append(PostOp(getattr(Algorithm, name), alpha, beta))
                todo.append((what, None))
                words.append(name)
                continue
            name, what = self.rng.choice(POST_BINARY)
            mask = self.rng.choice(["one", "channel", "channel", "last", "all", "any"])
            keep = {
                "one": [0] * len(shape),
                "channel": [a == channel for a in range(len(shape))],
                "last": [a == len(shape) - 1 for a in range(len(shape))],
                "all": [1] * len(shape),
                "any": [self.rng.random() < 0.5 for _ in shape],
            }[mask]
            own = tuple(d if k else 1 for d, k in zip(shape, keep, strict=True))
            dtype = self.rng.choice([D.f32, D.f32, dst if dst in FLOATS else D.f32])
            operand = MemoryDesc.strided(
                self.lib, own, dtype, self.strides(own, order or list(range(len(own))))
            )
            array = self.values(own, dtype, 1, 4)
            post.append(PostOp(getattr(Algorithm, name), operand=operand))
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
        made = PrimitiveAttributes(self.lib, post_ops=post, scales=masks, zero_points=zero, **more)

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
    ("binary_add", np.add),
    ("binary_sub", np.subtract),
    ("binary_mul", np.multiply),
    ("binary_max", np.maximum),
    ("binary_min", np.minimum),
)


def name_of(desc):
    """A layout in words."""
    if desc.strides is None and not desc.nbytes:
        return f"{desc.data_type.value} any {list(desc.shape)}"
    return f"{desc.data_type.value} {desc.describe()} {list(desc.shape)}" + (
        f" strides {list(desc.strides)}" if desc.strides else ""
    )
