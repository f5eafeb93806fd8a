"""Parameters that an exporter has merged because they held equal numbers become parameters of their own again."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from attrs import evolve

from .protos import captured, kind_of
from .reading import Model

ROLES = {
    "BatchNormalization": ("", "weight", "bias", "running_mean", "running_var"),
    "Conv": ("", "weight", "bias"),
    "ConvTranspose": ("", "weight", "bias"),
    "Gemm": ("", "weight", "bias"),
    "GroupNormalization": ("", "weight", "bias"),
    "InstanceNormalization": ("", "weight", "bias"),
    "LayerNormalization": ("", "weight", "bias"),
}
"""What the inputs of nodes are to torch."""


def untied(model: Model) -> Model:
    """The model with an initializer for each place where one is read that is a vector of one number, f32.

    Torch's exporters write equal tensors once. New networks have many, biases and means of zeros, weights and variances
    of ones, which would be one parameter else. Tensors that are shared on purpose, as of embeddings and the layer that
    undoes them, hold different numbers, and stay one.
    """
    graph = model.proto.graph
    kept = {str(name) for node in graph.node for name in captured(node)} | {
        str(one.name) for one in graph.output
    }
    alike = {
        str(one.name): one
        for one in graph.initializer
        if one.name in model.constants and one.name not in kept and _of_one_number(model.constants[one.name])
    }
    read: set[str] = set()
    changes: list[tuple[int, int, str]] = []
    for at, node in enumerate(graph.node):
        for port, name in enumerate(map(str, node.input)):
            if name in alike and (name in read or _is_second_name(node)):
                changes.append((at, port, name))
            if not _is_second_name(node):
                read.add(name)
    if not changes:
        return model
    proto = type(model.proto)()
    proto.CopyFrom(model.proto)
    constants = dict(model.constants)
    taken = {*constants, *(str(name) for node in graph.node for name in (*node.input, *node.output))}
    second: list[int] = []
    for at, port, name in changes:
        node = proto.graph.node[at]
        if _is_second_name(node) and node.output[0] not in kept:
            own = str(node.output[0])
            second.append(at)
        else:
            own = _name(node, port, taken)
            node.input[port] = own
        taken.add(own)
        more = proto.graph.initializer.add()
        more.CopyFrom(alike[name])
        more.name = own
        constants[own] = constants[name]
    for at in reversed(second):
        del proto.graph.node[at]
    return evolve(model, proto=proto, constants=constants)


def _is_second_name(node: Any) -> bool:
    """Whether a node gives the name to a tensor that it had before it was merged."""
    return kind_of(node) == "Identity"


def _of_one_number(array: Any) -> bool:
    return (
        array.dtype == np.float32 and array.ndim == 1 and array.size > 1 and bool((array == array[0]).all())
    )


def _name(node: Any, port: int, taken: set[str]) -> str:
    """As torch would say: /layers/layers.0/bn1/BatchNormalization is layers.0.bn1, and its third input the bias."""
    path = ""
    parts = [part for part in str(node.name).split("/") if part]
    for part in parts[:-1] if str(node.name).startswith("/") else parts:
        path = part if not path or part.startswith(f"{path}.") else f"{path}.{part}"
    roles = ROLES.get(kind_of(node), ())
    role = roles[port] if port < len(roles) else "bias" if kind_of(node) == "Add" else f"input{port}"
    wanted = f"{path or re.sub('[^0-9A-Za-z_.]', '_', str(node.output[0]))}.{role}"
    number = 0
    while (name := wanted if not number else f"{wanted}.{number}") in taken:
        number += 1
    return name
