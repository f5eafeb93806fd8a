"""Graphs from the files of commands: oneDNN Graph's JSON or ONNX, at a path, in a pipe or on standard input."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ..graph.files import read_graph, to_graph
from ..graph.graph import Graph
from ..graph.io.document import MAX_FILE_BYTES
from ..graph.io.document_reader import read_bytes
from ..graph.model.logical_tensor import PropertyType, label
from ..graph.onnx import from_onnx
from ..graph.open_graph import OpenGraph
from ..graph.runtime.kinds_of_files import EMPTY, JSON, ONNX, kind_of
from ..graph.runtime.text_files import file_error, file_name, reason_of
from ..ops.errors import ArgumentError, GraphFileError
from ..ops.records import frozen
from ..ops.schema import format_shape
from ..ops.values import format_value
from .ending import say

STDIN = Path("-")
"""Stands for standard input."""
MAX_ONNX_BYTES = 2**31
"""The most that a protobuf can have."""
PEEKED = 4096
"""Bytes that tell one kind of file from the other."""
TEXT = (b"{", b"[")
"""What a JSON document begins with, behind blanks, and no ONNX model, since none of its fields has such a tag."""
MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
CONTROLS = bytes({*range(32)} - {*b"\t\n\r\f"})


@frozen
class GraphFile:
    """A file as it was found.

    Attributes:
        name: for messages.
        path: where it lies, and its weights beside it; None where it can be read only once.
        content: all of it then, else its beginning.
    """

    name: str
    path: Path | None
    content: bytes

    @classmethod
    def at(cls, path: Path) -> GraphFile:
        """The file of a path; `-` is standard input.

        Raises:
            GraphFileError: it can't be read.
        """
        name = "standard input" if path == STDIN else file_name(path)
        try:
            if path == STDIN:
                return cls(name, None, _all_of(sys.stdin.buffer, name))
            regular = path.is_file()
            with path.open("rb") as file:
                if regular:
                    return cls(name, path, file.read(PEEKED))
                return cls(name, None, _all_of(file, name))
        except GraphFileError:
            raise
        except (OSError, ValueError, AttributeError) as error:  # there may be no standard input
            reason = "it is closed" if isinstance(error, AttributeError) else reason_of(error)
            if isinstance(error, IsADirectoryError):
                reason = "it is a folder; name a graph's file in it"
            raise file_error(f"{name}: can't be read: {reason}", error) from error

    @property
    def is_onnx(self) -> bool:
        """Whether it is no text, which JSON is and ONNX is not; an empty file is what its name says."""
        begin = self.content[:PEEKED]
        if begin.startswith(MARKS) or begin.lstrip().startswith(TEXT):
            return False
        if not begin.strip():
            return self.path is not None and self.path.suffix.lower() == ".onnx"
        return any(byte in CONTROLS for byte in begin)

    @property
    def _size(self) -> int | None:
        """Of the file, where not all of it was read."""
        try:
            return None if self.path is None else self.path.stat().st_size
        except OSError:  # which reading it says
            return None

    def whole(self) -> bytes:
        """All that it holds.

        Raises:
            GraphFileError: it can't be read.
        """
        if self.path is None:
            return self.content
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise GraphFileError(f"{self.name}: can't be read: {reason_of(error)}") from error

    def graph(self) -> Graph | OpenGraph:
        """Its graph, not finalized.

        Raises:
            OneDNNGraphError: see `Graph.load` and `from_onnx`.
        """
        kind = kind_of(self.content, self.name, self._size)
        if kind is not None and kind not in (JSON, ONNX, EMPTY):
            raise GraphFileError(f"{self.name}: can't be read: it is {kind.what}; {kind.way}")
        if self.is_onnx:
            # By a path, weights in other files are found; but the package onnx goes by what it ends in.
            by_path = self.path is not None and self.path.suffix.lower() == ".onnx"
            if by_path and self.path is not None:
                return from_onnx(self.path)
            try:
                return from_onnx(self.whole())
            except ArgumentError as error:  # which knows of bytes alone
                raise GraphFileError(f"{self.name}: {error}") from error
        if not self.content.strip() and (self.path is None or not self.whole().strip()):
            raise GraphFileError(f"{self.name}: is empty; give a graph, oneDNN Graph's JSON or an ONNX model")
        if self.path is not None:
            return read_graph(self.path)
        graph = to_graph(read_bytes(self.content, self.name))
        self._tell_of_weights(graph)
        return graph

    def _tell_of_weights(self, graph: Graph) -> None:
        """Says what a pipe does not bring, so that nobody takes made-up weights for the model's."""
        names = [label(t) for t in graph.inputs if t.property_type is PropertyType.constant]
        if names:
            more = f" and {len(names) - 1} more have" if names[1:] else " has"
            say(
                f"{self.name}: JSON has no arrays, so that {format_value(names[0])}{more} no values; weights in a "
                ".safetensors file beside it are taken where the file itself is named"
            )


def _all_of(file: BinaryIO, name: str) -> bytes:
    """What a pipe or a device gives, as far as a graph can go.

    Raises:
        GraphFileError: it gives more, or begins as no graph does.
    """
    begin = file.read(PEEKED)
    if begin[:1] == b"\0":  # as /dev/zero and /dev/full do
        raise GraphFileError(
            f"{name}: is neither JSON nor ONNX, for it begins with a zero byte; give a graph's file"
        )
    text = begin.startswith(MARKS) or begin.lstrip().startswith(TEXT)
    most = MAX_FILE_BYTES if text else MAX_ONNX_BYTES
    content = begin + file.read(most + 1 - len(begin))
    if len(content) > most:
        raise GraphFileError(f"{name}: must have at most {most} bytes, got more; give a file of one graph")
    return content


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of `NAME=2x3x224x224` by name.

    Raises:
        ArgumentError: one is not written so.
    """
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        try:
            found[name] = tuple(int(size) for size in sizes.split("x")) if sizes else ()
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ArgumentError(
                f"--shape takes NAME=SIZES, such as image=1x3x224x224, got {format_value(text)}"
            )
    return found


def loaded(path: Path, shapes: Sequence[str] = ()) -> Graph:
    """The graph in a file, finalized.

    Args:
        path: see `GraphFile.at`.
        shapes: of inputs, as `parse_shapes` takes them.

    Raises:
        ArgumentError: the file leaves sizes open on which ops depend.
        OneDNNGraphError: see `GraphFile`, `Graph.with_shapes` and `Graph.finalize`.
    """
    return with_shapes(GraphFile.at(path).graph(), parse_shapes(shapes), str(path))


def with_shapes(graph: Graph | OpenGraph, shapes: dict[str, tuple[int, ...]], name: str) -> Graph:
    """The graph for these shapes of its inputs, finalized; see `loaded`."""
    if shapes:
        graph = graph.with_shapes(shapes)
    if isinstance(graph, OpenGraph):
        if not _open(graph):
            raise ArgumentError(
                f"{name} is no graph, but runs in stages: {graph.no_graph()} by from_onnx in Python, or by "
                "onednn-graph run and bench"
            )
        raise ArgumentError(
            f"{name} leaves sizes open on which its ops depend: {_open(graph)}; give them by --shape NAME=SIZES"
        )
    graph.finalize()
    return graph


def check_sizes(graph: Graph) -> None:
    """Sees to it that data can be made up for all inputs.

    Raises:
        ArgumentError: the size of one is not known.
    """
    if not all(t.is_concrete for t in graph.inputs):
        raise ArgumentError(
            f"sizes of inputs are open: {_open(graph)}; give them by --shape NAME=SIZES, a size for each axis"
        )


def _open(graph: Graph | OpenGraph) -> str:
    return ", ".join(f"{label(t)} {format_shape(t.shape)}" for t in graph.inputs if not t.is_concrete)
