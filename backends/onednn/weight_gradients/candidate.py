"""Candidate: one way to compute a weight gradient, ready to run."""

from __future__ import annotations

import math

from attrs import field

from ....graph.runtime.executable import Considered
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.memory import OpaqueLayout
from ..plan.plan import Plan


@frozen(eq=False)
class Candidate:
    """One strategy on one implementation, as a plan.

    Attributes:
        strategy: the strategy's name.
        implementation: of the convolution or the matmul.
        compute: data type that it works in.
        opaque: for each output the layout that the primitive chose, or None for the user's.
        estimated_seconds, measured_seconds: see `Considered`.
    """

    strategy: str
    implementation: str
    compute: DataType
    plan: Plan = field(repr=False)
    opaque: tuple[OpaqueLayout | None, ...]
    estimated_seconds: float = math.nan
    measured_seconds: float | None = None

    @property
    def name(self) -> str:
        """What tells it from the other candidates of its problem."""
        return f"{self.strategy} [{self.implementation}]"

    @property
    def considered(self) -> Considered:
        """Its line in an explanation."""
        return Considered(
            strategy=self.name,
            estimated_seconds=self.estimated_seconds,
            measured_seconds=self.measured_seconds,
            scratch_bytes=self.plan.scratch_bytes,
        )
