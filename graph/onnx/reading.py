"""ONNX models as they are read: from paths, bytes and protos, with their functions put in place and weights decoded."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

import numpy as np
from attrs import field

from ...ops.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ...ops.records import frozen
from ...ops.values import format_value, one_line
from ..importing.translation import FAILURES, Unmapped, check_room
from ..runtime.arrays import Array
from ..runtime.kinds_of_files import ONNX, TEXT, kind_of, told
from ..runtime.libraries import library
from ..runtime.parameter import Parameter
from ..runtime.text_files import file_error
from .checks import Forms, check_structure, check_texts, invalid
from .contrib.table import check_layouts
from .functions import graphs_in, inlined
from .known import NEWEST_OPSET
from .older import OLDEST_OPSET, converted
from .ordering import tidied
from .protos import captured
from .types import STRING, numpy_type_of
from .weights import light_and_large

DEFAULT_DOMAINS = ("", "ai.onnx")
EXTERNAL = 1
"""`TensorProto.EXTERNAL`, the data location of what lies in a file of its own."""


@frozen(eq=False)
class Model:
    """A model as it was read, for as many imports as there are sets of input sizes.

    Attributes:
        onnx: the package.
        proto: the ModelProto.
        opset: the version of the op set.
        constants: initializers and Constant nodes, decoded once, so that all imports share them.
        fold_limit: bytes that a constant which is computed at import may take.
        reference: whether what has no translation is run by ONNX's reference.
        plain: whether nodes are translated one by one, without looking for what several say together.
        trained: initializers that are parameters of the graph; None where nothing is trained.
        parameters: those that imports have made, for the next one.
        kept: constants that imports have made of weights, such as those of 4 bits, for the next import.
        branches: constants inside of branches that were decided at an import, for the next one.
    """

    onnx: Any
    proto: Any
    opset: int
    constants: Mapping[str, Array]
    fold_limit: int
    reference: bool = True
    plain: bool = False
    trained: frozenset[str] | None = None
    parameters: dict[str, Parameter] = field(factory=dict[str, Parameter])
    kept: dict[str, Array] = field(factory=dict[str, Array])
    branches: dict[str, Mapping[str, Array]] = field(factory=dict[str, Mapping[str, Array]])

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[object, ...]]:
        """Packages are imported where it is unpickled, and each weight is in there once, decoded."""
        proto = self.onnx.ModelProto()
        proto.CopyFrom(self.proto)
        light = _without_weights(self.onnx, proto)
        more = (self.fold_limit, self.reference, self.plain)
        return _model_from, (light.SerializeToString(), self.opset, dict(self.constants), *more)


def _model_from(proto: bytes, opset: int, constants: Mapping[str, Array], *more: Any) -> Model:
    """The model of a pickle."""
    onnx = library("onnx", "onnx", "a pickle of a model from ONNX")
    return Model(onnx, onnx.ModelProto.FromString(proto), opset, constants, *more)


def read_model(model: object, fold_limit: int, *, reference: bool = True) -> Model:
    """The model, checked as far as that goes without looking at what its ops do.

    Raises:
        ArgumentError, ArgumentTypeError: it can't be read, or breaks ONNX's rules.
        UnsupportedError: it can be read, but not imported.
    """
    onnx = library("onnx", "onnx", "from_onnx")
    proto, large = _loaded(onnx, model)
    named = (proto.graph.input, proto.graph.output, proto.graph.initializer)
    check_texts([value.name for values in named for value in values], _nodes(proto))
    _check_versions(proto)
    opset = _opset(onnx, proto)
    proto = tidied(onnx, _in_default_domain(onnx, proto))
    forms = Forms()
    for holder in (proto, *proto.functions):
        versions = {o.domain: o.version for o in holder.opset_import}
        for graph in graphs_in(getattr(holder, "graph", holder)):
            forms.check(graph, versions)
    if opset < OLDEST_OPSET:
        proto, opset = converted(onnx, _with_weights(proto, large), opset), OLDEST_OPSET
        large = {}
    if proto.functions:
        proto = inlined(onnx, proto)
    check_structure(proto.graph)
    constants = constants_of(onnx, proto.graph, fold_limit, large)
    check_layouts(proto)
    if not isinstance(model, onnx.ModelProto):
        proto = _without_weights(onnx, proto)
    return Model(onnx, proto, opset, constants, fold_limit, reference)


def _check_versions(proto: Any) -> None:
    for holder in (proto, *proto.functions):
        for entry in holder.opset_import:
            if not 0 <= entry.version < 1 << 31:
                raise invalid(
                    f"it imports version {entry.version} of the op set {format_value(entry.domain)}"
                )


def _opset(onnx: Any, proto: Any) -> int:
    versions = {o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS}
    if len(versions) > 1:
        raise invalid(f"it imports the versions {sorted(versions)} of ONNX's op set, and can only have one")
    own = any(node.domain in DEFAULT_DOMAINS for node in _nodes(proto))
    opset = next(iter(versions), 0 if own else NEWEST_OPSET)
    if opset < 1:
        raise invalid("it has nodes of ONNX's own op set, and does not say of which version")
    newest = max(NEWEST_OPSET, onnx.defs.onnx_opset_version())
    if opset > newest:
        raise UnsupportedError(
            f"from_onnx takes models of opset {newest} at most with this version of the package onnx, got {opset}; "
            "install a newer onnx, or convert the model with onnx.version_converter"
        )
    return opset


def _in_default_domain(onnx: Any, proto: Any) -> Any:
    """The same model with nothing in the domain `ai.onnx`, which is another name of ONNX's own one.

    The user's proto is copied before it is changed.
    """
    alias = DEFAULT_DOMAINS[1]
    nodes = [node for node in _nodes(proto) if node.domain == alias]
    if not nodes and all(o.domain != alias for o in proto.opset_import):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in _nodes(copy):
        if node.domain == alias:
            node.domain = ""
    for function in copy.functions:
        _one_import(function)
    _one_import(copy)
    return copy


def _one_import(holder: Any) -> None:
    """Leaves one import of ONNX's op set, under its shortest name."""
    versions = [o.version for o in holder.opset_import if o.domain in DEFAULT_DOMAINS]
    others = [(o.domain, o.version) for o in holder.opset_import if o.domain not in DEFAULT_DOMAINS]
    del holder.opset_import[:]
    for domain, version in [*(("", version) for version in versions[:1]), *others]:
        holder.opset_import.add(domain=domain, version=version)


# --- nodes and tensors, wherever they are ----------------------------------------------------------------


def _all_graphs(proto: Any) -> Iterator[Any]:
    for holder in (proto.graph, *proto.functions):
        yield from graphs_in(holder)


def _nodes(proto: Any) -> Iterator[Any]:
    for graph in _all_graphs(proto):
        yield from graph.node


def _tensors(proto: Any) -> Iterator[Any]:
    """Every TensorProto of a model: initializers, and those in attributes."""
    for graph in _all_graphs(proto):
        yield from getattr(graph, "initializer", ())
        sparse = list(getattr(graph, "sparse_initializer", ()))
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                sparse += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
                sparse += attribute.sparse_tensors
        for one in sparse:
            yield one.values
            yield one.indices


def alive_in(graph: Any, found: Mapping[str, Any]) -> set[str]:
    """Names that the outputs of a graph depend on.

    Args:
        found: patterns, by the name of what they make.
    """
    producers = {name: node for node in graph.node for name in node.output if name}
    alive: set[str] = set()
    waiting = [output.name for output in graph.output]
    while waiting:
        name = waiting.pop()
        if name in alive:
            continue
        alive.add(name)
        if name in found:
            waiting.append(found[name].source)
        elif name in producers:
            waiting += [source for source in producers[name].input if source]
            waiting += captured(producers[name])
    return alive


# --- files -----------------------------------------------------------------------------------------------


def _loaded(onnx: Any, model: Any) -> tuple[Any, dict[str, Array]]:
    """The ModelProto of a path, bytes, or itself, and those of its weights that are not in it."""
    what, more = "the ModelProto", ""
    path: str | None = None
    content: bytes | None = None
    read = None
    if isinstance(model, str | os.PathLike):
        path = os.fsdecode(cast("str | os.PathLike[str]", model))
        what, read = format_value(path), lambda: _by_path(onnx, path)
        if path.endswith(".json"):
            more = "; a oneDNN Graph file is read by Graph.load"
    elif isinstance(model, bytes | bytearray | memoryview):
        content = given = bytes(cast("bytes", model))
        what, read = "what the bytes hold", lambda: (onnx.load_from_string(given), dict[str, Array]())
    elif not isinstance(model, onnx.ModelProto):
        raise ArgumentTypeError(
            f"from_onnx takes a path, bytes or an onnx.ModelProto, got {format_value(model)} of "
            f"type {type(model).__name__}"
        )
    try:
        proto, large = (cast("Any", model), {}) if read is None else read()
    except OSError as error:
        reason = error.strerror or one_line(error)
        if isinstance(error, IsADirectoryError) and path is not None:
            raise file_error(f"from_onnx can't read {what}: {told(path)}", error) from error
        raise file_error(f"from_onnx can't read {what}: {reason}", error) from error
    except Exception as error:  # each format of files has errors of its own
        other = _another(path, content)
        reason = f": {other}" if other else f" ({one_line(error)}){more}"
        raise ArgumentError(f"from_onnx: {what} is no ONNX model{reason}") from error
    if not proto.HasField("graph"):
        other = _another(path, content)
        reason = f": {other}" if other else f"; it holds no graph{more}"
        raise ArgumentError(f"from_onnx: {what} is no ONNX model{reason}")
    _read_external(onnx, proto, what, None if path is None else Path(path).parent)
    return proto, large


def _another(path: str | None, content: bytes | None) -> str:
    """What a file or its content is, that is no model; empty where it is not known."""
    if path is not None:
        if path.endswith(".json"):
            return ""
        # Models are written as texts too, of which the package's own error says more.
        return told(path, ONNX) if path.endswith(".onnx") else told(path, ONNX, TEXT)
    kind = None if content is None else kind_of(content)
    return "" if kind is None else f"it is {kind.what}; {kind.way}"


def _by_path(onnx: Any, path: str) -> tuple[Any, dict[str, Array]]:
    """The ModelProto of a file, and those of its weights that are read apart."""
    found = light_and_large(path, onnx) if path.endswith(".onnx") else None
    return (onnx.load(path, load_external_data=False), {}) if found is None else found


def _with_weights(proto: Any, large: Mapping[str, Array]) -> Any:
    """The same with the weights that were read apart."""
    for tensor in proto.graph.initializer:
        if tensor.name in large:
            tensor.raw_data = large[tensor.name].tobytes()
    return proto


def _read_external(onnx: Any, proto: Any, what: str, folder: Path | None) -> None:
    """Reads the tensors that lie in files of their own, which stand beside the model's.

    Raises:
        ArgumentError: there is no folder to read them from, or they name files that are not in it.
    """
    helper = library("onnx.external_data_helper", "onnx", "from_onnx")
    for tensor in _tensors(proto):
        if tensor.data_location != EXTERNAL:
            continue
        if folder is None:
            raise ArgumentError(
                f"from_onnx can't read the weights of {what}: tensor {tensor.name!r} lies in the file "
                f"{format_value(_location(tensor))}, and without a path of the model nothing says in which folder; "
                "give the model's path, or load it by onnx.load, which reads them"
            )
        _check_location(tensor, _location(tensor), what, folder)
        try:
            helper.load_external_data_for_tensor(tensor, os.fspath(folder))
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise file_error(f"from_onnx can't read the weights of {what}: {reason}", error) from error
        except Exception as error:  # the checker's own, and what its Python code raises
            raise ArgumentError(f"from_onnx can't read the weights of {what} ({one_line(error)})") from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _location(tensor: Any) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _check_location(tensor: Any, location: str, what: str, folder: Path) -> None:
    """Checks that a tensor's data lie in an ordinary file of the model's folder, or below it."""
    start = (
        f"from_onnx can't read the weights of {what}: tensor {tensor.name!r} names the file "
        f"{format_value(location)}, "
    )
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    anchored = PurePosixPath(location).is_absolute() or bool(PureWindowsPath(location).anchor)
    if not location or "\0" in location or anchored or ".." in parts:
        raise ArgumentError(
            f"{start}which must be a path inside the model's folder; write it anew by onnx.save"
        )
    place = folder
    for part in PurePosixPath(location).parts:
        place = place / part
        try:
            mode = place.lstat().st_mode
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise file_error(f"{start}which can't be read: {reason}", error) from error
        if stat.S_ISLNK(mode):
            raise ArgumentError(
                f"{start}and {format_value(str(place))} is a symbolic link; put the file itself there"
            )
    if not place.is_file():
        raise ArgumentError(f"{start}which is no ordinary file; put one there")


# --- weights ---------------------------------------------------------------------------------------------


def _without_weights(onnx: Any, proto: Any) -> Any:
    """The same model with nothing in its initializers but names, types and shapes, in memory of its own: that of the
    weights goes with the former one.
    """
    for tensor in proto.graph.initializer:
        name, data_type, shape = tensor.name, tensor.data_type, list(tensor.dims)
        tensor.Clear()
        tensor.name, tensor.data_type = name, data_type
        tensor.dims.extend(shape)
    return onnx.ModelProto.FromString(proto.SerializeToString())


def constants_of(
    onnx: Any, graph: Any, limit: int, large: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """What initializers and Constant nodes hold, by name.

    Args:
        limit: bytes that a sparse one may take as an array.
        large: initializers that were read apart.
    """
    return (
        _initializers(onnx, graph, large or {})
        | {one.values.name: _dense_initializer(onnx, one, limit) for one in graph.sparse_initializer}
        | _constant_nodes(onnx, graph.node, limit)
    )


def _initializers(onnx: Any, graph: Any, large: Mapping[str, Array]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for tensor in graph.initializer:
        try:
            known = large.get(tensor.name)
            found[tensor.name] = decoded(onnx, tensor) if known is None else known
        except Unmapped as error:
            raise UnsupportedError(f"from_onnx: initializer {tensor.name!r}: {error}") from error
        except Exception as error:  # too few bytes, negative sizes
            raise ArgumentError(
                f"from_onnx can't read initializer {tensor.name!r} ({one_line(error)})"
            ) from error
    return found


def _dense_initializer(onnx: Any, sparse: Any, limit: int) -> Array:
    name = sparse.values.name
    try:
        return _dense(onnx, sparse, limit)
    except Unmapped as error:
        raise UnsupportedError(f"from_onnx: sparse initializer {name!r}: {error}") from error
    except Exception as error:  # places that are none, and what `decoded` raises
        raise ArgumentError(
            f"from_onnx can't read sparse initializer {name!r} ({one_line(error)})"
        ) from error


def _dense(onnx: Any, sparse: Any, limit: int) -> Array:
    """The array that a SparseTensorProto stands for: zeros, but for the elements that it names.

    Raises:
        Unmapped: its type is none of NumPy's, or it would take more memory than it may.
        ValueError: places that are not in its shape, or not one for each of its values.
    """
    shape = list(sparse.dims)
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    values, places = decoded(onnx, sparse.values), decoded(onnx, sparse.indices)
    check_room(shape, values.dtype, limit)
    dense = np.zeros(shape, values.dtype)
    if places.ndim == 2 and places.shape == (values.size, len(shape)):
        if ((places < 0) | (places >= np.asarray(shape))).any():
            raise ValueError(f"it names places that are not in its shape {shape}")
        dense[tuple(places.T)] = values.reshape(-1)
    elif places.shape == (values.size,):
        if ((places < 0) | (places >= dense.size)).any():
            raise ValueError(f"it names places that are not in its shape {shape}")
        dense.reshape(-1)[places] = values.reshape(-1)
    else:
        raise ValueError(f"it has {values.size} values, and places of shape {list(places.shape)}")
    return dense


def decoded(onnx: Any, tensor: Any) -> Array:
    """The array in a TensorProto.

    Raises:
        Unmapped: its type is none of NumPy's.
        ValueError: it holds more or fewer elements than its shape says, and whatever the package onnx raises.
    """
    dtype = np.dtype(object) if tensor.data_type == STRING else numpy_type_of(tensor.data_type)
    if min(tensor.dims, default=0) < 0:
        raise ValueError(f"its shape is {list(tensor.dims)}")
    array = cast("Array", onnx.numpy_helper.to_array(tensor).astype(dtype, copy=False))
    if array.size != math.prod(tensor.dims):
        raise ValueError(f"it holds {array.size} elements for the shape {list(tensor.dims)}")
    return array


def _constant_nodes(onnx: Any, nodes: Sequence[Any], limit: int) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for node in nodes:
        if node.op_type == "Constant" and not node.domain and len(node.output) == 1:
            try:
                array = _constant(onnx, node, limit)
            except FAILURES:  # what needs it will say that it can't be computed
                continue
            if array is not None:
                found[node.output[0]] = array
    return found


def _constant(onnx: Any, node: Any, limit: int) -> Array | None:
    """The value of a Constant node; None for one that ONNX does not know."""
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return decoded(onnx, value)
        if attribute.name == "sparse_value":
            return _dense(onnx, value, limit)
        if attribute.name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if attribute.name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
        if attribute.name == "value_string":
            return np.asarray(value.decode(), object)
        if attribute.name == "value_strings":
            return np.asarray([one.decode() for one in value], object)
    return None
