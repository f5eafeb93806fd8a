"""NumPy kernels of the movement family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.errors import UnsupportedError
from ...ops.movement import permutation
from .kernels import Array, kernel, store


@kernel("Concat")
def concat(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Inputs behind each other along the axis."""
    np.concatenate(inputs, axis=op.attributes.integer("axis"), out=outputs[0])


@kernel("Reorder", "HostStopGradient", "HostMeanWeight")
def reorder(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A copy; the layouts are the arrays' own."""
    store(outputs[0], inputs[0])


@kernel("StaticReshape")
def static_reshape(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The elements in row-major order."""
    np.copyto(outputs[0], inputs[0].reshape(outputs[0].shape))


@kernel("StaticTranspose")
def static_transpose(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Axes in another order."""
    np.copyto(outputs[0], inputs[0].transpose(permutation(op.attributes, inputs[0].ndim)))


@kernel("GenIndex")
def gen_index(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The index along the axis."""
    axis = op.attributes.integer("axis") % inputs[0].ndim
    shape = tuple(-1 if a == axis else 1 for a in range(inputs[0].ndim))
    np.copyto(outputs[0], np.arange(inputs[0].shape[axis], dtype=outputs[0].dtype).reshape(shape))


@kernel("End")
def end(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Nothing: the tensor is an output of the graph."""


@kernel("Wildcard")
def wildcard(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Inputs are passed on, one to one."""
    for source, target in zip(inputs, outputs, strict=True):
        if source.shape != target.shape or source.dtype != target.dtype:
            raise UnsupportedError(
                f"{op}: a Wildcard passes its inputs on, and {list(source.shape)} of {source.dtype} does not fit "
                f"{list(target.shape)} of {target.dtype}; register an op of your own with register_op"
            )
        np.copyto(target, source)
