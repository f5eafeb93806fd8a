"""Fills in the figures of README and documentation: from the pages of results, and of what is installed.

    python benchmarks/figures.py            # writes them, and the picture of them
    python benchmarks/figures.py --check    # says what is old, and ends with 1 then

A figure stands between `<!-- figure: NAME -->` and `<!-- end of figure -->`; what stands there is written by the
function of that name in `FIGURES`, and by nobody else.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

import language_figures
import onednn_graph as og
import rank_figures
from attrs import frozen
from machines import PAGES
from onednn_graph.backends.onednn.proven import GOMP, SHIPPED
from onednn_graph.backends.onednn.quarantine import TABLES

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "benchmarks/RESULTS.md",
    "docs/pages/index.md",
    "docs/pages/installation.md",
    "docs/pages/guides/distributed.md",
    "docs/pages/guides/another-onednn.md",
    "docs/pages/coming-from/onnxruntime.md",
    "docs/pages/coming-from/openvino.md",
)
MARKS = re.compile(r"(<!-- figure: (.+?) -->)(.*?)(<!-- end of figure -->)", re.S)
WHEEL = "onednn-cpu-gomp"
PUBLISHED = False
"""Whether the package index has the package: then README and installation page begin with that."""
ADDRESS = ""
"""Where files of the repository can be read, with / at the end; empty while nobody can. An index links there."""
DESCRIPTION = "docs/description.md"
"""What a package index shows: the README, whose links and pictures would lead nowhere there."""


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


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, between empty lines."""
    lines = ["|" + "|".join(f" {c} " if c else " " for c in row) + "|" for row in (columns, *rows)]
    return "\n\n" + "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]]) + "\n\n"


# --- ratios ----------------------------------------------------------------------------------------------


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
        values = {row["model"]: float(row[kind]) for row in rows if row[kind]}
        if values:
            yield Ratios(f"a step of `Trainer`, {kind}", "eager torch", values)


def torch_compile(machine: Machine) -> Iterator[Ratios]:
    """`torch.compile`."""
    rows = machine.rows(COMPILED, "model", "training f32")
    for column in ("training f32", "training bf16", "inference f32", "inference bf16"):
        values = {row["model"]: float(row[column].split(" ")[0]) for row in rows if row[column]}
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


COLUMNS = ("their time ÷ ours", "against", "geometric mean", "least", "most", "of")


def _by_machine(parts: Callable[[Machine], Iterator[Ratios]]) -> str:
    """A table for each kind of machine, under its name where there are several."""
    found = [(machine.name, [ratios.line for ratios in parts(machine)]) for machine in machines()]
    texts = [(name, table(COLUMNS, rows)) for name, rows in found if rows]
    return "".join((f"\n\n**{name}**" if len(texts) > 1 else "") + text for name, text in texts)


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


def speed() -> str:
    """The README's table: one line for each way in, and all others whose mean is below 1."""

    def parts(machine: Machine) -> Iterator[Ratios]:
        if not machine.whole:
            return
        ways = [
            *models(machine),
            *training(machine),
            *(r for r in torch_compile(machine) if r.what.endswith("f32")),
            *(
                r
                for r in weight_gradients(machine, next(iter(GRADIENTS)), tuned=False)
                if r.against == NATIVE
            ),
        ]
        yield from ways
        named = {(ratios.what, ratios.against) for ratios in ways}
        yield from (r for r in every(machine) if float(r.mean) < 1 and (r.what, r.against) not in named)

    return _close(_by_machine(parts))


def _close(text: str) -> str:
    """Without the empty lines around it, for the README, which is to be short."""
    return f"\n{text.strip()}\n"


def summary() -> str:
    """All of them, for the page of results."""
    return _by_machine(every)


def without_facts() -> str:
    """Which tables don't say what they were measured on, as the rest of a sentence; nothing where all do."""
    found = [
        f"[{title}](results/{machine.file.name})"
        for machine in machines()
        for title in machine.sections
        if not machine.facts(title)
    ]
    return f", but for {', '.join(found)}, which `benchmarks/all` no longer takes so" if found else ""


def pages() -> str:
    """Where each kind of machine has its tables, and of when they are."""
    rows: list[tuple[str, str, str]] = []
    for machine in machines():
        facts = [machine.facts(title) for title in machine.sections]
        dates = sorted(m.group(1) for f in facts if (m := re.search(r"date ([\d-]+)", f)))
        when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
        isa = next(m.group(1) for f in facts if (m := re.search(r"isa (\w+)", f)))
        rows.append((f"[{machine.name}](results/{machine.file.name})", isa, when))
    return table(("kind of machine", "instruction set", "measured"), rows)


def names() -> str:
    """The kinds of machine that README and picture are of."""
    return " and ".join(machine.name for machine in whole_machines())


# --- what is proven --------------------------------------------------------------------------------------


def trust() -> str:
    """What has been compared with what."""
    rules = {rule.name: table for table, found in TABLES.items() for one in found.values() for rule in one}
    kinds = Counter(rules.values())
    known = SHIPPED[GOMP].proofs((3, 2))
    if known is None:
        raise ValueError("there are no proofs for oneDNN 3.2")
    kernels = sum(map(len, known.implementations.values()))
    onnx = (ROOT / "docs" / "pages" / "guides" / "onnx-ops.md").read_text(encoding="utf-8")
    aten = (ROOT / "docs" / "pages" / "coming-from" / "torch-operators.md").read_text(encoding="utf-8")
    samples = re.search(r"T(orch [\d.]+); (\d+) samples", aten)
    if samples is None:
        raise ValueError("torch-operators.md does not say how many samples it is of")
    sets = ", ".join(known.instruction_sets)
    barred = ", ".join(f"{kinds[kind]} what is {kind}" for kind in TABLES)
    rows = [
        (
            "oneDNN's kernels",
            f"{kernels} implementations of oneDNN 3.2 proven with {sets}; rules bar {barred}, "
            "[each with its evidence](backends/onednn/rules)",
        ),
        (
            "our own ops",
            f"{len(og.list_ops())} kinds against formulas in double precision, and random graphs of them",
        ),
        (
            "ONNX",
            f"[{len(_table_rows(onnx))} ops](docs/pages/guides/onnx-ops.md) against ONNX's own cases, its reference "
            "and onnxruntime",
        ),
        (
            "torch",
            f"[{len(_table_rows(aten))} operators](docs/pages/coming-from/torch-operators.md) against eager "
            f"t{samples.group(1)} on {samples.group(2)} samples of torch's own, forward and backward",
        ),
    ]
    return _close(table(("what", "how it was compared"), rows))


def swept_versions() -> str:
    """What the files of sweeps say of each version, as sentences."""
    told: list[str] = []
    for version in SHIPPED[GOMP]:
        proofs = SHIPPED[GOMP].proofs(version)
        if proofs is None:
            continue
        name, count = ".".join(map(str, proofs.version)), sum(map(len, proofs.implementations.values()))
        sets = ", ".join(proofs.instruction_sets)
        if not count:
            told.append(f"Of {name} no implementation is proven yet.")
        else:
            how = "in full" if proofs.complete else "in part"
            told.append(f"{name} has been swept {how}, with {sets}: {count} implementations are proven.")
    return "\n" + "\n".join(told) + "\n"


def _table_rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


# --- what is installed -----------------------------------------------------------------------------------


def installing() -> str:
    """How the package comes onto a machine."""
    if PUBLISHED:
        return " <!-- notest: the tests run this checkout -->\n```sh\npip install onednn-graph\n```\n"
    return "\nIt is on no package index yet, and is installed from a checkout.\n"


def library_size() -> str:
    """Of the wheel that carries oneDNN, on the disk."""
    return f"{sum(_sizes('')) / 1e6:.0f} MB"


def library_copies() -> str:
    """Of libdnnl itself: how many there are in the wheel, and how large one is."""
    sizes = _sizes("libdnnl.so")
    return f"{len(sizes)} copies of {sizes[0] / 1e6:.0f} MB"


def _sizes(name: str) -> list[int]:
    """Bytes of the wheel's files of that name."""
    files = distribution(WHEEL).files or []
    found = [Path(str(f.locate())) for f in files if f.name.startswith(name)]
    return [file.stat().st_size for file in found if file.is_file()]


FIGURES: Mapping[str, Callable[[], str]] = {
    "speed": speed,
    "summary of results": summary,
    "pages of results": pages,
    "tables without a machine": without_facts,
    "beside OpenVINO": lambda: _by_machine(lambda machine: models_beside(machine, "OpenVINO")),
    "beside onnxruntime": lambda: _by_machine(lambda machine: models_beside(machine, "onnxruntime")),
    "machines": names,
    "trust": trust,
    "swept versions": swept_versions,
    "steps of ranks": lambda: table(*rank_figures.steps()),
    "efficiency on many ranks": lambda: table(*rank_figures.efficiencies()),
    "networks of ranks": rank_figures.networks,
    "ranks predicted and measured": lambda: table(*rank_figures.checks()),
    "error of predictions of ranks": rank_figures.worst,
    "installing": installing,
    "size of the library": library_size,
    "copies of the library": library_copies,
}


# --- documents -------------------------------------------------------------------------------------------


def filled(text: str) -> str:
    """A document with its figures as they are now.

    Raises:
        ValueError: there is no such figure.
    """

    def of(match: re.Match[str]) -> str:
        begin, name, _, end = match.groups()
        if name not in FIGURES:
            raise ValueError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
        return begin + FIGURES[name]() + end

    return MARKS.sub(of, text)


def description(readme: str) -> str:
    """What a package index shows of a README: relative links lead to `ADDRESS`, or nowhere as long as there is none."""
    text = re.sub(r"<!-- .*? -->[ \n]?", "", readme)
    target = r"\((?!\w+:|#)([^)]+)\)"
    if ADDRESS:
        text = re.sub(rf"(\[[^][]*\]){target}", rf"\1({ADDRESS}\2)", text)
    else:
        text = re.sub(rf"!\[[^][]*\]{target}", "", text)
        text = re.sub(rf"\[([^][]*)\]{target}", r"\1", text)
    return re.sub(r"\n{3,}", "\n\n", text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if something is old")
    options = parser.parse_args(arguments)
    old = 0
    texts = {name: filled((ROOT / name).read_text(encoding="utf-8")) for name in DOCUMENTS}
    if "README.md" in texts:
        texts[DESCRIPTION] = description(texts["README.md"])
    for name, new in texts.items():
        file = ROOT / name
        if not file.exists() or new != file.read_text(encoding="utf-8"):
            old = 1
            print(f"{name}: {'old' if options.check else 'renewed'}")
            if not options.check:
                file.write_text(new, encoding="utf-8")
    if not options.check:
        import chart

        chart.main()
    return old if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
