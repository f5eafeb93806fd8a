"""Options of a compilation: their names, types, defaults, checks, and what they mean, for all that is compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypedDict

import numpy as np
from attrs import field, fields_dict

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.keywords import keyword_hint
from ...ops.records import frozen
from ...ops.values import checked_count, format_value
from ..runtime.shared_constants import SharedConstants
from ..runtime.threads import checked_threads
from .trials import Choices


class Policy(StrEnum):
    """How ops are grouped: `fusion` as far as patterns go, `debug` one op a partition."""

    fusion = "fusion"
    debug = "debug"


class Tune(StrEnum):
    """Whether measurements decide about kernels: `off` for the cost model alone, `cached` for what was measured
    before, `measure` to measure what was not, when it is compiled; `online` to take what was measured before for weight
    gradients, and else have the first executions try the likely ways in turn, on the user's own data.
    """

    off = "off"
    cached = "cached"
    measure = "measure"
    online = "online"


def _policy(value: Policy | str) -> Policy:
    return parse_enum(Policy, value, "policy")


def _tune(value: Tune | str | None) -> Tune:
    return Tune.off if value is None else parse_enum(Tune, value, "tune")


def _verify(value: bool) -> bool:
    if not isinstance(value, bool | np.bool_):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(f"verify must be True or False, got {format_value(value)}")
    return bool(value)  # files and problems have no numbers of NumPy's


def _scratch_limit(value: int | None) -> int | None:
    return (
        None
        if value is None
        else checked_count(value, "scratch_limit", "bytes or None", 0, "at least 0 bytes")
    )


def _kept_shapes(value: int) -> int:
    return checked_count(value, "kept_shapes", "sets of shapes")


def _choices(value: Choices | None) -> Choices:
    if value is not None and not isinstance(value, Choices):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(f"choices must be an onednn_graph.Choices or None, got {format_value(value)}")
    return Choices() if value is None else value


@frozen(kw_only=True)
class CompileOptions:
    """How to compile. `Graph.compile` takes all of them by name, `Partition.compile` all but `policy` and `backend`.

    Attributes:
        policy: `fusion`, or `debug` for one op a partition.
        backend: name of the only backend to use; None lets each part go where it runs best. `native` makes the
            partitions that the library's own partitioner makes.
        verify: check each chosen kernel on integer data against NumPy before handing it out.
        tune: see `Tune`.
        tune_seconds: time that measuring one op may take, about: the candidates of a weight gradient, or the
            implementations of a convolution or matrix product. With `tune="online"`, what the executions of one op may
            lose on slower candidates, or the time of ten executions where that is more.
        strategy: take this one of the backend's strategies, as `explain()` names it, and no other.
        scratch_limit: bytes of temporary memory that a kernel may take; by default twice what inputs and outputs
            take, and 32 MiB at least. If nothing stays below it, what takes least is chosen.
        threads: how many threads kernels use, also for work so small that one would do it; by default the engine's
            number, or what `get_num_threads` tells.
        choices: what `tune="online"` has settled and tries; compilations that are to choose alike share one.
        kept_shapes: for how many sets of input shapes, and of values that shapes depend on, what was compiled is kept,
            where they are known at execution; those that were used last stay. They share packed weights, and each has
            temporaries of its own.

    Attributes:
        shared: what backends have made of constants, for all compilations with these very options.

    Raises:
        ArgumentError, ArgumentTypeError: a value that is none.
    """

    policy: Policy = field(default=Policy.fusion, converter=_policy)
    backend: str | None = None
    verify: bool = field(default=False, converter=_verify)
    tune: Tune = field(default=Tune.off, converter=_tune)
    tune_seconds: float = 0.5
    strategy: str | None = None
    scratch_limit: int | None = field(default=None, converter=_scratch_limit)
    threads: int | None = field(default=None, converter=checked_threads)
    choices: Choices = field(factory=Choices, converter=_choices, eq=False, repr=False)
    kept_shapes: int = field(default=16, converter=_kept_shapes)
    shared: SharedConstants = field(init=False, factory=SharedConstants, eq=False, repr=False)

    def again(self) -> dict[str, Any]:
        """The options by name for another compilation, which is to share nothing with this one."""
        own = ("choices", "shared")
        return {name: getattr(self, name) for name in fields_dict(CompileOptions) if name not in own}

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


def compiled_again(kept: int) -> str:
    """What is said where shapes are compiled that had been compiled before."""
    return (
        f"shapes are compiled again that had been compiled before, for {kept} sets of them are kept; pad or group "
        f"inputs so that they have fewer shapes, or compile with kept_shapes={2 * kept}"
    )


class PartitionKeywords(TypedDict, total=False):
    """What `Partition.compile` takes by name; see `CompileOptions`."""

    verify: bool
    tune: Tune | str | None
    tune_seconds: float
    strategy: str | None
    scratch_limit: int | None
    threads: int | None
    choices: Choices | None
    kept_shapes: int


class CompileKeywords(PartitionKeywords, total=False):
    """What `Graph.compile` takes by name; see `CompileOptions`."""

    policy: Policy | str
    backend: str | None


def parse_options(given: Mapping[str, Any], keywords: type = CompileKeywords) -> CompileOptions:
    """The options that a call gives by name.

    Args:
        given: name → value.
        keywords: the names that the call takes.

    Raises:
        ArgumentTypeError: an unknown name, or a value of another type.
        ArgumentError: a value that is none.
    """
    known = keywords.__annotations__
    for name in given:
        if name not in known:
            raise ArgumentTypeError(
                f"compile has no option '{name}'{keyword_hint(name, [*known, 'engine'])}; it takes {', '.join(known)}"
            )
    return CompileOptions(**given)
