"""What planning knows so far: nodes and what they are, sizes, torch's calls and regions by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from attrs import field

from ....ops.records import define
from ...aten.symbols import Sizes
from ...importing.translation import Translation
from ..framework import torch
from ..run.steps import TorchCall
from .cells import Cell, NodeResults


class Building:
    """A region while it is planned.

    Attributes:
        t: its graph under construction.
        imports: its inputs, by tensor id.
        makers: the node that an op is of, by op id.
        outputs: what it hands out, by tensor id: slot and cell.
    """

    def __init__(self) -> None:
        self.t = Translation()
        self.imports: dict[int, Cell] = {}
        self.makers: dict[int, Any] = {}
        self.outputs: dict[int, tuple[int, Cell]] = {}


@define(eq=False)
class ProgramDraft:
    """A program while it is planned.

    Attributes:
        refused: nodes that torch has to do → why.
        count: of slots.
        sizes: what symbols are.
        of: node → what it is.
        calls: of torch, by level.
        regions: by level.
        fixed: constants, by slot.
        last_impure: the level of the latest call that may not change its place among others like it.
        overlaid: nodes whose results share memory with another one that users see.
    """

    refused: Mapping[str, str]
    count: int
    sizes: Sizes = field(factory=lambda: Sizes({}))
    of: dict[Any, Any] = field(factory=dict[Any, Any])
    calls: dict[int, list[TorchCall]] = field(factory=dict[int, list[TorchCall]])
    regions: dict[int, Building] = field(factory=dict[int, Building])
    fixed: dict[int, Any] = field(factory=dict[int, Any])
    last_impure: int = 0
    overlaid: set[Any] = field(factory=set[Any])

    def add(self, call: TorchCall, level: int) -> None:
        """Has torch do something."""
        self.calls.setdefault(level, []).append(call)

    def region(self, level: int) -> Building:
        """The region of a level."""
        return self.regions.setdefault(level, Building())

    def new_slot(self) -> int:
        """A slot that nobody has."""
        self.count += 1
        return self.count - 1

    def put(self, node: Any, made: Sequence[Cell | None], several: bool) -> None:
        """Says what a node is."""
        self.of[node] = NodeResults(tuple(made)) if several else made[0]

    def size(self, value: Any) -> Any:
        """A number for a size that is a symbol."""
        return self.sizes.of(value) if isinstance(value, torch.SymInt) else value

    def strides(self, meta: Any) -> tuple[int, ...] | None:
        """How torch has traced that a tensor lies; None if that is not known."""
        found = tuple(self.sizes.of(one) for one in meta.stride())
        return None if -1 in found else found

    def cells(self, node: Any) -> list[Cell]:
        """The tensors among a node's arguments."""
        found: list[Cell] = []
        for one in node.all_input_nodes:
            value = self.of[one]
            if isinstance(value, NodeResults):
                found += [cell for cell in value.cells if cell is not None]
            elif isinstance(value, Cell):
                found.append(value)
        return found

    def filled(self, argument: Any, value_of: Callable[[Any], Any]) -> Any:
        """An argument with what nodes are in their places, and numbers for sizes."""
        if isinstance(argument, torch.fx.Node):
            return value_of(self.of[argument])
        if isinstance(argument, list | tuple):
            made = [self.filled(one, value_of) for one in cast("Sequence[Any]", argument)]
            return made if isinstance(argument, list) else tuple(made)
        if isinstance(argument, slice):
            one: Any = argument  # pyright: ignore[reportUnknownVariableType] -- of what, nobody says
            return slice(*(self.filled(end, value_of) for end in (one.start, one.stop, one.step)))
        return self.size(argument)
