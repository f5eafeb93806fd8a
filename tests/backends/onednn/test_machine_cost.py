"""Cost data fitted to a machine: factors from times that the test makes up, and who goes by them."""

import random
from dataclasses import replace

import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library.enumerators import FpmathMode
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.lowering.weight_gradient import problem_of
from onednn_graph.backends.onednn.plan.plan import HostStep
from onednn_graph.backends.onednn.plan.work import AMOUNTS, Work
from onednn_graph.backends.onednn.weight_gradients import machine
from onednn_graph.backends.onednn.weight_gradients.cost import CostModel
from onednn_graph.backends.onednn.weight_gradients.selection import candidates
from onednn_graph.backends.onednn.weight_gradients.strategies import STRATEGIES
from onednn_graph.tools import machine as fitting
from onednn_graph.tools.information import information
from oracle import Problem

MODEL = CostModel(
    isa="avx2", threads=2, coefficients={f: {"*": [1e-6] + [0.0] * (len(a) - 1)} for f, a in AMOUNTS.items()}
)


@pytest.fixture(autouse=True)
def folder(onednn, tmp_path, monkeypatch):
    path = tmp_path / "tuned"
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(path))
    return path


def work(family, kind):
    return Work(family, kind, tuple(1.0 for _ in AMOUNTS[family]))


def test_a_kind_with_many_times_has_its_own_factor_and_others_their_familys():
    steps = [(work("matmul", "fast"), 0.5e-6)] * 97 + [(work("matmul", "slow"), 4e-6)] * 297
    factors = machine.fit(MODEL, steps)
    assert factors["matmul slow"] == pytest.approx(4)
    assert factors["matmul *"] == pytest.approx(4)
    assert factors["matmul fast"] == pytest.approx(0.5 * 8 ** (3 / 100))
    cost = machine.MachineCost(MODEL, factors)
    assert cost.seconds([work("matmul", "never seen")]) == pytest.approx(4e-6)
    assert cost.seconds([work("sum", "never seen")]) == pytest.approx(1e-6)
    assert cost.seconds([work("matmul", "slow"), work("sum", "x")]) == pytest.approx(5e-6)


def test_one_slow_time_of_many_does_not_count():
    steps = [(work("sum", "a"), 2e-6)] * 9 + [(work("sum", "a"), 1.0)]
    assert machine.fit(MODEL, steps)["sum a"] == pytest.approx(2)


def test_no_times_are_no_factors():
    assert machine.fit(MODEL, []) == {}


def graph(problem):
    src, diff_dst = problem.arrays()
    made = og.Graph()
    x, dy = made.input("x", problem.dtype, src.shape), made.input("dy", problem.dtype, diff_dst.shape)
    made.op(problem.kind, x, dy, weights_shape=problem.weights_shape, **problem.attributes)
    return made


PROBLEM = Problem(channels=(16, 32), size=(12, 12), kernel=(3, 3), begin=(1, 1), end=(1, 1), batch=4)


def test_the_default_choice_goes_by_them_until_they_are_forgotten():
    def estimates():
        return {c.strategy: c.estimated_seconds for c in graph(PROBLEM).compile().explain()[0].considered}

    before = estimates()
    assert "of the package" in information()["cost data"]
    machine.keep(load(), {f"{family} *": 3.0 for family in AMOUNTS})
    assert estimates() == pytest.approx({name: 3 * seconds for name, seconds in before.items()})
    assert "fitted to this machine" in information()["cost data"]
    assert machine.drop(load())
    assert estimates() == before
    assert not machine.drop(load())


@pytest.mark.parametrize("what", ["machine", "threads", "isa", "library", "data"])
def test_they_hold_for_this_very_machine(what, monkeypatch):
    machine.keep(load(), {"sum *": 3.0})
    real = machine.key_of
    monkeypatch.setattr(machine, "key_of", lambda lib: real(lib) | {what: "another"})
    assert machine.factors_of(load()) == {}


def timed(first, second):
    """A layer of two candidates, of which the model takes the first."""
    return (
        fitting.Timed(((work("matmul", "a"), first),), first),
        fitting.Timed(((work("matmul", "b"), second), (work("sum", "c"), 1e-9)), second + 1e-9),
    )


def test_a_fit_is_kept_where_it_helps_on_layers_that_it_has_not_seen(monkeypatch):
    monkeypatch.setattr(fitting, "cost_model", lambda engine: machine.MachineCost(MODEL, {}))
    fit = fitting.fitted([timed(4e-6, 1e-6)] * 16)
    assert fit.kept
    assert fit.before == pytest.approx(4, rel=0.01)
    assert fit.after == pytest.approx(1, rel=0.01)
    assert machine.factors_of(load())
    machine.drop(load())
    few = fitting.fitted([timed(4e-6, 1e-6)] * (fitting.LEAST_LAYERS - 1))
    assert not few.kept
    worse = fitting.fitted([timed(1e-6, 4e-6) if n % 4 == 0 else timed(4e-6, 1e-6) for n in range(16)])
    assert worse.after > worse.before
    assert not worse.kept
    assert not machine.factors_of(load())


def test_measuring_ends_with_its_time_and_tells_how_far_it_is(monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr(fitting, "timed", lambda engine, op, clock: timed(1e-6, 1e-6))
    told = []
    layers = list(fitting.measured(5, 0, lambda part, count: told.append((part, count)), lambda: next(ticks)))
    assert len(layers) == 4
    assert told == [(0.2, 0), (0.4, 1), (0.6, 2), (0.8, 3)]


def test_steps_on_the_host_are_timed_too():
    """Half precision is converted there, where the library would go element by element."""
    problem = replace(PROBLEM, dtype="f16", data_format="NCX")
    made = graph(problem)
    made.finalize()
    (op,) = made.ops
    engine = NativeEngine()
    plans = [one.plan for one in candidates(engine, problem_of(op, FpmathMode.strict), STRATEGIES, [])]
    assert any(isinstance(step, HostStep) and step.work is not None for plan in plans for step in plan.steps)
    timed = fitting.timed(engine, op)
    assert [[work for work, _ in one.steps] for one in timed] == [plan.works for plan in plans]


def test_random_layers_are_problems_of_the_library():
    rng = random.Random(1)
    drawn = [fitting.draw(rng) for _ in range(60)]
    assert {op.kind for op in drawn} == {"ConvolutionBackwardWeights", "ConvTransposeBackwardWeights"}
    assert {str(op.attributes["data_format"]) for op in drawn} == {"NXC", "NCX"}
    for op in drawn:
        graph = og.Graph()
        graph.add_op(op)
        graph.finalize()  # shapes agree with attributes
