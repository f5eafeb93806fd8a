"""Times a graph, and says what share of the machine it uses: what `onednn-graph bench` does."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..graph.compile.compiled_graph import CompiledGraph
from ..graph.compile.signature import Key
from ..graph.graph import Graph
from ..graph.model.logical_tensor import LogicalTensor, label
from ..graph.model.numpy_types import itemsize
from ..graph.model.op import Op
from ..graph.onnx.staged_graph import StagedGraph
from ..graph.pictures.profile import Profile, profile
from ..graph.runtime.arrays import Array
from ..graph.runtime.tensor import allocate
from ..ops.data_types import DataType
from ..ops.errors import ArgumentError, UnknownOpError, nearest
from ..ops.records import frozen
from ..ops.registry import REGISTRY
from .benchdnn.reference import FPMATH_TYPES
from .benchdnn.rewriting import attribute_value
from .op_page import kind_of

LEAST_RUNS = 5
PEAK_SIZE = 1536
"""Rows and columns of the matrices whose product gives the machine's peak."""
PEAK_BYTES = 1 << 28
"""That are read and written at most where the machine's bandwidth is measured; no cache holds them."""
LEAST_BYTES = 1 << 20
"""And at least: fewer tell how long a call takes."""
PEAK_SECONDS = 0.3
DEQUANTIZING = ("Dequantize", "DynamicDequantize")


@frozen(kw_only=True)
class Timing:
    """Times of a call, in seconds."""

    least: float
    median: float
    most: float
    runs: int


@frozen(kw_only=True)
class Benchmark:
    """What a graph does, and how fast.

    Attributes:
        timing: of the compiled graph, called with arrays.
        flops: multiplications and additions of convolutions and matrix products.
        nbytes: of the graph's inputs, constants and outputs.
        peak_flops: what the machine was seen to do per second, in products of the graph's types; None where it was not
            measured.
        peak_bandwidth: likewise in bytes, over as much memory as the graph touches: small arrays come from caches,
            which are faster.
        profile: of some further calls.
    """

    timing: Timing
    flops: int
    nbytes: int
    peak_flops: float | None
    peak_bandwidth: float | None
    profile: Profile

    def as_data(self) -> dict[str, Any]:
        """Dictionaries and numbers, for JSON."""
        seconds = self.timing.least
        return {
            "seconds": {
                "min": seconds,
                "median": self.timing.median,
                "max": self.timing.most,
            },
            "runs": self.timing.runs,
            "flops": self.flops,
            "bytes": self.nbytes,
            "flops_per_second": self.flops / seconds,
            "bytes_per_second": self.nbytes / seconds,
            "share_of_peak_flops": _share(self.flops / seconds, self.peak_flops),
            "share_of_peak_bandwidth": _share(self.nbytes / seconds, self.peak_bandwidth),
            "steps": [
                {
                    "partition": line.partition,
                    "kind": line.kind.value,
                    "name": line.name,
                    "implementation": line.implementation,
                    "tensors": list(line.tensors),
                    "seconds": line.seconds / line.calls,
                }
                for line in self.profile.steps
            ],
        }


def _share(value: float, peak: float | None) -> float | None:
    return None if not peak else value / peak


def timed(call: Callable[[], object], seconds: float) -> Timing:
    """Calls for so long, and at least a few times, after a first call that does not count."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < LEAST_RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return Timing(least=min(times), median=statistics.median(times), most=max(times), runs=len(times))


def bench(
    graph: Graph | StagedGraph,
    model: CompiledGraph,
    inputs: Mapping[str, Array],
    *,
    seconds: float = 1.0,
    peak: bool = True,
) -> Benchmark:
    """Times a compiled graph.

    Args:
        graph: finalized, or a model in stages, whose work is that of the graphs that a call runs. model: what it was
            compiled to. inputs: by name.
        seconds: how long to call it.
        peak: whether to measure what the machine can do.
    """
    staged = isinstance(graph, StagedGraph)
    outputs: dict[Key, object] = {} if staged else {t: allocate(t) for t in graph.outputs if t.is_concrete}
    timing = timed(lambda: model(inputs, outputs), seconds)
    with profile() as prof:
        for _ in range(LEAST_RUNS):
            model(inputs, outputs)
    if staged:
        ops = [op for partition in model.partitions for op in partition.ops]
        values: list[object] = [*inputs.values(), *model(inputs).values()]  # lists and text may be among them
        nbytes = sum(cast("Array", one).nbytes for one in values if isinstance(one, np.ndarray))
    else:
        ops = graph.ops
        ends = (*graph.inputs, *graph.constant_tensors, *graph.parameter_tensors, *graph.outputs)
        nbytes = sum(_nbytes(t) for t in ends if t.is_concrete)
    return Benchmark(
        timing=timing,
        flops=sum(map(flops, ops)),
        nbytes=nbytes,
        peak_flops=None if staged or not peak else _peak_of(graph),
        peak_bandwidth=peak_bandwidth(nbytes) if peak else None,
        profile=prof,
    )


def flops_by_type(graph: Graph) -> dict[DataType, int]:
    """Flops of a graph by the type that they are done in: integers behind `Dequantize`, else that of the operands."""
    producers = {t.id: op for op in graph.ops for t in op.outputs}
    found: dict[DataType, int] = {}
    for op in graph.ops:
        count = flops(op)
        if not count:
            continue
        sources = [producers.get(t.id) for t in op.inputs[:2]]
        integers = all(one is not None and one.kind in DEQUANTIZING for one in sources)
        done_in = op.inputs[0].data_type
        if integers:
            done_in = DataType.s8
        elif done_in is DataType.f32:
            done_in = FPMATH_TYPES.get(graph.fpmath_mode, done_in)
        found[done_in] = found.get(done_in, 0) + count
    return found


def _peak_of(graph: Graph) -> float | None:
    """Flops per second of a machine that does each of the graph's products at its type's peak; None without any."""
    counts = flops_by_type(graph)
    least = sum(count / peak_flops(data_type) for data_type, count in counts.items())
    return sum(counts.values()) / least if least else None


def _nbytes(tensor: LogicalTensor) -> int:
    return math.prod(tensor.dims) * itemsize(tensor.data_type)


def flops(op: Op) -> int:
    """Multiplications and additions of a convolution, its gradients, or a matrix product; 0 for other ops and unknown
    shapes.
    """
    family = op.schema.family
    ports = [p.name for p in (*op.input_ports, *op.output_ports)]
    tensors = dict(zip(ports, (*op.inputs, *op.outputs), strict=True))
    if not all(t.is_concrete for t in tensors.values()):
        return 0
    if family == "matmul":
        columns = tensors["src"].dims[-2 if op.attributes.get("transpose_a") else -1]
        return 2 * columns * math.prod(tensors["dst"].dims)
    if family != "convolution":
        return 0
    weights = next((t for name, t in tensors.items() if "weights" in name and "shape" not in name), None)
    forward = [t for name, t in tensors.items() if "src" in name or "dst" in name]
    if weights is None or len(forward) < 2:
        return 0
    # Every weight meets the positions of the side that is not spread by strides, one channel of which each reads.
    positions = min(math.prod(_spatial(op, t)) for t in forward)
    batch = forward[0].dims[0]
    return 2 * batch * positions * math.prod(weights.dims)


def _spatial(op: Op, tensor: LogicalTensor) -> tuple[int, ...]:
    return tensor.dims[2:] if op.attributes.get("data_format") == "NCX" else tensor.dims[1:-1]


def peak_flops(data_type: DataType) -> float:
    """Flops per second of a large matrix product in f32, bf16, f16 or, for s8, of 8-bit integers."""
    graph = Graph()
    sizes = [PEAK_SIZE, PEAK_SIZE]
    if data_type is DataType.s8:
        a = graph.op("Dequantize", graph.input("a", "u8", sizes), scales=[1.0], zps=[0])
        weights = graph.constant(np.ones(sizes, np.int8), name="b")
        b = graph.op("Dequantize", weights, scales=[1.0], zps=[0])
        graph.op("Quantize", graph.op("MatMul", a, b), scales=[1.0], zps=[0], output_type="u8", name="c")
    else:
        a, b = (graph.input(name, data_type, sizes) for name in "ab")
        graph.op("MatMul", a, b, name="c")
    return 2 * PEAK_SIZE**3 / _least(graph)


def peak_bandwidth(nbytes: int = PEAK_BYTES) -> float:
    """Bytes per second that an elementwise op reads and writes.

    Args:
        nbytes: all together, within limits; what no cache holds if left out.
    """
    elements = min(max(nbytes, LEAST_BYTES), PEAK_BYTES) // 8
    graph = Graph()
    graph.op("Abs", graph.input("a", "f32", [elements]), name="c")
    return 8 * elements / _least(graph)


def _least(graph: Graph) -> float:
    model = graph.compile()
    inputs = {label(t): np.ones(t.dims, allocate(t).dtype) for t in graph.inputs}
    outputs = {label(t): allocate(t) for t in graph.outputs}
    return timed(lambda: model(inputs, outputs), PEAK_SECONDS).least


def single_op_graph(kind: str, inputs: Sequence[str], attributes: Sequence[str]) -> Graph:
    """A graph of one op from what stands on a command line.

    Args:
        kind: as in `Op`, or the function of that name.
        inputs: `TYPE:SHAPE`, `f32:16x56x56x64`, say, one for each input.
        attributes: `NAME=VALUE`; the elements of a list with x between them.

    Raises:
        ArgumentError: one is not written so.
        OneDNNGraphError: what they say together breaks a rule.
    """
    try:
        kind = kind_of(kind)
        schema, names = REGISTRY.resolve(kind)
    except UnknownOpError as error:
        raise ArgumentError(f"--op: {error}") from error
    specs = {names.spell(spec.name): spec for spec in schema.attributes}
    values: dict[str, Any] = {}
    for text in attributes:
        name, equals, value = text.partition("=")
        if not equals:
            raise ArgumentError(f"--attr takes NAME=VALUE, such as strides=1x1, got '{text}'")
        if name not in specs:
            raise ArgumentError(f"--attr: {kind} has no attribute '{name}'{nearest(name, specs)}")
        values[name] = attribute_value(value, specs[name].type, f"--attr {name}")
    graph = Graph()
    tensors: list[LogicalTensor] = []
    for number, text in enumerate(inputs):
        data_type, colon, shape = text.partition(":")
        try:
            sizes = [int(size) for size in shape.split("x")] if shape else []
        except ValueError:
            raise ArgumentError(
                f"--in takes TYPE:SHAPE, such as f32:16x56x56x64, got '{text}'; sizes are integers"
            ) from None
        if not colon or min(sizes, default=0) < 0:
            raise ArgumentError(
                f"--in takes TYPE:SHAPE with sizes of 0 or more, such as f32:16x56x56x64, got '{text}'"
            )
        tensors.append(graph.input(f"in{number}", data_type, sizes))
    graph.op(kind, *tensors, **values)
    graph.finalize()
    return graph
