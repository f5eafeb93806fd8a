"""What a trainer is told beside the graph, its loss and the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from attrs import field

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..model.patterns import patterns_of
from ..runtime.engine import Engine
from .ema import EMA, ema_of
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


def _accumulate(value: int) -> int:
    number = None if isinstance(value, bool) else integer(value)
    if number is None or number < 1:
        raise ArgumentError(
            f"accumulate must be a number of steps to an update, 1 or more, got {format_value(value)}"
        )
    return number


def _recompute(value: str | Sequence[str]) -> tuple[str, ...]:
    return patterns_of("recompute", value, "block*")


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
    accumulate: int = field(default=1, converter=_accumulate)
    ema: EMA | None = field(default=None, converter=ema_of)
    recompute: tuple[str, ...] = field(default=(), converter=_recompute)

    @property
    def compile_options(self) -> dict[str, Any]:
        """As `Graph.compile` takes them."""
        return {"engine": self.engine, "threads": self.threads}

    @property
    def again(self) -> str:
        """What is said once, when shapes are compiled a second time."""
        kept = self.kept_shapes
        return (
            f"Trainer compiles shapes again that it had compiled before, for it keeps {kept}; pad or group batches so "
            f"that they have fewer shapes, or give Trainer(…, kept_shapes={2 * kept})"
        )

    @property
    def common(self) -> str:
        """What must be the same in all processes."""
        words = [self.precision.value]
        words += [f"accumulate={self.accumulate}"] if self.accumulate > 1 else []
        words += [repr(self.ema)] if self.ema is not None else []
        words += [f"recompute={list(self.recompute)}"] if self.recompute else []
        return ", ".join(words)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that reads and writes files, and shows how far it is."""
        return self.comm is None or self.comm.rank == 0
