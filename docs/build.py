"""Builds the documentation with Zensical: the pages, those of the ops from the registry, and the reference.

    python docs/build.py               # into docs/site
    python docs/build.py --out FOLDER

Needs the extra `docs`. What Zensical warns of is an error.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from onednn_graph import list_ops
from onednn_graph.extend import OpSchema
from onednn_graph.tools.op_page import has_primitive, op_page

DOCS = Path(__file__).resolve().parent
CHECKOUT = DOCS.parent
PLACE_OF_OPS = "    # the pages of the ops\n"

TITLES = {
    "binary": "Arithmetic of two tensors",
    "convolution": "Convolutions and their gradients",
    "dropout": "Dropout",
    "eltwise": "Functions of each element",
    "interpolate": "Interpolation",
    "matmul": "Matrix products",
    "movement": "Movement, masks and marks",
    "normalization": "Normalisation",
    "pooling": "Pooling",
    "prelu": "PReLU",
    "quantization": "Quantisation and casts",
    "reduction": "Reductions",
    "softmax": "Softmax",
}
"""Family → heading. A family that is missing here stops the build."""
FIRST = ("convolution", "matmul")
"""Families that come before the others."""


def families() -> Iterator[tuple[str, list[OpSchema]]]:
    """Heading and ops of each family."""

    def place(schema: OpSchema) -> tuple[int, str]:
        family = schema.family
        return (FIRST.index(family) if family in FIRST else len(FIRST)), TITLES[family]

    for (_, title), members in groupby(sorted(list_ops(), key=lambda s: (*place(s), s.kind)), key=place):
        yield title, list(members)


def index() -> str:
    """The page with all ops."""
    lines = [
        "# Ops",
        "",
        f"All {len(list_ops())} ops of the set, by family. Every op runs on NumPy; the second column says for which "
        "oneDNN has a primitive that is used. Each page has ports, types, attributes, rules and an example, as printed "
        "by `onednn-graph ops NAME`. [Types and fusions](table.md) has all of them in one table, [Who runs "
        "what](who-runs.md) the kernel of each on each CPU, and [Names you may know](../coming-from/names.md) says "
        "which op is meant by conv2d, gemm, SDPA or dense.",
    ]
    for title, members in families():
        lines += ["", f"## {title}", "", "| op | oneDNN | what it does |", "|---|---|---|"]
        for schema in members:
            old = "".join(f"<br>`{alias.kind}`" for alias in schema.aliases)
            runs = "yes" if has_primitive(schema.kind) else ""
            lines.append(f"| [`{schema.kind}`]({schema.kind}.md){old} | {runs} | {schema.summary} |")
    return "\n".join(lines) + "\n"


def navigation() -> str:
    """The lines of `nav` for the ops."""
    lines = [
        '"ops/index.md",',
        '{ "Types and fusions" = "ops/table.md" },',
        '{ "Who runs what" = "ops/who-runs.md" },',
    ]
    for title, members in families():
        pages = ", ".join(f'"ops/{schema.kind}.md"' for schema in members)
        lines.append(f'{{ "{title}" = [{pages}] }},')
    return "".join(f"    {line}\n" for line in lines)


def lay_out(folder: Path) -> None:
    """Pages, configuration and sources, as Zensical reads them."""
    pages = folder / "pages"
    shutil.copytree(DOCS / "pages", pages)
    (pages / "ops" / "index.md").write_text(index(), encoding="utf-8")
    for schema in list_ops():
        (pages / "ops" / f"{schema.kind}.md").write_text(op_page(schema), encoding="utf-8")
    settings = (DOCS / "zensical.toml").read_text(encoding="utf-8")
    (folder / "zensical.toml").write_text(settings.replace(PLACE_OF_OPS, navigation()), encoding="utf-8")
    # The sources under the names that they are installed as: mkdocstrings can't follow the finder of an
    # editable install, and the checkout has other names.
    package = folder / "sources" / "onednn_graph"
    package.mkdir(parents=True)
    facade = CHECKOUT / "graph" / "_facade"
    for source in (*facade.iterdir(), *(CHECKOUT / name for name in ("backends", "graph", "ops", "tools"))):
        (package / source.name).symlink_to(source)


def build(out: Path) -> int:
    """Builds into a folder, whose content is replaced; the exit code of Zensical."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        lay_out(folder)
        told = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=False
        )
        if told.returncode == 0:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(folder / "site", out)
        return told.returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=DOCS / "site", help="where the site goes")
    sys.exit(build(parser.parse_args().out.resolve()))
