"""Where temporaries of a program lie: results are exact with dead memory poisoned, and planted faults show."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library.enumerators import Arg
from onednn_graph.backends.onednn.plan.arena import GUARDS
from onednn_graph.backends.onednn.plan.placement import FreeBytes, Placement
from onednn_graph.backends.onednn.plan.plan import Plan
from onednn_graph.backends.onednn.plan.steps import Step

pytestmark = pytest.mark.usefixtures("onednn")

UNARY = ("ReLU", "Abs", "Square", "StaticTranspose")
BINARY = ("Add", "Multiply", "Subtract", "Maximum", "MatMul")
SIZE = 16


def program(seed):
    """A graph of integer-valued ops on square matrices, in which tensors have several readers and long lives."""
    rng = np.random.default_rng(seed)
    graph = og.Graph()
    tensors = [graph.input(name, "f32", [SIZE, SIZE]) for name in "ab"]
    row = graph.input("row", "f32", [1, SIZE])
    for _ in range(14):
        one, other = (tensors[-1 - int(rng.integers(0, min(4, len(tensors))))] for _ in range(2))
        if rng.random() < 0.4:
            kind = UNARY[rng.integers(len(UNARY))]
            made = graph.op(kind, one, **({"order": [1, 0]} if kind == "StaticTranspose" else {}))
        else:
            kind = BINARY[rng.integers(len(BINARY))]
            made = graph.op(kind, one, row if rng.random() < 0.2 and kind != "MatMul" else other)
        # Small integers stay exact.
        tensors.append(graph.op("Clamp", made, min=-3.0, max=3.0))
    for number, tensor in enumerate(tensors[-3:]):
        graph.output(tensor, name=f"y{number}")
    return graph


def feeds(graph, seed=0):
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-2, 3, t.dims).astype(np.float32) for t in graph.inputs}


def results(graph, **options):
    given = feeds(graph)
    model = graph.compile(**options)
    found = model(given)
    return [np.array(found[name]) for name in ("y0", "y1", "y2")]


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(40))
def test_programs_are_exact_with_poisoned_memory(seed):
    graph = program(seed)
    want = results(graph, backend="numpy")
    with GUARDS.on():
        got = results(graph)
    for one, other in zip(got, want, strict=True):
        assert np.array_equal(one, other)


def chain():
    """(a · b) is an input of an elementwise op, and read again later."""
    graph = og.Graph()
    a, b = (graph.input(name, "f32", [SIZE, SIZE]) for name in "ab")
    product = graph.op("MatMul", a, b)
    graph.output(graph.op("MatMul", graph.op("Sqrt", graph.op("SoftMax", product, axis=1)), b), name="first")
    return graph


def plan_of(graph):
    """The plan that a graph is compiled to."""
    made = []
    original = Plan._lives

    def noted(self):
        made.append(self)
        return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "_lives", noted)
        graph.compile()
    return max(made, key=lambda plan: len(plan.steps))


def the_only(plan, function):
    """The primitive of that kind."""
    (step,) = [one for one in plan.steps if isinstance(one, Step) and one.desc.function == function]
    return step


def test_an_elementwise_result_takes_the_memory_of_an_input_that_nobody_needs():
    plan = plan_of(chain())
    step = the_only(plan, "eltwise_forward")
    places = {plan.offsets[buffer.root] for _, buffer in step.arguments}
    assert len(step.arguments) == 2
    assert len(places) == 1


def test_an_input_that_is_read_again_keeps_its_memory():
    graph = og.Graph()
    a, b = (graph.input(name, "f32", [SIZE, SIZE]) for name in "ab")
    soft = graph.op("SoftMax", graph.op("MatMul", a, b), axis=1)
    root = graph.op("Sqrt", soft)
    graph.output(graph.op("MatMul", root, soft), name="y")
    plan = plan_of(graph)
    step = the_only(plan, "eltwise_forward")
    assert len({plan.offsets[buffer.root] for _, buffer in step.arguments}) == 2


@pytest.mark.parametrize("fault", ["one place for all", "lives end early"])
def test_poison_shows_faults_of_the_placement(fault, monkeypatch):
    """With a planted fault, dead memory that is poisoned before each step makes wrong numbers."""
    graph = program(3)
    want = results(graph, backend="numpy")
    if fault == "one place for all":
        monkeypatch.setattr(FreeBytes, "take", lambda self, size: 0)
        monkeypatch.setattr(FreeBytes, "give", lambda self, start, size: None)
        monkeypatch.setattr(FreeBytes, "total", 1 << 20, raising=False)
        monkeypatch.setattr(FreeBytes, "__init__", lambda self: None)
    else:
        whole = Placement.dead
        early = lambda self, steps: (*whole(self, steps)[1:], ((0, self.nbytes),))  # noqa: E731
        monkeypatch.setattr(Placement, "dead", early)
    with GUARDS.on():
        got = results(graph)
    assert not all(np.array_equal(one, other) for one, other in zip(got, want, strict=True))


def test_what_an_output_is_written_over_lies_in_its_memory():
    graph = og.Graph()
    a, b = (graph.input(name, "f32", [SIZE, SIZE]) for name in "ab")
    soft = graph.op("SoftMax", graph.op("MatMul", a, b), axis=1)
    graph.output(graph.op("Exp", graph.op("Sqrt", soft)), name="y")
    plan = plan_of(graph)
    softmax = the_only(plan, "softmax_forward")
    made = [buffer for argument, buffer in softmax.arguments if argument == Arg.DST]
    assert [buffer.argument for buffer in made] == [2]  # behind the two inputs


def test_an_output_that_is_read_before_is_not_written_over():
    """One output is computed from the other: each keeps its own memory."""
    graph = og.Graph()
    a, b = (graph.input(name, "f32", [SIZE, SIZE]) for name in "ab")
    soft = graph.op("SoftMax", graph.op("MatMul", a, b), axis=1)
    graph.output(graph.op("Sqrt", soft), name="y0")
    graph.output(soft, name="y1")
    graph.output(graph.op("Exp", soft), name="y2")
    want, got = results(graph, backend="numpy"), results(graph)
    for one, other in zip(got, want, strict=True):
        assert np.allclose(one, other, rtol=1e-5)


def test_a_result_of_the_host_takes_what_its_elements_take(onednn):
    count = 100_000
    graph = og.Graph()
    positive = graph.op("Abs", graph.input("x", "f32", [count]))
    zero, one = (graph.constant(np.full(1, number, np.float32), name=str(number)) for number in (0, 1))
    graph.op("Select", graph.op("HostEqual", positive, zero), one, positive)
    assert graph.compile().memory_bytes <= count * (4 + 1) + 4096
