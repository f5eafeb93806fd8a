"""`from_onnx`: what nodes of constants become, what they may take, and small models that would grow without limit."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.onnx.folding import BY_REFERENCE, RANDOM
from onnx_cases import cases, given, outcome, plain
from onnx_oracle import I64, NEWEST, helper, integers, ints, model_of, normal, onnx, positive, scalar

X = normal(2, 3, 4)
F16 = 40000 * np.float16([[1, 1.2, -1, 0.5]])


def folded(kind, arrays, opset, **attributes):
    """A node's first output where all of its inputs are constant."""
    constants = {f"c{i}": a for i, a in enumerate(arrays)}
    nodes = [
        helper.make_node(kind, list(constants), ["h"], **attributes),
        helper.make_node("Where", ["chooses", "h", "h"], ["y"]),
    ]
    chooses = np.asarray(True)
    model = model_of(nodes, {"chooses": chooses}, ["y"], constants, opset=opset)
    return og.from_onnx(model).compile()(chooses)["y"]


def computed(kind, arrays, opset, **attributes):
    """The same where the first one is an input."""
    constants = {f"c{i}": a for i, a in enumerate(arrays[1:])}
    node = helper.make_node(kind, ["x", *constants], ["y"], **attributes)
    model = model_of([node], {"x": arrays[0]}, ["y"], constants, opset=opset)
    return og.from_onnx(model).compile(backend="numpy")(arrays[0])["y"]


def norm(x, axis):
    x = x.astype("f8")
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


def neighbours(x, size):
    squares = np.pad(x.astype("f8") ** 2, ((0, 0), ((size - 1) // 2, size // 2), (0, 0)))
    return x / (1 + 0.5 / size * sum(squares[:, i : i + x.shape[1]] for i in range(size))) ** 0.75


STATISTICS = [positive(3), positive(3, seed=1), positive(3, seed=2), positive(3, seed=3)]
ROWS = np.float32([[3, 4], [0, 0], [-1, 0]])
WRONG_IN_THE_REFERENCE = {
    "batch normalisation 9": (
        11,
        "BatchNormalization",
        [X, *STATISTICS],
        {},
        lambda: (
            (X - STATISTICS[2][:, None]) / np.sqrt(STATISTICS[3][:, None] + 1e-5) * STATISTICS[0][:, None]
            + STATISTICS[1][:, None]
        ),
    ),
    "neighbours in one dimension": (
        13,
        "LRN",
        [X],
        {"size": 2, "alpha": 0.5},
        lambda: neighbours(X, 2),
    ),
    "norms 1": (
        13,
        "LpNormalization",
        [ROWS],
        {"axis": 1},
        lambda: np.float32([[0.6, 0.8], [0, 0], [-1, 0]]),
    ),
    "maxima of three axes": (13, "GlobalMaxPool", [X], {}, lambda: X.max(2, keepdims=True)),
    "maxima of five axes": (
        13,
        "GlobalMaxPool",
        [X.reshape(2, 3, 2, 2, 1)],
        {},
        lambda: X.max(2).reshape(2, 3, 1, 1, 1),
    ),
    "layers of large halves": (
        17,
        "LayerNormalization",
        [F16, np.ones(4, np.float16)],
        {},
        lambda: norm(F16, 1).astype(np.float16),
    ),
    "divisions of integers round towards zero": (
        13,
        "Div",
        [ints(-7, 7), ints(2, -2)],
        {},
        lambda: ints(-3, -3),
    ),
    "fewer indices than elements": (
        13,
        "GatherElements",
        [X, ints(1, 2).reshape(1, 1, 2)],
        {"axis": 2},
        lambda: X[:1, :1, 1:3],
    ),
}


@pytest.mark.parametrize("name", WRONG_IN_THE_REFERENCE)
@pytest.mark.parametrize("way", [folded, computed])
def test_constants_are_right_where_the_reference_is_not(name, way):
    opset, kind, arrays, attributes, expected = WRONG_IN_THE_REFERENCE[name]
    result, want = way(kind, arrays, opset, **attributes), expected()
    assert result.shape == want.shape
    np.testing.assert_allclose(
        result.astype("f8"), want.astype("f8"), rtol=2e-3 if result.itemsize == 2 else 1e-5
    )


RESIZED = [
    {"mode": mode, "coordinate_transformation_mode": kind, **more}
    for mode in ("nearest", "linear")
    for kind in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize")
    for more in (
        [{"nearest_mode": r} for r in ("floor", "ceil", "round_prefer_floor")] if mode == "nearest" else [{}]
    )
]


@pytest.mark.parametrize("attributes", RESIZED, ids=lambda a: "-".join(a.values()))
def test_resizing_of_constants_is_right_or_refused(attributes):
    runtime = pytest.importorskip("onnxruntime")
    x, scales = normal(1, 2, 4, 6), np.float32([1, 1, 1.5, 2 / 3])
    constants = {"c0": x, "roi": np.float32([]), "scales": scales}
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        constants["roi"] = np.float32([0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9])
    node = helper.make_node("Resize", [*constants], ["h"], **attributes)
    alone = model_of([node], {}, ["h"], constants, opset=13)
    alone.ir_version = 8
    expected = runtime.InferenceSession(alone.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {}
    )[0]
    last = helper.make_node("Where", ["chooses", "h", "h"], ["y"])
    model = model_of([node, last], {"chooses": np.asarray(True)}, ["y"], constants, opset=13)
    try:
        graph = og.from_onnx(model)
    except og.UnsupportedError:
        return
    np.testing.assert_allclose(graph.compile()(np.asarray(True))["y"], expected, rtol=1e-4, atol=1e-6)


def test_a_box_that_ends_a_rounding_error_behind_the_last_element():
    """In f32, 0.2 · 7 + 3 · (1 − 0.2) · 7 / 3 is above 7: onnxruntime and TensorFlow see nothing there."""
    x, roi = normal(1, 1, 8, 8), np.float32([0, 0, 0.2, 0.3, 1, 1, 1, 1])
    constants = {"roi": roi, "none": np.float32([]), "sizes": np.asarray([1, 1, 4, 4])}
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    node = helper.make_node("Resize", ["x", *constants], ["y"], **attributes)
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], constants, opset=13)).compile()(x)["y"]
    assert not y[0, 0, 3].any()
    assert y[0, 0, :3].all()


def test_places_of_nearest_elements_as_tensorflow_has_them():
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
    constants = {"none": np.float32([]), "no": np.float32([]), "sizes": np.asarray([1, 1, 1, 3])}
    attributes = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    node = helper.make_node("Resize", ["x", *constants], ["y"], **attributes)
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], constants, opset=11)).compile()(x)["y"]
    np.testing.assert_array_equal(y.reshape(-1), np.floor((np.arange(3) + 0.5) * 8 / 3))


# --- random numbers --------------------------------------------------------------------------------------

DRAWN = {
    "Bernoulli": ([positive(2, 3) / 2], {}),
    "Multinomial": ([positive(2, 3)], {"sample_size": 2}),
    "RandomNormal": ([], {"shape": [2, 3]}),
    "RandomNormalLike": ([X], {}),
    "RandomUniform": ([], {"shape": [2, 3]}),
    "RandomUniformLike": ([X], {}),
    "Dropout": ([X, scalar(0.5), scalar(True, np.bool_)], {}),
}


def test_random_ops_are_all_listed():
    """Those with a seed, in any version."""
    seeded = {
        s.name for s in onnx.defs.get_all_schemas_with_history() if "seed" in s.attributes and s.domain == ""
    }
    assert {*RANDOM, "Dropout"} == seeded == set(DRAWN)
    assert not seeded & set(BY_REFERENCE)


# --- what grows ------------------------------------------------------------------------------------------

MUCH = 2**20
ONE = np.zeros((1, 1), np.float32)
# nodes' op, constants, attributes; the input x comes first where it says so
GROWING = {
    "a shape": ("ConstantOfShape", None, [ints(2**33)], {}),
    "an expansion": ("Expand", None, [scalar(1), ints(MUCH, MUCH)], {}),
    "a range": ("Range", None, [scalar(0), scalar(1e12), scalar(1)], {}),
    "repetitions": ("Tile", None, [X, ints(MUCH, MUCH, 1)], {}),
    "padding": ("Pad", None, [X, ints(0, 0, 0, 2**30, 2**30, 2)], {}),
    "broadcasting": ("Add", None, [np.zeros((2**17, 1), np.float32), np.zeros((1, 2**17), np.float32)], {}),
    "a product": ("MatMul", None, [np.zeros((2**17, 1), np.float32), np.zeros((1, 2**17), np.float32)], {}),
    "a window": ("HannWindow", None, [np.asarray(2**40)], {}),
    "a diagonal": ("EyeLike", [MUCH, MUCH], [], {}),
    "a triangle": ("Trilu", [MUCH, MUCH], [], {}),
    "positions": ("OneHot", [2], [np.asarray(2**40), np.float32([0, 1])], {}),
    "parts": ("Split", [4], [], {"num_outputs": 2**31 - 1}),
    "steps": (
        "LSTM",
        [10**9, 1, 3],
        [np.zeros((1, 8, 3), np.float32), np.zeros((1, 8, 2), np.float32)],
        {"hidden_size": 2},
    ),
    "no units": (
        "RNN",
        [2, 1, 3],
        [np.zeros((1, 0, 3), np.float32), np.zeros((1, 0, 0), np.float32)],
        {"hidden_size": 0},
    ),
    "sequences": ("ReverseSequence", [10, 3], [np.arange(10**6)], {}),
    "scales": ("Resize", [1, 1, 2, 2], [np.float32([]), np.float32([1, 1, 1e9, 1e9])], {}),
    "no elements to sample": ("GridSample", [1, 1, 0, 3], [np.zeros((1, 2, 2, 2), np.float32)], {}),
}


REFUSED_LATER = ("steps", "sequences", "scales", "no elements to sample", "no units")
"""What is refused when it is called, where nodes may run by themselves."""


@pytest.mark.parametrize("name", GROWING)
def test_small_models_that_would_grow_are_refused(name):
    kind, shape, arrays, attributes = GROWING[name]
    constants = {f"c{i}": a for i, a in enumerate(arrays)}
    opset = 18 if kind in ("Split", "Trilu", "HannWindow") else 16
    x = np.zeros(1, I64 if kind == "OneHot" else np.float32)
    nodes = [helper.make_node(kind, [*(["x"] if shape else []), *constants], ["h"], **attributes)]
    nodes.append(helper.make_node("Add", ["x", "h"], ["y"]))
    model = model_of(nodes, {"x": x}, ["y"], constants, opset=opset, shapes={"x": shape} if shape else None)
    with pytest.raises(og.UnsupportedError, match=f"{kind} ×1"):
        og.from_onnx(model, reference=name not in REFUSED_LATER)


def test_onnx_is_not_asked_for_a_list_of_sizes_as_long_as_a_number_says():
    """Its inference makes one for a Split before it looks at the outputs."""
    node = helper.make_node("Split", ["x"], ["y"], num_outputs=2**31 - 1)
    with pytest.raises(og.UnsupportedError, match="a split into 2147483647 for 1 outputs"):
        og.from_onnx(model_of([node], {"x": np.zeros(4, np.float32)}, ["y"], opset=18))


def test_attention_of_a_million_positions_is_refused():
    node = helper.make_node("Attention", ["x", "x", "x"], ["y"], is_causal=1)
    if NEWEST < 23:
        pytest.skip("ONNX has Attention from opset 23 on")
    model = model_of([node], {"x": np.zeros(1, np.float32)}, ["y"], shapes={"x": [1, 1, MUCH, 1]})
    with pytest.raises(og.UnsupportedError, match="raise fold_limit"):
        og.from_onnx(model)


def test_the_limit_is_the_users():
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["h"]), helper.make_node("Add", ["x", "h"], ["y"])]
    model = model_of(nodes, {"x": X}, ["y"], {"s": ints(2, 3, 4)})
    assert og.from_onnx(model, fold_limit=96).compile()(X)["y"].shape == X.shape
    with pytest.raises(
        og.UnsupportedError, match="takes 96 bytes, and one that is computed at import may take 95"
    ):
        og.from_onnx(model, fold_limit=95)
    for wrong in (-1, True, 1.5, "1 GB"):
        with pytest.raises(og.ArgumentTypeError, match="fold_limit must be a number of bytes"):
            og.from_onnx(model, fold_limit=wrong)


def test_many_repetitions_are_one_op():
    x = integers(2, 3)
    node = helper.make_node("Tile", ["x", "n"], ["y"])
    graph = og.from_onnx(model_of([node], {"x": x}, ["y"], {"n": ints(1000, 300)}))
    assert len(graph.ops) < 8
    np.testing.assert_array_equal(graph.compile()(x)["y"], np.tile(x, (1000, 300)))


# --- ONNX's own cases ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("way", ["inputs", "weights", "constants"])
def test_no_case_of_onnx_is_wrong(way):
    """Each is right or refused, with inputs, with weights, and as a constant; but for draws."""
    wrong = {}
    for case in cases():
        made = given(case, way)
        if made is None or case.name.startswith("test_bernoulli"):
            continue
        result = outcome(*made, case.data_sets[0][1], case.rtol, case.atol)
        if result.verdict not in ("right", "refused"):
            wrong[case.name] = result
    assert not wrong


@pytest.mark.long
def test_the_reference_is_right_where_it_is_relied_on():
    """Each op that ONNX's reference computes for us, in all versions, against onnxruntime on ONNX's cases."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    names = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    wrong = {}
    for case in cases():
        graph = case.model.graph
        kind = graph.node[0].op_type
        if len(graph.node) > 1 or kind not in BY_REFERENCE or kind in ("Cast", "CastLike"):
            continue
        feeds = {i.name: plain(v) for i, v in zip(graph.input, case.data_sets[0][0], strict=True)}
        for opset in sorted(n for n in names if n >= max(11, BY_REFERENCE[kind])):
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            model.ir_version = min(model.ir_version, 10)
            for imported in model.opset_import:
                imported.version = opset if not imported.domain else imported.version
            try:
                session = runtime.InferenceSession(
                    model.SerializeToString(), providers=["CPUExecutionProvider"]
                )
                want = session.run(None, feeds)
                got = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
            except Exception:
                continue
            for a, b in zip(got, want, strict=True):
                same = np.asarray(a).shape == np.asarray(b).shape
                if not same or (
                    np.asarray(b).dtype.kind in "fiub"
                    and not np.allclose(np.asarray(a, "f8"), np.asarray(b, "f8"), 2e-3, 1e-5, equal_nan=True)
                ):
                    wrong.setdefault((kind, opset), []).append(case.name)
    assert not wrong


def test_constants_together_take_no_more_than_they_may():
    nodes = [helper.make_node("Concat", [f"a{i}", f"a{i}"], [f"a{i + 1}"], axis=0) for i in range(16)]
    nodes += [
        helper.make_node("ReduceSum", ["a16"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    model = model_of(nodes, {"x": X}, ["y"], {"a0": np.ones(2, np.float32)}, opset=17)
    # The largest has 512 KiB, all together nearly 1 MiB.
    assert og.from_onnx(model, fold_limit=1 << 20).compile()(X)["y"].shape == X.shape
    with pytest.raises(og.UnsupportedError, match="raise fold_limit"):
        og.from_onnx(model, fold_limit=3 << 18)
