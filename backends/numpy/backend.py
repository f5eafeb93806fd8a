"""The NumPy backend: runs every op that has a kernel, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from attrs import field

from ...graph.compile.backend import SINGLE_OP_PRIORITY, CompileRequest, Pattern, single_op
from ...graph.model.logical_tensor import LogicalTensor, as_plain, type_and_shape
from ...graph.model.op import Op
from ...graph.runtime import profiling
from ...graph.runtime.engine import Engine
from ...graph.runtime.executable import ExplainedStep, Explanation
from ...graph.runtime.profiling import EventKind
from ...graph.runtime.tensor import allocate
from ...ops.errors import OutOfMemoryError, SchemaError
from ...ops.records import frozen
from ...ops.schema import CUSTOM
from .kernels import KERNELS, Array, Kernel


@frozen(eq=False)
class _Call:
    """An op with its kernel, and what each run needs to know of it: steps between primitives run for each token.

    Attributes:
        inputs, outputs: ids of its tensors.
        made: outputs that are made for the run, since nobody gives memory for them.
        empty: no element is to be computed.
        custom: the op is one of a user's own.
    """

    op: Op
    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    made: tuple[LogicalTensor, ...]
    empty: bool
    custom: bool


@frozen(eq=False)
class NumpyExecutable:
    """Kernels in order, on arrays by tensor id.

    Attributes:
        steps: each op with its kernel, which stays even if the op is unregistered later.
    """

    steps: tuple[tuple[Op, Kernel], ...]
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    engine: Engine
    _calls: tuple[_Call, ...] = field(init=False)
    _given: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        given = tuple(t.id for t in (*self.inputs, *self.outputs))
        known = set(given)
        calls: list[_Call] = []
        for op, kernel in self.steps:
            made = tuple(t for t in op.outputs if t.id not in known)
            known.update(t.id for t in made)
            inputs, outputs = (tuple(t.id for t in tensors) for tensors in (op.inputs, op.outputs))
            calls.append(
                _Call(
                    op,
                    kernel,
                    inputs,
                    outputs,
                    made,
                    bool(op.outputs) and op.schema.pure and all(0 in t.dims for t in op.outputs),
                    op.schema.family == CUSTOM,
                )
            )
        object.__setattr__(self, "_calls", tuple(calls))
        object.__setattr__(self, "_given", given)

    @property
    def explanation(self) -> Explanation:
        """The kinds whose kernels run."""
        return Explanation(
            backend="numpy",
            strategy="NumPy kernels",
            implementations=tuple(f"numpy:{op.kind}" for op, _ in self.steps),
            scratch_bytes=None,
            steps=tuple(ExplainedStep(name=f"numpy:{op.kind}", op=op.id, host=True) for op, _ in self.steps),
        )

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Runs each kernel; tensors between them are allocated.

        Kernels of ops of one's own may keep what they are given, so that they have copies of what does not belong to
        this run alone.

        Raises:
            OutOfMemoryError: a kernel found no memory for what it needs in between.
        """
        arrays = dict(zip(self._given, (*inputs, *outputs), strict=True))
        for call in self._calls:
            for tensor in call.made:
                arrays[tensor.id] = allocate(tensor)
            if call.empty:
                continue
            ins = [_read_only(arrays[i]) for i in call.inputs]
            outs = results = [arrays[i] for i in call.outputs]
            if call.custom:
                lent = self._given
                ins = [a.copy("K") if i in lent else a for i, a in zip(call.inputs, ins, strict=True)]
                outs = [
                    np.empty_like(a) if i in lent else a for i, a in zip(call.outputs, results, strict=True)
                ]
            self._run(call.op, call.kernel, tuple(ins), tuple(outs))
            for result, out in zip(results, outs, strict=True):
                if result is not out:
                    np.copyto(result, out)

    def _run(self, op: Op, kernel: Kernel, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> None:
        start = perf_counter()
        try:
            with np.errstate(all="ignore"):  # infinities and NaN are results here
                returned = kernel(op, ins, outs)
        except MemoryError as error:
            raise OutOfMemoryError(f"{op}: its NumPy kernel found no memory, {error}") from error
        if profiling.recordings:
            tensors = tuple(type_and_shape(t.data_type, t.shape) for t in (*op.inputs, *op.outputs))
            end = perf_counter()
            profiling.record(EventKind.host, op.kind, f"numpy:{op.kind}", tensors, start, end, op.id)
        # A kernel that returns its result has not written it, and the outputs are uninitialised memory.
        if returned is not None:
            raise SchemaError(
                f"{op}: its NumPy kernel returned a value; it must write into outputs, as in "
                "outputs[0][...] = result, and return None"
            )

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """A callable on these arrays."""
        ins, outs = tuple(inputs), tuple(outputs)

        def call() -> None:
            self.engine.check_open()
            self.run(ins, outs)

        return call


def _read_only(array: Array) -> Array:
    """A view that a kernel can't write to: the array may be the user's."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


class NumpyBackend:
    """See `graph.backend.Backend`."""

    name = "numpy"
    plans_with = ("numpy",)
    patterns: tuple[Pattern, ...] = (single_op(SINGLE_OP_PRIORITY - 8),)

    def unavailable(self) -> str | None:
        """NumPy is always there."""
        return None

    def why_not(self, ops: Sequence[Op]) -> str | None:
        """Only an op without a kernel."""
        for op in ops:
            if op.kind not in KERNELS:
                return f"{op.kind} has no NumPy kernel; register one with onednn_graph.extend.register_op"
        return None

    def compile(self, request: CompileRequest) -> tuple[NumpyExecutable]:
        """Kernels need no compilation; `any` becomes row-major."""
        outputs = tuple(as_plain(t) for t in request.outputs)
        steps = tuple((op, KERNELS[op.kind]) for op in request.ops)
        return (NumpyExecutable(steps, request.inputs, outputs, request.engine),)
