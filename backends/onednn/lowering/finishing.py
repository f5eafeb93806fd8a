"""The end of a lowering: outputs in the user's arrays, no idle copies, and what depends on constants alone apart."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from attrs import evolve

from ....graph.model.logical_tensor import PropertyType
from ..library.enumerators import Arg
from ..library.memory import OpaqueLayout
from ..plan.constants import ConstantPlan
from ..plan.hoisting import flow, made_of_constants
from ..plan.plan import Plan
from ..plan.recipes import recipes
from ..plan.steps import AnyStep, Buffer, Tap, in_place, instead
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
    _move(low, moved)
    _use_outputs(low)
    return tuple(layouts)


def _use_outputs(low: Lowering) -> None:
    """Lets what an output is written over lie in its memory from the beginning, where nobody uses that before.

    What is made of constants alone stays, to be made once.
    """
    made_once = {
        b.root for step in made_of_constants(low.emitter.steps, _constant(low)) for b in flow(step).writes
    }
    uses: dict[Buffer, list[int]] = {}
    first: dict[int, int] = {}  # argument → step
    moved: dict[Buffer, Buffer] = {}
    for number, step in enumerate(low.emitter.steps):
        for root in {buffer.root for _, buffer in step.arguments}:
            uses.setdefault(root, []).append(number)
            if root.argument is not None:
                first.setdefault(root.argument, number)
    for number in reversed(range(len(low.emitter.steps))):
        for result, taken in in_place(low.emitter.steps[number]):
            argument = result.argument
            if (
                argument is None
                or first[argument] != number
                or uses[taken][-1] != number
                or taken in made_once
            ):
                continue
            there = Buffer(taken.desc, argument)
            for user in uses[taken]:
                low.emitter.steps[user] = _moved(low.emitter.steps[user], {taken: there})
            moved[taken] = there
            uses[there], first[argument] = uses[taken], uses[taken][0]
            break
    _move(low, moved)


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


def _constant(low: Lowering) -> set[int]:
    """Numbers of the arguments whose content does not change."""
    return {number for number, t in enumerate(low.request.inputs) if t.property_type is PropertyType.constant}


def prepared(low: Lowering) -> ConstantPlan | None:
    """Takes out of the steps what depends on constant inputs alone: it runs when these change.

    Its results become further arguments of the plan.
    """
    constant = _constant(low)
    early = made_of_constants(low.emitter.steps, constant)
    if not early:
        return None
    taken = set(early)
    others = [step for step in low.emitter.steps if step not in taken]
    used = {b.root for step in others for _, b in step.arguments}
    ready = dict.fromkeys(buffer.root for step in early for buffer in flow(step).writes)
    count = len(low.request.inputs) + len(low.request.outputs)
    kept = [buffer for buffer in ready if buffer in used]
    moved = {buffer: Buffer(buffer.desc, count + number) for number, buffer in enumerate(kept)}
    low.emitter.steps.assign([_moved(step, moved) for step in others])
    _move(low, moved)
    plan = Plan(low.engine, [_moved(step, moved) for step in early])
    sizes = tuple(buffer.desc.nbytes for buffer in kept)
    made_by = recipes(early, kept)
    return ConstantPlan(
        plan, sizes, tuple(sorted(constant)), made_by, low.request.options.shared, low.request.version
    )


def taps(low: Lowering) -> tuple[Tap, ...]:
    """The tensors between the ops that can be looked at while the finished plan runs."""
    doers: dict[int, set[int]] = {op.id: {op.id} for op in low.request.ops}
    for first, *others in low.notes.fused:
        for op in others:
            doers[op.id].add(first.id)
    steps = low.emitter.steps
    writers: dict[Buffer, list[int]] = {}
    users: dict[Buffer, list[int]] = {}
    for number, step in enumerate(steps):
        for root in {buffer.root for buffer in flow(step).writes}:
            writers.setdefault(root, []).append(number)
        for root in {buffer.root for _, buffer in step.arguments}:
            users.setdefault(root, []).append(number)
    ends = {step.op: number for number, step in enumerate(steps)}
    given = len(low.request.inputs) + len(low.request.outputs)  # behind them is what is prepared
    found: list[Tap] = []
    for op in low.request.ops:
        for tensor in op.outputs:
            buffer = low.tensors.where.get(tensor.id)
            if buffer is None or (buffer.root.argument or 0) >= given or tensor.id in low.tensors.left_opaque:
                continue
            whole = buffer.desc.shape == (tensor.dims or (1,)) and 0 not in tensor.dims
            mine = [n for n in writers.get(buffer.root, ()) if steps[n].op in doers[op.id]]
            if not mine or not whole or buffer.desc.data_type is not tensor.data_type:
                continue
            end = max(ends.get(one, 0) for one in doers[op.id])  # one result may be made of another
            later = [steps[n] for n in users[buffer.root] if mine[-1] < n <= end]
            taken = any(step.is_copy or step.op not in doers[op.id] for step in later)
            # What a workspace says of a result would not be true of other elements.
            known = any(number == Arg.WORKSPACE for number, _ in steps[mine[-1]].arguments)
            writable = not taken and not known and not steps[mine[-1]].is_copy
            found.append(Tap(tensor, buffer, end if writable else mine[-1], writable))
    return tuple(found)


def _move(low: Lowering, moved: Mapping[Buffer, Buffer]) -> None:
    """Where tensors lie once some buffers have moved."""
    for number, buffer in list(low.tensors.where.items()):
        low.tensors.where[number] = instead(buffer, moved)


def _moved(step: AnyStep, moved: Mapping[Buffer, Buffer]) -> AnyStep:
    """The step with buffers in the place of others, views of them included."""
    return evolve(
        step, arguments=tuple((number, instead(buffer, moved)) for number, buffer in step.arguments)
    )
