"""`from_torch`: ops that sort, scatter, sample and cut, each as torch has it."""

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import TOLERANCE, Apply, close, integers, normal  # noqa: E402 -- torch comes first

F = torch.nn.functional
X, IMAGE = integers(2, 3, 4), normal(2, 3, 6, 8)
DISTINCT = torch.randperm(24, generator=torch.Generator().manual_seed(0)).reshape(2, 3, 4).float()
PLACES = torch.randint(0, 3, (2, 3, 4), generator=torch.Generator().manual_seed(1))
ROWS = torch.zeros(2, 1, 4, dtype=torch.int64)


def with_part(x):
    changed = x.clone()
    changed[:, 1] = 7.0
    return changed


def assigned(mask, value):
    def function(x):
        changed = x.clone()
        changed[mask(x)] = value
        return changed

    return function


FUNCTIONS = {
    "topk": (lambda x: torch.topk(x, 2), DISTINCT),
    "topk smallest": (lambda x: torch.topk(x, 2, 1, largest=False), DISTINCT),
    "sort": (lambda x: torch.sort(x, 1), DISTINCT),
    "sort down": (lambda x: torch.sort(x, dim=-1, descending=True, stable=True), X),
    "max": (lambda x: x.max(1), DISTINCT),
    "min": (lambda x: x.min(-1, keepdim=True), DISTINCT),
    "scatter": (lambda x: x.scatter(1, ROWS, x[:, 1:2] + 1), X),
    "scatter number": (lambda x: x.scatter(1, ROWS, 5.0), X),
    "scatter add": (lambda x, i: torch.zeros_like(x).scatter_add(1, i, x), X, PLACES),
    "scatter largest": (lambda x, i: x.scatter_reduce(1, i, x * 2, "amax"), X, PLACES),
    "scatter a part": (lambda x: x.scatter(1, ROWS[:1, :, :2], x + 1), X),
    "scatter add a part": (lambda x: x.scatter_add(2, PLACES[:, :2, :1], x + 1), X),
    **{
        f"scatter {word} without its own": (
            lambda x, i, word=word: x.scatter_reduce(1, i[:, :2], x * 2, word, include_self=False),
            X,
            PLACES,
        )
        for word in ("sum", "prod", "amax", "amin", "mean")
    },
    "scatter mean": (lambda x, i: x.scatter_reduce(1, i[:, :2], x * 2, "mean"), X, PLACES),
    "assigned where true": (assigned(lambda x: x > 1, 5.0), X),
    "assigned where true, rows": (assigned(lambda x: x[..., 0] > 1, torch.arange(4.0)), X),
    "assigned where true, behind": (
        lambda x, m: torch.ops.aten.index_put(x, [None, m], torch.tensor([[[3.0]], [[4.0]]]).expand(2, 1, 4)),
        X,
        torch.tensor([True, False, True]),
    ),
    "added where true": (lambda x: torch.index_put(x, (x > 1,), torch.tensor(5.0), accumulate=True), X),
    "masked scatter": (lambda x: x.masked_scatter(x > 1, x.flip(0) * 3), X),
    "masked scatter of rows": (lambda x, m: x.masked_scatter(m, x * 3), X, PLACES[:, :, :1] > 0),
    "masked scatter of nothing": (lambda x: x.masked_scatter(x > 1000, x), X),
    "distances": (lambda x: torch.cdist(x, x[:, :2] * 2 + 1), normal(2, 3, 4)),
    "distances, 1": (lambda x: torch.cdist(x, x[1, :2], p=1.0), normal(2, 3, 4)),
    "distances, largest": (lambda x: torch.cdist(x[0], x, p=float("inf")), normal(2, 3, 4)),
    **{
        f"bags {mode}": (lambda i, w, mode=mode: F.embedding_bag(i, w, mode=mode), PLACES[0], integers(3, 4))
        for mode in ("sum", "mean", "max")
    },
    "bags with weights": (
        lambda i, w, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum"),
        PLACES[0],
        integers(3, 4),
        integers(3, 4) + 1,
    ),
    "bags with ends": (
        lambda i, w: F.embedding_bag(i.reshape(-1), w, torch.tensor([0, 6, 12]), include_last_offset=True),
        PLACES[0],
        integers(3, 4),
    ),
    "bags of any length": (
        lambda i, w, o: F.embedding_bag(i.reshape(-1), w, o, mode="mean"),
        PLACES[0],
        integers(3, 4),
        torch.tensor([0, 3, 3, 7, 12]),
    ),
    "bags of any length, largest": (
        lambda i, w: F.embedding_bag(i.reshape(-1), w, torch.tensor([0, 3, 3, 7]), mode="max"),
        PLACES[0],
        integers(3, 4),
    ),
    "bags of any length that end": (
        lambda i, w: F.embedding_bag(
            i.reshape(-1), w, torch.tensor([0, 3, 7]), mode="sum", include_last_offset=True
        ),
        PLACES[0].reshape(-1)[:7],
        integers(3, 4),
    ),
    **{
        f"bags {mode} with padding": (
            lambda i, w, mode=mode: F.embedding_bag(i, w, mode=mode, padding_idx=1),
            torch.tensor([[0, 1, 2], [1, 1, 1], [2, 0, 0]]),
            integers(3, 4),
        )
        for mode in ("sum", "mean", "max")
    },
    "distances of pairs": (lambda x: F.pdist(x[0]) + F.pdist(x[1], 1), normal(2, 3, 4)),
    **{
        f"scatter by {word}": (lambda x, i, word=word: x.scatter(1, i, x * 2, reduce=word), X, PLACES)
        for word in ("add", "multiply")
    },
    "scatter number by multiply": (lambda x: x.scatter(1, ROWS, 5.0, reduce="multiply"), X),
    "diagonal replaced": (lambda x: torch.diagonal_scatter(x, x[:, 0, :3] * 9, 1, 1, 2), X),
    "diagonal replaced below": (lambda x: torch.diagonal_scatter(x, x[0, :, :2] * 9, -1, 2, 0), X),
    "diagonal of nothing": (lambda x: torch.diagonal_scatter(x + 1, x[:, 0, :0], 9, 1, 2), X),
    **{
        f"grid cubic, {border}, {corners}": (
            lambda x, border=border, corners=corners: F.grid_sample(
                x, x[:, :2].permute(0, 2, 3, 1), mode="bicubic", padding_mode=border, align_corners=corners
            ),
            IMAGE,
        )
        for border in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    "put": (lambda x: torch.index_put(x, (torch.tensor([1, 0]), torch.tensor([2, 0])), torch.ones(4)), X),
    "assigned": (with_part, X),
    "folded": (lambda x: F.fold(x, (4, 4), 2), integers(2, 12, 9)),
    "slice of steps": (lambda x: torch.slice_scatter(x, x[:, :2] + 1, 1, 0, 3, 2), X),
    "grid": (lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False), IMAGE),
    "grid nearest": (
        lambda x: F.grid_sample(
            x, x[:, :2].permute(0, 2, 3, 1), mode="nearest", padding_mode="border", align_corners=True
        ),
        IMAGE,
    ),
    "logsumexp": (lambda x: x.logsumexp((1, 2)), X),
    "triangles": (lambda x: x.tril(-1) + x.triu(1), X),
    "diagonal": (lambda x: torch.diagonal(x, 1, 1, 2) + 1, X),
    "diagonal below": (lambda x: torch.diagonal(x, -1, 2, 0) + 1, X),
    "windows": (lambda x: x.unfold(2, 2, 1) + 1, X),
    "truths chosen": (lambda x: x[:, torch.tensor([True, False, True])] + 1, X),
    "apart": (lambda x: x[torch.tensor([0, 1]), :, torch.tensor([1, 2])] + 1, X),
    "powers": (lambda x, y: x.abs() ** y + 2.0**y, normal(2, 3, 4), normal(3, 4)),
    "functions": (
        lambda x: x.expm1() + x.abs().log1p() + x.sinh() + x.atan() + torch.atan2(x, x + 1),
        normal(2, 5),
    ),
    "trunc": (lambda x: (2.7 * x).trunc(), X),
    "between": (lambda x, y: torch.clamp(x, y, y + 1), X, X.flip(1)),
    "norms": (lambda x: x.norm(3, dim=1) + torch.linalg.vector_norm(x, float("inf"), 1), normal(2, 3, 4)),
    "celu": (lambda x: F.celu(x, 0.5) + F.logsigmoid(x), normal(2, 3, 4)),
    "mean and variance": (lambda x: torch.var_mean(x, 1), normal(2, 3, 4)),
}


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name):
    function, *given = FUNCTIONS[name]
    module = Apply(function)
    results = og.from_torch(module, tuple(given)).compile()(*given)
    expected = module(*given)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    for result, want in zip(results.values(), expected, strict=True):
        close(result, want, TOLERANCE)


def test_a_size_of_a_constant_mask():
    """What a translation has made constant is a constant for torch again."""
    x = normal(2, 3)
    module = Apply(lambda x: x + torch.full_like(x, 2.0).unsqueeze(0).sum(0))
    close(og.from_torch(module, (x,)).compile()(x).only, module(x), TOLERANCE)


def test_a_module_of_bags():
    """Its weights have gradients, and torch exports another op than of tensors that have none."""
    module = torch.nn.EmbeddingBag(5, 4, mode="max")
    close(og.from_torch(module, (PLACES[0],)).compile()(PLACES[0]).only, module(PLACES[0]), TOLERANCE)
