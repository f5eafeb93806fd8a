"""Signatures of compiled graphs and partitions: names of inputs and outputs, what arguments mean, what calls give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from ...ops.errors import ArgumentError, ArgumentTypeError, GraphError, nearest
from ...ops.values import format_value, integer
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from ..runtime.arrays import Array

Key = str | int | LogicalTensor

Arrays = Mapping[Key, object] | Mapping[str, object]
"""Arrays by name, id or LogicalTensor."""


class Signature:
    """What a graph, or a partition, takes and returns.

    Args:
        ops: all of them.
        held: ids of inputs that need not be given, for the graph holds their arrays.
        assigned: ids of what is put into parameters, which inputs may be.
        what: `graph` or `partition`, for messages.

    Attributes:
        inputs: in the order in which a call takes them.
        outputs: name and tensor of each, in order; a tensor may have several names.
        input_names, output_names: in the same order.

    Raises:
        GraphError: two inputs, or two outputs, have one name.
    """

    def __init__(
        self,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[tuple[str, LogicalTensor]],
        ops: Sequence[Op],
        *,
        held: Collection[int] = (),
        assigned: Collection[int] = (),
        what: str = "graph",
    ) -> None:
        self._what = what
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._ports = _by_name([(label(t), t) for t in inputs], "input")
        self._results = _by_name(outputs, "output")
        self.input_names = tuple(self._ports)
        self.output_names = tuple(self._results)
        read = {t.id for op in ops for t in op.inputs} | {t.id for _, t in outputs} | {*assigned}
        self._needed = [(name, t.id) for name, t in self._ports.items() if t.id in read and t.id not in held]
        self._made = {t.id: t for op in ops for t in (*op.inputs, *op.outputs)}

    # --- arguments ---

    def inputs_of(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[int, object]:
        """What a call gives, by tensor id. An input that nobody reads may be left out.

        Args:
            arrays: inputs in order, or one mapping from names, ids or tensors.
            named: inputs by name.

        Raises:
            ArgumentError: one is missing, unknown or given twice, or there are too many.
        """
        given: dict[int, object] = {}
        pairs: list[tuple[object, object]] = []
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            pairs = list(cast("Mapping[object, object]", arrays[0]).items())
        elif len(arrays) > len(self.inputs):
            raise ArgumentError(
                f"the {self._what} takes {len(self.inputs)} input{'' if len(self.inputs) == 1 else 's'}, "
                f"{self._takes}, got {len(arrays)} by position"
            )
        else:
            pairs = list(zip(self.input_names, arrays, strict=False))
        for key, value in (*pairs, *named.items()):
            number = self._input(key).id
            if number in given:
                raise ArgumentError(
                    f"input {format_value(key)} is given twice, under another key or by position too; give it once"
                )
            given[number] = value
        missing = [name for name, number in self._needed if number not in given]
        if missing:
            has = [name for name, t in self._ports.items() if t.id in given]
            raise ArgumentError(
                f"input {missing[0]!r} is missing; the {self._what} takes {self._takes}, got "
                f"{', '.join(map(repr, has)) or 'none'}"
            )
        return given

    def listed_inputs(self, given: object) -> tuple[object, ...]:
        """Inputs that are given as one argument, as a call takes them.

        Raises:
            ArgumentTypeError: no mapping and no list.
        """
        if isinstance(given, Mapping):
            return (cast("object", given),)
        if isinstance(given, list | tuple):
            return tuple(cast("Sequence[object]", given))
        raise ArgumentTypeError(
            f"inputs must be a mapping from names to arrays, or a list of arrays in order, got "
            f"{type(given).__name__}; write {{{', '.join(f'{name!r}: …' for name in self.input_names)}}}"
        )

    def outputs_of(self, outputs: object) -> dict[str, object]:
        """What is given to be written to, by the output's name.

        Args:
            outputs: a mapping from names, ids or tensors, or a list in order; what is None there is allocated.

        Raises:
            ArgumentError, ArgumentTypeError: no mapping and no list, a list that is too long, or an output is unknown
                or given twice.
        """
        if outputs is None:
            return {}
        if isinstance(outputs, list | tuple):
            listed = cast("Sequence[object]", outputs)
            if len(listed) > len(self.outputs):
                raise ArgumentError(
                    f"the {self._what} has {len(self.outputs)} output{'' if len(self.outputs) == 1 else 's'}, "
                    f"{', '.join(map(repr, self.output_names))}, got {len(listed)} arrays"
                )
            outputs = dict(zip(self.output_names, listed, strict=False))
        if not isinstance(outputs, Mapping):
            raise ArgumentTypeError(
                f"outputs must be a mapping from names to arrays, or a list of arrays in order, got "
                f"{type(outputs).__name__}; write {{{', '.join(repr(n) + ': …' for n in self.output_names)}}}"
            )
        targets: dict[str, object] = {}
        for key, value in cast("Mapping[object, object]", outputs).items():
            name = self.output_name(key)
            if name in targets:
                raise ArgumentError(
                    f"output {format_value(key)} is given twice, under another key too; give it once"
                )
            if value is not None:
                targets[name] = value
        return targets

    @property
    def _takes(self) -> str:
        return ", ".join(map(repr, self.input_names)) or "none"

    def _input(self, key: object) -> LogicalTensor:
        name = _name_of(key, self._ports)
        if name is None:
            raise ArgumentError(
                f"the {self._what} has no input {format_value(key)}{nearest(key, self._ports)}; it has {self._takes}"
            )
        return self._ports[name]

    # --- results ---

    def output_name(self, key: object) -> str:
        """The name of the output that a name, an id or a LogicalTensor means.

        Raises:
            ArgumentError: none; for a tensor inside the graph the message says how it becomes one.
        """
        name = self.meant_output(key)
        if name is not None:
            return name
        has = f"it has {', '.join(map(repr, self.output_names))}"
        inner = next((t for t in self._made.values() if _is(key, t)), None)
        if inner is None:
            raise ArgumentError(
                f"the {self._what} has no output {format_value(key)}{nearest(key, self._results)}; {has}"
            )
        called = next((repr(name) for name, t in self.outputs if t.id == inner.id), None)
        if called is not None:
            raise ArgumentError(
                f"the {self._what} has no output {label(inner)!r}; {inner} is its output {called}"
            )
        raise ArgumentError(
            f"the {self._what} has no output {label(inner)!r}, which is a tensor inside of it; mark it with "
            f"graph.output(…) before compile; {has}"
        )

    def meant_output(self, key: object) -> str | None:
        """The name of the output that a name, an id or a LogicalTensor means, or None."""
        return _name_of(key, self._results)


def with_outputs(
    arrays: tuple[object, ...], outputs: Arrays | Sequence[object] | None
) -> tuple[tuple[object, ...], Arrays | Sequence[object] | None]:
    """What a call is given by position, and its outputs, which may stand behind one mapping."""
    if len(arrays) == 2 and isinstance(arrays[0], Mapping) and outputs is None:
        return arrays[:1], cast("Arrays | Sequence[object] | None", arrays[1])
    return arrays, outputs


def _by_name(pairs: Sequence[tuple[str, LogicalTensor]], what: str) -> dict[str, LogicalTensor]:
    found: dict[str, LogicalTensor] = {}
    for name, tensor in pairs:
        if name in found:
            raise GraphError(
                f"two {what}s of the graph are called {format_value(name)}, the tensors {found[name].id} and "
                f"{tensor.id}; give each a name of its own"
            )
        found[name] = tensor
    return found


def _is(key: object, tensor: LogicalTensor) -> bool:
    """Whether a key of the user's means a tensor."""
    number = key.id if isinstance(key, LogicalTensor) else integer(key)
    return tensor.id == number if number is not None else isinstance(key, str) and key == label(tensor)


def _name_of(key: object, tensors: Mapping[str, LogicalTensor]) -> str | None:
    if isinstance(key, str):
        return key if key in tensors else None
    return next((name for name, tensor in tensors.items() if _is(key, tensor)), None)


class Results(Mapping[str, Array]):
    """Output arrays by name; a LogicalTensor or an id is a key too."""

    def __init__(self, arrays: Mapping[str, Array], signature: Signature) -> None:
        self._arrays = arrays
        self._signature = signature

    def __getitem__(self, key: Key) -> Array:
        return self._arrays[self._signature.output_name(key)]

    def __contains__(self, key: object) -> bool:
        return self._signature.meant_output(key) is not None

    def get(self, key: Any, default: Any = None) -> Any:
        """The array of `key`, or `default`."""
        name = self._signature.meant_output(key)
        return default if name is None else self._arrays[name]

    @property
    def only(self) -> Array:
        """The array of the only output.

        Raises:
            ArgumentError: there are several.
        """
        if len(self._arrays) != 1:
            raise ArgumentError(
                f"the graph has {len(self._arrays)} outputs, {', '.join(map(repr, self._arrays))}; take one by its name"
            )
        return next(iter(self._arrays.values()))

    def without(self, name: str) -> Results:
        """All others."""
        signature = Signature([], [(n, t) for n, t in self._signature.outputs if n != name], ())
        return Results({n: array for n, array in self._arrays.items() if n != name}, signature)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {array.shape}" for name, array in self._arrays.items())
        return f"Results({shapes})"


class Bound:
    """A compiled graph or partition with all arrays bound: calling it runs it on them. For one thread at a time.

    Attributes:
        outputs: the arrays that it writes to, by name.
    """

    __slots__ = ("_run", "outputs")

    def __init__(self, run: Callable[[], None], outputs: Results) -> None:
        self._run = run
        self.outputs = outputs

    def __call__(self) -> Results:
        """Computes; returns `outputs`."""
        self._run()
        return self.outputs

    def __repr__(self) -> str:
        return f"Bound({', '.join(self.outputs)})"
