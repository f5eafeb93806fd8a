"""A document under the settings of a case: other shapes, layouts, attributes, kinds and types, and what follows.

As in benchdnn, everything that the graph computes is inferred anew from its inputs. Source: oneDNN's documentation
of benchdnn, `driver_graph.md`, and what its graph driver does with the runs that oneDNN tests itself with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attrs import evolve

from ...graph.io.serialization import (
    AttributeRecord,
    Document,
    OpRecord,
)
from ...ops.attributes import AttributeType, AttributeValue
from ...ops.errors import ArgumentError, UnknownOpError, nearest
from ...ops.registry import REGISTRY
from ...ops.values import format_value
from .cases import Case
from .inferring import Inference
from .options import REWRITTEN_TYPES, UNDEFINED

UNARY = frozenset(
    {
        "Abs",
        "Clamp",
        "Elu",
        "Exp",
        "GELU",
        "HardSigmoid",
        "HardSwish",
        "LeakyReLU",
        "Log",
        "Mish",
        "ReLU",
        "Round",
        "Sigmoid",
        "SoftPlus",
        "Sqrt",
        "Square",
        "Tanh",
    }
)
"""Kinds that `--op-kind=ID:undef` removes by passing their input on."""
BINARY = frozenset({"Add", "BiasAdd", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"})
"""Kinds that it removes by passing the input on that another op makes."""

CONVERSIONS = frozenset({"TypeCast", "Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize"})
"""Kinds that give a graph several types on purpose: `--dt=TYPE` does not know which to change."""
NORMALIZATIONS = frozenset(
    {
        "BatchNormForwardTraining",
        "BatchNormInference",
        "BatchNormTrainingBackward",
        "GroupNorm",
        "GroupNormBackward",
        "LayerNorm",
        "LayerNormBackward",
        "RMSNorm",
    }
)
"""Kinds whose statistics and affine parameters stay f32 under `--dt=TYPE`."""
SIZED_BY_ATTRIBUTES = frozenset(
    {
        "ConvolutionBackwardData",
        "ConvolutionBackwardWeights",
        "ConvTransposeBackwardWeights",
    }
)
"""Kinds with a batch that `--mb` can't change, since an attribute says a whole shape."""


def rewrite(document: Document, case: Case) -> Document:
    """The document with the case's settings applied and all shapes inferred.

    Args:
        document: as it was loaded.
        case: the settings.

    Returns:
        A document in which each tensor has one shape and one layout, all of them strided.

    Raises:
        ArgumentError: a setting names a tensor or an op that is not there, or can't be applied to it.
        ShapeError, AttributeValueError, AttributeTypeError, DataTypeError, PortError, UnknownOpError: the rewritten
            graph is none; see `Op`.
    """
    _check_ids(document, case)
    batched = _batched_inputs(document) if case.mb else frozenset[int]()
    if case.mb and not batched:
        raise ArgumentError(
            f"{document.source}: --mb={case.mb} has no input to change, for no input's first axis is a batch that "
            "all its users pass on; write --in-shapes"
        )
    document = document.map_ops(_with_powers_of_two)
    document = document.map_ops(lambda op: _with_attributes(op, case.op_attrs.get(op.id, {})))
    for number, kind in case.op_kinds.items():
        document = _without(document, number) if kind == UNDEFINED else _with_kind(document, number, kind)
    document = _with_types(document, case)
    document = document.map_tensors(
        lambda t: evolve(t, property_type=case.properties.get(t.id, t.property_type))
    )
    if case.fpmath is not None:
        document = evolve(document, fpmath_mode=case.fpmath.mode, apply_to_int=case.fpmath.apply_to_int)
    # Ids of ports in files that were edited by hand are stale; what no op reads is an output.
    document = evolve(
        document, ops=_sorted(document.ops), input_ports=None, output_ports=None, interface=None
    )
    return Inference(document, case, batched).run()


def _check_ids(document: Document, case: Case) -> None:
    tensors = {t.id for op in document.ops for t in (*op.inputs, *op.outputs)}
    ops = {op.id for op in document.ops}
    for option, ids, known, what in (
        ("tensor-property", case.properties, tensors, "tensor"),
        ("dt", case.tensor_types, tensors, "tensor"),
        ("op-attrs", case.op_attrs, ops, "op"),
        ("op-kind", case.op_kinds, ops, "op"),
    ):
        for number in ids:
            if number not in known:
                raise ArgumentError(
                    f"{document.source}: --{option} names the {what} {number}, which is not in the graph; it has "
                    f"{format_value(sorted(known))}"
                )
    read = {t.id for op in document.ops for t in op.inputs}
    for number in case.in_shapes:
        if number in read and number in _producers(document.ops):
            raise ArgumentError(
                f"{document.source}: --in-shapes names the tensor {number}, which is inside the graph; its shape "
                "follows from the inputs', so give those"
            )


def unused(document: Document, case: Case) -> tuple[int, ...]:
    """Tensors that `--in-shapes` names and the graph does not have: benchdnn passes over them, as `rewrite` does."""
    tensors = {t.id for op in document.ops for t in (*op.inputs, *op.outputs)}
    return tuple(number for number in case.in_shapes if number not in tensors)


def _producers(ops: Sequence[OpRecord]) -> dict[int, OpRecord]:
    return {t.id: op for op in ops for t in op.outputs}


def _sorted(ops: Sequence[OpRecord]) -> tuple[OpRecord, ...]:
    """The ops with each after those that it needs, as far as there is no cycle."""
    waiting = list(ops)
    made = {t.id for op in ops for t in op.outputs}
    ordered: list[OpRecord] = []
    while waiting:
        ready = [op for op in waiting if not any(t.id in made for t in op.inputs)]
        if not ready:
            break
        made -= {t.id for op in ready for t in op.outputs}
        taken = {id(op) for op in ready}
        ordered += ready
        waiting = [op for op in waiting if id(op) not in taken]
    return (*ordered, *waiting)


# --- attributes ---------------------------------------------------------------------------------------


def _with_powers_of_two(op: OpRecord) -> OpRecord:
    """Static scales rounded up to powers of two, with which quantizing small integers is exact."""
    scales = op.values.get("scales")
    if op.kind not in ("Quantize", "Dequantize") or not isinstance(scales, tuple):
        return op
    return op.with_attributes(
        {"scales": tuple(2.0 ** math.ceil(math.log2(s)) if s > 0 else s for s in scales)}
    )


def _with_attributes(op: OpRecord, changes: Mapping[str, str]) -> OpRecord:
    if not changes:
        return op
    attributes = dict(op.attributes)
    for name, text in changes.items():
        kind = attributes[name].type if name in attributes else _attribute_type(op, name)
        attributes[name] = AttributeRecord(
            kind, attribute_value(text, kind, f"--op-attrs, op {op.id}: '{name}'")
        )
    return evolve(op, attributes=attributes)


def _attribute_type(op: OpRecord, name: str) -> AttributeType:
    schema, names = REGISTRY.resolve(op.kind)
    types = {names.spell(spec.name): spec.type for spec in schema.attributes}
    if name not in types:
        raise ArgumentError(
            f"--op-attrs, op {op.id}: {op.kind} has no attribute {format_value(name)}{nearest(name, types)}; it has "
            f"{', '.join(types) or 'none'}"
        )
    return types[name]


def attribute_value(text: str, kind: AttributeType, what: str) -> AttributeValue:
    """A value as the command line writes it: lists are joined by `x`."""
    try:
        match kind:
            case AttributeType.string:
                return text
            case AttributeType.bool:
                return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
            case AttributeType.s64:
                return int(text)
            case AttributeType.s64_list:
                # oneDNN's own runs have factors where whole sizes belong, and benchdnn cuts them off.
                return tuple(int(float(item)) for item in text.split("x"))
            case AttributeType.f32:
                return float(text)
            case AttributeType.f32_list:
                return tuple(float(item) for item in text.split("x"))
    except (ValueError, KeyError, OverflowError):  # the last for whole numbers as large as 1e400
        raise ArgumentError(
            f"{what} must be of type {kind.value}, with x between the elements of a list, got {format_value(text)}"
        ) from None


# --- kinds --------------------------------------------------------------------------------------------


def _op_of(document: Document, number: int) -> OpRecord:
    return next(op for op in document.ops if op.id == number)


def _replaced(document: Document, op: OpRecord) -> Document:
    return document.map_ops(lambda other: op if other.id == op.id else other)


def _role(kind: str) -> tuple[str, int]:
    """What two kinds must share for one to take the other's place."""
    schema, _ = REGISTRY.resolve(kind)
    return schema.family, len(schema.inputs)


def _with_kind(document: Document, number: int, kind: str) -> Document:
    """The op as another kind of its family, without the attributes that the new kind does not have."""
    op = _op_of(document, number)
    if kind not in REGISTRY:
        raise UnknownOpError(
            f"--op-kind={number}:{kind}: unknown op kind{nearest(kind, (s.kind for s in REGISTRY))}"
        )
    if _role(kind) != _role(op.kind) or _role(kind)[0] not in ("binary", "eltwise"):
        raise ArgumentError(
            f"--op-kind={number}:{kind}: the op is a {op.kind}, and only kinds with as many operands of the binary "
            "or eltwise family can take each other's place"
        )
    schema, names = REGISTRY.resolve(kind)
    known = {names.spell(spec.name) for spec in schema.attributes}
    kept = {name: value for name, value in op.attributes.items() if name in known}
    return _replaced(document, evolve(op, kind=kind, attributes=kept))


def _without(document: Document, number: int) -> Document:
    """The document without an op, whose users read the op's input instead."""
    op = _op_of(document, number)
    produced = _producers(document.ops)
    passed = [t for t in op.inputs if t.id in produced] if op.kind in BINARY else list(op.inputs)
    if op.kind not in UNARY | BINARY or len(passed) != 1 or len(op.outputs) != 1:
        raise ArgumentError(
            f"--op-kind={number}:{UNDEFINED}: {op.kind} can't be removed; it must be a function of one tensor, or an "
            "arithmetic op with one operand that is an input of the graph"
        )

    def rewired(other: OpRecord) -> OpRecord:
        inputs = tuple(passed[0] if t.id == op.outputs[0].id else t for t in other.inputs)
        return evolve(other, inputs=inputs)

    rest = tuple(rewired(other) for other in document.ops if other.id != number)
    return evolve(document, ops=rest)


# --- types --------------------------------------------------------------------------------------------


def _with_types(document: Document, case: Case) -> Document:
    if case.data_type is not None:
        for op in document.ops:
            if op.kind in CONVERSIONS:
                raise ArgumentError(
                    f"{document.source}: --dt={case.data_type.value} needs a graph of one floating-point type, and "
                    f"this one has {op.kind} (op {op.id}); write --dt=ID:TYPE+… for single tensors"
                )
        changed = {i for op in document.ops for i in _floating(op)}
        target = case.data_type
        document = document.map_tensors(lambda t: evolve(t, data_type=target) if t.id in changed else t)
    types = case.tensor_types
    return document.map_tensors(lambda t: evolve(t, data_type=types.get(t.id, t.data_type)))


def _floating(op: OpRecord) -> list[int]:
    """Tensors of the op that have the graph's floating-point type."""
    tensors = (*op.inputs, *op.outputs)
    if op.kind in NORMALIZATIONS:
        backward = op.kind.endswith("Backward")
        tensors = (*op.inputs[: 2 if backward else 1], *op.outputs[:1])
    return [t.id for t in tensors if t.data_type in REWRITTEN_TYPES]


# --- the batch ----------------------------------------------------------------------------------------


def _batched_inputs(document: Document) -> frozenset[int]:
    """Inputs of the graph whose first axis is a batch in everything that is computed from them."""
    read = {t.id for op in document.ops for t in op.inputs}
    makers = {op.outputs[0].id: op for op in document.ops if op.outputs}
    # From where it ends back to what leads there, step by step: chains may be longer than Python's stack.
    others = {t.id for op in document.ops for t in op.inputs if not _passes_batch(op, t.id)}
    waiting = list(others)
    while waiting:
        maker = makers.get(waiting.pop())
        found = set[int]() if maker is None else {t.id for t in maker.inputs} - others
        others |= found
        waiting += found
    return frozenset(read - others - _producers(document.ops).keys())


def _passes_batch(op: OpRecord, number: int) -> bool:
    """Whether the first axis of this input is the first axis of the op's output."""
    port = next(i for i, t in enumerate(op.inputs) if t.id == number)
    ranks = [len(t.shape) for t in op.inputs]
    if not ranks[port] or op.kind in SIZED_BY_ATTRIBUTES:
        return False
    if op.kind == "GroupNormBackward":
        return port < 4
    if op.kind == "LayerNormBackward" and port in (2, 3):
        return op.inputs[port].shape[0] == op.inputs[0].shape[0]
    if op.kind == "PReLUBackward":
        return port != 1 or (ranks[1] == ranks[0] and op.inputs[1].shape[0] != 1)
    if op.kind.endswith("Backward"):
        return port in (0, 1)
    if op.kind in BINARY | {"PReLU"} and len(ranks) > 1:
        if ranks[0] != ranks[1]:
            return ranks[port] == max(ranks) and (port == 0 or op.kind != "PReLU")
        return port == 0 or op.inputs[1].shape[0] != 1
    if op.kind == "MatMul":
        return (ranks[0] > 2 and port in (0, 1)) or (ranks[0] == 2 and port == 0)
    if op.kind == "DynamicDequantize":
        return ranks[0] > 2 or port == 0
    return port == 0 or op.kind == "Concat"
