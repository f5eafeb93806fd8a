"""The oneDNN backend: lowers ops onto the library's primitives."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from ...graph.compile.backend import SINGLE_OP_PRIORITY, CompileRequest, Pattern, single_op
from ...graph.compile.options import Tune
from ...graph.model.logical_tensor import LayoutType, LogicalTensor, as_plain, evolve_tensor
from ...graph.model.op import Op
from ...graph.runtime.arrays import Array, address, numpy_type
from ...graph.runtime.collecting import at_rest
from ...graph.runtime.engine import Engine
from ...graph.runtime.executable import Executable, ExplainedStep, Explanation
from ...graph.trust.store import STORE
from ...ops.data_types import DataType
from ...ops.errors import LibraryError, UnsupportedError
from ...ops.records import frozen
from .attempts import Attempts, Outcome
from .digest import Keys
from .executable import PlanExecutable
from .library import fork
from .library.descriptors import Descriptor
from .library.engines import native_engine
from .library.enumerators import Arg
from .library.finding import VARIABLE
from .library.loading import load
from .library.memory import OpaqueLayout
from .library.primitive import NativeEngine
from .lowering import table
from .lowering.blocks import in_blocks
from .lowering.decompression import may_decompress
from .lowering.finishing import finish, prepared, taps
from .lowering.fusions import HOSTED, PATTERNS
from .lowering.lowering import Lowering
from .lowering.narrowed import narrowed
from .lowering.unmoved import functions_first
from .lowering.walk import lower_all
from .online import MadePlan, OnlineExecutable, PlanProblem
from .plan.chooser import Limits
from .plan.constants import ConstantPlan
from .plan.emitter import Emitter
from .plan.plan import Plan
from .plan.steps import AnyStep, Buffer, HostStep, Step
from .plan.unfit import Unfit
from .proven import is_proven
from .threads import one_core_seconds, threads_for
from .weight_gradients.trial_run import TrialRun

LOGGER = logging.getLogger(__name__)
RESULTS = (Arg.DST, Arg.DIFF_SRC, Arg.DIFF_WEIGHTS)
"""Where primitives have their results."""
NO_LAYOUTS: Mapping[int, OpaqueLayout] = {}
_Pair = tuple[Lowering, PlanExecutable]


class OnednnBackend:
    """See `graph.backend.Backend`."""

    name = "onednn"
    plans_with = ("onednn", "numpy")
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
        for op in ops:
            hosted = len(ops) > 1 and (op.kind in HOSTED or may_decompress(op))
            reason = None if hosted else table.why_not(op)
            if reason is not None:
                return reason
        return None

    def conditions(self) -> Mapping[str, str]:
        """The library and the instruction set of its kernels; see `Elsewhere`."""
        library = load()
        # Times that are remembered for the wheel's own are not for a file that somebody names.
        path = "" if library.build == library.version else str(library.path)
        return {VARIABLE: path, "ONEDNN_MAX_CPU_ISA": library.effective_isa.upper()}

    def machine(self) -> Mapping[str, str]:
        """See `MachineBound`."""
        library = load()
        number, others = library.build[: len(library.version)], library.build[len(library.version) :]
        return {
            "oneDNN": " ".join([".".join(map(str, number)), *map(str, others)]),
            "instruction set": library.effective_isa,
        }

    def seconds(self, request: CompileRequest) -> float:
        """About how long one core takes; see `Elsewhere`."""
        return one_core_seconds(request.ops)

    def rates(self) -> Mapping[DataType, float]:
        """What products give here in each number format; see `Rated`."""
        from .rates import rates  # which asks this backend

        return rates(self)

    def compile(self, request: CompileRequest) -> Iterator[Executable]:
        """Plans of primitives, in the order of `Attempts`.

        Raises:
            UnsupportedError: the library can't do it; the message has the reasons.
        """
        opaque = _opaque_inputs(request)
        attempts = Attempts(every=request.options.verify)
        planner = _Planner(request, threads_for(request))
        for attempt in attempts:
            LOGGER.debug("%s: a plan with %s", request.ops[0], attempt.why)
            version = request.options.choices.version
            try:
                low, executable = planner.plan(attempt.limits, opaque)
                outcome = _outcome(low, executable)
                if opaque and (request.options.verify or attempts.doubted or not outcome.trusted):
                    opaque = NO_LAYOUTS  # what verifies it has plain inputs
                    low, executable = planner.plan(attempt.limits, opaque)
                    outcome = outcome.then(_outcome(low, executable))
            except UnsupportedError:
                if attempts.impossible():
                    continue
                raise
            yield planner.learning(attempt.limits, opaque, _made(low, executable, version))
            attempts.made(evolve(outcome, wrong=_found_wrong(executable.explanation)))


@frozen
class _Planner:
    """Makes the plans of a request.

    Attributes:
        threads: how many they run on.
    """

    request: CompileRequest
    threads: int

    def plan(self, limits: Limits, opaque: Mapping[int, OpaqueLayout]) -> _Pair:
        """A plan, with kernels and memory for so many threads."""
        library = native_engine(self.request.engine).lib

        def on_threads() -> _Pair:
            # Measuring takes its time, and runs kernels.
            measured = self.request.options.tune is Tune.measure
            with library.using(library.granted(self.threads)), nullcontext() if measured else at_rest():
                return _lowered(self.request, opaque, limits)

        return fork.run(on_threads)

    def learning(self, limits: Limits, opaque: Mapping[int, OpaqueLayout], first: MadePlan) -> Executable:
        """A plan, which its executions may make better where they have a choice."""
        if not first.problems:
            return first.executable
        choices = self.request.options.choices

        def make() -> MadePlan:
            version = choices.version
            return _made(*self.plan(limits, opaque), version)

        return OnlineExecutable(first, make, choices)


def _outcome(low: Lowering, executable: PlanExecutable) -> Outcome:
    """What a plan tells of what may be tried after it."""
    told = executable.explanation
    return Outcome(
        trusted=told.trusted,
        fuses=bool(low.notes.fused),
        unproven=frozenset(step.op for step in told.steps if step.op is not None and not step.proven),
        choices=low.chooser.choices,
    )


def _found_wrong(told: Explanation) -> frozenset[tuple[int, str]]:
    """The op and the implementation of each kernel of a plan that a verdict stands against by now."""
    asked = [step for step in told.steps if step.trust and step.op is not None]
    known = STORE.known(step.trust for step in asked)
    bad = {key for key, one in known.items() if not one.right}
    return frozenset(
        (step.op, step.implementation) for step in asked if step.trust in bad and step.op is not None
    )


def _lowered(request: CompileRequest, opaque: Mapping[int, OpaqueLayout], limits: Limits) -> _Pair:
    """A plan of primitives, and how it was made.

    Args:
        opaque: layouts of inputs that are taken as they lie.
        limits: what is not to be done.
    """
    engine = native_engine(request.engine)
    blocks = in_blocks(request, engine.lib.threads)
    opaque = opaque if blocks is None else NO_LAYOUTS
    block = functions_first(narrowed(request if blocks is None else blocks.request))
    try:
        low = Lowering(engine, block, opaque, limits)
        lower_all(low, table.LOWERED)
        layouts = finish(low)
    except Unfit as error:
        raise UnsupportedError(f"{request.ops[0]}: {error}") from error
    if low.notes.hosted and (request.forced or not any(isinstance(step, Step) for step in low.emitter.steps)):
        reasons = "; ".join(dict.fromkeys(low.notes.reasons))
        raise UnsupportedError(f"no primitive of the library is left ({reasons})")
    made_once = prepared(low) if blocks is None else None
    plan = Plan(engine, low.emitter.steps)
    known = {t.id for op in request.ops for t in op.outputs}  # moving ops behind others makes new ones
    early = () if made_once is None else made_once.plan.steps
    doubted = request.options.verify or not all(map(_is_proven, (*early, *plan.steps)))
    executable = PlanExecutable(
        plan,
        request.engine,
        tuple(d if t.id in opaque else t for t, d in zip(request.inputs, request.described, strict=True)),
        tuple(
            as_plain(t) if layout is None else _opaque(request.engine, t, layout)
            for t, layout in zip(request.outputs, layouts, strict=True)
        ),
        Explanation(
            backend=OnednnBackend.name,
            strategy=low.notes.strategy
            + ("" if blocks is None else f", in {len(blocks.offsets)} blocks of heads"),
            implementations=plan.implementations,
            scratch_bytes=plan.scratch_bytes,
            rejected=tuple(dict.fromkeys(low.notes.reasons)),
            considered=tuple(low.notes.considered),
            prepared=() if made_once is None else made_once.plan.implementations,
            prepared_bytes=0 if made_once is None else made_once.nbytes,
            steps=_explained(low, plan, made_once, () if blocks is None else blocks.offsets),
            threads=plan.threads,
        ),
        made_once,
        () if blocks is None else blocks.offsets,
        tuple(tap for tap in taps(low) if tap.tensor.id in known) if doubted and blocks is None else (),
    )
    return low, executable


def _made(low: Lowering, executable: PlanExecutable, version: int) -> MadePlan:
    """A plan with the problems that executions choose for."""
    trials = {
        step.op: step.run.trial
        for step in executable.plan.steps
        if isinstance(step, HostStep) and isinstance(step.run, TrialRun)
    }
    problems: dict[str, PlanProblem] = {}
    for op, (name, taken) in low.notes.decided.items():
        if taken is not None or op in trials:
            ops = problems[name].ops if name in problems else ()
            problems[name] = PlanProblem((*ops, op), taken, trials.get(op))
    return MadePlan(executable, problems, version)


def _explained(
    low: Lowering, plan: Plan, prepared: ConstantPlan | None, blocks: Sequence[Sequence[int]]
) -> tuple[ExplainedStep, ...]:
    fused = {ops[0].id: "+".join(op.kind for op in ops) for ops in low.notes.fused}
    plans = [(plan, False, Keys(plan, blocks))]
    if prepared is not None:
        plans.insert(0, (prepared.plan, True, Keys(prepared.plan)))
    return tuple(
        ExplainedStep(
            name=name,
            op=step.op,
            fused="" if early or step.is_copy or step.op is None else fused.get(step.op, ""),
            prepared=early,
            host=isinstance(step, HostStep) and step.is_op,
            implementation=step.implementation,
            proven=proven,
            trust=keys.of(step) if isinstance(step, Step) and not proven else "",
            layout=_layout(step),
            change=_change(step),
        )
        for steps, early, keys in plans
        for step, name in zip(steps.steps, steps.implementations, strict=True)
        for proven in (_is_proven(step),)
    )


def _layout(step: AnyStep) -> str:
    """How the result of a primitive lies: the last of its arguments that it writes."""
    if not isinstance(step, Step):
        return ""
    return next(
        (buffer.desc.describe() for number, buffer in reversed(step.arguments) if number in RESULTS), ""
    )


def _change(step: AnyStep) -> str:
    """What a copy changes, in words."""
    if not isinstance(step, Step) or not step.is_copy:
        return ""
    given = dict(step.arguments)
    source, target = given[Arg.SRC].desc, given[Arg.DST].desc
    types = source.data_type is not target.data_type
    told = [f"{d.data_type.value} {d.describe()}" if types else d.describe() for d in (source, target)]
    return " → ".join(told)


def _is_proven(step: AnyStep) -> bool:
    """Whether the fuzzers have covered what a step runs; what runs on the host is no kernel of the library."""
    if not isinstance(step, Step):
        return True
    asked = step.desc.asked
    kind = asked.swept_as if isinstance(asked, Descriptor) else step.desc.function
    return is_proven(step.desc.engine.lib, kind, step.implementation)


def _opaque_inputs(request: CompileRequest) -> Mapping[int, OpaqueLayout]:
    """The layouts of inputs that can be taken as they lie."""
    found: dict[int, OpaqueLayout] = {}
    for tensor in request.described:
        if tensor.layout_type is LayoutType.opaque:
            content = request.engine.layouts.of(tensor).content
            if isinstance(content, OpaqueLayout) and content.own_axes:
                found[tensor.id] = content
    return found


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
    copies = Emitter.on(engine)
    try:
        copies.copy("to plain", Buffer(layout.desc, 0), Buffer(layout.plain, 1))
    except Unfit as error:
        raise LibraryError(f"oneDNN can't bring the tensor to a plain layout, {error}") from error
    fork.run(Plan(engine, copies.steps).run, [address(buffer), address(result)])
    return result
