"""Which steps of a plan depend on constants alone, so that they need not run at each execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ....ops.records import frozen
from ..library.enumerators import Arg
from .steps import AnyStep, Buffer, HostStep

WRITTEN = frozenset(
    {
        Arg.DST,
        Arg.DIFF_SRC,
        Arg.DIFF_WEIGHTS,
        Arg.DIFF_BIAS,
        Arg.DIFF_SCALE,
        Arg.DIFF_SHIFT,
        Arg.WORKSPACE,
    }
)
"""Arguments that a primitive may write; gradients only read some of them."""


@frozen
class Accesses:
    """What a step reads, and what it writes, updates or may write."""

    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]


def flow(step: AnyStep) -> Accesses:
    """What a step reads and writes."""
    if isinstance(step, HostStep):
        return Accesses(_buffers(step.arguments[: step.inputs]), _buffers(step.arguments[step.inputs :]))
    return Accesses(
        _buffers([one for one in step.arguments if one[0] not in WRITTEN]),
        _buffers([one for one in step.arguments if one[0] in WRITTEN]),
    )


def _buffers(arguments: Sequence[tuple[int, Buffer]]) -> tuple[Buffer, ...]:
    return tuple(buffer for _, buffer in arguments)


def made_of_constants(steps: Sequence[AnyStep], constant: Collection[int]) -> list[AnyStep]:
    """Steps, in order, whose results are the same at every execution: primitives, and host steps without effects.

    A temporary that two steps write, or one updates, has no content of its own: what one of them does must not be moved
    before what another one does.

    Args:
        steps: of a plan.
        constant: numbers of the arguments whose content does not change.
    """
    writers = Counter(root for step in steps for root in {buffer.root for buffer in flow(step).writes})
    ready: set[Buffer] = set()
    found: list[AnyStep] = []
    for step in steps:
        moves = flow(step)
        if not moves.writes or (isinstance(step, HostStep) and (step.updates or not step.pure)):
            continue
        given = all(
            b.root.argument in constant or b.root in ready or b.root.constant is not None for b in moves.reads
        )
        roots = {b.root for b in moves.writes}
        if given and all(root.argument is None and writers[root] == 1 for root in roots):
            ready |= roots
            found.append(step)
    return found
