"""Prototypes of the library's C functions, all of which return a status: argument types by name.

Source: `dnnl.h` of oneDNN 3.2.
"""

from __future__ import annotations

from ctypes import POINTER, Structure, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from typing import Any


class ExecArg(Structure):
    """`dnnl_exec_arg_t`."""

    _fields_ = (("arg", c_int), ("memory", c_void_p))


_OUT = POINTER(c_void_p)
_DIMS = POINTER(c_int64)
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "dnnl_engine_create": (_OUT, c_int, c_size_t),
    "dnnl_engine_destroy": (c_void_p,),
    "dnnl_stream_create": (_OUT, c_void_p, c_uint),
    "dnnl_stream_destroy": (c_void_p,),
    "dnnl_memory_desc_create_with_strides": (_OUT, c_int, _DIMS, c_int, _DIMS),
    "dnnl_memory_desc_create_with_tag": (_OUT, c_int, _DIMS, c_int, c_int),
    "dnnl_memory_desc_clone": (_OUT, c_void_p),
    "dnnl_memory_desc_destroy": (c_void_p,),
    "dnnl_memory_desc_query": (c_void_p, c_int, c_void_p),
    "dnnl_memory_desc_permute_axes": (_OUT, c_void_p, POINTER(c_int)),
    "dnnl_memory_create": (_OUT, c_void_p, c_void_p, c_void_p),
    "dnnl_memory_destroy": (c_void_p,),
    "dnnl_memory_set_data_handle": (c_void_p, c_void_p),
    "dnnl_primitive_attr_create": (_OUT,),
    "dnnl_primitive_attr_destroy": (c_void_p,),
    "dnnl_primitive_attr_set_scratchpad_mode": (c_void_p, c_int),
    "dnnl_primitive_attr_set_fpmath_mode": (c_void_p, c_int),
    "dnnl_primitive_attr_set_scales_mask": (c_void_p, c_int, c_int),
    "dnnl_primitive_attr_set_zero_points_mask": (c_void_p, c_int, c_int),
    "dnnl_primitive_attr_set_post_ops": (c_void_p, c_void_p),
    "dnnl_post_ops_create": (_OUT,),
    "dnnl_post_ops_destroy": (c_void_p,),
    "dnnl_post_ops_append_eltwise": (c_void_p, c_int, c_float, c_float),
    "dnnl_post_ops_append_binary": (c_void_p, c_int, c_void_p),
    "dnnl_primitive_desc_destroy": (c_void_p,),
    "dnnl_primitive_desc_clone": (_OUT, c_void_p),
    "dnnl_primitive_desc_next_impl": (c_void_p,),
    "dnnl_primitive_desc_query": (c_void_p, c_int, c_int, c_void_p),
    "dnnl_primitive_create": (_OUT, c_void_p),
    "dnnl_primitive_destroy": (c_void_p,),
    "dnnl_primitive_execute": (c_void_p, c_void_p, c_int, POINTER(ExecArg)),
    "dnnl_reorder_primitive_desc_create": (
        _OUT, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "dnnl_matmul_primitive_desc_create": (
        _OUT, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "dnnl_sum_primitive_desc_create": (
        _OUT, c_void_p, c_void_p, c_int, POINTER(c_float), POINTER(c_void_p), c_void_p,
    ),
    "dnnl_convolution_backward_weights_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p, _DIMS, _DIMS, _DIMS, _DIMS,
        c_void_p, c_void_p,
    ),
    "dnnl_convolution_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, _DIMS, _DIMS, _DIMS, _DIMS, c_void_p,
    ),
    "dnnl_convolution_backward_data_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, _DIMS, _DIMS, _DIMS, _DIMS, c_void_p, c_void_p,
    ),
    "dnnl_deconvolution_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, _DIMS, _DIMS, _DIMS, _DIMS, c_void_p,
    ),
    "dnnl_eltwise_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_float, c_float, c_void_p,
    ),
    "dnnl_eltwise_backward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_float, c_float, c_void_p, c_void_p,
    ),
    "dnnl_binary_primitive_desc_create": (_OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p),
    "dnnl_softmax_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_int, c_void_p,
    ),
    "dnnl_softmax_backward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p,
    ),
    "dnnl_batch_normalization_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_float, c_uint, c_void_p,
    ),
    "dnnl_batch_normalization_backward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_float, c_uint, c_void_p, c_void_p,
    ),
    "dnnl_layer_normalization_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_float, c_uint, c_void_p,
    ),
    "dnnl_layer_normalization_backward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_float, c_uint, c_void_p, c_void_p,
    ),
    "dnnl_pooling_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, _DIMS, _DIMS, _DIMS, _DIMS, _DIMS, c_void_p,
    ),
    "dnnl_pooling_backward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, _DIMS, _DIMS, _DIMS, _DIMS, _DIMS, c_void_p, c_void_p,
    ),
    "dnnl_reduction_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_float, c_float, c_void_p,
    ),
    "dnnl_resampling_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "dnnl_resampling_backward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "dnnl_prelu_forward_primitive_desc_create": (
        _OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "dnnl_prelu_backward_primitive_desc_create": (
        _OUT, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "dnnl_concat_primitive_desc_create": (
        _OUT, c_void_p, c_void_p, c_int, c_int, POINTER(c_void_p), c_void_p,
    ),
}  # fmt: skip
