"""Graph: ops over logical tensors, and the builder over it."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ops.data_types import DataType, parse_enum
from ..ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    GraphError,
    OneDNNGraphError,
    ShapeError,
    nearest,
)
from ..ops.registry import REGISTRY
from ..ops.values import format_value, integer
from .compile.compiled_graph import CompiledGraph
from .compile.held import Held
from .compile.options import CompileOptions, Tune
from .compile.partition import Partition
from .compile.partitioner import Policy, needed_by_others, partition
from .compile.program import program, sections
from .compile.signature import Signature
from .compile.trials import Choices
from .functions.op_methods import OpMethods
from .model.builder import schema_output_types, snake_case
from .model.fpmath import FpmathMode
from .model.inference import infer, merge_shapes
from .model.listing import listing
from .model.logical_tensor import LogicalTensor, PropertyType, as_shape, at_home, format_shape, label
from .model.op import Op
from .model.operators import Home
from .model.topology import needed_ops, topological
from .runtime.arrays import Array, as_array, as_data_type, data_type_of, numpy_type
from .runtime.engine import Engine, check_kind
from .runtime.executable import Explanation
from .runtime.parameter import Parameter
from .runtime.profiling import Profile
from .runtime.progress import show_progress
from .runtime.tensor import Tensor, check_array


class Graph(OpMethods):
    """A directed acyclic graph of ops.

    Two ways to build one, which mix freely: oneDNN Graph's own (`Op`, `add_op`, `finalize`,
    `get_partitions`), or the builder (`input`, `op`, `compile`), which has a method for each op too: `graph.relu(x)`
    is `graph.op("ReLU", x)`.

    Args:
        engine_kind: `cpu`.
        fpmath_mode: see `FpmathMode`.

    Raises:
        ArgumentError, ArgumentTypeError: an unknown mode or kind.
    """

    def __init__(
        self, engine_kind: str = "cpu", *, fpmath_mode: FpmathMode | str = FpmathMode.strict
    ) -> None:
        check_kind(engine_kind)
        self.engine_kind = engine_kind
        self.fpmath_mode = parse_enum(FpmathMode, fpmath_mode, "fpmath_mode")
        self._ops: list[Op] = []
        self._op_ids: set[int] = set()
        self._tensors: dict[int, LogicalTensor] = {}
        self._names: set[str] = set()
        self._producers: dict[int, Op] = {}
        self._declared: dict[int, None] = {}  # inputs, in the order in which they were added
        self._constants: dict[int, Array] = {}
        self._parameters: dict[int, Parameter] = {}
        self._assigned: dict[int, int] = {}  # parameter → the tensor whose value it gets
        self._state: dict[str, Array | int] | None = None  # arrays, or ids of parameters
        self._marked: list[tuple[str | None, int]] = []
        self._dropped: set[int] = set()
        self._finalized = False
        self._next_id = 0
        self._home = Home(self)

    # --- oneDNN Graph's own interface ---

    def add_op(self, op: Op) -> Op:
        """Adds an op and returns it. Ops may come in any order.

        Raises:
            ArgumentTypeError: no Op.
            GraphError: the graph is finalized; the id is taken; a tensor gets a second producer, or is
                described differently than before.
            ShapeError: a tensor's shape contradicts an earlier description.
        """
        if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(
                f"add_op takes an onednn_graph.Op, got {format_value(op)} of type {type(op).__name__}"
            )
        if self._finalized:
            raise GraphError(f"{op} can't be added, the graph is finalized; build a new Graph")
        if op.id in self._op_ids:
            raise GraphError(f"{op} has the id {op.id}, which another op of the graph has; choose another")
        merged = {t.id: self._merged(t, op) for t in (*op.inputs, *op.outputs)}
        for position, tensor in enumerate(op.outputs):
            other = self._producers.get(tensor.id)
            if other is not None:
                raise GraphError(f"{tensor} is produced by {other} and again by {op}; give each its own id")
            if any(t.id == tensor.id for t in op.outputs[:position]):
                raise GraphError(f"{tensor} is two outputs of {op}; give each its own id")
            for what, held in (("constant", self._constants), ("parameter", self._parameters)):
                if tensor.id in held:
                    raise GraphError(
                        f"{tensor} is a {what} of the graph and can't be an output of {op}; give it another id"
                    )
            if any(t.id == tensor.id for t in op.inputs):
                raise GraphError(f"{tensor} is an input and an output of {op}, a cycle; give it another id")
        self._know(merged.values())
        self._ops.append(op)
        self._op_ids.add(op.id)
        for tensor in op.outputs:
            self._producers[tensor.id] = op
        self._next_id = max(self._next_id, op.id + 1, *(t.id + 1 for t in merged.values()))
        return op

    def take_out(self, op: Op) -> None:
        """Takes an op out of the graph, so that others can make what it has made; what none makes becomes an input.

        Raises:
            GraphError: the graph is finalized, or has no such op.
        """
        self._check_open(f"{op}, which is to be taken out,")
        if op not in self._ops:
            raise GraphError(f"the graph has no {op} that could be taken out; take one of graph.ops")
        self._ops.remove(op)
        self._op_ids.discard(op.id)
        for tensor in op.outputs:
            del self._producers[tensor.id]

    def _merged(self, tensor: LogicalTensor, op: Op | None) -> LogicalTensor:
        """What the graph and `tensor` know of one id together."""
        known = self._tensors.get(tensor.id)
        if known is None or known == tensor:
            return tensor
        where = f"{op}: " if op is not None else ""
        for field in ("name", "data_type", "layout_type", "strides", "property_type"):
            have, want = getattr(known, field), getattr(tensor, field)
            if have != want and not (field == "name" and "" in (have, want)):
                raise GraphError(
                    f"{where}{tensor} has {field} {want!s}, but the graph's tensor with the id {tensor.id} has "
                    f"{have!s}; describe one id in one way, and use a tensor in the graph that made it"
                )
        shape = merge_shapes(
            known.shape,
            tensor.shape,
            f"{where}{tensor} has shape {format_shape(tensor.shape)}, but the graph's tensor with the id "
            f"{tensor.id} has {format_shape(known.shape)}; describe one id in one way",
        )
        return (tensor if tensor.name else known).with_shape(shape)

    def add_input(self, tensor: LogicalTensor) -> LogicalTensor:
        """Says that a tensor is an input, and returns it; inputs then have the order in which they are added.

        Ops make inputs of all tensors that none of them produces, in order of first use, also without.

        Raises:
            ArgumentTypeError: no LogicalTensor.
            GraphError, ShapeError: the graph is finalized, or describes the tensor differently or produces it.
        """
        self._add_source(tensor, "input")
        self._declared[tensor.id] = None
        return self._tensors[tensor.id]

    def add_constant(self, tensor: LogicalTensor, array: object) -> LogicalTensor:
        """Gives the graph the value of a tensor with property_type constant, and returns it; see `constant`.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: no LogicalTensor, or an array that does not
                fit it.
            GraphError: another property_type; the graph is finalized, or describes the tensor differently, produces
                it, or has a value for it.
        """
        what = f"constant {tensor}"
        self._check_source(tensor, "constant")
        if tensor.property_type is not PropertyType.constant:
            raise GraphError(
                f"{what} must have property_type 'constant' to be held, got '{tensor.property_type.value}'"
            )
        if tensor.id in self._constants:
            raise GraphError(f"{what} has a value already; give another constant an id of its own")
        given = array.numpy() if isinstance(array, Tensor) else as_array(array, what)
        check_array(given, tensor, what)
        held = np.require(given, numpy_type(tensor.data_type), ["C_CONTIGUOUS", "ALIGNED"]).view()
        held.flags.writeable = False
        self._add_source(tensor.with_shape(held.shape), "constant")
        self._constants[tensor.id] = held
        return self._tensors[tensor.id]

    def add_parameter(self, tensor: LogicalTensor, value: object) -> LogicalTensor:
        """Gives the graph a parameter for a tensor with property_type variable, and returns it; see `parameter`.

        Args:
            tensor: row-major.
            value: array that is copied, or the `Parameter` of another graph that is shared with it.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: no LogicalTensor, or an array that does not
                fit it.
            GraphError: another property_type; the graph is finalized, or describes the tensor differently, produces
                it, or has a parameter for it.
        """
        what = f"parameter {tensor}"
        self._check_source(tensor, "parameter")
        if tensor.property_type is not PropertyType.variable:
            raise GraphError(
                f"{what} must have property_type 'variable' to be held, got '{tensor.property_type.value}'"
            )
        if tensor.id in self._parameters:
            raise GraphError(f"{what} has a value already; give another parameter an id of its own")
        if isinstance(value, Parameter):
            check_array(value.array, tensor, what)
            twin = next((self._tensors[i] for i, one in self._parameters.items() if one is value), None)
            if twin is not None:
                raise GraphError(
                    f"{what} would share its memory with {twin} of the same graph; use that tensor"
                )
            held = value
        else:
            given = value.numpy() if isinstance(value, Tensor) else as_array(value, what)
            check_array(given, tensor, what)
            held = Parameter(given, numpy_type(tensor.data_type))
        self._add_source(tensor.with_shape(held.array.shape), "parameter")
        self._parameters[tensor.id] = held
        return self._tensors[tensor.id]

    def _check_source(self, tensor: object, what: str) -> None:
        if not isinstance(tensor, LogicalTensor):
            raise ArgumentTypeError(
                f"add_{what} takes a LogicalTensor, got {format_value(tensor)} of type {type(tensor).__name__}"
            )
        self._check_open(f"{what} {tensor}")

    def _add_source(self, tensor: LogicalTensor, what: str) -> None:
        """Adds a tensor that no op produces."""
        self._check_source(tensor, what)
        if tensor.id in self._producers:
            raise GraphError(
                f"{tensor} is produced by {self._producers[tensor.id]} and can't be an {what} too"
            )
        self._know([self._merged(tensor, None)])
        self._next_id = max(self._next_id, tensor.id + 1)

    def finalize(self) -> None:
        """Checks the whole graph and infers shapes. Nothing can be added afterwards; finalizing twice is fine.

        Raises:
            GraphError: the graph is empty or has a cycle.
            ShapeError: shapes contradict each other or an attribute.
        """
        if self._finalized:
            return
        if not self._ops:
            raise GraphError("the graph has no ops; add one before finalize")
        ordered = topological(self._ops)
        tensors, self._ops = infer(ordered, self._tensors, {})
        self._know(tensors.values())
        self._finalized = True

    def get_partitions(
        self, policy: Policy | str = Policy.fusion, *, backend: str | None = None
    ) -> list[Partition]:
        """The graph's partitions, in an order in which they can run.

        Args:
            policy: `fusion`, or `debug` for one op a partition.
            backend: name of the only backend to use; None lets each part go where it runs best. `native` makes the
                partitions that the library's own partitioner makes.

        Raises:
            GraphError: the graph is not finalized.
            UnsupportedError: the forced backend can't run an op.
        """
        if not self._finalized:
            raise GraphError("the graph must be finalized before get_partitions; call finalize()")
        chosen = parse_enum(Policy, policy, "policy")
        needed = {t.id for t in self.outputs} | {*self._assigned.values()}
        claims = partition(self._ops, chosen, backend, needed)
        read = needed_by_others([claim.ops for claim in claims], needed)
        return [
            Partition(
                number,
                claim,
                ids,
                fpmath_mode=self.fpmath_mode.value,
                forced=backend is not None,
                constants=self._held,
                steady={i: one for i, one in self._parameters.items() if i not in self._assigned},
            )
            for number, (claim, ids) in enumerate(zip(claims, read, strict=True))
        ]

    # --- what is in it ---

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops: as added, or in topological order once finalized."""
        return tuple(self._ops)

    @property
    def finalized(self) -> bool:
        """Whether `finalize` was called."""
        return self._finalized

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """What a call takes: tensors added by `input` in that order, then others that no op produces, by first use.

        Constants and parameters that the graph holds are none.
        """
        read = (t.id for op in self._ops for t in op.inputs)
        given = dict.fromkeys([*self._declared, *read])
        held = self._held
        return tuple(self._tensors[i] for i in given if i not in self._producers and i not in held)

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """Tensors that are marked by `output` or an End, or that no op reads and that are not dropped, in order.

        What is assigned to a parameter is one only if it is marked.
        """
        return tuple(self._tensors[i] for i in dict.fromkeys(i for _, i in self._named_outputs()))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, by which a compiled graph takes them."""
        return tuple(map(label, self.inputs))

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, by which a compiled graph returns them; one tensor may have several."""
        return tuple(name for name, _ in self._named_outputs())

    @property
    def marked_outputs(self) -> tuple[tuple[str | None, int], ...]:
        """What `output` was called with, in order: the name that was given, and the tensor's id."""
        return tuple(self._marked)

    def _named_outputs(self) -> list[tuple[str, int]]:
        """Name and tensor of each output."""
        read = {t.id for op in self._ops for t in op.inputs if op.outputs}
        ends = [t.id for op in self._ops for t in op.outputs if t.id not in read]
        ended = [t.id for op in self._ops if not op.outputs for t in op.inputs if t.id in self._producers]
        marked = {i for _, i in self._marked}
        hidden = marked | self._dropped | {*self._assigned.values()}
        others = [(None, i) for i in dict.fromkeys([*ends, *ended]) if i not in hidden]
        return [
            (label(self._tensors[i]) if name is None else name, i) for name, i in (*self._marked, *others)
        ]

    @property
    def constants(self) -> Mapping[str, Array]:
        """The arrays that the graph holds, read-only, by name."""
        return {label(self._tensors[i]): array for i, array in self._constants.items()}

    @property
    def constant_tensors(self) -> tuple[LogicalTensor, ...]:
        """The tensors of the constants that the graph holds."""
        return tuple(self._tensors[i] for i in self._constants)

    @property
    def parameters(self) -> Mapping[str, Array]:
        """The parameters by name, as read-only views of their memory, which show each later value too."""
        return {label(self._tensors[i]): one.view for i, one in self._parameters.items()}

    @property
    def parameter_tensors(self) -> tuple[LogicalTensor, ...]:
        """The tensors of the parameters."""
        return tuple(self._tensors[i] for i in self._parameters)

    @property
    def state(self) -> Mapping[str, Array]:
        """The arrays of the model that the graph came from, read-only, under the model's own names.

        Beside the parameters, whose later values it shows too, these are the constants and further names of
        parameters that the model has. Of a graph that was not imported, or not for training, it is `parameters`.
        """
        if self._state is None:
            return self.parameters
        return {
            name: self._parameters[one].view if isinstance(one, int) else one
            for name, one in self._state.items()
        }

    def name_state(self, state: Mapping[str, LogicalTensor | Array]) -> None:
        """Says what `state` is.

        Args:
            state: parameters of the graph, or arrays that stay as they are, by the model's names.

        Raises:
            GraphError: a tensor is no parameter of the graph, or the graph is finalized.
        """
        self._check_open("state")
        named: dict[str, Array | int] = {}
        for name, value in state.items():
            if isinstance(value, LogicalTensor):
                if value.id not in self._parameters:
                    raise GraphError(f"{value} is no parameter of the graph and can't be the state {name!r}")
                named[name] = value.id
            else:
                seen = value.view()
                seen.flags.writeable = False
                named[name] = seen
        self._state = named

    @property
    def held_parameters(self) -> Mapping[int, Parameter]:
        """The parameters by tensor id, for other graphs that are to share them; see `add_parameter`."""
        return dict(self._parameters)

    @property
    def assignments(self) -> tuple[tuple[LogicalTensor, LogicalTensor], ...]:
        """What `assign` was called with, in order: each parameter, and the tensor whose value it gets."""
        return tuple((self._tensors[i], self._tensors[value]) for i, value in self._assigned.items())

    @property
    def _held(self) -> dict[int, Array]:
        """The memory of constants and parameters, by tensor id."""
        return self._constants | {i: one.array for i, one in self._parameters.items()}

    def set_parameters(self, values: Mapping[str, object] | Mapping[int, object]) -> None:
        """Writes to parameters; all graphs and models that share them see it, and so nobody may run one meanwhile.

        Args:
            values: arrays by the parameter's name, tensor id or LogicalTensor; those that are not named stay as they
                are.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: an unknown parameter, or an array that does
                not fit it; nothing was written then.
        """
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(
                f"set_parameters takes a mapping from names to arrays, got {format_value(values)} of type "
                f"{type(values).__name__}"
            )
        names = {label(self._tensors[i]): i for i in self._parameters}
        writes: list[tuple[Parameter, Array]] = []
        for key, value in values.items():
            number = (
                key.id if isinstance(key, LogicalTensor) else names.get(key) if isinstance(key, str) else key
            )
            if number not in self._parameters:
                raise ArgumentError(
                    f"the graph has no parameter {format_value(key)}{nearest(key, names)}; it has "
                    f"{', '.join(map(repr, names)) or 'none'}"
                )
            what = f"parameter {format_value(key)}"
            array = value.numpy() if isinstance(value, Tensor) else as_array(value, what)
            check_array(array, self._tensors[number], what)
            writes.append((self._parameters[number], array))
        for parameter, array in writes:
            parameter.write(array)

    @property
    def tensors(self) -> tuple[LogicalTensor, ...]:
        """All tensors, also inputs, constants and parameters that no op reads yet."""
        return tuple(self._tensors.values())

    def tensor(self, key: str | int | LogicalTensor) -> LogicalTensor:
        """A tensor of the graph, an inner one too, with its shape as far as inferred; `graph[key]` is the same.

        Args:
            key: its name, as importers take it from the model, the name that `output` gave it, its id, or another
                description of it.

        Raises:
            GraphError: the graph has no such tensor, or several of that name.
        """
        if isinstance(key, str):
            found = self._called(key)
            if len(found) > 1:
                raise GraphError(
                    f"the graph has {len(found)} tensors of the name {format_value(key)}; take one by its id, "
                    f"{format_value([t.id for t in found])}"
                )
            if not found:
                names = [*map(label, self._tensors.values()), *(name for name, _ in self._marked if name)]
                raise GraphError(
                    f"the graph has no tensor {format_value(key)}{nearest(key, names)}; it has {format_value(names)}"
                )
            return found[0]
        number = key.id if isinstance(key, LogicalTensor) else integer(key)
        if number is None or number not in self._tensors:
            raise GraphError(
                f"the graph has no tensor with the id {format_value(key)}; it has {format_value(list(self._tensors))}"
            )
        return self._tensors[number]

    def _called(self, name: str) -> list[LogicalTensor]:
        """The tensors of a name; the output of that name where there is none."""
        found = [t for t in self._tensors.values() if label(t) == name]
        return found or [self._tensors[i] for given, i in self._marked if given == name]

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
        self._check_new_name(name, "an input")
        return self.add_input(
            LogicalTensor(
                self._take_id(), data_type, shape, strides=strides, property_type=property_type, name=name
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
            self._check_new_name(name, f"a {what}")
        if isinstance(array, Parameter):
            given = array.array
        else:
            given = array.numpy() if isinstance(array, Tensor) else as_array(array, shown)
        data_type = data_type_of(given, shown)
        number = self._take_id()
        own = name
        if own is None:
            own = f"{what}_{number}"
            self._check_name(own)
        tensor = LogicalTensor(number, data_type, given.shape, property_type=property_type, name=own)
        add = self.add_constant if property_type is PropertyType.constant else self.add_parameter
        return add(tensor, array if isinstance(array, Parameter) else given)

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
        if parameter.id not in self._parameters:
            raise GraphError(
                f"{parameter} is no parameter of the graph and can't be assigned to; make it with parameter()"
            )
        if parameter.id in self._assigned:
            raise GraphError(f"{parameter} is assigned twice; assign the last value once")
        if value.id not in self._tensors:
            raise GraphError(f"{value} is no tensor of the graph and can't be assigned to {parameter}")
        known, fitting = self._merged(value, None), self._tensors[parameter.id]
        if known.data_type is not fitting.data_type:
            raise DataTypeError(
                f"{known} is assigned to {fitting} and must have its type; cast it with TypeCast"
            )
        shape = merge_shapes(
            known.shape, fitting.shape, f"{known} is assigned to {fitting} and must have its shape"
        )
        if value.id in self._producers:
            known = known.with_shape(shape)
        elif known.shape != fitting.shape:
            raise ShapeError(f"{known} is assigned to {fitting} and must have its shape")
        self._know([known])
        self._assigned[parameter.id] = value.id

    def drop_assignment(self, parameter: LogicalTensor) -> None:
        """Takes back what `assign` said of a parameter; what was to be its value is an output then if nobody reads it.

        Raises:
            GraphError: nothing is assigned to it; the graph is finalized.
        """
        self._check_open(f"a change of {parameter}")
        if parameter.id not in self._assigned:
            raise GraphError(f"nothing is assigned to {parameter}, that it could be taken back")
        del self._assigned[parameter.id]

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
        if not isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"output takes a LogicalTensor, got {format_value(tensor)} of type {type(tensor).__name__}"
            )
        if name is not None and (not isinstance(name, str) or not name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"an output's name must be a non-empty string or None, got {format_value(name)}"
            )
        if tensor.id not in self._tensors:
            raise GraphError(
                f"{tensor} is no tensor of the graph and can't be its output; mark what op() returned"
            )
        self._merged(tensor, None)
        if (name, tensor.id) in self._marked:
            return tensor
        key = label(tensor) if name is None else name
        if any(key == (label(self._tensors[i]) if known is None else known) for known, i in self._marked):
            raise GraphError(
                f"two outputs of the graph would be called {format_value(key)}; choose another name"
            )
        self._marked.append((name, tensor.id))
        self._dropped.discard(tensor.id)
        return tensor

    def drop_output(self, tensor: LogicalTensor) -> None:
        """Says that a tensor that no op reads is no output of the graph; `output` makes it one again.

        An op that makes several tensors may make one that nobody asked for.

        Raises:
            GraphError: no op of the graph makes the tensor; it is marked by `output`; the graph is finalized.
        """
        self._check_open(f"{tensor}, which is to be dropped,")
        if tensor.id not in self._producers or any(tensor.id == i for _, i in self._marked):
            raise GraphError(
                f"{tensor} must be the output of an op that output() has not marked, to be dropped"
            )
        self._dropped.add(tensor.id)

    def prune(self, outputs: Sequence[LogicalTensor] | None = None) -> None:
        """Takes out the ops that no tensor marked by `output` or assigned depends on, and what only they read.

        Inputs stay, and so do parameters.

        Args:
            outputs: tensors that alone are outputs from now on, under their own names; None for those that are marked.

        Raises:
            GraphError: the graph is finalized; one of `outputs` is no tensor of it.
        """
        if self._finalized:
            raise GraphError("ops can't be taken out, the graph is finalized; prune before finalize")
        if outputs is not None:
            before = self._marked
            self._marked = []
            try:
                for tensor in outputs:
                    self.output(tensor)
            except OneDNNGraphError:
                self._marked = before
                raise
        self._ops = needed_ops(self._ops, {*self._assigned.values(), *(i for _, i in self._marked)})
        self._op_ids = {op.id for op in self._ops}
        used = {t.id for op in self._ops for t in (*op.inputs, *op.outputs)}
        used.update(self._declared, self._parameters, (i for _, i in self._marked), self._assigned.values())
        self._tensors = {i: tensor for i, tensor in self._tensors.items() if i in used}
        self._constants = {i: array for i, array in self._constants.items() if i in used}
        self._producers = {t.id: op for op in self._ops for t in op.outputs}

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
        new = {op.id: op for op in ops}
        former = {op.id: op for op in self._ops if op.id in new}
        known: dict[int, LogicalTensor] = {}
        for op in new.values():
            before = former[op.id].outputs if op.id in former else ()
            if not before or [t.id for t in op.outputs[: len(before)]] != [t.id for t in before]:
                raise GraphError(
                    f"{op} can't stand in another's place; the op with the id {op.id} must be one of the graph, and "
                    "make the same tensors"
                )
            taken = next(
                (t for t in op.outputs[len(before) :] if t.id in self._tensors or t.id in known), None
            )
            if taken is not None:
                raise GraphError(f"{op} can't make {taken}, which the graph has; give it an id of its own")
            unknown = next((t for t in op.inputs if t.id not in self._tensors), None)
            if unknown is not None:
                raise GraphError(f"{op} reads {unknown}, which is no tensor of the graph; add it first")
            merged = {t.id: self._merged(t, op) for t in (*op.inputs, *op.outputs)}
            known.update(infer([op], merged, {})[0])
        if not new:
            return
        self._ops = topological([new.get(op.id, op) for op in self._ops])
        self._producers.update((t.id, op) for op in new.values() for t in op.outputs)
        self._know(known.values())
        self._next_id = max(self._next_id, *(number + 1 for number in known))

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
                self._next_id = max(self._next_id, tensor.id + 1)
        op_id = self._take_id()
        label = name if name is not None else f"{snake_case(names.kind)}_{op_id}"
        types = schema_output_types(schema, names, inputs, attributes, outputs, output_type)
        made: list[LogicalTensor] = []
        for port, data_type in zip(schema.output_ports(len(types)), types, strict=True):
            own = label if len(types) == 1 else f"{label}.{names.spell(port.name)}"
            self._check_name(own)
            made.append(LogicalTensor(self._take_id(), data_type, name=own))
        op = Op(op_id, kind, inputs, made, name=label, **attributes)
        tensors, resolved = infer([op], {t.id: self._merged(t, op) for t in (*op.inputs, *op.outputs)}, {})
        self.add_op(resolved[0])
        self._know(tensors.values())
        return tuple(self._tensors[t.id] for t in made)

    def number(self, value: float, data_type: DataType | str) -> LogicalTensor:
        """Adds a constant of one element and no axes, as operators on tensors do; see `constant`."""
        dtype = numpy_type(as_data_type(data_type, "number: data_type"))
        return self.constant(np.array(value, dtype))

    def drop_constant(self, tensor: LogicalTensor) -> None:
        """Takes back a constant that no op reads and that is no output.

        Raises:
            GraphError: it is no constant that the graph holds, or is read; the graph is finalized.
        """
        self._check_open(f"a graph without {tensor}")
        read = any(t.id == tensor.id for op in self._ops for t in op.inputs)
        if tensor.id not in self._constants or read or any(tensor.id == i for _, i in self._marked):
            raise GraphError(f"{tensor} must be a constant of the graph that nobody reads, to be dropped")
        del self._constants[tensor.id]
        self._names.discard(self._tensors.pop(tensor.id).name)

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Graph:
        """A graph of its own for inputs of these shapes: sizes that are open here are filled in. Not finalized.

        Args:
            shapes: input name → its shape; -1 leaves a size as it is, and so does an input that is not named.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown input, or no shape.
            ShapeError: a size that is known here is another one, or an op can't do with these.
        """
        inputs = {t.id: t for t in self._reshaped_inputs(shapes)}
        twin = copy.copy(self)
        twin._finalized = False
        ordered = topological(self._ops)
        tensors, twin._ops = infer(ordered, {**self._tensors, **inputs}, {})
        twin._know(tensors.values())
        twin._producers = {t.id: op for op in twin._ops for t in op.outputs}
        return twin

    def _reshaped_inputs(self, shapes: Mapping[str, Sequence[int]]) -> list[LogicalTensor]:
        """The inputs, those that `shapes` names with their shapes of there."""
        inputs = {label(t): t for t in self.inputs}
        for name, given in shapes.items():
            if name not in inputs:
                raise ArgumentError(
                    f"the graph has no input {format_value(name)}{nearest(name, inputs)}; it has "
                    f"{', '.join(map(repr, inputs)) or 'none'}"
                )
            tensor, shape = inputs[name], as_shape(given, f"the shape of input {name!r}")
            merged = merge_shapes(
                tensor.shape,
                shape,
                f"input {name!r} has shape {format_shape(tensor.shape)} in the graph, got {format_shape(shape)}; only "
                "sizes that are open can be chosen",
            )
            inputs[name] = tensor.with_shape(merged)
        return list(inputs.values())

    def compile(
        self,
        engine: Engine | None = None,
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
        verify: bool = False,
        tune: Tune | str | None = None,
        tune_seconds: float = 0.5,
        strategy: str | None = None,
        scratch_limit: int | None = None,
        threads: int | None = None,
        choices: Choices | None = None,
    ) -> CompiledGraph:
        """Finalizes, partitions and compiles everything.

        Args:
            engine: where it will run; the default engine if None.
            policy, backend: as for `get_partitions`.
            verify: check each chosen kernel on integer data against NumPy before using it.
            tune, tune_seconds, strategy, scratch_limit, threads: see `CompileOptions`.
            choices: what `tune="online"` has settled and tries, shared with other compilations; its own if None.

        Returns:
            A callable from arrays to arrays. Partitions whose shapes are known only at execution are compiled
            then, once for each shape, and kept.

        Raises:
            UnsupportedError: a part that no backend, or not the forced one, can run.
            GraphError, ShapeError: see `finalize`.
        """
        self.finalize()
        partitions = self.get_partitions(policy, backend=backend)
        together = parse_enum(Policy, policy, "policy") is Policy.fusion
        needed = {t.id for t in self.outputs} | {*self._assigned.values()}
        return CompiledGraph(
            partitions,
            program(partitions, needed, self._assigned, self._parameters, together=together),
            Signature(
                self.inputs, [(name, self._tensors[i]) for name, i in self._named_outputs()], self._ops
            ),
            Held(self._held, self._parameters, self._assigned),
            engine,
            CompileOptions(
                verify=verify,
                tune=tune,
                tune_seconds=tune_seconds,
                strategy=strategy,
                scratch_limit=scratch_limit,
                threads=threads,
                choices=Choices() if choices is None else choices,
            ),
            partial(
                self.compile,
                policy=policy,
                backend=backend,
                verify=verify,
                tune=tune,
                tune_seconds=tune_seconds,
                strategy=strategy,
                scratch_limit=scratch_limit,
                threads=threads,
            ),
        )

    def tune(
        self, budget_seconds: float = 30.0, *, engine: Engine | None = None, backend: str | None = None
    ) -> dict[int, Explanation | None]:
        """Measures the ways to run what takes most time and remembers the fastest, for `compile(tune="cached")`.

        These are the candidates of each weight gradient, and the implementations of each convolution and matrix
        product, with the layouts that they have in the whole graph. What was measured before, on this machine with as
        many threads, is not measured again. Progress is shown on a terminal.

        Args:
            budget_seconds: for all of them together, about; each way runs three times at least.
            engine, backend: as for `compile`.

        Returns:
            What was found, by the id of each partition that is compiled as one; None for one whose shapes are known
            only at execution.

        Raises:
            ArgumentError: the budget is no positive number.
            UnsupportedError, GraphError, ShapeError: see `compile`.
        """
        if isinstance(budget_seconds, bool) or not isinstance(budget_seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"budget_seconds must be a number, got {format_value(budget_seconds)}")
        if not budget_seconds > 0:
            raise ArgumentError(f"budget_seconds must be above 0, got {format_value(budget_seconds)}")
        self.finalize()
        partitions = self.get_partitions(backend=backend)
        share = budget_seconds / len(partitions)
        found: dict[int, Explanation | None] = {}
        for one in sections(partitions, {t.id for t in self.outputs} | {*self._assigned.values()}):
            show_progress(f"tuning {one.ops[0]}{f' and {len(one.ops) - 1} more' if one.ops[1:] else ''}")
            ready = all(t.is_concrete for t in one.input_ports) and not one.shape_operands
            found[one.id] = (
                one.compile(engine=engine, tune=Tune.measure, tune_seconds=share).explain() if ready else None
            )
        show_progress(None)
        return found

    # --- number formats ---

    def to(self, data_type: DataType | str, *, keep: Collection[str] = (), ports: bool = True) -> Graph:
        """The same graph in another number format; this one stays as it is.

        What is f32 becomes bf16, with f32 where it matters: parameters and statistics of normalisations, constants
        that broadcast, losses, what is computed from integers (positions, masks), what reads a Dequantize, and all
        that an op's schema has in no other type. Kernels accumulate in f32. Constants become constants of bf16.

        Args:
            data_type: `bf16`. f16 has neither the range of f32 nor, on most CPUs, kernels.
            keep: what stays f32: names of ops, kinds, and names of tensors. A tensor's name keeps the op that makes
                it; an input's or a constant's the ops that read it.
            ports: whether inputs and outputs keep their types, with a TypeCast behind or before them. Otherwise they
                become bf16 too.

        Returns:
            A graph of the same names that is not finalized.

        Raises:
            ArgumentError, ArgumentTypeError: another type; an unknown name in `keep`.
            GraphError: a cycle.
        """
        from .precision.bfloat16 import to_data_type  # it makes graphs, and so comes after this module

        return to_data_type(self, data_type, keep=keep, ports=ports)

    # --- gradients ---

    def gradients(
        self,
        loss: LogicalTensor | Sequence[LogicalTensor],
        wrt: Sequence[LogicalTensor],
        seed: object = None,
        *,
        recompute: Sequence[LogicalTensor] = (),
        straight_through: bool = False,
    ) -> list[LogicalTensor | None]:
        """Adds the ops of a gradient to the graph: reverse mode, out of ops of the set.

        Only what a tensor of `wrt` needs is added. Gradients of a tensor that is used several times are summed. What
        was an output of the graph stays one, and so is each gradient, until an op reads it.

        Args:
            loss: tensor of floating-point numbers, or several, whose gradients are added.
            wrt: tensors to differentiate by: inputs, parameters, constants, or inner ones.
            seed: gradient of the loss, of its shape: a tensor of the graph, an array or a number, for several losses
                one each; None for 1, which a loss of one element has.
            recompute: inner tensors that the backward part computes again, so that they need not be kept.
            straight_through: whether Quantize, Dequantize and Round, which have no useful derivative, hand gradients
                on as they are.

        Returns:
            For each tensor of `wrt` its gradient, of its type and shape, or None where the loss does not depend on it.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument that is no tensor of the graph, is
                of integers, or does not fit.
            GraphError: the graph is finalized, or has a cycle.
            UnsupportedError: an op between `wrt` and `loss` that has no gradient, or whose gradient needs sizes that
                are not known. The graph is as it was then.
        """
        from .gradients.reverse import gradients  # it makes ops, and so comes after this module

        self._check_open("gradients")
        trial = copy.copy(self)  # an error half way leaves this graph as it was
        found = gradients(trial, loss, wrt, seed, recompute, straight_through=straight_through)
        vars(self).update(vars(trial))
        self._home.belongs_to(self)
        return found

    # --- files ---

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, weights: bool | None = None) -> Graph:
        """A graph from a file in oneDNN Graph's JSON format, not yet finalized.

        Args:
            path: of the JSON file.
            weights: whether to read the file of the same name that ends in .safetensors, which `save` writes; None
                reads it where there is one.

        Raises:
            GraphFileError: the file can't be read or is no such graph; the message has the place in the file.
            OneDNNGraphError: what the file describes breaks a rule; likewise.
        """
        from .io.serialization import read_graph  # it makes graphs, and so comes after this module

        return read_graph(path, weights=weights)

    def save(self, path: str | os.PathLike[str], *, weights: bool | None = None) -> None:
        """Writes the graph to a file in oneDNN Graph's JSON format, which benchdnn and Netron read.

        The format has no place for the content of constants and the names of tensors.

        Args:
            path: of the JSON file.
            weights: also write a file of the same name that ends in .safetensors, with the constants, the names, and
                the order of inputs and outputs; `load` then gives the same graph. Needs the package safetensors, the
                extra `weights`. False leaves them out: constants and parameters are inputs of the graph that is
                loaded. None leaves them out too, and says so where there are any.

        Raises:
            FileAccessError: a file can't be written.
            WeightsLeftOutWarning: see above.
            UnsupportedError: the package safetensors is not installed.
        """
        from .io.serialization import save_graph

        save_graph(self, path, weights=weights)

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """A graph from the text of such a file; see `load`."""
        from .io.serialization import read_graph

        return read_graph(text=text)

    def to_json(self) -> str:
        """The text that `save` writes."""
        from .io.serialization import write_graph

        return write_graph(self)

    # --- pictures ---

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
        profile: Profile | None = None,
    ) -> None:
        """Finalizes the graph and draws it into one page of HTML, with its partitions and what runs in them.

        The page loads nothing from anywhere. Ops can be found, and clicked for attributes, tensors, kernels and
        reasons. Graphs of some thousand ops are placed more simply; the page says so.

        Args:
            path: of the file.
            policy, backend: as for `get_partitions`.
            profile: of executions with the same policy and backend; adds times.

        Raises:
            GraphFileError: the file can't be written.
            GraphError, ShapeError, UnsupportedError: see `finalize` and `get_partitions`.
        """
        from .pictures.drawing import graph_to_html  # it draws graphs, and so comes after this module

        graph_to_html(self, path, policy=policy, backend=backend, profile=profile)

    def to_dot(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
    ) -> None:
        """Finalizes the graph and writes it for Graphviz, with a cluster around each partition.

        Args:
            path: of the file.
            policy, backend: as for `get_partitions`.

        Raises:
            GraphFileError: the file can't be written.
            GraphError, ShapeError, UnsupportedError: see `finalize` and `get_partitions`.
        """
        from .pictures.drawing import graph_to_dot

        graph_to_dot(self, path, policy=policy, backend=backend)

    def _repr_html_(self) -> str:
        """For notebooks: the page of `to_html` in a frame. The graph stays open, and may be incomplete or wrong."""
        from .pictures.drawing import graph_in_notebook

        return graph_in_notebook(self)

    def _check_open(self, what: str) -> None:
        if self._finalized:
            raise GraphError(f"{what} can't be added, the graph is finalized; build a new Graph")

    def _know(self, tensors: Iterable[LogicalTensor]) -> None:
        """Adds tensors, or what is better known of them now."""
        for tensor in tensors:
            self._tensors[tensor.id] = at_home(tensor, self._home)
            self._names.add(tensor.name)

    def _check_new_name(self, name: object, what: str) -> None:
        """Whether a name of the user's can be that of a new tensor."""
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"{what}'s name must be a non-empty string, got {format_value(name)}")
        self._check_name(name)

    def _check_name(self, name: str) -> None:
        if name in self._names:
            raise GraphError(
                f"the name {format_value(name)} is taken by another tensor of the graph; choose another"
            )

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def __copy__(self) -> Graph:
        """A graph of its own; ops and tensors never change and are shared."""
        twin = Graph(self.engine_kind, fpmath_mode=self.fpmath_mode)
        twin.__setstate__({name: copy.copy(value) for name, value in self.__getstate__().items()})
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        """A graph of its own with parameters of its own, which have the values of now."""
        twin = copy.copy(self)
        twin._parameters = copy.deepcopy(self._parameters, memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_home"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._home = Home(self)
        self._know(list(self._tensors.values()))
        for array in self._constants.values():  # NumPy does not pickle that an array is read-only
            array.flags.writeable = False

    def __len__(self) -> int:
        """How many ops it has."""
        return len(self._ops)

    def __bool__(self) -> bool:
        """True, also without ops, so that `graph or other` asks for None alone."""
        return True

    def __iter__(self) -> Iterator[Op]:
        """Its ops; see `ops`."""
        return iter(self.ops)

    def __contains__(self, item: object) -> bool:
        """Whether it has an op, a tensor, or a tensor of that name."""
        if isinstance(item, Op):
            return item.id in self._op_ids and item in self._ops
        if isinstance(item, LogicalTensor):
            known = self._tensors.get(item.id)
            return known is not None and (known.name, known.data_type) == (item.name, item.data_type)
        return isinstance(item, str) and bool(self._called(item))

    def __getitem__(self, key: str | int | LogicalTensor) -> LogicalTensor:
        """The tensor of that name; see `tensor`."""
        return self.tensor(key)

    def __str__(self) -> str:
        """A line for each input, constant and op, in the order in which they were added."""
        heading = f"{self!r}, fpmath_mode {self.fpmath_mode.value}"
        held = (*self.constant_tensors, *self.parameter_tensors)
        return listing(heading, self.inputs, held, self.ops, self.outputs, self.assignments)

    def __repr__(self) -> str:
        constants = f", {len(self._constants)} constants" if self._constants else ""
        parameters = f", {len(self._parameters)} parameters" if self._parameters else ""
        return f"Graph({len(self._ops)} ops{constants}{parameters}{', finalized' if self._finalized else ''})"
