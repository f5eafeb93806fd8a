"""Graphs as text for Graphviz, with a cluster around each partition."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..runtime.text_files import save_text
from .description import DescribedOp, DescribedPartition, DescribedTensor, GraphDescription

HUES = (0.083, 0.917)
"""Without red."""
FIRST_HUE = 0.588
GOLDEN_SHARE = 0.382
"""Of the hues, from one partition to the next, so that neighbours differ."""
HEAD = (
    "digraph onednn_graph {",
    '  graph [rankdir=TB, fontname="Helvetica", fontsize=11];',
    '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=11];',
    '  edge [fontname="Helvetica", fontsize=9, color="#6e7781"];',
)


def save_dot(graph: GraphDescription, path: str | os.PathLike[str]) -> None:
    """Writes the text.

    Raises:
        GraphFileError: the file can't be written.
        ArgumentTypeError: no path.
    """
    save_text(dot_text(graph), path)


def dot_text(graph: GraphDescription) -> str:
    """The graph in the DOT language: nodes `op_ID`, `input_ID` and `output_ID`, clusters `cluster_ID`."""
    return "\n".join([*HEAD, *_lines(graph), "}", ""])


def _lines(graph: GraphDescription) -> Iterator[str]:
    ops = {op.id: op for op in graph.ops}
    for partition in graph.partitions:
        yield f"  subgraph cluster_{partition.id} {{"
        yield f"    label={_quoted(_title(partition))};"
        style = "rounded,filled,dashed" if partition.backend == "numpy" else "rounded,filled"
        yield f'    style="{style}"; color={_colour(partition, 0.35, 0.7)}; fillcolor={_colour(partition, 0.06, 1)};'
        fill = _colour(partition, 0.16, 1)
        yield from (f"    {_op(ops[number], fill)}" for number in partition.ops)
        yield "  }"
    claimed = {number for partition in graph.partitions for number in partition.ops}
    yield from (f"  {_op(op, 'white')}" for op in graph.ops if op.id not in claimed)
    outputs = set(graph.outputs)
    sources: dict[int, str] = {}
    for tensor in graph.tensors:
        sources[tensor.id] = f"input_{tensor.id}" if tensor.producer is None else f"op_{tensor.producer}"
        if tensor.producer is None:
            yield f"  {_end(f'input_{tensor.id}', tensor)}"
        if tensor.id in outputs:
            yield f"  {_end(f'output_{tensor.id}', tensor)}"
    tensors = {tensor.id: tensor for tensor in graph.tensors}
    for op in graph.ops:
        for _, number in op.inputs:
            inner = tensors[number].producer is not None
            label = f" [label={_quoted(tensors[number].text)}]" if inner else ""
            yield f"  {sources[number]} -> op_{op.id}{label};"
    for tensor in graph.tensors:
        if tensor.id in outputs:
            yield f"  {sources[tensor.id]} -> output_{tensor.id};"


def _title(partition: DescribedPartition) -> str:
    words = [f"#{partition.id}", partition.backend or "no backend"]
    if partition.seconds is not None:
        words.append(f"{partition.seconds * 1e3:.3f} ms")
    return " ".join(words)


def _op(op: DescribedOp, fill: str) -> str:
    label = f"{op.kind}\n{op.name}" if op.name else op.kind
    attributes = ", ".join(f"{name}={value}" for name, value in op.attributes.items())
    return f"op_{op.id} [label={_quoted(label)}, tooltip={_quoted(attributes or op.kind)}, fillcolor={fill}];"


def _end(node: str, tensor: DescribedTensor) -> str:
    style = ', style="filled,dashed"' if tensor.property_type == "constant" else ""
    label = _quoted(f"{tensor.name}\n{tensor.text}")
    return f'{node} [shape=oval, label={label}, fillcolor="#eef1f4"{style}];'


def _colour(partition: DescribedPartition, saturation: float, value: float) -> str:
    least, most = HUES
    hue = least + (FIRST_HUE - least + partition.id * GOLDEN_SHARE * (most - least)) % (most - least)
    return f'"{hue:.3f} {saturation} {value}"'


def _quoted(text: str) -> str:
    """A string of the language; backslashes, quotes and entities of HTML would mean something in it."""
    plain = "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)
    for letter, written in (("&", "&amp;"), ("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        plain = plain.replace(letter, written)
    return f'"{plain}"'
