"""The walk over the ops of a partition: each is tried in one way after another, and goes to the host at last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile

from attrs import evolve

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....graph.runtime.progress import progressing
from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from ..plan.unfit import NoKernel, Unfit
from .as_views import MOVES, is_part
from .decompression import forms_of, may_decompress
from .fusions import REFUSALS
from .links import BINARY, Link, chain, cut, in_integers, rounds_to_halves, shortened
from .lowering import Lowered, Lowering, why_not
from .matching import Refusal
from .on_host import on_host
from .tensors import HALVES
from .way import Lies, Way

LAZY = ("Dequantize", "TypeCast", *MOVES)
"""Ops that are looked through where that is possible; they are lowered when somebody reads their result."""

MOST_WAITING = 24
"""Lazy ops of a chain that wait for a reader; lowering them from the end takes some calls within calls for each."""

LATE = ("BiasAddBackward",)
"""Ops that another one may do along the way; they are lowered after all others, or when somebody reads their result."""

ROUNDING = frozenset({"Convolution", "ConvTranspose", "MatMul", *BINARY})
"""Ops whose primitives round in the middle of what follows."""

OTHERS = (Lies.result, Lies.dense, Lies.last, Lies.first)
"""Layouts that are tried where the library has no kernel for those that are given; the last two are of images."""


def _is_lazy(op: Op) -> bool:
    return op.kind in LAZY or is_part(op) or may_decompress(op)


def _rounds(way: Way, links: Sequence[Link]) -> bool:
    """Whether what goes along is rounded as its author has written: results through f32 are left there as they are."""
    return not (way.through_f32 and any(rounds_to_halves(op) for link in links for op in link.ops))


class Walk:
    """Lowers ops, each once.

    Args:
        low: receives what they become.
        table: op kind → how it is lowered.
    """

    def __init__(self, low: Lowering, table: Mapping[str, Lowered]) -> None:
        self._low = low
        self._table = table
        self._numbers = {op.id: number for number, op in enumerate(low.request.ops)}
        low.tensors.make = self._make

    def lower_all(self) -> None:
        """Lowers every op."""
        waiting: dict[int, int] = {}  # tensor → how many lazy ops make it, one after another
        for op in progressing(self._low.request.ops, "compiling op"):
            if _is_lazy(op):
                depth = 1 + max(waiting.get(t.id, 0) for t in op.inputs)
                waits = depth < MOST_WAITING and not any(map(self._low.edges.is_port, op.outputs))
                waiting.update((t.id, depth if waits else 0) for t in op.outputs)
            else:
                waits = op.kind in LATE
            if not waits:
                self.lower(op)
        for op in self._low.request.ops:
            if op.kind in LATE:
                self.lower(op)

    def _make(self, tensor: LogicalTensor) -> None:
        """Lowers the op that makes a tensor, which somebody reads before its turn.

        Raises:
            Unfit: there is none, or it is being lowered.
        """
        producer, done = self._low.edges.producer(tensor), self._low.notes.done
        if producer is None or producer.id in done:
            raise Unfit(f"{tensor} is not computed")
        for op in self._before(producer):
            self.lower(op)
        if producer.id not in done:
            self.lower(producer)

    def _before(self, last: Op) -> list[Op]:
        """The ops that one needs and that nobody has done, but for lazy ones, in order.

        Asked for from the last one on, none of them could take along what follows it.
        """
        found: dict[int, Op] = {}
        waiting = [last]
        while waiting:
            for tensor in waiting.pop().inputs:
                op = self._low.edges.producer(tensor)
                if op is not None and op.id not in found and op.id not in self._low.notes.done:
                    found[op.id] = op
                    waiting.append(op)
        return sorted((op for op in found.values() if not _is_lazy(op)), key=lambda op: self._numbers[op.id])

    def lower(self, op: Op) -> None:
        """Lowers one op, with as much of what follows as the library takes along, or as a step on the host."""
        done = self._low.notes.done
        if op.id in done:
            return
        with self._low.trying(Way(integers=True)):
            if op.kind == "Quantize":  # asked for before its turn, where what it follows can take it along
                before = self._low.edges.producer(op.inputs[0])
                if before is not None and before.kind not in LAZY:
                    self.lower(before)
            if op.id not in done:
                self._lower(op)

    def _lower(self, op: Op) -> None:
        low, how = self._low, self._table.get(op.kind)
        reason = why_not(self._table, op)
        if how is None or reason is not None:
            low.notes.reasons.append(f"{op}: {reason}")
            on_host(low, op)
            return
        refuses = REFUSALS.get(op.kind) if low.fuses else None
        links: list[Link] = []
        if refuses is not None:
            links = self._taken(refuses, op)
        ways = self._ways(op, how)
        if self._attempts(op, how, links, ways):
            return
        if op.id in low.notes.lacking:  # in these layouts, and nothing that copies is as slow as NumPy
            kinds = [way for way in ways if not way.channels_last]
            images = op.attributes.get("data_format") is not None
            others = [evolve(way, lies=lies) for lies in (OTHERS if images else OTHERS[:2]) for way in kinds]
            if self._attempts(op, how, links, others):
                return
        if low.request.forced and any(  # a slow kernel is better than none
            self._attempt(op, how, (), evolve(way, references=True)) for way in ways
        ):
            return
        on_host(low, op)

    def _taken(self, refuses: Refusal, op: Op) -> list[Link]:
        """What follows an op and may go along, from the first link on."""
        links, may_go = chain(self._low.edges, op), partial(self._may_take, refuses, op)
        kept = cut(links, len(list(takewhile(may_go, links))))
        return cut(kept, len(list(takewhile(may_go, kept))))  # it may end in integers that don't go along

    def _may_take(self, refuses: Refusal, op: Op, link: Link) -> bool:
        if link.rounding is not None and op.kind not in ROUNDING:
            return False
        return not any(one.id in self._low.notes.done for one in link.ops) and refuses(op, link) is None

    def _ways(self, op: Op, how: Lowered) -> list[Way]:
        """The ways without reference loops, in order of preference: with integers before all else, halves in f32 at
        last, and images channels-last first.
        """
        kinds = [Way()]
        if any(self._low.tensors.quantized(t) is not None for t in op.inputs):
            kinds.insert(0, Way(integers=True))
        if any(t.data_type in HALVES for t in (*op.inputs, *op.outputs)) and not rounds_to_halves(op):
            kinds.append(Way(through_f32=True))
        each = [
            evolve(way, decompresses=form) for form in forms_of(self._low, op) for way in (Way(), kinds[-1])
        ]
        kinds = [*dict.fromkeys(each), *kinds]
        if not how.channels_last:
            return kinds
        return [evolve(way, channels_last=last) for way in kinds for last in (True, False)]

    def _attempts(self, op: Op, how: Lowered, links: Sequence[Link], ways: Sequence[Way]) -> bool:
        """Lowers an op in the first way that fits, with as many links as fit it."""
        chains = shortened(links)
        each = [one for real in chains for one in (real, in_integers(real)) if one is not None]
        return any(self._attempt(op, how, one, way) for way in ways for one in each if _rounds(way, one))

    def _attempt(self, op: Op, how: Lowered, links: Sequence[Link], way: Way) -> bool:
        """Lowers an op in one way; where that fails, nothing but a reason is left of it."""
        low, since = self._low, len(self._low.emitter.steps)
        along = [one for link in links for one in link.ops]
        try:
            with low.attempt(way):
                low.notes.done.update(one.id for one in (op, *along))
                reads_f32 = any(tensor.data_type is DataType.f32 for tensor in op.inputs)
                with low.chooser.choosing_for(op.id, reads_f32=reads_f32):
                    how.lower(low, op, links)
        except (Unfit, LibraryError) as error:
            low.notes.reasons.append(f"{op}: {error}")
            if isinstance(error, NoKernel):
                low.notes.lacking.add(op.id)
            return False
        if links:
            low.notes.fused.append((op, *along))
        low.emitter.belongs_to(op.id, since)
        return True


def lower_all(low: Lowering, table: Mapping[str, Lowered]) -> None:
    """Lowers every op of a partition."""
    Walk(low, table).lower_all()
