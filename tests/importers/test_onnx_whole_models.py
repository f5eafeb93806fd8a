"""Whole models as frameworks export them, with random weights and open sizes, against onnxruntime."""

import io

import numpy as np
import onednn_graph as og
import pytest

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # of exporters
torch = pytest.importorskip("torch", reason="models are exported by torch; install the extra 'torch'")
runtime = pytest.importorskip("onnxruntime", reason="results are held against onnxruntime's")
pytest.importorskip("onnx", reason="models are read by the package onnx; install the extra 'onnx'")

LARGEST = 5e-6
"""Of a result's largest element: some layers in f32."""


def exported(module, inputs, names, results, axes):
    """The bytes of a model. `axes`: input or output → its open axes."""
    content = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(
            module.eval(),
            inputs,
            content,
            dynamo=False,
            opset_version=17,
            input_names=names,
            output_names=results,
            dynamic_axes={name: {axis: f"{name}_{axis}" for axis in own} for name, own in axes.items()},
        )
    return content.getvalue()


def check(content, *feeds):
    """Our results against onnxruntime's."""
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    compiled = og.from_onnx(content).compile()
    for feed in feeds:
        made = compiled(feed)
        for output, wanted in zip(session.get_outputs(), session.run(None, feed), strict=True):
            largest = np.abs(wanted).max(initial=1e-3)
            np.testing.assert_allclose(made[output.name], wanted, atol=LARGEST * largest, strict=True)
    return compiled


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_speech_with_packed_sequences():
    class Speech(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.front = torch.nn.Conv1d(20, 24, 5, 2, 2)
            self.layers = torch.nn.LSTM(24, 16, 2, bidirectional=True, batch_first=True)
            self.head = torch.nn.Linear(32, 11)

        def forward(self, x, lengths):
            y = torch.relu(self.front(x.transpose(1, 2))).transpose(1, 2)
            packed = torch.nn.utils.rnn.pack_padded_sequence(y, lengths, batch_first=True)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)
            return torch.log_softmax(self.head(y), -1)

    torch.manual_seed(0)
    inputs = torch.randn(3, 20, 20), torch.tensor([10, 7, 4])
    axes = {"x": [0, 1], "lengths": [0], "y": [0, 1]}
    content = exported(Speech(), inputs, ["x", "lengths"], ["y"], axes)
    check(
        content,
        {"x": random(3, 20, 20), "lengths": np.array([10, 7, 4])},
        {"x": random(2, 26, 20), "lengths": np.array([13, 13])},
    )


def test_a_decoder_with_past():
    import torchvision_anywhere  # noqa: F401 -- before transformers

    transformers = pytest.importorskip("transformers", reason="the decoder is transformers'")
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=32, vocab_size=50, n_positions=32, attn_implementation="eager"
    )

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inner = transformers.GPT2LMHeadModel(config)

        def forward(self, ids, *past):
            cache = transformers.cache_utils.DynamicCache()
            for layer in range(2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            made = self.inner(ids, past_key_values=cache, use_cache=True)
            return made.logits, *(t for layer in cache.layers for t in (layer.keys, layer.values))

    past, present = [[f"{word}{n}" for n in range(4)] for word in ("past", "present")]
    axes = {"ids": [0, 1], **{name: [0, 2] for name in (*past, *present)}}
    inputs = torch.zeros(1, 3, dtype=torch.int64), *(torch.randn(1, 2, 5, 16) for _ in past)
    content = exported(Decoder(), inputs, ["ids", *past], ["logits", *present], axes)
    feeds = [
        {"ids": np.arange(batch * new).reshape(batch, new) % 50}
        | {name: random(batch, 2, old, 16, seed=n) for n, name in enumerate(past)}
        for batch, new, old in ((1, 1, 4), (2, 3, 7), (1, 5, 0))
    ]
    check(content, *feeds)


def test_layers_by_dynamic_quantisation(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization", reason="it quantises the model")
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(24, 600), torch.nn.ReLU(), torch.nn.Linear(600, 8))
    content = exported(layers, (torch.randn(2, 5, 24),), ["x"], ["y"], {"x": [0, 1], "y": [0, 1]})
    path = tmp_path / "layers.onnx"
    path.write_bytes(content)
    quantization.quantize_dynamic(path, tmp_path / "quantised.onnx")
    compiled = check(
        (tmp_path / "quantised.onnx").read_bytes(), {"x": random(2, 5, 24)}, {"x": random(1, 3, 24)}
    )
    assert not hasattr(compiled, "nodes")  # which only models in stages have


def test_an_encoder_as_onnxruntime_optimises_it(tmp_path):
    import torchvision_anywhere  # noqa: F401 -- before transformers

    transformers = pytest.importorskip("transformers", reason="the encoder is transformers'")
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer", reason="it optimises the model")
    quantizer = pytest.importorskip(
        "onnxruntime.quantization.matmul_nbits_quantizer", reason="it quantises the model"
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=99,
        max_position_embeddings=64,
        attn_implementation="eager",
    )

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = transformers.BertModel(config)

        def forward(self, ids, mask, kinds):
            made = self.inner(input_ids=ids, attention_mask=mask, token_type_ids=kinds)
            return made.last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = tuple(torch.ones(2, 9, dtype=torch.int64) for _ in names)
    axes = {name: [0, 1] for name in (*names, "y")}
    plain = tmp_path / "plain.onnx"
    plain.write_bytes(exported(Encoder(), inputs, names, ["y"], axes))
    mask = np.ones((2, 9), np.int64)
    mask[0, 6:] = 0
    feed = {"input_ids": np.arange(18).reshape(2, 9), "attention_mask": mask, "token_type_ids": mask * 0}

    def optimised():
        return optimizer.optimize_model(
            str(plain), model_type="bert", num_heads=4, hidden_size=64, opt_level=0
        )

    fused = optimised()
    kinds = {node.op_type for node in fused.model.graph.node}
    assert {"Attention", "EmbedLayerNormalization", "SkipLayerNormalization"} <= kinds
    check(fused.model.SerializeToString(), feed)
    small = quantizer.MatMulNBitsQuantizer(str(plain), bits=4, block_size=32, accuracy_level=1)
    small.process()
    check(small.model.model.SerializeToString(), feed)
    halves = optimised()
    halves.convert_float_to_float16()
    content = halves.model.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feed)
    made = og.from_onnx(content).compile()(feed)["y"]
    np.testing.assert_allclose(made, wanted, atol=5e-3 * np.abs(wanted).max(), strict=True)
