"""Eager execution: one op, arrays in and arrays out, compiled once for each signature."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from ...ops.attributes import canonical_attributes
from ...ops.data_types import DataType
from ...ops.errors import ArgumentTypeError, PortError, UnsupportedError
from ...ops.registry import REGISTRY
from ...ops.schema import RESERVED, counts_allowed
from ...ops.values import integer, listed
from ..compile.backend import BACKENDS
from ..compile.compiled_partition import CompiledPartition
from ..graph import Graph
from ..model.builder import schema_output_types, unpacked
from ..model.logical_tensor import LogicalTensor, may_overlap, row_major
from ..model.op import Op
from ..runtime.arrays import Array, data_type_of
from ..runtime.caching import BoundedCache
from ..runtime.engine import Engine, check_engine, default_engine
from ..runtime.tensor import plain_array

LOGGER = logging.getLogger(__name__)
MAX_EAGER = 64
"""Compiled ops that an engine keeps for eager calls."""


def run_op(
    kind: str,
    inputs: Sequence[object],
    attributes: Mapping[str, object],
    *,
    out: object = None,
    outputs: int | None = None,
    output_type: DataType | str | None = None,
    backend: str | None = None,
    engine: Engine | None = None,
) -> Any:
    """Runs one op.

    Args:
        kind: a registered kind or legacy name.
        inputs: arrays in port order; None for an optional one. A plain sequence for an input that is
            also an attribute (`weights_shape`) is taken as the attribute. An op of any number of inputs
            takes them one after another or as one list.
        attributes: under the names that the kind has; None values are left out.
        out: array for the output, or a sequence of them for several outputs.
        outputs: how many outputs to compute; as the attributes say if None.
        output_type: data type of outputs whose type the inputs leave open.
        backend: name of the only backend to use.
        engine: where to run.

    Returns:
        The output array, or a tuple of arrays for several outputs.

    Raises:
        OneDNNGraphError: a subclass that says which argument breaks which rule.
    """
    engine = default_engine() if engine is None else engine
    check_engine(engine)
    engine.check_open()
    schema, names = REGISTRY.resolve(kind)
    if not isinstance(inputs, list | tuple) or not isinstance(attributes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"{kind}: inputs must be a list of arrays and attributes a mapping from names to values, got "
            f"{type(inputs).__name__} and {type(attributes).__name__}"
        )
    if backend is not None and not isinstance(backend, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        BACKENDS.get(backend)  # says what is wrong with it
    inputs = unpacked(schema, inputs)
    given = {name: value for name, value in attributes.items() if value is not None}
    own = {names.spell(spec.name) for spec in schema.attributes}
    most = max(counts_allowed(schema.inputs, schema.input_counts))
    if len(inputs) > most:
        spelled = ", ".join(names.spell(p.name) for p in schema.inputs)
        raise PortError(f"{kind}: too many inputs; it takes {most} ({spelled}), got {len(inputs)}")
    arrays: list[Array] = []
    missing: str | None = None
    for port, value in zip(schema.input_ports(len(inputs)), inputs, strict=True):
        name = names.spell(port.name)
        if value is None:
            missing = missing or name
            continue
        if port.shape_operand and name in own:
            # The value is known now, so it can be the attribute, and the op is compiled for it at once.
            given[name] = _sizes(value, f"{kind}: '{name}'")
            continue
        if missing is not None:
            raise PortError(
                f"{kind}: input '{missing}' is missing, got None, but '{name}' after it is given; give both"
            )
        array = plain_array(value, f"{kind}: input '{name}'")
        arrays.append(array)
    # The schema's identity is in the key, for a user's op may be registered anew under its old name.
    frozen = tuple((name, _frozen(value)) for name, value in given.items())
    shapes = tuple((a.shape, a.strides, a.dtype) for a in arrays)
    key = (id(schema), kind, shapes, frozen, backend, _frozen(outputs), _frozen(output_type))
    cache: BoundedCache[Hashable, CompiledPartition] = engine.resource(
        "eager", lambda: BoundedCache(MAX_EAGER)
    )
    if LOGGER.isEnabledFor(logging.DEBUG):
        LOGGER.debug("%s: %s", kind, "kept from an equal call" if key in cache else "compiled for this call")
    compiled = cache.get(key, lambda: _compile(kind, arrays, given, backend, engine, outputs, output_type))
    single = len(compiled.outputs) == 1
    results = compiled.execute(None, arrays, cast("Any", [out] if single and out is not None else out))
    return results[0] if single else results


def _sizes(value: object, what: str) -> object:
    """A weights shape given as an array becomes a list; anything else is checked as an attribute."""
    if isinstance(value, list | tuple) or not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        return cast("object", value)
    array = plain_array(value, what)
    return array.tolist()


def _described(array: Array, position: int, what: str) -> LogicalTensor:
    """A logical tensor for the array where it lies; row-major where execution will copy it anyway."""
    size = array.itemsize
    dense = row_major(array.shape)
    # The stride of an axis of one element means nothing, and may be anything.
    strides: tuple[int, ...] | None = tuple(
        step // size if dim > 1 else plain
        for step, dim, plain in zip(array.strides, array.shape, dense, strict=True)
    )
    if (
        any(
            dim > 1 and (step < 0 or step % size)
            for step, dim in zip(array.strides, array.shape, strict=True)
        )
        or 0 in array.shape
        or strides == dense
        or may_overlap(array.shape, strides)
    ):
        strides = None
    return LogicalTensor(position, data_type_of(array, what), array.shape, strides=strides)


_SCALARS = (int, str, float, bool)


def _frozen(value: Any) -> Hashable:
    """A hashable stand-in for an attribute's value, so that equal calls find the same compiled op.

    What can change in place, such as an array or a tensor, is taken by its content. What no attribute can
    have is never kept, for it does not compile.
    """
    kind = cast("type[object]", type(value))
    if kind in _SCALARS:
        return value if kind is int else (kind, value)
    items = cast("Sequence[object]", value) if kind is list or kind is tuple else listed(value)
    if items is not None:
        return ("sequence", *[_frozen(item) for item in items])
    number = integer(value)
    if number is not None:
        return number
    if hasattr(value, "dtype"):
        return repr(value)
    return (kind, value) if isinstance(value, Hashable) else repr(value)


def _compile(
    kind: str,
    arrays: Sequence[Array],
    attributes: Mapping[str, object],
    backend: str | None,
    engine: Engine,
    count: int | None,
    output_type: DataType | str | None,
) -> CompiledPartition:
    schema, names = REGISTRY.resolve(kind)
    for name in attributes:
        if not isinstance(name, str) or name in RESERVED:  # pyright: ignore[reportUnnecessaryIsInstance]
            canonical_attributes(schema.attributes, attributes, kind, names.spell)  # refuses it as unknown
    tensors = [
        _described(array, position, f"{kind}: input '{names.spell(port.name)}'")
        for position, (port, array) in enumerate(zip(schema.input_ports(len(arrays)), arrays, strict=True))
    ]
    types = schema_output_types(schema, names, tensors, attributes, count, output_type)
    outputs = [LogicalTensor(len(tensors) + i, data_type) for i, data_type in enumerate(types)]
    graph = Graph()
    graph.add_op(Op(0, kind, tensors, outputs, name="", **attributes))
    graph.finalize()
    partitions = graph.get_partitions(backend=backend)
    if len(partitions) != 1:
        raise UnsupportedError(f"{kind}: one op became {len(partitions)} partitions")
    return partitions[0].compile(engine=engine)
