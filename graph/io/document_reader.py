"""From the text of oneDNN Graph's JSON files to documents, safe on hostile ones."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import NoReturn, cast

from ...ops.attributes import S64_MAX, S64_MIN, AttributeType
from ...ops.data_types import DataType, E
from ...ops.errors import ArgumentTypeError, GraphFileError, nearest
from ...ops.records import frozen
from ...ops.schema import UNKNOWN_DIM
from ...ops.values import format_value
from ..model.fpmath import FpmathMode
from ..model.logical_tensor import MAX_NDIMS, LayoutType, PropertyType
from ..runtime.kinds_of_files import JSON, told
from ..runtime.text_files import file_error, file_name, is_text, reason_of
from .document import (
    ENGINE_KINDS,
    MAX_ATTRIBUTES,
    MAX_FILE_BYTES,
    MAX_MARKS,
    MAX_OPS,
    MAX_PORTS,
    MAX_STRING,
    MAX_TENSORS,
    MAX_VALUES,
    AttributeRecord,
    Document,
    Interface,
    OpRecord,
    OutputRecord,
    T,
    TensorRecord,
)


@frozen
class _LongInteger:
    """An integer of more digits than 64 bits have, which Python would convert slowly or not at all."""

    text: str

    def __repr__(self) -> str:
        return f"an integer of {len(self.text.lstrip('-'))} digits"


class _Repeated(dict[str, object]):
    """An object in which `key` occurs twice; where it stands is known only later."""

    def __init__(self, values: dict[str, object], key: str) -> None:
        super().__init__(values)
        self.key = key


def _parse_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Repeated(values, key)
        seen.add(key)
    return values


def _parse_integer(text: str) -> object:
    if text == "-0":  # what the library writes for the float
        return -0.0
    return int(text) if len(text) <= len(str(S64_MIN)) else _LongInteger(text)


def _shown(value: object) -> str:
    """A JSON value for a message, at a cost that does not grow with it."""
    if isinstance(value, dict):
        return f"an object of {len(cast('dict[object, object]', value))} keys"
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if len(items) <= 8 and all(isinstance(item, int | float) for item in items):
            return format_value(list(items))
        return f"a list of {len(items)} values"
    if isinstance(value, str):
        return format_value(value[:MAX_STRING])
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return format_value(value)


class Place:
    """Where in which file, for messages; the path is put together only when there is one to write."""

    __slots__ = ("_parent", "_step", "source")

    def __init__(self, source: str, step: str | int = "", parent: Place | None = None) -> None:
        self.source = source
        self._step = step
        self._parent = parent

    @property
    def path(self) -> str:
        """Such as `graph[3].inputs[0]`; empty for the whole document."""
        if self._parent is None:
            return str(self._step)
        if isinstance(self._step, int):
            return f"{self._parent.path}[{self._step}]"
        plain = self._step.isidentifier() and len(self._step) < 100
        return (self._parent.path + (f".{self._step}" if plain else f"[{_shown(self._step)}]")).removeprefix(
            "."
        )

    def __str__(self) -> str:
        return f"{self.source}: {self.path}" if self.path else self.source

    def key(self, name: str) -> Place:
        """The value of a key of this object."""
        return Place(self.source, name, self)

    def item(self, index: int) -> Place:
        """An element of this list."""
        return Place(self.source, index, self)

    def fail(self, rule: str, value: object) -> NoReturn:
        """Raises what is wrong with `value` here."""
        raise GraphFileError(
            f"{self if self.path else f'{self.source}: the document'} {rule}, got {_shown(value)}"
        )


def _object_at(
    place: Place, value: object, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, object]:
    values = _any_object_at(place, value)
    known = (*required, *optional)
    for key in values:
        if key not in known:
            place.fail(
                f"must have the keys {', '.join(known)} and no others{nearest(key[:MAX_STRING], known)}", key
            )
    for key in required:
        if key not in values:
            place.fail(f"must have the key '{key}'", value)
    return values


def _any_object_at(place: Place, value: object) -> dict[str, object]:
    if isinstance(value, _Repeated):
        place.fail("must have each key once; leave one of them out", value.key)
    if not isinstance(value, dict):
        place.fail("must be an object", value)
    return cast("dict[str, object]", value)


def _list_at(place: Place, value: object, most: int) -> list[object]:
    if not isinstance(value, list):
        place.fail("must be a list", value)
    items = cast("list[object]", value)
    if len(items) > most:
        place.fail(f"must have at most {most} elements", items)
    return items


_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Not str.isprintable(), which also forbids what people do write, such as ideographic spaces.


def _string_at(place: Place, value: object) -> str:
    if not isinstance(value, str):
        place.fail("must be a string", value)
    if len(value) > MAX_STRING:
        raise GraphFileError(f"{place} must have at most {MAX_STRING} characters, got {len(value)}")
    if not (value.isascii() and value.isprintable()) and _UNWRITABLE.search(value):
        place.fail("must be text without control characters and lone surrogates", value)
    return value


def _choice_at(place: Place, value: object, enum: type[E]) -> E:
    text = _string_at(place, value)
    try:
        return enum(text)
    except ValueError:
        names = [member.value for member in enum]
    return place.fail(f"must be one of {', '.join(names)}{nearest(text, names)}", text)


def _integer_at(place: Place, value: object, least: int = S64_MIN, most: int = S64_MAX) -> int:
    if type(value) is int and least <= value <= most:
        return value
    whole = isinstance(value, _LongInteger) or type(value) is int
    return place.fail(f"must be between {least} and {most}" if whole else "must be an integer", value)


def _id_at(place: Place, value: object) -> int:
    return _integer_at(place, value, 0, 2**64 - 1)


def _real_at(place: Place, value: object) -> float:
    if isinstance(value, _LongInteger):
        value = float(value.text)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        place.fail("must be a number", value)
    return float(value)


def _flag_at(place: Place, value: object) -> bool:
    if value not in (0, 1) or isinstance(value, float):
        place.fail("must be 0 or 1", value)
    return bool(value)


def _integers_at(place: Place, value: object, most: int) -> tuple[int, ...]:
    items = _list_at(place, value, most)
    if all(type(item) is int and S64_MIN <= item <= S64_MAX for item in items):
        return tuple(cast("list[int]", items))
    return tuple(_integer_at(place.item(i), item) for i, item in enumerate(items))


def _dims_at(place: Place, value: object, what: str) -> tuple[int, ...]:
    """Sizes or strides: not negative, or one of the two words for unknown."""
    dims = _integers_at(place, value, MAX_NDIMS)
    for i, dim in enumerate(dims):
        if dim < 0 and dim not in (UNKNOWN_DIM, S64_MIN):
            place.item(i).fail(
                f"must be a {what} of 0 or more, or {UNKNOWN_DIM} or {S64_MIN} for unknown", dim
            )
    return dims


def _tensor_at(place: Place, value: object) -> TensorRecord:
    keys = ("id", "dtype", "shape", "stride", "layout_type", "property_type")
    values = _object_at(place, value, keys)
    shape = _dims_at(place.key("shape"), values["shape"], "size")
    strides = _dims_at(place.key("stride"), values["stride"], "stride")
    if len(strides) != len(shape) and not (len(strides) == 1 and strides[0] < 0):
        place.key("stride").fail(
            f"must have one value for each of the {len(shape)} axes of the shape, or be [{S64_MIN}] for unknown",
            strides,
        )
    return TensorRecord(
        id=_id_at(place.key("id"), values["id"]),
        data_type=_choice_at(place.key("dtype"), values["dtype"], DataType),
        shape=shape,
        strides=strides,
        layout_type=_choice_at(place.key("layout_type"), values["layout_type"], LayoutType),
        property_type=_choice_at(place.key("property_type"), values["property_type"], PropertyType),
    )


def _scalar_at(kind: AttributeType, place: Place, value: object) -> int | float | bool | str:
    match kind:
        case AttributeType.bool:
            return _flag_at(place, value)
        case AttributeType.string:
            return _string_at(place, value)
        case AttributeType.s64:
            return _integer_at(place, value)
        case _:
            return _real_at(place, value)


def _attribute_at(place: Place, value: object) -> AttributeRecord:
    values = _object_at(place, value, ("type", "value"))
    kind = _choice_at(place.key("type"), values["type"], AttributeType)
    at = place.key("value")
    if kind is AttributeType.s64_list:
        return AttributeRecord(kind, _integers_at(at, values["value"], MAX_VALUES))
    if kind is AttributeType.f32_list:
        items = _list_at(at, values["value"], MAX_VALUES)
        return AttributeRecord(kind, tuple(_real_at(at.item(i), item) for i, item in enumerate(items)))
    return AttributeRecord(kind, _scalar_at(kind, at, values["value"]))


def _attributes_at(place: Place, value: object) -> dict[str, AttributeRecord]:
    values = _any_object_at(place, value)
    if len(values) > MAX_ATTRIBUTES:
        raise GraphFileError(f"{place} must have at most {MAX_ATTRIBUTES} attributes, got {len(values)}")
    return {
        _string_at(place.key(name), name): _attribute_at(place.key(name), attribute)
        for name, attribute in values.items()
    }


def _op_at(place: Place, value: object) -> OpRecord:
    values = _object_at(place, value, ("id", "name", "kind", "inputs", "outputs"), ("attrs",))
    sides = {
        side: tuple(
            _tensor_at(place.key(side).item(i), tensor)
            for i, tensor in enumerate(_list_at(place.key(side), values[side], MAX_PORTS))
        )
        for side in ("inputs", "outputs")
    }
    return OpRecord(
        id=_id_at(place.key("id"), values["id"]),
        name=_string_at(place.key("name"), values["name"]),
        kind=_string_at(place.key("kind"), values["kind"]),
        attributes=_attributes_at(place.key("attrs"), values.get("attrs", {})),
        inputs=sides["inputs"],
        outputs=sides["outputs"],
        attributes_written="attrs" in values,
    )


def _ports_at(place: Place, value: object) -> tuple[int, ...]:
    items = _list_at(place, value, MAX_TENSORS)
    return tuple(_id_at(place.item(i), item) for i, item in enumerate(items))


def _ops_at(place: Place, value: object) -> tuple[OpRecord, ...]:
    ops: list[OpRecord] = []
    ids: dict[int, int] = {}
    tensors = 0
    for i, item in enumerate(_list_at(place, value, MAX_OPS)):
        op = _op_at(place.item(i), item)
        first = ids.setdefault(op.id, i)
        if first != i:
            place.item(i).key("id").fail(
                f"must be unlike the id of every other op, {place.path}[{first}]'s too", op.id
            )
        tensors += len(op.inputs) + len(op.outputs)
        if tensors > MAX_TENSORS:
            raise GraphFileError(
                f"{place.item(i)} must not be the op with which a file has more than {MAX_TENSORS} inputs and "
                f"outputs, got {tensors}; split the graph"
            )
        ops.append(op)
    return tuple(ops)


def _name_at(place: Place, value: object) -> str:
    """The name of a tensor: any that a graph can have and a file can hold, for only this module reads it."""
    if not isinstance(value, str):
        place.fail("must be a string", value)
    if len(value) > MAX_STRING:
        raise GraphFileError(f"{place} must have at most {MAX_STRING} characters, got {len(value)}")
    if not is_text(value):
        place.fail("must be text without lone surrogates", value)
    return value


def _interface_at(place: Place, value: object) -> Interface:
    values = _object_at(place, value, ("names", "inputs", "outputs"))
    lists = {key: _list_at(place.key(key), values[key], MAX_TENSORS) for key in values}
    names: dict[int, str] = {}
    for i, item in enumerate(lists["names"]):
        at = place.key("names").item(i)
        named = _object_at(at, item, ("id", "name"))
        number = _id_at(at.key("id"), named["id"])
        if number in names:
            at.key("id").fail("must be unlike all others in this list", number)
        names[number] = _name_at(at.key("name"), named["name"])
    inputs = tuple(_tensor_at(place.key("inputs").item(i), item) for i, item in enumerate(lists["inputs"]))
    seen: set[int] = set()
    for i, tensor in enumerate(inputs):
        if tensor.id in seen:
            place.key("inputs").item(i).key("id").fail("must be unlike all others in this list", tensor.id)
        seen.add(tensor.id)
    outputs: list[OutputRecord] = []
    for i, item in enumerate(lists["outputs"]):
        at = place.key("outputs").item(i)
        output = _object_at(at, item, ("id",), ("name",))
        name = _name_at(at.key("name"), output["name"]) if "name" in output else None
        outputs.append(OutputRecord(_id_at(at.key("id"), output["id"]), name))
    return Interface(names=names, inputs=inputs, outputs=tuple(outputs))


def document_at(place: Place, value: object) -> Document:
    """The document that parsed JSON describes; `place` is where in the file it stands."""
    keys = ("version", "engine_kind", "fpmath_mode", "graph")
    values = _object_at(
        place,
        value,
        keys,
        ("fpmath_mode_apply_to_int", "input_ports", "output_ports", "interface", "weights_id"),
    )

    def optional(key: str, read: Callable[[Place, object], T]) -> T | None:
        return read(place.key(key), values[key]) if key in values else None

    engine_kind = _string_at(place.key("engine_kind"), values["engine_kind"])
    if engine_kind not in ENGINE_KINDS:
        place.key("engine_kind").fail(f"must be one of {', '.join(ENGINE_KINDS)}", engine_kind)
    return Document(
        version=_string_at(place.key("version"), values["version"]),
        engine_kind=engine_kind,
        fpmath_mode=_choice_at(place.key("fpmath_mode"), values["fpmath_mode"], FpmathMode),
        apply_to_int=optional("fpmath_mode_apply_to_int", _word_at),
        ops=_ops_at(place.key("graph"), values["graph"]),
        input_ports=optional("input_ports", _ports_at),
        output_ports=optional("output_ports", _ports_at),
        interface=optional("interface", _interface_at),
        weights_id=optional("weights_id", _string_at),
        source=place.source,
    )


def _word_at(place: Place, value: object) -> bool:
    if value not in ("true", "false"):
        place.fail("must be the string 'true' or 'false'", value)
    return value == "true"


def check_size(text: str, source: str) -> None:
    """Whether a text is small enough to be read, which is known before anything is made of it.

    Raises:
        GraphFileError: it has more bytes or more values than any graph needs.
    """
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    marks = 0 if size > MAX_FILE_BYTES else sum(map(text.count, ",[{"))
    for most, number, what in ((MAX_FILE_BYTES, size, "bytes"), (MAX_MARKS, marks, "commas and brackets")):
        if number > most:
            raise GraphFileError(
                f"{source}: must have at most {most} {what}, got {number}; split the graph, or let it hold long lists "
                "of numbers as constants"
            )


def parsed(text: str, source: str) -> object:
    """The JSON value of a text, as `document_at` takes it.

    Raises:
        GraphFileError: no JSON, or more of it than any graph needs.
        ArgumentTypeError: no string.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"a graph's JSON text must be a string, got a value of type {type(text).__name__}"
        )
    check_size(text, source)
    try:
        return json.loads(text, object_pairs_hook=_parse_object, parse_int=_parse_integer)
    except json.JSONDecodeError as error:
        raise GraphFileError(
            f"{source}: line {error.lineno}, column {error.colno}: must be JSON, but there: {error.msg}"
        ) from error
    except RecursionError:
        raise GraphFileError(f"{source}: lists and objects are nested too deeply; no graph is") from None


def loads(text: str, *, source: str = "<text>") -> Document:
    """The document that a text holds.

    Args:
        text: JSON as the library writes it.
        source: how messages name it.

    Raises:
        GraphFileError: no JSON, no graph, or beyond one of this module's limits; the message has the JSON path, the
            rule and the value.
        ArgumentTypeError: no string.
    """
    return document_at(Place(source), parsed(text, source))


def load(path: str | os.PathLike[str]) -> Document:
    """The document that a file holds; see `loads`.

    Raises:
        GraphFileError: the file can't be read, is larger than `MAX_FILE_BYTES` or no UTF-8, or see `loads`.
        ArgumentTypeError: no path.
    """
    name = file_name(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        other = told(path) if isinstance(error, IsADirectoryError) else ""
        raise file_error(f"{name}: can't be read: {other or reason_of(error)}", error) from error
    try:
        return read_bytes(data, name)
    except GraphFileError as error:
        other = told(path, JSON)
        if not other:
            raise
        raise GraphFileError(f"{name}: can't be read: {other}") from error


def read_bytes(data: bytes, source: str) -> Document:
    """The document that the content of a file holds; see `load`."""
    if len(data) > MAX_FILE_BYTES:
        raise GraphFileError(
            f"{source}: must have at most {MAX_FILE_BYTES} bytes, got more; split the graph, or let it hold long "
            "lists of numbers as constants"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphFileError(
            f"{source}: must be UTF-8, got byte {data[error.start]:#x} at {error.start}"
        ) from error
    return loads(text, source=source)
