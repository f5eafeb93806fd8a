"""The update by what several steps have summed up, as a program of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..compile.signature import Signature
from ..graph import Graph
from ..runtime.parameter import Parameter
from .accumulation import LOSS, means_of_sums
from .optimizers import Optimizer
from .program import add_variable
from .sharding import Shards
from .step import Communicator, Step, add_updates, exchanged, mean_over_processes


def update_step(
    sums: Mapping[str, Parameter],
    parameters: Mapping[str, Parameter],
    optimizers: Mapping[str, Optimizer],
    states: Mapping[str, Sequence[Parameter]],
    comm: Communicator | None,
    shards: Shards | None = None,
) -> Step:
    """The graph of an update by the mean of gradients.

    Args:
        sums: by the parameter's name.
        parameters, optimizers, states: by name.
        comm: averages gradients over processes.
        shards: parts of this process, which are updated in the place of the parameters.
    """
    graph = Graph()
    loss = graph.input(LOSS, "f64", [])
    gradients = means_of_sums(graph, list(sums.items()))
    if comm is not None:
        loss, means = mean_over_processes(graph, comm, loss, gradients)
        gradients = [one for one in means if one is not None]
    own = [add_variable(graph, name, parameters[name]) for name in sums]
    update = add_updates(graph, list(zip(own, gradients, strict=True)), optimizers, states, shards)
    graph.prune([update.norm, *([] if comm is None else [loss])])
    given = exchanged(graph) if comm is not None else ()
    return Step(
        graph=graph,
        loss=loss,
        update=update,
        seeds=(),
        owed=tuple(one for _, one in given),
        exchanged=tuple((kind, one.elements, one.data_type.value) for kind, one in given),
        outputs=Signature([], [], ()),
    )
