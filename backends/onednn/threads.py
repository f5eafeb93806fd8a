"""How many threads a plan gets: what is asked for, one for small work, else all that are of use.

The number must hold where a primitive is described, where it is made and where it runs: implementations size their
scratchpads by it. So it belongs to a plan (`Plan.threads`), which sets it for the calling thread while it runs, but for
primitives with little to do: `plan/team.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...graph.compile.backend import CompileRequest
from ...graph.model.op import Op
from ...graph.runtime.threads import asked_threads, get_num_threads
from .lowering.as_views import is_move
from .plan.team import BYTES_PER_SECOND, FLOPS_PER_SECOND

SMALL_SECONDS = 55e-6
"""Work that one core does in that time is not worth waking another: with 0.2 ms between calls six products of 1 × 256
by 256 × 256 take 53 µs alone and 74 for two, and 50 and 44 where calls follow each other at once.
"""
SMALL_GRADIENT_SECONDS = 20e-6
"""The same of weight gradients, whose sums over many positions two cores share well."""


def threads_for(request: CompileRequest) -> int:
    """How many threads the plan of a request is made for, and runs on."""
    asked = request.options.threads or request.engine.threads or asked_threads()
    if asked is not None:
        return asked
    small = SMALL_GRADIENT_SECONDS if any(map(_sums_positions, request.ops)) else SMALL_SECONDS
    return 1 if one_core_seconds(request.ops) < small else get_num_threads()


def one_core_seconds(ops: Sequence[Op]) -> float:
    """About how long one core takes for ops on concrete tensors, of which those that only move elements are views."""
    working = [op for op in ops if not is_move(op)]
    return sum(_flops(op) / FLOPS_PER_SECOND + _nbytes(op) / BYTES_PER_SECOND for op in working)


def _nbytes(op: Op) -> int:
    return sum(tensor.nbytes for tensor in (*op.inputs, *op.outputs) if tensor.is_concrete)


def _flops(op: Op) -> float:
    """Of products of matrices and convolutions; other ops take as long as their bytes."""
    product = op.kind == "MatMul"
    if not product and not op.kind.startswith("Conv"):
        return 0.0
    sizes = [math.prod(t.dims) for t in (*op.inputs[:2], *op.outputs) if t.is_concrete]
    if len(sizes) < 3:
        return math.inf  # the shape of an input hangs on another's value
    if product:  # of M·K, K·N and M·N, for all matrices of a batch
        return 2 * math.sqrt(math.prod(sizes))
    # Every weight meets every place of an image of the larger side at most.
    weights = op.outputs[0] if _sums_positions(op) else op.inputs[1]
    images = op.inputs[:2] if _sums_positions(op) else (op.inputs[0], op.outputs[0])
    axis = 1 if op.attributes.string("data_format") == "NCX" else -1
    places = max(math.prod(t.dims) // max(1, t.dims[axis]) for t in images)
    return 2.0 * math.prod(weights.dims) * places


def _sums_positions(op: Op) -> bool:
    """Whether it is the gradient of a convolution's weights, by any of its names."""
    return op.kind.startswith("Conv") and op.kind.endswith(("Weights", "Filters"))
