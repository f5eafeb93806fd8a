"""Conversion between f16 and f32, by the CPU's instructions and by integer operations, against NumPy."""

import ctypes
import mmap
import sys

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_graph.backends.onednn.library import f16c, half
from onednn_graph.backends.onednn.plan.steps import HostArray

ALL_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE_HALVES = ALL_HALVES[np.isfinite(ALL_HALVES)]


@pytest.fixture(params=["instructions", "integers"])
def way(request, monkeypatch):
    """Both ways; the second as on a machine that lacks the first."""
    if request.param == "integers":
        monkeypatch.setattr(f16c, "load", lambda: None)
    elif f16c.load() is None:
        pytest.skip("this CPU has no F16C, or this system gives no executable memory")
    return request.param


def widened(halves):
    result = np.full(halves.shape, 7, np.float32)
    half.widen(halves, result)
    return result


def narrowed(singles):
    result = np.full(singles.shape, 7, np.float16)
    half.narrow(singles, result)
    return result


def same_bits(got, expected):
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(got), nan)
    bits = f"u{got.itemsize}"
    assert np.array_equal(got.view(bits)[~nan], expected.view(bits)[~nan])


@pytest.mark.parametrize("halves", [ALL_HALVES, FINITE_HALVES, np.tile(FINITE_HALVES, 3)[:100_003]])
def test_every_f16_becomes_the_f32_that_numpy_makes_of_it(way, halves):
    same_bits(widened(halves), halves.astype(np.float32))


def test_every_f16_survives_the_way_there_and_back(way):
    same_bits(narrowed(widened(ALL_HALVES)), ALL_HALVES)


@pytest.mark.parametrize("apart", [-1, 0, 1])
@pytest.mark.parametrize("added", [0, 1 << 11, 1 << 12, 3 << 11])
def test_numbers_at_and_beside_halfway_points_round_to_even(way, apart, added):
    bits = widened(FINITE_HALVES).view(np.uint32).astype(np.int64) + added + apart
    singles = bits.clip(0, 2**32 - 1).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = singles.astype(np.float16)
    same_bits(narrowed(singles), expected)


@pytest.mark.parametrize("largest", [65504.0, 65519.996, 65520.0, 65536.0, np.inf, np.nan])
def test_what_an_f16_cannot_hold_becomes_infinite_as_in_numpy(way, largest):
    singles = np.linspace(-1, 1, 4096, dtype=np.float32)
    singles[[5, 4090]] = largest, -largest
    with np.errstate(all="ignore"):
        expected = singles.astype(np.float16)
    same_bits(narrowed(singles), expected)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(0, 3 * half.PIECE),
    seed=st.integers(0, 2**32 - 1),
    narrow=st.booleans(),
    pieces=st.booleans(),
)
def test_random_bits_of_any_length_convert_as_in_numpy(size, seed, narrow, pieces):
    random = np.random.default_rng(seed)
    source = random.integers(0, 2 ** (32 if narrow else 16), size, np.uint32)
    source = source.view(np.float32) if narrow else source.astype(np.uint16).view(np.float16)
    result = np.empty(size, np.float16 if narrow else np.float32)
    if pieces:
        (half.narrow_by_pieces if narrow else half.widen_by_pieces)(source, result)
    else:
        (half.narrow if narrow else half.widen)(source, result)
    with np.errstate(all="ignore"):
        same_bits(result, source.astype(result.dtype))


def test_nothing_is_written_beside_the_target(way):
    room = np.full(10_000, 3, np.float32)
    half.widen(FINITE_HALVES[:5_005], room[1_001:6_006])
    assert (room[:1_001] == 3).all()
    assert (room[6_006:] == 3).all()
    same_bits(room[1_001:6_006], FINITE_HALVES[:5_005].astype(np.float32))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("step", [1, 2])
def test_arrays_of_any_strides_are_cast(way, order, step):
    source = (
        np.random.default_rng(0).standard_normal((12, 40, 30)).astype(np.float16).transpose(order)[::step]
    )
    target = np.empty((12, 40, 30), np.float32).transpose(order)[::step]
    half.cast([source], [target])
    assert np.array_equal(target, source.astype(np.float32))
    back = np.empty((12, 40, 30), np.float16).transpose(order)[::step]
    half.cast([target], [back])
    assert np.array_equal(back, source)


def test_arrays_of_another_byte_order_are_cast(way):
    source = FINITE_HALVES.astype(">f2")
    target = np.empty(source.shape, np.float32)
    half.cast([source], [target])
    assert np.array_equal(target, source.astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((4, 6), (6, 1), True),
        ((4, 6), (1, 4), True),
        ((4, 1, 6), (6, 99, 1), True),
        ((4, 6), (8, 1), False),
        ((4, 6), (12, 2), False),
        ((), (), True),
        ((2, 3, 4), (12, 1, 3), True),
        ((2, 3, 4), (12, 1, 4), False),
    ],
)
def test_what_lies_without_gaps_is_flat(shape, strides, dense):
    flat = HostArray(np.dtype(np.float16), shape, tuple(2 * s for s in strides)).flat
    assert (flat is not None) == dense
    if flat is not None:
        assert flat.shape == (np.prod(shape, dtype=int),)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("gap", [0, 3])
def test_f16_weight_gradients_of_any_layout_are_exact(way, data_format, gap):
    random = np.random.default_rng(0)
    shape = (2, 16, 12, 12) if data_format == "NCX" else (2, 12, 12, 16)
    room = random.integers(-2, 3, (2, *shape[:-1], shape[-1] + gap)).astype(np.float16)
    x, dy = room[..., : shape[-1]]
    attributes = {
        "data_format": data_format,
        "weights_format": "OIX",
        "weights_shape": [16, 16, 3, 3],
        "strides": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "dilations": [1, 1],
    }
    expected = og.convolution_backward_weights(x, dy, backend="numpy", **attributes)
    assert np.array_equal(og.convolution_backward_weights(x, dy, **attributes), expected)


def test_a_thread_that_flushes_subnormals_still_gets_them(way):
    if sys.platform != "linux":
        pytest.skip("the control word is set through glibc")
    fenv = ctypes.create_string_buffer(64)
    libm = ctypes.CDLL("libm.so.6")
    libm.fegetenv(fenv)
    changed = bytearray(fenv.raw)
    control = int.from_bytes(changed[28:32], "little") | 0x8040  # flush to zero, subnormals are zero
    changed[28:32] = control.to_bytes(4, "little")
    halves = np.full(5_000, 3, np.uint16).view(np.float16)
    expected = halves.astype(np.float32)
    try:
        libm.fesetenv(bytes(changed))
        result = widened(halves)
    finally:
        libm.fesetenv(fenv)
    assert np.array_equal(result, expected)


def test_without_executable_memory_integers_do_it(monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("no executable memory here")

    monkeypatch.setattr(mmap, "mmap", refuse)
    f16c.load.cache_clear()
    try:
        assert f16c.load() is None
        same_bits(widened(FINITE_HALVES), FINITE_HALVES.astype(np.float32))
    finally:
        monkeypatch.undo()
        f16c.load.cache_clear()
