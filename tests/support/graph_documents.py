"""Small graph files for tests, and changes of them."""

import json
import math

import onednn_graph as og
from onednn_graph.graph.files import read_graph

S64_MIN, S64_MAX = -(2**63), 2**63 - 1

KIND = "ConvolutionBackwardWeights"

LEGACY = "ConvolutionBackpropFilters"


def described(graph):
    """What the format keeps of a graph."""
    return {
        "fpmath_mode": graph.fpmath_mode,
        "ops": [
            {
                "op": (op.id, op.name, op.names.kind, op.kind),
                "attributes": {name: (type(value), value) for name, value in op.attributes.items()},
                "inputs": [description(graph.tensor(t.id)) for t in op.inputs],
                "outputs": [description(graph.tensor(t.id)) for t in op.outputs],
            }
            for op in graph.ops
        ],
        "inputs": [t.id for t in graph.inputs],
        "outputs": [t.id for t in graph.outputs],
    }


def dense(shape):
    """Row-major strides; S64_MIN where they follow from no known size."""
    rest = [shape[i + 1 :] for i in range(len(shape or ()))]
    steps = [S64_MIN if -1 in sizes else math.prod(max(d, 1) for d in sizes) for sizes in rest]
    return tuple(steps)


def description(tensor):
    # Row-major strides and none at all mean the same.
    strides = None if tensor.strides == dense(tensor.shape) else tensor.strides
    return (tensor.id, tensor.data_type, tensor.shape, tensor.layout_type, strides, tensor.property_type)


def tensor(number, shape, **changes):
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return {
        "id": number,
        "dtype": "f32",
        "shape": list(shape),
        "stride": steps,
        "layout_type": "strided",
        "property_type": "undef",
        **changes,
    }


SRC, DST, FILTERS = (2, 6, 7, 3), (2, 4, 5, 8), (3, 3, 3, 8)


def operation(number, inputs, outputs, **changes):
    return {
        "id": number,
        "name": f"op{number}",
        "kind": KIND,
        "attrs": {
            "strides": {"type": "s64[]", "value": [1, 1]},
            "pads_begin": {"type": "s64[]", "value": [0, 0]},
            "pads_end": {"type": "s64[]", "value": [0, 0]},
            "dilations": {"type": "s64[]", "value": [1, 1]},
            "groups": {"type": "s64", "value": 1},
            "auto_pad": {"type": "string", "value": "None"},
            "data_format": {"type": "string", "value": "NXC"},
            "weights_format": {"type": "string", "value": "XIO"},
            "weights_shape": {"type": "s64[]", "value": list(FILTERS)},
        },
        "inputs": inputs,
        "outputs": outputs,
        **changes,
    }


def valid():
    """Two weight gradients of one convolution's tensors, as parsed JSON."""
    return {
        "version": "3.7.0",
        "engine_kind": "gpu",
        "fpmath_mode": "bf16",
        "fpmath_mode_apply_to_int": "true",
        "input_ports": [0, 1],
        "output_ports": [3, 2],
        "graph": [
            operation(7, [tensor(0, SRC), tensor(1, DST)], [tensor(2, FILTERS)]),
            operation(9, [tensor(0, SRC), tensor(1, DST)], [tensor(3, FILTERS)]),
        ],
    }


def put(path, value):
    """The small file with another value at `path`, such as `graph.0.inputs.1.shape`."""
    document = valid()
    place = document
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    place[last] = value
    return document


def without(path):
    document = valid()
    place = document
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    del place[last]
    return document


def both(*changes):
    """The small file with several values changed."""
    document = valid()
    for path, value in changes:
        place = document
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            place = place[step]
        place[last] = value
    return document


def interface(**lists):
    """The small file with names, inputs and outputs."""
    return put("interface", {"names": [], "inputs": [], "outputs": [], **lists})


def graph_of(document):
    return read_graph(text=json.dumps(document))


def text(of):
    return of if isinstance(of, str) else json.dumps(of)


def literally(path, word):
    """The small file as text with a word at `path` that `json.dumps` would not write."""
    return text(put(path, "MARK")).replace('"MARK"', word)


T0 = "graph.0.inputs.0"

A0 = "graph.0.attrs"


def chain():
    """An op that reads what a later line of the file produces."""
    document = valid()
    document["graph"] = [
        operation(1, [tensor(2, FILTERS), tensor(3, (3, 2, 2, 4))], [tensor(4, (2, 2, 8, 4))]),
        operation(0, [tensor(0, SRC), tensor(1, DST)], [tensor(2, FILTERS)]),
    ]
    document["graph"][0]["attrs"]["weights_shape"]["value"] = [2, 2, 8, 4]
    document["output_ports"] = [4]
    return document


def gradient_op(number, inputs, output, kind=KIND, name="", **changes):
    spell = og.op_schema(kind).names(kind).spell
    attributes = {
        "strides": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        **changes,
    }
    produced = output if isinstance(output, og.LogicalTensor) else og.LogicalTensor(output, "f32")
    return og.Op(
        number,
        kind,
        inputs,
        [produced],
        name=name,
        **{spell(key): value for key, value in attributes.items()},
    )
