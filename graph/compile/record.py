"""Where each op of what was compiled runs: the one record that partitions, explanations, reports and pictures read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ..model.op import Op
from ..runtime.executable import Explanation

HOST = "numpy"
REFERENCE = "reference"
"""ONNX's, which runs what has no kernel of ours."""


class Explanations(dict[int, Explanation | None]):
    """What was chosen for each partition, by its id, with a text for people; see `explain`.

    It is None for a partition that is compiled at execution, where this thread has executed it for no shapes yet.
    """

    @property
    def only(self) -> Explanation:
        """That of the only partition.

        Raises:
            ArgumentError: there are several, or it is compiled at execution.
        """
        if len(self) != 1:
            numbers = ", ".join(map(str, self)) or "none"
            raise ArgumentError(f"there are {len(self)} partitions, {numbers}; take one by its id")
        (found,) = self.values()
        if found is None:
            raise ArgumentError(
                "the kernels are chosen at the first execution, when all shapes are known; execute it once before "
                "explain(), on the same thread"
            )
        return found

    def __str__(self) -> str:
        later = "compiled when it is executed and all shapes are known; ask on the thread that executes it"
        return "\n".join(
            f"partition {number}, {explanation or later}" for number, explanation in self.items()
        )


@frozen(kw_only=True)
class Placed:
    """Where one op runs.

    Attributes:
        op: the op.
        backend: who runs it; the one that has claimed it where that is decided at execution, and None for nobody.
        kernels: names of what runs for it; none for a view, and for what another op's kernel does along the way.
        reason: why another backend than the one that has claimed it, or than the first that was asked, runs it; empty
            where that one does.
    """

    op: Op
    backend: str | None
    kernels: tuple[str, ...] = ()
    reason: str = ""


def placed(
    ops: Sequence[Op], explanation: Explanation | None, claimed: str | None, why_not: Mapping[str, str]
) -> tuple[Placed, ...]:
    """The record of a partition.

    Args:
        ops: of the partition.
        explanation: what was chosen for it; None where that is decided at execution.
        claimed: the backend that has claimed it.
        why_not: why other backends have not.
    """
    if explanation is None:
        return tuple(Placed(op=op, backend=claimed, reason=_joined(why_not.values())) for op in ops)
    made: list[Placed] = []
    for op in ops:
        steps = [step for step in explanation.steps if step.op == op.id]
        on_host = bool(steps) and all(step.host for step in steps)
        backend = HOST if on_host else explanation.backend
        own = [text.partition(": ")[2] for text in explanation.rejected if text.startswith(f"{op}: ")]
        told = own or (explanation.rejected if backend != claimed else why_not.values())
        made.append(
            Placed(
                op=op,
                backend=backend,
                kernels=tuple(step.name for step in steps if not step.prepared),
                reason=_joined(told) if backend == HOST else "",
            )
        )
    return tuple(made)


def _joined(reasons: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(reasons))


def title_of(op: Op) -> str:
    """What people are told that an op is: of a node of ONNX its own name."""
    return f"{op.attributes.string('op')} of ONNX" if op.kind == "HostOnnx" else op.kind


def told(record: Sequence[Placed], backend: str = HOST, most: int = 8) -> list[str]:
    """Lines for people about what a backend runs: kind, how many, and why; those with the most ops first.

    Args:
        most: lines; what is left out is counted in a last one.
    """
    counts = Counter((title_of(one.op), one.reason) for one in record if one.backend == backend)
    lines = [
        f"{kind}{f' ×{count}' if count > 1 else ''}{f': {reason}' if reason else ''}"
        for (kind, reason), count in counts.most_common()
    ]
    rest = sum(count for _, count in counts.most_common()[most:])
    return [*lines[:most], *([f"and {rest} other ops"] if rest else [])]
