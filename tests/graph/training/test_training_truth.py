"""Small networks of seven families train as truly as torch does: as near to its steps in f64."""

import itertools

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)

from training_truth import OPTIMIZERS, measured  # noqa: E402 -- torch comes first
from truth_models import SMALL  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
STEPS = 3
MOST = 2.0
"""How many times as far as torch's ours may be."""
LOSS = 1.5e-7
"""What is as near as f32 can say a loss."""


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("network", "optimizer"), [*zip(SMALL, itertools.cycle(OPTIMIZERS), strict=False)])
def test_ours_are_as_near_to_f64(network, optimizer):
    found = measured(SMALL[network], optimizer, STEPS, ("torch", "ours", "torch bf16", "ours bf16"))
    for suffix in ("", " bf16"):
        theirs, ours = found[f"torch{suffix}"], found[f"ours{suffix}"]
        assert ours.gradients <= MOST * theirs.gradients, found
        if optimizer == "SGD":  # AdamW takes whole steps by gradients that are zero but for rounding
            assert ours.weights <= MOST * theirs.weights, found
    assert found["ours"].losses <= max(LOSS, MOST * found["torch"].losses), found
