"""Partition and CompiledPartition: from a claimed subgraph to something that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import evolve, frozen

from ..ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    LayoutError,
    ShapeError,
    UnsupportedError,
)
from ..ops.schema import UNKNOWN_DIM, Shape
from .arguments import Arguments, shape_operand_value
from .arrays import Array, numpy_type
from .backend import BACKENDS, CompileRequest, Executable, Explanation
from .caching import BoundedCache
from .engine import Engine, Stream, check_engine, default_engine
from .logical_tensor import LayoutType, LogicalTensor, evolve_tensor, format_shape, may_overlap
from .op import Op
from .partitioner import Claim
from .tensor import allocate

MAX_SPECIALISATIONS = 16
"""Executables that a compiled partition keeps for different values of its shape operands."""


def merge_shapes(declared: Shape, inferred: Shape, what: str) -> Shape:
    """What two descriptions of a shape say together.

    Raises:
        ShapeError: they contradict each other.
    """
    if declared is None or inferred is None:
        return inferred if declared is None else declared
    if len(declared) != len(inferred):
        raise ShapeError(
            f"{what} is declared with shape {format_shape(declared)}, but it follows as "
            f"{format_shape(inferred)}; declare that, or leave the shape out"
        )
    merged: list[int] = []
    for have, want in zip(declared, inferred, strict=True):
        if have != want and UNKNOWN_DIM not in (have, want):
            raise ShapeError(
                f"{what} is declared with shape {format_shape(declared)}, but it follows as "
                f"{format_shape(inferred)}; declare that, or leave the shape out"
            )
        merged.append(want if have == UNKNOWN_DIM else have)
    return tuple(merged)


def infer(
    ops: Sequence[Op],
    known: Mapping[int, LogicalTensor],
    values: Mapping[int, tuple[int, ...]],
) -> tuple[dict[int, LogicalTensor], list[Op]]:
    """All tensors of `ops` with inferred shapes, and the ops on them.

    Args:
        ops: in topological order.
        known: better descriptions of some tensors, by id.
        values: values of shape operands, by tensor id.

    Raises:
        ShapeError: shapes contradict each other, an attribute or a declaration.
    """
    tensors: dict[int, LogicalTensor] = dict(known)
    resolved: list[Op] = []
    for op in ops:
        ins = [tensors.setdefault(t.id, t) for t in op.inputs]
        outs = [tensors.get(t.id, t) for t in op.outputs]
        shapes = op.infer_shapes(
            [t.shape for t in ins],
            [t.shape for t in outs],
            {i: values[t.id] for i, t in enumerate(ins) if t.id in values},
        )
        for position, (tensor, shape) in enumerate(zip(outs, shapes, strict=True)):
            merged = merge_shapes(tensor.shape, shape, f"{op}: output {tensor}")
            tensors[tensor.id] = outs[position] = tensor.with_shape(merged)
        resolved.append(op.with_tensors(ins, outs))
    return tensors, resolved


class Partition:
    """A subgraph that runs as one unit.

    Attributes:
        id: number within the list that `Graph.get_partitions` returned.
        ops: in topological order.
        input_ports: tensors that it reads and does not produce, in order of first use.
        output_ports: tensors that it produces and that others, or the user, read.
        backend: name of the backend that claimed it, or None.
        why_not: for every other backend, why it is not the one.
    """

    def __init__(
        self,
        id: int,  # noqa: A002 -- oneDNN Graph's name
        claim: Claim,
        needed: set[int],
        *,
        fpmath_mode: str,
        forced: bool,
    ) -> None:
        self.id = id
        self.ops = claim.ops
        self.backend = claim.backend.name if claim.backend is not None else None
        self.why_not = dict(claim.why_not)
        self.fpmath_mode = fpmath_mode
        self.engine_kind = "cpu"
        self._forced = forced
        produced = {t.id: t for op in self.ops for t in op.outputs}
        read = {t.id: t for op in self.ops for t in op.inputs}
        self.input_ports = tuple(t for t in read.values() if t.id not in produced)
        self.output_ports = tuple(t for t in produced.values() if t.id in needed)
        self._shape_operands = {
            tensor.id: str(op)
            for op in self.ops
            for port, tensor in zip(op.schema.inputs, op.inputs, strict=False)
            if port.shape_operand and tensor.id not in produced
        }

    @property
    def is_supported(self) -> bool:
        """Whether some backend runs it."""
        return self.backend is not None

    @property
    def shape_operands(self) -> tuple[int, ...]:
        """Ids of the input ports whose values decide shapes."""
        return tuple(self._shape_operands)

    def compile(
        self,
        inputs: Sequence[LogicalTensor] | None = None,
        outputs: Sequence[LogicalTensor] | None = None,
        engine: Engine | None = None,
        *,
        verify: bool = False,
    ) -> CompiledPartition:
        """Compiles for concrete tensors.

        Args:
            inputs: the input ports with concrete shapes and their strides, in any order; the ports as they
                are if None.
            outputs: the output ports; unknown shapes are inferred, and `layout_type="any"` lets the
                backend choose. The ports as they are if None.
            engine: where it will run; the default engine if None.
            verify: check each chosen kernel on integer data against NumPy before handing it out.

        Returns:
            A compiled partition. With a shape operand among the inputs it is compiled further at
            execution, once for each value.

        Raises:
            UnsupportedError: no backend takes it; the message has each one's reason.
            ArgumentError, ShapeError, LayoutError, DataTypeError, ResourceError: bad arguments.
        """
        engine = default_engine() if engine is None else engine
        check_engine(engine)
        engine.check_open()
        if not self.is_supported:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.why_not.items())
            raise UnsupportedError(f"{self.ops[0]}: no backend can run it ({reasons})")
        ins = self._matched(inputs, self.input_ports, "input")
        outs = self._matched(outputs, self.output_ports, "output")
        for tensor in ins:
            if tensor.layout_type is LayoutType.any or tensor.layout_type is LayoutType.undef:
                raise LayoutError(
                    f"{self.ops[0]}: input {tensor} must be strided or opaque at compile, got layout_type "
                    f"'{tensor.layout_type.value}'; only outputs may be 'any'"
                )
            _ = tensor.dims  # raises for unknown sizes
        return CompiledPartition(self, tuple(ins), tuple(outs), engine, verify=verify)

    def _matched(
        self, given: Sequence[LogicalTensor] | None, ports: tuple[LogicalTensor, ...], what: str
    ) -> list[LogicalTensor]:
        """`given` in port order, with the ports' shapes where `given` leaves them open."""
        if given is None:
            return list(ports)
        if isinstance(given, LogicalTensor) or not isinstance(given, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{self.ops[0]}: {what}s must be a sequence of LogicalTensor, got {type(given).__name__}"
            )
        by_id: dict[int, LogicalTensor] = {}
        for tensor in given:
            if not isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentTypeError(
                    f"{self.ops[0]}: {what}s must hold LogicalTensor objects, got {type(tensor).__name__}"
                )
            by_id[tensor.id] = tensor
        expected = {t.id for t in ports}
        if set(by_id) != expected or len(given) != len(ports):
            raise ArgumentError(
                f"{self.ops[0]}: compile needs the partition's {what} ports with ids {sorted(expected)}, each "
                f"once, got {[t.id for t in given]}"
            )
        matched: list[LogicalTensor] = []
        for port in ports:
            tensor = by_id[port.id]
            if tensor.data_type != port.data_type:
                raise ArgumentError(
                    f"{self.ops[0]}: {what} {port} was {port.data_type.value} in the graph, got "
                    f"{tensor.data_type.value} at compile; build the graph with that type"
                )
            merged = merge_shapes(port.shape, tensor.shape, f"{self.ops[0]}: {what} {port}")
            matched.append(evolve_tensor(tensor, shape=merged))
        return matched

    def build(
        self,
        inputs: tuple[LogicalTensor, ...],
        outputs: tuple[LogicalTensor, ...],
        engine: Engine,
        values: Mapping[int, tuple[int, ...]],
        verify: bool,
    ) -> Executable:
        """An executable for these tensors and values of shape operands, from the first backend that can."""
        known = {t.id: _plain(t) for t in inputs} | {t.id: t for t in outputs}
        tensors, ops = infer(self.ops, known, values)
        resolved = tuple(tensors[t.id] for t in outputs)
        for tensor in resolved:
            if tensor.layout_type is LayoutType.strided and may_overlap(tensor.dims, tensor.element_strides):
                raise LayoutError(
                    f"{self.ops[0]}: output {tensor} has strides {list(tensor.element_strides)} that overlap; "
                    "give each element a place of its own"
                )
        request = CompileRequest(
            ops=tuple(ops),
            inputs=tuple(_plain(t) for t in inputs),
            outputs=resolved,
            engine=engine,
            fpmath_mode=self.fpmath_mode,
            values=values,
            verify=verify,
            verifier=lambda executable: None,
        )
        return self._first_that_can(request)

    def _first_that_can(self, request: CompileRequest) -> Executable:
        claimed = BACKENDS.get(self.backend)
        others = () if self._forced else tuple(b for b in BACKENDS if b is not claimed)
        reasons: list[str] = []
        for backend in (claimed, *others):
            reason = backend.unavailable() or backend.why_not(request.ops)
            if reason is not None:
                reasons.append(f"{backend.name}: {reason}")
                continue
            try:
                executable = backend.compile(_with_verifier(request))
            except UnsupportedError as error:
                reasons.append(f"{backend.name}: {error}")
                continue
            return executable if not reasons else _WithReasons(executable, tuple(reasons))
        forced = f"backend '{self.backend}' was forced; " if self._forced else ""
        raise UnsupportedError(f"{self.ops[0]}: {forced}no backend can run it ({'; '.join(reasons)})")

    def __repr__(self) -> str:
        ops = ", ".join(str(op) for op in self.ops)
        return f"Partition({self.id}: {ops} on {self.backend or 'no backend'})"


def _plain(tensor: LogicalTensor) -> LogicalTensor:
    """An input as the executable sees it: opaque tensors are brought into plain layout first."""
    if tensor.layout_type is LayoutType.opaque:
        return evolve_tensor(tensor, layout_type=LayoutType.strided, layout_id=None)
    return tensor


@frozen(eq=False)
class _WithReasons:
    """An executable of a later backend, with the reasons of the earlier ones in its explanation."""

    executable: Executable
    reasons: tuple[str, ...]

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        return self.executable.outputs

    @property
    def explanation(self) -> Explanation:
        inner = self.executable.explanation
        return Explanation(
            backend=inner.backend,
            strategy=inner.strategy,
            implementations=inner.implementations,
            scratch_bytes=inner.scratch_bytes,
            rejected=(*self.reasons, *inner.rejected),
            verified=inner.verified,
        )

    def opaque_bytes(self, index: int) -> int:
        return self.executable.opaque_bytes(index)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.executable.run(inputs, outputs)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        return self.executable.bind(inputs, outputs)


def _with_verifier(request: CompileRequest) -> CompileRequest:
    def verifier(executable: Executable) -> str | None:
        return verify_on_integers(request, executable)

    return evolve(request, verifier=verifier)


def verify_on_integers(request: CompileRequest, executable: Executable) -> str | None:
    """Runs `executable` on small integers and compares with the NumPy backend, element for element.

    Integers from -2 to 2 keep every partial sum exact in f32, so that any difference is a wrong kernel.
    """
    rng = np.random.default_rng(1)
    inputs: list[Array] = []
    for tensor in request.inputs:
        array = allocate(tensor)
        array[...] = (
            np.asarray(request.values[tensor.id])
            if tensor.id in request.values
            else rng.integers(-2, 3, tensor.dims).astype(numpy_type(tensor.data_type))
        )
        inputs.append(array)
    plain = tuple(evolve_tensor(t, layout_type=LayoutType.strided, layout_id=None) for t in request.outputs)
    reference = BACKENDS.get("numpy").compile(
        CompileRequest(
            ops=request.ops, inputs=request.inputs, outputs=plain, engine=request.engine,
            fpmath_mode="strict", values=request.values, verify=False, verifier=lambda e: None,
        )
    )  # fmt: skip
    expected = [allocate(t) for t in plain]
    reference.run(inputs, expected)
    arguments = Arguments(request.inputs, executable, str(request.ops[0]))
    got = [arguments.plain(i, a, request.engine) for i, a in enumerate(arguments.execute(inputs, None))]
    for tensor, have, want in zip(plain, got, expected, strict=True):
        wrong = ~((have == want) | ((have != have) & (want != want)))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"{int(wrong.sum())} of {wrong.size} elements of {tensor} are wrong on integer data, the first "
                f"at {list(at)}: {have[at]} instead of {want[at]}"
            )
    return None


class CompiledPartition:
    """A partition compiled for concrete tensors. Executing it is thread-safe.

    Attributes:
        partition: what it was compiled from.
        engine: where it runs.
        inputs: the tensors it takes, in port order.
        inplace_ports: pairs (input id, output id) that may share memory; no weight gradient has any.
    """

    def __init__(
        self,
        partition: Partition,
        inputs: tuple[LogicalTensor, ...],
        outputs: tuple[LogicalTensor, ...],
        engine: Engine,
        *,
        verify: bool,
    ) -> None:
        self.partition = partition
        self.engine = engine
        self.inputs = inputs
        self.inplace_ports: tuple[tuple[int, int], ...] = ()
        self._declared_outputs = outputs
        self._verify = verify
        operands = partition.shape_operands
        self._operands = tuple(
            (position, tensor.id) for position, tensor in enumerate(inputs) if tensor.id in operands
        )
        self._special: BoundedCache[tuple[tuple[int, ...], ...], Arguments] = BoundedCache(
            MAX_SPECIALISATIONS
        )
        self._last: Arguments | None = None
        if not self._operands:
            self._last = self._specialise(())
        else:
            # Everything that does not depend on the values is checked now, so that mistakes show early.
            infer(partition.ops, {t.id: _plain(t) for t in inputs} | {t.id: t for t in outputs}, {})

    def _specialise(self, values: tuple[tuple[int, ...], ...]) -> Arguments:
        by_id = {tensor_id: value for (_, tensor_id), value in zip(self._operands, values, strict=True)}
        executable = self.partition.build(
            self.inputs, self._declared_outputs, self.engine, by_id, self._verify
        )
        return Arguments(self.inputs, executable, str(self.partition.ops[0]))

    def _arguments(self, inputs: Sequence[object]) -> Arguments:
        """The executable for the values of the shape operands among these inputs."""
        if not self._operands:
            if self._last is None:
                raise ArgumentError(f"{self.partition.ops[0]}: it was not compiled")
            return self._last
        if not isinstance(inputs, Sequence) or len(inputs) != len(self.inputs):  # pyright: ignore[reportUnnecessaryIsInstance]
            Arguments.wrong_count(str(self.partition.ops[0]), "input", self.inputs, inputs)
        key = tuple(
            shape_operand_value(inputs[position], self.inputs[position], str(self.partition.ops[0]))
            for position, _ in self._operands
        )
        self._last = self._special.get(key, lambda: self._specialise(key))
        return self._last

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The output tensors with layouts chosen; of the latest value where a shape operand decides."""
        return self._last.executable.outputs if self._last is not None else self._declared_outputs

    @property
    def backend(self) -> str:
        """Name of the backend that runs it; the claiming one until a shape operand's value is known."""
        return self._last.executable.explanation.backend if self._last else str(self.partition.backend)

    @property
    def specialisations(self) -> int:
        """How many executables for values of shape operands are kept now."""
        return len(self._special)

    @property
    def explanation(self) -> Explanation | None:
        """What was chosen and why; None until the value of a shape operand is known."""
        return None if self._last is None else self._last.executable.explanation

    def explain(self) -> Explanation:
        """What was chosen and why.

        Raises:
            ArgumentError: a shape operand decides, and nothing was executed yet.
        """
        explanation = self.explanation
        if explanation is None:
            raise ArgumentError(
                f"{self.partition.ops[0]}: its kernels are chosen at the first execution, when the value of "
                "the shape operand is known; execute it once before explain()"
            )
        return explanation

    def query_logical_tensor(self, id: int) -> LogicalTensor:  # noqa: A002 -- oneDNN Graph's name
        """The input or output of that id, with its shape and layout as compiled.

        Raises:
            ArgumentError: no port has that id.
        """
        for tensor in (*self.inputs, *self.outputs):
            if tensor.id == id:
                return tensor
        ids = [t.id for t in (*self.inputs, *self.outputs)]
        raise ArgumentError(f"{self.partition.ops[0]}: no port has the id {id!r}; the ports are {ids}")

    def execute(
        self,
        stream: Stream | None,
        inputs: Sequence[object],
        outputs: Sequence[object] | None = None,
    ) -> tuple[Array, ...]:
        """Computes the outputs.

        Args:
            stream: a stream of the engine that it was compiled for; None for that engine.
            inputs: arrays or Tensors in the order of `inputs`. Arrays with other strides, another byte order
                or unaligned memory are copied first; everything else is used as it is.
            outputs: arrays or Tensors to write to, in the order of `outputs`; allocated if None. They may
                lie anywhere, also over the inputs.

        Returns:
            The output arrays: those given, or new ones. An opaque output is its flat byte buffer.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, ResourceError: an argument does not
                fit; nothing was computed then.
        """
        self._check_stream(stream)
        return self._arguments(inputs).execute(inputs, outputs)

    def bind(self, inputs: Sequence[object], outputs: Sequence[object]) -> Callable[[], None]:
        """A callable that computes into these very arrays, with everything prepared once.

        The arrays are kept alive by the callable and must have the compiled layouts, for no copies are made. It
        is for one thread at a time; bind once per thread.

        Raises:
            ArgumentError and others: as for `execute`, and for an array that would need a copy.
        """
        self.engine.check_open()
        return self._arguments(inputs).bind(inputs, outputs)

    def _check_stream(self, stream: Stream | None) -> None:
        self.engine.check_open()
        if stream is None:
            return
        if not isinstance(stream, Stream):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{self.partition.ops[0]}: stream must be an onednn_graph.Stream or None, got "
                f"{type(stream).__name__}"
            )
        if stream.engine is not self.engine:
            raise ArgumentError(
                f"{self.partition.ops[0]}: the stream is of another engine than the one it was compiled for; "
                "make it with Stream(compiled.engine)"
            )

    def __repr__(self) -> str:
        return f"CompiledPartition({self.partition!r}, runs on {self.backend})"
