"""How a plan makes what it makes of constants alone, so that another plan that makes the same finds it made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ....ops.records import frozen
from ..library.telling import told
from .hoisting import flow
from .steps import AnyStep, Buffer, HostStep


@frozen
class Recipe:
    """How a buffer is made.

    Attributes:
        text: a hash of all steps, with everything on which their results depend but the constants.
        constants: numbers of the constant arguments, in the order in which the steps read them.
    """

    text: str
    constants: tuple[int, ...]


def recipes(steps: Sequence[AnyStep], made: Sequence[Buffer]) -> list[Recipe | None]:
    """How steps make buffers; None for one that code on the host has a part in, of which nobody has said what it does.

    Args:
        steps: whose results are the same at every execution.
        made: what they make.
    """
    makers = {buffer.root: step for step in steps for buffer in flow(step).writes}
    return [_recipe(buffer, makers) for buffer in made]


def _recipe(buffer: Buffer, makers: Mapping[Buffer, AnyStep]) -> Recipe | None:
    constants: list[int] = []
    text = _origin(buffer.root, makers, constants, {})
    if text is None:
        return None
    told_all = json.dumps([told(buffer.desc), buffer.place, text])
    return Recipe(hashlib.sha256(told_all.encode()).hexdigest(), tuple(constants))


def _origin(
    root: Buffer, makers: Mapping[Buffer, AnyStep], constants: list[int], known: dict[Buffer, int]
) -> list[Any] | None:
    """Where the content of a buffer comes from; None where that can't be told.

    Args:
        known: numbers of the buffers of which that was told before: what many read is told once, for it would double
            with each op that reads the one before it twice.
    """
    if root.argument is not None:
        if root.argument not in constants:
            constants.append(root.argument)
        return ["constant", constants.index(root.argument)]
    if root.constant is not None:
        array = root.constant
        return ["content", str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
    if root in known:
        return ["again", known[root]]
    known[root] = len(known)
    step = makers.get(root)
    how = None if step is None else _meaning(step)
    if step is None or how is None:
        return None
    found: list[Any] = [how]
    written = {buffer.root for buffer in flow(step).writes}
    for number, buffer in step.arguments:
        if buffer.root in written:  # a step may write several of the same shape
            origin: list[Any] | None = ["result" if buffer.root is root else "beside"]
        else:
            origin = _origin(buffer.root, makers, constants, known)
        if origin is None:
            return None
        found.append([int(number), told(buffer.desc), buffer.place, origin])
    return found


def _meaning(step: AnyStep) -> object:
    """What a step makes of its inputs; None where that can't be told."""
    if not isinstance(step, HostStep):
        return None if step.desc.asked is None else told(step.desc)
    if step.updates or not (step.is_copy or step.meaning):
        return None
    return [step.meaning or "copy", *map(str, step.arrays)]
