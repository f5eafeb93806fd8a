"""Primitive descriptors and primitives: which implementations the library offers, and one of them ready to run."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_char_p, c_void_p

from ....graph.runtime.cached import cached
from ....graph.runtime.locking import foreign_locks
from ....ops.data_types import DataType
from ....ops.records import frozen
from .enumerators import Algorithm, Arg, FpmathMode, Query
from .loading import (
    ENGINE_CPU,
    LAST_IMPL_REACHED,
    SCRATCHPAD_USER,
    STREAM_DEFAULT_FLAGS,
    SUCCESS,
    Library,
    dims,
    load,
)
from .memory import TYPE_NUMBERS, MemoryDesc


class NativeEngine:
    """`dnnl_engine_t` of the CPU and a stream on it, for the life of a user's Engine.

    Attributes:
        machine_code: whether what runs on it may use machine code of ours.
    """

    def __init__(self, *, machine_code: bool = True) -> None:
        self.machine_code = machine_code
        self.lib = load()
        self.handle = self.lib.new("dnnl_engine_create", ENGINE_CPU, 0)
        self.stream = self.lib.new("dnnl_stream_create", self.handle, STREAM_DEFAULT_FLAGS)

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self.lib.destroy("dnnl_stream_destroy", self.stream)
            self.lib.destroy("dnnl_engine_destroy", self.handle)


class PrimitiveDesc:
    """An owned `dnnl_primitive_desc_t`, standing on one of the implementations that the library offers.

    Attributes:
        function: what made it, `matmul` of `dnnl_matmul_primitive_desc_create`, say.
        asked: the `Descriptor` that it was made of; None where it was made of bare arguments.
        threads: how many it was described for. It is made and run on as many.
    """

    def __init__(self, engine: NativeEngine, handle: int, function: str, asked: object | None = None) -> None:
        self.engine = engine
        self.handle = handle
        self.function = function
        self.asked = asked
        self.threads = engine.lib.threads

    @cached
    def implementation(self) -> str:
        """The library's name of the implementation, `jit:avx512_core`, say."""
        text = c_char_p()
        self.engine.lib.c.dnnl_primitive_desc_query(self.handle, Query.impl_info_str, 0, ctypes.byref(text))
        return (text.value or b"").decode()

    def memory_desc(self, what: Query) -> MemoryDesc:
        """The layout of one argument, as this implementation wants it."""
        handle = self.engine.lib.c.dnnl_primitive_desc_query_md(self.handle, what, 0)
        return MemoryDesc.clone(
            self.engine.lib, handle, (self.asked, self.function, self.implementation, what)
        )

    def next_implementation(self) -> bool:
        """Moves on to the next implementation; False when there is none."""
        lib = self.engine.lib
        self.__dict__.pop("implementation", None)
        with foreign_locks:
            status = lib.c.dnnl_primitive_desc_next_impl(self.handle)
        if status not in (SUCCESS, LAST_IMPL_REACHED):
            lib.check(status, "dnnl_primitive_desc_next_impl")
        return status == SUCCESS

    def clone(self) -> PrimitiveDesc:
        """A copy that stays on the present implementation."""
        handle = self.engine.lib.new("dnnl_primitive_desc_clone", self.handle)
        clone = PrimitiveDesc(self.engine, handle, self.function, self.asked)
        clone.threads = self.threads
        return clone

    @property
    def scratchpad(self) -> MemoryDesc:
        """The memory that the primitive needs beside its arguments."""
        return self.memory_desc(Query.scratchpad_md)

    def create(self) -> Primitive:
        """The primitive of the present implementation."""
        with self.engine.lib.using(self.threads), foreign_locks:
            return Primitive(self.engine, self.engine.lib.new("dnnl_primitive_create", self.handle))

    def __del__(self) -> None:
        self.engine.lib.destroy("dnnl_primitive_desc_destroy", self.handle)


class Primitive:
    """An owned `dnnl_primitive_t`; executing it is thread-safe, for its scratchpad is an argument."""

    def __init__(self, engine: NativeEngine, handle: int) -> None:
        self.engine = engine
        self.handle = handle

    def __del__(self) -> None:
        self.engine.lib.destroy("dnnl_primitive_destroy", self.handle)


@frozen
class PostOp:
    """What a primitive does to each element of its result before it writes it.

    Attributes:
        algorithm: of an eltwise, or of a binary where there is an operand.
        alpha, beta: parameters of an eltwise.
        operand: descriptor of a binary's second operand, which broadcasts to the result.
    """

    algorithm: Algorithm
    alpha: float = 0.0
    beta: float = 0.0
    operand: MemoryDesc | None = None


@frozen
class Grouping:
    """Which elements of a product's weights share a number.

    Attributes:
        mask: the axes along which there are several numbers.
        group: how many rows and columns share one; empty where the mask tells all.
        data_type: of the numbers.
    """

    mask: int
    group: tuple[int, ...]
    data_type: DataType


@frozen
class Decompression:
    """How a product of real numbers makes such of integers that are its weights: (q − zp) · scale.

    Attributes:
        scales, points: by which elements share one; no zero points where all are zero.
    """

    scales: Grouping
    points: Grouping | None


class PrimitiveAttributes:
    """`dnnl_primitive_attr_t` with a user scratchpad.

    Args:
        lib: the library.
        fpmath: what f32 may be multiplied as.
        post_ops: in order.
        scales, zero_points: argument → mask of the axes along which there is one each; 0 for one in all.
        decompression: of weights that are integers where the rest is real; of libraries that have it.
        narrow_weights: whether weights of 8 bits are known to take 7, which the library is not told.
    """

    def __init__(
        self,
        lib: Library,
        fpmath: FpmathMode = FpmathMode.strict,
        post_ops: Sequence[PostOp] = (),
        scales: Mapping[int, int] | None = None,
        zero_points: Mapping[int, int] | None = None,
        decompression: Decompression | None = None,
        narrow_weights: bool = False,
    ) -> None:
        self.lib = lib
        self.narrow_weights = narrow_weights
        self.fpmath = fpmath
        self.post_ops = tuple(post_ops)
        self.scales, self.zero_points = dict(scales or {}), dict(zero_points or {})
        self.decompression = decompression
        self.handle = lib.new("dnnl_primitive_attr_create")
        self._set("dnnl_primitive_attr_set_scratchpad_mode", SCRATCHPAD_USER)
        self._set("dnnl_primitive_attr_set_fpmath_mode", fpmath)
        for argument, mask in self.scales.items():
            self._set("dnnl_primitive_attr_set_scales_mask", argument, mask)
        for argument, mask in self.zero_points.items():
            self._set("dnnl_primitive_attr_set_zero_points_mask", argument, mask)
        if decompression is not None:
            self._set("dnnl_primitive_attr_set_fpmath_mode_v2", fpmath, 1)
            self._group("dnnl_primitive_attr_set_scales", decompression.scales)
            if decompression.points is not None:
                self._group("dnnl_primitive_attr_set_zero_points", decompression.points)
        if post_ops:
            self._append(post_ops)

    def _group(self, function: str, grouping: Grouping) -> None:
        """Says which weights share a scale or a zero point."""
        group = dims(grouping.group) if grouping.group else None
        number = TYPE_NUMBERS[grouping.data_type]
        self._set(function, Arg.WEIGHTS, grouping.mask, len(grouping.group), group, number)

    def _set(self, function: str, *values: object) -> None:
        self.lib.check(getattr(self.lib.c, function)(self.handle, *values), function)

    def _append(self, post_ops: Sequence[PostOp]) -> None:
        chain = self.lib.new("dnnl_post_ops_create")
        try:
            for one in post_ops:
                if one.operand is None:
                    status = self.lib.c.dnnl_post_ops_append_eltwise(
                        chain, one.algorithm, one.alpha, one.beta
                    )
                else:
                    status = self.lib.c.dnnl_post_ops_append_binary(chain, one.algorithm, one.operand.handle)
                self.lib.check(status, "dnnl_post_ops_append")
            self._set("dnnl_primitive_attr_set_post_ops", chain)
        finally:
            self.lib.destroy("dnnl_post_ops_destroy", chain)

    def __del__(self) -> None:
        self.lib.destroy("dnnl_primitive_attr_destroy", self.handle)


def described(engine: NativeEngine, function: str, *arguments: object) -> PrimitiveDesc | None:
    """What `dnnl_…_primitive_desc_create` makes, on the library's first implementation; None where it has none."""
    handle = c_void_p()
    create = getattr(engine.lib.c, f"dnnl_{function}_primitive_desc_create")
    # Objects are passed whole, and not as handles, so that they live until the call is over.
    with foreign_locks:
        status = create(ctypes.byref(handle), *[getattr(one, "handle", one) for one in arguments])
    return PrimitiveDesc(engine, handle.value or 0, function) if status == SUCCESS else None


def implementations(desc: PrimitiveDesc) -> Iterator[PrimitiveDesc]:
    """A descriptor for each implementation in turn, from `desc` on.

    Once a primitive was made, the library's cache makes its iterator yield some implementations over and over (seen
    with `jit_bf16_1x1`), so each name counts once.
    """
    seen: set[str] = set()
    more = True
    while more:
        if desc.implementation not in seen:
            seen.add(desc.implementation)
            yield desc.clone()
        more = desc.next_implementation()
