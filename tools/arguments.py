"""Arguments and options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..graph.runtime.threads import MOST_THREADS
from ..ops.values import format_value

BACKENDS = ("onednn", "numpy", "native")
"""What `--backend` takes."""

_threads: list[int] = []


def one_of(name: str, values: Sequence[str], text: str) -> Any:
    """An option that takes one of some words, whose error says so in a sentence."""

    def known(value: str | None) -> str | None:
        if value is not None and value not in values:
            raise typer.BadParameter(f"must be one of {', '.join(values)}, got {format_value(value)}")
        return value

    return typer.Option(
        name, metavar=f"[{'|'.join(values)}]", callback=known, autocompletion=lambda: list(values), help=text
    )


def _set_threads(number: int | None) -> None:
    """By the variable, which processes that a command starts have too, and the library that is loaded later."""
    _threads[:] = [] if number is None else [number]
    if number is not None:
        os.environ["OMP_NUM_THREADS"] = str(number)


def all_threads() -> int | None:
    """What `--threads` before the command was given; None for nothing."""
    return _threads[0] if _threads else None


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A graph: oneDNN Graph's JSON, an ONNX model, or - for standard input."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZES", help="Of an input that leaves sizes open; once for each."),
]
Backend = Annotated[
    str | None,
    one_of("--backend", BACKENDS, "Run on that backend only."),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON for scripts instead of tables.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the data that is made up.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        max=MOST_THREADS,
        callback=_set_threads,
        help="That kernels use; by default OMP_NUM_THREADS, or all CPUs.",
    ),
]
