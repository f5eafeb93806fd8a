"""The end of a lowering: outputs in the user's arrays, no idle copies, and what depends on constants alone apart."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from attrs import evolve

from ....graph.model.logical_tensor import PropertyType
from ..library.memory import OpaqueLayout
from ..plan.constants import ConstantPlan
from ..plan.hoisting import flow, made_of_constants
from ..plan.plan import Plan
from ..plan.steps import AnyStep, Buffer, in_place
from .lowering import Lowering
from .tensors import label_of


def finish(low: Lowering) -> tuple[OpaqueLayout | None, ...]:
    """Brings every output to the user's array; the layout of each that was free to choose."""
    moved: dict[Buffer, Buffer] = {}
    layouts: list[OpaqueLayout | None] = []
    for tensor in low.request.outputs:
        port = low.tensors.ports[tensor.id]
        lies = low.tensors.located(tensor)
        layouts.append(None)
        if lies.root is port:
            continue
        if tensor.id in low.tensors.left_opaque:
            layouts[-1] = low.tensors.left_opaque[tensor.id]
            moved[lies] = Buffer(lies.desc, port.argument)
            continue
        free = lies.root.argument is None and lies.root.constant is None and lies.root not in moved
        whole = (
            lies.place == 0
            and lies.desc.nbytes == lies.root.desc.nbytes
            and math.prod(lies.desc.shape) == math.prod(lies.root.desc.shape)  # it may be a part, with gaps
        )
        if free and whole and low.edges.may_choose(tensor) and lies.desc != port.desc:
            layouts[-1] = OpaqueLayout(lies.desc, port.desc, own_axes=True)
            moved[lies.root] = Buffer(lies.root.desc, port.argument)
        elif free and whole and lies.desc == port.desc:
            moved[lies.root] = Buffer(lies.root.desc, port.argument)
        else:
            since = len(low.emitter.steps)
            low.emitter.copy(label_of(tensor), lies, port)
            producer = low.edges.producer(tensor)
            if producer is not None:
                low.emitter.belongs_to(producer.id, since)
    low.emitter.steps.assign([_moved(step, moved) for step in _without_idle_copies(low, moved)])
    _use_outputs(low)
    return tuple(layouts)


def _use_outputs(low: Lowering) -> None:
    """Lets what an output is written over lie in its memory from the beginning, where nobody uses that before."""
    uses: dict[Buffer, list[int]] = {}
    first: dict[int, int] = {}  # argument → step
    for number, step in enumerate(low.emitter.steps):
        for root in {buffer.root for _, buffer in step.arguments}:
            uses.setdefault(root, []).append(number)
            if root.argument is not None:
                first.setdefault(root.argument, number)
    for number in reversed(range(len(low.emitter.steps))):
        for result, taken in in_place(low.emitter.steps[number]):
            argument = result.argument
            if argument is None or first[argument] != number or uses[taken][-1] != number:
                continue
            there = Buffer(taken.desc, argument)
            for user in uses[taken]:
                low.emitter.steps[user] = _moved(low.emitter.steps[user], {taken: there})
            uses[there], first[argument] = uses[taken], uses[taken][0]
            break


def _without_idle_copies(low: Lowering, outputs: Collection[Buffer]) -> list[AnyStep]:
    """The steps but for copies that nobody reads, which were made for ways that came to nothing.

    Args:
        outputs: temporaries that become outputs.
    """
    kept: list[AnyStep] = []
    used: set[Buffer] = {buffer.root for buffer in outputs}
    for step in reversed(low.emitter.steps):
        if step.is_copy:
            moves = flow(step)
            if all(b.root.argument is None and b.root not in used for b in moves.writes):
                continue
            used.update(buffer.root for buffer in moves.reads)
        else:
            used.update(buffer.root for _, buffer in step.arguments)
        kept.append(step)
    return kept[::-1]


def prepared(low: Lowering) -> ConstantPlan | None:
    """Takes out of the steps what depends on constant inputs alone: it runs when these change.

    Its results become further arguments of the plan.
    """
    constant = {
        number for number, t in enumerate(low.request.inputs) if t.property_type is PropertyType.constant
    }
    early = made_of_constants(low.emitter.steps, constant)
    if not early:
        return None
    taken = set(early)
    others = [step for step in low.emitter.steps if step not in taken]
    used = {b.root for step in others for _, b in step.arguments}
    ready = dict.fromkeys(buffer for step in early for buffer in flow(step).writes)
    count = len(low.request.inputs) + len(low.request.outputs)
    kept = [buffer for buffer in ready if buffer in used]
    moved = {buffer: Buffer(buffer.desc, count + number) for number, buffer in enumerate(kept)}
    low.emitter.steps.assign([_moved(step, moved) for step in others])
    plan = Plan(low.engine, [_moved(step, moved) for step in early])
    sizes = tuple(buffer.desc.nbytes for buffer in kept)
    return ConstantPlan(plan, sizes, tuple(sorted(constant)), low.request.version)


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
