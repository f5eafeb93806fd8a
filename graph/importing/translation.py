"""A graph under construction, and what could not be translated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import OneDNNGraphError, UnsupportedError
from ...ops.host import HOSTED
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.values import one_line
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..runtime.arrays import Array, numpy_type
from ..runtime.parameter import Parameter

NO_TRANSLATION = "there is no translation for it"
MOST_OPS = 100_000
"""Ops that one node may become."""
MOST_STEPS = 128
"""Steps of a recurrent layer that become ops, where a kernel may run them instead: 255 took seconds to compile."""
MOST_PADDED = 1 << 28
"""Elements of a padded tensor whose padding may be constants of the graph."""
ROOM = 1 << 31
"""Bytes that a constant which an import computes may take, unless the user says another number."""
NAMES_SHOWN = 4
"""Nodes of one problem that a message names."""


class Unmapped(Exception):  # noqa: N818 -- not an error of the user's: it never leaves the importers
    """Why a node can't become ops of oneDNN Graph; the message stands behind the node's name."""


class LeftOpen(Unmapped):
    """The node depends on sizes that are not known, and may have a translation once they are."""


class Untranslated(Unmapped):
    """No table has the node's op."""


class TooLong(Unmapped):
    """The node would become more ops than are worth their compilation, and has a kernel that runs it as a whole."""


class TooLarge(Unmapped):
    """A constant that the import would make takes more memory than it may."""


def check_room(shape: Sequence[int], dtype: np.dtype[Any], limit: int) -> None:
    """Checks that a constant which is about to be made takes no more bytes than it may.

    Raises:
        TooLarge: it does.
    """
    wanted = math.prod(shape) * dtype.itemsize
    if wanted > limit:
        raise TooLarge(
            f"a constant of shape {list(shape)} and type {dtype} takes {wanted:,} bytes, and one that is computed at "
            f"import may take {limit:,}; raise fold_limit of from_onnx"
        )


FAILURES = (
    Unmapped,
    OneDNNGraphError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    MemoryError,
)
"""What a translation may end in. Built-in errors come of nodes whose attributes and inputs contradict each other."""


def reason_of(error: Exception) -> str:
    """Why a node has no translation."""
    if isinstance(error, Unmapped | OneDNNGraphError):
        return str(error)
    if isinstance(error, MemoryError):
        return "what it is made of takes more memory than there is"
    return f"its attributes and inputs don't fit together ({type(error).__name__}: {one_line(error)})"


@frozen(eq=False)
class Padded:
    """A tensor with zeros around it that are not there yet: a convolution takes them as its padding.

    Attributes:
        base: the tensor without them.
        begin, end: how many, per axis.
    """

    base: LogicalTensor
    begin: tuple[int, ...]
    end: tuple[int, ...]


@frozen(eq=False)
class Reshaped:
    """The elements of a tensor under another shape, not yet copied: several reshapes in a row become one, or none.

    Attributes:
        base: the tensor.
        shape: the new shape, all sizes known.
    """

    base: LogicalTensor
    shape: tuple[int, ...]


Value = LogicalTensor | Padded | Reshaped | Array
"""What a name of the model stands for: something computed, or a constant."""
COMPUTED = (LogicalTensor, Padded, Reshaped)
"""The classes of what is computed."""


@frozen
class Problem:
    """A node without a translation.

    Attributes:
        kind: the model's name of the op.
        node: the node's name.
        reason: why not.
    """

    kind: str
    node: str
    reason: str


def unsupported(problems: Sequence[Problem], source: str) -> UnsupportedError:
    """One error for all problems: each op with its reason, how many nodes there are, and their names."""
    groups: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        groups.setdefault((problem.kind, problem.reason), []).append(problem.node)
    parts: list[str] = []
    for (kind, reason), nodes in sorted(groups.items()):
        names = ", ".join(repr(node) for node in nodes[:NAMES_SHOWN])
        more = f" and {len(nodes) - NAMES_SHOWN} more" if len(nodes) > NAMES_SHOWN else ""
        parts.append(f"{kind} ×{len(nodes)} ({names}{more}): {reason}")
    many = f"{len(problems)} nodes" if len(problems) > 1 else "1 node"
    return UnsupportedError(
        f"{many} of the {source} can't become ops of oneDNN Graph: {'; '.join(parts)}; replace them in the "
        "model, or cut the model there and run these parts elsewhere"
    )


@frozen(eq=False)
class Drawn:
    """What a tensor is where zeros and ones are drawn: of · factor · ones + shift.

    Attributes:
        p: probability of the ones.
        scaled: the ones, each 1 / p; and ones everywhere where a model is evaluated.
        of: what they are multiplied by; None for 1.
    """

    p: float
    scaled: LogicalTensor
    factor: float = 1.0
    shift: float = 0.0
    of: Value | None = None


@frozen(eq=False)
class Repeated:
    """What a tensor is whose elements along an axis are all the same.

    Attributes:
        of: the tensor, with one element along that axis.
        axis: it is repeated along.
    """

    of: Value
    axis: int


class Translation:
    """The graph so far, and a name for what comes next.

    Attributes:
        graph: built so far.
        label: name of the node that is being translated; its ops get it.
        drawn: of tensors made of zeros and ones that are drawn, by id; and of products with one.
        repeated: of tensors that are another one several times along an axis, by id.
        additive: of boolean masks, what is added to scores in their place, by id and type.
        tiled: masks so many times one below the other, by id and number.
        limit: bytes that a constant which is computed may take.
        most_steps: of a recurrent layer, that become ops.
    """

    def __init__(self, limit: int = ROOM) -> None:
        self.limit = limit
        self.most_steps = MOST_STEPS
        self.graph = Graph()
        self.label = ""
        self.drawn: dict[int, Drawn] = {}
        self.repeated: dict[int, Repeated] = {}
        self.additive: dict[tuple[int, str], LogicalTensor] = {}
        self.tiled: dict[tuple[int, int], Value] = {}
        self._names: set[str] = set()
        self._numbered: dict[str, int] = {}  # name → the last number behind it
        self._by_identity: dict[int, tuple[Array, LogicalTensor]] = {}
        self._scalars: dict[tuple[str, str], LogicalTensor] = {}
        self._titles: dict[int, str] = {}
        self._dequantised: set[int] = set()
        self._reshaped: dict[tuple[int, tuple[int, ...]], LogicalTensor] = {}
        self._seed: LogicalTensor | None = None
        self._draws = 0

    def free_name(self, wanted: str) -> str:
        """The name, or with a number behind it the first that is free."""
        wanted = wanted or "value"
        name, number = wanted, self._numbered.get(wanted, 1)
        while name in self._names:
            number += 1
            name = f"{wanted}.{number}"
        self._names.add(name)
        self._numbered[wanted] = number
        return name

    def input(
        self,
        name: str,
        data_type: DataType,
        shape: Sequence[int] | None,
        *,
        strides: Sequence[int] | None = None,
        property_type: PropertyType = PropertyType.undef,
    ) -> LogicalTensor:
        """An input of the model, under its own name."""
        self._names.add(name)
        return self.graph.input(name, data_type, shape, strides=strides, property_type=property_type)

    def parameter(self, name: str, held: Parameter) -> LogicalTensor:
        """A parameter of the graph, under its own name unless an input has it."""
        return self.graph.parameter(held, name=self.free_name(name))

    def draw(self) -> tuple[LogicalTensor, Array]:
        """The seed of all random numbers, an input, and an offset that gives each op numbers of its own."""
        if self._seed is None:
            self._seed = self.graph.input(self.free_name("seed"), DataType.s64, [])
        self._draws += 1
        return self._seed, np.asarray(self._draws - 1, np.int64)

    def check_room(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        """Checks that a constant which is about to be made takes no more bytes than it may.

        Raises:
            TooLarge: it does.
        """
        check_room(shape, dtype, self.limit)

    def check_ops(self, count: int) -> None:
        """Checks that a node does not become too many ops.

        Raises:
            TooLarge: it does.
        """
        if count > MOST_OPS:
            raise TooLarge(
                f"it becomes {count:,} ops, and a node may become {MOST_OPS:,}; use shorter inputs"
            )

    def entitle(self, array: Array, name: str) -> None:
        """Has the constant called `name` if it is used; `array` must stay alive."""
        self._titles[id(array)] = name

    def renamed(self, view: Array, of: Array) -> Array:
        """A view, with the name of the array that it is one of."""
        self._titles[id(view)] = self._titles.get(id(of), "")
        return view

    def constant(self, array: Array) -> LogicalTensor:
        """A constant of the graph with this content; the same one for the same array."""
        known = self._by_identity.get(id(array))
        if known is not None:
            return known[1]
        scalar = (str(array.dtype), array.tobytes().hex()) if array.ndim == 0 else None
        if scalar in self._scalars:
            return self._scalars[scalar]
        name = self.free_name(self._titles.get(id(array)) or f"{self.label}.constant")
        tensor = self.graph.constant(array, name=name)
        self._by_identity[id(array)] = (array, tensor)
        if scalar is not None:
            self._scalars[scalar] = tensor
        return tensor

    def tensor(self, value: Value) -> LogicalTensor:
        """The value as a tensor of the graph: constants are added to it, padding and reshapes are done."""
        if isinstance(value, LogicalTensor):
            return value
        if isinstance(value, Padded):
            return self.padded(value.base, value.begin, value.end, 0.0)
        if isinstance(value, Reshaped):
            key = (value.base.id, value.shape)
            if key not in self._reshaped:
                self._reshaped[key] = self.op(
                    "StaticReshape", value.base, shape=list(value.shape), special_zero=False
                )
            return self._reshaped[key]
        return self.constant(value)

    def op(self, kind: str, *values: Value, **more: Any) -> LogicalTensor:
        """Adds an op and returns its output, or its first one."""
        return self.titled(self.label, kind, *values, **more)

    def titled(self, title: str, kind: str, *values: Value, **more: Any) -> LogicalTensor:
        """The same under another name than that of the node."""
        result = self._made(title, kind, *values, **more)[0]
        if kind == "Dequantize":
            self._dequantised.add(result.id)
        return result

    def ops(self, kind: str, *values: Value, **more: Any) -> tuple[LogicalTensor, ...]:
        """Adds an op and returns all its outputs."""
        return self._made(self.label, kind, *values, **more)

    def _made(self, title: str, kind: str, *values: Value, **more: Any) -> tuple[LogicalTensor, ...]:
        tensors = [self.tensor(value) for value in values]
        outputs = REGISTRY.resolve(kind)[0].outputs
        if len(outputs) > 1 and any(f"{title}.{port.name}" in self._names for port in outputs):
            title = f"{title}.{kind}"  # bn1.running_mean is the model's own
        made = self.graph.op(_for_types(kind, tensors), *tensors, name=self.free_name(title), **more)
        return (made,) if isinstance(made, LogicalTensor) else made

    def is_dequantised(self, value: Value) -> bool:
        """Whether a value is what integers stand for, and so never NaN or infinite."""
        return isinstance(value, LogicalTensor) and value.id in self._dequantised

    def padded(
        self, base: LogicalTensor, begin: Sequence[int], end: Sequence[int], value: float
    ) -> LogicalTensor:
        """The tensor with `value` around it: by Concat, or on the host where a size is unknown."""
        grown = [d + b + e for d, b, e in zip(shape_of(base), begin, end, strict=True)]
        if -1 in shape_of(base) or math.prod(grown) > MOST_PADDED:
            return self.op("HostPad", base, pads_begin=list(begin), pads_end=list(end), value=value)
        result = base
        for axis, (first, last) in enumerate(zip(begin, end, strict=True)):
            if not first and not last:
                continue
            shape = list(sizes(result))
            parts: list[Value] = [result]
            for count, place in ((first, 0), (last, 2)):
                if count:
                    shape[axis] = count
                    parts.insert(place, np.full(shape, value, numpy_type(base.data_type)))
            result = self.op("Concat", *parts, axis=axis)
        return result


def _for_types(kind: str, tensors: Sequence[LogicalTensor]) -> str:
    """The op, or the one on the host that does the same for types which it does not take.

    Sums of s32 are the host's, too: what overflows begins anew in all frameworks, and is the largest number in the set.
    """
    if kind not in HOSTED:
        return kind
    if kind in ("Add", "Subtract") and tensors[0].data_type is DataType.s32:
        return HOSTED[kind]
    schema, _ = REGISTRY.resolve(kind)
    ports = schema.input_ports(len(tensors))
    fits = all(tensor.data_type in schema.types[p.type] for p, tensor in zip(ports, tensors, strict=True))
    return kind if fits else HOSTED[kind]


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape, with -1 for unknown sizes.

    Raises:
        LeftOpen: not even the rank is known.
    """
    if isinstance(value, Padded):
        base = shape_of(value.base)
        return tuple(
            d + b + e if d >= 0 else -1 for d, b, e in zip(base, value.begin, value.end, strict=True)
        )
    if isinstance(value, LogicalTensor):
        if value.shape is None:
            raise LeftOpen(
                "the rank of its input is not known; give the shapes of the model's inputs with shapes="
            )
        return value.shape
    return value.shape


def sizes(value: Value) -> tuple[int, ...]:
    """The shape, all of it.

    Raises:
        LeftOpen: a size is known at execution only.
    """
    shape = shape_of(value)
    if -1 in shape:
        raise LeftOpen(
            "the sizes of its input must be known, but some are left open; give the shapes of the model's inputs "
            "with shapes="
        )
    return shape


def base_of(value: Value) -> LogicalTensor | Array:
    """What is computed, without padding and reshapes that are still to be done; or the constant."""
    return value.base if isinstance(value, Padded | Reshaped) else value


def dtype_of(value: Value) -> np.dtype[Any]:
    """NumPy's type of the elements."""
    base = base_of(value)
    return numpy_type(base.data_type) if isinstance(base, LogicalTensor) else base.dtype
