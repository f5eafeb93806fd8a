"""Which optimizer each parameter has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value
from ..model.logical_tensor import LogicalTensor, label
from .optimizers import Optimizer

Choice = Callable[[LogicalTensor], Optimizer | None]
"""From a parameter to the optimizer that moves it, or None where it stays as it is."""


def chosen(optimizer: Optimizer | Choice, parameters: Sequence[LogicalTensor]) -> dict[str, Optimizer]:
    """The optimizer of each parameter that has one, by its name.

    Raises:
        ArgumentTypeError: something is no optimizer.
        ArgumentError: no parameter has one; norms from which they clip differ.
    """
    if _is_optimizer(optimizer):
        return dict.fromkeys(map(label, parameters), cast("Optimizer", optimizer))
    if isinstance(optimizer, type):
        raise ArgumentTypeError(
            f"optimizer must be one of og.training, as SGD(0.1); {optimizer.__name__} is a class: call it"
        )
    if not callable(optimizer):
        raise ArgumentTypeError(
            f"optimizer must be one of og.training, as SGD and AdamW, or a function from a parameter to one, got "
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
        raise ArgumentError(
            "the function of optimizers returned None for every parameter; there is nothing to train"
        )
    common_clip_norm(found)
    return found


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
