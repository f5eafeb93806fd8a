"""Who runs each op in each type: what the library of this process does with it on the instruction set of this process.

    python tests/support/who_runs.py    # JSON: row → what was found

Each op is compiled by itself on tensors of usual sizes, and `explain()` tells what became of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import onednn_graph as og
from onednn_graph.backends.onednn.library.implementations import is_reference
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.plan.chooser import Chooser
from onednn_graph.backends.onednn.quarantine import rules_of
from onednn_graph.extend import OpSchema
from onednn_graph.tools.op_examples import CALLS, Call

IMAGE, SMALL, CHANNELS = (2, 16, 16, 32), (2, 8, 8, 32), (32,)
SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
UP = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
POOL = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
WIDE = (2, 16, 16, 64)
ROWS = (16, 64)
USUAL: Mapping[str, Call] = {
    "MatMul": Call((ROWS, (64, 32))),
    "Convolution": Call((IMAGE, (3, 3, 32, 64)), SAME),
    "ConvolutionBackwardData": Call((WIDE, (3, 3, 32, 64)), SAME),
    "ConvolutionBackwardWeights": Call((IMAGE, WIDE), {"weights_shape": [3, 3, 32, 64], **SAME}),
    "ConvTranspose": Call((SMALL, (2, 2, 64, 32)), UP),
    "ConvTransposeBackwardData": Call((WIDE, (2, 2, 64, 32)), UP),
    "ConvTransposeBackwardWeights": Call((SMALL, WIDE), {"weights_shape": [2, 2, 64, 32], **UP}),
    "AvgPool": Call((IMAGE,), {"exclude_pad": True, **POOL}),
    "AvgPoolBackward": Call((SMALL,), {"exclude_pad": True, "src_shape": list(IMAGE), **POOL}),
    "MaxPool": Call((IMAGE,), POOL),
    "MaxPoolBackward": Call((IMAGE, SMALL), POOL),
    "Interpolate": Call((SMALL,), {"mode": "bilinear", "sizes": [16, 16]}),
    "InterpolateBackward": Call((SMALL, IMAGE), {"mode": "bilinear", "sizes": [16, 16]}),
    "BatchNormInference": Call((IMAGE, *[CHANNELS] * 4), {"epsilon": 1e-5}),
    "BatchNormForwardTraining": Call((IMAGE, *[CHANNELS] * 4), {"epsilon": 1e-5, "momentum": 0.9}),
    "BatchNormTrainingBackward": Call((IMAGE, IMAGE, *[CHANNELS] * 3), {"epsilon": 1e-5}, 3),
    "LayerNorm": Call((ROWS, (64,), (64,)), {"keep_stats": False}),
    "LayerNormBackward": Call((ROWS, ROWS, (16,), (16,), (64,), (64,)), outputs=3),
    "GroupNorm": Call((IMAGE, CHANNELS, CHANNELS), {"groups": 4, "keep_stats": False}),
    "GroupNormBackward": Call((IMAGE, IMAGE, (2, 4), (2, 4), CHANNELS), {"groups": 4}, 3),
    "RMSNorm": Call((ROWS, (64,))),
}
"""Calls of ops whose kernels depend on sizes; the others are called as on their pages."""
QUANTIZED = ("Convolution", "ConvTranspose", "MatMul")
"""Ops that are computed in 8-bit integers between Dequantize and Quantize."""
INT8 = "u8·s8"
BY_COST = ("ConvolutionBackwardWeights", "ConvTransposeBackwardWeights")
"""Ops whose kernels are chosen by what they cost on a CPU: which, is another thing on each."""
COPIES = ("reorder ", "convert ")
"""How the steps begin that change only a tensor's layout or type."""
ISA = re.compile(r"[:_]?(sse41|avx\w*|uni|x64|any)\b")

Found = dict[str, Any]


def main_type(schema: OpSchema) -> str:
    """The name of the types that a row is about: of the first tensor that may have several."""
    ports = (*schema.inputs, *schema.outputs)
    return next(
        (p.type for p in ports if len(schema.types[p.type]) > 1 and not p.shape_operand), ports[0].type
    )


def rows() -> Iterator[tuple[OpSchema, str]]:
    """Every op of the set that computes something, with each type of its main tensor."""
    for schema in og.list_ops():
        if schema.kind in CALLS:
            for data_type in schema.types[main_type(schema)]:
                yield schema, data_type.value
            if schema.kind in QUANTIZED:
                yield schema, INT8


def graph_of(schema: OpSchema, data_type: str) -> og.Graph:
    """The op by itself; between Dequantize and Quantize for 8-bit integers."""
    call = USUAL.get(schema.kind, CALLS[schema.kind])
    graph = og.Graph()
    tensors: list[Any] = []
    for number, (port, shape) in enumerate(
        zip(schema.input_ports(len(call.inputs)), call.inputs, strict=True)
    ):
        if data_type == INT8:
            x = graph.input(f"in{number}", "u8" if number == 0 else "s8", shape)
            tensors.append(graph.op("Dequantize", x, scales=[0.1], zps=[0]))
            continue
        allowed = [one.value for one in schema.types[port.type]]
        wanted = (one for one in (data_type, "f32", allowed[0]) if one in allowed)
        tensors.append(graph.input(f"in{number}", next(wanted), shape))
    attributes = dict(call.attributes)
    if call.outputs is not None:
        attributes["outputs"] = call.outputs
    if schema.kind == "TypeCast":
        attributes["output_type"] = "bf16" if data_type == "f32" else "f32"
    elif all(port.type != main_type(schema) for port in schema.inputs):
        attributes["output_type"] = data_type
    made: Any = graph.op(schema.kind, *tensors, **attributes)
    if data_type == INT8:
        graph.op("Quantize", made, scales=[0.1], zps=[0], output_type="u8")
    return graph


def found(schema: OpSchema, data_type: str) -> Found:
    """Who runs it: `by`, the kernels, what it is computed `as`, its `status` and the rules that were `barred`."""
    barred, described = set[str](), set[str]()
    find = Chooser.find

    def watched(chooser: Chooser, descriptor: Any) -> Any:
        choice = find(chooser, descriptor)
        described.add(descriptor.function)
        reasons = choice.passed_over
        barred.update(name for one in reasons if (name := rule_of(descriptor.function, one)))
        return choice

    Chooser.find = watched
    try:
        told = list(graph_of(schema, data_type).compile().explain().values())
    except og.errors.Error as error:
        return {"by": "refused", "why": str(error)}
    finally:
        Chooser.find = find
    result = _who(told, data_type)
    if schema.kind in BY_COST:
        described.add("convolution_backward_weights")
        if "kernels" in result:
            result = {"by": "oneDNN by cost", "status": result["status"]}
            barred.clear()
    ruled = sorted(function for function in described if rules_of(function))
    return result | ({"barred": sorted(barred)} if barred else {}) | ({"ruled": ruled} if ruled else {})


def rule_of(function: str, reason: str) -> str | None:
    """What a reason speaks of, by the primitive's function and the rule's name."""
    for rule in rules_of(function):
        if reason.endswith(f"is barred when {rule.condition}: {rule.seen}"):
            return f"{function} {rule.name}"
    return None


def _who(told: Any, data_type: str) -> Found:
    steps = [step for one in told for step in one.steps if not step.prepared]
    if all(one.backend == "numpy" for one in told):
        return {"by": "NumPy"}
    if not steps:
        return {"by": "view"}
    own = [step for step in steps if not step.host and step.implementation != "numpy"]
    if not own:  # copies that the library would make one by one
        return {"by": "NumPy"}
    main = [step for step in own if not step.name.startswith(COPIES)] or own
    loops = any(is_reference(part) for step in main for part in step.implementation.split("+"))
    result: Found = {
        "by": "reference" if loops else "oneDNN",
        "kernels": [bare(step.implementation) for step in main],
        "status": "proven" if all(step.proven for step in own) else "verified",
    }
    if any(step.host for step in steps):
        result["by"] = "oneDNN and NumPy"
    if any(_widens(step, data_type) for step in steps if step.name.startswith(COPIES) and step not in main):
        result["as"] = "f32"
    return result


def _widens(step: Any, data_type: str) -> bool:
    """Whether a step makes f32 of the op's first tensor."""
    if not step.name.startswith(("reorder in0", "convert in0", "reorder src", "convert src")):
        return False
    return step.name.startswith("convert") or (step.change.startswith(data_type) and "→ f32" in step.change)


def bare(implementation: str) -> str:
    """A kernel's name without instruction sets: `jit:avx2` is `jit`."""
    return "+".join(ISA.sub("", part).strip(":") or part for part in implementation.split("+"))


def main() -> None:
    """Prints all rows."""
    json.dump(
        {
            "isa": load().effective_isa,
            "version": ".".join(map(str, load().version[:2])),
            "rows": {f"{schema.kind} {data_type}": found(schema, data_type) for schema, data_type in rows()},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
