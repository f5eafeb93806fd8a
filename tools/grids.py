"""Tables that can be read at any width: columns where they fit, else one line for each cell of a row."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import cell_len

MOST_WORD = 24
"""Columns of a word that a table breaks before it gives its columns up."""
BETWEEN = 3
"""Columns that a frame takes for each column of a table, and one at the end."""


def widths_of(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """How wide each column of a framed table is, so that all fit and words stay whole.

    Args:
        columns: heads. rows: a cell for each column; cells may have lines.
        room: columns of the terminal.

    Returns:
        None where they don't fit.
    """
    cells = [[head, *(row[i] for row in rows)] for i, head in enumerate(columns)]
    widths = [min(room, max(cell_len(line) for cell in one for line in cell.split("\n"))) for one in cells]
    least = [
        min(MOST_WORD, max((cell_len(word) for cell in one for word in cell.split()), default=0))
        for one in cells
    ]
    room -= BETWEEN * len(columns) + 1
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def records(columns: Sequence[str], rows: Iterable[Sequence[str]], room: int) -> Iterable[str]:
    """Lines with a row's cells below each other, by the heads of their columns; empty cells are left out."""
    margin = max(map(cell_len, columns), default=0) + 2
    for number, row in enumerate(rows):
        if number:
            yield ""
        for head, cell in zip(columns, row, strict=True):
            name = head + " " * (margin - cell_len(head))
            for line in _folded(cell, max(room - margin, MOST_WORD)) if cell else ():
                yield f"{name}{line}"
                name = " " * margin


def _folded(cell: str, room: int) -> Iterable[str]:
    for line in cell.split("\n"):
        yield from textwrap.wrap(line, room, break_on_hyphens=False) or [""]


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> Iterable[str]:
    """Lines of aligned columns without frames, as long as they are."""
    lines = [*zip_longest(*[[column] for column in columns], fillvalue="")]
    for row in rows:
        lines += zip_longest(*[cell.split("\n") for cell in row], fillvalue="")
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(
            _padded(cell, width, column in right)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()


def _padded(cell: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if right else cell + space


def cut(cell: str, lines: int, letters: int) -> str:
    """The cell with so many lines of so many letters at most; it says what is missing."""
    found = [line if len(line) <= letters else f"{line[: letters - 1]}…" for line in cell.split("\n")]
    more = len(found) - lines
    return "\n".join(found if more <= 1 else [*found[:lines], f"… {more} more"])
