"""Low-rank adapters (LoRA): small parameters beside weights that stay as they are, and both as one again."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Generic

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, UnsupportedError
from ...ops.values import format_value, integer
from ..core.building import G, content_of
from ..model.logical_tensor import LogicalTensor, PropertyType, evolve_tensor, label
from ..model.op import Op
from ..model.patterns import fitting, patterns_of, some_of, unfit
from ..runtime.arrays import Array, numpy_type
from .adapted import A, B, Use, adapters_of, outputs_first, uses_of
from .rewriting import Rewriting

FLOATS = (DataType.f32, DataType.bf16, DataType.f16, DataType.f64)
NUMBER = "lora.scale"


# --- adapters ----------------------------------------------------------------------------------------------


def adapters(graph: G, rank: int, pattern: object, *, alpha: float | None, trained: object, seed: int) -> G:
    """See `Graph.adapters`."""
    size = integer(rank)
    if size is None or size < 1:
        raise ArgumentError(f"adapters: rank must be an integer from 1 on, got {format_value(rank)}")
    r = Rewriting(graph)
    names = {label(r.tensors[number]): number for number in r.held if r.tensors[number].data_type in FLOATS}
    multiplied = list(dict.fromkeys(label(r.tensors[use.held]) for use in uses_of(r)))
    adapted = adapters_of(r)
    if adapted:
        first = label(r.tensors[adapted[0].first])
        raise ArgumentError(
            f"adapters: the graph has adapters already, {first!r}; call merge_adapters() first, or name all weights "
            "in one call of adapters, as a list of patterns"
        )
    wanted = _matching(names, pattern, "pattern", multiplied)
    if not wanted:
        raise ArgumentError(f"adapters: pattern is empty; name some of these weights: {some_of(multiplied)}")
    uses = [use for use in uses_of(r) if use.held in wanted]
    if not uses:
        raise ArgumentError(
            f"adapters: pattern {format_value(pattern)} fits {label(r.tensors[min(wanted)])!r}, and no weights of a "
            f"MatMul or Convolution; name some of these: {some_of(multiplied)}"
        )
    others = [name for name, number in names.items() if number in r.parameters] or list(names)
    kept = _matching(names, trained, "trained", others)
    return _Adding(r, uses, size, size if alpha is None else alpha, kept, seed).done()


def _matching(names: dict[str, int], patterns: object, what: str, offered: Collection[str]) -> frozenset[int]:
    """Ids of the tensors whose names fit one of the patterns.

    Args:
        names: of the tensors that they may fit.
        offered: those of them that are meant as a rule, for errors.

    Raises:
        ArgumentTypeError: no patterns. ArgumentError: one that fits no name.
    """
    found: set[int] = set()
    for one in patterns_of(f"adapters: {what}", patterns, "*.query.weight"):
        named = fitting(one, names)
        if not named:
            raise unfit(
                f"adapters: {what}", one, "no constant or parameter of floating-point numbers", offered
            )
        found.update(names[name] for name in named)
    return frozenset(found)


class _Adding(Generic[G]):
    """One rewriting of a graph into one with adapters.

    Args:
        r: from the graph.
        uses: of the weights that get adapters.
        rank, alpha: of these.
        kept: ids of parameters that go on being trained.
        seed: of what A begins with.
    """

    def __init__(
        self, r: Rewriting[G], uses: Sequence[Use], rank: int, alpha: float, kept: frozenset[int], seed: int
    ) -> None:
        self._r, self._rank, self._scale = r, rank, alpha / rank
        self._uses = {use.op.id: use for use in uses}
        self._kept = kept
        self._seed = seed
        self._fixed: dict[int, LogicalTensor] = {}
        self._pairs: dict[int, tuple[LogicalTensor, LogicalTensor]] = {}
        self._names = {label(t) for t in r.tensors.values()}

    def done(self) -> G:
        r = self._r
        for tensor in r.source.inputs:
            r.made.add_input(tensor)
        assigned = {parameter.id for parameter, _ in r.source.assignments}
        for number, array in r.arrays.items():
            if number in self._kept:
                self._fixed[number] = evolve_tensor(r.tensors[number], property_type=PropertyType.variable)
                r.made.add_parameter(self._fixed[number], array)
            else:
                r.made.add_constant(r.tensors[number], array)
        for number, parameter in r.parameters.items():
            if number in assigned or number in self._kept:
                r.made.add_parameter(r.tensors[number], parameter.array)
            else:
                self._fixed[number] = evolve_tensor(r.tensors[number], property_type=PropertyType.constant)
                r.made.add_constant(self._fixed[number], parameter.array.copy())
        for op in r.ops:
            same = op.with_tensors([self._fixed.get(t.id, t) for t in op.inputs], op.outputs)
            use = self._uses.get(op.id)
            if use is None:
                r.made.add_op(same)
            else:
                self._adapt(use, same)
        r.mark()
        state = content_of(r.source).state
        if state is not None:
            tensors = {label(t): t for t in r.made.parameter_tensors}
            ours = {label(t): t for pair in self._pairs.values() for t in pair}
            named = {name: self._held(one, tensors) for name, one in state.items()}
            r.made.name_state({**named, **ours})
        return r.made

    def _held(self, one: Array | int, parameters: dict[str, LogicalTensor]) -> LogicalTensor | Array:
        if not isinstance(one, int):
            return one
        name = label(self._r.tensors[one])
        return parameters[name] if name in parameters else self._r.made.constants[name]

    def _adapt(self, use: Use, op: Op) -> None:
        """The op as it was, and beside it the product by A and by B, which is added."""
        r, result = self._r, op.outputs[0]
        module = self._module(use.held)
        first, second = self._pair(use, module)
        src = op.inputs[1 - use.place] if op.kind == "MatMul" else op.inputs[0]
        own = src.data_type
        if first.data_type is not own:
            first, second = (
                self._made("TypeCast", [t], own, f"{label(t)}.{own.value}") for t in (first, second)
            )
        if op.kind == "Convolution":
            inner = {**op.attributes, "weights_format": "OIX"}
            spatial = len(r.tensors[use.held].dims) - 2
            flat = dict.fromkeys(("pads_begin", "pads_end"), [0] * spatial)
            flat |= dict.fromkeys(("strides", "dilations"), [1] * spatial)
            outer: dict[str, object] = {
                **flat,
                "data_format": op.attributes.string("data_format"),
                "weights_format": "OIX",
            }
            down = self._made("Convolution", [src, first], own, f"{module}.lora_A", **inner)
            up = self._made(
                "Convolution", [self._scaled(down, module), second], own, f"{module}.lora_B", **outer
            )
        elif use.place == 1:
            turned = {"transpose_a": op.attributes.flag("transpose_a"), "transpose_b": True}
            down = self._made("MatMul", [src, first], own, f"{module}.lora_A", **turned)
            up = self._made(
                "MatMul", [self._scaled(down, module), second], own, f"{module}.lora_B", transpose_b=True
            )
        else:
            turned = {"transpose_b": op.attributes.flag("transpose_b")}
            down = self._made("MatMul", [first, src], own, f"{module}.lora_A", **turned)
            up = self._made("MatMul", [second, self._scaled(down, module)], own, f"{module}.lora_B")
        before = r.beside(result, result.data_type, "base")
        r.made.add_op(op.with_tensors(op.inputs, [before]))
        if result.data_type is not own:
            up = self._made("TypeCast", [up], result.data_type, f"{module}.lora_B.{result.data_type.value}")
        r.made.add_op(Op(r.new_id(), "Add", [before, up], [result], name=self._unique(f"{module}.lora")))

    def _scaled(self, tensor: LogicalTensor, module: str) -> LogicalTensor:
        if self._scale == 1:
            return tensor
        held = LogicalTensor(
            self._r.new_id(),
            tensor.data_type,
            [],
            property_type="constant",
            name=self._unique(f"{module}.{NUMBER}"),
        )
        self._r.made.add_constant(held, np.asarray(self._scale, numpy_type(tensor.data_type)))
        return self._made("Multiply", [tensor, held], tensor.data_type, f"{module}.lora_A.scaled")

    def _made(
        self, kind: str, inputs: Sequence[LogicalTensor], data_type: DataType, name: str, **attributes: object
    ) -> LogicalTensor:
        """Adds an op, and returns what it makes."""
        r, name = self._r, self._unique(name)
        output = LogicalTensor(r.new_id(), data_type, name=name)
        r.made.add_op(Op(r.new_id(), kind, inputs, [output], name=name, **attributes))
        return r.made.tensor(output.id)

    def _unique(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _module(self, held: int) -> str:
        return label(self._r.tensors[held]).removesuffix(".weight")

    def _pair(self, use: Use, module: str) -> tuple[LogicalTensor, LogicalTensor]:
        """A and B of some weights, the same wherever these are read."""
        if use.held in self._pairs:
            return self._pairs[use.held]
        r = self._r
        weights = r.tensors[use.held]
        lead, inner, outer, taps = _sizes(use, weights)
        own = DataType.f64 if weights.data_type is DataType.f64 else DataType.f32
        rng = np.random.default_rng([self._seed, len(self._pairs)])
        bound = 1 / math.sqrt(max(1, inner * math.prod(taps)))
        first = rng.uniform(-bound, bound, (*lead, self._rank, inner, *taps))
        second = np.zeros((*lead, outer, self._rank, *[1] * len(taps)))
        made: list[LogicalTensor] = []
        for name, array in ((A, first), (B, second)):
            tensor = LogicalTensor(
                r.new_id(), own, array.shape, property_type="variable", name=self._unique(f"{module}.{name}")
            )
            made.append(r.made.add_parameter(tensor, array.astype(numpy_type(own))))
        self._pairs[use.held] = (made[0], made[1])
        return self._pairs[use.held]


def _sizes(use: Use, weights: LogicalTensor) -> tuple[tuple[int, ...], int, int, tuple[int, ...]]:
    """Of weights as their op sees them: axes of batches, channels that it reads and makes, taps of a convolution.

    Raises:
        UnsupportedError: a convolution with groups.
    """
    shape = weights.dims
    for order in use.orders:
        shape = tuple(shape[axis] for axis in order)
    op = use.op
    if op.kind == "Convolution":
        if op.attributes.integer("groups") != 1:
            raise UnsupportedError(
                f"adapters: {label(weights)!r} is read by {op}, which has groups, and no adapter; leave "
                "it out of the pattern"
            )
        out, inner, *taps = (shape[axis] for axis in outputs_first(op, len(shape)))
        return (), inner, out, tuple(taps)
    rows, columns = shape[-2:]
    if use.turned:
        rows, columns = columns, rows
    inner, outer = (rows, columns) if use.place else (columns, rows)
    return shape[:-2], inner, outer, ()
