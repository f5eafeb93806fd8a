"""Lowering: from the ops of a partition to the steps of a plan.

A `Lowering` knows where each tensor lies, in what layout and type, while ops are turned into primitives one after
another. Layouts flow from primitive to primitive; a copy is made only where the next one asks for it. An op takes
along, as post-ops, what follows it (`fusing.py`), as much of that as the library accepts. What it has no primitive for
is a step on the host, so that a partition always becomes one plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeVar

from attrs import evolve, frozen

from ....graph.compile.backend import BACKENDS, CompileRequest
from ....graph.model.logical_tensor import LogicalTensor, PropertyType, as_plain, row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array, numpy_type
from ....graph.runtime.executable import Considered
from ....graph.runtime.progress import progressing
from ....ops.errors import LibraryError
from ..library.enumerators import Arg, FpmathMode, Query
from ..library.loading import load
from ..library.memory import OpaqueLayout
from ..library.primitive import NativeEngine, PostOp, PrimitiveAttributes, PrimitiveDesc
from ..plan.assembly import NoKernel, Unfit
from ..plan.choice import chosen
from ..plan.constants import ConstantPlan
from ..plan.hoisting import flow, made_of_constants
from ..plan.measured import fastest
from ..plan.plan import Plan
from ..plan.steps import AnyStep, Buffer, HostArray, HostStep, Step, in_place
from ..quarantine import post_op_is_wrong
from .fusing import Link, chain, post_op_shapes
from .journal import JournalledDict
from .moves import MOVES, is_part
from .tensors import (
    HALVES,
    Lies,
    Tensors,
    Way,
    host_array,
    label_of,
    unknown_to_library,
)

LAZY = ("Dequantize", "TypeCast", *MOVES)
"""Ops that are looked through where that is possible; they are lowered when somebody reads their result."""

MOST_WAITING = 24
"""Lazy ops of a chain that wait for a reader; lowering them from the end takes some calls within calls for each."""

LATE = ("BiasAddBackward",)
"""Ops that another one may do along the way; they are lowered after all others, or when somebody reads their result."""

OTHERS = (Lies.result, Lies.dense, Lies.last, Lies.first)
"""Layouts that are tried where the library has no kernel for those that are given; the last two are of images."""

T = TypeVar("T")
Lower = Callable[["Lowering", Op, Sequence[Link]], None]
"""From an op, and what it takes along, to steps. Raises Unfit."""


@frozen
class Lowered:
    """How ops of one kind are lowered.

    Attributes:
        lower: the function.
        fuses: whether it takes post-ops along.
        takes: which of them, for an op.
        why_not: the reason that no primitive can do an op, as far as its shapes and types tell, or None.
        takes_empty: whether there is something to do where a tensor has no elements.
        channels_last: whether it has a way of its own for images that lie so, which is tried first.
        needs: what the library must have beside what 3.2 has, by its name in `Capabilities`.
    """

    lower: Lower
    fuses: bool = False
    takes: Callable[[Op, Link], bool] = lambda op, link: post_op_is_wrong(*post_op_shapes(op, link)) is None
    why_not: Callable[[Op], str | None] = lambda op: None
    takes_empty: bool = False
    channels_last: bool = False
    needs: str | None = None


@frozen(kw_only=True)
class Limits:
    """What a lowering must not do.

    Attributes:
        fuses: whether primitives take along what follows their op.
        proven_only: whether implementations stay out that no fuzzer has covered.
        choice: which candidate an op takes that has several; the last one where there are fewer.
        choosing: ids of the ops that do so, while all others keep their first candidate; None for all.
    """

    fuses: bool = True
    proven_only: bool = False
    choice: int = 0
    choosing: frozenset[int] | None = None

    def choice_of(self, op: int) -> int:
        """Which candidate an op takes, by its id."""
        return self.choice if self.choosing is None or op in self.choosing else 0


NO_LIMITS = Limits()


def why_not(table: Mapping[str, Lowered], op: Op) -> str | None:
    """Why no primitive can do the op, as far as its types and known shapes tell, or None."""
    lowered = table.get(op.kind)
    if lowered is None:
        return f"no lowering of {op.kind}"
    lacking = load().capabilities.lacks(lowered.needs)
    if lacking is not None:
        return lacking
    for port, tensor in (
        *zip(op.input_ports, op.inputs, strict=True),
        *zip(op.output_ports, op.outputs, strict=True),
    ):
        if port.shape_operand:
            continue
        unknown = unknown_to_library(tensor, port.name)
        if unknown is not None:
            return unknown
        if tensor.shape is not None and 0 in tensor.shape and not lowered.takes_empty:
            return f"nothing is computed: '{port.name}' has no elements"
    return lowered.why_not(op)


@frozen
class Rectified:
    """A batch normalisation that has done the ReLU behind it, for the gradient of both.

    Attributes:
        op: the normalisation.
        src: its data as the primitive read it.
        signs: where the result is above zero, in the primitive's own order.
        implementation: of the primitive.
    """

    op: Op
    src: Buffer
    signs: Buffer
    implementation: str


@frozen
class _Progress:
    """How far the lowering is, to where a failed attempt goes back.

    Attributes:
        steps, fused, hosted: how many there are.
        mark: of the journal.
    """

    steps: int
    fused: int
    hosted: int
    mark: int


class Lowering(Tensors):
    """The plan of one partition in the making.

    Args:
        engine: the library's engine.
        request: what is compiled.
        table: op kind → how it is lowered.
        opaque: layouts of inputs that lie as another partition left them, by tensor id.
        limits: what is not to be done.

    Attributes:
        fused: for each primitive that took others along, its op and theirs.
        choices: op → how many candidates it has.
        considered: candidates, for the explanation. ways: names of those that were taken.
        decided: for each op that executions choose for, its problem and the name of what it takes; None for what is on
            trial.
        hosted: ops that became steps on the host.
        rectified: a ReLU's result → the batch normalisation that made it.
    """

    def __init__(
        self,
        engine: NativeEngine,
        request: CompileRequest,
        table: Mapping[str, Lowered],
        opaque: Mapping[int, OpaqueLayout] | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        super().__init__(engine, request, opaque)
        self.fpmath = FpmathMode[request.fpmath_mode]
        self.fused: list[tuple[Op, ...]] = []
        self.hosted: list[Op] = []
        self.fuses = limits.fuses
        self.proven_only = limits.proven_only
        self.choices: dict[int, int] = {}
        self.considered: list[Considered] = []
        self.ways: list[str] = []
        self.decided: dict[int, tuple[str, str | None]] = {}
        self.rectified: JournalledDict[int, Rectified] = JournalledDict(self._journal)
        self._limits = limits
        self._lacking: set[int] = set()
        self._wanted = fastest(request.options)
        self._table = table

    # --- primitives ----------------------------------------------------------------------------------

    def attributes(
        self,
        post_ops: Sequence[PostOp] = (),
        scales: Mapping[int, int] | None = None,
        zero_points: Mapping[int, int] | None = None,
    ) -> PrimitiveAttributes:
        """Attributes of a primitive; `PostOps` makes those of one that takes something along.

        Args:
            post_ops: in order.
            scales, zero_points: argument → mask.

        Raises:
            Unfit: the library has none such.
        """
        try:
            return PrimitiveAttributes(self.engine.lib, self.fpmath, post_ops, scales, zero_points)
        except LibraryError as error:
            raise Unfit(str(error)) from error

    def on_host(
        self,
        role: str,
        run: Callable[[Sequence[Array], Sequence[Array]], None],
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
    ) -> None:
        """Adds a step on the host, on plain buffers."""
        both = (*inputs, *outputs)
        arrays = tuple(array for array in map(HostArray.of, both) if array is not None)
        self.steps.append(HostStep(role, run, tuple(enumerate(both)), arrays, len(inputs)))

    def describe(self, function: str, *arguments: object) -> PrimitiveDesc:
        """A primitive descriptor.

        Raises:
            Unfit: the library has none that may run.
        """
        reasons: list[str] = []
        desc = chosen(
            self.engine,
            function,
            *arguments,
            reasons=reasons,
            references=self.way.references,
            proven_only=self.proven_only,
            wanted=self._wanted,
        )
        if desc is None:
            raise NoKernel("; ".join(reasons) or f"the library has no {function} for these descriptors")
        return desc

    def run(self, role: str, desc: PrimitiveDesc, arguments: Sequence[tuple[int, Buffer]]) -> None:
        """Adds a step."""
        self.steps.append(Step(role, desc, tuple(arguments)))

    def single(
        self,
        role: str,
        desc: PrimitiveDesc,
        arguments: Sequence[tuple[int, Buffer]],
        result: LogicalTensor,
        order: Sequence[int] | None = None,
        output: int = Arg.DST,
        query: Query = Query.dst_md,
    ) -> None:
        """Adds a step of one output, which makes `result`."""
        made = Buffer(desc.memory_desc(query).canonical(channels_last=order is not None))
        self.run(role, desc, (*arguments, (output, made)))
        self.produce(result, made, order)

    def choose(self, op: Op, candidates: Sequence[T]) -> T:
        """The candidate whose turn it is, of those that an op has, best first."""
        self.choices[op.id] = len(candidates)
        return candidates[min(self._limits.choice_of(op.id), len(candidates) - 1)]

    def is_first(self, op: Op) -> bool:
        """Whether it is the turn of the op's first candidate, which nothing has proved wrong."""
        return self._limits.choice_of(op.id) == 0

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

        self.steps += [
            evolve(step, arguments=tuple((number, instead(buffer)) for number, buffer in step.arguments))
            for step in steps
        ]

    # --- ops -----------------------------------------------------------------------------------------

    def lower_all(self) -> None:
        """Lowers every op."""
        waiting: dict[int, int] = {}  # tensor → how many lazy ops make it, one after another
        for op in progressing(self.request.ops, "compiling op"):
            if op.kind in LAZY or is_part(op):
                depth = 1 + max(waiting.get(t.id, 0) for t in op.inputs)
                waits = depth < MOST_WAITING and not any(map(self.is_port, op.outputs))
                waiting.update((t.id, depth if waits else 0) for t in op.outputs)
            else:
                waits = op.kind in LATE
            if not waits:
                self.lower(op)
        for op in self.request.ops:
            if op.kind in LATE:
                self.lower(op)

    @property
    def strategy(self) -> str:
        """How the ops are done, in a few words."""
        chains = ["+".join(op.kind for op in ops) for ops in self.fused]
        told = ([f"fused {', '.join(chains)}"] if chains else []) + self.ways
        return ", ".join(told) or "primitives in order"

    def lower(self, op: Op) -> None:
        """Lowers one op, with as much of what follows as the library takes along, or as a step on the host."""
        if op.id in self._done:
            return
        outer, self.way = self.way, Way(integers=True)
        try:
            if op.kind == "Quantize":  # asked for before its turn, where what it follows can take it along
                before = self.producer(op.inputs[0])
                if before is not None and before.kind not in LAZY:
                    self.lower(before)
            if op.id not in self._done:
                self._lower(op)
        finally:
            self.way = outer

    def _lower(self, op: Op) -> None:
        how = self._table.get(op.kind)
        reason = why_not(self._table, op)
        if how is None or reason is not None:
            self.reasons.append(f"{op}: {reason}")
            self._host(op)
            return
        links = (
            list(takewhile(partial(self._may_take, how, op), chain(self, op)))
            if how.fuses and self.fuses
            else []
        )
        ways = self._ways(op, how)
        if self._attempts(op, how, links, ways):
            return
        if op.id in self._lacking:  # in these layouts, and nothing that copies is as slow as NumPy
            kinds = [way for way in ways if not way.channels_last]
            images = op.attributes.get("data_format") is not None
            others = [evolve(way, lies=lies) for lies in (OTHERS if images else OTHERS[:2]) for way in kinds]
            if self._attempts(op, how, links, others):
                return
        if self.request.forced and any(  # a slow kernel is better than none
            self._attempt(op, how, (), evolve(way, references=True)) for way in ways
        ):
            return
        self._host(op)

    def _attempts(self, op: Op, how: Lowered, links: Sequence[Link], ways: Sequence[Way]) -> bool:
        """Lowers an op in the first way that fits, with as many links as fit it."""
        return any(
            self._attempt(op, how, links[:count], way) for way in ways for count in range(len(links), -1, -1)
        )

    def _may_take(self, how: Lowered, op: Op, link: Link) -> bool:
        return not any(one.id in self._done for one in link.ops) and how.takes(op, link)

    def absorb(self, op: Op, *others: Op) -> None:
        """Says that the primitive of `op` does the others too."""
        self._done.update(other.id for other in others)
        self.fused.append((op, *others))

    def take_along(self, op: Op) -> bool:
        """Whether nobody has done the op yet; the primitive that is being made then does it too."""
        if op.id in self._done:
            return False
        self._done.add(op.id)
        return True

    def zeros(self, tensor: LogicalTensor) -> None:
        """Says that all elements are zero."""
        buffer, seen = self._host_output(tensor)
        self.steps.append(HostStep("zeros", _fill_with_zeros, ((0, buffer),), (seen,), 0))

    def _ways(self, op: Op, how: Lowered) -> list[Way]:
        """The ways without reference loops, in order of preference: with integers before all else, halves in f32 at
        last, and images channels-last first.
        """
        kinds = [Way()]
        if any(self.quantized(t) is not None for t in op.inputs):
            kinds.insert(0, Way(integers=True))
        if any(t.data_type in HALVES for t in (*op.inputs, *op.outputs)):
            kinds.append(Way(through_f32=True))
        if not how.channels_last:
            return kinds
        return [evolve(way, channels_last=last) for way in kinds for last in (True, False)]

    def _attempt(self, op: Op, how: Lowered, links: Sequence[Link], way: Way) -> bool:
        """Lowers an op in one way; where that fails, nothing but a reason is left of it."""
        progress, before = self._progress(), self.way
        self.way = way
        self._done.update(one.id for one in (op, *[o for link in links for o in link.ops]))
        try:
            how.lower(self, op, links)
        except (Unfit, LibraryError) as error:
            self.reasons.append(f"{op}: {error}")
            if isinstance(error, NoKernel):
                self._lacking.add(op.id)
            self._go_back(progress)
            return False
        finally:
            self.way = before
        if links:
            self.fused.append((op, *[one for link in links for one in link.ops]))
        self._belongs_to(op, progress.steps)
        return True

    def _belongs_to(self, op: Op, since: int) -> None:
        """Says of the latest steps for which op they are done."""
        for number in range(since, len(self.steps)):
            if self.steps[number].op is None:
                self.steps[number] = evolve(self.steps[number], op=op.id)

    def _progress(self) -> _Progress:
        return _Progress(len(self.steps), len(self.fused), len(self.hosted), self._journal.mark())

    def _go_back(self, progress: _Progress) -> None:
        del self.steps[progress.steps :], self.fused[progress.fused :], self.hosted[progress.hosted :]
        self._journal.go_back(progress.mark)

    def _host(self, op: Op) -> None:
        """The op as a step on the host, on plain arrays in the types that it declares."""
        since = len(self.steps)
        inputs = [self._host_input(t) for t in op.inputs]
        outputs = [self._host_output(t) for t in op.outputs]
        ins = tuple(as_plain(t) for t in op.inputs)
        outs = tuple(as_plain(t) for t in op.outputs)
        (executable,) = BACKENDS.get("numpy").compile(
            evolve(self.request, ops=(op.with_tensors(ins, outs),), inputs=ins, outputs=outs)
        )
        both = (*inputs, *outputs)
        self.steps.append(
            HostStep(
                f"{op.kind}",
                executable.run,
                tuple(enumerate(buffer for buffer, _ in both)),
                tuple(seen for _, seen in both),
                len(inputs),
                is_op=True,
                pure=op.schema.pure,
            )
        )
        self._done.add(op.id)
        self.hosted.append(op)
        self._belongs_to(op, since)

    def _host_input(self, tensor: LogicalTensor) -> tuple[Buffer, HostArray]:
        if unknown_to_library(tensor) is None:
            buffer = self.plain(tensor, tensor.data_type)
            return buffer, host_array(tensor, buffer.desc.strides or ())
        buffer = self._located(tensor)
        declared = self._declared_inputs.get(tensor.id)
        if buffer is self._ports.get(tensor.id):  # made by another step on the host, where the user wants it
            declared = self._declared_outputs[tensor.id]
        strides = declared.element_strides if declared is not None else row_major(tensor.dims)
        return buffer, host_array(tensor, strides)

    def _host_output(self, tensor: LogicalTensor) -> tuple[Buffer, HostArray]:
        port = self._ports.get(tensor.id)
        declared = self._declared_outputs.get(tensor.id, tensor)
        if port is not None and not self._may_choose(tensor):
            self._where[tensor.id] = port
            return port, host_array(tensor, as_plain(declared).element_strides)
        if unknown_to_library(tensor) is None:
            buffer = self.temporary(tensor.dims or (1,), tensor.data_type)
        else:
            buffer = Buffer(self.bytes(math.prod(tensor.dims) * numpy_type(tensor.data_type).itemsize))
        self._where[tensor.id] = buffer
        return buffer, host_array(tensor, row_major(tensor.dims))

    # --- the end -------------------------------------------------------------------------------------

    def finish(self) -> tuple[OpaqueLayout | None, ...]:
        """Brings every output to the user's array; the layout of each that was free to choose."""
        moved: dict[Buffer, Buffer] = {}
        layouts: list[OpaqueLayout | None] = []
        for tensor in self.request.outputs:
            port = self._ports[tensor.id]
            lies = self._located(tensor)
            layouts.append(None)
            if lies.root is port:
                continue
            if tensor.id in self._left_opaque:
                layouts[-1] = self._left_opaque[tensor.id]
                moved[lies] = Buffer(lies.desc, port.argument)
                continue
            free = lies.root.argument is None and lies.root.constant is None and lies.root not in moved
            whole = (
                lies.place == 0
                and lies.desc.nbytes == lies.root.desc.nbytes
                and math.prod(lies.desc.shape)
                == math.prod(lies.root.desc.shape)  # it may be a part, with gaps
            )
            if free and whole and self._may_choose(tensor) and lies.desc != port.desc:
                layouts[-1] = OpaqueLayout(lies.desc, port.desc, own_axes=True)
                moved[lies.root] = Buffer(lies.root.desc, port.argument)
            elif free and whole and lies.desc == port.desc:
                moved[lies.root] = Buffer(lies.root.desc, port.argument)
            else:
                since = len(self.steps)
                self.copy(label_of(tensor), lies, port)
                producer = self.producer(tensor)
                if producer is not None:
                    self._belongs_to(producer, since)
        self.steps[:] = [_moved(step, moved) for step in self._without_idle_copies(moved)]
        self._use_outputs()
        return tuple(layouts)

    def _use_outputs(self) -> None:
        """Lets what an output is written over lie in its memory from the beginning, where nobody uses that before."""
        uses: dict[Buffer, list[int]] = {}
        first: dict[int, int] = {}  # argument → step
        for number, step in enumerate(self.steps):
            for root in {buffer.root for _, buffer in step.arguments}:
                uses.setdefault(root, []).append(number)
                if root.argument is not None:
                    first.setdefault(root.argument, number)
        for number in reversed(range(len(self.steps))):
            for result, taken in in_place(self.steps[number]):
                argument = result.argument
                if argument is None or first[argument] != number or uses[taken][-1] != number:
                    continue
                there = Buffer(taken.desc, argument)
                for user in uses[taken]:
                    self.steps[user] = _moved(self.steps[user], {taken: there})
                uses[there], first[argument] = uses[taken], uses[taken][0]
                break

    def _without_idle_copies(self, outputs: Collection[Buffer]) -> list[AnyStep]:
        """The steps but for copies that nobody reads, which were made for ways that came to nothing.

        Args:
            outputs: temporaries that become outputs.
        """
        kept: list[AnyStep] = []
        used: set[Buffer] = {buffer.root for buffer in outputs}
        for step in reversed(self.steps):
            if step.is_copy:
                moves = flow(step)
                if all(b.root.argument is None and b.root not in used for b in moves.writes):
                    continue
                used.update(buffer.root for buffer in moves.reads)
            else:
                used.update(buffer.root for _, buffer in step.arguments)
            kept.append(step)
        return kept[::-1]

    def prepared(self) -> ConstantPlan | None:
        """Takes out of the steps what depends on constant inputs alone: it runs when these change.

        Its results become further arguments of the plan.
        """
        constant = {
            number for number, t in enumerate(self.request.inputs) if t.property_type is PropertyType.constant
        }
        early = made_of_constants(self.steps, constant)
        if not early:
            return None
        taken = set(early)
        others = [step for step in self.steps if step not in taken]
        used = {b.root for step in others for _, b in step.arguments}
        ready = dict.fromkeys(buffer for step in early for buffer in flow(step).writes)
        count = len(self.request.inputs) + len(self.request.outputs)
        kept = [buffer for buffer in ready if buffer in used]
        moved = {buffer: Buffer(buffer.desc, count + number) for number, buffer in enumerate(kept)}
        self.steps[:] = [_moved(step, moved) for step in others]
        plan = Plan(self.engine, [_moved(step, moved) for step in early])
        sizes = tuple(buffer.desc.nbytes for buffer in kept)
        return ConstantPlan(plan, sizes, tuple(sorted(constant)), self.request.version)


def _fill_with_zeros(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    del inputs
    outputs[0][...] = 0


def _moved(step: AnyStep, moved: Mapping[Buffer, Buffer]) -> AnyStep:
    """The step with buffers in the place of others, views of them included."""

    def instead(buffer: Buffer) -> Buffer:
        if buffer in moved:
            return moved[buffer]
        if buffer.base is None or buffer.root not in moved:
            return buffer
        base = instead(buffer.base)
        return Buffer(buffer.desc, base.root.argument, base=base, offset=buffer.offset)

    return evolve(step, arguments=tuple((number, instead(buffer)) for number, buffer in step.arguments))
