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
    model: str | os.PathLike[str] | bytes | object,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fold_limit: int = 1 << 31,
) -> Graph:
    """A graph from an ONNX model of opset 11 or later.

    Data stay in ONNX's layout, NCX. What depends on constants alone is computed now; ops that draw random numbers never
    are. Attributes and versions of ops that their translations do not know are refused. Weights in files of their own
    are read from the folder of the model's path only. The graph holds the weights as its
    constants, which backends prepare once. Inputs and outputs have the model's names and order. It is not finalized,
    so that more can be built onto it. Where oneDNN Graph has no op (look-ups, comparisons, integers), ops of our own
    run on the host; their names begin with `Host`.

    QuantizeLinear becomes Quantize, the op that int8 kernels fuse. ONNX rounds x / scale and adds the zero point then;
    Quantize rounds the sum. Where x / scale lies half-way between two integers (or as near to that as f32 can tell) and
    there is an odd zero point, results differ by one.

    Args:
        model: a path, the bytes of a file, or an `onnx.ModelProto`.
        shapes: input name → its sizes, for inputs that the model leaves open. Where sizes stay open that ops depend
            on (a reshape to a computed shape, say), it is an `OpenGraph`: ops are made for the sizes of each call.
        fold_limit: bytes that a constant which is computed now may take.

    Raises:
        UnsupportedError: nodes that can't be translated, all of them in one message; or the
            package onnx is not installed; or a model that computes nothing.
        ArgumentError, ArgumentTypeError: the model can't be read or breaks ONNX's rules, or shapes that contradict it.
    """
    from .onnx_import import import_onnx

    return import_onnx(model, shapes, fold_limit)


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] | None = None,
    example_named: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    training: bool = False,
) -> Graph:
    """A graph from a torch module in inference mode or in training, or from an `ExportedProgram`.

    The module goes through `torch.export.export(module.eval(), …)`, and all sizes are those of the example but for
    those that `dynamic_shapes` leaves open. With any of these it is an `OpenGraph`: ops and shapes are made for the
    sizes of each call.
    Parameters and buffers are held where they lie, without a copy, as constants of the graph. What a compiled
    model has prepared of them does not follow when the module is trained on: import it anew then. The graph is not
    finalized, so that more can be built onto it.

    Args:
        module: a `torch.nn.Module`, or what `torch.export.export` returned.
        example_inputs: a tuple of tensors, as the module is called with; nothing for an ExportedProgram.
        example_named: keyword arguments likewise.
        dynamic_shapes: which sizes stay open, as `torch.export.export` takes it: for each argument, by name or in
            order, a mapping from axes to `torch.export.Dim`, `Dim.AUTO` or `Dim.DYNAMIC`.
        training: whether it is a graph to be trained. Parameters that need gradients are copied, and are parameters of
            the graph under their names in `state_dict`, one for all that share their memory; other tensors stay
            constants. BatchNorm normalises by the statistics of the batch, and each step moves its running ones.
            Dropout draws by `seed`, one more input of s64 without axes. The module counts as in training; parts of it
            in inference mode stay so, unless the module itself is.

    Raises:
        UnsupportedError: nodes that can't be translated, all of them in one message; a module that
            torch can't export, or that computes nothing; or torch is not installed.
        ArgumentError, ArgumentTypeError: no module, or example inputs are missing.
    """
    from .torch_import import import_torch

    return import_torch(module, example_inputs, example_named, dynamic_shapes, training=training)
