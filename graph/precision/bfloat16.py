"""f32 graphs in bf16: what is stored and multiplied is rounded to bf16, what needs the digits stays f32.

Which of an op's tensors may become bf16 is read from its schema: all of a type constraint together, if it has bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic

import ml_dtypes
import numpy as np

from ...ops.data_types import DataType, parse_data_type
from ...ops.errors import ArgumentError
from ...ops.schema import ANY, OpSchema
from ...ops.shared import FLOATS
from ..core.building import G
from ..model.logical_tensor import LogicalTensor, evolve_tensor
from ..model.op import Op
from ..runtime.arrays import Array
from .rates import tell_if_slow
from .rewriting import Kept, Rewriting, count, kept

F32, BF16 = DataType.f32, DataType.bf16
LARGEST = float.fromhex("0x1.fep127")
"""The largest finite number of bf16."""
ELEMENTWISE = ("binary", "eltwise", "host")
"""Families of ops that go along with a loss or with positions, among others."""
VIEWS = ("StaticReshape", "StaticTranspose")
"""Ops between those of a loss, as torch's squeezes are, that only give its numbers another shape."""


PRODUCTS = ("convolution", "matmul")
"""Families whose speed differs by more than the memory that is read and written."""


def to_data_type(graph: G, data_type: DataType | str, *, keep: Collection[str], ports: bool) -> G:
    """See `Graph.to`."""
    wanted = parse_data_type(data_type, "data_type")
    if wanted is not BF16:
        raise ArgumentError(
            f"a graph can be rewritten to bf16, got {wanted.value!r}; "
            + (
                "f16 has neither the range of f32 nor, on most CPUs, kernels"
                if wanted is DataType.f16
                else "graph.quantize_static(feeds) writes 8-bit integers"
            )
        )
    made = _Narrowing(Rewriting(graph), keep, ports).done()
    if any(op.schema.family in PRODUCTS and any(t.data_type is BF16 for t in op.inputs) for op in made.ops):
        tell_if_slow(BF16)
    return made


def rounded(array: Array) -> Array:
    """The nearest numbers in bf16, where finite ones stay finite: masks are full of the smallest f32."""
    largest = np.float32(LARGEST)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        bounded = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
    return bounded.astype(ml_dtypes.bfloat16)


class _Narrowing(Generic[G]):
    """One rewriting to bf16."""

    def __init__(self, rewriting: Rewriting[G], keep: Collection[str], ports: bool) -> None:
        self._rewriting = rewriting
        self._ports = ports
        self._kept = kept(keep, rewriting.ops, rewriting.tensors.values())
        self._wide = wide_ops(rewriting, self._kept)
        self._reads = self._types_read()
        self._versions: dict[int, dict[DataType, LogicalTensor]] = {}

    def done(self) -> G:
        r = self._rewriting
        for tensor in r.source.inputs:
            self._versions[tensor.id] = self._input(tensor)
        for number in r.arrays:
            self._constant(r.tensors[number])
        for number, parameter in r.parameters.items():
            tensor = r.made.add_parameter(r.tensors[number], parameter)
            self._versions[number] = {tensor.data_type: tensor}
        for op in r.ops:
            self._rewrite(op)
        r.mark()
        return r.made

    # --- types ---------------------------------------------------------------------------------------

    def _input_types(self, op: Op) -> tuple[DataType, ...]:
        """The type in which the op reads each input."""
        narrow = self._narrow(op)
        return tuple(
            BF16
            if tensor.data_type is F32 and port.type in narrow and not self._small(op, index)
            else tensor.data_type
            for index, (port, tensor) in enumerate(zip(op.input_ports, op.inputs, strict=True))
        )

    def _output_types(self, op: Op) -> tuple[DataType, ...]:
        """The type in which the op makes each output."""
        narrow = self._narrow(op)
        bound = {port.type for port in op.input_ports}
        return tuple(
            BF16
            if tensor.data_type is F32
            and port.type in narrow
            and not (port.type not in bound and self._leaves(tensor))
            else tensor.data_type
            for port, tensor in zip(op.output_ports, op.outputs, strict=True)
        )

    def _narrow(self, op: Op) -> frozenset[str]:
        """The type constraints of the op whose f32 tensors become bf16."""
        return frozenset() if op.id in self._wide else narrow_constraints(op)

    def _small(self, op: Op, index: int) -> bool:
        """Whether an input is held, broadcasts, and may have a type of its own: its digits cost nothing."""
        tensor, port = op.inputs[index], op.input_ports[index]
        others = [t for t in (*op.input_ports, *op.output_ports) if t is not port]
        array = self._rewriting.held.get(tensor.id)
        if array is None or any(other.type == port.type for other in others) or not op.outputs:
            return False
        result = count(self._rewriting.tensors[op.outputs[0].id])
        return array.size == 1 or (result is not None and array.size < result)

    def _leaves(self, tensor: LogicalTensor) -> bool:
        """Whether the tensor is an output that keeps its type, and nothing but that."""
        return self._stays(tensor) and not self._rewriting.topology.readers(tensor)

    def _stays(self, tensor: LogicalTensor) -> bool:
        """Whether the tensor keeps its type, for those outside or for the parameter that it is assigned to."""
        r = self._rewriting
        return tensor.id in r.assigned or (self._ports and tensor.id in r.outputs)

    def _types_read(self) -> dict[int, set[DataType]]:
        """Tensor → the types that ops read it in."""
        found: dict[int, set[DataType]] = {}
        for op in self._rewriting.ops:
            for tensor, data_type in zip(op.inputs, self._input_types(op), strict=True):
                found.setdefault(tensor.id, set()).add(data_type)
        return found

    # --- tensors -------------------------------------------------------------------------------------

    def _input(self, tensor: LogicalTensor) -> dict[DataType, LogicalTensor]:
        made = tensor
        if not self._ports and BF16 in self._reads.get(tensor.id, ()):
            made = evolve_tensor(tensor, data_type=BF16)
        self._rewriting.made.add_input(made)
        return {made.data_type: made}

    def _constant(self, tensor: LogicalTensor) -> None:
        r, array = self._rewriting, self._rewriting.arrays[tensor.id]
        wanted = self._reads.get(tensor.id, set())
        own = self._versions[tensor.id] = {}
        if tensor.data_type is not F32 or wanted != {BF16} or self._stays(tensor):
            own[tensor.data_type] = r.constant(tensor, array)
        if tensor.data_type is F32 and BF16 in wanted:
            narrow = r.beside(tensor, BF16, "bf16") if own else evolve_tensor(tensor, data_type=BF16)
            own[BF16] = r.constant(narrow, rounded(array))

    def _read(self, tensor: LogicalTensor, data_type: DataType) -> LogicalTensor:
        """The tensor in that type, behind a cast where it has another."""
        versions = self._versions[tensor.id]
        if data_type not in versions:
            (source,) = versions.values()
            made = self._rewriting.beside(tensor, data_type, data_type.value)
            versions[data_type] = self._rewriting.op("TypeCast", [source], made)
        return versions[data_type]

    # --- ops -----------------------------------------------------------------------------------------

    def _rewrite(self, op: Op) -> None:
        r = self._rewriting
        if self._is_idle_cast(op):
            self._versions[op.outputs[0].id] = self._versions[op.inputs[0].id]
            return
        inputs = [self._read(t, kind) for t, kind in zip(op.inputs, self._input_types(op), strict=True)]
        outputs: list[LogicalTensor] = []
        casts: list[tuple[LogicalTensor, LogicalTensor]] = []
        for tensor, data_type in zip(op.outputs, self._output_types(op), strict=True):
            made = evolve_tensor(tensor, data_type=data_type)
            self._versions[tensor.id] = {data_type: made}
            if data_type is not tensor.data_type and self._stays(tensor):
                made = r.beside(tensor, data_type, data_type.value)
                self._versions[tensor.id] = {data_type: made, tensor.data_type: tensor}
                casts.append((made, tensor))
            outputs.append(made)
        r.made.add_op(op.with_tensors(inputs, outputs))
        for source, tensor in casts:
            r.op("TypeCast", [source], tensor)

    def _is_idle_cast(self, op: Op) -> bool:
        """Whether it is a cast between f32 and bf16 that has become one from bf16 to bf16."""
        if op.kind != "TypeCast" or op.id in self._wide:
            return False
        if op.outputs[0].id in self._rewriting.outputs or self._stays(op.outputs[0]):
            return False
        return {op.inputs[0].data_type, op.outputs[0].data_type} <= {F32, BF16}


# --- what stays f32 ------------------------------------------------------------------------------------------


def narrow_constraints(op: Op) -> frozenset[str]:
    """The type constraints of an op that may become bf16."""
    return narrow_in(op.schema)


def narrow_in(schema: OpSchema) -> frozenset[str]:
    """The type constraints that may become bf16: of a normalisation the data's, not the statistics'."""
    found = {name for name, types in schema.types.items() if name != ANY and BF16 in types}
    if schema.family == "normalization":
        found &= {schema.inputs[0].type}
    return frozenset(found)


def wide_ops(rewriting: Rewriting[Any], keep: Kept) -> frozenset[int]:
    """Ids of the ops that stay in f32: what the user keeps, losses, state, positions, what computes with integers."""
    ops = rewriting.ops
    sources = keep.tensors - {t.id for op in ops for t in op.outputs}
    found = {op.id for op in ops if op.id in keep.ops or any(t.id in sources for t in op.inputs)}
    # Scales decide what integers stand for; and ops without results only pass on what the user named.
    found |= {
        op.id
        for op in ops
        if not op.outputs or (op.schema.family == "quantization" and op.kind != "TypeCast")
    }
    return frozenset(found.union(*(rule(ops, rewriting) for rule in STAYING.values())))


def _losses(ops: Sequence[Op], rewriting: Rewriting[Any]) -> set[int]:
    """Reductions to one number, the elementwise ops that lead to nothing else, and those that follow."""

    def single(tensor: LogicalTensor) -> bool:
        return count(rewriting.tensors[tensor.id]) == 1

    def reduces(op: Op) -> bool:
        return op.schema.family in ("reduction", "softmax") or op.kind.startswith("HostReduce")

    topology = rewriting.topology
    found = {op.id for op in ops if reduces(op) and single(op.outputs[0])}
    before = {op.id for op in ops if op.id in found}
    for op in reversed(ops):
        readers = [reader for tensor in op.outputs for reader in topology.readers(tensor)]
        local = op.schema.family in ELEMENTWISE or op.kind in VIEWS or reduces(op)
        if local and readers and all(reader.id in before for reader in readers):
            before.add(op.id)
    for op in ops:
        producers = [topology.producer(t) for t in op.inputs]
        follows = any(producer is not None and producer.id in found for producer in producers)
        if follows and op.schema.family in ELEMENTWISE and all(map(single, op.outputs)):
            found.add(op.id)
    return found | before


def _state(ops: Sequence[Op], rewriting: Rewriting[Any]) -> set[int]:
    """What becomes of a parameter that the graph assigns, element by element: small steps get lost in bf16.

    These are the ops that read it, or what was made of it, or that lead to nothing else than what it becomes.
    """
    topology = rewriting.topology
    state = {parameter.id for parameter, _ in rewriting.source.assignments}
    made = set(state)
    leads: set[int] = set()
    found: set[int] = set()
    local = [op for op in ops if op.schema.family in (*ELEMENTWISE, "reduction")]
    for op in local:
        if any(t.id in made for t in op.inputs):
            made.update(t.id for t in op.outputs)
    for op in reversed(local):
        readers = [reader.id for t in op.outputs for reader in topology.readers(t)]
        assigned = any(t.id in rewriting.assigned for t in op.outputs)
        if not assigned and leads.isdisjoint(readers):
            continue
        leads.add(op.id)
        if assigned or found.issuperset(readers) or any(t.id in made for t in op.inputs):
            found.add(op.id)
    return found


def _positions(ops: Sequence[Op], rewriting: Rewriting[Any]) -> set[int]:
    """What is computed from integers alone, as positions and masks are: bf16 has integers up to 256 only."""
    found: set[int] = set()
    made: set[int] = set()
    for op in ops:
        floats = [t for t in op.inputs if t.data_type in FLOATS]
        computed = [t for t in floats if t.id not in rewriting.held]
        begins = not floats and any(t.data_type is not DataType.boolean for t in op.inputs)
        goes_on = bool(computed) and all(t.id in made for t in computed)
        local = op.schema.family in (*ELEMENTWISE, "movement", "reduction") or _is_outer_product(op)
        if (begins or (goes_on and local)) and op.kind != "Dequantize":
            found.add(op.id)
            made.update(t.id for t in op.outputs)
    return found


def _is_outer_product(op: Op) -> bool:
    """Whether it is a matmul without sums: frequencies times positions, say."""
    if op.kind != "MatMul" or not op.inputs[0].shape:
        return False
    shape = op.inputs[0].shape
    return shape[-2 if op.attributes.flag("transpose_a") and len(shape) > 1 else -1] == 1


def _on_integers(ops: Sequence[Op], rewriting: Rewriting[Any]) -> set[int]:
    """What reads the result of a Dequantize, and so runs on the integers before it; not for its weights alone."""
    found: set[int] = set()
    made: set[int] = set()
    for op in ops:
        reads = [port.name for port, t in zip(op.input_ports, op.inputs, strict=True) if t.id in made]
        if op.kind == "Dequantize":
            made.add(op.outputs[0].id)
        elif reads and reads != ["weights"]:
            found.add(op.id)
            if op.schema.family == "movement":
                made.update(t.id for t in op.outputs)
    return found


STAYING: dict[str, Callable[[Sequence[Op], Rewriting[Any]], set[int]]] = {
    "losses": _losses,
    "state": _state,
    "positions": _positions,
    "8-bit integers": _on_integers,
}
"""What stays f32 whichever op it is → which ops these are. The guide has the first lines of these docstrings."""
