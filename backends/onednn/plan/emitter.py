"""What runs: the steps of a plan in the making, and copies between the layouts of what they read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set

from attrs import evolve

from ....graph.model.logical_tensor import row_major
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ..library import half
from ..library.enumerators import Arg
from ..library.loading import LATER_DATA_TYPES
from ..library.memory import MemoryDesc
from ..library.primitive import NativeEngine, PrimitiveDesc
from .chooser import Chooser
from .journal import Journal, JournalledDict, JournalledList
from .layouts import Layouts
from .steps import Above, AnyStep, Buffer, HostArray, HostStep, Step, copy_step
from .unfit import Unfit
from .work import reorder_work

FLOATS = frozenset({DataType.f32, DataType.bf16, DataType.f16})
"""Types between which steps on the host convert."""

FEW = 256
"""Elements that the library's reference loop, at 40 ns each, copies before a step on the host has begun."""


def _lie_alike(first: MemoryDesc, second: MemoryDesc) -> bool:
    """Whether each element of one has the place of the same element of the other; both are plain and of one shape.

    Strides of axes of one element mean nothing.
    """
    return all(
        d == 1 or a == b
        for d, a, b in zip(first.shape, first.strides or (), second.strides or (), strict=True)
    )


def _are_halves(types: Set[DataType]) -> bool:
    """Whether bf16 or f16 is copied, as it is or to another type of those."""
    return types <= FLOATS and types != {DataType.f32}


class Emitter:
    """Adds steps, on buffers, one after another.

    Args:
        layouts: makes what lies between them.
        chooser: of the primitives that copy.
        journal: of the attempts that add steps.
        inputs: numbers of arguments that no step writes.

    Attributes:
        steps: in order.
    """

    def __init__(
        self,
        layouts: Layouts,
        chooser: Chooser,
        journal: Journal | None = None,
        inputs: frozenset[int] = frozenset(),
    ) -> None:
        journal = journal or Journal()
        self.steps: JournalledList[AnyStep] = JournalledList(journal)
        self._layouts = layouts
        self._chooser = chooser
        self._inputs = inputs
        self._wide: JournalledDict[int, Buffer] = JournalledDict(journal)

    @classmethod
    def on(cls, engine: NativeEngine) -> Emitter:
        """One that may use every implementation that is right."""
        return cls(Layouts(engine.lib), Chooser(engine))

    def run(self, role: str, desc: PrimitiveDesc, arguments: Sequence[tuple[int, Buffer]]) -> None:
        """Adds a primitive."""
        self.steps.append(Step(role, desc, tuple(arguments)))

    def on_host(
        self,
        role: str,
        run: Callable[[Sequence[Array], Sequence[Array]], None],
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        *,
        updates: bool = False,
        seen: Mapping[Buffer, HostArray] | None = None,
        implementation: str = "numpy",
        unless: Sequence[Above | None] = (),
    ) -> None:
        """Adds a step on the host.

        Args:
            updates: whether it reads the outputs before it writes them.
            seen: how buffers are seen that have no plain layout, or not as they lie.
            unless: as of a `HostStep`; where one can't be told, it always runs.

        Raises:
            Unfit: a blocked layout.
        """
        both, own = (*inputs, *outputs), seen or {}
        arrays = tuple(array for array in (own.get(b) or HostArray.of(b) for b in both) if array is not None)
        if len(arrays) < len(both):
            raise Unfit("a blocked layout, in which nothing can be looked at")
        count = len(inputs)
        step = HostStep(
            role,
            run,
            tuple(enumerate(both)),
            arrays,
            count,
            implementation=implementation,
            updates=tuple(range(count, len(both))) if updates else (),
            unless=() if None in unless else tuple(one for one in unless if one is not None),
        )
        self.steps.append(step)

    def splice(self, steps: Sequence[AnyStep], arguments: Sequence[Buffer]) -> None:
        """Adds steps that were made aside, with these buffers in the place of their arguments."""

        def instead(buffer: Buffer) -> Buffer:
            number = buffer.root.argument
            if number is None:
                return buffer
            given = arguments[number]
            same = buffer.place == 0 and buffer.desc == given.desc
            return (
                given if same else Buffer(buffer.desc, given.root.argument, base=given, offset=buffer.place)
            )

        self.steps.extend(
            evolve(step, arguments=tuple((number, instead(buffer)) for number, buffer in step.arguments))
            for step in steps
        )

    def belongs_to(self, op: int, since: int) -> None:
        """Says of the steps from a number on for which op, by its id, they are done, where that is not said yet."""
        for number in range(since, len(self.steps)):
            if self.steps[number].op is None:
                self.steps[number] = evolve(self.steps[number], op=op)

    # --- copies --------------------------------------------------------------------------------------

    def copy(self, what: str, source: Buffer, target: Buffer) -> None:
        """Copies between layouts and data types."""
        choice = self._chooser.reorder(source.desc, target.desc)
        one_by_one = choice.desc is None or choice.desc.implementation.startswith("simple")
        types = {source.desc.data_type, target.desc.data_type}
        converts = DataType.f16 in types and len(types) > 1
        halves = _are_halves(types) and (converts or math.prod(source.desc.shape) >= FEW)
        if one_by_one and (halves or choice.passed_over) and self._otherwise(what, source, target):
            return
        if choice.desc is None:
            raise Unfit(
                f"no reorder from {source.desc.describe()} to {target.desc.describe()}"
                + "".join(f"; {reason}" for reason in choice.passed_over)
            )
        self.steps.append(copy_step(what, choice.desc, source, target))

    def _otherwise(self, what: str, source: Buffer, target: Buffer) -> bool:
        """Halves, and into gaps, on the host: many times faster than the library does it element by element.

        Another layout, plain or blocked, and the other half are reached through a plain copy in the other type, or in
        f32, and gaps through a dense copy.
        """
        if target.desc.has_more or target.desc.data_type in LATER_DATA_TYPES:
            return False
        types = (source.desc.data_type, target.desc.data_type)
        plain = source.desc.strides is not None and target.desc.strides is not None
        if types[0] is types[1] and plain:
            self._cast(what, source, target)
            return True
        short, other = (target, source) if types[0] is DataType.f32 else (source, target)
        strides = short.desc.strides
        if strides is not None and _are_halves({*types}):
            dense = not short.desc.has_gaps
            alike = plain and _lie_alike(source.desc, target.desc)
            wide = self._widened(what, source) if short is source and not (alike and dense) else None
            if wide is not None:
                self.copy(what, wide, target)
                return True
            if DataType.f32 in types and plain and (alike or not dense):
                self._cast(what, source, target)
                return True
            between = other.desc.data_type if DataType.f32 in types else DataType.f32
            staged = self._layouts.temporary(short.desc.shape, between, strides if dense else None)
        elif target.desc.strides is not None:
            staged = self._layouts.temporary(target.desc.shape, types[1])
        else:
            return False
        if staged.desc in (source.desc, target.desc):
            return False
        self.copy(what, source, staged)
        self.copy(what, staged, target)
        return True

    def _widened(self, what: str, part: Buffer) -> Buffer | None:
        """A part of an input in f32, for which the whole input is converted, once; None where that can't be had.

        Patches are gathered in many copies, for each of which NumPy would convert element by element.
        """
        root = part.root
        number, strides = root.argument, part.desc.strides
        dense = root.desc.strides is not None and not root.desc.has_gaps
        if number not in self._inputs or not dense or strides is None:
            return None
        if number not in self._wide:
            self._wide[number] = self._layouts.temporary(root.desc.shape, DataType.f32, root.desc.strides)
            self._cast(what, root, self._wide[number])
        wide = self._wide[number]
        offset = part.place // root.desc.itemsize * wide.desc.itemsize
        return Buffer(self._layouts.desc(part.desc.shape, strides, DataType.f32), base=wide, offset=offset)

    def _cast(self, what: str, source: Buffer, target: Buffer) -> None:
        arrays = [array for array in map(HostArray.of, (source, target)) if array is not None]
        flat = [array.flat for array in arrays]
        same_order = _lie_alike(source.desc, target.desc) and None not in flat
        seen = tuple(array for array in flat if array is not None) if same_order else tuple(arrays)
        code = self._chooser.engine.machine_code
        converts = source.desc.data_type is not target.desc.data_type
        code_converts = (
            same_order and converts and DataType.bf16 not in (source.desc.data_type, target.desc.data_type)
        )
        by = half.name(code) if code_converts else "numpy"
        cast = half.cast if code else half.cast_without_code
        arguments = ((0, source), (1, target))
        self.steps.append(
            HostStep(
                f"convert {what}",
                cast,
                arguments,
                seen,
                1,
                is_copy=True,
                implementation=by,
                work=reorder_work(by, source.desc, target.desc),
            )
        )

    def copy_scaled(
        self,
        what: str,
        source: Buffer,
        target: Buffer,
        scales: Mapping[int, tuple[int, Buffer]],
        zero_points: Mapping[int, Buffer],
    ) -> None:
        """A copy that quantises or dequantises: argument → mask and values, and argument → value.

        Where nothing does that and a change of the layout at once, the type changes in the layout of the wider side.
        """
        step = self._scaled_step(what, source, target, scales, zero_points)
        if step is not None:
            self.steps.append(step)
            return
        wide = max(source, target, key=lambda one: one.desc.itemsize).desc
        strides = row_major(wide.shape) if wide.strides is None or wide.has_gaps else wide.strides
        first = self.bring(what, source, self._layouts.desc(wide.shape, strides, source.desc.data_type))
        made = self._layouts.desc(wide.shape, strides, target.desc.data_type)
        second = target if target.desc == made else Buffer(made)
        step = self._scaled_step(what, first, second, scales, zero_points)
        if step is None:
            raise Unfit("the library has no reorder with such scales")
        self.steps.append(step)
        if second is not target:
            self.copy(what, second, target)

    def _scaled_step(
        self,
        what: str,
        source: Buffer,
        target: Buffer,
        scales: Mapping[int, tuple[int, Buffer]],
        zero_points: Mapping[int, Buffer],
    ) -> Step | None:
        masks = {argument: mask for argument, (mask, _) in scales.items()}
        desc = self._chooser.reorder(source.desc, target.desc, masks, dict.fromkeys(zero_points, 0)).desc
        if desc is None:
            return None
        arguments = [(Arg.SRC, source), (Arg.DST, target)]
        arguments += [(Arg.ATTR_SCALES | argument, values) for argument, (_, values) in scales.items()]
        arguments += [(Arg.ATTR_ZERO_POINTS | argument, values) for argument, values in zero_points.items()]
        return Step(what, desc, tuple(arguments), is_copy=True)

    def bring(self, what: str, source: Buffer, wanted: MemoryDesc) -> Buffer:
        """`source` in a layout; its own memory where it lies so."""
        if source.desc == wanted:
            same = source.desc.strides == wanted.strides  # those of axes of one element may differ
            return source if same else Buffer(wanted, source.root.argument, base=source)
        target = Buffer(wanted)
        self.copy(what, source, target)
        return target
