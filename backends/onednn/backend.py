"""The oneDNN backend: lowers ops onto the library's primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import field, frozen

from ...graph.arrays import Array, address, numpy_type
from ...graph.backend import (
    SINGLE_OP_PRIORITY,
    CompileRequest,
    Executable,
    Explanation,
    Pattern,
    single_op,
)
from ...graph.engine import Engine
from ...graph.logical_tensor import LayoutType, LogicalTensor, as_plain, evolve_tensor
from ...graph.op import Op
from ...graph.tensor import Tensor
from ...ops.errors import LibraryError, UnsupportedError
from . import convolution, fork
from .library import load
from .memory import OpaqueLayout
from .plan import Buffer, Frame, Plan, copy_step
from .primitive import NativeEngine
from .quarantine import is_proven

FAMILIES = {
    "ConvolutionBackwardWeights": convolution,
    "ConvTransposeBackwardWeights": convolution,
}
"""Op kind → the module that lowers it."""


def native_engine(engine: Engine) -> NativeEngine:
    """The library's engine behind a user's."""
    return engine.resource("onednn", NativeEngine)


@frozen(eq=False)
class PlanExecutable:
    """A plan on arrays.

    Attributes:
        order: for each array that the plan takes, its place among the inputs and outputs.
    """

    plan: Plan
    order: tuple[int, ...]
    engine: Engine
    outputs: tuple[LogicalTensor, ...]
    explanation: Explanation = field(repr=False)

    def opaque_bytes(self, index: int) -> int:
        """Size of an output in the layout that the primitive chose."""
        layout_id = self.outputs[index].layout_id
        layout = self.engine.resource("onednn.layouts", _Layouts).get(layout_id)
        return layout.desc.nbytes if layout is not None else self.outputs[index].nbytes

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """One call into the library for each primitive."""
        arrays = (*inputs, *outputs)
        fork.run(self.plan.run, [address(arrays[i]) for i in self.order])

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with addresses, memory objects and arguments prepared."""
        arrays = (*inputs, *outputs)
        frame = Frame(self.plan)
        frame.point([address(arrays[i]) for i in self.order])
        engine = self.engine

        def call(keep_alive: tuple[Array, ...] = arrays) -> None:
            del keep_alive
            engine.check_open()
            fork.run(frame.run)

        return call


@frozen(eq=False)
class ZerosExecutable:
    """The gradient of nothing: the library leaves outputs of empty problems untouched."""

    outputs: tuple[LogicalTensor, ...]
    engine: Engine

    @property
    def explanation(self) -> Explanation:
        """No kernel runs."""
        return Explanation(
            backend="onednn", strategy="zeros of an empty batch", implementations=(), scratch_bytes=0
        )

    def opaque_bytes(self, index: int) -> int:
        """Outputs are plain here."""
        return self.outputs[index].nbytes

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Fills the outputs with zeros."""
        for output in outputs:
            output[...] = 0

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same on these arrays."""
        targets = tuple(outputs)

        def call() -> None:
            self.engine.check_open()
            self.run((), targets)

        return call


class OnednnBackend:
    """See `graph.backend.Backend`."""

    name = "onednn"
    patterns: tuple[Pattern, ...] = (single_op(SINGLE_OP_PRIORITY),)

    def unavailable(self) -> str | None:
        """Why the library can't be loaded, or None."""
        try:
            load()
        except LibraryError as error:
            return str(error)
        return None

    def why_not(self, ops: Sequence[Op]) -> str | None:
        """The family's reason, as far as the known shapes tell."""
        if len(ops) != 1:
            return "it runs one op a partition so far"
        family = FAMILIES.get(ops[0].kind)
        return f"no lowering of {ops[0].kind}" if family is None else family.why_not(ops[0])

    def compile(self, request: CompileRequest) -> Executable:
        """The first candidate that is trusted, or that passes verification where that is asked for.

        Raises:
            UnsupportedError: no candidate is left; the message has the reasons.
        """
        op = request.ops[0]
        engine = native_engine(request.engine)
        rejected: list[str] = []
        if any(0 in tensor.dims for tensor in request.inputs):
            return ZerosExecutable(tuple(as_plain(t) for t in request.outputs), request.engine)
        family = FAMILIES[op.kind]
        places = {t.id: i for i, t in enumerate((*request.inputs, *request.outputs))}
        order = tuple(places[t.id] for t in family.operands(op))
        found = family.lower(engine, request, rejected)
        considered = tuple(candidate.considered for candidate in found)
        for candidate in found:
            must_verify = request.options.verify or not is_proven(candidate.implementation)
            executable = PlanExecutable(
                candidate.plan,
                order,
                request.engine,
                tuple(
                    as_plain(t) if opaque is None else _opaque(request.engine, t, opaque)
                    for t, opaque in zip(request.outputs, candidate.opaque, strict=True)
                ),
                Explanation(
                    backend=self.name,
                    strategy=candidate.name,
                    implementations=candidate.plan.implementations,
                    scratch_bytes=candidate.plan.scratch_bytes,
                    rejected=tuple(rejected),
                    verified=must_verify,
                    considered=considered,
                ),
            )
            wrong = request.verifier(executable) if must_verify else None
            if wrong is None:
                return executable
            rejected.append(f"{candidate.name} failed verification, {wrong}")
        raise UnsupportedError(f"no kernel of the library is left ({'; '.join(rejected)})")

    def to_plain(self, tensor: Tensor) -> Array | None:
        """A plain copy of a tensor in one of the library's layouts."""
        layouts = tensor.engine.resource("onednn.layouts", _Layouts)
        found = layouts.get(tensor.logical_tensor.layout_id)
        if found is None:
            return None
        result = np.empty(tensor.logical_tensor.dims, numpy_type(tensor.logical_tensor.data_type))
        engine = native_engine(tensor.engine)
        step = copy_step(engine, "to plain", Buffer(found.desc, 0), Buffer(found.plain, 1))
        if step is None:
            raise LibraryError(f"oneDNN has no reorder from {found.desc.describe()} to a plain layout")
        plan = Plan(engine, [step])
        plan.run([address(tensor.data), address(result)])
        return result


class _Layouts:
    """Opaque layouts that were given out for an engine, by id; equal layouts share one."""

    def __init__(self) -> None:
        self._layouts: list[OpaqueLayout] = []

    def id_of(self, layout: OpaqueLayout) -> int:
        for number, known in enumerate(self._layouts):
            if known.desc == layout.desc and known.plain == layout.plain:
                return number
        self._layouts.append(layout)
        return len(self._layouts) - 1

    def get(self, layout_id: int | None) -> OpaqueLayout | None:
        if layout_id is None or layout_id >= len(self._layouts):
            return None
        return self._layouts[layout_id]


def _opaque(engine: Engine, tensor: LogicalTensor, layout: OpaqueLayout) -> LogicalTensor:
    layout_id = engine.resource("onednn.layouts", _Layouts).id_of(layout)
    return evolve_tensor(tensor, layout_type=LayoutType.opaque, layout_id=layout_id)
