"""The NumPy backend: runs every op that has a kernel, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

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
class NumpyExecutable:
    """Kernels in order, on arrays by tensor id.

    Attributes:
        steps: each op with its kernel, which stays even if the op is unregistered later.
    """

    steps: tuple[tuple[Op, Kernel], ...]
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    engine: Engine

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
        arrays = {t.id: a for t, a in zip(self.inputs, inputs, strict=True)}
        arrays |= {t.id: a for t, a in zip(self.outputs, outputs, strict=True)}
        lent = frozenset(arrays)
        for op, kernel in self.steps:
            if op.outputs and op.schema.pure and all(0 in t.dims for t in op.outputs):
                arrays |= {t.id: allocate(t) for t in op.outputs if t.id not in arrays}
                continue  # no element to compute
            for tensor in op.outputs:
                if tensor.id not in arrays:
                    arrays[tensor.id] = allocate(tensor)
            ins = tuple(_read_only(arrays[t.id]) for t in op.inputs)
            outs = results = tuple(arrays[t.id] for t in op.outputs)
            if op.schema.family == CUSTOM:
                ins = tuple(
                    one.copy("K") if t.id in lent else one for t, one in zip(op.inputs, ins, strict=True)
                )
                outs = tuple(
                    np.empty_like(one) if t.id in lent else one
                    for t, one in zip(op.outputs, results, strict=True)
                )
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
            for result, out in zip(results, outs, strict=True):
                if result is not out:
                    np.copyto(result, out)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """A callable on these arrays."""
        ins, outs = tuple(inputs), tuple(outputs)

        def call() -> None:
            self.engine.check_open()
            self.run(ins, outs)

        return call


def _read_only(array: Array) -> Array:
    """A view that a kernel can't write to: the array may be the user's."""
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
