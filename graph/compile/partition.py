"""Partition: a claimed subgraph, on its way to something that runs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Unpack

from ...ops.errors import (
    ArgumentError,
    UnsupportedError,
)
from ...ops.values import format_value
from ..model.logical_tensor import (
    LayoutType,
    LogicalTensor,
    as_plain,
    evolve_tensor,
)
from ..model.op import port_names
from ..runtime.engine import Engine, check_engine, default_engine
from .compiled_partition import CompiledPartition
from .options import CompileOptions, PartitionKeywords, parse_options
from .ports import checked_inputs, checked_outputs
from .record import Placed
from .subgraph import Subgraph


class Partition(Subgraph):
    """A subgraph that runs as one unit.

    Attributes:
        id: number within the list that `Graph.get_partitions` returned.
        ops: in topological order.
        input_ports: tensors that it reads and does not produce, in order of first use.
            Constants that the graph holds are among them.
        output_ports: tensors that it produces and that others, or the user, read.
        constants: the arrays that the graph holds for input ports, constants and parameters, by tensor id; an
            execution may be given None there.
        steady: parameters among them that the graph does not assign: constants until their version grows.
        in_place: the arrays of parameters that outputs are written to, by the output's tensor id.
        backend: name of the backend that claimed it, or None.
        why_not: for every other backend that was asked, why it is not the one.
        partitioning: how the graph that it is of came to its partitions, step by step.
        forced: whether no other backend may step in.
        parts: the partitions that it joins, for a section of a program; itself alone otherwise.
    """

    def run_by(self, record: Sequence[Placed]) -> Partition:
        """The partition with the backend that runs it, where another one has stepped in for what has claimed it.

        Args:
            record: where its ops run.
        """
        (backend, *others) = {one.backend for one in record}
        if others or backend == self.backend:
            return self
        made = copy(self)
        made.backend = backend
        reasons = "; ".join(dict.fromkeys(one.reason for one in record if one.reason))
        former = {name: why for name, why in self.why_not.items() if name != backend}
        made.why_not = former if self.backend is None else {**former, self.backend: reasons}
        return made

    def compile(
        self,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
        **options: Unpack[PartitionKeywords],
    ) -> CompiledPartition:
        """Compiles for concrete tensors.

        Args:
            inputs: the input ports with concrete shapes and their strides, in any order; the ports as they
                are if None.
            outputs: the output ports; unknown shapes are inferred, and `layout_type="any"` lets the
                backend choose. The ports as they are if None.
            engine: where it will run; the default engine if None.
            options: `verify`, `tune`, `tune_seconds`, `strategy`, `scratch_limit`, `threads`, `choices` and
                `kept_shapes`; see
                `CompileOptions`.

        Returns:
            A compiled partition. With a shape operand among the inputs it is compiled further at
            execution, once for each value.

        Raises:
            UnsupportedError: no backend takes it; the message has each one's reason.
            ArgumentError, ShapeError, LayoutError, DataTypeError, ResourceError: bad arguments.
        """
        parsed = parse_options(options, PartitionKeywords)
        compiled = self.compile_with(inputs, outputs, engine, parsed)
        strategy = parsed.strategy
        if strategy is not None and compiled.explanation is not None and not compiled.explanation.considered:
            raise ArgumentError(
                f"{self.ops[0]}: strategy {format_value(strategy)} can't be taken, for "
                f"{compiled.backend} has nothing to "
                "choose from here; leave strategy out"
            )
        return compiled

    def compile_with(
        self,
        inputs: Sequence[LogicalTensor] | None,
        outputs: Sequence[LogicalTensor] | None,
        engine: Engine | None,
        options: CompileOptions,
    ) -> CompiledPartition:
        """`compile` with its options in one object."""
        engine = default_engine() if engine is None else engine
        check_engine(engine)
        engine.check_open()
        self._check_supported()
        ins = checked_inputs(self, inputs)
        for tensor in ins:
            if tensor.layout_type is LayoutType.opaque:
                engine.layouts.of(tensor, f"{port_names(self.ops)[tensor.id]}, {tensor},")
        return CompiledPartition(self, ins, checked_outputs(self, outputs), engine, options)

    def compile_in_graph(self, engine: Engine, options: CompileOptions) -> CompiledPartition:
        """For plain arrays on all sides, as they flow through a graph; unknown sizes are those of each execution."""
        self._check_supported()
        # What the graph holds lies row by row, however its tensor is described: a parameter is read where it changes.
        ins = tuple(
            evolve_tensor(t, strides=None)
            if t.strides is not None and t.id in self.constants
            else as_plain(t)
            if t.layout_type is LayoutType.opaque
            else t
            for t in self.input_ports
        )
        if all(t.is_concrete for t in ins):
            ins = checked_inputs(self, ins)
        outs = checked_outputs(self, [as_plain(t) for t in self.output_ports])
        return CompiledPartition(self, ins, outs, engine, options)

    def _check_supported(self) -> None:
        if not self.is_supported:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.why_not.items())
            raise UnsupportedError(f"{self.ops[0]}: no backend can run it ({reasons})")

    def __repr__(self) -> str:
        ops = ", ".join(str(op) for op in self.ops)
        return f"Partition({self.id}: {ops} on {self.backend or 'no backend'})"
