"""What an op is: ports, attributes, type constraints, shape inference, and its legacy names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from attrs import Factory, field

from .attributes import Attributes, AttributeSpec, AttributeValue, canonical_value
from .data_types import DataType, parse_enum
from .errors import SchemaError, ShapeError, nearest
from .records import frozen
from .values import check_identifier, format_value, integer, listed

UNKNOWN_DIM = -1
"""A dimension whose size is not known yet."""

CUSTOM = "custom"
"""The family of users' own ops."""

ANY = "any"
"""The type constraint whose ports have a type each."""

RESERVED = ("id", "kind", "inputs", "outputs", "name", "output_type")
"""Names that no attribute can have: `Op` takes attributes as keywords beside these."""

Shape = tuple[int, ...] | None
"""A shape; `UNKNOWN_DIM` for an unknown size, None where not even the rank is known."""


def format_shape(shape: Shape) -> str:
    """`[8, ?, 3]`, or `unknown`."""
    if shape is None:
        return "unknown"
    return "[" + ", ".join("?" if d == UNKNOWN_DIM else str(d) for d in shape) + "]"


@frozen
class Port:
    """An input or output of an op.

    Attributes:
        name: oneDNN Graph's name.
        type: name of the type constraint in `OpSchema.types`.
        required: whether an op without it is an error. Optional ports come last.
        shape_operand: the *value* of the tensor, a 1-D integer tensor, takes part in shape inference;
            a graph in which it is known only at execution is compiled for each value then.
        index: the port whose elements the integers of this one count along some of its axes, from 0; empty where they
            count nothing. Data that is made up for the op must fit it.
        repeat: how many tensors in a row the port takes at most; above 1 for the last input or output only.
        doc: one sentence.
    """

    name: str
    type: str
    required: bool = field(default=True, kw_only=True)
    shape_operand: bool = field(default=False, kw_only=True)
    index: str = field(default="", kw_only=True)
    repeat: int = field(default=1, kw_only=True)
    doc: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_identifier(self.name, "a port's name", "src")
        if integer(self.repeat) is None or self.repeat < 1:
            raise SchemaError(
                f"port '{self.name}': repeat must be a positive integer, got {format_value(self.repeat)}"
            )
        check_identifier(self.type, f"the type constraint of port '{self.name}'", "T")
        for flag in ("required", "shape_operand"):
            if not isinstance(getattr(self, flag), bool):
                raise SchemaError(
                    f"port '{self.name}': {flag} must be True or False, got {format_value(getattr(self, flag))}"
                )


@frozen
class OpNames:
    """How one spelling of an op names itself, its attributes and its ports.

    Attributes:
        kind: the kind as written.
        renamed: schema name → the name under this spelling; a name that is not in it stays.
    """

    kind: str
    renamed: Mapping[str, str] = Factory(dict[str, str])

    def __attrs_post_init__(self) -> None:
        check_identifier(self.kind, "an op's kind", "MyOp")
        if not isinstance(self.renamed, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise SchemaError(
                f"alias '{self.kind}': renamed must be a mapping from names to names, got {format_value(self.renamed)}"
            )
        for name in (*self.renamed, *self.renamed.values()):
            check_identifier(name, f"alias '{self.kind}': a name in renamed", "src")

    def spell(self, name: str) -> str:
        """The name that this spelling has for the schema's `name`."""
        return self.renamed.get(name, name)


@frozen(kw_only=True)
class InferenceContext:
    """What shape inference sees of an op. Pure data: no arrays, no graph.

    Attributes:
        op: how messages name the op.
        names: the spelling that the user chose.
        attributes: canonical attributes.
        inputs: the shape of each connected input.
        outputs: the shape declared for each output.
        values: values of shape operands that are known, by the port's name in the schema.
    """

    op: str
    names: OpNames
    attributes: Attributes
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    values: Mapping[str, tuple[int, ...]] = Factory(dict[str, tuple[int, ...]])

    def error(self, message: str) -> ShapeError:
        """A `ShapeError` that begins with the op."""
        return ShapeError(f"{self.op}: {message}")


InferShapes = Callable[[InferenceContext], Sequence[Shape]]


@frozen(kw_only=True)
class BackwardOp:
    """An op of the set that computes gradients of another one, and what goes where.

    Attributes:
        kind: of that op.
        inputs: what its inputs are, in order: ports of the other op, or `diff_` and the name of one of its outputs for
            the gradient of that output. An optional port that is not connected is left out.
        outputs: the inputs of the other op that its outputs are the gradients by.
        attributes: values of attributes. What both ops have under one name is handed on.
        shapes: attribute → the port of the other op whose shape is its value.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = Factory(dict[str, AttributeValue])
    shapes: Mapping[str, str] = Factory(dict[str, str])


T = TypeVar("T")


def _checked(kind: type[T], values: object, what: str) -> tuple[T, ...]:
    items = listed(values)
    if items is None or not all(isinstance(item, kind) for item in items):
        raise SchemaError(f"{what} must be a sequence of {kind.__name__}, got {format_value(values)}")
    return cast("tuple[T, ...]", tuple(items))


def _inputs(ports: Sequence[Port]) -> tuple[Port, ...]:
    return _checked(Port, ports, "the inputs of an OpSchema")


def _outputs(ports: Sequence[Port]) -> tuple[Port, ...]:
    return _checked(Port, ports, "the outputs of an OpSchema")


def _attributes(specs: Sequence[AttributeSpec]) -> tuple[AttributeSpec, ...]:
    return _checked(AttributeSpec, specs, "the attributes of an OpSchema")


def _aliases(names: Sequence[OpNames]) -> tuple[OpNames, ...]:
    return _checked(OpNames, names, "the aliases of an OpSchema")


def _backward(ops: Sequence[BackwardOp]) -> tuple[BackwardOp, ...]:
    return _checked(BackwardOp, ops, "the backward ops of an OpSchema")


def _data_types(types: Mapping[str, Sequence[DataType | str]]) -> Mapping[str, tuple[DataType, ...]]:
    if not isinstance(types, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise SchemaError(
            "the types of an OpSchema must be a mapping from constraints to data types, as in "
            f"{{'T': ['f32']}}, got {format_value(types)}"
        )
    result: dict[str, tuple[DataType, ...]] = {}
    for constraint, allowed in types.items():
        check_identifier(constraint, "a type constraint", "T")
        if not listed(allowed):
            raise SchemaError(
                f"type constraint '{constraint}' must be a list of data types such as ['f32'], got "
                f"{format_value(allowed)}"
            )
        result[constraint] = tuple(
            parse_enum(DataType, d, f"a data type of constraint '{constraint}'") for d in allowed
        )
    return result


def shape_of_first_input(ctx: InferenceContext) -> tuple[Shape, ...]:
    """The shape rule of elementwise ops: the one output has the shape of the first input."""
    return (ctx.inputs[0],)


@frozen(kw_only=True)
class OpSchema:
    """One op of the set.

    Attributes:
        kind: oneDNN Graph's name of the op.
        summary: one sentence.
        formula: what it computes, in indices.
        inputs, outputs: ports in oneDNN Graph's order.
        attributes: specifications of the attributes.
        types: type constraint name → allowed data types. Ports of one constraint share one type, but for `ANY`.
        infer_shapes: from input shapes to output shapes; None where an input's shape decides nothing.
        input_counts, output_counts: how many inputs and outputs an op may have; None for any number between the
            required ports and all.
        outputs_made: from the attributes to the number of outputs that the builder makes; all required ones if None.
        aliases: legacy spellings of the op.
        backward: ops of the set that compute its gradients; `graph/gradients/` composes those of other ops.
        notes: further rules of the documents, a sentence each.
        source: the documents that the semantics come from.
        family: name of the module that holds the op in `ops/`, `backends/numpy/`, `backends/onednn/`.
        exact_on_integers: it adds and multiplies only, so that on small integers any order gives the same numbers.
        soon: it runs as soon as its inputs are there, before ops that were added earlier.
        pure: whether it does nothing but write its outputs, and the same for the same inputs. What does more, counts or
            speaks or draws, runs once in each execution, in the order in which such ops were added. A user's op is not
            taken for pure unless it says so.
        in_place: output → the input of the same type and shape in whose memory it may lie: the NumPy kernel has read
            what it needs of an element before it writes there.
    """

    kind: str
    summary: str
    inputs: tuple[Port, ...] = field(converter=_inputs)
    outputs: tuple[Port, ...] = field(converter=_outputs)
    infer_shapes: InferShapes
    types: Mapping[str, tuple[DataType, ...]] = field(converter=_data_types)
    attributes: tuple[AttributeSpec, ...] = field(default=(), converter=_attributes)
    input_counts: tuple[int, ...] | None = None
    output_counts: tuple[int, ...] | None = None
    outputs_made: Callable[[Attributes], int] | None = None
    aliases: tuple[OpNames, ...] = field(default=(), converter=_aliases)
    backward: tuple[BackwardOp, ...] = field(default=(), converter=_backward)
    formula: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""
    family: str = CUSTOM
    exact_on_integers: bool = False
    soon: bool = False
    pure: bool = Factory(lambda self: self.family != CUSTOM, takes_self=True)
    in_place: Mapping[str, str] = Factory(dict[str, str])

    def __attrs_post_init__(self) -> None:
        check_identifier(self.kind, "an op's kind", "MyOp")
        if not callable(self.infer_shapes):
            raise SchemaError(
                f"{self.kind}: infer_shapes must be a function of an InferenceContext, such as "
                f"shape_of_first_input, got {format_value(self.infer_shapes)}"
            )
        if not isinstance(self.pure, bool):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise SchemaError(f"{self.kind}: pure must be True or False, got {format_value(self.pure)}")
        ports = [p.name for p in (*self.inputs, *self.outputs)]
        attributes = [spec.name for spec in self.attributes]
        for what, names in (("port", ports), ("attribute", attributes)):
            for name in names:
                if names.count(name) > 1:
                    raise SchemaError(f"{self.kind}: {what} '{name}' is declared twice; rename one of them")
        for name in attributes:
            if name in RESERVED:
                raise SchemaError(
                    f"{self.kind}: attribute '{name}' has the name of a parameter of Op; rename it"
                )
        for alias in self.aliases:
            for name in alias.renamed:
                if name not in (*ports, *attributes):
                    raise SchemaError(
                        f"{self.kind}: alias '{alias.kind}' renames '{name}', which is no port or attribute "
                        f"of it{nearest(name, (*ports, *attributes))}"
                    )
        for port in (*self.inputs, *self.outputs):
            if port.type not in self.types:
                raise SchemaError(
                    f"{self.kind}: port '{port.name}' uses the type constraint '{port.type}', "
                    f"which is not among {sorted(self.types)}; add it to types"
                )
            if port.index not in (
                "",
                *(other.name for other in (*self.inputs, *self.outputs) if other != port),
            ):
                raise SchemaError(
                    f"{self.kind}: port '{port.name}' counts elements of {format_value(port.index)}, which is no other "
                    "port of it; name one"
                )
        for written, read in self.in_place.items():
            if written not in {p.name for p in self.outputs} or read not in {p.name for p in self.inputs}:
                raise SchemaError(
                    f"{self.kind}: in_place must map names of outputs to names of inputs, got "
                    f"{format_value(written)} → {format_value(read)}"
                )
        for spec in self.attributes:
            if spec.default is not None:
                canonical_value(spec, spec.default, f"{self.kind}: default", spec.name)
        for what, ports in (("input", self.inputs), ("output", self.outputs)):
            required = [p.required for p in ports]
            if required != sorted(required, reverse=True):
                raise SchemaError(f"{self.kind}: an optional {what} comes before a required one; put it last")
            if any(p.repeat > 1 for p in ports[:-1]):
                raise SchemaError(f"{self.kind}: an {what} that repeats must be the last one; put it last")

    def __repr__(self) -> str:
        ports = [", ".join(port.name for port in side) for side in (self.inputs, self.outputs)]
        return f"OpSchema({self.kind}: {ports[0] or 'nothing'} → {ports[1] or 'nothing'})"

    def names(self, written: str) -> OpNames:
        """The spelling `written`, which must be the kind or one of the aliases."""
        return next((alias for alias in self.aliases if alias.kind == written), OpNames(self.kind))

    def not_by_default(self, attributes: Mapping[str, object]) -> dict[str, object]:
        """Those of an op's attributes that are required or differ from their defaults, for texts."""
        defaults = {spec.name: spec.default for spec in self.attributes if not spec.required}
        return {
            name: value
            for name, value in attributes.items()
            if name not in defaults or value != defaults[name]
        }

    @property
    def legacy_names(self) -> dict[str, str]:
        """From the names that the legacy spellings have for attributes and ports to this schema's."""
        return {new: name for alias in self.aliases for name, new in alias.renamed.items()}

    def input_ports(self, count: int) -> tuple[Port, ...]:
        """The port of each of `count` inputs, with a repeating port as often as it is used."""
        return _ports(self.inputs, count)

    def output_ports(self, count: int) -> tuple[Port, ...]:
        """The port of each of `count` outputs."""
        return _ports(self.outputs, count)

    def output_types(
        self, inputs: Sequence[DataType], count: int, wanted: DataType | None = None
    ) -> tuple[DataType, ...]:
        """Data types of the first `count` outputs of an op on inputs of these types.

        A type that the inputs decide is theirs. Another one is `wanted`, else the first input's where it is allowed,
        else the first that is allowed.
        """
        bound = {
            port.type: data_type
            for port, data_type in zip(self.input_ports(len(inputs)), inputs, strict=True)
            if port.type != ANY
        }

        def choose(port: Port) -> DataType:
            allowed = self.types[port.type]
            if port.type in bound:
                return bound[port.type]
            return next((d for d in (wanted, *inputs[:1]) if d in allowed and d is not None), allowed[0])

        return tuple(map(choose, self.output_ports(count)))

    def outputs_of(self, attributes: Attributes) -> int:
        """How many outputs the builder makes for an op with these attributes."""
        if self.outputs_made is not None:
            return self.outputs_made(attributes)
        return sum(port.required for port in self.outputs)


def counts_allowed(ports: Sequence[Port], counts: Sequence[int] | None) -> tuple[int, ...] | range:
    """How many tensors an op may have on these ports."""
    if counts is not None:
        return tuple(counts)
    return range(sum(port.required for port in ports), sum(port.repeat for port in ports) + 1)


def _ports(ports: tuple[Port, ...], count: int) -> tuple[Port, ...]:
    if not ports:
        return ()
    return (*ports[:count], *[ports[-1]] * (count - len(ports)))
