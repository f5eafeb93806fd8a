"""Keys of verdicts: for a step of a plan, a hash of all that the numbers of its kernel may depend on.

Two steps that may differ in anything must not have one key, for a verdict about one would let the other run. So the key
has what the library was asked for, on which machine, what it answered, and how its arguments lie in memory. It has
nothing of their content: kernels are made without knowing it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ...graph.runtime.cached import cached
from ...graph.trust.store import STORE
from .library.cpu import cpu_kind
from .library.loading import Library
from .library.telling import told
from .plan.plan import Plan
from .plan.steps import Buffer, Step

FORMAT = 3
"""Of what is hashed; raised when it changes."""
LINE = 64
"""Bytes; kernels have other ways for what does not begin at a multiple."""


class Keys:
    """The keys of verdicts about the steps of a plan.

    Args:
        plan: it.
        blocks: see `PlanExecutable`.
    """

    def __init__(self, plan: Plan, blocks: Sequence[Sequence[int]] = ()) -> None:
        self._plan, self._blocks = plan, blocks

    def of(self, step: Step) -> str:
        """The key of verdicts about a step; empty where not all is known that it depends on."""
        if step.desc.asked is None or self._circumstances is None:
            return ""
        all_of_it = [
            step.desc.threads,
            told(step.desc),
            self._plan.scratchpad(step).nbytes,
            _arguments(self._plan, step, self._blocks),
        ]
        return hashlib.sha256(f"{self._circumstances}{json.dumps(all_of_it)}".encode()).hexdigest()

    @cached
    def _circumstances(self) -> str | None:
        """What all steps have in common; None where the library can't be read."""
        lib = self._plan.engine.lib
        try:
            library = STORE.digest_of(lib.path)
        except OSError:
            return None
        return json.dumps([FORMAT, library, _machine(lib)])


def _machine(lib: Library) -> list[object]:
    """What kernels are generated for: blocks of loops go by the CPU's caches."""
    return [cpu_kind(), lib.effective_isa, _hints(lib), lib.runtime.name]


def _hints(lib: Library) -> int:
    """Which registers the library prefers."""
    return int(lib.c.dnnl_get_cpu_isa_hints()) if hasattr(lib.c, "dnnl_get_cpu_isa_hints") else 0


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
            [int(number), told(buffer.desc), _kind(buffer.root), which, start - begin, sorted(lines)]
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
