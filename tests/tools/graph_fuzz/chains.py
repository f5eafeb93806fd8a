"""Whole graphs: a root, what follows it, and how it is run."""

from __future__ import annotations

import random

import onednn_graph as og

from . import elementwise, roots
from .case import Case, Layout, Node, Run, Variant, Wire, infer_again, varied
from .drawing import Draw, Impossible
from .elementwise import BINARY, ELTWISE
from .roots import IMAGES, ROOTS
from .training import training

LATER = (
    "SoftMax",
    "MatMul",
    "Convolution",
    "MaxPool",
    "AvgPool",
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "LayerNorm",
    "BatchNormInference",
    "Concat",
    "Interpolate",
    "PReLU",
    "ReduceL1",
    "Select",
    "LogSoftmax",
    "RMSNorm",
    "GroupNorm",
    "ReLUBackward",
    "ConvTranspose",
    "Reorder",
    "HostSlice",
)
ANCHORS = (
    "Convolution",
    "Convolution",
    "MatMul",
    "MatMul",
    "ConvTranspose",
    "AvgPool",
    "MaxPool",
    "Add",
    "Concat",
    "Reorder",
    "SoftMax",
    "ReLU",
    "HostSlice",
)
"""Between Dequantize and Quantize."""
SPECIAL = ("int8", "attention", "huge", "training")
HEAVY = (
    "Convolution",
    "MatMul",
    "int8",
    "ConvTranspose",
    "Add",
    "Multiply",
    "Quantize",
    "PReLU",
    "Reorder",
    "HostSlice",
)
"""Kinds that get more than their share."""
MAGNITUDE = {"f16": 2000.0, "bf16": 1e6, "f32": 1e6}


def follow(draw: Draw, y: int) -> int:
    """One more op behind `y`, or a few."""
    r = draw.rng.random()
    if draw.wire(y).type not in ("f32", "bf16", "f16"):
        raise Impossible
    if not elementwise.small(draw, y, MAGNITUDE[draw.wire(y).type]):
        y = draw.op(draw.rng.choice(("Tanh", "Sigmoid")), y)
    draw.type = draw.wire(y).type
    shape = draw.dims(y)
    if r < 0.32:
        return elementwise.eltwise(draw, draw.rng.choice(tuple(ELTWISE)), y)[0]
    if r < 0.66:
        return elementwise.binary(draw, draw.rng.choice(BINARY[:6]), y)[0]
    if r < 0.70:
        return elementwise.bias(draw, "BiasAdd", y)[0]
    if r < 0.73:
        gate = draw.op("Sigmoid", y)
        return draw.op("Multiply", *((y, gate) if draw.chance(0.7) else (gate, y)))
    if r < 0.79:  # a diamond, or a residual
        same = [w for w in draw.values if draw.dims(w) == shape and draw.wire(w).type == draw.type and w != y]
        other = draw.rng.choice(same) if same else y
        return draw.op(
            draw.rng.choice(("Add", "Multiply", "Maximum", "Subtract")), *draw.rng.sample((y, other), 2)
        )
    if r < 0.84:
        return roots.cast(draw, "TypeCast", y)[0]
    if r < 0.91:
        kind = draw.rng.choice(("StaticReshape", "StaticTranspose", "HostSlice"))
        return ROOTS[kind](draw, kind, y)[0]
    kind = draw.rng.choice(LATER)
    if ROOTS[kind] in IMAGES and not roots.is_image(draw, y):
        raise Impossible
    return ROOTS[kind](draw, kind, y)[0]


def dequantized(draw: Draw, shape: list[int], *, weights: bool = False) -> int:
    """An integer input with a Dequantize behind it, in the draw's type."""
    stored = draw.rng.choice(("u8", "s8")) if not weights else "s8"
    x = (draw.weights if weights else draw.input)(shape, stored)
    rank = len(shape)
    attributes = roots.quantization(draw, rank, tuple(shape), stored == "s8")
    if not weights and not draw.chance(0.1) and "axis" in attributes:
        attributes = {"scales": attributes["scales"][:1], "zps": attributes.get("zps", [0])[:1]}
    if weights and draw.chance(0.9):
        attributes.pop("zps", None)
    y = draw.op("Dequantize", x, **attributes)
    return y if draw.type == "f32" else draw.op("TypeCast", y, to=draw.type)


def int8(draw: Draw) -> int:
    """Something between Dequantize and Quantize."""
    draw.type = draw.rng.choice(("f32", "f32", "f32", "bf16"))
    anchor = draw.rng.choice(ANCHORS)
    if anchor in ("Convolution", "ConvTranspose", "MatMul"):
        probe = draw.probe()
        probe.type = "f32"
        ROOTS[anchor](probe, anchor, None)
        node = probe.case.nodes[-1]
        x = dequantized(draw, probe.wire(node.inputs[0]).shape)
        w = dequantized(draw, probe.wire(node.inputs[1]).shape, weights=True)
        extra = [draw.weights(probe.wire(i).shape) for i in node.inputs[2:]]
        y = draw.op(anchor, x, w, *extra, to=draw.type, **node.attributes)
    elif anchor in ("Add", "Concat"):
        x = dequantized(draw, draw.image())
        other = dequantized(draw, list(draw.dims(x)))
        y = draw.op("Add", x, other) if anchor == "Add" else draw.op("Concat", x, other, axis=1)
    else:
        y = ROOTS[anchor](draw, anchor, dequantized(draw, draw.image()))[0]
    for _ in range(draw.rng.choice((0, 0, 1, 2))):
        y = attempt(draw, y)
    if draw.chance(0.15) and draw.wire(y).type == "f32":
        y = draw.op("Add", y, dequantized(draw, list(draw.dims(y))))
    return roots.quantize(draw, "Quantize", y)[0] if draw.chance(0.75) else y


def attention(draw: Draw) -> int:
    """softmax(Q · Kᵀ · scale + mask) · V."""
    rng = draw.rng
    batch, heads = rng.choice((1, 2, 3)), rng.choice((1, 2, 4))
    rows, columns, size = rng.choice((1, 3, 5, 8, 16)), rng.choice((1, 4, 7, 16)), rng.choice((1, 8, 16, 33))
    turned = draw.chance(0.5)
    q = draw.input([batch, heads, rows, size])
    k = draw.input([batch, heads, columns, size] if turned else [batch, heads, size, columns])
    y = draw.op("MatMul", q, k, to=draw.type, transpose_b=turned)
    y = draw.op(
        rng.choice(("Multiply", "Divide")), y, draw.weights(rng.choice(([], [1], [1, 1, 1, 1])), data="power")
    )
    if draw.chance(0.7):
        full = [batch, heads, rows, columns]
        mask = rng.choice(([batch, 1, 1, columns], [1, 1, rows, columns], [batch, 1, rows, columns], full))
        y = draw.op("Add", y, draw.input(mask))
    y = draw.op("SoftMax", y, axis=-1, to=draw.type)
    y = draw.op("MatMul", y, draw.input([batch, heads, columns, size]), to=draw.type)
    if draw.chance(0.4):
        y = draw.op("StaticTranspose", y, order=[0, 2, 1, 3])
        if draw.chance(0.6):
            y = draw.op("StaticReshape", y, shape=[batch, rows, heads * size], special_zero=False)
    return y


HUGE_SIZES = (2**31, 2**32, 2**32 + 1, 2**33)
"""Sizes that are zero, negative or small in 32 bits."""


def huge(rng: random.Random) -> Case:
    """Something for compiling only, with a size that 32 bits don't hold."""
    size, small, kind = (
        rng.choice(HUGE_SIZES),
        rng.choice((1, 1, 2, 3, 16)),
        rng.choice(("f32", "f32", "bf16", "f16")),
    )
    m, k, n = rng.choice(((size, small, 1), (small, size, 2), (1, small, size)))
    node, shapes = rng.choice(
        (
            (Node("MatMul", [0, 1], [2]), ([m, k], [k, n])),
            (Node("Add", [0, 1], [2]), ([size, small], [rng.choice((1, size)), small])),
            (Node("SoftMax", [0], [2], {"axis": rng.choice((0, 1))}), ([m, k],)),
            (Node("ReduceSum", [0], [2], {"axes": [rng.choice((0, 1))]}), ([m, k],)),
            (
                Node(
                    "ConvolutionBackwardWeights",
                    [0, 1],
                    [2],
                    {
                        "strides": [1],
                        "pads_begin": [0],
                        "pads_end": [0],
                        "dilations": [1],
                        "data_format": "NXC",
                        "weights_format": "OIX",
                        "weights_shape": [n, m, 1],
                    },
                ),
                ([k, 1, m], [k, 1, n]),
            ),
        )
    )
    case = Case(nodes=[node], run=Run(called=False, whole=rng.random() < 0.5))
    for number, shape in enumerate(shapes):
        case.wires[number] = Wire(kind, shape)
    case.wires[2] = Wire(kind, [])
    infer_again(case)
    return case


def attempt(draw: Draw, y: int) -> int:
    """`follow` where it works."""
    return draw.tried(lambda: follow(draw, y), y)


def graph(rng: random.Random, kind: str) -> Draw:
    """A random graph.

    Args:
        kind: that it begins with.

    Raises:
        Impossible: nothing came of it.
    """
    draw = Draw(rng)
    if kind == "training":
        training(draw)
        return draw
    if kind in SPECIAL:
        y = int8(draw) if kind == "int8" else attention(draw)
    else:
        outputs = ROOTS[kind](draw, kind, None)
        y = outputs[0]
    ends = [y]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 2, 3, 4, 6))):
        y = attempt(draw, ends[-1] if draw.chance(0.93) else rng.choice(ends))
        ends.append(y)
    if draw.chance(0.12) and draw.wire(y).type in ("f32", "bf16", "f16"):
        y = attempt_quantize(draw, y)
    case = draw.case
    read = {w for node in case.nodes for w in node.inputs}
    case.marked = [w for node in case.nodes for w in node.outputs if w in read and draw.chance(0.08)]
    if draw.chance(0.02):
        case.nodes.append(Node("End", [case.nodes[-1].outputs[0]], []))
    return draw


def attempt_quantize(draw: Draw, y: int) -> int:
    try:
        made = roots.quantize(draw, "Quantize", y)[0]
        if draw.chance(0.3):
            stored = draw.wire(made)
            attributes = roots.quantization(draw, len(stored.shape), stored.dims, stored.type == "s8")
            made = draw.op("Dequantize", made, **attributes)
        return made
    except Impossible:
        return y


def finish(draw: Draw) -> Case:
    """How the graph lies and runs."""
    case, rng = draw.case, draw.rng
    run = case.run
    run.whole = rng.random() < 0.6 or bool(case.assigned)
    run.policy = "debug" if rng.random() < 0.12 else "fusion"
    run.fpmath = rng.choice(("bf16", "f16", "any", "tf32")) if rng.random() < 0.06 else "strict"
    run.opaque = not run.whole and rng.random() < 0.5
    run.bound = not run.whole and rng.random() < 0.3
    run.given = rng.random() < 0.8
    run.shift = rng.choice((0, 0, 0, 1, 3))
    run.fill = rng.choice((0xFF, 0xFF, 0x7B, 0xFB))
    if run.whole and not case.assigned:
        more = random.Random(case.seed)
        run.held, run.filed = more.random() < 0.4, more.random() < 0.1
        run.blocks = more.random() < (0.6 if "SoftMax" in case.kinds else 0.05)
    inputs, made = case.inputs, {w for node in case.nodes for w in node.outputs}
    if draw.batched and draw.batch and rng.random() < 0.07:
        _unknown(draw, case)
        return case
    share = rng.choice((0.0, 0.0, 0.0, 0.3, 0.6, 1.0))
    alike = rng.random() < 0.5
    orders: dict[int, Layout] = {}
    read = {w for node in case.nodes for w in node.inputs}
    rows = {wire for pair in case.assigned for wire in pair}
    for number, wire in case.wires.items():
        if number in rows:
            continue
        is_input, is_output = (
            number in inputs,
            number in made and (number not in read or number in case.marked),
        )
        if (is_input or is_output) and wire.shape and wire.values is None and rng.random() < share:
            wire.layout = draw.layout(wire.shape, output=is_output)
            if (
                alike
            ):  # tensors of one rank lie in one order, as in a network that is channels-last throughout
                first = orders.setdefault(len(wire.shape), wire.layout)
                wire.layout = Layout(first.order, wire.layout.step, wire.layout.gaps, wire.layout.units)
        if is_output and draw.wide and wire.shape and rng.random() < 0.35:
            wire.layout = Layout(list(range(len(wire.shape))), rng.choice((2, 4, 4, 8)))
    if rng.random() < 0.12:
        run.variants.append(Variant(fill=1))
    if rng.random() < 0.12:
        others = {}
        for number in [*inputs, *sorted(made - read)]:
            wire = case.wires[number]
            if number in rows:
                continue
            if wire.shape and wire.values is None and rng.random() < 0.5:
                others[str(number)] = (
                    None
                    if wire.layout and rng.random() < 0.5
                    else draw.layout(wire.shape, output=number in made)
                )
        run.variants.append(Variant(layouts=others, fill=rng.choice((0, 2))))
    return case


def _unknown(draw: Draw, case: Case) -> None:
    """Leaves the size of the batch open, and runs with others."""
    sizes = draw.rng.sample((1, 2, 3, 4, 7), 3)
    for number, axis in draw.batched:
        if number in case.wires and case.wires[number].values is None and number in case.inputs:
            case.wires[number].unknown = [axis]
    for size in sizes:
        try:
            varied(case, Variant(size=size))
        except og.OneDNNGraphError:
            continue
        case.run.variants.append(Variant(size=size, fill=size))


def case_of(seed: int, number: int, kinds: tuple[str, ...]) -> Case:
    """Case `number` of a seed; the same whenever it is asked for."""
    for attempt_number in range(1000):
        rng = random.Random(f"{seed}/{number}/{attempt_number}")
        try:
            kind = rng.choice(kinds)
            return huge(rng) if kind == "huge" else finish(graph(rng, kind))
        except Impossible:
            continue
        except Exception as error:  # of the library's own, as where it adds gradients
            error.add_note(f"while graph {number} of seed {seed} was drawn")
            raise
    raise RuntimeError(f"no graph of {', '.join(kinds)} can be drawn")


def kinds_for(wanted: str) -> tuple[str, ...]:
    """The kinds to begin with, from a list with commas; all of them, some more often, if it is empty."""
    everything = (*ROOTS, *SPECIAL)
    if not wanted:
        return (*everything, *HEAVY, *HEAVY)
    chosen = tuple(wanted.split(","))
    unknown = [kind for kind in chosen if kind not in everything]
    if unknown:
        raise SystemExit(f"--kinds has {', '.join(unknown)}; there are {', '.join(everything)}")
    return chosen
