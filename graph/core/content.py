"""Content: what a graph holds, by the ids of tensors and ops, and what follows from that alone."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import Any

from attrs import field, fields_dict

from ...ops.errors import ArgumentTypeError, GraphError, nearest
from ...ops.records import define
from ...ops.values import format_value, integer
from ..model.inference import merge_shapes
from ..model.logical_tensor import MAX_ID, LogicalTensor, at_home, format_shape, label
from ..model.op import Op
from ..model.operators import Home
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter


@define(eq=False, getstate_setstate=False)
class Content:
    """What a graph holds. Nothing here knows whether the graph is finalized; its builder does.

    Attributes:
        home: stands for the graph in its tensors.
        ops: in order. op_ids: theirs.
        tensors: by id. names: theirs, and those of tensors that once were.
        producers: tensor → the op that makes it.
        declared: inputs, in the order in which they were added.
        constants, parameters: what is held, by tensor id.
        assigned: parameter → the tensor whose value it gets.
        state: the model's own names, with arrays or ids of parameters; see `Graph.state`.
        marked: outputs with the names that were given.
        dropped: tensors that no op reads and that are no outputs.
        next_id: above all ids. lowest: where free ones are looked for once there are none above all others.
    """

    home: Home
    ops: list[Op] = field(factory=list[Op])
    op_ids: set[int] = field(factory=set[int])
    tensors: dict[int, LogicalTensor] = field(factory=dict[int, LogicalTensor])
    names: set[str] = field(factory=set[str])
    producers: dict[int, Op] = field(factory=dict[int, Op])
    declared: dict[int, None] = field(factory=dict[int, None])
    constants: dict[int, Array] = field(factory=dict[int, Array])
    parameters: dict[int, Parameter] = field(factory=dict[int, Parameter])
    assigned: dict[int, int] = field(factory=dict[int, int])
    state: dict[str, Array | int] | None = None
    marked: list[tuple[str | None, int]] = field(factory=list[tuple[str | None, int]])
    dropped: set[int] = field(factory=set[int])
    next_id: int = 0
    lowest: int = 0

    def copied(self, home: Home) -> Content:
        """The same for another graph; ops, tensors, arrays and parameters are shared."""
        twin = Content(home)
        twin.__setstate__({name: copy.copy(value) for name, value in self.__getstate__().items()})
        twin.move(home)
        return twin

    def move(self, home: Home) -> None:
        """Has the tensors belong to another graph."""
        self.home = home
        self.know(list(self.tensors.values()))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in fields_dict(Content) if name != "home"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        for array in self.constants.values():  # NumPy does not pickle that an array is read-only
            array.flags.writeable = False

    # --- what follows ---

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """What a call takes."""
        read = (t.id for op in self.ops for t in op.inputs)
        given = dict.fromkeys([*self.declared, *read])
        held = self.held
        return tuple(self.tensors[i] for i in given if i not in self.producers and i not in held)

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """What a call gives, each once."""
        return tuple(self.tensors[i] for i in dict.fromkeys(i for _, i in self.named_outputs()))

    def named_outputs(self) -> list[tuple[str, int]]:
        """Name and tensor of each output."""
        read = {t.id for op in self.ops for t in op.inputs if op.outputs}
        ends = [t.id for op in self.ops for t in op.outputs if t.id not in read]
        ended = [t.id for op in self.ops if not op.outputs for t in op.inputs if t.id in self.producers]
        marked = {i for _, i in self.marked}
        hidden = marked | self.dropped | {*self.assigned.values()}
        others = [(None, i) for i in dict.fromkeys([*ends, *ended]) if i not in hidden]
        return [(label(self.tensors[i]) if name is None else name, i) for name, i in (*self.marked, *others)]

    @property
    def held(self) -> dict[int, Array]:
        """The memory of constants and parameters, by tensor id."""
        return self.constants | {i: one.array for i, one in self.parameters.items()}

    @property
    def needed(self) -> set[int]:
        """Ids of what has to be computed: outputs, and what is assigned."""
        return {t.id for t in self.outputs} | {*self.assigned.values()}

    def called(self, name: str) -> list[LogicalTensor]:
        """The tensors of a name; the output of that name where there is none."""
        found = [t for t in self.tensors.values() if label(t) == name]
        return found or [self.tensors[i] for given, i in self.marked if given == name]

    def tensor(self, key: str | int | LogicalTensor) -> LogicalTensor:
        """A tensor by its name, its id or another description; see `Graph.tensor`."""
        if isinstance(key, str):
            found = self.called(key)
            if len(found) > 1:
                raise GraphError(
                    f"the graph has {len(found)} tensors of the name {format_value(key)}; take one by its id, "
                    f"{format_value([t.id for t in found])}"
                )
            if not found:
                names = [*map(label, self.tensors.values()), *(name for name, _ in self.marked if name)]
                raise GraphError(
                    f"the graph has no tensor {format_value(key)}{nearest(key, names)}; it has {format_value(names)}"
                )
            return found[0]
        number = key.id if isinstance(key, LogicalTensor) else integer(key)
        if number is None or number not in self.tensors:
            raise GraphError(
                f"the graph has no tensor with the id {format_value(key)}; it has {format_value(list(self.tensors))}"
            )
        found = self.tensors[number]
        if isinstance(key, LogicalTensor) and key.name and found.name and key.name != found.name:
            raise GraphError(
                f"{key} is of another graph: in this one, {found} has its id; take a tensor of this graph"
            )
        return found

    def has(self, item: object) -> bool:
        """Whether there is an op, a tensor, or a tensor of that name."""
        if isinstance(item, Op):
            return item.id in self.op_ids and item in self.ops
        if isinstance(item, LogicalTensor):
            known = self.tensors.get(item.id)
            return known is not None and (known.name, known.data_type) == (item.name, item.data_type)
        return isinstance(item, str) and bool(self.called(item))

    # --- what is added ---

    def fresh_id(self) -> int:
        """A number that no op and no tensor of the graph has, for one that is to be added."""
        if self.next_id > MAX_ID:  # a file may have the largest of all
            while self.lowest in self.tensors or self.lowest in self.op_ids:
                self.lowest += 1
            self.lowest += 1
            return self.lowest - 1
        self.next_id += 1
        return self.next_id - 1

    def know(self, tensors: Iterable[LogicalTensor]) -> None:
        """Adds tensors, or what is better known of them now."""
        for tensor in tensors:
            self.tensors[tensor.id] = at_home(tensor, self.home)
            self.names.add(label(tensor))

    def merged(self, tensor: LogicalTensor, op: Op | None) -> LogicalTensor:
        """What the graph and `tensor` know of one id together."""
        known = self.tensors.get(tensor.id)
        if known is None and label(tensor) in self.names:
            self.check_alone(tensor, {*self.declared, *self.constants, *self.parameters})
        if known is None or known == tensor:
            return tensor
        where = f"{op}: " if op is not None else ""
        for aspect in ("name", "data_type", "layout_type", "strides", "property_type"):
            have, want = getattr(known, aspect), getattr(tensor, aspect)
            if have != want and not (aspect == "name" and "" in (have, want)):
                raise GraphError(
                    f"{where}{tensor} has {aspect} {want!s}, but the graph's tensor with the id {tensor.id} has "
                    f"{have!s}; describe one id in one way, and use a tensor in the graph that made it"
                )
        shape = merge_shapes(
            known.shape,
            tensor.shape,
            f"{where}{tensor} has shape {format_shape(tensor.shape)}, but the graph's tensor with the id "
            f"{tensor.id} has {format_shape(known.shape)}; describe one id in one way, and use a tensor in the graph "
            "that made it",
        )
        return (tensor if tensor.name else known).with_shape(shape)

    def check_alone(self, tensor: LogicalTensor, others: Collection[int] | None = None) -> None:
        """Whether none of these tensors has its name: what users give and get by name has one of its own."""
        for other in self.called(label(tensor)) if label(tensor) in self.names else ():
            if other.id != tensor.id and (others is None or other.id in others):
                raise GraphError(
                    f"{tensor} would have the name of another tensor of the graph, {format_value(label(other))} with "
                    f"the id {other.id}; give each a name of its own"
                )

    def check_new_name(self, name: object, what: str) -> None:
        """Whether a name of the user's can be that of a new tensor."""
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"{what}'s name must be a non-empty string, got {format_value(name)}")
        self.check_name(name)

    def check_name(self, name: str) -> None:
        """Whether no tensor has it."""
        if name in self.names:
            raise GraphError(
                f"the name {format_value(name)} is taken by another tensor of the graph; choose another"
            )

    def add_source(self, tensor: LogicalTensor, what: str) -> None:
        """Adds a tensor that no op produces."""
        if tensor.id in self.producers:
            raise GraphError(
                f"{tensor} is produced by {self.producers[tensor.id]} and can't be an {what} too"
            )
        merged = self.merged(tensor, None)
        self.check_alone(merged)
        self.know([merged])
        self.next_id = max(self.next_id, tensor.id + 1)
