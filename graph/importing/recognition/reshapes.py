"""What follows a product of matrices and a reshape, element by element, goes before the reshape: there the product
takes it along.
"""

from __future__ import annotations

from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from ..expressions import reshape
from ..translation import Translation, sizes
from .surroundings import Surroundings

BINARY = frozenset({"Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum"})
PRODUCTS = frozenset({"MatMul"})


def behind_functions(t: Translation, around: Surroundings) -> list[Op]:
    """Adds each function, and each sum of equal shapes, under the reshape; returns the reshapes of what they make."""
    flat: dict[int, LogicalTensor] = {}
    moved: list[Op] = []
    for op in around.ops:
        if op.kind == "StaticReshape":
            product = around.producer(op.inputs[0])
            if (
                product is not None
                and product.kind in PRODUCTS
                and None not in (op.inputs[0].shape, op.outputs[0].shape)
            ):
                flat[op.outputs[0].id] = op.inputs[0]
            continue
        inner = _before(t, around, op, flat)
        if inner is not None:
            flat[op.outputs[0].id] = inner
            shape = list(sizes(op.outputs[0]))
            moved.append(
                Op(op.id, "StaticReshape", [inner], op.outputs, name=op.name, shape=shape, special_zero=False)
            )
    return moved


def _before(
    t: Translation, around: Surroundings, op: Op, flat: dict[int, LogicalTensor]
) -> LogicalTensor | None:
    """The op on the tensors under the reshapes; None where it has to stay."""
    source = next((i for i in op.inputs if i.id in flat and around.only_reader(i) is op), None)
    if source is None or -1 in (source.shape or ()) or op.outputs[0].shape != source.shape:
        return None
    under = flat[source.id]
    if op.schema.family == "eltwise" and len(op.inputs) == 1:
        inputs = [under]
    elif op.kind in BINARY and all(i.shape == source.shape for i in op.inputs):
        t.label = op.name
        inputs = [_under(t, i, flat, sizes(under)) for i in op.inputs]
    else:
        return None
    return t.titled(op.name, op.kind, *inputs, **op.attributes)


def _under(
    t: Translation, tensor: LogicalTensor, flat: dict[int, LogicalTensor], shape: tuple[int, ...]
) -> LogicalTensor:
    """A tensor under its reshape, if it has this shape there; else reshaped to it."""
    below = flat.get(tensor.id)
    return below if below is not None and below.shape == shape else t.tensor(reshape(t, tensor, shape))
