"""Optimizers: what adds the ops of a step to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from attrs import field

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from .schedules import Constant, Schedule, schedule


@frozen
class Numbers:
    """What changes from step to step, one number each.

    Attributes:
        rate: the learning rate, f64.
        scale: factor of the gradients, f64; 0 leaves everything as it is.
        step: number of the step, from 1 on, s64.
    """

    rate: LogicalTensor
    scale: LogicalTensor
    step: LogicalTensor


class Optimizer(Protocol):
    """What makes the next value of a parameter, and of its own state, from the gradient."""

    def rate(self, step: int) -> float:
        """The learning rate once so many steps are done."""
        ...

    @property
    def clip_norm(self) -> float | None:
        """The norm of all gradients together from which they are scaled down."""
        ...

    @property
    def states(self) -> tuple[str, ...]:
        """Names of what it keeps for each parameter; tensors of the parameter's shape, zero at first."""
        ...

    def add(
        self,
        graph: Graph,
        parameter: LogicalTensor,
        gradient: LogicalTensor,
        states: Sequence[LogicalTensor],
        numbers: Numbers,
    ) -> Sequence[LogicalTensor]:
        """Adds the ops of a step, and returns the next values of the parameter and the states."""
        ...


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


def _share(value: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what} must be a number, got {format_value(value)}")
    if not 0 <= value < 1:
        raise ArgumentError(f"{what} must be at least 0 and below 1, got {format_value(value)}")
    return float(value)


def _not_negative(value: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what} must be a number, got {format_value(value)}")
    if not 0 <= value < float("inf"):
        raise ArgumentError(f"{what} must be a finite number of 0 or more, got {format_value(value)}")
    return float(value)


def _decay(value: float) -> float:
    return _not_negative(value, "weight_decay")


def _norm(instance: object, attribute: object, value: float | None) -> None:
    if value is not None and _not_negative(value, "clip_norm") == 0:
        raise ArgumentError("clip_norm must be above 0, or None for no clipping, got 0")


def _betas(values: Sequence[float]) -> tuple[float, float]:
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise ArgumentTypeError(f"betas must be two numbers, got {format_value(values)}")
    return _share(values[0], "betas[0]"), _share(values[1], "betas[1]")


@frozen
class SGD:
    """Stochastic gradient descent, as torch.optim.SGD does it.

    Attributes:
        lr: learning rate, or a schedule.
        momentum: share of the velocity that stays at each step.
        nesterov: whether a step looks one step ahead.
        weight_decay: share of the parameters that is added to their gradients.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
    """

    lr: Schedule = field(converter=schedule)
    momentum: float = field(default=0.0, converter=lambda value: _share(value, "momentum"), kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)
    weight_decay: float = field(default=0.0, converter=_decay, kw_only=True)
    clip_norm: float | None = field(default=None, validator=_norm, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise ArgumentError("nesterov needs a momentum above 0, got 0; give it, or leave nesterov out")

    @property
    def states(self) -> tuple[str, ...]:
        """`velocity`, where there is momentum."""
        return ("velocity",) if self.momentum else ()

    def rate(self, step: int) -> float:
        """See `Optimizer.rate`."""
        return self.lr(step)

    def add(
        self,
        graph: Graph,
        parameter: LogicalTensor,
        gradient: LogicalTensor,
        states: Sequence[LogicalTensor],
        numbers: Numbers,
    ) -> tuple[LogicalTensor, ...]:
        """See `Optimizer.add`."""
        made: LogicalTensor | tuple[LogicalTensor, ...] = graph.op(
            "HostSGD",
            parameter,
            gradient,
            numbers.rate,
            numbers.scale,
            *states,
            outputs=1 + len(states),
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
        )
        return (made,) if isinstance(made, LogicalTensor) else tuple(made)


@frozen
class Adam:
    """Adam, as torch.optim.Adam does it, with bias correction.

    Attributes:
        lr: learning rate, or a schedule.
        betas: shares of the mean and of the mean square that stay at each step.
        eps: added to the root of the mean square.
        weight_decay: share of the parameters that is added to their gradients.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
    """

    lr: Schedule = field(default=Constant(1e-3), converter=schedule)
    betas: tuple[float, float] = field(default=(0.9, 0.999), converter=_betas, kw_only=True)
    eps: float = field(default=1e-8, converter=lambda value: _not_negative(value, "eps"), kw_only=True)
    weight_decay: float = field(default=0.0, converter=_decay, kw_only=True)
    clip_norm: float | None = field(default=None, validator=_norm, kw_only=True)

    @property
    def decoupled(self) -> bool:
        """Whether the decay of the weights bypasses the means."""
        return False

    @property
    def states(self) -> tuple[str, ...]:
        """The means of the gradients and of their squares."""
        return ("mean", "square")

    def rate(self, step: int) -> float:
        """See `Optimizer.rate`."""
        return self.lr(step)

    def add(
        self,
        graph: Graph,
        parameter: LogicalTensor,
        gradient: LogicalTensor,
        states: Sequence[LogicalTensor],
        numbers: Numbers,
    ) -> tuple[LogicalTensor, ...]:
        """See `Optimizer.add`."""
        made: LogicalTensor | tuple[LogicalTensor, ...] = graph.op(
            "HostAdam",
            parameter,
            gradient,
            numbers.rate,
            numbers.scale,
            numbers.step,
            *states,
            beta1=self.betas[0],
            beta2=self.betas[1],
            epsilon=self.eps,
            weight_decay=self.weight_decay,
            decoupled=self.decoupled,
        )
        return (made,) if isinstance(made, LogicalTensor) else made


@frozen
class AdamW(Adam):
    """Adam whose decay of the weights bypasses the means, as torch.optim.AdamW does it.

    Attributes:
        lr: learning rate, or a schedule.
        betas: shares of the mean and of the mean square that stay at each step.
        eps: added to the root of the mean square.
        weight_decay: share of the parameters, times the learning rate, that is taken off at each step.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
    """

    weight_decay: float = field(default=1e-2, converter=_decay, kw_only=True)

    @property
    def decoupled(self) -> bool:
        """See `Adam.decoupled`."""
        return True
