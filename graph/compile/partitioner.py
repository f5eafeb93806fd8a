"""The partitioner: backends claim convex subgraphs by the priority of their patterns."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Mapping, Sequence

from ...ops.errors import BackendUnavailableWarning, UnsupportedError
from ...ops.records import frozen
from ..model.op import Op
from ..model.topology import Contraction, Topology
from ..runtime.callers import outside
from ..runtime.progress import progressing
from .backend import BACKENDS, SINGLE_OP_PRIORITY, Backend, Pattern
from .options import Policy
from .partitioning import TAKEN, Decisions

LOGGER = logging.getLogger(__name__)


@frozen
class Claim:
    """Ops that go together, in topological order, who runs them, and why nobody else does.

    Attributes:
        backend: None where no backend can run them.
        why_not: backend name → reason, for every backend that was asked but the one that has it.
    """

    ops: tuple[Op, ...]
    backend: Backend | None
    why_not: dict[str, str]


def partition(
    ops: Sequence[Op], policy: Policy, forced: str | None, outputs: Collection[int] = ()
) -> tuple[list[Claim], Decisions]:
    """Claims that cover all ops, in an order in which they can run, and how it came to them.

    Args:
        ops: in topological order, on resolved tensors.
        policy: see `Policy`.
        forced: name of the only backend to ask, or None for all but those that wait to be asked for.
        outputs: ids of the graph's outputs.

    Raises:
        UnsupportedError: the forced backend can't run an op; the message has its reason.
    """
    backends = [BACKENDS.get(forced)] if forced is not None else list(BACKENDS.candidates())
    unavailable = {b.name: reason for b in backends if (reason := b.unavailable()) is not None}
    if forced is None:
        _say_once(unavailable)
    usable = [b for b in backends if b.name not in unavailable]
    topology = Topology(ops, outputs)
    nodes = Contraction(topology)
    claims: dict[int, tuple[Op, ...]] = {}
    owners: dict[int, Backend] = {}
    offers: list[tuple[Backend, Pattern]] = sorted(
        (
            (backend, pattern)
            for backend in usable
            for pattern in backend.patterns
            if policy is Policy.fusion or pattern.priority <= SINGLE_OP_PRIORITY
        ),
        key=lambda offer: -offer[1].priority,
    )
    asked = [(backend.name, pattern) for backend, pattern in offers]
    decisions = Decisions(topology.ops, topology.outputs, asked, unavailable)
    for number, (backend, pattern) in enumerate(offers):
        for op in progressing(topology.ops, f"partitioning, {pattern.name}: op"):
            if id(op) in claims:
                continue
            matched = pattern.match(op, topology)
            if not matched:
                continue
            matched = tuple(sorted(matched, key=lambda member: topology.position[id(member)]))
            answer = _answer(backend, matched, claims, nodes)
            decisions.made.append((number, matched, answer))
            if answer == TAKEN:
                for member in matched:
                    claims[id(member)] = matched
                    owners[id(member)] = backend
    return _in_order(topology, claims, owners, backends, unavailable, forced), decisions


def _answer(
    backend: Backend, ops: tuple[Op, ...], claims: Mapping[int, tuple[Op, ...]], nodes: Contraction
) -> str | None:
    """`TAKEN`, where the ops have become one node, or what is against it; see `Decisions`."""
    if any(id(member) in claims for member in ops):
        return None
    reason = backend.why_not(ops)
    if reason is not None:
        return reason
    if nodes.contract(ops):
        return TAKEN
    return f"as one they would wait for themselves, by way of {nodes.way_back(ops)}"


def _in_order(
    topology: Topology,
    claims: dict[int, tuple[Op, ...]],
    owners: dict[int, Backend],
    backends: Sequence[Backend],
    unavailable: dict[str, str],
    forced: str | None,
) -> list[Claim]:
    """Claims in topological order of the claims, each with its reasons."""
    result: list[Claim] = []
    done: set[int] = set()

    def visit(op: Op) -> None:
        stack = [op]
        while stack:
            top = stack[-1]
            together = claims.get(id(top), (top,))
            if id(top) in done:
                stack.pop()
                continue
            waiting = [
                before
                for member in together
                for before in topology.awaited(member)
                if id(before) not in done and before not in together
            ]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            done.update(id(member) for member in together)
            result.append(_claim(together, owners.get(id(top)), backends, unavailable, forced))

    for op in topology.ops:
        visit(op)
    return result


def _claim(
    ops: tuple[Op, ...],
    owner: Backend | None,
    backends: Sequence[Backend],
    unavailable: dict[str, str],
    forced: str | None,
) -> Claim:
    why_not = {
        backend.name: unavailable.get(backend.name)
        or backend.why_not(ops)
        or f"it can, but {owner.name if owner else 'nothing'} comes first"
        for backend in backends
        if backend is not owner
    }
    if owner is None and forced is not None:
        raise UnsupportedError(
            f"{ops[0]}: backend '{forced}' was forced and can't run it: {why_not[forced]}; "
            "leave backend out to let another one do it"
        )
    if LOGGER.isEnabledFor(logging.DEBUG):
        chosen = owner.name if owner else "no backend"
        reasons = "; ".join(f"{name}: {why}" for name, why in why_not.items())
        LOGGER.debug("%s: %s%s", ", ".join(map(str, ops)), chosen, f" ({reasons})" if reasons else "")
    return Claim(ops, owner, why_not)


def needed_by_others(groups: Sequence[Sequence[Op]], outputs: Collection[int]) -> list[set[int]]:
    """For each group of ops, the ids of tensors that it makes and that another group or the user reads."""
    readers: dict[int, set[int]] = {}
    for number, ops in enumerate(groups):
        for op in ops:
            for tensor in op.inputs:
                readers.setdefault(tensor.id, set()).add(number)
    return [
        {
            tensor.id
            for op in ops
            for tensor in op.outputs
            if tensor.id in outputs or readers.get(tensor.id, set()) - {number}
        }
        for number, ops in enumerate(groups)
    ]


_said: set[str] = set()


def _say_once(unavailable: dict[str, str]) -> None:
    for name, reason in unavailable.items():
        if name not in _said:
            _said.add(name)
            warnings.warn(
                f"backend '{name}' is not available ({reason}); NumPy does its work",
                BackendUnavailableWarning,
                stacklevel=outside(),
            )
