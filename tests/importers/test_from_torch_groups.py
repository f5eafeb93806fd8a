"""Histograms, buckets, and rows in groups by a matrix each, as mixtures of experts have them."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

torch = pytest.importorskip("torch")


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *values):
        return self.function(*values)


def agrees(function, *values):
    """What becomes of a function is what eager torch makes, exactly."""
    want = function(*values)
    model = og.from_torch(Applied(function), values).compile()
    (made,) = model(*[value.numpy() for value in values]).values()
    assert torch.from_numpy(np.asarray(made)).dtype == want.dtype
    np.testing.assert_array_equal(made, want.numpy())


def numbers(*shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x[0, :5] = torch.tensor([float("nan"), float("inf"), -float("inf"), -1.0, 1.0])
    return x


BOUNDS = torch.tensor([-1.0, 0.0, 0.5, 1.0])


@each("bins", [1, 7, 8])
def test_a_histogram_has_what_lies_in_its_range(bins):
    agrees(lambda x: torch.histc(x, bins, -1, 1), numbers(5, 7))


def test_the_range_of_a_histogram_is_to_be_named():
    with pytest.raises(og.UnsupportedError, match="name a range"):
        og.from_torch(Applied(lambda x: torch.histc(x, 8)), (torch.ones(3),))


@each("right", [False, True])
@each("narrow", [False, True])
def test_buckets(right, narrow):
    agrees(lambda x, b: torch.bucketize(x, b, right=right, out_int32=narrow), numbers(5, 7), BOUNDS)
    agrees(lambda x, b: torch.searchsorted(b, x, right=right, out_int32=narrow), numbers(5, 7), BOUNDS)


def test_buckets_of_rows_of_their_own_and_of_integers():
    rows = torch.sort(torch.randn(5, 9))[0]
    agrees(lambda x, r: torch.searchsorted(r, x, side="right"), numbers(5, 7), rows)
    agrees(torch.bucketize, torch.arange(9).reshape(3, 3), torch.tensor([1, 4, 6]))


EXPERTS, WIDE = 5, 16


class Experts(torch.nn.Module):
    """Rows that are sorted by their expert, as torch's own product takes them."""

    def __init__(self, dtype):
        super().__init__()
        values = torch.randint(-2, 3, (EXPERTS, WIDE, 2 * WIDE), generator=torch.Generator().manual_seed(1))
        self.weights = torch.nn.Parameter(values.to(dtype))

    def forward(self, x, ends):
        return torch.nn.functional.relu(torch._grouped_mm(x, self.weights, ends).float())


@each("ends", [[3, 3, 8, 8, 12], [12] * 5, [0, 0, 0, 0, 12], [0, 5, 6, 7, 12]])
def test_rows_of_groups_are_exact(ends):
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this torch has no products of groups")
    x = torch.randint(-2, 3, (12, WIDE), generator=torch.Generator().manual_seed(2)).bfloat16()
    places = torch.tensor(ends, dtype=torch.int32)
    module = Experts(torch.bfloat16)
    graph = og.from_torch(module, (x, places))
    rows = torch.bucketize(torch.arange(12), places, right=True)
    want = torch.einsum("mk,mkn->mn", x.float(), module.weights.float()[rows]).relu()
    (made,) = graph.compile()(x, places).values()
    np.testing.assert_array_equal(np.asarray(made), want.detach().numpy())


MIXTURES = {
    "Mixtral": {"num_local_experts": 4},
    "Qwen3Moe": {"num_experts": 8, "moe_intermediate_size": 48, "head_dim": 8},
}


@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_of_experts(name):
    """Of transformers, in inference with open sizes, and by torch.compile."""
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts_per_tok=2,
        **MIXTURES[name],
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    module = Applied(lambda ids: model(input_ids=ids, use_cache=False).logits)
    module.model = model
    ids = torch.randint(0, 64, (2, 7))
    with torch.inference_mode():
        want = model(input_ids=ids, use_cache=False).logits.numpy()
        quick = torch.compile(module, backend="onednn_graph")(ids).numpy()
    (made,) = og.from_torch(module, (ids,)).compile()(ids).values()
    np.testing.assert_allclose(np.asarray(made), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(quick, want, rtol=1e-4, atol=1e-5)
