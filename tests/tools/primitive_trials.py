"""Random primitives as the lowerings make them, each with what NumPy says it must give; for `fuzz_primitives.py`.

A family's function draws one `Trial` from a random number generator. Data are small integers, so that what is exact in
the library is exact here; functions that are not, and types that round, are compared within a rounding.
"""

from __future__ import annotations

import trials_decompression as decompression
import trials_elementwise as elementwise
import trials_sums as sums
import trials_windows as windows
from trial_maker import LIMITS, RELATIVE, Maker, Undrawn

FAMILIES = {
    "reorder": elementwise.reorder,
    "eltwise": elementwise.eltwise,
    "eltwise_backward": elementwise.eltwise_backward,
    "binary": elementwise.binary,
    "reduction": elementwise.reduction,
    "softmax": elementwise.softmax,
    "softmax_backward": lambda m: elementwise.softmax(m, True),
    "pooling": windows.pooling,
    "pooling_backward": lambda m: windows.pooling(m, True),
    "batch_normalization": sums.batch_normalization,
    "batch_normalization_backward": lambda m: sums.batch_normalization(m, True),
    "layer_normalization": sums.layer_normalization,
    "layer_normalization_backward": lambda m: sums.layer_normalization(m, True),
    "rms_normalization": sums.rms_normalization,
    "resampling": windows.resampling,
    "resampling_backward": lambda m: windows.resampling(m, True),
    "prelu": elementwise.prelu,
    "prelu_backward": lambda m: elementwise.prelu(m, True),
    "matmul": sums.matmul,
    "decompression": decompression.matmul,
    "convolution": windows.convolution,
    "convolution_backward_data": lambda m: windows.convolution(m, "convolution_backward_data"),
    "deconvolution": lambda m: windows.convolution(m, "deconvolution_forward"),
    "sum": elementwise.total,
    "concat": elementwise.concat,
}

"""Name → what draws a trial of it."""

__all__ = ["FAMILIES", "LIMITS", "RELATIVE", "Maker", "Undrawn"]
