"""Group normalisation and its gradients against formulas in f64, of images that lie in every way."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.lowering.group_sums import MOST_IMAGES
from onednn_graph.profiling import profile
from rows import each

pytestmark = pytest.mark.usefixtures("onednn")

EPSILON = 1e-5


def exact(x, dy, gamma, beta, groups):
    """The result, its statistics, and the gradients, of images (N, C, X) in f64."""
    grouped = (x.shape[0], groups, -1)
    each_channel = (1, -1, *[1] * (x.ndim - 2))
    rows = x.reshape(grouped)
    mean, variance = rows.mean(2), rows.var(2)
    inverse = 1 / np.sqrt(variance[..., None] + EPSILON)
    normalised = (rows - mean[..., None]) * inverse
    g = (dy * gamma.reshape(each_channel)).reshape(grouped)
    data = inverse * (g - g.mean(2, keepdims=True) - normalised * (g * normalised).mean(2, keepdims=True))
    normalised = normalised.reshape(x.shape)
    others = (0, *range(2, x.ndim))
    dst = normalised * gamma.reshape(each_channel) + beta.reshape(each_channel)
    return dst, mean, variance, data.reshape(x.shape), (dy * normalised).sum(others), dy.sum(others)


def forward_and_backward(x, dy, gamma, beta, groups, data_format="NCX", affine=True):
    """What both ops make, one behind the other, in one graph."""
    graph = og.Graph()
    a, d = (graph.input(name, "f32", x.shape) for name in ("x", "dy"))
    vectors = [graph.input(name, "f32", gamma.shape) for name in ("gamma", "beta")][: 2 * affine]
    same = {"groups": groups, "epsilon": EPSILON, "use_affine": affine, "data_format": data_format}
    forward = graph.op("GroupNorm", a, *vectors, keep_stats=True, **same)
    backward = graph.op("GroupNormBackward", a, d, *forward[1:], *vectors[:1], outputs=1 + 2 * affine, **same)
    outputs = [*forward, *(backward if affine else [backward])]
    for tensor in outputs:
        graph.output(tensor)
    model = graph.compile()
    assert not [op for p in model.partitions if p.backend != "onednn" for op in p.ops]
    feeds = {"x": x, "dy": dy} | ({"gamma": gamma, "beta": beta} if affine else {})
    made = model(feeds)
    return [np.asarray(made[one.name]) for one in outputs]


def check(shape, groups, *, last=False, affine=True, shift=0.0, zeros=0, limit=2e-6):
    """Holds all results, of random numbers around `shift`, against f64, as parts of their norms."""
    rng = np.random.default_rng(sum(shape) + groups)
    channels = shape[1]
    x, dy = (rng.normal(size=shape).astype("f4") for _ in range(2))
    x, dy = x + np.float32(shift), dy + np.float32(0.125)
    gamma, beta = (rng.normal(size=channels).astype("f4") for _ in range(2))
    gamma[:zeros] = 0
    own = (gamma, beta) if affine else (np.ones(channels), np.zeros(channels))
    wanted = exact(*(one.astype("f8") for one in (x, dy, *own)), groups)
    if last:
        x, dy = (np.ascontiguousarray(np.moveaxis(one, 1, -1)) for one in (x, dy))
    made = forward_and_backward(x, dy, gamma, beta, groups, "NXC" if last else "NCX", affine)
    for number, (got, want) in enumerate(zip(made, wanted, strict=False)):
        lying = np.moveaxis(got, -1, 1) if last and got.ndim == len(shape) else got
        off = np.linalg.norm(lying - want) / max(np.linalg.norm(want), 1e-30)
        assert off < limit, (number, off)


SHAPES = [
    ((2, 8, 16, 16), 2),
    ((4, 32, 32, 32), 8),
    ((3, 24, 13, 17), 3),
    ((2, 6, 5), 3),
    ((2, 12, 9, 7), 12),
    ((5, 16, 1), 4),
    ((1, 64, 40, 40), 1),
    ((2, 48, 7, 7, 7), 6),
    ((MOST_IMAGES + 1, 16, 18, 18), 4),
]
"""Of images (N, C, X), odd ones, of one position, and of more than are taken one after another; and groups."""


@each(
    "shape, groups, last, affine",
    [(*one, last, affine) for one in SHAPES for last in (0, 1) for affine in (0, 1)],
)
def test_against_formulas(shape, groups, last, affine):
    check(shape, groups, last=bool(last), affine=bool(affine))


@each("last", [0, 1])
def test_numbers_far_from_zero_keep_their_digits(last):
    """Products with them are a thousand times what is looked for: beyond that sums are made again, in f64."""
    check((2, 32, 40, 40), 4, last=bool(last), shift=15.0, limit=5e-5)
    check((2, 32, 40, 40), 4, last=bool(last), shift=1000.0, limit=1e-4)


@each("last", [0, 1])
def test_channels_whose_factor_is_zero(last):
    """Their gradients go through others of the group, and are nothing where all factors of a group are zero."""
    check((2, 32, 24, 24), 4, last=bool(last), zeros=3)
    check((2, 32, 24, 24), 4, last=bool(last), zeros=13)


def test_images_with_adjacent_channels_stay_as_they_lie():
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=(2, 24, 24, 32)).astype("f4") for _ in range(2))
    gamma = np.ones(32, "f4")
    with profile() as seen:
        forward_and_backward(x, dy, gamma, gamma, 4, "NXC")
    assert not [event for event in seen.events if event.name.startswith("reorder")]
    assert [event for event in seen.events if event.name == "sums of parts"]
