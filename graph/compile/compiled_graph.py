"""CompiledGraph: all partitions of a graph, in order, in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, nearest
from ...ops.values import format_value, integer
from ..model.logical_tensor import LogicalTensor, label, labels
from ..runtime.arrays import Array, as_array
from ..runtime.engine import Engine, Stream, check_engine, default_engine
from ..runtime.executable import Explanation
from ..runtime.tensor import Tensor, check_array
from .options import CompileOptions
from .partition import Partition

Key = str | int | LogicalTensor


class Results(Mapping[str, Array]):
    """Output arrays by name; a LogicalTensor or an id is a key too."""

    def __init__(self, arrays: dict[int, Array], ids: Mapping[str, int]) -> None:
        self._arrays = arrays
        self._ids = ids

    def __getitem__(self, key: Key) -> Array:
        tensor_id = find(key, self._ids, "output")
        return self._arrays[tensor_id]

    def __contains__(self, key: object) -> bool:
        return meant(key, self._ids) is not None

    def get(self, key: Any, default: Any = None) -> Any:
        """The array of `key`, or `default`."""
        tensor_id = meant(key, self._ids)
        return default if tensor_id is None else self._arrays[tensor_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {self._arrays[i].shape}" for name, i in self._ids.items())
        return f"Results({shapes})"


class Explanations(dict[int, Explanation | None]):
    """Explanations by partition id, with a text for people."""

    def __str__(self) -> str:
        later = "compiled when it is executed and all shapes are known; ask on the thread that executes it"
        return "\n".join(
            f"partition {number}, {explanation or later}" for number, explanation in self.items()
        )


def meant(key: object, ids: Mapping[str, int]) -> int | None:
    """The id that a name, an id or a LogicalTensor means, or None."""
    number = key.id if isinstance(key, LogicalTensor) else integer(key)
    if number is not None:
        return number if number in ids.values() else None
    return ids.get(key) if isinstance(key, str) else None


def find(key: object, ids: Mapping[str, int], what: str) -> int:
    """The id that a name, an id or a LogicalTensor means.

    Raises:
        ArgumentError: nothing of that name or id; the message lists what there is.
    """
    tensor_id = meant(key, ids)
    if tensor_id is None:
        known = ", ".join(repr(name) for name in ids)
        raise ArgumentError(f"the graph has no {what} {format_value(key)}{nearest(key, ids)}; it has {known}")
    return tensor_id


class CompiledGraph:
    """A graph that runs: call it with arrays, get arrays. Thread-safe.

    Attributes:
        engine: where it runs.
        inputs, outputs: the graph's tensors.
        partitions: in order of execution.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        program: Sequence[Partition],
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine | None,
        options: CompileOptions,
    ) -> None:
        self.engine = default_engine() if engine is None else engine
        check_engine(self.engine)
        self.engine.check_open()
        self.partitions = tuple(partitions)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._input_ids = labels(self.inputs, "input")
        self._output_ids = labels(self.outputs, "output")
        self._input_ports = {t.id: t for t in self.inputs}
        self._stages = [p.compile_in_graph(self.engine, options) for p in program]
        if options.strategy is not None and all(
            stage.explanation is not None and not stage.explanation.considered for stage in self._stages
        ):
            raise ArgumentError(
                f"strategy {format_value(options.strategy)} can't be taken, for no partition of the "
                f"graph has a choice; "
                "leave strategy out"
            )

    def __call__(
        self,
        inputs: Mapping[Key, object] | Mapping[str, object],
        outputs: Mapping[Key, object] | Mapping[str, object] | None = None,
        *,
        stream: Stream | None = None,
    ) -> Results:
        """Runs the graph.

        Args:
            inputs: an array, Tensor or anything with `__dlpack__` for each input, by its name, id or
                LogicalTensor.
            outputs: arrays to write to, by the output's name, id or LogicalTensor; the others are allocated.
            stream: a stream of the engine; None for the engine's own order.

        Returns:
            The outputs by name, as NumPy arrays.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an input is missing, unknown, or does
                not fit its tensor.
            ResourceError: the engine is closed.
        """
        self.engine.check_open()
        arrays = self._taken(inputs)
        targets = self._targets(outputs)
        if targets and len(self._stages) > 1:
            self._check_apart(arrays, targets)
        for stage in self._stages:
            ports = stage.partition
            results = stage.execute(
                stream,
                [arrays[t.id] for t in ports.input_ports],
                [targets.get(t.id) for t in ports.output_ports],
            )
            for tensor, array in zip(stage.partition.output_ports, results, strict=True):
                arrays[tensor.id] = array
        return Results({t.id: arrays[t.id] for t in self.outputs}, self._output_ids)

    def _targets(self, outputs: object) -> dict[int, object]:
        if outputs is None:
            return {}
        if not isinstance(outputs, Mapping):
            raise ArgumentTypeError(
                f"outputs must be a mapping from names to arrays, got {type(outputs).__name__}; "
                f"write {{{', '.join(repr(n) + ': …' for n in self._output_ids)}}}"
            )
        targets: dict[int, object] = {}
        for key, value in cast("Mapping[object, object]", outputs).items():
            tensor_id = find(key, self._output_ids, "output")
            if tensor_id in targets:
                raise ArgumentError(
                    f"output {format_value(key)} is given twice, under another key too; give it once"
                )
            targets[tensor_id] = value
        return targets

    def _check_apart(self, arrays: Mapping[int, Array], targets: Mapping[int, object]) -> None:
        """A later partition would read what an earlier one has written over."""
        names = {i: name for name, i in (*self._input_ids.items(), *self._output_ids.items())}
        taken = dict(arrays)
        for tensor_id, value in targets.items():
            if value is None:
                continue
            what = f"output {names[tensor_id]!r}"
            array = value.data if isinstance(value, Tensor) else as_array(value, what)
            for other, known in taken.items():
                if np.may_share_memory(array, known):
                    raise ArgumentError(
                        f"{what} must not share memory with {names[other]!r}, for the graph runs in "
                        f"{len(self._stages)} parts; pass an array of its own"
                    )
            taken[tensor_id] = array

    def _taken(self, inputs: object) -> dict[int, Array]:
        if not isinstance(inputs, Mapping):
            raise ArgumentTypeError(
                f"inputs must be a mapping from names to arrays, got {type(inputs).__name__}; "
                f"write {{{', '.join(repr(n) + ': …' for n in self._input_ids)}}}"
            )
        arrays: dict[int, Array] = {}
        for key, value in cast("Mapping[object, object]", inputs).items():
            tensor_id = find(key, self._input_ids, "input")
            if tensor_id in arrays:
                raise ArgumentError(
                    f"input {format_value(key)} is given twice, under another key too; give it once"
                )
            port = self._input_ports[tensor_id]
            what = f"input {label(port)!r}"
            array = value.numpy() if isinstance(value, Tensor) else as_array(value, what)
            check_array(array, port, what)
            arrays[tensor_id] = array
        names = {i: name for name, i in self._input_ids.items()}
        missing = [name for name, i in self._input_ids.items() if i not in arrays]
        if missing:
            raise ArgumentError(
                f"input {missing[0]!r} is missing; the graph takes {', '.join(map(repr, self._input_ids))}, got "
                f"{', '.join(repr(names[i]) for i in arrays) or 'none'}"
            )
        return arrays

    def explain(self) -> Explanations:
        """What was chosen for each partition, by partition id. Print it.

        A partition of unknown shapes, or with a shape operand, is compiled at execution, once for each of them: it
        tells of this thread's latest call, and is None where this thread has made none.
        """
        return Explanations(
            {number: told for stage in self._stages for number, told in stage.explanations_of_parts().items()}
        )

    def _repr_html_(self) -> str:
        """For notebooks: what was compiled, as `Graph.to_html` draws it."""
        from ..pictures.drawing import compiled_in_notebook  # it draws this class, and so comes after it

        return compiled_in_notebook(self)

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(label, tensors)) for tensors in (self.inputs, self.outputs))
        return f"CompiledGraph({ins} → {outs}; {len(self.partitions)} partitions)"
