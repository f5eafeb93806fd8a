"""The fuzzer holds gradients against differences: at kinks it blames no right ones and lets no wrong ones pass."""

import json
import random

import numpy as np
import onednn_graph as og
import pytest
from graph_fuzz import campaign, training
from graph_fuzz.chains import kinds_for
from graph_fuzz.drawing import Draw

RIGHT = og.Graph.gradients


def of_twice(graph, loss, wrt):
    """Gradients of another loss than the one that is asked for."""
    return RIGHT(graph, graph.op("Add", loss, loss), wrt)


def trained(monkeypatch, x, weights):
    """Draws the sum of weights · ReLU(x), and its gradient by x."""
    draw = Draw(random.Random(0))
    draw.empty = False

    def model(draw):
        return draw.op("ReLU", draw.input([len(x)], values=x))

    def loss_of(draw, y):
        weighted = draw.op("Multiply", y, draw.input([len(x)], data="fraction", values=weights))
        return draw.op("ReduceSum", weighted, axes=[0], keep_dims=False)

    monkeypatch.setattr(training, "model", model)
    monkeypatch.setattr(training, "loss_of", loss_of)
    monkeypatch.setattr(draw.rng, "choice", lambda some: some[0])
    monkeypatch.setattr(draw, "chance", lambda share: share == 0.8)  # by all there is, without an optimizer
    training.training(draw)


def test_kinks_that_make_up_for_each_other_are_no_wrong_gradient(monkeypatch):
    seed = Draw(random.Random(0)).case.seed
    along = np.random.default_rng(seed).uniform(-1, 1, 9)[:8]  # the fuzzer's direction
    sides = along > 0
    # To either side the kinks add 1 to the slope.
    weights = 1 / along / np.where(sides, sides.sum(), (~sides).sum())
    trained(monkeypatch, [0.0] * 8 + [1.0], [*weights.tolist(), 1.0])


@pytest.mark.parametrize("x", [[0.0, 0.0], [0.0, 1.0], [1.0, 2.0]], ids=["at kinks", "at one", "at none"])
def test_gradients_of_something_else_are_told(monkeypatch, x):
    monkeypatch.setattr(og.Graph, "gradients", of_twice)
    with pytest.raises(ArithmeticError, match="gradients give a slope of"):
        trained(monkeypatch, x, [1.0, 0.5])


def test_values_are_as_they_were_drawn_afterwards(monkeypatch):
    seen = []
    check = training._check_slope

    def checked(draw, *rest):
        before = dict(draw.values)
        check(draw, *rest)
        seen.append(all(draw.values[wire] is value for wire, value in before.items()))

    monkeypatch.setattr(training, "_check_slope", checked)
    trained(monkeypatch, [0.0, 0.0], [1.0, 0.5])
    assert seen == [True]


def test_what_fails_while_it_is_drawn_is_a_finding_and_the_fuzzer_goes_on(monkeypatch, tmp_path):
    def broken(*case):
        raise ArithmeticError("no derivative")

    out = tmp_path / "findings.jsonl"
    monkeypatch.setattr(campaign, "case_of", broken)
    settings = campaign.Settings(graphs=3, kinds=kinds_for("training"), out=out)
    run = campaign.Campaign(settings, show=lambda line: None)
    assert run.run() == 3
    assert run.graphs == 3
    entries = [json.loads(line) for line in out.read_text().splitlines()]
    assert {entry["status"] for entry in entries} == {"error:ArithmeticError"}
    assert [outcome.ok for outcome in campaign.replay(entries)] == [False] * 3
    monkeypatch.undo()
    assert [outcome.ok for outcome in campaign.replay(entries)] == [True] * 3
