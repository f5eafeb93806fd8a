"""The documentation's table of what stays f32 in a graph that becomes bf16, from what decides it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..graph.precision.bfloat16 import STAYING, narrow_in
from ..ops.data_types import DataType
from ..ops.registry import REGISTRY
from ..ops.schema import ANY, OpSchema

PAGE = Path("docs", "pages", "guides", "precision.md")
BEGIN, END = "<!-- stays f32 -->\n", "<!-- end -->\n"


def rows() -> Iterator[str]:
    """The lines of the table."""
    yield "| what | stays f32 |"
    yield "|---|---|"
    for name, function in STAYING.items():
        yield f"| {name} | {(function.__doc__ or '').splitlines()[0].rstrip('.')} |"
    kinds: dict[str, list[str]] = {}
    for schema in (*REGISTRY, *REGISTRY.host):
        if schema.family != "custom" and (ports := _ports(schema)):
            kinds.setdefault(ports, []).append(f"`{schema.kind}`")
    for ports, names in sorted(kinds.items(), key=lambda item: item[1]):
        yield f"| {', '.join(names)} | {ports} |"


def _ports(schema: OpSchema) -> str:
    """Which tensors of an op stay f32."""
    narrow = narrow_in(schema)
    wide = {name for name, types in schema.types.items() if name != ANY and DataType.f32 in types} - narrow
    every = (*schema.inputs, *schema.outputs)
    if not narrow.intersection(port.type for port in every):
        return "all of it" if wide.intersection(port.type for port in every) else ""
    return ", ".join(dict.fromkeys(f"`{port.name}`" for port in every if port.type in wide))


def with_table(page: str) -> str:
    """The page with the table of today."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n" + "".join(f"{row}\n" for row in rows()) + f"\n{END}{after}"


def write(checkout: Path) -> None:
    """Writes the table into its page of a checkout."""
    page = checkout / PAGE
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
