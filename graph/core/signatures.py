"""What the function and the builder's method of an op are called, what they take, and what they say of it.

Python sees it in objects that are made at first use, type checkers in stubs that `generate.py` writes.
"""

from __future__ import annotations

import functools
import keyword
import re
import textwrap
from collections.abc import Callable
from inspect import Parameter, Signature
from types import FunctionType

from attrs import field

from ...ops.attributes import AttributeSpec, AttributeType, OneOf
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.schema import ANY, CUSTOM, OpNames, OpSchema, counts_allowed
from ..model.builder import snake_case

WIDTH = 92
"""Of a docstring's lines."""
SHOWN_COUNTS = 5
"""Numbers of outputs that a docstring lists one by one."""
MARKS = ("End", "Wildcard")
"""Kinds that mark places in a graph and compute nothing, so that a function on arrays makes no sense."""

_MANY = " One after another, or one list of them."
"""How inputs are given that an op takes any number of."""

_TYPES = {
    AttributeType.s64: "int",
    AttributeType.s64_list: "Sequence[int]",
    AttributeType.f32: "float",
    AttributeType.f32_list: "Sequence[float]",
    AttributeType.bool: "bool",
    AttributeType.string: "str",
}


@frozen
class Form:
    """One of the two forms in which an op is called.

    Attributes:
        given, made: annotations of an input and of an output.
        options: what is taken beside inputs and attributes: name → (annotation, documentation).
        receiver: the parameter that comes before the inputs.
    """

    given: str
    made: str
    options: dict[str, tuple[str, str]]
    receiver: str | None = None


EAGER = Form(
    "ArrayLike",
    "Array",
    {
        "out": ("Any", "array to write the result to; allocated if None."),
        "backend": ("str | None", "name of the only backend to use, or None for the best one."),
        "engine": ("Engine | None", "where to run; the default engine if None."),
    },
)
"""A function of arrays."""
BUILDER = Form(
    "LogicalTensor",
    "LogicalTensor",
    {"name": ("str | None", "of the op and its output; made from the kind if None.")},
    receiver="self",
)
"""A method of `Graph`."""


def attribute_names(schema: OpSchema, names: OpNames) -> list[str]:
    """The attributes in this spelling, required ones first."""
    return [names.spell(spec.name) for spec in _in_order(schema)]


def options(schema: OpSchema, names: OpNames, form: Form) -> dict[str, tuple[str, str]]:
    """What is taken beside inputs and attributes: name → (annotation, documentation).

    A user's op may have a port or an attribute of such a name; that goes first, and the option is left out.
    """
    own = {names.spell(item.name) for item in (*schema.inputs, *schema.attributes)}
    return {name: what for name, what in (_of_outputs(schema) | form.options).items() if name not in own}


def signature(schema: OpSchema, names: OpNames, form: Form) -> Signature:
    """Inputs, which may be given by position; attributes, required ones first; options. Annotations are text."""
    parameters: list[Parameter] = []
    shared = {spec.name for spec in schema.attributes}
    for p in schema.inputs:
        kind = form.given
        if form is BUILDER:
            kind += " | Sequence[int]" if p.name in shared else ""
            kind += f" | Sequence[{kind}]" if p.repeat > 1 else ""
        many = Parameter.VAR_POSITIONAL if p.repeat > 1 else Parameter.POSITIONAL_OR_KEYWORD
        given = p.required or p.repeat > 1
        name = names.spell(p.name)
        if keyword.iskeyword(name) or name == form.receiver:  # a user's op may have such a port
            name += "_"
        parameters.append(
            Parameter(name, many, annotation=kind)
            if given
            else Parameter(name, many, annotation=f"{kind} | None", default=None)
        )
    ports = {p.name for p in schema.inputs}
    keywords = {
        names.spell(spec.name): (_attribute_type(spec), spec.required)
        for spec in _in_order(schema)
        if spec.name not in ports and not keyword.iskeyword(names.spell(spec.name))
    }
    keywords |= {name: (kind, False) for name, (kind, _) in options(schema, names, form).items()}
    parameters += [
        Parameter(
            name, Parameter.KEYWORD_ONLY, annotation=kind, default=Parameter.empty if required else None
        )
        for name, (kind, required) in keywords.items()
    ]
    if form.receiver is not None:
        parameters.insert(0, Parameter(form.receiver, Parameter.POSITIONAL_OR_KEYWORD))
    return Signature(parameters, return_annotation=_returns(schema, form.made))


def documentation(schema: OpSchema, names: OpNames, form: Form) -> str:
    """The docstring, in this spelling."""

    def entry(name: str, text: str) -> str:
        spelled = re.sub(r"\b\w+\b", lambda word: names.spell(word.group()), text)
        return textwrap.fill(f"{name}: {spelled}", WIDTH, initial_indent="    ", subsequent_indent="        ")

    def shaped(text: str, types: tuple[str, ...]) -> str:
        return f"{text} {' or '.join(types)}."

    ports = {p.name for p in schema.inputs}
    arguments = [
        entry(
            names.spell(p.name),
            shaped(p.doc, tuple(t.value for t in schema.types[p.type])) + (_MANY if p.repeat > 1 else ""),
        )
        for p in schema.inputs
    ]
    for spec in schema.attributes:
        if spec.name in ports and form is EAGER:
            continue
        default = "" if spec.required or spec.default is None else f" Default {spec.default!r}."
        arguments.append(entry(names.spell(spec.name), spec.doc + default))
    arguments += [entry(name, text) for name, (_, text) in options(schema, names, form).items()]
    parts = [schema.summary, "", *_formula(schema), "Args:", *arguments]
    if schema.outputs:
        parts += ["", "Returns:"]
        parts += [entry(names.spell(p.name), p.doc) for p in schema.outputs]
    parts += [
        "",
        "Raises:",
        entry("OneDNNGraphError", "a subclass that says which argument breaks which rule."),
    ]
    if schema.notes:
        parts += ["", "Notes:"] + [
            textwrap.fill(note, WIDTH, initial_indent="    ", subsequent_indent="    ")
            for note in schema.notes
        ]
    if schema.source:
        parts += ["", textwrap.fill(f"Source: {schema.source}.", WIDTH)]
    return "\n".join(parts)


@frozen
class ByName:
    """What `make` makes of each op, at first use, under its kind and legacy names in snake case.

    Attributes:
        make: from an op and a spelling of it to a function.
        left_out: kinds that have none.
    """

    make: Callable[[str, OpSchema, OpNames], FunctionType]
    left_out: tuple[str, ...] = ()
    _made: dict[str, tuple[OpSchema, OpNames, FunctionType]] = field(
        init=False, factory=dict[str, tuple[OpSchema, OpNames, FunctionType]]
    )

    def get(self, name: str) -> FunctionType | None:
        """The function of that name, or None. A user's op has one for as long as it is registered."""
        schema, names, function = self._made.get(name, (None, None, None))
        if names is not None and names.kind in REGISTRY and REGISTRY.resolve(names.kind)[0] is schema:
            return function
        found = None if name.startswith("_") else self._spelled().get(name)
        if found is None:
            return None
        function = self.make(name, *found)
        self._made[name] = (*found, function)
        return function

    def names(self, *, built_in: bool = False) -> list[str]:
        """All names, or those of the ops of oneDNN Graph's set."""
        return sorted(
            name for name, (schema, _) in self._spelled().items() if not (built_in and is_users(schema))
        )

    def _spelled(self) -> dict[str, tuple[OpSchema, OpNames]]:
        """A user's `Relu` and the built-in `ReLU` are both `relu`, which is the built-in one then."""
        return {
            _snake_case(names.kind): (schema, names)
            for schema in sorted(REGISTRY, key=is_users, reverse=True)
            if schema.kind not in self.left_out
            for names in (*reversed(schema.aliases), OpNames(schema.kind))
        }


_snake_case = functools.cache(snake_case)


def is_users(schema: OpSchema) -> bool:
    """Whether it is an op of a user's own."""
    return schema.family == CUSTOM


def describe(
    function: Callable[..., object], name: str, schema: OpSchema, names: OpNames, form: Form
) -> FunctionType:
    """Gives a function, which takes anything, the names, the docstring and the signature of an op."""
    assert isinstance(function, FunctionType)
    taken = signature(schema, names, form)
    function.__name__ = name
    function.__qualname__ = name if form is EAGER else f"Graph.{name}"
    function.__module__ = "onednn_graph" if form is EAGER else "onednn_graph.graph.graph"
    function.__doc__ = documentation(schema, names, form)
    function.__annotations__ = {
        p.name: p.annotation for p in taken.parameters.values() if p.annotation is not Parameter.empty
    } | {"return": taken.return_annotation}
    function.__dict__["__signature__"] = taken
    return function


def _in_order(schema: OpSchema) -> list[AttributeSpec]:
    return sorted(schema.attributes, key=lambda spec: not spec.required)


def _attribute_type(spec: AttributeSpec) -> str:
    annotation = _TYPES[spec.type]
    if isinstance(spec.rule, OneOf):
        annotation = f"Literal[{', '.join(repr(v) for v in spec.rule.values)}]".replace("'", '"')
        if spec.rule.any_case:
            annotation += " | str"
    return annotation if spec.required else f"{annotation} | None"


def _formula(schema: OpSchema) -> list[str]:
    """The formula, an equation a line."""
    if not schema.formula:
        return []
    lines = [textwrap.fill(part, WIDTH) for part in schema.formula.split("; ")]
    return [";\n".join(lines), ""]


def _of_outputs(schema: OpSchema) -> dict[str, tuple[str, str]]:
    """Options for what the inputs leave open of the outputs: name → (annotation, documentation)."""
    parameters: dict[str, tuple[str, str]] = {}
    allowed = counts_allowed(schema.outputs, schema.output_counts)
    if len(allowed) > 1:
        names = (
            ", ".join(map(str, allowed))
            if len(allowed) <= SHOWN_COUNTS
            else f"{min(allowed)} to {max(allowed)}"
        )
        parameters["outputs"] = ("int | None", f"how many outputs: {names}; as the attributes say if None.")
    bound = {p.type for p in schema.inputs if p.type != ANY}
    free = next(
        (p for p in schema.outputs if p.type not in {*bound, ANY} and len(schema.types[p.type]) > 1), None
    )
    if free is not None:
        names = ", ".join(f'"{d.value}"' for d in schema.types[free.type])
        parameters["output_type"] = (
            f"DataType | Literal[{names}] | None",
            f"data type of {free.name}; that of the first input if None and allowed.",
        )
    return parameters


def _returns(schema: OpSchema, one: str) -> str:
    """The annotation of what comes back."""
    allowed = counts_allowed(schema.outputs, schema.output_counts)
    if len(allowed) > SHOWN_COUNTS:
        return "Any"
    kinds = {n: one if n == 1 else f"tuple[{', '.join([one] * n) or '()'}]" for n in allowed}
    made = schema.outputs_made
    if len(kinds) == 1:
        return next(iter(kinds.values()))
    # Without `outputs` it is as the attributes say; where they can't say anything it is one type.
    return kinds[min(allowed)] if made is None else "Any"
