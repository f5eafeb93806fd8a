"""A line of progress on the terminal."""

from __future__ import annotations

import sys


def show_progress(text: str | None) -> None:
    """Replaces the line by `text`, or clears it; nothing where standard error is no terminal."""
    if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] -- None under pythonw
        print(f"\r\x1b[K{text or ''}", end="", file=sys.stderr, flush=True)
