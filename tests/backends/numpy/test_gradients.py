"""Every gradient op against finite differences of its forward op, both on the NumPy backend, in f64.

The derivative of L = ⟨forward(inputs), upstream⟩ by each element is (L(x + h) − L(x − h)) / 2h; with h = 1e-5 it is
good to about h² and ε·L/h, 1e-10. Arrays stay away from where a function has a kink, by much more than h.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.numpy.kernels import KERNELS
from onednn_graph.graph.model.builder import snake_case
from rows import each

STEP = 1e-5
TOLERANCE = 2e-8
"""Of a number of the size of the gradient's largest; a wrong term is larger by orders of magnitude."""


def run(kind, *arrays, **attributes):
    results = getattr(og, snake_case(kind))(*arrays, backend="numpy", **attributes)
    return results if isinstance(results, tuple) else (results,)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def away(values, *kinks, distance=0.05):
    """The values, with those near a kink moved to twice the distance beyond it."""
    for kink in kinks:
        near = np.abs(values - kink) < distance
        values = np.where(near, kink + 2 * distance, values)
    return values


def apart(*shape, seed=0):
    """Values of which no two are near each other, so that the largest of a window is clear."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(count).reshape(shape) / 10.0


@dataclass(frozen=True)
class Row:
    """A gradient op with its forward op.

    Attributes:
        inputs: of the forward op.
        of: from (inputs, outputs, upstream) to the gradient op's inputs.
        by: the forward inputs that the gradient op's outputs are the derivatives by.
        both, forward_only, backward_only: attributes.
    """

    backward: str
    forward: str
    inputs: tuple
    of: Callable
    by: tuple[int, ...] = (0,)
    both: dict = field(default_factory=dict)
    forward_only: dict = field(default_factory=dict)
    backward_only: dict = field(default_factory=dict)


def of_src(inputs, outputs, upstream):
    return inputs[0], upstream


def of_dst(inputs, outputs, upstream):
    return outputs[0], upstream


def upstream_and_dst(inputs, outputs, upstream):
    return upstream, outputs[0]


X = 2 * normal(3, 4)
PLUS = np.abs(X) + 0.1
NCX = {"data_format": "NCX"}


def eltwise(kind, values, *, dst=False, **attributes):
    """`dst`: whether the op has use_dst; then it is a row each."""
    of_input = {"use_dst": False} if dst else {}
    yield Row(f"{kind}Backward", kind, (values,), of_src, both=attributes, backward_only=of_input)
    if dst:
        yield Row(f"{kind}Backward", kind, (values,), of_dst, both=attributes)


def pooling(kind, shape, size, **more):
    for fmt in ("NCX", "NXC"):
        x = apart(*shape, seed=3)
        x = np.moveaxis(x, 1, -1) if fmt == "NXC" else x
        both = {"data_format": fmt, **more}
        rounding = {"rounding_type": both.pop("rounding_type", "floor")}
        if kind == "MaxPool":
            yield Row("MaxPoolBackward", kind, (x,), of_src, both=both, forward_only=rounding)
        else:
            yield Row(
                "AvgPoolBackward",
                kind,
                (x,),
                lambda inputs, outputs, upstream: (upstream,),
                both=both,
                forward_only=rounding,
                backward_only={"src_shape": list(x.shape)},
            )
    assert len(size) == len(shape) - 2


def convolutions():
    geometry = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 2], "dilations": [1, 2], "groups": 2}
    for data, weights in (("NCX", "OIX"), ("NXC", "XIO")):
        both = {**geometry, "data_format": data, "weights_format": weights}
        x, w = normal(2, 4, 6, 5), normal(4, 2, 3, 2)
        x = np.moveaxis(x, 1, -1) if data == "NXC" else x
        w = w.transpose(2, 3, 1, 0) if weights == "XIO" else w
        yield Row(
            "ConvolutionBackwardData",
            "Convolution",
            (x, w),
            lambda inputs, outputs, upstream: (upstream, inputs[1]),
            both=both,
            backward_only={"dst_shape": list(x.shape)},
        )
        yield Row(
            "ConvolutionBackwardWeights",
            "Convolution",
            (x, w),
            of_src,
            by=(1,),
            both=both,
            backward_only={"weights_shape": list(w.shape)},
        )
    for data, weights, extra in (("NCX", "IOX", [1, 0]), ("NXC", "XOI", [0, 0])):
        both = {**geometry, "data_format": data, "weights_format": weights}
        x, w = normal(2, 4, 3, 4), normal(2, 6, 3, 2)  # I / groups and O, as the documents have it
        x = np.moveaxis(x, 1, -1) if data == "NXC" else x
        w = w.transpose(2, 3, 1, 0) if weights == "XOI" else w
        yield Row(
            "ConvTransposeBackwardData",
            "ConvTranspose",
            (x, w),
            lambda inputs, outputs, upstream: (upstream, inputs[1]),
            both=both,
            forward_only={"output_padding": extra},
        )
        yield Row(
            "ConvTransposeBackwardWeights",
            "ConvTranspose",
            (x, w),
            of_src,
            by=(1,),
            both=both,
            forward_only={"output_padding": extra},
            backward_only={"weights_shape": list(w.shape), "output_padding": extra},
        )
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        both = {
            "strides": [2],
            "pads_begin": [0],
            "pads_end": [0],
            "dilations": [1],
            "auto_pad": mode,
            **NCX,
        }
        x, w = normal(1, 2, 6), normal(3, 2, 5)
        yield Row(
            "ConvolutionBackwardData",
            "Convolution",
            (x, w),
            lambda inputs, outputs, upstream: (upstream, inputs[1]),
            both={**both, "weights_format": "OIX"},
            backward_only={"dst_shape": list(x.shape)},
        )
        yield Row(
            "ConvTransposeBackwardData",
            "ConvTranspose",
            (x, w.swapaxes(0, 1)),
            lambda inputs, outputs, upstream: (upstream, inputs[1]),
            both={**both, "weights_format": "IOX"},
        )


def batch_norms():
    for fmt, shape in (("NCX", (3, 2, 2, 2)), ("NXC", (3, 4, 2))):
        x = 1 + 2 * normal(*shape)
        channel = 1 if fmt == "NCX" else -1
        size = shape[channel]
        gamma, beta, running = 0.5 + np.abs(normal(size)), normal(size), np.ones(size)

        def of(inputs, outputs, upstream):  # the batch's own statistics
            return (inputs[0], upstream, outputs[3], outputs[4], *inputs[3:4])

        both = {"epsilon": 0.1, "data_format": fmt}
        yield Row(
            "BatchNormTrainingBackward",
            "BatchNormForwardTraining",
            (x, running, running, gamma, beta),
            of,
            by=(0, 3, 4),
            both=both,
        )
        yield Row(
            "BatchNormTrainingBackward",
            "BatchNormForwardTraining",
            (x, running, running),
            of,
            both=both,
            backward_only={"outputs": 1},
        )


def layer_norms():
    for first in (-1, 1, 0):
        x = 1 + 2 * normal(3, 2, 4)
        shape = x.shape[first % 3 :]
        gamma, beta = 0.5 + np.abs(normal(*shape)), normal(*shape)

        def of(inputs, outputs, upstream):
            return (inputs[0], upstream, outputs[1], outputs[2], *inputs[1:])

        both = {"epsilon": 0.1, "begin_norm_axis": first}
        yield Row(
            "LayerNormBackward",
            "LayerNorm",
            (x, gamma, beta),
            of,
            by=(0, 1, 2),
            both=both,
            backward_only={"outputs": 3},
        )
        yield Row("LayerNormBackward", "LayerNorm", (x,), of, both=both, backward_only={"outputs": 1})


def group_norms():
    for fmt, shape, groups in (("NCX", (3, 4, 5), 2), ("NXC", (2, 3, 2, 6), 3)):
        x = 1 + 2 * normal(*shape)
        channels = shape[1 if fmt == "NCX" else -1]
        gamma, beta = 0.5 + np.abs(normal(channels)), normal(channels)

        def of(inputs, outputs, upstream):
            return (inputs[0], upstream, outputs[1], outputs[2], *inputs[1:2])

        both = {"epsilon": 0.1, "groups": groups, "data_format": fmt}
        yield Row(
            "GroupNormBackward",
            "GroupNorm",
            (x, gamma, beta),
            of,
            by=(0, 1, 2),
            both=both,
            backward_only={"outputs": 3},
        )
        yield Row("GroupNormBackward", "GroupNorm", (x,), of, both=both, backward_only={"outputs": 1})


def prelus():
    for fmt, shape in (
        ("NCX", (3,)),
        ("NXC", (2,)),
        ("NCX", (1,)),
        ("NXC", (3, 1, 2)),
        ("NCX", (1, 3, 2, 2)),
    ):
        x = away(normal(2, 3, 2, 2), 0)
        yield Row(
            "PReLUBackward",
            "PReLU",
            (x, normal(*shape)),
            lambda inputs, outputs, upstream: (*inputs, upstream),
            by=(0, 1),
            both={"data_format": fmt},
        )


def interpolations():
    for mode in ("nearest", "linear"):
        for transform in ("half_pixel", "align_corners"):
            for fmt, shape in (("NCX", (1, 2, 3, 4)), ("NXC", (1, 3, 4, 2))):
                for sizes in ([5, 3], [2, 7]):
                    yield Row(
                        "InterpolateBackward",
                        "Interpolate",
                        (normal(*shape),),
                        of_src,
                        both={
                            "mode": mode,
                            "coordinate_transformation_mode": transform,
                            "sizes": sizes,
                            "data_format": fmt,
                        },
                    )


ROWS = [
    *eltwise("Abs", away(X, 0)),
    *eltwise("Clamp", away(X, -0.7, 1.3), dst=True, min=-0.7, max=1.3),
    *eltwise("Elu", away(X, 0), dst=True, alpha=0.6),
    *eltwise("GELU", X),
    *eltwise("GELU", X, mode="gelu_tanh"),
    *eltwise("HardSigmoid", away(X, -2.5, 2.5), alpha=0.2, beta=0.5),
    *eltwise("HardSwish", away(2 * X, -3, 3)),
    *eltwise("Mish", X),
    *eltwise("ReLU", away(X, 0), dst=True),
    *eltwise("Sigmoid", X, dst=True),
    *eltwise("SoftPlus", X, beta=1.7),
    *eltwise("SoftPlus", X, beta=-0.6),
    *eltwise("Sqrt", PLUS, dst=True),
    *eltwise("Tanh", X, dst=True),
    *[
        Row("SoftMaxBackward", "SoftMax", (normal(2, 3, 4),), upstream_and_dst, both={"axis": axis})
        for axis in (0, 1, -1)
    ],
    *[
        Row("LogSoftmaxBackward", "LogSoftmax", (normal(2, 3, 4),), upstream_and_dst, both={"axis": axis})
        for axis in (0, 1, -1)
    ],
    *[
        Row(
            "BiasAddBackward",
            "BiasAdd",
            (x, normal(3)),
            lambda inputs, outputs, upstream: (upstream,),
            by=(1,),
            both={"data_format": fmt},
        )
        for fmt, x in (("NCX", normal(2, 3, 2, 2)), ("NXC", normal(2, 2, 2, 3)))
    ],
    *[
        row
        for kind, more in (
            ("MaxPool", {"dilations": [2, 1]}),
            ("AvgPool", {"exclude_pad": False}),
            ("AvgPool", {"exclude_pad": True}),
        )
        for rounding in ("floor", "ceil")
        for row in pooling(
            kind,
            (1, 2, 6, 5),
            (6, 5),
            kernel=[2, 3],
            strides=[2, 2],
            pads_begin=[1, 0],
            pads_end=[0, 1],
            rounding_type=rounding,
            **more,
        )
    ],
    *[
        row  # one window, that fits by ceil alone
        for kind, more in (("MaxPool", {"dilations": [1, 1]}), ("AvgPool", {"exclude_pad": True}))
        for row in pooling(
            kind,
            (1, 2, 1, 5),
            (1, 5),
            kernel=[2, 2],
            strides=[3, 2],
            pads_begin=[0, 0],
            pads_end=[0, 0],
            rounding_type="ceil",
            **more,
        )
    ],
    *pooling(
        "MaxPool",
        (1, 2, 7),
        (7,),
        kernel=[3],
        strides=[2],
        pads_begin=[0],
        pads_end=[0],
        auto_pad="SAME_LOWER",
    ),
    *convolutions(),
    *batch_norms(),
    *layer_norms(),
    *group_norms(),
    *prelus(),
    *interpolations(),
]


def test_every_gradient_op_is_here():
    kinds = {
        schema.kind for schema in og.list_ops() if schema.family != "custom" and "Backward" in schema.kind
    }
    # The gradient of x · sigmoid(x), which is no op of the set, is held against torch in test_torch_eltwise.py.
    assert {row.backward for row in ROWS} == kinds - {"SwishBackward"}
    for kind in kinds:
        both = {row.backward_only.get("use_dst", True) for row in ROWS if row.backward == kind}
        if any(spec.name == "use_dst" for spec in og.op_schema(kind).attributes):
            assert both == {True, False}, kind


def derivative(row, index, upstream):
    """Of L by each element of a forward input."""
    attributes = {**row.both, **row.forward_only}
    result = np.zeros(row.inputs[index].shape)
    for at in np.ndindex(*result.shape):
        values = []
        for sign in (1, -1):
            moved = [x.copy() for x in row.inputs]
            moved[index][at] += sign * STEP
            values.append(np.vdot(run(row.forward, *moved, **attributes)[0], upstream))
        result[at] = (values[0] - values[1]) / (2 * STEP)
    return result


def compare(row, engine=None):
    outputs = run(row.forward, *row.inputs, **row.both, **row.forward_only)
    upstream = normal(*outputs[0].shape, seed=99)
    given = row.of(row.inputs, outputs, upstream)
    gradients = run(row.backward, *given, **row.both, **row.backward_only, engine=engine)
    assert len(gradients) == len(row.by)
    for gradient, index in zip(gradients, row.by, strict=True):
        expected = derivative(row, index, upstream)
        assert gradient.dtype == np.float64
        assert gradient.shape == expected.shape
        assert np.abs(expected).max() > 0.05
        np.testing.assert_allclose(
            gradient, expected, rtol=0, atol=TOLERANCE * max(1, np.abs(expected).max())
        )


@pytest.mark.no_cover
@each("row", [pytest.param(row, id=f"{i} {row.backward}") for i, row in enumerate(ROWS)])
def test_the_gradient_is_the_derivative_of_the_forward_op(row):
    compare(row)


@pytest.mark.parametrize("kind", sorted({row.backward for row in ROWS}))
def test_a_gradient_that_is_off_by_a_little_is_seen(kind, monkeypatch):
    """A thousandth in one element."""
    right = KERNELS[kind]

    def wrong(op, inputs, outputs):
        right(op, inputs, outputs)
        last = outputs[-1]
        at = np.unravel_index(np.abs(last).argmax(), last.shape)
        last[at] *= 1.001

    row = next(row for row in ROWS if row.backward == kind)
    monkeypatch.setitem(KERNELS, kind, wrong)
    with og.Engine() as engine, pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(row, engine)  # which has no op compiled yet
