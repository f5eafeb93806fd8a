"""Nodes of ONNX that become one op each, which ONNX's reference runs: sizes and types of all outputs are known."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.host_onnx import TensorType, written
from ..importing.translation import Translation, Value, base_of, dtype_of, shape_of
from ..model.logical_tensor import LogicalTensor
from ..model.numpy_types import DATA_TYPES
from ..model.op import Op
from .checks import Known, inferred, one_node
from .folding import FOLDED_LATER
from .protos import kind_of
from .reading import Model
from .types import STRING, numpy_type_of

UNSIZED = frozenset(("Einsum", "STFT"))
"""Ops of which ONNX infers other sizes than its reference gives."""


def host_node(t: Translation, model: Model, node: Any, inputs: Sequence[Value | None]) -> list[Value] | None:
    """The outputs of a node as those of an op of the graph; None where their sizes or types are not known.

    Args:
        t: where the op goes.
        model: that the node is of.
        inputs: its inputs; None for what is not there.
    """
    if kind_of(node) in UNSIZED:
        return None
    by_name = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
    known: dict[str, Known] = {}
    for name, value in by_name.items():
        base = base_of(value)
        if not (base.is_concrete if isinstance(base, LogicalTensor) else base.dtype in DATA_TYPES):
            return None
        known[name] = (dtype_of(value), shape_of(value), value if isinstance(value, np.ndarray) else None)
    gives = _outputs(inferred(model.onnx, model.proto.opset_import, node, known))
    if gives is None:
        return None
    tensors = [t.tensor(value) for value in by_name.values()]
    alone = one_node(model.onnx, _imports(model, node), node, known)
    title = t.free_name(t.label)
    made = [
        LogicalTensor(
            t.graph.fresh_id(), *kind, name=title if len(gives) == 1 else t.free_name(f"{title}.dst")
        )
        for kind in gives
    ]
    op = Op(
        t.graph.fresh_id(),
        "HostOnnx",
        tensors,
        made,
        name=title,
        op=kind_of(node),
        node=b64encode(alone.SerializeToString()).decode(),
        takes=written([(tensor.data_type, tensor.dims) for tensor in tensors]),
        gives=written(gives),
    )
    t.graph.add_op(op)
    results = iter(made)
    return [next(results) if name else np.empty(0) for name in node.output]


def _imports(model: Model, node: Any) -> list[Any]:
    """The op sets of a model, ONNX's own one as late as its reference wants it for a node."""
    oldest = FOLDED_LATER.get(kind_of(node), 0)
    make = model.onnx.helper.make_opsetid
    return [
        make(o.domain, o.version if o.domain else max(o.version, oldest)) for o in model.proto.opset_import
    ]


def _outputs(alone: Any) -> list[TensorType] | None:
    """Types and shapes of a node's outputs; None where they are not known, or none of a graph's."""
    found: list[TensorType] = []
    for info in alone.graph.output:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
            return None
        if not all(size.HasField("dim_value") for size in tensor.shape.dim) or tensor.elem_type == STRING:
            return None
        data_type = DATA_TYPES.get(numpy_type_of(tensor.elem_type))
        if data_type is None:
            return None
        found.append((data_type, tuple(size.dim_value for size in tensor.shape.dim)))
    return found
