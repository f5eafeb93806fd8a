"""An assembly: steps of a plan in the making, and the buffers between them."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.logical_tensor import row_major
from ...ops.data_types import DataType
from ...ops.errors import LibraryError
from . import half
from .memory import MemoryDesc
from .plan import AnyStep, Buffer, HostArray, HostStep, copy_step
from .primitive import NativeEngine


class Unfit(Exception):  # noqa: N818 -- it ends an attempt, it is no error
    """Something that can't be done this way, with the reason."""


class Assembly:
    """Steps in order, on buffers.

    Args:
        engine: the library's engine.
    """

    def __init__(self, engine: NativeEngine) -> None:
        self.engine = engine
        self.steps: list[AnyStep] = []

    def desc(self, shape: Sequence[int], strides: Sequence[int], data_type: DataType) -> MemoryDesc:
        """A plain layout.

        Raises:
            Unfit: strides that the library does not take.
        """
        try:
            return MemoryDesc.strided(self.engine.lib, shape, data_type, strides)
        except LibraryError as error:
            raise Unfit(str(error)) from error

    def temporary(
        self,
        shape: Sequence[int],
        data_type: DataType,
        strides: Sequence[int] | None = None,
        *,
        zeroed: bool = False,
    ) -> Buffer:
        """Memory of the plan's own, row-major unless strides are given."""
        own = row_major(tuple(shape)) if strides is None else strides
        return Buffer(self.desc(shape, own, data_type), zeroed=zeroed)

    def copy(self, what: str, source: Buffer, target: Buffer) -> None:
        """Copies between layouts and data types."""
        step = copy_step(self.engine, what, source, target)
        types = (source.desc.data_type, target.desc.data_type)
        slow = step is None or step.implementation.startswith("simple")
        if (
            slow
            and DataType.f16 in types
            and types[0] is not types[1]
            and self._convert(what, source, target)
        ):
            return
        if step is None:
            raise Unfit(f"no reorder from {source.desc.describe()} to {target.desc.describe()}")
        self.steps.append(step)

    def _convert(self, what: str, source: Buffer, target: Buffer) -> bool:
        """From or to f16 on the host, many times faster than the library's conversion element by element.

        Another layout is reached through a plain copy in the other type.
        """
        short, other = (source, target) if source.desc.data_type is DataType.f16 else (target, source)
        strides = short.desc.strides
        if strides is None:
            return False
        if strides == other.desc.strides:
            first, second = HostArray.of(source), HostArray.of(target)
            if first is None or second is None:
                return False
            flat = first.flat, second.flat
            seen = (first, second) if flat[0] is None or flat[1] is None else (flat[0], flat[1])
            arguments = ((0, source), (1, target))
            code = self.engine.machine_code
            cast = half.cast if code else half.cast_without_code
            self.steps.append(
                HostStep(
                    f"convert {what}", cast, arguments, seen, 1, is_copy=True, implementation=half.name(code)
                )
            )
            return True
        between = Buffer(self.desc(short.desc.shape, strides, other.desc.data_type))
        self.copy(what, source, between)
        self.copy(what, between, target)
        return True

    def bring(self, what: str, source: Buffer, wanted: MemoryDesc) -> Buffer:
        """`source` in a layout; itself where it lies so."""
        if source.desc == wanted:
            return source
        target = Buffer(wanted)
        self.copy(what, source, target)
        return target
