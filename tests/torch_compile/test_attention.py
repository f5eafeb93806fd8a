"""Attention, which torch traces as its CPU kernel: ours in inference, torch's where gradients are asked for."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.graph.torch_compile.plan import table  # noqa: E402 -- torch comes first
from torch import nn  # noqa: E402
from torch_compiled import assert_near, compiled, functions, in_double, seeded  # noqa: E402

FLASH = "aten._scaled_dot_product_flash_attention_for_cpu.default"


class Attention(nn.Module):
    """Self-attention; there may be fewer heads of keys than of queries."""

    def __init__(self, heads=4, **how):
        super().__init__()
        self.heads, self.how = heads, how
        self.inside = nn.Linear(32, 8 * (4 + 2 * heads))
        self.outside = nn.Linear(32, 32)

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        parts = self.inside(x).view(batch, length, 4 + 2 * self.heads, 8).transpose(1, 2)
        q, k, v = parts.split([4, self.heads, self.heads], 1)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, mask, **self.how)
        return self.outside(seen.transpose(1, 2).reshape(batch, length, 32))


def masks(kind):
    some = torch.rand(2, 1, 10, 10) > 0.3
    some[0, 0, 0] = False  # this one sees nothing
    return some if kind == "boolean" else torch.zeros(2, 1, 10, 10).masked_fill(~some, -torch.inf)


@pytest.mark.parametrize(
    ("how", "mask"),
    [
        ({}, None),
        ({"is_causal": True}, None),
        ({"scale": 0.7}, None),
        ({"heads": 2, "enable_gqa": True}, None),
        ({}, "boolean"),
        ({}, "numbers"),
    ],
    ids=["plain", "causal", "scaled", "shared heads", "boolean mask", "mask of numbers"],
)
def test_a_model_with_attention_is_one_region_in_inference(how, mask):
    module = seeded(lambda: Attention(**how)).eval()
    x = torch.randn(2, 10, 32)
    given = () if mask is None else (masks(mask),)
    run = compiled(module)
    with torch.no_grad():
        made = run(x, *given)
    [function] = functions(module)
    [program] = function.programs.values()
    assert [step.name for step in program.steps if not getattr(step, "is_view", False)] == ["region"]
    double, wide = in_double(module, x)
    assert_near(made, double(wide, *(one.double() if mask == "numbers" else one for one in given)))


def steps(module):
    return {step.name for one in functions(module) for p in one.programs.values() for step in p.steps}


def test_gradients_of_attention_are_of_torchs_kernel():
    module = seeded(Attention)
    x = torch.randn(2, 10, 32)
    made = compiled(module)(x)
    made.square().sum().backward()
    double, wide = in_double(module, x)
    expected = double(wide)
    double.zero_grad()
    expected.square().sum().backward()
    assert_near(made, expected)
    for one, other in zip(module.parameters(), double.parameters(), strict=True):
        assert_near(one.grad, other.grad)
    assert FLASH in steps(module)


def test_attention_of_very_many_scores_stays_with_torch(monkeypatch):
    module = seeded(Attention).eval()
    with torch.no_grad():
        monkeypatch.setattr(table, "MOST_SCORES", 2 * 4 * 10 * 10)
        compiled(module)(torch.randn(2, 10, 32))
        assert FLASH not in steps(module)
        torch._dynamo.reset()
        compiled(module)(torch.randn(3, 10, 32))
        assert FLASH in steps(module)


def test_attention_of_halves_stays_with_torch():
    module = seeded(Attention).eval().bfloat16()
    with torch.no_grad():
        compiled(module)(torch.randn(2, 10, 32, dtype=torch.bfloat16))
    assert FLASH in steps(module)


@pytest.mark.parametrize(("length", "torchs"), [(1, True), (8, False)])
def test_attention_of_few_positions_stays_with_torch(length, torchs):
    module = seeded(Attention).eval()
    with torch.no_grad():
        compiled(module)(torch.randn(2, length, 32))
    assert (FLASH in steps(module)) == torchs
