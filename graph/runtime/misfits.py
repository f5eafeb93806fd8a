"""What would make an array of one shape fit another: the mistakes that people make with axes."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.schema import UNKNOWN_DIM


def fits(have: Sequence[int], want: Sequence[int] | None) -> bool:
    """Whether an array of a shape can be a tensor's, of whose sizes some may be open."""
    return want is None or (
        len(have) == len(want) and all(w in (UNKNOWN_DIM, h) for h, w in zip(have, want, strict=True))
    )


def way_to_fit(have: Sequence[int], want: Sequence[int] | None) -> str | None:
    """What to do to an array of one shape, such as `.transpose(0, 3, 1, 2)`, so that it has another; None if nothing is
    likely.

    Args:
        have: that does not fit.
        want: with -1 for sizes that are open.
    """
    if want is None:
        return None
    have = tuple(have)
    if fits((1, *have), want):
        return "one example alone wants an axis of examples, array[None]"
    if have[:1] == (1,) and fits(have[1:], want):
        return "leave out the first axis, array[0]"
    if have[-1:] == (1,) and fits(have[:-1], want):
        return "leave out the last axis, array[..., 0]"
    if fits((*have, 1), want):
        return "add a last axis, array[..., None]"
    if len(have) == len(want) > 1:
        behind = range(1, len(have))
        orders = [(0, len(have) - 1, *behind[:-1]), (0, *behind[1:], 1), tuple(reversed(range(len(have))))]
        for order in orders:
            if fits([have[axis] for axis in order], want):
                return f"if its axes lie in another order, .transpose{order} turns them"
    return None
