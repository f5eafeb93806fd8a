"""Executable: what a backend makes for concrete tensors, with the explanation of what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from attrs import evolve

from ...ops.records import frozen
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from .arrays import Array
from .shared_constants import MadeConstant

REFERENCE = "numpy"
"""The backend that others are verified by, and that nothing verifies."""
SHOWN = 5
"""Candidates that the text of an explanation shows."""


@frozen(kw_only=True)
class Considered:
    """One candidate of a choice.

    Attributes:
        strategy: its name, for `compile(strategy=…)`.
        estimated_seconds: by the cost model.
        measured_seconds: the shortest time measured, or None.
        scratch_bytes: temporary memory.
    """

    strategy: str
    estimated_seconds: float
    measured_seconds: float | None
    scratch_bytes: int

    def __str__(self) -> str:
        time = f"estimated {self.estimated_seconds * 1e3:.3f} ms"
        if self.measured_seconds is not None:
            time = f"measured {self.measured_seconds * 1e3:.3f} ms, {time}"
        return f"{self.strategy}: {time}, {self.scratch_bytes / 2**20:.1f} MiB"


@frozen
class Tried:
    """One candidate that executions have tried.

    Attributes:
        strategy: its name.
        seconds: of each timed execution.
        dropped: why it was tried no more; empty for what was not dropped.
    """

    strategy: str
    seconds: tuple[float, ...]
    dropped: str = ""

    def __str__(self) -> str:
        times = ", ".join(f"{one * 1e3:.3f}" for one in self.seconds)
        return f"{self.strategy}: {f'{times} ms' if times else 'not timed'}" + (
            f", {self.dropped}" if self.dropped else ""
        )


@frozen
class OnlineChoice:
    """A choice among candidates that executions try in turn.

    Attributes:
        ops: ids of the ops that it decides about.
        taken: the candidate that leads, or stays.
        settled: whether it is over.
        tried: all of them.
    """

    ops: tuple[int, ...]
    taken: str
    settled: bool
    tried: tuple[Tried, ...]

    def __str__(self) -> str:
        head = f"{'stays' if self.settled else 'leads, and others are still tried'}: {self.taken}"
        lines = [f"  tried in use for {', '.join(f'op {op}' for op in self.ops)}; {head}"]
        return "\n".join([*lines, *(f"    {one}" for one in self.tried)])


@frozen(kw_only=True)
class ExplainedStep:
    """One kernel.

    Attributes:
        name: what it does, and the implementation.
        op: id of the op that it belongs to; None for what several share.
        fused: kinds of the ops that it does, joined, where there are several.
        prepared: whether it runs only when a constant input changes.
        host: whether it is an op's NumPy kernel.
        implementation: the kernel's name.
        proven: whether it may run without having been verified on integer data.
        trust: of what is not proven, the key by which verdicts about it are kept: a hash of all that its numbers may
            depend on, library and machine included. Empty where there is none.
        layout: how its result lies: axes from outermost to innermost by letters, and blocks, `acdb` for channels last.
            Empty for what has no descriptor of the library.
        change: of a copy, from which layout and type to which.
    """

    name: str
    op: int | None
    fused: str = ""
    prepared: bool = False
    host: bool = False
    implementation: str = ""
    proven: bool = True
    trust: str = ""
    layout: str = ""
    change: str = ""


@frozen(kw_only=True)
class Explanation:
    """What was chosen for a compiled partition and why.

    Attributes:
        backend: the backend that runs it.
        strategy: how, in the backend's words.
        implementations: names of the kernels, in order of execution.
        scratch_bytes: temporary memory of one execution; None where the backend doesn't plan it.
        rejected: what was passed over, a reason each.
        considered: what could have been chosen, best first, with the estimates that decided or the times.
        prepared: kernels that run only when a constant input changes.
        prepared_bytes: memory of what they make.
        steps: every kernel, with the op that it belongs to and whether it is proven.
        verified: whether it was checked on integer data, for `verify=True` or a kernel of unknown standing.
        exactly: whether its ops add and multiply only, so that it had to make the same numbers; others, such as
            exponentials, may differ by some roundings.
        threads: how many threads its kernels run on; None where the backend does not say.
        online: what executions have tried, for `tune="online"`.
    """

    backend: str
    strategy: str
    implementations: tuple[str, ...]
    scratch_bytes: int | None
    rejected: tuple[str, ...] = ()
    verified: bool = False
    exactly: bool = False
    considered: tuple[Considered, ...] = ()
    prepared: tuple[str, ...] = ()
    prepared_bytes: int = 0
    steps: tuple[ExplainedStep, ...] = ()
    threads: int | None = None
    online: tuple[OnlineChoice, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether all of it may run without having been verified on integer data."""
        return all(step.proven for step in self.steps)

    def of(self, groups: Sequence[Sequence[Op]]) -> list[Explanation]:
        """The part of it that tells of each group of ops, which have no op in common."""
        number = {op.id: group for group, ops in enumerate(groups) for op in ops}
        place = {str(op): group for group, ops in enumerate(groups) for op in ops}
        steps: list[list[ExplainedStep]] = [[] for _ in groups]
        for step in self.steps:
            if step.op in number:
                steps[number[step.op]].append(step)
        rejected: list[list[str]] = [[] for _ in groups]
        for reason in self.rejected:
            mine = place.get(reason.partition(": ")[0])
            for group in range(len(groups)) if mine is None else (mine,):
                rejected[group].append(reason)
        return [
            self._part(tuple(s), tuple(r), frozenset(op.id for op in ops))
            for s, r, ops in zip(steps, rejected, groups, strict=True)
        ]

    def _part(
        self, mine: tuple[ExplainedStep, ...], rejected: tuple[str, ...], ops: frozenset[int]
    ) -> Explanation:
        fused = [step.fused for step in mine if step.fused]
        on_host = bool(mine) and all(step.host for step in mine)
        way = "NumPy kernels" if on_host else "primitives in order" if mine else "views, or done by others"
        return evolve(
            self,
            backend="numpy" if on_host else self.backend,
            strategy=f"fused {', '.join(fused)}" if fused else way,
            implementations=tuple(step.name for step in mine if not step.prepared),
            prepared=tuple(step.name for step in mine if step.prepared),
            steps=mine,
            rejected=rejected,
            online=tuple(one for one in self.online if ops.intersection(one.ops)),
        )

    @property
    def layout(self) -> str:
        """How the result of the last kernel lies; see `ExplainedStep.layout`."""
        return next((s.layout for s in reversed(self.steps) if s.layout and not s.prepared), "")

    def __str__(self) -> str:
        lines = [
            f"{self.backend}: {self.strategy}",
            f"  kernels: {' → '.join(self.implementations) or 'none at a call'}",
        ]
        lines += [
            f"    {step.name}: {step.change}" for step in self.steps if step.change and not step.prepared
        ]
        if self.layout:
            lines.append(f"  result: {self.layout}")
        if self.prepared:
            lines.append(f"  once for constants: {' → '.join(self.prepared)}")
        if self.scratch_bytes is not None:
            lines.append(f"  scratch: {self.scratch_bytes} bytes")
        if self.threads is not None:
            lines.append(f"  threads: {self.threads}")
        lines += [f"  {number}. {one}" for number, one in enumerate(self.considered[:SHOWN], 1)]
        if len(self.considered) > SHOWN:
            lines.append(f"  … and {len(self.considered) - SHOWN} more candidates")
        lines += map(str, self.online)
        if self.verified and self.backend != REFERENCE:
            how = "exactly" if self.exactly else "within roundings"
            lines.append(f"  verified on integer data, {how}")
        lines += [f"  passed over: {reason}" for reason in self.rejected]
        return "\n".join(lines)


class Executable(Protocol):
    """Code for concrete tensors. Thread-safe; arrays have exactly the types and layouts it was made for."""

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """The inputs as it takes them: strided, or opaque in a layout that it knows."""
        ...

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """The outputs with their layouts chosen: `any` has become strided, or opaque with the `layout_id` of a layout
        that `engine.layouts.give` made, which knows the size of the buffer.
        """
        ...

    @property
    def explanation(self) -> Explanation:
        """What was chosen; whoever asked for it adds what came before it."""
        ...

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Computes `outputs` from `inputs`."""
        ...

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with the arguments prepared once. The callable is for one thread at a time."""
        ...


@runtime_checkable
class InTurns(Protocol):
    """An executable whose executions try candidates in turn."""

    def turns(self) -> Iterable[Executable]:
        """Executables of which each goes one way, so that together they go all; for proving it."""
        ...


Visit = Callable[[LogicalTensor, Array, bool], Array | None]
"""Is shown a tensor, its elements, and whether others may stand in their place; returns these, or None."""


@runtime_checkable
class Tapped(Protocol):
    """An executable whose tensors between the ops can be looked at while it runs."""

    def run_tapped(self, inputs: Sequence[Array], outputs: Sequence[Array], visit: Visit) -> bool:
        """Computes outputs from inputs in the same kernels and the same memory, with guards around temporaries.

        Args:
            inputs, outputs: as for `run`.
            visit: is shown what it can be shown, in the order in which it is computed.

        Returns:
            Whether nothing was written beside the temporaries.
        """
        ...


@runtime_checkable
class AtAddresses(Protocol):
    """An executable that can be run on memory that its caller vouches for, with nothing checked and nothing kept."""

    def prepare(self, addresses: Sequence[int]) -> object:
        """What it makes of the constant inputs as they are now: for `run_at`, and the caller's to keep; None where it
        makes nothing of any.

        Args:
            addresses: of all inputs, in order; only those of constants are read.
        """
        ...

    def run_at(self, addresses: Sequence[int], prepared: object = None) -> None:
        """Computes the outputs from the inputs.

        Args:
            addresses: of the inputs and then the outputs, each as it was compiled for.
            prepared: what `prepare` made.
        """
        ...


@runtime_checkable
class Generated(Protocol):
    """An executable whose code is generated before it first runs, which may fail."""

    def generate(self) -> None:
        """Generates what is not there yet.

        Raises:
            LibraryError: there is none for what was chosen.
        """
        ...


@runtime_checkable
class Settling(Protocol):
    """An executable that makes something of constant inputs, which may be done before it first runs."""

    def settle(self, constants: Sequence[Array | None]) -> None:
        """Makes what can be made.

        Args:
            constants: the inputs in order, with None for those that only an execution has.
        """
        ...

    def made(self) -> Sequence[MadeConstant] | None:
        """What it has made of them and uses now; None before it has."""
        ...
