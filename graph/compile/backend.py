"""What a backend is: check → compile → execute, each step with its reason.

A backend says for a set of ops why it can't run them (`why_not`), offers patterns by which the partitioner
claims subgraphs, and compiles a claimed subgraph for concrete tensors into `Executable` objects, of which
`building.build` takes the first that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, ArgumentTypeError, SchemaError, nearest
from ...ops.records import frozen
from ...ops.values import format_value
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..model.topology import Topology
from ..runtime.engine import Engine
from ..runtime.executable import Executable
from ..runtime.locking import Lock
from .options import CompileOptions

SINGLE_OP_PRIORITY = 0.0
"""Patterns of fused ops rank above this; native oneDNN Graph orders its passes likewise."""


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
        narrow: ids of inputs of s8 whose content is known, and takes 7 bits; see `in_seven_bits`.
        version: grows when the content of an input of property_type constant has changed in its place, as that of a
            parameter does; None where none can.
    """

    ops: tuple[Op, ...]
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    engine: Engine
    fpmath_mode: str
    values: Mapping[int, tuple[int, ...]]
    forced: bool
    options: CompileOptions
    described: tuple[LogicalTensor, ...] = ()
    narrow: frozenset[int] = frozenset()
    version: Callable[[], int] | None = None


Match = Callable[[Op, Topology], tuple[Op, ...] | None]
"""From an op, and who feeds whom, to the ops of a subgraph, or None."""
Ends = Callable[[Sequence[Op], Topology], str | None]
"""From ops that were claimed, and who feeds whom, to why a pattern takes no more of them, or None."""


@frozen
class Pattern:
    """A shape of subgraph that a backend runs as one partition.

    Attributes:
        name: for `Partition` and its messages.
        priority: higher ones claim first, across all backends.
        match: whether a subgraph of that shape starts at an op, and which ops it has.
        ends: for people, why a match goes no further, `ends at ReLU 'act', which 2 ops read`; None where nothing
            follows, or nothing is to be said.
    """

    name: str
    priority: float
    match: Match
    ends: Ends | None = None


def single_op(priority: float) -> Pattern:
    """The pattern of one op alone."""
    return Pattern("single op", priority, lambda op, topology: (op,))


class Backend(Protocol):
    """Someone who can run ops."""

    @property
    def name(self) -> str: ...

    @property
    def patterns(self) -> Sequence[Pattern]: ...

    @property
    def plans_with(self) -> Collection[str]:
        """Names of the backends whose ops it can take into one plan with its own, its own name among them."""
        ...

    def unavailable(self) -> str | None:
        """Why the backend can't be used at all on this machine, or None."""
        ...

    def why_not(self, ops: Sequence[Op]) -> str | None:
        """Why it can't run these ops as one partition, as far as the known shapes tell, or None."""
        ...

    def compile(self, request: CompileRequest) -> Iterable[Executable]:
        """Executables for concrete tensors, the best one first. The first that is trusted, or that proves right, runs.

        Raises:
            UnsupportedError: with the reason, also while they are iterated over; another backend is then tried,
                unless this one was forced.
        """
        ...


@runtime_checkable
class Elsewhere(Protocol):
    """A backend whose executables another process can make as well."""

    def conditions(self) -> Mapping[str, str]:
        """Environment variables, by name, with which another process makes the same executables.

        What a process says that has them is the same again.
        """
        ...

    def seconds(self, request: CompileRequest) -> float:
        """About how long one core takes for what is requested."""
        ...


@runtime_checkable
class Rated(Protocol):
    """A backend that can tell what this machine does in each number format."""

    def rates(self) -> Mapping[DataType, float]:
        """Operations per second of a product of matrices, by its data's type; measured at the first time."""
        ...


@runtime_checkable
class MachineBound(Protocol):
    """A backend that makes of constants what is of use on some machines alone."""

    def machine(self) -> Mapping[str, str]:
        """What has to be the same there: names and values, for people."""
        ...


@frozen
class BackendRegistry:
    """The backends, in order of registration; partitions go to the pattern of the highest priority."""

    _backends: dict[str, Backend | None] = field(factory=dict[str, "Backend | None"])
    _makers: dict[str, Callable[[], Backend]] = field(factory=dict[str, "Callable[[], Backend]"])
    _on_request: set[str] = field(factory=set[str])
    _lock: Lock = field(factory=Lock)

    def register(self, backend: Backend, *, on_request: bool = False) -> None:
        """Adds a backend.

        Args:
            backend: comes after those that are there, where priorities are equal.
            on_request: whether it takes part only where a user forces it by its name.

        Raises:
            SchemaError: the name is taken.
        """
        self._enter(backend.name, backend, on_request)

    def register_later(self, name: str, make: Callable[[], Backend], *, on_request: bool = False) -> None:
        """Adds a backend that is made, and imported, when it is first asked for.

        Args:
            name: of the backend.
            make: gives it.
            on_request: see `register`.

        Raises:
            SchemaError: the name is taken.
        """
        self._enter(name, None, on_request)
        self._makers[name] = make

    def unregister(self, name: str) -> None:
        """Removes a backend, for tests and interactive work."""
        del self._backends[name]
        self._makers.pop(name, None)
        self._on_request.discard(name)

    def get(self, name: object) -> Backend:
        """The backend of that name.

        Raises:
            ArgumentTypeError, ArgumentError: no string, or no such backend.
        """
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"backend must be a name such as 'numpy' or None, got {format_value(name)} of type "
                f"{type(name).__name__}"
            )
        if name not in self._backends:
            raise ArgumentError(
                f"backend must be one of {', '.join(self._backends)}, got {format_value(name)}"
                f"{nearest(name, self._backends)}"
            )
        return self._made(name)

    def candidates(self) -> tuple[Backend, ...]:
        """The backends that take part where no one is forced."""
        return tuple(self._made(name) for name in tuple(self._backends) if name not in self._on_request)

    def __iter__(self) -> Iterator[Backend]:
        return iter([self._made(name) for name in tuple(self._backends)])

    def _enter(self, name: str, backend: Backend | None, on_request: bool) -> None:
        if name in self._backends:
            raise SchemaError(f"backend '{name}' is already registered; choose another name")
        self._backends[name] = backend
        if on_request:
            self._on_request.add(name)

    def _made(self, name: str) -> Backend:
        found = self._backends[name]
        if found is not None:
            return found
        with self._lock:  # two threads must not have two of a name
            found = self._backends[name]
            if found is None:
                found = self._backends[name] = self._makers[name]()  # asked again where it fails
        return found


BACKENDS = BackendRegistry()
"""The registry that the partitioner asks; the façade fills it."""
