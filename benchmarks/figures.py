"""Fills in the figures of README and documentation: from the pages of results, and of what is installed.

    python benchmarks/figures.py            # writes them, and the picture of them
    python benchmarks/figures.py --check    # says what is old, and ends with 1 then

A figure stands between `<!-- figure: NAME -->` and `<!-- end of figure -->`; what stands there is written by the
function of that name in `FIGURES`, and by nobody else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

import onednn_graph as og
import rank_figures
from onednn_graph.backends.onednn.proven import GOMP, SHIPPED
from onednn_graph.backends.onednn.quarantine import TABLES
from result_pages import Machine, Ratios, builds, every, machines, models_beside, ways_in, whole_machines

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


# --- ratios --------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, between empty lines."""
    lines = ["|" + "|".join(f" {c} " if c else " " for c in row) + "|" for row in (columns, *rows)]
    return "\n\n" + "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]]) + "\n\n"


COLUMNS = ("their time ÷ ours", "against", "geometric mean", "least", "most", "of")


def _by_machine(parts: Callable[[Machine], Iterator[Ratios]], columns: Sequence[str] = COLUMNS) -> str:
    """A table for each kind of machine, under its name where there are several."""
    found = [(machine.name, [ratios.line for ratios in parts(machine)]) for machine in machines()]
    texts = [(name, table(columns, rows)) for name, rows in found if rows]
    return "".join((f"\n\n**{name}**" if len(texts) > 1 else "") + text for name, text in texts)


def other_builds() -> str:
    """How long builds of oneDNN that are newer than the wheel's take, beside the wheel's."""
    names = ", ".join(machine.name for machine in machines() if any(builds(machine)))
    text = _by_machine(builds, ("measured", "build", "its time ÷ the wheel's", *COLUMNS[3:]))
    return f"\n\nOn {names}:{text}" if names else "\n\nNo page of results has such a comparison.\n\n"


def speed() -> str:
    """The README's table: a line for each way in and for all below 1, a column for each kind of machine."""
    whole = whole_machines()
    found = [{(ratios.what, ratios.against): ratios for ratios in every(machine)} for machine in whole]
    ways = dict.fromkeys((ratios.what, ratios.against) for machine in whole for ratios in ways_in(machine))
    below = dict.fromkeys(key for told in found for key, ratios in told.items() if float(ratios.mean) < 1)
    rows = [
        (*key, *(told[key].short if key in told else "" for told in found))
        for key in dict.fromkeys([*ways, *below])
    ]
    return _close(table((*COLUMNS[:2], *(machine.name for machine in whole)), rows))


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
    "builds of oneDNN": other_builds,
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
