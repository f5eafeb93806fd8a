"""The case in the making: sizes, operands, and ops whose shapes and values are known at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onednn_graph as og
import wide_draws

from .case import Case, Layout, Node, Wire, inferred, logical
from .data import array_of
from .oracle import held, run_kernel

MOST_ELEMENTS, MOST_DEEP_ELEMENTS = 40_000, 250_000
"""Of one tensor; of one in a graph with many channels."""
FLOATS = ("f32", "f32", "bf16", "f16")
SPATIAL = (1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16)
CHANNELS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 32, 33, 48, 64, 96, 128)
BATCHES = (1, 1, 2, 2, 3, 5)
WIDE = (15, 28, 29, 31, 33, 40, 64)
"""Spatial sizes beyond what kernels hold in registers."""


class Impossible(Exception):  # noqa: N818 -- the draw is thrown away
    """What was drawn can't be."""


class Draw:
    """A case by a random generator.

    Attributes:
        rng: decides everything.
        case: what was drawn so far.
        values: of each wire, in f64.
        type: floating-point type of what is drawn next.
        empty: whether sizes may be zero.
        wide: whether spatial sizes are large.
        deep: whether there are many channels, and sizes that products add up over, on small images.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.case = Case(seed=rng.randrange(2**31), real=rng.random() < 0.3)
        self.values: dict[int, np.ndarray] = {}
        self._tensors: dict[int, og.LogicalTensor] = {}
        self.type = rng.choice(FLOATS)
        self.empty = rng.random() < 0.015
        self.wide = not self.empty and rng.random() < 0.07
        self.deep = not self.empty and not self.wide and rng.random() < 0.15
        self.format = rng.choice(("NCX", "NXC"))
        self.batch = 0 if self.empty and rng.random() < 0.7 else rng.choice(BATCHES)
        self.batched: list[tuple[int, int]] = []

    @property
    def most(self) -> int:
        """Most elements of one tensor."""
        return MOST_DEEP_ELEMENTS if self.deep else MOST_ELEMENTS

    def probe(self) -> Draw:
        """A draw like this one, to find out about sizes."""
        made = Draw(self.rng)
        made.format, made.batch, made.type, made.deep = self.format, self.batch, self.type, self.deep
        return made

    # --- sizes -------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def spatial(self, rank: int) -> list[int]:
        if self.wide:
            return [self.rng.choice(WIDE) if a == rank - 1 or rank < 3 else 2 for a in range(rank)]
        if self.deep:
            return [self.rng.choice(SPATIAL[:8]) for _ in range(rank)]
        if self.chance(0.12):
            return [1] * rank
        if self.chance(0.25):
            return [self.rng.choice((5, 7, 9, 15))] * rank
        return [self.rng.choice(SPATIAL) for _ in range(rank)]

    def channels(self) -> int:
        return self.rng.choice(wide_draws.CHANNELS if self.deep and self.chance(0.7) else CHANNELS)

    def rank(self) -> int:
        return self.rng.choice((1, 2, 2, 2, 3))

    def image(self, channels: int | None = None, rank: int | None = None) -> list[int]:
        """A shape of data in `format`."""
        channels = channels or self.channels()
        while True:
            spatial = self.spatial(self.rank() if rank is None else rank)
            shape = (
                [self.batch, channels, *spatial] if self.format == "NCX" else [self.batch, *spatial, channels]
            )
            if np.prod(shape) <= self.most:
                return shape
            rank = 1 if rank is None else rank

    def shape(self) -> list[int]:
        """Any shape."""
        r = self.rng.random()
        if r < 0.55:
            return self.image()
        if r < 0.75:
            return [self.batch, self.channels()]
        rank = self.rng.choice((0, 1, 1, 2, 3, 3, 4, 5, 6))
        if self.deep and rank:
            return list(wide_draws.shape(self.rng, rank, self.most))
        while True:
            shape = [self.rng.choice(SPATIAL + CHANNELS) for _ in range(rank)]
            if np.prod(shape) <= MOST_ELEMENTS:
                return [0 if self.empty and self.chance(0.3) else d for d in shape]
            rank = max(1, rank - 1)

    def channel_axis(self, rank: int) -> int:
        return 1 if self.format == "NCX" else rank - 1

    # --- tensors -----------------------------------------------------------------------------------------

    def input(
        self, shape: Sequence[int], kind: str | None = None, data: str = "any", values: Any = None
    ) -> int:
        """A new input of the graph."""
        if np.prod(shape, dtype=float) > self.most:
            raise Impossible
        number = len(self.case.wires)
        self.case.wires[number] = Wire(kind or self.type, list(shape), data, values)
        self.fill(number)
        if shape and shape[0] == self.batch:
            self.batched.append((number, 0))
        return number

    def fill(self, number: int) -> None:
        """Notes the values of an input."""
        array = array_of(self.case, number)
        self.values[number] = array.astype(np.float64) if array.dtype.kind in "fV" else array

    def integers(self, values: Sequence[int]) -> int:
        """A shape operand."""
        return self.input([len(values)], "s32", values=list(values))

    def weights(self, shape: Sequence[int], kind: str | None = None, data: str = "any") -> int:
        number = self.input(shape, kind, data)
        self.case.wires[number].constant = self.chance(0.4)
        self.batched = [b for b in self.batched if b[0] != number]
        return number

    def wire(self, number: int) -> Wire:
        return self.case.wires[number]

    def dims(self, number: int) -> tuple[int, ...]:
        return self.case.wires[number].dims

    def op(
        self, kind: str, *inputs: int, to: str | None = None, outputs: int | None = None, **attributes: Any
    ) -> int:
        """Adds an op; returns its first output."""
        return self.ops(kind, *inputs, to=to, outputs=outputs, **attributes)[0]

    def ops(
        self, kind: str, *inputs: int, to: str | None = None, outputs: int | None = None, **attributes: Any
    ) -> list[int]:
        """Adds an op; returns its outputs.

        Args:
            to: type of the outputs where the inputs leave it open.
            outputs: how many.

        Raises:
            Impossible: there is no such op, or it has nothing that could be compared.
        """
        case, schema = self.case, SCHEMAS[kind]
        types = [og.DataType(case.wires[i].type) for i in inputs]
        tensors = [self._logical(i) for i in inputs]
        try:
            count = outputs
            if count is None:
                count = sum(port.required for port in schema.outputs)
            wanted = None if to is None else og.DataType(to)
            node = Node(kind, list(inputs), [], attributes)
            for data_type in schema.output_types(types, count, wanted):
                node.outputs.append(len(case.wires))
                case.wires[len(case.wires)] = Wire(data_type.value, [])
            for wire, shape in zip(node.outputs, inferred(case, node, tensors), strict=True):
                case.wires[wire].shape = list(shape)
                if np.prod(shape, dtype=float) > self.most:
                    raise Impossible
        except og.OneDNNGraphError as error:
            raise Impossible(f"{kind}: {error}") from error
        case.nodes.append(node)
        self.run(node)
        return node.outputs

    def run(self, node: Node) -> None:
        """Notes the values of an op's outputs."""
        ins, outs = ([self._logical(i) for i in side] for side in (node.inputs, node.outputs))
        op = og.Op(0, node.kind, ins, outs, **node.attributes)
        for wire, value in zip(
            node.outputs, run_kernel(op, [self._held(i) for i in node.inputs]), strict=True
        ):
            self.values[wire] = value

    def _logical(self, number: int) -> og.LogicalTensor:
        if number not in self._tensors:
            self._tensors[number] = logical(self.case, number)
        return self._tensors[number]

    def forget(self, number: int) -> None:
        """Takes the last wire away."""
        del self.case.wires[number]
        self.values.pop(number, None)
        self._tensors.pop(number, None)

    def tried(self, more: Callable[[], int], y: int) -> int:
        """What `more` adds, or `y` where it can't add anything a few times."""
        for _ in range(4):
            nodes, wires, kept = len(self.case.nodes), len(self.case.wires), self.type
            try:
                return more()
            except Impossible:
                del self.case.nodes[nodes:]
                for number in range(wires, len(self.case.wires)):
                    self.forget(number)
                self.batched = [b for b in self.batched if b[0] < wires]
                self.type = kept
        return y

    def _held(self, number: int) -> np.ndarray:
        return self.values[number].astype(held(og.DataType(self.case.wires[number].type)), copy=False)

    # --- operands ----------------------------------------------------------------------------------------

    def operand(self, shape: Sequence[int], data: str = "any", kind: str | None = None) -> int:
        """An input that broadcasts to `shape`, in one of the ways that kernels treat apart."""
        r, shape = self.rng.random(), list(shape)
        axis = self.channel_axis(len(shape)) if len(shape) > 1 else 0
        if r < 0.3 or not shape:
            return self.input(shape, kind, data)
        if r < 0.55:  # one for each channel
            kept = [d if a == axis else 1 for a, d in enumerate(shape)]
            if self.chance(0.3):
                kept = kept[axis:]
            return self.weights(kept, kind, data)
        if r < 0.63:  # one for each of the batch, or of the columns
            at = self.rng.choice((0, len(shape) - 1))
            return self.weights([d if a == at else 1 for a, d in enumerate(shape)], kind, data)
        if r < 0.75:
            return self.weights(self.rng.choice(([1] * len(shape), [1], [])), kind, data)
        if r < 0.9:
            return self.weights([d if self.chance(0.5) else 1 for d in shape], kind, data)
        return self.weights(shape[self.rng.randint(0, len(shape)) :], kind, data)

    # --- layouts -----------------------------------------------------------------------------------------

    def layout(self, shape: Sequence[int], *, output: bool) -> Layout:
        """A layout that is not simply row-major."""
        rank, rng = len(shape), self.rng
        order = list(range(rank))
        r = rng.random()
        if r < 0.35 and rank > 2:  # channels last or first
            order = [0, *range(2, rank), 1] if rng.random() < 0.6 else [0, rank - 1, *range(1, rank - 1)]
        elif r < 0.6:
            rng.shuffle(order)
        layout = Layout(order)
        if rng.random() < 0.35:
            layout.gaps = [0] * rank
            for axis in rng.sample(range(rank), rng.randint(1, rank)):
                layout.gaps[axis] = rng.choice((1, 2, 3, 4, 8, 16, 64))
        if rng.random() < 0.15:
            layout.step = rng.choice((2, 3, 4, 4, 8))
        if rng.random() < 0.5:
            layout.units = {
                str(axis): rng.choice((0, 1, 1, 2, 4, 7, 16, 40, 128, 1000))
                for axis, dim in enumerate(shape)
                if dim == 1 and rng.random() < 0.7
            }
        if not output and rng.random() < 0.06:
            layout.still = [rng.randrange(rank)]
        return layout


SCHEMAS = {schema.kind: schema for schema in (*og.list_ops(), og.op_schema("HostSlice"))}
