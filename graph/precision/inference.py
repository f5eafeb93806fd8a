"""From a graph that trains to one for inference: running statistics in the place of the batch's, and no Dropout."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ...ops.values import format_value
from ..core.building import G, GraphCore, empty_like
from ..core.reading import UPDATES
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from ..model.patterns import fitting, near_name, some_of
from ..model.topology import needed_ops, topological
from ..runtime.arrays import numpy_type
from .folding import fold_batch_norm
from .rewriting import count, frozen_parameters, keep_outputs


def for_inference(graph: G, outputs: object, *, folded: bool = False, loss: LogicalTensor | None = None) -> G:
    """See `Graph.for_inference`.

    Args:
        loss: what the graph was trained by, where that is known; it is no output unless it is named as one.
    """
    named = _chosen(graph, outputs, loss)
    made = evaluating(graph, {number for _, number in named})
    kept = made.output_names
    missing = [name for name, _ in named if name not in kept]
    if missing and (outputs is not None or not kept):
        raise UnsupportedError(
            f"for_inference: output {missing[0]!r} is something that there is in training alone, as statistics of a "
            "batch or a mask is; name other outputs"
        )
    fixed = frozen_parameters(_without_unread(graph, made))
    return fold_batch_norm(fixed) if folded else fixed


# --- what is left ----------------------------------------------------------------------------------------


def _chosen(graph: GraphCore, outputs: object, loss: LogicalTensor | None) -> list[tuple[str, int]]:
    """Names and tensors of the outputs to keep.

    Raises:
        ArgumentError, ArgumentTypeError: none is left; a name that is none of the graph's.
    """
    names = {name: graph.tensor(number).id for name, number in _outputs(graph)}
    if outputs is None:
        found = [(name, number) for name, number in _of_the_model(graph) if loss is None or number != loss.id]
        if not found:
            raise ArgumentError(
                "for_inference: no output is left without the loss, gradients and updates; name tensors that are to be "
                "outputs, by outputs=[…], or mark them by graph.output(…) before the graph is trained"
            )
        return found
    several = [outputs] if isinstance(outputs, str | LogicalTensor) else outputs
    if not isinstance(several, Collection):
        raise ArgumentTypeError(
            f"for_inference takes names or tensors as outputs, one or a list, got {format_value(outputs)}"
        )
    tensors = {label(t): t.id for t in graph.tensors} | names
    of_id = {number: name for name, number in names.items()}
    chosen: dict[int, str] = {}
    for one in cast("Collection[object]", several):
        key = label(one) if isinstance(one, LogicalTensor) else one
        given = [key] if key in tensors else fitting(key, tensors) if isinstance(key, str) else []
        if not given:
            raise ArgumentError(
                f"for_inference: outputs has {format_value(one)}, which is no tensor of the graph"
                f"{near_name(str(key), tensors)}; its outputs are {some_of(list(names))}"
            )
        for name in map(str, given):
            chosen.setdefault(tensors[name], name if name in names else of_id.get(tensors[name], name))
    return [(name, number) for number, name in chosen.items()]


def _outputs(graph: GraphCore) -> list[tuple[str, int]]:
    """Name and tensor of each output, in order."""
    marked = [number for _, number in graph.marked_outputs]
    others = [t.id for t in graph.outputs if t.id not in set(marked)]
    return list(zip(graph.output_names, [*marked, *others], strict=True))


def _of_the_model(graph: GraphCore) -> list[tuple[str, int]]:
    """The outputs that are not there for training: no gradients or updates, nor the loss where there are others."""
    assigned = {value.id for _, value in graph.assignments}
    named = {number for name, number in graph.marked_outputs if name is not None}
    needs: dict[int, set[int]] = {}
    found: list[tuple[str, int]] = []
    for name, number in _outputs(graph):
        ops = needed_ops(graph.ops, {number})
        if any("Backward" in op.kind or op.kind in UPDATES for op in ops):
            continue
        if number not in named and (named or number in assigned):
            continue
        needs[number] = {t.id for op in ops for t in op.inputs}.intersection(t.id for t in graph.inputs)
        found.append((name, number))
    several = [(name, number) for name, number in found if count(graph.tensor(number)) != 1]
    given = set[int]().union(*(needs[number] for _, number in several))
    # A loss is one number, and compares with labels that nothing else reads.
    return [
        (name, number)
        for name, number in found
        if not several or (name, number) in several or needs[number] <= given
    ]


def _without_unread(graph: GraphCore, made: G) -> G:
    """The graph without the inputs that only what is gone has read."""
    read = {t.id for op in graph.ops for t in op.inputs}
    still = {t.id for op in made.ops for t in op.inputs} | {number for _, number in made.marked_outputs}
    kept = empty_like(made)
    for tensor in made.inputs:
        if tensor.id in still or tensor.id not in read:
            kept.add_input(tensor)
    _take_held(made, kept, still)
    for op in made.ops:
        kept.add_op(op)
    for name, number in made.marked_outputs:
        kept.output(kept.tensor(number), name=name)
    kept.prune()
    keep_outputs(kept, {t.id for t in made.outputs})
    return kept


def _take_held(graph: GraphCore, made: GraphCore, read: Collection[int] | None = None) -> None:
    """Has another graph hold the constants and share the parameters, or those of them that are read."""
    for number, array in graph.held_constants.items():
        if read is None or number in read:
            made.add_constant(graph.tensor(number), array)
    tensors = {t.id: t for t in graph.parameter_tensors}
    for number, parameter in graph.held_parameters.items():
        if read is None or number in read:
            made.add_parameter(tensors[number], parameter)


# --- ops that are others in inference --------------------------------------------------------------------


def evaluating(graph: G, wanted: Collection[int]) -> G:
    """The same graph for evaluation. It shares the parameters and assigns none.

    BatchNormForwardTraining becomes BatchNormInference with the running statistics that it is given, and Dropout hands
    its input on. Ops that the wanted tensors don't depend on, as those of running statistics alone, are left out.
    Without running statistics, where it is given constants that nothing moves, a BatchNorm goes on with the batch's.

    Args:
        graph: stays as it is.
        wanted: ids of tensors, of which those that are outputs stay so.

    Raises:
        UnsupportedError: an op reads what is computed in training alone, as statistics of the batch and masks are.
        GraphError: a cycle.
    """
    made = empty_like(graph)
    for tensor in graph.inputs:
        made.add_input(tensor)
    _take_held(graph, made)
    held = graph.held_constants.keys()
    instead: dict[int, LogicalTensor] = {}
    lost: dict[int, Op] = {}
    next_id = 1 + max([t.id for t in graph.tensors] + [op.id for op in graph.ops], default=0)
    for op in topological(needed_ops(graph.ops, wanted)):
        inputs = [instead.get(t.id, t) for t in op.inputs]
        by_running = op.kind == "BatchNormForwardTraining" and not {t.id for t in inputs[1:3]} <= held
        if by_running or op.kind == "Dropout":
            lost |= {t.id: op for t in op.outputs[1:]}
        else:
            read = next((lost[t.id] for t in inputs if t.id in lost), None)
            if read is not None:
                raise UnsupportedError(
                    f"{op} reads what {read} has in training alone; the graph can't be evaluated with it"
                )
        if op.kind in ("Dropout", "HostStopGradient"):
            instead[op.outputs[0].id] = inputs[0]
        elif by_running:
            next_id = _with_running_statistics(made, op, inputs, next_id)
        else:
            made.add_op(op.with_tensors(inputs, op.outputs))
    _mark(graph, made, instead, lost, wanted)
    return made


def _with_running_statistics(made: GraphCore, op: Op, inputs: list[LogicalTensor], next_id: int) -> int:
    src, mean, variance, *affine = inputs
    for name in ("gamma", "beta")[len(affine) :]:
        value = np.full(mean.dims, float(name == "gamma"), numpy_type(mean.data_type))
        held = LogicalTensor(
            next_id, mean.data_type, mean.shape, property_type="constant", name=f"{op.name or op.id}.{name}"
        )
        affine.append(made.add_constant(held, value))
        next_id += 1
    made.add_op(
        Op(
            op.id,
            "BatchNormInference",
            [src, *affine, mean, variance],
            op.outputs[:1],
            name=op.name,
            epsilon=op.attributes.real("epsilon"),
            data_format=op.attributes.string("data_format"),
        )
    )
    return next_id


def _mark(
    graph: GraphCore,
    made: GraphCore,
    instead: Mapping[int, LogicalTensor],
    lost: Mapping[int, Op],
    wanted: Collection[int],
) -> None:
    """The wanted tensors are the outputs, in the order and under the names that they had, the others behind these."""
    named: Sequence[tuple[str | None, int]] = graph.marked_outputs
    marked = {number for _, number in named}
    before = [t.id for t in graph.outputs if t.id not in marked]
    inner = [number for number in wanted if number not in marked and number not in set(before)]
    for name, number in (*named, *((None, number) for number in (*before, *inner))):
        if number in lost or number not in wanted:
            continue
        tensor = instead.get(number)
        if tensor is None:
            made.output(made.tensor(number), name=name)
        else:
            made.output(tensor, name=name or label(graph.tensor(number)))
    keep_outputs(made, {number for _, number in made.marked_outputs})
