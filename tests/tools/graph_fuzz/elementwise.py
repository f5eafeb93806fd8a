"""Elementwise ops as roots and followers: functions, their gradients, binaries, biases and rectifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onednn_graph.tools.op_examples import CALLS

from .drawing import SCHEMAS, Draw, Impossible

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Clamp": {"min": -1.25, "max": 1.75},
    "Elu": {"alpha": 0.5},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyReLU": {"alpha": 0.25},
    "SoftPlus": {"beta": 1.5},
    "ClampBackward": {"min": -1.25, "max": 1.75},
    "HardSigmoidBackward": {"alpha": 0.3, "beta": 0.4},
    "SoftPlusBackward": {"beta": 1.5},
}
"""Where other numbers find more than those of the op's example."""
FUNCTIONS: dict[str, dict[str, Any]] = {
    kind: ATTRIBUTES.get(kind, dict(CALLS[kind].attributes))
    for kind, schema in SCHEMAS.items()
    if schema.family == "eltwise"
}
ELTWISE = {kind: attributes for kind, attributes in FUNCTIONS.items() if not kind.endswith("Backward")}
ELTWISE_BACKWARD = {kind: attributes for kind, attributes in FUNCTIONS.items() if kind not in ELTWISE}
DOMAINS = {"Log": "positive", "Sqrt": "positive", "Pow": "positive"}
BINARY = ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference")


def small(draw: Draw, x: int, most: float) -> bool:
    values = draw.values[x]
    return bool(values.size == 0 or np.abs(values).max() <= most)


def positive(draw: Draw, x: int) -> bool:
    values = draw.values[x]
    return bool(values.size == 0 or values.min() > 0.05)


def apart(draw: Draw, x: int) -> bool:
    """Whether no element is near zero."""
    values = draw.values[x]
    return bool(values.size == 0 or np.abs(values).min() > 0.05)


def eltwise(draw: Draw, kind: str, x: int | None) -> list[int]:
    attributes = dict(ELTWISE[kind])
    if kind == "GELU" and draw.chance(0.4):
        attributes = {"mode": "gelu_tanh"}
    if kind == "Pow":
        attributes = {"beta": draw.rng.choice((2.0, 0.5, -1.0, 3.0, 1.0, 0.0, -0.5, 1.7))}
    if kind == "SoftPlus":
        attributes = {"beta": draw.rng.choice((1.0, 2.0, 1.5, -1.0, 0.5))}
    if x is None:
        x = draw.input(draw.shape(), data=DOMAINS.get(kind, "any"))
    elif (
        (kind in ("Exp", "SoftPlus", "Mish") and not small(draw, x, 8))
        or (kind in ("Square", "Pow") and not small(draw, x, 60))
        or (kind in DOMAINS and not positive(draw, x))
        or (kind == "Reciprocal" and not apart(draw, x))
    ):
        raise Impossible
    return draw.ops(kind, x, **attributes)


def eltwise_backward(draw: Draw, kind: str, x: int | None) -> list[int]:
    attributes = dict(ELTWISE_BACKWARD[kind])
    if kind == "GELUBackward" and draw.chance(0.4):
        attributes = {"mode": "gelu_tanh"}
    data = "any"
    if kind in (
        "ClampBackward",
        "EluBackward",
        "ReLUBackward",
        "SigmoidBackward",
        "SqrtBackward",
        "TanhBackward",
    ):
        attributes["use_dst"] = draw.chance(0.5)
        if attributes["use_dst"]:
            data = {"SigmoidBackward": "fraction", "TanhBackward": "fraction", "EluBackward": "fraction"}.get(
                kind, data
            )
    data = "positive" if kind == "SqrtBackward" else data
    shape = draw.shape() if x is None else draw.dims(x)
    src = draw.input(shape, data=data)
    return draw.ops(kind, src, x if x is not None else draw.input(shape), **attributes)


def binary(draw: Draw, kind: str, x: int | None) -> list[int]:
    if x is None:
        x = draw.input(draw.shape())
    types = draw.type
    if kind in ("Add", "Subtract", "Multiply", "Divide") and draw.chance(0.07):
        types = draw.rng.choice(("f32", "bf16", "f16"))
    other = draw.operand(draw.dims(x), data="power" if kind == "Divide" else "any", kind=types)
    pair = (x, other)
    if draw.chance(0.3) and (kind != "Divide" or apart(draw, x)):
        pair = (other, x)
    return draw.ops(kind, *pair)


def greater_equal(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    return draw.ops(kind, x, draw.operand(draw.dims(x)))


def select(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    shape = draw.dims(x)
    condition = draw.operand(shape, kind="boolean")
    other = draw.operand(shape)
    return draw.ops(kind, condition, *((x, other) if draw.chance(0.5) else (other, x)))


def bias(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image() if draw.chance(0.8) else [draw.batch, draw.channels()]) if x is None else x
    if len(draw.dims(x)) < 2:
        raise Impossible
    if kind == "BiasAddBackward":
        return draw.ops(kind, x, data_format=draw.format)
    channels = draw.dims(x)[draw.channel_axis(len(draw.dims(x)))]
    return draw.ops(kind, x, draw.weights([channels]), data_format=draw.format)


def prelu(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image() if draw.chance(0.8) else draw.shape()) if x is None else x
    shape = draw.dims(x)
    if not shape:
        raise Impossible
    axis = draw.channel_axis(len(shape)) if len(shape) > 1 else 0
    slope = draw.rng.choice(
        (
            [shape[axis]],
            [1],
            [1] * len(shape),
            [d if a == axis else 1 for a, d in enumerate(shape)],
            list(shape),
            [d if draw.chance(0.5) else 1 for d in shape],
            list(shape[draw.rng.randrange(len(shape)) :]),
        )
    )
    attributes: dict[str, Any] = {"data_format": draw.format}
    weights = draw.weights(slope)
    if kind == "PReLUBackward":
        src = draw.input(shape)
        return draw.ops(kind, src, weights, x, outputs=2, **attributes)
    if draw.chance(0.3):
        attributes["per_channel_broadcast"] = draw.chance(0.5)
    return draw.ops(kind, x, weights, **attributes)
