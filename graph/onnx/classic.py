"""NumPy for the ops of ONNX's domain `ai.onnx.ml`: what scikit-learn and its like are exported as.

ONNX's documents leave much open here, and its reference is slow and has half of them wrong. What is done is what
onnxruntime does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...ops.values import format_value
from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array
from .calls import Call
from .scores import labels_of, of_two, rows_of, transformed
from .support_vectors import svm_classified, svm_regressed
from .trees import Forest, classic, modern
from .types import is_array

POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Transforms of scores, by their numbers in TreeEnsemble."""
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""What becomes of the values of all trees, by its number there."""


# --- trees -----------------------------------------------------------------------------------------------


def _numbered(names: Sequence[str], number: object, attribute: str) -> str:
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise Unmapped(f"its {attribute} must be from 0 to {len(names) - 1}, got {format_value(number)}")
    return names[number]


def _trees_regressed(call: Call) -> list[Array]:
    rows, targets = rows_of(call[0]), _targets(call)
    forest: Forest = call.once("forest", lambda: classic(call.attributes, "target", targets, call.limit))
    total, _ = forest.totals(rows, call.get("aggregate_function", "SUM"), call.limit)
    base = _base(call)
    if len(base) == targets:
        total += base
    return [transformed(total.astype(np.float32), call.get("post_transform", "NONE"))]


def _targets(call: Call) -> int:
    targets = call.get("n_targets", 1)
    if not isinstance(targets, int) or targets < 1:
        raise Unmapped(f"its n_targets must be an integer above 0, got {format_value(targets)}")
    return targets


def _base(call: Call) -> Array:
    base = call.get("base_values_as_tensor")
    return np.asarray(call.get("base_values", ()) if base is None else base, np.float64).reshape(-1)


def _trees_classified(call: Call) -> list[Array]:
    rows, labels = rows_of(call[0]), labels_of(call.attributes)
    classes = len(labels)
    forest: Forest = call.once("forest", lambda: classic(call.attributes, "class", classes, call.limit))
    total, there = forest.totals(rows, "SUM", call.limit)
    base, transform = _base(call), call.get("post_transform", "NONE")
    if classes == 2:
        chosen, scores = _of_two(forest, total, there, base, transform)
        return [labels[chosen], scores]
    if len(base) > classes:
        raise Unmapped(f"its base_values has {len(base)} entries for {classes} classes")
    total[:, : len(base)] += base
    there[:, : len(base)] = True
    scores = total.astype(np.float32)
    if classes == 1:
        chosen = (scores[:, 0] > 0).astype(np.int64)
        named = chosen if labels.dtype == np.int64 else chosen.astype(str).astype(object)
        return [named, transformed(scores, transform)]
    chosen = np.where(there, scores, -np.inf).argmax(axis=1)
    return [labels[chosen], transformed(scores, transform)]


def _of_two(forest: Forest, total: Array, there: Array, base: Array, transform: str) -> tuple[Array, Array]:
    """The classes chosen, and scores, of two classes: trees may give that of one of them alone."""
    one_sided, positive = forest.one_sided, forest.positive
    second = there[:, 1]
    pushed = np.zeros(len(total), np.bool_)
    if len(base) == 2:
        total = np.where(
            second[:, None],
            np.stack([-(base[1] + total[:, 0]), base[1] + total[:, 0]], 1) if one_sided else total + base,
            total + base,
        )
    elif len(base) == 1:
        total = total + np.asarray([base[0], 0])
        pushed = ~second
    elif not len(base):
        pushed = ~second
    scores = total.astype(np.float32)
    deciding = np.where(second, scores[:, 1], scores[:, 0])
    chosen = (deciding > (0.5 if one_sided and positive else 0)).astype(np.int64)
    made = transformed(scores, transform)
    if pushed.any():
        if len(base) and not one_sided:
            raise Unmapped("of two classes, its trees give the score of one for some rows")
        sides = of_two(scores[:, :1], transform, probability=one_sided and positive)
        made = np.where(pushed[:, None], sides, made)
    return chosen, made


def _trees(call: Call) -> list[Array]:
    rows = rows_of(call[0])
    forest: Forest = call.once("forest", lambda: modern(call.attributes, call.limit))
    by = _numbered(AGGREGATES, call.get("aggregate_function", 1), "aggregate_function")
    total, _ = forest.totals(rows, by, call.limit)
    transform = _numbered(POST, call.get("post_transform", 0), "post_transform")
    return [transformed(total.astype(call[0].dtype), transform)]


# --- linear models ---------------------------------------------------------------------------------------


def _factors(call: Call, targets: int, features: int) -> tuple[Array, Array]:
    """Coefficients of shape (features, targets), and intercepts, which may be empty."""
    coefficients, intercepts = call.floats("coefficients"), call.floats("intercepts")
    if len(coefficients) != targets * features:
        raise Unmapped(
            f"its coefficients has {len(coefficients)} entries, and {targets} rows of {features} features are needed"
        )
    if len(intercepts) not in (0, targets):
        raise Unmapped(f"its intercepts has {len(intercepts)} entries for {targets} rows")
    return coefficients.reshape(targets, -1).T, intercepts


def _products(call: Call, targets: int) -> Array:
    rows = rows_of(call[0]).astype(np.float32, copy=False)
    features = rows.shape[1]
    coefficients, intercepts = call.once(f"factors of {features}", lambda: _factors(call, targets, features))
    made = rows @ coefficients
    return made + intercepts if len(intercepts) else made


def _linear(call: Call) -> list[Array]:
    targets = call.get("targets", 1)
    if not isinstance(targets, int) or targets < 1:
        raise Unmapped(f"its targets must be an integer above 0, got {format_value(targets)}")
    return [transformed(_products(call, targets), call.get("post_transform", "NONE"))]


def _linear_classified(call: Call) -> list[Array]:
    labels = call.once("labels", lambda: labels_of(call.attributes))
    transform = call.get("post_transform", "NONE")
    scores = _products(call, max(1, len(call.floats("intercepts"))))
    if scores.shape[1] > 1:
        if len(labels) < scores.shape[1]:
            raise Unmapped(f"it has {len(labels)} labels for {scores.shape[1]} classes")
        return [labels[scores.argmax(axis=1)], transformed(scores, transform)]
    if len(labels) != 2:
        labels = np.asarray([0, 1], np.int64).astype(labels.dtype)
        labels = labels if labels.dtype == np.int64 else np.asarray(["0", "1"], object)
        return [labels[(scores[:, 0] > 0).astype(np.int64)], transformed(scores, transform)]
    return [labels[(scores[:, 0] > 0).astype(np.int64)], of_two(scores, transform, probability=True)]


# --- scaling ---------------------------------------------------------------------------------------------


def _spread(call: Call, name: str, features: int) -> Array:
    values = call.floats(name)
    if len(values) not in (1, features):
        raise Unmapped(f"its {name} has {len(values)} entries for {features} features")
    return values


def _scaled(call: Call) -> list[Array]:
    x = call[0]
    rows = x if x.dtype == np.float64 else x.astype(np.float32, copy=False)
    features = x.shape[-1] if x.ndim else 1
    made = (rows - _spread(call, "offset", features)) * _spread(call, "scale", features)
    return [made.astype(np.float32, copy=False)]


def _normalized(call: Call) -> list[Array]:
    x, norm = rows_of(call[0]), call.get("norm", "MAX")
    with np.errstate(all="ignore"):
        if norm == "MAX":
            size = x.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min)
        elif norm == "L1":
            size = np.abs(x).sum(axis=1, keepdims=True)
        elif norm == "L2":
            size = np.sqrt((x * x).sum(axis=1, keepdims=True))
        else:
            raise Unmapped(f"its norm must be MAX, L1 or L2, got {format_value(norm)}")
        made = x / np.where(size == 0, 1, size)
    return [made.astype(np.float32, copy=False).reshape(call[0].shape)]


def _imputed(call: Call) -> list[Array]:
    x = call[0]
    floats = x.dtype.kind == "f"
    values = np.asarray(call.get("imputed_value_floats" if floats else "imputed_value_int64s", ()), x.dtype)
    replaced = call.get("replaced_value_float" if floats else "replaced_value_int64", 0)
    features = x.shape[-1 if x.ndim < 2 else 1] if x.ndim else 1
    if not len(values):
        raise Unmapped(f"it has no values for an input of {x.dtype}")
    if len(values) != features or x.ndim > 2:
        values = values[0]
    gone = np.isnan(x) if floats and np.isnan(replaced) else x == x.dtype.type(replaced)
    return [np.where(gone, values, x)]


def _binary(call: Call) -> list[Array]:
    x = call[0]
    return [(x > call.get("threshold", 0.0)).astype(x.dtype)]


def _chosen(call: Call) -> list[Array]:
    """ArrayFeatureExtractor: features by their numbers."""
    x, places = call[0], call[1].reshape(-1)
    if x.ndim == 0 or not places.size:
        raise Unmapped("its input must be at least a vector, and its indices at least one")
    if not 0 <= places.min() <= places.max() < x.shape[-1]:
        raise Unmapped(f"its indices must be from 0 to {x.shape[-1] - 1}")
    made = x[..., places]
    return [made.reshape(1, -1) if x.ndim == 1 else made]


def _joined(call: Call) -> list[Array]:
    """FeatureVectorizer: features of all inputs in a row, as many of each as is said."""
    wanted = [int(size) for size in call.get("inputdimensions", ())]
    if len(wanted) != len(call.inputs) or min(wanted, default=0) < 0:
        raise Unmapped("its inputdimensions must have one number of features for each input")
    parts = [rows_of(call[number]) for number in range(len(wanted))]
    if len({len(part) for part in parts}) != 1:
        raise Unmapped("its inputs have different numbers of rows")
    check_room((len(parts[0]), sum(wanted)), np.dtype(np.float32), call.limit)
    made = np.zeros((len(parts[0]), sum(wanted)), np.float32)
    start = 0
    for part, size in zip(parts, wanted, strict=True):
        there = min(size, part.shape[1])
        made[:, start : start + there] = part[:, :there]
        start += size
    return [made]


# --- categories ------------------------------------------------------------------------------------------


def looked_up(x: Array, keys: Sequence[Any] | Array, *, last: bool = False) -> Array:
    """The place of each element among keys; -1 where it is none.

    Args:
        last: whether of equal keys the last one counts.
    """
    numbered = list(enumerate(keys))
    if x.dtype.kind in "OUT":
        places = {str(key): number for number, key in (numbered if last else reversed(numbered))}
        found = [places.get(str(value), -1) for value in x.reshape(-1)]
        return np.asarray(found, np.int64).reshape(x.shape)
    values = np.asarray(keys)
    order = np.argsort(values, kind="stable")
    ordered, flat = values[order], x.reshape(-1)
    if not len(ordered):
        return np.full(x.shape, -1)
    place = np.searchsorted(ordered, flat, "right") - 1 if last else np.searchsorted(ordered, flat)
    place = np.clip(place, 0, len(ordered) - 1)
    same = ordered[place] == flat
    if ordered.dtype.kind == "f":
        same |= np.isnan(ordered[place]) & np.isnan(flat)
    return np.where(same, order[place], -1).reshape(x.shape)


KEYS = ("tensor", "strings", "int64s", "floats")
DEFAULTS = {"strings": "_Unused", "int64s": -1, "floats": -0.0}


def _encoded(call: Call) -> list[Array]:
    """LabelEncoder."""
    x = call[0]
    if "classes_strings" in call.attributes:
        return [_mapped(x, list(range(len(call.get("classes_strings")))), call.get("classes_strings"), call)]
    keys = next((call.get(f"keys_{kind}") for kind in KEYS if call.get(f"keys_{kind}") is not None), None)
    kind = next((kind for kind in KEYS if call.get(f"values_{kind}") is not None), "")
    if keys is None or not kind:
        raise Unmapped("it has no keys or no values")
    values = np.asarray(call.get(f"values_{kind}"))
    dtype = {"strings": np.dtype(object), "int64s": np.dtype(np.int64), "floats": np.dtype(np.float32)}.get(
        kind, values.dtype
    )
    values = values.astype(dtype).reshape(-1)
    default = call.get("default_tensor")
    if default is None:
        form = {"O": "strings", "i": "int64s", "f": "floats"}.get(dtype.kind, "int64s")
        default = call.get("default_" + form.removesuffix("s"), DEFAULTS[form])
    default = np.asarray(default).reshape(-1)
    if len(keys) != len(values) or not len(default):
        raise Unmapped(f"it has {len(keys)} keys for {len(values)} values")
    text = x.dtype.kind in "OUT"
    if text != isinstance(
        np.asarray(keys).reshape(-1)[:1].tolist()[:1] and np.asarray(keys).reshape(-1)[0], str
    ):
        raise Unmapped(f"its keys are of another type than its input of {x.dtype}")
    known = keys if text else np.asarray(keys, x.dtype if x.dtype.kind == "f" else None).reshape(-1)
    place = looked_up(x, known)
    return [np.concatenate([values, default.astype(dtype)[:1]])[place]]


def _mapped(x: Array, numbers: Sequence[int], texts: Sequence[str], call: Call) -> Array:
    """From texts to numbers or from numbers to texts, as they stand side by side."""
    if len(numbers) != len(texts):
        raise Unmapped(f"it has {len(numbers)} numbers for {len(texts)} texts")
    if x.dtype.kind in "OUT":
        values = np.asarray([*numbers, call.get("default_int64", -1)], np.int64)
        return values[looked_up(x, texts, last=True)]
    values = np.asarray([*texts, call.get("default_string", "_Unused")], object)
    return values[looked_up(x, numbers, last=True)]


def _categories(call: Call) -> list[Array]:
    """CategoryMapper."""
    return [_mapped(call[0], call.get("cats_int64s", ()), call.get("cats_strings", ()), call)]


def _one_hot(call: Call) -> list[Array]:
    x = call[0]
    text = x.dtype.kind in "OUT"
    cats = call.get("cats_strings" if text else "cats_int64s") or ()
    if not len(cats):
        raise Unmapped(f"it has no categories for an input of {x.dtype}")
    check_room((*x.shape, len(cats)), np.dtype(np.float32), call.limit)
    with np.errstate(invalid="ignore"):
        place = looked_up(x if text else x.astype(np.int64), cats, last=True)
    if not call.get("zeros", 1) and (place < 0).any():
        raise Unmapped(
            "its input has a category that is none of its own, which its attribute zeros rules out"
        )
    return [(place[..., None] == np.arange(len(cats))).astype(np.float32)]


# --- maps ------------------------------------------------------------------------------------------------


def _maps(call: Call) -> list[Any]:
    """ZipMap: a dict from labels to scores for each row."""
    names = call.get("classlabels_strings") or call.get("classlabels_int64s") or ()
    rows = rows_of(call[0])
    if len(names) != rows.shape[1]:
        raise Unmapped(f"it has {len(names)} labels for {rows.shape[1]} scores")
    return [[dict(zip(names, row, strict=True)) for row in rows.tolist()]]


def _as_map(call: Call) -> Mapping[Any, Any]:
    value = call.optional(0)
    if not isinstance(value, Mapping):
        raise Unmapped("its input must be a map")
    return cast("Mapping[Any, Any]", value)


def _from_words(call: Call) -> list[Array]:
    """DictVectorizer: the values of a map in the order of a vocabulary."""
    given = _as_map(call)
    words = call.get("string_vocabulary") or call.get("int64_vocabulary") or ()
    first = next(iter(given.values()), 0.0)
    text = isinstance(first, str)
    dtype = object if text else np.int64 if isinstance(first, int | np.integer) else np.float32
    if isinstance(first, np.float64):
        dtype = np.float64
    return [np.asarray([[given.get(word, "" if text else 0) for word in words]], dtype)]


def _cast_map(call: Call) -> list[Array]:
    given = _as_map(call)
    to = call.get("cast_to", "TO_FLOAT")
    form = {"TO_FLOAT": float, "TO_STRING": str, "TO_INT64": int}.get(to)
    sparse = call.get("map_form", "DENSE") == "SPARSE"
    if form is None:
        raise Unmapped(f"its cast_to must be TO_FLOAT, TO_STRING or TO_INT64, got {format_value(to)}")
    dtype = {"TO_FLOAT": np.float32, "TO_STRING": object, "TO_INT64": np.int64}[to]
    if sparse:
        count = int(call.get("max_map", 1))
        if count < 1:
            raise Unmapped(f"its max_map must be above 0, got {count}")
        check_room((count,), np.dtype(dtype), call.limit)
        values = [form()] * count
        for key, value in given.items():
            if not 0 <= int(key) < count:
                raise Unmapped(f"its map has the key {format_value(key)}, and max_map is {count}")
            values[int(key)] = form(value)
    else:
        values = [form(given[key]) for key in sorted(given)]
    return [np.asarray([values], dtype)]


ML = "ai.onnx.ml."
_KERNELS: Mapping[str, Callable[[Call], list[Any]]] = {
    "ArrayFeatureExtractor": _chosen,
    "Binarizer": _binary,
    "CastMap": _cast_map,
    "CategoryMapper": _categories,
    "DictVectorizer": _from_words,
    "FeatureVectorizer": _joined,
    "Imputer": _imputed,
    "LabelEncoder": _encoded,
    "LinearClassifier": _linear_classified,
    "LinearRegressor": _linear,
    "Normalizer": _normalized,
    "OneHotEncoder": _one_hot,
    "SVMClassifier": svm_classified,
    "SVMRegressor": svm_regressed,
    "Scaler": _scaled,
    "TreeEnsemble": _trees,
    "TreeEnsembleClassifier": _trees_classified,
    "TreeEnsembleRegressor": _trees_regressed,
    "ZipMap": _maps,
}


def _of_arrays(call: Call, kernel: Callable[[Call], list[Any]]) -> list[Any]:
    """Runs a kernel that takes arrays."""
    for value in call.inputs:
        if not is_array(value):
            raise Unmapped("its inputs must be tensors")
    return kernel(call)


OF_MAPS = ("CastMap", "DictVectorizer")
CLASSIC: Mapping[str, Callable[[Call], list[Any]]] = {
    ML + name: kernel if name in OF_MAPS else partial(_of_arrays, kernel=kernel)
    for name, kernel in _KERNELS.items()
}
"""Op → its outputs."""
