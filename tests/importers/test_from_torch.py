"""`from_torch`: each op and whole networks against torch itself."""

import math
import warnings

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

import torchvision_anywhere  # noqa: E402, F401 -- before transformers imports torchvision
from onednn_graph.graph.aten.table import AUTOGRAD  # noqa: E402 -- torch comes first
from training_modules import Inverted  # noqa: E402 -- torch comes first

nn, functional = torch.nn, torch.nn.functional
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning"),
]

TOLERANCE = 1e-5
"""Of the largest element, for one op: f32 rounds to 2⁻²⁴, and sums here have some hundred terms at most."""
DEEP = 1e-4
"""Of the largest element, for a network of tens of layers, each with the error of the ones before."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def close(result, expected, tolerance):
    expected = expected.detach()
    assert result.shape == tuple(expected.shape)
    assert str(result.dtype) == str(expected.dtype).removeprefix("torch.")
    want = expected.double().numpy()
    assert np.isfinite(result.astype("f8")).all() == bool(np.isfinite(want).all())
    scale = float(np.abs(want).max(initial=0))
    np.testing.assert_allclose(result.astype("f8"), want, rtol=0, atol=tolerance * max(scale, 1e-3))


def check(module, *inputs, tolerance=TOLERANCE, kinds=None, **options):
    """Imports, runs, compares each output with torch's; returns what was imported."""
    imported = og.from_torch(module, inputs)
    if kinds is not None:
        assert [op.kind for op in imported.ops] == kinds
    results = imported.compile(**options)(*inputs)
    with torch.no_grad():
        expected = module.eval()(*inputs)
    if isinstance(expected, torch.Tensor):
        expected = (expected,)
    assert len(results) == len(expected)
    for result, want in zip(results.values(), expected, strict=True):
        close(result, want, tolerance)
    return imported


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def positive(*shape, seed=0):
    return 0.5 + torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def integers(*shape, seed=0, low=-4, high=5):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).float()


# --- one op at a time -----------------------------------------------------------------------------------

X, IMAGE = normal(2, 3, 4), normal(2, 4, 8, 6)
WHOLE = integers(2, 3).long()
F = functional

FUNCTIONS = {
    "relu": (torch.relu, X),
    "sigmoid": (torch.sigmoid, X),
    "tanh": (torch.tanh, X),
    "exp": (torch.exp, X),
    "log": (torch.log, positive(2, 3)),
    "sqrt": (torch.sqrt, positive(2, 3)),
    "rsqrt": (torch.rsqrt, positive(2, 3)),
    "abs": (torch.abs, X),
    "neg": (torch.neg, X),
    "reciprocal": (torch.reciprocal, positive(2, 3)),
    "round": (torch.round, 5 * X),
    "square": (torch.square, X),
    "mish": (F.mish, X),
    "silu": (F.silu, X),
    "gelu": (F.gelu, X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "hardswish": (F.hardswish, 3 * X),
    "hardsigmoid": (F.hardsigmoid, 3 * X),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 0.25), X),
    "relu6": (F.relu6, 5 * X),
    "elu": (lambda x: F.elu(x, 1.5), X),
    "selu": (F.selu, X),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), X),
    "softplus": (F.softplus, 10 * X),
    "softplus beta": (lambda x: F.softplus(x, beta=2.0), X),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), X),
    "clamp low": (lambda x: x.clamp(min=0.5), X),
    "clamp high": (lambda x: x.clamp_max(0.5), X),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4])), IMAGE),
    "add": (lambda x, y: x + y, X, normal(4, seed=1)),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2), X, normal(4, seed=1)),
    "add alpha integers": (lambda x: torch.add(x, torch.tensor([1, 3, 5, 7]), alpha=0.5), X),
    "add alpha bytes": (lambda x: torch.add(x, torch.tensor([1, 3, 5, 200], dtype=torch.uint8), alpha=2), X),
    "sub alpha integers": (lambda x: torch.sub(x, torch.tensor([1, 3, 5, 7]), alpha=0.3), X),
    "rsub alpha integers": (lambda x: torch.rsub(torch.tensor([1, 3, 5, 7]), x, alpha=0.3), X),
    "add alpha f64": (lambda x: torch.add(x, torch.tensor([1, 3, 5, 7]), alpha=0.3), X.double()),
    "add number": (lambda x: x + 3, X),
    "sub": (lambda x, y: x - y, X, normal(3, 1, seed=1)),
    "rsub": (lambda x: 1 - x, X),
    "mul": (lambda x, y: x * y, X, normal(2, 1, 4, seed=1)),
    "mul number": (lambda x: 2.5 * x, X),
    "div": (lambda x, y: x / y, X, positive(2, 3, 4)),
    "div number": (lambda x: x / 3, X),
    "number div": (lambda x: 3 / x, positive(2, 3)),
    "glu": (lambda x: F.glu(x, 1), IMAGE),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), X, normal(3, 1, seed=1)),
    "addcmul integers": (torch.addcmul, WHOLE, WHOLE, WHOLE + 1),
    "addcmul scaled integers": (lambda x: torch.addcmul(x, x, x, value=3), WHOLE),
    "addcmul number": (lambda x: torch.addcmul(x, x, torch.tensor(2.0)), X.half()),
    "addcdiv": (lambda x, y: torch.addcdiv(x, x, y, value=-2), X, positive(2, 3, 4)),
    "mse_loss": (F.mse_loss, X, normal(2, 3, 4, seed=1)),
    "mse_loss sum": (lambda x, y: F.mse_loss(x, y, reduction="sum"), X, normal(2, 3, 4, seed=1)),
    "mse_loss none": (lambda x, y: F.mse_loss(x, y, reduction="none"), X, normal(2, 3, 4, seed=1)),
    "fill": (lambda x: torch.fill(x, 2.5) + x, X),
    "fill with a tensor": (lambda x, y: torch.fill(x, y.sum()) + x, X, normal(3)),
    "new_full": (lambda x: x.new_full((3, 4), 0.25) + x, X),
    "new_full of another type": (lambda x: x.new_full((3, 4), 2, dtype=torch.int64) + x, X),
    "new_zeros": (lambda x: torch.cat([x, x.new_zeros((2, 1, 4))], 1), X),
    "new_ones": (lambda x: torch.cat([x, x.new_ones((2, 1, 4))], 1), X),
    "prelu kernel": (torch._prelu_kernel, IMAGE, normal(1, 4, 1, 1)),
    "maximum": (torch.maximum, X, normal(2, 3, 4, seed=1)),
    "minimum": (torch.minimum, X, normal(2, 3, 4, seed=1)),
    "pow 2": (lambda x: x**2, X),
    "pow 3.5": (lambda x: x**3.5, positive(2, 3)),
    "where": (torch.where, normal(2, 1, 4) > 0, X, normal(3, 1, seed=1)),
    "where number": (lambda c, x: torch.where(c, x, 2.0), normal(2, 1, 4) > 0, X),
    "masked_fill": (lambda x, c: x.masked_fill(c, -2.0), X, normal(2, 3, 4, seed=1) > 0),
    "ge": (lambda x, y: x >= y, integers(3, 4), integers(3, 4, seed=1)),
    "le": (lambda x: x <= 0, integers(3, 4)),
    "to f64": (lambda x: x.double(), X),
    "type_as": (lambda x, y: x.type_as(y) + y, X, X.double()),
    "mm": (torch.mm, normal(3, 4), normal(4, 5, seed=1)),
    "mm transposed": (lambda x, y: x.t() @ y.t(), normal(4, 3), normal(5, 4, seed=1)),
    "bmm": (torch.bmm, normal(2, 3, 4), normal(2, 4, 5, seed=1)),
    "matmul": (torch.matmul, normal(2, 1, 3, 4), normal(5, 4, 6, seed=1)),
    "matmul vector": (torch.matmul, normal(2, 3, 4), normal(4, seed=1)),
    "addmm": (torch.addmm, normal(5), normal(3, 4), normal(4, 5, seed=1)),
    "addmm scaled": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        normal(3, 5),
        normal(3, 4),
        normal(4, 5),
    ),
    "linear": (F.linear, normal(2, 3, 4), normal(5, 4, seed=1), normal(5)),
    "view": (lambda x: x.view(4, -1) + 1, X),
    "flatten": (lambda x: x.flatten(1) + 1, IMAGE),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)) + 1, IMAGE),
    "permute": (lambda x: x.permute(2, 0, 1), X),
    "transpose": (lambda x: x.transpose(-1, 0), X),
    "unsqueeze": (lambda x: x.unsqueeze(-1) * x.unsqueeze(0).unsqueeze(-1), normal(3)),
    "squeeze": (lambda x: x.squeeze() + x.squeeze(1).squeeze(-1) + x.squeeze((1, 3)), normal(3, 1, 2, 1)),
    "expand": (lambda x: x.expand(3, -1, 5), normal(2, 1)),
    "expand heads": (lambda x: x[:, :, None].expand(-1, -1, 3, -1, -1).flatten(1, 2), normal(2, 4, 5, 6)),
    "repeat": (lambda x: x.repeat(2, 1, 3), normal(2, 4)),
    "cat": (lambda x, y: torch.cat([x, y, x], 1), X, normal(2, 5, 4)),
    "stack": (lambda x, y: torch.stack([x, y], 1), X, normal(2, 3, 4, seed=1)),
    "slice": (lambda x: x[:, 1:3, 2:-1:2, ::3], IMAGE),
    "slice batch": (lambda x: x[1:], IMAGE),
    "narrow": (lambda x: x.narrow(1, -3, 2), IMAGE),
    "select": (lambda x: x[:, -1] + x[:, 0], X),
    "split": (lambda x: x.split(3, 1), normal(2, 7)),
    "split sizes": (lambda x: x.split([1, 4, 2], -1), normal(2, 7)),
    "chunk": (lambda x: x.chunk(3, 1), normal(2, 6)),
    "unbind": (lambda x: x.unbind(1), X),
    "index_select": (lambda x: x.index_select(2, torch.tensor([0, 2])), IMAGE),
    "pad": (lambda x: F.pad(x, (1, 0, 2, 3)), IMAGE),
    "pad value": (lambda x: F.pad(x, (1, -1), value=1.5), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), IMAGE),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), IMAGE),
    "mean": (lambda x: x.mean((1, 2)), X),
    "mean all": (lambda x: x.mean(), X),
    "mean f64": (lambda x: x.mean(1, dtype=torch.float64), X),
    "sum": (lambda x: x.sum(-1, keepdim=True), X),
    "sum all": (lambda x: x.sum(), X),
    "amax": (lambda x: x.amax(1), X),
    "amin": (lambda x: x.amin((0, 1), keepdim=True), X),
    "max": (lambda x: x.max(), X),
    "min": (lambda x: x.min(), X),
    "prod": (lambda x: x.prod(1), X),
    "prod all": (lambda x: x.prod(), X),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1), X),
    "norm 1": (lambda x: torch.linalg.vector_norm(x, 1, dim=(0, 1), keepdim=True), X),
    "var": (lambda x: x.var(1), X),
    "var biased": (lambda x: x.var((0, 2), correction=0, keepdim=True), X),
    "softmax": (lambda x: x.softmax(1), X),
    "log_softmax": (lambda x: x.log_softmax(-1), X),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), X),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "max_pool2d dilated": (lambda x: F.max_pool2d(x, 2, 1, 0, 2), IMAGE),
    "max_pool2d ceil": (lambda x: F.max_pool2d(x, (3, 4), ceil_mode=True), IMAGE),
    "max_pool2d without batch": (lambda x: F.max_pool2d(x, 2), normal(4, 8, 6)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), normal(1, 2, 4, 4, 6)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2, 1, 1), X),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d uncounted": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE),
    "avg_pool2d ceil": (lambda x: F.avg_pool2d(x, (3, 4), 2, ceil_mode=True), IMAGE),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=4), IMAGE),
    "adaptive_avg 1": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive_avg": (lambda x: F.adaptive_avg_pool2d(x, (4, None)), IMAGE),
    "adaptive_avg uneven": (lambda x: F.adaptive_avg_pool2d(x, (3, 7)), IMAGE),
    "adaptive_avg uneven and one": (lambda x: F.adaptive_avg_pool2d(x, (5, 1)), IMAGE),
    "adaptive_max uneven": (lambda x: F.adaptive_max_pool2d(x, (5, 4)), IMAGE),
    "roll": (lambda x: torch.roll(x, (-3, 2), (2, 3)), IMAGE),
    "index_select out of order": (lambda x: x.index_select(2, torch.tensor([5, 0, 2, 2])), IMAGE),
    "adaptive_max": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), IMAGE),
    "layer_norm": (lambda x: F.layer_norm(x, (3, 4)), X),
    "layer_norm weight": (lambda x, w: F.layer_norm(x, (4,), w), X, normal(4)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w, 1e-5), X, positive(4)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), IMAGE, normal(4), normal(4, seed=1)),
    "group_norm plain": (lambda x: F.group_norm(x, 2), IMAGE),
    "instance_norm": (lambda x: F.instance_norm(x), IMAGE),
    "attention": (
        F.scaled_dot_product_attention,
        normal(2, 4, 5, 8),
        normal(2, 4, 7, 8, seed=1),
        normal(2, 4, 7, 6),
    ),
    "attention causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        normal(2, 5, 8),
        normal(2, 5, 8, seed=1),
        normal(2, 5, 8, seed=2),
    ),
    "attention mask": (
        F.scaled_dot_product_attention,
        normal(2, 4, 5, 8),
        normal(2, 4, 5, 8, seed=1),
        normal(2, 4, 5, 8, seed=2),
        normal(2, 1, 5, 5),
    ),
    "attention bool": (
        F.scaled_dot_product_attention,
        normal(2, 4, 5, 8),
        normal(2, 4, 5, 8, seed=1),
        normal(2, 4, 5, 8, seed=2),
        normal(2, 1, 5, 5) > 0.8,
    ),
    "attention heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        normal(2, 6, 5, 8),
        normal(2, 2, 5, 8, seed=1),
        normal(2, 2, 5, 8, seed=2),
    ),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest 3": (lambda x: F.interpolate(x, size=(24, 6)), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, size=(5, 13), mode="bilinear"), IMAGE),
    "bilinear scale": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "bilinear corners": (
        lambda x: F.interpolate(x, size=(5, 13), mode="bilinear", align_corners=True),
        IMAGE,
    ),
    "linear 1d": (lambda x: F.interpolate(x, size=9, mode="linear"), X),
    "full_like": (lambda x: x + torch.full_like(x, 3.0) + torch.ones_like(x) + torch.zeros_like(x), X),
    "arange": (lambda x: x + torch.arange(4) * 2, X),
    "constant mask": (lambda x: x.masked_fill(torch.ones(3, 3).triu(1).bool(), -5.0), normal(2, 3, 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name):
    function, *inputs = FUNCTIONS[name]
    check(Apply(function), *inputs)


LAYERS = {
    "Conv1d": (nn.Conv1d(4, 6, 3, padding=1), normal(2, 4, 9)),
    "Conv2d": (nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), IMAGE),
    "Conv2d groups": (nn.Conv2d(4, 6, 3, groups=2, bias=False), IMAGE),
    "Conv2d same": (nn.Conv2d(4, 6, (4, 3), padding="same"), IMAGE),
    "Conv2d without batch": (nn.Conv2d(4, 6, 3), normal(4, 8, 6)),
    "Conv3d": (nn.Conv3d(2, 3, 2), normal(1, 2, 4, 5, 3)),
    "ConvTranspose1d": (nn.ConvTranspose1d(4, 3, 3, stride=2), normal(2, 4, 5)),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), IMAGE),
    "BatchNorm2d": (nn.BatchNorm2d(4), IMAGE),
    "BatchNorm2d plain": (nn.BatchNorm2d(4, affine=False), IMAGE),
    "BatchNorm1d": (nn.BatchNorm1d(3), X),
    "LayerNorm": (nn.LayerNorm(4), X),
    "GroupNorm": (nn.GroupNorm(2, 4), IMAGE),
    "InstanceNorm2d": (nn.InstanceNorm2d(4, affine=True, track_running_stats=True), IMAGE),
    "Dropout": (nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), X),
    "ZeroPad2d": (nn.ZeroPad2d((1, 2, 0, 1)), IMAGE),
    "PReLU": (nn.PReLU(4), IMAGE),
    "MultiheadAttention": (nn.MultiheadAttention(8, 2, batch_first=True), None),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name):
    layer, x = LAYERS[name]
    for buffer in layer.buffers():
        if buffer.is_floating_point():
            buffer.data = positive(*buffer.shape, seed=5)
    if x is None:
        x = normal(2, 5, 8)
        check(layer, x, normal(2, 7, 8, seed=1), normal(2, 7, 8, seed=2))
    else:
        check(layer, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("op", [torch.addcmul, torch.addcdiv])
def test_sums_with_products_of_halves_are_rounded_once(op, dtype):
    x, a, b = (positive(64, 5, seed=seed).to(dtype) for seed in range(3))
    (result,) = (
        og.from_torch(Apply(lambda *inputs: op(*inputs, value=1.5)), (x, a, b)).compile()(x, a, b).values()
    )
    expected = op(x.float(), a.float(), b.float(), value=1.5).to(dtype)
    np.testing.assert_array_equal(result.astype("f4"), expected.float().numpy())


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda x: functional.mse_loss(x, x + 1), ["Add", "SquaredDifference", "ReduceMean"]),
        (lambda x: torch.addcdiv(x, x, x), ["Divide", "Add"]),
    ],
)
def test_ops_with_a_translation_are_not_taken_apart(function, kinds):
    check(Apply(function), X, kinds=kinds)


def test_every_op_of_the_table_has_a_translation_that_torch_knows():
    """No typing mistakes: each name is an op of torch, and an overload of it where one is given."""
    for name in AUTOGRAD:
        space, op, *overload = name.split(".")
        if space != "aten":
            continue
        packet = getattr(torch.ops.aten, op)
        for one in overload:
            assert one in packet.overloads(), name


def test_padding_goes_into_the_convolution():
    module = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(4, 6, 3, stride=2))
    (op,) = check(module, IMAGE, kinds=["Convolution"]).ops
    assert op.attributes["pads_begin"] == (0, 0)
    assert op.attributes["pads_end"] == (1, 1)


def test_parts_that_nobody_needs_are_left_out():
    check(Apply(lambda x: x.unbind(2)[1] + 1), X, kinds=["MaxPool", "StaticReshape", "Add"])
    imported = check(Apply(lambda x: (x * 2 * x).split(2, 2)[0]), X)
    assert [op.kind for op in imported.ops] == ["Multiply", "Multiply", "MaxPool"]
    assert len(imported.outputs) == 1


def test_swish_is_a_sigmoid_and_a_product():
    check(nn.SiLU(), X, kinds=["Sigmoid", "Multiply"])


def test_a_row_that_sees_nothing_gives_zeros():
    """As torch has it: not NaN."""
    q = normal(1, 2, 3, 4)
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    results = og.from_torch(Apply(F.scaled_dot_product_attention), (q, q, q, mask)).compile()(q, q, q, mask)
    close(results["output"], F.scaled_dot_product_attention(q, q, q, mask), TOLERANCE)
    assert (results["output"][0, :, 1] == 0).all()


# --- constants ------------------------------------------------------------------------------------------


def test_weights_are_used_where_they_lie():
    layer = nn.Linear(4, 5)
    imported = og.from_torch(layer, (X,))
    assert set(imported.constants) == {"weight", "bias"}
    weight = imported.constants["weight"]
    assert weight.__array_interface__["data"][0] == layer.weight.data_ptr()
    assert {t.name for t in imported.constant_tensors} == {"weight", "bias"}


def test_a_transposed_weight_is_not_copied_either():
    """Decomposed, a linear layer multiplies with the transposed weight."""
    weight = nn.Parameter(normal(5, 4))

    class Transposed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return x @ self.weight.t()

    imported = check(Transposed(), X, kinds=["MatMul"])
    (array,) = imported.constants.values()
    assert array.__array_interface__["data"][0] == weight.data_ptr()
    assert imported.ops[0].attributes["transpose_b"] is True


def test_a_shared_weight_is_one_constant():
    layer = nn.Linear(4, 4)
    imported = check(nn.Sequential(layer, nn.ReLU(), layer), X)
    assert len(imported.constants) == 2


def test_bf16():
    """Weights in bf16 without a copy; results to the precision of the type, 2⁻⁸."""
    module = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 4, 5)).bfloat16()
    x = IMAGE.bfloat16()
    imported = og.from_torch(module, (x,))
    assert {str(a.dtype) for a in imported.constants.values()} == {"bfloat16"}
    result = imported.compile()(x)["output"]
    with torch.no_grad():
        want = module.float()(x.float()).numpy()
    np.testing.assert_allclose(result.astype("f4"), want, rtol=0, atol=2**-6 * np.abs(want).max())


# --- networks -------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A residual block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def residual_network():
    """Like ResNet-18, with a quarter of its channels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Block(16, 16, 1),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 32, 1),
        Block(32, 64, 2),
        Block(64, 64, 1),
        Block(64, 128, 2),
        Block(128, 128, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def mobile_network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        Inverted(16, 16, 1, 2),
        Inverted(16, 24, 2, 4),
        Inverted(24, 24, 1, 4),
        Inverted(24, 32, 2, 4),
        nn.Conv2d(32, 64, 1),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(64, 10),
    )


class UNet(nn.Module):
    """Two levels down and up again, with skip connections."""

    def __init__(self):
        super().__init__()

        def double(inputs, outputs):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            )

        self.down1, self.down2, self.middle = double(1, 8), double(8, 16), double(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.join2, self.join1 = double(32, 16), double(16, 8)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(functional.max_pool2d(one, 2))
        low = self.middle(functional.max_pool2d(two, 2))
        two = self.join2(torch.cat([self.up2(low), two], 1))
        return self.last(self.join1(torch.cat([self.up1(two), one], 1)))


def encoder(**more):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **more)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Decoder(nn.Module):
    """A decoder-only language model behind its embedding: pre-norm, causal, gated."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(32, eps=1e-6), nn.RMSNorm(32, eps=1e-6)
        self.qkv, self.out = nn.Linear(32, 3 * 32, bias=False), nn.Linear(32, 32, bias=False)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, 32))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


NETWORKS = {
    "residual": (residual_network, normal(1, 3, 64, 64)),
    "mobile": (mobile_network, normal(2, 3, 32, 32)),
    "u-net": (UNet, normal(1, 1, 24, 32)),
    "encoder": (encoder, normal(2, 7, 32)),
    "encoder gelu, norm first": (lambda: encoder(activation="gelu", norm_first=True), normal(2, 7, 32)),
    "decoder": (Decoder, normal(2, 6, 32)),
}


def network(name):
    torch.manual_seed(0)
    make, x = NETWORKS[name]
    module = make()
    for part in module.modules():  # running statistics as after some training
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return module.eval(), x


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name, backend):
    module, x = network(name)
    check(module, x, tolerance=DEEP, backend=backend)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"
)  # torch's own, of itself
def test_a_network_by_way_of_onnx(name, tmp_path):
    onnx = pytest.importorskip("onnx", reason="this needs the package onnx; install the extra 'onnx'")
    pytest.importorskip("onnxscript", reason="torch exports ONNX with onnxscript; install 'test-oracles'")
    module, x = network(name)
    path = tmp_path / "model.onnx"
    torch.onnx.export(module, (x,), path, dynamo=True, verbose=False)
    model = og.from_onnx(onnx.load(path)).compile()
    (result,) = model(x).values()
    close(result, module(x), DEEP)


def test_most_of_a_network_runs_on_onednn(onednn):
    module, x = network("residual")
    report = og.from_torch(module, (x,)).compile().report(x, repeat=1)
    assert report.ops == {"onednn": sum(report.ops.values())}
    assert report.onednn_share == 1


def test_an_integer_network_is_exact():
    """Convolution, ReLU, a skip connection, pooling and a product: small integers, bit for bit."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.last = nn.Linear(8 * 4 * 4, 10)
            for seed, parameter in enumerate(self.parameters()):
                parameter.data = integers(*parameter.shape, seed=seed, low=-2, high=3)

        def forward(self, x):
            h = torch.relu(self.one(x))
            return self.last(functional.max_pool2d(torch.relu(self.two(h) + h), 2).flatten(1))

    module, x = Network(), integers(2, 4, 8, 8)
    with torch.no_grad():
        want = module.double()(x.double()).float().numpy()
    np.testing.assert_array_equal(og.from_torch(module.float(), (x,)).compile()(x)["output"], want)


def hugging_face():
    transformers = pytest.importorskip(
        "transformers", reason="this needs the package transformers; install the extra 'test-oracles'"
    )
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return transformers, small


def resnet(t, small):
    config = t.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64], depths=[2, 2, 2], layer_type="basic"
    )
    return t.ResNetForImageClassification(config), normal(1, 3, 64, 64)


def mobilenet(t, small):
    config = t.MobileNetV2Config(image_size=64, depth_multiplier=0.35)
    return t.MobileNetV2ForImageClassification(config), normal(1, 3, 64, 64)


def vit(t, small):
    return t.ViTModel(t.ViTConfig(**small, image_size=64, patch_size=16)), normal(1, 3, 64, 64)


class BertBehindItsEmbedding(nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.encoder, self.pooler = bert.encoder, bert.pooler

    def forward(self, x):
        return self.pooler(self.encoder(x)[0])


def bert(t, small):
    return BertBehindItsEmbedding(t.BertModel(t.BertConfig(**small))), normal(2, 9, 32)


@pytest.mark.parametrize("make", [resnet, mobilenet, vit, bert], ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_published_architectures(make):
    """Built from a configuration with random weights: nothing is loaded from anywhere."""
    torch.manual_seed(0)
    module, x = make(*hugging_face())
    module.eval()
    results = og.from_torch(module, (x,)).compile()(x)
    with torch.no_grad():
        want = module(x)
    expected = {"output": want} if isinstance(want, torch.Tensor) else dict(want)
    assert list(results) == list(expected)
    for name, result in results.items():
        close(result, expected[name], DEEP)


# --- modules as they come -------------------------------------------------------------------------------


def test_an_exported_program():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
    program = torch.export.export(module.eval(), (X,))
    close(og.from_torch(program).compile()(X)["output"], module(X), TOLERANCE)
    with pytest.raises(
        og.ArgumentError, match="takes no example inputs and no dynamic_shapes with an ExportedProgram"
    ):
        og.from_torch(program, (X,))


def test_the_module_is_left_as_it_was():
    module = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5))
    module[1].eval()
    og.from_torch(module, (X,))
    assert [part.training for part in module.modules()] == [True, True, False]
    assert torch.backends.mha.get_fastpath_enabled()


def test_names_of_inputs_and_outputs():
    class Several(nn.Module):
        def forward(self, left, right, scale=None):
            out = {"sum": left + right, "parts": (left - right, [left])}
            return {**out, "nothing": None} if scale is None else {**out, "scaled": left * scale}

    imported = og.from_torch(Several(), (X, 2 * X))
    assert imported.input_names == ("left", "right")
    assert imported.output_names == ("sum", "parts.0", "parts.1.0")
    results = imported.compile()(X, right=2 * X)
    np.testing.assert_array_equal(results["parts.0"], (X - 2 * X).numpy())
    np.testing.assert_array_equal(results["parts.1.0"], X.numpy())
    named = og.from_torch(Several(), (X, 2 * X), {"scale": normal(4)})
    assert named.input_names == ("left", "right", "scale")
    assert named.output_names == ("sum", "parts.0", "parts.1.0", "scaled")
    two = og.from_torch(Apply(lambda x: (x + 1, x * 2)), (X,))
    assert two.output_names == ("output_0", "output_1")


class Difference(nn.Module):
    """Of two inputs, a weight, a buffer and a tensor that it just has."""

    def __init__(self, like):
        super().__init__()
        self.weight = nn.Parameter(like.clone())
        self.register_buffer("held", like.clone())
        self.more = like.clone()

    def forward(self, a, *, b):
        return a - 2 * b + 3 * self.weight - 4 * self.held + 5 * self.more


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("which", ["weight", "held", "more", None])
def test_example_inputs_that_are_one_tensor_are_several_inputs(which, training):
    """Torch's export knows tensors by their identity, and took one for all that were one in the example."""
    module = Difference(torch.ones(2, 3))
    example = torch.ones(2, 3) if which is None else getattr(module, which)
    graph = og.from_torch(module, (example,), {"b": example}, training=training)
    assert [t.name for t in graph.inputs] == ["a", "b"]
    a, b = (np.full((2, 3), value, np.float32) for value in (7, 11))
    (result,) = graph.compile()(a=a, b=b).values()
    np.testing.assert_array_equal(result, a - 2 * b + 4)


def test_attention_of_an_example_to_itself_attends_to_others():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, key, value = torch.randn(3, 2, 5, 8)
    graph = og.from_torch(module, (x, x, x))
    results = graph.compile()(x, key, value)
    with torch.no_grad():
        for result, want in zip(results.values(), module(x, key, value), strict=True):
            close(result, want, TOLERANCE)


def test_outputs_whose_keys_spell_the_same_are_all_there():
    module = Apply(lambda x: {"a.b": x + 1, "a": {"b": x * 2}, 1: x * 3, "1": x * 4})
    results = og.from_torch(module, (X,)).compile()(X)
    assert list(results) == ["a.b", "a.b.2", "1", "1.2"]
    for made, want in zip(results.values(), (X + 1, X * 2, X * 3, X * 4), strict=True):
        np.testing.assert_array_equal(made, want.numpy())


def test_all_that_can_not_be_mapped_is_named_at_once():
    class Unusual(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 4)

        def forward(self, tokens, x):
            h = self.table(tokens)
            return (
                torch.relu(h) + torch.igamma(x, torch.igamma(x, x)),
                torch.logcumsumexp(x, 1),
                torch.dropout(x, 0.5, True),
            )

    with pytest.raises(og.UnsupportedError) as caught:
        og.from_torch(Unusual(), (torch.tensor([[1, 2, 3]]), X))
    text = str(caught.value)
    assert text.startswith("4 nodes of the exported torch program can't become ops of oneDNN Graph: ")
    assert "aten.igamma.default ×2 ('igamma', 'igamma_1'): there is no translation for it" in text
    assert "aten.logcumsumexp.default ×1" in text
    assert "embedding" not in text
    assert "dropout" in text
    assert "relu" not in text


REFUSED = {
    "celu": (lambda x: F.celu(x, -0.5), (X,), "an alpha of -0.5"),
    "divisor": (
        lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True, divisor_override=3),
        (IMAGE,),
        "a divisor of its own where windows have fewer elements",
    ),
    "ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (normal(1, 2, 6, 6),), "ceil rounding"),
    "truths": (
        lambda x: torch.index_put(x, (x > 0,), torch.ones(24)),
        (X,),
        "each truth of a mask, whose number is known",
    ),
    "no repetition": (lambda x: x.repeat(2, 1, 0), (X,), "which leave no elements"),
    "random": (lambda x: x + torch.rand(4), (X,), "random numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, inputs, message = REFUSED[name]
    with pytest.raises(og.UnsupportedError, match=message):
        og.from_torch(Apply(function), inputs)


def test_what_is_no_module():
    with pytest.raises(og.ArgumentTypeError, match="takes a torch.nn.Module or an ExportedProgram, got 3"):
        og.from_torch(3, (X,))
    with pytest.raises(og.ArgumentError, match="needs example inputs"):
        og.from_torch(nn.ReLU())
    with pytest.raises(og.ArgumentTypeError, match="write .x,. for one tensor"):
        og.from_torch(nn.ReLU(), X)
    with pytest.raises(og.UnsupportedError, match="torch.export can't export the Apply"):
        og.from_torch(Apply(lambda x: x if x.sum() > 0 else -x), (X,))


def test_scores_are_scaled_by_the_root_of_the_size():
    q = normal(1, 1, 3, 16)
    imported = og.from_torch(Apply(F.scaled_dot_product_attention), (q, q, q))
    (scale,) = [a for a in imported.constants.values() if a.ndim == 0]
    assert float(scale) == pytest.approx(1 / math.sqrt(16))


def test_parts_are_named_after_what_they_are():
    imported = og.from_torch(Apply(lambda x: (x[:, :2], x.split([1, 2], 1)[1], F.pad(x, (-1, 0)))), (X,))
    names = [op.name for op in imported.ops if op.kind == "MaxPool"]
    assert len(names) == 3
    assert all(name.startswith(("slice", "split")) for name in names)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.inner(self.relu(x)) + x)


def test_ops_are_named_after_their_modules():
    """A module that is one op gives it its path; others have what they do behind it; each call has its number."""
    imported = og.from_torch(nn.Sequential(Nested(), Nested(), Apply(lambda x: x.exp() - x.tanh())), (X,))
    assert [(op.kind, op.name) for op in imported.ops] == [
        (kind, name)
        for block in "01"
        for kind, name in [
            ("ReLU", f"{block}.relu"),
            ("MatMul", f"{block}.inner.0"),
            ("ReLU", f"{block}.inner.1"),
            ("Add", f"{block}.add"),
            ("ReLU", f"{block}.relu.2"),
        ]
    ] + [("Exp", "2.exp"), ("Tanh", "2.tanh"), ("Subtract", "2.sub")]
    assert og.Graph.from_json(imported.to_json()).ops[1].name == "0.inner.0"


def test_nothing_to_compute():
    with pytest.raises(
        og.UnsupportedError, match="from_torch: the model computes nothing; its outputs 'output' are"
    ):
        og.from_torch(Apply(lambda x: x**1), (X,))


def test_a_warning_that_torch_gives_itself_is_not_shown():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        og.from_torch(nn.Linear(4, 5), (X,))
    assert not [one for one in shown if "LeafSpec" in str(one.message)]
