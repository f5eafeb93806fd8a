"""The page of the documentation with a table of ONNX's ops."""

from pathlib import Path

from onednn_graph.graph.onnx.contrib.table import REWRITES
from onednn_graph.graph.onnx.control import CONTROL
from onednn_graph.graph.onnx.folding import BY_REFERENCE, DRAWS
from onednn_graph.graph.onnx.known import KNOWN
from onednn_graph.graph.onnx.own import OWN
from onednn_graph.graph.onnx.plain import NEAR, PLAIN

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "guides" / "onnx-ops.md"
HEAD = """# Ops of ONNX

Who runs which op of a model, in the order in which they are asked; see [Models from ONNX](from-onnx.md). An op that is
not here runs where ONNX defines it by others that are, and is refused by name elsewhere.

* **graph**: it becomes ops of a graph, which oneDNN runs where it can and NumPy elsewhere. The numbers are the versions
  of its definition that are known; ops of onnxruntime's own domain become some of ONNX's first.
* **NumPy**: a kernel of ours computes the node by itself, with attributes, types or outputs that graphs do not take.
* **stages**: the graphs inside it run as models of their own.
* **reference**: ONNX's own reference computes what the others don't take, from an opset on.

| op | graph | NumPy | stages | reference |
|---|---|---|---|---|
"""


def page():
    """The whole page."""
    kinds = sorted(
        {*KNOWN, *REWRITES, *OWN, *PLAIN, *NEAR, *CONTROL, *DRAWS, *BY_REFERENCE},
        key=lambda kind: ("." in kind, kind),
    )
    return HEAD + "".join(f"| {' | '.join(_row(kind))} |\n" for kind in kinds)


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
