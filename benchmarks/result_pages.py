"""What pages of results say: their tables, and times of others divided by ours.

`figures.py` and `chart.py` put them into documents and pictures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import language_figures
from attrs import frozen
from machines import PAGES


@frozen
class Machine:
    """The results on one kind of machine.

    Attributes:
        name: of the kind.
        file: of its page.
        sections: what stands below each heading of the page.
    """

    name: str
    file: Path
    sections: Mapping[str, str]

    def tables(self, title: str) -> Iterator[list[dict[str, str]]]:
        """The tables of a section, each row by the names of its columns."""
        lines = self.sections.get(title, "").splitlines()
        for place, line in enumerate(lines[:-1]):
            if line.startswith("|") and re.fullmatch(r"\|(---\|)+", lines[place + 1]):
                columns = _cells(line)
                rows = lines[place + 2 :]
                end = next((n for n, row in enumerate(rows) if not row.startswith("|")), len(rows))
                yield [dict(zip(columns, _cells(row), strict=True)) for row in rows[:end]]

    def rows(self, title: str, *columns: str) -> list[dict[str, str]]:
        """The rows of a section's table that has these columns."""
        return next((t for t in self.tables(title) if t and set(columns) <= set(t[0])), [])

    def mean(self, title: str, **keys: str) -> str | None:
        """The geometric mean that a section's own summary has, of ratios before they were rounded."""
        rows = self.rows(title, "geometric mean", *keys)
        same = (row for row in rows if all(row[column] == value for column, value in keys.items()))
        return next((row["geometric mean"] for row in same), None)

    def facts(self, title: str) -> str:
        """The line of a section that says on what it was measured, and when."""
        return next((x for x in self.sections.get(title, "").splitlines() if x.startswith("cpu ")), "")

    @property
    def whole(self) -> bool:
        """Whether it has all that README and picture are of; on some machines only a part was measured."""
        return {MODELS, TRAINING, COMPILED, *GRADIENTS} <= self.sections.keys()


def machines() -> list[Machine]:
    """Those that have a page."""
    return [_machine(file) for file in sorted(PAGES.glob("*.md"))]


def whole_machines() -> list[Machine]:
    """Those of which README and picture are."""
    return [machine for machine in machines() if machine.whole]


def _machine(file: Path) -> Machine:
    text = file.read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    name = parts[0].splitlines()[0].removeprefix("# Results on ")
    return Machine(name, file, dict(zip(parts[1::2], parts[2::2], strict=True)))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


@frozen
class Ratios:
    """Times of others ÷ ours.

    Attributes:
        what: was run.
        against: whom.
        values: by the names of models or layers, as tables have them, rounded.
        stated: their geometric mean where the tables' own tool has computed it; None where it is made of `values`.
    """

    what: str
    against: str
    values: Mapping[str, float]
    stated: str | None = None

    @property
    def mean(self) -> str:
        """The geometric one."""
        return self.stated or f"{math.exp(sum(map(math.log, self.values.values())) / len(self.values)):.2f}"

    @property
    def line(self) -> tuple[str, ...]:
        """As a row of a table."""
        least, most = (pick(self.values, key=self.values.__getitem__) for pick in (min, max))
        ends = (f"{self.values[name]:.2f} ({name})" for name in (least, most))
        return (self.what, self.against, f"**{self.mean}**", *ends, str(len(self.values)))

    @property
    def short(self) -> str:
        """In one cell."""
        _, _, mean, least, most, _ = self.line
        return f"{mean}; {least} to {most}"


MODELS = "Models, two threads"
TRAINING = "Training steps, two threads"
COMPILED = "torch.compile, two threads"
NATIVE = "native oneDNN Graph"
GRADIENTS = {
    "Weight gradients, two threads": "weight gradients",
    "Weight gradients, one thread": "weight gradients, one thread",
    "Weight gradients in f16, two threads": "weight gradients",
    "Weight gradients of random layers, two threads": "weight gradients of random layers",
    "Weight gradients of the NumPy backend, two threads": "weight gradients by NumPy alone",
}
"""What is said of each section."""
BUILDS_OF_GRADIENTS = "Weight gradients by builds of oneDNN, two threads"
BUILDS_OF_MODELS = "Models by builds of oneDNN, two threads"


def models(machine: Machine) -> Iterator[Ratios]:
    """Inference of whole models."""
    rows = machine.rows(MODELS, "best ÷ ours", "model")
    for kind in dict.fromkeys(row["type"] for row in rows):
        for batch in sorted({row["batch"] for row in rows}, key=int):
            values = {
                row["model"]: float(row["best ÷ ours"])
                for row in rows
                if (row["type"], row["batch"]) == (kind, batch) and row["best ÷ ours"]
            }
            if values:
                mean = machine.mean(MODELS, type=kind, batch=batch, ratio="best ÷ ours")
                against = "the faster of onnxruntime and OpenVINO"
                yield Ratios(f"inference, {kind}, batch {batch}", against, values, mean)


def models_beside(machine: Machine, peer: str) -> Iterator[Ratios]:
    """Inference of whole models beside one peer, by the shortest times."""
    rows = machine.rows(MODELS, "model", "ours", peer.lower())
    for kind in dict.fromkeys(row["type"] for row in rows):
        values = {
            row["model"]: float(theirs.split(" ")[0]) / float(row["ours"].split(" ")[0])
            for row in rows
            if row["type"] == kind and (theirs := row[peer.lower()])
        }
        if values:
            yield Ratios(f"inference, {kind}", peer, values)


def graphs(machine: Machine) -> Iterator[Ratios]:
    """Graphs of a few ops that are fused."""
    title, column = "Graphs, two threads", "native ÷ fused"
    rows = machine.rows(title, "graph", column)
    for kind in dict.fromkeys(row["dtype"] for row in rows):
        values = {row["graph"]: float(row[column]) for row in rows if row["dtype"] == kind and row[column]}
        if values:
            mean = machine.mean(title, dtype=kind, ratio=column)
            yield Ratios(f"graphs of a few ops, {kind}", NATIVE, values, mean)


def training(machine: Machine) -> Iterator[Ratios]:
    """Steps of `Trainer`."""
    rows = machine.rows(TRAINING, "model", "f32")
    for kind in ("f32", "bf16"):
        values = {row["model"]: float(row[kind]) for row in rows if row[kind] and "**" not in row[kind]}
        if values:
            yield Ratios(f"a step of `Trainer`, {kind}", "eager torch", values)


def torch_compile(machine: Machine) -> Iterator[Ratios]:
    """`torch.compile`."""
    rows = machine.rows(COMPILED, "model", "training f32")
    for column in ("training f32", "training bf16", "inference f32", "inference bf16"):
        values = {
            row["model"]: float(cell.replace(",", " ").split()[0])  # the compiler's ratio or time may follow
            for row in rows
            if (cell := row[column]) and "**" not in cell
        }
        if values:
            yield Ratios(f"`torch.compile`, {column}", "eager torch", values)


def weight_gradients(machine: Machine, title: str, tuned: bool = True) -> Iterator[Ratios]:
    """Layers, by type, format and peer."""
    rows = machine.rows(title, "layer", "format")
    peers = {"native": NATIVE, "torch": "torch", "torch f32": "torch in f32"}
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for layout, words in (("NXC", "channels last"), ("NCX", "channels first")):
            for column in rows[0]:
                peer, _, ours = column.partition(" ÷ ")
                if peer not in peers or (ours == "tuned" and not tuned):
                    continue
                values = {
                    row["layer"]: float(row[column])
                    for row in rows
                    if (row["dtype"], row["format"]) == (dtype, layout) and row[column]
                }
                if values:
                    tag = ", tuned" if ours == "tuned" else ""
                    mean = machine.mean(title, dtype=dtype, format=layout, ratio=column)
                    what = f"{GRADIENTS[title]}, {dtype}, {words}{tag}"
                    yield Ratios(what, peers[peer], values, mean)


def cold_start(machine: Machine) -> Iterator[Ratios]:
    """From the start of a process to the first result."""
    rows = machine.rows("Cold start, two threads", "model", "first result")
    values: dict[str, float] = {}
    for row in rows:
        ours, theirs = (float(part) for part in row["first result"].split(","))
        values[row["model"]] = theirs / ours
    if values:
        yield Ratios("process to first result, from ONNX", "onnxruntime", values)


def builds(machine: Machine) -> Iterator[Ratios]:
    """Another build of oneDNN beside the wheel's."""
    rows = machine.rows(BUILDS_OF_GRADIENTS, "layer")
    for column in rows[0] if rows else ():
        newer, _, usual = column.partition(" ÷ ")
        for dtype in dict.fromkeys(row["dtype"] for row in rows if usual):
            values = {
                f"{row['layer']} {row['format']}": float(row[column]) for row in rows if row["dtype"] == dtype
            }
            yield Ratios(f"weight gradients, {dtype}", newer, values)
    rows = machine.rows(BUILDS_OF_MODELS, "model", "ours")
    for column in rows[0] if rows else ():
        _, _, version = column.partition("ours, ")
        for kind in dict.fromkeys(row["type"] for row in rows if version):
            values = {
                row["model"]: float(row[column].split(" ")[0]) / float(row["ours"].split(" ")[0])
                for row in rows
                if row["type"] == kind and row[column] and row["ours"]
            }
            mean = machine.mean(BUILDS_OF_MODELS, type=kind, ratio=f"{column} ÷ ours")
            yield Ratios(f"inference, {kind}", f"oneDNN {version}", values, mean)


def every(machine: Machine) -> Iterator[Ratios]:
    """All that there is on a page."""
    first, *others = GRADIENTS
    for part in (models, graphs, training, torch_compile):
        yield from part(machine)
    yield from weight_gradients(machine, first)
    for title in others:
        yield from weight_gradients(machine, title, tuned=False)
    yield from cold_start(machine)
    yield from (Ratios(*found) for found in language_figures.speeds(machine.tables(language_figures.TITLE)))


def ways_in(machine: Machine) -> Iterator[Ratios]:
    """What the README tells of: each way to use the library."""
    yield from models(machine)
    yield from training(machine)
    yield from (ratios for ratios in torch_compile(machine) if ratios.what.endswith("f32"))
    gradients = weight_gradients(machine, next(iter(GRADIENTS)), tuned=False)
    yield from (ratios for ratios in gradients if ratios.against == NATIVE)
