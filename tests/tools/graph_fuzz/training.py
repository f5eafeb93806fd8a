"""Graphs of training: a small model, a loss, its gradients as the library adds them, and often an optimizer's step.

What comes out is a case like any other, whose ops are those of both passes, so that it is held, run and shrunk alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onednn_graph as og
from onednn_graph.graph.model.logical_tensor import label
from onednn_graph.graph.model.topology import topological
from onednn_graph.graph.training.optimizers import Numbers

from . import elementwise
from .case import FLOATS, Node, Wire, build_unfinished, inferred
from .drawing import Draw, Impossible
from .roots import IMAGES, ROOTS, is_image

FIRST = (
    *("Convolution",) * 3,
    *("ConvTranspose",) * 2,
    *("MatMul",) * 3,
    "AvgPool",
    "MaxPool",
    "BatchNormForwardTraining",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "SoftMax",
    "LogSoftmax",
    "Interpolate",
    "PReLU",
    "Concat",
)
"""What a model begins with."""
LATER = (
    *FIRST,
    "StaticTranspose",
    "StaticReshape",
    "Reorder",
    "ReduceSum",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceMax",
    "Select",
    "TypeCast",
)
FUNCTIONS = tuple(kind for kind in elementwise.ELTWISE if kind != "Round")
BINARY = (
    "Add",
    "Add",
    "Subtract",
    "Multiply",
    "Multiply",
    "Divide",
    "Maximum",
    "Minimum",
    "SquaredDifference",
)
OPTIMIZERS = (
    og.training.SGD(0.5),
    og.training.SGD(0.5, weight_decay=0.25),
    og.training.SGD(0.25, momentum=0.5),
    og.training.SGD(0.25, momentum=0.5, nesterov=True, weight_decay=0.25),
    og.training.Adam(0.25, eps=0.1),
    og.training.AdamW(0.25, eps=0.1),
    og.training.Adam(0.25, eps=0.1, amsgrad=True, clip_value=0.5),
    og.training.RMSprop(0.25, eps=0.1, centered=True, momentum=0.5),
    og.training.Adagrad(0.25, eps=0.1, lr_decay=0.5, initial_accumulator_value=0.5),
    og.training.Lion(0.25, weight_decay=0.25),
    og.training.LAMB(0.25, eps=0.1, weight_decay=0.25),
)
SQUARES = ("square", "highest", "sum")
"""States of which a root is taken."""
LARGE = 1e5
"""Beyond which gradients say nothing any more."""
STEP = 1e-5
"""Of central differences."""
NEARBY = 1 / 64
"""How far from a kink gradients are held against differences."""


def model(draw: Draw) -> int:
    """The forward pass, a few differentiable ops one behind the other, with an edge past some of them at times."""
    kind = draw.rng.choice(FIRST)
    y = ROOTS[kind](draw, kind, None)[0]
    for _ in range(draw.rng.choice((0, 1, 1, 2, 2, 3, 4))):
        y = draw.tried(lambda y=y: _further(draw, y), y)
    return y


def _further(draw: Draw, y: int) -> int:
    draw.type = draw.wire(y).type
    if not elementwise.small(draw, y, 100.0):
        y = draw.op(draw.rng.choice(("Tanh", "Sigmoid")), y)
    r = draw.rng.random()
    if r < 0.3:
        return elementwise.eltwise(draw, draw.rng.choice(FUNCTIONS), y)[0]
    if r < 0.5:
        return elementwise.binary(draw, draw.rng.choice(BINARY), y)[0]
    if r < 0.56:
        return elementwise.bias(draw, "BiasAdd", y)[0]
    if r < 0.62:
        same = [w for w in draw.values if draw.dims(w) == draw.dims(y) and draw.wire(w).type == draw.type]
        return draw.op(draw.rng.choice(("Add", "Multiply", "Maximum")), y, draw.rng.choice(same))
    kind = draw.rng.choice(LATER)
    if ROOTS[kind] in IMAGES and not is_image(draw, y):
        raise Impossible
    return ROOTS[kind](draw, kind, y)[0]


def loss_of(draw: Draw, y: int) -> int:
    """One number that tells how far `y` is from something, or a seed's product with it."""
    draw.type = draw.wire(y).type
    shape, r = draw.dims(y), draw.rng.random()
    if r < 0.4:
        y = draw.op("Multiply", y, draw.input(shape))
    elif r < 0.7:
        y = draw.op("SquaredDifference", y, draw.input(shape))
    elif r < 0.8 and shape:
        y = draw.op("Multiply", draw.op("LogSoftmax", y, axis=-1), draw.input(shape, data="fraction"))
    if not shape:
        return y
    return draw.op(
        draw.rng.choice(("ReduceSum", "ReduceMean")), y, axes=list(range(len(shape))), keep_dims=False
    )


def training(draw: Draw) -> None:
    """Draws a model with its loss, and adds gradients, and an update of its parameters.

    Raises:
        Impossible: there is nothing to differentiate by, or numbers beyond what can be judged.
    """
    draw.type = draw.rng.choice(("f32", "f32", "f32", "bf16", "bf16", "f16"))
    if draw.empty:
        raise Impossible
    y = model(draw)
    loss = loss_of(draw, y)
    case, forward = draw.case, list(draw.case.nodes)
    graph = build_unfinished(case)
    inputs = [i for i in case.inputs if case.wires[i].type in FLOATS and case.wires[i].data != "fraction"]
    if not inputs:
        raise Impossible
    wrt = [i for i in inputs if draw.chance(0.8)] or inputs[:1]
    try:
        found = graph.gradients(graph.tensor(loss), [graph.tensor(i) for i in wrt])
    except og.UnsupportedError as error:
        raise Impossible(str(error)) from error
    made = [g for g in found if g is not None]
    if not made:
        raise Impossible
    fills: dict[int, Wire] = {}
    if draw.chance(0.5):
        made += _updated(draw, graph, zip(wrt, found, strict=True), fills)
    take(draw, graph, fills)
    _check_slope(draw, forward, loss, {w: g.id for w, g in zip(wrt, found, strict=True) if g is not None})
    produced = {w for node in case.nodes for w in node.outputs}
    read = {w for node in case.nodes for w in node.inputs}
    case.marked = [t.id for t in made if t.id in read & produced]
    if draw.chance(0.3):
        case.marked += [w for w in (loss, y) if w in read & produced and w not in case.marked]
    draw.batched.clear()  # the sizes of the batch are in the attributes of gradients


def _check_slope(draw: Draw, forward: Sequence[Node], loss: int, gradients: Mapping[int, int]) -> None:
    """Holds the gradients, as NumPy's kernels compute them in f64, against differences along a random direction.

    What is drawn is often where functions have kinks. There each element's gradient may be that of either side, and
    the sum of them is none of the loss's slopes: then it is looked at nearby. Nothing is said if that has kinks too.

    Args:
        forward: the ops of the model.
        gradients: inputs, and what is to be their gradients.

    Raises:
        ArithmeticError: they are not the derivative.
    """
    rng, drawn = np.random.default_rng(draw.case.seed), draw.values
    directions = {wire: rng.uniform(-1, 1, drawn[wire].shape) for wire in gradients}
    try:
        if _has_slope(draw, forward, loss, gradients, directions):
            return
        draw.values = drawn | {
            wire: drawn[wire] + rng.uniform(-NEARBY, NEARBY, drawn[wire].shape) for wire in gradients
        }
        for node in draw.case.nodes:
            draw.run(node)
        _has_slope(draw, forward, loss, gradients, directions)
    finally:
        draw.values = drawn


def _has_slope(
    draw: Draw,
    forward: Sequence[Node],
    loss: int,
    gradients: Mapping[int, int],
    directions: Mapping[int, np.ndarray],
) -> bool:
    """Whether there is a slope where the values of `draw` are, of which the gradients are held to be that.

    Raises:
        ArithmeticError: they are not.
    """
    values = draw.values
    parts = [values[made] * directions[wire] for wire, made in gradients.items()]
    slope, size = (float(sum(np.sum(one) for one in some)) for some in (parts, map(np.abs, parts)))

    def at(step: float) -> Mapping[int, np.ndarray]:
        draw.values = values | {wire: values[wire] + step * along for wire, along in directions.items()}
        for node in forward:
            draw.run(node)
        return draw.values

    behind, here, ahead = (at(step) for step in (-STEP, 0.0, STEP))
    draw.values = values
    wires = [wire for node in forward for wire in node.outputs]
    # Each element for itself: in the loss, which is their sum, the kinks of some may make up for those of others.
    if any(_has_kink(behind[wire], here[wire], ahead[wire]) for wire in wires if wire != loss):
        return False
    # Sums that cancel, as the mean of what was normalized, leave roundings of numbers that are larger than they.
    largest = max(float(np.abs(values[wire]).max(initial=0.0)) for wire in wires)
    sides = [float(ahead[loss] - here[loss]) / STEP, float(here[loss] - behind[loss]) / STEP]
    most = 1e-3 * size + (1e-9 * abs(float(here[loss])) + 1e-15 * largest) / STEP
    if not abs(sides[0] - sides[1]) <= most:
        return False
    if abs(sum(sides) / 2 - slope) > 10 * most:
        raise ArithmeticError(
            f"gradients give a slope of {slope:g} where differences give {sides}: {draw.case}"
        )
    return True


def _has_kink(behind: np.ndarray, here: np.ndarray, ahead: np.ndarray) -> bool:
    """Whether elements move otherwise to one side than to the other, by more than curves and roundings do."""
    if here.dtype.kind != "f":
        return False
    moves = np.abs(ahead - behind).max(initial=0.0) / 2
    bent = np.abs((ahead - here) - (here - behind)).max(initial=0.0)
    return bool(bent > 1e-3 * moves + 1e-14 * np.abs(here).max(initial=0.0))


def _updated(draw: Draw, graph: og.Graph, gradients: Any, fills: dict[int, Wire]) -> list[og.LogicalTensor]:
    """The next values of what an optimizer may train, with the optimizer's states; often they are assigned."""

    def number(kind: str, values: list[Any]) -> og.LogicalTensor:
        return tensor(Wire(kind, [], values=values))

    def tensor(wire: Wire) -> og.LogicalTensor:
        made = graph.input(f"input {len(fills)}", wire.type, wire.shape)
        fills[made.id] = wire
        return made

    optimizer, in_place = draw.rng.choice(OPTIMIZERS), draw.chance(0.6)
    numbers = None
    made: list[og.LogicalTensor] = []
    for wire, gradient in gradients:
        parameter = graph.tensor(wire)
        if gradient is None or parameter.data_type is not og.DataType.f32:
            continue
        if numbers is None:
            rate, scale = draw.rng.choice((0.5, 0.25)), draw.rng.choice((1.0, 1.0, 0.5))
            numbers = Numbers(number("f64", [rate]), number("f64", [scale]), number("s64", [3]))
        states = [
            tensor(Wire("f32", list(parameter.dims), "positive" if name in SQUARES else "any"))
            for name in optimizer.states
        ]
        new = optimizer.add(graph, parameter, gradient, states, numbers)
        if in_place:
            held = (parameter, *states)
            draw.case.assigned += [[old.id, next_.id] for old, next_ in zip(held, new, strict=True)]
        made += new
    return made


def take(draw: Draw, graph: og.Graph, fills: Mapping[int, Wire]) -> None:
    """Makes the ops of a graph those of the case.

    Args:
        fills: wires of inputs that the case has not had, by their tensors.

    Raises:
        Impossible: a tensor is too large, or its numbers are.
    """
    case = draw.case
    case.wires |= fills
    for tensor in graph.constant_tensors:
        array = graph.constants[label(tensor)]
        kind = tensor.data_type.value
        case.wires[tensor.id] = Wire(kind, list(array.shape), values=_plain(array), constant=True)
    ops = topological(graph.ops)
    case.nodes = [
        Node(op.kind, [t.id for t in op.inputs], [t.id for t in op.outputs], _attributes(op)) for op in ops
    ]
    for number in {*case.inputs, *(t.id for t in graph.constant_tensors)}:  # a gradient may be a constant
        draw.fill(number)
    for node, op in zip(case.nodes, ops, strict=True):
        for wire, tensor in zip(node.outputs, op.outputs, strict=True):
            case.wires[wire] = Wire(tensor.data_type.value, [])
        for wire, shape in zip(node.outputs, inferred(case, node), strict=True):
            case.wires[wire].shape = list(shape)
            if np.prod(shape, dtype=float) > draw.most:
                raise Impossible
        draw.run(node)
        for wire in node.outputs:
            values = draw.values[wire]
            if values.dtype.kind == "f" and not np.all(np.abs(values) < LARGE):
                raise Impossible
    used = {w for node in case.nodes for w in (*node.inputs, *node.outputs)}
    case.wires = {number: wire for number, wire in case.wires.items() if number in used}


def _attributes(op: og.Op) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in op.attributes.items()}


def _plain(array: np.ndarray) -> Sequence[Any]:
    return array.astype(np.float64).ravel().tolist() if array.dtype.kind in "fV" else array.ravel().tolist()
