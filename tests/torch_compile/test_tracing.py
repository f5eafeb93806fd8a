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


def test_torch_is_as_it_was_afterwards():
    op, key = torch.ops.aten.upsample_bilinear2d.vec, torch._C.DispatchKey.Autograd
    kernel = op.py_kernels[key]
    with resizings_whole():
        assert key not in op.py_kernels
    assert op.py_kernels[key] is kernel
