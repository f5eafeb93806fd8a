"""Learning rates against the schedulers of torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onednn_graph as og
import pytest

torch: Any = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
T = og.training
of = torch.optim.lr_scheduler
STEPS = 60


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T.CosineRestarts(0.3, 7), lambda o: of.CosineAnnealingWarmRestarts(o, 7)),
        (
            T.CosineRestarts(0.3, 4, multiple=3, least=0.05),
            lambda o: of.CosineAnnealingWarmRestarts(o, 4, 3, 0.05),
        ),
        (T.OneCycle(0.3, STEPS), lambda o: of.OneCycleLR(o, 0.3, STEPS)),
        (
            T.OneCycle(0.3, STEPS, rise=0.45, linear=True, first=10, last=100),
            lambda o: of.OneCycleLR(
                o, 0.3, STEPS, pct_start=0.45, anneal_strategy="linear", div_factor=10, final_div_factor=100
            ),
        ),
        (T.Exponential(0.3, 0.9), lambda o: of.ExponentialLR(o, 0.9)),
        (T.Polynomial(0.3, 40, power=2.5), lambda o: of.PolynomialLR(o, 40, 2.5)),
        (T.Polynomial(0.3, 70), lambda o: of.PolynomialLR(o, 70)),
        (T.Linear(0.3, 5), lambda o: of.LinearLR(o)),
        (T.Linear(0.3, 50, first=1.0, last=0.1), lambda o: of.LinearLR(o, 1.0, 0.1, 50)),
        (T.Cosine(0.3, STEPS, least=0.1), lambda o: of.CosineAnnealingLR(o, STEPS, 0.1)),
        (T.StepDecay(0.3, 7, 0.5), lambda o: of.StepLR(o, 7, 0.5)),
    ],
    ids=lambda one: None if isinstance(one, type(lambda: 0)) else str(one),
)
def test_each_rate(ours: Callable[[int], float], theirs: Callable[[Any], Any]) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.3)
    scheduler = theirs(optimizer)
    for step in range(STEPS):
        np.testing.assert_allclose(ours(step), optimizer.param_groups[0]["lr"], rtol=1e-9, atol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no step of the optimizer
            scheduler.step() if step + 1 < STEPS else None


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(("patience", "cooldown"), [(0, 0), (2, 0), (1, 3), (10, 0)])
def test_plateau(mode: str, absolute: bool, patience: int, cooldown: int) -> None:
    rng = np.random.default_rng(patience)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.3)
    theirs = of.ReduceLROnPlateau(
        optimizer, mode, 0.5, patience, 0.02, "abs" if absolute else "rel", cooldown, 0.01, 1e-4
    )
    ours = T.Plateau(
        0.3,
        mode=mode,
        factor=0.5,
        patience=patience,
        threshold=0.02,
        absolute=absolute,
        cooldown=cooldown,
        least=0.01,
        eps=1e-4,
    )
    values = rng.standard_normal(200) / 4 + np.linspace(3, 1, 200) * (1 if mode == "min" else -1)
    values[[17, 60]] = np.nan
    for value in values:
        before = ours.rate
        assert ours.observe(value) == (ours.rate != before)
        theirs.step(value)
        assert ours(0) == optimizer.param_groups[0]["lr"]
    assert ours.rate < 0.3
