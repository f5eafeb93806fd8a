"""Small graph files for tests of `onednn-graph check`, rewritten and run."""

import json
import math

from onednn_graph.graph.files import to_graph
from onednn_graph.graph.io.serialization import loads
from onednn_graph.tools.benchdnn.check import run_case
from onednn_graph.tools.benchdnn.filling import fill
from onednn_graph.tools.benchdnn.options import parse
from onednn_graph.tools.benchdnn.rewriting import rewrite

TYPES = {bool: "bool", int: "s64", float: "f32", str: "string"}


def attribute(value):
    if isinstance(value, list):
        return {"type": TYPES[type(value[0])] + "[]" if value else "s64[]", "value": value}
    return {"type": TYPES[type(value)], "value": value}


def tensor_json(number, data_type, shape):
    strides = [math.prod(max(d, 1) for d in shape[axis + 1 :]) for axis in range(len(shape))]
    return {
        "id": number,
        "dtype": data_type,
        "shape": list(shape),
        "stride": strides,
        "layout_type": "strided",
        "property_type": "undef",
    }


def text_of(tensors, *ops, **fields):
    """A document: tensors are {id: (type, shape)}, ops (kind, inputs, outputs, attributes)."""
    return json.dumps(
        {
            "version": "3.9.0",
            "engine_kind": "cpu",
            "fpmath_mode": "strict",
            **fields,
            "graph": [
                {
                    "id": index,
                    "name": f"op_{index}",
                    "kind": kind,
                    "attrs": {name: attribute(value) for name, value in attributes.items()},
                    "inputs": [tensor_json(i, *tensors[i]) for i in ins],
                    "outputs": [tensor_json(i, *tensors[i]) for i in outs],
                }
                for index, (kind, ins, outs, attributes) in enumerate(ops)
            ],
        }
    )


CONV = {
    "strides": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "groups": 1,
    "data_format": "NCX",
    "weights_format": "OIX",
}


def conv(data_type="f32", **attributes):
    return text_of(
        {0: (data_type, [2, 8, 6, 6]), 1: (data_type, [4, 8, 3, 3]), 2: (data_type, [2, 4, 4, 4])},
        ("Convolution", [0, 1], [2], CONV | attributes),
    )


def one(kind, shapes, out, data_type="f32", **attributes):
    """A document of one op; shapes are of its inputs and its outputs."""
    described = [s if isinstance(s, tuple) else (data_type, s) for s in (*shapes, *out)]
    ids = list(range(len(described)))
    return text_of(dict(enumerate(described)), (kind, ids[: len(shapes)], ids[len(shapes) :], attributes))


def rewritten(text, *arguments, tmp_path=None):
    folder = tmp_path
    (folder / "g.json").write_text(text, encoding="utf-8")
    case = parse([*arguments, "g.json"], [folder]).cases[0]
    return rewrite(loads(text), case)


def run(text, tmp_path, *arguments):
    (tmp_path / "g.json").write_text(text, encoding="utf-8")
    return [run_case(case) for case in parse([*arguments, "g.json"], [tmp_path]).cases]


def kinds(document):
    return [op.kind for op in document.ops]


CHAIN = text_of(
    {
        0: ("f32", [2, 4]),
        1: ("f32", [4, 4]),
        2: ("f32", [2, 4]),
        3: ("f32", [1]),
        4: ("f32", [2, 4]),
        5: ("f32", [2, 4]),
    },
    ("MatMul", [0, 1], [2], {}),
    ("Divide", [2, 3], [4], {}),
    ("ReLU", [4], [5], {}),
)


def filled(text, tmp_path, *arguments, seed=0):
    graph = to_graph(rewritten(text, *arguments, tmp_path=tmp_path))
    graph.finalize()
    return graph, fill(graph, seed)


def attention(mode, mask):
    return text_of(
        {
            0: ("f32", [1, 2, 5, 8]),
            1: ("f32", [1, 2, 8, 5]),
            2: ("f32", [1, 2, 5, 5]),
            3: ("f32", mask),
            4: ("f32", [1, 2, 5, 5]),
            5: ("f32", [1, 2, 5, 5]),
            6: ("f32", [1, 2, 5, 8]),
            7: ("f32", [1, 2, 5, 8]),
        },
        ("MatMul", [0, 1], [2], {}),
        ("Add", [2, 3], [4], {}),
        ("SoftMax", [4], [5], {"axis": -1, "mode": mode}),
        ("MatMul", [5, 6], [7], {}),
    )
