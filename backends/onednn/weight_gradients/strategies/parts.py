"""Any way to compute dW some images at a time, so that what it copies stays in the caches."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import evolve

from .....graph.model.logical_tensor import row_major
from .....ops.data_types import DataType
from .....ops.records import frozen
from ...plan.steps import AnyStep, Buffer
from ...plan.work import NEAR
from ..draft import Draft
from ..problem import Problem, View
from .base import Copying

F32_BYTES = 4


@frozen(kw_only=True)
class ImageParts:
    """A strategy for each few images, each on copies in the same memory, and the sum of what they give.

    Copies of all images go to memory and come back, which takes longer than the multiplications where each element has
    few of them: in depthwise layers, and between few channels. Parts are in f32, so that their sum is rounded once.

    Attributes:
        of: the strategy.
        near: bytes of copies that stay in the caches.
    """

    of: Copying
    near: int = NEAR
    most_parts = 32
    most_sums = 2 * NEAR
    """Bytes of the parts' dW together."""

    @property
    def name(self) -> str:
        return f"{self.of.name} by parts of the images"

    def parts(self, problem: Problem) -> int:
        """The fewest equal parts whose copies stay in the caches, or of one image; 1 where none or too many would."""
        batch = problem.gradient.batch
        image = self.of.copied_bytes(problem) // batch
        wanted = min(batch, -(-batch * image // self.near))
        if wanted < 2:
            return 1
        return next((p for p in range(wanted, min(batch, self.most_parts) + 1) if batch % p == 0), 1)

    def part(self, problem: Problem, parts: int) -> Problem:
        """The problem of one of so many equal parts, the first, whose dW is dense and in f32."""
        images = problem.gradient.batch // parts
        src, dst = (evolve(view, shape=(images, *view.shape[1:])) for view in (problem.src, problem.dst))
        shape = problem.weights.shape
        # As the user's weights lie where these are dense, so that the sum of the parts is only converted.
        strides = problem.weights.strides if _is_dense(problem.weights) else row_major(shape)
        gradient = evolve(problem.gradient, batch=images)
        return evolve(
            problem, gradient=gradient, src=src, dst=dst, weights=View(shape, strides), free_weights=False
        )

    def applies(self, problem: Problem) -> str | None:
        if problem.data_type is DataType.f16:
            return "f16 is converted as a whole"
        if problem.bias is not None:
            return "the gradient of the bias needs all images"
        parts = self.parts(problem)
        if parts == 1:
            return "there are no parts that the caches would keep"
        if parts * problem.gradient.weights_size * F32_BYTES > self.most_sums:
            return "dW is too large to be made in parts"
        return self.of.applies(self.part(problem, parts))

    def write(self, draft: Draft) -> None:
        problem, parts = draft.problem, self.parts(draft.problem)
        part = self.part(problem, parts)
        dense = draft.layouts.temporary(part.weights.shape, DataType.f32, part.weights.strides)
        ahead = {
            whole.argument: (whole, part.gradient.batch * view.strides[0] * whole.desc.itemsize)
            for whole, view in ((draft.src(), part.src), (draft.dst(), part.dst))
        }
        with draft.part(part, dense):
            self.of.write(draft)
            first = draft.made or dense
        steps, made = tuple(draft.emitter.steps), [first]
        for number in range(1, parts):
            moved: dict[Buffer, Buffer] = {}
            for step in steps:
                draft.emitter.steps.append(_moved(step, number, ahead, moved))
            made.append(moved[first])
        total = Buffer(first.desc)
        # As they lie in memory, so that empty lanes, which are zero, don't matter.
        flat = [
            draft.look(one, (one.desc.nbytes // F32_BYTES,), (1,), 0, DataType.f32) for one in (*made, total)
        ]
        draft.total("parts", flat[:-1], flat[-1])
        draft.result(total)


def _is_dense(view: View) -> bool:
    """Whether a view has no gaps, whatever the order of its axes."""
    span = 1 + sum((d - 1) * s for d, s in zip(view.shape, view.strides, strict=True))
    return span == math.prod(view.shape)


def _moved(
    step: AnyStep,
    part: int,
    ahead: Mapping[int | None, tuple[Buffer, int]],
    moved: dict[Buffer, Buffer],
) -> AnyStep:
    """The same step for another part: arguments further on, and temporaries of its own.

    What is zero where nothing writes is shared: every part writes the same places of it.

    Args:
        ahead: for each argument the whole of it, and the bytes from one part to the next.
        moved: what stands for the first part's buffers, which is completed.
    """

    def instead(buffer: Buffer) -> Buffer:
        if buffer not in moved:
            root = buffer.root
            if root.argument is not None:
                whole, step_bytes = ahead[root.argument]
                further = buffer.place + part * step_bytes
                moved[buffer] = Buffer(buffer.desc, root.argument, base=whole, offset=further)
            elif root.zeroed or root.constant is not None:
                moved[buffer] = buffer
            else:
                base = None if buffer.base is None else instead(buffer.base)
                moved[buffer] = evolve(buffer, base=base)
        return moved[buffer]

    return evolve(step, arguments=tuple((argument, instead(buffer)) for argument, buffer in step.arguments))
