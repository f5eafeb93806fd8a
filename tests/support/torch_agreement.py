"""Models of torch through `torch.compile(…, backend="onednn_graph")`, beside eager torch and double precision."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

import onednn_graph.torch
import pytest
import torch
import torch.utils._pytree
import torchvision_anywhere  # noqa: F401 -- before torchvision is imported

LIMITS = {"f32": 1e-3, "bf16": 2e-2, "autocast": 2e-2}
"""Distances from double precision that are always good, for single tensors."""
FACTORS = {"f32": 2.0, "bf16": 1.5, "autocast": 1.5}
"""How much farther from double precision than eager torch a result may be."""
FACTOR_OF_ONE = 2.5
"""The same of the gradient of one parameter, which may be a few numbers."""
SAMPLES = 6
"""Models with weights moved in their last bits that are looked at where one alone is too far. At the kink of a ReLU one
rounding decides, for eager torch as for us; over several models both must be as near to double precision."""
UNITS = {"f32": 2.0**-21, "bf16": 2.0**-8, "autocast": 2.0**-8}
"""How far weights are moved then: by roundings of the precision, as those within a network add up to."""

nn = torch.nn
DOUBLE, SINGLE, HALF, AUTOCAST = "f64", "f32", "bf16", "autocast"


@dataclass(frozen=True)
class Case:
    """A small model.

    Attributes:
        name: for the test's id.
        make: builds it, after a seed was set.
        inputs: what it is called with, by name; floating-point ones get gradients.
        leaves: whether inputs get gradients; some models set that themselves.
        traced: whether torch traces it; recurrent networks of its own it calls as they are.
        in_ci: whether continuous integration has it.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, object]]
    in_ci: bool = False
    leaves: bool = True
    traced: bool = True

    def __str__(self):
        return self.name


@dataclass
class Run:
    """What one training step gives, and then a call of the model in evaluation.

    Attributes:
        outputs: floating-point tensors that the model returns in training.
        loss: a fixed random projection of them.
        gradients: by the parameter's or input's name.
        buffers: after the step.
        evaluated: outputs in evaluation, by what the step has left.
    """

    outputs: list[torch.Tensor] = field(default_factory=list)
    loss: float = 0.0
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    evaluated: list[torch.Tensor] = field(default_factory=list)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(*shape, below, seed=1):
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


def built(case):
    torch.manual_seed(0)
    return case.make()


def floating(tree):
    """All floating-point tensors that a model has returned."""
    leaves, _ = torch.utils._pytree.tree_flatten(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def projected(outputs):
    """A loss with gradients of every element."""
    total = 0.0
    for number, output in enumerate(outputs):
        if output.requires_grad:
            ways = normal(*output.shape, seed=100 + number).to(output.dtype)
            total = total + (output * ways).float().sum() / max(output.numel(), 1) ** 0.5
    return total if outputs[0].dtype != torch.float64 else total.double()


def descended(model, call, inputs, *, leaves, seed=7):
    """Outputs, loss and input tensors of one backward pass."""
    given = {
        name: value.clone().requires_grad_(leaves)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for name, value in inputs.items()
    }
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    outputs = floating(call(**given))
    loss = projected(outputs)
    loss.backward()
    return outputs, loss, given


def as_dtype(inputs, dtype):
    return {
        name: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in inputs.items()
    }


def run(case, base, precision, *, compiled):
    """One training step and one evaluation of a copy of a model."""
    dtype = {DOUBLE: torch.float64, HALF: torch.bfloat16}.get(precision, torch.float32)
    model = copy.deepcopy(base).to(dtype)
    inputs = as_dtype(case.inputs(), dtype)
    call = torch.compile(model, backend="onednn_graph") if compiled else model
    found = Run()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == AUTOCAST):
        model.train()
        outputs, loss, given = descended(model, call, inputs, leaves=case.leaves)
        found.outputs = [output.detach() for output in outputs]
        found.loss = loss.item()
        for name, value in (*model.named_parameters(), *given.items()):
            if isinstance(value, torch.Tensor) and value.grad is not None:
                found.gradients[name] = value.grad
        found.buffers = {name: value.clone() for name, value in model.named_buffers()}
        model.eval()
        with torch.no_grad():
            found.evaluated = floating(call(**inputs))
    return found, model


def distance(have, want, floor=0.0):
    """Norm of the difference, relative to the wanted norm or a floor."""
    away = torch.linalg.vector_norm(have.double() - want.double()).item()
    return away / max(torch.linalg.vector_norm(want.double()).item(), floor, 1e-30)


def agree(case, precision):
    """Runs a model through the backend and says which of its tensors are farther from double precision than allowed.

    Returns:
        Those, and the report.
    """
    base = built(case)
    exact, _ = run(case, base, DOUBLE, compiled=False)
    eager, _ = run(case, base, precision, compiled=False)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    ours, model = run(case, base, precision, compiled=True)
    report = onednn_graph.torch.report(model)
    wrong = [row for row in compared(ours, eager, exact) if not row.is_good(precision)]
    if wrong:
        samples = [
            beside(case, moved(base, sample, UNITS[precision]), precision) for sample in range(SAMPLES)
        ]
        wrong = [
            replace(
                row,
                ours=median(s[row.name].ours for s in samples),
                eagers=median(s[row.name].eagers for s in samples),
            )
            for row in wrong
        ]
        wrong = [row for row in wrong if not row.is_good(precision)]
    return wrong, report


def moved(base, sample, unit):
    """A model with its weights moved by roundings."""
    model = copy.deepcopy(base)
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.mul_(1 + unit * normal(*weight.shape, seed=1000 * (sample + 1) + number))
    return model


def beside(case, base, precision):
    """How far the backend and eager torch are from double precision, by the tensor's name."""
    torch._dynamo.reset()
    runs = [run(case, base, precision, compiled=compiled)[0] for compiled in (True, False)]
    exact, _ = run(case, base, DOUBLE, compiled=False)
    return {row.name: row for row in compared(*runs, exact)}


def curve(case, *, compiled, steps=10, rate=0.001):
    """The losses of steps of stochastic gradient descent."""
    model = built(case).train()
    call = torch.compile(model, backend="onednn_graph") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = sum(output.float().square().mean() for output in floating(call(**case.inputs())))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@dataclass(frozen=True)
class Compared:
    """How far we and eager torch are from double precision: both as parts of a norm.

    Attributes:
        name: of the tensor.
        ours, eagers: the distances.
        apart: of the two from each other.
    """

    name: str
    ours: float
    eagers: float
    apart: float

    def is_good(self, precision):
        single = self.name.startswith("gradients ")
        factor = max(FACTORS[precision], FACTOR_OF_ONE) if single else FACTORS[precision]
        return self.ours <= LIMITS[precision] or self.ours <= factor * self.eagers


def compared(ours, eager, exact):
    """Every tensor of two runs beside the one in double precision; gradients by at least a part of the norm of all."""
    rows = []
    for kind in ("outputs", "evaluated"):
        lists = [getattr(one, kind) for one in (ours, eager, exact)]
        assert len({len(one) for one in lists}) == 1, kind
        for number, (a, b, c) in enumerate(zip(*lists, strict=True)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), (kind, number)
            rows.append(Compared(f"{kind} {number}", distance(a, c), distance(b, c), distance(a, b)))
    for kind in ("gradients", "buffers"):
        a, b, c = (getattr(one, kind) for one in (ours, eager, exact))
        assert a.keys() == b.keys(), (kind, a.keys() ^ b.keys())
        whole = sum(value.double().square().sum().item() for value in c.values()) ** 0.5
        for name in a:
            assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape), (kind, name)
            floor = 1e-3 * whole  # some are 0 but for roundings: a bias before a normalisation
            near = (distance(a[name], c[name], floor), distance(b[name], c[name], floor))
            rows.append(Compared(f"{kind} {name}", *near, distance(a[name], b[name], floor)))
        if kind == "gradients" and c:
            everything = [torch.cat([one[name].double().flatten() for name in c]) for one in (a, b, c)]
            x, y, z = everything
            rows.append(Compared("all gradients", distance(x, z), distance(y, z), distance(x, y)))
    return rows


def listed(cases, precisions=("f32", "bf16", "autocast")):
    """All models at all precisions, with a mark where continuous integration leaves them out."""
    return [
        pytest.param(
            case,
            precision,
            id=f"{case}-{precision}",
            marks=() if case.in_ci and precision in ("f32", "autocast") else pytest.mark.torch_models,
        )
        for case in cases
        for precision in precisions
    ]


def assert_near_double(case, precision):
    """A step and an evaluation are as near to double precision as eager torch's."""
    wrong, report = agree(case, precision)
    assert not wrong, "\n".join(map(str, wrong))
    assert bool(report.functions) == case.traced


def assert_same_curve(case):
    """Ten steps descend as eager torch's. Roundings grow there from step to step as well: the curve is held as one."""
    expected = curve(case, compiled=False)
    assert curve(case, compiled=True) == pytest.approx(expected, rel=1e-3, abs=1e-3 * expected[0])
