"""What a backend is: check → compile → execute, each step with its reason.

A backend says for a set of ops why it can't run them (`why_not`), offers patterns by which the partitioner
claims subgraphs, and compiles a claimed subgraph for concrete tensors into an `Executable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from attrs import Factory, field, frozen

from ...ops.errors import ArgumentError, ArgumentTypeError, SchemaError, nearest
from ...ops.values import shown
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..model.topology import Topology
from ..runtime.arrays import Array
from ..runtime.engine import Engine
from ..runtime.layouts import LayoutHandle
from ..runtime.tensor import Tensor
from .options import CompileOptions

SINGLE_OP_PRIORITY = 0.0
"""Patterns of fused ops rank above this; native oneDNN Graph orders its passes likewise."""


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
        verified: whether `verify=True` (or a kernel of unknown standing) had it checked on integer data.
    """

    backend: str
    strategy: str
    implementations: tuple[str, ...]
    scratch_bytes: int | None
    rejected: tuple[str, ...] = ()
    verified: bool = False
    considered: tuple[Considered, ...] = ()
    prepared: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.backend}: {self.strategy}",
            f"  kernels: {' → '.join(self.implementations)}",
        ]
        if self.prepared:
            lines.append(f"  once for constants: {' → '.join(self.prepared)}")
        if self.scratch_bytes is not None:
            lines.append(f"  scratch: {self.scratch_bytes} bytes")
        lines += [f"  {number}. {one}" for number, one in enumerate(self.considered[:SHOWN], 1)]
        if len(self.considered) > SHOWN:
            lines.append(f"  … and {len(self.considered) - SHOWN} more candidates")
        if self.verified:
            lines.append("  verified exactly on integer data")
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
    def explanation(self) -> Explanation: ...

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Computes `outputs` from `inputs`."""
        ...

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with the arguments prepared once. The callable is for one thread at a time."""
        ...


Verifier = Callable[[Executable], str | None]
"""Runs an executable on integer data; returns what is wrong with it, or None."""


@frozen(kw_only=True)
class CompileRequest:
    """What a backend compiles.

    Attributes:
        ops: in topological order, on resolved tensors.
        inputs: concrete and strided. outputs: concrete; the layout may be `any`.
        described: the inputs as the user describes them: opaque where another partition's output is to be taken as
            it lies, in a layout that the engine has given out. The backend that chose the layout may do so, and says
            it by `Executable.inputs`.
        engine: where it will run.
        fpmath_mode: the graph's.
        values: values of shape operands, by tensor id.
        forced: whether the user wants this backend only, so that a slow kernel is better than none.
        options: the user's.
        verifier: an executable must pass it if `options.verify` says so; it may also be called unasked, for kernels
            of unknown standing.
    """

    ops: tuple[Op, ...]
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    engine: Engine
    fpmath_mode: str
    values: Mapping[int, tuple[int, ...]]
    forced: bool
    options: CompileOptions
    verifier: Verifier
    described: tuple[LogicalTensor, ...] = ()


Match = Callable[[Op, Topology], tuple[Op, ...] | None]
"""From an op, and who feeds whom, to the ops of a subgraph, or None."""


@frozen
class Pattern:
    """A shape of subgraph that a backend runs as one partition.

    Attributes:
        name: for `Partition` and its messages.
        priority: higher ones claim first, across all backends.
        match: whether a subgraph of that shape starts at an op, and which ops it has.
    """

    name: str
    priority: float
    match: Match


def single_op(priority: float) -> Pattern:
    """The pattern of one op alone."""
    return Pattern("single op", priority, lambda op, topology: (op,))


class Backend(Protocol):
    """Someone who can run ops."""

    @property
    def name(self) -> str: ...

    @property
    def patterns(self) -> Sequence[Pattern]: ...

    def unavailable(self) -> str | None:
        """Why the backend can't be used at all on this machine, or None."""
        ...

    def why_not(self, ops: Sequence[Op]) -> str | None:
        """Why it can't run these ops as one partition, as far as the known shapes tell, or None."""
        ...

    def compile(self, request: CompileRequest) -> Executable:
        """An executable for concrete tensors.

        Raises:
            UnsupportedError: with the reason; another backend is then tried, unless this one was forced.
        """
        ...

    def to_plain(self, tensor: Tensor, layout: LayoutHandle) -> Array:
        """A plain copy of an opaque tensor in a layout that this backend has given out; its buffer is large enough.

        Raises:
            UnsupportedError: the backend gives out no layouts.
        """
        ...


@frozen
class BackendRegistry:
    """The backends, in order of registration; partitions go to the pattern of the highest priority."""

    _backends: dict[str, Backend] = field(default=Factory(dict[str, Backend]))
    _on_request: set[str] = field(default=Factory(set[str]))

    def register(self, backend: Backend, *, on_request: bool = False) -> None:
        """Adds a backend.

        Args:
            backend: comes after those that are there, where priorities are equal.
            on_request: whether it takes part only where a user forces it by its name.

        Raises:
            SchemaError: the name is taken.
        """
        if backend.name in self._backends:
            raise SchemaError(f"backend '{backend.name}' is already registered; choose another name")
        self._backends[backend.name] = backend
        if on_request:
            self._on_request.add(backend.name)

    def unregister(self, name: str) -> None:
        """Removes a backend, for tests and interactive work."""
        del self._backends[name]
        self._on_request.discard(name)

    def get(self, name: object) -> Backend:
        """The backend of that name.

        Raises:
            ArgumentTypeError, ArgumentError: no string, or no such backend.
        """
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"backend must be a name such as 'numpy' or None, got {shown(name)} of type {type(name).__name__}"
            )
        if name not in self._backends:
            raise ArgumentError(
                f"backend must be one of {', '.join(self._backends)}, got {shown(name)}"
                f"{nearest(name, self._backends)}"
            )
        return self._backends[name]

    def candidates(self) -> tuple[Backend, ...]:
        """The backends that take part where no one is forced."""
        return tuple(b for name, b in self._backends.items() if name not in self._on_request)

    def __iter__(self) -> Iterator[Backend]:
        return iter(tuple(self._backends.values()))


BACKENDS = BackendRegistry()
"""The registry that the partitioner asks; the façade fills it."""
