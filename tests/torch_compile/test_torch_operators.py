"""Torch's own sample inputs of operators through the backend, against eager; `tests/tools/try_torch_operators.py` runs
all of them."""

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


def failures(op, dtypes, limit, **how):
    given = [trial for dtype in dtypes for trial in torch_operators.trials(op, dtype, limit, **how)]
    outcomes = torch_operators.ran_unless_unmapped(given)
    return {
        trial.name: outcome.failures
        for trial, outcome in zip(given, outcomes, strict=True)
        if outcome.failures
    }


def described(names):
    return [pytest.param(op, id=op.formatted_name) for op in torch_operators.named(*names)]


@pytest.mark.parametrize("op", described(IMPORTANT))
def test_as_eager(op):
    """In f32, bf16 and s64, forward and backward, traced as one function."""
    assert failures(op, (torch.float32, torch.bfloat16, torch.int64), 2) == {}


@pytest.mark.parametrize("layout", ["offset", "permuted", "expanded"])
@pytest.mark.parametrize(
    "op",
    described(
        [
            "add",
            "matmul",
            "sum",
            "where",
            "nn.functional.conv2d",
            "cat",
            "softmax",
            "nn.functional.batch_norm",
        ]
    ),
)
def test_inputs_that_lie_in_another_way(op, layout):
    assert failures(op, [torch.float32], 2, layout=layout) == {}


@pytest.mark.torch_ops
@pytest.mark.parametrize("op", described([]))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_every_operator(op, dtype):
    """All samples; hours."""
    assert failures(op, [dtype], None) == {}


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


def shares(tensors):
    places = [one.untyped_storage().data_ptr() for one in tensors]
    return [places.index(place) for place in places]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).unbind(),
        lambda x: (x * 2).split(1)[::2],
        lambda x: (lambda y: (y, y[0], y[:, 1:]))(x * 2),
        lambda x: (lambda y: (y[0].view(2, 2), y.t()[1]))(x * 2),
        lambda x: (lambda y: (y[0] + 1, y[1]))(x * 2),
    ],
)
def test_views_of_what_a_region_makes_share_its_memory(function):
    """Whoever writes to one of them changes the others."""
    x = torch.arange(12.0).reshape(3, 4)
    theirs = function(x)
    mine = torch.compile(function, backend="onednn_graph")(x)
    assert shares(mine) == shares(theirs)
    for results in (mine, theirs):
        results[0].fill_(-1.0)
    for a, b in zip(mine, theirs, strict=True):
        assert a.tolist() == b.tolist()
        assert a.stride() == b.stride()


OTHER_TYPES = ["float64", "complex64", "complex128", "float16", "bool", "int8", "int16", "int32", "uint8"]


@pytest.mark.parametrize("dtype", OTHER_TYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4)])
def test_types_and_sizes_beside_the_usual(dtype, shape):
    """What regions don't take is torch's."""

    def function(x):
        return torch.where(x == x, x + x, x).sum(), (x * x).t() if x.dim() else x * x

    x = normal(*shape).mul(3).to(getattr(torch, dtype)) if "complex" not in dtype else None
    if x is None:
        x = torch.complex(normal(*shape), normal(*shape) + 1).to(getattr(torch, dtype))
    theirs, mine = function(x), torch.compile(function, backend="onednn_graph")(x)
    for a, b in zip(mine, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1)])
def test_gradients_of_some_inputs_only(wanted):
    results = []
    for compiled in (False, True):
        given = [normal(2, 3, 6, 6), normal(4, 3, 3, 3), normal(4)]
        for place in wanted:
            given[place].requires_grad_()
        function = torch.nn.functional.conv2d
        made = (torch.compile(function, backend="onednn_graph") if compiled else function)(*given)
        made.pow(2).sum().backward()
        results.append([one.grad for one in given])
    for mine, theirs in zip(results[1], results[0], strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_together_as_alone():
    """Some samples in one graph: the same is counted, and what is wrong with one of them is told of that one alone."""
    (op,) = torch_operators.named("sub")
    given = list(torch_operators.trials(op, torch.float32, 6))
    alone = [torch_operators.ran(trial) for trial in given]
    together = torch_operators.ran_together(given, 4)
    for a, b in zip(alone, together, strict=True):
        assert (a.forward, a.backward, a.ran) == (b.forward, b.backward, b.ran)
    for where in ("regions", "torch"):
        assert sum(getattr(one, where).total() for one in alone) == sum(
            getattr(one, where).total() for one in together
        )


def test_a_wrong_sample_is_found_among_others(monkeypatch):
    """A translation that is wrong for one shape only."""
    from onednn_graph.graph.torch_compile.plan import table as aten_table

    right = (
        aten_table.TABLE["aten.sub"]
        if "aten.sub" in aten_table.TABLE
        else aten_table.TABLE["aten.sub.Tensor"]
    )

    def wrong(t, a, b, *rest):
        return right(t, a, b, *rest) if len(a.dims) == 2 else right(t, b, a, *rest)

    for name in ("aten.sub", "aten.sub.Tensor"):
        if name in aten_table.TABLE:
            monkeypatch.setitem(aten_table.TABLE, name, wrong)
    (op,) = torch_operators.named("sub")
    given = list(torch_operators.trials(op, torch.float32, 6))
    outcomes = torch_operators.ran_together(given, 6)
    assert any(outcome.failures for outcome in outcomes)
    for trial, outcome in zip(given, outcomes, strict=True):
        assert not outcome.failures or trial.sample.input.dim() != 2


def test_what_is_as_close_as_eager():
    """A bit more than eager's worst error is told apart from two, and infinities must be where eager's are."""
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    eager = torch.tensor([1.0, 2.0 + 2**-10])
    as_close = torch_operators._as_close
    assert as_close(torch.tensor([1.0 + 2**-9, 2.0]), eager, exact, lambda: 0.0)
    assert not as_close(torch.tensor([1.0 + 2**-8, 2.0]), eager, exact, lambda: 0.0)
    assert as_close(torch.tensor([1.0 + 2**-8, 2.0]), eager, exact, lambda: 2**-9)
    assert not as_close(torch.tensor([1.0, float("inf")]), eager, exact, lambda: 1.0)
    assert not as_close(torch.tensor([1.0, 2.0]), eager, None, lambda: 1.0)
    overflowed = torch.tensor([1.0, float("inf")])
    assert as_close(torch.tensor([1.0, 2.0]), overflowed, exact, lambda: 0.0)
    assert not as_close(torch.tensor([1.0, 2.1]), overflowed, exact, lambda: 1.0)
    assert not as_close(
        torch.tensor([1.0, 2.0]), overflowed, torch.full((2,), 1e40, dtype=torch.float64), lambda: 1.0
    )


def test_the_page_is_of_the_table():
    """Each row says what it was made of, and rows are for operators that have a translation."""

    def counted(passed, regions, by_torch, mapped):
        names = ("all", "forward", "gradients", "backward", "regions", "torch", "mapped")
        return dict(zip(names, (2, 2, 2, passed, regions, by_torch, mapped), strict=True))

    lines = [
        ("add", "float32", counted(2, 4, 1, 2)),
        ("add", "bfloat16", counted(1, 2, 0, 2)),
        ("svd", "float32", counted(2, 0, 3, 0)),
    ]
    text = try_torch_operators.page(lines, "2.13.0+cpu")
    assert "| `add` | 2 | 2 | 2 | **1 of 2** |  | 6 | 1 |" in text
    assert "svd" not in text
    assert "all samples, 4 of them" in text
