"""Activations, products, convolutions, normalisations and look-ups of onnxruntime's own domain as ONNX's ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...importing.translation import Unmapped
from .rewriting import Rewrite, Rewriting

# --- activations -----------------------------------------------------------------------------------------


def _gelu(made: Rewriting) -> None:
    made.only(1, 1)
    made("Gelu", made.input(0), into=made.output(0))


def _bias_gelu(made: Rewriting) -> None:
    made.only(2, 1)
    made("Gelu", made("Add", made.input(0), made.input(1)), into=made.output(0))


def _fast_gelu(made: Rewriting) -> None:
    made.only(2, 1)
    x = made("Add", made.input(0), made.input(1)) if made.input(1) else made.input(0)
    made("Gelu", x, into=made.output(0), approximate="tanh")


def _quick_gelu(made: Rewriting) -> None:
    made.only(1, 1)
    alpha = made.number("alpha", made.attribute("alpha", 1.702))
    made("Mul", made.input(0), made("Sigmoid", made("Mul", made.input(0), alpha)), into=made.output(0))


def _activated(made: Rewriting, x: str, name: str, numbers: Sequence[float], into: str) -> None:
    """The last step of a fused node."""
    if name in ("Relu", "Tanh", "Sigmoid", "HardSwish") and not numbers:
        made(name, x, into=into)
    elif name == "LeakyRelu" and len(numbers) == 1:
        made(name, x, into=into, alpha=numbers[0])
    elif name == "HardSigmoid" and len(numbers) == 2:
        made(name, x, into=into, alpha=numbers[0], beta=numbers[1])
    elif name == "Clip" and len(numbers) == 2:
        low, high = (made.number(n, v) for n, v in zip(("low", "high"), numbers, strict=True))
        made(name, x, low, high, into=into)
    elif not name:
        made("Identity", x, into=into)
    else:
        raise Unmapped(f"an activation {name!r} with the parameters {list(numbers)}")


# --- convolutions and products ---------------------------------------------------------------------------


def _convolved(made: Rewriting, x: str, residual: str, into: str) -> None:
    name, numbers = made.attribute("activation", ""), list(made.attribute("activation_params", ()))
    bias = [made.input(2)] if made.input(2) else []
    y = made("Conv", x, made.input(1), *bias, **made.rest())
    if residual:
        y = made("Add", y, residual)
    _activated(made, y, name, numbers, into)


def _fused_conv(made: Rewriting) -> None:
    made.only(4, 1)
    _convolved(made, made.input(0), made.input(3), made.output(0))


def _fused_conv_of_channels_last(made: Rewriting) -> None:
    made.only(4, 1)
    residual = made.channels_first(3) if made.input(3) else ""
    last = f"{made.label}.convolved"
    _convolved(made, made.channels_first(0), residual, last)
    made.channels_last(last)


def _max_pool_of_channels_last(made: Rewriting) -> None:
    made.only(1, 1)
    made.channels_last(made("MaxPool", made.channels_first(0), **made.rest()))


def _fused_gemm(made: Rewriting) -> None:
    made.only(3, 1)
    name = made.attribute("activation", "")
    numbers = [made.attribute(f"activation_{one}") for one in ("alpha", "beta", "gamma")]
    y = made("Gemm", *[name for name in made.node.input if name], **made.rest())
    _activated(made, y, name, [number for number in numbers if number is not None], made.output(0))


def _operand(made: Rewriting, place: int, side: str) -> str:
    """A factor with the axes of a matrix last, as products take it."""
    swapped, first = made.attribute(f"trans{side}", 0), made.attribute(f"transBatch{side}", 0)
    rank = made.rank(place)
    axes = list(range(rank))
    if first and rank > 2:  # the first axis is that of the rows, and those of the batch stand behind it
        axes = [*range(1, rank - 1), 0, rank - 1]
    if swapped and rank > 1:
        axes[-2:] = axes[:-3:-1]
    return made.input(place) if axes == list(range(rank)) else made("Transpose", made.input(place), perm=axes)


def _fused_matmul(made: Rewriting) -> None:
    made.only(2, 1)
    alpha = made.attribute("alpha", 1.0)
    into = made.output(0) if alpha == 1 else ""
    product = made("MatMul", _operand(made, 0, "A"), _operand(made, 1, "B"), into=into)
    if not into:
        made("Mul", product, made.number("alpha", alpha), into=made.output(0))


# --- normalisation ---------------------------------------------------------------------------------------


def normalised(made: Rewriting, x: str, scale: str, bias: str, *, centred: bool, epsilon: float) -> None:
    """The last steps of a node: a normalisation of the last axis."""
    names, kind = (
        [x, scale, *([bias] if bias else [])],
        "LayerNormalization" if centred else "RMSNormalization",
    )
    made(kind, *names, into=made.output(0), axis=-1, epsilon=epsilon)


def _rms(made: Rewriting) -> None:
    made.only(2, 1)
    made.usual(stash_type=1)
    axis, epsilon = made.attribute("axis", -1), float(made.attribute("epsilon", 1e-5))
    made("RMSNormalization", made.input(0), made.input(1), into=made.output(0), axis=axis, epsilon=epsilon)


def _skipped(made: Rewriting, *, centred: bool) -> None:
    """SkipLayerNormalization, and the same of root mean squares, which has no beta."""
    made.only(5 if centred else 4, 4)
    if made.output(1) or made.output(2):
        raise Unmapped("its outputs mean and inv_std_var, which are for training")
    beta, bias = (made.input(3), made.input(4)) if centred else ("", made.input(3))
    x = made("Add", made.input(0), made.input(1), into="" if bias else made.output(3))
    if bias:
        x = made("Add", x, bias, into=made.output(3))
    epsilon = float(made.attribute("epsilon", 1e-12))
    normalised(made, x, made.input(2), beta, centred=centred, epsilon=epsilon)


def _skip_layer_norm(made: Rewriting) -> None:
    _skipped(made, centred=True)


def _skip_rms_norm(made: Rewriting) -> None:
    _skipped(made, centred=False)


def _embedded(made: Rewriting) -> None:
    made.only(9, 3)
    named = {"words": 2, "places": 3, "segments": 4, "gamma": 5, "beta": 6}
    embedded(made, {name: made.input(place) for name, place in named.items()}, made.input(8))


def embedded(made: Rewriting, tables: Mapping[str, str], at: str) -> None:
    """The outputs of EmbedLayerNormalization.

    Args:
        tables: names of rows for words, places and segments, and of the normalisation's gamma and beta.
        at: the name of the places; empty where each has its own.
    """
    made.usual(mask_index_type=0)
    batch, length = made.sizes(0)
    x = made("Gather", tables["words"], made.input(0))
    if at:
        places = made("Gather", tables["places"], at)
    else:
        zero, end = made.constant("zero", np.asarray([0])), made.constant("end", np.asarray([length]))
        places = made("Slice", tables["places"], zero, end, zero)
    segments = made("Gather", tables["segments"], made.input(1)) if made.input(1) else ""
    x = made("Add", x, places, into="" if segments else made.output(2))
    if segments:
        x = made("Add", x, segments, into=made.output(2))
    epsilon = float(made.attribute("epsilon", 1e-12))
    normalised(made, x, tables["gamma"], tables["beta"], centred=True, epsilon=epsilon)
    if made.output(1) and made.input(7):
        axis = [made.constant("last", np.asarray([1]))] if made.opset >= 13 else []
        axes: dict[str, Any] = {} if axis else {"axes": [1]}
        made("ReduceSum", made.input(7), *axis, into=made.output(1), keepdims=0, **axes)
    elif made.output(1):
        made("Identity", made.constant("none", np.zeros(batch, np.int32)), into=made.output(1))


REWRITES: Mapping[str, Rewrite] = {
    "BiasGelu": _bias_gelu,
    "EmbedLayerNormalization": _embedded,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "NhwcFusedConv": _fused_conv_of_channels_last,
    "NhwcMaxPool": _max_pool_of_channels_last,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _rms,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "TransposeMatMul": _fused_matmul,
}
"""Op → nodes of ONNX's own op set."""
