"""`from_onnx`: ops of the domain ai.onnx.ml, held against a walk through trees by hand, and against onnxruntime."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_classic import classic, results_of
from onnx_oracle import helper, model_of, onnx, rng

POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(random, count, features, classes, modes, *, one_class=False, every=False, whole=False):
    """Attributes of random trees, and the same trees as nested tuples."""
    nodes = {
        name: []
        for name in (
            *("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"),
            "missing_value_tracks_true",
        )
    }
    weights = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree, depth, numbers):
        node = numbers.pop()
        leaf = depth == 0 or random.random() < 0.2
        row = {
            "treeids": tree,
            "nodeids": node,
            "featureids": int(random.integers(features)),
            "values": float(random.integers(-2, 3)) if whole else float(random.standard_normal()),
            "modes": "LEAF" if leaf else str(random.choice(modes)),
            "truenodeids": 0,
            "falsenodeids": 0,
            "missing_value_tracks_true": int(random.integers(2)),
        }
        at = len(nodes["nodeids"])
        for name, value in row.items():
            nodes[name].append(value)
        if leaf:
            given = (
                [0]
                if one_class
                else range(classes)
                if every
                else sorted({*random.integers(classes, size=2).tolist()})
            )
            added = {c: float(np.float32(random.standard_normal())) for c in given}
            for c, value in added.items():
                for name, one in zip(
                    ("treeids", "nodeids", "ids", "weights"), (tree, node, c, value), strict=True
                ):
                    weights[name].append(one)
            return added
        nodes["truenodeids"][at] = numbers[-1]
        yes = grow(tree, depth - 1, numbers)
        nodes["falsenodeids"][at] = numbers[-1]
        no = grow(tree, depth - 1, numbers)
        return (
            row["featureids"],
            row["modes"],
            np.float32(row["values"]),
            row["missing_value_tracks_true"],
            yes,
            no,
        )

    nested = [grow(tree, 4, list(range(64))[::-1]) for tree in range(count)]
    return {f"nodes_{name}": value for name, value in nodes.items()}, weights, nested


def walked(nested, row):
    """What a tree gives for a row."""
    while isinstance(nested, tuple):
        feature, mode, split, missing, yes, no = nested
        value = row[feature]
        answer = {
            "BRANCH_LEQ": value <= split,
            "BRANCH_LT": value < split,
            "BRANCH_GTE": value >= split,
            "BRANCH_GT": value > split,
            "BRANCH_EQ": value == split,
            "BRANCH_NEQ": value != split,
        }[mode]
        nested = yes if answer or (missing and np.isnan(value)) else no
    return nested


def rows(random, count, features, *, whole=False):
    x = random.integers(-2, 3, (count, features)) if whole else random.standard_normal((count, features))
    x = x.astype(np.float32)
    x[random.random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.parametrize("seed", range(4))
def test_trees_as_they_are_walked_by_hand(seed):
    random = rng(seed)
    modes = MODES if seed % 2 else MODES[:1]
    nodes, weights, nested = trees(random, 5, 3, 2, modes, whole=bool(seed % 2))
    x = rows(random, 30, 3, whole=bool(seed % 2))
    targets = {f"target_{name}": value for name, value in weights.items()}
    model = classic(
        "TreeEnsembleRegressor", {"x": x}, n_targets=2, base_values=[1.0, -2.0], **nodes, **targets
    )
    want = np.tile([1.0, -2.0], (30, 1))
    for row, sums in zip(x, want, strict=True):
        for tree in nested:
            for target, value in walked(tree, row).items():
                sums[target] += value
    (y,) = results_of(model, {"x": x})
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=1e-6)


def test_sets_of_values_and_leaves_that_are_numbered_by_themselves():
    def tensor(name, values, dtype):
        return onnx.numpy_helper.from_array(np.asarray(values, dtype), name)

    x = np.asarray([[1, 0], [2, 0], [7, 0], [np.nan, 0], [1, 9]], np.float32)
    model = classic(
        "TreeEnsemble",
        {"x": x},
        version=5,
        n_targets=2,
        aggregate_function=1,
        nodes_featureids=[0, 1],
        nodes_splits=tensor("splits", [0, 5], np.float32),
        nodes_modes=tensor("modes", [6, 0], np.uint8),
        nodes_truenodeids=[1, 0],
        nodes_falsenodeids=[2, 1],
        nodes_trueleafs=[0, 1],
        nodes_falseleafs=[1, 1],
        leaf_targetids=[0, 1, 1],
        leaf_weights=tensor("weights", [10, 20, 30], np.float32),
        membership_values=tensor("members", [1, 7, np.nan], np.float32),
        tree_roots=[0],
    )
    (y,) = results_of(model, {"x": x})
    np.testing.assert_array_equal(y, [[10, 0], [0, 30], [10, 0], [0, 30], [0, 20]])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"nodes_truenodeids": [0, 0, 0], "nodes_falsenodeids": [2, 0, 0]}, "its trees have a cycle"),
        ({"nodes_falsenodeids": [9, 0, 0]}, "node 9 of tree 0 is not there"),
        ({"nodes_modes": ["BRANCH_X", "LEAF", "LEAF"]}, "'BRANCH_X', which is none"),
        ({"nodes_featureids": [7, 0, 0]}, "feature 7, and its input has 2"),
        ({"nodes_values": [1.0]}, "nodes_values has 1 entries for 3 nodes"),
        ({"target_ids": [0, 5]}, "target_ids must be from 0 to 0"),
        ({"n_targets": 1 << 40}, "fold_limit"),
        ({"post_transform": "SQUARE"}, "post_transform must be one of"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function must be"),
    ],
)
def test_trees_that_are_none(change, match):
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        **change,
    }
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(og.UnsupportedError, match=match):
        results_of(classic("TreeEnsembleRegressor", {"x": x}, **attributes), {"x": x})


def test_maps_are_lists_of_dicts():
    x = np.asarray([[0.25, 0.75], [1, 0]], np.float32)
    (y,) = results_of(classic("ZipMap", {"x": x}, classlabels_strings=["no", "yes"]), {"x": x})
    assert y == [{"no": 0.25, "yes": 0.75}, {"no": 1.0, "yes": 0.0}]
    compiled = og.from_onnx(classic("ZipMap", {"x": x}, classlabels_int64s=[3, 5])).compile()
    assert compiled(x)["y"] == [{3: 0.25, 5: 0.75}, {3: 1.0, 5: 0.0}]
    with pytest.raises(og.ArgumentError, match="is no tensor"):
        compiled(x, outputs=[np.zeros(2, np.float32)])


def test_a_map_goes_in():
    model = classic("DictVectorizer", {"x": np.zeros(1, np.float32)}, string_vocabulary=["a", "b", "c"])
    text, number = onnx.TensorProto.STRING, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    model.graph.input[0].type.CopyFrom(helper.make_map_type_proto(text, number))
    (y,) = results_of(model, {"x": {"c": 2.0, "a": 1.0, "z": 9.0}})
    np.testing.assert_array_equal(y, [[1, 0, 2]])
    with pytest.raises(og.ArgumentTypeError, match="a dict for a map"):
        results_of(model, {"x": np.zeros(3, np.float32)})


# --- against onnxruntime ---------------------------------------------------------------------------------


def labels(random, count, ints="classlabels_ints"):
    if random.random() < 0.5:
        return {"classlabels_strings": [f"c{i}" for i in random.permutation(count)]}
    return {ints: [int(i) for i in random.permutation(count) * 3 - 1]}


def floats(random, *shape):
    return [float(v) for v in random.standard_normal(shape).astype(np.float32).reshape(-1)]


def _tree_classifier(random):
    classes, features = int(random.integers(2, 5)), 3
    one_class = bool(classes == 2 and random.integers(2))
    nodes, weights, _ = trees(
        random, int(random.integers(1, 5)), features, classes, MODES[:1], one_class=one_class
    )
    if random.random() < 0.5:
        weights["weights"] = [abs(w) for w in weights["weights"]]
    attributes = {**nodes, **{f"class_{name}": value for name, value in weights.items()}}
    if classes == 2 and not one_class:  # onnxruntime gives 0 or 1 here, whatever labels are there
        attributes["classlabels_int64s"] = [0, 1]
    else:
        attributes |= labels(random, classes, "classlabels_int64s")
    if classes > 2 and random.random() < 0.3:
        attributes["base_values"] = floats(random, classes)
    attributes["post_transform"] = str(random.choice(POST[:4] if classes > 2 else POST[:3]))
    return {"x": rows(random, 9, features)}, attributes, 2


def _tree_regressor(random):
    targets, features = int(random.integers(1, 4)), 3
    whole = bool(random.integers(2))
    mode, based = str(random.choice(MODES)), bool(random.integers(2))
    count = int(random.integers(1, 5))
    # onnxruntime leaves out the base of a target that no leaf says anything of, against ONNX's documents.
    nodes, weights, _ = trees(random, count, features, targets, [mode], every=based, whole=whole)
    attributes = {
        **nodes,
        **{f"target_{name}": value for name, value in weights.items()},
        "n_targets": targets,
    }
    attributes["aggregate_function"] = str(random.choice(["SUM", "AVERAGE", "MIN", "MAX"]))
    attributes["post_transform"] = str(random.choice(POST[:4]))
    if based:
        attributes["base_values"] = floats(random, targets)
    return {"x": rows(random, 9, features, whole=whole)}, attributes, 1


def _linear_classifier(random):
    classes, features = int(random.integers(2, 5)), 4
    targets = 1 if classes == 2 and random.integers(2) else classes
    attributes = {"coefficients": floats(random, targets, features), "intercepts": floats(random, targets)}
    attributes |= labels(random, classes) | {
        "post_transform": str(random.choice(POST[: 4 if targets > 1 else 3]))
    }
    x = random.standard_normal((6, features)) * 2
    return {"x": x.astype(random.choice([np.float32, np.float64, np.int64]))}, attributes, 2


def _linear_regressor(random):
    targets, features = int(random.integers(1, 4)), 4
    attributes = {"coefficients": floats(random, targets, features), "targets": targets}
    attributes["post_transform"] = str(random.choice(POST[:4]))
    if random.integers(2):
        attributes["intercepts"] = floats(random, targets)
    return {"x": random.standard_normal((6, features)).astype(np.float32)}, attributes, 1


def _kernel(random):
    kind = str(random.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]))
    return {"kernel_type": kind, "kernel_params": [0.3, 0.2, float(random.integers(2, 4))]}


def _svm_regressor(random):
    features, vectors = 3, int(random.integers(4))
    attributes = _kernel(random) | {"rho": floats(random, 1), "n_supports": vectors}
    attributes["coefficients"] = floats(random, vectors or features)
    if vectors:
        attributes["support_vectors"] = floats(random, vectors, features)
    attributes["one_class"] = int(random.integers(2))
    return {"x": random.standard_normal((6, features)).astype(np.float32)}, attributes, 1


def _svm_classifier(random):
    features, classes = 3, int(random.integers(2, 5))
    counts = [int(c) for c in random.integers(1, 4, classes)]
    pairs, vectors = classes * (classes - 1) // 2, sum(counts)
    attributes = _kernel(random) | labels(random, classes) | {"rho": floats(random, pairs)}
    attributes |= {"coefficients": floats(random, classes - 1, vectors), "vectors_per_class": counts}
    attributes |= {"support_vectors": floats(random, vectors, features)}
    attributes["post_transform"] = str(random.choice(POST[:3]))
    if random.integers(2):
        attributes |= {"prob_a": floats(random, pairs), "prob_b": floats(random, pairs)}
    elif random.integers(2):
        attributes = {
            k: v for k, v in attributes.items() if k not in ("vectors_per_class", "support_vectors")
        }
        attributes |= {"coefficients": floats(random, classes, features), "rho": floats(random, 1)}
    return {"x": random.standard_normal((6, features)).astype(np.float32)}, attributes, 2


def _scaler(random):
    n = int(random.choice([1, 4]))
    x = (random.standard_normal((5, 4)) * 5).astype(
        random.choice([np.float32, np.float64, np.int64, np.int32])
    )
    return {"x": x}, {"offset": floats(random, n), "scale": floats(random, n)}, 1


def _normalizer(random):
    x = (random.standard_normal((5, 4)) * 5).astype(random.choice([np.float32, np.float64, np.int64]))
    x[2] = 0
    return {"x": x}, {"norm": str(random.choice(["MAX", "L1", "L2"]))}, 1


def _imputer(random):
    if random.integers(2):
        gone = float(random.choice([np.nan, 1.0]))
        x = random.integers(0, 3, (5, 4)).astype(np.float32)
        x[x == 2] = np.nan
        return (
            {"x": x},
            {
                "imputed_value_floats": floats(random, int(random.choice([1, 4]))),
                "replaced_value_float": gone,
            },
            1,
        )
    return (
        {"x": random.integers(0, 3, (5, 4))},
        {"imputed_value_int64s": [7, 8, 9, 10], "replaced_value_int64": 1},
        1,
    )


def _label_encoder(random):
    keys = {
        "keys_strings": ["a", "b", "c", "a"],
        "keys_int64s": [4, 2, 9, 4],
        "keys_floats": [0.5, float("nan"), 2.0, 0.5],
    }
    values = {
        "values_strings": (["x", "y", "z", "w"], {"default_string": "none"}),
        "values_int64s": ([1, 2, 3, 4], {"default_int64": -7}),
        "values_floats": ([1.5, 2.5, 3.5, 4.5], {"default_float": -0.5}),
    }
    key = str(random.choice(list(keys)))
    value = str(random.choice(list(values)))
    x = {
        "keys_strings": np.asarray([["a", "c"], ["q", "b"]], object),
        "keys_int64s": np.asarray([[4, 9], [3, 2]]),
        "keys_floats": np.asarray([[0.5, 2], [1, 0.25]], np.float32),
    }[key]
    return (
        {"x": x},
        {key: keys[key], value: values[value][0], **(values[value][1] if random.integers(2) else {})},
        1,
    )


def _one_hot(random):
    if random.integers(2):
        return {"x": np.asarray([["a", "b"], ["q", "a"]], object)}, {"cats_strings": ["b", "a", "c"]}, 1
    dtype = random.choice([np.int64, np.float32, np.float64])
    return {"x": random.integers(-3, 4, (3, 2)).astype(dtype)}, {"cats_int64s": [2, -1, 3]}, 1


def _extractor(random):
    x = random.standard_normal((4, 5) if random.integers(2) else (5,)).astype(np.float32)
    return {"x": x, "i": random.integers(0, 5, (1, 3))}, {}, 1


def _binarizer(random):
    return {"x": random.standard_normal((4, 5)).astype(np.float32)}, {"threshold": 0.25}, 1


def _vectorizer(random):
    inputs = {
        "a": random.standard_normal((3, 2)).astype(np.float32),
        "b": random.standard_normal((3, 3)).astype(np.float32),
    }
    return inputs, {"inputdimensions": [2, 3]}, 1


def _category_mapper(random):
    x = np.asarray(["a", "z", "b"], object) if random.integers(2) else np.asarray([5, 6, 1])
    return (
        {"x": x},
        {"cats_strings": ["a", "b"], "cats_int64s": [5, 6], "default_int64": -3, "default_string": "?"},
        1,
    )


DRAWN = {
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "SVMRegressor": _svm_regressor,
    "SVMClassifier": _svm_classifier,
    "Scaler": _scaler,
    "Normalizer": _normalizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "OneHotEncoder": _one_hot,
    "ArrayFeatureExtractor": _extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _vectorizer,
    "CategoryMapper": _category_mapper,
}


@pytest.mark.parametrize("kind", DRAWN)
def test_as_onnxruntime_has_it(kind):
    runtime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime is the oracle; install the extra 'bench'"
    )
    runtime.set_default_logger_severity(4)
    for seed in range(12):
        inputs, attributes, outputs = DRAWN[kind](rng(seed))
        names = ["y", "z"][:outputs]
        model = classic(kind, inputs, names, version=2 if kind == "LabelEncoder" else 3, **attributes)
        session = runtime.InferenceSession(
            _typed(model).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        for mine, want in zip(results_of(model, inputs), session.run(None, inputs), strict=True):
            said = f"{kind}, seed {seed}"
            assert mine.shape == want.shape, said
            assert mine.dtype == want.dtype, said
            if want.dtype.kind == "f":
                # The iteration for probabilities ends where they change by less than 0.005.
                close = 5e-3 if "prob_a" in attributes else 2e-5
                np.testing.assert_allclose(mine, want, rtol=close, atol=close, err_msg=said)
            else:
                np.testing.assert_array_equal(mine, want, err_msg=said)


def _typed(model):
    """With what onnxruntime wants to know of outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.output:
        info.ClearField("type")
    return onnx.shape_inference.infer_shapes(copy)


def test_a_function_of_another_op_set_than_the_model():
    function = helper.make_function(
        "own",
        "double",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 14)],
    )
    node = helper.make_node("double", ["x"], ["y"], domain="own")
    x = np.ones((2, 3), np.float32)
    model = model_of([node], {"x": x}, ["y"], opset=17, functions=[function])
    model.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(results_of(model, {"x": x})[0], x + x)


def test_a_model_of_open_sizes_that_computes_nothing():
    x = np.ones((2, 3), np.float32)
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": x}, ["y"], shapes={"x": ("n", 3)})
    np.testing.assert_array_equal(results_of(model, {"x": x})[0], x)
