"""What can be asked of a graph: its ops and tensors, what it takes and gives, what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..model.fpmath import FpmathMode
from ..model.listing import listing
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter
from .content import Content

TRAINING = frozenset(("BatchNormForwardTraining", "Dropout"))
"""Kinds of what does something else in training than in inference."""
UPDATES = frozenset(
    ("HostAdam", "HostGradientScale", "HostMeanEnd", "HostMeanStart", "HostSGD", "HostUpdate")
)
"""Kinds of what training does with gradients."""


class Readable:
    """A graph, as it is looked at.

    Attributes:
        fpmath_mode: see `FpmathMode`.
    """

    _content: Content
    fpmath_mode: FpmathMode
    _finalized: bool

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops: as added, or in topological order once finalized."""
        return tuple(self._content.ops)

    @property
    def finalized(self) -> bool:
        """Whether `finalize` was called."""
        return self._finalized

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """What a call takes: tensors added by `input` in that order, then others that no op produces, by first use.

        Constants and parameters that the graph holds are none.
        """
        return self._content.inputs

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """Tensors that are marked by `output` or an End, or that no op reads and that are not dropped, in order.

        What is assigned to a parameter is one only if it is marked.
        """
        return self._content.outputs

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, by which a compiled graph takes them."""
        return tuple(map(label, self.inputs))

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, by which a compiled graph returns them; one tensor may have several."""
        return tuple(name for name, _ in self._content.named_outputs())

    @property
    def marked_outputs(self) -> tuple[tuple[str | None, int], ...]:
        """What `output` was called with, in order: the name that was given, and the tensor's id."""
        return tuple(self._content.marked)

    @property
    def constants(self) -> Mapping[str, Array]:
        """The arrays that the graph holds, read-only, by name."""
        return {label(self._content.tensors[i]): array for i, array in self._content.constants.items()}

    @property
    def constant_tensors(self) -> tuple[LogicalTensor, ...]:
        """The tensors of the constants that the graph holds."""
        return tuple(self._content.tensors[i] for i in self._content.constants)

    @property
    def parameters(self) -> Mapping[str, Array]:
        """The parameters by name, as read-only views of their memory, which show each later value too."""
        return {label(self._content.tensors[i]): one.view for i, one in self._content.parameters.items()}

    @property
    def parameter_tensors(self) -> tuple[LogicalTensor, ...]:
        """The tensors of the parameters."""
        return tuple(self._content.tensors[i] for i in self._content.parameters)

    @property
    def state(self) -> Mapping[str, Array]:
        """The arrays of the model that the graph came from, read-only, under the model's own names.

        Beside the parameters, whose later values it shows too, these are the constants and further names of
        parameters that the model has. Of a graph that was not imported, or not for training, it is `parameters`.
        """
        if self._content.state is None:
            return self.parameters
        return {
            name: self._content.parameters[one].view if isinstance(one, int) else one
            for name, one in self._content.state.items()
        }

    @property
    def held_constants(self) -> Mapping[int, Array]:
        """The arrays of constants by tensor id, read-only."""
        return dict(self._content.constants)

    @property
    def held_parameters(self) -> Mapping[int, Parameter]:
        """The parameters by tensor id, for other graphs that are to share them; see `add_parameter`."""
        return dict(self._content.parameters)

    @property
    def assignments(self) -> tuple[tuple[LogicalTensor, LogicalTensor], ...]:
        """What `assign` was called with, in order: each parameter, and the tensor whose value it gets."""
        return tuple(
            (self._content.tensors[i], self._content.tensors[value])
            for i, value in self._content.assigned.items()
        )

    @property
    def tensors(self) -> tuple[LogicalTensor, ...]:
        """All tensors, also inputs, constants and parameters that no op reads yet."""
        return tuple(self._content.tensors.values())

    def tensor(self, key: str | int | LogicalTensor) -> LogicalTensor:
        """A tensor of the graph, an inner one too, with its shape as far as inferred; `graph[key]` is the same.

        Args:
            key: its name, as importers take it from the model, the name that `output` gave it, its id, or another
                description of it.

        Raises:
            GraphError: the graph has no such tensor, or several of that name.
        """
        return self._content.tensor(key)

    @property
    def training_ops(self) -> tuple[Op, ...]:
        """The ops that do something else in inference, or change what the graph holds; see `for_inference`.

        These are BatchNormForwardTraining, which goes by the statistics of the batch, Dropout, and what makes the
        values that the graph assigns to its parameters, as moving statistics and weights are.
        """
        assigned = set(self._content.assigned.values())
        return tuple(
            op for op in self._content.ops if op.kind in TRAINING or any(t.id in assigned for t in op.outputs)
        )

    @property
    def state_parameters(self) -> tuple[LogicalTensor, ...]:
        """The parameters that the graph assigns though it trains nothing: each call goes on from the one before.

        In training, where statistics and weights move, there are none.
        """
        if any(op.kind in TRAINING | UPDATES or "Backward" in op.kind for op in self._content.ops):
            return ()
        return tuple(parameter for parameter, _ in self.assignments)

    def __len__(self) -> int:
        """How many ops it has."""
        return len(self._content.ops)

    def __bool__(self) -> bool:
        """True, also without ops, so that `graph or other` asks for None alone."""
        return True

    def __iter__(self) -> Iterator[Op]:
        """Its ops; see `ops`."""
        return iter(self.ops)

    def __contains__(self, item: object) -> bool:
        """Whether it has an op, a tensor, or a tensor of that name."""
        return self._content.has(item)

    def __getitem__(self, key: str | int | LogicalTensor) -> LogicalTensor:
        """The tensor of that name; see `tensor`."""
        return self.tensor(key)

    def __str__(self) -> str:
        """A line for each input, constant and op, in the order in which they were added."""
        heading = f"{self!r}, fpmath_mode {self.fpmath_mode.value}"
        held = (*self.constant_tensors, *self.parameter_tensors)
        return listing(heading, self.inputs, held, self.ops, self.outputs, self.assignments)

    def __repr__(self) -> str:
        constants = f", {len(self._content.constants)} constants" if self._content.constants else ""
        parameters = f", {len(self._content.parameters)} parameters" if self._content.parameters else ""
        training = ", in training" if self.training_ops and not self.state_parameters else ""
        state = ", with state" if self.state_parameters else ""
        finalized = ", finalized" if self._finalized else ""
        return f"Graph({len(self._content.ops)} ops{constants}{parameters}{training}{state}{finalized})"
