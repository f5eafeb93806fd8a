"""Language models from torch and from ONNX with low-rank adapters, trained as torch trains them in double precision."""

import io

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="torch is the oracle of these tests; install 'test-oracles'")
import torchvision_anywhere  # noqa: E402, F401 -- before transformers, which asks for torchvision

transformers = pytest.importorskip("transformers", reason="the models are its; install 'test-models'")

WORDS, CLASSES, RANK, ALPHA = 40, 3, 4, 8.0


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words):
        return self.model(words).logits


def bert():
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=WORDS,
        max_position_embeddings=16, num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        vocab_size=WORDS, max_position_embeddings=16, tie_word_embeddings=True,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


MODELS = {
    "BERT": (bert, ["*.query.weight", "*.value.weight"], "*.classifier.*"),
    "Llama": (llama, ["*_proj.weight"], ()),
}


class Lora(torch.nn.Module):
    """A Linear with adapters, as PEFT writes it."""

    def __init__(self, base, a, b):
        super().__init__()
        self.base = base
        self.a, self.b = (torch.nn.Parameter(torch.tensor(one.astype(np.float64))) for one in (a, b))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T * (ALPHA / RANK)


def feeds_of(name, rng):
    words = rng.integers(0, WORDS, (4, 6))
    shape = (4, CLASSES) if name == "BERT" else (4, 6, WORDS)
    target = np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[:-1])]
    return words, target


def with_loss(graph, shape):
    """Cross entropy with labels that are given one by one."""
    logits = graph.outputs[0]
    target = graph.input("target", "f32", shape)
    axes = list(range(len(shape)))
    total = graph.reduce_sum(graph.multiply(target, graph.log_softmax(logits, axis=-1)), axes=axes)
    loss = graph.multiply(total, graph.constant(np.float32(-1 / np.prod(shape[:-1]))))
    graph.output(logits, name="logits")
    graph.output(loss, name="loss")
    return loss


@pytest.mark.parametrize("name", MODELS)
def test_training_is_torchs(name):
    make, patterns, trained = MODELS[name]
    torch.manual_seed(0)
    module = Logits(make()).train()
    rng = np.random.default_rng(0)
    words, target = feeds_of(name, rng)
    graph = og.from_torch(module, (torch.tensor(words),), training=True)
    (source,) = graph.input_names
    loss = with_loss(graph, target.shape)
    adapted = graph.adapters(RANK, patterns, alpha=ALPHA, trained=trained)
    plain, same = (g.compile()({source: words, "target": target})["logits"] for g in (graph, adapted))
    np.testing.assert_allclose(same, plain, atol=1e-5)

    module = module.double()
    begins = {n: a.copy() for n, a in adapted.parameters.items()}
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    for key in [n for n in begins if n.endswith("lora_A.weight")]:
        path = key.removesuffix(".lora_A.weight")
        parent, _, last = path.rpartition(".")
        base = module.get_submodule(path)
        setattr(module.get_submodule(parent), last, Lora(base, begins[key], begins[f"{path}.lora_B.weight"]))
    theirs = [p for n, p in module.named_parameters() if n.endswith((".a", ".b")) or "classifier" in n]
    for parameter in theirs:
        parameter.requires_grad_(True)
    optimizer = torch.optim.SGD(theirs, lr=0.5, momentum=0.9)
    trainer = og.training.Trainer(adapted, loss, og.training.SGD(0.5, momentum=0.9))
    for _ in range(4):
        words, target = feeds_of(name, rng)
        mine = float(trainer.step({source: words, "target": target}))
        optimizer.zero_grad()
        scores = torch.log_softmax(module(torch.tensor(words)), -1)
        its = -(torch.tensor(target) * scores).sum() / np.prod(target.shape[:-1])
        its.backward()
        optimizer.step()
        np.testing.assert_allclose(mine, its.item(), rtol=1e-4)
    count = sum(p.numel() for p in theirs)
    assert count == sum(a.size for a in adapted.parameters.values())
    assert count < sum(a.size for a in graph.parameters.values()) / 2
    merged = adapted.merge_adapters().for_inference(["logits"])
    with torch.no_grad():
        expected = module(torch.tensor(words)).numpy()
    found = merged.compile()({source: words})["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_a_file_of_onnx():
    """Its products have names of the exporter's; adapters go beside them all, and are merged again."""
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    words, target = feeds_of("BERT", rng)
    file = io.BytesIO()
    torch.onnx.export(
        Logits(bert()).eval(), (torch.tensor(words),), file, dynamo=False, input_names=["words"]
    )
    graph = og.from_onnx(file.getvalue(), training=True)
    loss = with_loss(graph, target.shape)
    adapted = graph.adapters(RANK, "onnx::MatMul_*", alpha=ALPHA, trained="*classifier*")
    assert len(adapted.parameters) == 2 * 2 * 6 + 2  # six dense layers in each of two blocks
    feeds = {"words": words, "target": target}
    plain = graph.compile()(feeds)["logits"]
    np.testing.assert_allclose(adapted.compile()(feeds)["logits"], plain, atol=1e-6)
    trainer = og.training.Trainer(adapted, loss, og.training.AdamW(0.05))
    losses = [float(trainer.step(feeds)) for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    merged = adapted.merge_adapters().for_inference(["logits"])
    assert not [op for op in merged.ops if "lora" in (op.name or "")]
    after = adapted.compile()(feeds)["logits"]
    np.testing.assert_allclose(merged.compile()({"words": words})["logits"], after, atol=1e-5)
    assert not np.allclose(after, plain, atol=1e-2)
