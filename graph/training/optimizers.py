"""Optimizers: what adds the ops of a step to a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import field

from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from .hyperparameters import bound, decay, epsilon, momentum, shares
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
        """Names of what it keeps for each parameter; tensors of the parameter's shape, zero at first.

        Each has another one. `parameter`, `accumulated` and, beside averages, `ema` are what files call others.
        """
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


def given(clip_value: float | None, weight_decay: float) -> str:
    """The assignment of `g`, what a formula of HostUpdate makes of the gradient before all else."""
    gradient = "scale * gradient" if clip_value is None else f"clip(scale * gradient, {clip_value})"
    return f"g = {gradient}" + (f" + {weight_decay} * parameter" if weight_decay else "")


def add_update(
    graph: Graph,
    formula: str,
    parameter: LogicalTensor,
    gradient: LogicalTensor,
    states: Sequence[LogicalTensor],
    numbers: Numbers,
    *,
    trust_ratio: bool = False,
) -> tuple[LogicalTensor, ...]:
    """Adds a step that is said as a formula, HostUpdate: one pass over memory for any optimizer that is elementwise."""
    made: LogicalTensor | tuple[LogicalTensor, ...] = graph.op(
        "HostUpdate",
        parameter,
        gradient,
        numbers.rate,
        numbers.scale,
        numbers.step,
        *states,
        outputs=1 + len(states),
        formula=formula,
        trust_ratio=trust_ratio,
    )
    return (made,) if isinstance(made, LogicalTensor) else tuple(made)


@frozen
class SGD:
    """Stochastic gradient descent, as torch.optim.SGD does it.

    Attributes:
        lr: learning rate, or a schedule.
        momentum: share of the velocity that stays at each step.
        nesterov: whether a step looks one step ahead.
        weight_decay: share of the parameters that is added to their gradients.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    lr: Schedule = field(converter=schedule)
    momentum: float = field(default=0.0, converter=momentum, kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)
    weight_decay: float = field(default=0.0, converter=decay, kw_only=True)
    clip_norm: float | None = field(default=None, validator=bound, kw_only=True)
    clip_value: float | None = field(default=None, validator=bound, kw_only=True)

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
            clip_value=self.clip_value or 0.0,
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
        amsgrad: whether steps are divided by the root of the largest mean square so far.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    lr: Schedule = field(default=Constant(1e-3), converter=schedule)
    betas: tuple[float, float] = field(default=(0.9, 0.999), converter=shares, kw_only=True)
    eps: float = field(default=1e-8, converter=epsilon, kw_only=True)
    weight_decay: float = field(default=0.0, converter=decay, kw_only=True)
    amsgrad: bool = field(default=False, kw_only=True)
    clip_norm: float | None = field(default=None, validator=bound, kw_only=True)
    clip_value: float | None = field(default=None, validator=bound, kw_only=True)

    @property
    def decoupled(self) -> bool:
        """Whether the decay of the weights bypasses the means."""
        return False

    @property
    def states(self) -> tuple[str, ...]:
        """The means of the gradients and of their squares, and the largest of the latter with `amsgrad`."""
        return ("mean", "square", "highest") if self.amsgrad else ("mean", "square")

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
        if self.amsgrad:
            return add_update(graph, self._largest, parameter, gradient, states, numbers)
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
            clip_value=self.clip_value or 0.0,
            decoupled=self.decoupled,
        )
        return (made,) if isinstance(made, LogicalTensor) else made

    @property
    def _largest(self) -> str:
        """The formula with `amsgrad`."""
        mean, square = self.betas
        return "; ".join(
            (
                given(self.clip_value, 0.0 if self.decoupled else self.weight_decay),
                f"first = {mean} * first + {1 - mean} * g",
                f"second = {square} * second + {1 - square} * g ** 2",
                "third = maximum(third, second)",
                f"root = sqrt(third) * (1 / sqrt(1 - {square} ** step)) + {self.eps}",
                f"update = (1 / (1 - {mean} ** step)) * first / root"
                + (f" + {self.weight_decay} * parameter" if self.decoupled and self.weight_decay else ""),
            )
        )


@frozen
class AdamW(Adam):
    """Adam whose decay of the weights bypasses the means, as torch.optim.AdamW does it.

    Attributes:
        lr: learning rate, or a schedule.
        betas: shares of the mean and of the mean square that stay at each step.
        eps: added to the root of the mean square.
        weight_decay: share of the parameters, times the learning rate, that is taken off at each step.
        amsgrad: whether steps are divided by the root of the largest mean square so far.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    weight_decay: float = field(default=1e-2, converter=decay, kw_only=True)

    @property
    def decoupled(self) -> bool:
        """See `Adam.decoupled`."""
        return True
