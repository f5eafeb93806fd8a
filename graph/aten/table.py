"""The vocabulary of ATen: op, with its overload or without → its translation."""

from __future__ import annotations

from ..importing.tables import merged, replaced
from . import (
    elementwise,
    groups,
    hosted,
    kept,
    layers,
    places,
    recurrent,
    resizing,
    sampling,
    shapes,
    spelled,
    statistics,
    training,
)
from .backward import elementwise as elementwise_backward
from .backward import layers as layers_backward
from .backward import normalization as normalization_backward
from .schema import Translate

TABLE: dict[str, Translate] = merged(
    elementwise.OPS,
    shapes.OPS,
    layers.OPS,
    resizing.OPS,
    statistics.OPS,
    recurrent.OPS,
    hosted.OPS,
    sampling.OPS,
    places.OPS,
    groups.OPS,
    groups.OTHERS,
    spelled.OPS,
)
"""Of a module in inference mode."""
TRAINING: dict[str, Translate] = merged(replaced(TABLE, training.INSTEAD), training.OPS)
"""Of a module in training."""
del TRAINING["aten.instance_norm"]  # it falls into ops that move its running statistics
TRAINING_SINCE_2_14: dict[str, Translate] = replaced(TRAINING, training.SINCE_2_14)
"""The same, with the gradients that torch has had since 2.14."""
AUTOGRAD: dict[str, Translate] = merged(
    replaced(TRAINING, kept.INSTEAD),
    elementwise_backward.OPS,
    layers_backward.OPS,
    layers_backward.OWN,
    normalization_backward.OPS,
)
"""Of the graphs of forward and backward pass that autograd makes."""
del AUTOGRAD["aten._embedding_bag"]  # its gradient reads more than the first of its results
