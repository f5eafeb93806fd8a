"""The documentation's page of who runs each op in each type, from the data beside it.

`tests/tools/write_who_runs.py` writes both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from onednn_graph.backends.onednn.quarantine import TABLES
from onednn_graph.backends.onednn.rules.rule import Rule

DATA = Path(__file__).parents[2] / "docs" / "pages" / "ops" / "who-runs.json"
PAGE = DATA.with_suffix(".md")
ISAS = {
    "sse41": "SSE4.1",
    "avx2": "AVX2",
    "avx2_vnni": "AVX2 with VNNI",
    "avx512_core": "AVX-512",
    "avx512_core_vnni": "AVX-512 with VNNI",
    "avx512_core_bf16": "AVX-512 with bf16",
    "avx512_core_fp16": "AVX-512 with FP16",
    "avx512_core_amx": "AMX",
}
"""Instruction sets, as the library names them → as the page does; each has what those before it of its kind have."""
HEAD = """# Who runs what

Every op by itself, in each type, on each instruction set and oneDNN: who computes it, by which kernel, and how that
kernel is trusted. The table is made by compiling each op on tensors of usual sizes under `ONEDNN_MAX_CPU_ISA`; other
sizes, layouts and attributes may get other kernels, and in a graph an op may be part of another's kernel. What your
graph gets, `explain()` says. [Types and fusions](table.md) has what goes along with what.

* A name, `jit` say, is the library's kernel, without the instruction set that it is made for; several names are our
  own way by as many primitives. *by cost* is whichever [strategy](../guides/weight-gradients.md) is estimated to be
  fastest on the CPU. *in f32*: the type is converted on the way in and out. *view*: nothing is computed.
* *proven*: the fuzzers have covered it, so that it runs at once. *verified*: it is checked on integer data when it is
  first compiled for a problem. See [Quarantine and verify](../concepts.md#quarantine-and-verify).
* *passes over* names the rule by which a kernel that the library prefers was left out here; *barred under conditions*
  leads to all rules about the primitives that the op is made of.
* `u8·s8` is the op between `Dequantize` and `Quantize`, in 8-bit integers.

The same as data: [who-runs.json](who-runs.json).

"""
Cell = Mapping[str, Any]


def read() -> dict[str, Any]:
    """The data: `columns` of version and instruction set, `cells`, and `rows` of a cell's number for each column."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def page(data: Mapping[str, Any]) -> str:
    """The whole page."""
    return HEAD + "\n".join((*_looked_at(data), *_table(data), "", *_rules())) + "\n"


def _table(data: Mapping[str, Any]) -> Iterator[str]:
    versions = list(dict.fromkeys(version for version, _ in data["columns"]))
    yield f"| op | types | CPU | {' | '.join(f'oneDNN {one}' for one in versions)} | barred under conditions |"
    yield "|---|---|---|" + "---|" * (len(versions) + 1)
    alike: dict[tuple[Any, ...], list[str]] = {}
    for kind, rows in groupby(data["rows"], key=lambda row: row.split(" ")[0]):
        lines = tuple(_lines(data, list(rows), versions))
        ruled = ", ".join(f"[{one}](#{one})" for one in data["ruled"].get(kind, ()))
        alike.setdefault((ruled, lines), []).append(f"[`{kind}`]({kind}.md)")
    for (ruled, lines), kinds in alike.items():
        for number, (types, sets, cells) in enumerate(lines):
            ops, rules = ("", "") if number else (", ".join(kinds), ruled)
            yield f"| {' | '.join((ops, types, sets, *cells, rules))} |"


def _lines(
    data: Mapping[str, Any], rows: Sequence[str], versions: Sequence[str]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Types, instruction sets and a text for each version, those with the same texts in one line."""
    lines: dict[tuple[tuple[str | None, ...], ...], list[str]] = {}
    for row in rows:
        texts = {
            tuple(c): _text(data["cells"][n]) for c, n in zip(data["columns"], data["rows"][row], strict=True)
        }
        matrix = tuple(tuple(texts.get((version, isa)) for version in versions) for isa in ISAS)
        lines.setdefault(matrix, []).append(row.split(" ")[1])
    for matrix, types in lines.items():
        for names, known in _alike(matrix):
            yield ", ".join(types), _sets(names), tuple(text or "" for text in known)


def _alike(matrix: Sequence[Sequence[str | None]]) -> list[tuple[list[str], list[str | None]]]:
    """Instruction sets with the same texts; None, of a version not looked at, is like that of the set before."""
    found: list[tuple[list[str], list[str | None]]] = []
    for isa, texts in zip(ISAS, matrix, strict=True):
        for names, known in reversed(found):
            if all(a == b for a, b in zip(texts, known, strict=True) if a is not None and b is not None):
                names.append(isa)
                known[:] = [a if b is None else b for a, b in zip(texts, known, strict=True)]
                break
        else:
            found.append(([isa], [*texts]))
    return found


def _sets(names: Sequence[str]) -> str:
    """Instruction sets, those that follow one another by their first and last."""
    order = list(ISAS)
    first, last = order.index(names[0]), order.index(names[-1])
    if len(names) == len(order):
        return "all"
    if len(names) < 3 or last - first + 1 != len(names):
        return ", ".join(ISAS[name] for name in names)
    if last == len(order) - 1:
        return f"from {ISAS[names[0]]} on"
    return f"up to {ISAS[names[-1]]}" if first == 0 else f"{ISAS[names[0]]} to {ISAS[names[-1]]}"


def _looked_at(data: Mapping[str, Any]) -> Iterator[str]:
    """What to know of versions that were not looked at with every instruction set."""
    columns: dict[str, list[str]] = {}
    for version, isa in data["columns"]:
        columns.setdefault(version, []).append(ISAS[isa])
    for version, sets in columns.items():
        if len(sets) < len(ISAS):
            yield f"oneDNN {version} was looked at with {', '.join(sets)} alone; its texts are of these."
            yield ""


def _text(cell: Cell) -> str:
    """A cell's text."""
    if "kernels" not in cell:
        return ", ".join(
            part for part in (cell["by"].removeprefix("oneDNN "), cell.get("status", "")) if part
        )
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(cell["kernels"]))
    if cell["by"] != "oneDNN":
        names = f"{cell['by']}: {names}"
    if "as" in cell:
        names += f" in {cell['as']}"
    barred = [name.split(" ") for name in cell.get("barred", ())]
    passed = ", ".join(f"[{name}](#{_anchor(function, name)})" for function, name in barred)
    return f"{names}, {cell['status']}{f', passes over {passed}' if passed else ''}"


def _anchor(function: str, rule: str) -> str:
    return f"{function}-{rule}"


def _rules() -> Iterator[str]:
    """Every rule, by what it is about."""
    yield "## Rules"
    yield ""
    yield "Kernels that don't run under a condition, by the primitive that they belong to. A rule holds from its first"
    yield "version on, up to the one that is proven to be free of it."
    for function in sorted({function for table in TABLES.values() for function in table}):
        yield from ("", f"### {function}", "")
        yield from ("| rule | kernels | when | what was seen | versions |", "|---|---|---|---|---|")
        for what, table in TABLES.items():
            for rule in table.get(function, ()):
                yield _rule(function, what, rule)


def _rule(function: str, what: str, rule: Rule) -> str:
    since, fixed = (".".join(map(str, version or ())) for version in (rule.since, rule.fixed))
    name = f'<span id="{_anchor(function, rule.name)}">{rule.name}</span>'
    kernels = f"`{rule.implementation}…`" if rule.implementation else "all"
    seen = f"{what}: {rule.seen}"
    texts = (name, kernels, rule.condition, seen, f"{since} to {fixed}" if fixed else f"{since} on")
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"
