"""A line of progress on the terminal, or a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
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


Show = Callable[[int, str], None]
"""Takes how many steps are done, and a word on the last one."""


@contextmanager
def bar(what: str, total: int | None, *, shown: bool = True) -> Generator[Show]:
    """A bar while something goes on, which is gone afterwards: rich's, or a plain line where rich is not installed.

    Nothing is written where standard error is no terminal.

    Args:
        what: goes on.
        total: number of its steps; None where it is not known.
        shown: whether there is to be one.
    """
    if not shown or sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] -- as above
        yield lambda done, text: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        of = "" if total is None else f" of {total}"
        try:
            yield _seldom(lambda done, text: show_progress(f"{what}, step {done}{of}, {text}"))
        finally:
            show_progress(None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
    )
    # Drawn here and not by a thread of rich's, which would take its time from the threads that compute.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task(what, total=total, text="")

        def show(done: int, text: str) -> None:
            progress.update(task, completed=done, text=text, refresh=True)

        yield _seldom(show)


def _seldom(show: Show) -> Show:
    """The same, at most every so often."""
    due = 0.0

    def shown(done: int, text: str) -> None:
        nonlocal due
        if monotonic() >= due:
            show(done, text)
            due = monotonic() + INTERVAL

    return shown
