"""A way to try an op: what is given to a primitive, and how."""

from __future__ import annotations

from enum import Enum

from ....ops.records import frozen
from ..plan.measured_forms import Form


class Lies(Enum):
    """How an op's tensors are given to a primitive.

    `given`: the inputs as they lie, the result as the user wants it. All others leave the result to the library and
    copy it: `result` that alone, `dense` brings the inputs to row-major order, `last` and `first` images to channels
    last and first.
    """

    given = 0
    result = 1
    dense = 2
    last = 3
    first = 4


@frozen(kw_only=True)
class Way:
    """A way to try an op.

    Attributes:
        integers: a Dequantize is looked through.
        decompresses: a product takes weights that are integers in groups as they are, in this form.
        through_f32: halves are computed in f32.
        channels_last: images are brought to that layout.
        references: the library's reference loops may run.
        lies: which layouts are tried.
    """

    integers: bool = False
    decompresses: Form | None = None
    through_f32: bool = False
    channels_last: bool = False
    references: bool = False
    lies: Lies = Lies.given
