"""NumPy kernels of the host family, continued: what the processes that train one model tell each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from ...graph.runtime.communication import Communicator, find
from .kernels import Array, kernel


def _communicator(op: Op) -> Communicator:
    return find(op.attributes.integer("communicator"), str(op))


@kernel("HostMeanStart")
def mean_start(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A tensor put into its bucket."""
    bucket, piece = op.attributes.integer("bucket"), op.attributes.integer("piece")
    _communicator(op).put(bucket, piece, inputs[0])
    outputs[0][...] = 0


@kernel("HostMeanEnd")
def mean_end(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A tensor taken out of it."""
    del inputs  # it says only that the op's turn has come
    bucket, piece = op.attributes.integer("bucket"), op.attributes.integer("piece")
    _communicator(op).get(bucket, piece, outputs[0])


@kernel("HostRankSum")
def rank_sum(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A sum that all wait for."""
    _communicator(op).total(inputs[0], outputs[0])


@kernel("HostRankWeight")
def rank_weight(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A sum that all wait for, times the share of this process."""
    communicator = _communicator(op)
    given = inputs[0] if inputs[0].dtype == np.float64 else inputs[0].astype(np.float32)
    total = np.empty_like(given)
    communicator.total(given, total)
    outputs[0][...] = total * given.dtype.type(communicator.share / communicator.size)
