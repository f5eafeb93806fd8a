"""Parts of tensors: what is put together, and gradients of what is cut."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

import numpy as np  # noqa: E402 -- torch comes first
import onednn_graph as og  # noqa: E402
from torch_compiled import assert_near, compiled, functions, seeded  # noqa: E402


def kinds(module):
    """Steps of all programs, views apart."""
    programs = [program for one in functions(module) for program in one.programs.values()]
    return [step.name for p in programs for step in p.steps if not getattr(step, "is_view", False)]


class Cached(torch.nn.Module):
    """Puts its results behind what a cache has, which has nothing at first."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(torch.cat([torch.tensor([]), self.layer(x), torch.zeros(2, 0, 8)], -2)) + 1


def test_tensors_without_elements_cut_no_region():
    module = seeded(Cached).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        assert_near(compiled(module)(x), module(x), 1e-6)
    assert kinds(module) == ["region"]


class Cut(torch.nn.Module):
    """Every second, or third, position of a product."""

    def __init__(self, part):
        super().__init__()
        self.part = part
        self.layer = torch.nn.Linear(8, 7)

    def forward(self, x):
        return self.layer(x)[:, self.part].tanh()


@pytest.mark.parametrize(
    "part", [slice(0, 7, 2), slice(1, 7, 2), slice(1, 5, 3), slice(2, -1, 2), slice(6, 7, 4)], ids=str
)
def test_the_gradient_of_every_second_position(part):
    module = seeded(lambda: Cut(part))
    x = torch.randn(5, 8)
    compiled(module)(x).square().sum().backward()
    gradients = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).square().sum().backward()
    for made, parameter in zip(gradients, module.parameters(), strict=True):
        assert_near(made, parameter.grad, 1e-6)
    assert "aten.slice_backward.default" not in kinds(module)


def test_where_the_largest_of_small_integers_is_counts_in_int64():
    class Last(torch.nn.Module):
        def forward(self, x):
            return (x == 2).int().argmax(-1)

    x = torch.tensor([[1, 2, 0], [0, 1, 2]])
    results = og.from_torch(Last(), (x,)).compile()(x)
    assert results["output"].dtype == np.int64
    np.testing.assert_array_equal(results["output"], [1, 2])
