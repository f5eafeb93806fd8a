"""Lowerings of the convolution family onto oneDNN primitives.

A transposed op has become a convolution with exchanged roles before it gets here (`WeightsGradient`), so one
primitive serves all of them. A lowering is a way to lay out the arguments of that primitive; the table
`LOWERINGS` is tried in order, and each entry says why it does not apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from attrs import evolve, field, frozen

from ...graph.backend import CompileRequest
from ...graph.logical_tensor import LayoutType, LogicalTensor, may_overlap, row_major
from ...graph.op import Op
from ...ops.data_types import DataType
from ...ops.errors import LibraryError
from ...ops.weights_gradient import WeightsGradient, weights_gradient
from .library import Arg, FpmathMode, Query
from .memory import MemoryDesc, OpaqueLayout
from .plan import Buffer, Plan, Step
from .primitive import (
    ConvolutionGeometry,
    NativeEngine,
    PrimitiveDesc,
    convolution_backward_weights,
    implementations,
    reorder,
)
from .quarantine import REFERENCE, barred

NATIVE_TYPES = (DataType.f32, DataType.bf16, DataType.f16)
MAX_SPATIAL_RANK = 3
INT_MAX = 2**31 - 1
"""The library's kernels keep sizes and offsets in C ints."""

SRC, DIFF_DST, DIFF_WEIGHTS = 0, 1, 2
"""Numbers of an executable's arguments: the op's inputs, then its output."""


@frozen
class View:
    """Shape and strides, in elements, of a canonical view."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@frozen(kw_only=True)
class Problem:
    """A weight gradient with everything that a choice of kernels depends on.

    Attributes:
        gradient: the normalised problem.
        data_type: of all three tensors.
        src, dst, weights: where the tensors lie. `src` plays src under normalised roles.
        fpmath: how far the library may lower the precision of f32.
        free_weights: dW may stay in the layout that the primitive chooses.
    """

    gradient: WeightsGradient
    data_type: DataType
    src: View
    dst: View
    weights: View
    fpmath: FpmathMode = FpmathMode.strict
    free_weights: bool = False

    @property
    def channels_last(self) -> bool:
        """Whether the channels of src are adjacent in memory."""
        return self.src.strides[1] == 1


def make_problem(
    gradient: WeightsGradient,
    data_type: DataType,
    op_src: View,
    op_diff_dst: View,
    op_diff_weights: View,
    fpmath: FpmathMode = FpmathMode.strict,
    free_weights: bool = False,
) -> Problem:
    """Canonical views of the op's arrays, roles normalised.

    Args:
        op_src, op_diff_dst, op_diff_weights: shapes and strides in the op's own formats.
    """
    playing_src, playing_dst = (op_diff_dst, op_src) if gradient.exchanged else (op_src, op_diff_dst)
    src_shape, src_strides = gradient.src_axes.apply(playing_src.shape, playing_src.strides)
    dst = View(*gradient.dst_axes.apply(playing_dst.shape, playing_dst.strides))
    weights = View(*gradient.weights_axes.apply(op_diff_weights.shape, op_diff_weights.strides))
    if gradient.groups == 1:
        weights = View(weights.shape[1:], weights.strides[1:])
    return Problem(
        gradient=gradient,
        data_type=data_type,
        src=View((*src_shape[:2], *gradient.src_spatial), src_strides),
        dst=dst,
        weights=weights,
        fpmath=fpmath,
        free_weights=free_weights,
    )


def check(problem: Problem) -> str | None:
    """Why no lowering can take the problem, or None when one may."""
    gradient = problem.gradient
    if problem.data_type not in NATIVE_TYPES:
        return f"oneDNN convolutions take f32, bf16 and f16, not {problem.data_type.value}"
    if gradient.spatial_rank > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {gradient.spatial_rank}"
    largest = max(
        *gradient.strides, *gradient.dilations, *gradient.pads_begin, *gradient.pads_end,
        *problem.src.shape, *problem.dst.shape, *problem.weights.shape,
    )  # fmt: skip
    if largest > INT_MAX // 8:
        return f"a size, stride, pad or dilation of {largest} is beyond the library's 32-bit kernels"
    for name, view in (("src", problem.src), ("diff_dst", problem.dst), ("weights", problem.weights)):
        if 0 not in view.shape and may_overlap(view.shape, view.strides):
            return f"oneDNN takes no overlapping or broadcast strides, and {name} has {view.strides}"
    return None


def geometry(gradient: WeightsGradient) -> ConvolutionGeometry:
    """The descriptor's integers."""
    return ConvolutionGeometry(
        strides=gradient.strides,
        dilates=tuple(d - 1 for d in gradient.dilations),
        pads_begin=gradient.pads_begin,
        pads_end=gradient.pads_end,
    )


class Data(StrEnum):
    """Where src and diff_dst lie for the primitive."""

    user = "the user's layout"
    channels_last = "channels last"
    free = "the primitive's own layout"


@frozen(kw_only=True)
class Lowering:
    """A way to lay out the primitive's arguments. dW is always computed in a layout that it chooses.

    Attributes:
        data: layout of src and diff_dst; where it is not the user's, reorders bring them there.
        compute: data type that the primitive works in; None means the tensors' own.
        gemm: takes implementations by im2col and gemm, and only those; otherwise only direct ones.
    """

    data: Data
    compute: DataType | None = None
    gemm: bool = False

    @property
    def name(self) -> str:
        """For `explain`."""
        words = ["gemm" if self.gemm else "direct", f"on {self.data.value}"]
        if self.compute is not None:
            words.append(f"in {self.compute.value}")
        return " ".join(words)

    def takes(self, implementation: str) -> bool:
        """Whether it goes with an implementation of that name."""
        return ("gemm" in implementation) == self.gemm

    def describe(self, engine: NativeEngine, problem: Problem) -> tuple[PrimitiveDesc, DataType] | str:
        """The primitive's descriptor on its first implementation and its data type, or why not."""
        compute = self.compute or problem.data_type
        if self.compute is not None and self.compute == problem.data_type:
            return "the tensors have that type already"
        converts = compute != problem.data_type
        lib = engine.lib

        def desc(view: View, layout: Data) -> MemoryDesc:
            if layout is Data.free:
                return MemoryDesc.any(lib, view.shape, compute)
            strides = view.strides
            if layout is Data.channels_last or (converts and problem.channels_last):
                strides = _channels_last(view.shape)
            elif converts:
                strides = row_major(view.shape)
            return MemoryDesc.strided(lib, view.shape, compute, strides)

        try:
            made = convolution_backward_weights(
                engine,
                desc(problem.src, self.data),
                MemoryDesc.any(lib, problem.weights.shape, compute),
                desc(problem.dst, self.data),
                geometry(problem.gradient),
                problem.fpmath,
            )
        except LibraryError as error:
            return str(error)
        return (made, compute) if made is not None else "the library has no such primitive"


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense (N, C, X) array that lies as (N, X, C)."""
    lying = row_major((shape[0], *shape[2:], shape[1]))
    return (lying[0], lying[-1], *lying[1:-1])


_AS_IT_LIES = Lowering(data=Data.user)
_CHANNELS_LAST = Lowering(data=Data.channels_last)
_FREE = Lowering(data=Data.free)
_GEMM_AS_IT_LIES = Lowering(data=Data.user, gemm=True)
_GEMM_CHANNELS_LAST = Lowering(data=Data.channels_last, gemm=True)


def lowerings(problem: Problem) -> tuple[Lowering, ...]:
    """The lowerings in order of preference.

    With the channels last, kernels read the user's layout as it is. With the channels first they would fall to
    im2col and gemm, which is best for 1×1 kernels only; blocked layouts of the library's choice come first
    elsewhere, but for 1-D, whose blocked kernels are slow. Half precisions rather go through a direct f32 kernel
    than through gemm, and f16, which has only a reference loop of its own, always goes through f32.
    """
    direct: tuple[Lowering, ...]
    gemm: tuple[Lowering, ...]
    if problem.channels_last:
        direct, gemm = (_AS_IT_LIES, _FREE), (_GEMM_AS_IT_LIES,)
    elif problem.gradient.spatial_rank == 1:
        direct, gemm = (_CHANNELS_LAST, _FREE), (_GEMM_CHANNELS_LAST, _GEMM_AS_IT_LIES)
    else:
        direct, gemm = (_FREE, _CHANNELS_LAST), (_GEMM_CHANNELS_LAST, _GEMM_AS_IT_LIES)
    pointwise = all(k == 1 for k in problem.gradient.kernel)
    if pointwise and not problem.channels_last:
        direct = (_GEMM_AS_IT_LIES, *direct)
    direct_f32 = tuple(evolve(lowering, compute=DataType.f32) for lowering in direct)
    gemm_f32 = tuple(evolve(lowering, compute=DataType.f32) for lowering in gemm)
    if problem.data_type is DataType.f32:
        return (*direct, *gemm)
    if problem.data_type is DataType.f16:
        return (*direct_f32, *gemm_f32)
    return (*direct, *direct_f32, *gemm, *gemm_f32)


@frozen(eq=False)
class Candidate:
    """One lowering on one implementation, built into a plan.

    Attributes:
        strategy: the lowering's name.
        implementation: of the convolution.
        compute: data type that it works in.
        opaque: for each output the layout that the primitive chose, or None for the user's.
    """

    strategy: str
    implementation: str
    compute: DataType
    plan: Plan = field(repr=False)
    opaque: tuple[OpaqueLayout | None, ...]


def candidates(
    engine: NativeEngine,
    problem: Problem,
    rejected: list[str],
    *,
    trusted_only: bool = True,
    reference: bool = False,
) -> Iterator[Candidate]:
    """Plans for the problem, best first.

    Args:
        rejected: receives the reason for each lowering or implementation that was passed over.
        trusted_only: leave out what the quarantine bars. The fuzzer turns it off.
        reference: after everything else offer the library's reference loop, in f32.
    """
    for lowering in lowerings(problem):
        described = lowering.describe(engine, problem)
        if isinstance(described, str):
            rejected.append(f"{lowering.name}: {described}")
            continue
        primitive_desc, compute = described
        for desc in implementations(primitive_desc):
            if lowering.takes(desc.implementation):
                reason = barred(desc.implementation, problem.gradient, compute) if trusted_only else None
                made = reason or _candidate(engine, problem, lowering, desc, compute)
                if isinstance(made, str):
                    rejected.append(f"{lowering.name}: {made}")
                else:
                    yield made
    if reference:
        last = _AS_IT_LIES if problem.data_type is DataType.f32 else evolve(_AS_IT_LIES, compute=DataType.f32)
        described = last.describe(engine, problem)
        if not isinstance(described, str):
            for desc in implementations(described[0]):
                if desc.implementation.startswith(REFERENCE):
                    made = _candidate(engine, problem, last, desc, DataType.f32)
                    if not isinstance(made, str):
                        yield made


def _candidate(
    engine: NativeEngine, problem: Problem, lowering: Lowering, desc: PrimitiveDesc, compute: DataType
) -> Candidate | str:
    """The candidate on one implementation, or why not."""
    plan = build(engine, problem, desc, compute)
    if isinstance(plan, str):
        return plan
    opaque = _opaque(engine, problem, desc, compute)
    return Candidate(lowering.name, desc.implementation, compute, plan, (opaque,))


def build(engine: NativeEngine, problem: Problem, desc: PrimitiveDesc, compute: DataType) -> Plan | str:
    """The plan around one implementation: reorders in, the primitive, a reorder out; or why not."""
    src_argument, dst_argument = (DIFF_DST, SRC) if problem.gradient.exchanged else (SRC, DIFF_DST)
    steps: list[Step] = []

    def user(view: View, argument: int) -> Buffer:
        return Buffer(MemoryDesc.strided(engine.lib, view.shape, problem.data_type, view.strides), argument)

    operands: list[tuple[Arg, Buffer]] = []
    names = ("diff_dst", "src") if problem.gradient.exchanged else ("src", "diff_dst")
    for name, arg, query, buffer in (
        (names[0], Arg.SRC, Query.src_md, user(problem.src, src_argument)),
        (names[1], Arg.DIFF_DST, Query.diff_dst_md, user(problem.dst, dst_argument)),
    ):
        wanted = desc.memory_desc(query)
        if wanted == buffer.desc:
            operands.append((arg, buffer))
            continue
        primitive = reorder(engine, buffer.desc, wanted)
        if primitive is None:
            return f"no reorder from {buffer.desc.describe()} to {wanted.describe()}"
        staged = Buffer(wanted)
        steps.append(Step(f"reorder {name}", primitive, ((Arg.SRC, buffer), (Arg.DST, staged))))
        operands.append((arg, staged))
    opaque = _opaque(engine, problem, desc, compute)
    result = user(problem.weights, DIFF_WEIGHTS) if opaque is None else Buffer(opaque.desc, DIFF_WEIGHTS)
    wanted = desc.memory_desc(Query.diff_weights_md)
    produced = result if wanted == result.desc else Buffer(wanted)
    steps.append(Step("convolution", desc.create(), (*operands, (Arg.DIFF_WEIGHTS, produced))))
    if produced is not result:
        primitive = reorder(engine, wanted, result.desc)
        if primitive is None:
            return f"no reorder from {wanted.describe()} to {result.desc.describe()}"
        steps.append(Step("reorder diff_weights", primitive, ((Arg.SRC, produced), (Arg.DST, result))))
    return Plan(engine, steps)


def _opaque(
    engine: NativeEngine, problem: Problem, desc: PrimitiveDesc, compute: DataType
) -> OpaqueLayout | None:
    """The layout that the primitive leaves dW in, where the user asked for `any`."""
    if not problem.free_weights or compute != problem.data_type:
        return None
    plain = MemoryDesc.strided(engine.lib, problem.weights.shape, problem.data_type, problem.weights.strides)
    wanted = desc.memory_desc(Query.diff_weights_md)
    return None if wanted == plain else OpaqueLayout(wanted, plain)


# --- the backend's interface -------------------------------------------------------------------------


def why_not(op: Op) -> str | None:
    """Why the op can't be lowered, as far as the known shapes tell."""
    data_type = op.inputs[0].data_type
    if data_type not in NATIVE_TYPES:
        return f"oneDNN convolutions take f32, bf16 and f16, not {data_type.value}"
    shapes = [t.shape for t in operands(op)]
    rank = next((len(shape) - 2 for shape in shapes if shape is not None), None)
    if rank is not None and rank > MAX_SPATIAL_RANK:
        return f"oneDNN convolutions have 1 to 3 spatial axes, not {rank}"
    if not all(t.is_concrete for t in operands(op)):
        return None
    return check(_problem(op, FpmathMode.strict))


def operands(op: Op) -> tuple[LogicalTensor, ...]:
    """The tensors whose arrays a plan takes, in its order."""
    return op.inputs[0], op.inputs[1], op.outputs[0]


def lower(engine: NativeEngine, request: CompileRequest, rejected: list[str]) -> Iterator[Candidate]:
    """Candidates for a request of one op; see `candidates`."""
    problem = _problem(request.ops[0], FpmathMode[request.fpmath_mode])
    return candidates(engine, problem, rejected, reference=request.forced)


def _problem(op: Op, fpmath: FpmathMode) -> Problem:
    src, diff_dst, weights = operands(op)
    gradient = weights_gradient(op.kind, op.attributes, src.dims, diff_dst.dims, weights.dims)
    views = [View(t.dims, t.element_strides) for t in (src, diff_dst, weights)]
    free = weights.layout_type is LayoutType.any
    return make_problem(gradient, src.data_type, *views, fpmath=fpmath, free_weights=free)


__all__: Sequence[str] = [
    "Candidate", "Lowering", "Problem", "View", "candidates", "check", "make_problem",
]  # fmt: skip
