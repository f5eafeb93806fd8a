"""NumPy kernels of the eltwise family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.attributes import Attributes
from .chunks import in_chunks
from .kernels import Array, register_kernel, store, wide

Forward = Callable[[Array, Attributes], Array]
Backward = Callable[[Array, Attributes], Array]
"""From the forward op's input, or its output with use_dst, to the derivative."""

_EXACT_ERF = np.vectorize(math.erf, otypes=[np.float64])
_ERF_LIMIT = 6.0
"""Beyond it erf is 1 in double precision."""
_ERF = np.polynomial.Chebyshev.interpolate(_EXACT_ERF, 60, domain=(0.0, _ERF_LIMIT))
"""erf between 0 and the limit to 1e-13; NumPy has none."""


def erf(x: Array) -> Array:
    """The error function; to 1e-13 in f32, where that is enough, and to the last digits in f64, one by one."""
    if x.dtype == np.float64:
        return np.asarray(_EXACT_ERF(x)) if x.size else x.copy()
    distance = np.abs(x.astype(np.float64))
    return np.copysign(np.where(distance < _ERF_LIMIT, _ERF(np.minimum(distance, _ERF_LIMIT)), 1), x)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1, small) / (1 + small)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array, a: Attributes) -> Array:
    return np.where(x > 0, x, a.real("alpha") * np.expm1(np.minimum(x, 0)))


_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def _gelu(x: Array, a: Attributes) -> Array:
    if a.string("mode") == "gelu_erf":
        return 0.5 * x * (1 + erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3)))


def _gelu_slope(x: Array, a: Attributes) -> Array:
    if a.string("mode") == "gelu_erf":
        return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    tanh = np.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3))
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * _TANH_SCALE * (1 + 3 * _TANH_CUBE * x**2)


def _mish_slope(x: Array, a: Attributes) -> Array:
    tanh = np.tanh(_softplus(x))
    return tanh + x * _sigmoid(x) * (1 - tanh**2)


def _swish_slope(x: Array, a: Attributes) -> Array:
    sigmoid = _sigmoid(x)
    return sigmoid * (1 + x * (1 - sigmoid))


def _hard_sigmoid(x: Array, a: Attributes) -> Array:
    return np.clip(a.real("alpha") * x + a.real("beta"), 0, 1)


def _hard_sigmoid_slope(x: Array, a: Attributes) -> Array:
    line = a.real("alpha") * x + a.real("beta")
    return np.where((line > 0) & (line < 1), a.real("alpha"), 0)


def _elu_slope(x: Array, a: Attributes) -> Array:
    below = x + a.real("alpha") if a.flag("use_dst") else a.real("alpha") * np.exp(np.minimum(x, 0))
    return np.where(x > 0, 1, below)


def _clamp_slope(x: Array, a: Attributes) -> Array:
    return ((x > a.real("min")) & (x < a.real("max"))).astype(x.dtype)


def _hard_swish_slope(x: Array, a: Attributes) -> Array:
    return np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6))


def _sigmoid_slope(x: Array, a: Attributes) -> Array:
    y = x if a.flag("use_dst") else _sigmoid(x)
    return y * (1 - y)


def _tanh_slope(x: Array, a: Attributes) -> Array:
    y = x if a.flag("use_dst") else np.tanh(x)
    return 1 - y * y


def _sqrt_slope(x: Array, a: Attributes) -> Array:
    return 0.5 / (x if a.flag("use_dst") else np.sqrt(x))


FORWARD: dict[str, Forward] = {
    "Abs": lambda x, a: np.abs(x),
    "Clamp": lambda x, a: np.clip(x, a.real("min"), a.real("max")),
    "Elu": _elu,
    "Exp": lambda x, a: np.exp(x),
    "GELU": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda x, a: x * np.clip(x + 3, 0, 6) / 6,
    "LeakyReLU": lambda x, a: np.where(x >= 0, x, a.real("alpha") * x),
    "Log": lambda x, a: np.log(x),
    "Mish": lambda x, a: x * np.tanh(_softplus(x)),
    "Pow": lambda x, a: np.power(x, x.dtype.type(a.real("beta"))),
    "Reciprocal": lambda x, a: 1 / x,
    "ReLU": lambda x, a: np.maximum(x, 0),
    "Round": lambda x, a: np.rint(x),
    "Sigmoid": lambda x, a: _sigmoid(x),
    "SoftPlus": lambda x, a: _softplus(a.real("beta") * x) / a.real("beta"),
    "Sqrt": lambda x, a: np.sqrt(x),
    "Square": lambda x, a: x * x,
    "Tanh": lambda x, a: np.tanh(x),
}
"""Kind → the function."""

SLOPES: dict[str, Backward] = {
    "AbsBackward": lambda x, a: np.sign(x),
    "ClampBackward": _clamp_slope,
    "EluBackward": _elu_slope,
    "GELUBackward": _gelu_slope,
    "HardSigmoidBackward": _hard_sigmoid_slope,
    "HardSwishBackward": _hard_swish_slope,
    "MishBackward": _mish_slope,
    "ReLUBackward": lambda x, a: (x > 0).astype(x.dtype),
    "SigmoidBackward": _sigmoid_slope,
    "SoftPlusBackward": lambda x, a: _sigmoid(a.real("beta") * x),
    "SqrtBackward": _sqrt_slope,
    "SwishBackward": _swish_slope,
    "TanhBackward": _tanh_slope,
}
"""Kind → the derivative that diff_dst is multiplied with."""


def forward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src)."""
    with np.errstate(all="ignore"):  # infinities and NaN are results here
        store(outputs[0], FORWARD[op.kind](wide(inputs[0]), op.attributes))


def backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src = f'(src) · diff_dst; 0 where the derivative is 0, whatever diff_dst is."""
    with np.errstate(all="ignore"):
        slope = SLOPES[op.kind](wide(inputs[0]), op.attributes)
        store(outputs[0], np.where(slope == 0, 0, slope * wide(inputs[1])))


def logarithm(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Log src, on several threads: the library has one that is right to 4e-6 alone, which is nothing near 1."""
    src, dst = inputs[0], outputs[0]
    if not (src.dtype == dst.dtype == np.float32 and src.flags.c_contiguous and dst.flags.c_contiguous):
        forward(op, inputs, outputs)
        return
    values, logarithms = src.reshape(-1), dst.reshape(-1)

    def work(first: int, end: int) -> None:
        with np.errstate(all="ignore"):  # of each thread
            np.log(values[first:end], out=logarithms[first:end])

    in_chunks(values.size, lambda: work)


for _kind in FORWARD:
    register_kernel(_kind, logarithm if _kind == "Log" else forward)
for _kind in SLOPES:
    register_kernel(_kind, backward)
