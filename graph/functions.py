"""One function for each op: arrays in, array out. Written by `generate.py` from the registry; do not edit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from .arrays import Array
from .eager import run_op
from .engine import Engine

__all__ = [
    "conv_transpose_backprop_filters",
    "conv_transpose_backward_weights",
    "convolution_backprop_filters",
    "convolution_backprop_weights",
    "convolution_backward_weights",
]


def conv_transpose_backward_weights(
    src: ArrayLike,
    diff_dst: ArrayLike,
    weights_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    output_padding: Sequence[int] | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    weights_format: Literal["XOI", "IOX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a transposed convolution with respect to its weights.

    diff_weights[i, o, k] = Σ_n Σ_p src[n, i, p] · diff_dst[n, o, p·stride + k·dilation − pad]

    Args:
        src: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        weights_shape: 1-D tensor with the shape of the weights; wins over the attribute. s32.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        output_padding: Zeros that the forward op added at the end of each spatial axis of dst;
            taken from diff_dst if absent.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of src and diff_dst; X stands for the spatial axes.
            Default 'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XOI'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_weights: Gradient of the weights, in weights_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI;
        with groups, the (I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted
        too, and weights_shape decides.
        groups must divide both the input and the output channels.
        Either the weights_shape input or the weights_shape attribute must be given; the input
        wins.

    Source: oneDNN Graph 3.0, ConvTransposeBackwardWeights.
    """
    return run_op(
        "ConvTransposeBackwardWeights",
        (
            src,
            diff_dst,
            weights_shape,
        ),
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "output_padding": output_padding,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
        },
        out=out,
        backend=backend,
        engine=engine,
    )


def conv_transpose_backprop_filters(
    input_forward: ArrayLike,
    output_delta: ArrayLike,
    filter_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    output_padding: Sequence[int] | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    filter_format: Literal["XOI", "IOX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a transposed convolution with respect to its weights.

    diff_weights[i, o, k] = Σ_n Σ_p src[n, i, p] · diff_dst[n, o, p·stride + k·dilation − pad]

    Args:
        input_forward: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        output_delta: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        filter_shape: 1-D tensor with the shape of the weights; wins over the attribute. s32.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        output_padding: Zeros that the forward op added at the end of each spatial axis of dst;
            taken from output_delta if absent.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of input_forward and output_delta; X stands for the
            spatial axes. Default 'NXC'.
        filter_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XOI'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        filter_delta: Gradient of the weights, in filter_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI;
        with groups, the (I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted
        too, and weights_shape decides.
        groups must divide both the input and the output channels.
        Either the weights_shape input or the weights_shape attribute must be given; the input
        wins.

    Source: oneDNN Graph 3.0, ConvTransposeBackwardWeights.
    """
    return run_op(
        "ConvTransposeBackpropFilters",
        (
            input_forward,
            output_delta,
            filter_shape,
        ),
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "output_padding": output_padding,
            "groups": groups,
            "data_format": data_format,
            "filter_format": filter_format,
        },
        out=out,
        backend=backend,
        engine=engine,
    )


def convolution_backward_weights(
    src: ArrayLike,
    diff_dst: ArrayLike,
    weights_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    weights_format: Literal["XIO", "OIX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a convolution with respect to its weights.

    diff_weights[o, i, k] = Σ_n Σ_p diff_dst[n, o, p] · src[n, i, p·stride + k·dilation − pad]

    Args:
        src: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        weights_shape: 1-D tensor with the shape of the weights; wins over the attribute. s32.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of src and diff_dst; X stands for the spatial axes.
            Default 'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XIO'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_weights: Gradient of the weights, in weights_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (O, I / groups, X) for OIX and (X, I / groups, O) for XIO.
        groups must divide both the input and the output channels.
        Either the weights_shape input or the weights_shape attribute must be given; the input
        wins.

    Source: oneDNN Graph 3.0 and 3.1, ConvolutionBackwardWeights; legacy
    ConvolutionBackpropWeights-1 and ConvolutionBackpropFilters-1.
    """
    return run_op(
        "ConvolutionBackwardWeights",
        (
            src,
            diff_dst,
            weights_shape,
        ),
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
        },
        out=out,
        backend=backend,
        engine=engine,
    )


def convolution_backprop_weights(
    src: ArrayLike,
    diff_dst: ArrayLike,
    weights_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    weights_format: Literal["XIO", "OIX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a convolution with respect to its weights.

    diff_weights[o, i, k] = Σ_n Σ_p diff_dst[n, o, p] · src[n, i, p·stride + k·dilation − pad]

    Args:
        src: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        weights_shape: 1-D tensor with the shape of the weights; wins over the attribute. s32.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of src and diff_dst; X stands for the spatial axes.
            Default 'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XIO'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_weights: Gradient of the weights, in weights_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (O, I / groups, X) for OIX and (X, I / groups, O) for XIO.
        groups must divide both the input and the output channels.
        Either the weights_shape input or the weights_shape attribute must be given; the input
        wins.

    Source: oneDNN Graph 3.0 and 3.1, ConvolutionBackwardWeights; legacy
    ConvolutionBackpropWeights-1 and ConvolutionBackpropFilters-1.
    """
    return run_op(
        "ConvolutionBackpropWeights",
        (
            src,
            diff_dst,
            weights_shape,
        ),
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
        },
        out=out,
        backend=backend,
        engine=engine,
    )


def convolution_backprop_filters(
    input_forward: ArrayLike,
    output_delta: ArrayLike,
    filter_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    filter_format: Literal["XIO", "OIX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a convolution with respect to its weights.

    diff_weights[o, i, k] = Σ_n Σ_p diff_dst[n, o, p] · src[n, i, p·stride + k·dilation − pad]

    Args:
        input_forward: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        output_delta: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        filter_shape: 1-D tensor with the shape of the weights; wins over the attribute. s32.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of input_forward and output_delta; X stands for the
            spatial axes. Default 'NXC'.
        filter_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XIO'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        filter_delta: Gradient of the weights, in filter_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (O, I / groups, X) for OIX and (X, I / groups, O) for XIO.
        groups must divide both the input and the output channels.
        Either the weights_shape input or the weights_shape attribute must be given; the input
        wins.

    Source: oneDNN Graph 3.0 and 3.1, ConvolutionBackwardWeights; legacy
    ConvolutionBackpropWeights-1 and ConvolutionBackpropFilters-1.
    """
    return run_op(
        "ConvolutionBackpropFilters",
        (
            input_forward,
            output_delta,
            filter_shape,
        ),
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "filter_format": filter_format,
        },
        out=out,
        backend=backend,
        engine=engine,
    )
