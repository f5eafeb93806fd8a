"""What of an ONNX model is trained: initializers that are read as weights, and nodes that are others in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from ..importing.expressions import cast
from ..importing.tables import Entries, replaced
from ..importing.translation import Translation, Value
from ..model.logical_tensor import LogicalTensor
from ..model.patterns import fits, fitting, patterns_of, unfit
from ..runtime.arrays import Array
from .layers import batch_normalization
from .node import Node, Translate
from .protos import captured, kind_of
from .table import TABLE

STATISTICS = {"BatchNormalization": (3, 4)}
"""Inputs that a step moves, of which all are parameters or none is."""
PORTS: Mapping[str, tuple[int, ...]] = {
    "Add": (0, 1),
    "BatchNormalization": (1, 2, 3, 4),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Div": (0, 1),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    "Mul": (0, 1),
    "PRelu": (1,),
    "RMSNormalization": (1,),
    "Sub": (0, 1),
}
"""Inputs of nodes that may be weights, whatever they hold."""
NUMBERS = ("Add", "Div", "Mul", "Sub")
"""Ops whose constants of one element are no weights: scales of attention, say."""
MOVING = ("Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Ops behind which weights are weights still."""
UNREAD = {("CastLike", 1), ("Shape", 0), ("Size", 0)}
"""Inputs of nodes that ask for type or shape alone, as torch's exporter does before it simplifies."""
INSTEAD = Entries[Translate]()
"""ONNX op → its translation in training."""


def trainable(graph: Any, constants: Mapping[str, Array], frozen: object) -> frozenset[str]:
    """The initializers of a model that become parameters.

    Args:
        graph: the GraphProto.
        constants: its initializers and constant nodes, by name.
        frozen: patterns of names that stay constants.

    Raises:
        ArgumentError: a pattern that fits no name. ArgumentTypeError: no patterns.
    """
    patterns = patterns_of("from_onnx: frozen", frozen, "layer1.*")
    held = {tensor.name for tensor in graph.initializer}
    found = {name for name in held if name in constants and constants[name].dtype == np.float32}
    found -= {output.name for output in graph.output}
    for pattern in patterns:
        if not fitting(pattern, held):
            raise unfit("from_onnx: frozen", pattern, "no initializer of the model", sorted(held))
    found -= {name for name in found if any(fits(name, pattern) for pattern in patterns)}
    found -= _others(graph, constants)
    for node in graph.node:
        statistics = {node.input[at] for at in STATISTICS.get(kind_of(node), ()) if at < len(node.input)}
        if not statistics <= found:
            found -= statistics
    return frozenset(found)


def _others(graph: Any, constants: Mapping[str, Array]) -> set[str]:
    """Names that something reads which is no weight's port, or that nothing reads."""
    origin: dict[str, str] = {}
    read: set[str] = set()
    others: set[str] = set()
    for node in graph.node:
        kind = kind_of(node)
        others.update(captured(node))
        for at, name in enumerate(map(str, node.input)):
            of: str = origin.get(name, name)
            if (kind, at) in UNREAD:
                continue
            read.add(of)
            if kind in MOVING and at == 0:
                origin[str(node.output[0])] = of
            elif at not in PORTS.get(kind, ()) or (
                kind in NUMBERS and of in constants and constants[of].size == 1
            ):
                others.add(of)
    return others | {name for name in constants if name not in read}


# --- nodes that are others in training -------------------------------------------------------------------


@INSTEAD.enter("BatchNormalization")
def _batch_normalization(t: Translation, node: Node) -> Value | Sequence[Value]:
    """By the statistics of the batch, which move those of the model; by these where they are frozen."""
    mean, variance = node[3], node[4]
    if not (isinstance(mean, LogicalTensor) and isinstance(variance, LogicalTensor)):
        own = {**node.attributes, "training_mode": 0}
        return batch_normalization(t, evolve(node, attributes=own, listed=1))
    dst, new_mean, new_variance, *_ = t.ops(
        "BatchNormForwardTraining",
        node[0],
        mean,
        variance,
        node[1],
        node[2],
        epsilon=node.get("epsilon", 1e-5),
        momentum=node.get("momentum", 0.9),
        data_format="NCX",
    )
    t.graph.assign(mean, new_mean)
    t.graph.assign(variance, new_variance)
    return [dst, new_mean, new_variance][: max(node.outputs, 1)]


@INSTEAD.enter("Dropout")
def _dropout(t: Translation, node: Node) -> Value | Sequence[Value]:
    """What is dropped is drawn anew at each step, whatever the node says of training."""
    ratio = node.get("ratio", 0.5) if node.opset < 12 else node.number(1, "ratio", 0.5)
    seed, offset = t.draw()
    given = (node[0], seed, offset, np.asarray(ratio, np.float32))
    if node.outputs < 2:
        return t.op("Dropout", *given, outputs=1)
    dst, mask = t.ops("Dropout", *given, outputs=2)
    return [dst, cast(t, mask, np.dtype(np.bool_))]


TRAINING: dict[str, Translate] = replaced(TABLE, INSTEAD)
"""What is translated for training."""
