"""Attention whose heads share keys and values: results are torch's, and nothing is copied for the sharing."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

BATCH, HEADS, KEYS = 2, 2, 6
MASKS = {
    "none": None,
    "boolean": (BATCH, 1, -1, KEYS),
    "boolean for each head": (BATCH, -2, -1, KEYS),
    "boolean for each head and all rows": (1, -2, 1, KEYS),
    "boolean for all": (1, 1, 1, KEYS),
    "numbers": (-1, KEYS),
}


class Attention(torch.nn.Module):
    """Heads of keys and values are repeated before, as transformers does, or by the op itself."""

    def __init__(self, repeats, causal=False):
        super().__init__()
        self.repeats, self.causal = repeats, causal

    def forward(self, q, k, v, mask=None):
        if self.repeats:
            heads = q.shape[1] // HEADS
            k, v = (
                x[:, :, None].expand(BATCH, HEADS, heads, *x.shape[2:]).reshape(BATCH, -1, *x.shape[2:])
                for x in (k, v)
            )
        return scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=not self.repeats)


def operands(heads, length, mask):
    torch.manual_seed(0)
    sizes = [(BATCH, HEADS * heads, length, 8), (BATCH, HEADS, KEYS, 8), (BATCH, HEADS, KEYS, 4)]
    tensors = [torch.randn(size) for size in sizes]
    if mask != "none":
        shape = [{-1: length, -2: HEADS * heads}.get(size, size) for size in MASKS[mask]]
        drawn = torch.randn(shape)
        tensors.append(drawn if mask == "numbers" else drawn > -0.3)
        if mask == "boolean":
            tensors[-1][0, 0, 0] = False  # this row sees nothing
    return tensors


def made_and_expected(module, tensors):
    graph = og.from_torch(module, tuple(tensors))
    made = graph.compile()(*[one.numpy() for one in tensors]).only
    wide = [one.double() if one.is_floating_point() else one for one in tensors]
    with torch.no_grad():
        return graph, made, module(*wide).numpy()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("repeats", [False, True], ids=["shared", "repeated"])
def test_heads_that_share_keys_and_values(repeats, mask):
    for length, heads in ((1, 3), (5, 3), (5, 9)):
        graph, made, expected = made_and_expected(Attention(repeats), operands(heads, length, mask))
        np.testing.assert_allclose(made, expected, atol=2e-6)
        largest = max(np.prod(op.outputs[0].dims) for op in graph.ops if op.kind in ("Concat", "Multiply"))
        assert largest <= BATCH * HEADS * heads * length * KEYS  # scores, and no repeated keys


@pytest.mark.parametrize("size", [(1, HEADS * 3, 5, 8), (BATCH, 1, 5, 8)], ids=["batch", "head"])
def test_queries_that_are_for_all_of_a_batch_or_all_heads(size):
    _, *others = operands(3, 5, "none")

    class Broadcast(torch.nn.Module):
        def forward(self, q, k, v):
            k, v = (x.repeat_interleave(3, 1) for x in (k, v))
            return scaled_dot_product_attention(q, k, v)

    _, made, expected = made_and_expected(Broadcast(), [torch.randn(size), *others])
    np.testing.assert_allclose(made, expected, atol=2e-6)


def test_causal_attention_of_shared_heads():
    for repeats in (False, True):
        _, made, expected = made_and_expected(Attention(repeats, causal=True), operands(3, KEYS, "none"))
        np.testing.assert_allclose(made, expected, atol=2e-6)


def test_a_mask_becomes_numbers_once_for_all_layers():
    class Twice(torch.nn.Module):
        def forward(self, q, k, v, mask):
            first = scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
            return scaled_dot_product_attention(first, k, v, mask, enable_gqa=True)

    q, k, _, mask = operands(3, 5, "boolean")
    graph, made, expected = made_and_expected(Twice(), [q, k, torch.randn(k.shape), mask])
    np.testing.assert_allclose(made, expected, atol=2e-6)
    kinds = [op.kind for op in graph.ops]
    assert (kinds.count("Select"), kinds.count("Concat"), kinds.count("MatMul")) == (1, 1, 4)
