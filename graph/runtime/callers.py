"""Who has called this package."""

from __future__ import annotations

import inspect

_OURS = {__name__.partition(".")[0], "contextlib"}
"""The package, and what ends the blocks of its context managers."""


def outside() -> int:
    """The stack level of the first caller outside of this package, whose line a warning should point at."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    return level
