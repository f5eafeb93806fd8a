"""What a plan makes of constant inputs once: weights in another layout, say."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from attrs import field

from ....graph.runtime.arrays import Array, address
from ....graph.runtime.locking import Lock
from ....graph.runtime.shared_constants import MadeConstant, SharedConstants
from ....ops.records import frozen
from .arena import ALIGNMENT, aligned
from .hoisting import flow
from .plan import Plan
from .recipes import Recipe
from .steps import AnyStep, Buffer


@frozen(eq=False)
class PreparedConstants:
    """What was made of constant arrays.

    Attributes:
        arrays: the constant arrays by their number among the arguments.
        key: their addresses.
        version: of their content.
        made: what was made of them, kept alive.
        numbers: of the arguments that stay where they are as long as this is used: the constants and what was made.
        addresses: of what was made.
        fixed: the constant arrays with their numbers and addresses.
    """

    arrays: Mapping[int, Array]
    key: tuple[int, ...]
    version: int
    made: tuple[MadeConstant, ...]
    numbers: frozenset[int]
    addresses: tuple[int, ...] = field(init=False)
    fixed: tuple[tuple[int, Array, int], ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "addresses", tuple(one.place for one in self.made))
        pairs = zip(self.arrays.items(), self.key, strict=False)  # none where others keep the arrays
        object.__setattr__(self, "fixed", tuple((number, array, place) for (number, array), place in pairs))

    def places(self, arrays: Sequence[Array]) -> list[int] | None:
        """Addresses of arrays and of what was made; None where others than these were given for constants."""
        found = [0] * len(arrays)
        for number, array, place in self.fixed:
            if arrays[number] is not array:
                return None
            found[number] = place
        for number, place in enumerate(found):
            if not place:
                found[number] = address(arrays[number])
        found += self.addresses
        return found


class ConstantPlan:
    """What a plan makes of constant inputs, once, and again when other arrays are given for them, or they changed.

    The arrays are kept, so that an address stands for one content.

    Args:
        plan: from the constant arguments to further ones, which stand behind all others.
        sizes: bytes of these further arguments.
        constants: numbers of the constant arguments.
        made_by: how each is made, where another plan may have made the same.
        shared: where that is to be found.
        version: grows when an array's content has changed in its place; None where that never happens.
    """

    def __init__(
        self,
        plan: Plan,
        sizes: tuple[int, ...],
        constants: tuple[int, ...],
        made_by: Sequence[Recipe | None],
        shared: SharedConstants,
        version: Callable[[], int] | None = None,
    ) -> None:
        self.plan = plan
        self.version = version
        self.nbytes = sum(sizes)
        self._sizes = sizes
        self._constants = constants
        self._made_by = made_by
        self._shared = shared
        self._latest: PreparedConstants | None = None
        self._lock = Lock()

    def ready(self, arrays: Sequence[Array]) -> tuple[list[int], PreparedConstants]:
        """Addresses of the arguments and the further ones; whoever runs the plan keeps the second until the end.

        Args:
            arrays: the arguments.
        """
        latest = self._latest
        version = 0 if self.version is None else self.version()
        if latest is not None and latest.version == version:
            places = latest.places(arrays)
            if places is not None:
                return places, latest
        addresses = [address(array) for array in arrays]
        latest = self._renewed(addresses, arrays, version)
        return [*addresses, *latest.addresses], latest

    def prepare(self, arrays: Sequence[Array | None], count: int) -> None:
        """Makes what is to be made before the first execution, if all constants are known.

        Args:
            arrays: the inputs, with None for those that only an execution has.
            count: how many arguments there are.
        """
        if any(arrays[number] is None for number in self._constants):
            return
        addresses = [0 if array is None else address(array) for array in arrays]
        addresses += [0] * (count - len(addresses))
        self._renewed(addresses, arrays, 0 if self.version is None else self.version())

    def made(self) -> Sequence[MadeConstant] | None:
        """What was made latest; None before."""
        return None if self._latest is None else self._latest.made

    def _renewed(
        self, addresses: Sequence[int], arrays: Sequence[Array | None], version: int
    ) -> PreparedConstants:
        """What is made of constants at these addresses: what it was at the latest call, or made now."""
        key = tuple(addresses[number] for number in self._constants)
        latest = self._latest
        if latest is not None and (latest.key, latest.version) == (key, version):
            return latest
        with self._lock:
            latest = self._latest
            if latest is None or (latest.key, latest.version) != (key, version):  # no other thread was faster
                given = ((number, arrays[number]) for number in self._constants)
                held = {number: array for number, array in given if array is not None}
                latest = self._latest = self.made_of(addresses, held, version)
            return latest

    def made_of(
        self, addresses: Sequence[int], arrays: Mapping[int, Array], version: int
    ) -> PreparedConstants:
        """What is made of the constants that lie at these addresses now.

        Args:
            addresses: of all arguments; only those of constants are read.
            arrays: the constants by number, to be kept alive; none where whoever asks sees to that.
            version: of their content.
        """
        keys = [self._key(recipe, arrays) for recipe in self._made_by]
        found = [None if key is None else self._shared.get(key) for key in keys]
        # A file may say what it likes of what lies in it.
        found = [
            one if one is not None and one.nbytes == size else None
            for one, size in zip(found, self._sizes, strict=True)
        ]
        if any(one is None for one in found):
            found = self._run(addresses, arrays, keys, found)
        made = tuple(one for one in found if one is not None)
        further = range(len(addresses), len(addresses) + len(made))
        return PreparedConstants(
            arrays,
            tuple(addresses[number] for number in self._constants),
            version,
            made,
            frozenset((*self._constants, *further)),
        )

    def _key(self, recipe: Recipe | None, arrays: Mapping[int, Array]) -> Hashable | None:
        """What tells what is made of these arrays from all else; None for what others must not have.

        What changes in its place, as a parameter does, is a plan's own: versions of two plans can't be compared.
        """
        if (
            recipe is None
            or self.version is not None
            or not all(number in arrays for number in recipe.constants)
        ):
            return None
        return recipe.text, tuple(address(arrays[number]) for number in recipe.constants)

    def _run(
        self,
        addresses: Sequence[int],
        arrays: Mapping[int, Array],
        keys: Sequence[Hashable | None],
        found: Sequence[MadeConstant | None],
    ) -> list[MadeConstant | None]:
        """Makes what nobody has, in new memory; what was there before stays what all use."""
        missing = [number for number, one in enumerate(found) if one is None]
        plan, written = self._plan_for(missing, len(addresses))
        # Zeros, for what lies in gaps is written to files, too.
        memory = {number: np.zeros(self._sizes[number] + ALIGNMENT, np.uint8) for number in written}
        places = [0 if one is None else one.place for one in found]
        for number, one in memory.items():
            places[number] = aligned(address(one))
        # Temporaries may be as large as all weights of a layer, and only what may change is made again.
        plan.run([*addresses, *places], keep=self.version is not None)
        made = list(found)
        for number in missing:
            recipe, key = self._made_by[number], keys[number]
            sources = self._constants if recipe is None else recipe.constants
            held = tuple(arrays[n] for n in sources if n in arrays)
            new = MadeConstant(memory[number], places[number], held, self._sizes[number])
            made[number] = new if key is None else self._shared.keep(key, new)
        return made

    def _plan_for(self, wanted: Sequence[int], first: int) -> tuple[Plan, Sequence[int]]:
        """A plan that makes some of it, and the numbers of all that it writes.

        Args:
            wanted: numbers of what is to be made.
            first: number of the argument that number 0 of what is made is.
        """
        if len(wanted) == len(self._sizes):
            return self.plan, wanted
        arguments = {first + number for number in wanted}
        needed: set[Buffer] = set()
        steps: list[AnyStep] = []
        for step in reversed(self.plan.steps):
            moves = flow(step)
            written = [one.root for one in moves.writes]
            if any(root in needed or root.argument in arguments for root in written):
                needed.update(one.root for one in moves.reads if one.root.argument is None)
                arguments.update(root.argument for root in written if root.argument is not None)
                steps.append(step)
        with self.plan.engine.lib.using(self.plan.threads):
            plan = Plan(self.plan.engine, steps[::-1])
        return plan, sorted(number - first for number in arguments)
