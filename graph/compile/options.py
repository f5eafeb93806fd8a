"""Options of a compilation that backends act on."""

from __future__ import annotations

import math
from enum import StrEnum

from attrs import field, frozen

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value, integer
from ..runtime.threads import checked_threads
from .trials import Choices


class Tune(StrEnum):
    """Whether measurements decide about kernels: `off` for the cost model alone, `cached` for what was measured
    before, `measure` to measure what was not, when it is compiled; `online` to take what was measured before for weight
    gradients, and else have the first executions try the likely ways in turn, on the user's own data.
    """

    off = "off"
    cached = "cached"
    measure = "measure"
    online = "online"


def _tune(value: Tune | str | None) -> Tune:
    return Tune.off if value is None else parse_enum(Tune, value, "tune")


@frozen(kw_only=True)
class CompileOptions:
    """How to compile.

    Attributes:
        verify: check each chosen kernel on integer data against NumPy before handing it out.
        tune: see `Tune`.
        tune_seconds: time that measuring one op may take, about: the candidates of a weight gradient, or the
            implementations of a convolution or matrix product. With `tune="online"`, what the executions of one op may
            lose on slower candidates, or the time of ten executions where that is more.
        choices: what `tune="online"` has settled and tries; compilations that are to choose alike share one.
        strategy: take this one of the backend's strategies, as `explain()` names it, and no other.
        scratch_limit: bytes of temporary memory that a kernel may take; by default twice what inputs and outputs
            take, and 32 MiB at least. If nothing stays below it, what takes least is chosen.
        threads: how many threads kernels use, also for work so small that one would do it; by default the engine's
            number, or what `get_num_threads` tells.

    Raises:
        ArgumentError, ArgumentTypeError: a value that is none.
    """

    verify: bool = False
    tune: Tune = field(default=Tune.off, converter=_tune)
    tune_seconds: float = 0.5
    strategy: str | None = None
    scratch_limit: int | None = None
    threads: int | None = field(default=None, converter=checked_threads)
    choices: Choices = field(factory=Choices, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        seconds = self.tune_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"tune_seconds must be a number, got {format_value(seconds)}")
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ArgumentError(f"tune_seconds must be above 0, got {format_value(seconds)}")
        if self.strategy is not None and not isinstance(self.strategy, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"strategy must be a name that explain() shows or None, got {format_value(self.strategy)}"
            )
        if self.scratch_limit is not None:
            limit = integer(self.scratch_limit)
            if limit is None:
                raise ArgumentTypeError(
                    f"scratch_limit must be a number of bytes or None, got {format_value(self.scratch_limit)}"
                )
            if limit < 0:
                raise ArgumentError(f"scratch_limit must be at least 0 bytes, got {limit}")
