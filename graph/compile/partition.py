"""Partition: a claimed subgraph, on its way to something that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Unpack

from ...ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    LayoutError,
    ShapeError,
    UnsupportedError,
)
from ...ops.values import format_value
from ..model.inference import infer, merge_shapes
from ..model.logical_tensor import (
    LayoutType,
    LogicalTensor,
    PropertyType,
    as_plain,
    evolve_tensor,
    format_shape,
    may_overlap,
)
from ..model.op import port_names
from ..runtime.arrays import Array
from ..runtime.engine import Engine, check_engine, default_engine
from ..runtime.parameter import Parameter
from .backend import BACKENDS, CompileRequest
from .building import Built, Part, build
from .compiled_partition import CompiledPartition
from .options import CompileOptions, PartitionKeywords, parse_options
from .partitioner import Claim
from .record import Placed

NO_PARAMETERS: Mapping[int, Parameter] = {}
NO_ARRAYS: Mapping[int, Array] = {}


class Partition:
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
        forced: whether no other backend may step in.
        parts: the partitions that it joins, for a section of a program; itself alone otherwise.
    """

    def __init__(
        self,
        id: int,  # noqa: A002 -- oneDNN Graph's name
        claim: Claim,
        needed: set[int],
        *,
        fpmath_mode: str,
        forced: bool,
        constants: Mapping[int, Array],
        steady: Mapping[int, Parameter] = NO_PARAMETERS,
        in_place: Mapping[int, Array] = NO_ARRAYS,
        parts: tuple[Partition, ...] = (),
    ) -> None:
        self.id = id
        self.ops = claim.ops
        self.backend = claim.backend.name if claim.backend is not None else None
        self.why_not: Mapping[str, str] = dict(claim.why_not)
        self.fpmath_mode = fpmath_mode
        self.engine_kind = "cpu"
        self.parts = parts or (self,)
        self.forced = forced
        produced = {t.id: t for op in self.ops for t in op.outputs}
        read = {t.id: t for op in self.ops for t in op.inputs}
        self.input_ports = tuple(t for t in read.values() if t.id not in produced)
        self.output_ports = tuple(t for t in produced.values() if t.id in needed)
        self.constants = {t.id: constants[t.id] for t in self.input_ports if t.id in constants}
        self.steady = {t.id: steady[t.id] for t in self.input_ports if t.id in steady}
        self.in_place = dict(in_place)
        self._shape_operands = {
            tensor.id: str(op)
            for op in self.ops
            for port, tensor in zip(op.input_ports, op.inputs, strict=True)
            if port.shape_operand and tensor.id not in produced
        }

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

    @property
    def is_supported(self) -> bool:
        """Whether some backend runs it."""
        return self.backend is not None

    @property
    def label(self) -> str:
        """The kinds of its ops, for tables: `Convolution+BiasAdd+ReLU`."""
        return "+".join(op.kind for op in self.ops)

    @property
    def shape_operands(self) -> tuple[int, ...]:
        """Ids of the input ports whose values decide shapes."""
        return tuple(self._shape_operands)

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
            options: `verify`, `tune`, `tune_seconds`, `strategy`, `scratch_limit`, `threads` and `choices`; see
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
        ins = self.checked_inputs(inputs)
        for tensor in ins:
            if tensor.layout_type is LayoutType.opaque:
                engine.layouts.of(tensor, f"{port_names(self.ops)[tensor.id]}, {tensor},")
        return CompiledPartition(self, ins, self._checked_outputs(outputs), engine, options)

    def compile_in_graph(self, engine: Engine, options: CompileOptions) -> CompiledPartition:
        """For plain arrays on all sides, as they flow through a graph; unknown sizes are those of each execution."""
        self._check_supported()
        ins = tuple(as_plain(t) if t.layout_type is LayoutType.opaque else t for t in self.input_ports)
        if all(t.is_concrete for t in ins):
            ins = self.checked_inputs(ins)
        outs = self._checked_outputs([as_plain(t) for t in self.output_ports])
        return CompiledPartition(self, ins, outs, engine, options)

    def _check_supported(self) -> None:
        if not self.is_supported:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.why_not.items())
            raise UnsupportedError(f"{self.ops[0]}: no backend can run it ({reasons})")

    def checked_inputs(self, given: Sequence[LogicalTensor] | None) -> tuple[LogicalTensor, ...]:
        """The inputs to compile for, in port order.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, LayoutError: they don't fit the ports, or are
                not concrete.
        """
        ins = self._matched(given, self.input_ports, "input")
        names = port_names(self.ops)
        for tensor in ins:
            if tensor.layout_type is LayoutType.any or tensor.layout_type is LayoutType.undef:
                raise LayoutError(
                    f"{names[tensor.id]}, {tensor}, must be strided or opaque at compile, got layout_type "
                    f"'{tensor.layout_type.value}'; only outputs may be 'any'"
                )
            if not tensor.is_concrete:
                raise ShapeError(
                    f"{names[tensor.id]}, {tensor}, must have all its sizes at compile; pass compile a "
                    "logical tensor that has them"
                )
        return tuple(ins)

    def _checked_outputs(self, given: Sequence[LogicalTensor] | None) -> tuple[LogicalTensor, ...]:
        outs = self._matched(given, self.output_ports, "output")
        names = port_names(self.ops)
        for tensor in outs:
            if tensor.layout_type not in (LayoutType.any, LayoutType.strided):
                raise LayoutError(
                    f"{names[tensor.id]}, {tensor}, must be strided or 'any' at compile, got layout_type "
                    f"'{tensor.layout_type.value}'; with 'any' the backend chooses"
                )
        return tuple(outs)

    def _matched(
        self, given: Sequence[LogicalTensor] | None, ports: tuple[LogicalTensor, ...], what: str
    ) -> list[LogicalTensor]:
        """`given` in port order, with the ports' shapes where `given` leaves them open."""
        if given is None:
            return list(ports)
        if isinstance(given, LogicalTensor):
            raise ArgumentTypeError(
                f"{self.ops[0]}: {what}s must be a sequence of LogicalTensor, got one, {given}; write [tensor]"
            )
        if not isinstance(given, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{self.ops[0]}: {what}s must be a sequence of LogicalTensor or None, got {format_value(given)} of "
                f"type {type(given).__name__}"
            )
        by_id: dict[int, LogicalTensor] = {}
        for tensor in given:
            if not isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentTypeError(
                    f"{self.ops[0]}: {what}s must hold LogicalTensor objects, got {format_value(tensor)} of type "
                    f"{type(tensor).__name__}; arrays are given to execute"
                )
            by_id[tensor.id] = tensor
        names = port_names(self.ops)
        if set(by_id) != {t.id for t in ports} or len(given) != len(ports):
            expected = ", ".join(f"'{names[t.id].port}' {t}" for t in ports)
            raise ArgumentError(
                f"{self.ops[0]}: compile needs each {what} port once, {expected}, got the ids "
                f"{[t.id for t in given]}"
            )
        matched: list[LogicalTensor] = []
        for port in ports:
            tensor = by_id[port.id]
            if tensor.data_type != port.data_type:
                raise DataTypeError(
                    f"{names[port.id]}, {port}, was {port.data_type.value} in the graph, got "
                    f"{tensor.data_type.value} at compile; build the graph with that type"
                )
            merged = merge_shapes(
                port.shape,
                tensor.shape,
                f"{names[port.id]}, {port}, has shape {format_shape(port.shape)} in the graph, got "
                f"{format_shape(tensor.shape)} at compile; build the graph with that shape, or with -1 for "
                "sizes that change",
            )
            matched.append(evolve_tensor(tensor, shape=merged))
        return matched

    def build(
        self,
        inputs: tuple[LogicalTensor, ...],
        outputs: tuple[LogicalTensor, ...],
        engine: Engine,
        values: Mapping[int, tuple[int, ...]],
        options: CompileOptions,
    ) -> Built:
        """An executable for these tensors and values of shape operands, from the first backend that can."""
        unchanged = not values and inputs == self.input_ports and outputs == self.output_ports
        resolved, ops = outputs, self.ops
        if not unchanged or not all(t.is_concrete for t in outputs):
            known = {t.id: as_plain(t) for t in inputs} | {t.id: t for t in outputs}
            tensors, resolved_ops = infer(self.ops, known, values)
            resolved, ops = tuple(tensors[t.id] for t in outputs), tuple(resolved_ops)
        for tensor in resolved:
            if tensor.layout_type is LayoutType.strided and may_overlap(tensor.dims, tensor.element_strides):
                raise LayoutError(
                    f"{port_names(self.ops)[tensor.id]}, {tensor}, has strides {list(tensor.element_strides)} "
                    "that overlap; give each element a place of its own"
                )
        request = CompileRequest(
            ops=ops,
            inputs=tuple(self._settled(as_plain(t)) for t in inputs),
            outputs=resolved,
            engine=engine,
            fpmath_mode=self.fpmath_mode,
            values=values,
            forced=self.forced,
            options=options,
            described=inputs,
            version=self._version if self.steady else None,
        )
        claimed = BACKENDS.get(self.backend)
        others = () if self.forced else tuple(b for b in BACKENDS.candidates() if b is not claimed)
        # Of what is joined each part was asked for by itself: its backend takes others' ops along as they are.
        asked = ops is self.ops or len(self.parts) > 1
        return build(request, (claimed, *others), asked=asked, parts=self._parts_of(request, values))

    def _settled(self, tensor: LogicalTensor) -> LogicalTensor:
        """A parameter that nobody assigns as a constant, so that what is made of it can be kept."""
        if tensor.id not in self.steady:
            return tensor
        return evolve_tensor(tensor, property_type=PropertyType.constant)

    def _version(self) -> int:
        """Grows when one of the steady parameters changes."""
        return sum(parameter.version for parameter in self.steady.values())

    def _parts_of(self, request: CompileRequest, values: Mapping[int, tuple[int, ...]]) -> list[Part]:
        """The joined partitions with the tensors of a request; none of one that joins none."""
        if len(self.parts) == 1:
            return []
        tensors = {t.id: as_plain(t) for op in request.ops for t in (*op.inputs, *op.outputs)}
        made: list[Part] = []
        for part in self.parts:
            inputs, outputs = (
                tuple(tensors[t.id] for t in ports) for ports in (part.input_ports, part.output_ports)
            )
            compiled = partial(part.build, inputs, outputs, request.engine, values, request.options)
            made.append(Part(frozenset(op.id for op in part.ops), compiled))
        return made

    def __repr__(self) -> str:
        ops = ", ".join(str(op) for op in self.ops)
        return f"Partition({self.id}: {ops} on {self.backend or 'no backend'})"
