"""`from_torch`: resizings by any sizes and scales, each as torch has it."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import TOLERANCE, Apply, close, normal  # noqa: E402 -- torch comes first

F = torch.nn.functional
ROUNDED = [(2, 82), (2, 94), (2, 122), (3, 123), (4, 164)]
"""Sizes between which an element lies exactly at the next one, and single precision puts it before that."""
NEAREST = {
    "to fewer": {"size": (5, 6)},
    "to more": {"size": (7, 13)},
    "to some": {"size": (12, 5)},
    "by parts": {"scale_factor": 0.7},
    "by more parts": {"scale_factor": (1.7, 2.0)},
}
LINEAR = NEAREST | {
    "by nothing nearly": {"scale_factor": (1.05, 2.0)},
    "by a third": {"scale_factor": 1 / 3},
    "corners": {"scale_factor": 1.3, "align_corners": True},
}
IMAGE = normal(2, 3, 6, 9)


def resized(x, **how):
    module = Apply(lambda x: F.interpolate(x, **how))
    return og.from_torch(module, (x,)).compile()(x).only, module(x)


@pytest.mark.parametrize(("size", "wanted"), ROUNDED)
@pytest.mark.parametrize("by", ["size", "scale_factor"])
def test_nearest_elements_are_those_that_single_precision_finds(size, wanted, by):
    if by == "scale_factor" and wanted % size:
        pytest.skip("no whole factor")
    x = torch.arange(float(size)).reshape(1, 1, size)
    result, expected = resized(x, **{by: wanted if by == "size" else wanted // size})
    np.testing.assert_array_equal(result, expected.numpy())
    assert not np.array_equal(expected[0, 0].numpy(), np.arange(wanted) * size // wanted)


@pytest.mark.parametrize("name", NEAREST)
def test_nearest(name):
    result, expected = resized(IMAGE, **NEAREST[name])
    np.testing.assert_array_equal(result, expected.numpy())


@pytest.mark.parametrize("name", LINEAR)
def test_linear(name):
    result, expected = resized(IMAGE, mode="bilinear", **LINEAR[name])
    close(result, expected, TOLERANCE)


HALF = {"mode": "bilinear", "size": (4, 4)}
FILTERED = {
    "to fewer": {"size": (4, 4)},
    "to fewer and more": {"size": (20, 3)},
    "to one": {"size": (1, 1)},
    "one axis": {"size": (6, 4)},
    "by parts": {"scale_factor": 0.6},
    "by more": {"scale_factor": (1.7, 0.4)},
    "by more that leaves as many": {"scale_factor": (1.05, 0.5)},
    "corners": {"size": (4, 12), "align_corners": True},
}


@pytest.mark.parametrize("name", FILTERED)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_with_a_filter_against_aliases(name, mode):
    result, expected = resized(IMAGE, mode=mode, antialias=True, **FILTERED[name])
    close(result, expected, TOLERANCE)


def test_of_halves_a_filter_rounds_once():
    module = Apply(lambda x: F.interpolate(x, antialias=True, **HALF).float())
    result = og.from_torch(module, (IMAGE.bfloat16(),)).compile()(IMAGE.bfloat16()).only
    exact = F.interpolate(IMAGE.bfloat16().double(), antialias=True, **HALF).numpy()
    assert (abs(result - exact) <= abs(exact) * 2.0**-8 + 1e-6).all()


def test_nearest_by_a_scale_that_changes_no_size_is_refused():
    """Torch takes other elements of a line than of the same elements as an image."""
    line = normal(1, 1, 9)
    assert not torch.equal(F.interpolate(line, scale_factor=1.05), line)
    image = line.reshape(1, 1, 3, 3)
    assert torch.equal(F.interpolate(image, scale_factor=1.05), image)
    with pytest.raises(og.UnsupportedError, match="leaves 9 elements as many"):
        resized(line, scale_factor=1.05)


def test_a_line_and_a_volume():
    for x, mode in ((normal(2, 3, 7), "linear"), (normal(1, 2, 5, 4, 3), "trilinear")):
        result, expected = resized(x, mode=mode, scale_factor=1.7)
        close(result, expected, TOLERANCE)


def test_halves_are_rounded_once():
    result, expected = resized(IMAGE.bfloat16(), mode="bilinear", scale_factor=1.7)
    exact = F.interpolate(IMAGE.bfloat16().double(), mode="bilinear", scale_factor=1.7).numpy()
    assert np.abs(result.astype("f8") - exact).max() <= np.abs(expected.double().numpy() - exact).max() * 1.01


def test_gradients_by_the_nearest_that_single_precision_finds():
    """torch.compile: what Interpolate's gradient would send elsewhere is left to torch."""
    x = torch.arange(2.0).reshape(1, 1, 2).requires_grad_()
    weights = torch.arange(82.0)
    (F.interpolate(x, size=82) * weights).sum().backward()
    expected, x.grad = x.grad, None
    compiled = torch.compile(lambda x: (F.interpolate(x, size=82) * weights).sum(), backend="onednn_graph")
    compiled(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected.numpy())


def test_an_rms_norm_without_an_epsilon_has_that_of_single_precision():
    x = normal(3, 5) * 1e-3
    module = torch.nn.RMSNorm(5)
    close(og.from_torch(module, (x,)).compile()(x).only, module(x), TOLERANCE)
    with pytest.raises(og.UnsupportedError, match="depends on torch's version"):
        og.from_torch(torch.nn.RMSNorm(5).bfloat16(), (x.bfloat16(),))
