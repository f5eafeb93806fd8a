"""Models of older op sets in the oldest that translations know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from ...ops.errors import UnsupportedError
from ...ops.records import frozen
from ...ops.values import one_line
from ..runtime.libraries import library
from .functions import graphs_in
from .protos import inner_graphs

OLDEST_OPSET = 11
EXPORT = "export it anew for a later opset"

_LATER_TAKES_MORE = """
    Abs ArgMax ArgMin AveragePool Cast Ceil Compress Concat Constant Conv ConvTranspose DepthToSpace Elu Exp Flatten
    Floor Gather GlobalLpPool HardSigmoid Hardmax If InstanceNormalization LeakyRelu Log LogSoftmax Loop LpPool MatMul
    Max MaxPool Mean Min Neg NonMaxSuppression OneHot Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Scan Selu Sigmoid Slice Softmax Split
    Sqrt Squeeze Sum Tanh TopK Unsqueeze Where
"""
SAME = frozenset(_LATER_TAKES_MORE.split())
"""Ops of which later versions only take more: types, attributes with defaults, negative axes, broadcasting."""
BROADCASTING = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
"""Ops that had an attribute for where the axes of their second input lie, until opset 7."""
RECURRENT = ("GRU", "LSTM", "RNN")
RESIZING = ("Resize", "Upsample")
"""Ops that onnx.version_converter gives the places of opset 11, half a pixel aside, which they did not have before."""
DROPPED = ("consumed_inputs",)
"""Attributes of before opset 6 that were for memory alone."""


@frozen(eq=False)
class Names:
    """What is known of the names that nodes of a graph read.

    Attributes:
        types: TypeProto of each that has one.
        constants: TensorProto of each that is a constant.
    """

    types: dict[str, Any]
    constants: dict[str, Any]

    def inner(self) -> Names:
        """The same for a graph inside a node, which may add names of its own."""
        return evolve(self, types=dict(self.types), constants=dict(self.constants))

    def rank(self, name: str) -> int | None:
        """How many axes it has; None where nobody knows."""
        if name in self.constants:
            return len(self.constants[name].dims)
        tensor = self.types[name].tensor_type if name in self.types else None
        return len(tensor.shape.dim) if tensor is not None and tensor.HasField("shape") else None


def converted(onnx: Any, proto: Any, opset: int) -> Any:
    """The model in the op set that translations know, by onnx.version_converter.

    Where that gives up at the model as a whole, for ops of other libraries in it, sizes that nobody knows, or ops that
    it has no way for, it is asked node by node, and only for those whose meaning has changed.

    Raises:
        UnsupportedError: a node can't be converted.
    """
    if opset < 9 and any(node.op_type == "Scan" for graph in graphs_in(proto.graph) for node in graph.node):
        raise UnsupportedError(
            f"from_onnx takes models of opset {OLDEST_OPSET} or later, got {opset}, of which nothing converts Scan; "
            f"{EXPORT}"
        )
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    # The converter wants initializers among the inputs where the format is as old as that was a rule.
    copy.ir_version = max(copy.ir_version, 4)
    _without_unused_values(onnx, copy)
    upgrade = _Upgrade(onnx, opset)
    if opset >= 7 and not any(any(inner_graphs(n)) or n.op_type in RESIZING for n in copy.graph.node):
        try:
            return upgrade.by_converter(copy)
        except Exception:  # of its C++ code; node by node there is more to say
            copy.CopyFrom(proto)
            copy.ir_version = max(copy.ir_version, 4)
    upgrade.graph(copy.graph, Names({}, {}))
    for entry in copy.opset_import:
        if not entry.domain:
            entry.version = OLDEST_OPSET
    return copy


def _without_unused_values(onnx: Any, proto: Any) -> None:
    """Takes the value out of paddings that mirror or repeat, where the converter leaves it: later ones have no such
    attribute.
    """
    for node in proto.graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Pad" and not node.domain and given.get("mode", b"constant") != b"constant":
            kept = [attribute for attribute in node.attribute if attribute.name != "value"]
            del node.attribute[:]
            node.attribute.extend(kept)


class _Upgrade:
    """Nodes of an older op set, one by one.

    Args:
        onnx: the package.
        opset: the version that they are of.
    """

    def __init__(self, onnx: Any, opset: int) -> None:
        self.onnx = onnx
        self.opset = opset
        self._defs = library("onnx.defs", "onnx", "from_onnx")
        self._inference = library("onnx.shape_inference", "onnx", "from_onnx")
        self._converter = library("onnx.version_converter", "onnx", "from_onnx")

    def by_converter(self, proto: Any) -> Any:
        """A model as onnx.version_converter has it."""
        return self._converter.convert_version(proto, OLDEST_OPSET)

    def graph(self, graph: Any, names: Names) -> None:
        """Converts the nodes of a graph, and of those inside them, where they stand."""
        for info in (*graph.value_info, *graph.input):
            names.types[info.name] = info.type
        for tensor in graph.initializer:
            names.constants[tensor.name] = tensor
        nodes: list[Any] = []
        for node in graph.node:
            for inner in inner_graphs(node):
                self.graph(inner, names.inner())
            made = self._node(node, names, graph)
            self._note(made, names)
            nodes += made
        copies = [self.onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)

    def _node(self, node: Any, names: Names, graph: Any) -> list[Any]:
        if node.domain:
            return [node]
        for number in reversed(range(len(node.attribute))):
            if node.attribute[number].name in DROPPED:
                del node.attribute[number]
        own = OWN.get(node.op_type)
        if own is not None:
            made = own(self, node, names)
            if made is not None:
                return made
        versions = [self._since(node.op_type, version) for version in (self.opset, OLDEST_OPSET)]
        later = versions[0] == versions[1] or None in versions
        if later or (node.op_type in SAME and self._takes(node)):
            return [node]
        return self._alone(node, names, graph)

    def _since(self, kind: str, opset: int) -> int | None:
        try:
            return self._defs.get_schema(kind, opset, "").since_version
        except self._defs.SchemaError:
            return None

    def _takes(self, node: Any) -> bool:
        """Whether the op, as it is later, has all that the node says: inputs, attributes and their types."""
        schema = self._defs.get_schema(node.op_type, OLDEST_OPSET, "")
        if not schema.min_input <= len(node.input) <= schema.max_input:
            return False
        known = schema.attributes
        return all(a.name in known and known[a.name].type.value == a.type for a in node.attribute) and all(
            not one.required or any(a.name == name for a in node.attribute) for name, one in known.items()
        )

    def _alone(self, node: Any, names: Names, graph: Any) -> list[Any]:
        """What onnx.version_converter makes of a node, in a model that is nothing else."""
        helper = self.onnx.helper
        taken = list(dict.fromkeys(name for name in node.input if name))
        infos: list[Any] = []
        for name in taken:
            if name not in names.constants:
                info = self.onnx.ValueInfoProto(name=name)
                info.type.CopyFrom(names.types.get(name) or helper.make_tensor_type_proto(1, None))
                infos.append(info)
        outputs = [helper.make_tensor_value_info(name, 1, None) for name in node.output if name]
        held = [names.constants[name] for name in taken if name in names.constants]
        inner = helper.make_graph([node], "one_node", infos, outputs, held)
        model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            made = self.by_converter(model).graph
        except Exception as error:  # of its C++ code
            raise UnsupportedError(
                f"from_onnx takes models of opset {OLDEST_OPSET} or later, got {self.opset}, and "
                f"onnx.version_converter can't convert node {node.name or node.output[0]!r} ({node.op_type}: "
                f"{one_line(error)}); {EXPORT}"
            ) from error
        own = {*node.input, *node.output}
        title = next((str(name) for name in node.output if name), "node")

        def named(name: str) -> str:
            return name if name in own or not name else f"{title}.{name}"

        for tensor in made.initializer:
            if tensor.name not in own:
                tensor.name = named(tensor.name)
                names.constants[tensor.name] = tensor
                graph.initializer.append(tensor)
        for one in made.node:
            one.input[:] = [named(name) for name in one.input]
            one.output[:] = [named(name) for name in one.output]
        return list(made.node)

    def _note(self, nodes: Sequence[Any], names: Names) -> None:
        """Notes types and shapes of what nodes make, as far as they can be inferred."""
        helper = self.onnx.helper
        for node in nodes:
            if node.op_type == "Constant" and not node.domain and node.attribute[0].HasField("t"):
                names.constants[node.output[0]] = node.attribute[0].t
        read = {name for node in nodes for name in node.input if name}
        infos = [
            self.onnx.ValueInfoProto(name=name, type=names.types[name])
            for name in read
            if name in names.types
        ]
        held = [names.constants[name] for name in read if name in names.constants]
        outputs = [self.onnx.ValueInfoProto(name=name) for node in nodes for name in node.output if name]
        graph = helper.make_graph(nodes, "some_nodes", infos, outputs, held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OLDEST_OPSET)], ir_version=8)
        try:
            made = self._inference.infer_shapes(model, data_prop=True).graph
        except Exception:  # of its C++ code: then nothing is known of them
            return
        for info in (*made.output, *made.value_info):
            if info.type.WhichOneof("value") and info.name not in names.types:
                names.types[info.name] = info.type

    def unknown(self, node: Any, what: str) -> UnsupportedError:
        """The error for a node that can't be converted."""
        return UnsupportedError(
            f"from_onnx takes models of opset {OLDEST_OPSET} or later, got {self.opset}, and node "
            f"{node.name or node.output[0]!r} ({node.op_type}) can't be converted: {what}; {EXPORT}, or give its "
            "inputs shapes"
        )

    def attributes_out(self, node: Any, *wanted: str) -> list[Any]:
        """The values of attributes, None for one that is not there; they are taken off."""
        found = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        for number in reversed(range(len(node.attribute))):
            if node.attribute[number].name in wanted:
                del node.attribute[number]
        return [found.get(name) for name in wanted]

    def new(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
        """A new node."""
        return self.onnx.helper.make_node(kind, list(inputs), [output], **attributes)

    def constant(self, name: str, value: Any, shape: Sequence[int] = ()) -> Any:
        """A new Constant node of f32."""
        values = [value] if isinstance(value, int | float) else list(value)
        return self.new(
            "Constant", [], name, value=self.onnx.helper.make_tensor(name, 1, list(shape), values)
        )


def _broadcast(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """A second input whose axes are some in the middle of the first one's gets the axes behind them."""
    if upgrade.opset >= 7:
        return None
    broadcast, axis = upgrade.attributes_out(node, "broadcast", "axis")
    if not broadcast or axis is None:
        return [node]
    ranks = [names.rank(name) for name in node.input]
    if ranks[1] is None or (ranks[0] is None and axis >= 0):
        raise upgrade.unknown(node, "how many axes its inputs have is not known")
    behind = -axis - ranks[1] if axis < 0 else (ranks[0] or 0) - axis - ranks[1]
    if behind <= 0:
        return [node]
    spread = f"{node.output[0]}.spread"
    axes = list(range(ranks[1], ranks[1] + behind))
    wider = upgrade.new("Unsqueeze", [node.input[1]], spread, axes=axes)
    node.input[1] = spread
    return [wider, node]


def _slopes(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Slopes of PRelu, one for each channel before opset 7, get the axes that they have since."""
    if upgrade.opset >= 7:
        return None
    rank, slopes = names.rank(node.input[0]), names.rank(node.input[1])
    if rank is None or slopes is None:
        raise upgrade.unknown(node, "how many axes its inputs have is not known")
    held = names.constants.get(node.input[1])
    if slopes != 1 or rank <= 2 or (held is not None and list(held.dims) == [1]):
        return [node]
    spread = f"{node.output[0]}.spread"
    wider = upgrade.new("Unsqueeze", [node.input[1]], spread, axes=list(range(1, rank - 1)))
    node.input[1] = spread
    return [wider, node]


def _product(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Gemm, whose summand was spread where an attribute said so."""
    del names
    if upgrade.opset < 7:
        upgrade.attributes_out(node, "broadcast")
    return [node]


def _steps(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Recurrent layers, which could leave their outputs out by an attribute."""
    del names
    if upgrade.opset < 7:
        upgrade.attributes_out(node, "output_sequence")
    return [node]


def _normalised(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """BatchNormalization of inference, which an attribute told until opset 7 and the number of outputs does since.

    With one output and no word about it onnxruntime goes by the statistics, too.
    """
    del names
    if upgrade.opset >= 9 or len([name for name in node.output if name]) > 1:
        return None
    found = {a.name: a for a in node.attribute}
    if "spatial" in found and not found["spatial"].i:
        return None
    upgrade.attributes_out(node, "is_test", "spatial")
    return [node]


def _scaled_image(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """ImageScaler, an experiment of ONNX that converters from Core ML have made much use of."""
    del names
    scale, bias = upgrade.attributes_out(node, "scale", "bias")
    (x, y), bias = (node.input[0], node.output[0]), list(bias or [0.0])
    return [
        upgrade.constant(f"{y}.scale", 1.0 if scale is None else scale),
        upgrade.constant(f"{y}.bias", bias, (len(bias), 1, 1)),
        upgrade.new("Mul", [x, f"{y}.scale"], f"{y}.scaled"),
        upgrade.new("Add", [f"{y}.scaled", f"{y}.bias"], y),
    ]


def _of_two_numbers(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Affine, αx + β, ScaledTanh, α tanh(βx), and ParametricSoftplus, α log(1 + exp(βx)): experiments of ONNX."""
    del names
    numbers = upgrade.attributes_out(node, "alpha", "beta")
    if None in numbers:
        raise upgrade.unknown(node, "its attributes alpha and beta must both be there")
    x, y = node.input[0], node.output[0]
    constants = [
        upgrade.constant(f"{y}.{name}", v) for name, v in zip(("alpha", "beta"), numbers, strict=True)
    ]
    alpha, beta, inner = f"{y}.alpha", f"{y}.beta", f"{y}.inner"
    if node.op_type == "Affine":
        return [*constants, upgrade.new("Mul", [x, alpha], inner), upgrade.new("Add", [inner, beta], y)]
    function = "Tanh" if node.op_type == "ScaledTanh" else "Softplus"
    return [
        *constants,
        upgrade.new("Mul", [x, beta], inner),
        upgrade.new(function, [inner], f"{y}.outer"),
        upgrade.new("Mul", [f"{y}.outer", alpha], y),
    ]


def _padded(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Pad, whose numbers have been inputs since opset 11, and had another name in the first."""
    del names
    pads, named, value = upgrade.attributes_out(node, "paddings", "pads", "value")
    y, pads = node.output[0], pads or named
    if pads is None:
        raise upgrade.unknown(node, "its pads are missing")
    places = upgrade.onnx.helper.make_tensor(f"{y}.pads", upgrade.onnx.TensorProto.INT64, [len(pads)], pads)
    node.input.append(f"{y}.pads")
    made = [upgrade.new("Constant", [], f"{y}.pads", value=places)]
    if value is not None:
        made.append(upgrade.constant(f"{y}.value", value))
        node.input.append(f"{y}.value")
    return [*made, node]


def _split(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Split, whose sizes may be an input in opset 1 alone, of the type of what is split."""
    if len(node.input) < 2:
        return None
    held = names.constants.get(node.input[1])
    if held is None:
        raise upgrade.unknown(node, "the sizes of its parts are not constant")
    counts = [int(count) for count in upgrade.onnx.numpy_helper.to_array(held).reshape(-1)]
    del node.input[1]
    node.attribute.append(upgrade.onnx.helper.make_attribute("split", counts))
    return [node]


def _cast(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Cast, whose type was a word before opset 6."""
    del names
    if upgrade.opset >= 6:
        return None
    (to,) = upgrade.attributes_out(node, "to")
    word = to.decode("utf-8", "replace").upper() if isinstance(to, bytes) else ""
    types = dict(upgrade.onnx.TensorProto.DataType.items())
    if word not in types:
        raise upgrade.unknown(node, f"there is no type {word!r}")
    node.attribute.append(upgrade.onnx.helper.make_attribute("to", types[word]))
    return [node]


def _whole_power(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """LpPool and GlobalLpPool, whose power was a number with a fraction before opset 2."""
    del names
    if upgrade.opset >= 2:
        return None
    (power,) = upgrade.attributes_out(node, "p")
    if power is not None and power != int(power):
        raise upgrade.unknown(node, f"its power {power} is no integer")
    node.attribute.append(upgrade.onnx.helper.make_attribute("p", 2 if power is None else int(power)))
    return [node]


def _tiled(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Tile, which repeats along one axis before opset 6: a number of times, and the axis, are inputs."""
    if upgrade.opset >= 6:
        return None
    held, rank = [names.constants.get(name) for name in node.input[1:3]], names.rank(node.input[0])
    if rank is None or len(held) != 2 or None in held:
        raise upgrade.unknown(
            node, "its axis, how often it repeats or how many axes its input has is not known"
        )
    times, axis = (int(upgrade.onnx.numpy_helper.to_array(one).reshape(-1)[0]) for one in held)
    counts = [1] * rank
    counts[axis] = times
    y = node.output[0]
    repeats = upgrade.onnx.helper.make_tensor(f"{y}.repeats", upgrade.onnx.TensorProto.INT64, [rank], counts)
    del node.input[1:]
    node.input.append(f"{y}.repeats")
    return [upgrade.new("Constant", [], f"{y}.repeats", value=repeats), node]


def _resized(upgrade: _Upgrade, node: Any, names: Names) -> list[Any] | None:
    """Upsample and Resize, whose places are multiples of the scale until opset 10.

    Which element is the nearest one nobody said; onnxruntime takes the one before, and behind where it makes less.
    """
    y, nearest = node.output[0], "floor"
    scales, *sides, mode = upgrade.attributes_out(node, "scales", "height_scale", "width_scale", "mode")
    made: list[Any] = []
    if scales is None and None not in sides:
        scales = [1.0, 1.0, *sides]
    if len(node.input) > 1:
        name, held = node.input[1], names.constants.get(node.input[1])
        factors = None if held is None else upgrade.onnx.numpy_helper.to_array(held).reshape(-1).tolist()
    elif scales is not None:
        name, factors = f"{y}.scales", list(scales)
        made.append(upgrade.constant(name, factors, [len(factors)]))
    else:
        raise upgrade.unknown(node, "its scales are missing")
    word = mode.decode("utf-8", "replace") if isinstance(mode, bytes) else "nearest"
    mode = "linear" if word == "bilinear" else word
    # ONNX wants the scales of Upsample to be at least 1, so that nothing need be known of them.
    varies = node.op_type == "Resize" if factors is None else min(factors) < 1 < max(factors)
    if mode == "nearest" and varies:
        raise upgrade.unknown(node, "its scales must be constant, and all of them at least or at most 1")
    if factors is not None and min(factors) < 1:
        nearest = "ceil"
    attributes = {"mode": mode, "nearest_mode": nearest, "coordinate_transformation_mode": "asymmetric"}
    region = f"{y}.region"
    made.append(upgrade.constant(region, [], [0]))
    return [*made, upgrade.new("Resize", [node.input[0], region, name], y, name=node.name, **attributes)]


OWN: dict[str, Callable[[_Upgrade, Any, Names], list[Any] | None]] = {
    **dict.fromkeys(BROADCASTING, _broadcast),
    **dict.fromkeys(RECURRENT, _steps),
    **dict.fromkeys(("Affine", "ParametricSoftplus", "ScaledTanh"), _of_two_numbers),
    **dict.fromkeys(("GlobalLpPool", "LpPool"), _whole_power),
    **dict.fromkeys(RESIZING, _resized),
    "BatchNormalization": _normalised,
    "Cast": _cast,
    "Gemm": _product,
    "ImageScaler": _scaled_image,
    "PRelu": _slopes,
    "Pad": _padded,
    "Split": _split,
    "Tile": _tiled,
}
"""Op → the nodes in the place of one; None where onnx.version_converter knows better."""
