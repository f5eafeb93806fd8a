"""Ops that torch's tracing would take apart stay whole."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.graph.torch_compile.tracing import resizings_whole  # noqa: E402 -- torch comes first
from torch import nn  # noqa: E402
from torch_compiled import compiled, functions  # noqa: E402


@pytest.mark.parametrize("how", [{"mode": "nearest"}, {"mode": "bilinear", "align_corners": False}], ids=str)
def test_a_resizing_between_convolutions_cuts_nothing(how):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Upsample(scale_factor=2, **how), nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 10, 10)
    made, expected = compiled(module)(x), module(x)
    torch.testing.assert_close(made, expected)
    made.square().sum().backward()
    found = [one.grad.clone() for one in module.parameters()]
    module.zero_grad()
    expected.square().sum().backward()
    torch.testing.assert_close(found, [one.grad for one in module.parameters()])
    for function in functions(module):
        [program] = function.programs.values()
        assert [step.name for step in program.steps] == ["region"]


@pytest.mark.parametrize(
    ("mode", "rank"),
    [("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("trilinear", 3)],
)
@pytest.mark.parametrize("how", ["sizes", "factor", "whole factor", "factor of the sizes"])
def test_a_resizing_of_sizes_that_are_symbols(mode, rank, how):
    def resized(x):
        if how == "sizes":
            given = {"size": [3 + size for size in x.shape[2:]]}
        else:
            given = {"scale_factor": 2.0 if how == "whole factor" else 1.5}
            given |= {"recompute_scale_factor": True} if how == "factor of the sizes" else {}
        return nn.functional.interpolate(x, mode=mode, **given)

    run = compiled(resized, dynamic=True)
    for shape in ((2, 3, 9, 7, 5), (1, 3, 6, 8, 4), (0, 3, 6, 8, 4)):
        x = torch.randn(shape[: 2 + rank])
        ours, eagers = x.clone().requires_grad_(), x.clone().requires_grad_()
        made, expected = run(ours), resized(eagers)
        torch.testing.assert_close(made, expected)
        made.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(ours.grad, eagers.grad)


def test_torch_is_as_it_was_afterwards():
    ops = [torch.ops.aten.upsample_bilinear2d.vec, torch.ops.aten.upsample_linear1d.vec]
    kernels = [dict(op.py_kernels) for op in ops]
    with resizings_whole():
        assert all(op.py_kernels != before for op, before in zip(ops, kernels, strict=True))
    assert [op.py_kernels for op in ops] == kernels
