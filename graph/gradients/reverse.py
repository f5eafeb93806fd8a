"""Reverse mode: one sweep over the ops from the loss back, which asks each for the gradients by its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.data_types import DataType
from ...ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataTypeError,
    ShapeError,
    UnsupportedError,
)
from ...ops.records import frozen
from ...ops.schema import CUSTOM, counts_allowed, format_shape
from ...ops.values import format_value, listed
from ..core.building import GraphCore
from ..model.inference import infer
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..model.topology import topological
from ..runtime.arrays import as_array, numpy_type
from .arithmetic import Arithmetic, is_float
from .backward_ops import by_backward_ops
from .context import GradientContext
from .recomputation import Recomputation
from .rules import NOT_DIFFERENTIABLE, STOPPED_PORTS, STOPS, KindRule
from .table import RULES


@frozen
class Request:
    """What somebody asks for, in his words, for errors.

    Attributes:
        call: the method that was called.
        tensors: its argument with tensors.
        seed: its argument with a value for each of these.
    """

    call: str
    tensors: str
    seed: str


GRADIENTS = Request("gradients", "loss", "seed")
QUANTIZING = frozenset(("Quantize", "DynamicQuantize"))
"""Ops whose outputs are integers, and stand for numbers all the same."""


def gradients(
    graph: GraphCore,
    loss: LogicalTensor | Sequence[LogicalTensor],
    wrt: Sequence[LogicalTensor],
    seed: object,
    recompute: Sequence[LogicalTensor],
    *,
    straight_through: bool,
) -> list[LogicalTensor | None]:
    """What `Graph.gradients` does, which see."""
    losses = floats_of(
        graph, [loss] if isinstance(loss, LogicalTensor) else loss, GRADIENTS, GRADIENTS.tensors
    )
    sources = floats_of(graph, wrt, GRADIENTS, "wrt")
    again = tensors_of(graph, recompute, GRADIENTS, "recompute")
    before, former = kept_outputs(graph, losses), {op.id for op in graph.ops}
    found = swept(graph, losses, sources, seed, GRADIENTS, again, straight_through=straight_through)
    tidy(graph, former, before, found)
    return found


def swept(
    graph: GraphCore,
    losses: Sequence[LogicalTensor],
    sources: Sequence[LogicalTensor],
    seed: object,
    request: Request,
    recompute: Sequence[LogicalTensor] = (),
    *,
    straight_through: bool = False,
) -> list[LogicalTensor | None]:
    """One sweep: adds the ops, and leaves all that they make, and nobody reads, an output."""
    known, ops = infer(topological(graph.ops), {t.id: t for t in graph.tensors}, {})
    sweep = _Sweep(graph, ops, known, {t.id for t in sources}, recompute, straight_through=straight_through)
    starts = seeds_of(sweep.make, [sweep.better(t) for t in losses], seed, request)
    for tensor, start in zip(losses, starts, strict=True):
        if tensor.id in sweep.carriers:
            sweep.arrive(tensor, start)
    sweep.run()
    return [sweep.whole(tensor) for tensor in sources]


class _Sweep:
    """The state of one sweep.

    Attributes:
        make: adds ops.
        carriers: ids of the tensors that depend on one of those to differentiate by, and that gradients flow through.
    """

    def __init__(
        self,
        graph: GraphCore,
        ops: Sequence[Op],
        known: dict[int, LogicalTensor],
        sources: set[int],
        recompute: Sequence[LogicalTensor],
        *,
        straight_through: bool,
    ) -> None:
        self.make = Arithmetic(graph)
        self._graph = graph
        self._ops = list(ops)
        self._known = known
        self._straight_through = straight_through
        self._recomputed = Recomputation(self.make, ops, recompute, self.better)
        self.carriers = set(sources)
        for op in ops:
            self.carriers.update(self._carried(op))
        self._sums: dict[int, LogicalTensor] = {}

    def better(self, tensor: LogicalTensor) -> LogicalTensor:
        """A tensor with what shape inference knows of it."""
        return self._known.get(tensor.id, tensor)

    def _wanted(self, op: Op) -> frozenset[int]:
        """Positions of the inputs whose gradients are needed."""
        if op.kind in STOPS and not (self._straight_through and op.kind in RULES):
            return frozenset()
        stopped = STOPPED_PORTS.get(op.kind, frozenset())
        ports = zip(op.input_ports, op.inputs, strict=True)
        return frozenset(
            n for n, (port, t) in enumerate(ports) if t.id in self.carriers and port.name not in stopped
        )

    def _carried(self, op: Op) -> set[int]:
        """The outputs that gradients flow through to the inputs that need them."""
        wanted = self._wanted(op)
        # Integers stand for numbers behind a Quantize, and up to where they are dequantised.
        numbers = op.kind in QUANTIZING or any(not is_float(op.inputs[n].data_type) for n in wanted)
        stopped = STOPPED_PORTS.get(op.kind, frozenset())
        ports = zip(op.output_ports, op.outputs, strict=True)
        return {
            t.id
            for port, t in ports
            if wanted and (numbers or is_float(t.data_type)) and port.name not in stopped
        }

    def arrive(self, tensor: LogicalTensor, gradient: LogicalTensor) -> None:
        """Adds a part of the gradient of a tensor, which may have one element where all are equal along an axis."""
        own = tensor.data_type
        part = self.make.cast(gradient, own if is_float(own) else DataType.f32)
        so_far = self._sums.get(tensor.id)
        if so_far is None:
            self._sums[tensor.id] = part
            return
        self._sums[tensor.id] = self.make.add(part, so_far)

    def whole(self, tensor: LogicalTensor) -> LogicalTensor | None:
        """The gradient of a tensor so far, with all of its elements."""
        found = self._sums.get(tensor.id)
        if found is None:
            return None
        self._sums[tensor.id] = found = self.make.expand(found, self.better(tensor))
        return found

    def run(self) -> None:
        """Goes over all ops, from the last one to the first."""
        for op in reversed(self._ops):
            wanted = self._wanted(op)
            if wanted and any(t.id in self._sums for t in op.outputs):
                self._visit(op, wanted)

    def _visit(self, op: Op, wanted: frozenset[int]) -> None:
        rule = self._rule(op)
        gradients = tuple(self._sums.get(t.id) if rule.spread else self.whole(t) for t in op.outputs)
        ctx = GradientContext(
            op=op,
            make=self.make,
            gradients=gradients,
            wanted=wanted,
            straight_through=self._straight_through,
            kept=self._recomputed.kept,
            with_output=lambda port: self._with_output(op, port),
        )
        if not rule.every_output:
            for port, gradient in zip(op.output_ports[1:], gradients[1:], strict=True):
                if gradient is not None:
                    raise ctx.error(f"the gradient of its output '{port.name}' has no rule")
        made: set[int] = set()
        for port, gradient in rule.function(ctx):
            position = port if isinstance(port, int) else _position(op, port)
            made.add(position)
            if gradient is not None and position in wanted:
                self.arrive(op.inputs[position], gradient)
        for position in sorted(wanted - made):
            raise ctx.error(
                f"the gradient by its input '{op.input_ports[position].name}' has no rule; leave out what hangs on it"
            )

    def _rule(self, op: Op) -> KindRule:
        """The rule of an op.

        Raises:
            UnsupportedError: there is none.
        """
        rule = RULES.get(op.kind)
        if rule is not None:
            return rule
        if op.schema.backward:
            return KindRule(by_backward_ops)
        if op.schema.family == CUSTOM:
            raise UnsupportedError(
                f"{op}: no gradient is registered for this kind; "
                f"give it one by extend.register_gradient('{op.kind}', rule)"
            )
        reason = NOT_DIFFERENTIABLE.get(op.kind, "nobody has written it")
        raise UnsupportedError(
            f"{op}: the rule for gradients of {op.kind} is missing: {reason}; differentiate only by what is not before "
            "it (other parameters held fixed), or replace it by ops that have one"
        )

    def _with_output(self, op: Op, port: str) -> Op:
        """The op with an optional output that it has not made so far, as statistics are, in the graph as well."""
        schema = op.schema
        place = next(n for n, p in enumerate(schema.outputs) if p.name == port)
        count = min(n for n in counts_allowed(schema.outputs, schema.output_counts) if n > place)
        attributes: dict[str, object] = dict(op.attributes)
        if "keep_stats" in attributes:
            attributes["keep_stats"] = True
        types = schema.output_types([t.data_type for t in op.inputs], count, op.outputs[0].data_type)
        start = 1 + max((t.id for t in self._graph.tensors), default=0)
        start = max(start, 1 + max(other.id for other in self._graph.ops))
        more = [
            LogicalTensor(
                start + n, types[n], name=f"{op.name or f'op_{op.id}'}.{schema.outputs[n].name}_{start + n}"
            )
            for n in range(len(op.outputs), count)
        ]
        fuller = Op(op.id, op.kind, op.inputs, [*op.outputs, *more], name=op.name, **attributes)
        self._known, (fuller,) = infer([fuller], self._known, {})
        self._ops = [fuller if other.id == op.id else other for other in self._ops]
        self._graph.replace_ops([fuller])
        return fuller


def _position(op: Op, port: str) -> int:
    found = next((n for n, p in enumerate(op.input_ports) if p.name == port), None)
    if found is None:
        raise UnsupportedError(f"{op}: its rule yields a gradient by '{port}', which is no input that it has")
    return found


def tensors_of(graph: GraphCore, values: object, request: Request, what: str) -> list[LogicalTensor]:
    """The tensors of an argument, as the graph has them."""
    items = listed(values)
    known = {t.id: t for t in graph.tensors}
    found: list[LogicalTensor] = []
    for item in [None] if items is None else items:
        if not isinstance(item, LogicalTensor):
            raise ArgumentTypeError(
                f"{request.call}: {what} must be a list of tensors of the graph, got {format_value(values)}"
            )
        if item.id not in known or (item.name and item.name != known[item.id].name):
            raise ArgumentError(
                f"{request.call}: {what} must hold tensors of the graph, and {item} is none of it"
            )
        found.append(known[item.id])
    return found


def floats_of(graph: GraphCore, values: object, request: Request, what: str) -> list[LogicalTensor]:
    """The same, of floating-point numbers."""
    found = tensors_of(graph, values, request, what)
    for tensor in found:
        if not is_float(tensor.data_type):
            raise DataTypeError(
                f"{request.call}: {what} must be of floating-point numbers, got {tensor}; integers have no gradient"
            )
    return found


def seeds_of(
    make: Arithmetic, tensors: Sequence[LogicalTensor], seed: object, request: Request
) -> list[LogicalTensor]:
    """The value that is given for each tensor, as one of the graph: the gradient of each loss, say."""
    several = listed(seed) if type(seed) in (list, tuple) else None  # an array is one seed
    given: list[object] = [seed] * len(tensors) if several is None else several
    if len(given) != len(tensors) or (several is None and seed is not None and len(tensors) > 1):
        plural = {"loss": "losses"}.get(request.tensors, f"tensors of {request.tensors}")
        raise ArgumentError(
            f"{request.call}: {request.seed} must have a value for each of {len(tensors)} {plural}, "
            f"got {format_value(seed)}"
        )
    return [_seed(make, tensor, value, request) for tensor, value in zip(tensors, given, strict=True)]


def _seed(make: Arithmetic, of: LogicalTensor, value: object, request: Request) -> LogicalTensor:
    what = f"{request.call}: {request.seed}"
    whose = "the loss" if request.tensors == "loss" else f"its tensor of {request.tensors}"
    if isinstance(value, LogicalTensor):
        (tensor,) = tensors_of(make.graph, [value], request, request.seed)
        if tensor.data_type != of.data_type:
            raise DataTypeError(f"{what} must have the type of {whose}, {of}, got {tensor}")
        if tensor.shape is not None and of.shape is not None and tensor.shape != of.shape:
            raise ShapeError(f"{what} must have the shape of {whose}, {of}, got {tensor}")
        return tensor
    if not of.is_concrete:
        raise ShapeError(
            f"{request.call}: {whose} must have known sizes where its {request.seed} is no tensor, got {of}; "
            + (
                "reduce it to one number, or give a seed"
                if whose == "the loss"
                else "give a tensor of the graph"
            )
        )
    if value is None:
        if any(d != 1 for d in of.dims):
            raise ShapeError(
                f"{request.call}: {whose} must be one number where no {request.seed} is given, got {of}; reduce it, or "
                f"give the {'gradient of it as seed' if whose == 'the loss' else request.seed}"
            )
        return make.number(1, of, of.dims)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return make.number(value, of, of.dims)
    array = as_array(value, what)
    if array.shape != of.dims:
        raise ShapeError(
            f"{what} must have the shape of {whose}, {format_shape(of.shape)}, got {list(array.shape)}"
        )
    return make.graph.constant(array.astype(numpy_type(of.data_type)))


def kept_outputs(graph: GraphCore, losses: Sequence[LogicalTensor]) -> list[LogicalTensor]:
    """The outputs that stay some: the losses and marked ones, or all where none is marked."""
    marked = {number for _, number in graph.marked_outputs}
    chosen = marked | {tensor.id for tensor in losses}
    return [t for t in graph.outputs if not marked or t.id in chosen]


def tidy(
    graph: GraphCore,
    former: set[int],
    before: Sequence[LogicalTensor],
    found: Sequence[LogicalTensor | None],
) -> None:
    """Outputs stay outputs, gradients become some, and what the new ops make beside them does not."""
    returned = [tensor for tensor in found if tensor is not None]
    kept = {t.id for t in (*before, *returned)}
    read = {t.id for op in graph.ops for t in op.inputs if op.outputs}
    for op in graph.ops:
        for tensor in op.outputs:
            if op.id not in former and tensor.id not in read and tensor.id not in kept:
                graph.drop_output(tensor)
    still = {t.id for t in graph.outputs}
    if not kept <= still:  # marked ones come first, and so all have to be, in order
        marked = {number for _, number in graph.marked_outputs}
        for tensor in (*before, *returned):
            if tensor.id not in marked:
                graph.output(tensor)
