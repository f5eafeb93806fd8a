"""What a plan makes of constant inputs once: weights in another layout, say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import frozen

from ....graph.runtime.arrays import Array, address
from ....graph.runtime.locking import Lock
from .arena import ALIGNMENT, aligned
from .plan import Plan


@frozen(eq=False)
class PreparedConstants:
    """What was made of constant arrays.

    Attributes:
        arrays: the constant arrays by their number among the arguments.
        key: their addresses.
        version: of their content.
        made: memory of what was made, kept alive.
        addresses: of that.
        numbers: of the arguments that stay where they are as long as this is used: the constants and what was made.
    """

    arrays: Mapping[int, Array]
    key: tuple[int, ...]
    version: int
    made: tuple[Array, ...]
    addresses: tuple[int, ...]
    numbers: frozenset[int]

    def are(self, arrays: Sequence[Array]) -> bool:
        """Whether it was made of these very arrays, so that nothing need be looked up."""
        return all(arrays[number] is array for number, array in self.arrays.items())


class ConstantPlan:
    """What a plan makes of constant inputs, once, and again when other arrays are given for them, or they changed.

    The arrays are kept, so that an address stands for one content.

    Args:
        plan: from the constant arguments to further ones, which stand behind all others.
        sizes: bytes of these further arguments.
        constants: numbers of the constant arguments.
        version: grows when an array's content has changed in its place; None where that never happens.
    """

    def __init__(
        self,
        plan: Plan,
        sizes: tuple[int, ...],
        constants: tuple[int, ...],
        version: Callable[[], int] | None = None,
    ) -> None:
        self.plan = plan
        self.version = version
        self.nbytes = sum(sizes)
        self._sizes = sizes
        self._constants = constants
        self._latest: PreparedConstants | None = None
        self._lock = Lock()

    def ready(self, arrays: Sequence[Array]) -> tuple[list[int], PreparedConstants]:
        """Addresses of the arguments and the further ones; whoever runs the plan keeps the second until the end.

        Args:
            arrays: the arguments.
        """
        latest = self._latest
        version = 0 if self.version is None else self.version()
        if latest is not None and latest.version == version and latest.are(arrays):
            known = dict(zip(latest.arrays, latest.key, strict=True))
            addresses = [
                known[number] if number in known else address(array) for number, array in enumerate(arrays)
            ]
            return [*addresses, *latest.addresses], latest
        addresses = [address(array) for array in arrays]
        key = tuple(addresses[number] for number in self._constants)
        if latest is None or (latest.key, latest.version) != (key, version):
            with self._lock:
                latest = self._latest
                if latest is None or (latest.key, latest.version) != (
                    key,
                    version,
                ):  # no other thread was faster
                    held = {number: arrays[number] for number in self._constants}
                    latest = self._latest = self.made_of(addresses, held, version)
        return [*addresses, *latest.addresses], latest

    def made_of(
        self, addresses: Sequence[int], arrays: Mapping[int, Array], version: int
    ) -> PreparedConstants:
        """What is made of the constants that lie at these addresses now.

        Args:
            addresses: of all arguments; only those of constants are read.
            arrays: the constants by number, to be kept alive.
            version: of their content.
        """
        made = tuple(np.empty(size + ALIGNMENT, np.uint8) for size in self._sizes)
        places = tuple(aligned(address(array)) for array in made)
        self.plan.run([*addresses, *places])
        further = range(len(addresses), len(addresses) + len(places))
        return PreparedConstants(
            arrays,
            tuple(addresses[number] for number in self._constants),
            version,
            made,
            places,
            frozenset((*self._constants, *further)),
        )
