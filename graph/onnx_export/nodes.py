"""Nodes that came from an ONNX model and are computed by its reference: they are what they were."""

from __future__ import annotations

from base64 import b64decode

from ...ops.errors import UnsupportedError
from ..model.op import Op
from .entries import Writers
from .writing import NEWER_OPSET, OPSET, Writing

WRITERS = Writers()


@WRITERS.of("HostOnnx")
def _node(out: Writing, op: Op) -> list[str]:
    model = out.onnx.load_model_from_string(b64decode(op.attributes.string("node")))
    node = model.graph.node[0]
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        raise UnsupportedError(
            f"to_onnx: {op} is {node.op_type} with graphs inside, whose names are another model's"
        )
    version = next((one.version for one in model.opset_import if one.domain == node.domain), OPSET)
    if node.domain in ("", "ai.onnx"):
        since = out.onnx.defs.get_schema(node.op_type, version).since_version
        same = [
            v
            for v in (OPSET, NEWER_OPSET)
            if out.onnx.defs.get_schema(node.op_type, v).since_version == since
        ]
        if not same:
            raise UnsupportedError(
                f"to_onnx: {op} is {node.op_type} of opset {version}, which is another one in opset {OPSET}; convert "
                "the model that it came from by onnx.version_converter, and import it anew"
            )
        out.need(same[0])
    else:
        out.need(version, node.domain)
    names = {given: out.name(tensor) for given, tensor in zip(_given(node.input), op.inputs, strict=True)}
    kept = [name for name in node.output if name]
    inputs = [names.get(name, "") for name in node.input]
    results = out.nodes_of(node.op_type, inputs, len(kept), {}, node.domain)
    written = out.nodes[-1]
    written.attribute.extend(node.attribute)
    places = iter(results)
    del written.output[:]
    written.output.extend(next(places) if name else "" for name in node.output)
    return results


def _given(names: list[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))
