"""Models of other frameworks as graphs of oneDNN Graph ops.

    model = og.from_onnx("resnet.onnx").compile()
    y = model(x)["output"]

The frameworks are imported when they are needed; each is an extra of the package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..graph import Graph

__all__ = ["from_onnx", "from_torch"]


def from_onnx(
    model: str | os.PathLike[str] | bytes | object, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """A graph from an ONNX model of opset 11 or later.

    Data stay in ONNX's layout, NCX. What depends on constants alone is computed now. The graph holds the weights as its
    constants, which backends prepare once. Inputs and outputs have the model's names and order. It is not finalized,
    so that more can be built onto it. Where oneDNN Graph has no op (look-ups, comparisons, integers), ops of our own
    run on the host; their names begin with `Host`.

    QuantizeLinear becomes Quantize, the op that int8 kernels fuse. ONNX rounds x / scale and adds the zero point then;
    Quantize rounds the sum. Where x / scale lies half-way between two integers (or as near to that as f32 can tell) and
    there is an odd zero point, results differ by one.

    Args:
        model: a path, the bytes of a file, or an `onnx.ModelProto`.
        shapes: input name → its sizes, for inputs that the model leaves open. A size that stays open is known
            at execution only, which some ops can't do with.

    Raises:
        UnsupportedError: nodes that can't be translated, all of them in one message; or the
            package onnx is not installed; or a model that computes nothing.
        ArgumentError, ArgumentTypeError: the model can't be read or breaks ONNX's rules, or shapes that contradict it.
    """
    from .onnx_import import import_onnx

    return import_onnx(model, shapes)


def from_torch(
    module: Any, example_inputs: Sequence[Any] | None = None, example_named: Mapping[str, Any] | None = None
) -> Graph:
    """A graph from a torch module in inference mode, or from an `ExportedProgram`.

    The module goes through `torch.export.export(module.eval(), …)`, and all sizes are those of the example.
    Parameters and buffers are held where they lie, without a copy, as constants of the graph. What a compiled
    model has prepared of them does not follow when the module is trained on: import it anew then. The graph is not
    finalized, so that more can be built onto it.

    Args:
        module: a `torch.nn.Module`, or what `torch.export.export` returned.
        example_inputs: a tuple of tensors, as the module is called with; nothing for an ExportedProgram.
        example_named: keyword arguments likewise.

    Raises:
        UnsupportedError: nodes that can't be translated, all of them in one message; a module that
            torch can't export, or that computes nothing; or torch is not installed.
        ArgumentError, ArgumentTypeError: no module, or example inputs are missing.
    """
    from .torch_import import import_torch

    return import_torch(module, example_inputs, example_named)
