"""Other shapes and parts of a tensor as views of its memory: strides in the place of copies."""

from __future__ import annotations

from collections.abc import Sequence


def reshaped_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides under which the same memory has another shape; None where its elements would have to move.

    Args:
        shape, strides: of the tensor, which has elements; strides in elements.
        wanted: sizes with the same product.
    """
    old = [(d, s) for d, s in zip(shape, strides, strict=True) if d != 1]
    made: list[int] = []
    place = 0
    left, step = 1, 1
    sizes = list(wanted)
    number = 0
    while number < len(sizes):
        if sizes[number] == 1:
            made.append(0)
            number += 1
            continue
        if left == 1:
            if place == len(old):
                return None
            left, step = old[place]
            place += 1
        size = sizes[number]
        # Axes that follow each other in memory are taken together until the wanted one fits.
        while left % size and place < len(old) and step == old[place][0] * old[place][1]:
            left, step = left * old[place][0], old[place][1]
            place += 1
        if left < size or left % size:
            return None
        left //= size
        made.append(step * left)
        number += 1
        if left > 1 and all(d == 1 for d in sizes[number:]):
            return None
    return _with_ones(sizes, made)


def _with_ones(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, with those of axes of one element as if they were dense."""
    made = list(strides)
    step = 1
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            made[axis] = step
        step = max(step, made[axis] * sizes[axis])
    return tuple(made)


def order_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The axes from outermost to innermost."""
    return tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] == 1, axis)))


def in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor without gaps whose axes lie in this order."""
    made, step = [1] * len(shape), 1
    for axis in reversed(order):
        made[axis] = step
        step *= max(shape[axis], 1)
    return tuple(made)


def order_for(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """An order of the axes in which a tensor without gaps can be seen in another shape, near to how it lies.

    Axes that become one are brought together, where the innermost of them lies; so what lies channels-last stays so
    when its channels are shuffled.

    Args:
        shape, strides: of the tensor.
        wanted: sizes with the same product.
    """
    groups = _merged_axes(shape, wanted)
    innermost = {axis: min(strides[a] for a in group) for group in groups for axis in group}
    place = {axis: number for number, group in enumerate(groups) for axis in group}
    return tuple(sorted(range(len(shape)), key=lambda axis: (-innermost[axis], place[axis], axis)))


def _merged_axes(shape: Sequence[int], wanted: Sequence[int]) -> list[list[int]]:
    """The axes in groups, as few together as there are sizes of the other shape with the same product."""
    groups: list[list[int]] = []
    sizes = iter(wanted)
    mine, theirs = 1, 1
    group: list[int] = []
    for axis, size in enumerate(shape):
        group.append(axis)
        mine *= size
        while theirs < mine:
            theirs *= next(sizes)
        if mine == theirs:
            groups.append(group)
            group, mine, theirs = [], 1, 1
    return [*groups, group] if group else groups
