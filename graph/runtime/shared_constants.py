"""What backends have made of constants, for all that is compiled of one model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from weakref import WeakValueDictionary

from ...ops.records import frozen
from .arrays import Array
from .locking import Lock


@frozen(eq=False)
class MadeConstant:
    """What was made of constants: weights in another layout, say.

    Attributes:
        memory: of it.
        place: its address.
        sources: the constants. As long as it lives, their addresses stand for them.
        nbytes: how much of the memory it is, from its address on.
    """

    memory: Array
    place: int
    sources: tuple[Array, ...]
    nbytes: int = 0


class SharedConstants:
    """What was made of a model's constants, by how it was made. Thread-safe.

    Compilations of one model for several shapes share it, so that weights are packed, and held, once. It holds nothing
    itself: what nobody uses any more is gone, but for what `hold` was given.

    Attributes:
        for_sizes: whether it is shared by compilations for several sizes: a constant that each of them wants in
            another form is held as often.
    """

    def __init__(self) -> None:
        self.for_sizes = False
        self._made: WeakValueDictionary[Hashable, MadeConstant] = WeakValueDictionary()
        self._held: list[MadeConstant] = []
        self._lock = Lock()

    def get(self, key: Hashable) -> MadeConstant | None:
        """What was made so; None where nobody has it."""
        with self._lock:
            return self._made.get(key)

    def keep(self, key: Hashable, made: MadeConstant) -> MadeConstant:
        """Takes what was made so, and gives what all are to use: another one, if another thread was faster."""
        with self._lock:
            return self._made.setdefault(key, made)

    def hold(self, made: Mapping[Hashable, MadeConstant]) -> None:
        """Takes what was made in another process and lies in a file, for as long as this lives: it costs no memory."""
        with self._lock:
            self._made.update(made)
            self._held += made.values()

    def items(self) -> dict[Hashable, MadeConstant]:
        """What somebody has now, by how it was made."""
        with self._lock:
            return dict(self._made)
