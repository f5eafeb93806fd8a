"""NumPy for Resize and GridSample: each element of the result by its definition, one after another."""

import itertools
import math

import numpy as np
import pytest
from onednn_graph.graph.importing.translation import Unmapped
from onednn_graph.graph.onnx.resize import resized, sampled
from onnx_oracle import normal

ROOM = 1 << 20


def weight(mode, distance, a):
    """Of an element, by its distance."""
    if mode == "linear":
        return max(0.0, 1 - distance)
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a if distance < 2 else 0.0


def coordinate(kind, i, length, size, scale, region):
    """Where an element of the result lies."""
    if kind == "align_corners":
        return i * (length - 1) / (length * scale - 1)
    if kind == "asymmetric":
        return i / scale
    if kind == "tf_crop_and_resize":
        start, end = region
        return start * (length - 1) + i * (end - start) * (length - 1) / (size - 1)
    middle = (i + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        middle += length / 2 * (1 - size / (length * scale))
    return middle


def line(values, size, scale, region, attributes):
    """One line of elements, resized."""
    length, mode = len(values), attributes.get("mode", "nearest")
    kind = attributes.get("coordinate_transformation_mode", "half_pixel")
    result = []
    for i in range(size):
        at = coordinate(kind, i, length, size, scale, region)
        if kind == "tf_crop_and_resize" and not 0 <= at <= length - 1:
            result.append(attributes.get("extrapolation_value", 0.0))
            continue
        if mode == "nearest":
            rounded = {
                "floor": math.floor(at),
                "ceil": math.ceil(at),
                "round_prefer_floor": math.ceil(at - 0.5),
                "round_prefer_ceil": math.floor(at + 0.5),
            }[attributes.get("nearest_mode", "round_prefer_floor")]
            result.append(values[min(max(rounded, 0), length - 1)])
            continue
        narrow = min(scale, 1.0) if attributes.get("antialias") else 1.0
        total = share = 0.0
        for place in range(-40, length + 40):
            one = weight(mode, abs(place - at) * narrow, attributes.get("cubic_coeff_a", -0.75))
            if attributes.get("exclude_outside") and not 0 <= place < length:
                one = 0.0
            total += one * values[min(max(place, 0), length - 1)]
            share += one
        result.append(total / share)
    return result


def by_definition(x, sizes, scales, attributes, regions=None):
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        region = (0.0, 1.0) if regions is None else regions[axis]
        x = np.apply_along_axis(line, axis, x.astype("f8"), size, scale, region, attributes)
    return x


X = normal(5, 7)
SIZES = {"larger": [8, 9], "smaller": [3, 4], "one of each": [4, 15]}
COORDINATES = ("half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "pytorch_half_pixel")
WAYS = {
    "linear": {"mode": "linear"},
    "linear, without aliases": {"mode": "linear", "antialias": 1},
    "cubic": {"mode": "cubic"},
    "cubic of another shape": {"mode": "cubic", "cubic_coeff_a": -0.5},
    "cubic, without aliases": {"mode": "cubic", "antialias": 1},
    "cubic of what is inside": {"mode": "cubic", "exclude_outside": 1},
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", COORDINATES)
@pytest.mark.parametrize("way", WAYS)
def test_weighted_sums(way, kind, sizes):
    attributes = {**WAYS[way], "coordinate_transformation_mode": kind}
    sizes = np.asarray(SIZES[sizes])
    y = resized(X, None, None, sizes, attributes, ROOM)
    assert y.dtype == np.float32
    expected = by_definition(X, sizes, sizes / X.shape, attributes)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("scales", [(1.7, 2.13), (0.63, 1.0), (3.0, 0.71)])
def test_nearest_elements(nearest, scales):
    attributes = {"nearest_mode": nearest}
    scales = np.float32(scales)
    sizes = [math.floor(length * float(scale)) for length, scale in zip(X.shape, scales, strict=True)]
    expected = by_definition(X, sizes, [float(scale) for scale in scales], attributes)
    y = resized(X, None, scales, None, attributes, ROOM)
    np.testing.assert_array_equal(y, expected.astype("f4"))


def test_a_box_of_an_image():
    """Of the rows from a quarter to behind the last, all columns; what lies outside has a value of its own."""
    attributes = {
        "mode": "cubic",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }
    regions = [(0.25, 1.3), (0.0, 1.0)]
    roi = np.float32([low for low, _ in regions] + [high for _, high in regions])
    y = resized(X, roi, None, np.asarray([6, 7]), attributes, ROOM)
    expected = by_definition(X, [6, 7], [6 / 5, 1.0], attributes, regions)
    assert (expected[-1] == 9).all()
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("policy", "sizes"), [("not_larger", (4, 6)), ("not_smaller", (6, 8))])
def test_the_aspect_ratio_stays(policy, sizes):
    attributes = {"mode": "linear", "keep_aspect_ratio_policy": policy, "axes": [1, -1]}
    factor = {"not_larger": 4 / 5, "not_smaller": 6 / 5}[policy]
    x = np.stack([X, X + 1])
    y = resized(x, None, None, np.asarray([sizes[0], 8 if policy == "not_smaller" else 9]), attributes, ROOM)
    assert y.shape == (2, *sizes)
    expected = [by_definition(one, sizes, [factor] * 2, attributes) for one in x]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_integers_stay_in_their_bounds():
    x = np.asarray([[0, 255, 0, 255, 255, 0]], np.uint8)
    y = resized(x, None, np.float32([1, 2]), None, {"mode": "cubic"}, ROOM)
    expected = by_definition(x, [1, 12], [1.0, 2.0], {"mode": "cubic"})
    assert expected.min() < 0
    assert expected.max() > 255
    np.testing.assert_array_equal(y, np.clip(np.trunc(np.round(expected, 6)), 0, 255))


REFUSED = {
    "both": (np.float32([2, 2]), np.asarray([4, 4]), {}, "scales or sizes, and not both"),
    "neither": (None, None, {}, "scales or sizes, and not both"),
    "axes": (np.float32([2]), None, {}, "for each of the 2 axes"),
    "nothing": (np.float32([0.1, 1]), None, {}, "no elements"),
    "mode": (np.float32([2, 2]), None, {"mode": "square"}, "a mode 'square'"),
    "nearest": (np.float32([2, 2]), None, {"nearest_mode": "up"}, "a nearest_mode 'up'"),
    "coordinates": (np.float32([2, 2]), None, {"coordinate_transformation_mode": "mine"}, "'mine'"),
    "half-way": (np.float32([1, 2.3]), None, {}, "half-way between two"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    scales, sizes, attributes, message = REFUSED[name]
    with pytest.raises(Unmapped, match=message):
        resized(X, None, scales, sizes, attributes, ROOM)


# --- at points -------------------------------------------------------------------------------------------


def padded(place, size, padding, corners):
    """A place in an axis; None for nothing."""
    if padding == "zeros":
        return place if 0 <= place < size else None
    if padding == "border":
        return min(max(place, 0), size - 1)
    low, high = (0, size - 1) if corners else (-0.5, size - 0.5)
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return min(max(round(place), 0), size - 1)


def point(image, row, column, padding, corners):
    """A sum of the sixteen elements around a point."""
    total = 0.0
    for i, j in itertools.product(range(-1, 3), repeat=2):
        places = math.floor(row) + i, math.floor(column) + j
        weights = [weight("cubic", abs(p - at), -0.75) for p, at in zip(places, (row, column), strict=True)]
        found = [padded(p, size, padding, corners) for p, size in zip(places, image.shape, strict=True)]
        if None not in found:
            total += weights[0] * weights[1] * image[found[0], found[1]]
    return total


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_samples_at_points(padding, corners):
    x, grid = normal(2, 3, 4, 5), normal(2, 6, 3, 2, seed=1)
    attributes = {"mode": "cubic", "padding_mode": padding, "align_corners": corners}
    y = sampled(x, grid, attributes)
    expected = np.empty((2, 3, 6, 3))
    for n, c, i, j in np.ndindex(expected.shape):
        column, row = grid[n, i, j].astype("f8")
        at = [
            (value + 1) / 2 * (size - 1) if corners else ((value + 1) * size - 1) / 2
            for value, size in ((row, 4), (column, 5))
        ]
        expected[n, c, i, j] = point(x[n, c].astype("f8"), *at, padding, corners)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_samples_that_are_refused():
    x, grid = normal(1, 1, 4, 4), normal(1, 2, 2, 2)
    for attributes, message in (
        ({"mode": "linear"}, "mode 'linear'"),
        ({"mode": "cubic", "padding_mode": "x"}, "'x'"),
    ):
        with pytest.raises(Unmapped, match=message):
            sampled(x, grid, attributes)
    with pytest.raises(Unmapped, match="no elements"):
        sampled(x[:0], grid[:0], {"mode": "cubic"})
