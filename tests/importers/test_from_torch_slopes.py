"""`from_torch(…, training=True)`: gradients of single operators, held against torch in double precision."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import Apply, integers, normal  # noqa: E402 -- torch comes first

F = torch.nn.functional
X, Y = normal(4, 5), normal(4, 9, seed=1)
PLACES = torch.randint(0, 5, (4, 9), generator=torch.Generator().manual_seed(2))
IMAGE, GRID = normal(2, 3, 5, 6), normal(2, 4, 4, 2, seed=1)
WORDS = torch.randint(0, 7, (4, 6), generator=torch.Generator().manual_seed(3))
WITH_ZEROS = torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]])


def bag(mode, **options):
    return lambda i, table: F.embedding_bag(i, table, mode=mode, **options)


SLOPES = {
    "fmod": (lambda x, y: torch.fmod(5 * x, y), X, normal(4, 5, seed=1)),
    "remainder": (lambda x, y: torch.remainder(5 * x, y), X, normal(4, 5, seed=1)),
    **{
        f"scatter {word}, {own}": (
            lambda x, i, y, word=word, own=own: x.scatter_reduce(1, i, y, word, include_self=own),
            X,
            PLACES,
            Y,
        )
        for word in ("amax", "amin", "prod")
        for own in (True, False)
    },
    "scatter largest of equal ones": (
        lambda x, i, y: x.scatter_reduce(1, i, y, "amax"),
        integers(4, 5),
        PLACES,
        integers(4, 9),
    ),
    "product with zeros": (
        lambda y: torch.ones(2, 2).to(y).scatter_reduce(1, torch.tensor([[0, 0, 1], [0, 0, 1]]), y, "prod"),
        WITH_ZEROS,
    ),
    **{
        f"grid {mode}, {border}, {corners}": (
            lambda x, g, mode=mode, border=border, corners=corners: F.grid_sample(
                x, g, mode=mode, padding_mode=border, align_corners=corners
            ),
            IMAGE,
            GRID,
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for border in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    "grid of a line": (
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False),
        normal(1, 2, 1, 4),
        GRID[:1],
    ),
    "grid of volumes": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        normal(2, 3, 4, 5, 3),
        normal(2, 2, 3, 2, 3),
    ),
    **{f"bags {mode}": (bag(mode), WORDS, normal(7, 3)) for mode in ("sum", "mean", "max")},
    **{
        f"bags {mode}, padding": (bag(mode, padding_idx=2), WORDS, normal(7, 3))
        for mode in ("sum", "mean", "max")
    },
    "bags with weights": (
        lambda i, table, w: F.embedding_bag(i, table, mode="sum", per_sample_weights=w),
        WORDS,
        normal(7, 3),
        normal(4, 6),
    ),
    **{
        f"bags of any length, {mode}": (
            lambda i, table, at, mode=mode: F.embedding_bag(i, table, at, mode=mode),
            WORDS.reshape(-1),
            normal(7, 3),
            torch.tensor([0, 3, 3, 7]),
        )
        for mode in ("sum", "mean", "max")
    },
    "distances of pairs": (F.pdist, X),
    "largest so far": (lambda x: torch.cummax(x, 1)[0], X),
    "erfinv": (lambda x: torch.erfinv(x.tanh()), X),
    "lgamma": (torch.lgamma, X),
    "digamma": (torch.digamma, X.abs() + 0.1),
    "diagonal replaced": (torch.diagonal_scatter, X, normal(4)),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name):
    function, *inputs = SLOPES[name]
    leaves = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    value = function(*leaves)
    weights = normal(*value.shape, seed=7)
    wanted = [x for x in leaves if x.is_floating_point()]
    expected = torch.autograd.grad((value * weights).sum(), wanted)
    graph = og.from_torch(Apply(function), tuple(inputs), training=True)
    sources = [t for t, x in zip(graph.inputs, inputs, strict=True) if x.is_floating_point()]
    found = graph.gradients(graph.outputs[0], sources, seed=weights.numpy())
    results = graph.compile()(*inputs)
    for one, want in zip(found, expected, strict=True):
        scale = max(1.0, want.abs().max().item())
        np.testing.assert_allclose(results[one], want.numpy(), rtol=0, atol=5e-6 * scale)


def test_gradients_by_how_often_a_row_is_looked_up_are_refused():
    module = torch.nn.EmbeddingBag(7, 3, scale_grad_by_freq=True)
    with pytest.raises(og.UnsupportedError, match="scale_grad_by_freq=True has no counterpart; leave it out"):
        og.from_torch(module, (WORDS,), training=True)
