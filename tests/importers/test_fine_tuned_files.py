"""Files of ONNX by both of torch's exporters: fine-tuned, written again, and run by onnxruntime."""

import numpy as np
import onednn_graph as og
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch writes the files; install the extra 'test-models'")
runtime = pytest.importorskip("onnxruntime", reason="it runs the files; install the extra 'test-models'")

from training_modules import ResNet  # noqa: E402 -- torch comes first
from truth_models import _Language  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode"),
]
COUNT = 16


def images(seed):
    """Noise, brighter on the left for class 0 and on the right for class 1."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, COUNT)
    x = rng.normal(0, 0.5, (COUNT, 3, 32, 32))
    x[labels == 0, ..., :16] += 1
    x[labels == 1, ..., 16:] += 1
    return x.astype(np.float32), labels


def sentences(seed):
    """Words, those of class 1 from the upper half twice as often."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, COUNT)
    return rng.integers(0, 25, (COUNT, 12)) + 25 * (
        rng.random((COUNT, 12)) < 0.1 + 0.8 * labels[:, None]
    ), labels


class Dropping(torch.nn.Module):
    """BERT-mini's shape, with Dropout before its head."""

    def __init__(self):
        super().__init__()
        self.bert = _Language(50, 12, 32, 4, 2)
        self.bert.head, self.drop, self.head = (
            torch.nn.Identity(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(32, 7),
        )

    def forward(self, x):
        return self.head(self.drop(self.bert(x)))


NETWORKS = {
    "ResNet-18": (lambda: ResNet(8, 7), images, "stem*", 0.02),
    "BERT": (Dropping, sentences, "*places*", 0.003),
}


def exported(module, x, path, *, dynamo):
    """A file of a module in training."""
    if dynamo:
        torch.onnx.export(
            module.train(), (x,), path, input_names=["x"], output_names=["logits"], dynamo=True, optimize=False,
            verbose=False,
        )  # fmt: skip
    else:
        mode = torch.onnx.TrainingMode
        torch.onnx.export(
            module.eval(), (x,), path, input_names=["x"], output_names=["logits"], dynamo=False,
            training=mode.PRESERVE if isinstance(module, ResNet) else mode.TRAINING, do_constant_folding=False,
        )  # fmt: skip


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_learns_and_becomes_a_file(tmp_path, name, dynamo):
    if dynamo:
        pytest.importorskip("onnxscript", reason="torch's newer exporter needs it")
    make, draw, frozen, rate = NETWORKS[name]
    torch.manual_seed(0)
    module = make()
    path, again = str(tmp_path / "given.onnx"), tmp_path / "mine.onnx"
    exported(module, torch.from_numpy(draw(0)[0]), path, dynamo=dynamo)

    graph = og.from_onnx(path, training=True, frozen=[frozen])
    before = {key: np.array(value) for key, value in graph.parameters.items()}
    logits = og.training.replace_head(graph, 2, name="mine")
    loss = og.training.cross_entropy(graph, logits, graph.input("labels", "s64", [COUNT]))
    trainer = og.training.Trainer(graph, loss, og.training.AdamW(rate), deterministic=True)
    for step in range(60):
        x, labels = draw(step % 8)
        trainer.step({"x": x, "labels": labels})
    right = [
        np.mean(trainer.evaluate({"x": draw(n)[0]})["logits"].argmax(1) == draw(n)[1])
        for n in (100, 101, 102)
    ]
    assert np.mean(right) > 0.9, right

    trained = {key for key, value in before.items() if not np.array_equal(graph.parameters[key], value)}
    names = {key for key, _ in module.named_parameters() if not key.startswith(("head.", "fc."))}
    kept = {key for key in names if key.startswith("stem") or "places" in key}
    assert trained >= names - kept, names - kept - trained
    assert not kept & trained

    trainer.model().to_onnx(again)
    onnx.checker.check_model(str(again))
    x = draw(200)[0]
    [found] = runtime.InferenceSession(str(again)).run(["logits"], {"x": x})
    np.testing.assert_allclose(found, trainer.evaluate({"x": x})["logits"], rtol=1e-4, atol=1e-4)
