"""`from_torch`: ops that oneDNN Graph has none for, on the host; each exactly as torch has it."""

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import Apply, check, integers, normal  # noqa: E402 -- torch comes first

nn, F = torch.nn, torch.nn.functional


def whole(*shape, seed=0, low=-9, high=10, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


X, W, V = integers(2, 3, 4), whole(2, 3, 4), whole(3, 4, seed=1)
T, S = whole(2, 3, 4) > 0, whole(3, 4, seed=1) > 0
ODD = torch.tensor([[float("nan"), -float("inf"), -0.0], [0.0, float("inf"), 2.5]])
TABLE = normal(7, 5)
ROW, COLUMN = whole(2, 1, low=-2, high=2), whole(3, low=-3, high=3, seed=2)

FUNCTIONS = {
    "add": (lambda x, y: x + y, W, V),
    "add bytes": (lambda x, y: x + y, W.to(torch.uint8), V),
    "add floats": (lambda x, y: x + y, X, V),
    "add number": (lambda x: x + 3, W),
    "add fraction": (lambda x: x + 0.5, W),
    "add to truths": (lambda x: x + 2, T),
    "subtract alpha": (lambda x, y: torch.sub(x, y, alpha=3), W, V),
    "one less": (lambda x: 1.0 - x, W),
    "multiply truths": (lambda x, y: x * y, X, T),
    "multiply": (lambda x, y: x * y, W, V),
    "maximum": (torch.maximum, W, V),
    "divide": (lambda x, y: x / y, W, V.abs() + 1),
    "divide number": (lambda x: x / 4, W),
    "divide down": (lambda x, y: x // y, W, V.abs() + 1),
    "divide down by less": (lambda x, y: x // y, W, -V.abs() - 1),
    "divide floats down": (lambda x, y: torch.div(x, y, rounding_mode="floor"), X, V.abs() + 1),
    "divide tenths down": (
        lambda x, y: x // y,
        torch.tensor([1.0, 0.3, -1.0, 5.5, -7.0, 5.0]),
        torch.tensor(0.1),
    ),
    "divide by nothing down": (lambda x, y: (x // y).isnan(), ODD, ODD.flip(1)),
    "divide floats to zero": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), X, V.abs() + 1),
    "divide to zero": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), W, V.abs() + 1),
    "remainder": (lambda x, y: x % y, W, -V.abs() - 1),
    "remainder number": (lambda x: x % 3, W),
    "remainder floats": (lambda x: x % 3, X),
    "fmod": (lambda x: torch.fmod(x, 4), W),
    **{
        f"{name} {what}": (getattr(torch, name), a, b)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for what, a, b in (("s64", W, V), ("f32", X, X[1]), ("odd", ODD, ODD.flip(1)), ("mixed", W, X[1]))
    },
    **{f"{name} number": (lambda x, name=name: getattr(x, name)(2), W) for name in ("eq", "ne", "lt", "ge")},
    "lt fraction": (lambda x: x < 0.5, W),
    "eq truths": (lambda x: x == 2, T),
    **{
        f"{name} {what}": (getattr(torch, f"bitwise_{name}"), a, b)
        for name in ("and", "or", "xor")
        for what, a, b in (("truths", T, S), ("s64", W, V))
    },
    "least along an axis": (lambda x: x.min(1), W),
    "greatest of equals": (lambda x: x.max(0), T * 1.0),
    "least with NaN": (
        lambda x: (x.min(0)[0].isnan(), x.min(1)[1]),
        torch.tensor([[ODD[0, 0], -1, 0], [3, 2, ODD[0, 0]]]),
    ),
    "greatest with NaN": (
        lambda x: (x.max(0)[0].isnan(), x.max(1)[1]),
        torch.tensor([[1, ODD[0, 0], 0], [3, 2, ODD[0, 0]]]),
    ),
    "operators": (lambda x, y: (x & ~y) | (x ^ y), T, S),
    "logical": (lambda x, y: torch.logical_and(x, torch.logical_not(y)) | torch.logical_or(x, y), W, V),
    "not": (torch.bitwise_not, W),
    "isnan": (torch.isnan, ODD),
    "isinf": (torch.isinf, ODD),
    "sign": (torch.sign, W),
    "ceil and floor": (lambda x: x.ceil() + (1.5 * x).floor(), 2.7 * X),
    **{f"to {dtype}": (lambda x, d=dtype: x.to(d), W) for dtype in (torch.int32, torch.uint8, torch.bool)},
    "to floats": (lambda x: x.to(torch.float32), W),
    "truths to floats": (lambda x: x.float(), T),
    "floats to integers": (lambda x: x.long(), 2.7 * X),
    "floats to truths": (lambda x: x.bool(), X),
    "where": (torch.where, T, W, V),
    "where mixed": (torch.where, T, X, V),
    "where number": (lambda c, x: torch.where(c, x, 7), T, W),
    "masked_fill": (lambda x, m: x.masked_fill(m, -7), W, T),
    "masked_fill tensor": (lambda x, m: x.masked_fill(m, torch.tensor(2.0)), X, T),
    "embedding": (lambda i: F.embedding(i, TABLE), whole(2, 3, low=0, high=7)),
    "embedding integers": (lambda i: F.embedding(i.int(), TABLE), whole(2, 3, low=0, high=7)),
    "index_select": (lambda x, i: x.index_select(1, i), X, torch.tensor([2, 0, 1, 1])),
    "index_select integers": (lambda x: x.index_select(1, torch.tensor([2, 0])), W),
    "index": (lambda x, i: x[i], X, torch.tensor([[1, 0], [-1, 0]])),
    "index middle": (lambda x, i: x[:, i], X, torch.tensor([[2, 0], [-1, 0]])),
    "index two": (lambda x, i, j: x[i, j], X, ROW, COLUMN),
    "index last two": (lambda x, i, j: x[:, i, j], X, ROW, COLUMN),
    "index last two of four": (lambda x, i, j: x[:, :, i, j], integers(2, 5, 3, 4), ROW, COLUMN),
    "index middle two": (lambda x, i, j: x[:, i, j], integers(5, 3, 4, 2), ROW, COLUMN),
    "index constants": (lambda x: x[torch.tensor([[0], [1]]), torch.tensor([2, 0])], W),
    "gather": (lambda x, i: x.gather(2, i), X, W % 4),
    "gather few": (lambda x, i: x.gather(1, i), X, W[:, :1, :2] % 3),
    "cumsum": (lambda x: x.cumsum(1), X),
    "cumsum integers": (lambda x: x.cumsum(-1), W.int()),
    "cumsum truths": (lambda x: x.cumsum(0), T),
    "clamp": (lambda x: x.clamp(-2, 3) + x.clamp(min=1), W),
    "flip": (lambda x: x.flip(0, 2), X),
    "flip integers": (lambda x: x.flip(1), W),
    "slice integers": (lambda x: x[:, 1:, ::2], W),
    "select integers": (lambda x: x[:, 1], W),
    "pad integers": (lambda x: F.pad(x, (1, 2, 0, 1), value=-3), W),
    **{
        f"pad {mode}": (lambda x, mode=mode: F.pad(x, (1, 2), mode=mode), X)
        for mode in ("reflect", "replicate", "circular")
    },
    "pad images": (lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"), integers(1, 2, 5, 4)),
    "expand": (lambda x: x[:, None].expand(2, 5, 3, 4), T),
    "concat": (lambda x, y: torch.cat([x, y[None]]), W, V),
    **{
        f"concat {a.dtype} and {b.dtype}": (lambda x, y: torch.cat([x, y], 1), a, b)
        for a, b in ((W, X), (X, W), (W.int(), W), (W, W.to(torch.uint8)), (T, X), (W, T), (W.int(), X))
    },
    "concat with no floats": (lambda x: torch.cat([torch.zeros(0), x]), V),
    "stack": (lambda x: torch.stack([x, x], 1), T),
    "stack mixed": (lambda x, y: torch.stack([x, y], 1), W, X),
    "stack numbers": (lambda x: torch.stack([x.sum(), x.amax() * 0.5]), W),
    "permute": (lambda x: x.permute(2, 0, 1).reshape(4, 6), W),
    "sum": (lambda x: x.sum(1), W),
    "sum truths": (lambda x: x.sum(-1, keepdim=True), T),
    "sum all": (lambda x: x.sum(), W.int()),
    "amax": (lambda x: x.amax(2), W),
    "any": (lambda x: x.any(1), T),
    "any all": (lambda x: x.any(), W),
    "all": (lambda x: x.all(-1, keepdim=True), T),
    "argmax": (lambda x: x.argmax(1), W),
    "argmax all": (lambda x: x.argmax(), X),
    "argmin": (lambda x: x.argmin(-1, keepdim=True), X),
    "constants": (
        lambda x: x + torch.full((3, 4), 2.0).tril() + torch.arange(4) + torch.ones(3, 4).triu(1),
        X,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name):
    function, *inputs = FUNCTIONS[name]
    check(Apply(function), *inputs, tolerance=0)


@pytest.mark.parametrize("name", ["sin", "cos", "erf"])
def test_a_rounded_function(name):
    check(Apply(getattr(torch, name)), normal(2, 3, 4), kinds=[f"Host{name.capitalize()}"])


@pytest.mark.parametrize("name", ["pow", "atan2"])
@pytest.mark.parametrize(
    "values", [(V.abs(), X.abs()), (X, V.abs() % 3), (T, V + 10.0), (X, S), (T, X.abs()), (W.abs(), 0.5 + S)]
)
def test_a_function_of_several_types(name, values):
    check(Apply(getattr(torch, name)), *values)


def test_sums_of_s32_begin_anew_where_they_overflow():
    ends = torch.tensor([2**31 - 1, -(2**31), 16777217, -5] * 8, dtype=torch.int32)
    bytes_ = torch.tensor([1, 255, 7, 0] * 8, dtype=torch.uint8)
    sums = Apply(lambda x, y: (x + x, x - x.flip(0), x + 1, x - 1, x + y))
    check(sums, ends, bytes_, tolerance=0)


def test_powers_of_integers_by_fractions():
    check(Apply(lambda x: x**0.5 + 2.0**x), W.abs())


def test_the_angle_of_integers():
    check(Apply(torch.atan2), W, V.int())


class Words(nn.Module):
    """The beginning of a language model: words, places, a mask of what is there and what comes later."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids, mask):
        places = (mask.cumsum(1) - 1).clamp(min=0)
        h = self.words(ids) + self.places(places)
        earlier = torch.ones(6, 6, dtype=torch.bool).tril()
        seen = earlier[None] & mask[:, None].bool()
        scores = (h @ h.mT).masked_fill(~seen, float("-inf"))
        return torch.softmax(scores, -1) @ h, places


def test_the_beginning_of_a_language_model():
    ids = whole(2, 6, low=0, high=11)
    check(Words(), ids, torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]]))


def test_the_report_names_them():
    ids = whole(2, 6, low=0, high=11)
    model = og.from_torch(nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 4)), (ids,)).compile()
    model(ids)
    steps = [step for part in model.explain().values() if part is not None for step in part.steps]
    assert any("HostGather" in step.name and step.host for step in steps)


REFUSED = {
    "a choice by truths": (lambda x, m: x[m], (X, T), "torch.export|choice by truths|index"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, inputs, message = REFUSED[name]
    with pytest.raises(og.UnsupportedError, match=message):
        og.from_torch(Apply(function), inputs)
