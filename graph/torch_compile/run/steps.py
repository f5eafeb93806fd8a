"""Steps of a program: calls of torch, and regions, on slots that hold tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, cast

from attrs import Factory, field

from ....ops.errors import UnsupportedError
from ....ops.records import define, frozen
from ..framework import torch
from ..mishaps import Mishaps
from ..tensors import data_ptr, empty, normal, placed
from .comparing import Differences
from .pool import POOL
from .region import Region
from .weights import Weights


@frozen
class Slot:
    """Stands among the arguments of a call for what a slot holds."""

    number: int


@define
class Timing:
    """How often a step has run, and how long that took.

    Attributes:
        calls: how many.
        seconds: all together.
        first: of the first call, at which memory is touched and weights are packed.
        beside: of the call that runs, for what is no part of it: torch's results to compare with.
    """

    calls: int = 0
    seconds: float = 0.0
    first: float = 0.0
    beside: float = 0.0

    def add(self, seconds: float) -> None:
        """One more call, of so long with what is beside it."""
        seconds -= self.beside
        self.beside = 0.0
        if self.calls == 0:
            self.first = seconds
        self.calls += 1
        self.seconds += seconds

    @property
    def mean(self) -> float:
        """Of a call, but for the first one where there were more."""
        return (self.seconds - self.first) / (self.calls - 1) if self.calls > 1 else self.seconds


@frozen(eq=False)
class TorchCall:
    """One op that torch does itself.

    Attributes:
        name: of the op, for reports.
        function: what is called.
        args, kwargs: with `Slot` where a tensor stands.
        outputs: slots for the result, or for each of several; None where nobody reads one.
        several: whether the result is a sequence.
        reason: why it is torch's.
        is_view: whether it only looks at memory in another way.
        pure: whether it can be left out where nobody reads its results.
        lasting: whether it does what can't be undone, as writing to memory; drawing random numbers can.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[int | None, ...]
    several: bool
    reason: str = ""
    is_view: bool = False
    pure: bool = True
    lasting: bool = False
    timing: Timing = Factory(Timing)
    _call: Callable[..., Any] = field(init=False)
    _places: tuple[tuple[int, int], ...] | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Of an op of torch what its `__call__`, in Python, calls.
        function: Any = self.function
        direct = function._op if type(function) is torch._ops.OpOverload else function
        object.__setattr__(self, "_call", direct)
        # Where slots stand among positional arguments, with their numbers; None where they also stand elsewhere.
        places = [(place, one.number) for place, one in enumerate(self.args) if type(one) is Slot]
        plain = len(places) == _count([*self.args, *self.kwargs.values()])
        object.__setattr__(self, "_places", tuple(places) if plain else None)

    def run(self, slots: list[Any]) -> None:
        """Calls it."""
        if self._places is None:
            made = self._call(
                *[filled(one, slots) for one in self.args],
                **{name: filled(one, slots) for name, one in self.kwargs.items()},
            )
        else:
            given = list(self.args)
            for place, number in self._places:
                given[place] = slots[number]
            made = self._call(*given, **self.kwargs)
        if not self.several:
            if self.outputs[0] is not None:
                slots[self.outputs[0]] = made
            return
        for slot, value in zip(self.outputs, made, strict=False):
            if slot is not None:
                slots[slot] = value

    @property
    def reads(self) -> set[int]:
        """The slots that it reads."""
        return slots_of([*self.args, *self.kwargs.values()])

    @property
    def writes(self) -> set[int]:
        """The slots that it fills."""
        return {slot for slot in self.outputs if slot is not None}


def filled(argument: Any, slots: Sequence[Any]) -> Any:
    """An argument with what slots hold."""
    if type(argument) is Slot:
        return slots[argument.number]
    if type(argument) is list or type(argument) is tuple:  # pyright: ignore[reportUnknownArgumentType]
        made = [filled(one, slots) for one in cast("Sequence[Any]", argument)]
        return made if type(cast("object", argument)) is list else tuple(made)
    return argument


def _count(arguments: Sequence[Any]) -> int:
    """How many slots stand among arguments, with those in lists."""
    return sum(
        _count(cast("Sequence[Any]", one)) if isinstance(one, list | tuple) else isinstance(one, Slot)
        for one in arguments
    )


def slots_of(arguments: Sequence[Any]) -> set[int]:
    """The slots that stand among arguments."""
    found: set[int] = set()
    for one in arguments:
        if isinstance(one, Slot):
            found.add(one.number)
        elif isinstance(one, list | tuple):
            found |= slots_of(cast("Sequence[Any]", one))
    return found


@frozen
class Taken:
    """An input of a region.

    Attributes:
        slot: that holds it.
        shape, strides, dtype: as the region was compiled for, `dtype` being torch's.
        checked: whether they are known to be these, so that nobody need look. What torch has traced of its own
            ops is not always what these return.
    """

    slot: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    checked: bool

    def fitted(self, tensor: Any, *, trusting: bool) -> Any:
        """The tensor as the region takes it.

        Args:
            trusting: whether what is known needs no look.

        Raises:
            UnsupportedError: it has another shape.
        """
        if self.checked and trusting:
            return tensor
        if (tensor.shape, tensor.stride()) == (self.shape, self.strides) and not tensor.is_neg():
            return tensor if tensor.dtype is self.dtype else placed(tensor, self.strides, self.dtype)
        if tensor.shape != self.shape:
            raise UnsupportedError(
                f"an op of torch made a tensor of shape {list(tensor.shape)} where its tracing says "
                f"{list(self.shape)}; leave it out of what is compiled, by torch.compiler.disable"
            )
        if tensor.is_neg():  # the imaginary part of a conjugate: its memory has the other sign
            tensor = tensor.resolve_neg()
        if tensor.dtype == self.dtype and _lies(tensor, self.strides):
            return tensor
        return placed(tensor, self.strides, self.dtype)


@frozen
class RegionOutput:
    """An output of a region.

    Attributes:
        slot: that is filled.
        shape, strides, dtype: of the tensor, `dtype` being torch's.
        nbytes: of the tensor if its memory comes from the pool; 0 where a user may want to resize it.
    """

    slot: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    nbytes: int = 0

    def tensor(self) -> Any:
        """Memory for it."""
        if self.nbytes:
            return POOL.tensor(self.shape, self.strides, self.dtype, self.nbytes)
        return empty(self.shape, self.strides, self.dtype)


@frozen(eq=False)
class RegionCall:
    """A region on slots.

    Attributes:
        constant: places among `inputs` of those that rarely change.
        by_torch: makes of the inputs what the region makes of them.
        mishaps: where it is noted that torch had to.
        nodes: names of those of the ATen graph that it does.
        names: of the outputs.
        differences: where it is noted that results are others than torch's, if that was asked for.
        failed: has something in it when torch does it ever after.
    """

    region: Region
    inputs: tuple[Taken, ...]
    outputs: tuple[RegionOutput, ...]
    constant: tuple[int, ...]
    by_torch: Callable[[Sequence[Any]], list[Any]]
    mishaps: Mishaps
    nodes: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    differences: Differences = Factory(Differences)
    name: str = field(default="region")
    pure: ClassVar[bool] = True
    lasting: ClassVar[bool] = False
    weights: Weights = Factory(Weights)
    timing: Timing = Factory(Timing)
    failed: list[Exception] = Factory(list[Exception])
    _slots: tuple[int, ...] = field(init=False)
    _results: tuple[int, ...] = field(init=False)
    _unchecked: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_slots", tuple(taken.slot for taken in self.inputs))
        object.__setattr__(self, "_results", tuple(made.slot for made in self.outputs))
        unchecked = (place for place, taken in enumerate(self.inputs) if not taken.checked)
        object.__setattr__(self, "_unchecked", tuple(unchecked))

    def run(self, slots: list[Any]) -> None:
        """Makes the results: the region does, or torch where it can't."""
        given = [slots[number] for number in self._slots]
        try:
            made = self.by_torch(given) if self.failed else self._run(given)
            if self.differences.asked and not self.failed:
                start = perf_counter()
                made = self.differences.settled(self.names, given, made, self.by_torch(given), self.nodes)
                self.timing.beside = perf_counter() - start
        except Exception as error:
            if self.failed or self.mishaps.strict:
                raise
            made = self.by_torch(given)  # whose own error it is where the user's data are wrong
            self.mishaps.note(error, self.nodes, "running a region")
            self.failed.append(error)
        for number, tensor in zip(self._results, made, strict=True):
            slots[number] = tensor

    def _run(self, tensors: Sequence[Any]) -> list[Any]:
        """Makes tensors for the results and has the region fill them."""
        given = list(tensors)
        trusting = not self.mishaps.noted
        for place in self._unchecked if trusting else range(len(given)):
            given[place] = self.inputs[place].fitted(given[place], trusting=trusting)
        made = [one.tensor() for one in self.outputs]
        places = [*map(data_ptr, given), *map(data_ptr, made)]
        constant = self.constant
        if constant:
            weights = [given[place] for place in constant]
            key = tuple([places[place] for place in constant])
            prepared = self.weights.known(key, weights)
            if prepared is None:
                prepared = self.weights.of(weights, partial(self.region.prepare, places[: len(given)]))
        else:
            prepared = self.region.prepare(places[: len(given)])
        self.region.run(places, prepared)
        return made

    @property
    def reads(self) -> set[int]:
        """The slots that it reads."""
        return {taken.slot for taken in self.inputs}

    @property
    def writes(self) -> set[int]:
        """The slots that it fills."""
        return {made.slot for made in self.outputs}


def _lies(tensor: Any, strides: tuple[int, ...]) -> bool:
    """Whether a tensor has these strides, as far as they matter."""
    have = tensor.stride()
    return have == strides or normal(tensor.shape, have) == strides


Step = TorchCall | RegionCall


class Program:
    """Steps in order, for one set of sizes.

    Attributes:
        steps: what runs.
        count: of slots.
        results: for each output of the graph a `Slot`, or what is returned as it is.
        fixed: slots that are filled from the start: constants.
        proven: whether it has run to its end once.
    """

    def __init__(
        self, steps: Sequence[Step], count: int, results: Sequence[Any], fixed: dict[int, Any]
    ) -> None:
        self.proven = False
        self.steps = tuple(steps)
        self.results = tuple(results)
        self._blank = [fixed.get(number) for number in range(count)]
        self._plain = all(type(one) is Slot for one in self.results)
        self._returned = [one.number for one in self.results if type(one) is Slot]
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for slot in step.reads | step.writes:
                last[slot] = number
        kept = slots_of(self.results) | fixed.keys()
        frees = [
            tuple(slot for slot in step.reads | step.writes if last[slot] == number and slot not in kept)
            for number, step in enumerate(self.steps)
        ]
        frees[-1:] = [()] * bool(frees)  # what is left goes with the list of slots
        self._work = tuple(zip(self.steps, frees, strict=True))

    def run(self, arguments: list[Any], begun: list[Step] | None = None) -> list[Any]:
        """The graph's outputs; `arguments` are dropped as soon as nobody needs them.

        Args:
            arguments: of the graph.
            begun: gets the steps that were begun.
        """
        slots = [*arguments, *self._blank[len(arguments) :]]
        arguments.clear()
        start = perf_counter()
        for step, frees in self._work:
            if begun is not None:
                begun.append(step)
            step.run(slots)
            end = perf_counter()
            step.timing.add(end - start)
            start = end
            for slot in frees:
                slots[slot] = None
        self.proven = True
        if self._plain:
            return [slots[number] for number in self._returned]
        return [filled(one, slots) for one in self.results]

    def try_out(
        self, arguments: list[Any], otherwise: Callable[[Exception, list[Any]], list[Any]]
    ) -> list[Any]:
        """The first run, in which a step of torch may fail as it was planned wrong.

        Args:
            arguments: of the graph.
            otherwise: does the whole graph by torch where a step fails, with random numbers as they were, unless
                something was written that can't be unwritten; it takes the error as well.

        Raises:
            Exception: what a step or `otherwise` raises, whose own error it is where the user's data are wrong.
        """
        kept = list(arguments)
        state = torch.get_rng_state() if any(not step.pure for step in self.steps) else None
        begun: list[Step] = []
        try:
            return self.run(arguments, begun)
        except Exception as error:
            if any(step.lasting for step in begun):
                raise
            if state is not None:
                torch.set_rng_state(state)
            return otherwise(error, kept)


def without_unread(steps: Sequence[Step], wanted: set[int]) -> list[Step]:
    """Without calls of torch whose results nobody reads."""
    kept: list[Step] = []
    needed = set(wanted)
    for step in reversed(steps):
        if isinstance(step, TorchCall) and step.pure and not step.writes & needed:
            continue
        needed |= step.reads
        kept.append(step)
    return kept[::-1]
