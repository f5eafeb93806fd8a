"""Optimizers and clipping against torch's, over 30 steps, and those of papers against what these say, in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array

torch: Any = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
T = og.training
STEPS = 30
SHAPES = {"a": (7, 5), "b": (5,), "c": (5, 3), "zero": (3,)}


def parameters() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    found = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    return found | {"zero": np.zeros(3, np.float32)}


def batches() -> list[dict[str, Array]]:
    rng = np.random.default_rng(1)
    return [
        {name: rng.standard_normal((16, size)).astype(np.float32) for name, size in (("x", 7), ("y", 3))}
        for _ in range(STEPS)
    ]


def trained(optimizer: T.Optimizer) -> tuple[dict[str, Array], list[float]]:
    """A small network's parameters after all batches, and its losses."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", [16, 7]), graph.input("y", "f32", [16, 3])
    a, b, c, zero = (graph.parameter(array, name=name) for name, array in parameters().items())
    hidden = graph.op("Tanh", graph.op("Add", graph.op("MatMul", x, a), b))
    found = graph.op("Add", graph.op("MatMul", hidden, c), zero)
    trainer = T.Trainer(graph, T.mean_squared_error(graph, found, y), optimizer)
    losses = [trainer.step(feeds) for feeds in batches()]
    return {name: np.array(value) for name, value in graph.parameters.items()}, losses


def twin(
    optimizer: Callable[[Sequence[Any]], Any], clip: Callable[[Sequence[Any]], object] = list
) -> tuple[dict[str, Array], list[float]]:
    """The same by torch in f64."""
    own = {name: torch.nn.Parameter(torch.from_numpy(array).double()) for name, array in parameters().items()}
    steps, losses = optimizer(list(own.values())), []
    for feeds in batches():
        steps.zero_grad()
        x, y = (torch.from_numpy(array).double() for array in feeds.values())
        loss = torch.nn.functional.mse_loss(torch.tanh(x @ own["a"] + own["b"]) @ own["c"] + own["zero"], y)
        loss.backward()
        clip(list(own.values()))
        steps.step()
        losses.append(loss.item())
    return {name: one.detach().numpy() for name, one in own.items()}, losses


def assert_alike(ours: T.Optimizer, want: tuple[dict[str, Array], list[float]], rtol: float = 2e-5) -> None:
    found, losses = trained(ours)
    np.testing.assert_allclose(losses, want[1], rtol=rtol)
    for name, array in want[0].items():
        np.testing.assert_allclose(found[name], array, rtol=rtol, atol=rtol / 10, err_msg=name)


optim = torch.optim


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T.RMSprop(), lambda p: optim.RMSprop(p)),
        (T.RMSprop(0.003, alpha=0.8, eps=1e-3), lambda p: optim.RMSprop(p, 0.003, 0.8, 1e-3)),
        (T.RMSprop(0.003, momentum=0.9), lambda p: optim.RMSprop(p, 0.003, momentum=0.9)),
        (
            T.RMSprop(0.003, centered=True, alpha=0.9, eps=1e-4),
            lambda p: optim.RMSprop(p, 0.003, 0.9, 1e-4, centered=True),
        ),
        (
            T.RMSprop(0.003, centered=True, alpha=0.9, eps=1e-4, momentum=0.5, weight_decay=0.1),
            lambda p: optim.RMSprop(p, 0.003, 0.9, 1e-4, 0.1, 0.5, centered=True),
        ),
        (T.Adagrad(), lambda p: optim.Adagrad(p)),
        (
            T.Adagrad(0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-4),
            lambda p: optim.Adagrad(p, 0.1, 0.05, 0.1, 0.3, 1e-4),
        ),
        (T.Adam(0.01, amsgrad=True), lambda p: optim.Adam(p, 0.01, amsgrad=True)),
        (
            T.Adam(0.01, betas=(0.5, 0.6), weight_decay=0.1, amsgrad=True),
            lambda p: optim.Adam(p, 0.01, (0.5, 0.6), weight_decay=0.1, amsgrad=True),
        ),
        (
            T.AdamW(0.01, betas=(0.5, 0.6), weight_decay=0.2, amsgrad=True),
            lambda p: optim.AdamW(p, 0.01, (0.5, 0.6), weight_decay=0.2, amsgrad=True),
        ),
    ],
    ids=lambda one: None if callable(one) else str(one),  # a function has its address in its string
)
def test_optimizers_of_torch(ours: T.Optimizer, theirs: Callable[[Sequence[Any]], Any]) -> None:
    assert_alike(ours, twin(theirs))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T.SGD(0.1, clip_value=0.02), lambda p: optim.SGD(p, 0.1)),
        (
            T.SGD(0.1, momentum=0.9, clip_value=0.02, weight_decay=0.1),
            lambda p: optim.SGD(p, 0.1, 0.9, 0, 0.1),
        ),
        (T.Adam(0.01, clip_value=0.02, weight_decay=0.1), lambda p: optim.Adam(p, 0.01, weight_decay=0.1)),
        (T.Adam(0.01, clip_value=0.02, amsgrad=True), lambda p: optim.Adam(p, 0.01, amsgrad=True)),
        (T.AdamW(0.01, clip_value=0.02), lambda p: optim.AdamW(p, 0.01)),
        (
            T.RMSprop(0.003, clip_value=0.02, weight_decay=0.1),
            lambda p: optim.RMSprop(p, 0.003, weight_decay=0.1),
        ),
        (T.Adagrad(0.1, clip_value=0.02), lambda p: optim.Adagrad(p, 0.1)),
    ],
    ids=lambda one: None if callable(one) else str(one),
)
@pytest.mark.parametrize("norm", [None, 0.5])
def test_gradients_are_clipped_by_their_norm_and_then_by_value(
    ours: Any, theirs: Callable[[Sequence[Any]], Any], norm: float | None
) -> None:
    import attrs

    def clip(own: Sequence[Any]) -> None:
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(own, norm)
        torch.nn.utils.clip_grad_value_(own, 0.02)

    assert_alike(attrs.evolve(ours, clip_norm=norm), twin(theirs, clip), rtol=1e-4)


class Lion(torch.optim.Optimizer):  # type: ignore[misc]
    """Algorithm 2 of the paper."""

    def step(self) -> None:
        for p in self.param_groups[0]["params"]:
            g, m = p.grad, self.state[p].setdefault("m", torch.zeros_like(p))
            c = self.defaults["b1"] * m + (1 - self.defaults["b1"]) * g
            p.data -= self.defaults["lr"] * (torch.sign(c) + self.defaults["decay"] * p.data)
            self.state[p]["m"] = self.defaults["b2"] * m + (1 - self.defaults["b2"]) * g


class Lamb(torch.optim.Optimizer):  # type: ignore[misc]
    """Algorithm 2 of the paper, with the identity for φ."""

    def step(self) -> None:
        d = self.defaults
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            t = state["t"] = state.get("t", 0) + 1
            m = state["m"] = d["b1"] * state.get("m", 0) + (1 - d["b1"]) * p.grad
            v = state["v"] = d["b2"] * state.get("v", 0) + (1 - d["b2"]) * p.grad**2
            if d["corrected"]:
                m, v = m / (1 - d["b1"] ** t), v / (1 - d["b2"] ** t)
            r = m / (v.sqrt() + d["eps"]) + d["decay"] * p.data
            weight, length = p.data.norm(), r.norm()
            p.data -= d["lr"] * (weight / length if weight > 0 and length > 0 else 1.0) * r


@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize("betas", [(0.9, 0.99), (0.5, 0.7)])
def test_lion_as_the_paper_has_it(betas: tuple[float, float], decay: float) -> None:
    numbers = {"lr": 0.01, "b1": betas[0], "b2": betas[1], "decay": decay}
    assert_alike(T.Lion(0.01, betas=betas, weight_decay=decay), twin(lambda p: Lion(p, numbers)))


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_lamb_as_the_paper_has_it(decay: float, corrected: bool) -> None:
    """`zero` begins with no norm: its steps are taken as they are until it has one."""
    numbers = {"lr": 0.01, "b1": 0.9, "b2": 0.99, "decay": decay, "eps": 1e-6, "corrected": corrected}
    ours = T.LAMB(0.01, betas=(0.9, 0.99), weight_decay=decay, bias_correction=corrected)
    assert_alike(ours, twin(lambda p: Lamb(p, numbers)))
