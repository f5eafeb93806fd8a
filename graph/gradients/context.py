"""What a rule sees of one op: its tensors, the gradients of its outputs, and the arithmetic to work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import field

from ...ops.errors import UnsupportedError
from ...ops.records import define
from ...ops.schema import Port
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from .arithmetic import Arithmetic


@define(eq=False, kw_only=True)
class GradientContext:
    """One op on the way back from the loss, as its rule sees it.

    Attributes:
        op: the op.
        make: adds ops to the graph; `make.graph` is the graph itself.
        gradients: the gradient of each output, None where the loss does not depend on it.
        wanted: positions of the inputs whose gradients are needed.
        straight_through: whether quantisation hands gradients on as they are.
    """

    op: Op
    make: Arithmetic
    gradients: tuple[LogicalTensor | None, ...]
    wanted: frozenset[int]
    straight_through: bool = False
    _kept: Callable[[LogicalTensor], LogicalTensor] = field(alias="kept")
    _with_output: Callable[[str], Op] = field(alias="with_output")

    @property
    def gradient(self) -> LogicalTensor:
        """The gradient of the first output.

        Raises:
            UnsupportedError: the loss depends on the other outputs alone.
        """
        found = self.gradients[0]
        if found is None:
            raise self.error(f"it has no gradient of '{self.op.output_ports[0].name}'")
        return found

    def error(self, message: str) -> UnsupportedError:
        """An error that begins with the op."""
        return UnsupportedError(f"{self.op}: {message}")

    def wants(self, port: str | int) -> bool:
        """Whether the gradient by an input is needed. An input is named by its port, or by position."""
        return self._position(port) in self.wanted

    def has_input(self, port: str) -> bool:
        """Whether an input is connected."""
        return self._position(port) is not None

    def input(self, port: str | int) -> LogicalTensor:
        """An input of the op, or its recomputation; asking for it keeps it until then."""
        position = self._position(port)
        if position is None:
            raise self.error(f"its input '{port}' is not connected")
        return self._kept(self.op.inputs[position])

    def shape_of(self, port: str | int) -> LogicalTensor:
        """An input or output for its shape alone, which keeps nothing."""
        position = self._position(port)
        if position is not None:
            return self.op.inputs[position]
        return self.op.outputs[_place(self.op.output_ports, port) or 0]

    def output(self, port: str = "dst") -> LogicalTensor:
        """An output of the op, or its recomputation. An optional one that the op has not made so far, it makes then."""
        position = _place(self.op.output_ports, port)
        if position is None:
            self.op = self._with_output(port)
            position = _place(self.op.output_ports, port)
        if position is None:
            raise self.error(f"it has no output '{port}'")
        return self._kept(self.op.outputs[position])

    def sum_to(self, gradient: LogicalTensor, port: str) -> LogicalTensor:
        """The sum that undoes the broadcast of an input to the first output."""
        position = self._position(port)
        if self.op.attributes.get("auto_broadcast") == "none":
            return gradient
        others = [t.shape for number, t in enumerate(self.op.inputs) if number != position]
        return self.make.sum_to(gradient, self.op.outputs[0], self.shape_of(port), others)

    def attribute(self, name: str) -> object:
        """An attribute, None where it is neither given nor has a default."""
        return self.op.attributes.get(name)

    def _position(self, port: str | int) -> int | None:
        return port if isinstance(port, int) else _place(self.op.input_ports, port)


def _place(ports: Sequence[Port], name: str | int) -> int | None:
    return next((number for number, port in enumerate(ports) if port.name == name), None)
