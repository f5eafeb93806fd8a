"""Modules of torch with open sizes as one graph, and as files that others read."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from hypothesis import given, settings  # noqa: E402 -- torch comes first
from hypothesis import strategies as st  # noqa: E402
from strategies import SETTINGS  # noqa: E402
from test_from_torch import TOLERANCE, close, normal  # noqa: E402

nn, F = torch.nn, torch.nn.functional
AUTO = torch.export.Dim.AUTO
BATCH, LENGTH = torch.export.Dim("batch"), torch.export.Dim("length")


class Attention(nn.Module):
    """Heads by reshapes; `own` by a softmax that is spelled out."""

    def __init__(self, own=False):
        super().__init__()
        self.own, self.into, self.out = own, nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.into(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        spelled = (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v
        made = spelled if self.own else F.scaled_dot_product_attention(q, k, v)
        return self.out(made.transpose(1, 2).reshape(batch, length, width))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(64, 5)

    def forward(self, x):
        return self.b(F.max_pool2d(self.norm(self.a(x)).relu(), 2).flatten(1))


class Patches(nn.Module):
    """A vision transformer in small: patches, a token for the class, places, a layer, and the token at the end."""

    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8))
        self.places, self.head = nn.Parameter(torch.randn(1, 5, 8)), nn.Linear(8, 3)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        found = self.patches(x).flatten(2).transpose(1, 2)
        found = torch.cat([self.token.expand(x.shape[0], -1, -1), found], 1) + self.places
        return {"class": self.head(self.layer(found)[:, 0]), "all": found}


class Places(nn.Module):
    """Words and their places, which a table has."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.layer = nn.Embedding(11, 8), nn.Embedding(16, 8), Attention()

    def forward(self, tokens):
        return self.layer(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))


class Sequences(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer, self.out = kind(3, 4, batch_first=True, bidirectional=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.layer(x)[0][:, -1])


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
    )
    return transformers.BertModel(config)


def tokens(batch, length):
    made = torch.randint(0, 11, (batch, length), generator=torch.Generator().manual_seed(length))
    return made, torch.ones(batch, length, dtype=torch.int64)


MODULES = {
    "linear": (lambda: nn.Linear(8, 3), lambda b, n: (normal(b, n, 8),), ({0: BATCH, 1: LENGTH},)),
    "mlp": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)),
        lambda b, n: (normal(b, 2, 3),),
        ({0: BATCH},),
    ),
    "cnn": (Convolutions, lambda b, n: (normal(b, 3, 8, 8),), ({0: BATCH},)),
    "attention": (Attention, lambda b, n: (normal(b, n, 8),), ({0: BATCH, 1: LENGTH},)),
    "attention spelled out": (
        lambda: Attention(own=True),
        lambda b, n: (normal(b, n, 8),),
        ({0: BATCH, 1: LENGTH},),
    ),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda b, n: (normal(b, n, 8),),
        ({0: BATCH, 1: LENGTH},),
    ),
    "patches": (Patches, lambda b, n: (normal(b, 3, 8, 8),), ({0: BATCH},)),
    "places": (Places, lambda b, n: tokens(b, 7)[:1], ({0: BATCH},)),
    "lstm": (lambda: Sequences(nn.LSTM), lambda b, n: (normal(b, 5, 3),), ({0: BATCH},)),
    "gru": (lambda: Sequences(nn.GRU), lambda b, n: (normal(b, 5, 3),), ({0: BATCH},)),
    "bert": (bert, lambda b, n: tokens(b, 7), ({0: BATCH}, {0: BATCH})),
}


def imported(name):
    make, inputs, axes = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    opened = og.from_torch(module, inputs(4, 6), dynamic_shapes=axes)
    assert isinstance(opened, og.OpenGraph)
    return module, inputs, opened


def leaves(made):
    if isinstance(made, torch.Tensor):
        return [made]
    return [leaf for one in (made.values() if isinstance(made, dict) else made) for leaf in leaves(one)]


def expected_of(module, call):
    with torch.no_grad():
        return leaves(module(*call))


@pytest.mark.parametrize("name", MODULES)
def test_one_graph_gives_what_the_module_gives(name):
    module, inputs, opened = imported(name)
    graph = opened.with_unknown_sizes()
    assert type(graph) is og.Graph
    assert [t.shape for t in graph.inputs] == [t.shape for t in opened.inputs]
    model = graph.compile()

    @settings(SETTINGS, max_examples=4)
    @given(st.integers(1, 9), st.integers(1, 9))
    def check(batch, length):
        call = inputs(batch, length)
        for result, want in zip(model(*call).values(), expected_of(module, call), strict=True):
            close(result, want, TOLERANCE)
        shapes = {key: tuple(x.shape) for key, x in zip(graph.input_names, call, strict=True)}
        ours, theirs = graph.with_shapes(shapes), opened.with_shapes(shapes)
        assert [t.shape for t in ours.outputs] == [t.shape for t in theirs.outputs]

    check()


def named_sizes(infos):
    return {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in infos}


@pytest.mark.parametrize("name", [name for name in MODULES if name != "gru"])
def test_a_file_of_onnx_takes_all_sizes(name, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    module, inputs, opened = imported(name)
    path = tmp_path / "model.onnx"
    opened.to_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    sizes = named_sizes(onnx.load(path).graph.input)
    wanted = [[None if d == -1 else d for d in t.shape] for t in opened.inputs]
    assert [[d if isinstance(d, int) else None for d in dims] for dims in sizes.values()] == wanted
    assert {dims[0] for dims in sizes.values()} == {"batch"}
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    again = og.from_onnx(path)
    if (
        name == "patches"
    ):  # ONNX repeats a token by the shape of something else, so that it is a template again
        assert isinstance(again, og.OpenGraph)
        again = again.with_unknown_sizes()
    assert type(again) is og.Graph
    model = again.compile()
    for batch, length in ((2, 9), (1, 3)):
        call = inputs(batch, length)
        feeds = {info.name: x.numpy() for info, x in zip(session.get_inputs(), call, strict=True)}
        results = zip(session.run(None, feeds), model(feeds).values(), expected_of(module, call), strict=True)
        for theirs, ours, want in results:
            close(theirs, want, TOLERANCE)
            close(ours, want, TOLERANCE)


def test_a_file_says_which_sizes_are_equal(tmp_path):
    onnx = pytest.importorskip("onnx")
    _, _, opened = imported("attention")
    opened.to_onnx(tmp_path / "named.onnx")
    model = onnx.load(tmp_path / "named.onnx")
    assert named_sizes(model.graph.input) == {"x": ["batch", "length", 8]}
    assert named_sizes(model.graph.output) == {"output": ["batch", "length", 8]}
    auto = og.from_torch(Attention().eval(), (normal(4, 6, 8),), dynamic_shapes=({0: AUTO},))
    auto.to_onnx(tmp_path / "auto.onnx")
    (dims,) = named_sizes(onnx.load(tmp_path / "auto.onnx").graph.input).values()
    assert dims[0] == named_sizes(onnx.load(tmp_path / "auto.onnx").graph.output)["output"][0] != ""


def test_a_file_of_our_own_takes_all_sizes(tmp_path):
    pytest.importorskip("safetensors")
    module, inputs, opened = imported("patches")
    opened.save(tmp_path / "model.json", weights=True)
    model = og.Graph.load(tmp_path / "model.json").compile()
    for batch in (1, 5):
        call = inputs(batch, 0)
        for result, want in zip(model(*call).values(), expected_of(module, call), strict=True):
            close(result, want, TOLERANCE)


def test_lengths_that_hold_positions_are_refused_by_name(tmp_path):
    opened = og.from_torch(Places().eval(), tokens(4, 6)[:1], dynamic_shapes=({0: AUTO, 1: AUTO},))
    with pytest.raises(og.UnsupportedError) as raised:
        opened.with_unknown_sizes(unbounded=True)
    assert "constant 'add" in str(raised.value)
    assert "is computed from a size, as positions and masks are" in str(raised.value)
    fixed = opened.with_shapes({"tokens": (3, 6)})
    assert fixed.compile()(tokens(3, 6)[0]).only.shape == (3, 6, 8)


def test_bounds_of_dims_are_named():
    dim = torch.export.Dim("batch", min=3, max=9)
    opened = og.from_torch(nn.ReLU(), (normal(4, 3),), dynamic_shapes=({0: dim},))
    with pytest.raises(og.UnsupportedError, match="between 3 and 9 elements, as the module was exported"):
        opened.with_unknown_sizes()
    x = normal(20, 3)
    np.testing.assert_array_equal(opened.with_unknown_sizes(unbounded=True).compile()(x).only, x.relu())


def test_indices_of_all_rows_in_order_are_a_reshape():
    class Rows(nn.Module):
        def forward(self, x):
            rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1])
            return x[rows[:, None, None], columns[None, None]], x[rows.flip(0)], x[rows - x.shape[0]]

    x = normal(3, 4)
    graph = og.from_torch(Rows(), (x,))
    assert sorted(op.kind for op in graph.ops) == ["HostGather", "StaticReshape"]
    for result, want in zip(graph.compile()(x).values(), Rows()(x), strict=True):
        np.testing.assert_array_equal(result, want)
