"""Trainer on what from_torch and from_onnx give for sizes that are open: batches and sequences of any length."""

import io
import math

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from training_modules import Language  # noqa: E402 -- torch comes first

nn, functional = torch.nn, torch.nn.functional
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("one_thread"),
]
T = og.training
BATCH = torch.export.Dim("batch", min=1)


class Images(nn.Module):
    """Sizes are computed from the input's before the head, as models that flatten by hand do."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.head = nn.Linear(6 * 4, 3)

    def forward(self, x):
        x = functional.adaptive_avg_pool2d(functional.relu(self.norm(self.conv(x))), 2)
        return self.head(x.reshape(x.shape[0], -1))


def images(size, seed):
    rng = np.random.default_rng([size, seed])
    return rng.normal(size=(size, 2, 8, 8)).astype(np.float32), rng.integers(0, 3, size)


def classes(graph):
    return T.cross_entropy(graph, graph.outputs[0], graph.input("labels", "s64", [-1]))


def by_torch(module, batches, loss_of):
    """Losses of steps of gradient descent in double precision; the module has moved then."""
    module = module.double().train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(module, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def of_images(module, x, y):
    return functional.cross_entropy(module(torch.from_numpy(x).double()), torch.from_numpy(y))


def test_a_torch_module_trains_on_batches_of_all_lengths(tmp_path):
    torch.manual_seed(0)
    module = Images()
    example = (torch.randn(4, 2, 8, 8),)
    model = og.from_torch(module, example, training=True, dynamic_shapes=({0: BATCH},))
    trainer = T.Trainer(model, classes, T.SGD(0.1), deterministic=True)
    batches = [images(size, seed) for seed, size in enumerate((8, 8, 3, 8, 5))]
    (name,) = model.input_names
    losses = [trainer.step({name: x, "labels": y}) for x, y in batches]
    np.testing.assert_allclose(losses, by_torch(module, batches, of_images), rtol=2e-4)
    x, _ = images(7, 9)
    with torch.no_grad():
        wanted = module.eval()(torch.from_numpy(x).double()).numpy()
    np.testing.assert_allclose(trainer.evaluate({name: x})["output"], wanted, rtol=2e-3, atol=2e-4)
    served = trainer.open_model(fold_batch_norm=True).compile()
    np.testing.assert_allclose(served(x)["output"], wanted, rtol=2e-3, atol=2e-4)
    again = Images()
    again.load_state_dict(trainer.export_state_dict())
    with torch.no_grad():
        np.testing.assert_allclose(again.eval()(torch.from_numpy(x)).numpy(), wanted, rtol=2e-3, atol=2e-4)


def test_sequences_of_all_lengths_train_one_language_model():
    torch.manual_seed(0)
    module = Language()
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 23, (2, length + 1)) for length in (6, 9, 4, 9)]
    batches = [(text[:, :-1].copy(), text[:, 1:].copy()) for text in texts]
    length = {1: torch.export.Dim("length", min=2, max=16)}
    example = tuple(map(torch.from_numpy, batches[0]))
    model = og.from_torch(module, example, training=True, dynamic_shapes=(length, length))
    assert isinstance(model, og.OpenGraph)

    def loss(graph):
        return graph.outputs[graph.output_names.index("output")]

    trainer = T.Trainer(model, loss, T.SGD(0.1), deterministic=True)
    losses = [trainer.step(dict(zip(model.input_names, batch, strict=True))) for batch in batches]
    wanted = by_torch(module, batches, lambda m, x, y: m(torch.from_numpy(x), torch.from_numpy(y)))
    np.testing.assert_allclose(losses, wanted, rtol=2e-4)


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_file_with_an_open_batch_trains_with_a_head_of_its_own(dynamo, tmp_path):
    pytest.importorskip("onnx")
    if dynamo:
        pytest.importorskip("onnxscript")
        if torch.__version__ < (2, 14):
            pytest.skip("torch before 2.14 can't decompose a pooling over an open batch for its own exporter")
    torch.manual_seed(0)
    module, written = Images().eval(), io.BytesIO()
    example = torch.randn(4, 2, 8, 8)
    how = (
        {"dynamic_shapes": ({0: BATCH},), "optimize": False}
        if dynamo
        else {
            "dynamic_axes": {"x": {0: "batch"}},
            "training": torch.onnx.TrainingMode.PRESERVE,
            "do_constant_folding": False,
        }
    )
    program = torch.onnx.export(
        module,
        (example,),
        None if dynamo else written,
        input_names=["x"],
        output_names=["scores"],
        dynamo=dynamo,
        **how,
    )
    proto = program.model_proto if dynamo else written.getvalue()
    model = og.from_onnx(proto, training=True)
    kinds = og.OpenGraph if dynamo else (og.Graph, og.OpenGraph)
    assert isinstance(model, kinds)

    def loss(graph):
        made = T.replace_head(graph, 2, output="scores", name="mine")
        return T.cross_entropy(graph, made, graph.input("labels", "s64", [-1]))

    trainer = T.Trainer(model, loss, T.AdamW(0.05))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2, 8, 8)).astype(np.float32)
    labels = (x[:, 0].mean((1, 2)) > 0).astype(np.int64)
    told = trainer.fit(T.Loader({"x": x, "labels": labels}, 8), 12, validation=[{"x": x, "labels": labels}])
    assert told[-1].loss < told[0].loss / 1.5
    assert math.isfinite(told[-1].validation["loss"])
    served = trainer.open_model() if isinstance(model, og.OpenGraph) else trainer.model()
    whole = served.with_shapes({"x": [3, 2, 8, 8]})
    np.testing.assert_allclose(
        whole.compile()(x[:3])["scores"], trainer.evaluate({"x": x[:3]})["scores"], rtol=1e-4, atol=1e-5
    )
    whole.to_onnx(tmp_path / "tuned.onnx")
    again = og.from_onnx(tmp_path / "tuned.onnx").compile()(x[:3])["scores"]
    np.testing.assert_allclose(again, trainer.evaluate({"x": x[:3]})["scores"], rtol=1e-4, atol=1e-5)


def test_one_value_of_each_channel_is_refused_in_words():
    """As by torch, for running variances are of the values that there are but one."""
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    graph = og.from_torch(module, (torch.zeros(4, 4),), dynamic_shapes=({0: BATCH},), training=True)
    trainer = T.Trainer(graph, classes, T.SGD(0.1))
    name = graph.inputs[0].name
    x, y = np.ones((2, 4), np.float32), np.zeros(2, np.int64)
    assert math.isfinite(trainer.step({name: x, "labels": y}))
    with pytest.raises(og.errors.UnsupportedError, match="the variance of one value of each channel"):
        trainer.step({name: x[:1], "labels": y[:1]})
    assert math.isfinite(trainer.step({name: x, "labels": y}))
