"""The end of an import: what several ops say together becomes the one op that says it."""

from __future__ import annotations

import numpy as np

from ....ops.data_types import DataType
from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from ...runtime.arrays import numpy_type
from ..expressions import cast, reshape
from ..translation import Translation, Value
from .cones import Structure, cones
from .functions import READ, FunctionOp, function_of
from .norms import layer_norms
from .reading import Written
from .reshapes import behind_functions
from .softmaxes import softmaxes
from .surroundings import Surroundings

WORTH_IT = frozenset({"Multiply", "Maximum"})
"""Single ops that can be another one: x · x is Square, max(x, 0) is ReLU, which any primitive takes along."""
POWERS = (3.0, 4.0, -2.0, -0.5)
"""Exponents for which products and roots take a fraction of the time."""


def recognise(t: Translation) -> None:
    """Replaces functions that are written out; tensors that stay keep their names. What is left over nobody reads.

    Args:
        t: with a graph whose outputs are marked, without ops that none of them needs.
    """
    around = Surroundings(t.graph)
    t.graph.replace_ops([_one(t, around, found) for found in (*layer_norms(around), *softmaxes(around))])
    t.graph.prune()
    t.graph.replace_ops(_functions(Surroundings(t.graph)))
    t.graph.replace_ops([_power(t, op) for op in t.graph.ops if _is_power(op)])
    t.graph.prune()
    t.graph.replace_ops(behind_functions(t, Surroundings(t.graph)))
    t.graph.prune()


def _one(t: Translation, around: Surroundings, found: Written) -> Op:
    """The op that does what was written."""
    t.label = found.last.name
    filled = zip(found.vectors, (1.0, 0.0), strict=False)
    vectors = [_vector(t, around, found, vector, fill) for vector, fill in filled]
    inputs = [found.source, *vectors]
    return Op(found.last.id, found.kind, inputs, found.last.outputs, name=found.last.name, **found.attributes)


def _vector(
    t: Translation, around: Surroundings, found: Written, given: LogicalTensor | None, fill: float
) -> LogicalTensor:
    """A factor or a summand for the last axes: without axes of one element before them, and never in f16."""
    x = found.source
    shape = (x.shape or ())[found.first :]
    value: Value = np.full(shape, fill, numpy_type(x.data_type)) if given is None else given
    if given is not None and given.shape != shape:
        array = around.constant(given)
        value = reshape(t, given if array is None else array, shape)
    return t.tensor(cast(t, value, np.dtype(np.float32)) if x.data_type is DataType.f16 else value)


def _functions(around: Surroundings) -> list[Op]:
    """The ops that stand for cones, the largest cone from each op back."""
    known: dict[Structure, FunctionOp | None] = {}
    found: list[Op] = []
    gone: set[int] = set()
    for op in reversed(around.ops):
        if op.id in gone or op.kind not in READ or op.kind == "TypeCast":
            continue
        best = None
        for cone in cones(op, around, READ):
            if len(cone.ops) == 1 and op.kind not in WORTH_IT:
                continue
            if cone.structure not in known:
                known[cone.structure] = function_of(cone.structure)
            function = known[cone.structure]
            if function is not None:
                best = cone, function
        if best is not None:
            cone, function = best
            gone.update(one.id for one in cone.ops)
            found.append(
                Op(op.id, function.kind, [cone.source], op.outputs, name=op.name, **dict(function.attributes))
            )
    return found


def _is_power(op: Op) -> bool:
    return op.kind == "Pow" and op.attributes.real("beta") in POWERS


def _power(t: Translation, op: Op) -> Op:
    """A power by a product or a root. The square of 1 / x has a value where x² would overflow, or be 0."""
    (x,) = op.inputs
    beta = op.attributes.real("beta")
    part, kind = {
        3.0: ("Square", "Multiply"),
        4.0: ("Square", "Square"),
        -2.0: ("Reciprocal", "Square"),
        -0.5: ("Sqrt", "Reciprocal"),
    }[beta]
    inner = t.titled(f"{op.name}.{part.lower()}", part, x)
    return Op(op.id, kind, [x, inner] if beta == 3 else [inner], op.outputs, name=op.name)
