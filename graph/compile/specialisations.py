"""What a compiled partition runs: one executable, or one for each of the shapes and values that it has met."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import local

import numpy as np

from ...ops.records import frozen
from ..model.inference import infer
from ..model.logical_tensor import LogicalTensor, as_plain
from ..model.op import port_names
from ..runtime.arguments import Arguments, listed_arguments, shape_operand_value
from ..runtime.arrays import as_array
from ..runtime.caching import BoundedCache
from ..runtime.engine import Engine
from ..runtime.executable import Explanation
from .building import Built
from .options import CompileOptions, compiled_again
from .ports import checked_inputs
from .specialise import specialise
from .subgraph import Subgraph

LOGGER = logging.getLogger(__name__)


@frozen
class Specialisation:
    """What an executable was made for, where a partition is compiled at execution.

    Attributes:
        shapes: of all inputs, in port order; empty where they were known at compile.
        values: of the shape operands, in port order.
    """

    shapes: tuple[tuple[int, ...], ...]
    values: tuple[tuple[int, ...], ...]


@frozen(eq=False)
class Specialised:
    """What runs for one specialisation: arguments around an executable, and why it is this one."""

    arguments: Arguments
    built: Built

    @property
    def explanation(self) -> Explanation:
        """Why it is this one; with `tune="online"` that changes as it is executed."""
        return self.built.explanation


class Specialisations:
    """What a partition runs for the shapes of its inputs and the values of the shape operands among them. Thread-safe.

    Attributes:
        only: what runs, where both were known at compile; else None, and the latest of what was met are kept.
        open: whether there may be more than one.
    """

    def __init__(
        self,
        partition: Subgraph,
        inputs: tuple[LogicalTensor, ...],
        outputs: tuple[LogicalTensor, ...],
        engine: Engine,
        options: CompileOptions,
    ) -> None:
        self._partition = partition
        self._inputs = inputs
        self._outputs = outputs
        self._engine = engine
        self._options = options
        operands = partition.shape_operands
        self._operands = tuple(
            (position, tensor.id) for position, tensor in enumerate(inputs) if tensor.id in operands
        )
        self._unknown_shapes = not all(t.is_concrete for t in inputs)
        self._names = port_names(partition.ops, inputs)
        self._met: BoundedCache[Specialisation, Specialised] = BoundedCache(
            options.kept_shapes, compiled_again(options.kept_shapes)
        )
        self._latest = local()
        self.open = self._unknown_shapes or bool(self._operands)
        self.only = None if self.open else self._made(Specialisation((), ()))
        if self.open and not self._unknown_shapes:
            # Everything that does not depend on the values is checked now, so that mistakes show early.
            infer(partition.ops, {t.id: as_plain(t) for t in inputs} | {t.id: t for t in outputs}, {})

    def _made(self, key: Specialisation) -> Specialised:
        by_id = {tensor_id: value for (_, tensor_id), value in zip(self._operands, key.values, strict=True)}
        part, inputs = self._partition, self._inputs
        if self._unknown_shapes:
            shaped = [t.with_shape(shape) for t, shape in zip(inputs, key.shapes, strict=True)]
            inputs = checked_inputs(part, shaped)
        built = specialise(part, inputs, self._outputs, self._engine, by_id, self._options)
        arguments = Arguments(
            built.executable, part.ops, self._engine, part.constants, part.in_place, part.narrow
        )
        return Specialised(arguments, built)

    def _made_anew(self, key: Specialisation) -> Specialised:
        LOGGER.debug(
            "%s is compiled for shapes %s and values %s", self._partition.label, key.shapes, key.values
        )
        return self._made(key)

    def of(self, inputs: Sequence[object]) -> Specialised:
        """What runs for these inputs, in port order, compiled where it was not; `latest` of this thread from now on."""
        if self.only is not None:
            return self.only
        listed = listed_arguments(self._partition.ops, "input", self._inputs, inputs)
        constants = self._partition.constants
        given = [
            constants.get(tensor.id) if value is None else value
            for value, tensor in zip(listed, self._inputs, strict=True)
        ]
        shapes = self._shapes(given) if self._unknown_shapes else []
        values = [
            shape_operand_value(given[position], self._inputs[position], self._names[tensor_id])
            for position, tensor_id in self._operands
        ]
        key = Specialisation(tuple(shapes), tuple(values))
        found = self._met.get(key, lambda: self._made_anew(key))
        self._latest.found = found
        return found

    def _shapes(self, given: Sequence[object]) -> list[tuple[int, ...]]:
        return [
            value.shape  # without the words for an error, which take longer than the rest of the look-up
            if type(value) is np.ndarray
            else as_array(value, f"{self._names[tensor.id]}, {tensor},").shape
            for value, tensor in zip(given, self._inputs, strict=True)
        ]

    @property
    def latest(self) -> Specialised | None:
        """What queries tell of: the only one there is, or that of this thread's latest call; None before one."""
        return self.only or getattr(self._latest, "found", None)

    def kept(self) -> Sequence[Specialised]:
        """All that there is now, whichever thread brought it."""
        return [self.only] if self.only is not None else list(self._met.values().values())

    def met(self) -> Mapping[Specialisation, Specialised]:
        """What is kept for the shapes and values that were met; nothing where they were known at compile."""
        return self._met.values()
