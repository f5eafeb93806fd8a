"""OpenGraph: a template of graphs, whose ops are known once the sizes of their inputs are."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Unpack

from attrs import evolve

from ..ops.data_types import DataType, parse_data_type
from ..ops.errors import ArgumentTypeError, GraphError, OneDNNGraphError
from ..ops.schema import UNKNOWN_DIM
from ..ops.values import format_value, one_line
from .compile.compiled_graph import CompiledGraph
from .compile.compiled_open_graph import CompiledOpenGraph, open_ports
from .compile.options import CompileKeywords, CompileOptions, parse_options
from .compile.signature import Signature
from .compile.whole import compile_graph
from .core.editing import reshaped_inputs
from .graph import Graph
from .model.logical_tensor import LogicalTensor, evolve_tensor, format_shape, label
from .runtime.arrays import Array
from .runtime.engine import Engine

if TYPE_CHECKING:
    from .unknown_sizes.sampling import Sizes

Maker = Callable[[Mapping[str, tuple[int, ...]]], "Graph | OpenGraph"]
"""From the shapes of all inputs, by name, to the graph for them."""
TRAINED = ("add_input", "gradients", "input", "parameter")
"""What is asked of a graph that is to be trained."""
TRIED = (2, 8, 32, 64, 224)
"""Sizes that stand for all that are open, one after the other, where a template does not know any that fit."""


class OpenGraph:
    """A model of another framework whose shapes are computed from sizes of its inputs that are left open.

    Which ops it has depends on these sizes: a reshape's target, how far a mask reaches. So it is no graph, but makes
    one for each set of sizes. `compile` works as ever: the first call with inputs of some sizes makes the graph for
    them. Everything that needs the ops (adding to it, pictures, partitions, gradients) is for the graph that
    `with_shapes` makes, or for the one that `with_unknown_sizes` makes where no op depends on the sizes in another way
    than a reshape does. One that was imported for training is trained by `Trainer`, with the loss as a function.

    It is pickled with all that it is made from, the model and its weights.

    Args:
        inputs: with -1 for sizes that are left open, and names.
        outputs: name and tensor of each, likewise.
        make: see `Maker`.
        example: shapes that there is a graph for, by the names of the inputs; None where none are known.
        sizes: what is known of open sizes, by input and axis.

    Attributes:
        example, sizes: as they were given.
        inputs: what a call takes.
        outputs: what it returns, as far as it is known before the sizes of the inputs are.
        input_names, output_names: by which a compiled graph takes and returns them.
    """

    def __init__(
        self,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[tuple[str, LogicalTensor]],
        make: Maker,
        example: Mapping[str, Sequence[int]] | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        self.example = example
        self.sizes = dict(sizes or {})
        # Without the graph that they come from: nothing can be added to them.
        self.inputs = tuple(map(_apart, inputs))
        self.outputs = tuple(_apart(tensor) for _, tensor in outputs)
        self.input_names = tuple(map(label, self.inputs))
        self.output_names = tuple(name for name, _ in outputs)
        self._make = make
        self._holder: Graph | None = None
        self._state: tuple[str, ...] = ()

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Graph | OpenGraph:
        """The graph for inputs of these shapes; an `OpenGraph` again if some are still open.

        Args:
            shapes: input name → its shape; -1 leaves a size open, and so does an input that is not named.

        Raises:
            UnsupportedError: for these sizes, it has ops that can't be translated.
            ArgumentError, ArgumentTypeError: an unknown input, or no shape.
            ShapeError: a size that is known here is another one, or -1; or an op can't do with these.
        """
        inputs = reshaped_inputs(self.inputs, shapes)
        if open_ports(inputs):
            return OpenGraph(inputs, self._named_outputs, self._make, self.example, self.sizes)
        return self._make({label(t): t.dims for t in inputs})

    def compile(self, engine: Engine | None = None, **options: Unpack[CompileKeywords]) -> CompiledGraph:
        """Prepares it to be made and compiled for the sizes of each call; see `Graph.compile`.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown option, or a value that is none.
        """
        return _prepared(self, parse_options(options), engine)

    def to(self, data_type: DataType | str, *, keep: Collection[str] = (), ports: bool = True) -> OpenGraph:
        """The same in another number format, made for the sizes of each call.

        Args:
            data_type, keep: as for `Graph.to`.
            ports: True; inputs and outputs keep their types.

        Raises:
            ArgumentError, ArgumentTypeError: no data type.
            GraphError: with `ports=False`, which changes the inputs; take the graph for some sizes then.
        """
        wanted = parse_data_type(data_type, "data_type")
        if not ports:
            raise GraphError(f"inputs can't be given another type: {no_graph_yet(self)}")
        make = partial(_converted, self._make, wanted, tuple(keep))
        return OpenGraph(self.inputs, self._named_outputs, make, self.example, self.sizes)

    # --- one graph for all sizes ---

    def with_unknown_sizes(self, *, unbounded: bool = False) -> Graph:
        """One graph with -1 for the sizes that are open, where its ops are the same for all of them.

        So it is where sizes stand in shapes alone, in what a reshape keeps of them, and in what is repeated for each
        element of a batch. Graphs for several sizes, one of up to 8192 for each that is open among them, are made and
        compared, op by op, and what comes out is held against each of them. It is what can be written to a file, as
        `to_onnx` and `save` do; to be run here, what `compile` makes of the template is as good, and has kernels for
        the very sizes in some places where this has a copy.

        Args:
            unbounded: whether also where the module was exported for sizes between bounds, which the graph does not
                know: what it gives beyond them may be something else than what the module gives.

        Raises:
            UnsupportedError: an op, or a constant, is another one for other sizes, as positions and masks of texts of
                any length are; bounds as above; parts have no ops, as of a `StagedGraph`.
        """
        return self._with_unknown_sizes(unbounded)[0]

    def _with_unknown_sizes(
        self, unbounded: bool = False
    ) -> tuple[Graph, Mapping[str, Sequence[str | None]]]:
        """And the names of the sizes of inputs and outputs."""
        from .unknown_sizes.template import graph_of

        return graph_of(self._graph_for, self.inputs, self.sizes, self.example, unbounded=unbounded)

    def _graph_for(self, shapes: Mapping[str, Sequence[int]]) -> Graph:
        made = self.with_shapes(shapes)
        if not isinstance(made, Graph):
            raise GraphError(no_graph_yet(made))
        return made

    def save(self, path: str | os.PathLike[str], *, weights: bool | None = None) -> None:
        """Writes the graph that `with_unknown_sizes` makes to a file in oneDNN Graph's JSON format; see `Graph.save`.

        Raises:
            UnsupportedError: its ops are others for other sizes; save `with_shapes({…})`, for some sizes, then.
            GraphFileError and others: see `Graph.save`.
        """
        self.with_unknown_sizes().save(path, weights=weights)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph that `with_unknown_sizes` makes as a model of ONNX; see `Graph.to_onnx`.

        Sizes that are open have the names that they have in `torch.export.Dim`, or in the model of ONNX that it came
        from; those that are equal have one.

        Raises:
            UnsupportedError: its ops are others for other sizes; write `with_shapes({…})`, for some sizes, then. Or see
                `Graph.to_onnx`.
            GraphFileError and others: see `Graph.to_onnx`.
        """
        from .onnx_export.exporter import to_onnx

        to_onnx(*self._with_unknown_sizes(), path)

    # --- what all sizes share ---

    @property
    def parameters(self) -> Mapping[str, Array]:
        """The parameters, which the graphs for all sizes share, as `Graph.parameters` has them.

        Raises:
            GraphError: no graph comes of it for the sizes that were tried, or each has parameters of its own.
        """
        return self._shared.parameters

    @property
    def state_parameters(self) -> tuple[LogicalTensor, ...]:
        """Those that each call assigns, though nothing is trained, as a cache; see `Graph.state_parameters`.

        Raises:
            GraphError: see `parameters`.
        """
        shared = self._shared
        return tuple(shared.tensor(name) for name in self._state)

    def set_parameters(self, values: Mapping[str, object]) -> None:
        """Writes to parameters, as `Graph.set_parameters` does: for all sizes, and all that was compiled of them.

        Args:
            values: arrays by the parameter's name, or by its LogicalTensor.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: an unknown parameter, or an array that does
                not fit it; nothing was written then.
            GraphError: see `parameters`.
        """
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(
                f"set_parameters takes a mapping from names to arrays, got {format_value(values)} of type "
                f"{type(values).__name__}"
            )
        named = {label(key) if isinstance(key, LogicalTensor) else key: one for key, one in values.items()}
        wrong = next((key for key in named if not isinstance(key, str)), None)  # pyright: ignore[reportUnnecessaryIsInstance]
        if wrong is not None:
            raise ArgumentTypeError(
                f"set_parameters takes parameters by name, got {format_value(wrong)}: ids are those of one graph"
            )
        self._shared.set_parameters(named)

    def holders(self) -> list[Graph]:
        """A graph without ops that holds the parameters, for what is compiled of it."""
        return [self._shared]

    @property
    def _shared(self) -> Graph:
        """A graph that holds the parameters of all graphs, and has no ops."""
        if self._holder is None:
            example = example_of(self, "parameters")
            held = example.held_parameters
            again = self._graph_for({label(t): example.tensor(label(t)).dims for t in self.inputs})
            holder = Graph()
            for tensor in example.parameter_tensors:
                name = label(tensor)
                other = next((t for t in again.parameter_tensors if label(t) == name), None)
                if other is None or again.held_parameters[other.id] is not held[tensor.id]:
                    raise GraphError(
                        f"parameter {name!r} is another one in each graph that {self!r} makes; take a graph for some "
                        "sizes, graph.with_shapes({…})"
                    )
                holder.parameter(held[tensor.id], name=name)
            self._state = tuple(map(label, example.state_parameters))
            self._holder = holder
        return self._holder

    # --- others of it ---

    def for_inference(
        self, outputs: Sequence[str | LogicalTensor] | None = None, *, fold_batch_norm: bool = False
    ) -> OpenGraph:
        """The model that graphs for training have in them, made for the sizes of each call; see `Graph.for_inference`.

        Parameters are constants of the values that they have when a graph is made: `Trainer.open_model` has those of
        one moment for all sizes.

        Raises:
            ArgumentError, ArgumentTypeError, UnsupportedError: see `Graph.for_inference`.
            GraphError: inputs are left out; no graph comes of it for the sizes that were tried.
        """
        return self._rewritten("for_inference", outputs, fold_batch_norm=fold_batch_norm)

    def quantize_weights(
        self,
        data_type: DataType | Literal["s8", "u8", "s4", "u4"] = "s8",
        *,
        group: int | None = None,
        keep: Collection[str] = (),
    ) -> OpenGraph:
        """The same with the constant weights of its matmuls in 8 or 4 bits; see `Graph.quantize_weights`.

        Raises:
            ArgumentError, ArgumentTypeError: see `Graph.quantize_weights`.
            GraphError: no graph comes of it for the sizes that were tried.
        """
        return self._rewritten("quantize_weights", data_type, group=group, keep=tuple(keep))

    def quantize_dynamic(self, *, keep: Collection[str] = ()) -> OpenGraph:
        """The same with its matmuls by constant weights on 8-bit integers; see `Graph.quantize_dynamic`.

        Raises:
            ArgumentError, ArgumentTypeError: see `Graph.quantize_dynamic`.
            GraphError: no graph comes of it for the sizes that were tried.
        """
        return self._rewritten("quantize_dynamic", keep=tuple(keep))

    def _rewritten(self, method: str, *given: object, **named: object) -> OpenGraph:
        """What a method of each graph makes of it."""
        example = example_of(self, method)
        made: Graph = getattr(example, method)(*given, **named)  # says now what is wrong with the arguments
        left = next((name for name in self.input_names if name not in made.input_names), None)
        if left is not None:
            raise GraphError(
                f"{method} leaves out input {left!r}, which {self!r} makes graphs by; take a graph for some sizes, "
                "graph.with_shapes({…})"
            )
        known = dict(self._named_outputs)
        outputs = [
            (name, known.get(name) or evolve(evolve_tensor(t), shape=None))
            for name, t in zip(made.output_names, made.outputs, strict=True)
        ]
        make = partial(_rewritten, self._make, method, given, named)
        return OpenGraph(self.inputs, outputs, make, self.example, self.sizes)

    def no_graph(self) -> str:
        """Why it is no graph, and how to get one, for messages."""
        return _open(self)

    @property
    def _named_outputs(self) -> list[tuple[str, LogicalTensor]]:
        return list(zip(self.output_names, self.outputs, strict=True))

    def __getattr__(self, name: str) -> NoReturn:
        told = f"'{type(self).__name__}' has no attribute '{name}'"
        if name.startswith("_") or not hasattr(Graph, name):
            raise AttributeError(told)
        trained = "; Trainer takes it as it is, with a function that adds the loss" if name in TRAINED else ""
        raise AttributeError(f"{told}: {no_graph_yet(self)}{trained}")

    def __reduce__(self) -> tuple[type[OpenGraph], tuple[object, ...]]:
        return OpenGraph, (self.inputs, self._named_outputs, self._make, self.example, self.sizes)

    def __str__(self) -> str:
        lines = [f"  input {t}" for t in self.inputs]
        return "\n".join([repr(self), *lines])

    def __repr__(self) -> str:
        return f"OpenGraph({', '.join(self.input_names)} → {', '.join(self.output_names)})"


def example_of(template: OpenGraph, asked: str) -> Graph:
    """A graph of a template for some sizes.

    Args:
        asked: what it is for, for messages.

    Raises:
        GraphError: none of those that are tried fits.
    """
    error: Exception | None = None
    for shapes in _tried(template):
        try:
            made = template.with_shapes(shapes)
        except OneDNNGraphError as found:
            error = error or found
            continue
        if isinstance(made, Graph):
            return made
    why = "" if error is None else f" ({one_line(error)})"
    raise GraphError(
        f"{asked}: no graph comes of {template!r} for the sizes that were tried{why}; {no_graph_yet(template)}"
    ) from error


def _tried(template: OpenGraph) -> Iterator[dict[str, tuple[int, ...]]]:
    known = template.example
    if known is not None:
        yield {label(t): _filled(t.shape, known[label(t)]) for t in template.inputs}
    for size in TRIED:
        yield {
            label(t): _filled(t.shape, [size] * len(t.shape)) for t in template.inputs if t.shape is not None
        }


def _filled(shape: Sequence[int] | None, sizes: Sequence[int]) -> tuple[int, ...]:
    """A shape with sizes in the place of those that are open."""
    if shape is None:
        return tuple(sizes)
    return tuple(size if dim == UNKNOWN_DIM else dim for dim, size in zip(shape, sizes, strict=True))


def no_graph_yet(graph: OpenGraph) -> str:
    """Why it is no graph, and how to get one, for messages."""
    return graph.no_graph()


def _open(graph: OpenGraph) -> str:
    shapes = ", ".join(f"{label(t)!r}: {format_shape(t.shape)}" for t in open_ports(graph.inputs))
    return (
        f"its ops depend on sizes that are open, {{{shapes}}}; take the graph for some sizes, "
        "graph.with_shapes({…}), or one for all of them where there is one, graph.with_unknown_sizes()"
    )


def _prepared(graph: OpenGraph, options: CompileOptions, engine: Engine | None) -> CompiledOpenGraph:
    def made(shapes: Mapping[str, tuple[int, ...]]) -> CompiledGraph:
        found = graph.with_shapes(shapes)
        if isinstance(found, Graph):
            return compile_graph(found, compiled.engine, options)  # shares what is made of constants
        return found.compile(compiled.engine, **options.again(), choices=options.choices)

    signature = Signature(graph.inputs, list(zip(graph.output_names, graph.outputs, strict=True)), ())
    options.shared.for_sizes = True
    compiled = CompiledOpenGraph(
        signature,
        engine,
        made,
        partial(_prepared_again, graph, options.again()),
        options.kept_shapes,
        graph.holders,
    )
    return compiled


def _prepared_again(graph: OpenGraph, options: Mapping[str, Any], engine: Engine | None) -> CompiledOpenGraph:
    return _prepared(graph, CompileOptions(**options), engine)


def _rewritten(
    make: Maker,
    method: str,
    given: tuple[object, ...],
    named: Mapping[str, object],
    shapes: Mapping[str, tuple[int, ...]],
) -> Graph | OpenGraph:
    """What a method makes of the graph for some shapes."""
    return getattr(make(shapes), method)(*given, **named)


def _converted(
    make: Maker, data_type: DataType, keep: Collection[str], shapes: Mapping[str, tuple[int, ...]]
) -> Graph | OpenGraph:
    """The graph for some shapes in another number format; a function, so that it can be pickled."""
    return make(shapes).to(data_type, keep=keep)


def _apart(tensor: LogicalTensor) -> LogicalTensor:
    """A copy that no graph holds; what stands for a type of others' is held by none."""
    return tensor if tensor.data_type is DataType.undef else evolve_tensor(tensor)
