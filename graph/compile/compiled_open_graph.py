"""CompiledOpenGraph: a graph that is made, and compiled, for each set of input sizes that calls bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import local
from typing import TYPE_CHECKING

from ...ops.errors import ArgumentError
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array
from ..runtime.caching import BoundedCache
from ..runtime.engine import Engine, Stream
from ..runtime.memory import MemoryTimeline
from ..runtime.turns import Turn, in_order
from .compiled_graph import CompiledGraph
from .compiled_partition import bytes_of
from .options import CompileOptions, compiled_again
from .partition import Partition
from .record import Explanations
from .signature import Arrays, Bound, Results, Signature, with_outputs
from .state import State

if TYPE_CHECKING:
    from .report import Report
    from .saving import Source

InputShapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The inputs' names and shapes, in order."""


class CompiledOpenGraph(CompiledGraph):
    """What `compile` makes of a graph whose ops depend on sizes that are left open. Thread-safe.

    The first call with inputs of some sizes makes the graph for them and compiles it; the latest are kept.
    `partitions` and `explain()` tell of this thread's latest call.

    Args:
        signature: inputs and outputs, with -1 for sizes that are left open.
        engine: where it runs.
        make: from the inputs' shapes by name to what runs for them.
        compiler: makes the same again on another engine, for copies and pickles.
        kept_shapes: see `CompileOptions`.
        holders: gives graphs that hold all parameters.
    """

    def __init__(
        self,
        signature: Signature,
        engine: Engine | None,
        make: Callable[[Mapping[str, tuple[int, ...]]], CompiledGraph],
        compiler: Callable[[Engine | None], CompiledGraph],
        kept_shapes: int,
        holders: Callable[[], Sequence[GraphCore]] = tuple,
    ) -> None:
        self._begin(signature, engine, compiler)
        self._holders = holders
        self._make = make
        self._made: BoundedCache[InputShapes, CompiledGraph] = BoundedCache(
            kept_shapes, compiled_again(kept_shapes)
        )
        self._latest = local()

    def __call__(
        self,
        /,
        *arrays: object,
        outputs: Arrays | Sequence[object] | None = None,
        stream: Stream | None = None,
        **named: object,
    ) -> Results:
        """Runs the graph for the sizes of these inputs; see `CompiledGraph`.

        Raises:
            UnsupportedError: for these sizes, the graph has ops that can't be translated or run.
        """
        self.engine.check_open()
        arrays, outputs = with_outputs(arrays, outputs)
        given = self._by_name(arrays, named)
        made = self._for(given)(given, outputs=self._signature.outputs_of(outputs), stream=stream)
        return Results(dict(made), self._signature)

    def bind(
        self, inputs: Arrays | Sequence[object], outputs: Arrays | Sequence[object] | None = None
    ) -> Bound:
        """A callable that runs the graph for the sizes of these very arrays; see `CompiledGraph`."""
        self.engine.check_open()
        given = self._by_name(self._signature.listed_inputs(inputs), {})
        return self._for(given).bind(given, self._signature.outputs_of(outputs))

    def sources(self) -> tuple[Sequence[Source], Signature | None, CompileOptions]:
        """See `CompiledGraph.sources`; of each set of sizes that is kept."""
        from .saving import Source, check_compiled

        kept = [(shapes, *made.sources()) for shapes, made in self._made.values().items()]
        found = [Source(one.graph, shapes) for shapes, sources, _, _ in kept for one in sources]
        check_compiled(found)
        return found, self._signature, kept[0][-1]

    def _by_name(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[str, Array]:
        """The inputs, checked as far as sizes are known, by name."""
        taken = self._taken(arrays, named)
        missing = [label(t) for t in open_ports(self.inputs) if t.id not in taken]
        if missing:
            raise ArgumentError(
                f"input {missing[0]!r} is missing; the graph takes {', '.join(map(repr, self.input_names))}"
            )
        return {
            name: taken[t.id] for name, t in zip(self.input_names, self.inputs, strict=True) if t.id in taken
        }

    def _for(self, given: Mapping[str, Array]) -> CompiledGraph:
        """What runs for inputs of these sizes."""
        shapes = {name: array.shape for name, array in given.items()}
        made = self._made.get(tuple(shapes.items()), lambda: self._make(shapes))
        self._latest.made = made
        return made

    @property
    def turns(self) -> tuple[Turn, ...]:
        """See `CompiledGraph.turns`; of all sizes that are kept."""
        return in_order(turn for made in self._made.values().values() for turn in made.turns)

    @property
    def _asked_of(self) -> CompiledGraph | None:
        """What this thread has called last."""
        return getattr(self._latest, "made", None)

    @property
    def state(self) -> State:
        """See `CompiledGraph.state`; of all sizes, which share it, also before the first call."""
        return State(self._holders())

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Of this thread's latest call, in order of execution; none before."""
        return () if self._asked_of is None else self._asked_of.partitions

    @property
    def memory_bytes(self) -> int:
        """Memory beside arguments, results and constants, for all sizes that are kept, in bytes."""
        return bytes_of(self.memory())

    def memory(self) -> dict[object, int]:
        """See `CompiledGraph.memory`; sizes share what they make alike of constants."""
        return {key: size for made in self._made.values().values() for key, size in made.memory().items()}

    @property
    def memory_timeline(self) -> MemoryTimeline:
        """See `CompiledGraph.memory_timeline`; of all sizes that are kept, one after another."""
        made = self._made.values().values()
        return MemoryTimeline(tuple(stage for one in made for stage in one.memory_timeline.stages))

    def explain(self) -> Explanations:
        """What was chosen for each partition at this thread's latest call; empty before."""
        return Explanations() if self._asked_of is None else self._asked_of.explain()

    def report(self, /, *arrays: object, repeat: int = 3, **named: object) -> Report:
        """Runs the graph for the sizes of these inputs and says who did what; see `CompiledGraph`."""
        given = self._by_name(arrays, named)
        return self._for(given).report(given, repeat=repeat)

    def _repr_html_(self) -> str:
        return repr(self) if self._asked_of is None else self._asked_of._repr_html_()

    def __repr__(self) -> str:
        ins, outs = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"CompiledOpenGraph({ins} → {outs}; compiled for {len(self._made)} sets of input sizes)"


def open_ports(inputs: Sequence[LogicalTensor]) -> list[LogicalTensor]:
    """The inputs of which a size, or the rank, is not known."""
    return [t for t in inputs if t.shape is None or -1 in t.shape]
