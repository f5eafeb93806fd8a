"""A case: a graph, its data and how it is run, as plain values that JSON holds."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onednn_graph as og

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s64": np.int64,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
    "boolean": np.bool_,
}
KINDS = {data_type.value: data_type for data_type in og.DataType}
FLOATS = ("f32", "bf16", "f16", "f64")


@dataclass
class Layout:
    """How a tensor lies, as a recipe that fits whatever sizes shrinking gives it.

    Attributes:
        order: axes from the outermost to the innermost.
        step: elements from one of the innermost axis to the next.
        gaps: elements left out behind each axis' run, by axis.
        units: strides of axes of size 1, which no element reads; by axis.
        still: axes with stride 0, which repeat what they hold; for inputs only.
    """

    order: list[int]
    step: int = 1
    gaps: list[int] = field(default_factory=list)
    units: dict[str, int] = field(default_factory=dict)
    still: list[int] = field(default_factory=list)

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """In elements."""
        result, reach = [0] * len(shape), self.step
        for axis in reversed(self.order):
            dim = max(1, shape[axis])
            if axis in self.still:
                continue
            result[axis] = reach
            reach = reach * dim + (self.gaps[axis] if self.gaps else 0)
            if shape[axis] == 1 and str(axis) in self.units:
                result[axis] = self.units[str(axis)]
        return tuple(result)


@dataclass
class Wire:
    """A tensor.

    Attributes:
        type: of its elements.
        shape: sizes in the first run.
        data: what an input is filled with, see `data.py`.
        values: an input's elements in the order of rows, in the place of `data`: those of shape operands and constants.
        layout: None for row-major.
        constant: whether an input is said never to change.
        unknown: axes of an input whose sizes the graph is not told.
    """

    type: str
    shape: list[int]
    data: str = "any"
    values: list[Any] | None = None
    layout: Layout | None = None
    constant: bool = False
    unknown: list[int] = field(default_factory=list)

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(self.shape)

    @property
    def strides(self) -> tuple[int, ...] | None:
        return None if self.layout is None else self.layout.strides(self.dims)


@dataclass
class Node:
    """An op; inputs and outputs are numbers of wires."""

    kind: str
    inputs: list[int]
    outputs: list[int]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Variant:
    """Another run of the same graph in the same process.

    Attributes:
        size: of the axes that the graph was not told, None to leave them.
        layouts: other layouts by wire; None for row-major. The graph is compiled again then.
        fill: number of the data: inputs that are not constant are filled anew.
    """

    size: int | None = None
    layouts: dict[str, Layout | None] | None = None
    fill: int = 0


@dataclass
class Run:
    """How a graph is compiled and called.

    Attributes:
        whole: by `Graph.compile`, else partition by partition.
        policy, fpmath, backend: of the graph and its partitions.
        opaque: outputs of partitions that only other partitions read are left to the backend.
        bound: through `bind`, where it is run by partitions.
        given: outputs are written to arrays that are passed, else allocated by the library.
        shift: elements by which arrays lie off the cache line.
        fill: byte of the guards and of what is not written yet.
        called: whether it is called at all; tensors that no memory holds are for compiling only.
        held: the graph holds the inputs that are said never to change, so that what is made of them is made once.
        blocks: attention goes in blocks of heads, however small its scores are.
        filed: the graph is written to files, with what it holds, and read from them.
        variants: further runs.
    """

    called: bool = True
    whole: bool = True
    policy: str = "fusion"
    fpmath: str = "strict"
    backend: str | None = None
    opaque: bool = False
    bound: bool = False
    given: bool = True
    shift: int = 0
    fill: int = 0xFF
    held: bool = False
    blocks: bool = False
    filed: bool = False
    variants: list[Variant] = field(default_factory=list)


@dataclass
class Case:
    """A graph with its data and its run.

    Attributes:
        wires: by number.
        nodes: in an order in which they can run.
        marked: wires that are outputs although ops read them.
        assigned: inputs that are parameters of the graph, each with the wire that is assigned to it.
        real: whether floats are filled with any numbers, else with small multiples of a half.
        seed: of the data.
    """

    wires: dict[int, Wire] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)
    assigned: list[list[int]] = field(default_factory=list)
    run: Run = field(default_factory=Run)
    real: bool = False
    seed: int = 0

    @property
    def inputs(self) -> list[int]:
        """Wires that ops read and none makes."""
        made = {w for node in self.nodes for w in node.outputs}
        return list(dict.fromkeys(w for node in self.nodes for w in node.inputs if w not in made))

    @property
    def kinds(self) -> list[str]:
        return [node.kind for node in self.nodes]

    def to_json(self) -> dict[str, Any]:
        """Plain values, without what is as usual."""
        return _lean(asdict(self), asdict(Case()))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Case:
        run = dict(values.get("run", {}))
        run["variants"] = [_variant(v) for v in run.get("variants", [])]
        return cls(
            wires={int(i): _wire(w) for i, w in values["wires"].items()},
            nodes=[Node(**node) for node in values["nodes"]],
            marked=list(values.get("marked", [])),
            assigned=[list(pair) for pair in values.get("assigned", [])],
            run=Run(**run),
            real=values.get("real", False),
            seed=values.get("seed", 0),
        )

    def copy(self) -> Case:
        return copy.deepcopy(self)

    def __str__(self) -> str:
        return json.dumps(self.to_json())


def _lean(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    values["wires"] = {
        str(i): {k: v for k, v in w.items() if k in ("type", "shape") or v not in (None, [], False, "any")}
        for i, w in values["wires"].items()
    }
    values["run"] = {k: v for k, v in values["run"].items() if v != usual["run"][k]}
    return {k: v for k, v in values.items() if k in ("wires", "nodes") or v != usual[k]}


def _wire(values: dict[str, Any]) -> Wire:
    layout = values.get("layout")
    return Wire(**{**values, "layout": None if layout is None else Layout(**layout)})


def _variant(values: dict[str, Any]) -> Variant:
    layouts = values.get("layouts")
    if layouts is not None:
        layouts = {i: None if one is None else Layout(**one) for i, one in layouts.items()}
    return Variant(**{**values, "layouts": layouts})


def varied(case: Case, variant: Variant) -> Case:
    """The case with what a variant changes."""
    result = case.copy()
    made = {w for node in case.nodes for w in node.outputs}
    if variant.size is not None:
        for wire in result.wires.values():
            for axis in wire.unknown:
                wire.shape[axis] = variant.size
        infer_again(result)
    for number, layout in (variant.layouts or {}).items():
        if int(number) in result.wires and (int(number) in made or int(number) in case.inputs):
            result.wires[int(number)].layout = layout
    return result


def infer_again(case: Case) -> None:
    """Gives what ops make the shapes that follow from the inputs'.

    Raises:
        OneDNNGraphError: no shapes fit.
    """
    for node in case.nodes:
        for wire, shape in zip(node.outputs, inferred(case, node), strict=True):
            case.wires[wire].shape = list(shape)


def inferred(case: Case, node: Node, tensors: list[og.LogicalTensor] | None = None) -> list[tuple[int, ...]]:
    """The shapes of a node's outputs.

    Args:
        tensors: the inputs' logical tensors, where they are at hand.
    """
    wires = [case.wires[w] for w in node.inputs]
    tensors = [logical(case, w) for w in node.inputs] if tensors is None else tensors
    made = [og.LogicalTensor(w, KINDS[case.wires[w].type]) for w in node.outputs]
    op = og.Op(0, node.kind, tensors, made, **node.attributes)
    values = {i: tuple(w.values) for i, w in enumerate(wires) if w.values is not None and len(w.shape) == 1}
    shapes = op.infer_shapes([w.dims for w in wires], [None] * len(node.outputs), values)
    if any(shape is None or -1 in shape for shape in shapes):
        raise og.ShapeError(f"{node.kind} does not tell the shape of its output")
    return list(shapes)


def logical(case: Case, number: int) -> og.LogicalTensor:
    """The logical tensor of a wire."""
    wire = case.wires[number]
    return og.LogicalTensor(
        number, KINDS[wire.type], wire.shape, strides=wire.strides, property_type=_kept(wire)
    )


def _kept(wire: Wire) -> og.PropertyType:
    return og.PropertyType.constant if wire.constant else og.PropertyType.undef


def _open(case: Case, number: int, made: set[int]) -> og.LogicalTensor:
    """The logical tensor of a wire, without the sizes that the graph is not told."""
    wire = case.wires[number]
    if number in made:
        return og.LogicalTensor(number, KINDS[wire.type])
    shape = [-1 if axis in wire.unknown else dim for axis, dim in enumerate(wire.shape)]
    strides = None if wire.unknown else wire.strides
    return og.LogicalTensor(number, KINDS[wire.type], shape, strides=strides, property_type=_kept(wire))


def build(case: Case) -> og.Graph:
    """The graph, finalized, with all shapes told."""
    return _build(case, {i: logical(case, i) for node in case.nodes for i in (*node.inputs, *node.outputs)})


def build_open(case: Case) -> og.Graph:
    """The graph, finalized, without the sizes that it is not told."""
    made = {w for node in case.nodes for w in node.outputs}
    used = [i for node in case.nodes for i in (*node.inputs, *node.outputs)]
    return _build(case, {i: _open(case, i, made) for i in used})


def build_assigning(case: Case) -> og.Graph:
    """The graph, finalized, with parameters that it assigns to; they are zero."""
    tensors = {i: logical(case, i) for node in case.nodes for i in (*node.inputs, *node.outputs)}
    for parameter, _ in case.assigned:
        wire = case.wires[parameter]
        tensors[parameter] = og.LogicalTensor(
            parameter, KINDS[wire.type], wire.shape, property_type="variable"
        )
    graph = _with_ops(case, tensors)
    for parameter, value in case.assigned:
        held = graph.add_parameter(
            tensors[parameter], np.zeros(case.wires[parameter].dims, TYPES[case.wires[parameter].type])
        )
        graph.assign(held, graph.tensor(value))
    return _finished(graph, case)


def build_holding(case: Case, arrays: dict[int, np.ndarray]) -> og.Graph:
    """The graph, finalized, with arrays that it holds in the place of some inputs."""
    tensors = {i: logical(case, i) for node in case.nodes for i in (*node.inputs, *node.outputs)}
    for number in arrays:
        wire = case.wires[number]
        tensors[number] = og.LogicalTensor(number, KINDS[wire.type], wire.shape, property_type="constant")
    graph = og.Graph(fpmath_mode=case.run.fpmath)
    for number, array in arrays.items():
        graph.add_constant(tensors[number], array)
    return _finished(_with_ops(case, tensors, graph), case)


def build_unfinished(case: Case) -> og.Graph:
    """The graph with all shapes told, to which more can be added."""
    return _with_ops(
        case, {i: logical(case, i) for node in case.nodes for i in (*node.inputs, *node.outputs)}
    )


def _with_ops(case: Case, tensors: dict[int, og.LogicalTensor], graph: og.Graph | None = None) -> og.Graph:
    graph = og.Graph(fpmath_mode=case.run.fpmath) if graph is None else graph
    for number, node in enumerate(case.nodes):
        ins, outs = ([tensors[w] for w in side] for side in (node.inputs, node.outputs))
        graph.add_op(og.Op(number, node.kind, ins, outs, **node.attributes))
    return graph


def _build(case: Case, tensors: dict[int, og.LogicalTensor]) -> og.Graph:
    return _finished(_with_ops(case, tensors), case)


def _finished(graph: og.Graph, case: Case) -> og.Graph:
    for wire in case.marked:
        graph.output(graph.tensor(wire))
    graph.finalize()
    return graph
