"""What classifiers and regressors of ONNX's domain `ai.onnx.ml` do to their scores, and the labels that they choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.values import format_value
from ..importing.translation import Unmapped
from ..runtime.arrays import Array

ALMOST_ZERO = 1e-7
"""Scores nearer to 0 stay there in `SOFTMAX_ZERO`."""


def logistic(scores: Array) -> Array:
    """1 / (1 + exp(-x)), without an overflow."""
    above = 1 / (1 + np.exp(-np.abs(scores)))
    return np.where(scores < 0, 1 - above, above).astype(scores.dtype)


def _probit(scores: Array) -> Array:
    """Winitzki's approximation, which onnxruntime and ONNX's reference have."""
    x = (2 * scores - 1).astype(np.float32)
    with np.errstate(all="ignore"):
        log = np.log((1 - x) * (1 + x))
        v = 2 / (np.float32(3.14159) * np.float32(0.147)) + np.float32(0.5) * log
        root = np.sqrt(np.sqrt(v * v - log / np.float32(0.147)) - v)
        return (np.float32(np.sqrt(2)) * np.where(x < 0, -root, root)).astype(scores.dtype)


def _softmax(scores: Array) -> Array:
    with np.errstate(all="ignore"):
        powers = np.asarray(np.exp(scores - scores.max(axis=1, keepdims=True)))
        return powers / powers.sum(axis=1, keepdims=True)


def _softmax_zero(scores: Array) -> Array:
    """Softmax over the scores that are not 0."""
    with np.errstate(all="ignore"):
        largest = np.asarray(scores.max(axis=1, keepdims=True))
        there = np.abs(scores) > ALMOST_ZERO
        powers = np.multiply(scores, np.exp(-largest))
        powers[there] = np.exp(scores - largest)[there]
        return powers / np.where(there, powers, 0).sum(axis=1, keepdims=True)


def _same(scores: Array) -> Array:
    return scores


TRANSFORMS: Mapping[str, Callable[[Array], Array]] = {
    "NONE": _same,
    "LOGISTIC": logistic,
    "PROBIT": _probit,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
}


def transformed(scores: Array, transform: object) -> Array:
    """Scores of shape (rows, classes) after a transform.

    As onnxruntime has it, one score alone is transformed by `PROBIT` only.

    Raises:
        Unmapped: no transform.
    """
    if not isinstance(transform, str) or transform not in TRANSFORMS:
        raise Unmapped(
            f"its post_transform must be one of {', '.join(TRANSFORMS)}, got {format_value(transform)}"
        )
    if scores.shape[1] == 1 and transform != "PROBIT":
        return scores
    return TRANSFORMS[transform](scores) if scores.size else scores


def of_two(score: Array, transform: object, *, probability: bool) -> Array:
    """Scores of two classes, of shape (rows, 2), from that of the second one alone.

    Args:
        probability: whether it is one, of which 1/2 lies between the classes, and not 0.

    Raises:
        Unmapped: a transform that says nothing about one score, or none.
    """
    transformed(score, transform)
    if transform == "PROBIT":
        raise Unmapped("of two classes, it gives the score of one, which PROBIT says nothing about")
    if transform == "LOGISTIC":
        return logistic(np.concatenate([-score, score], axis=1))
    return np.concatenate([1 - score if probability else -score, score], axis=1)


def labels_of(attributes: Mapping[str, Any]) -> Array:
    """The labels of a classifier: text, or 64-bit integers.

    Raises:
        Unmapped: there are none.
    """
    for name, dtype in (
        ("classlabels_strings", object),
        ("classlabels_ints", np.int64),
        ("classlabels_int64s", np.int64),
    ):
        if attributes.get(name):
            return np.asarray(attributes[name], dtype)
    raise Unmapped("it has no labels of classes")


def rows_of(x: object) -> Array:
    """An input as rows of features, of f32 or f64.

    Raises:
        Unmapped: it is no matrix or vector of numbers.
    """
    array = np.asarray(x)
    if array.dtype.kind not in "fiub" or not 1 <= array.ndim <= 2:
        raise Unmapped(f"its input must be a matrix of numbers, got {array.dtype} of rank {array.ndim}")
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    return rows if rows.dtype == np.float64 else rows.astype(np.float32, copy=False)
