"""Language models of transformers: tokens are eager torch's in f32, and logits near in bf16, 8 and 4 bits."""

import re
import sys

import numpy as np
import pytest
from conftest import ROOT

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
pytest.importorskip("transformers", reason="these tests need transformers")
pytest.importorskip("safetensors.torch")
sys.path.append(str(ROOT / "benchmarks"))
import language  # noqa: E402
import language_models as models  # noqa: E402
import language_peers as peers  # noqa: E402

TOKENS = 8
LENGTH = 12 + TOKENS


def model_of(name, folder):
    size = models.SIZES[name]
    models.written(size, LENGTH, folder / "model.safetensors")
    return size, models.loaded(size, LENGTH, folder / "model.safetensors")


def logits(peer, size, tokens=None):
    return peers.checked(peer, models.prompt_of(size, LENGTH - TOKENS), tokens, TOKENS)


def check(name, bits, folder):
    size, model = model_of(name, folder)
    expected = logits(peers.eager(model, LENGTH, "f32", folder), size)
    peer = peers.ours(model, LENGTH, bits, folder)
    for _ in range(2):  # the second time the cache has the rows of the first
        made = logits(peer, size, None if bits == "f32" else expected.argmax(1))
        assert language.off(made, expected) <= language.bound(bits, size.layers)
        if bits == "f32":
            assert made.argmax(1).tolist() == expected.argmax(1).tolist()
    return peer, model


@pytest.mark.parametrize("bits", language.ERRORS)
@pytest.mark.parametrize("name", ["llama tiny", "qwen tiny"])
def test_tokens_and_logits_of_small_models(name, bits, tmp_path):
    peer, model = check(name, bits, tmp_path)
    if bits == "f32":
        assert peer.nbytes == peers.weights_bytes(model)


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("bits", ["f32", "s4"])
@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_tokens_and_logits_of_a_hundred_million_parameters(name, bits, tmp_path):
    check(name, bits, tmp_path)


def test_the_cache_is_written_where_it_lies():
    size = models.SIZES["llama tiny"]
    model = models.configured(size, LENGTH)
    import onednn_graph as og

    ids, at = torch.full((1, 1), 5), torch.zeros(1, dtype=torch.int64)
    graph = og.from_torch(models.Written(model, LENGTH), (ids, at))
    program = graph.compile()
    held = {name: array for name, array in graph.parameters.items() if name.startswith(("keys", "values"))}
    assert len(held) == 2 * size.layers
    program(ids=ids.numpy(), at=np.array([3]))
    for array in held.values():
        assert array[:, :, 3].any()
        assert not np.delete(array, 3, 2).any()
    copied = [
        op for op in graph.ops if op.kind in ("Concat", "Multiply") and op.outputs[0].dims[-2:-1] == (LENGTH,)
    ]
    assert not copied


@pytest.mark.parametrize("name", ["llama tiny", "qwen tiny"])
def test_files_of_gguf_have_the_same_weights(name, tmp_path):
    gguf = pytest.importorskip("gguf", reason="this test needs gguf")
    import language_gguf

    size, model = model_of(name, tmp_path)
    read = language_gguf.write(model, tmp_path / "model.gguf", "f32")
    assert read == peers.weights_bytes(model)
    assert (
        language_gguf.write(model, tmp_path / "s4.gguf", "s4") == read // 32 * 18 // 4
    )  # 16 bytes and a scale
    tensors = {t.name: np.array(t.data) for t in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    own = {name: t.detach().numpy() for name, t in model.state_dict().items()}
    assert len(tensors) == len(own) - size.tied
    np.testing.assert_array_equal(
        tensors["blk.1.ffn_down.weight"], own["model.layers.1.mlp.down_proj.weight"]
    )
    query, theirs = own["model.layers.0.self_attn.q_proj.weight"], tensors["blk.0.attn_q.weight"]
    if (
        size.architecture == "Llama"
    ):  # elements that turn together are neighbours there, and half a head apart here
        half = size.width // size.heads // 2
        np.testing.assert_array_equal(theirs[:4], query[[0, half, 1, half + 1]])
    else:
        np.testing.assert_array_equal(theirs, query)


@pytest.mark.parametrize("bits", ["f32", "s8", "s4"])
@pytest.mark.parametrize("name", ["llama tiny", "qwen tiny"])
def test_llama_cpp_makes_the_same_of_them(name, bits, tmp_path):
    pytest.importorskip("gguf", reason="this test needs gguf")
    pytest.importorskip("llama_cpp", reason="this test needs llama-cpp-python")
    size, model = model_of(name, tmp_path)
    expected = logits(peers.eager(model, LENGTH, "f32", tmp_path), size)
    made = logits(peers.llama_cpp(model, LENGTH, bits, tmp_path), size, expected.argmax(1))
    assert language.off(made, expected) <= language.bound(bits, size.layers)


def test_weights_that_kernels_read_are_counted_by_their_types():
    text = (
        "  matmul      2   1.0  0.5  4%  gemm:jit  src f32 1x768 ab, weights f32 768x256 ab, dst f32 1x256 ab\n"
        "  matmul      1   1.0  0.5  4%  brg  src f32 1x768 ab, weights s4 768x256 ab, dst f32 1x256 ab\n"
        "  matmul      9   1.0  0.5  4%  gemm:jit  src f32 1x4x1x64 abcd, weights f32 1x4x64x20 abdc, dst f32 x\n"
    )
    assert peers._read(text) == 768 * 256 * (2 * 4) + 768 * 256 // 2


def test_a_peer_that_is_not_there_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(language.NEEDS, "llama_cpp", ("no_such_package",))
    assert language.missing("llama_cpp s4") == "without no_such_package"
    assert re.fullmatch(r"(without .*)?", language.missing("ours f32"))
