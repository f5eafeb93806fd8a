"""generate() of transformers on a compiled forward: tokens are eager torch's, whether the cache grows or not."""

import warnings

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
transformers = pytest.importorskip("transformers", reason="these tests need transformers")

PROMPT = torch.tensor([[5, 17, 3, 60, 22]])


def language(kind="Llama"):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=None,
        bos_token_id=1,
    )
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


@pytest.fixture(autouse=True)
def _anew():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def tokens_of(model, count, **options):
    return model.generate(PROMPT, max_new_tokens=count, do_sample=False, **options).tolist()


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_tokens_with_a_static_cache_are_eagers(kind):
    model = language(kind)
    expected = tokens_of(model, 8)
    model.forward = torch.compile(model.forward, backend="onednn_graph")
    assert tokens_of(model, 8, cache_implementation="static", disable_compile=True) == expected
    report = og.torch.report(model)
    assert report.functions
    assert sum(one.programs for one in report.functions) <= 3  # the prompt, and single tokens
    assert not any(one.handed for one in report.functions)


def test_tokens_with_a_growing_cache_are_eagers_and_a_warning_names_the_way_out():
    model = language()
    expected = tokens_of(model, 12)
    model.forward = torch.compile(model.forward, backend="onednn_graph", dynamic=True)
    with pytest.warns(og.errors.CompiledAgainWarning, match="cache_implementation='static'") as told:
        assert tokens_of(model, 12) == expected
    assert len([one for one in told if one.category is og.errors.CompiledAgainWarning]) == 1
    assert any(one.programs > 8 for one in og.torch.report(model).functions)


def test_eight_sizes_are_no_reason_to_warn():
    model = torch.nn.Linear(4, 4)
    run = torch.compile(model, backend="onednn_graph", dynamic=True)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", og.errors.CompiledAgainWarning)
        for size in range(2, 10):
            run(torch.ones(size, 4))
    with pytest.warns(og.errors.CompiledAgainWarning, match="for 9 sets of sizes"), torch.no_grad():
        run(torch.ones(10, 4))


def test_the_report_says_why_generate_compiles_nothing():
    model = language()
    compiled = torch.compile(model, backend="onednn_graph")
    tokens_of(compiled, 2)
    for asked in (model, compiled):
        assert "model.forward = torch.compile(model.forward" in str(og.torch.report(asked))
    assert "generate" not in str(og.torch.report(torch.nn.Linear(2, 2)))
