"""What a module of torch writes out of several ops becomes one op, as from ONNX."""

import math
import warnings

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
functional = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")

SCALE = math.sqrt(2 / math.pi)


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(SCALE * (x + 0.044715 * torch.pow(x, 3.0))))


def layer_norm(x):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt(d.pow(2).mean(-1, keepdim=True) + 1e-5)


FUNCTIONS = {
    "gelu_new": (gelu_new, "GELU", lambda x: functional.gelu(x, approximate="tanh")),
    "gelu by erf": (
        lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2))),
        "GELU",
        functional.gelu,
    ),
    "mish": (lambda x: x * torch.tanh(functional.softplus(x)), "Mish", functional.mish),
    "hard swish": (lambda x: x * functional.relu6(x + 3) / 6, "HardSwish", functional.hardswish),
    "hard sigmoid": (lambda x: functional.relu6(x + 3) / 6, "HardSigmoid", functional.hardsigmoid),
    "layer norm": (layer_norm, "LayerNorm", lambda x: functional.layer_norm(x, x.shape[-1:])),
    "softmax": (
        lambda x: (lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - x.amax(-1, keepdim=True))),
        "SoftMax",
        lambda x: functional.softmax(x, -1),
    ),
}


class Apply(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_written_out_is_one_op(name):
    function, kind, exact = FUNCTIONS[name]
    x = torch.linspace(-9, 9, 120).reshape(2, 3, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        graph = og.from_torch(Apply(function), (x,))
    assert [op.kind for op in graph.ops] == [kind]
    result = graph.compile()(x).only
    np.testing.assert_allclose(result, exact(x.double()).numpy(), rtol=1e-5, atol=2e-6)


def test_another_constant_is_another_function():
    x = torch.linspace(-9, 9, 120)
    graph = og.from_torch(Apply(lambda x: 0.5 * x * (1 + torch.tanh(SCALE * (x + 0.0449 * x**3)))), (x,))
    assert "GELU" not in [op.kind for op in graph.ops]


def test_bf16_keeps_its_inner_roundings_where_types_change():
    """The casts stay; what lies between them, in f32, is one op."""
    x = torch.linspace(-9, 9, 120).to(torch.bfloat16)
    graph = og.from_torch(Apply(lambda x: gelu_new(x.float()).to(x.dtype)), (x,))
    kinds = [op.kind for op in graph.ops]
    assert kinds in (["GELU"], ["TypeCast", "GELU", "TypeCast"])
    result = graph.compile()(x).only.astype(np.float64)
    want = functional.gelu(x.double(), approximate="tanh").numpy()
    np.testing.assert_allclose(result, want, rtol=2.0**-8, atol=1e-6)


def test_heads_that_share_keys_are_copies_of_the_library():
    """Both factors of a product with ones broadcast here, which no primitive does: NumPy would."""
    keys = torch.randn(2, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    graph = og.from_torch(
        Apply(lambda x: x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 8, 5, 6)), (keys,)
    )
    assert "Concat" in [op.kind for op in graph.ops]
    model = graph.compile()
    assert torch.equal(torch.from_numpy(np.array(model(keys).only)), keys.repeat_interleave(2, 1))
    if og.list_backends()["onednn"] is None:
        assert not any("numpy" in name for one in model.explain().values() for name in one.implementations)
