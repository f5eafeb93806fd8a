"""Further optimizers, each a formula of HostUpdate, which is one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field

from ...ops.records import frozen
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from .hyperparameters import bound, decay, epsilon, momentum, not_negative, share, shares
from .optimizers import Numbers, add_update, given
from .schedules import Constant, Schedule, schedule


class _ByFormula:
    """What optimizers have in common whose step is a formula."""

    lr: Schedule
    trust_ratio = False

    @property
    def formula(self) -> str:
        """That of HostUpdate, with the states as `first`, `second` and `third`."""
        raise NotImplementedError

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
        return add_update(
            graph, self.formula, parameter, gradient, states, numbers, trust_ratio=self.trust_ratio
        )


@frozen
class RMSprop(_ByFormula):
    """RMSprop, as torch.optim.RMSprop does it.

    Attributes:
        lr: learning rate, or a schedule.
        alpha: share of the mean square that stays at each step.
        eps: added to the root of the mean square.
        weight_decay: share of the parameters that is added to their gradients.
        momentum: share of the velocity that stays at each step.
        centered: whether the square of the mean is taken off the mean square, which makes it the variance.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    lr: Schedule = field(default=Constant(1e-2), converter=schedule)
    alpha: float = field(default=0.99, converter=lambda value: share(value, "alpha"), kw_only=True)
    eps: float = field(default=1e-8, converter=epsilon, kw_only=True)
    weight_decay: float = field(default=0.0, converter=decay, kw_only=True)
    momentum: float = field(default=0.0, converter=momentum, kw_only=True)
    centered: bool = field(default=False, kw_only=True)
    clip_norm: float | None = field(default=None, validator=bound, kw_only=True)
    clip_value: float | None = field(default=None, validator=bound, kw_only=True)

    @property
    def states(self) -> tuple[str, ...]:
        """`square`; `mean` where it is centered, and `velocity` where there is momentum."""
        return ("square", *(("mean",) if self.centered else ()), *(("velocity",) if self.momentum else ()))

    @property
    def formula(self) -> str:
        """See `HostUpdate`."""
        lines = [
            given(self.clip_value, self.weight_decay),
            f"first = {self.alpha} * first + {1 - self.alpha} * g ** 2",
        ]
        variance, velocity = "first", "second"
        if self.centered:
            lines.append(f"second = {self.alpha} * second + {1 - self.alpha} * g")
            variance, velocity = (
                "maximum(first - second ** 2, 0)",
                "third",
            )  # it is not below 0 but by rounding
        step = f"g / (sqrt({variance}) + {self.eps})"
        if self.momentum:
            lines.append(f"{velocity} = {self.momentum} * {velocity} + {step}")
            step = velocity
        return "; ".join((*lines, f"update = {step}"))


@frozen
class Adagrad(_ByFormula):
    """Adagrad, as torch.optim.Adagrad does it.

    Attributes:
        lr: learning rate, or a schedule.
        lr_decay: the rate of the step after so many is divided by 1 and that many times this.
        weight_decay: share of the parameters that is added to their gradients.
        initial_accumulator_value: what the sum of the squares begins with.
        eps: added to the root of the sum.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    lr: Schedule = field(default=Constant(1e-2), converter=schedule)
    lr_decay: float = field(
        default=0.0, converter=lambda value: not_negative(value, "lr_decay"), kw_only=True
    )
    weight_decay: float = field(default=0.0, converter=decay, kw_only=True)
    initial_accumulator_value: float = field(
        default=0.0, converter=lambda value: not_negative(value, "initial_accumulator_value"), kw_only=True
    )
    eps: float = field(default=1e-10, converter=epsilon, kw_only=True)
    clip_norm: float | None = field(default=None, validator=bound, kw_only=True)
    clip_value: float | None = field(default=None, validator=bound, kw_only=True)

    @property
    def states(self) -> tuple[str, ...]:
        """`sum`, of the squares; what it begins with is added where it is read."""
        return ("sum",)

    @property
    def formula(self) -> str:
        """See `HostUpdate`."""
        first = self.initial_accumulator_value
        total = f"first + {first}" if first else "first"
        step = f"g / (sqrt({total}) + {self.eps})"
        return "; ".join(
            (
                given(self.clip_value, self.weight_decay),
                "first = first + g ** 2",
                f"update = {step} * (1 / (1 + (step - 1) * {self.lr_decay}))"
                if self.lr_decay
                else f"update = {step}",
            )
        )


@frozen
class Lion(_ByFormula):
    """Lion: steps of one length for all parameters, of the sign that a mean of the gradients has.

    Source: Chen et al., Symbolic Discovery of Optimization Algorithms (2023), algorithm 2. Rates are three to ten times
    smaller than those of AdamW, and decays as much larger.

    Attributes:
        lr: learning rate, or a schedule.
        betas: shares of the mean that stay where the sign is taken, and from step to step.
        weight_decay: share of the parameters, times the learning rate, that is taken off at each step.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    lr: Schedule = field(default=Constant(1e-4), converter=schedule)
    betas: tuple[float, float] = field(default=(0.9, 0.99), converter=shares, kw_only=True)
    weight_decay: float = field(default=0.0, converter=decay, kw_only=True)
    clip_norm: float | None = field(default=None, validator=bound, kw_only=True)
    clip_value: float | None = field(default=None, validator=bound, kw_only=True)

    @property
    def states(self) -> tuple[str, ...]:
        """The mean of the gradients."""
        return ("mean",)

    @property
    def formula(self) -> str:
        """See `HostUpdate`."""
        here, stays = self.betas
        lines = (
            given(self.clip_value, 0.0),
            f"update = sign({here} * first + {1 - here} * g)"
            + (f" + {self.weight_decay} * parameter" if self.weight_decay else ""),
            f"first = {stays} * first + {1 - stays} * g",
        )
        return "; ".join(lines)


@frozen
class LAMB(_ByFormula):
    """LAMB: Adam whose steps are as long as the parameter that they move, times the rate, for large batches.

    Source: You et al., Large Batch Optimization for Deep Learning (2020), algorithm 2, with the identity for φ. The
    length of a step is the norm of its parameter; where that is 0, as of a bias at first, or the step's own norm is,
    the step is taken as it is.

    Attributes:
        lr: learning rate, or a schedule.
        betas: shares of the mean and of the mean square that stay at each step.
        eps: added to the root of the mean square.
        weight_decay: share of the parameters that is added to the step before its length is taken.
        bias_correction: whether means are divided by what their shares add up to, as in the paper.
        clip_norm: norm of all gradients together from which they are scaled down; None for no clipping.
        clip_value: largest absolute value of a gradient, to which it is clipped behind that; None for no clipping.
    """

    lr: Schedule = field(default=Constant(1e-3), converter=schedule)
    betas: tuple[float, float] = field(default=(0.9, 0.999), converter=shares, kw_only=True)
    eps: float = field(default=1e-6, converter=epsilon, kw_only=True)
    weight_decay: float = field(default=0.0, converter=decay, kw_only=True)
    bias_correction: bool = field(default=True, kw_only=True)
    clip_norm: float | None = field(default=None, validator=bound, kw_only=True)
    clip_value: float | None = field(default=None, validator=bound, kw_only=True)
    trust_ratio = True

    @property
    def states(self) -> tuple[str, ...]:
        """The means of the gradients and of their squares."""
        return ("mean", "square")

    @property
    def formula(self) -> str:
        """See `HostUpdate`."""
        mean, square = self.betas
        mean_now, root = "first", "sqrt(second)"
        if self.bias_correction:
            mean_now, root = (
                f"(1 / (1 - {mean} ** step)) * first",
                f"sqrt(second) * (1 / sqrt(1 - {square} ** step))",
            )
        return "; ".join(
            (
                given(self.clip_value, 0.0),
                f"first = {mean} * first + {1 - mean} * g",
                f"second = {square} * second + {1 - square} * g ** 2",
                f"update = {mean_now} / ({root} + {self.eps})"
                + (f" + {self.weight_decay} * parameter" if self.weight_decay else ""),
            )
        )
