"""The kernel of the host family that is none of ours: nodes of ONNX models, by ONNX's own reference."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...graph.runtime.libraries import library
from ...ops.errors import ArgumentError
from ...ops.values import one_line
from .kernels import Array, kernel

KEPT = 256
"""Nodes whose evaluators are kept."""


@kernel("HostOnnx")
def by_reference(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """What the reference makes of the inputs.

    Raises:
        ArgumentError: the reference has no result for these inputs, or one that is none of the declared shape.
        UnsupportedError: the package onnx is not there.
    """
    kind = op.attributes.string("op")
    library("onnx.reference", "onnx", f"{op}, which runs {kind} of ONNX by its reference,")
    evaluator = _evaluator(op.attributes.string("node"), str(op))
    names: list[str] = evaluator.input_names
    if len(names) != len(inputs) or len(evaluator.output_names) != len(outputs):
        raise ArgumentError(f"{op}: its node has other inputs and outputs than it; import the model anew")
    try:
        with np.errstate(all="ignore"):
            made = evaluator.run(None, dict(zip(names, inputs, strict=True)))
    except MemoryError:
        raise
    except Exception as error:  # the reference raises whatever its NumPy code does
        raise ArgumentError(
            f"{op}: ONNX's reference can't compute {kind} of these inputs ({one_line(error)}); look at what the "
            "model is given"
        ) from error
    for number, (value, target) in enumerate(zip(made, outputs, strict=True)):
        array = np.asarray(value)
        if array.shape != target.shape:
            raise ArgumentError(
                f"{op}: output {number} of {kind} must have shape {list(target.shape)}, as the model says, got "
                f"{list(array.shape)}; correct the shape in the model"
            )
        if array.dtype != target.dtype and not np.can_cast(array.dtype, target.dtype, "same_kind"):
            raise ArgumentError(
                f"{op}: output {number} of {kind} must have type {target.dtype}, as ONNX defines it, got {array.dtype} "
                "of this version of the package onnx; install another one"
            )
        np.copyto(target, array, casting="same_kind")


@lru_cache(KEPT)
def _evaluator(node: str, op: str) -> Any:
    """What runs a node.

    Raises:
        ArgumentError: it is no node alone, or one that reads files.
    """
    onnx: Any = library("onnx", "onnx", op)
    reference: Any = library("onnx.reference", "onnx", op)
    try:
        model = onnx.load_model_from_string(b64decode(node, validate=True))
    except Exception as error:  # of base64, or of the package's own kinds
        raise ArgumentError(
            f"{op}: attribute 'node' holds no node of ONNX ({one_line(error)}); import the model anew"
        ) from error
    tensors = [tensor for one in model.graph.node for a in one.attribute for tensor in (a.t, *a.tensors)]
    if (
        len(model.graph.node) != 1
        or model.functions
        or any(a.HasField("g") or a.graphs for a in model.graph.node[0].attribute)
        or any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors)
        or model.graph.initializer
        or model.graph.sparse_initializer
    ):
        raise ArgumentError(
            f"{op}: attribute 'node' must hold one node of ONNX without graphs and files; import the model anew"
        )
    try:
        return reference.ReferenceEvaluator(model)
    except Exception as error:  # no implementation of the op, or of its version
        raise ArgumentError(
            f"{op}: ONNX's reference does not know its node ({one_line(error)}); install a newer onnx"
        ) from error
