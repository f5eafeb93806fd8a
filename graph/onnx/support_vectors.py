"""Support vector machines, of ONNX's domain `ai.onnx.ml`."""

from __future__ import annotations

import numpy as np

from ...ops.values import format_value
from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array
from .calls import Call
from .scores import labels_of, of_two, rows_of, transformed

ROUNDS = 100
"""Of the iteration for probabilities of several classes."""
PLACES = 1 << 22
"""Elements of differences between rows and vectors that are made at once."""


def _kernels(call: Call, rows: Array, vectors: Array, kind: str) -> Array:
    """The kernel's value of each row and vector."""
    check_room((len(rows), len(vectors)), np.dtype(np.float32), call.limit)
    gamma, offset, degree = (*call.floats("kernel_params")[:3], 0, 0, 0)[:3]
    if kind == "LINEAR":
        return rows @ vectors.T
    with np.errstate(all="ignore"):
        if kind == "POLY":
            return (gamma * (rows @ vectors.T) + offset) ** degree
        if kind == "SIGMOID":
            return np.tanh(gamma * (rows @ vectors.T) + offset)
        if kind != "RBF":
            raise Unmapped(f"its kernel_type must be LINEAR, POLY, RBF or SIGMOID, got {format_value(kind)}")
        made = np.empty((len(rows), len(vectors)), np.float32)
        step = max(1, PLACES // max(1, vectors.size))
        for start in range(0, len(rows), step):
            part = rows[start : start + step, None] - vectors
            made[start : start + step] = np.exp(-gamma * np.einsum("nvf,nvf->nv", part, part))
        return made


def _vectors(call: Call, count: int, features: int) -> Array:
    vectors = call.floats("support_vectors")
    if count < 1 or len(vectors) != count * features:
        raise Unmapped(
            f"its support_vectors has {len(vectors)} entries, and {count} vectors of {features} features are needed"
        )
    return vectors.reshape(count, features)


def _rows(call: Call) -> Array:
    return rows_of(call[0]).astype(np.float32, copy=False)


def svm_regressed(call: Call) -> list[Array]:
    """SVMRegressor: one value for each row.

    Raises:
        Unmapped: attributes that say none.
    """
    rows, count = _rows(call), call.get("n_supports", 0)
    coefficients, rho = call.floats("coefficients"), call.floats("rho")
    if count > 0:
        vectors = _vectors(call, count, rows.shape[1])
        kernels = _kernels(call, rows, vectors, call.get("kernel_type", "LINEAR"))
    else:
        kernels = rows
    if not len(rho) or len(coefficients) != kernels.shape[1]:
        raise Unmapped(
            f"its coefficients has {len(coefficients)} entries for {kernels.shape[1]}, or its rho none"
        )
    made = kernels @ coefficients[:, None] + rho[0]
    if call.get("one_class", 0):
        made = np.where(made > 0, np.float32(1), np.float32(-1))
    return [made]


def svm_classified(call: Call) -> list[Array]:
    """SVMClassifier: labels, and scores of classes or of pairs of classes.

    Raises:
        Unmapped: attributes that say none.
    """
    rows, labels = _rows(call), labels_of(call.attributes)
    classes, transform = len(labels), call.get("post_transform", "NONE")
    coefficients, rho = call.floats("coefficients"), call.floats("rho")
    counts = [int(count) for count in call.get("vectors_per_class", ())]
    a, b = call.floats("prob_a"), call.floats("prob_b")
    if sum(counts) == 0:
        if not len(rho) or len(coefficients) != classes * rows.shape[1]:
            raise Unmapped(
                f"its coefficients has {len(coefficients)} entries for {classes} classes, or its rho none"
            )
        scores = rows @ coefficients.reshape(classes, -1).T + rho[0]
        chosen = scores.argmax(axis=1)
        if classes == 2 and not len(a):
            least = 0.5 if (coefficients >= 0).all() else np.nextafter(0, 1)
            chosen = np.where(scores.max(axis=1) >= least, 1, chosen)
        return [labels[chosen], transformed(scores, transform)]
    pairs = classes * (classes - 1) // 2
    if (
        len(counts) != classes
        or min(counts) < 0
        or len(rho) < pairs
        or len(coefficients) < sum(counts) * (classes - 1)
    ):
        raise Unmapped("its vectors_per_class, rho and coefficients don't fit its labels")
    if len(a) != len(b) or 0 < len(a) < pairs:
        raise Unmapped(
            f"its prob_a has {len(a)} entries and its prob_b {len(b)}, for {pairs} pairs of classes"
        )
    kernels = _kernels(
        call, rows, _vectors(call, sum(counts), rows.shape[1]), call.get("kernel_type", "LINEAR")
    )
    scores, votes = _pairwise(kernels, counts, coefficients, rho)
    named = labels[votes.argmax(axis=1)]
    if len(a):
        return [named, transformed(_probabilities(scores, classes, a, b), transform)]
    if classes != 2:
        return [named, transformed(scores, transform)]
    return [named, of_two(scores, transform, probability=transform != "NONE")]


def _pairwise(kernels: Array, counts: list[int], coefficients: Array, rho: Array) -> tuple[Array, Array]:
    """The score of each pair of classes, and how many pairs each class has won."""
    classes, total = len(counts), sum(counts)
    table = coefficients[: total * (classes - 1)].reshape(classes - 1, total).astype(np.float64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    votes = np.zeros((len(kernels), classes), np.int64)
    scores: list[Array] = []
    for i in range(classes):
        for j in range(i + 1, classes):
            first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            made = kernels[:, first] @ table[j - 1, first] + kernels[:, second] @ table[i, second]
            made += rho[len(scores)]
            votes[:, i] += made > 0
            votes[:, j] += made <= 0
            scores.append(made.astype(np.float32))
    return np.stack(scores, 1), votes


def _probabilities(scores: Array, classes: int, a: Array, b: Array) -> Array:
    """Probabilities of classes from the scores of their pairs.

    Source: Wu, Lin and Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling, 2004, the
    second algorithm, as libsvm has it.
    """
    pairs = scores.shape[1]
    with np.errstate(over="ignore"):
        likely = 1 / (1 + np.exp((scores * a[:pairs] + b[:pairs]).astype(np.float64)))
    likely = np.clip(likely, 1e-7, 1 - 1e-7)
    r = np.zeros((len(scores), classes, classes))
    upper = np.triu_indices(classes, 1)
    r[:, upper[0], upper[1]] = likely
    r[:, upper[1], upper[0]] = 1 - likely
    q = -np.swapaxes(r, 1, 2) * r
    diagonal = np.arange(classes)
    q[:, diagonal, diagonal] = (r**2).sum(axis=1)
    p = np.full((len(scores), classes), 1 / classes)
    for _ in range(ROUNDS):
        qp = np.einsum("nij,nj->ni", q, p)
        pqp = (p * qp).sum(axis=1)
        going = np.abs(qp - pqp[:, None]).max(axis=1, initial=0) >= 0.005 / classes
        if not going.any():
            break
        p[going] = _improved(p[going], q[going], qp[going], pqp[going])
    return p.astype(np.float32)


def _improved(p: Array, q: Array, qp: Array, pqp: Array) -> Array:
    """One round over all classes."""
    for i in range(p.shape[1]):
        diff = (pqp - qp[:, i]) / q[:, i, i]
        p[:, i] += diff
        pqp = (pqp + diff * (diff * q[:, i, i] + 2 * qp[:, i])) / (1 + diff) ** 2
        qp = (qp + diff[:, None] * q[:, i]) / (1 + diff[:, None])
        p = p / (1 + diff[:, None])
    return p
