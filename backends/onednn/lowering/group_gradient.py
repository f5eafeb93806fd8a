"""The gradient of a group normalisation from sums: what moves each channel of each image, in f64, and the images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ..library.descriptors import Binary
from ..library.enumerators import Algorithm, Arg
from ..plan.steps import Buffer
from .group_sums import ImageSums
from .lowering import Lowering
from .post_ops import OperandView, PostOps

SMALLEST = 2.0**-40
"""Of a factor that is divided by, beside the largest of its group: what it adds is far below f32's digits."""


@frozen
class GradientOfGroups:
    """The step on the host between the sums and the images.

    With x̂ = (src − mean) · r and g = gamma · diff_dst, the data's gradient is r · (g − mean(g) − x̂ · mean(g · x̂)). One
    primitive makes it as ((src − mean) · ratio + summand + diff_dst) · factor, for which all is divided by the factor
    gamma · r. Where that is nothing beside others of the group, a small one stands for it.

    Attributes:
        by_group: (N, groups, channels of each).
        positions: of an image.
        epsilon: added to the variance.
        sums: where the sums are.
    """

    by_group: tuple[int, int, int]
    positions: int
    epsilon: float
    sums: ImageSums

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """From images (N, C, X), sums of parts, mean, variance and gamma to mean, ratio, summand and factor, (N, C),
        and the gradients by gamma and beta.
        """
        src, diff, totals, products, mean, variance = inputs[:6]
        with np.errstate(all="ignore"):
            middle = mean.astype(np.float64).reshape(*self.by_group[:2], 1)
            inverse = 1 / np.sqrt(variance.astype(np.float64).reshape(middle.shape) + self.epsilon)
            total, product = (
                one.reshape(self.by_group) for one in self.sums.together(totals, products, src, diff)
            )
            along = (product - middle * total) * inverse  # Σ diff_dst · x̂
            self._made_again(along, src, diff, middle, inverse)
            gamma = (
                inputs[6].astype(np.float64).reshape(self.by_group[1:]) if len(inputs) > 6 else np.float64(1)
            )
            count = self.by_group[2] * self.positions
            average, slope = ((gamma * one).sum(2, keepdims=True) / count for one in (total, along))
            factor = np.broadcast_to(gamma * inverse, self.by_group)
            least = SMALLEST * np.abs(factor).max(2, keepdims=True)
            divisor = np.where(np.abs(factor) < least, np.copysign(least, factor), factor)
            ratio, summand = (
                np.where(divisor == 0, 0.0, -one / divisor)
                for one in (inverse * inverse * slope, inverse * average)
            )
            for target, values in zip(outputs[:4], (middle, ratio, summand, divisor), strict=True):
                target.reshape(self.by_group)[...] = values
            for target, values in zip(outputs[4:], (along, total), strict=True):
                target[...] = values.sum(0).ravel()

    def _made_again(self, along: Array, src: Array, diff: Array, mean: Array, inverse: Array) -> None:
        """Replaces sums of what lies far from zero, whose products have lost digits."""
        lost = np.square(mean * inverse) > self.sums.far
        data, gradient = (one.reshape(*self.by_group, self.positions) for one in (src, diff))
        for image, group, _ in np.argwhere(lost).tolist():
            place = (image, group)
            away = data[place].astype(np.float64) - mean[place]
            along[place] = (away * gradient[place].astype(np.float64)).sum(1) * inverse[place]


def data_gradient(
    low: Lowering, op: Op, role: str, src: Buffer, diff: Buffer, made: Buffer, vectors: Sequence[Buffer]
) -> None:
    """Adds the step that makes ((src − mean) · ratio + summand + diff) · factor, of one image (1, C, X).

    Args:
        vectors: mean, ratio, summand and factor of each channel.
    """
    shape = (1, src.desc.shape[1], 1)
    mean, ratio, summand, factor = (low.layouts.view(each, shape) for each in vectors)
    post_ops = PostOps(low, OperandView(op.outputs[0]))
    post_ops.add_binary(Algorithm.binary_mul, ratio)
    post_ops.add_binary(Algorithm.binary_add, summand)
    post_ops.add_binary(Algorithm.binary_add, diff)
    post_ops.add_binary(Algorithm.binary_mul, factor)
    desc = low.chooser.describe(
        Binary(
            algorithm=Algorithm.binary_sub,
            src_0=src.desc,
            src_1=mean.desc,
            dst=made.desc,
            attributes=post_ops.attributes(),
        )
    )
    arguments = [(Arg.SRC, src), (Arg.SRC_1, mean), *post_ops.arguments, (Arg.DST, made)]
    low.emitter.run(role, desc, arguments)
