"""oneDNN Graph's JSON files, in and out.

The format is what the library writes with `ONEDNN_GRAPH_DUMP=graph`, what benchdnn's `--driver=graph` reads and
what Netron draws. Between text and `Graph` lies `Document`, the file as it was written, for tools that rewrite
files before they build a graph, and for what a graph can't hold:

    text  ⇄ loads, dumps ⇄  Document  ⇄ to_graph, from_graph ⇄  Graph

Only a `Document` keeps `version`, `engine_kind`, `fpmath_mode_apply_to_int`, the layout `undef`, strides that differ
between the uses of one tensor, and attributes that the library adds to a partitioned graph. The format has
no place for the names of tensors and the content of constants; `weights` is for these.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, cast

from attrs import frozen

from ...ops.attributes import AttributeValue
from ...ops.data_types import DataType
from ...ops.errors import (
    ArgumentTypeError,
    AttributeValueError,
    GraphFileError,
    OneDNNGraphError,
    WeightsLeftOutWarning,
)
from ...ops.registry import REGISTRY
from ...ops.schema import RESERVED, UNKNOWN_DIM, Shape
from ...ops.values import counted, format_value
from ..graph import Graph
from ..model.logical_tensor import LayoutType, LogicalTensor, PropertyType
from ..model.op import Op
from ..runtime.text_files import file_name, save_text
from .document import (
    PARTITIONING_ATTRIBUTES,
    AttributeRecord,
    Document,
    OpRecord,
    T,
    TensorRecord,
    written_shape,
)
from .document_reader import Place, load, loads
from .document_writer import checked, dump, dumps
from .weights import Weights, read_weights, save_weights, weights_path

__all__ = [
    "PARTITIONING_ATTRIBUTES",
    "AttributeRecord",
    "Document",
    "GraphFileError",
    "OpRecord",
    "TensorRecord",
    "dump",
    "dumps",
    "from_graph",
    "load",
    "loads",
    "read_graph",
    "save_graph",
    "to_graph",
    "write_graph",
]

# --- document to graph ----------------------------------------------------------------------------------


@contextmanager
def _told(place: Place) -> Generator[None, None, None]:
    """Puts `place` in front of the messages of our errors, which keep their class."""
    try:
        yield
    except OneDNNGraphError as error:
        raise type(error)(f"{place}: {error}") from error


@frozen
class _Use:
    """A description of a tensor and where it stands."""

    place: Place
    record: TensorRecord


def _agreed(uses: Sequence[_Use], key: str, read: Callable[[TensorRecord], T], unknown: T | None) -> T | None:
    """The one value that the descriptions give, those aside that say `unknown`."""
    first: _Use | None = None
    for use in uses:
        value = read(use.record)
        if value == unknown:
            continue
        if first is None:
            first = use
        elif value != read(first.record):
            _contradict(use, first, key, value, read(first.record))
    return unknown if first is None else read(first.record)


def _contradict(use: _Use, other: _Use, key: str, value: object, before: object) -> NoReturn:
    here, there = (
        str(v) if isinstance(v, str) else format_value(list(v) if isinstance(v, tuple) else v)  # pyright: ignore[reportUnknownArgumentType]
        for v in (value, before)
    )
    raise GraphFileError(
        f"{use.place.key(key)} says {here} of tensor {use.record.id}, but {other.place.path} says {there}; "
        "describe one id in one way"
    )


def _agreed_shape(uses: Sequence[_Use]) -> Shape:
    """The sizes that all descriptions know together."""
    known: Shape = None
    sources: list[_Use] = []
    for use in uses:
        dims = use.record.dims
        if dims is None:
            continue
        if known is None:
            known, sources = dims, [use] * len(dims)
        if len(known) != len(dims):
            _contradict(use, next(u for u in uses if u.record.dims is not None), "shape", dims, known)
        for axis, (have, want) in enumerate(zip(known, dims, strict=True)):
            if have == UNKNOWN_DIM:
                sources[axis] = use
            elif want not in (UNKNOWN_DIM, have):
                _contradict(use, sources[axis], "shape", dims, known)
        known = tuple(want if have == UNKNOWN_DIM else have for have, want in zip(known, dims, strict=True))
    return known


def _agreed_strides(uses: Sequence[_Use], produced: bool) -> tuple[int, ...] | None:
    if produced:
        # What is computed lies as its producer lays it; consumers of real files repeat strides of another use.
        known = (use.record.element_strides for use in uses)
        return next((strides for strides in known if strides is not None), None)
    return _agreed(uses, "stride", lambda t: t.element_strides, None)


def _logical_tensors(document: Document, names: Mapping[int, str]) -> dict[int, LogicalTensor]:
    """One logical tensor for each id, of all that its descriptions say; the producer's come first."""
    uses: dict[int, list[_Use]] = {}
    produced: set[int] = set()
    for side in ("outputs", "inputs"):
        for i, op in enumerate(document.ops):
            place = Place(document.source, f"graph[{i}].{side}")
            for j, tensor in enumerate(op.outputs if side == "outputs" else op.inputs):
                uses.setdefault(tensor.id, []).append(_Use(place.item(j), tensor))
                if side == "outputs":
                    produced.add(tensor.id)
    return {
        number: _logical_tensor(number, found, number in produced, names.get(number, ""))
        for number, found in uses.items()
    }


def _logical_tensor(number: int, uses: Sequence[_Use], produced: bool, name: str) -> LogicalTensor:
    data_type = _agreed(uses, "dtype", lambda t: t.data_type, None)
    layout = _agreed(uses, "layout_type", lambda t: t.layout_type, LayoutType.undef)
    property_type = _agreed(uses, "property_type", lambda t: t.property_type, PropertyType.undef)
    shape = _agreed_shape(uses)
    strides: tuple[int, ...] | None = None
    # "undef" is what the library writes before it knows strides, and compiling takes no such tensor.
    if layout in (LayoutType.undef, LayoutType.strided):
        layout = LayoutType.strided
        strides = _agreed_strides(uses, produced)
        if strides == written_shape(shape, None, layout)[1]:
            strides = None
    with _told(uses[0].place):
        return LogicalTensor(
            number,
            cast("DataType", data_type),
            shape,
            layout_type=cast("LayoutType", layout),
            strides=strides,
            property_type=cast("PropertyType", property_type),
            name=name,
        )


def _op(record: OpRecord, place: Place, tensors: Mapping[int, LogicalTensor]) -> Op:
    with _told(place.key("kind")):
        schema, names = REGISTRY.resolve(record.kind)
    spelled = {names.spell(spec.name) for spec in schema.attributes}
    values: dict[str, AttributeValue] = {}
    for name, attribute in record.attributes.items():
        if name in (*RESERVED, "self"):
            # As a keyword of Op it would be another parameter.
            raise AttributeValueError(
                f"{place.key('attrs').key(name)}: {record.kind} has no attribute {format_value(name)}; leave it out"
            )
        if name in spelled or name not in PARTITIONING_ATTRIBUTES:
            values[name] = attribute.value
    with _told(place):
        return Op(
            record.id,
            record.kind,
            [tensors[t.id] for t in record.inputs],
            [tensors[t.id] for t in record.outputs],
            name=record.name,
            **values,
        )


def to_graph(document: Document, weights: Weights | None = None) -> Graph:
    """The graph of a document, not finalized, with its outputs marked.

    All descriptions of a tensor become one: a size that one leaves open comes from another, and so does a layout
    or property type `undef`. Strides are the producer's, and None where they are row-major or unknown.
    Ids in `output_ports` that no op produces are stale and mean nothing. Where there are none, what is not listed is no
    output, also if no op reads it.

    Args:
        weights: constants, names, and the order of inputs and outputs, where they are known.

    Raises:
        GraphFileError: two descriptions of a tensor contradict each other, or the document breaks a rule of the format.
        UnknownOpError, AttributeValueError, AttributeTypeError, PortError, DataTypeError, ShapeError, LayoutError,
        GraphError, ArgumentError, ArgumentTypeError: what `LogicalTensor`, `Op` and `Graph.add_op` raise, with
            the file and the JSON path in front.
    """
    document = checked(document)
    tensors = _logical_tensors(document, {} if weights is None else weights.names)
    graph = Graph(fpmath_mode=document.fpmath_mode)
    if weights is not None:
        with _told(Place(weights.source)):
            for tensor in weights.inputs:
                graph.add_input(tensors.get(tensor.id, tensor))
            for tensor, array in weights.constants:
                graph.add_constant(tensors.get(tensor.id, tensor), array)
            for tensor, array in weights.parameters:
                graph.add_parameter(tensors.get(tensor.id, tensor), array)
    for i, record in enumerate(document.ops):
        place = Place(document.source, f"graph[{i}]")
        op = _op(record, place, tensors)
        with _told(place):
            graph.add_op(op)
    if weights is not None:
        with _told(Place(weights.source)):
            for parameter, value in weights.assigned:
                graph.assign(graph.tensor(parameter), graph.tensor(value))
            for name, number in weights.outputs:
                graph.output(graph.tensor(number), name=name)
    produced = {tensor.id for op in graph.ops for tensor in op.outputs}
    listed = dict.fromkeys(document.output_ports or ())
    if weights is None:
        for number in listed:
            if number in produced:
                graph.output(graph.tensor(number))
    if listed and produced.issuperset(listed):
        marked = {number for _, number in graph.marked_outputs}
        for tensor in graph.outputs:
            if tensor.id in produced and tensor.id not in marked and tensor.id not in listed:
                graph.drop_output(tensor)
    return graph


# --- graph to document ----------------------------------------------------------------------------------


def _record(tensor: LogicalTensor) -> TensorRecord:
    shape, strides = written_shape(tensor.shape, tensor.strides, tensor.layout_type)
    return TensorRecord(
        id=tensor.id,
        data_type=tensor.data_type,
        shape=shape,
        strides=strides,
        layout_type=tensor.layout_type,
        property_type=tensor.property_type,
    )


def from_graph(graph: Graph) -> Document:
    """The document of a graph, as far as shapes are inferred.

    Raises:
        ArgumentTypeError: no Graph.
        GraphFileError: an op that belongs to this process, since it speaks to others.
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"a Graph is needed, got {format_value(graph)} of type {type(graph).__name__}"
        )
    bound = next((op for op in graph.ops if "communicator" in op.attributes), None)
    if bound is not None:
        raise GraphFileError(
            f"{bound} speaks to other processes through a communicator of this one, and can't be written; save the "
            "graph as it was before it was given to training in several processes"
        )
    produced = {t.id for op in graph.ops for t in op.outputs}
    ops: list[OpRecord] = []
    for op in graph.ops:
        types = {spec.name: spec.type for spec in op.schema.attributes}
        ops.append(
            OpRecord(
                id=op.id,
                name=op.name,
                kind=op.names.kind,
                attributes={
                    op.names.spell(name): AttributeRecord(types[name], value)
                    for name, value in op.attributes.items()
                },
                inputs=tuple(_record(graph.tensor(t.id)) for t in op.inputs),
                outputs=tuple(_record(graph.tensor(t.id)) for t in op.outputs),
            )
        )
    return Document(
        engine_kind=graph.engine_kind,
        fpmath_mode=graph.fpmath_mode,
        apply_to_int=False,
        ops=tuple(ops),
        # As the library means it: what ops read and none makes, and what they make for the user.
        input_ports=tuple(dict.fromkeys(t.id for op in graph.ops for t in op.inputs if t.id not in produced)),
        output_ports=tuple(t.id for t in graph.outputs if t.id in produced),
        source="<graph>",
    )


# --- both steps at once ---------------------------------------------------------------------------------


def read_graph(
    path: str | os.PathLike[str] | None = None, *, text: str | None = None, weights: bool | None = None
) -> Graph:
    """The graph in a file or a text, not finalized; see `load`, `loads` and `to_graph`.

    Args:
        path, text: one of them.
        weights: whether to take constants and names from the file beside it; None takes them where there is one.

    Raises:
        ArgumentTypeError: both or none are given, or the wrong type.
        GraphFileError and others: see `load`, `loads` and `to_graph`.
    """
    if path is not None and text is not None:
        raise ArgumentTypeError("read_graph takes a path or a text, got both; leave one out")
    if path is not None:
        document = load(path)
        beside = weights_path(path)
        wanted = beside.exists() if weights is None else weights
        return to_graph(document, read_weights(beside, document) if wanted else None)
    if text is not None:
        return to_graph(loads(text))
    raise ArgumentTypeError("read_graph takes a path or a text, got neither; give one")


def write_graph(graph: Graph) -> str:
    """The graph as text in oneDNN Graph's JSON format.

    Lost is what the format has no place for: names of tensors and of outputs, the content of constants, opaque layouts'
    ids, inputs that no op reads, and inputs and constants that are outputs.

    Raises:
        GraphFileError: a name that the format can't hold, or more ops than `MAX_OPS`.
        ArgumentTypeError: no Graph.
    """
    return dumps(from_graph(graph))


def save_graph(graph: Graph, path: str | os.PathLike[str], *, weights: bool | None = None) -> None:
    """Writes the graph to a file, and with `weights` what it lacks there to a second one; see `Graph.save`.

    Raises:
        FileAccessError: a file can't be written. GraphFileError: see `write_graph`.
        ArgumentTypeError: no Graph or no path.
        UnsupportedError: the package safetensors is not installed.
    """
    document = from_graph(graph)
    text = dumps(document)
    file_name(path)  # what is no path is refused before anything is written
    beside = weights_path(path)
    if weights:
        save_weights(graph, document, beside)
    save_text(text, path)
    held = len(graph.constant_tensors) + len(graph.parameter_tensors)
    if weights is None and held:
        warnings.warn(
            f"{file_name(path)} is without the {counted(held, 'array')} of the graph's constants and parameters, which "
            "will be inputs of the graph that is loaded; save(path, weights=True) keeps them, weights=False says that "
            "they are to be left out",
            WeightsLeftOutWarning,
            stacklevel=3,
        )
    if weights:
        shutil.copymode(path, beside)  # the package lets nobody but the user read it
