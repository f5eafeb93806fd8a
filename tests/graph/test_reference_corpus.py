"""Against the reference corpus: the op set as data, and real graphs of oneDNN's own test driver."""

import json
from dataclasses import replace
from itertools import product

import onednn_graph as og
import pytest
from oracle import Problem
from strategies import BACKENDS, check


def problem_of(op):
    """A graph's op as a problem of the oracle."""
    values = {name: attribute["value"] for name, attribute in op["attrs"].items()}
    shapes = [tensor["shape"] for tensor in op["inputs"]]
    last = values["data_format"] == "NCX"
    channels = 1 if last else -1
    fmt, shape = values["weights_format"], values["weights_shape"]
    return Problem(
        transposed=op["kind"] == "ConvTransposeBackwardWeights",
        batch=shapes[0][0],
        groups=values["groups"],
        channels=(shapes[0][channels], shapes[1][channels]),
        size=tuple(shapes[0][2:] if last else shapes[0][1:-1]),
        kernel=tuple(shape[2:] if fmt in ("OIX", "IOX") else shape[:-2]),
        strides=tuple(values["strides"]),
        begin=tuple(values["pads_begin"]),
        end=tuple(values["pads_end"]),
        dilations=tuple(values["dilations"]),
        auto_pad=values["auto_pad"],
        data_format=values["data_format"],
        weights_format=fmt,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("file", ["conv_bwd_w_2d", "deconv_bwd_w"])
def test_weight_gradients_of_real_graphs(corpus, file, dtype, backend):
    path = corpus / "benchdnn_graph" / "op" / "f32" / f"{file}.json"
    (op,) = json.loads(path.read_text(encoding="utf-8"))["graph"]
    tensors = [
        og.LogicalTensor(t["id"], dtype, t["shape"], strides=t["stride"])
        for t in op["inputs"] + op["outputs"]
    ]
    graph = og.Graph()
    attributes = {name: attribute["value"] for name, attribute in op["attrs"].items()}
    graph.add_op(og.Op(op["id"], op["kind"], tensors[:-1], tensors[-1:], name=op["name"], **attributes))
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    problem = replace(problem_of(op), dtype=dtype)
    assert problem.out == tuple(op["inputs"][1]["shape"][2 if problem.data_format == "NCX" else 1 :][:2])
    (dw,) = partition.compile().execute(None, problem.arrays())
    check(problem, dw, fast=True)


def problem_of_layer(layer, data_format):
    return Problem(
        transposed=layer["op"] == "ConvTransposeBackwardWeights",
        batch=layer["batch"],
        groups=layer["groups"],
        channels=(layer["in_channels"], layer["out_channels"]),
        size=tuple(layer["src_spatial"]),
        kernel=tuple(layer["kernel"]),
        strides=tuple(layer["strides"]),
        begin=tuple(layer["pads_begin"]),
        end=tuple(layer["pads_end"]),
        dilations=tuple(layer["dilations"]),
        implied=tuple(layer["output_padding"]) if any(layer["output_padding"]) else (),
        data_format=data_format,
    )


def test_layers_of_real_networks(corpus):
    """Every layer is claimed and its shapes are right, in both formats; no array of that size is made."""
    layers = json.loads((corpus / "reference" / "wgrad_shapes.json").read_text(encoding="utf-8"))
    assert len(layers) >= 20
    for layer, data_format in product(layers, ("NXC", "NCX")):
        problem = problem_of_layer(layer, data_format)
        assert problem.out == tuple(layer["dst_spatial"])

        def shape(channels, spatial, problem=problem):
            one = [channels, *spatial] if problem.data_format == "NCX" else [*spatial, channels]
            return [problem.batch, *one]

        graph = og.Graph()
        x = graph.input("x", "f32", shape(problem.channels[0], problem.size))
        dy = graph.input("dy", "f32", shape(problem.channels[1], problem.out))
        dw = graph.op(problem.kind, x, dy, weights_shape=problem.weights_shape, **problem.attributes)
        assert dw.shape == problem.weights_shape
        graph.finalize()
        (partition,) = graph.get_partitions()
        assert partition.backend == next(
            name for name, reason in og.list_backends().items() if reason is None
        )
