"""Weight gradients by brute force in float64, written from the documents of the ops.

Nothing of the package is imported here, so that no mistake of it can be repeated. Each op is written from its own
forward definition: a convolution gathers windows of src, a transposed convolution scatters src over dst.

Canonical layouts, in which all sums are written: data (N, C, X…), weights of a convolution (O, I/g, K…), weights of a
transposed convolution (I, O/g, K…). Formats are only permutations around them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import ml_dtypes
import numpy as np

DTYPES = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f64": np.dtype(np.float64),
}
SIGNIFICANT_BITS = {"f32": 24, "bf16": 8, "f16": 11, "f64": 53}
LARGEST = {"f32": 3.4e38, "bf16": 3.38e38, "f16": 65504.0, "f64": 1.7e308}


# --- formats -------------------------------------------------------------------------------------------


def positions(fmt, rank):
    """Letter → its axis; X → the list of all spatial ones."""
    at, axis = {}, 0
    for letter in fmt:
        if letter == "X":
            at["X"] = list(range(axis, axis + rank))
            axis += rank
        else:
            at[letter] = axis
            axis += 1
    return at


def to_ncx(array, fmt):
    """Data in `fmt` as (N, C, X…)."""
    at = positions(fmt, array.ndim - 2)
    return array.transpose(at["N"], at["C"], *at["X"])


def from_ncx(array, fmt):
    """The inverse of `to_ncx`."""
    at = positions(fmt, array.ndim - 2)
    return array.transpose(np.argsort([at["N"], at["C"], *at["X"]]))


def in_convolution_format(dw, fmt):
    """(O, I/g, K…) in `OIX` or `XIO`."""
    return {"OIX": dw, "XIO": dw.transpose(*range(2, dw.ndim), 1, 0)}[fmt]


def in_transposed_format(dw, fmt, groups, documented):
    """(I, O/g, K…) in `IOX` or `XOI`.

    Args:
        documented: as (I/g, O, K…), which the documents say: one below the other become one after the other, for
            output channel o belongs to group o // (O/g). Otherwise as oneDNN's code has it, (I, O/g, K…).
    """
    if documented:
        inputs, per_group = dw.shape[0] // groups, dw.shape[1]
        laid = np.empty((inputs, per_group * groups, *dw.shape[2:]))
        for i, o in product(range(inputs), range(per_group * groups)):
            group, within = divmod(o, per_group)
            laid[i, o] = dw[group * inputs + i, within]
        dw = laid
    return {"IOX": dw, "XOI": dw.transpose(*range(2, dw.ndim), 1, 0)}[fmt]


# --- padding and sizes ---------------------------------------------------------------------------------


def pads(auto_pad, begin, end, sizes, kernel, strides, dilations, transposed):
    """(begin, end) of every spatial axis.

    SAME_* of a convolution makes dst as long as src / stride, rounded up; SAME_* of a transposed one makes dst as long
    as src · stride where the kernel reaches that far. The odd zero is at the end for UPPER, at the front for LOWER.
    """
    mode = "none" if auto_pad is None else auto_pad.lower()
    rank = len(kernel)
    if mode == "none":
        return list(zip(begin or (0,) * rank, end or (0,) * rank, strict=True))
    if mode == "valid":
        return [(0, 0)] * rank
    found = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        extent = (k - 1) * dilation + 1
        if transposed:
            total = max(0, extent - stride)
        else:
            outputs = size // stride + (size % stride > 0)
            total = max(0, (outputs - 1) * stride + extent - size)
        low, high = total // 2, total - total // 2
        found.append({"same_upper": (low, high), "same_lower": (high, low)}[mode])
    return found


# --- sums by loops -------------------------------------------------------------------------------------


def _meetings(fixed, moving, kernel, strides, dilations, pads) -> Iterator[tuple]:
    """Every (p, k, q) with q = p·stride + k·dilation − pads_begin inside `moving`, p inside `fixed`."""
    for p in product(*map(range, fixed)):
        for k in product(*map(range, kernel)):
            q = tuple(
                p[a] * strides[a] + k[a] * dilations[a] - pads[a][0]  # what lies before 0 is padding
                for a in range(len(kernel))
            )
            if all(0 <= q[a] < moving[a] for a in range(len(kernel))):
                yield p, k, q


def convolution(x, w, *, strides, pads, dilations, groups):
    """Forward convolution: x (N, I, X…), w (O, I/g, K…) → (N, O, Y…)."""
    batch, outputs, inputs = len(x), len(w) // groups, w.shape[1]
    kernel = w.shape[2:]
    size = [
        (x.shape[2 + a] + sum(pads[a]) - ((kernel[a] - 1) * dilations[a] + 1)) // strides[a] + 1
        for a in range(len(kernel))
    ]
    y = np.zeros((batch, len(w), *size))
    meetings = list(_meetings(size, x.shape[2:], kernel, strides, dilations, pads))
    for n in range(batch):
        for g in range(groups):
            for o in range(g * outputs, (g + 1) * outputs):
                for i in range(inputs):
                    for p, k, q in meetings:
                        y[(n, o, *p)] += x[(n, g * inputs + i, *q)] * w[(o, i, *k)]
    return y


def convolution_weights(x, dy, kernel, *, strides, pads, dilations, groups):
    """dW (O, I/g, K…) of `convolution`: y[n, o, p] holds x[n, i, q] · w[o, i, k], so dW[o, i, k] sums dy · x."""
    batch, outputs, inputs = len(x), dy.shape[1] // groups, x.shape[1] // groups
    dw = np.zeros((dy.shape[1], inputs, *kernel))
    meetings = list(_meetings(dy.shape[2:], x.shape[2:], kernel, strides, dilations, pads))
    for n in range(batch):
        for g in range(groups):
            for o in range(g * outputs, (g + 1) * outputs):
                for i in range(inputs):
                    for p, k, q in meetings:
                        dw[(o, i, *k)] += dy[(n, o, *p)] * x[(n, g * inputs + i, *q)]
    return dw


def transposed(x, w, *, strides, pads, dilations, groups, out):
    """Forward transposed convolution: x (N, I, X…), w (I, O/g, K…) → (N, O, out…).

    Each x[n, i, p] is scattered: w[i, o, k] of it lands at position p·stride + k·dilation − pads_begin.
    """
    batch, inputs, outputs = len(x), len(w) // groups, w.shape[1]
    y = np.zeros((batch, outputs * groups, *out))
    meetings = list(_meetings(x.shape[2:], out, w.shape[2:], strides, dilations, pads))
    for n in range(batch):
        for g in range(groups):
            for i in range(g * inputs, (g + 1) * inputs):
                for o in range(outputs):
                    for p, k, q in meetings:
                        y[(n, g * outputs + o, *q)] += x[(n, i, *p)] * w[(i, o, *k)]
    return y


def transposed_weights(x, dy, kernel, *, strides, pads, dilations, groups):
    """dW (I, O/g, K…) of `transposed`: what w[i, o, k] · x[n, i, p] landed on, dy tells."""
    batch, inputs, outputs = len(x), x.shape[1] // groups, dy.shape[1] // groups
    dw = np.zeros((x.shape[1], outputs, *kernel))
    meetings = list(_meetings(x.shape[2:], dy.shape[2:], kernel, strides, dilations, pads))
    for n in range(batch):
        for g in range(groups):
            for i in range(g * inputs, (g + 1) * inputs):
                for o in range(outputs):
                    for p, k, q in meetings:
                        dw[(i, o, *k)] += x[(n, i, *p)] * dy[(n, g * outputs + o, *q)]
    return dw


# --- the same without loops over channels and positions, for larger shapes ----------------------------


def fast_convolution_weights(x, dy, kernel, *, strides, pads, dilations, groups):
    """`convolution_weights` by zero-padding src and one product per kernel position."""
    rank, out = len(kernel), dy.shape[2:]
    positions = int(np.prod(out))  # -1 can't stand for it in an empty batch
    needed = [(out[a] - 1) * strides[a] + (kernel[a] - 1) * dilations[a] + 1 for a in range(rank)]
    after = [max(0, needed[a] - pads[a][0] - x.shape[2 + a]) for a in range(rank)]
    x = np.pad(x, [(0, 0), (0, 0), *[(pads[a][0], after[a]) for a in range(rank)]])
    by_group = dy.reshape(len(x), groups, dy.shape[1] // groups, positions)
    dw = np.zeros((dy.shape[1], x.shape[1] // groups, *kernel))
    for k in product(*map(range, kernel)):
        starts = [k[a] * dilations[a] for a in range(rank)]
        cut = [slice(starts[a], starts[a] + (out[a] - 1) * strides[a] + 1, strides[a]) for a in range(rank)]
        window = x[(slice(None), slice(None), *cut)].reshape(len(x), groups, x.shape[1] // groups, positions)
        tap = np.einsum("ngop,ngip->goi", by_group, window, optimize=True)
        dw[(..., *k)] = tap.reshape(dw.shape[:2])
    return dw


def fast_transposed_weights(x, dy, kernel, *, strides, pads, dilations, groups):
    """`transposed_weights` by zero insertion: src stretched by the stride, shifted under dst per kernel position."""
    rank, out = len(kernel), dy.shape[2:]
    positions = int(np.prod(out))  # -1 can't stand for it in an empty batch
    stretched = np.zeros((*x.shape[:2], *[(x.shape[2 + a] - 1) * strides[a] + 1 for a in range(rank)]))
    stretched[(slice(None), slice(None), *[slice(None, None, s) for s in strides])] = x
    by_group = dy.reshape(len(x), groups, dy.shape[1] // groups, positions)
    dw = np.zeros((x.shape[1], dy.shape[1] // groups, *kernel))
    for k in product(*map(range, kernel)):
        shifted = np.zeros((*x.shape[:2], *out))
        source, target = [slice(None)] * 2, [slice(None)] * 2
        for a in range(rank):
            first = k[a] * dilations[a] - pads[a][0]  # where the first element of src lands
            begin, end = max(0, first), min(out[a], first + stretched.shape[2 + a])
            target.append(slice(begin, max(begin, end)))
            source.append(slice(begin - first, max(begin, end) - first))
        shifted[tuple(target)] = stretched[tuple(source)]
        shifted = shifted.reshape(len(x), groups, x.shape[1] // groups, positions)
        tap = np.einsum("ngip,ngop->gio", shifted, by_group, optimize=True)
        dw[(..., *k)] = tap.reshape(dw.shape[:2])
    return dw


# --- rounding ------------------------------------------------------------------------------------------


def rounded(values, dtype):
    """float64 rounded once to `dtype`, to nearest and ties to even, by arithmetic."""
    mantissa, exponent = np.frexp(values)
    bits = SIGNIFICANT_BITS[dtype]
    nearest = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    if nearest.size and np.abs(nearest).max() > LARGEST[dtype]:
        raise ValueError(f"a sum of {np.abs(nearest).max()} is beyond {dtype}; choose smaller values")
    return nearest.astype(DTYPES[dtype])


# --- problems ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One weight gradient with its data. Sizes are those of the op's own src; those of diff_dst follow.

    None means that an attribute is not given at all, so that the package's default must be right.

    Attributes:
        channels: of src and of diff_dst.
        size: spatial sizes of src.
        begin, end: pads; empty means an empty list. Under `auto_pad` they must be ignored.
        output_padding: the attribute of a transposed op; None leaves it out.
        implied: output padding that is not told but only seen in the size of diff_dst.
        documented: grouped weights of a transposed op as the documents have them, else as oneDNN's code has them.
        src_values, dst_values: smallest and largest integer in the arrays.
    """

    transposed: bool = False
    batch: int = 2
    groups: int | None = None
    channels: tuple[int, int] = (3, 4)
    size: tuple[int, ...] = (6, 5)
    kernel: tuple[int, ...] = (3, 2)
    strides: tuple[int, ...] = ()
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    auto_pad: str | None = None
    output_padding: tuple[int, ...] | None = None
    implied: tuple[int, ...] = ()
    data_format: str | None = None
    weights_format: str | None = None
    documented: bool = True
    dtype: str = "f32"
    src_values: tuple[int, int] = (-3, 3)
    dst_values: tuple[int, int] = (-3, 3)
    seed: int = 0

    def __post_init__(self):
        for name in ("strides", "dilations"):
            object.__setattr__(self, name, getattr(self, name) or (1,) * len(self.kernel))

    @property
    def rank(self):
        return len(self.kernel)

    @property
    def kind(self):
        return "ConvTransposeBackwardWeights" if self.transposed else "ConvolutionBackwardWeights"

    @property
    def formats(self):
        """(data_format, weights_format) with the documents' defaults filled in."""
        return self.data_format or "NXC", self.weights_format or ("XOI" if self.transposed else "XIO")

    @property
    def geometry(self):
        """What the sums depend on, as their keyword arguments."""
        return {
            "strides": self.strides,
            "pads": pads(
                self.auto_pad,
                self.begin,
                self.end,
                self.size,
                self.kernel,
                self.strides,
                self.dilations,
                self.transposed,
            ),
            "dilations": self.dilations,
            "groups": self.groups or 1,
        }

    @property
    def out(self):
        """Spatial sizes of diff_dst."""
        extra = self.output_padding or self.implied or (0,) * self.rank
        sizes = []
        for a, (begin, end) in enumerate(self.geometry["pads"]):
            extent = (self.kernel[a] - 1) * self.dilations[a] + 1
            if self.transposed:
                size = self.strides[a] * (self.size[a] - 1) + extent + extra[a] - begin - end
            else:
                size = (self.size[a] + begin + end - extent) // self.strides[a] + 1
            sizes.append(size)
        return tuple(sizes)

    @property
    def weights_shape(self):
        """In weights_format; from the notes of the documents."""
        groups, (inputs, outputs) = self.groups or 1, self.channels
        if self.transposed and not self.documented:
            i, o = inputs, outputs // groups
        else:
            i, o = inputs // groups, outputs
        k = self.kernel
        return {"OIX": (o, i, *k), "XIO": (*k, i, o), "IOX": (i, o, *k), "XOI": (*k, o, i)}[self.formats[1]]

    @property
    def attributes(self):
        """The attributes to give, without weights_shape."""
        given = {
            "strides": list(self.strides),
            "pads_begin": list(self.begin),
            "pads_end": list(self.end),
            "dilations": list(self.dilations),
            "groups": self.groups,
            "auto_pad": self.auto_pad,
            "data_format": self.data_format,
            "weights_format": self.weights_format,
        }
        if self.output_padding is not None:
            given["output_padding"] = list(self.output_padding)
        return {name: value for name, value in given.items() if value is not None}

    def canonical_arrays(self):
        """src and diff_dst as (N, C, X…) in float64, holding small integers."""
        rng = np.random.default_rng(self.seed)
        (low, high), (dst_low, dst_high) = self.src_values, self.dst_values
        src = rng.integers(low, high + 1, (self.batch, self.channels[0], *self.size))
        dst = rng.integers(dst_low, dst_high + 1, (self.batch, self.channels[1], *self.out))
        return src.astype(np.float64), dst.astype(np.float64)

    def arrays(self):
        """src and diff_dst for the op: in data_format and dtype, dense."""
        return tuple(
            np.ascontiguousarray(from_ncx(array, self.formats[0])).astype(DTYPES[self.dtype])
            for array in self.canonical_arrays()
        )

    def in_weights_format(self, dw):
        """Canonical weights in weights_format and, where there are groups, in the chosen layout."""
        if self.transposed:
            return in_transposed_format(dw, self.formats[1], self.groups or 1, self.documented)
        return in_convolution_format(dw, self.formats[1])

    def exact(self, *, fast=False):
        """dW in weights_format, in float64: every integer of it is exact."""
        plain = replace(
            self,
            data_format=None,
            weights_format=None,
            documented=True,
            dtype="f64",
            **({"groups": None} if self.groups == 1 else {}),
        )
        return self.in_weights_format(_gradient(plain, fast))

    def expected(self, *, fast=False):
        """What the op must return, to the last bit: `exact`, rounded once to the data type."""
        return rounded(self.exact(fast=fast), self.dtype)


# Layouts and data types share the loops' result.
@lru_cache(maxsize=512)
def _gradient(problem, fast):
    """Canonical dW."""
    if problem.transposed:
        gradient = fast_transposed_weights if fast else transposed_weights
    else:
        gradient = fast_convolution_weights if fast else convolution_weights
    dw = gradient(*problem.canonical_arrays(), problem.kernel, **problem.geometry)
    dw.setflags(write=False)
    return dw
