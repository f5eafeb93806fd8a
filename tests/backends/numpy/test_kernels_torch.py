"""Each op's NumPy kernel against torch on the CPU, which computes in float64 from the very values that the kernel gets.

A result may be off by half a unit of its type, for the one rounding at the end, and by what the arithmetic before it
costs: kernels compute in f32, in f64 for f64, so that is a number of roundings, mostly the number of summands, times
2⁻²⁴ or 2⁻⁵³ times the size of what is summed. Sums of small integers have no error before the rounding, so those must
be equal to the last bit.
"""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onednn_graph.backends.numpy.dropout import philox
from onednn_graph.graph.model.builder import snake_case
from oracle import (
    DTYPES,
    SIGNIFICANT_BITS,
    from_ncx,
    in_convolution_format,
    in_transposed_format,
    pads,
    rounded,
    to_ncx,
)

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
functional = torch.nn.functional

FLOATS = ("f32", "f64", "bf16", "f16")
SMALLEST_EXPONENT = {"f32": -126, "bf16": -126, "f16": -14, "f64": -1022}
SEEDS = st.integers(0, 2**32 - 1)
DATA_FORMATS = ("NXC", "NCX")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads cost ten times what they give on tensors as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# --- how results are compared -------------------------------------------------------------------------


def roundoff(*dtypes):
    """The relative error of one operation in the type that kernels compute in."""
    return 2.0 ** -(53 if "f64" in dtypes else 24)


def half_unit(values, dtype):
    """Half the distance of neighbouring numbers of `dtype` around each value."""
    exponent = np.frexp(np.abs(values))[1] - 1
    exponent = np.maximum(np.where(values == 0, -10_000, exponent), SMALLEST_EXPONENT[dtype])
    return np.ldexp(0.5, exponent - SIGNIFICANT_BITS[dtype] + 1)


def close(result, exact, dtype, *, terms=0, scale=None, slack=0, compute=None):
    """Asserts that `result` is `exact` up to one rounding to `dtype` and `terms` roundings of numbers like `scale`.

    Args:
        exact: a float64 tensor or array.
        scale: of each element; |exact| if None.
        slack: more error that each element may have.
        compute: data types that the kernel saw, where `dtype` does not tell what it computes in.
    """
    exact = np.asarray(exact, np.float64)
    assert result.dtype == DTYPES[dtype]
    assert result.shape == exact.shape
    values = result.astype(np.float64)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(values[~finite], exact[~finite])
    assert np.isfinite(values[finite]).all()
    scale = np.abs(exact) if scale is None else np.asarray(scale)
    u = roundoff(*(compute or (dtype,)))
    # torch's own float64 roundings are as many again, which only f64 can see.
    error = terms * u * (2 if u < 1e-10 else 1) * scale + np.asarray(slack) + 2.0**-148
    allowed = half_unit(np.maximum(np.abs(values), np.abs(exact)), dtype) + error
    off = np.abs(values - np.where(finite, exact, 0)) > allowed
    off &= finite
    if off.any():
        at = tuple(np.argwhere(off)[0])
        allowed = np.broadcast_to(allowed, exact.shape)
        raise AssertionError(
            f"{int(off.sum())} of {off.size} elements are off, first at {[int(i) for i in at]}: {values[at]!r} "
            f"instead of {exact[at]!r}, which may differ by {allowed[at]:.3g}"
        )


def equal(result, exact, dtype):
    """Asserts that `result` is `exact` rounded once."""
    expected = rounded(np.asarray(exact, np.float64), dtype)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


def normal(rng, shape, dtype, spread=1.0):
    """Random numbers, rounded to `dtype`."""
    return (spread * rng.standard_normal(shape)).astype(DTYPES[dtype])


def integers(rng, shape, dtype):
    """Small integers, whose products and sums are exact in f32."""
    return rng.integers(-3, 4, shape).astype(DTYPES[dtype])


def exact_tensor(array):
    """The array's values in float64, as a tensor of its own."""
    return torch.tensor(np.asarray(array).astype(np.float64))


def run(kind, *arrays, **attributes):
    """One op eagerly, by its own function, on the NumPy backend."""
    return getattr(og, snake_case(kind))(*arrays, backend="numpy", **attributes)


def run_with_operand(kind, arrays, operand, **attributes):
    """One op with the shape operand as an input whose value is known at execution only."""
    value = np.asarray(operand, np.int32)
    names = {numpy_type: name for name, numpy_type in DTYPES.items()}
    tensors = [og.LogicalTensor(i, names[a.dtype], a.shape) for i, a in enumerate(arrays)]
    operand_tensor = og.LogicalTensor(len(arrays), "s32", value.shape)
    output = og.LogicalTensor(99, tensors[0].data_type)
    graph = og.Graph()
    graph.add_op(og.Op(0, kind, [*tensors, operand_tensor], [output], **attributes))
    graph.finalize()
    (partition,) = graph.get_partitions(backend="numpy")
    (result,) = partition.compile().execute(None, [*arrays, value])
    return result


def gradients(function, inputs, upstream):
    """Gradients of ⟨function(*inputs), upstream⟩ by each input."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*inputs), inputs, upstream)


# --- convolutions -------------------------------------------------------------------------------------

CONVOLVE = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
CONVOLVE_TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A convolution or a transposed one; sizes are those of the forward op's src."""

    transposed: bool
    batch: int
    groups: int
    per_group: tuple[int, int]
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    auto_pad: str
    output_padding: tuple[int, ...] | None
    data_format: str
    weights_format: str
    documented: bool
    dtype: str
    bias: bool
    whole: bool
    seed: int

    @property
    def rank(self):
        return len(self.size)

    @property
    def extent(self):
        return [d * (k - 1) + 1 for d, k in zip(self.dilations, self.kernel, strict=True)]

    @property
    def pads(self):
        return pads(
            self.auto_pad, self.begin, self.end, self.size, self.kernel, self.strides, self.dilations,
            self.transposed,
        )  # fmt: skip

    @property
    def out(self):
        sizes = []
        for a, (begin, end) in enumerate(self.pads):
            if self.transposed:
                extra = (self.output_padding or (0,) * self.rank)[a]
                sizes.append(self.strides[a] * (self.size[a] - 1) + self.extent[a] + extra - begin - end)
            else:
                sizes.append((self.size[a] + begin + end - self.extent[a]) // self.strides[a] + 1)
        return tuple(sizes)

    def shape(self, which, size):
        return (self.batch, self.groups * self.per_group[which], *size)

    @property
    def weights_shape(self):
        """(O, I/g, K) of a convolution, (I, O/g, K) of a transposed one."""
        i, o = self.per_group
        return (self.groups * (i if self.transposed else o), o if self.transposed else i, *self.kernel)

    @property
    def data_shape(self):
        """Of src, in data_format."""
        return list(self.data(np.empty(self.shape(0, self.size), np.bool_)).shape)

    def arrays(self):
        """src, weights, bias and the gradient of dst, in canonical layouts."""
        rng = np.random.default_rng(self.seed)
        make = integers if self.whole else normal
        shapes = (self.shape(0, self.size), self.weights_shape, self.shape(1, self.out)[1:2])
        return [make(rng, s, self.dtype) for s in (*shapes, self.shape(1, self.out))]

    def data(self, array):
        return from_ncx(array, self.data_format)

    def weights(self, array):
        if not self.transposed:
            return in_convolution_format(array, self.weights_format)
        laid = in_transposed_format(array, self.weights_format, self.groups, self.documented)
        return laid.astype(array.dtype)

    @property
    def attributes(self):
        """All attributes but the shapes of what is computed."""
        given = {
            "strides": self.strides, "pads_begin": self.begin, "pads_end": self.end, "dilations": self.dilations,
            "groups": self.groups, "auto_pad": self.auto_pad, "data_format": self.data_format,
            "weights_format": self.weights_format,
        }  # fmt: skip
        return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}

    def forward(self, x, w):
        """torch's, with every pad explicit; what a transposed one scatters into the pads is cut off."""
        if not self.transposed:
            around = [n for pair in reversed(self.pads) for n in pair]
            return CONVOLVE[self.rank](
                functional.pad(x, around), w, None, self.strides, 0, self.dilations, self.groups
            )
        full = CONVOLVE_TRANSPOSED[self.rank](x, w, None, self.strides, 0, 0, self.groups, self.dilations)
        extra = self.output_padding or (0,) * self.rank
        full = functional.pad(full, [n for e in reversed(extra) for n in (0, e)])
        cut = [slice(begin, begin + n) for (begin, _), n in zip(self.pads, self.out, strict=True)]
        return full[(..., *cut)]

    def check(self, result, exact, scale, terms):
        if self.whole:
            equal(to_ncx(result, self.data_format), exact, self.dtype)
        else:
            close(to_ncx(result, self.data_format), exact, self.dtype, terms=terms, scale=scale)


def tuples(rank, low, high):
    return st.tuples(*[st.integers(low, high)] * rank)


@st.composite
def convolutions(draw, transposed):
    rank = draw(st.integers(1, 3))
    largest = {1: 9, 2: 6, 3: 4}[rank]
    kernel, strides, dilations = (draw(tuples(rank, 1, 3)) for _ in range(3))
    begin, end = (draw(tuples(rank, 0, 3)) for _ in range(2))
    size = draw(tuples(rank, 1, largest))
    auto_pad = draw(
        st.sampled_from(["None", "None", "SAME_UPPER", "SAME_LOWER", "VALID", "none", "same_lower"])
    )
    extent = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    if transposed:
        reach = [s * (n - 1) + e for s, n, e in zip(strides, size, extent, strict=True)]
        begin = tuple(min(b, r - 1) for b, r in zip(begin, reach, strict=True))
        end = tuple(min(e, r - 1 - b) for b, e, r in zip(begin, end, reach, strict=True))
    else:
        # Without pads the kernel must fit; with them it may be larger than src.
        lacking = [
            e - (0 if auto_pad == "VALID" else b + f) for e, b, f in zip(extent, begin, end, strict=True)
        ]
        size = tuple(max(n, missing) for n, missing in zip(size, lacking, strict=True))
    extra = draw(st.none() | tuples(rank, 0, 2)) if transposed else None
    return Convolution(
        transposed=transposed,
        batch=draw(st.integers(1, 3)),
        groups=draw(st.integers(1, 3)),
        per_group=draw(tuples(2, 1, 3)),
        size=size,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        begin=begin,
        end=end,
        auto_pad=auto_pad,
        output_padding=None if extra is None else tuple(min(e, s - 1) for e, s in zip(extra, strides, strict=True)),
        data_format=draw(st.sampled_from(DATA_FORMATS)),
        weights_format=draw(st.sampled_from(["XOI", "IOX"] if transposed else ["XIO", "OIX"])),
        documented=draw(st.booleans()),
        dtype=draw(st.sampled_from(FLOATS)),
        bias=draw(st.booleans()),
        whole=draw(st.booleans()),
        seed=draw(SEEDS),
    )  # fmt: skip


def check_forward(p):
    x, w, b, _ = p.arrays()
    arrays = [p.data(x), p.weights(w), *([b] if p.bias else [])]
    more = {"output_padding": list(p.output_padding)} if p.output_padding is not None else {}
    result = run("ConvTranspose" if p.transposed else "Convolution", *arrays, **more, **p.attributes)
    x, w, b = map(exact_tensor, (x, w, b))
    bias = b.reshape(-1, *[1] * p.rank) if p.bias else 0
    exact, scale = p.forward(x, w) + bias, p.forward(x.abs(), w.abs()) + abs(bias)
    p.check(result, exact, scale, terms=w.shape[1] * w.shape[0] * math.prod(p.kernel) + 1)


@settings(max_examples=120)
@given(convolutions(transposed=False))
def test_convolution(p):
    check_forward(p)


@settings(max_examples=120)
@given(convolutions(transposed=True))
def test_conv_transpose(p):
    check_forward(p)


def check_backward_data(p, compute, more):
    """`compute` takes the list of arrays and attributes."""
    x, w, _, dy = p.arrays()
    exact, scale = (
        gradients(lambda x, w=w: p.forward(x, w), [exact_tensor(x)], dy)[0]
        for w, dy in (
            (exact_tensor(w), exact_tensor(dy)),
            (exact_tensor(w).abs(), exact_tensor(dy).abs()),
        )
    )
    result = compute([p.data(dy), p.weights(w)], **more, **p.attributes)
    p.check(result, exact, scale, terms=w.shape[0] * w.shape[1] * math.prod(p.kernel))


@settings(max_examples=100)
@given(convolutions(transposed=False), st.booleans())
def test_convolution_backward_data(p, by_padding):
    """The size of src told by the attribute, or by the output padding."""
    more = {"dst_shape": p.data_shape}
    if by_padding:
        slack = [
            (n + sum(pair) - e) % s for n, pair, e, s in zip(p.size, p.pads, p.extent, p.strides, strict=True)
        ]
        assume(p.auto_pad in ("None", "none", "VALID"))
        more = {"output_padding": slack}
    check_backward_data(p, lambda arrays, **a: run("ConvolutionBackwardData", *arrays, **a), more)


@settings(max_examples=60)
@given(convolutions(transposed=False), st.booleans())
def test_convolution_backward_data_with_the_shape_as_an_input(p, both):
    """The input is known at execution only, and wins over an attribute that fits nothing."""
    more = {"dst_shape": [n + 5 for n in p.data_shape]} if both else {}
    check_backward_data(
        p, lambda arrays, **a: run_with_operand("ConvolutionBackwardData", arrays, p.data_shape, **a), more
    )


@settings(max_examples=80)
@given(convolutions(transposed=True))
def test_conv_transpose_backward_data(p):
    """The op has no output padding: diff_dst tells the size."""
    check_backward_data(p, lambda arrays, **a: run("ConvTransposeBackwardData", *arrays, **a), {})


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
            self.auto_pad, self.begin, self.end, self.size, self.kernel, self.strides,
            self.dilations or (1,) * self.rank, False,
        )  # fmt: skip

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
            "kernel": list(self.kernel), "strides": list(self.strides), "pads_begin": list(self.begin),
            "pads_end": list(self.end), "auto_pad": self.auto_pad, "data_format": self.data_format,
        }  # fmt: skip
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
        "kernel": list(kernel), "strides": list(strides), "pads_begin": list(around), "pads_end": list(around),
        "rounding_type": "ceil", "data_format": "NCX",
    }  # fmt: skip
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


# --- normalisation ------------------------------------------------------------------------------------


def statistics_type(draw, dtype):
    """A type that means, variances and affine parameters may have beside `dtype`."""
    return draw(st.sampled_from({"f64": ["f64"], "bf16": ["f32", "bf16"]}.get(dtype, ["f32"])))


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """Data, with parameters that are far from 0 and 1; f64 data are off centre too."""

    shape: tuple[int, ...]
    data_format: str
    dtype: str
    second: str
    affine: bool
    epsilon: float
    seed: int

    @property
    def rng(self):
        return np.random.default_rng(self.seed)

    def src(self, rng):
        return (1.5 + 2 * rng.standard_normal(self.shape)).astype(DTYPES[self.dtype])

    def vector(self, rng, size, *, positive=False):
        values = rng.standard_normal(size) + 0.5
        return (np.abs(values) + 0.3 if positive else values).astype(DTYPES[self.second])

    @property
    def compute(self):
        return (self.dtype, self.second)

    def data(self, array):
        return from_ncx(array, self.data_format)

    def undo(self, array):
        return to_ncx(array, self.data_format)


@st.composite
def normalisations(draw, axes=(2, 5)):
    dtype = draw(st.sampled_from(FLOATS))
    rank = draw(st.integers(*axes))
    return Normalisation(
        shape=(draw(st.integers(2, 3)), draw(st.sampled_from([1, 2, 4, 6])), *draw(tuples(rank - 2, 2, 4))),
        data_format=draw(st.sampled_from(DATA_FORMATS)),
        dtype=dtype,
        second=statistics_type(draw, dtype),
        affine=draw(st.booleans()),
        epsilon=draw(st.sampled_from([1e-5, 0.25])),
        seed=draw(SEEDS),
    )


def spread(x, axes, epsilon):
    """How many roundings of x̂ = (x − mean) / √(variance + ε) cost: the largest |x| over the divisor."""
    x = x.abs()
    size = x.amax(dim=axes, keepdim=True)
    return (x + size) / (x.var(dim=axes, keepdim=True, unbiased=False) + epsilon).sqrt() + 1


def along_channels(vector, rank):
    return vector.reshape(1, -1, *[1] * (rank - 2))


@settings(max_examples=60)
@given(normalisations())
def test_batch_norm_inference(p):
    rng = p.rng
    x = p.src(rng)
    gamma, beta, mean = (p.vector(rng, p.shape[1]) for _ in range(3))
    variance = p.vector(rng, p.shape[1], positive=True)
    result = run(
        "BatchNormInference",
        p.data(x),
        gamma,
        beta,
        mean,
        variance,
        epsilon=p.epsilon,
        data_format=p.data_format,
    )
    x, gamma, beta, mean, variance = map(exact_tensor, (x, gamma, beta, mean, variance))
    exact = functional.batch_norm(x, mean, variance, gamma, beta, eps=p.epsilon)
    rank = len(p.shape)
    inverse = along_channels((variance + p.epsilon).rsqrt() * gamma.abs(), rank)
    scale = (x.abs() + along_channels(mean.abs(), rank)) * inverse + along_channels(beta.abs(), rank)
    close(p.undo(result), exact, p.dtype, terms=6, scale=scale, compute=p.compute)


@settings(max_examples=60)
@given(normalisations(), st.sampled_from([None, 0.0, 0.125, 0.75]))
def test_batch_norm_forward_training(p, momentum):
    rng = p.rng
    x, mean, variance = p.src(rng), p.vector(rng, p.shape[1]), p.vector(rng, p.shape[1], positive=True)
    gamma, beta = (p.vector(rng, p.shape[1]) for _ in range(2))
    affine = [gamma, beta] if p.affine else []
    more = {} if momentum is None else {"momentum": momentum}
    results = run(
        "BatchNormForwardTraining", p.data(x), mean, variance, *affine, epsilon=p.epsilon,
        data_format=p.data_format, **more,
    )  # fmt: skip
    x, mean, variance, gamma, beta = map(exact_tensor, (x, mean, variance, gamma, beta))
    axes = (0, *range(2, x.ndim))
    exact = functional.batch_norm(
        x, None, None, *((gamma, beta) if p.affine else (None, None)), training=True, eps=p.epsilon
    )
    count = x.numel() // x.shape[1]
    scale = spread(x, axes, p.epsilon) * (1 + exact.abs())
    if p.affine:
        scale = scale * along_channels(1 + gamma.abs() + beta.abs(), x.ndim)
    close(p.undo(results[0]), exact, p.dtype, terms=count + 8, scale=scale, compute=p.compute)
    batch_mean, batch_variance = x.mean(dim=axes), x.var(dim=axes, unbiased=False)
    size = x.abs().amax(dim=axes)
    share = momentum or 0.0
    for result, batch, old, error in (
        (results[1], batch_mean, mean, size),
        (results[2], batch_variance, variance, size**2),
        (results[3], batch_mean, None, size),
        (results[4], batch_variance, None, size**2),
    ):
        exact = batch if old is None else share * old + (1 - share) * batch
        close(result, exact, p.second, terms=count + 6, scale=error + abs(exact), compute=p.compute)


@settings(max_examples=60)
@given(normalisations(), st.integers(1, 3))
def test_batch_norm_training_backward(p, outputs):
    """Of any statistics: they count as those of the batch, so the sums are over what is normalised by them."""
    rng = p.rng
    x, dy = p.src(rng), normal(rng, p.shape, p.dtype)
    mean, variance = p.vector(rng, p.shape[1]), p.vector(rng, p.shape[1], positive=True)
    gamma = [p.vector(rng, p.shape[1])] if p.affine else []
    results = run(
        "BatchNormTrainingBackward", p.data(x), p.data(dy), mean, variance, *gamma, epsilon=p.epsilon,
        data_format=p.data_format, outputs=outputs,
    )  # fmt: skip
    results = (results,) if outputs == 1 else results
    assert len(results) == outputs
    x, dy, mean, variance = map(exact_tensor, (x, dy, mean, variance))
    gamma = exact_tensor(gamma[0]) if p.affine else None
    inverse = (variance + p.epsilon).rsqrt()
    exact = torch.ops.aten.native_batch_norm_backward(
        dy, x, gamma, None, None, mean, inverse, True, p.epsilon, [True, True, True]
    )
    rank, axes, count = x.ndim, (0, *range(2, x.ndim)), x.numel() // x.shape[1]
    size = (x.abs() + along_channels(mean.abs(), rank)) * along_channels(inverse, rank)
    along = (dy.abs() * size).sum(dim=axes)
    flat = dy.abs().sum(dim=axes)
    factor = along_channels(inverse * (gamma.abs() if p.affine else 1), rank)
    scale = factor * (dy.abs() + (along_channels(flat, rank) + size * along_channels(along, rank)) / count)
    terms = count + 10
    close(p.undo(results[0]), exact[0], p.dtype, terms=terms, scale=scale, compute=p.compute)
    for result, values, error in zip(results[1:], exact[1:], (along, flat), strict=False):
        close(result, values, p.second, terms=terms, scale=error, compute=p.compute)


def affine_shape(draw, shape):
    """The shape of the normalised axes, or as many elements on one axis."""
    return shape if draw(st.booleans()) else (math.prod(shape),)


@settings(max_examples=60)
@given(normalisations((1, 4)), st.data())
def test_layer_norm(p, data):
    rng, x = p.rng, p.src(p.rng)
    first = data.draw(st.integers(-x.ndim, x.ndim - 1))
    normalised = x.shape[first % x.ndim :]
    stats, use = data.draw(st.booleans()), data.draw(st.booleans())
    gamma, beta = (p.vector(rng, affine_shape(data.draw, normalised)) for _ in range(2))
    given_ = {"begin_norm_axis": first, "epsilon": p.epsilon, "keep_stats": stats, "use_affine": use}
    results = run("LayerNorm", x, *([gamma, beta] if p.affine else []), **given_)
    dst = results[0] if stats else results
    x, gamma, beta = map(exact_tensor, (x, gamma, beta))
    both = (gamma.reshape(normalised), beta.reshape(normalised)) if p.affine and use else (None, None)
    exact = functional.layer_norm(x, normalised, *both, eps=p.epsilon)
    axes = tuple(range(first % x.ndim, x.ndim))
    terms = math.prod(normalised) + 8
    scale = spread(x, axes, p.epsilon) * (1 + exact.abs())
    if both[0] is not None:
        scale = scale * (1 + both[0].abs() + both[1].abs())
    close(dst, exact, p.dtype, terms=terms, scale=scale, compute=p.compute)
    if stats:
        size = x.abs().amax(dim=axes)
        told = p.second if p.affine else {"f16": "f32"}.get(p.dtype, p.dtype)
        close(results[1], x.mean(dim=axes), told, terms=terms, scale=size, compute=p.compute)
        variance = x.var(dim=axes, unbiased=False)
        close(results[2], variance, told, terms=terms, scale=size**2, compute=p.compute)


@settings(max_examples=60)
@given(normalisations((1, 4)), st.data())
def test_layer_norm_backward(p, data):
    rng, x = p.rng, p.src(p.rng)
    first = data.draw(st.integers(-x.ndim, x.ndim - 1))
    normalised, kept = x.shape[first % x.ndim :], x.shape[: first % x.ndim]
    dy, use, ones = normal(rng, p.shape, p.dtype), data.draw(st.booleans()), data.draw(st.booleans())
    mean, variance = p.vector(rng, kept), p.vector(rng, kept, positive=True)
    shape = affine_shape(data.draw, normalised)
    affine = [p.vector(rng, shape) for _ in range(data.draw(st.integers(0, 2)))]
    outputs = data.draw(st.sampled_from([1, 3]))
    # Statistics come with the normalised axes as ones too.
    given_ = [v.reshape(*kept, *[1] * len(normalised)) if ones else v for v in (mean, variance)]
    results = run(
        "LayerNormBackward", x, dy, *given_, *affine, begin_norm_axis=first, use_affine=use, epsilon=p.epsilon,
        outputs=outputs,
    )  # fmt: skip
    results = (results,) if outputs == 1 else results
    x, dy, mean, variance = map(exact_tensor, (x, dy, mean, variance))
    gamma = (
        exact_tensor(affine[0]).reshape(normalised) if affine and use else torch.ones(*normalised).double()
    )
    wide_shape = (*kept, *[1] * len(normalised))
    inverse = (variance + p.epsilon).rsqrt()
    exact = torch.ops.aten.native_layer_norm_backward(
        dy, x, normalised, mean.reshape(wide_shape), inverse.reshape(wide_shape), gamma, torch.zeros_like(gamma),
        [True, True, True],
    )  # fmt: skip
    axes, count = tuple(range(first % x.ndim, x.ndim)), math.prod(normalised)
    inverse = inverse.reshape(wide_shape)
    size = (x.abs() + mean.reshape(wide_shape).abs()) * inverse
    g = (dy * gamma).abs()
    scale = inverse * (g + g.mean(dim=axes, keepdim=True) + size * (g * size).mean(dim=axes, keepdim=True))
    close(results[0], exact[0], p.dtype, terms=count + 10, scale=scale, compute=p.compute)
    rows = math.prod(kept)
    for result, values, terms in zip(results[1:], exact[1:], (dy.abs() * size, dy.abs()), strict=False):
        error = terms.reshape(rows, *normalised).sum(dim=0).reshape(result.shape)
        values = values.reshape(result.shape)
        assert result.shape == (shape if affine else normalised)
        close(result, values, p.second, terms=rows + 6, scale=error, compute=p.compute)


@settings(max_examples=60)
@given(normalisations(), st.booleans(), st.booleans(), st.data())
def test_group_norm(p, stats, use, data):
    rng, x = p.rng, p.src(p.rng)
    channels = p.shape[1]
    groups = data.draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    assume(channels // groups * math.prod(p.shape[2:]) > 1)
    gamma, beta = (p.vector(rng, channels) for _ in range(2))
    results = run(
        "GroupNorm", p.data(x), *([gamma, beta] if p.affine else []), groups=groups, epsilon=p.epsilon,
        keep_stats=stats, use_affine=use, data_format=p.data_format,
    )  # fmt: skip
    dst = results[0] if stats else results
    x, gamma, beta = map(exact_tensor, (x, gamma, beta))
    both = (gamma, beta) if p.affine and use else (None, None)
    exact = functional.group_norm(x, groups, *both, eps=p.epsilon)
    grouped = x.reshape(x.shape[0], groups, -1)
    terms = grouped.shape[2] + 8
    scale = spread(grouped, (2,), p.epsilon).reshape(x.shape) * (1 + exact.abs())
    if both[0] is not None:
        scale = scale * along_channels(1 + gamma.abs() + beta.abs(), x.ndim)
    close(p.undo(dst), exact, p.dtype, terms=terms, scale=scale, compute=p.compute)
    if stats:
        told = p.second if p.affine else {"f16": "f32"}.get(p.dtype, p.dtype)
        size = grouped.abs().amax(dim=2)
        close(results[1], grouped.mean(dim=2), told, terms=terms, scale=size, compute=p.compute)
        variance = grouped.var(dim=2, unbiased=False)
        close(results[2], variance, told, terms=terms, scale=size**2, compute=p.compute)


@settings(max_examples=60)
@given(normalisations((1, 4)), st.data())
def test_rms_norm(p, data):
    x = p.src(p.rng)
    first = data.draw(st.integers(-x.ndim, x.ndim - 1))
    normalised = x.shape[first % x.ndim :]
    gamma = [p.vector(p.rng, affine_shape(data.draw, normalised))] if p.affine else []
    result = run("RMSNorm", x, *gamma, begin_norm_axis=first, epsilon=p.epsilon)
    weight = exact_tensor(gamma[0]).reshape(normalised) if gamma else None
    exact = functional.rms_norm(exact_tensor(x), normalised, weight, eps=p.epsilon)
    close(result, exact, p.dtype, terms=math.prod(normalised) + 6, compute=p.compute)


@pytest.mark.parametrize(
    "kind", ["BatchNormInference", "BatchNormTrainingBackward", "LayerNorm", "LayerNormBackward"]
)
def test_f64_data_with_f32_parameters_are_computed_in_f64(kind):
    """As all kernels promise: in f64 where one array is f64."""
    rng = np.random.default_rng(3)
    x, dy = rng.standard_normal((2, 4, 5))
    vectors = [np.abs(rng.standard_normal(n)).astype(np.float32) + 1 for n in (5, 5, 5, 5, 4, 4)]
    gamma, beta, mean, variance, row_mean, row_variance = vectors
    inputs = {
        "BatchNormInference": (x, gamma, beta, mean, variance),
        "BatchNormTrainingBackward": (x, dy, mean, variance, gamma),
        "LayerNorm": (x, gamma, beta),
        "LayerNormBackward": (x, dy, row_mean, row_variance, gamma),
    }[kind]
    more = {"epsilon": 0.25} | ({"outputs": 1} if kind.endswith("Backward") else {})
    result = run(kind, *inputs, **more)
    exact = run(kind, *[v.astype(np.float64) for v in inputs], **more)
    if kind == "LayerNorm":
        result, exact = result[0], exact[0]
    close(result, exact, "f64", terms=40, scale=1 + np.abs(exact))


# --- softmax ------------------------------------------------------------------------------------------


@st.composite
def tensors(draw, ranks=(1, 4), largest=6, dtypes=FLOATS):
    """(shape, dtype, rng)"""
    shape = draw(st.lists(st.integers(1, largest), min_size=ranks[0], max_size=ranks[1]))
    return tuple(shape), draw(st.sampled_from(dtypes)), np.random.default_rng(draw(SEEDS))


@settings(max_examples=80)
@given(tensors(), st.data())
def test_softmax(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    mode = data.draw(st.sampled_from([None, "none", "inf_as_zero"]))
    stats = data.draw(st.booleans())
    target = data.draw(st.sampled_from(FLOATS))
    x = normal(rng, shape, dtype, data.draw(st.sampled_from([1.0, 5.0])))
    if mode == "inf_as_zero":
        x[rng.random(shape) < 0.3] = -np.inf
        np.moveaxis(x, axis, -1).reshape(-1, shape[axis])[
            0
        ] = -np.inf  # a copy for some axes; then none is all −inf
    more = {} if mode is None else {"mode": mode}
    result = run("SoftMax", x, axis=axis, outputs=1 + stats, output_type=target, **more)
    x = exact_tensor(x)
    exact = torch.softmax(x, axis)
    empty = torch.isneginf(x).all(dim=axis, keepdim=True)
    if mode == "inf_as_zero":
        exact = torch.where(empty, 0.0, exact)
    size = torch.where(torch.isneginf(x), 0, x).abs().amax(dim=axis, keepdim=True)
    terms = shape[axis] + 10
    compute = (dtype,)
    close(
        result[0] if stats else result,
        exact,
        target,
        terms=terms,
        scale=exact * (1 + 2 * size),
        compute=compute,
    )
    if stats:
        wanted = torch.where(empty, 0.0, torch.logsumexp(x, axis, keepdim=True))
        told = target if target in ("f32", "f64") else {"f64": "f64"}.get(dtype, "f32")
        close(result[1], wanted, told, terms=terms, scale=1 + size, compute=compute)


def test_a_row_of_minus_infinity_is_among_those_that_were_drawn():
    """`test_softmax` writes one through a view where the axis is the last one."""
    x = np.zeros((2, 3))
    np.moveaxis(x, 1, -1).reshape(-1, 3)[0] = -np.inf
    assert np.isneginf(x[0]).all()


@settings(max_examples=40)
@given(tensors(), st.data())
def test_softmax_backward(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    target = data.draw(st.sampled_from(FLOATS))
    dy, y = normal(rng, shape, dtype), rng.dirichlet(np.ones(4), shape)[..., 0].astype(DTYPES[dtype])
    result = run("SoftMaxBackward", dy, y, axis=axis, output_type=target)
    dy, y = exact_tensor(dy), exact_tensor(y)
    exact = torch.ops.aten._softmax_backward_data(dy, y, axis, torch.float64)
    scale = y * (dy.abs() + (dy * y).abs().sum(dim=axis, keepdim=True))
    close(result, exact, target, terms=shape[axis] + 3, scale=scale, compute=(dtype,))


@settings(max_examples=40)
@given(tensors(), st.data())
def test_log_softmax(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = normal(rng, shape, dtype, 4.0)
    result = run("LogSoftmax", x, axis=axis)
    exact = torch.log_softmax(exact_tensor(x), axis)
    size = 1 + exact_tensor(x).abs().amax(dim=axis, keepdim=True)
    close(result, exact, dtype, terms=shape[axis] + 10, scale=size + exact.abs())


@settings(max_examples=40)
@given(tensors(), st.data())
def test_log_softmax_backward(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    dy, y = normal(rng, shape, dtype), -np.abs(normal(rng, shape, dtype))
    result = run("LogSoftmaxBackward", dy, y, axis=axis)
    dy, y = exact_tensor(dy), exact_tensor(y)
    exact = torch.ops.aten._log_softmax_backward_data(dy, y, axis, torch.float64)
    total = dy.abs().sum(dim=axis, keepdim=True)
    scale = dy.abs() + torch.exp(y) * total * (1 + y.abs())
    close(result, exact, dtype, terms=shape[axis] + 10, scale=scale)


# --- reductions ---------------------------------------------------------------------------------------


def _product(x, axes, keep):
    for axis in sorted(axes, reverse=True):
        x = x.prod(dim=axis, keepdim=keep)
    return x


REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: x.abs().sum(dim=axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, dim=axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: x.amax(dim=axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(dim=axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: x.amin(dim=axes, keepdim=keep),
    "ReduceProd": _product,
    "ReduceSum": lambda x, axes, keep: x.sum(dim=axes, keepdim=keep),
}


@pytest.mark.parametrize("kind", REDUCTIONS)
@settings(max_examples=40)
@given(tensors(), st.data())
def test_reductions(kind, drawn, data):
    shape, dtype, rng = drawn
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    signed = [a - len(shape) if data.draw(st.booleans()) else a for a in axes]
    keep = data.draw(st.booleans())
    x = normal(rng, shape, dtype)
    if data.draw(st.booleans()):
        result = run(kind, x, axes=signed, keep_dims=keep)
    else:
        more = {"axes": [0]} if data.draw(st.booleans()) else {}  # the input wins
        result = run_with_operand(kind, [x], signed, keep_dims=keep, **more)
    x = exact_tensor(x)
    if axes:
        exact, size = (REDUCTIONS[kind](v, axes, keep) for v in (x, x.abs()))
    else:  # each element alone, where torch would take all axes
        exact = x.abs() if kind in ("ReduceL1", "ReduceL2") else x
        size = x.abs()
    terms = 0 if kind in ("ReduceMax", "ReduceMin") else math.prod(shape[a] for a in axes) + 2
    close(result, exact, dtype, terms=terms, scale=size)


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceL1", "ReduceProd"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions_of_integers_are_exact(kind, dtype):
    """Also where the sum is far beyond what a half precision tells apart."""
    x = np.random.default_rng(7).integers(1, 4, (3, 700)).astype(DTYPES[dtype])
    if kind == "ReduceProd":
        x = x[:, :9]
    equal(run(kind, x, axes=[1]), REDUCTIONS[kind](exact_tensor(x), (1,), False), dtype)


# --- products of matrices -----------------------------------------------------------------------------


@st.composite
def products(draw):
    """Shapes of src and weights, as torch takes them, whose batches broadcast."""
    m, k, n = (draw(st.integers(1, 5)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    batches = []
    for _ in range(2):
        own = [1 if draw(st.booleans()) else b for b in batch]
        batches.append(own[draw(st.integers(0, len(own))) :])
    src = (k,) if draw(st.integers(0, 4)) == 0 else (*batches[0], m, k)
    weights = (k,) if draw(st.integers(0, 4)) == 0 else (*batches[1], k, n)
    return src, weights


@settings(max_examples=150)
@given(products(), st.booleans(), st.booleans(), st.sampled_from(FLOATS), st.booleans(), SEEDS, st.data())
def test_matmul(shapes, transpose_a, transpose_b, dtype, whole, seed, data):
    """The flags say nothing of vectors."""
    rng = np.random.default_rng(seed)
    target = data.draw(st.sampled_from(FLOATS))
    mode = data.draw(st.sampled_from(["strict", "relaxed", "any", "f32", "s32", "f16"]))
    a, b = ((integers if whole else normal)(rng, s, dtype) for s in shapes)
    exact = torch.matmul(exact_tensor(a), exact_tensor(b))
    scale = torch.matmul(exact_tensor(a).abs(), exact_tensor(b).abs())
    arrays = [
        v.swapaxes(-1, -2) if flag and v.ndim > 1 else v for v, flag in ((a, transpose_a), (b, transpose_b))
    ]
    if data.draw(st.booleans()):
        shape = tuple(n if data.draw(st.booleans()) else 1 for n in exact.shape)
        shape = shape[data.draw(st.integers(0, len(shape))) :]
        bias = (integers if whole else normal)(rng, shape, dtype)
        arrays.append(bias)
        exact, scale = exact + exact_tensor(bias), scale + exact_tensor(bias).abs()
    result = run(
        "MatMul", *arrays, transpose_a=transpose_a, transpose_b=transpose_b, output_type=target,
        accumulation_mode=mode,
    )  # fmt: skip
    if whole:
        equal(result, exact, target)
    else:
        close(result, exact, target, terms=a.shape[-1] + 1, scale=scale, compute=(dtype,))


# --- elementwise functions ----------------------------------------------------------------------------


def f32(value):
    """An attribute as f32 has it; few bits would let a half precision hit it."""
    return float(np.float32(value))


LOW, HIGH = f32(-0.7), f32(1.3)
ALPHA, BETA = f32(0.23), f32(0.57)
CUBE = f32(1.7)
SLOPE = f32(0.13)


@dataclass(frozen=True)
class Function:
    """An eltwise op in torch.

    Attributes:
        torch: the function in float64.
        attributes: of the op.
        lost: how large numbers are that cancel on the way, beyond the result itself.
        positive: whether the op is one of positive numbers.
    """

    torch: object
    attributes: dict
    lost: object = staticmethod(torch.zeros_like)
    positive: bool = False


def _none(x):
    return torch.zeros_like(x)


FORWARD = {
    "Abs": Function(torch.abs, {}),
    "Clamp": Function(lambda x: torch.clamp(x, LOW, HIGH), {"min": LOW, "max": HIGH}),
    "Elu": Function(lambda x: functional.elu(x, ALPHA), {"alpha": ALPHA}),
    "Exp": Function(torch.exp, {}),
    "GELU": Function(functional.gelu, {}, torch.abs),
    "GELU, gelu_erf": Function(functional.gelu, {"mode": "gelu_erf"}, torch.abs),
    "GELU, gelu_tanh": Function(
        lambda x: functional.gelu(x, approximate="tanh"), {"mode": "gelu_tanh"}, torch.abs
    ),
    "HardSigmoid": Function(
        lambda x: (ALPHA * x + BETA).clamp(0, 1), {"alpha": ALPHA, "beta": BETA},
        lambda x: ALPHA * x.abs() + BETA,
    ),
    "HardSwish": Function(functional.hardswish, {}, torch.abs),
    "LeakyReLU": Function(lambda x: functional.leaky_relu(x, SLOPE), {"alpha": SLOPE}),
    "Log": Function(torch.log, {}, positive=True),
    "Mish": Function(functional.mish, {}),
    "Pow": Function(lambda x: x**CUBE, {"beta": CUBE}, positive=True),
    "Pow, 2": Function(torch.square, {"beta": 2.0}),
    "Reciprocal": Function(torch.reciprocal, {}),
    "ReLU": Function(torch.relu, {}),
    "Round": Function(torch.round, {}),
    "Sigmoid": Function(torch.sigmoid, {}),
    "SoftPlus": Function(lambda x: functional.softplus(x, threshold=1e9), {}),
    "SoftPlus, beta": Function(lambda x: functional.softplus(x, BETA, threshold=1e9), {"beta": BETA}),
    "SoftPlus, negative beta": Function(
        lambda x: functional.softplus(-BETA * x, threshold=1e9) / -BETA, {"beta": -BETA}
    ),
    "Sqrt": Function(torch.sqrt, {}, positive=True),
    "Square": Function(torch.square, {}),
    "Tanh": Function(torch.tanh, {}),
}  # fmt: skip


def _one(x):
    return torch.ones_like(x)


def _one_and_more(x):
    return 1 + x.abs()


aten = torch.ops.aten
OF_SRC = {
    "AbsBackward": (FORWARD["Abs"], _none),
    "ClampBackward": (FORWARD["Clamp"], _none),
    "EluBackward": (FORWARD["Elu"], _none),
    "GELUBackward": (FORWARD["GELU"], _one_and_more),
    "GELUBackward, gelu_erf": (FORWARD["GELU, gelu_erf"], _one_and_more),
    "GELUBackward, gelu_tanh": (FORWARD["GELU, gelu_tanh"], lambda x: 1 + x.abs() + x.abs() ** 3 / 9),
    "HardSigmoidBackward": (FORWARD["HardSigmoid"], _none),
    "HardSwishBackward": (FORWARD["HardSwish"], _one_and_more),
    "MishBackward": (FORWARD["Mish"], _one_and_more),
    "ReLUBackward": (FORWARD["ReLU"], _none),
    "SigmoidBackward": (FORWARD["Sigmoid"], _one),
    "SoftPlusBackward": (FORWARD["SoftPlus"], _none),
    "SoftPlusBackward, beta": (FORWARD["SoftPlus, beta"], _none),
    "SoftPlusBackward, negative beta": (FORWARD["SoftPlus, negative beta"], _none),
    "SqrtBackward": (FORWARD["Sqrt"], _none),
    "TanhBackward": (FORWARD["Tanh"], _one),
}
"""Gradient op → its forward function and what cancels in the derivative."""
OF_DST = {
    "ClampBackward": (lambda dy, y: aten.hardtanh_backward(dy, y, LOW, HIGH), _none),
    "EluBackward": (lambda dy, y: aten.elu_backward(dy, ALPHA, 1, 1, True, y), lambda y: y.abs() + ALPHA),
    "ReLUBackward": (lambda dy, y: aten.threshold_backward(dy, y, 0), _none),
    "SigmoidBackward": (aten.sigmoid_backward, _one),
    "SqrtBackward": (lambda dy, y: dy / (2 * y), _none),
    "TanhBackward": (aten.tanh_backward, _one),
}
"""Gradient op with use_dst → torch's own function of diff_dst and dst."""

ELTWISE_ROUNDINGS = 10
"""NumPy's transcendental functions in f32 are good to 4 units, and a kernel calls two of them at most."""


def plain(name):
    """The kind, without what its row in a table adds."""
    return name.split(",")[0]


def test_the_tables_of_elementwise_functions_are_complete():
    kinds = {schema.kind for schema in og.ops() if schema.family == "eltwise"}
    assert {plain(name) for name in (*FORWARD, *OF_SRC)} == kinds
    assert set(OF_DST) == {s.kind for s in og.ops() if any(a.name == "use_dst" for a in s.attributes)}


def points(rng, shape, dtype, positive):
    """Values around 0 and, but for f16, some far away; never where a derivative jumps."""
    spreads = [0.1, 1.0, 3.0] if dtype == "f16" else [0.1, 1.0, 3.0, 12.0]
    x = normal(rng, shape, dtype) * rng.choice(spreads, shape).astype(DTYPES[dtype])
    x[np.isin(np.abs(x.astype(np.float64)), [0, 3])] = 2.5
    return np.abs(x) if positive else x


def sensitivity(function, x, dtype):
    """How far a few roundings of the argument move the result."""
    h = 4 * roundoff(dtype)
    y = function(x)
    return torch.maximum((function(x * (1 + h)) - y).abs(), (function(x * (1 - h)) - y).abs())


@pytest.mark.parametrize("name", FORWARD)
@settings(max_examples=24)
@given(tensors())
def test_eltwise(name, drawn):
    shape, dtype, rng = drawn
    row = FORWARD[name]
    x = points(rng, shape, dtype, row.positive)
    result = run(plain(name), x, **row.attributes)
    x = exact_tensor(x)
    exact = row.torch(x)
    slack = 0 if name == "Round" else sensitivity(row.torch, x, dtype)
    terms = 0 if name in ("Abs", "Clamp", "ReLU", "Round") else ELTWISE_ROUNDINGS
    close(result, exact, dtype, terms=terms, scale=exact.abs() + row.lost(x), slack=slack)


@pytest.mark.parametrize("name", OF_SRC)
@settings(max_examples=24)
@given(tensors())
def test_eltwise_backward(name, drawn):
    shape, dtype, rng = drawn
    row, lost = OF_SRC[name]
    x, dy = points(rng, shape, dtype, row.positive), normal(rng, shape, dtype)
    more = {"use_dst": False} if name in OF_DST else {}
    result = run(plain(name), x, dy, **row.attributes, **more)
    x, dy = exact_tensor(x), exact_tensor(dy)

    def slope(at):
        return gradients(row.torch, [at], torch.ones_like(at))[0]

    exact = gradients(row.torch, [x], dy)[0]
    slack = dy.abs() * sensitivity(slope, x, dtype)
    scale = exact.abs() + dy.abs() * lost(x)
    close(result, exact, dtype, terms=ELTWISE_ROUNDINGS, scale=scale, slack=slack)


@pytest.mark.parametrize("name", OF_DST)
@pytest.mark.parametrize("told", [True, False])
@settings(max_examples=24)
@given(tensors())
def test_eltwise_backward_of_dst(name, told, drawn):
    """use_dst is the default."""
    shape, dtype, rng = drawn
    row, _ = OF_SRC[name]
    function, lost = OF_DST[name]
    x, dy = points(rng, shape, dtype, row.positive), normal(rng, shape, dtype)
    y = run(name.removesuffix("Backward"), x, **row.attributes)
    result = run(name, y, dy, **row.attributes, **({"use_dst": True} if told else {}))
    y, dy = exact_tensor(y), exact_tensor(dy)
    exact = function(dy, y)
    close(result, exact, dtype, terms=3, scale=exact.abs() + dy.abs() * lost(y))


# --- two tensors --------------------------------------------------------------------------------------

BINARY = {
    "Add": torch.add,
    "Subtract": torch.subtract,
    "Multiply": torch.multiply,
    "Divide": torch.divide,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
}
MIXED = {"Add": (*FLOATS, "s32"), "Subtract": (*FLOATS, "s32"), "Multiply": FLOATS, "Divide": FLOATS}
TYPES = {**DTYPES, "s32": np.dtype(np.int32)}


@st.composite
def broadcasting(draw, count=2):
    """Shapes that broadcast."""
    whole = draw(st.lists(st.integers(1, 4), max_size=4))
    shapes = []
    for _ in range(count):
        own = [n if draw(st.booleans()) else 1 for n in whole]
        shapes.append(tuple(own[draw(st.integers(0, len(own))) :]))
    return shapes


def values_of(rng, shape, dtype):
    if dtype == "s32":
        return rng.integers(-1000, 1000, shape).astype(np.int32)
    return np.asarray(normal(rng, shape, dtype))


@pytest.mark.parametrize("kind", BINARY)
@settings(max_examples=60)
@given(broadcasting(), SEEDS, st.data())
def test_binary(kind, shapes, seed, data):
    rng = np.random.default_rng(seed)
    allowed = MIXED.get(kind, FLOATS)
    types = [data.draw(st.sampled_from(allowed)) for _ in shapes]
    more = {}
    if kind in MIXED:
        target = more["output_type"] = data.draw(st.sampled_from(allowed))
    else:
        types[1] = target = types[0]
    if data.draw(st.booleans()):
        more["auto_broadcast"] = data.draw(st.sampled_from(["numpy", "NUMPY"]))
    a, b = (values_of(rng, s, t) for s, t in zip(shapes, types, strict=True))
    if shapes[0] == shapes[1] and data.draw(st.booleans()):
        more["auto_broadcast"] = data.draw(st.sampled_from(["none", "None"]))
    result = run(kind, a, b, **more)
    a, b = exact_tensor(a), exact_tensor(b)
    exact = BINARY[kind](a, b)
    if target == "s32":
        exact = torch.round(exact)  # halves to even
        np.testing.assert_array_equal(result, exact)
        assert result.dtype == np.int32
        return
    terms = {"Maximum": 0, "Minimum": 0, "SquaredDifference": 3}.get(kind, 1)
    close(result, exact, target, terms=terms, compute=types)


@settings(max_examples=60)
@given(broadcasting(), SEEDS, st.sampled_from((*FLOATS, "s32")))
def test_greater_equal(shapes, seed, dtype):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-2, 3, s).astype(TYPES[dtype]) for s in shapes)
    result = run("GreaterEqual", a, b)
    assert result.dtype == np.bool_
    np.testing.assert_array_equal(result, exact_tensor(a) >= exact_tensor(b))


@settings(max_examples=60)
@given(broadcasting(3), SEEDS, st.sampled_from(FLOATS))
def test_select(shapes, seed, dtype):
    rng = np.random.default_rng(seed)
    condition = rng.random(shapes[0]) < 0.5
    a, b = (np.asarray(normal(rng, s, dtype)) for s in shapes[1:])
    result = run("Select", np.asarray(condition), a, b)
    exact = torch.where(torch.tensor(condition), exact_tensor(a), exact_tensor(b))
    close(result, exact, dtype, scale=0)
    assert (result.astype(np.float64) == exact.numpy()).all()


@settings(max_examples=60)
@given(normalisations())
def test_bias_add(p):
    rng = p.rng
    x, bias = p.src(rng), normal(rng, p.shape[1], p.dtype)
    result = run("BiasAdd", p.data(x), bias, data_format=p.data_format)
    exact = exact_tensor(x) + along_channels(exact_tensor(bias), x.ndim)
    close(p.undo(result), exact, p.dtype, terms=1)


@settings(max_examples=60)
@given(normalisations(), st.booleans())
def test_bias_add_backward(p, whole):
    dy = (integers if whole else normal)(p.rng, p.shape, p.dtype)
    result = run("BiasAddBackward", p.data(dy), data_format=p.data_format)
    axes = (0, *range(2, dy.ndim))
    exact, scale = exact_tensor(dy).sum(dim=axes), exact_tensor(dy).abs().sum(dim=axes)
    if whole:
        equal(result, exact, p.dtype)
    else:
        close(result, exact, p.dtype, terms=dy.size // dy.shape[1], scale=scale)


@st.composite
def slopes(draw, p):
    """The slope's own shape, and its shape in (N, C, X): one value, one per channel, or axes of data_format."""
    rank = len(p.shape)
    how = draw(st.sampled_from(["one", "per channel", "last axes"]))
    if how == "one":
        return (1,), (1,) * rank, True
    if how == "per channel":
        return p.shape[1:2], (1, p.shape[1], *[1] * (rank - 2)), True
    # In data_format's order, from the last axis on; each size that of src, or 1.
    order = [0, 1, *range(2, rank)] if p.data_format == "NCX" else [0, *range(2, rank), 1]
    width = draw(st.integers(2, rank))
    sizes = [p.shape[a] if draw(st.booleans()) else 1 for a in order]
    shape = tuple(sizes[rank - width :])
    canonical = [1] * rank
    for a, n in zip(order[rank - width :], shape, strict=True):
        canonical[a] = n
    return shape, tuple(canonical), draw(st.booleans())


def in_order(p, array):
    """An array of the slope's shape, in (N, C, X) with ones for what it lacks."""
    return to_ncx(array.reshape((1,) * (len(p.shape) - array.ndim) + array.shape), p.data_format)


@settings(max_examples=80)
@given(normalisations(), st.data())
def test_prelu(p, data):
    shape, canonical, per_channel = data.draw(slopes(p))
    rng = p.rng
    x, slope = normal(rng, p.shape, p.dtype), normal(rng, shape, p.dtype)
    result = run("PReLU", p.data(x), slope, data_format=p.data_format, per_channel_broadcast=per_channel)
    aligned = slope.reshape(canonical) if slope.ndim == 1 else in_order(p, slope)
    x, aligned = exact_tensor(x), exact_tensor(aligned)
    close(p.undo(result), torch.where(x >= 0, x, aligned * x), p.dtype, terms=1)


@settings(max_examples=80)
@given(normalisations(), st.data())
def test_prelu_backward(p, data):
    shape, canonical, _ = data.draw(slopes(p))
    rng = p.rng
    x, slope, dy = normal(rng, p.shape, p.dtype), normal(rng, shape, p.dtype), normal(rng, p.shape, p.dtype)
    assume(not (x == 0).any())
    results = run("PReLUBackward", p.data(x), slope, p.data(dy), data_format=p.data_format)
    aligned = slope.reshape(canonical) if slope.ndim == 1 else in_order(p, slope)

    def forward(x, w):
        return torch.where(x >= 0, x, w * x)

    x, dy, aligned = map(exact_tensor, (x, dy, aligned))
    exact = gradients(forward, [x, aligned], dy)
    scale = gradients(forward, [-x.abs(), aligned], -dy.abs())[1]
    close(p.undo(results[0]), exact[0], p.dtype, terms=1)
    assert results[1].shape == shape
    diff_slope = results[1].reshape(canonical) if slope.ndim == 1 else in_order(p, results[1])
    close(diff_slope, exact[1], p.dtype, terms=x.numel() + 1, scale=scale)


@settings(max_examples=20)
@given(tuples(3, 2, 4), st.sampled_from(DATA_FORMATS), SEEDS)
def test_a_slope_along_the_last_axis(shape, data_format, seed):
    """A slope of one axis, as long as the last one, with per_channel_broadcast off."""
    rng = np.random.default_rng(seed)
    x, slope = rng.standard_normal(shape), rng.standard_normal(shape[-1])
    result = run("PReLU", x, slope, data_format=data_format, per_channel_broadcast=False)
    close(result, torch.where(torch.tensor(x) >= 0, torch.tensor(x), torch.tensor(x * slope)), "f64", terms=1)


# --- ops that move elements ---------------------------------------------------------------------------


def same_bits(result, exact):
    """Equal in shape, type and value."""
    assert result.dtype == exact.dtype
    assert result.shape == exact.shape
    np.testing.assert_array_equal(result.astype(np.float64), exact.astype(np.float64))


@settings(max_examples=50)
@given(tensors(), st.data())
def test_concat(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(data.draw(st.integers(1, 5))):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 3))
        parts.append(normal(rng, own, dtype))
    exact = torch.cat([exact_tensor(v) for v in parts], axis).numpy().astype(DTYPES[dtype])
    same_bits(run("Concat", *parts, axis=axis), exact)


def test_concat_of_as_many_as_it_takes():
    parts = [np.full((1, 2), i, np.float32) for i in range(64)]
    same_bits(run("Concat", *parts, axis=0), np.repeat(np.arange(64, dtype=np.float32)[:, None], 2, 1))


@settings(max_examples=50)
@given(tensors(), st.data())
def test_static_reshape(drawn, data):
    """With 0 for a size that stays and -1 for what remains."""
    shape, dtype, rng = drawn
    x = normal(rng, shape, dtype)
    # The axes of the new shape: those of src up to some place, and all that is behind it, split in two.
    keep = data.draw(st.integers(0, len(shape)))
    rest = math.prod(shape[keep:])
    factor = data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
    wanted = [*shape[:keep], factor, rest // factor]
    special = data.draw(st.booleans())
    told = [0 if special and a < keep and data.draw(st.booleans()) else n for a, n in enumerate(wanted)]
    if data.draw(st.booleans()):
        told[data.draw(st.integers(keep, keep + 1))] = -1
    result = run("StaticReshape", x, shape=told, special_zero=special)
    same_bits(result, exact_tensor(x).reshape(wanted).numpy().astype(x.dtype))


@settings(max_examples=50)
@given(tensors(), st.data())
def test_static_transpose(drawn, data):
    shape, dtype, rng = drawn
    order = data.draw(st.permutations(range(len(shape))))
    told = [a - len(shape) if data.draw(st.booleans()) else a for a in order]
    x = normal(rng, shape, dtype)
    exact = exact_tensor(x).permute(*order).numpy().astype(x.dtype)
    same_bits(run("StaticTranspose", x, order=told), exact)


@settings(max_examples=30)
@given(tensors(), st.data())
def test_gen_index(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    result = run("GenIndex", normal(rng, shape, dtype), axis=axis)
    view = [-1 if a == axis % len(shape) else 1 for a in range(len(shape))]
    exact = torch.arange(shape[axis]).reshape(view).expand(shape)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, exact)


@settings(max_examples=30)
@given(tensors())
def test_reorder(drawn):
    shape, dtype, rng = drawn
    x = normal(rng, shape, dtype)
    same_bits(run("Reorder", x.swapaxes(0, -1)), np.ascontiguousarray(x.swapaxes(0, -1)))


def test_reorder_into_another_layout():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    graph = og.Graph()
    output = og.LogicalTensor(1, "f32", x.shape, strides=[1, 8, 2])
    graph.add_op(og.Op(0, "Reorder", [og.LogicalTensor(0, "f32", x.shape)], [output]))
    graph.finalize()
    (result,) = graph.get_partitions(backend="numpy")[0].compile().execute(None, [x])
    assert [s // 4 for s in result.strides] == [1, 8, 2]
    same_bits(result, x)


TORCH_TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


@pytest.mark.parametrize("target", FLOATS)
@settings(max_examples=40)
@given(tensors())
def test_type_cast(target, drawn):
    """To the bit, beyond the range, to numbers below the normal ones, and with halves to even."""
    shape, dtype, rng = drawn
    exponents = rng.integers(-45, 45, shape) if dtype != "f16" else rng.integers(-20, 15, shape)
    x = np.ldexp(rng.standard_normal(shape), exponents).astype(DTYPES[dtype])
    if dtype == "f32" and target != "f32":  # a number halfway between two of the target
        bits = SIGNIFICANT_BITS.get(target, 24)
        if bits < 24:
            x.flat[0] = 1 + rng.integers(0, 2**6) * 2.0 ** (1 - bits) + 2.0**-bits
    result = run("TypeCast", x, output_type=target)
    exact = torch.tensor(x.astype(np.float64)).to(TORCH_TYPES[dtype]).to(TORCH_TYPES[target]).double()
    assert result.dtype == DTYPES[target]
    np.testing.assert_array_equal(result.astype(np.float64), exact)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_wildcard_passes_its_inputs_on(count):
    rng = np.random.default_rng(0)
    types = ["f32", "bf16", "f16", "f64", "f32"][:count]
    arrays = [normal(rng, (2, 3 + i), t) for i, t in enumerate(types)]
    graph = og.Graph()
    ins = [og.LogicalTensor(i, t, a.shape) for i, (t, a) in enumerate(zip(types, arrays, strict=True))]
    outs = [og.LogicalTensor(10 + i, t, a.shape) for i, (t, a) in enumerate(zip(types, arrays, strict=True))]
    graph.add_op(og.Op(0, "Wildcard", ins, outs))
    graph.finalize()
    results = graph.get_partitions(backend="numpy")[0].compile().execute(None, arrays)
    for result, array in zip(results, arrays, strict=True):
        same_bits(result, array)
        assert not np.shares_memory(result, array)


def test_wildcard_that_is_no_identity_is_refused():
    graph = og.Graph()
    tensors_ = [og.LogicalTensor(0, "f32", [2, 3]), og.LogicalTensor(1, "f32", [3, 2])]
    graph.add_op(og.Op(0, "Wildcard", tensors_[:1], tensors_[1:]))
    graph.finalize()
    compiled = graph.get_partitions(backend="numpy")[0].compile()
    with pytest.raises(og.UnsupportedError, match=r"Wildcard.*\[2, 3\] of float32 does not fit \[3, 2\]"):
        compiled.execute(None, [np.zeros((2, 3), np.float32)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_end_only_marks_an_output(dtype):
    x = normal(np.random.default_rng(0), (2, 3), dtype)
    graph = og.Graph()
    y = graph.op("Square", graph.input("x", dtype, x.shape), name="y")
    assert graph.op("End", y) == ()
    result = graph.compile(backend="numpy")({"x": x})["y"]
    close(result, exact_tensor(x) ** 2, dtype, terms=1)


# --- quantisation -------------------------------------------------------------------------------------

QUANTIZED = {
    "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8), "s4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4), "s32": np.dtype(np.int32),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
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
