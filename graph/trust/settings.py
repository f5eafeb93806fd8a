"""What the environment says of verification."""

from __future__ import annotations

import os
from enum import StrEnum

from ...ops.errors import ArgumentError
from ...ops.values import format_value

VARIABLE = "ONEDNN_GRAPH_VERIFY"


class Verifying(StrEnum):
    """Where kernels that nobody has proven are verified: in a process of their own, in this one, or nowhere.

    Where there is no process of their own, `child` is as `inline`. With `off` they run unverified, except those that a
    verdict stands against; `compile(verify=True)` verifies nevertheless.
    """

    child = "child"
    inline = "inline"
    off = "off"


def verifying() -> Verifying:
    """What the environment variable `ONEDNN_GRAPH_VERIFY` says; `child` where it says nothing.

    Raises:
        ArgumentError: it says something else.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return Verifying.child
    try:
        return Verifying(text.lower())
    except ValueError:
        words = ", ".join(Verifying)
        raise ArgumentError(
            f"the environment variable {VARIABLE} must be one of {words}, got {format_value(text)}; "
            f"unset it for {Verifying.child}"
        ) from None
