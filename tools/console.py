"""What all commands share: writing tables or JSON, progress, and exit codes."""

from __future__ import annotations

import functools
import json
import math
import shutil
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..graph.runtime.progress import PATIENCE, show_progress
from .ending import Ended, Exit, say, told
from .grids import cut, plain, records, widths_of

P = ParamSpec("P")
R = TypeVar("R")

LONG = 500
"""Rows from which on a table is printed without frames, which takes a tenth of the time."""
WIDE = 10_000
"""Columns where nobody reads but scripts: lines are not broken."""
PIPED = 120
"""Columns of what is read elsewhere than on a terminal."""
SHOWN = 40
"""Rows of a table that is shown in part."""
CELL_LINES, CELL_LETTERS = 8, 160
"""Of a cell of such a table."""


class _Output(Console):
    """Standard output; whoever closed it is told of as by any other file."""

    def on_broken_pipe(self) -> NoReturn:
        raise  # rich calls it where it has caught the error # pyright: ignore[reportGeneralTypeIssues]


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison] -- None under pythonw


_size = shutil.get_terminal_size((PIPED, 25))
console = _Output(width=_size.columns, height=_size.lines)  # rich takes 80 columns for all simple terminals
"""Standard output."""


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Turns what goes wrong into a line on standard error and an exit code."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with told():
                return function(*args, **kwargs)
        except Ended as ended:
            ended.settle()
            raise typer.Exit(ended.code) from ended

    return run


def failure(problem: object, code: Exit) -> typer.Exit:
    """Says what is wrong; raise what it returns."""
    say(problem)
    return typer.Exit(code)


@contextmanager
def working(what: str) -> Generator[None]:
    """Says on a terminal what is being done and for how long, where it takes more than a second.

    Once a second only: a thread that draws often would take its time from what is measured.
    """
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] -- None under pythonw
        yield
        return
    done, begin = threading.Event(), monotonic()

    def tell() -> None:
        while not done.wait(PATIENCE):
            show_progress(f"{what} {monotonic() - begin:.0f} s")

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
        show_progress(None)


def emit_json(data: Any) -> None:
    """Writes data to standard output for a script; JSON has no NaN and no infinities, which become null."""
    typer.echo(json.dumps(_finite(data), indent=1, default=_plain, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in cast("Mapping[Any, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in cast("Sequence[Any]", data)]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: Sequence[str] = (),
    *,
    whole: bool = True,
    wide: bool = False,
) -> None:
    """Prints a table; where its columns don't fit, the cells of a row below each other.

    Args:
        right: the columns that are aligned at the right, numbers say.
        whole: whether to print all rows and all of each cell; else the first ones, and how many there are.
        wide: whether its lines may be as long as they are where they don't go to a terminal.
    """
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    more = 0 if whole else max(0, len(texts) - SHOWN)
    if more:
        del texts[SHOWN:]
    if not whole:
        texts = [[cut(cell, CELL_LINES, CELL_LETTERS) for cell in row] for row in texts]
    room = WIDE if wide and not on_terminal() else console.width
    if title:
        typer.echo(title)
    widths = widths_of(columns, texts, room)
    unframed = room == WIDE or len(texts) > LONG
    if widths is None or unframed:
        lines = [*plain(columns, texts, right)] if unframed else []
        if not lines or max(map(len, lines)) > room:
            lines = [*records(columns, texts, room), ""]
        for line in lines:
            typer.echo(line)
    else:
        made = Table(header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            justify = "right" if column in right else "left"
            made.add_column(column, justify=justify, overflow="fold", width=width)
        for row in texts:
            made.add_row(*map(Text, row))
        console.print(made, width=room)
    if more:
        typer.echo(f"… {more:,} more; --all shows them")


def plainly(line: str) -> None:
    """A line as it is, broken where it is too long for a terminal, and only there."""
    if on_terminal():
        console.print(line, markup=False, highlight=False)
    else:
        typer.echo(line)


def milliseconds(seconds: float | None) -> str:
    """For a table."""
    return "" if seconds is None else f"{seconds * 1e3:.3f}"
