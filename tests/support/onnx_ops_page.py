"""The page of the documentation with a table of ONNX's ops."""

from pathlib import Path

from onednn_graph.graph.onnx.contrib.table import REWRITES
from onednn_graph.graph.onnx.control import CONTROL
from onednn_graph.graph.onnx.folding import BY_REFERENCE, DRAWS
from onednn_graph.graph.onnx.known import KNOWN, NEWEST_OPSET
from onednn_graph.graph.onnx.own import OWN
from onednn_graph.graph.onnx.plain import NEAR, PLAIN

DEFINED_BY_OTHERS = ("CausalConvWithState", "LinearAttention", "SwiGLU", "ai.onnx.preview.FlexAttention")
"""Ops that no table has: ONNX defines them by ops that tables have."""
RUN_BY_NOBODY = ("MaxRoiPool", "ai.onnx.preview.training.Gradient")
"""Ops of ONNX that nobody runs."""
NEWEST_OF = {"": NEWEST_OPSET, "ai.onnx.ml": 5}
"""Domain → the newest version that the page knows."""
PAGE = Path(__file__).parents[2] / "docs" / "pages" / "guides" / "onnx-ops.md"
HEAD = """# Ops of ONNX

Who runs which op of a model, in the order in which they are asked; see [Models from ONNX](from-onnx.md). {BY_OTHERS}
have no row, for ONNX defines them by others that have one, by which they run. {NOBODY} of ONNX, and what onnxruntime's
own domain has beyond these, are refused by name.

* **graph**: it becomes ops of a graph, which oneDNN runs where it can and NumPy elsewhere. The numbers are the versions
  of its definition that are known; ops of onnxruntime's own domain become some of ONNX's first.
* **NumPy**: a kernel of ours computes the node by itself, with attributes, types or outputs that graphs do not take.
* **stages**: the graphs inside it run as models of their own.
* **reference**: ONNX's own reference computes what the others don't take, from an opset on.

| op | graph | NumPy | stages | reference |
|---|---|---|---|---|
"""


def kinds():
    """All ops that have a row."""
    known = {*KNOWN, *REWRITES, *OWN, *PLAIN, *NEAR, *CONTROL, *DRAWS, *BY_REFERENCE}
    return sorted(known, key=lambda kind: ("." in kind, kind))


def of_the_page(schemas, installed):
    """The definitions that the page must know: what a later package onnx adds has no row yet.

    Args:
        schemas: of any domains.
        installed: opset of the package that has them, by which domains beside those of `NEWEST_OF` are as old as the
            page or newer: those of previews change without a new version.
    """
    return [
        one
        for one in schemas
        if (
            one.since_version <= NEWEST_OF[one.domain]
            if one.domain in NEWEST_OF
            else installed <= NEWEST_OPSET
        )
    ]


def page():
    """The whole page."""
    head = HEAD.replace("{BY_OTHERS}", _listed(DEFINED_BY_OTHERS)).replace("{NOBODY}", _listed(RUN_BY_NOBODY))
    return head + "".join(f"| {' | '.join(_row(kind))} |\n" for kind in kinds())


def _listed(names):
    return " and ".join((", ".join(f"`{name}`" for name in names[:-1]), f"`{names[-1]}`"))


def _row(kind):
    reference = ""
    if kind in BY_REFERENCE:
        reference = f"from {BY_REFERENCE[kind]} on" if BY_REFERENCE[kind] else "yes"
    elif kind in DRAWS:
        reference = "draws"
    versions = ", ".join(map(str, KNOWN[kind].versions)) if kind in KNOWN else ""
    if kind in REWRITES:
        versions = "by ONNX's ops"
    return (
        f"`{kind}`",
        versions,
        "yes" if kind in {*OWN, *PLAIN, *NEAR} else "",
        "yes" if kind in CONTROL else "",
        reference,
    )
