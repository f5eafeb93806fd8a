"""`from_torch` with `dynamic_shapes`: one import for batches and lengths of any size."""

import pickle

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import TOLERANCE, close, normal  # noqa: E402 -- torch comes first

nn, F = torch.nn, torch.nn.functional
AUTO = torch.export.Dim.AUTO


class Causal(nn.Module):
    """A language model in small: a look-up, places, attention to what came before, and the average of the words."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(16, 8)
        self.into, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, tokens, mask):
        batch, length = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(length))
        q, k, v = self.into(x).view(batch, length, 2, 12).transpose(1, 2).split(4, -1)
        seen = torch.ones(length, length, dtype=torch.bool).tril() & mask[:, None, None].bool()
        made = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(made.transpose(1, 2).reshape(batch, length, 8))
        return {
            "words": x,
            "mean": (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
            "first": x[:, -1],
        }


class Pixels(nn.Module):
    """Sizes of images: up by a scale, a difference, and a mean over all places."""

    def __init__(self, mode):
        super().__init__()
        self.a, self.b, self.mode = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 1), mode

    def forward(self, x):
        small = F.max_pool2d(self.a(x), 2)
        up = self.b(F.interpolate(small, scale_factor=2, mode=self.mode))
        n, c, h, w = x.shape
        return (x - up).reshape(n, c, h * w), up.mean((2, 3)) * (h / w)


class Views(nn.Module):
    def forward(self, x):
        n, c, m = x.shape
        padded = torch.cat([x.new_zeros(n, c, 1), x, x.new_ones(n, c, m)], -1)
        return (
            padded.view(n * c, -1),
            x[:, :, m // 2 :].flatten(1),
            x.mean((0, 2)).expand(m, c) / (n * m) ** 0.5,
        )


def tokens(batch, length):
    found = torch.randint(0, 11, (batch, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones(batch, length)
    mask[-1, length - length // 3 :] = 0
    return found, mask


def images(*sizes):
    return [(normal(n, 3, h, w, seed=n),) for n, h, w in sizes]


MODULES = {
    "causal": (Causal, [tokens(2, 5), tokens(1, 7), tokens(3, 12)], ({0: AUTO, 1: AUTO},) * 2),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        [(normal(2, 5, 8),), (normal(1, 3, 8),), (normal(4, 9, 8),)],
        ({0: AUTO, 1: AUTO},),
    ),
    **{
        f"pixels-{mode}": (
            lambda mode=mode: Pixels(mode),
            images((2, 8, 6), (1, 4, 10), (3, 12, 4)),
            ({0: AUTO, 2: AUTO, 3: AUTO},),
        )
        for mode in ("nearest", "bilinear")
    },
    "views": (Views, [(normal(2, 3, 4),), (normal(1, 3, 7),), (normal(5, 3, 2),)], ({0: AUTO, 2: AUTO},)),
    "lstm": (
        lambda: nn.Sequential(nn.LSTM(3, 4, batch_first=True, bidirectional=True)),
        [(normal(2, 5, 3),), (normal(1, 5, 3),), (normal(3, 5, 3),)],
        ({0: AUTO},),
    ),
}


def leaves(made):
    if isinstance(made, torch.Tensor):
        return [made]
    return [leaf for one in (made.values() if isinstance(made, dict) else made) for leaf in leaves(one)]


@pytest.mark.parametrize("name", MODULES)
def test_a_module(name):
    make, calls, axes = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    graph = og.from_torch(module, calls[0], dynamic_shapes=axes)
    assert isinstance(graph, og.OpenGraph)
    model = graph.compile()
    for call in calls:
        with torch.no_grad():
            expected = leaves(module(*call))
        results = list(model(*call).values())
        assert len(results) == len(expected)
        for result, want in zip(results, expected, strict=True):
            close(result, want, TOLERANCE)
    shapes = {key: x.shape for key, x in zip(graph.input_names, calls[1], strict=True)}
    fixed = graph.with_shapes(shapes)
    assert all(t.is_concrete for t in fixed.tensors)
    for result, want in zip(fixed.compile()(*calls[1]).values(), model(*calls[1]).values(), strict=True):
        np.testing.assert_array_equal(result, want)


def test_what_an_exported_program_leaves_open():
    batch = torch.export.Dim("batch", min=3, max=9)
    x = normal(4, 3)
    program = torch.export.export(nn.ReLU(), (x,), dynamic_shapes=({0: batch},))
    graph = og.from_torch(program)
    assert graph.inputs[0].shape == (-1, 3)
    assert graph.output_names == ("output",)
    model = graph.compile()
    np.testing.assert_array_equal(model(normal(9, 3)).only, normal(9, 3).relu())
    for size in (2, 10):
        with pytest.raises(og.ShapeError, match=f"must have between 3 and 9 elements, .* got {size}"):
            model(normal(size, 3))
    with pytest.raises(og.ArgumentError, match="takes no example inputs and no dynamic_shapes"):
        og.from_torch(program, dynamic_shapes=({0: batch},))


def test_sizes_that_belong_together():
    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

    model = og.from_torch(
        Sum(), (normal(4, 3), normal(4, 3)), dynamic_shapes=({0: AUTO}, {0: AUTO})
    ).compile()
    np.testing.assert_array_equal(model(normal(1, 3), normal(1, 3)).only, 2 * normal(1, 3))
    with pytest.raises(og.ShapeError, match="axis 0 of input 'b' must have 2 elements, .* got 1"):
        model(normal(2, 3), normal(1, 3))


def test_sizes_that_the_module_fixes():
    class Pairs(nn.Module):
        def forward(self, x):
            return x.view(-1, 2, 3) * 2

    model = og.from_torch(Pairs(), (normal(4, 3),), dynamic_shapes=({0: AUTO},)).compile()
    np.testing.assert_array_equal(model(normal(8, 3)).only, 2 * normal(8, 3).view(-1, 2, 3))
    with pytest.raises(og.OneDNNGraphError):
        model(normal(5, 3))


def test_a_dynamic_shape_that_torch_refuses():
    with pytest.raises(og.UnsupportedError, match="torch.export can't export the ReLU"):
        og.from_torch(nn.ReLU(), (normal(4, 3),), dynamic_shapes=({5: torch.export.Dim("z")},))


def test_the_bounds_that_torch_suggests_are_said():
    class Short(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] <= 8 else x * 3

    size = torch.export.Dim("a_name_that_makes_the_sentence_of_torch_a_long_one", min=1, max=16)
    with pytest.raises(og.UnsupportedError, match=r"\); torch suggests .* = Dim\('a_name.*', max=8\)$"):
        og.from_torch(Short(), (normal(4, 3),), dynamic_shapes=({0: size},))


def test_what_can_not_be_translated_is_named_at_the_import():
    class Bad(nn.Module):
        def forward(self, x):
            return torch.igamma(x.flatten(), x.flatten())

    with pytest.raises(og.UnsupportedError, match="aten.igamma.default ×1"):
        og.from_torch(Bad(), (normal(4, 3),), dynamic_shapes=({0: AUTO},))


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        return self.linear(x.flatten(1))


def test_an_open_graph_comes_back_from_a_pickle():
    module = Flat()
    graph = og.from_torch(module, (normal(4, 2, 3),), dynamic_shapes=({0: AUTO},))
    assert isinstance(graph, og.OpenGraph)
    again = pickle.loads(pickle.dumps(graph))
    for rows in (2, 5):
        x = normal(rows, 2, 3)
        np.testing.assert_array_equal(again.compile()(x).only, graph.compile()(x).only)
        assert again.with_shapes({"x": x.shape}).ops == graph.with_shapes({"x": x.shape}).ops


def test_an_open_graph_for_training_says_what_to_pickle():
    graph = og.from_torch(Flat(), (normal(4, 2, 3),), dynamic_shapes=({0: AUTO},), training=True)
    with pytest.raises(og.GraphError, match=r"for training .* can't be pickled; pickle .*graph.with_shapes"):
        pickle.dumps(graph)
