"""The stubs `op_functions.pyi` and `op_methods.pyi`, from the registry: typed calls that an editor completes.

`onednn_graph.tools.generate` writes them into a checkout. Legacy names get signatures in their own spelling.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from inspect import Parameter, Signature
from pathlib import Path

from ...ops.registry import REGISTRY
from ...ops.schema import OpNames, OpSchema
from ..core.signatures import BUILDER, EAGER, MARKS, documentation, is_users, signature
from ..model.builder import snake_case


def spellings() -> Iterator[tuple[OpSchema, OpNames]]:
    """Every built-in op under its kind and its legacy names."""
    for schema in REGISTRY:
        if not is_users(schema):
            yield schema, OpNames(schema.kind)
            for names in schema.aliases:
                yield schema, names


def _docstring(text: str, indent: str) -> str:
    body = textwrap.indent(text, indent).lstrip()
    return f'{indent}"""{body}\n{indent}"""\n'


def _definition(name: str, taken: Signature, text: str, indent: str) -> str:
    """A `def` of a stub, one parameter a line."""
    lines: list[str] = []
    starred = False
    for p in taken.parameters.values():
        if p.kind is Parameter.KEYWORD_ONLY and not starred:
            lines.append("*,")
        starred = starred or p.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL)
        star = "*" if p.kind is Parameter.VAR_POSITIONAL else ""
        annotation = "" if p.annotation is Parameter.empty else f": {p.annotation}"
        default = "" if p.default is Parameter.empty else f" = {p.default!r}"
        lines.append(f"{star}{p.name}{annotation}{default},")
    body = "".join(f"{indent}    {line}\n" for line in lines)
    return (
        f"{indent}def {name}(\n{body}{indent}) -> {taken.return_annotation}:\n"
        + _docstring(text, f"{indent}    ")
        + f"{indent}    ...\n"
    )


_HEADER = '"""{title} Written by `generate.py` from the registry; do not edit."""\n\n'


def methods() -> str:
    """The text of `op_methods.pyi`: `Graph.op` with an overload for each op, and a method for each."""
    lines = [
        _HEADER.format(title="The builder: `Graph.op`, and a method for each op."),
        "from abc import ABC, abstractmethod\nfrom collections.abc import Sequence\n",
        "from typing import Any, Literal, overload\n\n",
        "from ...ops.data_types import DataType\nfrom ..model.logical_tensor import LogicalTensor\n\n",
        "class OpMethods(ABC):\n",
        '    """The builder\'s `op`, typed for every op of the set, and a method for each op."""\n\n',
        "    @abstractmethod\n    def _build(\n        self,\n        kind: str,\n",
        "        inputs: Sequence[LogicalTensor],\n        attributes: dict[str, object],\n",
        "        name: str | None,\n        outputs: int | None,\n",
        "        output_type: DataType | str | None,\n    ) -> tuple[LogicalTensor, ...]: ...\n",
    ]
    for schema, names in spellings():
        taken = signature(schema, names, BUILDER)
        receiver, *rest = taken.parameters.values()
        kind = Parameter("kind", Parameter.POSITIONAL_OR_KEYWORD, annotation=f'Literal["{names.kind}"]')
        text = f"{schema.summary}\n\nAs `Graph.{snake_case(names.kind)}`, which has the arguments."
        overload = _definition("op", taken.replace(parameters=[receiver, kind, *rest]), text, "    ")
        lines.append(f"    @overload\n{overload}\n")
    lines.append(
        "    @overload\n    def op(\n        self,\n        kind: str,\n        *inputs: LogicalTensor | None,\n"
        "        name: str | None = None,\n        outputs: int | None = None,\n"
        "        output_type: DataType | str | None = None,\n        **attributes: Any,\n    ) -> Any:\n"
        '        """Any registered op, a user\'s own for example."""\n        ...\n'
    )
    for schema, names in spellings():
        text = documentation(schema, names, BUILDER)
        taken = signature(schema, names, BUILDER)
        lines.append("\n" + _definition(snake_case(names.kind), taken, text, "    "))
    return "".join(lines)


def functions() -> str:
    """The text of `op_functions.pyi`: one eager function for each op."""
    made = [(schema, names) for schema, names in spellings() if schema.kind not in MARKS]
    lines = [
        _HEADER.format(title="One function for each op: arrays in, array out."),
        "from collections.abc import Sequence\nfrom typing import Any, Literal\n\n",
        "from numpy.typing import ArrayLike\n\n",
        "from ...ops.data_types import DataType\n",
        "from ..runtime.arrays import Array\nfrom ..runtime.engine import Engine\n\n",
        "__all__ = [\n",
        *[f'    "{name}",\n' for name in sorted(snake_case(names.kind) for _, names in made)],
        "]\n",
    ]
    for schema, names in made:
        text = documentation(schema, names, EAGER)
        taken = signature(schema, names, EAGER)
        lines.append("\n" + _definition(snake_case(names.kind), taken, text, ""))
    return "".join(lines)


def write(checkout: Path) -> None:
    """Writes the files into a checkout."""
    folder = checkout / "graph"
    (folder / "functions" / "op_functions.pyi").write_text(functions(), encoding="utf-8")
    (folder / "core" / "op_methods.pyi").write_text(methods(), encoding="utf-8")
