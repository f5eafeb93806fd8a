"""Torch's own sample inputs of operators through the backend, against eager; `tests/tools/try_torch_operators.py` runs
all of them."""

import json

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
pytest.importorskip("expecttest", reason="torch's own tests need it; install the extra 'test-oracles'")

import onednn_graph  # noqa: E402, F401 -- torch comes first
import torch_operators  # noqa: E402
import try_torch_operators  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

PRODUCTS = """
    mm bmm addmm baddbmm mv matmul einsum nn.functional.linear
    nn.functional.scaled_dot_product_attention nn.functional.conv1d nn.functional.conv2d
    nn.functional.conv3d nn.functional.conv_transpose2d
"""
NORMALISATIONS = """
    nn.functional.batch_norm nn.functional.layer_norm nn.functional.group_norm
    nn.functional.instance_norm nn.functional.rms_norm softmax log_softmax nn.functional.cross_entropy
    nn.functional.nll_loss
"""
WINDOWS = """
    nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d
    nn.functional.interpolate nn.functional.upsample_nearest nn.functional.pad
    nn.functional.pixel_shuffle
"""
FUNCTIONS = """
    add sub mul div pow exp log sqrt rsqrt tanh sigmoid neg abs square maximum minimum clamp where
    masked_fill addcmul nn.functional.relu nn.functional.gelu nn.functional.silu nn.functional.elu
    nn.functional.leaky_relu nn.functional.glu nn.functional.hardswish nn.functional.hardsigmoid
    nn.functional.hardtanh nn.functional.mish nn.functional.prelu nn.functional.softplus
    nn.functional.logsigmoid nn.functional.mse_loss floor_divide remainder
"""
SHAPES = """
    sum mean amax amin prod var var_mean logsumexp cat stack split chunk unbind permute transpose expand
    reshape view squeeze unsqueeze repeat flatten slice select narrow index_select gather cumsum tril
    triu flip roll sort topk max min clone contiguous
"""
IMPORTANT = " ".join((PRODUCTS, NORMALISATIONS, WINDOWS, FUNCTIONS, SHAPES)).split()


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def failures(op, dtype, limit, **how):
    found = {}
    for trial in torch_operators.trials(op, dtype, limit, **how):
        outcome = torch_operators.ran(trial)
        if outcome.failures:
            found[trial.name] = outcome.failures
    return found


def described(names):
    return [pytest.param(op, id=op.formatted_name) for op in torch_operators.named(*names)]


@pytest.mark.parametrize("op", described(IMPORTANT))
def test_as_eager(op):
    """In f32, bf16 and s64, forward and backward."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        assert failures(op, dtype, 2) == {}


@pytest.mark.parametrize("layout", ["offset", "permuted", "expanded"])
@pytest.mark.parametrize(
    "op", described(["add", "matmul", "sum", "where", "nn.functional.conv2d", "cat", "softmax"])
)
def test_inputs_that_lie_in_another_way(op, layout):
    assert failures(op, torch.float32, 2, layout=layout) == {}


@pytest.mark.torch_ops
@pytest.mark.parametrize("op", described([]))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_every_operator(op, dtype):
    """All samples; hours."""
    assert failures(op, dtype, None) == {}


def compared(function, *tensors):
    """Through torch.compile itself: outputs and gradients."""
    results = []
    torch._dynamo.reset()
    for call in (function, torch.compile(function, backend="onednn_graph")):
        given = [one.detach().clone().requires_grad_(one.is_floating_point()) for one in tensors]
        made = call(*given)
        made.float().pow(2).sum().backward()
        results.append([made.detach(), *[one.grad for one in given if one.requires_grad]])
    for mine, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, theirs)


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: torch.nn.functional.group_norm(x, 2), [(2, 4, 5, 5)]),
        (lambda x, w: torch.nn.functional.conv2d(x, w, padding=1).relu(), [(2, 3, 8, 8), (4, 3, 3, 3)]),
        (lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"), [(1, 2, 4, 4)]),
        (lambda x: torch.nn.functional.glu(x, 1), [(3, 8)]),
        (lambda x, a: torch.nn.functional.prelu(x, a), [(2, 3, 4), (3,)]),
        (lambda a, b: torch.softmax(a @ b, -1), [(3, 4), (4, 5)]),
    ],
)
def test_by_torch_compile(function, shapes):
    compared(function, *[normal(*shape) for shape in shapes])


def test_parts_share_the_memory_of_an_input():
    torch._dynamo.reset()
    x = torch.arange(6.0)
    first, second = torch.compile(lambda x: x.split(3), backend="onednn_graph")(x)
    x.fill_(7.0)
    assert first.tolist() == second.tolist() == [7.0] * 3


def test_a_number_that_bf16_does_not_have_is_not_rounded():
    x = torch.full((64,), 1.5, dtype=torch.bfloat16)
    torch._dynamo.reset()
    made = torch.compile(lambda x: x * 0.3001, backend="onednn_graph")(x)
    assert made.dtype == torch.bfloat16
    torch.testing.assert_close(made, x * 0.3001, rtol=0, atol=0)


def test_running_statistics_of_halves():
    """Torch's tracing says f32 of what its kernel makes bf16."""
    torch._dynamo.reset()
    both = [torch.nn.BatchNorm1d(5, dtype=torch.bfloat16) for _ in range(2)]
    x = normal(4, 5, 3, dtype=torch.bfloat16)
    both[0](x)
    torch.compile(both[1], backend="onednn_graph")(x)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(both[1], name), getattr(both[0], name))


def test_logarithms_have_all_digits():
    torch._dynamo.reset()
    x = torch.tensor([1.000001, -30.0, -9.0]).repeat(8)
    for function in (torch.nn.functional.softplus, lambda x: x.abs().log()):
        torch.testing.assert_close(
            torch.compile(function, backend="onednn_graph")(x), function(x), rtol=1e-6, atol=0
        )


def test_the_page_is_of_the_table():
    """Each row says what it was made of, and rows are for operators that have a translation."""
    lines = [
        ["add", "float32", True, True, 2, 1, True],
        ["add", "bfloat16", True, False, 2, 0, True],
        ["svd", "float32", True, True, 0, 3, False],
    ]
    text = try_torch_operators.page(
        json.loads(json.dumps(lines)), "2.13.0+cpu", {"float32": 1, "bfloat16": 1}
    )
    assert "| `add` | 1 | 1 | 1 | **0 of 1** |  | 4 | 1 |" in text
    assert "svd" not in text
