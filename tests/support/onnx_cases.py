"""ONNX's own test cases of nodes, run through `from_onnx`: whether the results are right, refused or wrong."""

import warnings

import attrs
import numpy as np
import onednn_graph as og
import pytest

onnx = pytest.importorskip("onnx", reason="these tests need the package onnx; install the extra 'onnx'")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

WAYS = ("inputs", "weights", "constants")
"""How a case is given: all inputs as inputs of the model, all but the first as constants, or all as constants, so that
the node is computed at import."""


STEPS = {"bfloat16": 2**-6, "float16": 2**-9}
"""Relative differences that sums of 16 bits have when they are rounded in another order: two of their steps."""


@attrs.frozen
class Outcome:
    """What became of a case.

    Attributes:
        verdict: right, refused, wrong or foreign, an error that is none of ours.
        detail: the message, or where the results differ.
    """

    verdict: str
    detail: str


def cases():
    """All of the package's cases, one for each node that it tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return list(collect_testcases(None))


def given(case, way, of=None):
    """The case's model, or the one given, with some inputs as constants, and its feeds; None where it can't be so."""
    feeds = {
        info.name: value for info, value in zip(case.model.graph.input, case.data_sets[0][0], strict=True)
    }
    model = onnx.ModelProto()
    model.CopyFrom(case.model if of is None else of)
    if way == "inputs":
        return model, feeds
    names = list(feeds)
    fixed = names[1:] if way == "weights" else names
    if not fixed:
        return None
    rest = [info for info in model.graph.input if info.name not in fixed]
    del model.graph.input[:]
    model.graph.input.extend(rest)
    for name in fixed:
        value = feeds.pop(name)
        if isinstance(value, list) or value is None:
            return None
        is_proto = isinstance(value, onnx.TensorProto)
        tensor = onnx.TensorProto() if is_proto else numpy_helper.from_array(np.asarray(value), name)
        if is_proto:
            tensor.CopyFrom(value)
            tensor.name = name
        model.graph.initializer.append(tensor)
    if way == "constants":
        _chosen(model)
        feeds["chooses"] = np.asarray(True)
    return model, feeds


def _chosen(model):
    """Has each output go through a choice by an input, for a model that computes nothing is refused."""
    model.graph.input.append(helper.make_tensor_value_info("chooses", onnx.TensorProto.BOOL, []))
    for output in list(model.graph.output):
        inner = f"{output.name}.inner"
        for node in model.graph.node:
            node.output[:] = [inner if name == output.name else name for name in node.output]
            node.input[:] = [inner if name == output.name else name for name in node.input]
        model.graph.node.append(helper.make_node("Where", ["chooses", inner, inner], [output.name]))


def outcome(model, feeds, expected, rtol, atol):
    """Imports, compiles and runs a model, and holds the results against these."""
    try:
        with np.errstate(all="ignore"):
            compiled = og.from_onnx(model).compile()
            results = compiled({name: plain(value) for name, value in feeds.items()})
    except og.OneDNNGraphError as error:
        return Outcome("refused", str(error))
    except Exception as error:
        return Outcome("foreign", f"{type(error).__name__}: {error}")
    for output, want in zip(model.graph.output, expected, strict=True):
        difference = _different(results[output.name], want, rtol, atol)
        if difference:
            return Outcome("wrong", f"{output.name}: {difference}")
    return Outcome("right", "")


def plain(value):
    """An array of what a case gives."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, list) or value is None else np.asarray(value)


def _different(result, expected, rtol, atol):
    if isinstance(expected, list) or isinstance(result, list):
        if not isinstance(result, list) or not isinstance(expected, list) or len(result) != len(expected):
            return f"{type(result).__name__} for {type(expected).__name__}"
        pairs = zip(result, expected, strict=True)
        return next(filter(None, (_different(one, want, rtol, atol) for one, want in pairs)), "")
    if expected is None or result is None:
        return "" if result is expected else f"{result} for {expected}"
    return _difference(result, plain(expected), rtol, atol)


def _difference(result, expected, rtol, atol):
    if result.dtype != expected.dtype:
        return f"{result.dtype} for {expected.dtype}"
    if result.shape != expected.shape:
        return f"shape {result.shape} for {expected.shape}"
    if expected.dtype.kind in "biuOUS":
        differ = result != expected
    else:
        got, want = result.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(got - want) <= atol + max(rtol, STEPS.get(str(expected.dtype), 0)) * np.abs(want)
            differ = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
    if not differ.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(differ)[0])
    return f"{differ.sum()} of {differ.size} differ, at {first} {result[first]} for {expected[first]}"
