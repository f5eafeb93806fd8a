"""CompiledGraph: all partitions of a graph, in order, in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from ...ops.errors import ArgumentError
from ...ops.values import counted, format_value
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor, label
from ..runtime import profiling
from ..runtime.arguments import target_array
from ..runtime.arrays import Array, numpy_type, pinned
from ..runtime.engine import Engine, Stream, check_engine, default_engine
from ..runtime.memory import MemoryTimeline
from ..runtime.parameter import changing, turns_of
from ..runtime.tensor import allocate, check_array, plain_array
from ..runtime.turns import Turn, in_turn
from .compiled_partition import bytes_of
from .held import Held
from .no_graph import NoGraph
from .options import CompileOptions
from .partition import Partition
from .record import Explanations, Placed
from .signature import Arrays, Bound, Results, Signature, with_outputs
from .state import State
from .targets import check_apart

if TYPE_CHECKING:
    from ..pictures.profile import Profile
    from .report import Report
    from .saving import Source


def _compiled_anew(
    compiler: Callable[[Engine | None], CompiledGraph], engine: tuple[bool, int | None] | None
) -> CompiledGraph:
    """What a pickle of a compiled graph becomes."""
    return compiler(None if engine is None else Engine(machine_code=engine[0], threads=engine[1]))


class CompiledGraph(NoGraph):
    """A graph that runs: call it with arrays, get arrays. Thread-safe.

    A pickle or copy is its description, compiled anew, on that process's default engine if it was on this one's.

    Where it assigns parameters, calls come one after another, those of other models that assign them among these, and
    nobody else may read or write the parameters meanwhile.

    Attributes:
        engine: where it runs.
        inputs, outputs: the graph's tensors.
        input_names, output_names: by which a call takes and returns arrays, in order.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        program: Sequence[Partition],
        signature: Signature,
        held: Held,
        engine: Engine | None,
        options: CompileOptions,
        compiler: Callable[[Engine | None], CompiledGraph],
        graph: GraphCore,
    ) -> None:
        self._begin(signature, engine, compiler)
        self._graph = graph
        self.options = options
        self._partitions = tuple(partitions)
        self._held = held.arrays
        self._assigned = {held.parameters[number]: value for number, value in held.assigned.items()}
        self._turns = turns_of(self._assigned)
        self._changing = {number: held.parameters[number] for number in held.assigned}
        self._stages = [p.compile_in_graph(self.engine, options) for p in program]
        returned = {t.id for t in self.outputs}
        for stage in self._stages:
            stage.between = stage.partition.new_outputs - returned
        in_place = {made for stage in self._stages for made in stage.partition.in_place}
        self._copied = {one: value for one, value in self._assigned.items() if value not in in_place}
        # What is read of a parameter is its value before the run, also where that is over.
        former = {t.id for t in self.outputs} | {*self._copied.values()}
        self._former = [number for number in self._changing if number in former]
        whole = self._stages[0] if len(self._stages) == 1 else None
        self._direct = None if whole is None or self._assigned else whole.direct(signature)
        self._produced = {t.id for stage in self._stages for t in stage.partition.output_ports}
        if options.strategy is not None and all(
            stage.explanation is not None and not stage.explanation.considered for stage in self._stages
        ):
            raise ArgumentError(
                f"strategy {format_value(options.strategy)} can't be taken, for no partition of the "
                f"graph has a choice; "
                "leave strategy out"
            )

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What its calls hold, so that they come one after another with all others that assign the same parameters."""
        return self._turns

    def _begin(
        self,
        signature: Signature,
        engine: Engine | None,
        compiler: Callable[[Engine | None], CompiledGraph],
    ) -> None:
        """Sets what every compiled graph has, also one that is compiled further at each call."""
        self._compiler = compiler
        self.engine = default_engine() if engine is None else engine
        check_engine(self.engine)
        self.engine.check_open()
        self.inputs = signature.inputs
        self.outputs = tuple({t.id: t for _, t in signature.outputs}.values())
        self.input_names = signature.input_names
        self.output_names = signature.output_names
        self._signature = signature
        self._turns: tuple[Turn, ...] = ()
        self._ports = {t.id: t for t in self.inputs}

    def __reduce__(self) -> tuple[Callable[..., CompiledGraph], tuple[object, ...]]:
        self.engine.check_open()
        own = None if self.engine is default_engine() else (self.engine.machine_code, self.engine.threads)
        return _compiled_anew, (self._compiler, own)

    def save_compiled(self, path: str | os.PathLike[str]) -> None:
        """Writes what was compiled to a file for `Graph.load_compiled`: graph, constants, and what was made of them.

        So a process has its first result sooner, and packed weights are in memory once for all processes. The file is
        of use for this version of the package and of oneDNN, this instruction set and this number of threads; elsewhere
        `load_compiled` says so. A model with open sizes is saved for those for which it has been compiled. What
        `tune="measure"` and `tune="online"` have found is looked up where it is loaded, and not measured.

        Args:
            path: of the file. One that is there stays as it is until the new one is whole and on the disk.

        Raises:
            FileAccessError: the file can't be written; that of before is as it was.
            GraphFileError: a graph that no file can hold, as one whose ops speak to other processes.
            UnsupportedError: the model runs in stages. ArgumentError: it has been compiled for no sizes yet.
            ResourceError: the engine is closed. ArgumentTypeError: no path.
        """
        from .saving import save

        self.engine.check_open()

        def saved() -> None:
            sources, ports, options = self.sources()
            save(path, sources, ports, self.engine, options)

        # Calls that assign parameters come before or behind it, or it would have a part of what they do.
        in_turn(self.turns, saved)

    def sources(self) -> tuple[Sequence[Source], Signature | None, CompileOptions]:
        """What was compiled, for `saving.save`; everything has made of constants what it makes of them."""
        from .saving import Source

        for stage in self._stages:
            stage.settle()
        return [Source(self._graph)], None, self.options

    @property
    def computed_shape_operand(self) -> LogicalTensor | None:
        """A tensor that the graph computes and on whose values shapes depend; None where there is none."""
        parts = (stage.partition for stage in self._stages)
        found = (
            t for p in parts for t in p.input_ports if t.id in p.shape_operands and t.id in self._produced
        )
        return next(found, None)

    def __call__(
        self,
        /,
        *arrays: object,
        outputs: Arrays | Sequence[object] | None = None,
        stream: Stream | None = None,
        **named: object,
    ) -> Results:
        """Runs the graph.

        Args:
            arrays: inputs in order: an array, Tensor or anything with `__dlpack__` each. Or one mapping to them from
                the inputs' names, ids or LogicalTensors; behind it `outputs` may stand.
            outputs: arrays to write to, by the output's name, id or LogicalTensor, or a list in order; the others are
                allocated.
            stream: a stream of the engine; None for the engine's own order.
            named: inputs by name. One that is called `outputs` or `stream` is given by position or in a mapping.

        Returns:
            The outputs by name, as NumPy arrays.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an input is missing, unknown, given twice, or
                does not fit its tensor.
            ResourceError: the engine is closed.
        """
        self.engine.check_open()
        plain = outputs is None and stream is None and not (named or profiling.recordings)
        if plain and self._direct is not None and (made := self._direct.of(arrays)) is not None:
            return Results(dict(zip(self.output_names, made, strict=True)), self._signature)
        arrays, outputs = with_outputs(arrays, outputs)
        values = self._taken(arrays, named)
        targets = self._signature.outputs_of(outputs)
        if targets:
            self._check_targets(values, targets)
        if not self._assigned:
            return self._run(stream, values, targets)
        return changing(self._assigned, self._turns, lambda: self._run(stream, self._apart(values), targets))

    def _run(self, stream: Stream | None, values: dict[int, Array], targets: Mapping[str, object]) -> Results:
        """A call, with checked arguments."""
        former = {number: self._changing[number].array.copy() for number in self._former}
        written = self._written(targets)
        for stage in self._stages:
            ports = stage.partition
            results = stage.execute(
                stream,
                [values.get(t.id) for t in ports.input_ports],
                [written.get(t.id) for t in ports.output_ports],
            )
            for tensor, array in zip(ports.output_ports, results, strict=True):
                values[tensor.id] = array
        values |= former
        for parameter, value in self._copied.items():
            np.copyto(parameter.array, self._plain(values, value))
        return Results(self._returned(values, targets, written), self._signature)

    def _apart(self, values: Mapping[int, Array]) -> dict[int, Array]:
        """The inputs, copied where they are memory of parameters that change in the run."""
        assigned = [parameter.array for parameter in self._assigned]
        return {
            number: array.copy() if any(np.may_share_memory(array, one) for one in assigned) else array
            for number, array in values.items()
        }

    def bind(
        self, inputs: Arrays | Sequence[object], outputs: Arrays | Sequence[object] | None = None
    ) -> Bound:
        """A callable that runs the whole graph on these very arrays, with everything prepared once.

        The arrays are kept alive by the callable and must have the tensors' strides, for no copies are made. They
        can't be resized in place as long as it lives. What shapes depend on is read now. It is for one thread at a
        time; bind once per thread.

        Args:
            inputs: by name, id or LogicalTensor, or a list in order.
            outputs: arrays to write to, likewise; the others are allocated, once.

        Returns:
            A callable without arguments, which returns the outputs by name: the same arrays at every call, with the
            values of the latest.

        Raises:
            ArgumentError and others: as for a call, for an array that would need a copy, and for a graph that
                computes values which shapes depend on.
        """
        self.engine.check_open()
        values = self._taken(self._signature.listed_inputs(inputs), {})
        targets = self._signature.outputs_of(outputs)
        self._check_targets(values, targets)
        written = self._written(targets)
        former = {number: np.empty_like(self._changing[number].array) for number in self._former}
        calls: list[Callable[[], object]] = [
            partial(np.copyto, array, self._changing[number].array) for number, array in former.items()
        ]
        assigned = [parameter.array for parameter in self._assigned]
        for number, array in values.items():
            if any(np.may_share_memory(array, one) for one in assigned):
                raise ArgumentError(
                    f"input {label(self._ports[number])!r} must not be memory of a parameter that the graph assigns, "
                    "to be bound; pass a copy"
                )
        computed = self.computed_shape_operand
        if computed is not None:
            raise ArgumentError(
                f"the graph can't be bound, for it computes {computed}, on whose values shapes depend; call it instead"
            )
        for stage in self._stages:
            part = stage.partition
            ins = [values.get(t.id) for t in part.input_ports]
            outs = [
                part.in_place[t.id]
                if t.id in part.in_place
                else written[t.id]
                if t.id in written
                else allocate(t)
                for t in stage.outputs_for(ins)
            ]
            calls.append(stage.bind_ports(ins, outs))
            for tensor, array in zip(part.output_ports, outs, strict=True):
                values[tensor.id] = cast("Array", array)
        values |= former
        copies = [(one.array, self._plain(values, value)) for one, value in self._copied.items()]
        made = self._produced.difference(written)
        bound: dict[str, Array] = {}
        for name, tensor in self._signature.outputs:
            source = self._plain(values, tensor.id)
            if name not in targets and tensor.id in made:
                made.discard(tensor.id)  # another output of the tensor has an array of its own
                bound[name] = source
                continue
            given = targets.get(name)
            if given is None:
                bound[name] = np.empty(source.shape, numpy_type(tensor.data_type))
            else:
                bound[name] = target_array(name, tensor, given)
            if given is None or given is not written.get(tensor.id):
                copies.append((bound[name], source))
        results = Results(bound, self._signature)
        calls += [partial(np.copyto, target, source) for target, source in copies]
        keep = pinned([array for pair in copies for array in pair])

        def run(keep_alive: tuple[object, ...] = (keep, values)) -> None:
            del keep_alive
            for call in calls:
                call()

        if not self._assigned:
            return Bound(run, results)
        return Bound(partial(changing, tuple(self._assigned), self._turns, run), results)

    # --- arrays of a call ---

    def _taken(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[int, Array]:
        """The inputs, checked, by tensor id."""
        taken: dict[int, Array] = {}
        for number, value in self._signature.inputs_of(arrays, named).items():
            port = self._ports[number]
            what = f"input {label(port)!r}"
            array = plain_array(value, what)
            check_array(array, port, what)
            taken[number] = array
        return taken

    def _written(self, targets: Mapping[str, object]) -> dict[int, object]:
        """What partitions write to, by tensor id: of several arrays for one tensor the first."""
        written: dict[int, object] = {}
        for name, tensor in self._signature.outputs:
            if name in targets and tensor.id in self._produced:
                written.setdefault(tensor.id, targets[name])
        return written

    def _returned(
        self, values: Mapping[int, Array], targets: Mapping[str, object], written: Mapping[int, object]
    ) -> dict[str, Array]:
        """The results by name, each memory of its own: inputs, constants and what has two names are copied."""
        returned: dict[str, Array] = {}
        taken = set(written)
        for name, tensor in self._signature.outputs:
            if name in targets and targets[name] is not written.get(tensor.id):
                array = target_array(name, tensor, targets[name])
                np.copyto(array, self._plain(values, tensor.id))
                value = targets[name]
                returned[name] = value if isinstance(value, np.ndarray) else array
            elif tensor.id in self._produced:
                array = values[tensor.id]
                returned[name] = array if name in targets or tensor.id not in taken else array.copy()
                taken.add(tensor.id)
            else:
                returned[name] = self._plain(values, tensor.id).astype(numpy_type(tensor.data_type))
        return returned

    def _plain(self, values: Mapping[int, Array], number: int) -> Array:
        """The elements of a tensor once the graph has run."""
        return values[number] if number in values else self._held[number]

    def _check_targets(self, values: Mapping[int, Array], targets: Mapping[str, object]) -> None:
        """Before anything is computed: constants, what later parts read, and what can't be written to."""
        copies = len(self._signature.outputs) > len(self._produced.intersection(t.id for t in self.outputs))
        parts = len(self._stages) + (copies or not self._produced.issuperset(self._copied.values()))
        names = {t.id: name for name, t in zip(self.input_names, self.inputs, strict=True)}
        inputs = {names[number]: array for number, array in values.items()}
        check_apart(targets, self._held.values(), inputs, parts)
        written = self._written(targets)
        for name, tensor in self._signature.outputs:
            if name in targets and (self._assigned or targets[name] is not written.get(tensor.id)):
                made = tensor.id in self._produced
                known = tensor if made else tensor.with_shape(self._plain(values, tensor.id).shape)
                target_array(name, known, targets[name])

    # --- what it is ---

    @property
    def state(self) -> State:
        """Its parameters by name, of which those that calls assign change from call to call: to be read, and set."""
        graph = cast("GraphCore | None", vars(self).get("_graph"))
        return State([] if graph is None else [graph])

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The graph's partitions, in order of execution, each with the backend that runs it, as `explain()` tells."""
        found = self.placed()
        return tuple(part.run_by(found[part.id]) for part in self._partitions)

    def placed(self) -> dict[int, tuple[Placed, ...]]:
        """Where the ops of each partition run, by its id."""
        return {number: told for stage in self._stages for number, told in stage.record.items()}

    @property
    def memory_bytes(self) -> int:
        """Memory that a call needs beside its arguments, results and the graph's constants, in bytes.

        Temporaries, and what was made of constants, as far as backends plan them and for the shapes that were met so
        far. Of calls at the same time each has temporaries of its own, as `bind` has.
        """
        return bytes_of(self.memory())

    def memory(self) -> dict[object, int]:
        """Bytes of all that `memory_bytes` counts, each by what stands for it, so that what is shared is known."""
        found: dict[object, int] = {}
        for stage in self._stages:
            between = [t.nbytes for t in stage.outputs if t.id in stage.between and t.is_concrete]
            found |= {stage: sum(between), **stage.memory()}
        return found

    @property
    def memory_timeline(self) -> MemoryTimeline:
        """The memory of an execution, step by step: of everything that was compiled so far. Print it."""
        return MemoryTimeline(
            tuple(source.stage() for stage in self._stages for source in stage.memory_sources())
        )

    def explain(self) -> Explanations:
        """What was chosen for each partition, by partition id. Print it.

        A partition of unknown shapes, or with a shape operand, is compiled at execution, once for each of them: it
        tells of this thread's latest call, and is None where this thread has made none.
        """
        return Explanations(
            {number: told for stage in self._stages for number, told in stage.explanations_of_parts().items()}
        )

    def report(self, /, *arrays: object, repeat: int = 3, **named: object) -> Report:
        """Runs the graph on these inputs, after one call to warm up, and says who did what.

        Args:
            arrays, named: as for a call.
            repeat: how many calls are measured; times are means.

        Raises:
            ArgumentError and others: as for a call.
        """
        from .report import reported

        def call() -> None:
            self(*arrays, **named)  # pyright: ignore[reportArgumentType] -- of inputs called `outputs` or `stream`

        return reported(call, self._seconds_beside, lambda: (len(self.partitions), self._record()), repeat)

    def _seconds_beside(self) -> Mapping[str, float]:
        """Who ran what is in no partition in this thread's latest call, and how long."""
        return {}

    def _record(self) -> list[Placed]:
        """Where each op runs."""
        return [one for placed in self.placed().values() for one in placed]

    def to_html(self, path: str | os.PathLike[str], *, profile: Profile | None = None) -> None:
        """Draws what was compiled into one page of HTML, as `Graph.to_html` does.

        Args:
            path: of the file.
            profile: of executions of it; adds times.

        Raises:
            GraphFileError: the file can't be written.
            ArgumentTypeError: no path.
        """
        from ..pictures.drawing import compiled_to_html

        compiled_to_html(self, path, profile=profile)

    def _repr_html_(self) -> str:
        """For notebooks: what was compiled, as `Graph.to_html` draws it."""
        from ..pictures.drawing import compiled_in_notebook

        return compiled_in_notebook(self)

    def __repr__(self) -> str:
        ins, outs = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"CompiledGraph({ins} → {outs}; {counted(len(self.partitions), 'partition')})"
