"""The library's enumerators, from its C headers; a test compares the numbers where the headers are installed."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Arg(IntEnum):
    """Indices of primitive arguments, `DNNL_ARG_*`."""

    SRC = 1
    SRC_1 = 2
    DST = 17
    WEIGHTS = 33
    BIAS = 41
    MEAN = 49
    VARIANCE = 50
    SCALE = 51
    SHIFT = 52
    WORKSPACE = 64
    SCRATCHPAD = 80
    DIFF_SRC = 129
    DIFF_DST = 145
    DIFF_WEIGHTS = 161
    DIFF_BIAS = 169
    DIFF_SCALE = 255
    DIFF_SHIFT = 256
    MULTIPLE_SRC = 1024
    ATTR_SCALES = 4096
    ATTR_ZERO_POINTS = 8192
    ATTR_MULTIPLE_POST_OP_BASE = 32768


class Query(IntEnum):
    """`dnnl_query_t`, the part that is used here."""

    impl_info_str = 8
    src_md = 129
    diff_src_md = 130
    weights_md = 131
    diff_weights_md = 132
    dst_md = 133
    diff_dst_md = 134
    workspace_md = 135
    scratchpad_md = 136
    ndims_s32 = 256
    dims = 257
    data_type = 258
    padded_dims = 260
    format_kind = 262
    inner_nblks_s32 = 263
    inner_blks = 264
    inner_idxs = 265
    strides = 14


class FpmathMode(IntEnum):
    """`dnnl_fpmath_mode_t`."""

    strict = 0
    bf16 = 1
    f16 = 2
    any = 3
    tf32 = 4


class CpuIsa(IntEnum):
    """`dnnl_cpu_isa_t`."""

    default = 0x0
    sse41 = 0x1
    avx = 0x3
    avx2 = 0x7
    avx2_vnni = 0xF
    avx2_vnni_2 = 0x1F
    avx512_core = 0x27
    avx512_core_vnni = 0x67
    avx512_core_bf16 = 0xE7
    avx512_core_fp16 = 0x1EF
    avx512_core_amx = 0xFEF
    avx512_core_amx_fp16 = 0x1FEF


class Algorithm(IntEnum):
    """`dnnl_alg_kind_t`, the part that is used here."""

    convolution_direct = 0x1
    deconvolution_direct = 0xA
    eltwise_relu = 0x20
    eltwise_tanh = 0x21
    eltwise_elu = 0x22
    eltwise_square = 0x23
    eltwise_abs = 0x24
    eltwise_sqrt = 0x25
    eltwise_linear = 0x26
    eltwise_soft_relu = 0x27
    eltwise_hardsigmoid = 0x28
    eltwise_logistic = 0x29
    eltwise_exp = 0x2A
    eltwise_gelu_tanh = 0x2B
    eltwise_swish = 0x2C
    eltwise_log = 0x2D
    eltwise_clip_v2 = 0x2F
    eltwise_pow = 0x30
    eltwise_gelu_erf = 0x31
    eltwise_round = 0x32
    eltwise_mish = 0x33
    eltwise_hardswish = 0x34
    eltwise_relu_use_dst_for_bwd = 0x100
    eltwise_tanh_use_dst_for_bwd = 0x101
    eltwise_elu_use_dst_for_bwd = 0x102
    eltwise_sqrt_use_dst_for_bwd = 0x103
    eltwise_logistic_use_dst_for_bwd = 0x104
    eltwise_clip_v2_use_dst_for_bwd = 0x106
    pooling_max = 0x1FF
    pooling_avg_include_padding = 0x2FF
    pooling_avg_exclude_padding = 0x3FF
    binary_add = 0x1FFF0
    binary_mul = 0x1FFF1
    binary_max = 0x1FFF2
    binary_min = 0x1FFF3
    binary_div = 0x1FFF4
    binary_sub = 0x1FFF5
    resampling_nearest = 0x2FFF0
    resampling_linear = 0x2FFF1
    reduction_max = 0x2FFF2
    reduction_min = 0x2FFF3
    reduction_sum = 0x2FFF4
    reduction_mul = 0x2FFF5
    reduction_mean = 0x2FFF6
    reduction_norm_lp_sum = 0x2FFF8
    reduction_norm_lp_power_p_sum = 0x2FFFA
    softmax_accurate = 0x30000
    softmax_log = 0x30001


class Propagation(IntEnum):
    """`dnnl_prop_kind_t`, the part that is used here."""

    forward_training = 64
    forward_inference = 96
    backward = 128
    backward_data = 160


class NormalizationFlags(IntFlag):
    """`dnnl_normalization_flags_t`, the part that is used here; `rms_norm` came after 3.6, which refuses it."""

    none = 0
    use_global_stats = 1
    use_scale = 2
    use_shift = 4
    fuse_norm_relu = 8
    rms_norm = 32
