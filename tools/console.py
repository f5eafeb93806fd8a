"""What all commands share: reading graphs, writing tables or JSON, and exit codes."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from ..graph.graph import Graph
from ..ops.errors import OneDNNGraphError

P = ParamSpec("P")
R = TypeVar("R")


class Exit(IntEnum):
    """Exit codes of all commands.

    `failed` is for what can't be done or came out wrong, `usage` for command lines and files that make no sense.
    """

    ok = 0
    failed = 1
    usage = 2


LONG = 500
"""Rows from which on a table is printed without frames, which takes a tenth of the time."""
WIDE = 10_000
"""Columns where nobody reads but scripts: lines are not broken."""

console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)
"""Standard output."""
errors = Console(stderr=True)
"""Messages, and progress, which no script reads."""


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Turns our errors into a line on standard error and an exit code."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except OneDNNGraphError as error:
            wrong_input = isinstance(error, ValueError | TypeError)
            raise failure(error, Exit.usage if wrong_input else Exit.failed) from error

    return run


def failure(problem: object, code: Exit) -> typer.Exit:
    """Says what is wrong; raise what it returns."""
    errors.print(f"onednn-graph: {problem}", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(code)


def note(text: str) -> None:
    """Says something beside the output."""
    errors.print(f"onednn-graph: {text}", markup=False, highlight=False, soft_wrap=True)


def loaded(path: Path) -> Graph:
    """The graph in a file, finalized.

    Raises:
        OneDNNGraphError: see `Graph.load` and `Graph.finalize`.
    """
    graph = Graph.load(path)
    graph.finalize()
    return graph


def emit_json(data: Any) -> None:
    """Writes data to standard output for a script."""
    typer.echo(json.dumps(data, indent=1, default=_plain))


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()
) -> None:
    """Prints a table.

    Args:
        right: the columns that are aligned at the right, numbers say.
    """
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if len(texts) > LONG:
        _print_plainly(title, columns, texts, right)
        return
    made = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in texts:
        made.add_row(*row)
    console.print(made, markup=False)


def _print_plainly(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]
) -> None:
    """A table in aligned columns; lines are as long as they are."""
    lines = [*zip_longest(*[[column] for column in columns], fillvalue="")]
    for row in rows:
        lines += zip_longest(*[cell.split("\n") for cell in row], fillvalue="")
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    turned = [column in right for column in columns]
    typer.echo(title)
    for line in lines:
        cells = [
            cell.rjust(width) if turn else cell.ljust(width)
            for cell, width, turn in zip(line, widths, turned, strict=True)
        ]
        typer.echo("  ".join(cells).rstrip())


def milliseconds(seconds: float | None) -> str:
    """For a table."""
    return "" if seconds is None else f"{seconds * 1e3:.3f}"
