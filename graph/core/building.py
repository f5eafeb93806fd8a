"""GraphCore: the builder over the content of a graph, without what is made of it afterwards."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from ...ops.data_types import DataType, parse_enum
from ...ops.errors import ArgumentTypeError, GraphError
from ...ops.registry import REGISTRY
from ...ops.values import format_value
from ..model.builder import schema_output_types, snake_case
from ..model.fpmath import FpmathMode
from ..model.inference import infer
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..model.numpy_types import as_data_type
from ..model.op import Op
from ..model.operators import Home
from ..model.topology import topological
from ..runtime.arrays import Array, as_array, data_type_of, numpy_type
from ..runtime.engine import check_kind
from ..runtime.parameter import Parameter
from ..runtime.tensor import Tensor
from . import adding, editing
from .content import Content
from .op_methods import OpMethods
from .reading import Readable

G = TypeVar("G", bound="GraphCore")
"""A graph of whatever class, which what is made of it has too."""


class GraphCore(Readable, OpMethods):
    """A graph to build, rewrite and look at; `Graph` adds what needs more, as compiling, files and pictures do."""

    def __init__(
        self, engine_kind: str = "cpu", *, fpmath_mode: FpmathMode | str = FpmathMode.strict
    ) -> None:
        check_kind(engine_kind)
        self.engine_kind = engine_kind
        self.fpmath_mode = parse_enum(FpmathMode, fpmath_mode, "fpmath_mode")
        self._content = Content(Home(self))
        self._finalized = False

    # --- oneDNN Graph's own interface ---

    def add_op(self, op: Op) -> Op:
        """Adds an op and returns it. Ops may come in any order.

        Raises:
            ArgumentTypeError: no Op.
            GraphError: the graph is finalized; the id is taken; a tensor gets a second producer, is
                described differently than before, or has the name of an input, constant or parameter.
            ShapeError: a tensor's shape contradicts an earlier description.
        """
        if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(
                f"add_op takes an onednn_graph.Op, got {format_value(op)} of type {type(op).__name__}"
            )
        if self._finalized:
            raise GraphError(f"{op} can't be added, the graph is finalized; build a new Graph")
        return adding.add_op(self._content, op)

    def add_input(self, tensor: LogicalTensor) -> LogicalTensor:
        """Says that a tensor is an input, and returns it; inputs then have the order in which they are added.

        Ops make inputs of all tensors that none of them produces, in order of first use, also without.

        Raises:
            ArgumentTypeError: no LogicalTensor.
            GraphError, ShapeError: the graph is finalized, describes the tensor differently or produces it, or has
                another tensor of its name.
        """
        self._check_source(tensor, "input")
        self._content.add_source(tensor, "input")
        self._content.declared[tensor.id] = None
        return self._content.tensors[tensor.id]

    def add_constant(self, tensor: LogicalTensor, array: object) -> LogicalTensor:
        """Gives the graph the value of a tensor with property_type constant, and returns it; see `constant`.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: no LogicalTensor, or an array that does not
                fit it.
            GraphError: another property_type; the graph is finalized, or describes the tensor differently, produces
                it, has a value for it, or has another tensor of its name.
        """
        self._check_source(tensor, "constant")
        return adding.add_constant(self._content, tensor, array)

    def add_parameter(self, tensor: LogicalTensor, value: object) -> LogicalTensor:
        """Gives the graph a parameter for a tensor with property_type variable, and returns it; see `parameter`.

        Args:
            tensor: row-major.
            value: array that is copied, or the `Parameter` of another graph that is shared with it.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: no LogicalTensor, or an array that does not
                fit it.
            GraphError: another property_type; the graph is finalized, or describes the tensor differently, produces
                it, has a parameter for it, or has another tensor of its name.
        """
        self._check_source(tensor, "parameter")
        return adding.add_parameter(self._content, tensor, value)

    def _check_source(self, tensor: object, what: str) -> None:
        if not isinstance(tensor, LogicalTensor):
            raise ArgumentTypeError(
                f"add_{what} takes a LogicalTensor, got {format_value(tensor)} of type {type(tensor).__name__}"
            )
        self._check_open(f"{what} {tensor}")

    def finalize(self) -> None:
        """Checks the whole graph and infers shapes. Nothing can be added afterwards; finalizing twice is fine.

        Raises:
            GraphError: the graph is empty or has a cycle.
            ShapeError: shapes contradict each other or an attribute.
        """
        if self._finalized:
            return
        if not self._content.ops:
            raise GraphError("the graph has no ops; add one before finalize")
        ordered = topological(self._content.ops)
        tensors, self._content.ops = infer(ordered, self._content.tensors, {})
        self._content.know(tensors.values())
        self._finalized = True

    # --- builder ---

    def input(
        self,
        name: str,
        data_type: DataType | str,
        shape: Sequence[int] | None = None,
        *,
        strides: Sequence[int] | None = None,
        property_type: PropertyType | str = PropertyType.undef,
    ) -> LogicalTensor:
        """Adds an input to build ops on.

        Args:
            name: the key of the array that `CompiledGraph` takes for it.
            data_type: `f32`, `bf16`, …
            shape: sizes; -1 for one that is known only at execution, None for an unknown rank.
            strides: in elements; row-major if None.
            property_type: `constant` if each call is given the same array. A value that is known already is better
                held by the graph; see `constant`.

        Raises:
            GraphError: the name is taken, or the graph is finalized.
        """
        self._check_open(f"input {format_value(name)}")
        self._content.check_new_name(name, "an input")
        return self.add_input(
            LogicalTensor(
                self.fresh_id(), data_type, shape, strides=strides, property_type=property_type, name=name
            )
        )

    def constant(self, array: object, *, name: str | None = None) -> LogicalTensor:
        """Adds a constant, which the graph holds; it can be used wherever a tensor can.

        Compiled graphs take it from here, and what backends make of it (weights in another layout, say) they make
        once. It is no input; `constants` has all of them.

        Args:
            array: NumPy array, Tensor, or anything with `__dlpack__` or `__array__`. It is held as it is, without a
                copy, where it is dense, row-major and in native byte order, and must not change from then on.
                Another is copied.
            name: made up if None.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError: no array, or one of a type that oneDNN Graph has not.
            GraphError: the name is taken, or the graph is finalized.
        """
        return self._add_held(array, name, "constant", PropertyType.constant)

    def parameter(self, array: object, *, name: str | None = None) -> LogicalTensor:
        """Adds a parameter: a variable that the graph holds, and that training changes; it can be used as any tensor.

        It has memory of its own, which copies of the graph, what is rewritten from it, and all models compiled from
        these share. `assign` changes it in a run and `set_parameters` between runs. In a graph without assignments
        it is as fast as a constant: what backends made of it is made again only when it has changed.

        Args:
            array: its first value, which is copied: NumPy array, Tensor, or anything with `__dlpack__` or `__array__`.
            name: made up if None.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError: no array, or one of a type that oneDNN Graph has not.
            GraphError: the name is taken, or the graph is finalized.
        """
        return self._add_held(array, name, "parameter", PropertyType.variable)

    def _add_held(
        self, array: object, name: str | None, what: str, property_type: PropertyType
    ) -> LogicalTensor:
        shown = f"a {what}" if name is None else f"{what} {format_value(name)}"
        self._check_open(shown)
        if name is not None:
            self._content.check_new_name(name, f"a {what}")
        if isinstance(array, Parameter):
            given = array.array
        else:
            given = array.numpy() if isinstance(array, Tensor) else as_array(array, shown)
        data_type = data_type_of(given, shown)
        number = self.fresh_id()
        own = name
        if own is None:
            own = f"{what}_{number}"
            self._content.check_name(own)
        tensor = LogicalTensor(number, data_type, given.shape, property_type=property_type, name=own)
        add = self.add_constant if property_type is PropertyType.constant else self.add_parameter
        return add(tensor, array if isinstance(array, Parameter) else given)

    def number(self, value: float, data_type: DataType | str) -> LogicalTensor:
        """Adds a constant of one element and no axes, as operators on tensors do; see `constant`."""
        dtype = numpy_type(as_data_type(data_type, "number: data_type"))
        return self.constant(np.array(value, dtype))

    def _build(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor],
        attributes: dict[str, object],
        name: str | None,
        outputs: int | None,
        output_type: DataType | str | None,
    ) -> tuple[LogicalTensor, ...]:
        """What `op` and the methods of the ops do: makes ids, names and output tensors, and adds the op."""
        self._check_open(kind)
        schema, names = REGISTRY.resolve(kind)
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"{kind}: name must be a string or None, got {format_value(name)}")
        for tensor in inputs:
            if isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                self._content.next_id = max(self._content.next_id, tensor.id + 1)
        op_id = self.fresh_id()
        label = name if name is not None else f"{snake_case(names.kind)}_{op_id}"
        types = schema_output_types(schema, names, inputs, attributes, outputs, output_type)
        made: list[LogicalTensor] = []
        for port, data_type in zip(schema.output_ports(len(types)), types, strict=True):
            own = label if len(types) == 1 else f"{label}.{names.spell(port.name)}"
            self._content.check_name(own)
            made.append(LogicalTensor(self.fresh_id(), data_type, name=own))
        op = Op(op_id, kind, inputs, made, name=label, **attributes)
        tensors, resolved = infer(
            [op], {t.id: self._content.merged(t, op) for t in (*op.inputs, *op.outputs)}, {}
        )
        self.add_op(resolved[0])
        self._content.know(tensors.values())
        return tuple(self._content.tensors[t.id] for t in made)

    def assign(self, parameter: LogicalTensor, value: LogicalTensor) -> None:
        """Says that a parameter has a value once a run is over. All ops of that run read its former value.

        The value is written to the parameter's own memory: by the op that makes it, after everything else, if that
        can work in place and nobody else reads it, as the ops of optimizers do; by a copy at the end otherwise. Runs
        of a compiled graph that assigns come one after another; nobody may read or write the parameters meanwhile.

        Args:
            parameter: of this graph, with no value assigned.
            value: a tensor of the graph, of the parameter's type and shape. It is an output of the graph only if
                `output` marks it.

        Raises:
            ArgumentTypeError: no LogicalTensor.
            GraphError: the graph is finalized; the parameter is none, or is assigned twice; the value is no tensor of
                the graph.
            DataTypeError, ShapeError: the value does not fit.
        """
        for what, tensor in (("a parameter", parameter), ("a value", value)):
            if not isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentTypeError(
                    f"assign takes {what} as a LogicalTensor, got {format_value(tensor)} of type "
                    f"{type(tensor).__name__}"
                )
        self._check_open(f"an assignment to {parameter}")
        adding.assign(self._content, parameter, value)

    def output(self, tensor: LogicalTensor, *, name: str | None = None) -> LogicalTensor:
        """Marks a tensor as an output of the graph; returns it.

        What no op reads is an output anyway; this is for inner tensors, for inputs and constants that are to be
        returned as they are, for the order of outputs, and for their names.

        Args:
            tensor: of this graph.
            name: by which a compiled graph returns it; the tensor's own if None.

        Raises:
            GraphError: it is no tensor of the graph; another output has the name; the graph is finalized.
        """
        self._check_open(f"output {tensor}")
        tensor, name = adding.tensor_for("output", tensor), adding.output_name(name)
        return adding.mark_output(self._content, tensor, name)

    def name_state(self, state: Mapping[str, LogicalTensor | Array]) -> None:
        """Says what `state` is.

        Args:
            state: parameters of the graph, or arrays that stay as they are, by the model's names.

        Raises:
            GraphError: a tensor is no parameter of the graph, or the graph is finalized.
        """
        self._check_open("state")
        adding.name_state(self._content, state)

    def set_parameters(self, values: Mapping[str, object] | Mapping[int, object]) -> None:
        """Writes to parameters; all graphs and models that share them see it, and so nobody may run one meanwhile.

        Calls of models that assign them come before or behind it.

        Args:
            values: arrays by the parameter's name, tensor id or LogicalTensor; those that are not named stay as they
                are.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: an unknown parameter, or an array that does
                not fit it; nothing was written then.
        """
        adding.set_parameters(self._content, values)

    # --- what changes it ---

    def take_out(self, op: Op) -> None:
        """Takes an op out of the graph, so that others can make what it has made; what none makes becomes an input.

        Raises:
            GraphError: the graph is finalized, or has no such op.
        """
        self._check_open(f"{op}, which is to be taken out,")
        editing.take_out(self._content, op)

    def replace_ops(self, ops: Iterable[Op]) -> None:
        """Puts each op in the place of the one that has its id; it makes the same tensors, out of any of the graph.

        The ops then stand in an order in which they can run.

        Args:
            ops: each with the outputs of the former op, and new ones behind them, as those that statistics are kept in.

        Raises:
            GraphError: the graph is finalized; it has no op of an id; an op does not make what the one before made,
                makes what another one makes, or reads a tensor that the graph has not, or one that depends on what it
                makes.
            ShapeError: what an op makes has another shape than what the one before made.
        """
        self._check_open("another op")
        editing.replace_ops(self._content, ops)

    def prune(self, outputs: Sequence[LogicalTensor] | Mapping[str, LogicalTensor] | None = None) -> None:
        """Takes out the ops that no tensor marked by `output` or assigned depends on, and what only they read.

        Inputs stay, and so do parameters, and ops whose schema does not say that they are `pure`, with all that they
        depend on; what nobody reads of those is no output then.

        Args:
            outputs: tensors that alone are outputs from now on, under their own names, or by name; None for those
                that are marked.

        Raises:
            ArgumentTypeError: `outputs` are no tensors, or a name is no string; the graph is as it was then.
            GraphError: the graph is finalized; one of `outputs` is no tensor of it; two would have one name.
        """
        if self._finalized:
            raise GraphError("ops can't be taken out, the graph is finalized; prune before finalize")
        editing.prune(self._content, outputs)

    def drop_constant(self, tensor: LogicalTensor) -> None:
        """Takes back a constant that no op reads and that is no output.

        Raises:
            GraphError: it is no constant that the graph holds, or is read; the graph is finalized.
        """
        self._check_open(f"a graph without {tensor}")
        editing.drop_constant(self._content, tensor)

    def drop_assignment(self, parameter: LogicalTensor) -> None:
        """Takes back what `assign` said of a parameter; what was to be its value is an output then if nobody reads it.

        Raises:
            GraphError: nothing is assigned to it; the graph is finalized.
        """
        self._check_open(f"a change of {parameter}")
        editing.drop_assignment(self._content, parameter)

    def drop_output(self, tensor: LogicalTensor) -> None:
        """Says that a tensor that no op reads is no output of the graph; `output` makes it one again.

        An op that makes several tensors may make one that nobody asked for.

        Raises:
            GraphError: no op of the graph makes the tensor; it is marked by `output`; the graph is finalized.
        """
        self._check_open(f"{tensor}, which is to be dropped,")
        editing.drop_output(self._content, tensor)

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Self:
        """A graph of its own for inputs of these shapes: sizes that are open here are filled in. Not finalized.

        Args:
            shapes: input name → its shape; -1 leaves open a size that is open, and so does an input that is not named.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown input, or no shape.
            ShapeError: a size that is known here is another one, or -1; or an op can't do with these.
        """
        inputs = editing.reshaped_inputs(self.inputs, shapes)
        twin = copy.copy(self)
        twin._finalized = False
        editing.reshape(twin._content, inputs)
        return twin

    def _take_over(self, other: GraphCore) -> None:
        """Becomes what a copy of it has become, which is of no use afterwards."""
        self._content = other._content
        self._content.home.belongs_to(self)

    def _check_open(self, what: str) -> None:
        if self._finalized:
            raise GraphError(f"{what} can't be added, the graph is finalized; build a new Graph")

    def fresh_id(self) -> int:
        """A number that no op and no tensor of the graph has, for one that is to be added."""
        return self._content.fresh_id()

    # --- copies ---

    def __copy__(self) -> Self:
        """A graph of its own; ops and tensors never change and are shared."""
        twin = empty_like(self)
        vars(twin).update(
            {name: copy.copy(value) for name, value in vars(self).items() if name != "_content"}
        )
        twin._content = self._content.copied(Home(twin))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A graph of its own with parameters of its own, which have the values of now."""
        twin = copy.copy(self)
        twin._content.parameters = copy.deepcopy(self._content.parameters, memo)
        return twin

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._content.move(Home(self))


def empty_like(graph: G) -> G:
    """An empty graph of the same class, kind of engine and mode."""
    made = object.__new__(type(graph))  # a user's class may be made from something else
    GraphCore.__init__(made, graph.engine_kind, fpmath_mode=graph.fpmath_mode)
    return made


def finalized(graph: G) -> G:
    """The graph itself where it is finalized; else a copy that is, so that ops can still be added to this one.

    Raises:
        GraphError, ShapeError: see `Graph.finalize`.
    """
    if graph.finalized:
        return graph
    snapshot = copy.copy(graph)
    snapshot.finalize()
    return snapshot


def content_of(graph: GraphCore) -> Content:
    """What a graph holds, for those who compile it."""
    return graph._content  # pyright: ignore[reportPrivateUsage] -- of the class above
