"""The oneDNN backend: lowers ops onto the library's primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from ...graph.compile.backend import SINGLE_OP_PRIORITY, CompileRequest, Pattern, single_op
from ...graph.model.logical_tensor import LayoutType, LogicalTensor, as_plain, evolve_tensor
from ...graph.model.op import Op
from ...graph.runtime.arrays import Array, address, numpy_type
from ...graph.runtime.engine import Engine
from ...graph.runtime.executable import Executable, Explanation
from ...ops.errors import LibraryError, UnsupportedError
from .library import fork
from .library.engines import native_engine
from .library.loading import load
from .library.memory import OpaqueLayout
from .library.primitive import NativeEngine
from .lowering import table
from .lowering.blocks import in_blocks
from .lowering.lowering import Lowering
from .lowering.patterns import HOSTED, PATTERNS
from .plan.assembly import Assembly, Unfit
from .plan.plan import Buffer, Frame, HostStep, Plan, Step
from .plan.prepared import Prepared, Ready
from .proven import is_proven
from .weight_gradients import weight_gradient

WEIGHT_GRADIENTS = ("ConvolutionBackwardWeights", "ConvTransposeBackwardWeights")
"""Kinds that are lowered by a choice among strategies; all others are in `lowering/table.py`."""


@frozen(eq=False)
class PlanExecutable:
    """A plan on arrays.

    Attributes:
        order: for each array that the plan takes, its place among the inputs and outputs.
        prepared: what it takes beside them, made of constant inputs.
        blocks: bytes to add to the arguments' addresses, for each time that the plan runs.
        fuses: whether primitives do more than one op each.
    """

    plan: Plan
    order: tuple[int, ...]
    engine: Engine
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    explanation: Explanation = field(repr=False)
    prepared: Prepared | None = None
    blocks: tuple[tuple[int, ...], ...] = ()
    fuses: bool = False

    def _addresses(self, arrays: Sequence[Array]) -> tuple[list[int], Ready | None]:
        """Addresses of all arguments, and what must live as long as they are used."""
        taken = [arrays[i] for i in self.order]
        addresses = [address(array) for array in taken]
        if self.prepared is None:
            return addresses, None
        ready = self.prepared.ready(taken, addresses)
        return [*addresses, *ready.addresses], ready

    def _run_blocks(self, addresses: Sequence[int]) -> None:
        frame = self.plan.take()
        try:
            for offsets in self.blocks:
                frame.point([start + offset for start, offset in zip(addresses, offsets, strict=True)])
                frame.run()
        finally:
            self.plan.give(frame)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """One call into the library for each primitive."""
        arrays = (*inputs, *outputs)

        def run() -> None:
            addresses, ready = self._addresses(arrays)
            if self.blocks:
                self._run_blocks(addresses)
            else:
                self.plan.run(addresses)
            del ready

        fork.run(run)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with addresses, memory objects and arguments prepared."""
        arrays = (*inputs, *outputs)
        frame = Frame(self.plan)
        # Constants are prepared by primitives.
        addresses, ready = fork.run(self._addresses, arrays)
        frame.point(addresses)
        engine = self.engine
        run = partial(self._run_blocks, addresses) if self.blocks else frame.run

        def call(keep_alive: tuple[object, ...] = (arrays, ready)) -> None:
            del keep_alive
            engine.check_open()
            fork.run(run)

        return call


@frozen(eq=False)
class ZerosExecutable:
    """The gradient of nothing: the library leaves outputs of empty problems untouched, and has no primitive for windows
    in the padding alone.
    """

    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    engine: Engine

    @property
    def explanation(self) -> Explanation:
        """No kernel runs."""
        return Explanation(
            backend="onednn",
            strategy="zeros, for no window reaches data",
            implementations=(),
            scratch_bytes=0,
        )

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
    patterns: tuple[Pattern, ...] = (*PATTERNS, single_op(SINGLE_OP_PRIORITY))

    def unavailable(self) -> str | None:
        """Why the library can't be loaded, or None."""
        try:
            load()
        except LibraryError as error:
            return str(error)
        return None

    def why_not(self, ops: Sequence[Op]) -> str | None:
        """The reason of the first op that no primitive can do, as far as the known shapes tell."""
        if any(op.kind in WEIGHT_GRADIENTS for op in ops):
            return weight_gradient.why_not(gradient_first(ops))
        for op in ops:
            reason = None if op.kind in HOSTED and len(ops) > 1 else table.why_not(op)
            if reason is not None:
                return reason
        return None

    def compile(self, request: CompileRequest) -> Executable:
        """A plan of primitives.

        Raises:
            UnsupportedError: the library can't do it; the message has the reasons.
        """
        ordered = gradient_first(request.ops)
        if ordered[0].kind in WEIGHT_GRADIENTS:
            return self._weight_gradient(evolve(request, ops=ordered))
        return self._plan(request)

    def _plan(self, request: CompileRequest) -> Executable:
        """The ops as primitives one after another, each with what it takes along; with nothing if that proves wrong."""
        failures: list[str] = []
        for fuses in (True, False):
            verified = request.options.verify
            known = {} if verified else self._opaque_inputs(request)
            executable = self._lowered(request, known, fuses, failures)
            if not verified and unproven(executable):
                verified = True
                if known:  # the verifier's inputs are plain
                    executable = self._lowered(request, {}, fuses, failures)
            if not verified:
                return executable
            wrong = request.verifier(executable)
            if wrong is None:
                return evolve(executable, explanation=evolve(executable.explanation, verified=True))
            failures.append(f"the plan failed verification, {wrong}")
            if not fuses or not executable.fuses:
                break
        raise UnsupportedError("; ".join(failures))

    def _lowered(
        self, request: CompileRequest, known: dict[int, OpaqueLayout], fuses: bool, failures: Sequence[str]
    ) -> PlanExecutable:
        """A plan of primitives.

        Args:
            known: layouts of inputs that are taken as they lie.
            fuses: whether primitives take along what follows.
            failures: of plans that were tried before.
        """
        engine = native_engine(request.engine)
        blocks = in_blocks(request, engine.lib.threads)
        known = known if blocks is None else {}
        inputs = tuple(
            d if t.id in known else t for t, d in zip(request.inputs, request.described, strict=True)
        )
        block = request if blocks is None else blocks.request
        try:
            low = Lowering(engine, block, table.LOWERED, known, fuses=fuses)
            low.lower_all()
            layouts = low.finish()
        except Unfit as error:
            raise UnsupportedError("; ".join((*failures, f"{request.ops[0]}: {error}"))) from error
        only_host = all(isinstance(step, HostStep) for step in low.steps)
        if low.steps and (only_host or (request.forced and low.hosted)):
            reasons = "; ".join(dict.fromkeys((*failures, *low.reasons)))
            raise UnsupportedError(f"no primitive of the library is left ({reasons})")
        prepared = low.prepared() if blocks is None else None
        plan = Plan(engine, low.steps)
        chains = ["+".join(op.kind for op in ops) for ops in low.fused]
        return PlanExecutable(
            plan,
            tuple(range(len(request.inputs) + len(request.outputs))),
            request.engine,
            inputs,
            tuple(
                as_plain(t) if layout is None else _opaque(request.engine, t, layout)
                for t, layout in zip(request.outputs, layouts, strict=True)
            ),
            Explanation(
                backend=self.name,
                strategy=(f"fused {', '.join(chains)}" if chains else "primitives in order")
                + ("" if blocks is None else f", in {len(blocks.offsets)} blocks of heads"),
                implementations=plan.implementations,
                scratch_bytes=plan.scratch_bytes,
                rejected=tuple(dict.fromkeys((*failures, *low.reasons))),
                prepared=() if prepared is None else prepared.plan.implementations,
            ),
            prepared,
            () if blocks is None else blocks.offsets,
            fuses=bool(low.fused),
        )

    def _opaque_inputs(self, request: CompileRequest) -> dict[int, OpaqueLayout]:
        """The layouts of inputs that can be taken as they lie."""
        found: dict[int, OpaqueLayout] = {}
        for tensor in request.described:
            if tensor.layout_type is LayoutType.opaque:
                content = request.engine.layouts.of(tensor).content
                if isinstance(content, OpaqueLayout) and content.own_axes:
                    found[tensor.id] = content
        return found

    def _weight_gradient(self, request: CompileRequest) -> Executable:
        """The first candidate that is trusted, or that passes verification where that is asked for."""
        engine = native_engine(request.engine)
        rejected: list[str] = []
        if weight_gradient.is_zero(request.ops):
            outputs = tuple(as_plain(t) for t in request.outputs)
            return ZerosExecutable(request.inputs, outputs, request.engine)
        places = {t.id: i for i, t in enumerate((*request.inputs, *request.outputs))}
        order = tuple(places[t.id] for t in weight_gradient.operands(request.ops))
        found = weight_gradient.lower(engine, request, rejected)
        considered = tuple(candidate.considered for candidate in found)
        for candidate in found:
            executable = PlanExecutable(
                candidate.plan,
                order,
                request.engine,
                request.inputs,
                tuple(
                    as_plain(t) if opaque is None else _opaque(request.engine, t, opaque)
                    for t, opaque in zip_longest(request.outputs, candidate.opaque)
                ),
                Explanation(
                    backend=self.name,
                    strategy=candidate.name,
                    implementations=candidate.plan.implementations,
                    scratch_bytes=candidate.plan.scratch_bytes,
                    rejected=tuple(rejected),
                    considered=considered,
                ),
            )
            must_verify = request.options.verify or bool(unproven(executable)) or len(request.ops) > 1
            if must_verify:
                explanation = evolve(executable.explanation, verified=True)
                executable = evolve(executable, explanation=explanation)
            wrong = request.verifier(executable) if must_verify else None
            if wrong is None:
                return executable
            rejected.append(f"{candidate.name} failed verification, {wrong}")
        raise UnsupportedError(f"no kernel of the library is left ({'; '.join(rejected)})")


def unproven(executable: PlanExecutable) -> tuple[str, ...]:
    """The implementations of a plan that the fuzzers have not covered."""
    prepared = () if executable.prepared is None else executable.prepared.plan.steps
    return tuple(
        step.implementation
        for step in (*executable.plan.steps, *prepared)
        if isinstance(step, Step) and not is_proven(step.desc.function, step.implementation)
    )


def gradient_first(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The ops with weight gradients before all others."""
    return tuple(sorted(ops, key=lambda op: op.kind not in WEIGHT_GRADIENTS))


def _opaque(engine: Engine, tensor: LogicalTensor, layout: OpaqueLayout) -> LogicalTensor:
    to_plain = partial(_to_plain, native_engine(engine), layout, tensor.dims, numpy_type(tensor.data_type))
    handle = engine.layouts.give("onednn", tensor, layout.desc.nbytes, layout, layout.same, to_plain)
    return evolve_tensor(tensor, layout_type=LayoutType.opaque, layout_id=handle.id)


def _to_plain(
    engine: NativeEngine, layout: OpaqueLayout, shape: tuple[int, ...], dtype: np.dtype[Any], buffer: Array
) -> Array:
    """A plain array of the elements of a tensor that lies in one of the library's layouts.

    Raises:
        LibraryError: the library has no way between the two.
    """
    result = np.empty(shape, dtype)
    copies = Assembly(engine)
    try:
        copies.copy("to plain", Buffer(layout.desc, 0), Buffer(layout.plain, 1))
    except Unfit as error:
        raise LibraryError(f"oneDNN can't bring the tensor to a plain layout, {error}") from error
    fork.run(Plan(engine, copies.steps).run, [address(buffer), address(result)])
    return result
