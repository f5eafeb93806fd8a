"""Weight gradients that executions try in turn: results, what stays, what is remembered. Times are made up."""

import gc
import threading
import weakref

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn import online as executables
from onednn_graph.backends.onednn import tuning_cache
from onednn_graph.backends.onednn.weight_gradients import online, trial_run
from onednn_graph.graph.compile.trials import Choices
from onednn_graph.graph.model.logical_tensor import LayoutType
from oracle import Problem
from strategies import check, has_isa

WIDE = Problem(channels=(16, 32), size=(12, 12), kernel=(3, 3), begin=(1, 1), end=(1, 1), batch=4)
MANY = 120
"""Executions in which any trial is over."""


@pytest.fixture(autouse=True)
def folder(onednn, tmp_path, monkeypatch):
    """A cache of the test's own, and trials of small problems too."""
    path = tmp_path / "tuned"
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(path))
    monkeypatch.setattr(online, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(online, "PLAUSIBLE", 1e9)
    return path


@pytest.fixture
def slow_first(monkeypatch):
    """A clock by which the last candidate is the fastest; the names of those that were timed, in order."""
    timed, run = [], trial_run.TrialRun._timed

    def made_up(self, turn, places, scratch):
        run(self, turn, places, scratch)
        timed.append(self.trial.names[turn.way])
        return 1e-3 * (len(self.trial.names) - turn.way)

    monkeypatch.setattr(trial_run.TrialRun, "_timed", made_up)
    return timed


def graph_of(problem, copies=1, then=None):
    src, diff_dst = problem.arrays()
    graph = og.Graph()
    x = graph.input("x", problem.dtype, src.shape)
    for number in range(copies):
        dy = graph.input(f"dy{number}", problem.dtype, diff_dst.shape)
        dw = graph.op(
            problem.kind, x, dy, weights_shape=problem.weights_shape, name=f"dw{number}", **problem.attributes
        )
        if then is not None:
            graph.op(then, dw, name=f"then{number}")
    return graph


def run(model, problem, name="dw0"):
    src, diff_dst = problem.arrays()
    check(problem, model({"x": src, "dy0": diff_dst})[name], fast=True)


def story(model):
    (explanation,) = [one for one in model.explain().values() if one is not None and one.online]
    (found,) = explanation.online
    return explanation, found


def test_each_result_is_right_and_the_fastest_stays(slow_first):
    model = graph_of(WIDE).compile(tune="online")
    _, before = story(model)
    assert not before.settled
    assert len(before.tried) > (2 if has_isa("avx2") else 1)
    for _ in range(MANY):
        run(model, WIDE)
    explanation, after = story(model)
    assert after.settled
    assert after.taken == before.tried[-1].strategy
    assert {one.strategy for one in after.tried} == set(slow_first)
    assert "in turn" not in explanation.strategy
    assert explanation.strategy.startswith(after.taken)
    assert explanation.considered[0].measured_seconds == pytest.approx(1e-3)
    text = str(explanation)
    assert f"stays: {after.taken}" in text
    assert "1.000, 1.000" in text


def test_the_next_process_begins_with_it(slow_first):
    model = graph_of(WIDE).compile(tune="online")
    for _ in range(MANY):
        run(model, WIDE)
    _, found = story(model)
    count = len(slow_first)
    for tune in ("online", "cached"):
        again = graph_of(WIDE).compile(tune=tune)
        assert again.explain()[0].strategy.startswith(found.taken)
        run(again, WIDE)
    assert len(slow_first) == count


def test_off_neither_reads_nor_tries(slow_first, folder):
    default = graph_of(WIDE).compile().explain()[0].strategy
    model = graph_of(WIDE).compile(tune="online")
    for _ in range(MANY):
        run(model, WIDE)
    assert graph_of(WIDE).compile().explain()[0].strategy == default


def test_a_bound_call_goes_on_with_what_won(slow_first):
    src, diff_dst = WIDE.arrays()
    model = graph_of(WIDE).compile(tune="online")
    out = np.empty(WIDE.weights_shape, src.dtype)
    call = model.bind({"x": src, "dy0": diff_dst}, {"dw0": out})
    for _ in range(MANY):
        out.fill(np.nan)
        call()
        check(WIDE, out, fast=True)
    assert story(model)[1].settled


def test_equal_ops_of_a_program_share_a_trial(slow_first):
    src, diff_dst = WIDE.arrays()
    model = graph_of(WIDE, copies=3, then="ReLU").compile(tune="online")
    (found,) = {one for told in model.explain().values() if told is not None for one in told.online}
    assert len(found.ops) == 3
    given = {"x": src, "dy0": diff_dst, "dy1": diff_dst, "dy2": diff_dst}
    plain = graph_of(WIDE, copies=3, then="ReLU").compile(backend="numpy")(given)
    for _ in range(MANY // 3):
        for name, array in model(given).items():
            assert (array == plain[name]).all()
    assert all(one.settled for told in model.explain().values() if told is not None for one in told.online)


def test_a_bias_gradient_goes_along(slow_first):
    src, diff_dst = WIDE.arrays()
    graph = og.Graph()
    x, dy = graph.input("x", "f32", src.shape), graph.input("dy0", "f32", diff_dst.shape)
    graph.op(WIDE.kind, x, dy, weights_shape=WIDE.weights_shape, name="dw0", **WIDE.attributes)
    graph.op("BiasAddBackward", dy, data_format="NXC", name="db")
    model = graph.compile(tune="online")
    for _ in range(MANY):
        found = model({"x": src, "dy0": diff_dst})
        check(WIDE, found["dw0"], fast=True)
        assert (found["db"] == diff_dst.sum((0, 1, 2))).all()


def test_several_threads_at_once(slow_first):
    model = graph_of(WIDE, then="ReLU").compile(tune="online")
    src, diff_dst = WIDE.arrays()
    expected = graph_of(WIDE, then="ReLU").compile(backend="numpy")({"x": src, "dy0": diff_dst})["then0"]
    wrong = []

    def work():
        for _ in range(MANY):
            found = model({"x": src, "dy0": diff_dst})["then0"]
            if not (found == expected).all():
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
    for _ in range(2 * MANY):
        work()
        if story(model)[1].settled:
            break
    assert story(model)[1].settled


def test_what_was_on_trial_is_freed(slow_first):
    model = graph_of(WIDE).compile(tune="online")
    executable = model._stages[0].executable
    trials = [step.run for step in executable._now.executable.plan.steps if hasattr(step.run, "trial")]
    runs = [weakref.ref(one) for one in trials]
    plans = [weakref.ref(plan) for one in trials for plan in one._plans]
    del trials
    for _ in range(MANY):
        run(model, WIDE)
    gc.collect()
    assert runs
    assert not any(ref() is not None for ref in (*runs, *plans))


def test_sizes_that_are_left_open_have_trials_of_their_own(slow_first):
    graph = og.Graph()
    x, dy = graph.input("x", "f32", (-1, *WIDE.arrays()[0].shape[1:])), None
    src, diff_dst = WIDE.arrays()
    dy = graph.input("dy0", "f32", (-1, *diff_dst.shape[1:]))
    graph.op(WIDE.kind, x, dy, weights_shape=WIDE.weights_shape, name="dw0", **WIDE.attributes)
    model = graph.compile(tune="online")
    for part in (1, 2):
        given = {"x": src[:part].copy(), "dy0": diff_dst[:part].copy()}
        expected = graph.compile(backend="numpy")(given)["dw0"]
        for _ in range(MANY):
            assert (model(given)["dw0"] == expected).all()
        assert story(model)[1].settled


def test_every_candidate_is_verified_where_that_is_asked_for(monkeypatch):
    prescribed, real = [], trial_run.way

    def noted(number):
        prescribed.append(number)
        return real(number)

    monkeypatch.setattr(executables, "way", noted)
    model = graph_of(WIDE).compile(tune="online", verify=True)
    _, found = story(model)
    assert list(dict.fromkeys(prescribed)) == list(range(len(found.tried)))
    assert not any(one.seconds for one in found.tried)
    assert model.explain()[0].verified


def test_a_wrong_candidate_is_found_by_verification(monkeypatch):
    call = trial_run.TrialRun.__call__

    def wrong(self, inputs, outputs):
        call(self, inputs, outputs)
        if trial_run._prescribed.get() == 1:
            outputs[0].flat[3] += 1

    monkeypatch.setattr(trial_run.TrialRun, "__call__", wrong)
    model = graph_of(WIDE).compile(tune="online", verify=True)
    explanation = model.explain()[0]
    assert not explanation.online
    assert any("failed verification" in reason for reason in explanation.rejected)
    run(model, WIDE)


def test_an_output_whose_layout_is_the_callers_is_not_tried(slow_first):
    graph = graph_of(WIDE)
    graph.finalize()
    (part,) = graph.get_partitions()
    port = part.output_ports[0]
    free = og.LogicalTensor(port.id, port.data_type, port.shape, layout_type=LayoutType.any)
    compiled = part.compile(outputs=[free], tune="online")
    src, diff_dst = WIDE.arrays()
    for _ in range(3):
        compiled.execute(None, [src, diff_dst])
    assert not slow_first


def test_programs_that_share_choices_choose_alike(slow_first):
    choices = Choices()
    first = graph_of(WIDE).compile(tune="online", choices=choices)
    second = graph_of(WIDE, then="ReLU").compile(tune="online", choices=choices)
    run(first, WIDE)
    choices.settle()
    run(first, WIDE)
    src, diff_dst = WIDE.arrays()
    second({"x": src, "dy0": diff_dst})
    assert story(first)[1].settled
    (name,) = choices.settled.values()
    assert story(first)[1].taken == story(second)[1].taken == name


def test_a_cache_that_cant_be_written_does_not_matter(slow_first, folder):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("no folder")
    model = graph_of(WIDE).compile(tune="online")  # there are no times yet, and nothing to say

    def use():
        for _ in range(MANY):
            run(model, WIDE)

    with pytest.warns(tuning_cache.TuningCacheWarning):
        use()
    assert story(model)[1].settled
