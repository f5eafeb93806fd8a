"""Looking at tensors between the steps of a plan while it runs, and putting other elements in their place."""

from __future__ import annotations

import numpy as np

from ....graph.runtime.arrays import address, numpy_type
from ....graph.runtime.executable import Visit
from ....ops.records import frozen
from ..library.memory import MemoryDesc
from ..library.primitive import NativeEngine
from .emitter import Emitter
from .layouts import Layouts
from .plan import Plan
from .steps import Buffer, HostArray, Tap


@frozen(eq=False)
class TapWay:
    """How the elements of a tap become an array, and back.

    Attributes:
        tap: what is looked at.
        between: the elements in place where they lie in strides, else copies to rows and from there.
    """

    tap: Tap
    between: HostArray | tuple[Plan, Plan]

    @classmethod
    def of(cls, tap: Tap, engine: NativeEngine) -> TapWay:
        """Raises Unfit where the library can't bring it to rows."""
        seen = HostArray.of(tap.buffer)
        if seen is not None:
            return cls(tap, seen)
        desc = tap.buffer.desc
        rows = Layouts(engine.lib).rows(desc.shape, desc.data_type)
        return cls(tap, (_copy(engine, desc, rows), _copy(engine, rows, desc)))

    def visit(self, visit: Visit, place: int) -> None:
        """Shows the elements at an address, and takes those that are to be in their place."""
        tensor = self.tap.tensor
        if isinstance(self.between, HostArray):
            there = self.between.at(place)
            given = visit(tensor, there.reshape(tensor.dims).copy(), self.tap.writable)
            if given is not None:
                there[...] = given.reshape(there.shape)
            return
        read, write = self.between
        array = np.empty(tensor.dims, numpy_type(tensor.data_type))
        read.run([place, address(array)])
        given = visit(tensor, array, self.tap.writable)
        if given is not None:
            write.run([address(np.ascontiguousarray(given)), place])


def _copy(engine: NativeEngine, source: MemoryDesc, target: MemoryDesc) -> Plan:
    copies = Emitter.on(engine)
    copies.copy("for a look", Buffer(source, 0), Buffer(target, 1))
    return Plan(engine, copies.steps)
