"""What ops of an ONNX model are called where exporters left the names of modules beside the nodes, not in their names.

PyTorch's exporter by `torch.export` calls nodes `node_Conv_754` and writes the modules around them into the metadata:
`pkg.torch.onnx.name_scopes` is `['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d_1']`, paths from the outermost and
then the ATen op. Source: `torch/onnx/_internal/exporter/_core.py` of PyTorch 2.5 and later.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

SCOPES = "pkg.torch.onnx.name_scopes"
WEIGHT = re.compile(r"(.+)\.weight")
PREFIX = "node_"
"""What the exporter puts before the names of all nodes."""


def module_titles(nodes: Iterable[Any], constants: Collection[str]) -> dict[str, str]:
    """Names of ops by the name of their node's first output, for nodes that say of which module they are.

    An op that is all that a submodule does has the submodule's path, at each of its calls. One of several has its own
    name behind it, `layer1.0.add`. What an optimiser has put between two nodes without a word is of the innermost
    module around both.

    Args:
        nodes: of the model, in order.
        constants: names of values that are known; nodes of which all inputs are constant become no ops.
    """
    fixed = {*constants, ""}
    moving: list[Any] = []
    for node in nodes:
        if fixed.issuperset(node.input):
            fixed.update(node.output)
        elif node.output:
            moving.append(node)
    around = _around(moving)
    paths: dict[str, str] = {}
    names: dict[str, str] = {}
    outer: set[str] = set()
    for node in moving:
        modules = around.get(node.output[0])
        if not modules:
            continue
        paths[node.output[0]] = _weighted(node, modules[-1])
        names[node.output[0]] = re.sub(r"_[0-9]+$", "", node.name.removeprefix(PREFIX)) or node.op_type
        outer.update(modules[:-1])
    kinds = Counter(path for path, _ in {(path, names[output]) for output, path in paths.items()})
    return {
        output: path if kinds[path] == 1 and path not in outer else f"{path}.{names[output]}"
        for output, path in paths.items()
    }


def _around(nodes: Sequence[Any]) -> dict[str, list[str]]:
    """The modules around each node, by its first output."""
    said = {node.output[0]: modules for node in nodes if (modules := _modules(node)) is not None}
    telling = [node for node in nodes if node.output[0] in said]
    made = {name: said[node.output[0]] for node in telling for name in node.output}
    read = {name: said[node.output[0]] for node in telling for name in node.input}
    for node in nodes:
        before = [made[name] for name in node.input if name in made]
        after = [read[name] for name in node.output if name in read]
        if node.output[0] not in said and before and after:
            shared = [one for one, other in zip(before[0], after[0], strict=False) if one == other]
            said[node.output[0]] = shared
            made.update(dict.fromkeys(node.output, shared))
    return said


def _modules(node: Any) -> list[str] | None:
    """Paths of the modules around a node, from the outermost; None where it does not say."""
    for entry in node.metadata_props:
        if entry.key != SCOPES:
            continue
        try:
            scopes: object = ast.literal_eval(entry.value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):  # anybody may write anything there
            return None
        listed = cast("list[object]", scopes) if isinstance(scopes, list) else [None]
        texts = [scope for scope in listed if isinstance(scope, str)]
        return [scope for scope in texts[:-1] if scope] if texts == listed else None
    return None


def _weighted(node: Any, path: str) -> str:
    """The module that the weights of a node are of, if it stands beside the one that the node names.

    A convolution into which a normalisation was folded has the normalisation's metadata.
    """
    for name in node.input[1:]:
        found = WEIGHT.fullmatch(name)
        if found and found[1].rpartition(".")[0] == path.rpartition(".")[0]:
            return found[1]
    return path
