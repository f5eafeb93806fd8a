"""Losses: functions that add to a graph what is to become small; one module per family.

A new one takes `checks.checked` for its tensors and `reducing.finished` for `weights` and `reduction`, and is told
below, in `og.training` and in docs/pages/api/training.md.
"""

from .binary import binary_cross_entropy, binary_cross_entropy_with_logits
from .classes import cross_entropy, negative_log_likelihood
from .divergence import kl_divergence
from .margins import cosine_embedding, hinge, triplet_margin
from .reducing import Reduction
from .regression import huber, mean_absolute_error, mean_squared_error, smooth_l1
from .sequences import ctc

__all__ = [
    "Reduction",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding",
    "cross_entropy",
    "ctc",
    "hinge",
    "huber",
    "kl_divergence",
    "mean_absolute_error",
    "mean_squared_error",
    "negative_log_likelihood",
    "smooth_l1",
    "triplet_margin",
]
