"""What other libraries call our ops, attributes and data types, for messages: `conv2d`, `stride`, `float32`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from .errors import nearest

_LINEAR = "{MatMul}, whose third input is the bias"
_NORM = "{BatchNormInference}, or {BatchNormForwardTraining} for training"
_CLAMP = "{Clamp} with min and max"
_SWISH = "{Multiply} of a tensor and its {Sigmoid}"
_RESHAPE = "{StaticReshape}"
_WHOLE_MEAN = "{ReduceMean} over the spatial axes with keep_dims=True"
_ATTENTION = "{MatMul}, {SoftMax} and {MatMul} in a graph, which are joined to one kernel"

KINDS: dict[str, str] = {
    "addmm": _LINEAR,
    "adaptiveavgpool": _WHOLE_MEAN,
    "affine": _LINEAR,
    "amax": "{ReduceMax}",
    "amin": "{ReduceMin}",
    "astype": "{TypeCast}",
    "attention": _ATTENTION,
    "averagepool": "{AvgPool}",
    "averagepooling": "{AvgPool}",
    "avgpooling": "{AvgPool}",
    "batchnorm": _NORM,
    "batchnormalization": _NORM,
    "bmm": "{MatMul}",
    "cast": "{TypeCast}",
    "cat": "{Concat}",
    "clip": _CLAMP,
    "concatenate": "{Concat}",
    "conv": "{Convolution}",
    "convbackpropfilter": "{ConvolutionBackwardWeights}",
    "convbackpropinput": "{ConvolutionBackwardData}",
    "convinput": "{ConvolutionBackwardData}",
    "convtransposed": "{ConvTranspose}",
    "convweight": "{ConvolutionBackwardWeights}",
    "deconv": "{ConvTranspose}",
    "deconvolution": "{ConvTranspose}",
    "dense": _LINEAR,
    "dequantizelinear": "{Dequantize}",
    "div": "{Divide}",
    "dot": "{MatMul}",
    "elementwiseadd": "{Add}",
    "expanddims": _RESHAPE,
    "flatten": _RESHAPE,
    "fullyconnected": _LINEAR,
    "ge": "{GreaterEqual}",
    "gemm": _LINEAR,
    "globalaveragepool": _WHOLE_MEAN,
    "globalavgpool": _WHOLE_MEAN,
    "greaterorequal": "{GreaterEqual}",
    "groupnormalization": "{GroupNorm}",
    "hardtanh": _CLAMP,
    "innerproduct": _LINEAR,
    "instancenorm": "{GroupNorm} with as many groups as channels",
    "instancenormalization": "{GroupNorm} with as many groups as channels",
    "layernormalization": "{LayerNorm}",
    "linear": _LINEAR,
    "max": "{ReduceMax} over axes, or {Maximum} of two tensors",
    "mean": "{ReduceMean}",
    "min": "{ReduceMin} over axes, or {Minimum} of two tensors",
    "mm": "{MatMul}",
    "mul": "{Multiply}",
    "multiheadattention": _ATTENTION,
    "neg": "{Multiply} with −1",
    "negative": "{Multiply} with −1",
    "permute": "{StaticTranspose}",
    "power": "{Pow}",
    "prod": "{ReduceProd}",
    "quantizelinear": "{Quantize}",
    "relu6": "{Clamp} with min=0.0 and max=6.0",
    "reshape": _RESHAPE,
    "resize": "{Interpolate}",
    "rmsnormalization": "{RMSNorm}",
    "rsqrt": "{Reciprocal} of {Sqrt}",
    "scaleddotproductattention": _ATTENTION,
    "sdpa": _ATTENTION,
    "silu": _SWISH,
    "squeeze": _RESHAPE,
    "sub": "{Subtract}",
    "sum": "{ReduceSum}",
    "swish": _SWISH,
    "transpose": "{StaticTranspose}",
    "truediv": "{Divide}",
    "unsqueeze": _RESHAPE,
    "upsample": "{Interpolate}",
    "view": _RESHAPE,
    "where": "{Select}",
}
"""From a word, as `_folded` has it, to what to use; kinds stand in braces."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "a_max": ("max",),
    "a_min": ("min",),
    "approximate": ("mode",),
    "axis": ("axes", "begin_norm_axis"),
    "axes": ("axis", "order", "begin_norm_axis"),
    "ceil_mode": ("rounding_type",),
    "count_include_pad": ("exclude_pad",),
    "dilation": ("dilations",),
    "dilation_rate": ("dilations",),
    "dim": ("axis", "axes", "begin_norm_axis"),
    "dims": ("axes", "order", "axis"),
    "eps": ("epsilon",),
    "exponent": ("beta",),
    "feature_group_count": ("groups",),
    "filter": ("weights",),
    "filters": ("weights",),
    "group": ("groups",),
    "input": ("src",),
    "keepdim": ("keep_dims",),
    "keepdims": ("keep_dims",),
    "kernel": ("weights",),
    "kernel_shape": ("kernel",),
    "kernel_size": ("kernel",),
    "ksize": ("kernel",),
    "layout": ("data_format",),
    "max_val": ("max",),
    "max_value": ("max",),
    "min_val": ("min",),
    "min_value": ("min",),
    "negative_slope": ("alpha",),
    "newshape": ("shape",),
    "normalized_shape": ("begin_norm_axis",),
    "num_groups": ("groups",),
    "output_size": ("sizes",),
    "pad": ("pads_begin", "pads_end"),
    "padding": ("pads_begin", "pads_end"),
    "paddings": ("pads_begin", "pads_end"),
    "pads": ("pads_begin", "pads_end"),
    "perm": ("order",),
    "permutation": ("order",),
    "pool_size": ("kernel",),
    "rate": ("dilations",),
    "running_mean": ("mean",),
    "running_var": ("variance",),
    "scale": ("scales", "gamma"),
    "scale_factor": ("scales",),
    "shift": ("beta",),
    "size": ("sizes", "shape"),
    "stride": ("strides",),
    "trans_a": ("transpose_a",),
    "trans_b": ("transpose_b",),
    "transa": ("transpose_a",),
    "transb": ("transpose_b",),
    "var": ("variance",),
    "weight": ("weights", "gamma"),
    "window_strides": ("strides",),
    "x": ("src",),
    "zero_point": ("zps",),
    "zero_points": ("zps",),
}
"""From an argument's name elsewhere to ours; of these an op has some."""
_OPPOSITE = ("count_include_pad",)
"""Arguments that are true where ours is false."""


def _folded(name: str) -> str:
    """A name without case, underscores and the number of its axes: `Conv2DTranspose` → `convtranspose`."""
    plain = name.casefold().replace("_", "").replace("-", "")
    return re.sub(r"(?<=[a-z])[123]d", "", plain)


def kind_advice(name: str, kinds: Collection[str], spell: Callable[[str], str]) -> str:
    """` (did you mean 'Convolution'?)` for what other libraries call an op, or for another spelling of a kind.

    Args:
        name: what the user wrote.
        kinds: that there are.
        spell: from a kind to the name that is wanted.
    """
    folded = _folded(name)
    # Another spelling of a kind is that kind, whatever the table has to say of the word.
    same = next((kind for kind in kinds if _folded(kind) == folded), None)
    advice = f"{{{same}}}" if same is not None else KINDS.get(folded)
    if advice is None:
        return ""
    spelled = re.sub(r"\{(\w+)\}", lambda kind: repr(spell(kind[1])), advice)
    return f" (did you mean {spelled}?)"


def kind_hint(name: object, kinds: Collection[str], spell: Callable[[str], str] = lambda kind: kind) -> str:
    """What `kind_advice` says, or the kind whose name is close."""
    if not isinstance(name, str):
        return ""
    return kind_advice(name, kinds, spell) or nearest(name, map(spell, kinds))


def argument_hint(name: object, known: Iterable[str]) -> str:
    """` (did you mean 'strides'?)` for what other libraries call an argument, or for a name that is close to one."""
    names = list(known)
    word = name.casefold() if isinstance(name, str) else ""
    ours = [repr(own) for own in ARGUMENTS.get(word, ()) if own in names]
    if not ours:
        return nearest(name, names)
    opposite = ", which says the opposite" if word in _OPPOSITE else ""
    return f" (did you mean {' and '.join(ours)}{opposite}?)"
