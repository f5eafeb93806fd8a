"""oneDNN Graph's JSON files, in and out.

The format is what the library writes with `ONEDNN_GRAPH_DUMP=graph`, what benchdnn's `--driver=graph` reads and
what Netron draws. Between text and `Graph` lies `Document`, the file as it was written, for tools that rewrite
files before they build a graph, and for what a graph can't hold:

    text  ⇄ loads, dumps ⇄  Document  ⇄ graph_of, from_graph ⇄  Graph

Only a `Document` keeps `version`, `engine_kind`, `fpmath_mode_apply_to_int`, the layout `undef`, strides that differ
between the uses of one tensor, and attributes that the library adds to a partitioned graph. Names of tensors and the
order of inputs and outputs stand behind all that the library reads, as `Interface`. The content of constants is in
another file: `weights` is for that.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, cast

from attrs import evolve

from ...ops.attributes import AttributeValue
from ...ops.data_types import DataType
from ...ops.errors import (
    ArgumentTypeError,
    AttributeValueError,
    GraphFileError,
    OneDNNGraphError,
    WeightsLeftOutWarning,
)
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.schema import RESERVED, UNKNOWN_DIM, Shape
from ...ops.values import counted, format_value
from ..core.building import G, GraphCore
from ..model.logical_tensor import LayoutType, LogicalTensor, PropertyType
from ..model.op import Op
from ..runtime.callers import outside
from ..runtime.replacing import undisturbed
from ..runtime.text_files import file_name, save_text
from .document import (
    PARTITIONING_ATTRIBUTES,
    WITHOUT_WEIGHTS,
    AttributeRecord,
    Document,
    Interface,
    OpRecord,
    OutputRecord,
    T,
    TensorRecord,
    written_shape,
)
from .document_reader import Place, load, loads
from .document_writer import checked, dump, dumps
from .weights import SUFFIX, Weights, of_an_older_version, save_pair, weights_of, weights_path

__all__ = [
    "PARTITIONING_ATTRIBUTES",
    "AttributeRecord",
    "Document",
    "GraphFileError",
    "Interface",
    "OpRecord",
    "OutputRecord",
    "TensorRecord",
    "dump",
    "dumps",
    "from_graph",
    "graph_in_file",
    "graph_in_text",
    "graph_of",
    "load",
    "loads",
    "save_graph",
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


def _logical_tensors(
    document: Document, interface: Interface, names: Mapping[int, str]
) -> dict[int, LogicalTensor]:
    """One logical tensor for each id, of all that ops say of it, the producer first; else what the interface says."""
    uses: dict[int, list[_Use]] = {}
    produced: set[int] = set()
    for side in ("outputs", "inputs"):
        for i, op in enumerate(document.ops):
            place = Place(document.source, f"graph[{i}].{side}")
            for j, tensor in enumerate(op.outputs if side == "outputs" else op.inputs):
                uses.setdefault(tensor.id, []).append(_Use(place.item(j), tensor))
                if side == "outputs":
                    produced.add(tensor.id)
    place = Place(document.source, "interface.inputs")
    for i, tensor in enumerate(interface.inputs):
        uses.setdefault(tensor.id, [_Use(place.item(i), tensor)])
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


def graph_of(
    make: type[G], document: Document, weights: Weights | None = None, *, as_read: bool = False
) -> G:
    """The graph of a document, not finalized, with its outputs marked.

    All descriptions of a tensor become one: a size that one leaves open comes from another, and so does a layout
    or property type `undef`. Strides are the producer's, and None where they are row-major or unknown.
    Ids in `output_ports` that no op produces are stale and mean nothing. Where there are none, what is not listed is no
    output, also if no op reads it.

    Args:
        make: the class of the graph.
        weights: constants, names, and the order of inputs and outputs, where they are known; else the document's.
        as_read: whether the document comes from `load` or `loads` as it is, which have checked it.

    Raises:
        GraphFileError: two descriptions of a tensor contradict each other, or the document breaks a rule of the format.
        UnknownOpError, AttributeValueError, AttributeTypeError, PortError, DataTypeError, ShapeError, LayoutError,
        GraphError, ArgumentError, ArgumentTypeError: what `LogicalTensor`, `Op` and `Graph.add_op` raise, with
            the file and the JSON path in front.
    """
    document = document if as_read else checked(document)
    # The weights know all of it too, and types of layouts that the document can't tell apart.
    interface = Interface() if weights is not None or document.interface is None else document.interface
    tensors = _logical_tensors(document, interface, interface.names if weights is None else weights.names)
    graph = make(fpmath_mode=document.fpmath_mode)
    for i, record in enumerate(interface.inputs):
        with _told(Place(document.source, f"interface.inputs[{i}]")):
            graph.add_input(tensors[record.id])
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
    there = {tensor.id for tensor in graph.tensors}
    for i, output in enumerate(interface.outputs):
        with _told(Place(document.source, f"interface.outputs[{i}]")):
            if output.id in there:
                graph.output(graph.tensor(output.id), name=output.name)
    if weights is None and document.interface is None:
        for number in listed:
            if number in produced:
                graph.output(graph.tensor(number))
    if listed and produced.issuperset(listed):
        marked = {number for _, number in graph.marked_outputs}
        for tensor in graph.outputs:
            if tensor.id in produced and tensor.id not in marked and tensor.id not in listed:
                graph.drop_output(tensor)
    return graph


def ops_of(document: Document) -> tuple[Op, ...]:
    """The ops of a document in its order, on one description of each tensor; see `graph_of`, which checks more.

    Raises:
        GraphFileError and others: see `graph_of`.
    """
    interface = Interface() if document.interface is None else document.interface
    tensors = _logical_tensors(document, interface, interface.names)
    return tuple(
        _op(record, Place(document.source, f"graph[{i}]"), tensors) for i, record in enumerate(document.ops)
    )


def inputs_of(document: Document) -> tuple[LogicalTensor, ...]:
    """The inputs as the interface of a document describes them, whatever its ops say."""
    interface = Interface() if document.interface is None else document.interface
    place = Place(document.source, "interface.inputs")
    return tuple(
        _logical_tensor(record.id, [_Use(place.item(i), record)], False, interface.names.get(record.id, ""))
        for i, record in enumerate(interface.inputs)
    )


# --- graph to document ----------------------------------------------------------------------------------


def record_of(tensor: LogicalTensor) -> TensorRecord:
    """The description of a tensor as the format has it; names and ids of opaque layouts have no place there."""
    shape, strides = written_shape(tensor.shape, tensor.strides, tensor.layout_type)
    return TensorRecord(
        id=tensor.id,
        data_type=tensor.data_type,
        shape=shape,
        strides=strides,
        layout_type=tensor.layout_type,
        property_type=tensor.property_type,
    )


def records_of(ops: Sequence[Op]) -> tuple[OpRecord, ...]:
    """Ops as the format has them.

    Raises:
        GraphFileError: an op that belongs to this process, since it speaks to others.
    """
    bound = next((op for op in ops if "communicator" in op.attributes), None)
    if bound is not None:
        raise GraphFileError(
            f"{bound} speaks to other processes through a communicator of this one, and can't be written; save the "
            "graph as it was before it was given to training in several processes"
        )
    records: list[OpRecord] = []
    for op in ops:
        types = {spec.name: spec.type for spec in op.schema.attributes}
        records.append(
            OpRecord(
                id=op.id,
                name=op.name,
                kind=op.names.kind,
                attributes={
                    op.names.spell(name): AttributeRecord(types[name], value)
                    for name, value in op.attributes.items()
                },
                inputs=tuple(map(record_of, op.inputs)),
                outputs=tuple(map(record_of, op.outputs)),
            )
        )
    return tuple(records)


def _as_known(graph: GraphCore, op: Op) -> tuple[list[LogicalTensor], list[LogicalTensor]]:
    """The inputs and outputs of an op as far as their shapes are inferred."""
    return [graph.tensor(t.id) for t in op.inputs], [graph.tensor(t.id) for t in op.outputs]


def from_graph(graph: GraphCore) -> Document:
    """The document of a graph, as far as shapes are inferred.

    Raises:
        ArgumentTypeError: no Graph.
        GraphFileError: an op that belongs to this process, since it speaks to others.
    """
    if not isinstance(graph, GraphCore):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"a Graph is needed, got {format_value(graph)} of type {type(graph).__name__}"
        )
    produced = {t.id for op in graph.ops for t in op.outputs}
    read = tuple(dict.fromkeys(t.id for op in graph.ops for t in op.inputs if t.id not in produced))
    return Document(
        engine_kind=graph.engine_kind,
        fpmath_mode=graph.fpmath_mode,
        apply_to_int=False,
        ops=records_of([op.with_tensors(*_as_known(graph, op)) for op in graph.ops]),
        # As the library means it: what ops read and none makes, and what they make for the user.
        input_ports=read,
        output_ports=tuple(t.id for t in graph.outputs if t.id in produced),
        interface=_interface(graph, read, produced),
        source="<graph>",
    )


def _interface(graph: GraphCore, read: tuple[int, ...], produced: Collection[int]) -> Interface | None:
    """How the graph is called; None where a reader knows that without being told.

    A tensor whose content the graph holds becomes an input, behind the others, where the file is read without its
    weights; the interface says so where names or order depend on that.

    Args:
        read: tensors that ops read and none makes, by first use.
        produced: those that ops make.
    """
    returned = {number for _, number in graph.marked_outputs}
    held = [t for t in (*graph.constant_tensors, *graph.parameter_tensors) if t.id in {*read, *returned}]
    inputs = (*graph.inputs, *held)
    there = {*produced, *(t.id for t in inputs)}
    names = {t.id: t.name for t in sorted(graph.tensors, key=lambda t: t.id) if t.name and t.id in there}
    as_ports = all(name is None and number in produced for name, number in graph.marked_outputs)
    if not names and as_ports and tuple(t.id for t in inputs) == read:
        return None
    return Interface(
        names=names,
        inputs=tuple(map(record_of, inputs)),
        outputs=tuple(OutputRecord(number, name) for name, number in graph.marked_outputs),
    )


# --- both steps at once ---------------------------------------------------------------------------------


def graph_in_file(make: type[G], path: str | os.PathLike[str], *, weights: bool | None) -> G:
    """The graph in a file, not finalized; see `load` and `graph_of`.

    Args:
        make: the class of the graph.
        weights: whether to take constants and names from the file beside it; None takes them where there is one.

    Raises:
        GraphFileError and others: see `load` and `graph_of`.
    """
    file_name(path)
    with undisturbed(Path(path).parent, reading=True):
        document = load(path)
        held = None if weights is False else weights_of(document, path, weights)
    if held is None and weights is None and document.weights_id not in (None, WITHOUT_WEIGHTS):
        warnings.warn(
            f"{document.source} was saved with weights, and {file_name(weights_path(path))} is not there: what "
            "the graph held are inputs; put the file beside it, or load with weights=False",
            WeightsLeftOutWarning,
            stacklevel=outside(),
        )
    return graph_of(make, document, held, as_read=True)


def graph_in_text(make: type[G], text: str) -> G:
    """The graph in a text, likewise."""
    return graph_of(make, loads(text), as_read=True)


def write_graph(graph: GraphCore) -> str:
    """The graph as text in oneDNN Graph's JSON format.

    Lost is what the format has no place for: the content of constants, and opaque layouts' ids.

    Raises:
        GraphFileError: a name that the format can't hold, or more ops than `MAX_OPS`.
        ArgumentTypeError: no Graph.
    """
    return dumps(from_graph(graph))


def save_graph(graph: GraphCore, path: str | os.PathLike[str], *, weights: bool | None = None) -> None:
    """Writes the graph to a file, and with `weights` what it lacks there to a second one; see `Graph.save`.

    Raises:
        FileAccessError: a file can't be written. GraphFileError: see `write_graph`.
        ArgumentTypeError: no Graph or no path.
        UnsupportedError: the package safetensors is not installed.
    """
    name = file_name(path)
    if name.lower().endswith(SUFFIX):
        raise GraphFileError(
            f"{name}: a graph's file is JSON, and {SUFFIX} is of its weights; give it another name, such as "
            f"{name[: -len(SUFFIX)]}.json"
        )
    document = from_graph(graph)
    if weights:
        save_pair(graph, document, path)
        return
    if of_an_older_version(document, path) is not None:
        document = evolve(document, weights_id=WITHOUT_WEIGHTS)
    save_text(dumps(document), path)
    held = len(graph.constant_tensors) + len(graph.parameter_tensors)
    if weights is None and held:
        warnings.warn(
            f"{name} is without the {counted(held, 'array')} of the graph's constants and parameters, which "
            "will be inputs of the graph that is loaded; save(path, weights=True) keeps them, weights=False says that "
            "they are to be left out",
            WeightsLeftOutWarning,
            stacklevel=outside(),
        )
