"""`from_onnx`: ops that oneDNN Graph has none for, on the host; each exactly as ONNX's own reference has it."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import X, check, expected_of, helper, integers, ints, model_of, normal, rng, scalar
from rows import each

WHOLE = rng(1).integers(-9, 10, (2, 3, 4))
OTHER = rng(2).integers(-9, 10, (3, 4))
TRUE, FALSE = rng(3).random((2, 3, 4)) < 0.5, rng(4).random((3, 4)) < 0.5
FLOATS = integers(2, 3, 4)
ODD = np.float32([[np.nan, -np.inf, -0.0], [0.0, np.inf, 2.5]])
TABLE = normal(7, 5)
NEAR = WHOLE[..., :3] % 4 - 1  # all of −1 to 2, and equal ones

# op, inputs, constants, attributes, kinds of the graph; None where it does not matter
HOSTED = {
    "add": ("Add", [WHOLE, OTHER], [], {}, ["HostAdd"]),
    "add-large": ("Add", [ints(2**62, 2**53)], [ints(1, 1)], {}, ["HostAdd"]),
    "add-s32": ("Add", [WHOLE.astype(np.int32), OTHER.astype(np.int32)], [], {}, ["HostAdd"]),
    "add-s32-overflow": ("Add", [np.int32([2**31 - 1, -5])], [np.int32([7, -(2**31)])], {}, ["HostAdd"]),
    "sub": ("Sub", [WHOLE, OTHER], [], {}, ["HostSubtract"]),
    "mul": ("Mul", [WHOLE, OTHER], [], {}, ["HostMultiply"]),
    "mul-s32": ("Mul", [WHOLE.astype(np.int32), OTHER.astype(np.int32)], [], {}, ["HostMultiply"]),
    "neg": ("Neg", [WHOLE], [], {}, ["HostMultiply"]),
    "max": ("Max", [WHOLE, OTHER], [], {}, ["HostMaximum"]),
    "min": ("Min", [WHOLE, OTHER], [], {}, ["HostMinimum"]),
    "abs": ("Abs", [WHOLE], [], {}, ["HostAbs"]),
    "sign": ("Sign", [WHOLE], [], {}, ["HostSign"]),
    "sign-odd": ("Sign", [ODD], [], {}, ["HostSign"]),
    "mod": ("Mod", [WHOLE], [ints(3, -4, 5, -7)], {}, ["HostModulo"]),
    "mod-fmod": ("Mod", [WHOLE], [ints(3, -4, 5, -7)], {"fmod": 1}, ["HostModulo"]),
    "mod-floats": ("Mod", [FLOATS], [np.float32([3, -4, 5, -7])], {"fmod": 1}, ["HostModulo"]),
    **{
        f"{kind}-{name}": (kind, [a, b], [], {}, None)
        for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
        for name, a, b in (
            ("s64", WHOLE, OTHER),
            ("f32", FLOATS, FLOATS[1]),
            ("odd", ODD, ODD[:, ::-1].copy()),
            ("s8", WHOLE.astype(np.int8), OTHER.astype(np.int8)),
        )
    },
    "equal-truths": ("Equal", [TRUE, FALSE], [], {}, ["HostEqual"]),
    **{kind: (kind, [TRUE, FALSE], [], {}, [f"Host{kind}"]) for kind in ("And", "Or", "Xor")},
    "and-constant": ("And", [TRUE], [FALSE], {}, ["HostAnd"]),
    "not": ("Not", [TRUE], [], {}, ["HostNot"]),
    **{kind: (kind, [WHOLE, OTHER], [], {}, None) for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "bitwise-not": ("BitwiseNot", [WHOLE], [], {}, ["HostNot"]),
    "is-nan": ("IsNaN", [ODD], [], {}, ["HostIsNaN"]),
    "is-inf": ("IsInf", [ODD], [], {}, ["HostIsInf"]),
    **{f"cast-{to}": ("Cast", [WHOLE], [], {"to": to}, ["HostCast"]) for to in (1, 2, 3, 6, 9, 10, 11, 16)},
    "cast-truths": ("Cast", [TRUE], [], {"to": 7}, ["HostCast"]),
    "cast-truths-to-f32": ("Cast", [TRUE], [], {"to": 1}, ["HostCast"]),
    "cast-floats": ("Cast", [2.7 * FLOATS], [], {"to": 7}, ["HostCast"]),
    "cast-floats-to-truths": ("Cast", [ODD], [], {"to": 9}, ["HostCast"]),
    "cast-like": ("CastLike", [WHOLE], [scalar(0)], {}, ["HostCast"]),
    "ceil": ("Ceil", [2.7 * FLOATS], [], {}, ["HostCeil"]),
    "floor": ("Floor", [2.7 * FLOATS], [], {}, ["HostFloor"]),
    "where": ("Where", [TRUE, WHOLE, OTHER], [], {}, ["HostSelect"]),
    "where-truths": ("Where", [TRUE, FALSE], [scalar(True, np.bool_)], {}, ["HostSelect"]),
    "gather": ("Gather", [ints(6, 0, -1, -7)], [TABLE], {}, ["HostGather"]),
    "gather-computed": ("Gather", [X, np.array([[0, 2], [1, -1]])], [], {"axis": 1}, ["HostGather"]),
    "gather-s32": ("Gather", [X, np.int32([[0, 2]])], [], {"axis": -1}, ["HostGather"]),
    "gather-one": ("Gather", [X, np.asarray(2)], [], {"axis": 1}, ["HostGather"]),
    "gather-none": ("Gather", [X, np.empty(0, np.int64)], [], {"axis": 1}, ["HostGather"]),
    "gather-integers": ("Gather", [WHOLE], [ints(1, 1)], {"axis": 2}, ["HostGather"]),
    "gather-truths": ("Gather", [TRUE], [ints(0)], {"axis": 2}, ["HostGather"]),
    "gather-many": ("Gather", [X], [ints(*[1, 0] * 300)], {"axis": 1}, ["HostGather"]),
    "gather-elements": ("GatherElements", [X, NEAR], [], {"axis": 2}, ["HostGatherElements"]),
    "gather-elements-constant": ("GatherElements", [X], [WHOLE % 2], {"axis": 0}, ["HostGatherElements"]),
    "gather-nd": ("GatherND", [X, np.array([[0, 2], [-1, -1]])], [], {}, ["HostGatherND"]),
    "gather-nd-batch": ("GatherND", [X], [np.array([[0], [-1]])], {"batch_dims": 1}, ["HostGatherND"]),
    "gather-nd-whole": ("GatherND", [X], [np.array([[[0, 1, 2]]])], {}, None),
    "scatter-nd": ("ScatterND", [X, np.array([[0, 2], [-1, 0]])], [normal(2, 4)], {}, ["HostScatterND"]),
    **{
        f"scatter-nd-one-{name}": (
            "ScatterND",
            [X, np.array(places)],
            [normal(*shape)],
            {},
            ["HostScatterND"],
        )
        for name, places, shape in (
            ("row", [[-1]], (1, 3, 4)),
            ("column", [[1, -2]], (1, 4)),
            ("element", [[0, 1, 2]], (1,)),
            ("deep", [[[[1, 0]]]], (1, 1, 1, 4)),
            ("lonely", [1], (3, 4)),
        )
    },
    "slice-back": ("Slice", [X], [ints(3, -1), ints(-9, 0), ints(2, 1), ints(-2, -1)], {}, None),
    "slice-integers": ("Slice", [WHOLE], [ints(1, -3), ints(9, -1), ints(1, 2)], {}, None),
    "slice-nothing": ("Slice", [X], [ints(2), ints(1), ints(1)], {}, ["HostSlice"]),
    "pad-integers": ("Pad", [WHOLE], [ints(0, 1, 0, 2, 0, 3), np.asarray(-7)], {}, ["HostPad"]),
    "pad-truths": ("Pad", [TRUE], [ints(0, 1, 0, 0, 0, 3), np.asarray(True)], {}, ["HostPad"]),
    **{
        f"pad-{mode}": ("Pad", [X], [ints(0, 1, 2, 0, 1, 3)], {"mode": mode}, ["HostPad"])
        for mode in ("reflect", "edge", "wrap")
    },
    "expand": ("Expand", [WHOLE[:, :1]], [ints(2, 2, 5, 4)], {}, ["HostExpand"]),
    "expand-truths": ("Expand", [TRUE[:1]], [ints(3, 3, 1)], {}, ["HostExpand"]),
    "concat": ("Concat", [WHOLE, WHOLE], [OTHER[None]], {"axis": 0}, ["HostConcat"]),
    "transpose": ("Transpose", [WHOLE], [], {"perm": [2, 0, 1]}, ["HostTranspose"]),
    "reshape": ("Reshape", [WHOLE], [ints(4, -1)], {}, ["HostReshape"]),
    "unsqueeze": ("Unsqueeze", [TRUE], [ints(0, 4)], {}, ["HostReshape"]),
    "tile": ("Tile", [WHOLE], [ints(1, 2, 3)], {}, None),
    "reduce-sum": ("ReduceSum", [WHOLE], [ints(1)], {}, ["HostReduceSum"]),
    "reduce-max": ("ReduceMax", [WHOLE], [ints(0, 2)], {"keepdims": 0}, ["HostReduceMax"]),
    "reduce-min": ("ReduceMin", [WHOLE], [], {}, ["HostReduceMin"]),
    "reduce-prod": ("ReduceProd", [WHOLE], [ints(-1)], {}, ["HostReduceProd"]),
    **{
        f"cumsum-{name}": ("CumSum", [x], [np.asarray(axis)], attributes, ["HostCumSum"])
        for name, x, axis, attributes in (
            ("s64", WHOLE, 1, {}),
            ("f32", FLOATS, -1, {}),
            ("exclusive", FLOATS, 0, {"exclusive": 1}),
            ("reverse", WHOLE, 2, {"reverse": 1}),
            ("both", WHOLE, 2, {"reverse": 1, "exclusive": 1}),
        )
    },
    **{
        f"{kind}-{name}": (kind, [x], [], attributes, [f"Host{kind}"])
        for kind in ("ArgMax", "ArgMin")
        for name, x, attributes in (
            ("s64", WHOLE, {}),
            ("s32", WHOLE.astype(np.int32), {}),
            ("last", WHOLE % 2, {"axis": 1, "select_last_index": 1}),
            ("f32", FLOATS, {"axis": -1, "keepdims": 0}),
        )
    },
    **{
        f"einsum-{equation}": ("Einsum", arrays, [], {"equation": equation}, None)
        for equation, arrays in (
            ("bij,bjk->bik", [integers(2, 3, 4), integers(2, 4, 5)]),
            ("ij,kj->ik", [integers(3, 4), integers(5, 4)]),
            ("ji,jk", [integers(4, 3), integers(4, 5)]),
            ("b h i d, b h j d -> b h i j", [integers(2, 3, 4, 5), integers(2, 3, 6, 5)]),
            ("bhwijc,ijdc->bhwd", [integers(2, 1, 3, 2, 2, 4), integers(2, 2, 5, 4)]),
            ("i,j->ij", [integers(3), integers(4)]),
            ("i,i", [integers(5), integers(5)]),
            ("ij->j", [integers(3, 4)]),
            ("ijk->kij", [integers(2, 3, 4)]),
            ("ij,jk,kl->il", [integers(2, 3), integers(3, 4), integers(4, 2)]),
            ("aij,bjk->abik", [integers(2, 3, 4), integers(3, 4, 2)]),
            ("aij,bjc->aic", [integers(2, 3, 4), integers(3, 4, 2)]),
            ("ij,ij->ij", [integers(3, 4), integers(3, 4)]),
        )
    },
}
ROUNDED = {
    "erf": ("Erf", [X]),
    "sin": ("Sin", [X]),
    "cos": ("Cos", [X]),
}
HOSTED |= {name: (kind, arrays, [], {}, [f"Host{kind}"]) for name, (kind, arrays) in ROUNDED.items()}


@each("name", HOSTED)
def test_an_op(name):
    kind, arrays, constants, attributes, kinds = HOSTED[name]
    inputs = {f"x{i}": np.ascontiguousarray(a) for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    names = [*values, *inputs] if name == "gather" else [*inputs, *values]
    node = helper.make_node(kind, names, ["y"], **attributes)
    model = model_of([node], inputs, ["y"], values)
    check(model, inputs, exact=name not in ROUNDED, kinds=kinds)


@each("name", [name for name in HOSTED if not name.endswith("odd")])
def test_an_op_between_primitives(name):
    """As a step of the plan that holds the primitives before and behind it."""
    kind, arrays, constants, attributes, _ = HOSTED[name]
    inputs = {f"x{i}": np.ascontiguousarray(a) for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    floats = [key for key, a in inputs.items() if a.dtype == np.float32 and a is not ODD]
    before = [helper.make_node("Relu", [key], [f"{key}.r"]) for key in floats]
    names = [f"{key}.r" if key in floats else key for key in inputs]
    names = [*values, *names] if name == "gather" else [*names, *values]
    nodes = [
        *before,
        helper.make_node(kind, names, ["h"], **attributes),
        helper.make_node("Cast", ["h"], ["f"], to=1),
        helper.make_node("Relu", ["f"], ["y"]),
    ]
    check(model_of(nodes, inputs, ["y"], values), inputs, exact=name not in ROUNDED)


def test_integer_division():
    """Towards zero, as in C, where ONNX's reference rounds down; by zero it is zero, and ends no process."""
    a, b = ints(7, -7, 7, -7, 6, -6, 2**62, -5), ints(2, 2, -2, -2, 3, 3, 3, 0)
    node = helper.make_node("Div", ["a", "b"], ["y"])
    y = og.from_onnx(model_of([node], {"a": a, "b": b}, ["y"])).compile()(a, b)["y"]
    np.testing.assert_array_equal(y, ints(3, -3, -3, 3, 2, -2, 2**62 // 3, 0))


@pytest.mark.parametrize("index", [7, -8])
def test_an_index_that_the_table_does_not_have(index):
    indices = ints(0, index)
    node = helper.make_node("Gather", ["c", "x"], ["y"], name="words")
    model = og.from_onnx(model_of([node], {"x": indices}, ["y"], {"c": TABLE})).compile()
    with pytest.raises(og.ArgumentError, match=f"words.*between -7 and 6 for 7 elements, got {index}"):
        model(indices)
    np.testing.assert_array_equal(model(ints(1, -1))["y"], TABLE[[1, 6]])


def test_elements_by_fewer_indices():
    """ONNX's reference can't do that."""
    indices = np.array([[[2]], [[-1]]])
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=-2)
    y = og.from_onnx(model_of([node], {"x": X, "i": indices}, ["y"])).compile()(X, indices)["y"]
    np.testing.assert_array_equal(y, [[[X[0, 2, 0]]], [[X[1, -1, 0]]]])


def test_elements_of_a_constant_by_few_indices():
    """ONNX's reference stumbles over indices that are fewer than the elements."""
    data, indices = np.arange(512)[None], np.arange(0, 256, 2)[None]
    nodes = [
        helper.make_node("GatherElements", ["d", "i"], ["h"], axis=1),
        helper.make_node("Add", ["h", "x"], ["y"]),
    ]
    x = ints(1000)
    model = model_of(nodes, {"x": x}, ["y"], {"d": data, "i": indices})
    np.testing.assert_array_equal(og.from_onnx(model).compile()(x)["y"], indices + 1000)


def test_the_batch_may_stay_open():
    """Look-ups, parts and sums of sizes that are known at execution only."""
    ids = rng(5).integers(0, 7, (3, 4))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Slice", ["rows", "one", "three", "axis"], ["part"]),
        helper.make_node("CumSum", ["part", "along"], ["sums"]),
        helper.make_node("Equal", ["ids", "axis"], ["hit"]),
        helper.make_node("Pad", ["sums", "pads"], ["y"]),
        helper.make_node("Cast", ["hit"], ["z"], to=7),
    ]
    constants = {
        "table": integers(7, 5),
        "one": ints(1),
        "three": ints(3),
        "axis": ints(1),
        "along": np.asarray(1),
        "pads": ints(0, 1, 0, 0, 0, 2),
    }
    model = model_of(nodes, {"ids": ids}, ["y", "z"], constants, shapes={"ids": ["n", 4]})
    compiled = og.from_onnx(model).compile()
    for count in (3, 1, 2):
        feeds = {"ids": ids[:count]}
        for name, want in expected_of(model, feeds).items():
            np.testing.assert_array_equal(compiled(**feeds)[name], want)


def test_a_part_of_an_open_axis():
    x = normal(5, 3)
    node = helper.make_node("Slice", ["x", "s", "e"], ["y"])
    model = model_of([node], {"x": x}, ["y"], {"s": ints(1), "e": ints(-1)}, shapes={"x": ["n", 3]})
    compiled = og.from_onnx(model).compile()
    for count in (5, 3):
        np.testing.assert_array_equal(compiled(x[:count])["y"], x[1 : count - 1])


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_part_is_one_op(axis):
    """Without a reshape around it, which would copy images that lie channels-last."""
    x = normal(2, 5, 6, 7)
    node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    constants = {"s": ints(1), "e": ints(5), "a": ints(axis), "t": ints(2)}
    imported = check(model_of([node], {"x": x}, ["y"], constants), {"x": x}, exact=True, kinds=["MaxPool"])
    assert imported.ops[0].attributes["data_format"] == ("NXC" if axis == 1 else "NCX")


def test_the_report_names_them():
    ids, w = ints(1, 5, 0), normal(5, 3)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    model = og.from_onnx(model_of(nodes, {"ids": ids}, ["y"], {"table": TABLE, "w": w})).compile()
    model(ids)
    steps = [step for part in model.explain().values() if part is not None for step in part.steps]
    assert any("HostGather" in step.name and step.host for step in steps)


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bkj->bik", "bji,bjk->bik", "bji,bkj->bik"])
def test_an_einstein_sum_takes_matrices_as_they_lie(equation):
    inputs = {"x0": integers(2, 4, 4), "x1": integers(2, 4, 4, seed=1)}
    node = helper.make_node("Einsum", list(inputs), ["y"], equation=equation)
    check(model_of([node], inputs, ["y"]), inputs, exact=True, kinds=["MatMul"])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...kj->...ik", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,jk", [(2, 4, 5), (5, 6)]),
        ("i...,i...->...", [(3, 2, 4), (3, 2, 4)]),
        ("...i->...", [(2, 3)]),
        ("...,...->...", [(2, 3), (3,)]),
    ],
)
def test_an_ellipsis_stands_for_the_other_axes(equation, shapes):
    inputs = {f"x{n}": integers(*shape, seed=n) for n, shape in enumerate(shapes)}
    node = helper.make_node("Einsum", list(inputs), ["y"], equation=equation)
    graph = check(model_of([node], inputs, ["y"]), inputs, exact=True)
    assert "HostOnnx" not in [op.kind for op in graph.ops]


def test_what_an_einstein_sum_can_not_be():
    for equation, arrays, message in (
        ("ii->i", [integers(3, 3)], "a letter of its own"),
        ("...i->i", [integers(2, 3)], "must have a letter"),
        ("ij,jk->ik", [integers(2, 3), integers(4, 2)], "axis 'j' has 3 elements here and 4 there"),
    ):
        inputs = {f"x{i}": a for i, a in enumerate(arrays)}
        node = helper.make_node("Einsum", list(inputs), ["y"], equation=equation)
        with pytest.raises(og.UnsupportedError, match=message):
            og.from_onnx(model_of([node], inputs, ["y"]), reference=False)


def test_what_integers_stand_for_is_never_nan():
    """Attention as quantisers leave it: the check for NaN behind a Dequantize is no step at all."""
    x = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "point"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "point"], ["y"]),
        helper.make_node("IsNaN", ["y"], ["nan"]),
        helper.make_node("Where", ["nan", "zero", "y"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"]),
    ]
    constants = {
        "scale": np.asarray(0.5, np.float32),
        "point": np.asarray(7, np.uint8),
        "zero": np.asarray(0, np.float32),
    }
    imported = check(model_of(nodes, {"x": x}, ["r"], constants), {"x": x})
    assert [op.kind for op in imported.ops] == ["Quantize", "Dequantize", "ReLU"]
