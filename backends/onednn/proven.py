"""Implementations of the library that the fuzzers have covered, so that the quarantine tells all that is known of them.

Every other one, of a CPU or a version that no sweep has run on, say, is verified on integer data when it is first
compiled for a problem. Names come from `tests/tools/fuzz_kernels.py` for weight gradients and
`tests/tools/fuzz_primitives.py` for all others, run with every instruction set up to AVX-512 with bf16 and VNNI.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from .library.loading import Library, Version
from .library.runtimes import TBB_NAME

_OF_3_2: Mapping[str, frozenset[str]] = {
    "batch_normalization_backward": frozenset(
        {
            "bnorm_jit:avx2",
            "bnorm_jit:avx512_core",
            "bnorm_jit:avx512_core_bf16",
            "bnorm_jit:sse41",
            "bnorm_tbb_jit:avx2",
            "bnorm_tbb_jit:avx512_core",
            "bnorm_tbb_jit:avx512_core_bf16",
            "bnorm_tbb_jit:sse41",
            "ncsp_bnorm:any",
            "nspc_bnorm:any",
        }
    ),
    "batch_normalization_forward": frozenset(
        {
            "bnorm_jit:avx2",
            "bnorm_jit:avx512_core",
            "bnorm_jit:avx512_core_bf16",
            "bnorm_jit:sse41",
            "bnorm_tbb_jit:avx2",
            "bnorm_tbb_jit:avx512_core",
            "bnorm_tbb_jit:avx512_core_bf16",
            "bnorm_tbb_jit:sse41",
            "ncsp_bnorm:any",
            "nspc_bnorm:any",
        }
    ),
    "binary": frozenset(
        {
            "jit:uni",
        }
    ),
    "concat": frozenset(
        {
            "simple:any",
        }
    ),
    "convolution_backward_data": frozenset(
        {
            "brg_fwd:avx2+brgconv:avx2",
            "brg_fwd:avx2+brgconv_1x1:avx2",
            "brg_fwd:avx512_core+brgconv:avx512_core",
            "brg_fwd:avx512_core+brgconv_1x1:avx512_core",
            "brg_fwd:avx512_core_bf16+brgconv:avx512_core_bf16",
            "brg_fwd:avx512_core_bf16+brgconv_1x1:avx512_core_bf16",
            "brgconv_strided:avx2",
            "brgconv_strided:avx512_core",
            "brgconv_strided:avx512_core_bf16",
            "jit:avx2",
            "jit:avx512_core",
            "jit_1x1:avx2",
            "jit_1x1:avx512_core",
            "jit_bf16:avx512_core",
            "jit_bf16:avx512_core_bf16",
            "jit_bf16_1x1:avx512_core",
            "jit_bf16_1x1:avx512_core_bf16",
            "jit_dw:avx2",
            "jit_dw:avx512_core",
            "jit_dw:avx512_core_bf16",
            "jit_dw:sse41",
            "x64:gemm:jit",
        }
    ),
    "convolution_backward_weights": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core",
            "jit_1x1:avx2",
            "jit_1x1:avx512_core",
            "jit_bf16:avx512_core",
            "jit_bf16:avx512_core_bf16",
            "jit_bf16_1x1:avx512_core",
            "jit_bf16_1x1:avx512_core_bf16",
            "jit_dw:avx2",
            "jit_dw:avx512_core",
            "jit_dw:avx512_core_bf16",
            "jit_dw:sse41",
            "x64:gemm:jit",
        }
    ),
    "convolution_forward": frozenset(
        {
            "brdgmm_dw:avx2",
            "brdgmm_dw:avx512_core",
            "brdgmm_dw:avx512_core_bf16",
            "brgconv:avx2",
            "brgconv:avx2_vnni",
            "brgconv:avx512_core",
            "brgconv:avx512_core_bf16",
            "brgconv:avx512_core_vnni",
            "brgconv_1x1:avx2",
            "brgconv_1x1:avx2_vnni",
            "brgconv_1x1:avx512_core",
            "brgconv_1x1:avx512_core_bf16",
            "brgconv_1x1:avx512_core_vnni",
            "jit:avx2",
            "jit:avx512_core",
            "jit:sse41",
            "jit_1x1:avx2",
            "jit_1x1:avx512_core",
            "jit_bf16:avx512_core",
            "jit_bf16:avx512_core_bf16",
            "jit_bf16_1x1:avx512_core",
            "jit_bf16_1x1:avx512_core_bf16",
            "jit_dw:avx2",
            "jit_dw:avx512_core",
            "jit_dw:avx512_core_bf16",
            "jit_dw:sse41",
            "jit_int8:avx512_core_vnni",
            "jit_int8_1x1:avx512_core_vnni",
            "jit_uni_int8:avx2",
            "jit_uni_int8:avx2_vnni",
            "jit_uni_int8:sse41",
            "jit_uni_int8_1x1:avx2_vnni",
            "x64:gemm:jit",
            "x64:gemm_s8s8s32:jit",
            "x64:gemm_s8u8s32:jit",
        }
    ),
    "deconvolution_forward": frozenset(
        {
            "brg_conv:avx2+brgconv_1x1:avx2",
            "brg_conv:avx2+brgconv_strided:avx2",
            "brg_conv:avx2_vnni+brgconv:avx2_vnni",
            "brg_conv:avx2_vnni+brgconv_1x1:avx2_vnni",
            "brg_conv:avx2_vnni+brgconv_strided:avx2_vnni",
            "brg_conv:avx512_core+brgconv_strided:avx512_core",
            "brg_conv:avx512_core_bf16+brgconv:avx512_core_bf16",
            "brg_conv:avx512_core_bf16+brgconv_strided:avx512_core_bf16",
            "brg_conv:avx512_core_vnni+brgconv:avx512_core_vnni",
            "brg_conv:avx512_core_vnni+brgconv_1x1:avx512_core_vnni",
            "brg_conv:avx512_core_vnni+brgconv_strided:avx512_core_vnni",
            "conv:any+brg_fwd:avx2+brgconv:avx2",
            "conv:any+brg_fwd:avx512_core+brgconv:avx512_core",
            "conv:any+brg_fwd:avx512_core+brgconv_1x1:avx512_core",
            "conv:any+brg_fwd:avx512_core_bf16+brgconv:avx512_core_bf16",
            "conv:any+brgconv_strided:avx2",
            "conv:any+brgconv_strided:avx512_core",
            "conv:any+brgconv_strided:avx512_core_bf16",
            "conv:any+jit:avx2",
            "conv:any+jit:avx512_core",
            "conv:any+jit_1x1:avx2",
            "conv:any+jit_1x1:avx512_core",
            "conv:any+jit_bf16:avx512_core",
            "conv:any+jit_bf16:avx512_core_bf16",
            "conv:any+jit_bf16_1x1:avx512_core_bf16",
            "conv:any+jit_dw:avx2",
            "conv:any+jit_dw:avx512_core",
            "conv:any+jit_dw:avx512_core_bf16",
            "conv:any+x64:gemm:jit",
            "conv:any+x64:gemm_s8s8s32:jit",
            "conv:any+x64:gemm_s8u8s32:jit",
            "jit_deconvolution:avx512_core_vnni",
            "jit_uni_int8:avx2",
            "jit_uni_int8:avx2_vnni",
            "jit_uni_int8:sse41",
        }
    ),
    "eltwise_backward": frozenset(
        {
            "jit:avx",
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
        }
    ),
    "eltwise_forward": frozenset(
        {
            "jit:avx",
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
            "jit_int8:avx2",
            "jit_int8:avx512_core",
            "jit_int8:sse41",
        }
    ),
    "layer_normalization_backward": frozenset(
        {
            "jit:uni",
            "simple:any",
        }
    ),
    "layer_normalization_forward": frozenset(
        {
            "jit:uni",
            "simple:any",
        }
    ),
    "matmul": frozenset(
        {
            "brg:avx2_vnni",
            "brg:avx512_core",
            "brg:avx512_core_bf16",
            "brg:avx512_core_vnni",
            "gemm:jit",
            "gemm:jit:bf16",
            "gemm:jit:f32",
        }
    ),
    "pooling_backward": frozenset(
        {
            "jit:avx",
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
            "simple_nchw:any",
            "simple_nhwc:any",
        }
    ),
    "pooling_forward": frozenset(
        {
            "jit:avx",
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
            "jit_int:avx2",
            "jit_int:avx512_core",
            "jit_int:sse41",
            "simple_nchw:any",
            "simple_nhwc:any",
        }
    ),
    "prelu_backward": frozenset(
        {
            "jit_uni",
        }
    ),
    "prelu_forward": frozenset(
        {
            "jit_uni",
        }
    ),
    "reduction": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
        }
    ),
    "reorder": frozenset(
        {
            "brgemm_matmul_matrix_B_reorder_t",
            "jit:blk",
            "jit:uni",
            "rnn_data_reorder",
            "simple:any",
        }
    ),
    "resampling_backward": frozenset(
        {
            "jit:avx512_core",
            "simple:any",
        }
    ),
    "resampling_forward": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
            "simple:any",
        }
    ),
    "softmax_backward": frozenset(
        {
            "jit:avx512_core",
            "jit:avx512_core_bf16",
        }
    ),
    "softmax_forward": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
        }
    ),
    "sum": frozenset(
        {
            "jit_xf16_avx512_core",
            "jit_xf16_avx512_core_bf16",
            "simple:any",
        }
    ),
}
"""What made the primitive → names of implementations."""

_OF_3_6: Mapping[str, frozenset[str]] = {
    "batch_normalization_backward": frozenset(
        {
            "ncsp_bnorm:any",
            "nspc_bnorm:any",
        }
    ),
    "batch_normalization_forward": frozenset(
        {
            "ncsp_bnorm:any",
            "nspc_bnorm:any",
        }
    ),
    "binary": frozenset(
        {
            "jit:uni",
        }
    ),
    "concat": frozenset(
        {
            "simple:any",
        }
    ),
    "convolution_backward_data": frozenset(
        {
            "brgconv_strided:avx2",
            "brgconv_strided:avx512_core",
            "brgconv_strided:avx512_core_bf16",
            "jit:avx2",
            "jit:avx512_core",
            "jit_1x1:avx2",
            "jit_bf16:avx512_core_bf16",
            "x64:gemm:jit",
        }
    ),
    "convolution_backward_weights": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core",
            "jit_1x1:avx2",
            "jit_1x1:avx512_core",
            "jit_bf16:avx512_core_bf16",
            "x64:gemm:jit",
        }
    ),
    "convolution_forward": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core",
            "jit_bf16:avx512_core_bf16",
            "jit_int8:avx512_core_vnni",
            "jit_uni_int8:avx2_vnni",
            "x64:gemm:jit",
        }
    ),
    "deconvolution_forward": frozenset(
        {
            "conv:any+jit:avx512_core",
            "conv:any+x64:gemm_s8s8s32:jit",
            "conv:any+x64:gemm_s8u8s32:jit",
            "jit_deconvolution:avx512_core_vnni",
            "jit_uni_int8:avx2_vnni",
        }
    ),
    "eltwise_backward": frozenset(
        {
            "jit:avx",
            "jit:avx2",
            "jit:avx512_core",
            "jit:avx512_core_bf16",
            "jit:sse41",
        }
    ),
    "eltwise_forward": frozenset(
        {
            "jit:avx",
            "jit:avx2",
            "jit:sse41",
        }
    ),
    "layer_normalization_backward": frozenset(
        {
            "jit:uni",
            "simple:any",
        }
    ),
    "layer_normalization_forward": frozenset(
        {
            "jit:uni",
        }
    ),
    "matmul": frozenset(
        {
            "brg_matmul:avx2",
            "brg_matmul:avx512_core",
            "brg_matmul:avx512_core_bf16",
            "brg_matmul:avx512_core_vnni",
            "gemm:jit",
            "gemm:jit:bf16",
            "gemm:jit:f32",
        }
    ),
    "pooling_backward": frozenset(
        {
            "jit:avx512_core",
            "simple_nchw:any",
        }
    ),
    "prelu_backward": frozenset(
        {
            "jit_uni",
        }
    ),
    "prelu_forward": frozenset(
        {
            "jit_uni",
        }
    ),
    "reduction": frozenset(
        {
            "jit:avx512_core_bf16",
        }
    ),
    "reorder": frozenset(
        {
            "jit:uni",
            "simple:any",
        }
    ),
    "resampling_backward": frozenset(
        {
            "simple:any",
        }
    ),
    "resampling_forward": frozenset(
        {
            "jit:avx512_core_bf16",
            "simple:any",
        }
    ),
    "softmax_backward": frozenset(
        {
            "jit:avx512_core_bf16",
        }
    ),
    "softmax_forward": frozenset(
        {
            "jit:avx2",
            "jit:avx512_core_bf16",
        }
    ),
    "sum": frozenset(
        {
            "simple:any",
        }
    ),
}
"""The same of 3.6.2: those that ran right in 200 trials at least, of layouts that nothing bars."""

PROVEN: Mapping[Version, Mapping[str, frozenset[str]]] = {(3, 2): _OF_3_2, (3, 6): _OF_3_6}
"""The same by version, each swept for itself."""


def is_proven(lib: Library, function: str, implementation: str) -> bool:
    """Whether the fuzzers have covered an implementation of what `function` makes."""
    return implementation in _covered(lib).get(function, ())


class Swept(enum.StrEnum):
    """How much of a library the fuzzers have covered, in words."""

    full = "yes"
    part = "in part: the kernels that are not are verified when they are first compiled"
    none = "no: what runs on it is verified when it is first compiled"


def swept(lib: Library) -> Swept:
    """How much of a library the fuzzers have covered."""
    covered = _covered(lib)
    if covered is _OF_3_2:
        return Swept.full
    return Swept.part if covered else Swept.none


def _covered(lib: Library) -> Mapping[str, frozenset[str]]:
    """What the fuzzers have covered: OpenMP and not TBB, for which kernels divide their work otherwise."""
    if lib.runtime.name == TBB_NAME:
        return {}
    return PROVEN.get(lib.version[:2], {})
