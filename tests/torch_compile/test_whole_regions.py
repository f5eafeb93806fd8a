"""What regions do themselves that torch would cut them in pieces for."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.torch import report  # noqa: E402
from torch_compiled import assert_near, assert_same_state, normal, seeded  # noqa: E402

nn = torch.nn


class Windows(nn.Module):
    """Shifts windows and back, as transformers over images do, and all elements in a row."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        y = self.inner(torch.roll(x, (-3, 2), (1, 2)))
        y = torch.roll(torch.tanh(y), (3, -2), (1, 2)) + x.roll((5, 0, 9), (0, 1, -2))
        return torch.roll(y, 7) * y.roll(-11, -1)


class ChannelsFirstNorm(nn.Module):
    """A layer norm of channels, an activation written over it, and a pooled classifier."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(6, 8, 1), nn.LayerNorm(8), nn.Linear(8, 4)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        y = self.norm(self.first(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.last(self.pool(nn.functional.silu(y, inplace=True)).flatten(1))


@pytest.mark.parametrize(
    ("make", "shape"), [(Windows, (2, 7, 5, 6)), (ChannelsFirstNorm, (2, 6, 5, 3))], ids=["roll", "copy"]
)
def test_one_region_each_way(make, shape):
    module = seeded(make)
    exact = copy.deepcopy(module).double()
    x = normal(*shape)
    made = torch.compile(module, backend="onednn_graph", options={"strict": True})(x)
    made.square().mean().backward()
    expected = exact(x.double())
    expected.square().mean().backward()
    assert_near(made, expected)
    assert_same_state(module, exact)
    found = report(module).functions
    assert [(one.regions, one.torch_steps) for one in found] == [(1, {})] * 2, found


def test_all_that_is_written_is_one_call():
    module = seeded(lambda: nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4)))
    module.register_buffer("turn", torch.zeros(()))
    exact = copy.deepcopy(module).double()
    run = torch.compile(lambda x: module(x), backend="onednn_graph", options={"strict": True})
    versions = [one._version for one in module.buffers()]
    x = normal(2, 4, 5, 3)
    assert_near(run(x), exact(x.double()))
    assert_same_state(module, exact)
    assert report(module).functions[0].torch_steps == {"aten.copy_.default": 1}
    changed = [one._version > before for one, before in zip(module.buffers(), versions, strict=True)]
    assert changed == [name != "turn" for name, _ in module.named_buffers()]


@pytest.mark.parametrize("counted", [False, True], ids=["padding left out", "padding counted"])
def test_an_average_with_a_divisor_of_its_own(counted):
    """On integers and powers of two every number is exact, that of the gradient, too."""
    pool = nn.AvgPool2d(4, 2, 1, count_include_pad=counted, divisor_override=8)
    x = torch.randint(-4, 5, (2, 3, 6, 8), generator=torch.Generator().manual_seed(0)).float()
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    made, wanted = torch.compile(pool, backend="onednn_graph", options={"strict": True})(mine), pool(theirs)
    (made * made.detach()).sum().backward()
    (wanted * wanted.detach()).sum().backward()
    assert torch.equal(made, wanted)
    assert torch.equal(mine.grad, theirs.grad)
    assert not any("avg_pool2d" in step for one in report().functions[-2:] for step in one.torch_steps)
