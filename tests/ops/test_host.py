"""Ops that importers fall back to: apart from the documented set, and with kernels that give what is inferred."""

import numpy as np
import onednn_graph as og
import pytest
from lone import LONE
from onednn_graph.backends.numpy.kernels import KERNELS
from onednn_graph.backends.onednn.lowering.table import LOWERED
from onednn_graph.ops.host import HOSTED
from onednn_graph.ops.registry import REGISTRY
from rows import each

HOST = {schema.kind: schema for schema in REGISTRY.host}
F, W, T, D = np.float32, np.int64, np.bool_, np.float64
NAMES = {F: "f32", W: "s64", T: "boolean", D: "f64"}

# kind, shapes and types of the inputs, attributes, the output's shape
CALLS = {
    **{
        kind: ([((2, 3), W), ((3,), W)], {}, (2, 3))
        for kind in (
            *("HostAdd", "HostSubtract", "HostMultiply", "HostDivide", "HostModulo", "HostMaximum"),
            *("HostMinimum", "HostEqual", "HostNotEqual", "HostGreater", "HostGreaterEqual"),
            *("HostAnd", "HostOr", "HostXor", "HostGcd"),
        )
    },
    **{kind: ([((2, 3), F), ((3,), F)], {}, (2, 3)) for kind in ("HostPower", "HostAtan2")},
    **{kind: ([((2, 3), W)], {}, (2, 3)) for kind in ("HostAbs", "HostNot", "HostSign", "HostCast")},
    **{
        kind: ([((2, 3), F)], {}, (2, 3))
        for kind in (
            *("HostIsNaN", "HostIsInf", "HostCeil", "HostCos", "HostErf", "HostFloor", "HostSin"),
            *("HostAcos", "HostAcosh", "HostAsin", "HostAsinh", "HostAtan", "HostAtanh", "HostCosh"),
            *("HostExpm1", "HostLog1p", "HostSinh", "HostTan", "HostTrunc", "HostStopGradient"),
            *("HostMeanWeight", "HostErfInv", "HostLog2", "HostLog10", "HostLogGamma", "HostPolygamma"),
        )
    },
    **{
        f"HostReduce{kind}": ([((2, 3), W)], {"axes": [1], "keep_dims": True}, (2, 1))
        for kind in ("Max", "Min", "Prod", "Sum")
    },
    "HostReshape": ([((2, 3), W)], {"shape": [3, -1], "special_zero": False}, (3, 2)),
    "HostTranspose": ([((2, 3), T)], {"order": [1, 0]}, (3, 2)),
    "HostConcat": ([((2, 3), T), ((2, 1), T)], {"axis": 1}, (2, 4)),
    "HostSelect": ([((2, 1), T), ((3,), W), ((), W)], {}, (2, 3)),
    "HostGather": ([((5, 3), F), ((2, 2), W)], {"axis": 0}, (2, 2, 3)),
    "HostGatherElements": ([((5, 3), F), ((2, 1), W)], {"axis": 0}, (2, 1)),
    "HostGatherND": ([((2, 5, 3), F), ((2, 4, 1), W)], {"batch_dims": 1}, (2, 4, 3)),
    "HostScatterND": ([((5, 3), F), ((2, 1), W), ((2, 3), F)], {}, (5, 3)),
    "HostScatterElements": ([((5, 3), F), ((2, 1), W), ((2, 1), F)], {"axis": 0}, (5, 3)),
    "HostMatMul": ([((2, 5, 3), W), ((4, 3), W), ((4,), W)], {"transpose_b": True}, (2, 5, 4)),
    "HostGroupedMatMul": ([((5, 3), F), ((2, 3, 4), F), ((2,), W)], {}, (5, 4)),
    "HostGroupedMatMulWeights": ([((5, 3), F), ((5, 4), F), ((2,), W)], {}, (2, 3, 4)),
    "HostGridSample": ([((2, 3, 4, 5), F), ((2, 6, 7, 2), F)], {}, (2, 3, 6, 7)),
    "HostTopK": ([((5, 3), F)], {"axis": 0, "k": 2}, (2, 3)),
    "HostMaxPoolGather": (
        [((2, 5, 3), F), ((2, 5, 3), F)],
        {"kernel": [2], "strides": [2], "pads_begin": [0], "pads_end": [0], "rounding_type": "ceil"},
        (2, 3, 3),
    ),
    "HostSlice": (
        [((5, 3), F)],
        {"axes": [0, -1], "starts": [-1, 0], "stops": [0, 9], "steps": [-2, 2]},
        (2, 2),
    ),
    "HostPad": ([((5, 3), F)], {"pads_begin": [1, 0], "pads_end": [0, 2]}, (6, 5)),
    "HostExpand": ([((3, 1), W)], {"shape": [2, -1, 4]}, (2, 3, 4)),
    "HostCumSum": ([((5, 3), F)], {"axis": 1}, (5, 3)),
    "HostGatherBackward": ([((2, 2, 3), F), ((2, 2), W)], {"axis": 0, "src_shape": [5, 3]}, (5, 3)),
    "HostGatherElementsBackward": ([((2, 1), F), ((2, 1), W)], {"axis": 0, "src_shape": [5, 3]}, (5, 3)),
    "HostGatherNDBackward": (
        [((2, 4, 3), F), ((2, 4, 1), W)],
        {"batch_dims": 1, "src_shape": [2, 5, 3]},
        (2, 5, 3),
    ),
    "HostSliceBackward": (
        [((2, 2), F)],
        {"axes": [0, -1], "starts": [-1, 0], "stops": [0, 9], "steps": [-2, 2], "src_shape": [5, 3]},
        (5, 3),
    ),
    "HostPadBackward": (
        [((6, 5), F)],
        {"pads_begin": [1, 0], "pads_end": [0, 2], "src_shape": [5, 3]},
        (5, 3),
    ),
    "HostExpandTo": ([((3, 1), F), ((2, 3, 4), F)], {}, (2, 3, 4)),
    "HostSumTo": ([((2, 3, 4), F), ((3, 1), F)], {}, (3, 1)),
    "HostMeanStart": (
        [((2, 3), F), ((1,), F)],
        {"communicator": LONE.key, "bucket": 0, "piece": 0},
        (1,),
    ),
    "HostMeanEnd": (
        [((1,), F)],
        {"communicator": LONE.key, "bucket": 0, "piece": 0, "shape": [2, 3]},
        (2, 3),
    ),
    "HostRankSum": ([((2, 3), F)], {"communicator": LONE.key}, (2, 3)),
    "HostRankWeight": ([((2, 3), F)], {"communicator": LONE.key}, (2, 3)),
    "HostSGD": ([((5, 3), F), ((5, 3), F), ((), D), ((), D)], {"weight_decay": 0.1}, (5, 3)),
    "HostAdam": (
        [((5, 3), F), ((5, 3), F), ((), D), ((), D), ((), W), ((5, 3), F), ((5, 3), F)],
        {"decoupled": True},
        (5, 3),
    ),
    "HostUpdate": (
        [((5, 3), F), ((5, 3), F), ((), D), ((), D), ((), W)],
        {"formula": "update = scale * gradient"},
        (5, 3),
    ),
    "HostGradientScale": ([((5, 3), F), ((2,), F)], {"max_norm": 1.0}, ()),
    "HostCTC": ([((2, 5, 3), F), ((2, 2), W), ((2,), W), ((2,), W)], {}, (2,)),
    "HostCTCBackward": ([((2,), F), ((2, 5, 3), F), ((2, 2), W), ((2,), W), ((2,), W)], {}, (2, 5, 3)),
    "HostCTCCurvature": (
        [((2,), F), ((2, 5, 3), F), ((2, 5, 3), F), ((2, 2), W), ((2,), W), ((2,), W)],
        {"zero_infinity": True},
        (2, 5, 3),
    ),
    "HostArgMax": ([((5, 3), F)], {"axis": 1}, (5, 1)),
    "HostArgMin": ([((5, 3), F)], {"axis": -1, "keep_dims": False}, (5,)),
}


def built(kind, shapes):
    inputs, attributes, _ = CALLS[kind]
    graph = og.Graph()
    tensors = [
        graph.input(f"x{i}", NAMES[dtype], shape)
        for i, (shape, (_, dtype)) in enumerate(zip(shapes, inputs, strict=True))
    ]
    made = graph.op(kind, *tensors, **attributes)
    return graph, made if isinstance(made, og.LogicalTensor) else made[0]


def test_they_are_apart():
    assert HOST.keys().isdisjoint(schema.kind for schema in og.list_ops())
    assert HOST.keys() & LOWERED.keys() == {"HostSlice", "HostStopGradient"}  # as views
    assert set(HOSTED.values()) <= HOST.keys() <= KERNELS.keys()
    assert set(CALLS) == set(HOST) - {"HostOnnx"}  # which graphs from ONNX have alone
    for kind, schema in HOST.items():
        assert kind.startswith("Host")
        assert schema.summary
        assert schema.formula
        assert not schema.source.startswith("oneDNN Graph")
    assert not hasattr(og, "host_gather")
    with pytest.raises(og.errors.SchemaError, match="built in"):
        og.extend.unregister_op("HostGather")


@pytest.mark.parametrize("of", HOSTED)
def test_a_twin_takes_what_the_op_of_the_set_takes(of):
    """Importers put it in its place with the attributes that they have."""
    schema, _ = REGISTRY.resolve(of)
    twin = HOST[HOSTED[of]]
    assert [p.name for p in twin.inputs] == [p.name for p in schema.inputs]
    attributes = {spec.name for spec in twin.attributes}
    assert attributes == {spec.name for spec in schema.attributes if spec.name != "auto_broadcast"} or (
        attributes == {spec.name for spec in schema.attributes}
    )


@each("kind", CALLS)
def test_shapes_are_inferred(kind):
    inputs, _, wanted = CALLS[kind]
    graph, made = built(kind, [shape for shape, _ in inputs])
    assert made.shape == wanted
    arrays = {f"x{i}": np.ones(shape, dtype) for i, (shape, dtype) in enumerate(inputs)}
    assert graph.compile()(arrays)[made].shape == wanted


@each("kind", CALLS)
def test_open_sizes_contradict_nothing(kind):
    """Each size left open in turn, and the rank: what is inferred is the known result, or open."""
    inputs, _, wanted = CALLS[kind]
    for number, (shape, _) in enumerate(inputs):
        for axis in range(len(shape)):
            shapes = [s for s, _ in inputs]
            shapes[number] = tuple(-1 if a == axis else d for a, d in enumerate(shape))
            found = built(kind, shapes)[1].shape
            assert found is None or len(found) == len(wanted)
            assert found is None or all(d in (-1, w) for d, w in zip(found, wanted, strict=True))
        shapes = [s for s, _ in inputs]
        shapes[number] = None
        found = built(kind, shapes)[1].shape
        assert found is None or all(d in (-1, w) for d, w in zip(found, wanted, strict=True))


REFUSED = {
    "labels of others": ("HostCTC", [(2, 5, 3), (3, 2), (2,), (2,)], {}, "'labels' must have 2 examples"),
    "labels of one": ("HostCTC", [(2, 5, 3), (2,), (2,), (2,)], {}, "'labels' must have 2 axes"),
    "no blank": (
        "HostCTC",
        [(2, 5, 3), (2, 2), (2,), (2,)],
        {"blank": 3},
        "'blank' must be below .* 3, got 3",
    ),
    "too many": (
        "HostTopK",
        [(5, 3)],
        {"axis": 1, "k": 4},
        "'k' must be at most the 3 elements of axis 1, got 4",
    ),
    "scattered ranks": (
        "HostScatterElements",
        [(5, 3), (2,), (2,)],
        {"axis": 0},
        "'indices' must have as many axes",
    ),
    "scattered beyond": (
        "HostScatterElements",
        [(5, 3), (2, 4), (2, 4)],
        {"axis": 0},
        "must not be longer than 'src' but along axis 0",
    ),
    "scattered others": (
        "HostScatterElements",
        [(5, 3), (2, 3), (2, 2)],
        {"axis": 0},
        "the shape of 'indices'",
    ),
    "a grid's coordinates": ("HostGridSample", [(2, 3, 4, 5), (2, 6, 7, 3)], {}, "must have 2 coordinates"),
    "a grid's batch": (
        "HostGridSample",
        [(2, 3, 4, 5), (1, 6, 7, 2)],
        {},
        "must have one batch, got 2 and 1",
    ),
    "cubes of cubes": (
        "HostGridSample",
        [(2, 3, 4, 5, 6), (2, 6, 7, 8, 3)],
        {"mode": "cubic"},
        "2 spatial axes where 'mode' is cubic.*take mode='linear'",
    ),
    "a grid's axes": ("HostGridSample", [(2, 3, 4), (2, 6, 7, 2)], {}, "and 'grid' as many axes"),
    "an axis": ("HostGather", [(5,), (2,)], {"axis": 1}, "attribute 'axis' must be between -1 and 0"),
    "ranks": ("HostGatherElements", [(5, 3), (2,)], {"axis": 0}, "as many axes as 'src', 2"),
    "shorter": (
        "HostGatherElements",
        [(5, 3), (2, 1)],
        {"axis": 0, "strict": True},
        "must have the shape of 'src'",
    ),
    "longer": ("HostGatherElements", [(5, 3), (2, 4)], {"axis": 0}, "must not be longer"),
    "deep": ("HostGatherND", [(5, 3), (2, 3)], {}, "at most 2 axes of 'src'"),
    "batches": ("HostGatherND", [(5, 3), (2,)], {"batch_dims": 1}, "more axes than the 1"),
    "rows of rows": ("HostGroupedMatMul", [(5, 3, 1), (2, 3, 4), (2,)], {}, "'src' must have 2 axes"),
    "no groups": ("HostGroupedMatMul", [(5, 3), (3, 4), (2,)], {}, "'weights' must have 3 axes"),
    "ends of ends": ("HostGroupedMatMulWeights", [(5, 3), (5, 4), (2, 1)], {}, "'ends' must have 1 axis"),
    "sums": ("HostGroupedMatMul", [(5, 3), (2, 4, 4), (2,)], {}, "must agree, got 3 and 4"),
    "groups": ("HostGroupedMatMul", [(5, 3), (2, 3, 4), (3,)], {}, "must agree, got 2 and 3"),
    "rows": ("HostGroupedMatMulWeights", [(5, 3), (6, 4), (2,)], {}, "must agree, got 5 and 6"),
    "lists": (
        "HostSlice",
        [(5,)],
        {"axes": [0], "starts": [0], "stops": [1], "steps": []},
        "must be equally long",
    ),
    "an axis twice": (
        "HostSlice",
        [(5, 4)],
        {"axes": [0, -2], "starts": [0, 1], "stops": [4, 3], "steps": [1, 1]},
        r"must name each axis once, got \[0, -2\]",
    ),
    "a step": ("HostSlice", [(5,)], {"axes": [0], "starts": [0], "stops": [1], "steps": [0]}, "not have a 0"),
    "pads": ("HostPad", [(5,)], {"pads_begin": [1, 1], "pads_end": [0]}, "for each of 1 axes"),
    "mirror": (
        "HostPad",
        [(2,)],
        {"pads_begin": [2], "pads_end": [0], "mode": "reflect"},
        "must be shorter than its axis",
    ),
    "expand": ("HostExpand", [(3,)], {"shape": [4]}, "must broadcast to attribute 'shape'"),
    "expand less": ("HostExpand", [(3, 3)], {"shape": [3]}, "must have 2 sizes at least"),
    "nothing": ("HostArgMax", [(3, 0)], {"axis": 1}, "must have elements along axis 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be(name):
    kind, shapes, attributes, message = REFUSED[name]
    graph = og.Graph()
    types = [NAMES[dtype] for _, dtype in CALLS[kind][0]]
    tensors = [graph.input(f"x{i}", types[i], shape) for i, shape in enumerate(shapes)]
    with pytest.raises(og.ShapeError, match=message):
        graph.op(kind, *tensors, **attributes)
