"""CompiledPartition: a partition that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from warnings import warn

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value, integer
from ..model.logical_tensor import LogicalTensor, evolve_tensor, label
from ..runtime import profiling
from ..runtime.arguments import listed_arguments
from ..runtime.arrays import Array, as_array
from ..runtime.cached import cached
from ..runtime.direct import DirectCall
from ..runtime.engine import Engine, Stream
from ..runtime.executable import Executable, Explanation
from ..runtime.tensor import Tensor, allocate
from .options import CompileOptions
from .record import Explanations, Placed, placed
from .signature import Arrays, Bound, Results, Signature, with_outputs
from .specialisations import Specialisation, Specialisations, Specialised
from .stage_memory import ExecutedMemory
from .subgraph import Subgraph


class PartitionExplanations(Explanations):
    """Those of one compiled partition, which in former versions were one `Explanation`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Explanation, name):
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        warn(
            f"CompiledPartition.explain().{name} is deprecated and will be removed in 0.4, for explain() tells of "
            f"partitions by their ids everywhere; use explain().only.{name}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(self.only, name)


class CompiledPartition:
    """A partition compiled for concrete tensors. Executing it is thread-safe.

    With a shape operand among the inputs, and within a graph where shapes are unknown too, there is an executable for
    each value that was met, the latest 16 of them. `outputs`, `backend`, `explanation` and `query_logical_tensor` then
    tell of the latest call of `execute` or `bind` on the thread that asks; what other threads do does not change
    them. `explanations` has all executables.

    Attributes:
        partition: the `Partition` that it was compiled from.
        engine: where it runs.
        inputs: the tensors it takes, in port order.
        inplace_ports: pairs (input id, output id) that may share memory; no weight gradient has any.
        between: ids of outputs that are memory of a graph which runs in stages, until its call is over.
    """

    def __init__(
        self,
        partition: Subgraph,
        inputs: tuple[LogicalTensor, ...],
        outputs: tuple[LogicalTensor, ...],
        engine: Engine,
        options: CompileOptions,
    ) -> None:
        self.partition = partition
        self.engine = engine
        self.inputs = inputs
        self.inplace_ports: tuple[tuple[int, int], ...] = ()
        self.between: frozenset[int] = frozenset()
        self._declared_outputs = outputs
        self._special = Specialisations(partition, inputs, outputs, engine, options)

    @property
    def executable(self) -> Executable | None:
        """What runs, where shapes and shape operands were all known at compile; else None."""
        only = self._special.only
        return None if only is None else only.arguments.executable

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The output tensors with layouts chosen; as declared where this thread has not called it yet."""
        known = self._special.latest
        return self._declared_outputs if known is None else known.arguments.executable.outputs

    def outputs_for(self, inputs: Sequence[object]) -> tuple[LogicalTensor, ...]:
        """The output tensors with the shapes and layouts that an execution with these inputs has."""
        return self._special.of(inputs).arguments.executable.outputs

    @property
    def memory_bytes(self) -> int:
        """Temporary memory of one execution and what was made of constants, in bytes, as far as the backend plans it.

        Of everything that is kept for the shapes and values that were met so far; what these share counts once.
        """
        return bytes_of(self.memory())

    def memory(self) -> dict[object, int]:
        """Bytes of all that `memory_bytes` counts, each by what stands for it, so that what is shared is known."""
        found: dict[object, int] = {}
        for one in self._special.kept():
            found[one] = one.explanation.scratch_bytes or 0
            made = one.arguments.made()
            if made is None:
                found[one.arguments] = one.explanation.prepared_bytes
            else:
                found |= {constant: constant.nbytes for constant in made}
        return found

    def memory_sources(self) -> list[ExecutedMemory]:
        """What tells of the memory of all that is kept, step by step."""
        return [self._memory_of(one) for one in self._special.kept()]

    def _memory_of(self, found: Specialised) -> ExecutedMemory:
        return ExecutedMemory(self.partition, found.arguments, found.built, self.between, self._special.open)

    def direct(self, signature: Signature) -> DirectCall | None:
        """Calls of a graph that it computes alone, with plain arrays; None where a call may need more than that."""
        given, returned = [t.id for t in signature.inputs], [t.id for _, t in signature.outputs]
        only = self._special.only
        if only is None or len({*returned}) < len(returned):
            return None
        return only.arguments.direct(given, returned, signature.input_names)

    def settle(self) -> None:
        """Has all that is kept make what it makes of constants, before it is first executed."""
        for one in self._special.kept():
            one.arguments.settle()

    @property
    def backend(self) -> str:
        """Name of the backend that runs it; the claiming one where this thread has not called it yet."""
        explanation = self.explanation
        return str(self.partition.backend) if explanation is None else explanation.backend

    @property
    def specialisations(self) -> int:
        """How many executables for shapes and values of shape operands are kept now."""
        return len(self._special.met())

    @property
    def explanation(self) -> Explanation | None:
        """What was chosen and why; None where it is chosen at execution and this thread has not called it yet."""
        known = self._special.latest
        return None if known is None else known.explanation

    @property
    def explanations(self) -> dict[Specialisation, Explanation]:
        """What was chosen for each of the shapes and values that are kept now, whichever thread brought them."""
        return {key: one.explanation for key, one in self._special.met().items()}

    def explain(self) -> Explanations:
        """What was chosen and why, by partition id, as a compiled graph tells it. Print it.

        What is compiled at execution tells of this thread's latest call, and is None where this thread has made none.
        """
        return PartitionExplanations(self.explanations_of_parts())

    def query_logical_tensor(self, id: int) -> LogicalTensor:  # noqa: A002 -- oneDNN Graph's name
        """The input or output of that id, with its shape and layout as compiled.

        Raises:
            ArgumentError: no port has that id.
        """
        number = integer(id)
        for tensor in (*self.inputs, *self.outputs):
            if tensor.id == number:
                return tensor
        ids = [t.id for t in (*self.inputs, *self.outputs)]
        raise ArgumentError(
            f"{self.partition.ops[0]}: no port has the id {format_value(id)}; the ports are {ids}"
        )

    def __call__(
        self,
        /,
        *arrays: object,
        outputs: Arrays | Sequence[object] | None = None,
        stream: Stream | None = None,
        **named: object,
    ) -> Results:
        """Computes the outputs, with arguments and results as those of a compiled graph; see `CompiledGraph`.

        Args:
            arrays: in the order of `inputs`, or one mapping from their names, ids or LogicalTensors, behind which
                `outputs` may stand. What the graph holds may be left out, or None.
            outputs: arrays or Tensors to write to, likewise; the others are allocated.
            stream: a stream of the engine that it was compiled for; None for that engine.
            named: inputs by name.

        Returns:
            The outputs by name. An opaque output is its flat byte buffer.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, ResourceError: an argument does not fit;
                nothing was computed then.
        """
        signature = self._signature
        arrays, outputs = with_outputs(arrays, outputs)
        given, targets = signature.inputs_of(arrays, named), signature.outputs_of(outputs)
        results = self.execute(
            stream,
            [given.get(t.id) for t in self.inputs],
            [targets.get(name) for name in signature.output_names],
        )
        return Results(dict(zip(signature.output_names, results, strict=True)), signature)

    @cached
    def _signature(self) -> Signature:
        inputs, outputs = map(_named_apart, (self.inputs, self._declared_outputs))
        return Signature(
            inputs,
            [(label(t), t) for t in outputs],
            self.partition.ops,
            held=self.partition.constants,
            what="partition",
        )

    def execute(
        self,
        stream: Stream | None,
        inputs: Sequence[object],
        outputs: Sequence[object | None] | None = None,
    ) -> tuple[Array, ...]:
        """Computes the outputs.

        Args:
            stream: a stream of the engine that it was compiled for; None for that engine.
            inputs: arrays or Tensors in the order of `inputs`. Arrays with other strides, another byte order
                or unaligned memory are copied first; everything else is used as it is. None stands for the
                array of a constant that the graph holds.
            outputs: arrays or Tensors to write to, in the order of `outputs`; allocated where None. They may
                lie anywhere, also over the inputs.

        Returns:
            The output arrays: those given, or new ones. An opaque output is its flat byte buffer.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, ResourceError: an argument does not
                fit; nothing was computed then.
        """
        self._check_stream(stream)
        found = self._special.of(inputs)
        if not profiling.recordings:
            return found.arguments.execute(inputs, outputs)
        with profiling.in_partitions(self.owners(found.explanation), self._memory_of(found)):
            return found.arguments.execute(inputs, outputs)

    def bind(
        self, inputs: Arrays | Sequence[object], outputs: Arrays | Sequence[object] | None = None
    ) -> Bound:
        """A callable that computes into these very arrays, with everything prepared once.

        The arrays are kept alive by the callable and must have the compiled layouts, for no copies are made. They
        can't be resized in place as long as it lives. It is for one thread at a time; bind once per thread.

        Args:
            inputs: by name, id or LogicalTensor, or a list in the order of `inputs`; None there, or nothing in a
                mapping, for what the graph holds.
            outputs: arrays to write to, likewise; the others are allocated, once.

        Returns:
            A callable without arguments, which returns the outputs by name: the same arrays at every call, with the
            values of the latest.

        Raises:
            ArgumentError and others: as for `execute`, and for an array that would need a copy.
        """
        signature = self._signature
        if isinstance(inputs, Mapping):
            given = signature.inputs_of((inputs,), {})
            inputs = [given.get(t.id) for t in self.inputs]
        if outputs is None or isinstance(outputs, Mapping):
            targets = signature.outputs_of(outputs)
            outputs = [targets.get(name) for name in signature.output_names]
        outputs = listed_arguments(self.partition.ops, "output", self._declared_outputs, outputs)
        if any(one is None for one in outputs):
            self.engine.check_open()
            outputs = [
                allocate(t) if one is None else one
                for t, one in zip(self.outputs_for(inputs), outputs, strict=True)
            ]
        run = self.bind_ports(inputs, outputs)
        arrays = [one.data if isinstance(one, Tensor) else as_array(one, "an output") for one in outputs]
        return Bound(run, Results(dict(zip(signature.output_names, arrays, strict=True)), signature))

    def bind_ports(self, inputs: Sequence[object], outputs: Sequence[object]) -> Callable[[], None]:
        """`bind` with one argument for each port, in order, and nothing returned by a call."""
        self.engine.check_open()
        found = self._special.of(inputs)
        call, keep = found.arguments.bind(inputs, outputs)
        return profiling.watched(call, partial(self.owners, found.explanation), keep, self._memory_of(found))

    def explanations_of_parts(self) -> dict[int, Explanation | None]:
        """What `explanation` tells of each of the partitions that run together here, by its id."""
        whole, parts = self.explanation, self.partition.parts
        if whole is None or len(parts) == 1:
            return dict.fromkeys((part.id for part in parts), whole)
        told = whole.of([part.ops for part in parts])
        return {part.id: one for part, one in zip(parts, told, strict=True)}

    @property
    def record(self) -> dict[int, tuple[Placed, ...]]:
        """Where the ops of each of the partitions that run together here run, by its id."""
        explained = self.explanations_of_parts()
        return {
            part.id: placed(part.ops, explained[part.id], part.backend, part.why_not)
            for part in self.partition.parts
        }

    def owners(self, explanation: Explanation | None = None) -> list[profiling.Owner]:
        """The partitions that run together, for profiles.

        Args:
            explanation: of what runs, where it was compiled for the sizes of a call.
        """
        parts, explanation = self.partition.parts, explanation or self.explanation
        if explanation is None:
            return []
        if len(parts) == 1:
            return [profiling.Owner(self.partition.id, self.partition.label, explanation.backend)]
        told = explanation.of([part.ops for part in parts])
        return [
            profiling.Owner(part.id, part.label, one.backend, frozenset(op.id for op in part.ops))
            for part, one in zip(parts, told, strict=True)
        ]

    def _check_stream(self, stream: Stream | None) -> None:
        self.engine.check_open()
        if stream is None:
            return
        if not isinstance(stream, Stream):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{self.partition.ops[0]}: stream must be an onednn_graph.Stream or None, got "
                f"{format_value(stream)} of type {type(stream).__name__}"
            )
        if stream.engine is not self.engine:
            raise ArgumentError(
                f"{self.partition.ops[0]}: the stream is of another engine than the one it was compiled for; "
                "make it with Stream(compiled.engine)"
            )

    def __repr__(self) -> str:
        return f"CompiledPartition({self.partition!r}, runs on {self.backend})"


def bytes_of(*memory: Mapping[object, int]) -> int:
    """Bytes of all that several have, what they share once."""
    everything: dict[object, int] = {}
    for one in memory:
        everything |= one
    return sum(everything.values())


def _named_apart(tensors: Sequence[LogicalTensor]) -> list[LogicalTensor]:
    """The tensors, with their ids for names where two have one name."""
    names = Counter(map(label, tensors))
    return [t if names[label(t)] == 1 else evolve_tensor(t, name=str(t.id)) for t in tensors]
