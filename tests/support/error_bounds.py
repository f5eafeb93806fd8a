"""How far a right result may be from the exact one: each op's own rounding, and what it makes of the errors before it.

Every tensor is computed in double precision together with a bound, element by element. An op adds to it one rounding
to its result's type, which may be left out where ops are fused, and the error of its arithmetic in f32. What its inputs
are off by is carried through the op itself: functions of one element and of two are taken at the ends of the intervals
in which their inputs lie, and linear ones are applied to the bounds. An element that is wrong in a way that no rounding
explains lies beyond the bound, whatever the type.
"""

from itertools import product

import numpy as np
from onednn_graph.backends.numpy.kernels import KERNELS

UNIT = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
"""Half the distance of neighbouring numbers over the smaller one, 1 at most: how far a rounding goes."""
SUBNORMAL = {"f32": 2.0**-149, "bf16": 2.0**-133, "f16": 2.0**-25}
"""The same near zero, absolute."""
LARGEST = {"f32": 3.4e38, "bf16": 3.38e38, "f16": 65504.0}
ARITHMETIC = 8
"""Roundings of f32 within an op, relative to the summands of its sums."""
FUNCTIONS = {
    "Elu": 16,
    "Exp": 16,
    "GELU": 64,
    "HardSigmoid": 4,
    "HardSwish": 4,
    "Mish": 64,
    "Sigmoid": 16,
    "SoftPlus": 64,
    "Tanh": 32,
}
"""Roundings of f32 by which the library's polynomials may be off, relative to the result or to one."""
EXACT = {"Abs", "Clamp", "Concat", "LeakyReLU", "MaxPool", "Maximum", "Minimum", "ReLU", "ReduceMax"}
"""Ops whose results are elements of their inputs, or such times one number."""
WITHIN = np.linspace(-1, 1, 9)
"""Where a function of one element is taken, from one end of the interval to the other."""
ROUNDINGS = {"SoftMax": 2}
"""How many times an op may round to its type, where the library keeps intermediate results in its output."""


def run(op, inputs):
    """The op's one output, in f64."""
    output = np.empty(op.outputs[0].shape, np.float64)
    with np.errstate(all="ignore"):
        KERNELS[op.kind](op, inputs, [output])
    return output


def _apart(one, other):
    """The distance of two arrays' elements; equal infinities have none."""
    with np.errstate(invalid="ignore"):
        return np.where(one == other, 0.0, np.abs(one - other))


def _farthest(op, exact, choices):
    """How far the op's result is from `exact` at most, over choices of its inputs."""
    return np.max([_apart(run(op, list(inputs)), exact) for inputs in choices], axis=0)


def _carried(op, values, errors, exact):
    """What the errors of the inputs make of the result."""
    if not any(error.any() for error in errors):
        return np.zeros(exact.shape)
    if op.kind == "TypeCast":
        return errors[0]
    if op.schema.family == "eltwise":
        return _farthest(op, exact, ([values[0] + t * errors[0]] for t in WITHIN))
    if op.schema.family in ("binary", "pooling", "movement") or op.kind == "ReduceMax":
        ends = [(v - e, v + e) for v, e in zip(values, errors, strict=True)]
        carried = _farthest(op, exact, product(*ends))
        if op.kind == "Divide":
            low, high = ends[1]
            carried = np.where((low <= 0) & (high >= 0) & errors[1].astype(bool), np.inf, carried)
        return carried
    if op.kind == "BatchNormInference":  # the vectors are inputs
        return _farthest(op, exact, ([values[0] + t * errors[0], *values[1:]] for t in (-1, 1)))
    if op.schema.family in ("convolution", "matmul"):
        sizes = [np.abs(v) for v in values]
        return run(op, [s + e for s, e in zip(sizes, errors, strict=True)]) - run(op, sizes)
    if op.kind == "SoftMax":
        axis = op.attributes.integer("axis")
        return exact * np.expm1(2 * errors[0].max(axis=axis, keepdims=True))
    raise NotImplementedError(f"no rule carries errors through {op.kind}")


def _arithmetic(op, values, exact):
    """How far an op is off on exact inputs before it rounds its result."""
    unit = UNIT["f32"]
    if op.kind in EXACT:
        return unit * np.abs(exact)
    if op.schema.family == "eltwise":
        return FUNCTIONS.get(op.kind, 2) * unit * np.maximum(np.abs(exact), 1)
    with np.errstate(all="ignore"):
        if op.kind == "BatchNormInference":
            x, gamma, beta, mean, variance = (np.abs(v) for v in values)
            size = run(op, [x, gamma, beta, -mean, variance])
        elif op.kind == "LayerNorm":
            # The mean is taken off, and all is divided by the deviation.
            deviation = np.sqrt(values[0].var(axis=-1, keepdims=True) + op.attributes.real("epsilon"))
            size = np.abs(exact) + np.abs(values[0]).max(axis=-1, keepdims=True) / deviation
        elif op.kind == "Subtract":
            size = np.abs(values[0]) + np.abs(values[1])
        elif op.schema.family in ("binary", "softmax") or op.kind == "ReduceL2":
            size = np.abs(exact)
        else:
            size = run(op, [np.abs(v) for v in values])
    return ARITHMETIC * unit * size


def bounded(graph, arrays):
    """Every tensor's value in f64, and by how much a right result may be off; infinite where that can't be told.

    Args:
        arrays: of the inputs, by name.
    """
    known = {t.id: (arrays[t.name].astype(np.float64), np.zeros(t.shape)) for t in graph.inputs}
    for op in graph.ops:
        values, errors = zip(*(known[t.id] for t in op.inputs), strict=True)
        dtype = op.outputs[0].data_type.value
        exact = run(op, list(values))
        with np.errstate(all="ignore"):
            carried = _carried(op, values, errors, exact)
            error = carried + _arithmetic(op, values, exact)
            error += ROUNDINGS.get(op.kind, 1) * np.maximum(
                UNIT[dtype] * (np.abs(exact) + error), SUBNORMAL[dtype]
            )
            told = np.abs(exact) + error < LARGEST[dtype]
            infinite = np.isinf(exact) & (carried == 0)
        known[op.outputs[0].id] = exact, np.where(infinite, 0.0, np.where(told, error, np.inf))
    return known


def beyond(got, value, bound):
    """Where a result lies beyond its bound. What the bound can't tell is not judged."""
    got = np.asarray(got).astype(np.float64)
    assert got.shape == value.shape
    return np.isfinite(bound) & ~(_apart(got, value) <= bound)


def check(got, value, bound):
    """Holds a result against its bound."""
    wrong = beyond(got, value, bound)
    assert not wrong.any(), (np.argwhere(wrong)[0], got[wrong][0], value[wrong][0], bound[wrong][0])


def check_graph(graph, arrays, results):
    """Holds every output of a graph, by LogicalTensor, against its bound."""
    known = bounded(graph, arrays)
    for tensor in graph.outputs:
        check(results[tensor], *known[tensor.id])


def rounded(values, dtype, roundings=1, arithmetic=16):
    """The bound of what one op makes of exact inputs: its own roundings, and those of f32 within it.

    The latter are relative to the largest element: the sums of some ops cancel.
    """
    values = np.asarray(values, np.float64)
    largest = np.abs(values).max(initial=1, where=np.isfinite(values))
    return roundings * UNIT[dtype] * np.abs(values) + arithmetic * UNIT["f32"] * largest
