"""Each op's NumPy kernel against torch on the CPU: convolutions and their gradients."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import (
    from_ncx,
    in_convolution_format,
    in_transposed_format,
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
    tuples,
)

pytestmark = pytest.mark.usefixtures("one_thread")


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
            self.auto_pad,
            self.begin,
            self.end,
            self.size,
            self.kernel,
            self.strides,
            self.dilations,
            self.transposed,
        )

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
            "strides": self.strides,
            "pads_begin": self.begin,
            "pads_end": self.end,
            "dilations": self.dilations,
            "groups": self.groups,
            "auto_pad": self.auto_pad,
            "data_format": self.data_format,
            "weights_format": self.weights_format,
        }
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
        output_padding=None
        if extra is None
        else tuple(min(e, s - 1) for e, s in zip(extra, strides, strict=True)),
        data_format=draw(st.sampled_from(DATA_FORMATS)),
        weights_format=draw(st.sampled_from(["XOI", "IOX"] if transposed else ["XIO", "OIX"])),
        documented=draw(st.booleans()),
        dtype=draw(st.sampled_from(FLOATS)),
        bias=draw(st.booleans()),
        whole=draw(st.booleans()),
        seed=draw(SEEDS),
    )


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
