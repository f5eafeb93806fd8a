"""What a trainer is told beside the graph, its loss and the optimizer."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from attrs import field

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..runtime.engine import Engine
from .step import Communicator


class Precision(StrEnum):
    """In what the forward and backward passes compute."""

    f32 = "f32"
    bf16 = "bf16"


def _precision(value: Precision | str) -> Precision:
    return parse_enum(Precision, value, "precision")


def _seed(value: int) -> int:
    number = None if isinstance(value, bool) else integer(value)
    if number is None:
        raise ArgumentTypeError(f"seed must be an integer, got {format_value(value)}")
    return number


def _deterministic(value: bool) -> bool:
    if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"deterministic must be True or False, got {format_value(value)}")
    return value


def _kept_shapes(value: int) -> int:
    number = None if isinstance(value, bool) else integer(value)
    if number is None or number < 1:
        raise ArgumentError(f"kept_shapes must be 1 or more, got {format_value(value)}")
    return number


@frozen(kw_only=True)
class Settings:
    """The keywords of `Trainer`, checked; see there.

    Raises:
        ArgumentError, ArgumentTypeError: one does not fit.
    """

    comm: Communicator | None = None
    precision: Precision = field(default=Precision.f32, converter=_precision)
    seed: int = field(default=0, converter=_seed)
    engine: Engine | None = None
    threads: int | None = None
    deterministic: bool = field(default=False, converter=_deterministic)
    kept_shapes: int = field(default=16, converter=_kept_shapes)

    @property
    def compile_options(self) -> dict[str, Any]:
        """As `Graph.compile` takes them."""
        return {"engine": self.engine, "threads": self.threads}

    @property
    def leads(self) -> bool:
        """Whether this process is the one that reads and writes files, and shows how far it is."""
        return self.comm is None or self.comm.rank == 0
