"""What the quarantine's rules are asked of: a weight gradient of some window on an implementation of some name."""

from attrs import frozen
from onednn_graph.backends.onednn.library.descriptors import ConvolutionBackwardWeights
from onednn_graph.backends.onednn.library.enumerators import Algorithm
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import PrimitiveAttributes
from onednn_graph.backends.onednn.rules.features import Features
from onednn_graph.ops.data_types import DataType


@frozen(eq=False)
class Offered:
    """As much of a primitive as the rules for weight gradients look at."""

    implementation: str


def features_of(implementation, p):
    """Features of a `ConvolutionGeometry`, or of what has the same attributes."""
    shapes = {
        "src": (p.batch, p.groups * p.columns, *p.src_spatial),
        "diff_weights": (*([] if p.groups == 1 else [p.groups]), p.rows, p.columns, *p.kernel),
        "diff_dst": (p.batch, p.groups * p.rows, *p.dst_spatial),
    }
    descriptor = ConvolutionBackwardWeights(
        algorithm=Algorithm.convolution_direct,
        **{name: MemoryDesc.any(load(), shape, DataType.f32) for name, shape in shapes.items()},
        diff_bias=None,
        strides=p.strides,
        dilates=tuple(d - 1 for d in p.dilations),
        pads_begin=p.pads_begin,
        pads_end=p.pads_end,
        hint=None,
        attributes=PrimitiveAttributes(load()),
    )
    return Features(descriptor, Offered(implementation))
