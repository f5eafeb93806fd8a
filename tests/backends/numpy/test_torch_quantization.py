"""Each op's NumPy kernel against torch on the CPU: quantisation and Dropout."""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.backends.numpy.dropout import philox
from oracle import (
    DTYPES,
)
from torch_oracle import SEEDS, close, exact_tensor, normal, run, same_bits, tensors, torch

pytestmark = pytest.mark.usefixtures("one_thread")


# --- quantisation -------------------------------------------------------------------------------------

QUANTIZED = {
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "s32": np.dtype(np.int32),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

RANGES = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}

FLOAT8 = {"f8_e4m3": (torch.float8_e4m3fn, 448.0), "f8_e5m2": (torch.float8_e5m2, 57344.0)}


def quantized(values, target):
    """float64 → the numbers that `target` has for them, rounded half to even and saturated."""
    if target in FLOAT8:
        float8, largest = FLOAT8[target]
        return values.clamp(-largest, largest).float().to(float8).double()
    return torch.round(values).clamp(*RANGES[target])


def check_quantized(result, exact, target):
    """Equal, but for what lies so near to a border that the roundings of the f32 division decide."""
    assert result.dtype == QUANTIZED[target]
    assert result.shape == exact.shape
    margin = 2.0**-21 * (1 + exact.abs())
    below, above = quantized(exact - margin, target), quantized(exact + margin, target)
    sure = (below == above).numpy()
    values = result.astype(np.float64)
    np.testing.assert_array_equal(values[sure], quantized(exact, target).numpy()[sure])
    assert ((values == below.numpy()) | (values == above.numpy())).all()
    assert sure.mean() > 0.9 or sure.size < 20


@dataclass(frozen=True)
class Scaling:
    """Scales and zero points, as attributes or inputs have them, and as they broadcast."""

    scales: np.ndarray
    zps: np.ndarray
    view: tuple[int, ...]

    def exact(self, values):
        return torch.tensor(values.astype(np.float64)).reshape(self.view)


@st.composite
def scalings(draw, shape, zero_points=(-20, 20)):
    """(scaling, qtype and axis)"""
    rng = np.random.default_rng(draw(SEEDS))
    per_channel = draw(st.booleans())
    axis = draw(st.integers(-len(shape), len(shape) - 1)) if per_channel else 0
    count = shape[axis] if per_channel else 1
    if draw(st.booleans()):
        scales = np.ldexp(1.0, rng.integers(-6, 2, count)).astype(np.float32)
    else:
        scales = (0.01 + rng.random(count) / 4).astype(np.float32)
    zps = rng.integers(zero_points[0], zero_points[1] + 1, count)
    view = (
        tuple(count if a == axis % len(shape) else 1 for a in range(len(shape)))
        if per_channel
        else (1,) * len(shape)
    )
    given_ = {"qtype": "per_channel", "axis": axis} if per_channel else {}
    if not per_channel and draw(st.booleans()):
        given_ = {"qtype": "per_tensor", "axis": draw(st.integers(0, len(shape) - 1))}
    elif per_channel and axis == 1 and draw(st.booleans()):
        del given_["axis"]  # the default
    return Scaling(scales, zps, view), given_


@pytest.mark.parametrize("target", ["s8", "u8", "f8_e4m3", "f8_e5m2"])
@settings(max_examples=50)
@given(tensors(dtypes=("f32",)), st.data())
def test_quantize(target, drawn, data):
    shape, _, rng = drawn
    scaling, given_ = data.draw(scalings(shape))
    # Many values beyond the range, many halves
    x = normal(rng, shape, "f32", data.draw(st.sampled_from([1.0, 20.0, 3000.0])))
    halves = bool((np.frexp(scaling.scales)[0] == 0.5).all()) and data.draw(st.booleans())
    if halves:
        x = np.rint(x * 2) / 2 * scaling.exact(scaling.scales).numpy().astype(np.float32)
    with_zps = target not in FLOAT8 and data.draw(st.booleans())
    more = {"zps": scaling.zps.tolist()} if with_zps else {}
    result = run("Quantize", x, scales=scaling.scales.tolist(), output_type=target, **more, **given_)
    exact = torch.tensor(x.astype(np.float64)) / scaling.exact(scaling.scales)
    exact = exact + (scaling.exact(scaling.zps) if with_zps else 0)
    if halves:  # no rounding but the last
        assert result.dtype == QUANTIZED[target]
        np.testing.assert_array_equal(result.astype(np.float64), quantized(exact, target))
    else:
        check_quantized(result, exact, target)


def any_quantized(rng, shape, dtype):
    """Any number of a quantised type."""
    if dtype in FLOAT8:
        return np.clip(rng.standard_normal(shape) * 50, -400, 400).astype(QUANTIZED[dtype])
    low, high = RANGES[dtype]
    return rng.integers(low, high + 1, shape).astype(QUANTIZED[dtype])


@pytest.mark.parametrize("dtype", ["s8", "u8", "f8_e4m3", "f8_e5m2"])
@settings(max_examples=40)
@given(tensors(dtypes=("f32",)), st.data())
def test_dequantize(dtype, drawn, data):
    shape, _, rng = drawn
    scaling, given_ = data.draw(scalings(shape))
    x = any_quantized(rng, shape, dtype)
    with_zps = dtype not in FLOAT8 and data.draw(st.booleans())
    more = {"zps": scaling.zps.tolist()} if with_zps else {}
    result = run("Dequantize", x, scales=scaling.scales.tolist(), **more, **given_)
    shifted = exact_tensor(x) - (scaling.exact(scaling.zps) if with_zps else 0)
    close(result, shifted * scaling.exact(scaling.scales), "f32", terms=1)


@pytest.mark.parametrize("target", ["s8", "u8"])
@pytest.mark.parametrize("zps", [None, "s8", "u8", "s32"])
@settings(max_examples=30)
@given(tensors(dtypes=("f32",)), st.data())
def test_dynamic_quantize(target, zps, drawn, data):
    shape, _, rng = drawn
    scaling, given_ = data.draw(scalings(shape, (0, 20) if zps == "u8" else (-20, 20)))
    x = normal(rng, shape, "f32", data.draw(st.sampled_from([1.0, 20.0, 3000.0])))
    inputs = [x, scaling.scales, *([] if zps is None else [scaling.zps.astype(QUANTIZED[zps])])]
    result = run("DynamicQuantize", *inputs, output_type=target, **given_)
    exact = torch.tensor(x.astype(np.float64)) / scaling.exact(scaling.scales)
    check_quantized(result, exact + (0 if zps is None else scaling.exact(scaling.zps)), target)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s4", "u4"])
@settings(max_examples=60)
@given(tensors(dtypes=("f32", "bf16", "f16")), st.data())
def test_dynamic_dequantize(dtype, drawn, data):
    """Of a tensor, per channel, and per group, with zero points of any type or none."""
    shape, target, rng = drawn
    zps_type = data.draw(st.sampled_from([None, "s4", "u4", "s8", "u8", "s32"]))
    low, high = RANGES.get(zps_type, (-20, 20))
    if data.draw(st.booleans()):
        scaling, given_ = data.draw(scalings(shape, (low, high)))
    else:
        group = [data.draw(st.sampled_from([g for g in range(1, n + 1) if n % g == 0])) for n in shape]
        view = tuple(n // g for n, g in zip(shape, group, strict=True))
        scales, zps = rng.random(view) + 0.01, rng.integers(low, high + 1, view)
        scaling, given_ = Scaling(scales, zps, view), {"qtype": "per_group", "group_shape": group}
    scales = scaling.scales.astype(DTYPES[target])
    x = any_quantized(rng, shape, dtype)
    inputs = [x, scales, *([] if zps_type is None else [scaling.zps.astype(QUANTIZED[zps_type])])]
    result = run("DynamicDequantize", *inputs, **given_)

    def whole(values):
        values = scaling.exact(values)
        for axis, n in enumerate(shape):
            if values.shape[axis] != n:
                values = values.repeat_interleave(n // values.shape[axis], axis)
        return values

    shifted = exact_tensor(x) - (0 if zps_type is None else whole(scaling.zps))
    close(result, shifted * whole(scales), target, terms=1)


# --- Dropout ------------------------------------------------------------------------------------------


def philox_4x32_10(counter, key):
    """Philox 4×32-10 of Salmon et al. (2011), with Python's integers."""
    c, k = list(counter), list(key)
    for step in range(10):
        if step:
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second % 2**32, first >> 32 ^ c[3] ^ k[1], first % 2**32]
    return c


ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "numbers"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_published_vectors_of_philox(counter, key, numbers):
    """Those that the authors publish with Random123, kat_vectors."""
    assert philox_4x32_10(counter, key) == numbers


def test_the_kernel_has_the_published_vector():
    assert philox(4, 0, 0).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@settings(max_examples=40)
@given(st.integers(0, 50), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_the_kernels_random_numbers(count, seed, offset):
    """Four of each counter: the offset's two words, then those of the first one's position."""
    expected = []
    for position in range(0, count, 4):
        counter = [offset % 2**32, offset >> 32, position % 2**32, position >> 32]
        expected += philox_4x32_10(counter, [seed % 2**32, seed >> 32])
    assert philox(count, seed, offset).tolist() == expected[:count]


def drop(x, seed, offset, probability, **more):
    return run("Dropout", x, np.int64(seed), np.int64(offset), np.float32(probability), outputs=2, **more)


S64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60)
@given(tensors(), S64, S64, st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.sampled_from([(), (1,)]))
def test_dropout(drawn, seed, offset, probability, scalar):
    shape, dtype, rng = drawn
    x = normal(rng, shape, dtype)
    numbers = (
        np.asarray(v, t).reshape(scalar)
        for v, t in ((seed, np.int64), (offset, np.int64), (probability, np.float32))
    )
    dst, mask = run("Dropout", x, *numbers, outputs=2)
    # The mask: random numbers above the share of their range
    p = float(np.float32(probability))
    random = []
    for position in range(0, x.size, 4):
        words = [offset % 2**32, (offset >> 32) % 2**32, position, 0]
        random += philox_4x32_10(words, [seed % 2**32, (seed >> 32) % 2**32])
    stays = np.array(random[: x.size]).reshape(shape) > math.floor(p * (2**32 - 1))
    assert mask.dtype == np.uint8
    np.testing.assert_array_equal(mask, stays)
    factor = 1 / (1 - p) if p < 1 else 0.0
    close(dst, np.where(stays, x.astype(np.float64) * factor, 0), dtype, terms=2)
    # and nothing else decides
    again = drop(x, seed, offset, probability)
    np.testing.assert_array_equal(again[1], mask)
    same_bits(again[0], dst)
    same_bits(
        run("Dropout", x, *map(np.asarray, (np.int64(seed), np.int64(offset), np.float32(probability)))), dst
    )


def test_a_random_number_that_is_the_threshold_drops():
    """mask = PRNG > P, so what is equal is dropped. A number ending in 0xFF is the threshold of an f32 share."""
    numbers = np.array([n for i in range(0, 4000, 4) for n in philox_4x32_10([7, 0, i, 0], [5, 0])])
    at = int(np.flatnonzero((numbers % 256 == 255) & (numbers >= 2**31))[0])
    probability = (int(numbers[at]) + 1) / 2**32
    assert float(np.float32(probability)) == probability
    assert math.floor(probability * (2**32 - 1)) == numbers[at]
    _, mask = drop(np.ones(4000, np.float32), 5, 7, probability)
    assert mask[at] == 0
    _, mask = drop(np.ones(4000, np.float32), 5, 7, probability - 2.0**-24)
    assert mask[at] == 1


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.8])
def test_the_share_that_dropout_drops(probability):
    """Within five standard deviations, over all and in each residue of the position."""
    x = np.ones((100, 1000), np.float32)
    _, mask = drop(x, 12, 34, probability)
    for part in (mask, *(mask.reshape(-1)[i::4] for i in range(4))):
        assert abs(part.mean() - (1 - probability)) < 5 * math.sqrt(
            probability * (1 - probability) / part.size
        )
    dst, _ = drop(x, 12, 34, probability)
    assert abs(dst.mean() - 1) < 5 * math.sqrt(probability / (1 - probability) / x.size)


@pytest.mark.parametrize(("seed", "offset"), [(13, 34), (12, 35), (12 + 2**32, 34), (12, 34 + 2**32)])
def test_another_seed_or_offset_gives_another_mask(seed, offset):
    x = np.ones(4000, np.float32)
    one, other = drop(x, 12, 34, 0.5)[1], drop(x, seed, offset, 0.5)[1]
    assert abs((one == other).mean() - 0.5) < 5 * 0.5 / math.sqrt(x.size)
