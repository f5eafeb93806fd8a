"""Keys of verdicts: for a step of a plan, a hash of all that the numbers of its kernel may depend on.

Two steps that may differ in anything must not have one key, for a verdict about one would let the other run. So the key
has what the library was asked for, on which machine, what it answered, and how its arguments lie in memory. It has
nothing of their content: kernels are made without knowing it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

from attrs import fields

from ...graph.trust.store import STORE
from .library.cpu import cpu_kind
from .library.descriptors import Descriptor
from .library.loading import Library
from .library.memory import MemoryDesc
from .library.primitive import PostOp, PrimitiveAttributes, PrimitiveDesc
from .plan.plan import Plan
from .plan.steps import Buffer, Step

FORMAT = 1
"""Of what is hashed; raised when it changes."""
LINE = 64
"""Bytes; kernels have other ways for what does not begin at a multiple."""


def key_of(plan: Plan, step: Step, blocks: Sequence[Sequence[int]] = ()) -> str:
    """The key of verdicts about a step; empty where not all is known that it depends on.

    Args:
        plan: that has the step.
        blocks: see `PlanExecutable`.
    """
    if step.desc.asked is None:
        return ""
    try:
        library = STORE.digest_of(plan.engine.lib.path)
    except OSError:
        return ""
    told = {
        "format": FORMAT,
        "library": library,
        "machine": _machine(plan.engine.lib),
        "threads": plan.threads,
        "primitive": _told(step.desc),
        "scratchpad": plan.scratchpad(step).nbytes,
        "arguments": _arguments(plan, step, blocks),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _machine(lib: Library) -> list[object]:
    """What kernels are generated for: blocks of loops go by the CPU's caches."""
    return [cpu_kind(), lib.effective_isa, _hints(lib), lib.runtime.name]


def _hints(lib: Library) -> int:
    """Which registers the library prefers."""
    return int(lib.c.dnnl_get_cpu_isa_hints()) if hasattr(lib.c, "dnnl_get_cpu_isa_hints") else 0


def _told(value: object) -> Any:
    """Something that primitives are described by, as JSON has it: what differs there differs here.

    Raises:
        TypeError: nothing that is known here.
    """
    if isinstance(value, Enum):
        return cast("Any", value).value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_told(one) for one in cast("Sequence[object]", value)]
    if isinstance(value, MemoryDesc):
        return ["memory", *map(_told, value.facts)]
    if isinstance(value, PrimitiveDesc):
        return ["primitive", value.function, value.implementation, _told(value.asked)]
    if isinstance(value, PrimitiveAttributes):
        masks = [sorted(value.scales.items()), sorted(value.zero_points.items())]
        return ["attributes", int(value.fpmath), _told(value.post_ops), _told(masks)]
    if isinstance(value, PostOp):
        return ["post-op", *(_told(getattr(value, field.name)) for field in fields(PostOp))]
    if isinstance(value, Descriptor):
        return [value.function, *([f.name, _told(getattr(value, f.name))] for f in fields(type(value)))]
    raise TypeError(f"{type(value).__name__} is not part of what a primitive is described by")


def _arguments(plan: Plan, step: Step, blocks: Sequence[Sequence[int]]) -> list[object]:
    """Of each argument: its number, what it is, whose memory it lies in, and where in that."""
    first: dict[object, tuple[int, int]] = {}
    found: list[object] = []
    for number, buffer in step.arguments:
        memory, start = _memory(plan, buffer)
        which, begin = first.setdefault(memory, (len(first), start))
        lines = {start % LINE}
        if buffer.root.argument is not None:
            lines = {(start + offsets[buffer.root.argument]) % LINE for offsets in blocks} or lines
        found.append(
            [int(number), _told(buffer.desc), _kind(buffer.root), which, start - begin, sorted(lines)]
        )
    return found


def _memory(plan: Plan, buffer: Buffer) -> tuple[object, int]:
    """Whose memory it is, and bytes from its beginning; all temporaries lie in one."""
    root = buffer.root
    if root.argument is not None:
        return root.argument, buffer.place
    if root.constant is not None:
        return root, buffer.place
    return (plan.offsets[root],), buffer.place


def _kind(root: Buffer) -> str:
    if root.argument is not None:
        return "argument"
    if root.constant is not None:
        return "constant"
    return "zeroed" if root.zeroed else "temporary"
