"""What regions before and behind a kernel of torch's share: weights in another type, and what is repeated."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from torch_compiled import assert_near, compiled, functions, in_double, normal, seeded  # noqa: E402 -- torch first

nn = torch.nn
HALF = 2e-2
"""bf16 through two layers."""


class Parted(nn.Module):
    """Layers on rows that do not lie one behind the other, with a kernel of torch's in between."""

    def __init__(self, width=48, rows=20):
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.ones = nn.Buffer(torch.ones(1, 2 * width))
        self.rows = rows

    def forward(self, x):
        made = self.first(x.transpose(0, 1)).float()
        made = torch.erfinv(made.tanh() * 0.5)  # torch's
        return self.second(made.transpose(0, 1).transpose(0, 1) * self.ones)


def steps(module):
    programs = [program for one in functions(module) for program in one.programs.values()]
    return [step for p in programs for step in p.steps if not getattr(step, "is_view", False)]


def regions(module):
    return [step.region for step in steps(module) if step.name == "region"]


def told(module):
    return [step.name for step in steps(module)]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_weights_are_cast_where_they_are_multiplied_by_and_once(mode):
    """Not at each call, in the first region, for all that come."""
    module = seeded(Parted).eval()
    run = compiled(module)
    x = normal(4, 20, 48)
    for number in range(3):
        with mode(), torch.autocast("cpu", torch.bfloat16):
            made = run(x)
        expected, exact = in_double(module, x)
        assert_near(made.float(), expected(exact), HALF)
        assert told(module) == ["region", "aten.erfinv.default", "region"]
        first, last = regions(module)
        assert [len(one.graph.outputs) for one in (first, last)] == [1, 1]
        by_kind = {t.property_type.value for t in last.graph.inputs}
        assert by_kind == {"undef", "constant"}
        with torch.no_grad():
            for one in module.parameters():
                one.mul_(1.5 - 0.2 * number)


class Repeated(nn.Module):
    """A matrix repeated for each of many batches, behind a kernel of torch's or before it."""

    def __init__(self, between):
        super().__init__()
        self.layer = nn.Linear(32, 24, bias=False)
        self.between = between

    def forward(self, x):
        matrix = self.layer.weight.t() * 0.5
        if self.between:
            x = torch.erfinv(x.tanh() * 0.5)
        return torch.bmm(x, matrix.expand(x.shape[0], 32, 24))


@pytest.mark.parametrize("between", [False, True])
def test_a_matrix_that_is_repeated_is_multiplied_by_once(between):
    module = seeded(lambda: Repeated(between)).eval()
    run = compiled(module)
    x = normal(40, 5, 32)
    with torch.no_grad():
        made = run(x)
    expected, exact = in_double(module, x)
    assert_near(made, expected(exact))
    assert "contiguous" not in told(module)
    products = [op for one in regions(module) for op in one.graph.ops if op.kind == "MatMul"]
    assert [op.inputs[1].shape for op in products] == [(1, 32, 24)]


def test_what_is_repeated_on_both_sides_keeps_its_batches():
    class Both(nn.Module):
        def forward(self, a, b):
            return torch.bmm(a.expand(40, 3, 8), b.expand(40, 8, 2)) + torch.bmm(
                a.expand(40, 3, 8), b.expand(40, 8, 2)
            )

    module = Both()
    a, b = normal(1, 3, 8), normal(1, 8, 2, seed=1)
    made = compiled(module)(a, b)
    assert made.shape == (40, 3, 2)
    assert_near(made, module(a.double(), b.double()))


def test_gradients_of_what_is_repeated_are_summed():
    module = seeded(lambda: Repeated(True))
    x = normal(40, 5, 32).requires_grad_()
    compiled(module)(x).square().sum().backward()
    expected, exact = in_double(module, x)
    exact.requires_grad_()
    expected(exact).square().sum().backward()
    assert_near(x.grad, exact.grad)
    assert_near(module.layer.weight.grad, expected.layer.weight.grad)
