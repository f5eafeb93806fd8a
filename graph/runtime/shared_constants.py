"""What backends have made of constants, for all that is compiled of one model."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakValueDictionary

from attrs import frozen

from .arrays import Array
from .locking import Lock


@frozen(eq=False)
class MadeConstant:
    """What was made of constants: weights in another layout, say.

    Attributes:
        memory: of it.
        place: its address.
        sources: the constants. As long as it lives, their addresses stand for them.
    """

    memory: Array
    place: int
    sources: tuple[Array, ...]


class SharedConstants:
    """What was made of a model's constants, by how it was made. Thread-safe.

    Compilations of one model for several shapes share it, so that weights are packed, and held, once. It holds nothing
    itself: what nobody uses any more is gone.
    """

    def __init__(self) -> None:
        self._made: WeakValueDictionary[Hashable, MadeConstant] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, key: Hashable) -> MadeConstant | None:
        """What was made so; None where nobody has it."""
        with self._lock:
            return self._made.get(key)

    def keep(self, key: Hashable, made: MadeConstant) -> MadeConstant:
        """Takes what was made so, and gives what all are to use: another one, if another thread was faster."""
        with self._lock:
            return self._made.setdefault(key, made)
