"""The family of convolutions' weight gradients: what the backend asks of it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LayoutType, LogicalTensor
from ....graph.model.op import Op
from ....ops.convolution_geometry import geometry
from ....ops.spatial import reached
from ..library.enumerators import FpmathMode
from ..library.loading import MAX_SPATIAL_RANK
from ..library.memory import canonical_strides
from ..library.primitive import NativeEngine
from .candidate import Candidate
from .problem import NATIVE_TYPES, Problem, View, check, make_problem
from .selection import candidates, choose
from .strategies import REFERENCE_STRATEGIES, STRATEGIES

BIAS = "BiasAddBackward"
"""The op whose sum the same primitive makes."""


def why_not(ops: Sequence[Op]) -> str | None:
    """Why a weight gradient, with the gradient of the bias or without, can't be lowered, as far as shapes tell."""
    op, *others = ops
    if (
        any(other.kind != BIAS or other.inputs[0].id != op.inputs[1].id for other in others)
        or len(others) > 1
    ):
        return "a weight gradient goes with the gradient of its bias only"
    data_type = op.inputs[0].data_type
    if data_type not in NATIVE_TYPES:
        return f"oneDNN convolutions take f32, bf16 and f16, not {data_type.value}"
    shapes = [t.shape for t in operands(ops)]
    rank = next((len(shape) - 2 for shape in shapes if shape is not None), None)
    if rank is not None and rank > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {rank}"
    if not all(t.is_concrete for t in operands(ops)):
        return None
    return check(problem_of(ops, FpmathMode.strict))


def operands(ops: Sequence[Op]) -> tuple[LogicalTensor, ...]:
    """The tensors whose arrays a plan takes, in its order."""
    op = ops[0]
    return op.inputs[0], op.inputs[1], op.outputs[0], *[other.outputs[0] for other in ops[1:]]


def is_zero(ops: Sequence[Op]) -> bool:
    """Whether the gradient is zero whatever the data: there are none, or the windows reach none along some axis."""
    src, diff_dst, weights, *bias = operands(ops)
    if 0 in src.dims or 0 in diff_dst.dims:
        return True
    p = geometry(ops[0].kind, ops[0].attributes, src.dims, diff_dst.dims, weights.dims)
    return not bias and not all(
        any(reached(slice(0, positions), s, tap * d - pad, size) for tap in range(k))
        for positions, k, s, d, pad, size in zip(
            p.dst_spatial, p.kernel, p.strides, p.dilations, p.pads_begin, p.src_spatial, strict=True
        )
    )


def lower(engine: NativeEngine, request: CompileRequest, rejected: list[str]) -> list[Candidate]:
    """Candidates for a request of one op, best first."""
    problem = problem_of(request.ops, FpmathMode[request.fpmath_mode])
    found = choose(engine, problem, STRATEGIES, request.options, rejected)
    if not found and request.forced:
        found = list(candidates(engine, problem, REFERENCE_STRATEGIES, rejected))
    return found


def problem_of(ops: Sequence[Op], fpmath: FpmathMode) -> Problem:
    """The problem of a weight gradient, and perhaps that of its bias, on concrete tensors."""
    op = ops[0]
    src, diff_dst, weights, *bias = operands(ops)
    gradient = geometry(op.kind, op.attributes, src.dims, diff_dst.dims, weights.dims)
    views = [_view(t) for t in (src, diff_dst, weights)]
    free = weights.layout_type is LayoutType.any
    problem = make_problem(gradient, src.data_type, *views, fpmath=fpmath, free_weights=free)
    return evolve(problem, bias=_view(bias[0])) if bias else problem


def _view(tensor: LogicalTensor) -> View:
    return View(tensor.dims, canonical_strides(tensor.dims, tensor.element_strides))
