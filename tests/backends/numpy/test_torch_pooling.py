"""Each op's NumPy kernel against torch on the CPU: pooling and interpolation."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import (
    from_ncx,
    pads,
    to_ncx,
)
from torch_oracle import (
    DATA_FORMATS,
    FLOATS,
    SEEDS,
    close,
    equal,
    exact_tensor,
    functional,
    gradients,
    integers,
    normal,
    run,
    run_with_operand,
    torch,
    tuples,
)

pytestmark = pytest.mark.usefixtures("one_thread")


# --- pooling ------------------------------------------------------------------------------------------

MAX_POOL = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}

AVERAGE_POOL = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """A pooling of (batch, channels, size)."""

    batch: int
    channels: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...] | None
    begin: tuple[int, ...]
    end: tuple[int, ...]
    auto_pad: str
    ceil: bool
    exclude_pad: bool
    data_format: str
    dtype: str
    whole: bool
    seed: int

    @property
    def rank(self):
        return len(self.size)

    @property
    def extent(self):
        dilations = self.dilations or (1,) * self.rank
        return [d * (k - 1) + 1 for d, k in zip(dilations, self.kernel, strict=True)]

    @property
    def pads(self):
        return pads(
            self.auto_pad,
            self.begin,
            self.end,
            self.size,
            self.kernel,
            self.strides,
            self.dilations or (1,) * self.rank,
            False,
        )

    @property
    def out(self):
        sizes = []
        for n, (begin, end), extent, stride in zip(
            self.size, self.pads, self.extent, self.strides, strict=True
        ):
            # Every start that leaves room for a window; with ceil, every start in data or in the front pads.
            starts = range(0, n + begin + end, stride)
            whole = [s for s in starts if s + extent <= n + begin + end]
            beyond = starts[len(whole) :][:1] if self.ceil else []
            beyond = [s for s in beyond if whole[-1] + extent < n + begin + end and s < n + begin]
            sizes.append(len(whole) + len(beyond))
        return tuple(sizes)

    def padded(self, x, value):
        """x with pads, and with as many more behind as the last window needs; negative pads cut off."""
        around = []
        for n, (begin, end), extent, stride, out in zip(
            self.size, self.pads, self.extent, self.strides, self.out, strict=True
        ):
            more = max(0, (out - 1) * stride + extent - (n + begin + end))
            around = [begin, end + more, *around]
        return functional.pad(x, around, value=value)

    def cut(self, y):
        return y[(..., *map(slice, self.out))]

    def largest(self, x):
        x = self.padded(x, -math.inf)
        return self.cut(MAX_POOL[self.rank](x, self.kernel, self.strides, 0, self.dilations or 1))

    def sums(self, x):
        size = math.prod(self.kernel)
        return self.cut(AVERAGE_POOL[self.rank](self.padded(x, 0), self.kernel, self.strides)) * size

    def divisor(self):
        """The number of elements that each average has: those in src, or the whole window, as the documents say."""
        if not self.exclude_pad:
            return torch.tensor(float(math.prod(self.kernel)), dtype=torch.float64)
        return self.sums(torch.ones(1, 1, *self.size, dtype=torch.float64)).round()

    def average(self, x):
        return self.sums(x) / self.divisor()

    def data(self, array):
        return from_ncx(array, self.data_format)

    def arrays(self):
        """src and the gradient of dst, as (N, C, X)."""
        rng = np.random.default_rng(self.seed)
        make = integers if self.whole else normal
        lead = (self.batch, self.channels)
        return make(rng, (*lead, *self.size), self.dtype), make(rng, (*lead, *self.out), self.dtype)

    def attributes(self, kind):
        given = {
            "kernel": list(self.kernel),
            "strides": list(self.strides),
            "pads_begin": list(self.begin),
            "pads_end": list(self.end),
            "auto_pad": self.auto_pad,
            "data_format": self.data_format,
        }
        if kind.startswith("Avg"):
            given["exclude_pad"] = self.exclude_pad
        elif self.dilations is not None:
            given["dilations"] = list(self.dilations)
        if not kind.endswith("Backward"):
            given["rounding_type"] = "ceil" if self.ceil else "floor"
        return given


@st.composite
def poolings(draw, average):
    rank = draw(st.integers(1, 3))
    kernel, strides = (draw(tuples(rank, 1, 4 if rank < 3 else 3)) for _ in range(2))
    dilations = None if average else draw(st.none() | tuples(rank, 1, 3))
    begin, end = (draw(tuples(rank, -2, 3)) for _ in range(2))  # negative ones cut off
    size = draw(tuples(rank, 1, {1: 10, 2: 7, 3: 5}[rank]))
    auto_pad = draw(st.sampled_from(["None", "None", "SAME_UPPER", "SAME_LOWER", "VALID", "same_upper"]))
    extent = [d * (k - 1) + 1 for d, k in zip(dilations or (1,) * rank, kernel, strict=True)]
    ceil = draw(st.booleans())
    if ceil:  # what ceil adds behind a cut is in the table of edges
        end = tuple(max(0, n) for n in end)
    # A window has an element of src in it, so pads stay below its extent.
    begin, end = (tuple(min(n, e - 1) for n, e in zip(side, extent, strict=True)) for side in (begin, end))
    lacking = [e - (0 if auto_pad == "VALID" else b + f) for e, b, f in zip(extent, begin, end, strict=True)]
    return Pooling(
        batch=draw(st.integers(1, 2)),
        channels=draw(st.integers(1, 3)),
        size=tuple(max(n, missing) for n, missing in zip(size, lacking, strict=True)),
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        begin=begin,
        end=end,
        auto_pad=auto_pad,
        ceil=ceil,
        exclude_pad=draw(st.booleans()),
        data_format=draw(st.sampled_from(DATA_FORMATS)),
        dtype=draw(st.sampled_from(FLOATS)),
        whole=draw(st.booleans()),
        seed=draw(SEEDS),
    )


@settings(max_examples=100)
@given(poolings(average=False))
def test_max_pool(p):
    x, _ = p.arrays()
    result = run("MaxPool", p.data(x), **p.attributes("MaxPool"))
    exact = p.largest(exact_tensor(x))
    assert tuple(exact.shape[2:]) == p.out
    close(to_ncx(result, p.data_format), exact, p.dtype, scale=0)


@settings(max_examples=100)
@given(poolings(average=False))
def test_max_pool_backward(p):
    """Small integers have many ties; torch too gives all to the first."""
    x, dy = p.arrays()
    (exact,) = gradients(p.largest, [exact_tensor(x)], exact_tensor(dy))
    (scale,) = gradients(p.largest, [exact_tensor(x)], exact_tensor(dy).abs())
    result = to_ncx(
        run("MaxPoolBackward", p.data(x), p.data(dy), **p.attributes("MaxPoolBackward")), p.data_format
    )
    if p.whole:
        equal(result, exact, p.dtype)
    else:
        close(result, exact, p.dtype, terms=math.prod(p.kernel), scale=scale)


@settings(max_examples=100)
@given(poolings(average=True))
def test_avg_pool(p):
    x, _ = p.arrays()
    assume(bool((p.divisor() > 0).all()))
    result = run("AvgPool", p.data(x), **p.attributes("AvgPool"))
    exact, scale = p.average(exact_tensor(x)), p.average(exact_tensor(x).abs())
    assert tuple(exact.shape[2:]) == p.out
    close(to_ncx(result, p.data_format), exact, p.dtype, terms=math.prod(p.kernel) + 1, scale=scale)


@settings(max_examples=100)
@given(poolings(average=True), st.sampled_from(["attribute", "input", "both"]))
def test_avg_pool_backward(p, way):
    x, dy = p.arrays()
    assume(bool((p.divisor() > 0).all()))
    (exact,) = gradients(p.average, [exact_tensor(x)], exact_tensor(dy))
    (scale,) = gradients(p.average, [exact_tensor(x)], exact_tensor(dy).abs())
    shape, attributes = p.data(x).shape, p.attributes("AvgPoolBackward")
    if way == "attribute":
        result = run("AvgPoolBackward", p.data(dy), src_shape=list(shape), **attributes)
    else:
        more = {"src_shape": [n + 7 for n in shape]} if way == "both" else {}
        result = run_with_operand("AvgPoolBackward", [p.data(dy)], shape, **more, **attributes)
    close(to_ncx(result, p.data_format), exact, p.dtype, terms=math.prod(p.kernel) + 1, scale=scale)


@settings(max_examples=60)
@given(st.integers(1, 3), st.data())
def test_ceil_is_that_of_torch(rank, data):
    """torch's own ceil mode, which it has for symmetric pads of at most half a window.

    Averages that count the padding are left out: torch counts less of a window that ceil adds than the documents say.
    """
    kernel, strides = (data.draw(tuples(rank, 1, 4)) for _ in range(2))
    around = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    size = data.draw(tuples(rank, 4, 8 if rank < 3 else 5))
    x = np.random.default_rng(data.draw(SEEDS)).standard_normal((1, 2, *size))
    given_ = {
        "kernel": list(kernel),
        "strides": list(strides),
        "pads_begin": list(around),
        "pads_end": list(around),
        "rounding_type": "ceil",
        "data_format": "NCX",
    }
    close(
        run("MaxPool", x, **given_),
        MAX_POOL[rank](torch.tensor(x), kernel, strides, around, ceil_mode=True),
        "f64",
        scale=0,
    )
    exact, scale = (
        AVERAGE_POOL[rank](v, kernel, strides, around, ceil_mode=True, count_include_pad=False)
        for v in (torch.tensor(x), torch.tensor(x).abs())
    )
    result = run("AvgPool", x, exclude_pad=True, **given_)
    close(result, exact, "f64", terms=math.prod(kernel) + 1, scale=scale)


# --- interpolation ------------------------------------------------------------------------------------

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True, kw_only=True)
class Resizing:
    """An interpolation of (2, 2, size) to `sizes`."""

    size: tuple[int, ...]
    sizes: tuple[int, ...]
    mode: str
    align: bool
    data_format: str
    dtype: str
    way: str
    seed: int

    @property
    def attributes(self):
        return {
            "mode": self.mode,
            "coordinate_transformation_mode": "align_corners" if self.align else "half_pixel",
            "data_format": self.data_format,
        }

    def forward(self, x):
        if self.mode != "nearest":
            mode = LINEAR[len(self.size)]
            return functional.interpolate(x, self.sizes, mode=mode, align_corners=self.align)
        for axis, (n, m) in enumerate(zip(self.size, self.sizes, strict=True), 2):
            # round(p), halves upwards, in whole numbers
            if self.align:
                at = [(2 * p * (n - 1) + m - 1) // (2 * (m - 1)) if m > 1 else 0 for p in range(m)]
            else:
                at = [(2 * p + 1) * n // (2 * m) for p in range(m)]
            x = x.index_select(axis, torch.tensor(at))
        return x

    def run(self, kind, *arrays):
        arrays = [from_ncx(a, self.data_format) for a in arrays]
        if self.way == "input":
            result = run_with_operand(kind, arrays, self.sizes, **self.attributes)
        elif self.way == "scales":
            scales = [m / n for n, m in zip(self.size, self.sizes, strict=True)]
            assume(all(math.floor(n * s) == m for n, s, m in zip(self.size, scales, self.sizes, strict=True)))
            result = run(kind, *arrays, scales=scales, **self.attributes)
        else:
            result = run(kind, *arrays, sizes=list(self.sizes), **self.attributes)
        return to_ncx(result, self.data_format)


@st.composite
def resizings(draw):
    rank = draw(st.integers(1, 3))
    largest = {1: 12, 2: 7, 3: 4}[rank]
    return Resizing(
        size=draw(tuples(rank, 1, largest)),
        sizes=draw(tuples(rank, 1, largest)),
        mode=draw(st.sampled_from(["nearest", "linear", "bilinear", "trilinear"])),
        align=draw(st.booleans()),
        data_format=draw(st.sampled_from(DATA_FORMATS)),
        dtype=draw(st.sampled_from(FLOATS)),
        way=draw(st.sampled_from(["sizes", "scales", "input"])),
        seed=draw(SEEDS),
    )


@settings(max_examples=120)
@given(resizings())
def test_interpolate(p):
    x = normal(np.random.default_rng(p.seed), (2, 2, *p.size), p.dtype)
    exact, scale = p.forward(exact_tensor(x)), p.forward(exact_tensor(x).abs())
    # Coordinates are in f32 too, so weights are as good as a coordinate's last digit.
    terms = 0 if p.mode == "nearest" else 4 * len(p.size) + 2 * sum(p.size)
    close(p.run("Interpolate", x), exact, p.dtype, terms=terms, scale=scale)


@settings(max_examples=120)
@given(resizings())
def test_interpolate_backward(p):
    rng = np.random.default_rng(p.seed)
    x, dy = normal(rng, (2, 2, *p.size), p.dtype), normal(rng, (2, 2, *p.sizes), p.dtype)
    (exact,) = gradients(p.forward, [exact_tensor(x)], exact_tensor(dy))
    (scale,) = gradients(p.forward, [exact_tensor(x)], exact_tensor(dy).abs())
    result = p.run("InterpolateBackward", x, dy)
    close(result, exact, p.dtype, terms=4 * len(p.size) + 2 * sum(p.size) + math.prod(p.sizes), scale=scale)


@settings(max_examples=40)
@given(tuples(2, 1, 9), tuples(2, 1, 9), SEEDS)
def test_nearest_is_torchs_exact_one(size, sizes, seed):
    """torch computes coordinates in f32, so sizes whose coordinates are exact halves are left out."""
    assume(all((2 * p + 1) * n % (2 * m) for n, m in zip(size, sizes, strict=True) for p in range(m)))
    x = np.random.default_rng(seed).standard_normal((1, 2, *size))
    exact = functional.interpolate(torch.tensor(x), sizes, mode="nearest-exact")
    result = run("Interpolate", x, mode="nearest", sizes=list(sizes), data_format="NCX")
    np.testing.assert_array_equal(result, exact)
