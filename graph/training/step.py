"""One step of training as a graph: forward, backward, and the updates of the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, GraphError
from ...ops.records import frozen
from ..compile.signature import Signature
from ..gradients.arithmetic import is_float
from ..graph import Graph
from ..model.inference import infer
from ..model.logical_tensor import LogicalTensor, label
from ..model.topology import needed_ops, topological
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter
from .accumulation import add_to_sums
from .groups import common_clip_norm
from .optimizers import Numbers, Optimizer
from .program import PREFIX, add_variable
from .recompute import computed_again, named_tensors
from .sharding import Shards

EXCHANGING = ("HostMeanStart", "HostRankSum", "HostRankWeight")
"""Kinds of ops by which processes give something to the others."""


@frozen
class Owed:
    """A tensor that a step gives to the other processes, which wait for it.

    Attributes:
        bucket, piece: its place; None and 0 where all wait for each other at once.
        elements: how many it has.
        data_type: of the tensor.
    """

    bucket: int | None
    piece: int
    elements: int
    data_type: DataType


class Communicator(Protocol):
    """Processes that train one model together.

    Attributes:
        rank: number of this process, from 0.
    """

    @property
    def rank(self) -> int: ...

    def prepare(self, graph: Graph) -> None:
        """Makes what each process trains of the graph of one, before its gradients are added."""
        ...

    def averaged(
        self, graph: Graph, loss: LogicalTensor, gradients: Sequence[LogicalTensor | None]
    ) -> Iterable[LogicalTensor | None]:
        """Adds the ops that make of a loss and its gradients the means over the processes: the loss's comes first."""
        ...

    def broadcast(self, arrays: Iterable[Array]) -> None:
        """Writes what process 0 has into the arrays of all."""
        ...

    def mean(self, value: float) -> float:
        """The mean of a number over the processes."""
        ...

    def meet(
        self, what: str, value: object = None, *, weight: float = 1.0, failure: Exception | None = None
    ) -> None:
        """Waits for all, and checks that all are at the same point with the same value, and that none has failed.

        Args:
            what: where this process is, for errors.
            value: what it has there.
            weight: how much it counts in the means that follow, `averaged`.
            failure: why it can't go on; the others can't either then.

        Raises:
            ResourceError: another process has failed, is elsewhere, or has another value. Nothing is raised for a
                failure of one's own.
        """
        ...

    def abandon(self, owed: Iterable[Owed]) -> bool:
        """Gives the others NaN in the place of what a step that broke off still owes them, so that they skip it.

        Args:
            owed: all that a step gives, in order.

        Returns:
            Whether they will: not where nothing was owed any more, or another process is lost.
        """
        ...


@frozen(kw_only=True)
class Update:
    """What moves parameters, in a graph.

    Attributes:
        scale: of the gradients, see `Numbers`.
        norm: of all gradients together; where it is not finite nothing is changed.
        rates: the input of the rate of each optimizer, see `Numbers`.
        step: an input, see `Numbers`.
    """

    scale: LogicalTensor
    norm: LogicalTensor
    rates: tuple[tuple[Optimizer, LogicalTensor], ...]
    step: LogicalTensor


@frozen(kw_only=True)
class Step:
    """A graph that trains.

    Attributes:
        graph: open. Its inputs are the model's, and those of below.
        loss: its first output.
        update: None where it adds to the sums of gradients instead.
        seeds: inputs, one for each Dropout.
        owed: what it gives to other processes, in order.
        exchanged: the same, as it is on all of them: the kind of op, elements and data type of each.
        outputs: of the model, by their names, where they were asked for.
        summed: names of the parameters whose gradients it adds to their sums.
    """

    graph: Graph
    loss: LogicalTensor
    update: Update | None
    seeds: tuple[LogicalTensor, ...]
    owed: tuple[Owed, ...]
    exchanged: tuple[tuple[str, int, str], ...]
    outputs: Signature
    summed: tuple[str, ...] = ()


def loss_of(graph: Graph, loss: LogicalTensor) -> LogicalTensor:
    """The loss, as the graph has it.

    Raises:
        GraphError: it is another graph's, or was taken out.
    """
    if loss.id not in {t.id for t in graph.tensors}:
        raise GraphError(
            f"the loss {loss} is not in the graph: it is another one's, or graph.prune(…) has taken it out; prune with "
            "the loss among what stays, as graph.prune([logits, loss])"
        )
    return graph.tensor(loss)


def trainable(graph: Graph) -> list[LogicalTensor]:
    """The parameters that a loss may be differentiated by: of floating-point numbers, and not assigned by the graph."""
    assigned = {parameter.id for parameter, _ in graph.assignments}
    return [t for t in graph.parameter_tensors if is_float(t.data_type) and t.id not in assigned]


def outputs_of(graph: Graph, loss: LogicalTensor, names: Collection[str]) -> dict[str, LogicalTensor]:
    """The outputs beside the loss that these inputs are enough for, by name: those that are marked, if any are."""
    marked = {
        name or label(graph.tensor(number)): graph.tensor(number) for name, number in graph.marked_outputs
    }
    assigned = {value.id for _, value in graph.assignments}
    found = marked or {label(t): t for t in graph.outputs if t.id not in assigned}
    others = {t.id for t in graph.inputs if label(t) not in names}
    made = {t.id for op in graph.ops for t in op.outputs}
    return {
        name: tensor
        for name, tensor in found.items()
        if tensor.id != loss.id
        and tensor.id in made
        and not others.intersection(i.id for op in needed_ops(graph.ops, {tensor.id}) for i in op.inputs)
    }


def training_step(
    graph: Graph,
    loss: LogicalTensor,
    optimizers: Mapping[str, Optimizer],
    states: Mapping[str, Sequence[Parameter]],
    *,
    comm: Communicator | None,
    bf16: bool,
    outputs: Mapping[str, LogicalTensor],
    recompute: Sequence[str] = (),
    sums: Callable[[str], Parameter] | None = None,
    shards: Shards | None = None,
) -> Step:
    """The graph of one step: seeds, precision, what processes share, gradients, and what becomes of them.

    Args:
        graph: the model's, open; it is changed.
        loss: one number, of the graph.
        optimizers: make the updates, by the parameter's name; parameters that have none stay as they are.
        states: the optimizers', by the parameter's name.
        comm: averages gradients over processes.
        bf16: whether the forward and backward passes are in bf16.
        outputs: tensors that the step gives beside the loss, by name.
        recompute: patterns of names of what the backward pass computes again.
        sums: from a parameter's name to the sum that its gradient is added to, and nothing is updated; None for an
            update in each step.
        shards: parts of this process, which are updated in the place of the parameters.
    """
    graph.prune([loss, *outputs.values()])
    again = named_tensors(graph, recompute)
    seeds = _with_seeds(graph)
    if bf16:
        graph = graph.to("bf16")
    loss = graph.tensor(loss.id)
    if comm is not None:
        comm.prepare(graph)
    stats = graph.assignments
    by = [t for t in graph.parameter_tensors if label(t) in optimizers]
    gradients: Iterable[LogicalTensor | None] = graph.gradients(
        loss, by, recompute=computed_again(graph, again)
    )
    if comm is not None and sums is None:
        loss, gradients = mean_over_processes(graph, comm, loss, list(gradients))
    pairs = [(p, g) for p, g in zip(by, gradients, strict=True) if g is not None]
    if not pairs:
        raise ArgumentError(
            f"{loss} depends on no parameter that is to be trained; give the loss of what the model makes of them"
        )
    update = None
    if sums is None:
        update = add_updates(graph, pairs, optimizers, states, shards)
        _guard(graph, stats, update.scale)
    else:
        add_to_sums(graph, [(g, sums(label(p)), label(p)) for p, g in pairs])
        real = [value for _, value in stats if is_float(value.data_type)]  # others are counters
        if real:  # as they are finite themselves: whether the update is, shows later
            finite, norm = _scale(graph, real, None)
            graph.drop_output(norm)
            _guard(graph, stats, finite)
    told = {name: graph.tensor(tensor.id) for name, tensor in outputs.items()}
    graph.prune([loss, *([] if update is None else [update.norm]), *told.values()])
    given = exchanged(graph) if comm is not None else ()
    return Step(
        graph=graph,
        loss=loss,
        update=update,
        seeds=seeds,
        owed=tuple(one for _, one in given),
        exchanged=tuple((kind, one.elements, one.data_type.value) for kind, one in given),
        outputs=Signature([], list(told.items()), graph.ops if told else ()),
        summed=() if sums is None else tuple(label(p) for p, _ in pairs),
    )


def mean_over_processes(
    graph: Graph, comm: Communicator, loss: LogicalTensor, gradients: Sequence[LogicalTensor | None]
) -> tuple[LogicalTensor, list[LogicalTensor | None]]:
    """Adds what makes of a loss and its gradients the means over the processes."""
    mean, *means = comm.averaged(graph, loss, gradients)
    if mean is None:
        raise GraphError("the communicator must return the mean of the loss before the gradients, got None")
    return mean, means


def add_updates(
    graph: Graph,
    pairs: Sequence[tuple[LogicalTensor, LogicalTensor]],
    optimizers: Mapping[str, Optimizer],
    states: Mapping[str, Sequence[Parameter]],
    shards: Shards | None = None,
) -> Update:
    """Adds what clips gradients and moves their parameters.

    Args:
        pairs: parameters, and the gradient of each.
        optimizers, states: by the parameter's name.
        shards: parts of this process, which are updated in the place of the parameters.
    """
    if shards is not None:
        pairs, optimizers, states = shards.instead(graph, pairs, optimizers, states)
    rates = _rates(graph, [optimizers[label(p)] for p, _ in pairs])
    step = graph.input(f"{PREFIX}step", "s64", [])
    scale, norm = (_scale if shards is None else shards.scale)(
        graph, [g for _, g in pairs], common_clip_norm(optimizers)
    )
    for parameter, gradient in pairs:
        name = label(parameter)
        optimizer = optimizers[name]
        rate = next(rate for one, rate in rates if one == optimizer)
        held = [
            add_variable(graph, f"{PREFIX}{what}.{name}", state)
            for what, state in zip(optimizer.states, states[name], strict=True)
        ]
        made = optimizer.add(graph, parameter, gradient, held, Numbers(rate, scale, step))
        for target, value in zip((parameter, *held), made, strict=True):
            graph.assign(target, value)
    return Update(scale=scale, norm=norm, rates=rates, step=step)


def exchanged(graph: Graph) -> tuple[tuple[str, Owed], ...]:
    """What a step gives to other processes, in order, with the kinds of the ops that do."""
    known, ops = infer(topological(graph.ops), {t.id: t for t in graph.tensors}, {})
    return tuple(
        (
            op.kind,
            Owed(
                op.attributes.integer("bucket") if "bucket" in op.attributes else None,
                op.attributes.integer("piece") if "piece" in op.attributes else 0,
                math.prod(known[op.inputs[0].id].dims),
                op.inputs[0].data_type,
            ),
        )
        for op in ops
        if op.kind in EXCHANGING
    )


def _rates(graph: Graph, optimizers: Iterable[Optimizer]) -> tuple[tuple[Optimizer, LogicalTensor], ...]:
    """An input for the rate of each optimizer; equal ones have one."""
    found: list[Optimizer] = []
    for one in optimizers:
        if one not in found:
            found.append(one)
    return tuple((one, graph.input(f"{PREFIX}rate_{n}", "f64", [])) for n, one in enumerate(found))


def _with_seeds(graph: Graph) -> tuple[LogicalTensor, ...]:
    """Gives each Dropout an input for its seed, so that each step has masks of its own."""
    made: list[LogicalTensor] = []
    for op in graph.ops:
        if op.kind == "Dropout":
            seed = graph.input(f"{PREFIX}seed_{len(made)}", "s64", [])
            graph.replace_ops([op.with_tensors([op.inputs[0], seed, *op.inputs[2:]], op.outputs)])
            made.append(seed)
    return tuple(made)


def _scale(
    graph: Graph, gradients: Sequence[LogicalTensor], clip_norm: float | None
) -> tuple[LogicalTensor, LogicalTensor]:
    """What gradients are multiplied by, 0 where one is not finite, and the norm that it comes from."""
    scale, norm = graph.op("HostGradientScale", *gradients, max_norm=clip_norm or 0.0, guard=True, outputs=2)
    return scale, norm


def _guard(graph: Graph, stats: Sequence[tuple[LogicalTensor, LogicalTensor]], scale: LogicalTensor) -> None:
    """Lets what the model assigns itself, as running statistics, stay as it is where the step is skipped."""
    if not stats:
        return
    taken = graph.op("HostGreater", scale, graph.constant(np.zeros((), np.float64)))
    for parameter, value in stats:
        graph.drop_assignment(parameter)
        graph.assign(parameter, graph.op("HostSelect", taken, value, parameter))


def check_trainable(graph: Graph, loss: LogicalTensor) -> list[LogicalTensor]:
    """The parameters that are trained.

    Raises:
        ArgumentError: there is none, or one that is not f32, which optimizers take.
    """
    found = trainable(graph)
    if not found:
        raise ArgumentError(
            "the graph has no parameter to train; make weights with graph.parameter(…), which a loss depends on"
        )
    for tensor in found:
        if tensor.data_type is not DataType.f32:
            raise ArgumentError(
                f"parameter {tensor} must be f32 to be trained; precision='bf16' trains f32 parameters in bf16"
            )
    return found
