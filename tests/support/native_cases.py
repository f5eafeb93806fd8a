"""Graphs that the backend `native` must survive: every op in every type, layouts, odd shapes, random graphs.

As a program it runs some of them and says how each went, a line each:

    python tests/support/native_cases.py FIRST [LAST [STEP]] [--unbarred]
"""

import json
import random
import sys
from itertools import islice, product

import numpy as np
import onednn_graph as og
from onednn_graph.graph.runtime.tensor import allocate
from onednn_graph.ops.schema import ANY
from onednn_graph.ops.values import one_line
from onednn_graph.tools.benchdnn.filling import fill
from onednn_graph.tools.benchdnn.reference import reference
from onednn_graph.tools.benchdnn.tolerances import compare, rule_for
from op_calls import EXAMPLES, SCHEMAS
from random_graphs import ANCHORS, random_graph

MOST_TYPES = 12
"""Assignments of types that are tried of one example."""
START, END = "start ", "end "
GUARD = 1 << 14
"""Bytes before and behind each output, which no kernel may write."""


def graph_of(example, ins, wanted=None, shapes=None, strides=None):
    """A finalized graph of one example op with these types."""
    schema = SCHEMAS[example.kind]
    shapes = shapes or example.shapes
    strides = strides or [None] * len(shapes)
    inputs = [
        og.LogicalTensor(i, t, s, strides=steps)
        for i, (t, s, steps) in enumerate(zip(ins, shapes, strides, strict=True))
    ]
    made = schema.output_types(ins, len(example.outputs), wanted)
    told = example.outputs if example.declared else [None] * len(made)
    outputs = [og.LogicalTensor(50 + i, t, s) for i, (t, s) in enumerate(zip(made, told, strict=True))]
    graph = og.Graph()
    graph.add_op(og.Op(0, example.kind, inputs, outputs, **example.attributes))
    graph.finalize()
    return graph


def type_choices(example):
    """Assignments of types to the inputs, and a wish for the outputs."""
    schema = SCHEMAS[example.kind]
    ports = schema.input_ports(len(example.inputs))
    constraints = {}
    for i, port in enumerate(ports):
        constraints.setdefault(port.type if port.type != ANY else f"{port.type}{i}", []).append(i)
    allowed = [schema.types[ports[places[0]].type] for places in constraints.values()]
    free = [p.type for p in schema.output_ports(len(example.outputs)) if p.type not in constraints]
    wishes = schema.types[free[0]] if free else (None,)
    for *types, wanted in islice(product(*allowed, wishes), MOST_TYPES):
        ins = [None] * len(ports)
        for places, data_type in zip(constraints.values(), types, strict=True):
            for i in places:
                ins[i] = data_type
        yield ins, wanted


def column_major(shape):
    return tuple(int(np.prod(shape[:axis])) for axis in range(len(shape)))


def with_gaps(shape):
    """Strides of a tensor inside of a larger one."""
    return tuple(int(np.prod(shape[axis + 1 :])) * 2 ** (len(shape) - axis) for axis in range(len(shape)))


def variants(example):
    """Shapes and strides that an op may have beside the usual ones."""
    shapes = example.shapes
    yield "column-major", {"strides": [column_major(s) for s in shapes]}
    yield "with gaps", {"strides": [with_gaps(s) for s in shapes]}
    yield (
        "unit strides",
        {
            "strides": [
                tuple(0 if d == 1 else st for d, st in zip(s, column_major(s), strict=True)) for s in shapes
            ]
        },
    )
    first = next((s[0] for s in shapes if s), 1)
    yield "empty", {"shapes": [(0, *s[1:]) if s and s[0] == first else s for s in shapes]}
    yield "one", {"shapes": [(1, *s[1:]) if s and s[0] == first else s for s in shapes]}


def example_cases():
    """Label and a function that makes the graph."""
    for kind, examples in EXAMPLES.items():
        for number, example in enumerate(examples):
            for ins, wanted in type_choices(example):
                types = "+".join(t.value for t in ins) + (f" to {wanted.value}" if wanted else "")
                yield f"{kind} {number} {types}", lambda e=example, i=ins, w=wanted: graph_of(e, i, w)
            for what, options in variants(example):
                yield (
                    f"{kind} {number} {what}",
                    lambda e=example, o=options: graph_of(e, e.types, None, **o),
                )


def conv_cases():
    """Convolutions and their gradients of all ranks, formats, groups and paddings."""
    for kind, rank, groups, first, last, pad, dtype in product(
        ("Convolution", "ConvTranspose"),
        (1, 2, 3),
        (1, 2),
        (True, False),
        (True, False),
        ("None", "SAME_UPPER"),
        ("f32", "bf16"),
    ):
        if dtype == "bf16" and (rank != 2 or pad != "None"):
            continue
        label = f"{kind} {rank}-D g{groups} {'NCX' if first else 'NXC'} {'dense' if last else 'spatial'} {pad} {dtype}"
        for which in ("forward", "data", "weights"):
            yield (
                f"{label} {which}",
                lambda a=(kind, rank, groups, first, last, pad, dtype), which=which: conv_graph(*a, which),
            )


def conv_graph(kind, rank, groups, first, last, pad, dtype, which):
    spatial, kernel = [6, 5, 4, 3][:rank], [3, 2, 3, 2][:rank]
    ins, outs = 4, 6
    transposed = kind == "ConvTranspose"
    inner, outer = (outs // groups, ins) if transposed else (ins // groups, outs)
    fmt = ("IOX" if transposed else "OIX") if last else ("XOI" if transposed else "XIO")
    weights = [outer, inner, *kernel] if last else [*kernel, inner, outer]

    def data(channels, sizes):
        return [2, channels, *sizes] if first else [2, *sizes, channels]

    attributes = {
        "strides": [2] * rank,
        "pads_begin": [1] * rank,
        "pads_end": [0] * rank,
        "dilations": [1] * rank,
        "groups": groups,
        "auto_pad": pad,
        "data_format": "NCX" if first else "NXC",
        "weights_format": fmt,
    }
    shape_of = og.Graph()
    x, w = shape_of.input("x", dtype, data(ins, spatial)), shape_of.input("w", dtype, weights)
    y = shape_of.op(kind, x, w, **attributes)
    graph = og.Graph()
    if which == "forward":
        graph.op(kind, graph.input("x", dtype, x.shape), graph.input("w", dtype, w.shape), **attributes)
    elif which == "data":
        more = {} if transposed else {"dst_shape": list(x.shape)}
        graph.op(
            f"{kind}BackwardData",
            graph.input("dy", dtype, y.shape),
            graph.input("w", dtype, w.shape),
            **more,
            **attributes,
        )
    else:
        graph.op(
            f"{kind}BackwardWeights",
            graph.input("x", dtype, x.shape),
            graph.input("dy", dtype, y.shape),
            weights_shape=list(w.shape),
            **attributes,
        )
    graph.finalize()
    return graph


def random_cases(count=12):
    """Anchors with what follows them."""
    for kind, dtype, seed in product(ANCHORS, ("f32", "bf16"), range(count)):

        def make(kind=kind, dtype=dtype, seed=seed):
            graph, _ = random_graph(random.Random(f"{kind} {dtype} {seed}"), kind, dtype)
            graph.finalize()
            return graph

        yield f"random {kind} {dtype} {seed}", make


def cases():
    """All of them, always in the same order: label, function that makes the graph, policy."""
    for label, make in (*example_cases(), *conv_cases(), *random_cases()):
        yield label, make, "fusion"
    for label, make in random_cases(2):
        yield f"{label} in single ops", make, "debug"


def filled(graph):
    """Arrays by id, in the tensors' own layouts."""
    arrays = fill(graph)
    for tensor in graph.inputs:
        placed = allocate(tensor)
        placed[...] = arrays[tensor.id]
        arrays[tensor.id] = placed
    return arrays


class Guarded:
    """An array between bytes that nobody may touch."""

    def __init__(self, tensor):
        plain = allocate(tensor)
        self._size = plain.nbytes
        self._buffer = np.full(self._size + 2 * GUARD, 0xA5, np.uint8)
        self.array = self._buffer[GUARD : GUARD + self._size].view(plain.dtype).reshape(plain.shape)

    def intact(self):
        return bool(
            (self._buffer[:GUARD] == 0xA5).all() and (self._buffer[GUARD + self._size :] == 0xA5).all()
        )


def outcome(make, policy):
    """`right`, `wrong: …`, `refused: …` or `no case: …`."""
    try:
        graph = make()
        arrays = filled(graph)
    except (og.OneDNNGraphError, ValueError, ZeroDivisionError) as error:  # made-up data of nothing
        return f"no case: {one_line(error)}"
    before = {i: array.copy() for i, array in arrays.items()}
    results = {t.id: Guarded(t) for t in graph.outputs}
    try:
        model = graph.compile(backend="native", policy=policy)
        model({t: arrays[t.id] for t in graph.inputs}, {i: one.array for i, one in results.items()})
    except og.UnsupportedError as error:
        return f"refused: {error}"
    for tensor in graph.inputs:
        if before[tensor.id].tobytes() != arrays[tensor.id].tobytes():
            return f"crash: it wrote into its input {tensor}"
    for tensor in graph.outputs:
        if not results[tensor.id].intact():
            return f"crash: it wrote beyond its output {tensor}"
    expected = reference(graph, arrays, [t.id for t in graph.outputs])
    for tensor in graph.outputs:
        rule = rule_for(graph, tensor.id, expected[tensor.id])
        found = compare(tensor.id, tensor.data_type, expected[tensor.id], results[tensor.id].array, rule)
        if not found.ok:
            return f"wrong: {found.message}"
    return "right"


def unbar():
    """Lets everything reach the library that it has a number for."""
    from onednn_graph.backends.native import limits

    limits._RULES = (limits._newer_attributes,)

    def why_not_tensor(tensor):
        return None if tensor.data_type in limits.DATA_TYPES else "no number for the type"

    for module in list(sys.modules.values()):
        if getattr(module, "why_not_tensor", None) is limits.why_not_tensor and module is not limits:
            module.why_not_tensor = why_not_tensor
    limits.why_not_tensor = why_not_tensor


def main(arguments):
    if "--unbarred" in arguments:
        arguments.remove("--unbarred")
        unbar()
    for number, (label, make, policy) in islice(
        enumerate(cases()), *map(int, [*arguments, 10**9][: max(2, len(arguments))])
    ):
        print(START + json.dumps([number, label]), flush=True)
        print(END + json.dumps([number, label, outcome(make, policy)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
