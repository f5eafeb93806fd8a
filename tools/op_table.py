"""The documentation's table of all ops, from the registry, the lowerings and the patterns; `generate.py` writes it."""

from __future__ import annotations

from pathlib import Path

from ..backends.native.api import KINDS
from ..backends.onednn.lowering.fusions import FUSIONS
from ..backends.onednn.lowering.matching import Fusion
from ..backends.onednn.lowering.table import LOWERED
from ..ops.data_types import DataType
from ..ops.registry import REGISTRY
from ..ops.schema import CUSTOM, OpSchema

PAGE = "docs/pages/ops/table.md"
"""The page that has it, in a checkout."""

BEGIN, END = "<!-- op table: generated -->", "<!-- end of op table -->"

UNSUPPORTED = (
    "BiasAddBackward",
    "End",
    "Pow",
    "Reciprocal",
    "Select",
    "StaticReshape",
    "StaticTranspose",
    "Wildcard",
)
"""Ops that native oneDNN Graph 3.2 leaves unsupported when they stand alone on a CPU; seen by running it."""

PARTLY = {"ConvolutionBackwardData": "without groups", "Round": "f32 only"}
"""Ops that it runs in part."""


def _native(kind: str) -> str:
    if kind not in KINDS:
        return "unknown"
    if kind in UNSUPPORTED:
        return "unsupported"
    return PARTLY.get(kind, "yes")


def _roles(kind: str) -> str:
    """What the op is in patterns."""
    roles: list[str] = []
    fusions = [f for f in FUSIONS if isinstance(f, Fusion) and f.priority is not None]
    if any(kind in f.anchor for f in fusions):
        roles.append("takes along")
    if any(kind in f.then | f.last for f in fusions):
        roles.append("goes along")
    if any(kind in f.before for f in fusions):
        roles.append("is looked through")
    return ", ".join(roles)


def _types(schema: OpSchema) -> str:
    """The types of all tensors, without f64, which NumPy computes beside any of the others."""
    used = {d for p in (*schema.inputs, *schema.outputs) if not p.shape_operand for d in schema.types[p.type]}
    everything = len(used) > 10  # End and Wildcard take them all
    return (
        "all" if everything else ", ".join(d.value for d in DataType if d in used and d is not DataType.f64)
    )


def op_table() -> str:
    """The table."""
    rows = [
        "| op | oneDNN | data types | in fusions it | native 3.2 alone |",
        "|---|---|---|---|---|",
    ]
    for schema in REGISTRY:
        if schema.family == CUSTOM:
            continue
        old = "".join(f" (`{names.kind}`)" for names in schema.aliases)
        how = LOWERED.get(schema.kind)
        lowered = "" if how is None else "yes"
        rows.append(
            f"| `{schema.kind}`{old} | {lowered} | {_types(schema)} | {_roles(schema.kind)} | {_native(schema.kind)} |"
        )
    return "\n".join(rows) + "\n"


def with_table(page: str) -> str:
    """The page's text with the table of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{op_table()}{END}{after}"


def write(checkout: Path) -> None:
    """Writes the table into its page of a checkout."""
    page = checkout / PAGE
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
