"""A call of every kind that has a rule for its gradient, for checks over all of them. Arrays stay away from kinks."""

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import field, frozen
from lone import LONE


@frozen
class Call:
    """An op with its inputs.

    Attributes:
        inputs: arrays, f64 where they are differentiated by.
        attributes: of the op.
        by: positions of the inputs to differentiate by; all of floating-point numbers if None.
        outputs: how many outputs the op makes; as its attributes say if None.
    """

    inputs: Sequence[np.ndarray]
    attributes: Mapping[str, object] = field(factory=dict)
    by: tuple[int, ...] | None = None
    outputs: int | None = None

    @property
    def places(self) -> tuple[int, ...]:
        if self.by is not None:
            return self.by
        return tuple(n for n, array in enumerate(self.inputs) if array.dtype == np.float64)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def away(values, *kinks, distance=0.05):
    """The values, with those near a kink moved to twice the distance beyond it."""
    for kink in kinks:
        values = np.where(np.abs(values - kink) < distance, kink + 2 * distance, values)
    return values


def apart(*shape, seed=0):
    """Values of which no two are near each other."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(count).reshape(shape) / 10.0 - count / 20


X, Y = away(2 * normal(3, 4), 0), away(2 * normal(3, 4, seed=1), 0)
PLUS = np.abs(X) + 0.2
COND = X > 0.3
IMAGE, NCX = normal(2, 4, 5, 6), {"data_format": "NCX"}
CONV = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 2], "dilations": [1, 2], "groups": 2}
POOL = {"kernel": [2, 3], "strides": [2, 2], "pads_begin": [0, 1], "pads_end": [1, 1], **NCX}
SAME = {"kernel": [3], "strides": [2], "pads_begin": [0], "pads_end": [0], "auto_pad": "SAME_UPPER", **NCX}
INDICES = np.array([[2, 0, -1], [2, 2, 1]])
LOGS, LABELS = normal(3, 5, 4), np.array([[2, 2, 0], [3, 0, 1], [0, 1, 1]])
TIMES, LENGTHS = np.array([5, 4, 3]), np.array([3, 2, 0])


def one(x=X, **attributes):
    return [Call((x,), attributes)]


def slope(x=X, *, dst=None, **attributes):
    """A gradient op: by its input and by the gradient; with use_dst by an output as well."""
    calls = [Call((x, Y), {**attributes, **({} if dst is None else {"use_dst": False})})]
    return calls if dst is None else [*calls, Call((dst, Y), {**attributes, "use_dst": True})]


def pairs(*, positive=False):
    """Shapes that broadcast, also with axes that one of two does not have."""
    make = (lambda *s: np.abs(normal(*s)) + 0.5) if positive else normal
    shapes = (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3)), ((1, 3), (2, 1)))
    return [Call((make(*a), make(*b) + 0.1)) for a, b in shapes]


def reductions(x=None):
    x = apart(2, 3, 4) + 0.05 if x is None else x
    return [
        Call((x,), {"axes": [1], "keep_dims": True}),
        Call((x,), {"axes": [-1, 0]}),
        Call((x,), {"axes": [0, 1, 2]}),
        Call((x,), {"axes": []}),
    ]


def matmuls():
    forms = [
        ((2, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((2, 5, 3), (3, 4)),
        ((3,), (2, 3, 4)),
    ]
    forms += [((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((2, 5, 2, 3), (3,)), ((2, 3), (5, 3, 4))]
    calls = [Call((normal(*a), normal(*b))) for a, b in forms]
    for a, b in forms:
        for ta, tb in ((True, False), (False, True), (True, True)):
            first = np.ascontiguousarray(normal(*a).swapaxes(-1, -2)) if ta and len(a) > 1 else normal(*a)
            second = np.ascontiguousarray(normal(*b).swapaxes(-1, -2)) if tb and len(b) > 1 else normal(*b)
            calls.append(Call((first, second), {"transpose_a": ta, "transpose_b": tb}))
    calls += [
        Call((normal(2, 5, 3), normal(3, 4), normal(*bias))) for bias in ((4,), (5, 1), (2, 1, 4), (1,))
    ]
    return calls


def convolutions(kind):
    calls = []
    for data, weights in (("NCX", "OIX"), ("NXC", "XIO")):
        x, w = normal(2, 4, 6, 5), normal(4, 2, 3, 2)
        y = normal(2, 4, 3, 5)
        formats = {**CONV, "data_format": data, "weights_format": weights}
        if data == "NXC":
            x, y = np.moveaxis(x, 1, -1).copy(), np.moveaxis(y, 1, -1).copy()
            w = w.transpose(2, 3, 1, 0).copy()
        bias = normal(4)
        calls.append(
            {
                "Convolution": Call((x, w, bias), formats),
                "ConvolutionBackwardData": Call((y, w), {**formats, "dst_shape": list(x.shape)}),
                "ConvolutionBackwardWeights": Call((x, y), {**formats, "weights_shape": list(w.shape)}),
            }[kind]
        )
    if kind == "Convolution":
        same = {
            "strides": [2],
            "pads_begin": [0],
            "pads_end": [0],
            "dilations": [1],
            "auto_pad": "SAME_LOWER",
        }
        calls.append(Call((normal(1, 2, 7), normal(3, 2, 4)), {**same, **NCX, "weights_format": "OIX"}))
    return calls


def transposed(kind):
    calls = []
    for data, weights, extra in (("NCX", "IOX", [1, 0]), ("NXC", "XOI", [0, 0])):
        x, w = normal(2, 4, 3, 4), normal(2, 6, 3, 2)  # I / groups and O, as the documents have it
        y = normal(2, 6, 6 + extra[0], 4)
        formats = {**CONV, "data_format": data, "weights_format": weights}
        if data == "NXC":
            x, y = np.moveaxis(x, 1, -1).copy(), np.moveaxis(y, 1, -1).copy()
            w = w.transpose(2, 3, 1, 0).copy()
        calls.append(
            {
                "ConvTranspose": Call((x, w, normal(6)), {**formats, "output_padding": extra}),
                "ConvTransposeBackwardData": Call((y, w), formats),
                "ConvTransposeBackwardWeights": Call((x, y), {**formats, "weights_shape": list(w.shape)}),
            }[kind]
        )
    if kind == "ConvTranspose":
        same = {
            "strides": [2],
            "pads_begin": [0],
            "pads_end": [0],
            "dilations": [1],
            "auto_pad": "SAME_UPPER",
        }
        calls.append(Call((normal(1, 2, 4), normal(2, 3, 5)), {**same, **NCX, "weights_format": "IOX"}))
    return calls


def of_rows(*shape):
    """A mean and a variance for each row."""
    return normal(*shape) / 5, np.abs(normal(*shape, seed=3)) + 0.5


CHANNELS = [0.5 + np.abs(normal(4, seed=s)) for s in range(4)]
ROWS = np.array([[1, 0], [0, 2], [1, 0]])
GRADIENT_CALLS: dict[str, list[Call]] = {
    # eltwise
    "Abs": one(),
    "Clamp": one(away(X, -1, 1), min=-1.0, max=1.0),
    "Elu": [*one(alpha=0.7), *one(alpha=-0.7)],
    "Exp": one(),
    "GELU": [*one(mode="gelu_erf"), *one(mode="gelu_tanh")],
    "HardSigmoid": one(away(X, -2.5, 2.5), alpha=0.2, beta=0.5),
    "HardSwish": one(away(X, -3, 3)),
    "LeakyReLU": [*one(alpha=0.1), *one(alpha=0.0)],
    "Log": one(PLUS),
    "Mish": one(),
    "Pow": [*one(PLUS, beta=2.5), *one(beta=2.0), *one(beta=3.0), *one(beta=1.0), *one(PLUS, beta=-1.0)],
    "ReLU": one(),
    "Reciprocal": one(),
    "Sigmoid": one(),
    "SoftPlus": one(beta=1.5),
    "Sqrt": one(PLUS),
    "Square": one(),
    "Tanh": one(),
    "AbsBackward": slope(),
    "ClampBackward": slope(away(X, -1, 1), dst=away(X, -1, 1), min=-1.0, max=1.0),
    "EluBackward": [
        *slope(dst=away(np.maximum(X, -0.6), 0), alpha=0.7),
        *slope(dst=None, alpha=-0.7, use_dst=False),
    ],
    "GELUBackward": [*slope(mode="gelu_erf"), *slope(mode="gelu_tanh")],
    "HardSigmoidBackward": slope(away(X, -2.5, 2.5), alpha=0.2, beta=0.5),
    "HardSwishBackward": slope(away(X, -3, 3)),
    "ReLUBackward": slope(dst=PLUS),
    "SigmoidBackward": slope(dst=1 / (1 + np.exp(-X))),
    "SoftPlusBackward": slope(beta=1.5),
    "SqrtBackward": slope(PLUS, dst=PLUS),
    "TanhBackward": slope(dst=np.tanh(X)),
    "MishBackward": slope(),
    "SwishBackward": slope(),
    # binary
    "Add": pairs(),
    "Subtract": pairs(),
    "Multiply": pairs(),
    "Divide": pairs(positive=True),
    "Maximum": pairs(),
    "Minimum": pairs(),
    "SquaredDifference": pairs(),
    "Select": [Call((COND, X, Y)), Call((COND, normal(4), normal(2, 1, 1)))],
    "BiasAdd": [Call((IMAGE, normal(4)), NCX), Call((normal(2, 3, 4), normal(4)), {})],
    "BiasAddBackward": [*one(IMAGE, **NCX), *one(normal(2, 3, 4))],
    # products
    "MatMul": matmuls(),
    **{k: convolutions(k) for k in ("Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights")},
    **{
        k: transposed(k)
        for k in ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
    },
    # reductions
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"), reductions()
    ),
    "ReduceProd": [
        *reductions(normal(2, 3, 2)),
        Call((np.where(normal(3, 4) > 0.9, 0, normal(3, 4)),), {"axes": [1]}),
    ],
    # pooling
    "MaxPool": [*one(apart(2, 3, 5, 6), **POOL), *one(apart(2, 3, 7, 6), rounding_type="ceil", **POOL)],
    "MaxPoolBackward": [
        Call((apart(2, 3, 5, 6), normal(2, 3, 3, 3)), POOL),
        Call((apart(2, 3, 7, 6), normal(2, 3, 4, 3)), POOL),  # of ceil rounding
        Call((apart(1, 7, 2), normal(1, 4, 2)), {**SAME, "data_format": "NXC", "dilations": [2]}),
    ],
    "AvgPool": [
        *one(IMAGE, exclude_pad=True, **POOL),
        *one(IMAGE, exclude_pad=False, rounding_type="ceil", **POOL),
        *one(normal(1, 2, 6), exclude_pad=True, **SAME),
    ],
    "AvgPoolBackward": [
        Call((normal(2, 4, 3, 3),), {"src_shape": [2, 4, 5, 6], "exclude_pad": True, **POOL}),
        Call((normal(2, 4, 3, 4),), {"src_shape": [2, 4, 5, 7], "exclude_pad": True, **POOL}),
    ],
    # interpolation
    "Interpolate": [
        *one(IMAGE, mode="bilinear", sizes=[7, 3], **NCX),
        *one(IMAGE, mode="nearest", scales=[2.0, 1.5], **NCX),
        *one(normal(1, 4, 5, 2), mode="linear", sizes=[3, 9], coordinate_transformation_mode="align_corners"),
    ],
    "InterpolateBackward": [Call((IMAGE, normal(2, 4, 7, 3)), {"mode": "bilinear", "sizes": [7, 3], **NCX})],
    # normalisation
    "BatchNormInference": [
        Call((IMAGE, *CHANNELS), {"epsilon": 0.1, **NCX}),
        Call((normal(2, 3, 4), *CHANNELS), {"epsilon": 0.1}),
    ],
    "BatchNormForwardTraining": [
        Call((IMAGE, *CHANNELS), {"epsilon": 0.1, "momentum": 0.9, **NCX}, by=(0, 3, 4)),
        Call((normal(2, 3, 4), *CHANNELS[:2]), {"epsilon": 0.1}, by=(0,)),
        Call((IMAGE, *CHANNELS), {"epsilon": 0.1, **NCX}, by=(3,)),
    ],
    "LayerNorm": [
        Call((normal(3, 4, 5), normal(5), normal(5, seed=2)), {"keep_stats": False}),
        Call(
            (normal(3, 4, 5), normal(4, 5), normal(4, 5, seed=2)), {"keep_stats": True, "begin_norm_axis": 1}
        ),
        Call((normal(3, 5),), {"keep_stats": False, "use_affine": False, "epsilon": 0.1}),
        Call((normal(3, 5), normal(5), normal(5)), {"keep_stats": False}, by=(1,)),
    ],
    "GroupNorm": [
        Call((IMAGE, *CHANNELS[:2]), {"groups": 2, "keep_stats": False, "epsilon": 0.1, **NCX}),
        Call((normal(2, 3, 4), *CHANNELS[:2]), {"groups": 2, "keep_stats": True, "epsilon": 0.1}),
        Call((IMAGE,), {"groups": 4, "keep_stats": False, "use_affine": False, **NCX}),
    ],
    "BatchNormTrainingBackward": [
        Call((IMAGE, normal(2, 4, 5, 6, seed=1), *CHANNELS[:3]), {"epsilon": 0.1, **NCX}),
        Call((normal(2, 3, 4), normal(2, 3, 4, seed=1), *CHANNELS[:2]), {"epsilon": 0.1}),
    ],
    "LayerNormBackward": [
        Call((normal(3, 4, 5), normal(3, 4, 5, seed=1), *of_rows(3, 4), normal(5), normal(5, seed=2))),
        Call(
            (normal(3, 4, 5), normal(3, 4, 5, seed=1), *of_rows(3), normal(4, 5), normal(4, 5)),
            {"begin_norm_axis": 1, "epsilon": 0.1},
        ),
        Call(
            (normal(3, 4, 5), normal(3, 4, 5, seed=1), *of_rows(3), normal(20), normal(20)),
            {"begin_norm_axis": 1},
        ),
        Call((normal(3, 5), normal(3, 5, seed=1), *of_rows(3, 1)), {"use_affine": False}),
    ],
    "GroupNormBackward": [
        Call(
            (IMAGE, normal(2, 4, 5, 6, seed=1), *of_rows(2, 2), CHANNELS[0]),
            {"groups": 2, "epsilon": 0.1, **NCX},
        ),
        Call((normal(2, 3, 4), normal(2, 3, 4, seed=1), *of_rows(2, 2), CHANNELS[0]), {"groups": 2}),
        Call((IMAGE, normal(2, 4, 5, 6, seed=1), *of_rows(2, 4)), {"groups": 4, "use_affine": False, **NCX}),
    ],
    "RMSNorm": [
        Call((normal(3, 4, 5), normal(5))),
        Call((normal(3, 4, 5), normal(4, 5)), {"begin_norm_axis": 1, "epsilon": 0.1}),
        Call((normal(3, 4, 5), normal(20)), {"begin_norm_axis": 1}),
        Call((normal(3, 5),)),
    ],
    # softmax
    "SoftMax": [*one(axis=1), *one(axis=0, mode="inf_as_zero")],
    "LogSoftmax": [*one(axis=-1), *one(axis=0)],
    "SoftMaxBackward": [Call((X, np.abs(Y)), {"axis": 1})],
    "LogSoftmaxBackward": [Call((X, Y), {"axis": 0})],
    # the rest of the op set
    "PReLU": [
        Call((away(IMAGE, 0), normal(4)), NCX),
        Call((away(normal(2, 3, 4), 0), normal(1)), NCX),
        Call((away(normal(2, 4, 4), 0), normal(4)), {**NCX, "per_channel_broadcast": False}),
        Call((away(normal(2, 3, 4), 0), normal(3, 1)), NCX),
    ],
    "PReLUBackward": [
        Call((away(IMAGE, 0), normal(4), normal(2, 4, 5, 6, seed=1)), NCX),
        Call((away(normal(2, 3, 4), 0), normal(1), normal(2, 3, 4, seed=1)), NCX),
        Call((away(normal(2, 3, 4), 0), normal(3, 1), normal(2, 3, 4, seed=1)), NCX),
        Call((away(normal(2, 3, 4), 0), normal(4), normal(2, 3, 4, seed=1))),
    ],
    "Dropout": [Call((X, np.array(3), np.array(5), np.array(0.4, np.float32)))],
    "Concat": [Call((normal(2, 3), normal(2, 1), normal(2, 4)), {"axis": -1})],
    "StaticReshape": one(normal(2, 6), shape=[3, -1], special_zero=False),
    "StaticTranspose": one(normal(2, 3, 4), order=[1, 2, 0]),
    "Reorder": one(),
    "TypeCast": one(),
    # on the host
    "HostReshape": one(normal(2, 6), shape=[3, 4], special_zero=False),
    "HostTranspose": one(normal(2, 3, 4), order=[2, 0, 1]),
    "HostConcat": [Call((normal(2, 3), normal(1, 3)), {"axis": 0})],
    "HostSelect": [Call((COND, X, Y))],
    "HostCast": one(),
    "HostRankSum": one(communicator=LONE.key),
    "HostSin": one(),
    "HostCos": one(),
    "HostErf": one(),
    "HostErfInv": one(np.tanh(X) * 0.9),
    "HostLogGamma": one(PLUS + 0.5),
    "HostPolygamma": [*one(PLUS + 0.5), *one(PLUS + 0.5, order=1)],
    "HostAcos": one(np.tanh(X) * 0.9),
    "HostAcosh": one(PLUS + 1.5),
    "HostAsin": one(np.tanh(X) * 0.9),
    "HostAsinh": one(),
    "HostAtan": one(),
    "HostAtanh": one(np.tanh(X) * 0.9),
    "HostCosh": one(),
    "HostExpm1": one(),
    "HostLog10": one(PLUS),
    "HostLog1p": one(PLUS),
    "HostLog2": one(PLUS),
    "HostSinh": one(),
    "HostTan": one(np.tanh(X)),
    "HostPower": pairs(positive=True),
    "HostAtan2": pairs(positive=True),
    "HostTopK": [*one(apart(3, 7), axis=1, k=3), *one(apart(3, 7), axis=0, k=2, largest=False)],
    "HostModulo": [
        Call((away(X, 0), PLUS + 5)),
        Call((20 * away(X, 0), PLUS + 5)),
        Call((20 * away(X, 0), PLUS + 5), {"of_dividend": True}),
    ],
    "HostGridSample": [
        Call(
            (IMAGE, np.tanh(normal(2, 2, 3, 2))),
            {"mode": mode, "padding_mode": border, "align_corners": corners},
        )
        for mode in ("linear", "cubic")
        for border in ("zeros", "border", "reflection")
        for corners in (False, True)
    ],
    "HostExpand": [*one(normal(3, 1), shape=[2, -1, 4]), *one(normal(4), shape=[3, 4])],
    "HostExpandTo": [Call((normal(3, 1), normal(2, 3, 4)), by=(0,))],
    "HostSumTo": [
        Call((normal(2, 3, 4), normal(3, 1)), by=(0,)),
        Call((normal(2, 3), normal(2, 3)), by=(0,)),
    ],
    "HostCumSum": [*one(axis=1), *one(axis=0, exclusive=True, reverse=True)],
    "HostGather": [
        Call((normal(3, 4), INDICES), {"axis": 0}),
        Call((normal(2, 3, 2), INDICES), {"axis": 1}),
        Call((normal(3, 4), np.array(1)), {"axis": 1}),
    ],
    "HostGatherBackward": [Call((normal(2, 3, 4), INDICES), {"axis": 0, "src_shape": [3, 4]})],
    "HostCTC": [Call((LOGS, LABELS, TIMES, LENGTHS), {"blank": 1})],
    "HostCTCBackward": [Call((normal(3), LOGS, LABELS, TIMES, LENGTHS), {"blank": 1})],
    "HostCTCCurvature": [
        Call((normal(3), normal(*LOGS.shape), LOGS, LABELS, TIMES, LENGTHS), {"blank": 1}, by=(0, 1))
    ],
    "HostGatherElements": [Call((normal(3, 4), INDICES), {"axis": 1})],
    "HostGatherElementsBackward": [Call((normal(2, 3), INDICES), {"axis": 0, "src_shape": [3, 4]})],
    "HostGatherND": [
        Call((normal(2, 3, 4), ROWS)),
        Call((normal(2, 3, 4), np.array([[[1], [1]], [[0], [2]]])), {"batch_dims": 1}),
    ],
    "HostGatherNDBackward": [Call((normal(3, 4), ROWS), {"src_shape": [2, 3, 4]})],
    "HostScatterND": [
        Call((normal(5, 3), np.array([[2], [0]]), normal(2, 3))),
        Call((normal(5, 3), np.array([[2], [2]]), normal(2, 3)), {"reduction": "add"}),
        Call((normal(2, 4, 3), np.array([[[2], [0]], [[1], [3]]]), normal(2, 2, 2, 3)), {"axis": 1}),
        Call((normal(2, 4, 3), np.array([[2, 2], [1, 0]]), normal(2, 2)), {"axis": -2, "reduction": "add"}),
        Call((apart(5, 3), np.array([[2], [2], [0]]), 10 * apart(3, 3)), {"reduction": "max"}),
        Call((normal(2, 4, 3), np.array([[2, 2], [1, 0]]), normal(2, 2)), {"axis": -2, "reduction": "mul"}),
    ],
    "HostScatterElements": [
        Call((normal(5, 3), np.array([[2, 0, 1], [4, 4, 0]]), normal(2, 3)), {"axis": 0}),
        Call((normal(5, 3), np.array([[2, 2, 1]]), normal(1, 3)), {"axis": 1, "reduction": "add"}),
        Call((apart(5, 3), np.array([[2, 2, 1]]), 10 * apart(1, 3)), {"axis": 1, "reduction": "min"}),
        Call((normal(5, 3), np.array([[2, 2, 1]]), normal(1, 3)), {"axis": 1, "reduction": "mul"}),
    ],
    "HostGroupedMatMul": [
        Call((normal(5, 3), normal(3, 3, 2), np.array([2, 2, 4]))),
        Call((normal(4, 3), normal(2, 3, 2), np.array([1, 4]))),
    ],
    "HostGroupedMatMulWeights": [Call((normal(5, 3), normal(5, 2), np.array([2, 2, 4])))],
    "HostMaxPoolGather": [
        Call((apart(2, 3, 5, 6), normal(2, 3, 5, 6)), POOL),
        Call(
            (apart(2, 7, 6, 3), normal(2, 7, 6, 3)), {**POOL, "rounding_type": "ceil", "data_format": "NXC"}
        ),
    ],
    "HostSlice": [
        *one(normal(5, 4), axes=[0, -1], starts=[-1, 0], stops=[0, 9], steps=[-2, 2]),
        *one(normal(5, 4), axes=[1], starts=[1], stops=[3], steps=[1]),
    ],
    "HostSliceBackward": [
        Call((normal(2, 4),), {"axes": [0], "starts": [1], "stops": [5], "steps": [2], "src_shape": [5, 4]})
    ],
    "HostPad": [
        one(normal(3, 4), pads_begin=[1, 2], pads_end=[0, 3], mode=mode)[0]
        for mode in ("constant", "edge", "reflect", "wrap")
    ],
    "HostPadBackward": [
        Call((normal(4, 6),), {"pads_begin": [1, 0], "pads_end": [0, 2], "mode": mode, "src_shape": [3, 4]})
        for mode in ("constant", "edge")
    ],
}
"""Kind → calls."""
