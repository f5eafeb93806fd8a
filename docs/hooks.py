"""The pages of the ops, made from the registry while mkdocs builds the site."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from onednn_graph import OpSchema, ops
from onednn_graph.tools.op_page import has_primitive, op_page

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

    for (_, title), members in groupby(sorted(ops(), key=lambda s: (*place(s), s.kind)), key=place):
        yield title, list(members)


def index() -> str:
    """The page with all ops."""
    lines = [
        "# Ops",
        "",
        f"All {len(ops())} ops of the set, by family. Every op runs on NumPy; the second column says for which oneDNN "
        "has a primitive that is used. Each page has ports, types, attributes, rules and an example, as printed by "
        "`onednn-graph ops NAME`.",
    ]
    for title, members in families():
        lines += ["", f"## {title}", "", "| op | oneDNN | what it does |", "|---|---|---|"]
        for schema in members:
            old = "".join(f"<br>`{alias.kind}`" for alias in schema.aliases)
            runs = "yes" if has_primitive(schema.kind) else ""
            lines.append(f"| [`{schema.kind}`]({schema.kind}.md){old} | {runs} | {schema.summary} |")
    return "\n".join(lines) + "\n"


CHECKOUT = Path(__file__).parent.parent
_tree = TemporaryDirectory()


def package_tree() -> str:
    """A folder with the sources under the names that they are installed as, where mkdocstrings reads them.

    It can't follow the finder of an editable install, and the checkout has other names.
    """
    package = Path(_tree.name) / "onednn_graph"
    if not package.exists():
        package.mkdir()
        for source in (
            *(CHECKOUT / "graph" / "_facade").iterdir(),
            *(CHECKOUT / n for n in ("backends", "graph", "ops", "tools")),
        ):
            (package / source.name).symlink_to(source)
    return _tree.name


@event_priority(100)  # before mkdocstrings, which reads the paths then
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the ops into the navigation, and says where the sources are."""
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [package_tree()]
    section: list[Any] = ["ops/index.md"]
    section += [{title: [f"ops/{s.kind}.md" for s in members]} for title, members in families()]
    for entry in config.nav or ():
        if "Ops" in entry:
            entry["Ops"] = section
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    files.append(File.generated(config, "ops/index.md", content=index()))
    for schema in ops():
        files.append(File.generated(config, f"ops/{schema.kind}.md", content=op_page(schema)))
    return files
