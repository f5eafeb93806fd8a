"""Writes `signatures.py` and `generated.py` from the registry: typed calls that an editor completes.

    python -m onednn_graph.graph.functions.generate CHECKOUT

writes both. Run it after adding an op; a test compares the files with what this would write. The README's op table
comes from `onednn_graph.tools.op_table`. Legacy names get signatures in their own spelling.
"""

from __future__ import annotations

import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from ...ops.attributes import AttributeSpec, AttributeType, OneOf
from ...ops.registry import REGISTRY
from ...ops.schema import ANY, OpNames, OpSchema, counts_allowed
from ..model.builder import snake_case

WIDTH = 100
SHOWN_COUNTS = 5
"""Numbers of outputs that a docstring lists one by one."""

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


def spellings() -> Iterator[tuple[OpSchema, OpNames]]:
    """Every built-in op under its kind and its legacy names."""
    for schema in REGISTRY:
        if schema.family != "custom":
            yield schema, OpNames(schema.kind)
            for names in schema.aliases:
                yield schema, names


def _eager_spellings() -> Iterator[tuple[OpSchema, OpNames]]:
    """Those that compute something: End and Wildcard mark places in a graph."""
    for schema, names in spellings():
        if schema.outputs and schema.outputs[0].type != ANY:
            yield schema, names


def _attribute_type(spec: AttributeSpec) -> str:
    annotation = _TYPES[spec.type]
    if isinstance(spec.rule, OneOf):
        annotation = f"Literal[{', '.join(repr(v) for v in spec.rule.values)}]".replace("'", '"')
        if spec.rule.any_case:
            annotation += " | str"
    return annotation if spec.required else f"{annotation} | None"


def _attribute_parameters(schema: OpSchema, names: OpNames, leave_out: set[str]) -> list[str]:
    return [
        f"{names.spell(spec.name)}: {_attribute_type(spec)}{'' if spec.required else ' = None'},"
        for spec in sorted(schema.attributes, key=lambda spec: not spec.required)
        if spec.name not in leave_out
    ]


def _formula(schema: OpSchema) -> list[str]:
    """The formula, an equation a line."""
    if not schema.formula:
        return []
    lines = [textwrap.fill(part, WIDTH - 8) for part in schema.formula.split("; ")]
    return [";\n".join(lines), ""]


def _output_parameters(schema: OpSchema) -> dict[str, tuple[str, str]]:
    """Parameters for what the inputs leave open of the outputs: name → (annotation, documentation)."""
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


def _documentation(schema: OpSchema, names: OpNames, *, eager: bool) -> str:
    def entry(name: str, text: str) -> str:
        spelled = re.sub(r"\b\w+\b", lambda word: names.spell(word.group()), text)
        return textwrap.fill(
            f"{name}: {spelled}", WIDTH - 8, initial_indent="    ", subsequent_indent="        "
        )

    def shaped(text: str, types: tuple[str, ...]) -> str:
        return f"{text} {' or '.join(types)}."

    ports = {p.name: p for p in schema.inputs}
    parts = [schema.summary, "", *_formula(schema), "Args:"]
    parts += [
        entry(
            names.spell(p.name),
            shaped(p.doc, tuple(t.value for t in schema.types[p.type])) + (_MANY if p.repeat > 1 else ""),
        )
        for p in schema.inputs
    ]
    for spec in schema.attributes:
        if spec.name in ports and eager:
            continue
        default = "" if spec.required or spec.default is None else f" Default {spec.default!r}."
        parts.append(entry(names.spell(spec.name), spec.doc + default))
    parts += [entry(name, text) for name, (_, text) in _output_parameters(schema).items()]
    if eager:
        parts.append(entry("out", "array to write the result to; allocated if None."))
        parts.append(entry("backend", "name of the only backend to use, or None for the best one."))
        parts.append(entry("engine", "where to run; the default engine if None."))
    else:
        parts.append(entry("name", "of the op and its output; made from the kind if None."))
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
            textwrap.fill(note, WIDTH - 8, initial_indent="    ", subsequent_indent="    ")
            for note in schema.notes
        ]
    parts += ["", textwrap.fill(f"Source: {schema.source}.", WIDTH - 8)]
    return "\n".join(parts)


def _docstring(text: str, indent: str) -> str:
    body = textwrap.indent(text, indent).lstrip()
    return f'{indent}"""{body}\n{indent}"""'


_HEADER = '"""{title} Written by `generate.py` from the registry; do not edit."""\n\n'


def signatures() -> str:
    """The text of `signatures.py`: `Graph.op` with an overload for each op."""
    lines = [
        _HEADER.format(title="Typed overloads of `Graph.op`."),
        "from __future__ import annotations\n\n",
        "from abc import ABC, abstractmethod\nfrom collections.abc import Sequence\n",
        "from typing import Any, Literal, overload\n\n",
        "from ...ops.data_types import DataType\n",
        "from ..model.builder import split_arguments\nfrom ..model.logical_tensor import LogicalTensor\n\n\n",
        "class OpSignatures(ABC):\n",
        '    """The builder\'s `op`, typed for every op of the set."""\n\n',
        "    @abstractmethod\n    def _build(\n        self,\n        kind: str,\n",
        "        inputs: Sequence[LogicalTensor],\n        attributes: dict[str, object],\n",
        "        name: str | None,\n        outputs: int | None,\n",
        "        output_type: DataType | str | None,\n    ) -> tuple[LogicalTensor, ...]: ...\n\n",
    ]
    for schema, names in spellings():
        returns = _returns(schema, "LogicalTensor")
        shared = {p.name for p in schema.inputs}
        parameters = [f'kind: Literal["{names.kind}"],']
        for p in schema.inputs:
            both = any(spec.name == p.name for spec in schema.attributes)
            kind = "LogicalTensor" + (" | Sequence[int]" if both else "")
            if p.repeat > 1:
                parameters.append(f"*{names.spell(p.name)}: {kind} | Sequence[{kind}],")
            else:
                parameters.append(f"{names.spell(p.name)}: {kind}{'' if p.required else ' | None = None'},")
        parameters += [
            *(["*,"] if not any(p.repeat > 1 for p in schema.inputs) else []),
            *_attribute_parameters(schema, names, shared),
            *[
                f"{name}: {annotation} = None,"
                for name, (annotation, _) in _output_parameters(schema).items()
            ],
            "name: str | None = None,",
        ]
        lines.append("    @overload\n    def op(\n        self,\n")
        lines += [f"        {p}\n" for p in parameters]
        lines.append(f"    ) -> {returns}:\n")
        lines.append(_docstring(_documentation(schema, names, eager=False), "        "))
        lines.append("\n        ...\n\n")
    extra = (
        "        name: str | None = None,\n        outputs: int | None = None,\n"
        "        output_type: DataType | str | None = None,\n        **attributes: Any,\n    ) -> Any:\n"
    )
    lines.append(
        "    @overload\n    def op(\n        self,\n        kind: str,\n        *inputs: LogicalTensor | None,\n"
        + extra
        + '        """Any registered op, a user\'s own for example."""\n        ...\n\n'
        "    def op(\n        self,\n        kind: str,\n        *inputs: Any,\n"
        + extra
        + '        """Adds an op on logical tensors and returns its output, or a tuple of them."""\n'
        "        tensors, given = split_arguments(kind, inputs, attributes)\n"
        "        made = self._build(kind, tensors, given, name, outputs, output_type)\n"
        "        return made[0] if len(made) == 1 else made\n"
    )
    return "".join(lines)


def functions() -> str:
    """The text of `generated.py`: one eager function for each op."""
    kinds = sorted(snake_case(names.kind) for _, names in _eager_spellings())
    lines = [
        _HEADER.format(title="One function for each op: arrays in, array out."),
        "from __future__ import annotations\n\n",
        "from collections.abc import Sequence\nfrom typing import Any, Literal\n\n",
        "from numpy.typing import ArrayLike\n\n",
        "from ...ops.data_types import DataType\n",
        "from ..runtime.arrays import Array\nfrom ..runtime.engine import Engine\nfrom .eager import run_op\n\n",
        "__all__ = [\n",
        *[f'    "{kind}",\n' for kind in kinds],
        "]\n",
    ]
    for schema, names in _eager_spellings():
        returns = _returns(schema, "Array")
        shared = {p.name for p in schema.inputs}
        extra = _output_parameters(schema)
        parameters = [
            f"*{names.spell(p.name)}: ArrayLike,"
            if p.repeat > 1
            else f"{names.spell(p.name)}: ArrayLike{'' if p.required else ' | None = None'},"
            for p in schema.inputs
        ]
        parameters += [
            *(["*,"] if not any(p.repeat > 1 for p in schema.inputs) else []),
            *_attribute_parameters(schema, names, shared),
            *[f"{name}: {annotation} = None," for name, (annotation, _) in extra.items()],
            "out: Any = None,",
            "backend: str | None = None,",
            "engine: Engine | None = None,",
        ]
        lines.append(f"\n\ndef {snake_case(names.kind)}(\n")
        lines += [f"    {p}\n" for p in parameters]
        lines.append(f") -> {returns}:\n")
        lines.append(_docstring(_documentation(schema, names, eager=True), "    ") + "\n")
        ports = ", ".join(("*" if p.repeat > 1 else "") + names.spell(p.name) for p in schema.inputs)
        comma = "," if len(schema.inputs) == 1 else ""
        lines.append(f'    return run_op(\n        "{names.kind}",\n        ({ports}{comma}),\n')
        entries: list[str] = []
        for spec in schema.attributes:
            if spec.name not in shared:
                spelled = names.spell(spec.name)
                if keyword.iskeyword(spelled):
                    raise ValueError(f"attribute '{spelled}' of {names.kind} is a Python keyword")
                entries.append(f'            "{spelled}": {spelled},\n')
        passed = "".join(f"        {name}={name},\n" for name in (*extra, "out", "backend", "engine"))
        given = f"{{\n{''.join(entries)}        }}" if entries else "{}"
        lines.append(f"        {given},\n{passed}    )\n")
    return "".join(lines)


def main(checkout: str) -> None:
    """Writes the files into a checkout."""
    root = Path(checkout)
    (root / "graph" / "functions" / "signatures.py").write_text(signatures(), encoding="utf-8")
    (root / "graph" / "functions" / "generated.py").write_text(functions(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
