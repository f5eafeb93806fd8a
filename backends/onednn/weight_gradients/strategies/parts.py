"""A convolution some images at a time, so that the copies in the primitive's own layout stay in the caches."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import evolve, frozen

from .....ops.data_types import DataType
from ...plan.steps import AnyStep, Buffer
from ...plan.work import NEAR
from ..draft import Draft
from ..problem import Problem
from .base import compute_type, is_direct, suffix, type_reason

F32_BYTES = 4


@frozen(kw_only=True)
class ImageParts:
    """One convolution for each few images, each on copies in the same memory, and the sum of what they give.

    Copies of all images go to memory and come back, which takes longer than the multiplications where each element has
    few of them: in depthwise layers, and between few channels. Parts are in f32, so that their sum is rounded once.

    Attributes:
        near: bytes of copies that stay in the caches.
    """

    via: DataType | None = None
    near: int = NEAR
    most_parts = 32
    most_weights = NEAR // 32
    """Bytes of dW that each part may add."""

    @property
    def name(self) -> str:
        return f"direct by parts of the images{suffix(self.via)}"

    def parts(self, problem: Problem) -> int:
        """The fewest equal parts whose copies stay in the caches, or of one image; 1 where there are too many."""
        batch = problem.gradient.batch
        image = sum(math.prod(view.shape[1:]) for view in (problem.src, problem.dst)) * F32_BYTES
        wanted = min(batch, -(-batch * image // self.near))
        return next((p for p in range(wanted, min(batch, self.most_parts) + 1) if batch % p == 0), 1)

    def applies(self, problem: Problem) -> str | None:
        if problem.channels_last:
            return "the channels are last, so that nothing is copied"
        if DataType.f32 not in (problem.data_type, compute_type(problem, self.via)):
            return "the gradients of parts would be rounded"
        if problem.data_type is DataType.f16:
            return "f16 is converted as a whole"
        if problem.bias is not None:
            return "the gradient of the bias needs all images"
        if problem.gradient.weights_size * F32_BYTES > self.most_weights:
            return "dW is too large to be made in parts"
        if self.parts(problem) == 1:
            return "there are no parts that the caches would keep"
        return type_reason(problem, self.via)

    def write(self, draft: Draft) -> None:
        problem, parts = draft.problem, self.parts(draft.problem)
        compute = compute_type(problem, self.via)
        images = problem.gradient.batch // parts
        some = [evolve(view, shape=(images, *view.shape[1:])) for view in (problem.src, problem.dst)]
        src, dst = (
            draft.look(buffer, view.shape, view.strides, 0, problem.data_type)
            for buffer, view in zip((draft.src(), draft.dst()), some, strict=True)
        )
        layouts = (draft.layouts.any(src.desc.shape, compute), draft.layouts.any(dst.desc.shape, compute))
        made = [draft.convolve(evolve(problem.gradient, batch=images), src, dst, layouts, compute, is_direct)]
        first = tuple(draft.emitter.steps)
        ahead = {
            buffer.root.argument: images * view.strides[0] * buffer.desc.itemsize
            for buffer, view in ((src, problem.src), (dst, problem.dst))
        }
        for part in range(1, parts):
            moved: dict[Buffer, Buffer] = {}
            for step in first:
                draft.emitter.steps.append(_moved(step, part, ahead, moved))
            made.append(moved[made[0]])
        total = Buffer(made[0].desc)
        # As they lie in memory, so that empty lanes, which are zero, don't matter.
        flat = [
            draft.look(one, (one.desc.nbytes // F32_BYTES,), (1,), 0, DataType.f32) for one in (*made, total)
        ]
        draft.total("parts", flat[:-1], flat[-1])
        draft.result(total)


def _moved(step: AnyStep, part: int, ahead: Mapping[int | None, int], moved: dict[Buffer, Buffer]) -> AnyStep:
    """The same step for another part: arguments further on, and temporaries of its own.

    Args:
        ahead: for each argument the bytes from one part to the next.
        moved: what stands for the first part's buffers, which is completed.
    """

    def instead(buffer: Buffer) -> Buffer:
        if buffer not in moved:
            number = buffer.root.argument
            if number is not None:
                further = buffer.place + part * ahead[number]
                moved[buffer] = Buffer(buffer.desc, number, base=buffer.root, offset=further)
            else:
                base = None if buffer.base is None else instead(buffer.base)
                moved[buffer] = evolve(buffer, base=base)
        return moved[buffer]

    return evolve(step, arguments=tuple((argument, instead(buffer)) for argument, buffer in step.arguments))
