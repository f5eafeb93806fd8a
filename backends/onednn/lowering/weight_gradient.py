"""Convolutions' weight gradients: a choice among the strategies of `weight_gradients/`, put in the place of the op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from attrs import evolve

from ....graph.compile.options import Tune
from ....graph.model.logical_tensor import LayoutType, LogicalTensor, row_major
from ....graph.model.op import Op
from ....ops.convolution_geometry import ConvolutionGeometry, geometry
from ....ops.data_types import DataType
from ....ops.spatial import reaching
from ..library.enumerators import FpmathMode
from ..library.loading import MAX_SPATIAL_RANK
from ..library.memory import MemoryDesc, canonical_strides
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from ..weight_gradients.online import decided
from ..weight_gradients.problem import NATIVE_TYPES, Problem, View, check, make_problem
from ..weight_gradients.selection import candidates, choose
from ..weight_gradients.strategies import REFERENCE_STRATEGIES, STRATEGIES
from ..weight_gradients.trial_run import TrialRun
from .links import Link, bias_gradients
from .long_sums import BESIDE
from .lowering import Lowering
from .on_host import zeros
from .tensors import repeats


def weight_gradient(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The best candidate, or the one whose turn it is, and the gradient of the bias beside it where that is wanted."""
    del links
    weights = op.outputs[0]
    gradient = _gradient(op)
    if _is_zero(op, gradient):
        zeros(low, weights)
        return
    bias = _bias_beside(low, op)
    made = [low.tensors.plain(tensor) for tensor in op.inputs[:2]]
    free = low.edges.may_stay_opaque(weights)
    targets = [low.tensors.target(tensor) for tensor in (weights, *bias)]
    problem = make_problem(
        gradient,
        made[0].desc.data_type,
        *[_view_of(buffer.desc) for buffer in (*made, targets[0])],
        fpmath=low.chooser.fpmath,
        free_weights=free,
    )
    if bias:
        problem = evolve(problem, bias=_view_of(targets[1].desc))
    reasons: list[str] = []
    found = choose(low.engine, problem, STRATEGIES, low.request.options, reasons)
    if not found and low.tensors.way.references:
        found = list(candidates(low.engine, problem, REFERENCE_STRATEGIES, reasons))
    if not found:
        raise Unfit("; ".join(reasons))
    low.notes.reasons += reasons
    trial = None
    if (
        low.request.options.tune is Tune.online
        and low.request.options.strategy is None
        and low.chooser.is_first(op.id)
    ):
        name, found, trial = decided(low.engine, problem, found, low.request.options)
        low.notes.decided[op.id] = name, found[0].name if trial is None else None
    taken = low.chooser.choose(op.id, found)
    if trial is not None:
        low.notes.considered.extend(candidate.considered for candidate in found)
        _try(low, op, TrialRun(trial, found), made, targets)
        for tensor, buffer in zip((weights, *bias), targets, strict=True):
            low.tensors.produce(tensor, buffer)
        return
    low.notes.considered.extend(candidate.considered for candidate in found)
    low.notes.ways.append(taken.name)
    opaque = taken.opaque[0]
    if opaque is not None:
        targets[0] = Buffer(opaque.desc)
    low.emitter.splice(taken.plan.steps, (*made, *targets))
    if opaque is not None:
        low.tensors.leave_opaque(weights, targets[0], opaque)
    else:
        low.tensors.produce(weights, targets[0])
    for tensor, buffer in zip(bias, targets[1:], strict=True):
        low.tensors.produce(tensor, buffer)


def _try(low: Lowering, op: Op, trial: TrialRun, made: Sequence[Buffer], targets: Sequence[Buffer]) -> None:
    """Adds the step that does the op as the trial says, with memory for whichever candidate that is."""
    scratch = low.layouts.temporary((max(trial.scratch_bytes, 1),), DataType.u8)
    names = trial.trial.names
    low.emitter.on_host(
        "weight gradient, candidates in turn",
        trial,
        made,
        (*targets, scratch),
        implementation=", ".join(names),
    )
    low.notes.ways.append(f"{len(names)} candidates in turn")


def _bias_beside(low: Lowering, op: Op) -> tuple[LogicalTensor, ...]:
    """The gradient of the bias that the same primitive makes, where nobody has made it yet and it is no long sum."""
    if op.kind != "ConvolutionBackwardWeights" or not low.fuses:
        return ()
    positions = math.prod(_gradient(op).dst_spatial) * op.inputs[1].dims[0]
    if positions > BESIDE:
        return ()
    beside = (user for user in bias_gradients(op, low.edges.users) if low.notes.take_along(user))
    return tuple(user.outputs[0] for user in islice(beside, 1))


def _gradient(op: Op) -> ConvolutionGeometry:
    src, diff_dst, weights = op.inputs[0], op.inputs[1], op.outputs[0]
    return geometry(op.kind, op.attributes, src.dims, diff_dst.dims, weights.dims)


def _is_zero(op: Op, gradient: ConvolutionGeometry) -> bool:
    """Whether it is zero whatever the data: there are none, or the windows reach none along some axis.

    The library leaves outputs of empty problems untouched, and has no primitive for windows in the padding alone.
    """
    if any(0 in tensor.dims for tensor in op.inputs[:2]):
        return True
    g = gradient
    axes = zip(g.kernel, g.dilations, g.strides, g.pads_begin, g.dst_spatial, g.src_spatial, strict=True)
    return not all(reaching(*axis) for axis in axes)


def _view_of(desc: MemoryDesc) -> View:
    return View(desc.shape, canonical_strides(desc.shape, desc.strides or row_major(desc.shape)))


def _view(tensor: LogicalTensor) -> View:
    strides = row_major(tensor.dims) if repeats(tensor) else tensor.element_strides
    return View(tensor.dims, canonical_strides(tensor.dims, strides))


def problem_of(op: Op, fpmath: FpmathMode) -> Problem:
    """The problem of a weight gradient on tensors that lie as they are declared, or as they are copied."""
    tensors = (op.inputs[0], op.inputs[1], op.outputs[0])
    free = tensors[2].layout_type is LayoutType.any
    views = [_view(tensor) for tensor in tensors]
    return make_problem(_gradient(op), tensors[0].data_type, *views, fpmath=fpmath, free_weights=free)


def why_not(op: Op) -> str | None:
    """Why no candidate can do it, as far as its types and known shapes tell."""
    tensors = (op.inputs[0], op.inputs[1], op.outputs[0])
    data_type = tensors[0].data_type
    if data_type not in NATIVE_TYPES:
        return f"oneDNN convolutions take f32, bf16 and f16, not {data_type.value}"
    rank = next((len(t.shape) - 2 for t in tensors if t.shape is not None), None)
    if rank is not None and rank > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {rank}"
    if not all(t.is_concrete for t in tensors):
        return None
    return check(problem_of(op, FpmathMode.strict))
