"""Optimizers that differ from parameter to parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array

T = og.training
X = np.array([[1, 2, 0], [0, 1, 1], [2, 0, 1], [1, 1, 1]], np.float32)
Y = np.array([[1, 0], [0, 1], [1, 1], [2, 0]], np.float32)
W = np.array([[1, 0], [0, 1], [1, -1]], np.float32)
FEEDS = {"x": X, "y": Y}


def linear() -> tuple[og.Graph, og.LogicalTensor]:
    """Least squares with weights and a bias."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, 3]), graph.input("y", "f32", [-1, 2])
    w, b = graph.parameter(W, name="w"), graph.parameter(np.ones(2, np.float32), name="b")
    found = graph.output(graph.op("Add", graph.op("MatMul", x, w), b, name="found"))
    return graph, T.mean_squared_error(graph, found, y)


def gradients(w: Array, b: Array) -> tuple[Array, Array]:
    slope = 2 * (X @ w + b - Y) / Y.size
    return X.T @ slope, slope.sum(0)


def matrices(parameter: og.LogicalTensor) -> T.Optimizer:
    """Decay for matrices alone."""
    return T.SGD(0.5, weight_decay=0.25 if len(parameter.dims) > 1 else 0.0)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_decay_of_matrices_alone_is_exact_on_integers(precision: str) -> None:
    graph, loss = linear()
    T.Trainer(graph, loss, matrices, precision=precision).step(FEEDS)
    dw, db = gradients(W, np.ones(2, np.float32))
    assert np.array_equal(graph.parameters["w"], W - 0.5 * (dw + 0.25 * W))
    assert np.array_equal(graph.parameters["b"], 1 - 0.5 * db)


def test_rates_of_their_own_follow_schedules_of_their_own() -> None:
    graph, loss = linear()
    of = {"w": T.SGD(lambda step: 0.5 / (step + 1)), "b": T.SGD(0.25)}
    trainer = T.Trainer(graph, loss, lambda parameter: of[parameter.name])
    w, b = W, np.ones(2, np.float32)
    for rate in (0.5, 0.25):
        trainer.step(FEEDS)
        dw, db = gradients(w, b)
        w, b = w - rate * dw, b - 0.25 * db
        assert np.array_equal(graph.parameters["w"], w)
        assert np.array_equal(graph.parameters["b"], b)


def test_what_has_no_optimizer_stays_and_needs_no_gradient() -> None:
    graph, loss = linear()
    trainer = T.Trainer(graph, loss, lambda parameter: None if parameter.name == "w" else T.Adam(0.1))
    trainer.step(FEEDS)
    assert np.array_equal(graph.parameters["w"], W)
    assert not np.array_equal(graph.parameters["b"], np.ones(2))
    ((step, _),) = trainer._stepping.programs.values().values()
    assert sum(op.kind == "HostAdam" for op in step.graph.ops) == 1
    assert sum(op.kind == "MatMul" for op in step.graph.ops) == 1  # none for a gradient by w


def test_equal_optimizers_share_their_rate_and_are_as_one() -> None:
    found: list[dict[str, Array]] = []
    for optimizer in (T.AdamW(0.1), lambda parameter: T.AdamW(0.1)):
        graph, loss = linear()
        trainer = T.Trainer(graph, loss, optimizer)
        for _ in range(3):
            trainer.step(FEEDS)
        ((step, _),) = trainer._stepping.programs.values().values()
        assert len(step.update.rates) == 1
        found.append({name: array.copy() for name, array in graph.parameters.items()})
    for name, array in found[0].items():
        assert array.tobytes() == found[1][name].tobytes()


def mixed(parameter: og.LogicalTensor) -> T.Optimizer | None:
    return T.SGD(0.1, momentum=0.5) if parameter.name == "w" else T.Adam(0.1)


def test_files_go_on_with_different_kinds_of_optimizers(tmp_path: Path) -> None:
    graph, loss = linear()
    trainer = T.Trainer(graph, loss, mixed)
    for number in range(4):
        trainer.step(FEEDS)
        if number == 1:
            trainer.save(tmp_path / "state.safetensors")
    other, other_loss = linear()
    resumed = T.Trainer(other, other_loss, mixed)
    assert set(resumed._state.contents.parameters) == {
        "parameter/w",
        "parameter/b",
        "velocity/w",
        "mean/b",
        "square/b",
    }
    resumed.load(tmp_path / "state.safetensors")
    for _ in range(2):
        resumed.step(FEEDS)
    for name, array in graph.parameters.items():
        assert array.tobytes() == other.parameters[name].tobytes()
    plain = T.Trainer(other, other_loss, T.SGD(0.1))
    with pytest.raises(og.GraphFileError, match="trained by Adam, and is to be trained by SGD here"):
        plain.load(tmp_path / "state.safetensors")


def test_as_torch_with_groups() -> None:
    torch = pytest.importorskip("torch")
    w, b = torch.tensor(W.T.copy(), requires_grad=True), torch.ones(2, requires_grad=True)
    groups = [{"params": [w], "weight_decay": 0.1}, {"params": [b], "weight_decay": 0.0, "lr": 0.02}]
    theirs = torch.optim.AdamW(groups, lr=0.1)
    graph, loss = linear()
    decayed, plain = T.AdamW(0.1, weight_decay=0.1), T.AdamW(0.02, weight_decay=0.0)
    trainer = T.Trainer(graph, loss, lambda p: decayed if p.name == "w" else plain)
    for _ in range(5):
        theirs.zero_grad()
        found = torch.nn.functional.linear(torch.from_numpy(X), w, b)
        expected = torch.nn.functional.mse_loss(found, torch.from_numpy(Y))
        expected.backward()
        theirs.step()
        np.testing.assert_allclose(trainer.step(FEEDS), expected.item(), rtol=1e-5)
    np.testing.assert_allclose(graph.parameters["w"], w.detach().numpy().T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(graph.parameters["b"], b.detach().numpy(), rtol=1e-5, atol=1e-6)


def _of(optimizer: Any) -> None:
    graph, loss = linear()
    T.Trainer(graph, loss, optimizer)


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (
            lambda: _of(0.1),
            og.ArgumentTypeError,
            "optimizer must be one of og.training, .* got 0.1 of type float",
        ),
        (lambda: _of(T.SGD), og.ArgumentTypeError, "SGD is a class"),
        (
            lambda: _of(lambda p: 0.1),
            og.ArgumentTypeError,
            "an optimizer or None, got 0.1 .* for parameter 'w'",
        ),
        (
            lambda: _of(lambda p: None),
            og.ArgumentError,
            "None for every parameter; there is nothing to train",
        ),
        (
            lambda: _of(lambda p: T.SGD(1, clip_norm=2.0 if p.name == "w" else None)),
            og.ArgumentError,
            "clip_norm .* the same in all optimizers, got 2.0 for parameter 'w' and None for 'b'",
        ),
    ],
)
def test_what_is_refused(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()


def test_the_first_pattern_that_fits_counts() -> None:
    graph, loss = linear()
    T.Trainer(graph, loss, {"b*": None, "*": T.SGD(0.5)}).step(FEEDS)
    dw, _ = gradients(W, np.ones(2, np.float32))
    assert np.array_equal(graph.parameters["w"], W - 0.5 * dw)
    assert np.array_equal(graph.parameters["b"], np.ones(2))
    other, other_loss = linear()
    T.Trainer(other, other_loss, {"[bc]": T.SGD(0.25), "?": T.SGD(0.5)}).step(FEEDS)
    dw, db = gradients(W, np.ones(2, np.float32))
    assert np.array_equal(other.parameters["w"], W - 0.5 * dw)
    assert np.array_equal(other.parameters["b"], 1 - 0.25 * db)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            {"bb": T.SGD(0.5), "*": T.SGD(0.5)},
            "has 'bb', which fits the name of no parameter",
        ),
        (
            {"B": T.SGD(0.5), "*": T.SGD(0.5)},
            "has 'B', which fits the name of no parameter.*there are 'w', 'b'",
        ),
        ({"bias": T.SGD(0.5), "*": T.SGD(0.5)}, "has 'bias', which fits the name of no parameter"),
        (
            {"*": T.SGD(0.5), "b": None},
            "has 'b' behind '\\*', which fits 'b' first, and nothing is left for it; put 'b' before it",
        ),
        ({"w": T.SGD(0.5)}, "says nothing of parameter 'b'; give '\\*' an optimizer, or None, at its end"),
        ({"*": None}, "the optimizer is None for every parameter"),
        ({}, "says nothing of parameter 'w'"),
        ({"w": T.SGD(0.5, clip_norm=1.0), "b": T.SGD(0.5)}, "clip_norm is for all gradients together"),
        ({"w": T.SGD, "b": None}, "must be to optimizers or None, got .* of type type for 'w'"),
        ({3: T.SGD(0.5)}, "must be from patterns of names, as '\\*.bias', got 3"),
    ],
)
def test_patterns_that_fit_nothing_and_parameters_that_fit_none(patterns: Any, message: str) -> None:
    graph, loss = linear()
    with pytest.raises(og.errors.OneDNNGraphError, match=message):
        T.Trainer(graph, loss, patterns)


def test_the_rest_may_be_nothing() -> None:
    """A `*` at the end is no mistake where the patterns before it fit all there is."""
    graph, loss = linear()
    trainer = T.Trainer(graph, loss, {"w": T.SGD(0.5), "b": None, "*": T.Adam(0.1)})
    trainer.step(FEEDS)
    assert np.array_equal(graph.parameters["b"], np.ones(2))
