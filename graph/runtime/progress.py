"""A line of progress on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds of work before anything is said of it."""
INTERVAL = 0.2
"""Seconds between two lines."""


def show_progress(text: str | None) -> None:
    """Replaces the line by `text`, or clears it; nothing where standard error is no terminal."""
    if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] -- None under pythonw
        print(f"\r\x1b[K{text or ''}", end="", file=sys.stderr, flush=True)


def progressing(items: Sequence[T], what: str) -> Iterator[T]:
    """The items one after another; a line says how far it is where they take long.

    Args:
        what: is done with them, `compiling`, say.
    """
    due = monotonic() + PATIENCE
    shown = False
    try:
        for number, item in enumerate(items):
            if monotonic() >= due:
                show_progress(f"{what} {number} of {len(items)}")
                due, shown = monotonic() + INTERVAL, True
            yield item
    finally:
        if shown:
            show_progress(None)
