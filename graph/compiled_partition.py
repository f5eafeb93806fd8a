"""CompiledPartition: a partition that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..ops.errors import ArgumentError, ArgumentTypeError
from ..ops.values import integer, shown
from . import profiling
from .arguments import Arguments, listed_arguments, shape_operand_value
from .arrays import Array
from .backend import Explanation
from .caching import BoundedCache
from .engine import Engine, Stream
from .inference import infer
from .logical_tensor import LogicalTensor, as_plain
from .op import port_names
from .options import CompileOptions

if TYPE_CHECKING:  # a partition makes its compiled partitions
    from .partition import Partition

MAX_SPECIALISATIONS = 16
"""Executables that a compiled partition keeps for different values of its shape operands."""


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
        options: CompileOptions,
    ) -> None:
        self.partition = partition
        self.engine = engine
        self.inputs = inputs
        self.inplace_ports: tuple[tuple[int, int], ...] = ()
        self._declared_outputs = outputs
        self._options = options
        operands = partition.shape_operands
        self._operands = tuple(
            (position, tensor.id) for position, tensor in enumerate(inputs) if tensor.id in operands
        )
        self._names = port_names(partition.ops)
        self._special: BoundedCache[tuple[tuple[int, ...], ...], Arguments] = BoundedCache(
            MAX_SPECIALISATIONS
        )
        self._last: Arguments | None = None
        if not self._operands:
            self._last = self._specialise(())
        else:
            # Everything that does not depend on the values is checked now, so that mistakes show early.
            infer(partition.ops, {t.id: as_plain(t) for t in inputs} | {t.id: t for t in outputs}, {})

    def _specialise(self, values: tuple[tuple[int, ...], ...]) -> Arguments:
        by_id = {tensor_id: value for (_, tensor_id), value in zip(self._operands, values, strict=True)}
        executable = self.partition.build(
            self.inputs, self._declared_outputs, self.engine, by_id, self._options
        )
        return Arguments(executable, self.partition.ops)

    def _arguments(self, inputs: Sequence[object]) -> Arguments:
        """The executable for the values of the shape operands among these inputs."""
        if not self._operands:
            if self._last is None:
                raise ArgumentError(f"{self.partition.ops[0]}: it was not compiled")
            return self._last
        given = listed_arguments(self.partition.ops, "input", self.inputs, inputs)
        key = tuple(
            shape_operand_value(given[position], self.inputs[position], self._names[tensor_id])
            for position, tensor_id in self._operands
        )
        arguments = self._special.get(key, lambda: self._specialise(key))
        self._last = arguments  # for the queries; another thread may be at another value
        return arguments

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
        number = integer(id)
        for tensor in (*self.inputs, *self.outputs):
            if tensor.id == number:
                return tensor
        ids = [t.id for t in (*self.inputs, *self.outputs)]
        raise ArgumentError(f"{self.partition.ops[0]}: no port has the id {shown(id)}; the ports are {ids}")

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
                or unaligned memory are copied first; everything else is used as it is.
            outputs: arrays or Tensors to write to, in the order of `outputs`; allocated where None. They may
                lie anywhere, also over the inputs.

        Returns:
            The output arrays: those given, or new ones. An opaque output is its flat byte buffer.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, ResourceError: an argument does not
                fit; nothing was computed then.
        """
        self._check_stream(stream)
        arguments = self._arguments(inputs)
        if not profiling.profiles:
            return arguments.execute(inputs, outputs)
        with profiling.in_partition(self.partition.id, self.partition.label, self.backend):
            return arguments.execute(inputs, outputs)

    def bind(self, inputs: Sequence[object], outputs: Sequence[object]) -> Callable[[], None]:
        """A callable that computes into these very arrays, with everything prepared once.

        The arrays are kept alive by the callable and must have the compiled layouts, for no copies are made. It
        is for one thread at a time; bind once per thread.

        Raises:
            ArgumentError and others: as for `execute`, and for an array that would need a copy.
        """
        self.engine.check_open()
        call = self._arguments(inputs).bind(inputs, outputs)
        return profiling.watched(call, self.partition.id, self.partition.label, self.backend)

    def _check_stream(self, stream: Stream | None) -> None:
        self.engine.check_open()
        if stream is None:
            return
        if not isinstance(stream, Stream):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{self.partition.ops[0]}: stream must be an onednn_graph.Stream or None, got "
                f"{shown(stream)} of type {type(stream).__name__}"
            )
        if stream.engine is not self.engine:
            raise ArgumentError(
                f"{self.partition.ops[0]}: the stream is of another engine than the one it was compiled for; "
                "make it with Stream(compiled.engine)"
            )

    def __repr__(self) -> str:
        return f"CompiledPartition({self.partition!r}, runs on {self.backend})"
