"""Models of one node of the domain ai.onnx.ml."""

from __future__ import annotations

import onednn_graph as og
from onnx_oracle import helper, model_of, onnx

ML = "ai.onnx.ml"


def classic(kind, inputs, outputs=("y",), version=3, **attributes):
    """A model of one node of the domain."""
    node = helper.make_node(kind, list(inputs), list(outputs), domain=ML, **attributes)
    model = model_of([node], inputs, outputs, opset=17)
    model.opset_import.append(helper.make_opsetid(ML, version))
    for info in model.graph.output:
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model


def results_of(model, inputs):
    return list(og.from_onnx(model).compile()(inputs).values())
