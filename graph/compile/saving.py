"""Compiled graphs in files: the graphs, how they were compiled, and what was made of their constants.

A file is one of tensors, `runtime.mapped_files`: each constant once, what was made of them as it lies in memory, and
two texts: the graphs as oneDNN Graph's JSON, and the program, which says the rest. So who loads it plans the graphs
anew, by the same code and the same verdicts as ever, and finds what is made of constants made. Code is in no file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ..core.building import GraphCore
from ..io.document_writer import dumps
from ..io.serialization import from_graph
from ..io.weights import HALF_BYTES, described_interface, described_tensor, packed
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array, address
from ..runtime.engine import Engine
from ..runtime.mapped_files import write_mapped
from ..runtime.text_files import file_name, save_files
from ..runtime.threads import get_num_threads
from .backend import BACKENDS, MachineBound
from .options import CompileOptions, Tune
from .signature import Signature

KEY = "onednn_graph_compiled"
"""The entry of a file's metadata that is ours."""
FORMAT, WITHOUT_PACKED = "2", "1"
"""Of files that are written, and of older ones, in which 4-bit integers have a byte each."""
PROGRAM = "program"
"""Name of the tensor that is the program's text; those of the graphs begin with this as well."""
InputShapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The inputs' names and shapes, in order."""


@frozen(eq=False)
class Source:
    """What was compiled.

    Attributes:
        graph: it.
        shapes: of the inputs that it is for, where there is one graph for each set of them; else empty.
    """

    graph: GraphCore
    shapes: InputShapes = ()


def made_for(engine: Engine, options: Mapping[str, Any]) -> dict[str, str]:
    """What has to be the same for what was made of constants to be of use: names and values, for people."""
    found = {"onednn_graph": version("onednn-graph")}
    for backend in BACKENDS.candidates():
        if isinstance(backend, MachineBound) and backend.unavailable() is None:
            found |= backend.machine()
    return found | {"threads": str(options.get("threads") or engine.threads or get_num_threads())}


def options_told(options: CompileOptions) -> dict[str, Any]:
    """The options as JSON has them; what was measured for it is known where it is loaded, or not measured."""
    told = options.again()
    if told["tune"] is not Tune.off:
        told["tune"] = Tune.cached
    return told


def save(
    path: str | os.PathLike[str],
    sources: Sequence[Source],
    ports: Signature | None,
    engine: Engine,
    options: CompileOptions,
) -> None:
    """Writes a file, whole or not at all.

    Args:
        path: of it.
        sources: what was compiled, which has made of constants what it makes of them.
        ports: inputs and outputs, where there is a graph for each set of input sizes.
        engine: of it.
        options: of each compilation, which share what was made of constants.

    Raises:
        FileAccessError: it can't be written; what was there is as it was.
        GraphFileError: a graph that no file can hold. ArgumentTypeError: no path.
    """
    file_name(path)
    content = _Content()
    graphs = [content.graph(number, source) for number, source in enumerate(sources)]
    told = options_told(options)
    program = {
        "options": told,
        "graphs": graphs,
        "ports": None if ports is None else _ports(ports),
        "made": content.made(options),
    }
    content.text(PROGRAM, json.dumps(program))
    metadata = {"format": FORMAT, "made for": made_for(engine, told), "checksums": content.checksums}
    save_files({path: lambda file: write_mapped(file, content.arrays, {KEY: json.dumps(metadata)})})


class _Content:
    """What a file is to hold.

    Attributes:
        arrays: by name.
        checksums: of those that are texts.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.checksums: dict[str, str] = {}
        self._names: dict[tuple[int, int, str, tuple[int, ...]], str] = {}
        self._places: dict[int, str] = {}

    def text(self, name: str, text: str) -> str:
        """Adds a text; returns its name."""
        self.arrays[name] = np.frombuffer(text.encode(), np.uint8)
        self.checksums[name] = checksum(self.arrays[name])
        return name

    def graph(self, number: int, source: Source) -> dict[str, object]:
        """Adds a graph and what it holds."""
        text = dumps(from_graph(source.graph))
        return {
            "shapes": source.shapes,
            "document": self.text(f"{PROGRAM}.graph{number}", text),
            **described_interface(source.graph, self._entry),
        }

    def _entry(self, tensor: LogicalTensor, array: Array) -> dict[str, object]:
        """Adds an array, once for all graphs that hold it."""
        # Two to a byte, which a byte for each in the same memory is not, nor the other sign.
        short = tensor.data_type in HALF_BYTES
        kind = tensor.data_type.value if short else array.dtype.name
        facts = address(array), array.nbytes, kind, array.shape
        name = self._names.setdefault(facts, f"constant{len(self._names)}")
        if name not in self.arrays:
            self.arrays[name] = packed(array) if short else array
        self._places.setdefault(address(array), name)
        return {"key": name, "per_byte": 2} if short else {"key": name}

    def made(self, options: CompileOptions) -> list[dict[str, object]]:
        """Adds what was made of the constants; what was made of copies of them is made anew."""
        told: list[dict[str, object]] = []
        for key, made in options.shared.items().items():
            recipe, places = cast("tuple[str, tuple[int, ...]]", key)
            if not all(place in self._places for place in places):
                continue
            start = made.place - address(made.memory)
            name = f"made{len(told)}"
            self.arrays[name] = made.memory[start : start + made.nbytes]
            told.append({"recipe": recipe, "of": [self._places[place] for place in places], "key": name})
        return told


def _ports(ports: Signature) -> dict[str, object]:
    return {
        "inputs": [{**described_tensor(t), "name": t.name} for t in ports.inputs],
        "outputs": [{**described_tensor(t), "name": t.name, "as": name} for name, t in ports.outputs],
    }


def checksum(array: Array) -> str:
    """Of a text."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def check_compiled(sources: Sequence[Source]) -> None:
    """Whether there is something to save.

    Raises:
        ArgumentError: there is not.
    """
    if not sources:
        raise ArgumentError(
            "the model has been compiled for no input sizes yet, and a file holds it for those of its calls; "
            "call it once for each before save_compiled"
        )
