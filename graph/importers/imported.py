"""What an importer returns: a graph with its constants, and how to run it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

from ...ops.errors import ArgumentError, nearest
from ...ops.values import format_value
from ..compile.compiled_graph import CompiledGraph
from ..compile.options import Tune
from ..compile.partitioner import Policy
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array, as_array
from ..runtime.engine import Engine
from ..runtime.profiling import Profile, profile


@frozen(kw_only=True, eq=False)
class Report:
    """Who ran how much of a model.

    Attributes:
        partitions: how many there are.
        ops: op counts by backend.
        seconds: time in partitions by backend, of one call.
        profile: everything that was measured, of all calls.
    """

    partitions: int
    ops: Mapping[str, int]
    seconds: Mapping[str, float]
    profile: Profile

    @property
    def onednn_share(self) -> float:
        """The share of the partitions' time that oneDNN had, 0 to 1."""
        total = sum(self.seconds.values())
        return self.seconds.get("onednn", 0.0) / total if total else 0.0

    def __str__(self) -> str:
        total = sum(self.ops.values())
        parts = ", ".join(
            f"{self.ops[name]} of {total} ops and {self.seconds.get(name, 0.0) * 1e3:.2f} ms on {name}"
            for name in sorted(self.ops, key=lambda name: name != "onednn")
        )
        return f"{self.partitions} partitions: {parts}; {self.onednn_share:.0%} of the time on oneDNN"


class ImportedModel:
    """A compiled model: call it with arrays, get arrays. Thread-safe.

    Attributes:
        compiled: the graph behind it, which takes the weights too.
        inputs, outputs: names, in order.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        constants: Mapping[str, Array],
        inputs: tuple[str, ...],
        results: Mapping[str, LogicalTensor | Array],
    ) -> None:
        self.compiled = compiled
        self.inputs = inputs
        self.outputs = tuple(results)
        self._constants = dict(constants)
        self._results = dict(results)
        self._read = {tensor.name for tensor in compiled.inputs}

    def __call__(self, *arrays: object, **named: object) -> dict[str, Array]:
        """Runs the model.

        Args:
            arrays: inputs in order: arrays, or anything with `__dlpack__`. One mapping from names to arrays
                does too, for names that Python can't write as keywords.
            named: inputs by name.

        Returns:
            Output name → array.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an input is missing, unknown, given
                twice, or does not fit.
        """
        given = self._named(arrays, named)
        taken = {name: value for name, value in given.items() if name in self._read}
        computed = self.compiled({**self._constants, **taken})
        results: dict[str, Array] = {}
        for name, source in self._results.items():
            if not isinstance(source, LogicalTensor):
                results[name] = source.copy()
            elif source.name in given:
                results[name] = as_array(given[source.name], f"input {source.name!r}").copy()
            else:
                results[name] = computed[cast("Any", source)]
        return results

    def _named(self, arrays: tuple[object, ...], named: Mapping[str, object]) -> dict[str, object]:
        given: dict[str, object] = dict(named)
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            given.update(cast("Mapping[str, object]", arrays[0]))
            arrays = ()
        takes = ", ".join(map(repr, self.inputs))
        if len(arrays) > len(self.inputs):
            raise ArgumentError(f"the model takes {len(self.inputs)} inputs, {takes}, got {len(arrays)}")
        for name, array in zip(self.inputs, arrays, strict=False):
            if name in given:
                raise ArgumentError(f"input {name!r} is given twice, by position and by name; give it once")
            given[name] = array
        for name in given:
            if name not in self.inputs:
                raise ArgumentError(
                    f"the model has no input {format_value(name)}{nearest(name, self.inputs)}; it has {takes}"
                )
        missing = [name for name in self.inputs if name not in given]
        if missing:
            raise ArgumentError(f"input {missing[0]!r} is missing; the model takes {takes}")
        return given

    def report(self, *arrays: object, repeat: int = 3, **named: object) -> Report:
        """Runs the model on these inputs, after one call to warm up, and says who did what.

        Args:
            arrays, named: as for a call.
            repeat: how many calls are measured; times are means.

        Raises:
            ArgumentError and others: as for a call.
        """
        if repeat < 1:
            raise ArgumentError(f"repeat must be at least 1, got {format_value(repeat)}")
        self(*arrays, **named)
        with profile() as prof:
            for _ in range(repeat):
                self(*arrays, **named)
        explained = self.compiled.explain()
        ops: dict[str, int] = {}
        for partition in self.compiled.partitions:
            made = explained[partition.id]
            backend = made.backend if made is not None else str(partition.backend)
            ops[backend] = ops.get(backend, 0) + len(partition.ops)
        seconds: dict[str, float] = {}
        for line in prof.partitions:
            seconds[line.implementation] = seconds.get(line.implementation, 0.0) + line.seconds / repeat
        return Report(partitions=len(self.compiled.partitions), ops=ops, seconds=seconds, profile=prof)

    def __repr__(self) -> str:
        return (
            f"ImportedModel({', '.join(self.inputs)} → {', '.join(self.outputs)}; "
            f"{len(self.compiled.partitions)} partitions)"
        )


@frozen(kw_only=True, eq=False)
class Imported:
    """A model as a graph.

    Attributes:
        graph: its ops, with sizes as far as they are known; not finalized, so more can be built onto it.
        constants: name of a graph input with property_type constant → its array: weights and the like.
        inputs: names of the model's inputs, in order; a graph input has the same name where an op reads it.
        results: output name → the tensor of the graph that it is, or an array where it is constant.
    """

    graph: Graph
    constants: Mapping[str, Array]
    inputs: tuple[str, ...]
    results: Mapping[str, LogicalTensor | Array]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's outputs, in order."""
        return tuple(self.results)

    def compile(
        self,
        engine: Engine | None = None,
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
        verify: bool = False,
        tune: Tune | str | None = None,
        scratch_limit: int | None = None,
    ) -> ImportedModel:
        """Finalizes the graph and compiles it, with the constants bound in.

        Args:
            engine, policy, backend, verify, tune, scratch_limit: see `Graph.compile`.

        Raises:
            UnsupportedError, GraphError, ShapeError: see `Graph.compile`.
        """
        compiled = self.graph.compile(
            engine, policy=policy, backend=backend, verify=verify, tune=tune, scratch_limit=scratch_limit
        )
        return ImportedModel(compiled, self.constants, self.inputs, self.results)

    def __repr__(self) -> str:
        return (
            f"Imported({', '.join(self.inputs)} → {', '.join(self.outputs)}; {len(self.graph.ops)} ops, "
            f"{len(self.constants)} constants)"
        )
