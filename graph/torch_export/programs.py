"""What an exported program of torch says of its values, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ops.errors import UnsupportedError
from ..aten.schema import numpy_type_of
from ..aten.symbols import open_shape
from ..importing.translation import Unmapped
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import data_type_of
from ..runtime.libraries import library
from .state import CHANGES


def metas_of(torch: Any, program: Any, names: Iterable[Any]) -> dict[str, Any]:
    """What the program knows of those of its values that are tensors."""
    metas = {node.name: node.meta.get("val") for node in program.graph.nodes}
    return {name: metas[name] for name in names if isinstance(metas.get(name), torch.Tensor)}


def tensors_of(torch: Any, program: Any, names: Iterable[Any], first: int = 0) -> dict[str, LogicalTensor]:
    """Values of the program as tensors with -1 for sizes that are left open, by name."""
    found: dict[str, LogicalTensor] = {}
    for name, meta in metas_of(torch, program, names).items():
        what = f"value {name!r}"
        try:
            data_type = data_type_of(np.empty(0, numpy_type_of(meta.dtype)), what)
        except Unmapped as error:
            raise UnsupportedError(f"from_torch: {what}: {error}") from error
        found[name] = LogicalTensor(first + len(found), data_type, open_shape(meta.shape), name=name)
    return found


def returned(program: Any) -> list[Any]:
    """What the program says of its outputs that the user gets; what buffers become comes before them."""
    return [spec for spec in program.graph_signature.output_specs if spec.kind.name not in CHANGES]


def output_names(program: Any) -> dict[int, str]:
    """A name of its own for each output that the user gets, by its number."""
    pytree = library("torch.utils._pytree", "torch", "from_torch")
    count = len(returned(program))
    structure = pytree.tree_unflatten(list(range(count)), program.call_spec.out_spec)
    wanted = {number: f"output_{number}" for number in range(count)} | dict(_names(structure, ""))
    found: dict[str, int] = {}
    for number, name in wanted.items():  # keys may spell the same, as "a.b" and "b" within "a"
        free, count = name, 1
        while free in found:
            count += 1
            free = f"{name}.{count}"
        found[free] = number
    return {number: name for name, number in found.items()}


def needed_nodes(nodes: Sequence[Any]) -> set[Any]:
    """The nodes that outputs depend on; others check sizes, say."""
    found = {node for node in nodes if node.op == "output"}
    for node in reversed(nodes):
        if node in found:
            found.update(node.all_input_nodes)
    return found


def leaves(values: Any) -> Iterator[Any]:
    """What lists hold, and lists in them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from leaves(cast("Sequence[Any]", value))
        else:
            yield value


def _names(structure: Any, prefix: str) -> Iterator[tuple[int, str]]:
    """A name for each output, by its number: keys of mappings, fields of named tuples, and places."""
    if isinstance(structure, int):
        yield structure, prefix or "output"
        return
    if isinstance(structure, Mapping):
        items = [(str(key), value) for key, value in cast("Mapping[Any, Any]", structure).items()]
    elif isinstance(structure, list | tuple):
        fields = getattr(cast("Any", structure), "_fields", None) or range(
            len(cast("Sequence[Any]", structure))
        )
        items = [
            (str(key) if isinstance(key, str) else f"{'' if prefix else 'output_'}{key}", value)
            for key, value in zip(fields, cast("Sequence[Any]", structure), strict=True)
        ]
    else:
        return
    for key, value in items:
        yield from _names(value, f"{prefix}.{key}" if prefix else key)
