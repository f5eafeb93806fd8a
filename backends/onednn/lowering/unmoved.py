"""Functions of each element before the ops that move elements, so that the primitive in front can take them along.

Exporters put reshapes and transpositions between a product and what is done to its elements, and quantisers put a
Quantize and a Dequantize behind each of these. Where something is done to an element doesn't matter:

    MatMul → Quantize → Dequantize → StaticReshape → Quantize → Dequantize → GELU → StaticReshape → Quantize
    MatMul → Quantize → Dequantize → GELU → Quantize → StaticReshape → StaticReshape

Integers that are quantised again as they were quantised before are the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count

from attrs import evolve

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from .edges import Edges
from .links import BINARY, ELTWISE, REORDERING, one_scale

SCALED = ("Dequantize", "Quantize")


def functions_first(request: CompileRequest) -> CompileRequest:
    """The same with functions of each element before ops that move what is quantised, and nothing quantised twice."""
    if not any(op.kind in SCALED for op in request.ops):
        return request
    return _quantized_once(_before_moves(request))


class _Order:
    """Ops in an order in which functions come before moves.

    Args:
        request: what is compiled.
    """

    def __init__(self, request: CompileRequest) -> None:
        self._edges = Edges(request)
        self._tensors = count(1 + max(t.id for op in request.ops for t in (*op.inputs, *op.outputs)))
        self._numbers = count(1 + max(op.id for op in request.ops))
        self._places: dict[int, int] = {}
        """Where the op is that makes a tensor."""
        self._ops: list[Op | None] = []
        self._read_once: set[int] = set()
        """Ids of new tensors, each of which one op reads."""

    @property
    def ops(self) -> tuple[Op, ...]:
        """All that were added, in order."""
        return tuple(op for op in self._ops if op is not None)

    def add(self, op: Op) -> None:
        """Adds an op before the moves of what it is a function of, as far as it can go."""
        after: list[Op] = []
        while (found := self._movable(op)) is not None:
            place, number, move = found
            self._ops[number] = None
            source, result = move.inputs[0], op.outputs[0]
            before = LogicalTensor(next(self._tensors), result.data_type, source.dims)
            self._read_once.add(before.id)
            others = [t if _is_number(t) else self._reshaped(t, source.dims) for t in op.inputs[:place]]
            others += [t if _is_number(t) else self._reshaped(t, source.dims) for t in op.inputs[place + 1 :]]
            inputs = [*others[:place], source, *others[place:]]
            after.insert(0, move.with_tensors([before], [result]))
            op = op.with_tensors(inputs, [before])
        for one in (op, *after):
            self._places.update((t.id, len(self._ops)) for t in one.outputs)
            self._ops.append(one)

    def _movable(self, op: Op) -> tuple[int, int, Op] | None:
        """An input that a move makes which may come after the op, and where that move is."""
        for place in _places(op):
            number = self._places.get(op.inputs[place].id)
            move = None if number is None else self._ops[number]
            if move is not None and number is not None and self._may_follow(move, op, place):
                return place, number, move
        return None

    def _may_follow(self, move: Op, op: Op, place: int) -> bool:
        """Whether a move may follow an op: nobody else reads what is moved, and all other inputs can be moved too."""
        moved, source = move.outputs[0], move.inputs[0]
        if move.kind not in REORDERING or len(move.inputs) != 1 or not source.dims:
            return False
        once = moved.id in self._read_once or len(self._edges.users(moved)) == 1
        others = [t for n, t in enumerate(op.inputs) if n != place]
        numbers = [t for t in others if _is_number(t) and len(t.dims) <= len(source.dims)]
        tensors = [t for t in others if not _is_number(t) and t.dims == moved.dims]
        alike = len(numbers) == len(others) or (len(tensors) == len(others) and move.kind == "StaticReshape")
        return once and alike and not self._edges.is_port(moved) and op.outputs[0].dims == moved.dims

    def _reshaped(self, tensor: LogicalTensor, shape: tuple[int, ...]) -> LogicalTensor:
        """A tensor in another shape."""
        result = LogicalTensor(next(self._tensors), tensor.data_type, shape)
        move = Op(
            next(self._numbers), "StaticReshape", [tensor], [result], shape=list(shape), special_zero=False
        )
        self._ops.append(move)  # nothing comes before it, or two operands would be reshaped by turns
        return result


def _before_moves(request: CompileRequest) -> CompileRequest:
    """The same with functions before the moves whose results they alone read."""
    order = _Order(request)
    for op in request.ops:
        order.add(op)
    return evolve(request, ops=order.ops)


def _places(op: Op) -> tuple[int, ...]:
    """The inputs of whose elements an op is a function, each by itself."""
    if op.kind in SCALED:
        return (0,) if one_scale(op) is not None else ()
    if op.kind in BINARY:
        return (0, 1) if op.inputs[0].id != op.inputs[1].id else ()
    return (0,) if op.kind in ELTWISE else ()


def _is_number(tensor: LogicalTensor) -> bool:
    return math.prod(tensor.dims) == 1


def _quantized_once(request: CompileRequest) -> CompileRequest:
    """The same without what quantises integers again by the scale that they had."""
    edges = Edges(request)
    same: dict[int, LogicalTensor] = {}
    dropped: set[int] = set()
    for op in request.ops:
        if op.kind != "Quantize" or edges.is_port(op.outputs[0]):
            continue
        before = edges.producer(op.inputs[0])
        if before is None or before.kind != "Dequantize" or one_scale(op) is None:
            continue
        integers = before.inputs[0]
        if one_scale(before) == one_scale(op) and integers.data_type is op.outputs[0].data_type:
            same[op.outputs[0].id] = same.get(integers.id, integers)
            dropped.add(op.id)
            if len(edges.users(op.inputs[0])) == 1 and not edges.is_port(op.inputs[0]):
                dropped.add(before.id)
    if not same:
        return request
    return evolve(request, ops=tuple(_on(op, same) for op in request.ops if op.id not in dropped))


def _on(op: Op, same: Mapping[int, LogicalTensor]) -> Op:
    inputs: Sequence[LogicalTensor] = [same.get(t.id, t) for t in op.inputs]
    return op.with_tensors(inputs, op.outputs)
