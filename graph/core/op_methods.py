"""The builder: `Graph.op`, and a method for each op. Made at first use; `op_methods.pyi` has their types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from ...ops.data_types import DataType
from ...ops.errors import ArgumentTypeError, nearest
from ...ops.hints import kind_hint
from ...ops.registry import REGISTRY
from ...ops.schema import OpNames, OpSchema
from ..model.builder import snake_case, split_arguments
from ..model.logical_tensor import LogicalTensor
from .signatures import BUILDER, ByName, describe

OPTIONS = frozenset(("name", "outputs", "output_type"))
"""What `op` takes beside inputs and attributes."""
ELSEWHERE = {
    "backward": "gradients(loss, wrt) adds the backward pass",
    "grad": "gradients(loss, wrt) adds the backward pass",
    "vjp": "gradients(outputs, wrt, seed=cotangents) is that product",
}
"""What other libraries call what is here under another name."""


def _check_meant(kind: str, inputs: Sequence[object], arguments: Mapping[str, object]) -> None:
    """Sees to it that nobody adds an op who wants another graph.

    Raises:
        ArgumentTypeError: `quantize` has no tensor, and no scales.
    """
    given = (*inputs, arguments.get("src"))
    if kind != "Quantize" or "scales" in arguments or any(isinstance(one, LogicalTensor) for one in given):
        return
    raise ArgumentTypeError(
        "quantize adds the op Quantize, with scales, to a tensor; for a whole graph in 8-bit integers take "
        'graph.quantize_static(feeds), and for its weights alone graph.quantize_weights("s4", group=128)'
    )


class OpBuilder(ABC):
    """The builder's `op`, and methods for a user's ops."""

    @abstractmethod
    def _build(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor],
        attributes: dict[str, object],
        name: str | None,
        outputs: int | None,
        output_type: DataType | str | None,
    ) -> tuple[LogicalTensor, ...]: ...

    def op(
        self,
        kind: str,
        *inputs: Any,
        name: str | None = None,
        outputs: int | None = None,
        output_type: DataType | str | None = None,
        **attributes: Any,
    ) -> Any:
        """Adds an op on logical tensors and returns its output, or a tuple of them."""
        return self._add(kind, inputs, attributes, name=name, outputs=outputs, output_type=output_type)

    def _add(
        self,
        kind: str,
        inputs: Sequence[object],
        arguments: Mapping[str, object],
        *,
        name: str | None = None,
        outputs: int | None = None,
        output_type: DataType | str | None = None,
    ) -> LogicalTensor | tuple[LogicalTensor, ...]:
        _check_meant(kind, inputs, arguments)
        tensors, given = split_arguments(kind, inputs, arguments)
        made = self._build(kind, tensors, given, name, outputs, output_type)
        return made[0] if len(made) == 1 else made

    def __getattr__(self, name: str) -> MethodType:
        method = METHODS.get(name)
        if method is None:
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'{self._hint(name)}")
        return MethodType(method, self)

    def _hint(self, name: str) -> str:
        if name.startswith("_"):  # libraries ask for private names in passing, and want no advice
            return ""
        if name in ELSEWHERE:
            return f"; {ELSEWHERE[name]}"
        known = [n for n in dir(self) if not n.startswith("_")]
        exact = next((n for n in known if n.casefold() == name.casefold()), None)
        kinds = [schema.kind for schema in REGISTRY]
        return nearest(name, [exact]) if exact else kind_hint(name, kinds, snake_case) or nearest(name, known)

    def __dir__(self) -> Iterable[str]:
        return {*super().__dir__(), *METHODS.names()}


def _method(name: str, schema: OpSchema, names: OpNames) -> FunctionType:
    extra = OPTIONS.difference(names.spell(p.name) for p in schema.inputs)

    def call(graph: OpBuilder, /, *inputs: Any, **given: Any) -> Any:
        own = {argument: given.pop(argument) for argument in extra.intersection(given)}
        return graph._add(names.kind, inputs, given, **own)  # pyright: ignore[reportPrivateUsage]

    return describe(call, name, schema, names, BUILDER)


METHODS = ByName(_method)
"""All of them, those of a user's ops too."""


class _AtFirstUse:
    """Stands in the class for the method of an op until somebody asks for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, graph: object, owner: type[object]) -> FunctionType | MethodType:
        method = METHODS.get(self.name)
        assert method is not None  # built in, and those stay
        return method if graph is None else MethodType(method, graph)


OpMethods = type(
    "OpMethods",
    (OpBuilder,),
    {"__module__": __name__, "__doc__": "The builder's `op`, and a method for each op."}
    | {name: _AtFirstUse(name) for name in METHODS.names(built_in=True)},
)
