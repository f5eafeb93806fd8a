"""Optimizers and losses against torch, over many steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array

torch: Any = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
T = og.training
SHAPES = {"a": (7, 5), "b": (5,), "c": (5, 3)}
BATCHES = 20


def parameters() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def batches() -> list[dict[str, Array]]:
    rng = np.random.default_rng(1)
    return [
        {
            "x": rng.standard_normal((16, 7)).astype(np.float32),
            "y": rng.standard_normal((16, 3)).astype(np.float32),
        }
        for _ in range(BATCHES)
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (
            T.SGD(0.1, momentum=0.9, weight_decay=0.02),
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.02),
        ),
        (
            T.SGD(0.05, momentum=0.8, nesterov=True, weight_decay=0.1),
            lambda p: torch.optim.SGD(p, 0.05, momentum=0.8, nesterov=True, weight_decay=0.1),
        ),
        (T.Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
        (
            T.Adam(0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
            lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
        ),
        (T.AdamW(0.01), lambda p: torch.optim.AdamW(p, 0.01)),
        (
            T.AdamW(0.02, betas=(0.5, 0.9), weight_decay=0.3, clip_norm=0.5),
            lambda p: torch.optim.AdamW(p, 0.02, betas=(0.5, 0.9), weight_decay=0.3),
        ),
    ],
    ids=lambda one: None if callable(one) else str(one),  # a function has its address in its string
)
def test_twenty_steps(ours: T.Optimizer, theirs: Callable[[Any], Any]) -> None:
    graph = og.Graph()
    x, y = graph.input("x", "f32", [16, 7]), graph.input("y", "f32", [16, 3])
    a, b, c = (graph.parameter(array, name=name) for name, array in parameters().items())
    hidden = graph.op("Tanh", graph.op("Add", graph.op("MatMul", x, a), b))
    loss = T.mean_squared_error(graph, graph.op("MatMul", hidden, c), y)
    trainer = T.Trainer(graph, loss, ours)
    twins = {name: torch.nn.Parameter(torch.from_numpy(array)) for name, array in parameters().items()}
    optimizer = theirs(list(twins.values()))
    for feeds in batches():
        optimizer.zero_grad()
        given = {name: torch.from_numpy(array) for name, array in feeds.items()}
        found = torch.tanh(given["x"] @ twins["a"] + twins["b"]) @ twins["c"]
        expected = torch.nn.functional.mse_loss(found, given["y"])
        expected.backward()
        if ours.clip_norm:
            torch.nn.utils.clip_grad_norm_(twins.values(), ours.clip_norm)
        optimizer.step()
        np.testing.assert_allclose(trainer.step(feeds), expected.item(), rtol=1e-5)
    for name, array in graph.parameters.items():
        np.testing.assert_allclose(array, twins[name].detach().numpy(), rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3, 4)])
def test_cross_entropy_and_its_gradient(shape: tuple[int, ...], shares: bool, smoothing: float) -> None:
    rng = np.random.default_rng(2)
    logits = (30 * rng.standard_normal(shape)).astype(np.float32)
    places = (shape[0], *shape[2:])
    labels = rng.integers(0, shape[1], places, np.int64)
    if shares:
        labels = np.moveaxis(rng.dirichlet(np.ones(shape[1]), places), -1, 1).astype(np.float32)
    graph = og.Graph()
    given = graph.input("logits", "f32", shape)
    wanted = graph.input("labels", "f32" if shares else "s64", labels.shape)
    loss = T.cross_entropy(graph, given, wanted, axis=1, label_smoothing=smoothing)
    (gradient,) = graph.gradients(loss, [given])
    graph.output(loss, name="loss")
    found = graph.compile()(logits, np.ascontiguousarray(labels))
    twin = torch.from_numpy(logits).requires_grad_()
    expected = torch.nn.functional.cross_entropy(
        twin, torch.from_numpy(np.ascontiguousarray(labels)), label_smoothing=smoothing
    )
    expected.backward()
    np.testing.assert_allclose(found["loss"], expected.detach().numpy(), rtol=1e-5)
    assert gradient is not None
    np.testing.assert_allclose(found[gradient], twin.grad.numpy(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_cross_entropy_without_what_is_ignored(dtype: type, smoothing: float) -> None:
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((6, 7, 5)).astype(np.float32)
    labels = rng.integers(0, 5, (6, 7)).astype(dtype)
    labels[rng.random(labels.shape) < 0.4] = -100
    graph = og.Graph()
    given, wanted = graph.input("logits", "f32", [6, 7, 5]), graph.input("labels", labels.dtype, [6, 7])
    loss = T.cross_entropy(graph, given, wanted, label_smoothing=smoothing, ignore_index=-100)
    (gradient,) = graph.gradients(loss, [given])
    graph.output(loss, name="loss")
    found = graph.compile()(logits, labels)
    twin = torch.from_numpy(logits).requires_grad_()
    expected = torch.nn.functional.cross_entropy(
        twin.movedim(-1, 1), torch.from_numpy(labels.astype(np.int64)), label_smoothing=smoothing
    )
    expected.backward()
    np.testing.assert_allclose(found["loss"], expected.detach().numpy(), rtol=1e-5)
    assert gradient is not None
    np.testing.assert_allclose(found[gradient], twin.grad.numpy(), rtol=1e-4, atol=1e-7)
    assert not found[gradient][labels < 0].any()


def test_what_is_ignored_may_have_a_class_that_can_not_be() -> None:
    logits = np.array([[-np.inf, 1, 2], [0, 1, 2]], np.float32)
    graph = og.Graph()
    given, wanted = graph.input("logits", "f32", [2, 3]), graph.input("labels", "s64", [2])
    loss = T.cross_entropy(graph, given, wanted, ignore_index=-100)
    (gradient,) = graph.gradients(loss, [given])
    assert gradient is not None
    graph.output(loss, name="loss")
    found = graph.compile()(logits, np.array([-100, 2]))
    twin = torch.from_numpy(logits).requires_grad_()
    expected = torch.nn.functional.cross_entropy(twin, torch.tensor([-100, 2]))
    expected.backward()
    np.testing.assert_allclose(found["loss"], expected.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(found[gradient], twin.grad.numpy(), rtol=1e-4, atol=1e-6)
