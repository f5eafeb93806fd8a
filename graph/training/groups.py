"""Which optimizer each parameter has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value
from ..model.logical_tensor import LogicalTensor, label
from ..model.patterns import fits, unfit
from .optimizers import Optimizer

Choice = Callable[[LogicalTensor], Optimizer | None]
"""From a parameter to the optimizer that moves it, or None where it stays as it is."""

Patterns = Mapping[str, Optimizer | None]
"""From patterns of names, as `fnmatch` has them, to optimizers or None; the first that fits a parameter counts."""


def chosen(
    optimizer: Optimizer | Choice | Patterns, parameters: Sequence[LogicalTensor]
) -> dict[str, Optimizer]:
    """The optimizer of each parameter that has one, by its name.

    Raises:
        ArgumentTypeError: something is no optimizer.
        ArgumentError: no parameter has one; norms from which they clip differ.
    """
    if _is_optimizer(optimizer):
        return dict.fromkeys(map(label, parameters), cast("Optimizer", optimizer))
    if isinstance(optimizer, Mapping):
        optimizer = _by_patterns(cast("Mapping[object, object]", optimizer), parameters)
    if isinstance(optimizer, type):
        raise ArgumentTypeError(
            f"optimizer must be one of og.training, as SGD(0.1); {optimizer.__name__} is a class: call it"
        )
    if not callable(optimizer):
        raise ArgumentTypeError(
            f"optimizer must be one of og.training, as SGD and AdamW, a mapping from patterns of names to some, or "
            f"a function from a parameter to one, got "
            f"{format_value(optimizer)} of type {type(optimizer).__name__}"
        )
    found: dict[str, Optimizer] = {}
    for parameter in parameters:
        one = optimizer(parameter)
        if one is None:
            continue
        if not _is_optimizer(one):
            raise ArgumentTypeError(
                f"the function of optimizers must return an optimizer or None, got {format_value(one)} of type "
                f"{type(one).__name__} for parameter {label(parameter)!r}"
            )
        found[label(parameter)] = one
    if not found:
        raise ArgumentError("the optimizer is None for every parameter; there is nothing to train")
    common_clip_norm(found)
    return found


def _by_patterns(patterns: Mapping[object, object], parameters: Sequence[LogicalTensor]) -> Choice:
    """A mapping from patterns as a function.

    Raises:
        ArgumentError, ArgumentTypeError: a pattern fits no parameter or has no optimizer, a parameter fits no pattern.
    """
    names = [label(t) for t in parameters]
    for pattern, one in patterns.items():
        if not isinstance(pattern, str):
            raise ArgumentTypeError(
                f"the mapping of optimizers must be from patterns of names, as '*.bias', got {format_value(pattern)}"
            )
        if one is not None and not _is_optimizer(one):
            raise ArgumentTypeError(
                f"the mapping of optimizers must be to optimizers or None, got {format_value(one)} of type "
                f"{type(one).__name__} for {pattern!r}"
            )
        if not any(fits(name, pattern) for name in names):
            raise unfit("the mapping of optimizers", pattern, "the name of no parameter", names)
    found: dict[str, Optimizer | None] = {}
    of = cast("Mapping[str, object]", patterns)
    fitted = {pattern: {name for name in names if fits(name, pattern)} for pattern in of}
    for name in names:
        fitting = [pattern for pattern in of if name in fitted[pattern]]
        if not fitting:
            raise ArgumentError(
                f"the mapping of optimizers says nothing of parameter {name!r}; give '*' an optimizer, or None, at its "
                "end"
            )
        found[name] = cast("Optimizer | None", patterns[fitting[0]])
    for place, pattern in enumerate(of):
        hiding = [one for one in [*of][:place] if fitted[pattern] <= fitted[one]]
        if hiding and pattern != "*":  # which may stand for what is left though nothing is
            raise ArgumentError(
                f"the mapping of optimizers has {pattern!r} behind {hiding[0]!r}, which fits {min(fitted[pattern])!r} "
                f"first, and nothing is left for it; put {pattern!r} before it, or leave it out"
            )
    return lambda parameter: found[label(parameter)]


def common_clip_norm(optimizers: Mapping[str, Optimizer]) -> float | None:
    """The norm from which all gradients together are scaled down.

    Raises:
        ArgumentError: they differ.
    """
    norms = {name: one.clip_norm for name, one in optimizers.items()}
    first = next(iter(norms))
    other = next((name for name, norm in norms.items() if norm != norms[first]), None)
    if other is not None:
        raise ArgumentError(
            f"clip_norm is for all gradients together, and must be the same in all optimizers, got {norms[first]} for "
            f"parameter {first!r} and {norms[other]} for {other!r}"
        )
    return norms[first]


def _is_optimizer(value: object) -> bool:
    return not isinstance(value, type) and all(
        hasattr(value, name) for name in ("rate", "clip_norm", "states", "add")
    )
