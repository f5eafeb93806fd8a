"""The backend `native`: ops go to the library's own Graph API, in the partitions that its partitioner makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any

from attrs import Factory, field

from ...graph.compile.backend import SINGLE_OP_PRIORITY, CompileRequest, Pattern
from ...graph.model.logical_tensor import LogicalTensor, as_plain
from ...graph.model.op import Op
from ...graph.runtime import profiling
from ...graph.runtime.arrays import Array, address
from ...graph.runtime.engine import Engine
from ...graph.runtime.executable import Executable, Explanation
from ...graph.runtime.profiling import EventKind
from ...graph.runtime.threads import get_num_threads
from ...ops.errors import LibraryError
from ...ops.records import frozen
from ..onednn.library import fork
from ..onednn.library.engines import native_engine
from ..onednn.library.loading import load
from .api import POLICY_DEBUG, POLICY_FUSION
from .graph import Frame, NativeGraph
from .limits import why_not, why_not_together
from .partitions import LibraryPartitions


@frozen(eq=False)
class NativeExecutable:
    """Compiled partitions of the library on arrays. Frames that no thread uses wait in a list."""

    graph: NativeGraph
    engine: Engine
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    explanation: Explanation = field(repr=False)
    _frames: list[Frame] = Factory(list[Frame])

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """One call into the library for each of its partitions."""
        arrays = (*inputs, *outputs)

        def run() -> None:
            try:
                frame = self._frames.pop()
            except IndexError:
                frame = self.graph.frame()
            frame.point([address(array) for array in arrays])
            self._execute(frame)
            self._frames.append(frame)

        fork.run(run)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with addresses and arguments prepared."""
        arrays = (*inputs, *outputs)
        frame = self.graph.frame()
        frame.point([address(array) for array in arrays], arrays)
        engine = self.engine

        def call() -> None:
            engine.check_open()
            fork.run(self._execute, frame)

        return call

    def _execute(self, frame: Frame) -> None:
        """On as many threads as the library has compiled for."""
        threads = self.explanation.threads
        with nullcontext() if threads is None else load().using(threads):
            if profiling.recordings:
                frame.run_each(_recorded)
            else:
                frame()


def _recorded(label: str, execute: Callable[[], Any]) -> int:
    start = perf_counter()
    status = execute()
    profiling.record(EventKind.primitive, label, "native oneDNN Graph", (), start, perf_counter())
    return int(status)


@frozen(eq=False)
class EndExecutable:
    """End computes nothing."""

    inputs: tuple[LogicalTensor, ...]
    engine: Engine
    outputs: tuple[LogicalTensor, ...] = ()

    @property
    def explanation(self) -> Explanation:
        """Nothing runs."""
        return Explanation(
            backend="native", strategy="End marks outputs", implementations=(), scratch_bytes=0
        )

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Does nothing."""

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """A callable that does nothing."""
        return self.engine.check_open


class NativeBackend:
    """See `graph.backend.Backend`. It takes part only where it is asked for by name.

    Its partitions are those that the library's partitioner makes, under the policy that was asked for. What they
    compute is native oneDNN Graph's: wrong numbers of it are not mended here. Known in 3.2 are

    * pooling and interpolation with binary ops behind them whose other operand is a whole tensor, which it misplaces,
      and now and then a product with such an operand that broadcasts;
    * `ConvTransposeBackwardWeights` with `auto_pad` SAME_* where the stride does not divide the size;
    * `Quantize` and `Dequantize` with a zero point per channel;
    * the running statistics of `BatchNormForwardTraining` without `momentum`, `BatchNormTrainingBackward` without
      gamma, and the statistics of `LayerNorm` on data that is not row-major;
    * weight gradients by kernels that the backend `onednn` has in quarantine: some in bf16 with groups and few
      channels, in bf16 with 3-D kernels, and 1x1 with strides and few channels.

    `compile(verify=True)` refuses a partition that is wrong on integer data. Content of constant inputs may change
    from call to call: the library is not told that they are constant, and prepares weights at each execution.
    """

    name = "native"
    plans_with = ()

    def __init__(self) -> None:
        self._partitions = LibraryPartitions()
        self.patterns: tuple[Pattern, ...] = (
            Pattern("partition of the library", SINGLE_OP_PRIORITY + 1, self._pattern(POLICY_FUSION)),
            Pattern("single op of the library", SINGLE_OP_PRIORITY, self._pattern(POLICY_DEBUG)),
        )

    def _pattern(self, policy: int) -> Callable[[Op, Any], tuple[Op, ...] | None]:
        return lambda op, topology: self._partitions.starting_at(op, topology, policy)

    def unavailable(self) -> str | None:
        """Why the library can't be loaded, or has no Graph API, or None."""
        try:
            library = load()
        except LibraryError as error:
            return str(error)
        if not library.capabilities.graph_api:
            return f"{library.path} was built without oneDNN Graph, ONEDNN_BUILD_GRAPH=OFF"
        return None

    def why_not(self, ops: Sequence[Op]) -> str | None:
        """The reason of the first op that must not reach the library, or that its partitioner has left alone."""
        for op in ops:
            reason = why_not(op)
            if reason is not None:
                return reason
        return why_not_together(ops) or self._partitions.why_left(ops)

    def compile(self, request: CompileRequest) -> tuple[Executable]:
        """The library's compiled partition; several where it makes more of the ops now that shapes are known.

        Raises:
            UnsupportedError: the library can't compile it, or must not be asked.
        """
        ops = tuple(op for op in request.ops if op.kind != "End")
        if not ops:
            return (EndExecutable(request.inputs, request.engine),)
        engine = native_engine(request.engine)
        outputs = tuple(as_plain(t) for t in request.outputs)

        def compiled() -> tuple[NativeGraph, int]:
            asked = request.options.threads or request.engine.threads or get_num_threads()
            with engine.lib.using(engine.lib.granted(asked)):
                made = NativeGraph(
                    ops, request.inputs, outputs, engine=engine, fpmath_mode=request.fpmath_mode
                )
                return made, engine.lib.threads

        graph, threads = fork.run(compiled)
        chains = tuple("+".join(op.kind for op in members) for members in graph.partitions)
        executable = NativeExecutable(
            graph,
            request.engine,
            request.inputs,
            outputs,
            Explanation(
                backend=self.name,
                strategy="native oneDNN Graph's choice"
                + (f", in {len(chains)} of its partitions" if len(chains) > 1 else ""),
                implementations=tuple(f"native:{chain}" for chain in chains),
                scratch_bytes=None,
                threads=threads,
            ),
        )
        return (executable,)
