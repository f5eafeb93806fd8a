"""The library's Graph API through ctypes: enumerators, structs, prototypes.

Source of every number and prototype: the C headers of oneDNN 3.2 (`dnnl_graph.h`, `dnnl_graph_types.h`); a test
compares them with the headers where these are installed. The functions are those of the same libdnnl whose primitives
the backend `onednn` runs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint8, c_void_p
from typing import Any

from ...graph.model.logical_tensor import PropertyType
from ...graph.runtime.locking import foreign_locks
from ...ops.errors import OutOfMemoryError, UnsupportedError
from ..onednn.library.loading import MAX_NDIMS, STATUSES, load

KINDS: dict[str, int] = {
    kind: number
    for number, kind in enumerate(
        """
    Abs AbsBackward Add AvgPool AvgPoolBackward BatchNormTrainingBackward BatchNormForwardTraining BatchNormInference
    BiasAdd BiasAddBackward Clamp ClampBackward Concat Convolution ConvolutionBackwardData ConvolutionBackwardWeights
    ConvTranspose ConvTransposeBackwardData ConvTransposeBackwardWeights Dequantize Divide DynamicDequantize
    DynamicQuantize Elu EluBackward End Exp GELU GELUBackward HardSwish HardSwishBackward Interpolate
    InterpolateBackward LayerNorm LayerNormBackward LeakyReLU Log LogSoftmax LogSoftmaxBackward MatMul Maximum MaxPool
    MaxPoolBackward Minimum Mish MishBackward Multiply PReLU PReLUBackward Quantize Reciprocal ReduceL1 ReduceL2
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReLU ReLUBackward Reorder Round Sigmoid SigmoidBackward SoftMax
    SoftMaxBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference StaticReshape StaticTranspose
    Subtract Tanh TanhBackward TypeCast Wildcard HardSigmoid HardSigmoidBackward Select Pow
    """.split()  # noqa: SIM905 -- a list would take 83 lines
    )
}
"""`dnnl_graph_op_kind_t`, which counts from 0."""

ATTRIBUTES: dict[str, int] = {
    "alpha": 1,
    "beta": 2,
    "epsilon": 3,
    "max": 4,
    "min": 5,
    "momentum": 6,
    "scales": 32,
    "axis": 48,
    "begin_norm_axis": 49,
    "groups": 50,
    "axes": 64,
    "dilations": 65,
    "dst_shape": 66,
    "kernel": 67,
    "order": 68,
    "output_padding": 69,
    "pads_begin": 70,
    "pads_end": 71,
    "shape": 72,
    "sizes": 73,
    "src_shape": 74,
    "strides": 75,
    "weights_shape": 76,
    "zps": 77,
    "exclude_pad": 96,
    "keep_dims": 97,
    "keep_stats": 98,
    "per_channel_broadcast": 99,
    "special_zero": 100,
    "transpose_a": 101,
    "transpose_b": 102,
    "use_affine": 103,
    "use_dst": 104,
    "auto_broadcast": 128,
    "auto_pad": 129,
    "coordinate_transformation_mode": 130,
    "data_format": 131,
    "mode": 132,
    "qtype": 133,
    "rounding_type": 134,
    "weights_format": 135,
}
"""`dnnl_graph_op_attr_t`."""

PROPERTIES: dict[PropertyType, int] = {
    PropertyType.undef: 0,
    PropertyType.variable: 1,
    PropertyType.constant: 2,
}
"""`dnnl_graph_tensor_property_t`."""

LAYOUT_ANY, LAYOUT_STRIDED = 1, 2
"""`dnnl_graph_layout_type_t`."""
POLICY_FUSION, POLICY_DEBUG = 1, 2
"""`dnnl_graph_partition_policy_t`."""
ENGINE_CPU = 1
"""`dnnl_engine_kind_t`."""
UNKNOWN_NDIMS, UNKNOWN_DIM = -1, -(2**63)
UNKNOWN_ID = 2**64 - 1
"""What the library takes for "no id"."""
FPMATH_MODES = {"strict": 0, "bf16": 1, "f16": 2, "any": 3}
"""`dnnl_fpmath_mode_t`, by the names of a graph's modes."""


class LogicalTensorStruct(ctypes.Structure):
    """`dnnl_graph_logical_tensor_t`; strides stand in the place of the union with the id of an opaque layout."""

    _fields_ = (
        ("id", c_size_t),
        ("ndims", c_int),
        ("dims", c_int64 * MAX_NDIMS),
        ("data_type", c_int),
        ("property", c_int),
        ("layout_type", c_int),
        ("strides", c_int64 * MAX_NDIMS),
    )


class InplacePair(ctypes.Structure):
    """`dnnl_graph_inplace_pair_t`."""

    _fields_ = (("input_id", c_size_t), ("output_id", c_size_t))


TENSOR = POINTER(LogicalTensorStruct)
_TENSORS, _OUT = POINTER(TENSOR), POINTER(c_void_p)
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "logical_tensor_init": (TENSOR, c_size_t, c_int, c_int, c_int, c_int),
    "logical_tensor_init_with_dims": (TENSOR, c_size_t, c_int, c_int, POINTER(c_int64), c_int, c_int),
    "logical_tensor_init_with_strides": (
        TENSOR,
        c_size_t,
        c_int,
        c_int,
        POINTER(c_int64),
        POINTER(c_int64),
        c_int,
    ),
    "logical_tensor_get_mem_size": (TENSOR, POINTER(c_size_t)),
    "op_create": (_OUT, c_size_t, c_int, c_char_p),
    "op_destroy": (c_void_p,),
    "op_add_input": (c_void_p, TENSOR),
    "op_add_output": (c_void_p, TENSOR),
    "op_set_attr_s64": (c_void_p, c_int, POINTER(c_int64), c_size_t),
    "op_set_attr_f32": (c_void_p, c_int, POINTER(c_float), c_size_t),
    "op_set_attr_bool": (c_void_p, c_int, POINTER(c_uint8), c_size_t),
    "op_set_attr_str": (c_void_p, c_int, c_char_p, c_size_t),
    "graph_create_with_fpmath_mode": (_OUT, c_int, c_int),
    "graph_destroy": (c_void_p,),
    "add_op": (c_void_p, c_void_p),
    "graph_finalize": (c_void_p,),
    "graph_filter": (c_void_p, c_int),
    "graph_get_partition_num": (c_void_p, POINTER(c_size_t)),
    "graph_get_partitions": (c_void_p, c_size_t, _OUT),
    "partition_destroy": (c_void_p,),
    "partition_is_supported": (c_void_p, POINTER(c_uint8)),
    "partition_get_op_num": (c_void_p, POINTER(c_size_t)),
    "partition_get_ops": (c_void_p, c_size_t, POINTER(c_size_t)),
    "partition_get_input_ports_num": (c_void_p, POINTER(c_size_t)),
    "partition_get_input_ports": (c_void_p, c_size_t, TENSOR),
    "partition_get_output_ports_num": (c_void_p, POINTER(c_size_t)),
    "partition_get_output_ports": (c_void_p, c_size_t, TENSOR),
    "compiled_partition_create": (_OUT, c_void_p),
    "compiled_partition_destroy": (c_void_p,),
    "partition_compile": (c_void_p, c_void_p, c_size_t, _TENSORS, c_size_t, _TENSORS, c_void_p),
    "compiled_partition_query_logical_tensor": (c_void_p, c_size_t, TENSOR),
    "compiled_partition_get_inplace_ports": (c_void_p, POINTER(c_size_t), POINTER(POINTER(InplacePair))),
    "compiled_partition_execute": (c_void_p, c_void_p, c_size_t, _OUT, c_size_t, _OUT),
    "tensor_create": (_OUT, TENSOR, c_void_p, c_void_p),
    "tensor_set_data_handle": (c_void_p, c_void_p),
    "tensor_destroy": (c_void_p,),
    "set_constant_tensor_cache": (c_int,),
    "set_compiled_partition_cache_capacity": (c_int,),
}
"""Functions `dnnl_graph_…`, all of which return a status."""

OUT_OF_MEMORY, INVALID_OP = 1, 8


@functools.cache
def functions() -> dict[str, Callable[..., int]]:
    """The functions with prototypes.

    What depends on constant tensors is kept by the library, as its documents advise for inference; nothing compiled is
    shared, so that what is dropped is gone.

    Raises:
        LibraryError: see `load`.
    """
    found: dict[str, Callable[..., int]] = {}
    for name, argtypes in PROTOTYPES.items():
        function = getattr(load().c, f"dnnl_graph_{name}")
        function.argtypes = argtypes
        function.restype = c_int
        found[name] = function
    found["set_constant_tensor_cache"](1)
    found["set_compiled_partition_cache_capacity"](0)
    return found


def status_name(status: int) -> str:
    """`invalid graph op`, say."""
    return STATUSES[status] if 0 <= status < len(STATUSES) else f"status {status}"


def call(function: str, *arguments: Any, what: object = "") -> None:
    """Calls `dnnl_graph_<function>`.

    Raises:
        UnsupportedError: it did not succeed; `what` is how the message names what it was called for.
        OutOfMemoryError: for lack of memory.
    """
    with foreign_locks:
        status = functions()[function](*arguments)
    if status:
        told = f"dnnl_graph_{function} failed with '{status_name(status)}'{f' for {what}' if what else ''}"
        if status == INVALID_OP:
            told += ", whose types or attributes its rules do not allow"
        raise OutOfMemoryError(told) if status == OUT_OF_MEMORY else UnsupportedError(told)


def count(function: str, handle: c_void_p) -> int:
    """The number that a function asks of a handle."""
    number = c_size_t()
    call(function, handle, byref(number))
    return number.value


def answer(function: str, handle: c_void_p) -> bool:
    """The flag that a function asks of a handle."""
    flag = c_uint8()
    call(function, handle, byref(flag))
    return bool(flag.value)
