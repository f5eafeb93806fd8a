"""Who makes and who reads the tensors of a partition, here and outside, as the request says."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LayoutType, LogicalTensor, PropertyType
from ....graph.model.op import Op
from ....ops.movement import permutation
from ..plan.unfit import Unfit
from .as_views import is_move

MOST_PASSED = 24
"""Ops that are looked through, one after another."""
CONVERSIONS = ("Dequantize", "DynamicDequantize", "TypeCast")
"""Ops of which a plan makes copies, or steps on the host."""


class Edges:
    """The edges of one partition.

    Args:
        request: what is compiled.
    """

    def __init__(self, request: CompileRequest) -> None:
        self._values, self._narrow = request.values, request.narrow
        self._inputs = {t.id: t for t in request.inputs}
        self._outputs = {t.id: t for t in request.outputs}
        self._producers = {t.id: op for op in request.ops for t in op.outputs}
        self._users: dict[int, list[Op]] = {}
        for op in request.ops:
            for tensor_id in dict.fromkeys(t.id for t in op.inputs):
                self._users.setdefault(tensor_id, []).append(op)

    def users(self, tensor: LogicalTensor) -> Sequence[Op]:
        """The ops of the partition that read the tensor."""
        return self._users.get(tensor.id, ())

    def producer(self, tensor: LogicalTensor) -> Op | None:
        """The op of the partition that makes the tensor."""
        return self._producers.get(tensor.id)

    def is_port(self, tensor: LogicalTensor) -> bool:
        """Whether somebody outside reads the tensor."""
        return tensor.id in self._outputs

    def declared_input(self, tensor: LogicalTensor) -> LogicalTensor | None:
        """The tensor as the user passes it; None for one that is made here."""
        return self._inputs.get(tensor.id)

    def declared_output(self, tensor: LogicalTensor) -> LogicalTensor:
        """The tensor as the user wants it, or as it is where nobody outside reads it."""
        return self._outputs.get(tensor.id, tensor)

    def may_choose(self, tensor: LogicalTensor) -> bool:
        """Whether its layout is left to the backend."""
        return self.declared_output(tensor).layout_type is LayoutType.any

    def may_stay_opaque(self, tensor: LogicalTensor) -> bool:
        """Whether a result may be left in a layout whose axes are not the tensor's: nobody here reads it."""
        return self.is_port(tensor) and self.may_choose(tensor) and not self.users(tensor)

    def is_constant(self, tensor: LogicalTensor) -> bool:
        """Whether the tensor is an input whose content does not change, or such an input moved or converted.

        All of it must be what a plan does once, so that a copy in another layout is made once, too.
        """
        return self._is_constant(tensor, MOST_PASSED)

    def _is_constant(self, tensor: LogicalTensor, left: int) -> bool:
        producer = self.producer(tensor)
        if producer is None:
            declared = self.declared_input(tensor)
            return declared is not None and declared.property_type is PropertyType.constant
        passed = producer.kind in CONVERSIONS or is_move(producer)
        return bool(left) and passed and all(self._is_constant(one, left - 1) for one in producer.inputs)

    def is_narrow(self, tensor: LogicalTensor) -> bool:
        """Whether the tensor is an input of s8 whose content is known to take 7 bits, or such an input moved."""
        for _ in range(MOST_PASSED):
            producer = self.producer(tensor)
            if producer is None or not is_move(producer):
                break
            tensor = producer.inputs[0]
        return tensor.id in self._narrow

    def turned_later(self, tensor: LogicalTensor) -> tuple[int, ...] | None:
        """The order of axes in which a reshape reads the tensor after transpositions; None where none does."""
        order = tuple(range(len(tensor.dims)))
        while not self.is_port(tensor) and len(self.users(tensor)) == 1:
            (user,) = self.users(tensor)
            if user.kind == "StaticReshape":
                return order if order != tuple(range(len(order))) else None
            turn = permutation(user.attributes, len(order)) if user.kind == "StaticTranspose" else None
            if turn is None:
                return None
            order = tuple(order[axis] for axis in turn)
            tensor = user.outputs[0]
        return None

    def sizes(self, op: Op, index: int, name: str) -> tuple[int, ...]:
        """The integers of a shape operand, or of the attribute in its place.

        Raises:
            Unfit: the operand's value is not known.
        """
        if len(op.inputs) <= index:
            return op.attributes.integers(name)
        if op.inputs[index].id not in self._values:
            raise Unfit(f"the value of '{name}' is not known")
        return self._values[op.inputs[index].id]
