"""One function for each op: arrays in, array out. Written by `generate.py` from the registry; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from ...ops.data_types import DataType
from ..runtime.arrays import Array
from ..runtime.engine import Engine

__all__ = [
    "abs",
    "abs_backward",
    "add",
    "avg_pool",
    "avg_pool_backward",
    "batch_norm_forward_training",
    "batch_norm_inference",
    "batch_norm_training_backward",
    "bias_add",
    "bias_add_backprop",
    "bias_add_backward",
    "clamp",
    "clamp_backward",
    "concat",
    "conv_transpose",
    "conv_transpose_backprop_filters",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backprop_filters",
    "convolution_backprop_weights",
    "convolution_backward_data",
    "convolution_backward_weights",
    "dequantize",
    "divide",
    "dropout",
    "dynamic_dequantize",
    "dynamic_quantize",
    "elu",
    "elu_backward",
    "exp",
    "gelu",
    "gelu_backward",
    "gen_index",
    "greater_equal",
    "group_norm",
    "group_norm_backward",
    "hard_sigmoid",
    "hard_sigmoid_backward",
    "hard_swish",
    "hard_swish_backward",
    "interpolate",
    "interpolate_backward",
    "layer_norm",
    "layer_norm_backward",
    "leaky_relu",
    "log",
    "log_softmax",
    "log_softmax_backward",
    "matmul",
    "max_pool",
    "max_pool_backward",
    "maximum",
    "minimum",
    "mish",
    "mish_backward",
    "multiply",
    "pow",
    "prelu",
    "prelu_backward",
    "quantize",
    "reciprocal",
    "reduce_l1",
    "reduce_l2",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "relu_backward",
    "reorder",
    "rms_norm",
    "round",
    "select",
    "sigmoid",
    "sigmoid_backward",
    "softmax",
    "softmax_backward",
    "softplus",
    "softplus_backward",
    "sqrt",
    "sqrt_backward",
    "square",
    "squared_difference",
    "static_reshape",
    "static_transpose",
    "subtract",
    "swish_backward",
    "tanh",
    "tanh_backward",
    "type_cast",
]

def abs(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Absolute value.

    dst = |src|

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Abs.
    """
    ...

def abs_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Abs.

    diff_src = diff_dst · sign(src)

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, AbsBackward.
    """
    ...

def add(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64", "s32"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Sum.

    dst = src_0 + src_1

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64 or s32.
        src_1: Second operand. f32 or bf16 or f16 or f64 or s32.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The operands may be exchanged.

    Source: oneDNN Graph 3.2 to 3.9, Add.
    """
    ...

def avg_pool(
    src: ArrayLike,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    exclude_pad: bool,
    kernel: Sequence[int],
    data_format: Literal["NXC", "NCX"] | None = None,
    rounding_type: Literal["floor", "ceil"] | str | None = None,
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Average of each window.

    dst[n, c, p] = Σ_k src[n, c, p·stride + k − pad] / count

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes, or with a negative
            number elements that are left out there; an empty list means none, and auto_pad
            other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes, or with a negative
            number elements that are left out there; an empty list means none, and auto_pad
            other than None overrules it.
        exclude_pad: Whether padding is left out of the averages.
        kernel: Size of the window along each spatial axis.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        rounding_type: Whether a window that begins inside but ends beyond the padding counts:
            ceil. Default 'floor'.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: One value per window.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        count is the window's size, or the number of its elements inside src with exclude_pad.

    Source: oneDNN Graph 3.2 to 3.9, AvgPool.
    """
    ...

def avg_pool_backward(
    diff_dst: ArrayLike,
    src_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    exclude_pad: bool,
    kernel: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of AvgPool.

    diff_src[n, c, p·stride + k − pad] += diff_dst[n, c, p] / count

    Args:
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        src_shape: 1-D tensor with the shape of the forward op's input; wins over the attribute.
            s32.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes, or with a negative
            number elements that are left out there; an empty list means none, and auto_pad
            other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes, or with a negative
            number elements that are left out there; an empty list means none, and auto_pad
            other than None overrules it.
        exclude_pad: Whether padding is left out of the averages.
        kernel: Size of the window along each spatial axis.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, AvgPoolBackward.
    """
    ...

def batch_norm_forward_training(
    src: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    *,
    epsilon: float,
    momentum: float | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Normalisation of each channel by the statistics of the batch.

    dst = gamma · (src − batch_mean) / √(batch_variance + epsilon) + beta;
    running = momentum · given + (1 − momentum) · batch

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        mean: Running statistics so far, one value per channel. f32 or bf16 or f64.
        variance: Running statistics so far, one value per channel. f32 or bf16 or f64.
        gamma: One value per channel. f32 or bf16 or f64.
        beta: One value per channel. f32 or bf16 or f64.
        epsilon: Added to the variance, so that nothing is divided by zero.
        momentum: Share of the running statistics that stays; 0 if absent.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.
        running_mean: Running statistics with this batch.
        running_variance: Running statistics with this batch.
        batch_mean: Statistics of this batch.
        batch_variance: Statistics of this batch.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The variance is that of the batch itself, the sum of squares divided by the count.

    Source: oneDNN Graph 3.2 to 3.9, BatchNormForwardTraining.
    """
    ...

def batch_norm_inference(
    src: ArrayLike,
    gamma: ArrayLike,
    beta: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    *,
    epsilon: float,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Normalisation of each channel by given statistics.

    dst = gamma · (src − mean) / √(variance + epsilon) + beta

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        gamma: One value per channel. f32 or bf16 or f64.
        beta: One value per channel. f32 or bf16 or f64.
        mean: One value per channel. f32 or bf16 or f64.
        variance: One value per channel. f32 or bf16 or f64.
        epsilon: Added to the variance, so that nothing is divided by zero.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, BatchNormInference.
    """
    ...

def batch_norm_training_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    gamma: ArrayLike | None = None,
    *,
    epsilon: float,
    data_format: Literal["NXC", "NCX"] | None = None,
    outputs: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Any:
    """Gradients of BatchNormForwardTraining.

    x̂ = (src − mean) / √(variance + epsilon);
    diff_gamma = Σ diff_dst · x̂;
    diff_beta = Σ diff_dst;
    diff_src = gamma / √(variance + epsilon) · (diff_dst − diff_beta / count − x̂ · diff_gamma /
    count)

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        mean: Statistics of the batch. f32 or bf16 or f64.
        variance: Statistics of the batch. f32 or bf16 or f64.
        gamma: One value per channel. f32 or bf16 or f64.
        epsilon: Added to the variance, so that nothing is divided by zero.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        outputs: how many outputs: 1, 2, 3; as the attributes say if None.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: The shape of src.
        diff_gamma: One value per channel.
        diff_beta: One value per channel.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, BatchNormTrainingBackward.
    """
    ...

def bias_add(
    src: ArrayLike,
    bias: ArrayLike,
    *,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Adds a value to each channel.

    dst[n, c, x] = src[n, c, x] + bias[c]

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        bias: One value per channel. f32 or bf16 or f16 or f64.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, BiasAdd.
    """
    ...

def bias_add_backward(
    diff_dst: ArrayLike,
    *,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of BiasAdd with respect to the bias.

    diff_bias[c] = Σ_n Σ_x diff_dst[n, c, x]

    Args:
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_bias: One value per channel.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, BiasAddBackward.
    """
    ...

def bias_add_backprop(
    diff_dst: ArrayLike,
    *,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of BiasAdd with respect to the bias.

    diff_bias[c] = Σ_n Σ_x diff_dst[n, c, x]

    Args:
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_bias: One value per channel.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, BiasAddBackward.
    """
    ...

def clamp(
    src: ArrayLike,
    *,
    min: float,
    max: float,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Values between two bounds.

    dst = min(max(src, min), max)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        min: Lower bound.
        max: Upper bound.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Clamp.
    """
    ...

def clamp_backward(
    src_or_dst: ArrayLike,
    diff_dst: ArrayLike,
    *,
    min: float,
    max: float,
    use_dst: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Clamp.

    diff_src = diff_dst where min < src < max, 0 elsewhere

    Args:
        src_or_dst: Output of the forward op; its input if use_dst is False. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        min: Lower bound.
        max: Upper bound.
        use_dst: Whether the first input is the forward op's output; its input otherwise.
            Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ClampBackward.
    """
    ...

def concat(
    *src_i: ArrayLike,
    axis: int,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Tensors behind each other along an axis.

    dst = src_0, src_1, … along axis

    Args:
        src_i: Equal shapes, but for the axis. f32 or bf16 or f16 or f64. One after another, or
            one list of them.
        axis: The axis, counted from the end where negative.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The sizes along the axis are added.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Concat.
    """
    ...

def conv_transpose(
    src: ArrayLike,
    weights: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int] | None = None,
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    weights_format: Literal["XOI", "IOX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Transposed convolution.

    dst[n, o, p·stride + k·dilation − pad] += src[n, i, p] · weights[i, o, k];
    dst += bias[o]

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        weights: Weights, in weights_format. f32 or bf16 or f16 or f64.
        bias: One value per output channel. f32 or bf16 or f16 or f64.
        output_padding: Zeros that the forward op adds at the end of each spatial axis of its
            output.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XOI'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The result, in data_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI;
        with groups, the (I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted
        too, and the channels decide.

    Source: oneDNN Graph 3.2 to 3.9, ConvTranspose.
    """
    ...

def conv_transpose_backward_data(
    diff_dst: ArrayLike,
    weights: ArrayLike,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    weights_format: Literal["XOI", "IOX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a transposed convolution with respect to its input.

    diff_src[n, i, p] = Σ_o Σ_k diff_dst[n, o, p·stride + k·dilation − pad] · weights[i, o, k]

    Args:
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        weights: Weights, in weights_format. f32 or bf16 or f16 or f64.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XOI'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input, in data_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI;
        with groups, the (I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted
        too, and the channels decide.

    Source: oneDNN Graph 3.2 to 3.9, ConvTransposeBackwardData.
    """
    ...

def conv_transpose_backward_weights(
    src: ArrayLike,
    diff_dst: ArrayLike,
    weights_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int] | None = None,
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
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
        output_padding: Zeros that the forward op adds at the end of each spatial axis of its
            output; taken from diff_dst if absent.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
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
    ...

def conv_transpose_backprop_filters(
    input_forward: ArrayLike,
    output_delta: ArrayLike,
    filter_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int] | None = None,
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
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
        output_padding: Zeros that the forward op adds at the end of each spatial axis of its
            output; taken from output_delta if absent.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
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
    ...

def convolution(
    src: ArrayLike,
    weights: ArrayLike,
    bias: ArrayLike | None = None,
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
    """Convolution.

    dst[n, o, p] = Σ_i Σ_k src[n, i, p·stride + k·dilation − pad] · weights[o, i, k] + bias[o]

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        weights: Weights, in weights_format. f32 or bf16 or f16 or f64.
        bias: One value per output channel. f32 or bf16 or f16 or f64.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XIO'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The result, in data_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Convolution.
    """
    ...

def convolution_backward_data(
    diff_dst: ArrayLike,
    weights: ArrayLike,
    dst_shape: ArrayLike | None = None,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int] | None = None,
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    groups: int | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    weights_format: Literal["XIO", "OIX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of a convolution with respect to its input.

    diff_src[n, i, p·stride + k·dilation − pad] += diff_dst[n, o, p] · weights[o, i, k]

    Args:
        diff_dst: Gradient of the forward op's output, in data_format. f32 or bf16 or f16 or
            f64.
        weights: Weights, in weights_format. f32 or bf16 or f16 or f64.
        dst_shape: 1-D tensor with the shape of the output; wins over the attribute. s32.
        output_padding: Zeros that the forward op adds at the end of each spatial axis of its
            output.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Zeros before the front, top and left of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        pads_end: Zeros after the back, bottom and right of the spatial axes; an empty list
            means zeros, and auto_pad other than None overrules it.
        dilations: Distance between kernel elements; 1 is dense.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        groups: How many groups the input and the output channels are divided into. Default 1.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        weights_format: Order of the axes of the weights; X stands for the spatial axes. Default
            'XIO'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input, in data_format.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        Without dst_shape the output is as small as the sizes allow, or as it is declared.

    Source: oneDNN Graph 3.2 to 3.9, ConvolutionBackwardData.
    """
    ...

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
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
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
    ...

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
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
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
    ...

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
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
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
    ...

def dequantize(
    src: ArrayLike,
    *,
    scales: Sequence[float],
    qtype: Literal["per_tensor", "per_channel"] | None = None,
    axis: int | None = None,
    zps: Sequence[int] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """From scaled integers or 8-bit floats to f32.

    dst = (src − zp) · scale

    Args:
        src: Any shape. u8 or s8 or f8_e5m2 or f8_e4m3.
        qtype: What a scale stands for: the whole tensor, a channel, or a group of elements.
            Default 'per_tensor'.
        axis: The axis that per_channel means. Default 1.
        scales: One scale, or one per channel.
        zps: Zero points, as many as scales or one; zeros if absent.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Dequantize.
    """
    ...

def divide(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Quotient.

    dst = src_0 / src_1

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64.
        src_1: Second operand. f32 or bf16 or f16 or f64.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Divide.
    """
    ...

def dropout(
    src: ArrayLike,
    seed: ArrayLike,
    offset: ArrayLike,
    probability: ArrayLike,
    *,
    outputs: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Zeros at random, and the rest scaled up.

    dst = mask · src / (1 − probability), with mask = Philox(seed, offset, index) > probability

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        seed: Seed of the random numbers. s64.
        offset: Offset into their sequence. s64.
        probability: Share of the elements that become zero, 0 to 1. f32.
        outputs: how many outputs: 1, 2; as the attributes say if None.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.
        mask: 1 where an element stayed, 0 elsewhere.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The random numbers are Philox 4×32 with 10 rounds, those of oneDNN.

    Source: oneDNN Graph 3.2 to 3.9, Dropout.
    """
    ...

def dynamic_dequantize(
    src: ArrayLike,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: Literal["per_tensor", "per_channel", "per_group"] | None = None,
    axis: int | None = None,
    group_shape: Sequence[int] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Dequantize with scales and zero points known at execution.

    dst = (src − zp) · scale

    Args:
        src: Any shape. u8 or s8 or s4 or u4.
        scales: One scale, one per channel, or one per group. bf16 or f16 or f32.
        zps: Zero points, as many as scales. u4 or s4 or u8 or s8 or s32.
        qtype: What a scale stands for: the whole tensor, a channel, or a group of elements.
            Default 'per_tensor'.
        axis: The axis that per_channel means. Default 1.
        group_shape: Elements that share a scale, per axis, for per_group.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, DynamicDequantize.
    """
    ...

def dynamic_quantize(
    src: ArrayLike,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: Literal["per_tensor", "per_channel"] | None = None,
    axis: int | None = None,
    output_type: DataType | Literal["u8", "s8"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Quantize with scales and zero points known at execution.

    dst = round(src / scale + zp)

    Args:
        src: Any shape. f32.
        scales: One scale, one per channel, or one per group. f32.
        zps: Zero points, as many as scales. u8 or s8 or s32.
        qtype: What a scale stands for: the whole tensor, a channel, or a group of elements.
            Default 'per_tensor'.
        axis: The axis that per_channel means. Default 1.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        Numbers are rounded to the nearest, halves to even, and saturated to the range of the
        type.

    Source: oneDNN Graph 3.2 to 3.9, DynamicQuantize.
    """
    ...

def elu(
    src: ArrayLike,
    *,
    alpha: float,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Exponential linear unit.

    dst = src where src > 0, alpha · (exp(src) − 1) elsewhere

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        alpha: Scale of the negative part.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Elu.
    """
    ...

def elu_backward(
    src_or_dst: ArrayLike,
    diff_dst: ArrayLike,
    *,
    alpha: float,
    use_dst: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Elu.

    diff_src = diff_dst where src > 0, diff_dst · alpha · exp(src) elsewhere;
    alpha · exp(src) = dst + alpha

    Args:
        src_or_dst: Output of the forward op; its input if use_dst is False. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        alpha: Scale of the negative part.
        use_dst: Whether the first input is the forward op's output; its input otherwise.
            Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, EluBackward.
    """
    ...

def exp(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Exponential function.

    dst = exp(src)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Exp.
    """
    ...

def gelu(
    src: ArrayLike,
    *,
    mode: Literal["gelu_erf", "gelu_tanh"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gaussian error linear unit.

    dst = src · (1 + erf(src / √2)) / 2, or src · (1 + tanh(√(2/π) · (src + 0.044715 · src³))) /
    2

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        mode: With the error function, or the approximation with tanh. Default 'gelu_erf'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, GELU.
    """
    ...

def gelu_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    mode: Literal["gelu_erf", "gelu_tanh"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of GELU.

    diff_src = diff_dst · dGELU(src)/dsrc, of the same mode

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        mode: With the error function, or the approximation with tanh. Default 'gelu_erf'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, GELUBackward.
    """
    ...

def gen_index(
    src: ArrayLike,
    *,
    axis: int,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The index of each element along an axis.

    dst[i_0, i_1, …] = i_axis

    Args:
        src: Any shape; its elements don't matter. f32 or bf16 or f16 or f64.
        axis: The axis, counted from the end where negative.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, GenIndex.
    """
    ...

def greater_equal(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Whether the first operand is at least the second.

    dst = src_0 ≥ src_1

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64 or s32.
        src_1: Second operand. f32 or bf16 or f16 or f64 or s32.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, GreaterEqual.
    """
    ...

def group_norm(
    src: ArrayLike,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    *,
    groups: int,
    keep_stats: bool | None = None,
    use_affine: bool | None = None,
    epsilon: float | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    outputs: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Any:
    """Normalisation of each image's groups of channels.

    dst = gamma · (src − mean) / √(variance + epsilon) + beta, with mean and variance of each
    group

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        gamma: One value per channel. f32 or bf16 or f64.
        beta: One value per channel. f32 or bf16 or f64.
        keep_stats: Whether mean and variance are outputs. Default True.
        groups: How many groups of channels.
        use_affine: Whether gamma and beta are used. Default True.
        epsilon: Added to the variance, so that nothing is divided by zero. Default 1e-05.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        outputs: how many outputs: 1, 3; as the attributes say if None.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.
        mean: (N, groups).
        variance: (N, groups).

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, GroupNorm.
    """
    ...

def group_norm_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    gamma: ArrayLike | None = None,
    *,
    groups: int,
    use_affine: bool | None = None,
    epsilon: float | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    outputs: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Any:
    """Gradients of GroupNorm.

    x̂ = (src − mean) / √(variance + epsilon);
    g = gamma · diff_dst;
    diff_src = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + epsilon), with means over each
    group;
    diff_gamma = Σ diff_dst · x̂;
    diff_beta = Σ diff_dst

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        mean: (N, groups). f32 or bf16 or f64.
        variance: (N, groups). f32 or bf16 or f64.
        gamma: One value per channel. f32 or bf16 or f64.
        groups: How many groups of channels.
        use_affine: Whether gamma and beta are used. Default True.
        epsilon: Added to the variance, so that nothing is divided by zero. Default 1e-05.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        outputs: how many outputs: 1, 3; as the attributes say if None.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: The shape of src.
        diff_gamma: One value per channel.
        diff_beta: One value per channel.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: an op of our own.
    """
    ...

def hard_sigmoid(
    src: ArrayLike,
    *,
    alpha: float,
    beta: float,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Sigmoid of straight lines.

    dst = max(0, min(1, alpha · src + beta))

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        alpha: Factor of src.
        beta: Summand.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, HardSigmoid.
    """
    ...

def hard_sigmoid_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    alpha: float,
    beta: float,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of HardSigmoid.

    diff_src = diff_dst · alpha where 0 < alpha · src + beta < 1, 0 elsewhere

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        alpha: Factor of src.
        beta: Summand.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, HardSigmoidBackward.
    """
    ...

def hard_swish(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Swish of straight lines.

    dst = src · min(max(src + 3, 0), 6) / 6

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, HardSwish.
    """
    ...

def hard_swish_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of HardSwish.

    diff_src = 0 where src ≤ −3, diff_dst where src ≥ 3, diff_dst · (2 · src + 3) / 6 between

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, HardSwishBackward.
    """
    ...

def interpolate(
    src: ArrayLike,
    sizes: ArrayLike | None = None,
    *,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"],
    scales: Sequence[float] | None = None,
    coordinate_transformation_mode: Literal["half_pixel", "align_corners"] | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Data at another spatial size.

    dst[n, c, p] = src at the coordinates of p, nearest or interpolated along each axis

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        sizes: 1-D tensor with the spatial sizes of the output; wins over the attribute. s32.
        mode: nearest, or one of the linear modes, which interpolate along every spatial axis.
        scales: Output size over input size, per spatial axis, where sizes are not given.
        coordinate_transformation_mode: half_pixel: (p + 0.5) / scale − 0.5; align_corners: the
            first and last elements stay in place. Default 'half_pixel'.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src with other spatial sizes.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        nearest takes the element at round(p), halves upwards.
        linear, bilinear and trilinear are names for one, two and three spatial axes; any of
        them does here.

    Source: oneDNN Graph 3.2 to 3.9, Interpolate.
    """
    ...

def interpolate_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    sizes: ArrayLike | None = None,
    *,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"],
    coordinate_transformation_mode: Literal["half_pixel", "align_corners"] | None = None,
    scales: Sequence[float] | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Interpolate.

    diff_src at the coordinates of p += weight · diff_dst[n, c, p]

    Args:
        src: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        sizes: 1-D tensor with the spatial sizes of the output; wins over the attribute. s32.
        mode: nearest, or one of the linear modes, which interpolate along every spatial axis.
        coordinate_transformation_mode: half_pixel: (p + 0.5) / scale − 0.5; align_corners: the
            first and last elements stay in place. Default 'half_pixel'.
        scales: Output size over input size, per spatial axis, where sizes are not given.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        nearest takes the element at round(p), halves upwards.
        linear, bilinear and trilinear are names for one, two and three spatial axes; any of
        them does here.

    Source: oneDNN Graph 3.2 to 3.9, InterpolateBackward.
    """
    ...

def layer_norm(
    src: ArrayLike,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    *,
    keep_stats: bool | None = None,
    begin_norm_axis: int | None = None,
    use_affine: bool | None = None,
    epsilon: float | None = None,
    outputs: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Any:
    """Normalisation over the last axes.

    dst = gamma · (src − mean) / √(variance + epsilon) + beta, with mean and variance of each
    part

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        gamma: The normalised axes' shape. f32 or bf16 or f64.
        beta: The normalised axes' shape. f32 or bf16 or f64.
        keep_stats: Whether mean and variance are outputs. Default True.
        begin_norm_axis: First of the axes that are normalised, up to the last; counted from the
            end where negative. Default -1.
        use_affine: Whether gamma and beta are used. Default True.
        epsilon: Added to the variance, so that nothing is divided by zero. Default 1e-05.
        outputs: how many outputs: 1, 3; as the attributes say if None.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.
        mean: One value per normalised part.
        variance: One value per normalised part.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, LayerNorm.
    """
    ...

def layer_norm_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    *,
    begin_norm_axis: int | None = None,
    use_affine: bool | None = None,
    epsilon: float | None = None,
    outputs: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Any:
    """Gradients of LayerNorm.

    x̂ = (src − mean) / √(variance + epsilon);
    g = gamma · diff_dst;
    diff_src = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + epsilon);
    diff_gamma = Σ diff_dst · x̂;
    diff_beta = Σ diff_dst

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        mean: One value per normalised part. f32 or bf16 or f64.
        variance: One value per normalised part. f32 or bf16 or f64.
        gamma: The normalised axes' shape. f32 or bf16 or f64.
        beta: The normalised axes' shape. f32 or bf16 or f64.
        begin_norm_axis: First of the axes that are normalised, up to the last; counted from the
            end where negative. Default -1.
        use_affine: Whether gamma and beta are used. Default True.
        epsilon: Added to the variance, so that nothing is divided by zero. Default 1e-05.
        outputs: how many outputs: 1, 3; as the attributes say if None.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: The shape of src.
        diff_gamma: The shape of gamma.
        diff_beta: The shape of gamma.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, LayerNormBackward.
    """
    ...

def leaky_relu(
    src: ArrayLike,
    *,
    alpha: float,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Rectifier with a slope.

    dst = src where src ≥ 0, alpha · src elsewhere

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        alpha: Slope of the negative part.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, LeakyReLU.
    """
    ...

def log(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Natural logarithm.

    dst = log(src)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Log.
    """
    ...

def log_softmax(
    src: ArrayLike,
    *,
    axis: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Logarithm of the softmax.

    dst = src − max − log Σ exp(src − max)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axis: Axis of the sum, counted from the end where negative. Default -1.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, LogSoftmax.
    """
    ...

def log_softmax_backward(
    diff_dst: ArrayLike,
    dst: ArrayLike,
    *,
    axis: int | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of LogSoftmax.

    diff_src = diff_dst − exp(dst) · Σ diff_dst

    Args:
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        dst: Output of the forward op. f32 or bf16 or f16 or f64.
        axis: Axis of the sum, counted from the end where negative. Default -1.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, LogSoftmaxBackward.
    """
    ...

def matmul(
    src: ArrayLike,
    weights: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    transpose_a: bool | None = None,
    transpose_b: bool | None = None,
    accumulation_mode: Literal["strict", "relaxed", "any", "f32", "s32", "f16"] | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Product of matrices, with broadcast batches and a bias.

    dst[…, m, n] = Σ_k src[…, m, k] · weights[…, k, n] + bias[n]

    Args:
        src: (…, M, K), (…, K, M) with transpose_a, or (K). f32 or bf16 or f16 or f64.
        weights: (…, K, N), (…, N, K) with transpose_b, or (K). f32 or bf16 or f16 or f64.
        bias: One value per column, or a shape that broadcasts to dst. f32 or bf16 or f16 or
            f64.
        transpose_a: Whether the last two axes of src are exchanged. Default False.
        transpose_b: Whether the last two axes of weights are exchanged. Default False.
        accumulation_mode: The least precise type that sums may have; here they are f32 at
            least. Default 'strict'.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: (…, M, N).

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, MatMul.
    """
    ...

def max_pool(
    src: ArrayLike,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel: Sequence[int],
    dilations: Sequence[int] | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    rounding_type: Literal["floor", "ceil"] | str | None = None,
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Largest element of each window.

    dst[n, c, p] = max_k src[n, c, p·stride + k·dilation − pad]

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Padding, which is −∞ and never the largest, before the front, top and left
            of the spatial axes, or with a negative number elements that are left out there; an
            empty list means none, and auto_pad other than None overrules it.
        pads_end: Padding, which is −∞ and never the largest, after the back, bottom and right
            of the spatial axes, or with a negative number elements that are left out there; an
            empty list means none, and auto_pad other than None overrules it.
        kernel: Size of the window along each spatial axis.
        dilations: Distance between window elements; 1, which is dense, if absent.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        rounding_type: Whether a window that begins inside but ends beyond the padding counts:
            ceil. Default 'floor'.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: One value per window.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, MaxPool.
    """
    ...

def max_pool_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel: Sequence[int],
    auto_pad: Literal["None", "SAME_UPPER", "SAME_LOWER", "VALID"] | str | None = None,
    dilations: Sequence[int] | None = None,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of MaxPool.

    diff_src at the first largest element of each window += diff_dst[n, c, p]

    Args:
        src: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        strides: Step of the kernel along each spatial axis.
        pads_begin: Padding, which is −∞ and never the largest, before the front, top and left
            of the spatial axes, or with a negative number elements that are left out there; an
            empty list means none, and auto_pad other than None overrules it.
        pads_end: Padding, which is −∞ and never the largest, after the back, bottom and right
            of the spatial axes, or with a negative number elements that are left out there; an
            empty list means none, and auto_pad other than None overrules it.
        kernel: Size of the window along each spatial axis.
        auto_pad: How pads are computed; with None, pads_begin and pads_end count. Default
            'None'.
        dilations: Distance between window elements; 1, which is dense, if absent.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, MaxPoolBackward.
    """
    ...

def maximum(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The larger one.

    dst = max(src_0, src_1)

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64.
        src_1: Second operand. f32 or bf16 or f16 or f64.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The operands may be exchanged.

    Source: oneDNN Graph 3.2 to 3.9, Maximum.
    """
    ...

def minimum(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The smaller one.

    dst = min(src_0, src_1)

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64.
        src_1: Second operand. f32 or bf16 or f16 or f64.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The operands may be exchanged.

    Source: oneDNN Graph 3.2 to 3.9, Minimum.
    """
    ...

def mish(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Mish.

    dst = src · tanh(log(1 + exp(src)))

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Mish.
    """
    ...

def mish_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Mish.

    diff_src = diff_dst · dMish(src)/dsrc

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, MishBackward.
    """
    ...

def multiply(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Product.

    dst = src_0 · src_1

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64.
        src_1: Second operand. f32 or bf16 or f16 or f64.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        The operands may be exchanged.

    Source: oneDNN Graph 3.2 to 3.9, Multiply.
    """
    ...

def prelu(
    src: ArrayLike,
    slope: ArrayLike,
    *,
    data_format: Literal["NXC", "NCX"] | None = None,
    per_channel_broadcast: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Rectifier with learned slopes.

    dst = src where src ≥ 0, slope · src elsewhere

    Args:
        src: Data, in data_format. f32 or bf16 or f16 or f64.
        slope: One value, one per channel, or a shape that broadcasts to src. f32 or bf16 or f16
            or f64.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        per_channel_broadcast: Whether a slope of one axis has a value per channel; it goes
            along the last axis otherwise. Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, PReLU.
    """
    ...

def prelu_backward(
    src: ArrayLike,
    slope: ArrayLike,
    diff_dst: ArrayLike,
    *,
    data_format: Literal["NXC", "NCX"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> tuple[Array, Array]:
    """Gradients of PReLU with respect to its input and its slope.

    diff_src = diff_dst where src > 0, slope · diff_dst elsewhere;
    diff_slope = Σ diff_dst · min(src, 0) over what slope was broadcast along

    Args:
        src: Input of the forward op, in data_format. f32 or bf16 or f16 or f64.
        slope: One value, one per channel, or a shape that broadcasts to src. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        data_format: Order of the axes of the data; X stands for the spatial axes. Default
            'NXC'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: The shape of src.
        diff_slope: The shape of slope.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, PReLUBackward.
    """
    ...

def pow(
    src: ArrayLike,
    *,
    beta: float,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Power.

    dst = src ^ beta

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        beta: Exponent.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Pow.
    """
    ...

def quantize(
    src: ArrayLike,
    *,
    scales: Sequence[float],
    qtype: Literal["per_tensor", "per_channel"] | None = None,
    axis: int | None = None,
    zps: Sequence[int] | None = None,
    output_type: DataType | Literal["u8", "s8", "f8_e5m2", "f8_e4m3"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """From f32 to scaled integers or 8-bit floats.

    dst = round(src / scale + zp)

    Args:
        src: Any shape. f32.
        qtype: What a scale stands for: the whole tensor, a channel, or a group of elements.
            Default 'per_tensor'.
        axis: The axis that per_channel means. Default 1.
        scales: One scale, or one per channel.
        zps: Zero points, as many as scales or one; zeros if absent.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Notes:
        Numbers are rounded to the nearest, halves to even, and saturated to the range of the
        type.

    Source: oneDNN Graph 3.2 to 3.9, Quantize.
    """
    ...

def rms_norm(
    src: ArrayLike,
    gamma: ArrayLike | None = None,
    *,
    begin_norm_axis: int | None = None,
    epsilon: float | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Division by the root of the mean square over the last axes.

    dst = gamma · src / √(mean(src²) + epsilon)

    Args:
        src: Data. f32 or bf16 or f16 or f64.
        gamma: The normalised axes' shape. f32 or bf16 or f16 or f64.
        begin_norm_axis: First of the axes that are normalised, up to the last; counted from the
            end where negative. Default -1.
        epsilon: Added to the variance, so that nothing is divided by zero. Default 1e-05.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, RMSNorm.
    """
    ...

def relu(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Rectifier.

    dst = max(src, 0)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReLU.
    """
    ...

def relu_backward(
    src_or_dst: ArrayLike,
    diff_dst: ArrayLike,
    *,
    use_dst: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of ReLU.

    diff_src = diff_dst where src > 0, 0 elsewhere

    Args:
        src_or_dst: Output of the forward op; its input if use_dst is False. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        use_dst: Whether the first input is the forward op's output; its input otherwise.
            Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReLUBackward.
    """
    ...

def reciprocal(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Reciprocal.

    dst = 1 / src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Reciprocal.
    """
    ...

def reduce_l1(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Sum of absolute values along axes.

    dst = Σ |src|

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceL1.
    """
    ...

def reduce_l2(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Square root of the sum of squares along axes.

    dst = √(Σ src²)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceL2.
    """
    ...

def reduce_max(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Largest element along axes.

    dst = max src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceMax.
    """
    ...

def reduce_mean(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Mean along axes.

    dst = (Σ src) / count

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceMean.
    """
    ...

def reduce_min(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Smallest element along axes.

    dst = min src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceMin.
    """
    ...

def reduce_prod(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Product along axes.

    dst = Π src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceProd.
    """
    ...

def reduce_sum(
    src: ArrayLike,
    axes: ArrayLike | None = None,
    *,
    keep_dims: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Sum along axes.

    dst = Σ src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axes: 1-D tensor with the axes; wins over the attribute. s32.
        keep_dims: Whether reduced axes stay, with one element. Default False.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src without the axes, or with one element there.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, ReduceSum.
    """
    ...

def reorder(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The same tensor in another layout.

    dst = src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src, in a layout of its own.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Reorder.
    """
    ...

def round(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The nearest integer, halves to the even one.

    dst = round(src)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Round.
    """
    ...

def select(
    cond: ArrayLike,
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Elements of one tensor or another, by a condition.

    dst = src_0 where cond, src_1 elsewhere

    Args:
        cond: Condition. boolean.
        src_0: Values where it holds. f32 or bf16 or f16 or f64.
        src_1: Values elsewhere. f32 or bf16 or f16 or f64.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of all three.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Select.
    """
    ...

def sigmoid(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Logistic function.

    dst = 1 / (1 + exp(−src))

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Sigmoid.
    """
    ...

def sigmoid_backward(
    src_or_dst: ArrayLike,
    diff_dst: ArrayLike,
    *,
    use_dst: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Sigmoid.

    diff_src = diff_dst · dst · (1 − dst)

    Args:
        src_or_dst: Output of the forward op; its input if use_dst is False. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        use_dst: Whether the first input is the forward op's output; its input otherwise.
            Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SigmoidBackward.
    """
    ...

def softmax(
    src: ArrayLike,
    *,
    axis: int | None = None,
    mode: Literal["none", "inf_as_zero"] | None = None,
    outputs: int | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Exponentials that sum to one along an axis.

    dst = exp(src − max) / Σ exp(src − max);
    stats = max + log Σ exp(src − max)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        axis: Axis of the sum, counted from the end where negative. Default 1.
        mode: inf_as_zero: zeros, not NaN, where all of an axis is −inf. Default 'none'.
        outputs: how many outputs: 1, 2; as the attributes say if None.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.
        stats: The log of the sum, with one element along the axis.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SoftMax.
    """
    ...

def softmax_backward(
    diff_dst: ArrayLike,
    dst: ArrayLike,
    *,
    axis: int | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of SoftMax.

    diff_src = dst · (diff_dst − Σ diff_dst · dst)

    Args:
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        dst: Output of the forward op. f32 or bf16 or f16 or f64.
        axis: Axis of the sum, counted from the end where negative. Default 1.
        output_type: data type of diff_src; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SoftMaxBackward.
    """
    ...

def softplus(
    src: ArrayLike,
    *,
    beta: float | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Smooth rectifier.

    dst = log(1 + exp(beta · src)) / beta

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        beta: Factor of src. Default 1.0.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SoftPlus.
    """
    ...

def softplus_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    beta: float | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of SoftPlus.

    diff_src = diff_dst / (1 + exp(−beta · src))

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        beta: Factor of src. Default 1.0.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SoftPlusBackward.
    """
    ...

def sqrt(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Square root.

    dst = √src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Sqrt.
    """
    ...

def sqrt_backward(
    src_or_dst: ArrayLike,
    diff_dst: ArrayLike,
    *,
    use_dst: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Sqrt.

    diff_src = diff_dst / (2 · dst)

    Args:
        src_or_dst: Output of the forward op; its input if use_dst is False. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        use_dst: Whether the first input is the forward op's output; its input otherwise.
            Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SqrtBackward.
    """
    ...

def square(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Square.

    dst = src²

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Square.
    """
    ...

def squared_difference(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Squared difference.

    dst = (src_0 − src_1)²

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64.
        src_1: Second operand. f32 or bf16 or f16 or f64.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, SquaredDifference.
    """
    ...

def static_reshape(
    src: ArrayLike,
    *,
    shape: Sequence[int],
    special_zero: bool,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The same elements in row-major order under another shape.

    dst[i] = src[i] in row-major order

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        shape: The new shape; -1 is what remains, 0 the old size with special_zero.
        special_zero: Whether 0 in shape stands for the size that src has there.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape that the attribute says.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, StaticReshape.
    """
    ...

def static_transpose(
    src: ArrayLike,
    *,
    order: Sequence[int],
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Axes in another order.

    dst.shape[i] = src.shape[order[i]]

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        order: A permutation of the axes, counted from the end where negative.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: src with its axes in that order.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, StaticTranspose.
    """
    ...

def subtract(
    src_0: ArrayLike,
    src_1: ArrayLike,
    *,
    auto_broadcast: Literal["none", "numpy"] | str | None = None,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64", "s32"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Difference.

    dst = src_0 − src_1

    Args:
        src_0: First operand. f32 or bf16 or f16 or f64 or s32.
        src_1: Second operand. f32 or bf16 or f16 or f64 or s32.
        auto_broadcast: numpy: shapes are broadcast as in NumPy; none: they must be equal.
            Default 'numpy'.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The broadcast shape of both.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Subtract.
    """
    ...

def swish_backward(
    src: ArrayLike,
    diff_dst: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Swish.

    diff_src = diff_dst · s · (1 + src · (1 − s)), with s = 1 / (1 + exp(−src)): of src · s

    Args:
        src: Input of the forward op. f32 or bf16 or f16 or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: an op of our own.
    """
    ...

def tanh(
    src: ArrayLike,
    *,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Hyperbolic tangent.

    dst = tanh(src)

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, Tanh.
    """
    ...

def tanh_backward(
    src_or_dst: ArrayLike,
    diff_dst: ArrayLike,
    *,
    use_dst: bool | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """Gradient of Tanh.

    diff_src = diff_dst · (1 − dst²)

    Args:
        src_or_dst: Output of the forward op; its input if use_dst is False. f32 or bf16 or f16
            or f64.
        diff_dst: Gradient of the forward op's output. f32 or bf16 or f16 or f64.
        use_dst: Whether the first input is the forward op's output; its input otherwise.
            Default True.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        diff_src: Gradient of the forward op's input.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, TanhBackward.
    """
    ...

def type_cast(
    src: ArrayLike,
    *,
    output_type: DataType | Literal["f32", "bf16", "f16", "f64"] | None = None,
    out: Any = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Array:
    """The same numbers in another floating-point type.

    dst = src

    Args:
        src: Any shape. f32 or bf16 or f16 or f64.
        output_type: data type of dst; that of the first input if None and allowed.
        out: array to write the result to; allocated if None.
        backend: name of the only backend to use, or None for the best one.
        engine: where to run; the default engine if None.

    Returns:
        dst: The shape of src.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.

    Source: oneDNN Graph 3.2 to 3.9, TypeCast.
    """
    ...
