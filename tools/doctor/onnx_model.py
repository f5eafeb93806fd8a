"""An ONNX model as both sides see it: names of its nodes, its inputs, and which nodes an optimized one runs at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...graph.onnx.checks import label_of
from ...graph.onnx.modules import module_titles
from ...graph.runtime.arrays import Array
from ...graph.runtime.libraries import library
from ...ops.errors import ArgumentError, nearest
from ...ops.records import frozen
from .subjects import arrays_of, made_up, shapes_of

INSERTED = "InsertedPrecisionFreeCast_"
"""What onnxruntime puts before the names of values that it has converted."""
ENDING = re.compile(r"(?:_nchwc|/duplicated|_token_[0-9]+|_quant)+$")
"""What it puts behind the names of what it has made."""
ALONG = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Relu",
        "LeakyRelu",
        "Clip",
        "Sigmoid",
        "Tanh",
        "HardSigmoid",
        "HardSwish",
        "Gelu",
    }
    | {"BatchNormalization", "QuantizeLinear", "Cast", "Softplus", "Elu", "Erf"}
)
"""Kinds that change each element by itself, so that what makes it can do them along."""


@frozen(kw_only=True, eq=False)
class OnnxModel:
    """What is known of a file without its weights.

    Attributes:
        proto: the model.
        titles: what each node is called, by its first output, in order; nodes of constants alone have none.
        makers: which output is a node's first, by any of its outputs.
        readers: first outputs of the nodes that read a value, by the value.
        weights: names of what the model holds.
        named: first output of a node, by its name.
        kinds: what each node does, by its first output.
        before: first outputs of the nodes that a node reads, by its own.
    """

    proto: Any
    titles: dict[str, str]
    makers: dict[str, str]
    readers: dict[str, list[str]]
    weights: frozenset[str]
    named: dict[str, str]
    kinds: dict[str, str]
    before: dict[str, list[str]]

    @classmethod
    def at(cls, path: str) -> OnnxModel:
        """The model of a file.

        Raises:
            UnsupportedError: the package onnx is not installed.
            ArgumentError: it is no model.
        """
        onnx = library("onnx", "onnx", "doctor, which examines an ONNX model,")
        try:
            proto = onnx.load(path, load_external_data=False)
        except Exception as error:  # protobuf's own, whatever they are called
            raise ArgumentError(f"{path} is no ONNX model that can be read: {error}") from error
        weights = frozenset(
            [one.name for one in proto.graph.initializer]
            + [node.output[0] for node in proto.graph.node if node.op_type == "Constant"]
        )
        named = module_titles(proto.graph.node, weights)
        fixed = {*weights, ""}
        titles: dict[str, str] = {}
        makers: dict[str, str] = {}
        readers: dict[str, list[str]] = {}
        called: dict[str, str] = {}
        kinds: dict[str, str] = {}
        before: dict[str, list[str]] = {}
        for number, node in enumerate(proto.graph.node):
            if fixed.issuperset(node.input):
                fixed.update(node.output)
                continue
            first = next((name for name in node.output if name), "")
            titles[first] = named.get(first, label_of(node, number))
            before[first] = [makers[name] for name in node.input if name in makers]
            makers.update(dict.fromkeys(node.output, first))
            called[node.name], kinds[first] = first, node.op_type
            for name in node.input:
                readers.setdefault(name, []).append(first)
        return cls(
            proto=proto,
            titles=titles,
            makers=makers,
            readers=readers,
            weights=weights,
            named={name: first for name, first in called.items() if name},
            kinds=kinds,
            before=before,
        )

    def value(self, name: str) -> str:
        """The value of the model that an optimized one's is, whatever the optimizer has made of its name."""
        return ENDING.sub("", name.removeprefix(INSERTED))

    def covered(self, nodes: list[Any]) -> list[set[str]]:
        """First outputs of the nodes that each node of an optimized model stands for, as far as names tell.

        It has kept the name of a value or of a node, or has one made of it. What else is done in a node goes along with
        what reads it, and what only changes each element with what it comes from.
        """
        found: list[set[str]] = []
        for node in nodes:
            names = [self.value(name) for name in (*node.output, node.name)]
            mine = {self.makers[name] for name in names[:-1] if name in self.makers}
            if not mine and not (node.op_type == "Cast" and node.name.startswith(INSERTED)):
                known = self.makers.get(names[-1]) or self.named.get(names[-1])
                mine = {known} if known else mine
            found.append(mine)
        owner = {first: number for number, mine in enumerate(found) for first in mine}

        def take(first: str, numbers: list[int], chosen: int) -> None:
            if first not in owner and numbers:
                owner[first] = chosen
                found[chosen].add(first)

        for first, kind in self.kinds.items():
            before = [owner[one] for one in self.before[first] if one in owner]
            if kind in ALONG:
                take(first, before, max(before, default=0))
        for first in reversed(self.kinds):
            after = [owner[one] for one in self._after(first) if one in owner]
            take(first, after, min(after, default=0))
        return found

    def _after(self, first: str) -> list[str]:
        outputs = [name for name, maker in self.makers.items() if maker == first]
        return [one for name in outputs for one in self.readers.get(name, ())]

    def inputs(self, task: Mapping[str, Any]) -> tuple[dict[str, Array], tuple[str, ...]]:
        """Arrays for its inputs by name, and which of them are made up.

        Raises:
            ArgumentError: an array is for no input, or sizes of one are open.
        """
        given = arrays_of(task["inputs"]) if task["inputs"] else {}
        shapes = shapes_of(task["shapes"])
        infos = {one.name: one for one in self.proto.graph.input if one.name not in self.weights}
        for name in (*given, *shapes):
            if name not in infos:
                raise ArgumentError(
                    f"{task['text']} has no input {name!r}{nearest(name, infos)}; its inputs are {', '.join(infos)}"
                )
        made: list[str] = []
        arrays: dict[str, Array] = {}
        for number, (name, info) in enumerate(infos.items()):
            dtype, shape = type_and_shape(info)
            if name in given:
                array = given[name]
                array = array.view(dtype) if array.dtype.kind == "V" and dtype is not None else array
                _check_fits(f"input {name!r} of {task['text']}", array.dtype, array.shape, dtype, shape)
                arrays[name] = array
                continue
            if name in shapes:
                _check_fits(f"input {name!r} of {task['text']}", dtype, shapes[name][1], dtype, shape)
                shape = shapes[name][1]
            if shape[:1] == (None,):  # images one by one
                shape = (1, *shape[1:])
            sizes = [size for size in shape if size is not None]
            if dtype is None or len(sizes) < len(shape):
                told = "x".join("?" if size is None else str(size) for size in shape)
                raise ArgumentError(
                    f"nothing can be made up for input {name!r} of {task['text']}, whose shape is {told}; give "
                    "--shape NAME=SIZES or --inputs FILE.npz"
                )
            arrays[name] = made_up(sizes, dtype, task["seed"] + number)
            made.append(name)
        return arrays, tuple(made)


def _check_fits(
    what: str,
    dtype: np.dtype[Any] | None,
    shape: Sequence[int | None],
    declared: np.dtype[Any] | None,
    sizes: Sequence[int | None],
) -> None:
    """Whether an input is what the model says of it.

    Raises:
        ArgumentError: it has another type, number of axes, or size where the model fixes it.
    """
    same = len(shape) == len(sizes) and all(b in (None, a) for a, b in zip(shape, sizes, strict=True))
    if declared is None or (same and dtype == declared):
        return
    wanted, got = (
        f"{kind} {'x'.join('?' if one is None else str(one) for one in axes) or 'scalar'}"
        for kind, axes in ((declared, sizes), (dtype, shape))
    )
    raise ArgumentError(f"{what} must be {wanted}, got {got}; give another by --shape or --inputs")


def type_and_shape(info: Any) -> tuple[np.dtype[Any] | None, tuple[int | None, ...]]:
    """NumPy's type of an input, None for what has none, and its sizes, None for those that are open."""
    helper = library("onnx.helper", "onnx", "doctor")
    tensor = info.type.tensor_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except (KeyError, TypeError, ValueError):
        return None, shape
    return (None if dtype.kind == "O" else dtype), shape
