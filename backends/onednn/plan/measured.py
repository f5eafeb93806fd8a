"""The fastest implementation of a primitive by measurement, and what is remembered of it.

A convolution or a matrix product is timed alone, with every implementation that may run on the layouts that the first
one has, each on weights in the layout that it likes best.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_void_p
from typing import Any, cast

import numpy as np

from ....graph.compile.options import CompileOptions, Tune
from ....graph.runtime.arrays import Array, address, numpy_type
from ....ops.data_types import DataType
from ..library import fork
from ..library.enumerators import Arg, Query
from ..library.loading import Dims
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveAttributes, PrimitiveDesc, described, implementations
from ..library.prototypes import ExecArg
from ..quarantine import Case, refused
from ..tuning_cache import remember, remembered

FORMAT = 1
"""Of the files; raised when older ones mean something else."""
LEAST_ROUNDS = 3
BIAS = {"convolution_forward": 5, "deconvolution_forward": 5, "matmul": 3}
"""Of which primitives implementations are measured, and where the bias is among what describes them."""
IM2COL = "x64:gemm"
"""In names of convolutions that are copied into a matrix first, which no other op goes along with."""
OPERANDS = ((Arg.SRC, Query.src_md), (Arg.WEIGHTS, Query.weights_md), (Arg.DST, Query.dst_md))


def fastest(options: CompileOptions) -> Callable[[Case], str | None] | None:
    """What tells the name of the implementation to take; None where nothing is measured.

    Args:
        options: with `tune` and `tune_seconds`, the time for one primitive.
    """
    if options.tune is Tune.off:
        return None

    def found(case: Case) -> str | None:
        if case.desc.function not in BIAS:
            return None
        key = key_of(case)
        times = remembered(key)
        if not times and options.tune is Tune.measure:
            times = fork.run(measure, case, options.tune_seconds)
            remember(key, times)
        return min(times, key=times.__getitem__) if times else None

    return found


def key_of(case: Case) -> dict[str, Any]:
    """Everything that times depend on."""
    lib = case.desc.engine.lib
    return {
        "format": FORMAT,
        "primitive": case.desc.function,
        "described": [text for text in map(_told, case.arguments) if text],
        "threads": lib.threads,
        "isa": lib.effective_isa,
        "library": list(lib.version),
    }


def _told(argument: object) -> str:
    """One of the things that describe a primitive, as text; nothing for what stands for no number."""
    if isinstance(argument, MemoryDesc):
        strides = argument.strides
        lies = argument.describe() if strides is None else "x".join(map(str, strides))
        return f"{argument.data_type.value} {'x'.join(map(str, argument.shape))} {lies}"
    if isinstance(argument, PrimitiveAttributes):
        post_ops = [
            f"{one.algorithm.name} {one.alpha:g} {one.beta:g} {_told(one.operand)}"
            for one in argument.post_ops
        ]
        return f"{post_ops} {argument.scales} {sorted(argument.zero_points)} {argument.fpmath.name}"
    if isinstance(argument, Dims):
        return f"{list(cast('Sequence[int]', argument))}"
    if isinstance(argument, int):
        return f"{int(argument)}"
    return ""


def measure(case: Case, seconds: float) -> dict[str, float]:
    """The time of each implementation that may run in the place of the first: the mean of the least and the median.

    Args:
        seconds: for all of them together; each runs three times at least.
    """
    timers = {one.implementation: _Timed(one, case) for one in _rivals(case)}
    times: dict[str, list[float]] = {name: [] for name in timers}
    for timer in timers.values():
        timer.run()
    end = time.perf_counter() + seconds
    while len(timers) > 1 and (
        time.perf_counter() < end or any(len(t) < LEAST_ROUNDS for t in times.values())
    ):
        for name, timer in timers.items():
            times[name].append(timer.run())
    return {name: (min(found) + statistics.median(found)) / 2 for name, found in times.items() if found}


def _rivals(case: Case) -> Iterator[PrimitiveDesc]:
    """The implementations that may run with data and result as they lie for the first of these."""
    first: PrimitiveDesc | None = None
    afresh = described(
        case.desc.engine, case.desc.function, *case.arguments
    )  # a clone has no others to go on to
    for desc in () if afresh is None else implementations(afresh):
        if refused(Case(desc, case.arguments)) is not None or IM2COL in desc.implementation:
            continue
        first = first or desc
        if all(desc.memory_desc(q) == first.memory_desc(q) for q in (Query.src_md, Query.dst_md)):
            yield desc


class _Timed:
    """A primitive on memory of its own."""

    def __init__(self, desc: PrimitiveDesc, case: Case) -> None:
        self._engine = desc.engine
        self._primitive = desc.create()
        self._memories: list[int] = []
        self._arrays: list[Array] = []
        given: list[tuple[int, MemoryDesc]] = [(a, desc.memory_desc(what)) for a, what in OPERANDS]
        bias = case.arguments[BIAS[desc.function]]
        if isinstance(bias, MemoryDesc):
            given.append((Arg.BIAS, bias))
        for number, one in enumerate(case.attributes.post_ops, 1):
            if one.operand is not None:
                given.append((Arg.ATTR_MULTIPLE_POST_OP_BASE * number | Arg.SRC_1, one.operand))
        shapes = {argument: one.shape for argument, one in given}
        arguments = [self._filled(argument, one) for argument, one in given]
        arguments += [
            self._vector(Arg.ATTR_SCALES | argument, DataType.f32, _along(shapes[argument], mask))
            for argument, mask in case.attributes.scales.items()
        ]
        arguments += [
            self._vector(Arg.ATTR_ZERO_POINTS | argument, DataType.s32, 1)
            for argument in case.attributes.zero_points
        ]
        pad = desc.scratchpad
        arguments.append(self._memory(Arg.SCRATCHPAD, pad, np.zeros(max(pad.nbytes, 1), np.uint8)))
        self._arguments = (ExecArg * len(arguments))(*arguments)

    def _filled(self, argument: int, desc: MemoryDesc) -> ExecArg:
        """Memory with small integers in it: zeros and denormals would be timed wrongly."""
        count = -(-desc.nbytes // desc.itemsize)
        values = np.random.default_rng(argument).integers(0, 3, count)
        return self._memory(argument, desc, values.astype(numpy_type(desc.data_type)))

    def _vector(self, argument: int, data_type: DataType, count: int) -> ExecArg:
        desc = MemoryDesc.strided(self._engine.lib, (count,), data_type, (1,))
        return self._memory(argument, desc, np.ones(count, numpy_type(data_type)))

    def _memory(self, argument: int, desc: MemoryDesc, values: Array) -> ExecArg:
        made = self._engine.lib.new(
            "dnnl_memory_create", desc.handle, self._engine.handle, c_void_p(address(values))
        )
        self._memories.append(made)
        self._arrays.append(values)
        return ExecArg(argument, made)

    def run(self) -> float:
        """Executes it; the seconds that it took."""
        lib, engine, arguments = self._engine.lib, self._engine, self._arguments
        start = time.perf_counter()
        status = lib.c.dnnl_primitive_execute(
            self._primitive.handle, engine.stream, len(arguments), arguments
        )
        end = time.perf_counter()
        lib.check(status, "dnnl_primitive_execute")
        return end - start

    def __del__(self) -> None:
        for memory in self._memories:
            self._engine.lib.destroy("dnnl_memory_destroy", memory)


def _along(shape: tuple[int, ...], mask: int) -> int:
    """How many values there are, one along each axis of a mask."""
    return math.prod(size for axis, size in enumerate(shape) if mask >> axis & 1)
