"""One node at a time: its translation, and its value where those of its inputs are known."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from attrs import field

from ...ops.errors import OneDNNGraphError
from ...ops.records import frozen
from ...ops.values import one_line
from ..importing.translation import (
    NO_TRANSLATION,
    TooLarge,
    Translation,
    Unmapped,
    Untranslated,
    Value,
    shape_of,
    sizes,
)
from ..runtime.arrays import Array
from .calls import Call
from .control import CONTROL
from .folding import DRAWS, RANDOM, Failed, Reference, by_kernels, reference_first, trusted_node
from .known import Schemas
from .node import Node
from .own import OWN
from .plain import is_plain, plainly
from .protos import kind_of
from .reading import Model, decoded
from .table import TABLE
from .training import TRAINING
from .types import is_array

SHAPES = ("Shape", "Size")
OF_ITS_OWN = 16
"""How often as much as a model holds its computed constants may take: weights of 4 bits become f32, transposed."""


@frozen(eq=False)
class Prepared:
    """What is asked of a node once, however often it is evaluated.

    Attributes:
        node: held, so that its id is that of no other.
        kind: its op.
        outputs: how many it has.
        attributes: as Python values; tensors are arrays.
        kept: what kernels have made of them.
    """

    node: Any
    kind: str
    outputs: int
    attributes: dict[str, Any]
    kept: dict[str, Any] = field(factory=dict[str, Any])


class Evaluation:
    """Translations and values of single nodes of a model.

    Args:
        model: what was read.
    """

    def __init__(self, model: Model) -> None:
        self._onnx = model.onnx
        self._table = TABLE if model.trained is None else TRAINING
        self._opset = model.opset
        self._limit = model.fold_limit
        self._schemas = Schemas(model.opset)
        self._bytes = 0
        self._held = sum(value.nbytes for value in model.constants.values())
        self._nodes: dict[int, Prepared] = {}
        self.reference = Reference(
            model.onnx, model.proto.opset_import, model.opset, model.proto.ir_version, model.fold_limit
        )

    def attributes_of(self, node: Any) -> dict[str, Any]:
        """A node's attributes as Python values."""
        return {a.name: _python(self._onnx.helper.get_attribute_value(a)) for a in node.attribute}

    def translated(
        self,
        t: Translation,
        kind: str,
        inputs: Sequence[Value | None],
        needed: int,
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
        checked: bool = True,
    ) -> Sequence[Value]:
        """A node's translation.

        Args:
            t: where its ops go.
            needed: how many of its outputs are.
            outputs: their names, empty for those that are not there.
            checked: whether its attributes are those of the op.

        Raises:
            Unmapped: it has none.
        """
        if kind in SHAPES and inputs[0] is not None:
            self._schemas.check(kind, inputs, attributes)
            return [_shape(kind, inputs[0], attributes)]
        translate = self._table.get(kind)
        if translate is None:
            raise Untranslated(NO_TRANSLATION)
        if checked:
            self._schemas.check(kind, inputs, attributes)
        made = translate(
            t,
            Node(
                kind=kind,
                opset=self._opset,
                inputs=tuple(inputs),
                outputs=needed,
                listed=len(outputs),
                attributes=attributes,
            ),
        )
        results: list[Value] = list(made) if isinstance(made, Sequence) else [made]
        if len(results) < needed:
            raise Unmapped(f"its output {outputs[needed - 1]!r}, number {needed - 1}, has no counterpart")
        return results

    def folded(self, node: Any, inputs: Sequence[Array | None], needed: int) -> list[Array]:
        """The outputs of a node whose inputs are all constant.

        Raises:
            Unmapped: there is none that could be relied on, or it takes more memory than it may.
        """
        if kind_of(node) in RANDOM:
            raise Unmapped("it draws other numbers at each call, and so it has no constant value")
        known = self._prepared(node)
        made = plainly(self._call(known, inputs, needed))
        if made is not None:
            given = [value for value in inputs if value is not None]
            # Of their own, for whoever keeps them.
            made = [a.copy() if _shares(a, given) else np.ascontiguousarray(a).reshape(a.shape) for a in made]
        else:
            made = self._by_kernels(node, inputs, needed)
        if made is None:
            try:
                made = self._own(known, inputs, needed)
            except TooLarge:
                raise
            except Unmapped as error:
                raise Failed(str(error)) from error
        if made is None:
            made = self.reference(node, inputs)
        self._account(made, inputs)
        return made

    @property
    def _room(self) -> int:
        """Bytes that a constant may take now: all together have a limit, too."""
        return min(self._limit, self._limit + OF_ITS_OWN * self._held - self._bytes)

    def _account(self, made: Sequence[Array], inputs: Sequence[Array | None]) -> None:
        """Counts what constants take together.

        Raises:
            TooLarge: they take more than they may.
        """
        given = [value for value in inputs if value is not None]
        self._bytes += sum(a.nbytes for a in made if not _shares(a, given))
        if self._bytes > self._limit + OF_ITS_OWN * self._held:
            raise TooLarge(
                f"the constants that are computed at import take {self._bytes:,} bytes until here, and may take "
                f"{self._limit:,} and {OF_ITS_OWN} times what the model holds; raise fold_limit of from_onnx"
            )

    def value(self, node: Any, inputs: Sequence[Any], needed: int) -> tuple[str, list[Any]]:
        """Who has computed it, and the outputs of a node for these inputs: arrays, lists of them, or None.

        Raises:
            Unmapped: neither our kernels nor ONNX's reference have them.
        """
        known = self._prepared(node)
        kind, made = known.kind, None
        if is_plain(kind):
            made = plainly(self._call(known, inputs, needed, sys.maxsize), near=True)
        if (
            made is None
            and (kind in TABLE or kind in SHAPES)
            and all(a is None or is_array(a) for a in inputs)
        ):
            made = self._by_kernels(node, inputs, needed)
        if made is None:
            made = self._own(known, inputs, needed)
        if made is not None:
            return "numpy", list(made)
        return "reference", self.reference.run(node, inputs)

    def may_run(self, node: Any, inputs: Sequence[Value | None]) -> bool:
        """Whether a node without a translation may have a value once those of its inputs are known.

        Args:
            inputs: what is known of them.
        """
        kind = kind_of(node)
        if kind in CONTROL or kind in DRAWS or kind in OWN or trusted_node(node, self._opset):
            return True
        later = any(not isinstance(value, np.ndarray) for value in inputs[1:] if value is not None)
        return kind in TABLE and later

    def _own(self, known: Prepared, inputs: Sequence[Any], needed: int) -> list[Any] | None:
        kernel = OWN.get(known.kind)
        if kernel is None:
            return None
        try:
            return kernel(self._call(known, inputs, needed))
        except (Unmapped, OneDNNGraphError, MemoryError):
            raise
        except Exception as error:
            # Nobody has looked whether the inputs fit: that may be it, or a defect here.
            given = ", ".join(map(_described, inputs))
            raise Unmapped(
                f"its NumPy kernel in onednn_graph ends in {type(error).__name__}: {one_line(error)}, for inputs of "
                f"{given}"
            ) from error

    def _call(self, known: Prepared, inputs: Sequence[Any], needed: int, limit: int | None = None) -> Call:
        room = self._room if limit is None else limit
        return Call(
            known.kind, self._opset, inputs, needed, known.outputs, known.attributes, room, known.kept
        )

    def _prepared(self, node: Any) -> Prepared:
        known = self._nodes.get(id(node))
        if known is None:
            attributes = self._own_attributes(node)
            known = self._nodes[id(node)] = Prepared(node, kind_of(node), len(node.output), attributes)
        return known

    def _own_attributes(self, node: Any) -> dict[str, Any]:
        """A node's attributes, its tensors as arrays."""
        tensor = self._onnx.TensorProto
        found = self.attributes_of(node)
        return {name: decoded(self._onnx, v) if isinstance(v, tensor) else v for name, v in found.items()}

    def _by_kernels(self, node: Any, inputs: Sequence[Array | None], needed: int) -> list[Array] | None:
        kind = kind_of(node)
        if (kind not in TABLE and kind not in SHAPES) or reference_first(kind, inputs):
            return None
        attributes = self.attributes_of(node)

        def translate(t: Translation, values: Sequence[Value | None]) -> Sequence[Value]:
            return self.translated(t, kind, values, needed, node.output, attributes)

        return by_kernels(inputs, translate, self._room)


def _shares(array: Array, others: Sequence[Array]) -> bool:
    """Whether an array may be memory of others, or has its elements more than once."""
    return 0 in array.strides or any(np.may_share_memory(array, other) for other in others)


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return f"{array.dtype} {list(array.shape)}"
    return "nothing" if value is None else type(value).__name__


def _python(value: Any) -> Any:
    """An attribute's value with text as str."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int | float | str) or not hasattr(value, "__len__"):
        return value
    return [_python(one) if isinstance(one, bytes) else one for one in value]


def _shape(kind: str, value: Value, attributes: Mapping[str, Any]) -> Array:
    if kind == "Size":
        return np.asarray(np.prod(sizes(value), dtype=np.int64))
    part = shape_of(value)[attributes.get("start", 0) : attributes.get("end")]
    if -1 in part:
        sizes(value)  # says what is missing
    return np.asarray(part, np.int64)
