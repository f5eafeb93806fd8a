"""One graph with unknown sizes out of the graphs that a template makes for several sets of sizes.

These must be the same op by op. What differs among them must be a shape that follows from those of the inputs, an
attribute of a kind that can say the same without sizes, or a constant that repeats itself along an open size; anything
else is an error that names it. What comes out is given the sizes of each sample again, and held against it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from ...ops.errors import OneDNNGraphError, UnsupportedError
from ...ops.values import format_value, one_line
from ..core.building import content_of
from ..core.content import Content
from ..core.editing import reshape
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, format_shape, label
from ..model.op import Op
from ..runtime.arrays import Array
from .attributes import Said, Use, without_sizes
from .sampling import Pattern, Sample, open_names

BROADCASTING = frozenset(("binary", "eltwise"))
"""Families whose ops make of an axis of one element what they make of equal ones, once."""
BROADCASTING_KINDS = frozenset(
    (
        "MatMul", "HostAdd", "HostAnd", "HostCast", "HostDivide", "HostEqual", "HostGreater", "HostGreaterEqual",
        "HostMaximum", "HostMinimum", "HostMultiply", "HostNot", "HostNotEqual", "HostOr", "HostPower", "HostSelect",
        "HostSubtract", "HostXor", "TypeCast",
    )
)  # fmt: skip
"""Kinds of other families likewise; of a MatMul the axes of rows, columns and products."""
WAY = "take a graph for some sizes, with_shapes({…})"


def unified(samples: Sequence[Sample], pattern: Pattern) -> Graph:
    """The graph with -1 for the open sizes.

    Args:
        samples: of a template, for different sizes.
        pattern: names of open sizes in the shapes of the inputs.

    Raises:
        UnsupportedError: something holds a size.
    """
    found = _Unified(samples, pattern)
    made = found.graph()
    own = {op.id for op in found.first.ops}
    for sample in samples:
        _check(made, sample, own, found.narrow)
    return made


def stuck(graphs: Sequence[Graph]) -> list[int]:
    """The places of the ops that hold sizes which nothing says otherwise; none where graphs have other ops."""
    uses = [Use(ops) for ops in zip(*(graph.ops for graph in graphs), strict=False)]
    if any(_form(op) != _form(use.ops[0]) for use in uses for op in use.ops):
        return []
    return [place for place, use in enumerate(uses) if without_sizes(use) is None]


def size_names(graph: Graph, samples: Sequence[Sample], pattern: Pattern) -> dict[str, list[str | None]]:
    """Names of the sizes of inputs and outputs, None where a size is a number or is none of the open ones."""
    found: dict[str, list[str | None]] = {
        name: [d if isinstance(d, str) else None for d in dims] for name, dims in pattern.items()
    }
    values = {tuple(s.sizes[name] for s in samples): name for name in open_names(pattern)}
    made = [dict(zip(s.graph.output_names, _output_tensors(s.graph), strict=True)) for s in samples]
    for name in graph.output_names:
        shapes = [one[name].dims for one in made]
        found[name] = [values.get(sizes) for sizes in zip(*shapes, strict=True)]
    return found


def _output_tensors(graph: Graph) -> list[LogicalTensor]:
    content = content_of(graph)
    return [content.tensors[number] for _, number in content.named_outputs()]


class _Unified:
    """What is known of the first sample's graph by comparing it with the others.

    Args:
        samples, pattern: see `unified`.
    """

    def __init__(self, samples: Sequence[Sample], pattern: Pattern) -> None:
        self.samples = samples
        self.pattern = pattern
        self.contents = [content_of(sample.graph) for sample in samples]
        self.first = self.contents[0]
        self.ids: dict[int, tuple[int, ...]] = {}  # of each tensor of the first graph, in all
        self.narrow: Mapping[int, tuple[int, ...]] = {}
        self._match_inputs()
        self.uses = self._match_ops()
        self._match_ends()

    # --- the same op by op ---

    def _match_inputs(self) -> None:
        named = [{label(t): t.id for t in content.inputs} for content in self.contents]
        for name, number in named[0].items():
            if any(name not in one for one in named):
                self._differ(f"input {name!r} is not one of all sizes")
            self.ids[number] = tuple(one[name] for one in named)

    def _match_ops(self) -> list[Use]:
        uses: list[Use] = []
        for ops in zip(*(content.ops for content in self.contents), strict=False):
            use = Use(ops)
            other = next((i for i, op in enumerate(ops) if _form(op) != _form(ops[0])), None)
            if other is not None:
                self._differ(f"{ops[0]} is another op, as for {self.samples[other]}")
            for tensors in zip(*(op.inputs for op in ops), strict=True):
                if not self._same(tensors):
                    self._differ(f"{ops[0]} reads something else")
            for tensors in zip(*(op.outputs for op in ops), strict=True):
                self.ids[tensors[0].id] = tuple(t.id for t in tensors)
            uses.append(use)
        counts = sorted({len(content.ops) for content in self.contents})
        if len(counts) > 1:
            self._differ(f"there are {counts[0]} ops, or {counts[-1]}, as of a loop over a size")
        return uses

    def _same(self, tensors: Sequence[LogicalTensor]) -> bool:
        """Whether tensors of all graphs are the same one."""
        if len({t.data_type for t in tensors}) > 1:
            return False
        numbers = tuple(t.id for t in tensors)
        if numbers[0] in self.ids:
            return self.ids[numbers[0]] == numbers
        self.ids[numbers[0]] = numbers
        held = [c.parameters.get(n) for c, n in zip(self.contents, numbers, strict=True)]
        if held[0] is not None:
            return all(one is held[0] for one in held)
        return all(n in c.constants for c, n in zip(self.contents, numbers, strict=True))

    def _match_ends(self) -> None:
        """Outputs, and what is assigned."""
        for ends in zip(*(content.named_outputs() for content in self.contents), strict=False):
            name, _ = ends[0]
            if any(other != name for other, _ in ends) or not self._same(
                [c.tensors[n] for c, (_, n) in zip(self.contents, ends, strict=True)]
            ):
                self._differ(f"output {name!r} is another one")
        if len({len(content.named_outputs()) for content in self.contents}) > 1:
            self._differ("there are more outputs")
        for sources in zip(*(content.assigned.items() for content in self.contents), strict=True):
            for place in (0, 1):
                tensors = [c.tensors[pair[place]] for c, pair in zip(self.contents, sources, strict=True)]
                if not self._same(tensors):
                    self._differ(f"what is assigned to {tensors[0]} is something else")

    def _differ(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"with_unknown_sizes: for other sizes {what}, so that no graph is one for all; {WAY}, as one for "
            f"{self.samples[0]}"
        )

    # --- what holds sizes ---

    def graph(self) -> Graph:
        """The graph.

        Raises:
            UnsupportedError: an attribute or a constant holds a size.
        """
        said = [self._said(use) for use in self.uses]
        repeated = self._repeated()
        made = self.samples[0].graph.with_shapes({})
        content = content_of(made)
        for number, array in repeated.items():
            content.constants[number] = array
            content.tensors[number] = content.tensors[number].with_shape(array.shape)
        inputs: list[LogicalTensor] = []
        for tensor in content.inputs:
            dims = self.pattern.get(label(tensor), tensor.dims)  # a seed is no input of the template
            inputs.append(tensor.with_shape(tuple(-1 if isinstance(d, str) else d for d in dims)))
        content.know(inputs)
        for tensor in [content.tensors[t.id] for op in content.ops for t in op.outputs]:
            content.tensors[tensor.id] = tensor.with_shape(None)
        narrow = _Narrow(content, {number: array.shape for number, array in repeated.items()})
        ops: list[Op] = []
        for use, (kind, attributes) in zip(self.uses, said, strict=True):
            ops += narrow.read_by(use, kind, attributes)
        self.narrow = narrow.dims
        content.ops = ops
        content.op_ids = {op.id for op in ops}
        try:
            reshape(content, inputs)
        except OneDNNGraphError as error:
            raise UnsupportedError(f"with_unknown_sizes: {one_line(error)}; {WAY}") from error
        return made

    def _said(self, use: Use) -> Said:
        found = without_sizes(use)
        if found is not None:
            return found
        op = use.ops[0]
        name = use.differing()[0]
        other = next(i for i, one in enumerate(use.ops) if one.attributes[name] != op.attributes[name])
        values = [format_value(_plain(one.attributes[name])) for one in (op, use.ops[other])]
        several = (
            "" if op.kind not in ("StaticReshape", "HostReshape") else ", where two or more sizes are open"
        )
        raise UnsupportedError(
            f"with_unknown_sizes: {op} has {op.names.spell(name)} {values[0]} for {self.samples[0]}, and {values[1]} "
            f"for {self.samples[other]}{several}: it holds a size, and says nothing for all; {WAY}"
        )

    def _repeated(self) -> dict[int, Array]:
        """Constants that repeat themselves along what differs in shape, with one element there."""
        found: dict[int, Array] = {}
        for number, numbers in self.ids.items():
            if number not in self.first.constants:
                continue
            arrays = [c.constants[n] for c, n in zip(self.contents, numbers, strict=True)]
            if all(_equal(array, arrays[0]) for array in arrays[1:]):
                continue
            once = _once(arrays)
            if once is None:
                self._refuse_constant(number, arrays)
            found[number] = once
        return found

    def _refuse_constant(self, number: int, arrays: Sequence[Array]) -> NoReturn:
        other = next(i for i, one in enumerate(arrays) if not _equal(one, arrays[0]))
        reader = next((op for op in self.first.ops for t in op.inputs if t.id == number), None)
        shapes = [format_shape(array.shape) for array in (arrays[0], arrays[other])]
        what = f"of shape {shapes[0]}, or {shapes[1]}" if shapes[0] != shapes[1] else f"of shape {shapes[0]}"
        raise UnsupportedError(
            f"with_unknown_sizes: constant {label(self.first.tensors[number])!r} {what}, which "
            f"{'is an output' if reader is None else f'{reader} reads'}, is computed from a size, as positions and "
            f"masks are: it is another one for {self.samples[0]} and for {self.samples[other]}; {WAY}, or have each "
            "call bring it as an input"
        )


class _Narrow:
    """Tensors that have one element along an axis where they had several equal ones, and who may read them.

    Args:
        content: of the graph that is made.
        dims: shapes of constants, by id.

    Attributes:
        dims: and of what is made of them, in the first sample.
    """

    def __init__(self, content: Content, dims: dict[int, tuple[int, ...]]) -> None:
        self._content = content
        self.dims = dims

    def read_by(self, use: Use, kind: str, attributes: dict[str, Any]) -> list[Op]:
        """An op with other attributes, and before it what gives its inputs their sizes.

        Raises:
            UnsupportedError: it needs a size that nothing gives.
        """
        op = use.ops[0]
        tensors = self._content.tensors
        inputs, before = [tensors[t.id] for t in op.inputs], list[Op]()
        narrow = [place for place, t in enumerate(inputs) if t.id in self.dims]
        if narrow and op.kind == "Concat":
            for place in narrow:
                before += self._widened(use, place, inputs)
        elif narrow:
            if not _broadcasting(op):
                self._refuse(op, inputs[narrow[0]])
            self._follow(op)
        outputs = [tensors[t.id] for t in op.outputs]
        return [*before, Op(op.id, kind, inputs, outputs, name=op.name, **attributes)]

    def _follow(self, op: Op) -> None:
        """Looks whether what an op makes has one element as well."""
        shapes = [self.dims.get(t.id, t.dims) for t in op.inputs]
        try:
            found = op.infer_shapes(shapes, [None] * len(op.outputs), {})
        except OneDNNGraphError:
            self._refuse(op, next(t for t in op.inputs if t.id in self.dims))
        for tensor, shape in zip(op.outputs, found, strict=True):
            if shape is not None and shape != tensor.dims:
                self.dims[tensor.id] = shape

    def _widened(self, use: Use, place: int, inputs: list[LogicalTensor]) -> list[Op]:
        """What gives a part of a Concat the sizes that another part has."""
        op, content = use.ops[0], self._content
        axis = op.attributes.integer("axis") % len(use.outputs[0])
        array = content.constants.get(inputs[place].id)
        wanted = None if array is None else array.shape[axis]
        likes = [
            i
            for i, t in enumerate(inputs)
            if t.id not in self.dims
            and t.id not in content.constants
            and len({shape[axis] for shape in use.inputs(i)}) == 1
            and wanted is not None
            and use.inputs(i)[0][axis] >= wanted
        ]
        if not likes:
            self._refuse(op, inputs[place])
        like = inputs[likes[0]]
        part = self._tensor(like, f"{op.name}.like")
        wide = self._tensor(like, f"{op.name}.repeated")
        bounds = {"axes": [axis], "starts": [0], "stops": [wanted], "steps": [1]}
        made = [
            Op(content.fresh_id(), "HostSlice", [like], [part], name=part.name, **bounds),
            Op(content.fresh_id(), "HostExpandTo", [inputs[place], part], [wide], name=wide.name),
        ]
        inputs[place] = wide
        return made

    def _tensor(self, like: LogicalTensor, name: str) -> LogicalTensor:
        """A new tensor of a type."""
        content, number = self._content, 1
        wanted = name
        while wanted in content.names:
            number += 1
            wanted = f"{name}.{number}"
        tensor = LogicalTensor(content.fresh_id(), like.data_type, name=wanted)
        content.know([tensor])
        return content.tensors[tensor.id]

    def _refuse(self, op: Op, tensor: LogicalTensor) -> NoReturn:
        raise UnsupportedError(
            f"with_unknown_sizes: {op} reads {label(tensor)!r}, which is repeated as often as a size says that is "
            f"open; {WAY}"
        )


def _check(graph: Graph, sample: Sample, own: Collection[int], narrow: Collection[int]) -> None:
    """Holds the graph, with the sizes of a sample, against what the template makes for them.

    Args:
        own: ids of the ops that the template makes.
        narrow: of tensors that may have one element where they had several equal ones.

    Raises:
        UnsupportedError: they are not the same.
    """
    fixed = _fixed(graph, sample)
    have, want = content_of(fixed), content_of(sample.graph)
    for mine, theirs in zip((op for op in have.ops if op.id in own), want.ops, strict=True):
        for a, b in zip(mine.outputs, theirs.outputs, strict=True):
            if a.dims != b.dims and a.id not in narrow:
                _unlike(mine, a.dims, b.dims, sample)
    _check_outputs(fixed, sample)


def _fixed(graph: Graph, sample: Sample) -> Graph:
    """The graph with the sizes of a sample."""
    try:
        return graph.with_shapes(sample.shapes)
    except OneDNNGraphError as error:
        raise UnsupportedError(
            f"with_unknown_sizes: no graph is one for all sizes, as for {sample} ({one_line(error)}); {WAY}"
        ) from error


def _check_outputs(fixed: Graph, sample: Sample) -> None:
    if fixed.output_names != sample.graph.output_names:
        raise UnsupportedError(
            f"with_unknown_sizes: the outputs are others for {sample}, so that no graph is one for all sizes; {WAY}"
        )
    pairs = zip(fixed.output_names, _output_tensors(fixed), _output_tensors(sample.graph), strict=True)
    for name, have, want in pairs:
        if have.dims != want.dims:
            _unlike(f"output {name!r}", have.dims, want.dims, sample)


def check_small(graph: Graph, shapes: Mapping[str, tuple[int, ...]], made: Graph) -> None:
    """Holds the graph against what the template makes for sizes of 1, which may have other ops: by its outputs.

    Raises:
        UnsupportedError: they have other shapes.
    """
    sample = Sample({}, dict(shapes), made)
    _check_outputs(_fixed(graph, sample), sample)


def _unlike(what: object, have: Sequence[int], want: Sequence[int], sample: Sample) -> NoReturn:
    raise UnsupportedError(
        f"with_unknown_sizes: {what} would have shape {format_shape(tuple(have))} instead of "
        f"{format_shape(tuple(want))} for {sample}, so that no graph is one for all sizes; {WAY}"
    )


def _broadcasting(op: Op) -> bool:
    return op.kind in BROADCASTING_KINDS or (
        op.schema.family in BROADCASTING and not op.kind.endswith("Backward")
    )


def _form(op: Op) -> tuple[str, int, int, tuple[str, ...]]:
    return op.kind, len(op.inputs), len(op.outputs), tuple(op.attributes)


def _plain(value: object) -> object:
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _equal(a: Array, b: Array) -> bool:
    """Whether arrays are the same, to the bit."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.__array_interface__["data"][0] == b.__array_interface__["data"][0] and a.strides == b.strides:
        return True
    return np.array_equal(_bits(a), _bits(b))


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _once(arrays: Sequence[Array]) -> Array | None:
    """What arrays repeat along the axes in which their shapes differ; None where they don't, or differ beside."""
    if len({array.ndim for array in arrays}) > 1:
        return None
    axes = [a for a, sizes in enumerate(zip(*(x.shape for x in arrays), strict=True)) if len({*sizes}) > 1]
    if not axes or any(0 in array.shape for array in arrays):
        return None
    part = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(arrays[0].ndim))
    found = np.ascontiguousarray(arrays[0][part])
    for array in arrays:
        if not _equal(np.ascontiguousarray(array), np.ascontiguousarray(np.broadcast_to(found, array.shape))):
            return None
    found.flags.writeable = False
    return found
