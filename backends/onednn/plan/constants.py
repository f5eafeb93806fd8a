"""What a plan makes of constant inputs once: weights in another layout, say."""

from __future__ import annotations

from collections.abc import Sequence

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
        key: addresses of the constant arrays.
        addresses: of what was made.
        kept: both, alive.
    """

    key: tuple[int, ...]
    addresses: tuple[int, ...]
    kept: tuple[Array, ...]


class ConstantPlan:
    """What a plan makes of constant inputs, once, and again when other arrays are given for them.

    The arrays are kept, so that an address stands for one content.

    Args:
        plan: from the constant arguments to further ones, which stand behind all others.
        sizes: bytes of these further arguments.
        constants: numbers of the constant arguments.
    """

    def __init__(self, plan: Plan, sizes: tuple[int, ...], constants: tuple[int, ...]) -> None:
        self.plan = plan
        self.nbytes = sum(sizes)
        self._sizes = sizes
        self._constants = constants
        self._latest: PreparedConstants | None = None
        self._lock = Lock()

    def ready(self, arrays: Sequence[Array], addresses: Sequence[int]) -> PreparedConstants:
        """The further arguments for these arguments; whoever runs the plan keeps it until the end.

        Args:
            arrays: the arguments. addresses: of their memory.
        """
        key = tuple(addresses[number] for number in self._constants)
        latest = self._latest
        if latest is None or latest.key != key:
            with self._lock:
                latest = self._latest
                if latest is not None and latest.key == key:  # another thread was faster
                    return latest
                made = [np.empty(size + ALIGNMENT, np.uint8) for size in self._sizes]
                places = tuple(aligned(address(array)) for array in made)
                self.plan.run([*addresses, *places])
                kept = (*made, *[arrays[number] for number in self._constants])
                latest = self._latest = PreparedConstants(key, places, kept)
        return latest
