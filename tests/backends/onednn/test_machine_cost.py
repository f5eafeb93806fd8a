"""Cost data fitted to a machine: factors from times that the test makes up, and who goes by them."""

import random

import onednn_graph as og
import pytest
from attrs import evolve
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.plan.steps import HostStep
from onednn_graph.backends.onednn.plan.work import AMOUNTS, Work
from onednn_graph.backends.onednn.weight_gradients import machine, strategies
from onednn_graph.backends.onednn.weight_gradients.cost import CostModel
from onednn_graph.backends.onednn.weight_gradients.selection import candidates
from onednn_graph.backends.onednn.weight_gradients.strategies import STRATEGIES
from onednn_graph.tools import machine as fitting
from onednn_graph.tools import measuring
from onednn_graph.tools.information import information
from onednn_graph.tools.layers import complete, draw
from onednn_graph.tools.measuring import Measured, Sample
from oracle import Problem
from strategies import has_isa

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


def graph():
    src, diff_dst = PROBLEM.arrays()
    made = og.Graph()
    x, dy = made.input("x", "f32", src.shape), made.input("dy", "f32", diff_dst.shape)
    made.op(PROBLEM.kind, x, dy, weights_shape=PROBLEM.weights_shape, **PROBLEM.attributes)
    return made


PROBLEM = Problem(channels=(16, 32), size=(12, 12), kernel=(3, 3), begin=(1, 1), end=(1, 1), batch=4)


def test_the_default_choice_goes_by_them_until_they_are_forgotten():
    def estimates():
        return {c.strategy: c.estimated_seconds for c in graph().compile().explain()[0].considered}

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


def sample(first, second):
    """A layer of two candidates, of which the model takes the first."""
    found = (
        Measured("first", "", (work("matmul", "a"),), (first,), first, 0),
        Measured("second", "", (work("matmul", "b"), work("sum", "c")), (second, 1e-9), second + 1e-9, 0),
    )
    return Sample("f32", "NCX", draw(random.Random(0)), found)


def test_a_fit_is_kept_where_it_helps_on_layers_that_it_has_not_seen(monkeypatch):
    monkeypatch.setattr(fitting, "cost_model", lambda engine: machine.MachineCost(MODEL, {}))
    fit = fitting.fitted([sample(4e-6, 1e-6)] * 16)
    assert fit.kept
    assert fit.before == pytest.approx(4, rel=0.01)
    assert fit.after == pytest.approx(1, rel=0.01)
    assert machine.factors_of(load())
    machine.drop(load())
    few = fitting.fitted([sample(4e-6, 1e-6)] * (fitting.LEAST_LAYERS - 1))
    assert not few.kept
    worse = fitting.fitted([sample(1e-6, 4e-6) if n % 4 == 0 else sample(4e-6, 1e-6) for n in range(16)])
    assert worse.after > worse.before
    assert not worse.kept
    assert not machine.factors_of(load())


def test_measuring_ends_with_its_time_and_tells_how_far_it_is(monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr(measuring, "sampled", lambda *args: sample(1e-6, 1e-6))
    told = []
    layers = list(fitting.measured(5, 0, lambda part, count: told.append((part, count)), lambda: next(ticks)))
    assert len(layers) == 4
    assert told == [(0.2, 0), (0.4, 1), (0.6, 2), (0.8, 3)]


def test_steps_on_the_host_are_measured_too():
    """Half precision is converted there, where the library would go element by element."""
    layer = complete({"batch": 4, "in_channels": 16, "out_channels": 32, "src_spatial": [12], "kernel": [3]})
    engine = NativeEngine()
    made = measuring.sampled(engine, layer, "NCX", "f16", 0.0)
    plans = [one.plan for one in candidates(engine, made.problem, STRATEGIES, [])]
    on_host = [step for plan in plans for step in plan.steps if isinstance(step, HostStep)]
    assert on_host or has_isa("avx512_core_fp16")
    assert all(step.work is not None for step in on_host)
    assert [one.known for one in made.found] == [plan.works for plan in plans]
    assert all(len(one.steps) == len(one.works) for one in made.found)


def test_what_is_fitted_are_all_steps_of_all_layers_but_those_held_back(monkeypatch):
    told = []
    monkeypatch.setattr(fitting, "cost_model", lambda engine: machine.MachineCost(MODEL, {}))
    monkeypatch.setattr(machine, "fit", lambda model, steps: told.extend(steps) or {})
    fitting.fitted([sample(1e-6 * n, 1e-6) for n in range(1, 9)])
    assert len(told) == 3 * 6
    assert {seconds for one, seconds in told if one.kind == "a"} == {n * 1e-6 for n in (2, 3, 4, 6, 7, 8)}


def test_choices_are_those_that_compilation_makes():
    """With the margins, and within the limit of memory."""
    usual = next(one.name for one in strategies.usual(sample(1, 1).problem))
    two = [
        Measured(usual, "", (work("matmul", "a"),), (1.0,), 1.0, 0),
        Measured("columns", "", (work("matmul", "b"),), (1.0,), 1.0, 0),
    ]
    for factor, expected in ((1.05, usual), (2.0, "columns")):
        one = evolve(sample(1, 1), found=tuple(two))
        model = machine.MachineCost(MODEL, {"matmul a": factor})
        assert measuring.chosen(one, model.seconds).strategy == expected
        hungry = evolve(one, found=(two[0], evolve(two[1], scratch_bytes=1 << 60)))
        assert measuring.chosen(hungry, model.seconds).strategy == usual
        assert measuring.best(hungry).strategy == usual
