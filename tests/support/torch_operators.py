"""Torch's own tests of operators through the backend: each sample input, forward and backward, against eager.

Graphs are made by aot_autograd without dynamo, which takes longer than all else together.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import torch
from attrs import define, field, frozen
from onednn_graph.graph.aten.schema import translation_of
from onednn_graph.graph.torch_compile.backend import CompiledFunction, _compiler
from onednn_graph.graph.torch_compile.mishaps import Mishaps
from onednn_graph.graph.torch_compile.options import Options
from onednn_graph.graph.torch_compile.plan.joint import partition
from onednn_graph.graph.torch_compile.plan.table import TABLE, VIEWS
from onednn_graph.graph.torch_compile.run.steps import RegionCall
from torch._functorch.aot_autograd import aot_function
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SEED = 0
LAYOUTS = ("plain", "offset", "permuted", "expanded")
"""How inputs lie: as torch gives them, with gaps behind an offset, the first axis innermost, one element for all."""
TOGETHER = 8
"""Samples of one operator that are traced and compiled as one function: tracing costs far more than what is traced."""
PROBES = 16
"""Samples, evenly spread, that tell whether an operator falls into ops that have translations."""
NEIGHBOURS = 8
"""Inputs a rounding away at which eager's error counts, too."""
UNDEFINED = frozenset(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
)
"""Ops whose results are whatever memory holds."""


@frozen
class Trial:
    """One sample input of an op.

    Attributes:
        op: torch's description of it.
        number: of the sample. dtype: of its tensors. layout: one of `LAYOUTS`. variant: `function` or `inplace`.
    """

    op: object
    number: int
    sample: object
    dtype: torch.dtype
    layout: str = "plain"
    inplace: bool = False

    @property
    def name(self) -> str:
        words = [self.op.formatted_name, str(self.dtype).removeprefix("torch."), str(self.number)]
        return " ".join(
            [
                *words,
                *([self.layout] if self.layout != "plain" else []),
                *(["inplace"] if self.inplace else []),
            ]
        )


@define
class Outcome:
    """What became of a trial.

    Attributes:
        forward, backward: whether they agree with eager; None where there is none.
        failures: what does not, in words.
        regions, torch: ATen op → how often it was done in a region, or by torch.
        reasons: of the latter.
        mapped: whether one of its ATen ops has a translation; views alone don't count.
        ran: whether eager torch, and torch's tracing, take the sample.
    """

    forward: bool | None = None
    backward: bool | None = None
    failures: list[str] = field(factory=list)
    regions: Counter[str] = field(factory=lambda: Counter[str]())
    torch: Counter[str] = field(factory=lambda: Counter[str]())
    reasons: dict[str, str] = field(factory=dict)
    mapped: bool = False
    ran: bool = True


def named(*names: str) -> list[object]:
    """The descriptions of ops; of all if no name is given."""
    described = (op for op in op_db if op.name not in UNDEFINED)
    return [op for op in described if not names or op.name in names or op.formatted_name in names]


def formatted(name: str) -> list[object]:
    """The descriptions of one formatted name; some have the same."""
    return [op for op in named() if op.formatted_name == name]


def trials(
    op, dtype: torch.dtype, limit: int | None = None, layout: str = "plain", inplace: bool = False
) -> Iterator[Trial]:
    """The sample inputs of an op; evenly spread ones if there are more than `limit`."""
    if dtype not in op.supported_dtypes("cpu") or (inplace and op.get_inplace() is None):
        return
    gradients = (
        dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    )
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
    step = 1 if limit is None else max(len(samples) / limit, 1)
    wanted = sorted({int(place * step) for place in range(len(samples)) if place * step < len(samples)})
    for number in wanted:
        yield Trial(op, number, samples[number], dtype, layout, inplace)


def ran(trial: Trial) -> Outcome:
    """Runs it by eager torch and by the backend."""
    outcome = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function, tensors = _function(trial)
        try:
            expected = _called(function, tensors)
        except Exception:  # samples that eager refuses say nothing
            outcome.ran = False
            return outcome
        if not expected.outputs:
            outcome.ran = False
            return outcome
        functions: list[CompiledFunction] = []
        try:
            made = _called(_by_backend(function, functions), tensors)
        except Exception as error:  # of ours and of torch's
            if _raises(_by_torch(function), tensors):  # torch's own tracing can't
                outcome.ran = False
                return outcome
            outcome.forward = False
            outcome.failures.append(f"{type(error).__name__}: {error}"[:600])
            return outcome
        _count(functions, outcome)
        outcome.forward = True
        outcome.backward = None if expected.gradients is None else True
        wrong = _compared(function, tensors, made, expected)
        if wrong:
            control = _control(function, tensors, made)
            for (part, what), told in wrong.items():
                if (part, what) in control:
                    setattr(outcome, part, False)
                    outcome.failures.append(f"{part}: {what} {told}")
    return outcome


def ran_together(given: Sequence[Trial], at_once: int = TOGETHER) -> list[Outcome]:
    """Runs trials of one operator, some at a time in one graph, and alone those of a graph that isn't as eager.

    What was done where is counted with the first trial of a graph.
    """
    outcomes: list[Outcome] = []
    for start in range(0, len(given), at_once):
        group = given[start : start + at_once]
        made = _ran_in_one_graph(group) if len(group) > 1 else None
        outcomes += [ran(trial) for trial in group] if made is None else made
    return outcomes


def ran_unless_unmapped(given: Sequence[Trial]) -> list[Outcome]:
    """Runs trials of one operator together; only some of them if none of these has an op that has a translation."""
    step = max(len(given) // PROBES, 1)
    probed = given[::step][:PROBES]
    outcomes = ran_together(probed)
    if len(probed) == len(given):
        return outcomes
    if not any(outcome.mapped for outcome in outcomes):
        made = dict(zip(map(id, probed), outcomes, strict=True))
        return [made.get(id(trial), Outcome(ran=False)) for trial in given]
    return ran_together(given)


def _ran_in_one_graph(group: Sequence[Trial]) -> list[Outcome] | None:
    """What becomes of the trials in one graph, if all is as in eager torch."""
    outcomes = [Outcome(ran=False) for _ in group]
    calls: list[tuple[Callable[..., object], list[torch.Tensor]]] = []
    first: Outcome | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for outcome, trial in zip(outcomes, group, strict=True):
            call = _function(trial)
            try:
                expected = _called(*call)
            except Exception:  # samples that eager refuses say nothing
                continue
            if not expected.outputs:
                continue
            calls.append(call)
            outcome.ran = outcome.forward = True
            outcome.backward = None if expected.gradients is None else True
            first = first or outcome
        if first is None:
            return outcomes
        function, tensors = _joined(calls)
        functions: list[CompiledFunction] = []
        try:
            expected = _called(function, tensors)
            made = _called(_by_backend(function, functions), tensors)
        except Exception:  # which of them it is, each alone will tell
            return None
        if _compared(function, tensors, made, expected):
            return None
        _count(functions, first)
        return outcomes


def _joined(
    calls: Sequence[tuple[Callable[..., object], list[torch.Tensor]]],
) -> tuple[Callable[..., object], list[torch.Tensor]]:
    """Functions of some tensors each as one of all."""

    def function(*given: torch.Tensor) -> object:
        rest = iter(given)
        return [one(*itertools.islice(rest, len(tensors))) for one, tensors in calls]

    return function, [tensor for _, tensors in calls for tensor in tensors]


# --- calling ---------------------------------------------------------------------------------------------


@frozen
class Made:
    """Outputs, what became of the inputs, and gradients of those that have one."""

    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None] | None


def _function(trial: Trial) -> tuple[Callable[..., object], list[torch.Tensor]]:
    """The op as a function of tensors alone."""
    op, sample = trial.op, trial.sample
    leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, one in enumerate(leaves) if isinstance(one, torch.Tensor)]
    tensors = [_laid(leaves[place], trial.layout) for place in places]
    call = op.get_inplace() if trial.inplace else op.op

    def function(*given: torch.Tensor) -> object:
        filled = list(leaves)
        for place, one in zip(places, given, strict=True):
            filled[place] = one
        first, args, kwargs = pytree.tree_unflatten(filled, structure)
        if trial.inplace:
            first = first.clone() if first.requires_grad else first
        made = call(first, *args, **kwargs)
        return sample.output_process_fn_grad(made) if sample.output_process_fn_grad is not None else made

    return function, tensors


def _laid(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same elements in another order of memory."""
    if layout == "plain" or tensor.layout != torch.strided:
        return tensor
    data = tensor.detach()
    if layout == "offset":
        whole = (
            torch.zeros([*data.shape, 2], dtype=data.dtype)
            if data.dim()
            else torch.zeros(3, dtype=data.dtype)
        )
        made = whole[..., 1]
    elif layout == "permuted":
        order = list(range(1, data.dim())) + ([0] if data.dim() else [])
        made = torch.zeros([data.shape[a] for a in order], dtype=data.dtype)
        made = made.permute([order.index(a) for a in range(data.dim())])
    elif data.dim() and data.is_floating_point() and 0 not in data.shape:
        return data[:1].expand(data.shape).requires_grad_(tensor.requires_grad)
    else:
        return tensor
    return made.copy_(data).requires_grad_(tensor.requires_grad)


def _fresh(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf that lies the same way in memory of its own."""
    if tensor.layout != torch.strided or not tensor.numel():
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    data = tensor.detach()
    extent = (
        1 + sum((d - 1) * s for d, s in zip(data.shape, data.stride(), strict=True)) + data.storage_offset()
    )
    memory = data.as_strided((extent,), (1,), 0).clone()
    return memory.as_strided(data.shape, data.stride(), data.storage_offset()).requires_grad_(
        tensor.requires_grad
    )


def _called(
    function: Callable[..., object],
    tensors: Sequence[torch.Tensor],
    made_of: Callable[[torch.Tensor], torch.Tensor] = _fresh,
) -> Made:
    given = [made_of(one) for one in tensors]
    torch.manual_seed(SEED)
    result = function(*given)
    outputs = [one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]
    through = [one for one in outputs if one.requires_grad]
    wanted = [one for one in given if one.requires_grad]
    gradients = None
    if through and wanted:
        seeds = [_gradient(one, number) for number, one in enumerate(through)]
        gradients = list(torch.autograd.grad(through, wanted, seeds, allow_unused=True))
    return Made(outputs, given, gradients)


def _gradient(output: torch.Tensor, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(output.shape, generator=generator, dtype=torch.float32).to(output.dtype)


def _by_backend(function: Callable[..., object], functions: list[CompiledFunction]) -> Callable[..., object]:
    numbers = itertools.count(-1, -1)
    options, mishaps = Options(strict=True), Mishaps(strict=True)

    def compiled(role: str) -> Callable[..., CompiledFunction]:
        def make(module: torch.fx.GraphModule, inputs: Sequence[object]) -> CompiledFunction:
            made = _compiler(next(numbers), options, mishaps, role)(module, inputs)
            functions.append(made)
            return made

        return make

    return _traced(
        function,
        fw_compiler=compiled("forward"),
        bw_compiler=compiled("backward"),
        inference_compiler=compiled("inference"),
        partition_fn=partial(partition, mishaps),
    )


def _by_torch(function: Callable[..., object]) -> Callable[..., object]:
    """What torch's own tracing makes of it, each op run by torch."""
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import default_partition

    return _traced(function, fw_compiler=boxed_nop, partition_fn=default_partition)


def _traced(function: Callable[..., object], **how: object) -> Callable[..., object]:
    made = aot_function(function, keep_inference_input_mutations=True, **how)

    def call(*given: torch.Tensor) -> object:
        with _use_lazy_graph_module(True), tracing(TracingContext(FakeTensorMode())):
            return made(*given)

    return call


def _raises(function: Callable[..., object], tensors: Sequence[torch.Tensor]) -> bool:
    try:
        _called(function, tensors)
    except Exception:
        return True
    return False


def _count(functions: Sequence[CompiledFunction], outcome: Outcome) -> None:
    """Which ATen ops were done where."""
    for function in functions:
        for program in function.programs.values():
            in_regions = {
                name for step in program.steps if isinstance(step, RegionCall) for name in step.nodes
            }
            for node in function._graph.nodes:
                if node.op == "call_function" and str(node.target) not in VIEWS:
                    outcome.mapped |= translation_of(TABLE, node.target) is not None
                if node.name in in_regions:
                    outcome.regions[str(node.target)] += 1
            for step in program.steps:
                if not isinstance(step, RegionCall) and not step.is_view:
                    outcome.torch[step.name] += 1
                    outcome.reasons[step.name] = step.reason


# --- comparing -------------------------------------------------------------------------------------------


def _compared(function, tensors, made: Made, expected: Made) -> dict[tuple[str, str], str]:
    """Forward or backward, and of what → how it differs."""
    exact = _Exact(function, tensors)
    wrong: dict[tuple[str, str], str] = {}
    for part, name in (("forward", "outputs"), ("forward", "inputs"), ("backward", "gradients")):
        mine, theirs = getattr(made, name) or [], getattr(expected, name) or []
        if len(mine) != len(theirs):
            wrong[part, name] = f"{len(mine)} instead of {len(theirs)}"
            continue
        for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            told = _difference(a, b, partial(exact.of, name, number), partial(exact.near, name, number))
            if told:
                wrong[part, f"{name} {number}"] = told
    if _sharing(made) != _sharing(expected):
        wrong["forward", "shared memory"] = f"{_sharing(made)} instead of {_sharing(expected)}"
    return wrong


def _control(
    function: Callable[..., object], tensors: Sequence[torch.Tensor], made: Made
) -> dict[tuple[str, str], str]:
    """How it differs from what torch makes of its own tracing: only that is a fault of ours.

    Where torch's tracing says other strides than its kernels give, the former count.
    """
    try:
        found = _compared(function, tensors, made, _called(_by_torch(function), tensors))
    except Exception:  # torch can't trace it
        return {}
    if not any(told.startswith("strides") for told in found.values()):
        return found
    mode = FakeTensorMode()
    real = [_fresh(one) for one in tensors]
    with mode:
        traced = _called(
            function, real, lambda one: mode.from_tensor(one).detach().requires_grad_(one.requires_grad)
        )
    for (part, what), told in list(found.items()):
        name, _, number = what.partition(" ")
        mine, theirs = (getattr(one, name)[int(number)] for one in (made, traced)) if number else (None, None)
        if told.startswith("strides") and mine is not None and _normal(mine) == _normal(theirs):
            del found[part, what]
    return found


class _Exact:
    """The same in f64, and how far eager is from it; computed once and when it is wanted."""

    def __init__(self, function, tensors) -> None:
        self.function = function
        self.tensors = tensors

    def of(self, name: str, number: int) -> torch.Tensor | None:
        """An output or a gradient in f64."""
        return _one(self._made, name, number)

    def near(self, name: str, number: int) -> float:
        """Eager's worst element of an output or a gradient at `NEIGHBOURS` of the inputs.

        One rounding the other way can make much of a small number. How far eager is from f64 for these inputs alone
        is a matter of luck then, so inputs count that are a unit in the last place away.
        """
        errors = [0.0]
        for eager, wide in self._neighbours:
            theirs, exact = _one(eager, name, number), _one(wide, name, number)
            if theirs is not None and exact is not None and theirs.shape == exact.shape:
                errors.append(_worst(theirs, exact))
        return max(errors)

    @cached_property
    def _made(self) -> Made:
        return self._wide(self.tensors)

    @cached_property
    def _neighbours(self) -> list[tuple[Made, Made]]:
        generator = torch.Generator().manual_seed(SEED)
        found: list[tuple[Made, Made]] = []
        for _ in range(NEIGHBOURS):
            moved = [_moved(one, generator) for one in self.tensors]
            try:
                found.append((_called(self.function, moved), self._wide(moved)))
            except Exception:  # what eager refuses is no neighbour
                continue
        return found

    def _wide(self, tensors: Sequence[torch.Tensor]) -> Made:
        wide = [
            one.detach().double().requires_grad_(one.requires_grad) if one.is_floating_point() else one
            for one in tensors
        ]
        try:
            return _called(self.function, wide)
        except Exception:
            return Made([], [], None)


def _one(made: Made, name: str, number: int) -> torch.Tensor | None:
    found = getattr(made, name) or []
    return found[number] if number < len(found) else None


def _moved(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each element moved by a unit in its last place at most; zeros stay."""
    if not tensor.is_floating_point() or tensor.layout != torch.strided:
        return tensor
    units = torch.randint(-1, 2, tensor.shape, generator=generator)
    moved = tensor.detach().double() * (1 + units * torch.finfo(tensor.dtype).eps)
    return moved.to(tensor.dtype).requires_grad_(tensor.requires_grad)


def _worst(made: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error of an element."""
    made, exact = made.detach().double(), exact.detach().double()
    errors = (made - exact)[torch.isfinite(made) & torch.isfinite(exact)].abs()
    return float(errors.max()) if errors.numel() else 0.0


def _difference(made, expected, exact: Callable[[], torch.Tensor | None], near: Callable[[], float]) -> str:
    if made is None or expected is None:
        zero = expected if made is None else made
        return "" if zero is None or not zero.any() else f"{made} instead of {expected}"
    if made.shape != expected.shape or made.dtype != expected.dtype:
        return f"{made.dtype} {list(made.shape)} instead of {expected.dtype} {list(expected.shape)}"
    made, expected = made.detach(), expected.detach()
    if made.layout != torch.strided or expected.layout != torch.strided:
        return "" if made.layout == expected.layout else f"layout {made.layout}"
    if _dense(expected) and _normal(made) != _normal(expected):
        return f"strides {made.stride()} instead of {expected.stride()}"
    try:
        torch.testing.assert_close(made, expected, equal_nan=True)
    except AssertionError as error:
        if made.is_floating_point() and _as_close(made, expected, exact(), near):
            return ""
        where = _where(made, expected)
        return " ".join(str(error).split())[:160] + f"; {where}"
    return ""


def _where(made, expected) -> str:
    wrong = ~torch.isclose(made, expected, equal_nan=True, rtol=1e-5, atol=1e-5)
    if made.dim() == 0 or not wrong.any():
        return f"{made.reshape(-1)[:3].tolist()} instead of {expected.reshape(-1)[:3].tolist()}"
    return f"{made[wrong][:3].tolist()} instead of {expected[wrong][:3].tolist()}"


def _as_close(
    made: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor | None, near: Callable[[], float]
) -> bool:
    """Whether the largest error against f64 is eager's, here or at neighbours of the inputs, but for one bit.

    A bit is what another order of the same sum, or an intermediate number that is or isn't rounded, makes of it.
    """
    if exact is None or exact.shape != made.shape or not exact.is_floating_point():
        return False
    rounded = exact.detach().to(made.dtype)
    # Eager overflows on the way to numbers that the type holds.
    better = torch.isfinite(made) & ~torch.isfinite(expected) & torch.isfinite(rounded)
    if not torch.allclose(made[better], rounded[better], rtol=4 * torch.finfo(made.dtype).eps, atol=0):
        return False
    made, expected, exact = (one.detach()[~better] for one in (made, expected, exact))
    finite = torch.isfinite(expected)
    if not torch.equal(torch.isfinite(made), finite):
        return False
    if not torch.equal(made[~finite].nan_to_num(), expected[~finite].nan_to_num()):
        return False
    mine = _worst(made, exact) / 2
    return mine <= _worst(expected, exact) or mine <= near()


def _dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill the memory that they lie in."""
    spans = sorted((s, d) for d, s in zip(tensor.shape, tensor.stride(), strict=True) if d > 1)
    sizes = itertools.accumulate((d for _, d in spans), operator.mul, initial=1)
    return tensor.numel() > 0 and all(s == size for (s, _), size in zip(spans, sizes, strict=False))


def _normal(tensor: torch.Tensor) -> list[int]:
    return [s for d, s in zip(tensor.shape, tensor.stride(), strict=True) if d > 1]


def _sharing(made: Made) -> list[tuple[int, int]]:
    """Pairs of outputs, and of outputs and inputs, that share memory; inputs are counted from −1 downwards."""
    everything = [*enumerate(made.outputs), *((-1 - i, one) for i, one in enumerate(made.inputs))]
    places = [
        (n, one.untyped_storage().data_ptr())
        for n, one in everything
        if one.layout == torch.strided and one.numel()
    ]
    return [(a, b) for (a, x), (b, y) in itertools.combinations(places, 2) if x == y and (a >= 0 or b >= 0)]
