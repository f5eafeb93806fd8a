"""Where the graphs of a training come from: one graph, or a template that makes one for each set of sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from attrs import evolve

from ...ops.errors import ArgumentError, ArgumentTypeError, GraphError, ShapeError
from ...ops.records import frozen
from ...ops.schema import UNKNOWN_DIM
from ...ops.values import format_value
from ..core.building import content_of
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, evolve_tensor, format_shape, label
from ..open_graph import OpenGraph, example_of, no_graph_yet
from ..precision.inference import for_inference
from ..runtime.parameter import Parameter
from .step import loss_of

LossOf = Callable[[Graph], LogicalTensor]
"""Adds a loss to a model, and the inputs that it needs, labels say, and returns it."""


@frozen
class Source:
    """A graph that is trained; all sizes that are open in it are in its one set of ops.

    Attributes:
        graph: open. Its names and parameters, and its ops but for their sizes, are those of all that `at` makes.
        loss: one number, of it.
        inputs: of all graphs, with -1 for sizes that are open.
    """

    graph: Graph
    loss: LogicalTensor
    inputs: tuple[LogicalTensor, ...]

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Those of all graphs, by name."""
        held = self.graph.held_parameters
        return {label(t): held[t.id] for t in self.graph.parameter_tensors}

    @property
    def template(self) -> OpenGraph | None:
        """What makes a graph for each set of sizes, where it takes that."""
        return None

    def at(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Graph, LogicalTensor]:
        """An open graph of its own for inputs of these shapes, by name, and its loss.

        Raises:
            ArgumentError: a shape is missing that a template needs.
        """
        return self.graph.with_shapes(dict(shapes)), self.loss


@frozen
class TemplateSource(Source):
    """A template that is trained. Parameters of the same name are the same in all of its graphs.

    Attributes:
        made_by: the template.
        loss_of: adds the loss to each of its graphs.
    """

    made_by: OpenGraph
    loss_of: LossOf

    @property
    def template(self) -> OpenGraph:
        return self.made_by

    def at(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Graph, LogicalTensor]:
        template = self.made_by
        made = template.with_shapes({n: s for n, s in shapes.items() if n in template.input_names})
        if not isinstance(made, Graph):
            missing = next((n for n in template.input_names if n not in shapes), None)
            if missing is None:
                raise GraphError(f"Trainer: {no_graph_yet(made)}")
            raise ArgumentError(
                f"input {missing!r} is missing, on whose sizes the ops of the model depend; got "
                f"{', '.join(map(repr, sorted(shapes))) or 'none'}"
            )
        graph, loss = _with_loss(made, self.loss_of)
        known = self.parameters
        for tensor in graph.parameter_tensors:
            there = known.get(label(tensor))
            if there is None or there.array.shape != tensor.dims:
                has = "none so called" if there is None else f"one of shape {format_shape(there.array.shape)}"
                raise GraphError(
                    f"Trainer: parameter {tensor} depends on the sizes of the inputs: the graph of others has {has}; "
                    "parameters must be the same for all sizes"
                )
        rest = {n: s for n, s in shapes.items() if n not in template.input_names}
        return with_parameters(graph, known).with_shapes(rest), loss


def source_of(graph: object, loss: object) -> Source:
    """What a user gives to `Trainer`, as a source.

    Raises:
        ArgumentTypeError: no graph, or neither a loss nor a function that makes one.
        GraphError: a template with a loss of one of its graphs; a template that makes no graph for any sizes tried.
        ShapeError: the loss is not one number.
    """
    if not isinstance(graph, Graph | OpenGraph):
        raise ArgumentTypeError(
            f"Trainer takes a Graph, got {format_value(graph)}; what is compiled can't be trained, the graph can"
        )
    if not isinstance(loss, LogicalTensor) and (isinstance(loss, type) or not callable(loss)):
        raise ArgumentTypeError(
            "Trainer takes the loss as a LogicalTensor, or a function that adds it to a graph and returns it, got "
            f"{format_value(loss)}"
        )
    if type(loss).__module__.partition(".")[0] == "torch" or hasattr(loss, "forward"):
        raise ArgumentTypeError(
            f"Trainer takes a loss of the graph, as og.training.cross_entropy makes, got torch's "
            f"{type(loss).__name__}; torch's losses may be part of the module that from_torch imports"
        )
    given = cast("LogicalTensor | LossOf", loss)
    if isinstance(graph, Graph):
        made, its = _with_loss(graph, given)
        return Source(made, its, made.inputs)
    if isinstance(given, LogicalTensor):
        raise GraphError(
            f"Trainer takes the loss of {graph!r} as a function: {no_graph_yet(graph)}, or give what adds the loss to "
            "any of its graphs, Trainer(model, lambda graph: cross_entropy(graph, graph.outputs[0], "
            "graph.input('labels', 's64', [-1])), …)"
        )
    made, its = _with_loss(example_of(graph, "Trainer"), given)
    own = {label(t) for t in graph.inputs}
    more = [evolve_tensor(t) for t in made.inputs if label(t) not in own]
    return TemplateSource(made, its, (*graph.inputs, *more), graph, given)


def served(
    source: TemplateSource,
    parameters: Mapping[str, Parameter],
    outputs: Sequence[str | LogicalTensor] | None,
    folded: bool,
) -> OpenGraph:
    """What is trained as a template of graphs for inference.

    Args:
        parameters: in the place of those of these names, which training may move.
        outputs, folded: see `Trainer.model`.
    """
    make = partial(_served, source, parameters, outputs, folded)
    example = make({label(t): t.dims for t in source.graph.inputs if t.is_concrete})
    known = dict(zip(source.made_by.output_names, source.made_by.outputs, strict=True))
    found = zip(example.output_names, example.outputs, strict=True)
    return OpenGraph(
        source.made_by.inputs,
        [(name, known.get(name) or evolve(evolve_tensor(t), shape=None)) for name, t in found],
        make,
        source.made_by.example,
        source.made_by.sizes,
    )


def _served(
    source: TemplateSource,
    parameters: Mapping[str, Parameter],
    outputs: Sequence[str | LogicalTensor] | None,
    folded: bool,
    shapes: Mapping[str, tuple[int, ...]],
) -> Graph:
    graph, loss = source.at(shapes)
    return for_inference(with_parameters(graph, parameters), outputs, folded=folded, loss=loss)


def with_parameters(graph: Graph, parameters: Mapping[str, Parameter]) -> Graph:
    """The same graph with these in the place of the parameters of their names; all others are shared."""
    made = graph.with_shapes({})
    held = content_of(made).parameters
    for tensor in made.parameter_tensors:
        if label(tensor) in parameters:
            held[tensor.id] = parameters[label(tensor)]
    return made


def _with_loss(graph: Graph, loss: LogicalTensor | LossOf) -> tuple[Graph, LogicalTensor]:
    """An open copy of a graph, with its loss.

    Raises:
        ArgumentTypeError, GraphError, ShapeError: a loss that is none.
    """
    made = graph.with_shapes({}) if graph.finalized else copy.copy(graph)
    found = cast("object", loss if isinstance(loss, LogicalTensor) else loss(made))
    if not isinstance(found, LogicalTensor):  # users' functions
        raise ArgumentTypeError(
            f"the function of the loss must return it, a LogicalTensor, got {format_value(found)}"
        )
    found = loss_of(made, found)
    if found.shape is not None and any(d not in (1, UNKNOWN_DIM) for d in found.shape):
        raise ShapeError(
            f"the loss must be one number, got {found} of shape {format_shape(found.shape)}; reduce it"
        )
    return made, found
