"""State: the parameters of what was compiled, by name, to be read and to be set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...ops.errors import ArgumentError, ArgumentTypeError, nearest
from ...ops.values import format_value
from ..core.building import GraphCore, content_of
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter, write_all
from ..runtime.tensor import check_array, plain_array
from ..runtime.turns import in_order, in_turn


class NoParameterError(ArgumentError, KeyError):
    """A name that no parameter has; a mapping raises a KeyError for it."""

    __str__ = Exception.__str__


class State(Mapping[str, Array]):
    """The parameters of a compiled graph by name: a mapping whose values are read-only views, which show later values.

    Those that calls assign, as a cache or a counter, are its state: `before = model.state.copy()` and, after some
    calls, `model.state.update(before)` go back to where it was; `model.state["cache"] = array` sets one. All graphs and
    models that share the parameters see it. Calls that assign them come before or behind it; nobody may run others
    meanwhile.

    Args:
        graphs: that hold the parameters; of one name in several, all are set.
    """

    def __init__(self, graphs: Sequence[GraphCore]) -> None:
        self._held: dict[str, tuple[LogicalTensor, list[Parameter]]] = {}
        for content in map(content_of, graphs):
            for number, parameter in content.parameters.items():
                tensor = content.tensors[number]
                known = self._held.setdefault(label(tensor), (tensor, []))[1]
                if all(one is not parameter for one in known):
                    known.append(parameter)

    def __getitem__(self, name: str) -> Array:
        return self._of(name)[1][0].view

    def __setitem__(self, name: str, value: object) -> None:
        self.update({name: value})

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def copy(self) -> dict[str, Array]:
        """The values of now, in memory of their own."""
        turns = in_order(one.turn for _, held in self._held.values() for one in held if one.turn is not None)
        return in_turn(turns, lambda: {name: array.copy() for name, array in self.items()})

    def update(self, values: Mapping[str, object]) -> None:
        """Sets parameters; those that are not named stay as they are.

        Args:
            values: arrays by name.

        Raises:
            ArgumentTypeError, ArgumentError, DataTypeError, ShapeError: an unknown parameter, or an array that does
                not fit it; nothing was set then.
        """
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
            raise ArgumentTypeError(
                f"state.update takes a mapping from names to arrays, got {format_value(values)} of type "
                f"{type(values).__name__}"
            )
        writes: list[tuple[Parameter, Array]] = []
        for name, value in values.items():
            tensor, parameters = self._of(name)
            array = plain_array(value, f"parameter {format_value(name)}")
            check_array(array, tensor, f"parameter {format_value(name)}")
            writes += [(parameter, array) for parameter in parameters]
        write_all(writes)

    def _of(self, name: object) -> tuple[LogicalTensor, list[Parameter]]:
        if not isinstance(name, str) or name not in self._held:
            raise NoParameterError(
                f"the model has no parameter {format_value(name)}{nearest(name, self._held)}; it has "
                f"{', '.join(map(repr, self._held)) or 'none'}"
            )
        return self._held[name]

    def __repr__(self) -> str:
        return f"State({', '.join(f'{name} {list(array.shape)}' for name, array in self.items())})"
