"""`from_torch`: layers whose arguments ask for more than one op of oneDNN Graph, in inference and in training."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import Apply, check, integers, normal  # noqa: E402 -- torch comes first

nn, F = torch.nn, torch.nn.functional

DIVISORS = {
    "one": (nn.AvgPool2d(2, divisor_override=1), (2, 3, 6, 4)),
    "padded": (nn.AvgPool2d(4, 2, 1, divisor_override=8), (2, 3, 6, 4)),
    "padding left out": (
        nn.AvgPool2d(2, 2, 1, count_include_pad=False, divisor_override=2),
        (2, 3, 6, 4),
    ),
    "volumes": (nn.AvgPool3d(2, divisor_override=4), (1, 2, 4, 4, 6)),
    "one image": (nn.AvgPool2d((1, 2), divisor_override=16), (3, 6, 4)),
}


@pytest.mark.parametrize("name", DIVISORS)
def test_an_average_with_a_divisor_of_its_own(name):
    """On integers and powers of two each number is exact."""
    pool, shape = DIVISORS[name]
    x = integers(*shape)
    made = og.from_torch(pool, (x,)).compile()(x).only
    np.testing.assert_array_equal(made, pool(x).numpy())


POOLS = {
    "pairs": nn.MaxPool2d(2, return_indices=True),
    "overlapping": nn.MaxPool2d(3, 2, 1, return_indices=True),
    "apart": nn.MaxPool2d((2, 3), (1, 2), (0, 1), (2, 1), return_indices=True),
    "to the end": nn.MaxPool2d(3, 2, 1, ceil_mode=True, return_indices=True),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (3, 7, 8)], ids=["batch", "image"])
def test_where_the_largest_of_a_window_is(name, shape):
    """Of several that are equal it is the first, as of small integers there are."""
    x = integers(*shape, low=-1, high=2)
    check(POOLS[name], x, tolerance=0)


@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        (nn.MaxPool1d(3, 2, 1, return_indices=True), (2, 3, 7)),
        (nn.MaxPool3d(2, 2, 1, return_indices=True), (1, 2, 4, 5, 6)),
    ],
    ids=["row", "volume"],
)
def test_where_the_largest_is_along_other_axes(pool, shape):
    check(pool, integers(*shape, low=-1, high=2), tolerance=0)


def test_a_window_of_minus_infinity_has_a_place_in_the_image():
    pool, x = nn.MaxPool2d(3, 2, 1, return_indices=True), torch.full((1, 1, 5, 5), -torch.inf)
    _, places = og.from_torch(pool, (x,)).compile()(x).values()
    np.testing.assert_array_equal(places, pool(x)[1].numpy())


class Unpooled(nn.Module):
    """What is largest goes back to where it was, as in SegNet."""

    def __init__(self):
        super().__init__()
        self.first, self.pool, self.back = (
            nn.Conv2d(2, 3, 1),
            nn.MaxPool2d(2, return_indices=True),
            nn.MaxUnpool2d(2),
        )

    def forward(self, x):
        pooled, places = self.pool(self.first(x))
        return self.back(pooled * 2, places)


@pytest.mark.parametrize("training", [False, True])
def test_unpooling(training):
    module = Unpooled().train(training)
    x = normal(2, 2, 4, 6)
    made = og.from_torch(module, (x,), training=training).compile()(x)["output"]
    np.testing.assert_allclose(made, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def doubled(module, *inputs):
    """What a module makes in double precision."""
    return module.double()(*(one.double() for one in inputs)).detach().numpy()


@pytest.mark.parametrize(
    "shapes", [((4, 3), (4, 5)), ((2, 6, 3), (2, 6, 5))], ids=["rows", "rows of a batch"]
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_bilinear_layer(shapes, bias, training):
    torch.manual_seed(0)
    module, given = nn.Bilinear(3, 5, 4, bias=bias).train(training), tuple(normal(*shape) for shape in shapes)
    made = og.from_torch(module, given, training=training).compile()(*given)["output"]
    np.testing.assert_allclose(made, doubled(module, *given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 6), (2, 3, 7, 5), (2, 3, 3, 4, 2)], ids=len)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_norm_without_statistics_takes_those_of_the_batch(shape, affine, training):
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    module = kinds[len(shape)](3, affine=affine, track_running_stats=False).train(training)
    if affine:
        module.weight.data, module.bias.data = torch.tensor([0.5, -2.0, 1.5]), torch.tensor([1.0, 0.0, -3.0])
    x = normal(*shape) * 3 + 7
    graph = og.from_torch(module, (x,), training=training)
    wanted = doubled(module, x)
    for one in (graph, graph.for_inference()):
        np.testing.assert_allclose(one.compile()(x).only, wanted, rtol=1e-4, atol=1e-5)


def test_a_norm_of_the_batch_goes_through_a_file_of_onnx(tmp_path):
    pytest.importorskip("onnx")
    norm = nn.BatchNorm2d(3, track_running_stats=False)
    x = normal(2, 3, 4, 5)
    og.from_torch(norm, (x,)).to_onnx(tmp_path / "norm.onnx")
    made = og.from_onnx(tmp_path / "norm.onnx").compile()(x).only
    np.testing.assert_allclose(made, doubled(norm, x), rtol=1e-4, atol=1e-5)


class Moving(nn.Module):
    """Goes by the batch and moves its statistics, in inference as well."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("variance", torch.ones(3))

    def forward(self, x):
        return F.batch_norm(x, self.mean, self.variance, training=True, momentum=0.25)


def test_statistics_that_a_function_moves_are_state():
    module, x = Moving().eval(), normal(4, 3, 5)
    graph = og.from_torch(module, (x,))
    assert [t.name for t in graph.state_parameters] == ["mean", "variance"]
    model = graph.compile()
    exact = Moving().double().eval()
    for turn in range(3):
        given = x * (turn + 1) - turn
        np.testing.assert_allclose(model(given).only, exact(given.double()).numpy(), rtol=1e-4, atol=1e-5)
        for name, buffer in exact.named_buffers():
            np.testing.assert_allclose(graph.parameters[name], buffer.numpy(), rtol=1e-5, atol=1e-6)


def test_halves_have_their_statistics_in_single_precision():
    x = (normal(2, 3, 8, 8) + 100).bfloat16()
    norm = Apply(lambda x: F.batch_norm(x, None, None, training=True))
    made = og.from_torch(norm, (x,)).compile()(x).only
    assert str(made.dtype) == "bfloat16"
    wanted = F.batch_norm(x.double(), None, None, training=True).numpy()
    np.testing.assert_allclose(made.astype("f8"), wanted, rtol=2**-8, atol=2**-8)
