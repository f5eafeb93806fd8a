"""What pictures need of that which they draw: graphs, partitions and compiled graphs, each as far as it is looked at.

They stand as protocols here, so that a graph can draw itself and pictures know nothing of how it is made or compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ..model.fpmath import FpmathMode
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..runtime.engine import Engine
from ..runtime.executable import Explanation
from ..runtime.memory import MemoryTimeline


class CompiledSubject(Protocol):
    """What a partition becomes when it is compiled."""

    @property
    def explanation(self) -> Explanation | None:
        """How it runs; None where that is decided at execution."""
        ...


class DecisionSubject(Protocol):
    """What was asked of a backend, and the answer; see `PartitioningStep`."""

    @property
    def backend(self) -> str | None:
        """Who was asked."""
        ...

    @property
    def pattern(self) -> str:
        """The name of its pattern."""
        ...

    @property
    def ops(self) -> Sequence[Op]:
        """For which ops."""
        ...

    @property
    def partition(self) -> int | None:
        """Which partition they became."""
        ...

    @property
    def reason(self) -> str:
        """Why they were refused."""
        ...

    @property
    def ends(self) -> str:
        """Why no more was taken."""
        ...


class PartitioningSubject(Protocol):
    """How a graph came to its partitions; see `Partitioning`."""

    @property
    def policy(self) -> str:
        """How ops are grouped."""
        ...

    @property
    def steps(self) -> Sequence[DecisionSubject]:
        """What was asked, in order."""
        ...

    @property
    def unmatched(self) -> Sequence[tuple[str, str]]:
        """Patterns that matched nothing."""
        ...


class PartitionSubject(Protocol):
    """A partition; see `Partition`."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def ops(self) -> Sequence[Op]:
        """Its ops."""
        ...

    @property
    def label(self) -> str:
        """Their kinds."""
        ...

    @property
    def backend(self) -> str | None:
        """Who runs it."""
        ...

    @property
    def why_not(self) -> Mapping[str, str]:
        """For the other backends, why they are not the one."""
        ...

    @property
    def partitioning(self) -> PartitioningSubject:
        """How its graph came to it and the others."""
        ...

    @property
    def fpmath_mode(self) -> str:
        """The graph's."""
        ...

    @property
    def constants(self) -> Collection[int]:
        """Ids of the tensors that the graph holds."""
        ...

    def compile(self, *, engine: Engine | None) -> CompiledSubject:
        """Chooses its kernels."""
        ...


class GraphSubject(Protocol):
    """A graph; see `Graph`."""

    fpmath_mode: FpmathMode

    @property
    def ops(self) -> Sequence[Op]:
        """Its ops."""
        ...

    @property
    def tensors(self) -> Sequence[LogicalTensor]:
        """All its tensors."""
        ...

    @property
    def constant_tensors(self) -> Sequence[LogicalTensor]:
        """Those whose arrays it holds."""
        ...

    @property
    def parameter_tensors(self) -> Sequence[LogicalTensor]:
        """Those that training changes."""
        ...

    @property
    def outputs(self) -> Sequence[LogicalTensor]:
        """What a call gives."""
        ...

    @property
    def finalized(self) -> bool:
        """Whether nothing can be added any more."""
        ...

    def finalize(self) -> None:
        """Checks it and infers shapes."""
        ...

    def get_partitions(self, policy: str, *, backend: str | None) -> Sequence[PartitionSubject]:
        """Its partitions, in an order in which they can run."""
        ...


class ModelSubject(Protocol):
    """A compiled graph; see `CompiledGraph`."""

    @property
    def partitions(self) -> Sequence[PartitionSubject]:
        """Its partitions, in the order in which they run."""
        ...

    @property
    def inputs(self) -> Sequence[LogicalTensor]:
        """What a call takes."""
        ...

    @property
    def outputs(self) -> Sequence[LogicalTensor]:
        """What a call gives."""
        ...

    @property
    def memory_timeline(self) -> MemoryTimeline:
        """The memory of an execution, step by step."""
        ...

    def explain(self) -> Mapping[int, Explanation | None]:
        """By partition id, how it runs; None where that is decided at execution."""
        ...
