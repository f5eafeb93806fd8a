"""Values that the backward part computes again, so that they need not be kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.errors import ArgumentError
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from .arithmetic import Arithmetic


class Recomputation:
    """Which tensors rules read: those of the forward part, or copies of them.

    Args:
        make: adds ops.
        ops: of the forward part.
        chosen: tensors to compute again, but for those of ops that are not pure, which run once.
        better: a tensor with what is known of its shape.

    Raises:
        ArgumentError: an input or a constant is chosen, which nothing computes.
    """

    def __init__(
        self,
        make: Arithmetic,
        ops: Sequence[Op],
        chosen: Sequence[LogicalTensor],
        better: Callable[[LogicalTensor], LogicalTensor],
    ) -> None:
        self._make = make
        self._better = better
        self._producers = {t.id: op for op in ops for t in op.outputs}
        self._chosen = {t.id for t in chosen}
        self._copies: dict[int, LogicalTensor] = {}
        for tensor in chosen:
            if tensor.id not in self._producers:
                raise ArgumentError(
                    f"gradients: recompute must hold tensors that ops make, and {tensor} is an input; leave it out"
                )
        self._chosen = {number for number in self._chosen if self._producers[number].schema.pure}

    def kept(self, tensor: LogicalTensor) -> LogicalTensor:
        """The tensor itself, or a copy that is computed where a rule first asks for it."""
        if tensor.id not in self._chosen:
            return self._better(tensor)
        waiting = [self._producers[tensor.id]]
        while tensor.id not in self._copies:  # a chain of a thousand ops is no thousand calls deep
            op = waiting[-1]
            if op.outputs[0].id in self._copies:
                waiting.pop()
                continue
            before = [t for t in op.inputs if t.id in self._chosen and t.id not in self._copies]
            if before:
                waiting += [self._producers[t.id] for t in before]
            else:
                self._compute(waiting.pop())
        return self._copies[tensor.id]

    def _compute(self, op: Op) -> None:
        """A second op of the same kind. Plans don't merge ops that are alike, so that it stays one."""
        inputs = [self._copies[t.id] if t.id in self._chosen else self._better(t) for t in op.inputs]
        ports = {port.name for port in op.input_ports}
        attributes = {name: value for name, value in op.attributes.items() if name not in ports}
        made = self._make.ops(
            op.kind, inputs, attributes, outputs=len(op.outputs), wanted=op.outputs[0].data_type
        )
        self._copies.update((old.id, new) for old, new in zip(op.outputs, made, strict=True))
