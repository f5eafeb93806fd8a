"""A graph ready to run, by us and by native oneDNN Graph on the same arrays, and fair turns for both."""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..backends.native.graph import NativeGraph
from ..graph.compile.options import Policy
from ..graph.graph import Graph
from ..graph.runtime.arrays import Array
from ..graph.runtime.executable import Explanation
from ..graph.runtime.tensor import allocate
from ..ops.records import frozen
from .benchdnn.filling import fill

BURST = 0.004
"""Seconds of one turn at least: threads of the library before, which still spin, have gone to sleep by then."""
LEAST_ROUNDS = 6


@frozen(eq=False)
class Rival:
    """A graph, bound to arrays.

    Attributes:
        call: runs it.
        outputs: the arrays that it writes, by tensor id.
        partitions: ids of the ops of each partition, in order.
        told: who runs each partition, and with which kernels; native oneDNN Graph's are not known.
        free_layouts: of native oneDNN Graph, whether it chose how tensors between its partitions lie.
    """

    call: Callable[[], None]
    outputs: dict[int, Array]
    partitions: tuple[tuple[int, ...], ...]
    told: tuple[str, ...] = ()
    free_layouts: bool = False


def placed_inputs(graph: Graph, seed: int = 0) -> dict[int, Array]:
    """Data for all inputs of a graph in the tensors' own layouts, by id; the same for the same seed."""
    arrays = fill(graph, seed)
    for tensor in graph.inputs:
        placed = allocate(tensor)
        placed[...] = arrays[tensor.id]
        arrays[tensor.id] = placed
    return arrays


def ours(
    graph: Graph,
    inputs: Mapping[int, Array],
    policy: Policy | str = Policy.fusion,
    backend: str | None = None,
) -> Rival:
    """Our partitions, each compiled and bound once, with tensors between them allocated once.

    Args:
        graph: finalized, with all shapes known.
        inputs: by tensor id, in the tensors' own layouts.
        policy, backend: as for `Graph.get_partitions`.
    """
    arrays = dict(inputs)
    calls: list[Callable[[], None]] = []
    told: list[str] = []
    partitions = graph.get_partitions(policy, backend=backend)
    for partition in partitions:
        compiled = partition.compile()
        for tensor in compiled.outputs:
            arrays[tensor.id] = allocate(tensor)
        calls.append(
            compiled.bind_ports(
                [arrays[t.id] for t in compiled.inputs], [arrays[t.id] for t in compiled.outputs]
            )
        )
        calls[
            -1
        ]()  # a partition whose shapes depend on values that an earlier one computes is chosen only now
        told.append(_told(compiled.explain().only))

    def run() -> None:
        for call in calls:
            call()

    return Rival(
        calls[0] if len(calls) == 1 else run,
        {t.id: arrays[t.id] for t in graph.outputs},
        tuple(tuple(op.id for op in p.ops) for p in partitions),
        tuple(told),
    )


def _told(explanation: Explanation) -> str:
    """Who runs one partition and how, in one line."""
    names = " → ".join(explanation.implementations) or explanation.strategy
    once = f" (once: {' → '.join(explanation.prepared)})" if explanation.prepared else ""
    return f"{explanation.backend}: {names}{once}"


def native(graph: Graph, inputs: Mapping[int, Array], free_layouts: bool | None = None) -> Rival:
    """Native oneDNN Graph as it is best used: free layouts between partitions, constants prepared once.

    Args:
        graph, inputs: as for `ours`.
        free_layouts: whether the layouts are free; None for what works.

    Raises:
        UnsupportedError: it can't run the graph.
    """
    compiled = NativeGraph.of(graph, free_layouts=free_layouts, constants=True)
    outputs = {t.id: allocate(t) for t in graph.outputs}
    return Rival(
        compiled.bind(inputs, outputs),
        outputs,
        tuple(tuple(op.id for op in ops) for ops in compiled.partitions),
        free_layouts=compiled.free_layouts,
    )


def on_shifting_stack(call: Callable[[], None]) -> Callable[[], None]:
    """The call, each time on a stack that lies 16 bytes further, modulo 64.

    Kernels that spill vector registers were seen to take 1.4 times as long where the stack pointer is no multiple of
    32. Where it lies is chance: it differs from process to process and from caller to caller. So each rival gets all
    positions, and the shortest times compare kernels and not luck. Costs a microsecond, the same for all.

    Python's own function for calls is called with arguments too many, which lie on the stack and which it never reads.
    What the call raises comes through, an interrupt too; a callback of ctypes would print it and go on.
    """
    function = ctypes.pythonapi[
        "PyObject_CallNoArgs"
    ]  # one of our own: its types are not those of other users
    function.restype = ctypes.py_object
    in_registers = (
        5  # integer arguments behind the first; those beyond go onto the stack, 8 bytes each, padded to 16
    )
    argument, unread = ctypes.py_object(call), ctypes.c_size_t(0)
    steps = [
        functools.partial(function, argument, *[unread] * (in_registers + more)) for more in (0, 2, 4, 6)
    ]
    turns = itertools.cycle(steps)

    def run() -> None:
        next(turns)()

    return run


def interleaved(calls: Sequence[Callable[[], None]], seconds: float, most: float = 3.0) -> list[list[float]]:
    """Times of the calls, taken in turns until the shortest ones are stable.

    Args:
        calls: each is called once before anything counts.
        seconds: at least so long; then until the last half of the rounds has improved no minimum by a percent.
        most: but no longer than so many times that.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    begin = time.perf_counter()

    def stable() -> bool:
        return all(min(t[len(t) // 2 :]) > 0.99 * min(t[: len(t) // 2]) for t in times)

    order, rounds, rng = list(range(len(calls))), 0, random.Random(0)
    while True:
        elapsed = time.perf_counter() - begin
        if rounds >= LEAST_ROUNDS and (elapsed > most * seconds or (elapsed > seconds and stable())):
            return times
        rounds += 1
        rng.shuffle(order)  # who comes after whom matters
        for number in order:
            call, end = calls[number], time.perf_counter() + BURST
            start = 0.0
            while start < end:
                start = time.perf_counter()
                call()
                times[number].append(time.perf_counter() - start)


def difference(first: Array, second: Array) -> float:
    """The largest difference of two arrays of one shape; infinite where one has a number and the other none."""
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = (array.astype(np.float64) for array in (first, second))
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))
