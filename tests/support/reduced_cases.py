"""The graphs of the reference corpus that are too large for a test, with smaller shapes."""

import math

from attrs import evolve
from onednn_graph.graph.io.serialization import load
from onednn_graph.ops.errors import OneDNNGraphError
from onednn_graph.tools.benchdnn.cases import ShapeSetting
from onednn_graph.tools.benchdnn.options import parse
from onednn_graph.tools.benchdnn.rewriting import rewrite

LARGEST = 2_000_000
"""Elements of a graph up to which the tests run it."""
AXES = (256, 128, 64, 32, 16)
"""What the axes of a smaller graph have at most, one bound after another."""
GROUPED = ["--in-shapes=0:1x128x14x14+1:128x64x3x3+2:128", "--op-attrs=4:groups:2"]
BY_HAND = {
    "GQA-f32": [
        "--in-shapes=0:2x16x64x64+2:2x2x64x64+11:2x1x1x64+18:2x2x64x64",
        "--op-attrs=5:shape:2x2x8x64x64+6:shape:2x2x1x64x64+13:shape:2x1x1x1x64+21:shape:2x2x1x64x64+24:shape:2x16x64x64",
    ],
    "f8_conv_bias_relu_fusion": GROUPED,
    "int8_conv_bias_relu_fusion_2": GROUPED,
    "int8_conv_bias_relu_fusion_3": GROUPED,
}
"""Stem of a file whose attributes depend on its shapes → the options that make it smaller."""


def elements(case):
    """How many elements all tensors of a case have."""
    return sum({i: math.prod(shape) for i, shape in _shapes(case, made=True).items()}.values())


def _shapes(case, *, made):
    """The tensors' shapes; those that ops make only where `made`."""
    ops = rewrite(load(case.file), case).ops
    results = {t.id for op in ops for t in op.outputs}
    tensors = [t for op in ops for t in (*op.inputs, *op.outputs)]
    return {t.id: tuple(t.shape) for t in tensors if made or t.id not in results}


def _fewer_images(shapes):
    """Two images, heads or sequences: as few along the first axis as the data have it, weights as they are."""
    images = max((shape for shape in shapes.values() if len(shape) > 2), key=math.prod, default=(0,))[0]
    return {i: (2, *s[1:]) if len(s) > 2 and s[0] == images > 2 else s for i, s in shapes.items()}


def _fewer_places(shapes, most):
    """The first two axes, which may be images, channels and heads, as they are."""
    return {i: (*s[:2], *(min(d, most) for d in s[2:])) for i, s in shapes.items()}


def _shorter(shapes, most):
    return {i: tuple(min(d, most) for d in s) for i, s in shapes.items()}


def _ways(shapes):
    """Smaller shapes, from those that say most of the graph to those that say least."""
    few = _fewer_images(shapes)
    yield few
    yield from (_fewer_places(one, most) for most in AXES for one in (shapes, few))
    yield from (_shorter(one, most) for most in AXES for one in (shapes, few))


def has_strides(case):
    """Whether it says how tensors lie, which smaller shapes would not fit."""
    return any(setting.strides is not None for setting in case.in_shapes.values())


def reduced(case):
    """The case with smaller shapes of its inputs, of no more elements than `LARGEST`; itself if it has no more.

    Raises:
        AssertionError: no way to make it smaller fits its ops.
    """
    if elements(case) <= LARGEST:
        return case
    if case.file.stem in BY_HAND:
        (by_hand,) = parse([*BY_HAND[case.file.stem], str(case.file)]).cases
        return evolve(case, in_shapes=by_hand.in_shapes, op_attrs={**case.op_attrs, **by_hand.op_attrs})
    shapes = _shapes(case, made=False)
    for way in _ways(shapes):
        other = {i: ShapeSetting(shape) for i, shape in way.items() if shape != shapes[i]}
        try:
            smaller = evolve(case, in_shapes={**case.in_shapes, **other})
            if elements(smaller) <= LARGEST:
                return smaller
        except OneDNNGraphError:
            continue
    raise AssertionError(f"{case} has no smaller shapes, and needs a row in BY_HAND")
