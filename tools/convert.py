"""The command `onednn-graph convert`: between files and number formats."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..graph.graph import Graph
from ..graph.model.logical_tensor import label
from ..graph.open_graph import OpenGraph
from ..graph.runtime.arrays import Array
from ..ops.errors import ArgumentError, UnsupportedError
from ..ops.schema import format_shape
from .arguments import one_of
from .console import command, plainly, working
from .data_files import given_arrays
from .graph_files import GraphFile, parse_shapes, with_shapes


class Form(StrEnum):
    """What files hold."""

    json = ".json"
    onnx = ".onnx"


class Numbers(StrEnum):
    """What a graph computes in."""

    bf16 = "bf16"
    int8 = "int8"
    dynamic = "int8-dynamic"


@command
def convert(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A graph: JSON, ONNX, or - for standard input.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="The file to write, .json or .onnx.")
    ],
    to: Annotated[
        str | None,
        one_of("--to", tuple(Numbers), "In which numbers it computes from then on."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="For --to int8: an .npz file with arrays by the inputs' names, of their shapes, or of one axis more "
            "in front for many examples; once for each file."
        ),
    ] = None,
    reduce_range: Annotated[
        bool,
        typer.Option(
            "--reduce-range",
            help="For --to int8: weights of 7 bits, which CPUs with AVX2 alone multiply as integers.",
        ),
    ] = False,
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="NAME=SIZES",
            help="Of an input whose sizes are open; they stay so where they can.",
        ),
    ] = None,
) -> None:
    """Write a graph to another kind of file, and in other numbers if asked.

    JSON files are oneDNN Graph's, with weights in a .safetensors file beside (the extra `weights`); ONNX files have
    8-bit integers as pairs of QuantizeLinear and DequantizeLinear. int8 has ranges of activations that examples show,
    int8-dynamic finds them at each run and needs none.

    \b
    Examples:
      onednn-graph convert model.onnx -o model.json
      onednn-graph convert model.onnx -o small.onnx --to int8 --data calibration.npz
    """
    suffix = output.suffix.lower()
    if suffix not in tuple(Form):
        raise ArgumentError(
            f"convert writes .json and .onnx files, got {str(output)!r}; give one of these endings"
        )
    if data and to != Numbers.int8:
        raise ArgumentError("--data is for --to int8, whose ranges it shows; leave it out, or ask for int8")
    if reduce_range and to != Numbers.int8:
        raise ArgumentError(
            "--reduce-range is for --to int8, whose weights it makes; leave it out, or ask for int8"
        )
    with working(f"converting {file}"):
        graph = _graph(file, shapes or ())
        if to == Numbers.bf16:
            graph = graph.to("bf16")
        elif to == Numbers.int8:
            graph = graph.quantize_static(_feeds(graph, data or ()), reduce_range=reduce_range)
        elif to == Numbers.dynamic:
            graph = graph.quantize_dynamic()
        if suffix == Form.onnx:
            graph.to_onnx(output)
        else:
            graph.save(output, weights=True)
    plainly(
        f"{output}: {len(graph.ops)} ops, {', '.join(graph.input_names)} → {', '.join(graph.output_names)}"
    )


def _graph(file: Path, shapes: Sequence[str]) -> Graph:
    """The graph in a file, for all sizes where they are open and nobody has said which.

    Raises:
        ArgumentError: its ops depend on sizes that are open.
    """
    found = GraphFile.at(file).graph()
    if shapes or not isinstance(found, OpenGraph) or all(t.is_concrete for t in found.inputs):
        return with_shapes(found, parse_shapes(shapes), str(file))
    try:
        return found.with_unknown_sizes()
    except UnsupportedError as error:
        raise ArgumentError(f"{file}: {error}; or give them by --shape NAME=SIZES") from error


def _feeds(graph: Graph | OpenGraph, files: list[Path] | tuple[()]) -> list[dict[str, Array]]:
    """Examples for the ranges of tensors.

    Raises:
        ArgumentError: there are none, or a file lacks an input or has other shapes.
    """
    if not files:
        raise ArgumentError(
            "--to int8 needs examples, by which it sees the range of each tensor; give --data FILE.npz, or take "
            "--to int8-dynamic"
        )
    found: list[dict[str, Array]] = []
    for file in files:
        arrays = given_arrays(graph, file)
        missing = [label(t) for t in graph.inputs if label(t) not in arrays]
        if missing:
            raise ArgumentError(
                f"{file} lacks an array for input {missing[0]!r}; it has {', '.join(arrays) or 'none'}"
            )
        found += _examples(graph, file, arrays)
    return found


def _examples(graph: Graph | OpenGraph, file: Path, arrays: dict[str, Array]) -> list[dict[str, Array]]:
    more = {label(t): arrays[label(t)].ndim - len(t.shape or ()) for t in graph.inputs}
    if not any(more.values()):
        return [arrays]
    counts = {len(array) for array in arrays.values() if array.ndim}
    if set(more.values()) != {1} or len(counts) != 1:
        told = ", ".join(f"{name} {format_shape(array.shape)}" for name, array in arrays.items())
        raise ArgumentError(
            f"{file} must have arrays of the inputs' shapes, or all of them with one axis more in front, equally long; "
            f"got {told}"
        )
    return [{name: array[n] for name, array in arrays.items()} for n in range(counts.pop())]
