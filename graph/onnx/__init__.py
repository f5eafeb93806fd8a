"""ONNX's vocabulary in ops of oneDNN Graph, and the importer of its models.

    model = og.from_onnx("resnet.onnx").compile()
    y = model(x)["output"]

The package onnx is imported when it is needed; it is an extra.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..graph import Graph
from ..open_graph import OpenGraph
from ..runtime.collecting import at_rest

__all__ = ["from_onnx"]


def from_onnx(
    model: str | os.PathLike[str] | bytes | object,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fold_limit: int = 1 << 31,
    reference: bool = True,
    training: bool = False,
    frozen: Sequence[str] = (),
) -> Graph | OpenGraph:
    """A graph from an ONNX model.

    Data stay in ONNX's layout, NCX. What depends on constants alone is computed now; ops that draw random numbers never
    are. Weights in files of their own are read from the folder of the model's path only. The graph holds the weights as
    its constants, which backends prepare once. Inputs and outputs have the model's names and order. It is not
    finalized, so that more can be built onto it. Where oneDNN Graph has no op (look-ups, comparisons, integers), ops of
    our own run on the host; their names begin with `Host`. Models of an opset before 11 are converted by
    onnx.version_converter.

    A node that its translation does not take becomes what ONNX defines its op by, or is run by ONNX's reference, if
    that was seen to be right for the op: as the op `HostOnnx` where the sizes of its outputs are known.

    QuantizeLinear becomes Quantize, the op that int8 kernels fuse. ONNX rounds x / scale and adds the zero point then;
    Quantize rounds the sum. Where x / scale lies half-way between two integers (or as near to that as f32 can tell) and
    there is an odd zero point, results differ by one.

    Args:
        model: a path, the bytes of a file, or an `onnx.ModelProto`.
        shapes: input name → its sizes, for inputs that the model leaves open. Where sizes stay open that ops depend
            on (a reshape to a computed shape, say), it is an `OpenGraph`: ops are made for the sizes of each call, and
            `with_unknown_sizes` is one graph where they are the same for all.
        fold_limit: bytes that a constant which is computed now may take, and all together beside 16 times what the
            model holds.
        reference: False refuses nodes that would be run by ONNX's reference, or by themselves.
        training: whether it is a graph to be trained. Initializers of f32 that nodes read as weights are parameters of
            their names then, numbers such as the scale of attention are not. BatchNormalization goes by the batch, and
            moves the model's statistics at each step; Dropout draws by `seed`, one more input of s64 without axes,
            which `Trainer` gives. Exporters often leave both out: torch's fold a normalisation into the convolution
            before it. Where a vector that is one number throughout, as biases of zeros are in a new network, is read in
            several places, exporters have merged equal ones: each place gets a parameter of its own, named by its node.
        frozen: with `training`, patterns of names of initializers that stay constants, as `["layer1.*", "bn1.*"]`.
            A BatchNormalization whose statistics are frozen goes by these.

    Returns:
        A graph; an `OpenGraph` as above; a `StagedGraph`, which runs in stages, where sizes depend on values, or types
        are none that graphs have.

    Raises:
        UnsupportedError: nodes that can't be run, all of them in one message; or the package onnx is not installed.
        ArgumentError, ArgumentTypeError: the model can't be read or breaks ONNX's rules, or shapes that contradict it;
            nothing to train, or a pattern that fits no name.
    """
    with at_rest():  # the package onnx, too, is much that stays
        from .models import import_onnx

        return import_onnx(model, shapes, fold_limit, reference, training, frozen)
