"""Compiled graphs from the files that `saving` has written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from ...ops.errors import ArgumentTypeError, GraphFileError, OneDNNGraphError, UnsupportedError
from ...ops.records import frozen
from ...ops.values import format_value, one_line
from ..core.building import GraphCore, content_of
from ..io.document_reader import loads
from ..io.serialization import graph_of
from ..io.weights import tensor_in, weights_in, with_unpacked
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..runtime import kinds_of_files
from ..runtime.arrays import address
from ..runtime.engine import Engine, check_engine, default_engine
from ..runtime.mapped_files import MappedTensors, map_tensors
from ..runtime.parameter import Parameter
from ..runtime.shared_constants import MadeConstant
from .compiled_graph import CompiledGraph
from .compiled_open_graph import CompiledOpenGraph
from .options import CompileKeywords, CompileOptions, parse_options
from .saving import FORMAT, KEY, PROGRAM, WITHOUT_PACKED, InputShapes, checksum, made_for
from .signature import Signature
from .whole import compile_graph

_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What is raised where a program is none."""


def load_compiled(
    path: str | os.PathLike[str], engine: Engine | None = None, *, recompile: bool = False
) -> CompiledGraph:
    """See `Graph.load_compiled`."""
    if not isinstance(recompile, bool):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"recompile must be True or False, got {format_value(recompile)}")
    if engine is not None:
        check_engine(engine)
    file = map_tensors(path)
    told = _told(file, path)
    try:
        for one in told.program["graphs"]:
            file = evolve(file, arrays=with_unpacked(one, file.arrays))
        options = parse_options(dict(told.program["options"]), CompileKeywords)
        elsewhere = _elsewhere(told.made_for, made_for(engine or default_engine(), options.again()))
        if elsewhere and not recompile:
            raise GraphFileError(
                f"{file.source}: was compiled {elsewhere}; compile the model here and save it again, or load it with "
                "recompile=True, which takes as long as compiling"
            )
        if not elsewhere:
            options.shared.hold(_made(file, told.program["made"]))
        graphs = {_shapes(one["shapes"]): _graph(file, told, one) for one in told.program["graphs"]}
        _share_parameters(graphs.values(), told.program["graphs"])
        ports = None if told.program["ports"] is None else _ports(told.program["ports"])
        if ports is None and len(graphs) != 1:
            raise ValueError(f"it has {len(graphs)} graphs for one")
    except OneDNNGraphError:
        raise
    except _DAMAGED as error:
        raise GraphFileError(f"{file.source}: is damaged ({one_line(error)}); save it again") from error
    if ports is None:
        (graph,) = graphs.values()
        return compile_graph(graph, engine, options)
    return _prepared(ports, graphs, options, engine)


@frozen
class _Told:
    """What the texts of a file say."""

    made_for: Mapping[str, str]
    checksums: Mapping[str, str]
    program: Mapping[str, Any]


def _told(file: MappedTensors, path: str | os.PathLike[str]) -> _Told:
    if KEY not in file.metadata:
        other = kinds_of_files.told(path, kinds_of_files.COMPILED)
        if other:
            raise GraphFileError(f"{file.source}: was not written by save_compiled: {other}")
        raise GraphFileError(
            f"{file.source}: was not written by save_compiled; read a graph with Graph.load, and a model of ONNX with "
            "from_onnx"
        )
    try:
        metadata: Any = json.loads(file.metadata[KEY])
        if metadata["format"] not in (FORMAT, WITHOUT_PACKED):
            raise GraphFileError(
                f"{file.source}: is of another version of onednn_graph, for its format is "
                f"{format_value(metadata['format'])} and not {FORMAT}; save it again"
            )
        checksums = dict(metadata["checksums"])
        return _Told(dict(metadata["made for"]), checksums, json.loads(_text(file, checksums, PROGRAM)))
    except GraphFileError:
        raise
    except _DAMAGED as error:
        raise GraphFileError(f"{file.source}: is damaged ({one_line(error)}); save it again") from error


def _text(file: MappedTensors, checksums: Mapping[str, str], name: str) -> str:
    content = file.arrays[name]
    if checksums[name] != checksum(content):
        raise ValueError(f"{one_line(name)} is not what was saved")
    return content.tobytes().decode()


def _elsewhere(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs, in words; empty where nothing does."""
    unlike = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    told = " and ".join(f"{name} {one_line(there.get(name, 'none'))}" for name in unlike)
    mine = " and ".join(f"{name} {here.get(name, 'none')}" for name in unlike)
    return f"for {told}, and here is {mine}" if unlike else ""


def _shapes(told: Any) -> InputShapes:
    return tuple((str(name), tuple(int(size) for size in shape)) for name, shape in told)


def _graph(file: MappedTensors, told: _Told, described: Mapping[str, Any]) -> GraphCore:
    """A graph, on the arrays of the file."""
    document = loads(_text(file, told.checksums, described["document"]), source=file.source)
    return graph_of(GraphCore, document, weights_in(file.source, described, file.arrays), as_read=True)


def _share_parameters(graphs: Iterable[GraphCore], described: Sequence[Mapping[str, Any]]) -> None:
    """Has the graphs for all sizes share the parameters that they had shared: what one assigns, another one reads."""
    known: dict[str, Parameter] = {}
    for graph, one in zip(graphs, described, strict=True):
        held = content_of(graph).parameters
        for told in one.get("parameters", ()):
            number = int(told["id"])
            held[number] = known.setdefault(str(told["key"]), held[number])


def _made(file: MappedTensors, told: Sequence[Mapping[str, Any]]) -> dict[Any, MadeConstant]:
    """What was made of constants, by how it was made, on the arrays of the file."""
    found: dict[Any, MadeConstant] = {}
    for one in told:
        sources, memory = tuple(file.arrays[name] for name in one["of"]), file.arrays[one["key"]]
        key = str(one["recipe"]), tuple(map(address, sources))
        found[key] = MadeConstant(memory, address(memory), sources, memory.nbytes)
    return found


# --- a graph for each set of input sizes ---


def _ports(told: Mapping[str, Any]) -> Signature:
    def tensor(one: Mapping[str, Any]) -> LogicalTensor:
        return tensor_in(one, {int(one["id"]): str(one["name"])}, PropertyType(one["property_type"]))

    return Signature(
        [tensor(one) for one in told["inputs"]],
        [(str(one["as"]), tensor(one)) for one in told["outputs"]],
        (),
    )


def _prepared(
    ports: Signature, graphs: Mapping[InputShapes, GraphCore], options: CompileOptions, engine: Engine | None
) -> CompiledOpenGraph:
    def made(shapes: Mapping[str, tuple[int, ...]]) -> CompiledGraph:
        graph = graphs.get(tuple(shapes.items()))
        if graph is None:
            known = "; ".join(", ".join(f"{name} {list(one)}" for name, one in key) for key in graphs)
            raise UnsupportedError(
                f"what was loaded is the model for the input sizes {known}, got "
                f"{', '.join(f'{name} {list(one)}' for name, one in shapes.items())}; call the model with these before "
                "save_compiled, or compile it here"
            )
        return compile_graph(graph, compiled.engine, options)

    options.shared.for_sizes = True
    compiled = CompiledOpenGraph(
        ports,
        engine,
        made,
        partial(_again, ports, graphs, options.again()),
        options.kept_shapes,
        lambda: list(graphs.values()),
    )
    return compiled


def _again(
    ports: Signature,
    graphs: Mapping[InputShapes, GraphCore],
    options: Mapping[str, Any],
    engine: Engine | None,
) -> CompiledOpenGraph:
    return _prepared(ports, graphs, CompileOptions(**options), engine)
