"""What a graph must give: values in double precision, and how far rounding may take each element from them.

Every op is run by its NumPy kernel in f64, with nothing rounded in between. Beside each value goes a bound of its
error: what the inputs' errors become on the way through the op, what the op's own arithmetic in f32 may add, and the
rounding to the type of the output. An implementation that keeps more digits lies within it too. Where all is exact the
bound is zero; where it can't be said (a value beyond its type) it is infinite and nothing is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onednn_graph as og
from onednn_graph.backends.numpy.kernels import KERNELS

from .case import TYPES

HALF_STEP = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Largest relative error of rounding to nearest."""
SMALLEST = {"f64": 0.0, "f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126}
"""Absolute error where numbers are subnormal; those of f32 and bf16 may be flushed."""
LARGEST = {"f64": 1.7e308, "f32": 3.4e38, "f16": 65504.0, "bf16": 3.38e38}
F32 = 2.0**-24

PRODUCTS = frozenset(
    {
        "Convolution",
        "ConvolutionBackwardData",
        "ConvolutionBackwardWeights",
        "ConvTranspose",
        "ConvTransposeBackwardData",
        "ConvTransposeBackwardWeights",
        "MatMul",
    }
)
LINEAR = PRODUCTS | {
    "AvgPool",
    "AvgPoolBackward",
    "ReduceSum",
    "ReduceMean",
    "ReduceL1",
    "BiasAddBackward",
    "Interpolate",
    "InterpolateBackward",
}
"""Sums of their inputs, or of products of them, with weights that are not negative."""
MOVES = frozenset({"StaticReshape", "StaticTranspose", "Concat", "Reorder", "HostSlice", "End"})
"""What errors go through as values do."""
MONOTONE = frozenset({"MaxPool", "ReduceMax", "ReduceMin"})
EXACT = frozenset(
    {
        "Maximum",
        "Minimum",
        "ReLU",
        "Abs",
        "Round",
        "Select",
        "GreaterEqual",
        "GenIndex",
        "ReLUBackward",
        "AbsBackward",
        "Clamp",
        "ClampBackward",
        "LeakyReLU",
        "PReLU",
        "Add",
        "Subtract",
        "Multiply",
        "BiasAdd",
        "Square",
        "SquaredDifference",
        "TypeCast",
        "Quantize",
        "Dequantize",
    }
)
"""Elementwise, with at most two roundings in f32."""
DELICATE = frozenset(
    {
        "Elu",
        "EluBackward",
        "GELU",
        "GELUBackward",
        "HardSwishBackward",
        "Log",
        "Mish",
        "MishBackward",
        "SwishBackward",
        "SoftPlus",
        "SoftPlusBackward",
        "Tanh",
        "TanhBackward",
        "Sigmoid",
        "SigmoidBackward",
        "Exp",
        "Pow",
    }
)
"""Functions that kernels approximate by polynomials."""
ELEMENTWISE_FAMILIES = frozenset({"eltwise", "binary", "quantization", "dropout"})
FPMATH = {"bf16": 2.0**-8, "f16": 2.0**-11, "any": 2.0**-8, "tf32": 2.0**-11}
FPMATH_TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "any": ml_dtypes.bfloat16, "f16": np.float16}
PROBES = 4

Array = np.ndarray


def held(data_type: og.DataType) -> Any:
    """The type that a tensor is kept in here."""
    return np.float64 if data_type.value in HALF_STEP else TYPES[data_type.value]


def run_kernel(op: og.Op, inputs: Sequence[Array]) -> list[Array]:
    """The op's outputs by its NumPy kernel, in f64."""
    outputs = [np.empty(t.dims, held(t.data_type)) for t in op.outputs]
    with np.errstate(all="ignore"):
        KERNELS[op.kind](op, inputs, outputs)
    return outputs


def expected(graph: og.Graph, arrays: dict[int, Array]) -> dict[int, tuple[Array, Array]]:
    """Each tensor's value and the bound of its error, by id.

    Args:
        graph: finalized, with all shapes known.
        arrays: the inputs in their own types.
    """
    found: dict[int, tuple[Array, Array]] = {}
    for tensor in graph.inputs:
        array = arrays[tensor.id].astype(held(tensor.data_type))
        found[tensor.id] = array, np.zeros(array.shape)
    fpmath = graph.fpmath_mode.value
    products: dict[int, tuple[og.Op, list[Array]]] = {}
    for op in graph.ops:
        ins = [found[t.id] for t in op.inputs]
        values, errors = [v for v, _ in ins], [e for _, e in ins]
        outputs = run_kernel(op, values)
        with np.errstate(all="ignore"):
            bounds = _bounds(op, values, errors, outputs, fpmath)
            if op.kind in PRODUCTS:
                products[op.outputs[0].id] = op, values
            elif op.kind == "BiasAdd" and op.inputs[0].id in products:
                bounds[0] = bounds[0] + _sums_from(values[1], *products[op.inputs[0].id])
            for tensor, value, bound in zip(op.outputs, outputs, bounds, strict=True):
                found[tensor.id] = value, _rounded(value, bound, tensor.data_type.value)
    return found


def _rounded(value: Array, bound: Array, kind: str) -> Array:
    """The bound with the rounding to the output's type."""
    if kind not in HALF_STEP:
        return bound
    if kind == "f64":
        return np.where(np.isfinite(value), bound + HALF_STEP[kind] * np.abs(value), np.inf)
    stored = value.astype(TYPES[kind]).astype(np.float64)
    exact = (stored == value) & (bound == 0)
    step = np.maximum(1.02 * HALF_STEP[kind] * (np.abs(value) + bound), SMALLEST[kind])
    bound = np.where(exact, 0.0, bound + step)
    return np.where(np.abs(value) + bound <= LARGEST[kind], bound, np.inf)


def _bounds(
    op: og.Op, values: list[Array], errors: list[Array], outputs: list[Array], fpmath: str
) -> list[Array]:
    exact = not any(e.any() for e in errors)
    if op.kind == "MaxPoolBackward":
        return [_max_pool_backward(op, values, errors)]
    if op.kind in MOVES:
        return run_kernel(op, errors) if not exact else [np.zeros(o.shape) for o in outputs]
    if op.kind in LINEAR:
        return [_linear(op, values, errors, outputs[0], fpmath)]
    if op.kind in MONOTONE or op.schema.family in ELEMENTWISE_FAMILIES or op.kind in ("PReLU", "GenIndex"):
        if op.kind == "Quantize" and not _is_on_grid(op, values[0]):
            # A quotient near the middle between two steps may go either way.
            zero = max(op.attributes["scales"]) * max(map(abs, op.attributes.get("zps") or (0,)))
            errors, exact = [errors[0] + 8 * F32 * (np.abs(values[0]) + zero)], False
        if op.kind == "DynamicQuantize":
            zero = np.max(values[1]) * np.max(np.abs(values[2])) if len(values) > 2 else 0.0
            errors = [errors[0] + 8 * F32 * (np.abs(values[0]) + zero), *errors[1:]]
            exact = False
        spread = [np.zeros(o.shape) for o in outputs] if exact else _corners(op, values, errors, outputs)
        if op.schema.family == "eltwise" and op.kind.endswith("Backward"):
            # Of a gradient that is no number, a slope of zero makes 0 here, and NaN in kernels that multiply.
            spread[0] = np.where(np.isfinite(values[1]), spread[0], np.inf)
        return [s + _arithmetic(op, values, o) for s, o in zip(spread, outputs, strict=True)]
    return _probed(op, values, errors, outputs)


def _max_pool_backward(op: og.Op, values: list[Array], errors: list[Array]) -> Array:
    """Sums of gradients where windows overlap; the choice is made among values that are exact."""
    sizes = run_kernel(op, [values[0], np.abs(values[1])])[0]
    if errors[0].any():
        return np.full(sizes.shape, np.inf)
    bound = run_kernel(op, [values[0], errors[1]])[0]
    return bound if not bound.any() and _is_exact([values[1]], sizes) else bound + 8 * F32 * sizes


def _is_on_grid(op: og.Op, values: Array) -> bool:
    """Whether quotients by these scales are exact in f32, also with a zero point."""
    return _are_powers(op) and bool((np.rint(values * 64) == values * 64).all())


def _are_powers(op: og.Op) -> bool:
    """Whether all scales are powers of two."""
    return all(np.frexp(s)[0] == 0.5 for s in op.attributes["scales"])


def _arithmetic(op: og.Op, values: list[Array], output: Array) -> Array | float:
    """What an elementwise op's own arithmetic may add."""
    if output.dtype.kind != "f" or op.kind in MONOTONE:
        return 0.0
    if op.kind == "Dequantize" and not _are_powers(op):
        # Its kernel multiplies in f32, whose product is one of several; the zero point may be taken off behind it.
        zero = max(op.attributes["scales"]) * max(map(abs, op.attributes.get("zps") or (0,)))
        return 4 * F32 * (np.abs(output) + zero)
    if op.kind in EXACT:
        single = output.astype(np.float32).astype(np.float64)
        return np.where(single == output, 0.0, 4 * F32 * np.abs(output))
    size = np.abs(output)
    if op.kind in DELICATE:
        # Derivatives are scaled by the gradient that goes through them.
        scale = np.abs(values[1]) if op.kind.endswith("Backward") else 1.0
        return 1e-5 * size + 1e-5 * scale
    scale = np.abs(values[1]) if op.kind.endswith("Backward") else 0.0
    source = np.abs(values[0]) if values[0].shape == output.shape and values[0].dtype.kind == "f" else 0.0
    return 16 * F32 * (size + scale) + 4 * F32 * source


def _linear(op: og.Op, values: list[Array], errors: list[Array], output: Array, fpmath: str) -> Array:
    sizes = [np.abs(v) if v.dtype.kind == "f" else v for v in values]
    if op.kind == "InterpolateBackward":
        sizes[0] = np.zeros_like(sizes[0])
    if op.kind in PRODUCTS and fpmath != "strict":
        errors = list(errors)
        for i, tensor in enumerate(op.inputs[:2]):
            if tensor.data_type.value == "f32" and not _fits(values[i], fpmath):
                errors[i] = errors[i] + FPMATH[fpmath] * (sizes[i] + errors[i])
    total = run_kernel(op, sizes)[0]
    bound = np.zeros(output.shape)
    if any(e.any() for e in errors):
        wide = [s + e if s.dtype.kind == "f" else s for s, e in zip(sizes, errors, strict=True)]
        if any(not np.isfinite(w).all() for w in wide if w.dtype.kind == "f"):
            return _infinite_linear(op, sizes, errors, output)
        bound = run_kernel(op, wide)[0] - total
        bound = np.maximum(bound, 0.0) + 1e-15 * total
        total = total + bound
    elif op.kind in PRODUCTS | {"ReduceSum", "ReduceL1", "BiasAddBackward"} and _is_exact(sizes, total):
        return bound
    return bound + F32 * _drift(_terms(op)) * total


def _sums_from(bias: Array, product: og.Op, values: list[Array]) -> Array | float:
    """What is rounded where a product's sums begin with its bias, as kernels may have it: each one."""
    sizes = [np.abs(v) if v.dtype.kind == "f" else v for v in values]
    total = run_kernel(product, sizes)[0]
    exact = _is_exact([*sizes, bias], total + np.abs(bias).max(initial=0.0))
    return 0.0 if exact else F32 * _drift(_terms(product)) * total


def _infinite_linear(op: og.Op, sizes: list[Array], errors: list[Array], output: Array) -> Array:
    """Nothing is known of the elements that an unknown one goes into; for simplicity of none."""
    del op, sizes, errors
    return np.full(output.shape, np.inf)


def _fits(values: Array, fpmath: str) -> bool:
    kind = FPMATH_TYPES.get(fpmath)
    return kind is not None and bool((values.astype(kind).astype(np.float64) == values).all())


def _drift(terms: float) -> float:
    """Roundings that a sum of so many numbers may be off by: they add up where all are of one sign."""
    return max(4.0, 4 * float(np.sqrt(terms)), terms / 4)


def _terms(op: og.Op) -> float:
    """How many numbers an output element sums, roughly and rather too many."""
    inputs = sum(np.prod(t.dims, dtype=float) for t in op.inputs[:2])
    return float(max(1.0, inputs / max(1.0, np.prod(op.outputs[0].dims, dtype=float)))) + 64


def _is_exact(sizes: list[Array], total: Array) -> bool:
    """Whether sums of these are exact in f32 in any order."""
    unit = 1.0
    for values in sizes:
        if values.dtype.kind != "f" or not values.size:
            continue
        fraction = next(
            (u for u in (1.0, 0.5, 0.25, 0.125) if (np.rint(values / u) * u == values).all()), None
        )
        if fraction is None:
            return False
        unit *= fraction
    return bool(total.size == 0 or total.max() / unit < 2.0**24)


def _corners(op: og.Op, values: list[Array], errors: list[Array], outputs: list[Array]) -> list[Array]:
    """The largest change where each input is at either end of what it may be."""
    ends: list[list[Array]] = []
    for value, error in zip(values, errors, strict=True):
        if not error.any():
            ends.append([value])
        elif value.dtype.kind == "f":
            ends.append([value - error, value + error])
        elif value.dtype.kind == "b":
            ends.append([value & (error == 0), value | (error > 0)])
        else:
            limits = np.iinfo(value.dtype)
            low, high = (
                np.clip(value.astype(np.float64) + s * error, limits.min, limits.max) for s in (-1, 1)
            )
            ends.append([low.astype(value.dtype), high.astype(value.dtype)])
    spreads = [np.zeros(o.shape) for o in outputs]
    for corner in product(*ends):
        for spread, output, there in zip(spreads, outputs, run_kernel(op, list(corner)), strict=True):
            change = np.abs(there.astype(np.float64) - output.astype(np.float64))
            np.maximum(spread, np.where(np.isnan(change), np.inf, change), out=spread)
    for divisor, error in zip(_divisors(op, values), _divisors(op, errors), strict=True):
        # Neither end shows what is between them where the divisor may be zero.
        crossed = (np.abs(divisor) <= error) & (error > 0)
        spreads[0][np.broadcast_to(crossed, spreads[0].shape)] = np.inf
    for spread, output in zip(spreads, outputs, strict=True):
        for value in values if output.dtype.kind in "iub" else ():
            if value.dtype.kind == "f" and np.isnan(value).any():  # what integer a NaN becomes, nobody says
                spread[np.isnan(value) if value.shape == spread.shape else ...] = np.inf
    # Between the corners a function that is no straight line may bulge a little.
    return [1.25 * s if op.outputs[0].data_type.value in HALF_STEP else s for s in spreads]


def _divisors(op: og.Op, of_inputs: list[Array]) -> list[Array]:
    """Of what is given for each input, that of the one by which the op divides."""
    if op.kind == "Divide":
        return of_inputs[1:]
    return (
        of_inputs if op.kind == "Reciprocal" or (op.kind == "Pow" and op.attributes.real("beta") < 0) else []
    )


def _probed(op: og.Op, values: list[Array], errors: list[Array], outputs: list[Array]) -> list[Array]:
    """Normalizations and the like: how much a few changes of the size of the errors change the outputs."""
    rng = np.random.default_rng(len(outputs[0].shape))
    spreads = [np.zeros(o.shape) for o in outputs]
    sizes = [
        e + 4 * F32 * np.abs(v) if v.dtype.kind == "f" else e for v, e in zip(values, errors, strict=True)
    ]
    if any(not np.isfinite(s).all() for s in sizes):
        return [np.full(o.shape, np.inf) for o in outputs]
    ways: list[Callable[[Array], Array]] = [lambda v: np.where(rng.random(v.shape) < 0.5, -1.0, 1.0)] * PROBES
    # All in one at last, and all from zero or to it: numbers that are equal, or opposite, are rounded alike.
    ways += [np.ones_like, lambda v: -np.ones_like(v), np.sign, lambda v: -np.sign(v)]
    if op.kind in ("SoftMax", "LogSoftmax"):
        # A row's largest number against all others: two that are near each other otherwise often move as one.
        axis = op.attributes.integer("axis")
        ways += [
            lambda v, sign=sign: np.where(v == v.max(axis, keepdims=True, initial=-np.inf), sign, -sign)
            for sign in (1, -1)
        ]
    for way in ways:
        moved = [v + s * way(v) if v.dtype.kind == "f" else v for v, s in zip(values, sizes, strict=True)]
        for spread, output, there in zip(spreads, outputs, run_kernel(op, moved), strict=True):
            change = np.abs(there.astype(np.float64) - output.astype(np.float64))
            np.maximum(spread, np.where(np.isnan(change), np.inf, change), out=spread)
    result: list[Array] = []
    summed = values[0].size / max(1, min(output.size for output in outputs))  # statistics are sums of so many
    for spread, output in zip(spreads, outputs, strict=True):
        largest = float(np.abs(output).max(initial=0.0))
        typical = float(spread.max(initial=0.0)) / 2
        relative = max(1e-5, F32 * _drift(summed))
        result.append(4 * np.maximum(spread, typical) + relative * np.abs(output) + relative / 10 * largest)
    if op.kind in ("BatchNormTrainingBackward", "GroupNormBackward", "LayerNormBackward"):
        result[0] = result[0] + 4 * F32 * _size_of_terms(op, values)
    if op.kind == "LayerNorm":
        result[0] = result[0] + _drift_of_means(op, values[0])
    if op.kind in ("SoftMax", "LogSoftmax"):
        # Kernels keep what they have exponentiated in the output, in its type.
        result[0] = result[0] + 2 * HALF_STEP[op.outputs[0].data_type.value] * np.abs(outputs[0])
    return result


def _drift_of_means(op: og.Op, src: Array) -> Array:
    """By how much the means that are taken from a row may be off: of equal numbers nothing is left but this."""
    axes = tuple(range(op.attributes.integer("begin_norm_axis") % src.ndim, src.ndim))
    count = np.prod([src.shape[axis] for axis in axes], dtype=float)
    wide = src.astype(np.float64)
    deviation = np.sqrt(wide.var(axes, keepdims=True) + op.attributes.real("epsilon"))
    return F32 * count / 4 * np.abs(wide.mean(axes, keepdims=True)) / deviation


def _size_of_terms(op: og.Op, values: list[Array]) -> float:
    """The size of what a gradient of a normalisation is the difference of.

    It is diff_dst less its mean, times gamma / √(variance + epsilon): of one number, or of equal ones, nothing is left
    of either, whichever way diff_dst is moved, but both are rounded as they were.
    """
    _, diff_dst, _, variance, *gamma = (np.abs(v) for v in values)
    if not diff_dst.size:
        return 0.0
    largest = diff_dst.max() * (gamma[0].max() if gamma else 1.0)
    return float(largest / np.sqrt(variance.min() + op.attributes.real("epsilon")))
